"""The work of a kernel to compute a row, as counts of features: those of the portable variants.

The cost model knows no feature by name, so a variant may count others. The bodies `*_c.inc` use the ones below.
Elements of inner loops are counted by how compilers unroll: `by32` are the elements in whole groups of 32, `by8` those
of the rest in whole groups of 8, `by4` and `by1` the remainder. A loop of at least 32, 8 or 4 elements is counted in
`loops32`, `loops8` or `loops4`, and one whose length is no multiple of 4 in `ragged`. Loops for LANES outputs at a time
have `by16` in place of `by32` and `by8`. Fewer outputs at the end are a rest: `rests` counts the rests, `loops8` their
loops, `by32` the products for one output, `by8` those for two or three together and `rest_inputs` the inputs of these.

| feature | counts |
|---|---|
| `pixels` | columns of the output, or pieces that are moved |
| `blocks` | groups of channels, or blocks of BLOCK channels |
| `kernel_rows` | rows of a window that an output, or a block, reads |
| `loops` | inner loops begun |
| `outputs` | elements of the output |
| `right_shifts` | roundings whose scale shifts to the right |
| `clipped` | columns of windows that are outside of the row |
| `padded`, `padded_elements` | inner loops begun over padding, and their elements |
| `padded_rests`, `padded_fours`, `padded_ones` | such elements that are added up for fewer outputs at a time |
| `divided` | elements whose index needs a division |
| `copies`, `word_bytes`, `loose_bytes` | calls of memcpy; bytes copied by words and one by one |
| `words` | words among these that are copied one by one, not by fours |
| `fills`, `empty_fills` | calls of memset, and those for no byte |
| `filled_words`, `filled_bytes` | bytes set by words and one by one |
| `near`, `exponentials`, `products` | elements of a softmax that count, exponentials, and the products in them |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

WORD = 4
"""Bytes that the firmware's memcpy and memset move at once where addresses allow; memcpy moves four of these at once.
"""

BLOCK = 16
"""Channels that average_pool2d_s8_c.inc computes together, `BLOCK` there."""

LANES = 4
"""Outputs that the portable kernels of linear ops compute together, `SH_LANES` of sh_dot.h."""


class Work(Mapping[str, float]):
    """Counts by feature in one output row (the mean if rows differ); counts of 0 are left out."""

    def __init__(self, **counts: float) -> None:
        self._counts = {name: float(count) for name, count in counts.items() if count}

    def __getitem__(self, name: str) -> float:
        return self._counts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._counts)

    def __len__(self) -> int:
        return len(self._counts)

    def __add__(self, other: Mapping[str, float]) -> Work:
        mine, more = self._counts, other._counts if isinstance(other, Work) else other
        return Work(**{name: mine.get(name, 0.0) + more.get(name, 0.0) for name in (*mine, *more)})


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
    return Work(
        loops8=times * (outputs > 0),
        by32=products * one,
        by8=products * (not one),
        rest_inputs=times * length * (outputs > 1),
    )


def by_lanes(times: float, length: int, outputs: int) -> Work:
    """Sums of `length` products for `outputs`, at most LANES, at a time, done `times` times."""
    return dots(times, length) if outputs == LANES else rests(times, length, outputs)


def by_fours(times: float, length: int, outputs: int) -> Work:
    """As `by_lanes`, of four inputs at once: `fours` of them, `products` of fours, a last four that overlaps one before
    (`ragged`), and where there are fewer inputs these (`few_inputs`) and their products one by one (`by1`).
    """
    whole, rest = divmod(length, 4)
    fours = whole + (whole > 0 and rest > 0)
    few = rest if whole == 0 else 0
    return Work(
        loops=times,
        fours=times * fours,
        products=times * fours * outputs,
        ragged=times * (whole > 0 and rest > 0),
        by1=times * few * outputs,
        few_inputs=times * few,
    )


def by_blocks(times: float, channels: int) -> Work:
    """Inner loops over `channels` in blocks of BLOCK, all of them done `times` times."""
    whole, rest = divmod(channels, BLOCK)
    return elements(times * whole, BLOCK) + (elements(times, rest) if rest else Work())


def copied(times: float, length: int, aligned: bool) -> Work:
    """memcpy of `length` bytes, done `times` times; `aligned` where both ends are word addresses."""
    words = length // 4 * 4 if aligned else 0
    return Work(copies=times, word_bytes=times * words, loose_bytes=times * (length - words))


def moved(to: Ints, source: Ints, length: int, rows: int) -> Work:
    """memcpy of `length` bytes to and from so many bytes after a row begins, for all rows together; the mean row.

    Rows that begin at word addresses are assumed; `source` and `to` are of one shape.
    """
    aligned = int(((to | source) % WORD == 0).sum()) if length >= WORD else 0
    words, loose = divmod(length, WORD)
    return Work(
        copies=to.size / rows,
        word_bytes=aligned * words * WORD / rows,
        words=aligned * (words % 4) / rows,
        loose_bytes=(aligned * loose + (to.size - aligned) * length) / rows,
    )


def filled(to: Ints, length: int, rows: int) -> Work:
    """memset of `length` bytes so many bytes after a row begins, for all rows together; the mean row."""
    if length == 0:
        return Work(empty_fills=to.size / rows)
    aligned = int((to % WORD == 0).sum())
    loose = length % WORD
    return Work(
        fills=to.size / rows,
        filled_words=aligned * (length - loose) / rows,
        filled_bytes=(aligned * loose + (to.size - aligned) * length) / rows,
    )


def inside(outputs: int, taps: int, size: int, stride: int, before: int, dilation: int = 1) -> int:
    """How many of the `outputs * taps` positions of a window that slides over `size` elements are not padding."""
    places = np.arange(outputs)[:, None] * stride - before + np.arange(taps)[None] * dilation
    return int(((places >= 0) & (places < size)).sum())


def whole_windows(outputs: int, taps: int, size: int, stride: int, before: int, dilation: int) -> int:
    """How many of `outputs` positions of a window that slides over `size` elements touch no padding."""
    first = -(-before // stride)
    last = (size - 1 - (taps - 1) * dilation + before) // stride
    return max(0, min(last, outputs - 1) - first + 1)
