"""What a kernel does to compute a row, counted: the features that the cost model weighs."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

BLOCK = 16
"""Channels that the average pool computes together (`BLOCK` in its source)."""

LANES = 4
"""Outputs that the kernels of linear ops compute together (`SH_LANES`)."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """How often a kernel does what, in one output row; the mean over all rows where they differ (at the edges).

    Which of them a kernel has, and what one of them costs, is the kernel's own affair; a field that stays 0 costs
    nothing. Elements of inner loops are counted apart by how compilers unroll: `by32` are those of the first
    multiple of 32 of a loop, `by8` those of the multiples of 8 that are left, `by4` and `by1` what remains then;
    a loop of so many or more is one of `loops32`, `loops8` and `loops4`, and one that is no multiple of 4 is ragged.
    Loops for LANES outputs at a time have `by16` in place of `by32` and `by8`. Where fewer outputs are left, these
    are a rest: `rests` of them, `loops8` loops, `by32` products for one output and `by8` for two or three together.
    """

    calls: float = 1
    pixels: float = 0  # columns of the output, or pieces that are moved
    blocks: float = 0  # groups of channels, or blocks of BLOCK channels
    rests: float = 0  # outputs that are fewer than LANES
    kernel_rows: float = 0  # rows of a window that an output, or a block, looks at
    loops: float = 0  # inner loops begun
    loops32: float = 0
    loops16: float = 0
    loops8: float = 0
    loops4: float = 0
    ragged: float = 0
    by32: float = 0
    by16: float = 0
    by8: float = 0
    by4: float = 0
    by1: float = 0
    outputs: float = 0  # elements of the output
    right_shifts: float = 0  # roundings whose scale shifts to the right
    padded: float = 0  # inner loops begun over padding
    padded_elements: float = 0
    divided: float = 0  # elements whose place is found by a division
    copies: float = 0  # calls of memcpy and memset
    word_bytes: float = 0  # copied by words
    loose_bytes: float = 0  # copied one by one
    exponentials: float = 0

    def __add__(self, other: Work) -> Work:
        """Both, in one call."""
        sums = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        return replace(self, **{**sums, "calls": self.calls})

    def counts(self) -> dict[str, float]:
        """The features that are not 0, by name."""
        named = {f.name: float(getattr(self, f.name)) for f in fields(self)}
        return {name: count for name, count in named.items() if count}


FEATURES = tuple(f.name for f in fields(Work))


def elements(times: float, length: int) -> Work:
    """An inner loop over `length` elements, done `times` times."""
    by32, rest = divmod(length, 32)
    by8, rest = divmod(rest, 8)
    by4, by1 = divmod(rest, 4)
    return Work(
        loops=times,
        loops32=times * (length >= 32),
        loops8=times * (length >= 8),
        loops4=times * (length >= 4),
        ragged=times * (by1 > 0),
        by32=times * 32 * by32,
        by8=times * 8 * by8,
        by4=times * 4 * by4,
        by1=times * by1,
    )


def dots(times: float, length: int) -> Work:
    """Sums of `length` products for LANES outputs at a time, done `times` times."""
    by16, rest = divmod(length, 16)
    by4, by1 = divmod(rest, 4)
    return Work(
        loops=times,
        loops16=times * (by16 > 0),
        loops4=times * (by4 > 0),
        ragged=times * (by1 > 0),
        by16=times * 16 * by16,
        by4=times * 4 * by4,
        by1=times * by1,
    )


def rests(times: float, length: int, outputs: int) -> Work:
    """Sums of `length` products for `outputs`, fewer than LANES, done `times` times."""
    one = outputs == 1
    products = times * length * outputs
    return Work(loops8=times * (outputs > 0), by32=products * one, by8=products * (not one))


def by_blocks(times: float, channels: int) -> Work:
    """Inner loops over `channels` in blocks of BLOCK, all of them done `times` times."""
    whole, rest = divmod(channels, BLOCK)
    return elements(times * whole, BLOCK) + (elements(times, rest) if rest else Work())


def copied(times: float, length: int, aligned: bool) -> Work:
    """memcpy of `length` bytes, done `times` times; `aligned` where both ends lie at words."""
    words = length // 4 * 4 if aligned else 0
    return Work(copies=times, word_bytes=times * words, loose_bytes=times * (length - words))


def inside(outputs: int, taps: int, size: int, stride: int, before: int, dilation: int = 1) -> int:
    """How many of the `outputs * taps` places of a window that slides over `size` elements are not padding."""
    places = np.arange(outputs)[:, None] * stride - before + np.arange(taps)[None] * dilation
    return int(((places >= 0) & (places < size)).sum())
