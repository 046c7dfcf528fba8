"""Convolutions of one group for Armv6 SIMD: `conv2d_s8_simd32.inc`, `_wide.inc` and `_lines.inc`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np

from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels.base.contract import Tile, Value, Variant, all_in_weights
from shoehorn_mcu.kernels.base.known import known
from shoehorn_mcu.kernels.base.operands import behind_pixels
from shoehorn_mcu.kernels.base.packed import (
    INPUTS,
    OUTPUTS,
    clamped,
    is_packable,
    is_raised,
    linear,
    pack,
    packable_by_lines,
    packed_form,
    rounded_up,
    turns_of,
)
from shoehorn_mcu.kernels.base.rounding import UP_POINT, Int32s, Up, clamp_of
from shoehorn_mcu.kernels.base.work import Work, whole_windows
from shoehorn_mcu.kernels.linear.conv import CONV2D, lines_of
from shoehorn_mcu.kernels.linear.offsets import with_twin
from shoehorn_mcu.machine.targets import Isa
from shoehorn_mcu.ops import Conv2d
from shoehorn_mcu.ops.conv import Padding

TAPS = 25  # most taps of a window that is not copied
ELEMENTS = (144, 288)  # words of the stack for extended windows: elements of two pixels, or twice as many of one
THREE = 3  # pixels at the end of an odd row that are computed together, in place of two and one
LINES_WORDS = 320  # of the stack: two sums per output, and the extended elements of a line of two windows
LONG_TAPS, LONG_WORDS = 64, 512  # the same limits for windows whose sums are recovered line by line
WIDE_TURNS = {1: 4, 2: 8, THREE: 8}  # by pixels: fours of inputs in a turn of the inner loop over extended windows
LINES_TURN = 4  # the same of extended lines
_WORD = 4  # bytes
_NAMES = {1: "single", 2: "pair", THREE: "three"}  # of features, by pixels


def is_pointwise(node: Node[Conv2d]) -> bool:
    """Whether the window is 1x1, without padding."""
    return node.weights.type.shape[1:3] == (1, 1) and node.op.padding == Padding()


def is_copied(node: Node[Conv2d], most_taps: int = TAPS, together: int = INPUTS) -> bool:
    """Whether a kernel that takes so many inputs together copies each window, a single run: a small one."""
    _, height, width, inputs = node.weights.type.shape
    return height * width * inputs <= 4 * most_taps and inputs % together > 0


def _run(node: Node[Conv2d]) -> int:
    """Inputs that lie side by side in every window: all of a copied one, else those of a tap."""
    _, height, width, inputs = node.weights.type.shape
    return height * width * inputs if is_copied(node) else inputs


def _accepts_pointwise(node: Node[Conv2d]) -> bool:
    return is_pointwise(node) and has_one_group(node) and is_packable(node, CONV2D)


def _accepts_windows(node: Node[Conv2d]) -> bool:
    """One group, a window that is small or has no more than TAPS taps, and exact."""
    _, height, width, _ = node.weights.type.shape
    fits = (is_copied(node) or height * width <= TAPS) and _run(node) >= INPUTS
    return fits and not is_pointwise(node) and has_one_group(node) and is_packable(node, CONV2D)


def _is_raised(node: Node[Conv2d]) -> bool:
    return is_raised(node, CONV2D)


def has_one_group(node: Node[Conv2d]) -> bool:
    """Whether every output reads all input channels."""
    return node.weights.type.shape[3] == node.x.type.nhwc[3]


@known
def _up(node: Node[Conv2d]) -> Up | None:
    return rounded_up(packed_form(node, CONV2D), clamp_of(node))


def _pack(node: Node[Conv2d], tile: Tile) -> dict[str, Value]:
    words = pack(packed_form(node, CONV2D), _run(node), _up(node) if "up" in tile.sizes else None)
    if "taps" in tile.sizes and not is_copied(node):
        words = np.concatenate([padding_tap(node), words])
    return all_in_weights(words)


def padding_tap(node: Node[Conv2d], multiple: int = INPUTS) -> Int32s:
    """A tap in the padding: x_zero for each input channel, up to a multiple of so many bytes."""
    x = node.x.type
    count = -(-x.nhwc[3] // multiple) * multiple
    return np.full(count, x.quantised.zero_point, np.int8).view("<i4").astype(np.int32)


def groups(node: Node[Conv2d], size: int) -> Iterable[tuple[tuple[int, bool], int]]:
    """The groups of `size` adjacent pixels, and the rest at the end: (pixels, all windows inside the row), count.

    Of THREE are only the last ones of an odd row, all before them are groups of two.
    """
    return _grouped(lines_of(node).taps, node.weights.type.shape[2], size)


@lru_cache(1024)
def _grouped(taps: tuple[int, ...], width: int, size: int) -> Iterable[tuple[tuple[int, bool], int]]:
    within = [inside == width for inside in taps]
    ends = list(range(size, len(within), size))
    if size == THREE:
        ends = list(range(2, len(within) - 1, 2))
    parts = (within[i:j] for i, j in pairwise([0, *ends, len(within)]))
    return Counter((len(part), all(part)) for part in parts).items()


def _elements(node: Node[Conv2d]) -> int:
    """Elements of a window, each run filled up to fours."""
    _, height, width, _ = node.weights.type.shape
    run = _run(node)
    return (1 if is_copied(node) else height * width) * -(-run // INPUTS) * INPUTS


def _blocks(node: Node[Conv2d], pixels: int = 1) -> int:
    """Blocks of four outputs, or of two of so many pixels as THREE."""
    return -(-node.output.type.nhwc[3] // (OUTPUTS // 2 if pixels == THREE else OUTPUTS))


class _Pass(NamedTuple):
    """Passes over `pixels` at once: how many in a row, the part of them that reads by lines, and the runs of each."""

    pixels: int
    times: int
    by_line: float
    runs: float
    blocks: int  # of outputs, for each of which a pass reads the inputs


def _counted(node: Node[Conv2d], tile: Tile, own: Callable[[_Pass], Work]) -> Work:
    """Counts of the loops over pixels, blocks of outputs and groups of four inputs, for one to three pixels; of how
    runs are found, or windows copied; and what a body counts of its `own`.
    """
    _, height, width, _ = node.weights.type.shape
    windows = "taps" in tile.sizes  # else the window is 1x1, and read where it is
    copied = windows and is_copied(node)
    count = 1 if copied else height * width
    joined = 0.0 if copied else _joined_rows(node)
    total = Work(clamped=clamped(node))
    for (length, inside), times in groups(node, tile.sizes["pixels"]):
        by_line = joined * inside
        runs = by_line * height + (1 - by_line) * count if count > 1 else 1
        name, blocks = _NAMES[length], _blocks(node, length)
        total += Work(
            **{
                f"{name}s": times,
                f"{name}_blocks": times * blocks,
                f"{name}_fours": times * blocks * _elements(node) // INPUTS,
            },
            found=times * length * runs * (windows and not copied),
        )
        total += own(_Pass(length, times, by_line, runs, blocks))
    return total + copies(node) + _loops_of_copies(node) if copied else total


def _work(node: Node[Conv2d], tile: Tile) -> Work:
    """As `_counted`, with the turns of the inner loop, and what is done at the ends of runs."""
    _, height, width, _ = node.weights.type.shape
    run = _run(node)
    count = _elements(node) // (-(-run // INPUTS) * INPUTS)

    def own(of: _Pass) -> Work:
        by_line = of.by_line * height * turns_of(run * width)
        return Work(
            turns=of.times * of.blocks * (by_line + (1 - of.by_line) * count * turns_of(run)),
            overlaps=of.times * of.blocks * count * (run % INPUTS > 0),
            switches=of.times * of.blocks * (of.runs - 1),
        )

    return _counted(node, tile, own)


def _wide_work(node: Node[Conv2d], tile: Tile) -> Work:
    """As `_counted`, with the groups of four inputs that are extended, in `runs`, and the turns of the inner loop.

    Of the runs, `rests` end with fewer than four inputs: all, where a pixel does; whole lines are runs of other pixels.
    """
    fours, ragged = _elements(node) // INPUTS, _run(node) % INPUTS > 0

    def own(of: _Pass) -> Work:
        counts = {f"{_NAMES[of.pixels]}_wide_fours": of.times * fours}
        turns = of.times * of.blocks * -(-fours // WIDE_TURNS[of.pixels])
        return Work(**counts, turns=turns, runs=of.times * of.runs, rests=of.times * of.runs * ragged)

    return _counted(node, tile, own)


def _accepts_lines(node: Node[Conv2d]) -> bool:
    """Several lines, of windows that are not copied and too large for the stack as a whole."""
    height = node.weights.type.shape[1]
    large = _elements(node) > ELEMENTS[-1] and _line_fits(node, LINES_WORDS)
    return height > 1 and large and not is_copied(node) and not _is_raised(node) and _accepts_windows(node)


@known
def _accepts_long(node: Node[Conv2d]) -> bool:
    """A window whose sum is too large for all other packed kernels, while the sum of each of its lines is not."""
    _, height, width, _ = node.weights.type.shape
    fits = height > 1 and height * width <= LONG_TAPS and not is_copied(node) and _line_fits(node, LONG_WORDS)
    if not fits or not has_one_group(node) or is_packable(node, CONV2D):
        return False
    return packable_by_lines(linear(node, CONV2D), height)


def _line_fits(node: Node[Conv2d], words: int) -> bool:
    """Whether so many words hold two sums per output and a line of two windows."""
    return _line(node) + 2 * OUTPUTS * _blocks(node) <= words


def _line(node: Node[Conv2d]) -> int:
    """Elements of a line of a window, each run filled up to fours."""
    return _elements(node) // node.weights.type.shape[1]


def _pack_lines(node: Node[Conv2d], tile: Tile, apart: bool = False) -> dict[str, Value]:
    up, lines = _up(node) if "up" in tile.sizes else None, node.weights.type.shape[1]
    words = pack(linear(node, CONV2D), _run(node), up, lines, apart)
    return all_in_weights(np.concatenate([padding_tap(node), words]))


def _lines_work(node: Node[Conv2d], tile: Tile) -> Work:
    """Counts of pairs of pixels (a last single one is a pair), of their lines, and of what `_wide_work` counts."""
    _, height, width, _ = node.weights.type.shape
    fours, blocks = _elements(node) // INPUTS, _blocks(node)
    joined = _joined_rows(node)
    total = Work(clamped=clamped(node))
    for (_, inside), pairs in groups(node, 2):
        by_line = joined * inside
        total += Work(
            pairs=pairs,
            lines=pairs * height,
            pair_blocks=pairs * blocks,
            line_blocks=pairs * height * blocks,
            pair_fours=pairs * blocks * fours,
            pair_wide_fours=pairs * fours,
            turns=pairs * height * blocks * -(-_line(node) // (INPUTS * LINES_TURN)),
            runs=pairs * height * (by_line + (1 - by_line) * width),
            found=2 * pairs * (1 - by_line) * height * width,
        )
    return total


def _joined_rows(node: Node[Conv2d]) -> float:
    """The part of the output rows in which windows inside the row are read by lines, where they are not copied."""
    return unpadded_rows(node) if node.op.dilation[1] == 1 and _run(node) % INPUTS == 0 else 0.0


def unpadded_rows(node: Node[Conv2d]) -> float:
    """The part of the output rows whose windows have no line in the padding."""
    rows, lines, taps = (t.shape[1] for t in (node.output.type, node.x.type, node.weights.type))
    return whole_windows(rows, taps, lines, node.op.stride[0], node.op.padding.top, node.op.dilation[0]) / rows


def _copied(node: Node[Conv2d]) -> tuple[float, float]:
    """How many lines of a row's windows are copied at once, being inside the row, and how many other taps."""
    width = node.weights.type.shape[2]
    lines = lines_of(node)
    by_line = lines.inside * sum(node.op.dilation[1] == 1 and taps == width for taps in lines.taps)
    return by_line, lines.inside * sum(lines.taps) - by_line * width


def _loops_of_copies(node: Node[Conv2d]) -> Work:
    """How many copies have whole words, and how many have bytes besides."""
    _, _, width, inputs = node.weights.type.shape
    found = Work()
    for count, size in zip(_copied(node), (width * inputs, inputs), strict=True):
        found += Work(worded=count * (size >= 4), ragged=count * (size % 4 > 0))
    return found


def copies(node: Node[Conv2d], vectors: Sequence[int] = ()) -> Work:
    """Of the windows of a row: a line at a time where all of it is inside the row, else a tap at a time.

    A copy is of `vectors` of so many bytes, the largest first, and of words and bytes.
    """
    _, height, width, inputs = node.weights.type.shape
    pixels = len(lines_of(node).taps)
    by_line, copied_taps = _copied(node)
    taps = pixels * height * width - by_line * width
    parts = Work()
    for count, size in ((by_line, width * inputs), (copied_taps, inputs)):
        rest = size
        for vector in vectors:
            parts += Work(**{f"copied_{vector}": count * (rest // vector)})
            rest %= vector
        parts += Work(copied_words=count * (rest // 4), copied_bytes=count * (rest % 4))
    return parts + Work(
        lines=pixels * height,
        taps=taps,
        copies=by_line + copied_taps,
        whole_lines=by_line,
        filled=(taps - copied_taps) * inputs,
    )


def _variant(suffix: str, accepts: Callable[[Node[Conv2d]], bool], **sizes: int) -> Variant[Conv2d]:
    return Variant(
        CONV2D,
        _work,
        suffix=suffix,
        body="simd32",
        shared=("windows",) if sizes else (),
        isa=Isa.SIMD32,
        accepts=accepts,
        tiles=(Tile(outputs=OUTPUTS, pixels=2, **sizes), Tile(outputs=OUTPUTS, pixels=1, **sizes)),
        pack=_pack,
        behind=lambda node, tile: behind_pixels(node, tile.sizes["pixels"]),
    )


def _fits(node: Node[Conv2d], tile: Tile) -> bool:
    """The windows of two or three pixels on the smallest part of the stack that holds them; else those of two in
    scratch, or one pixel's.
    """
    elements, pixels = _elements(node), tile.sizes["pixels"]
    if pixels == 1:
        return ELEMENTS[-1] < elements <= 2 * ELEMENTS[-1]
    if pixels == THREE:
        elements = elements // 2 * THREE
        if node.output.type.nhwc[2] == 1:
            return False
    return next((size for size in ELEMENTS if elements <= size), None) == tile.sizes.get("elements")


def _wide(suffix: str, accepts: Callable[[Node[Conv2d]], bool], up: bool = False, **taps: int) -> Variant[Conv2d]:
    rounding = {"up": UP_POINT} if up else {}

    def tile(pixels: int, **elements: int) -> Tile:
        return Tile(outputs=OUTPUTS, pixels=pixels, **taps, **elements, **rounding)

    threes = () if taps else ELEMENTS
    return Variant(
        CONV2D,
        _wide_work,
        suffix=suffix,
        body="simd32_wide",
        shared=("windows" if taps else "three",),
        isa=Isa.SIMD32,
        accepts=(lambda node: accepts(node) and _up(node) is not None) if up else accepts,
        tiles=(
            *(tile(2, elements=size) for size in ELEMENTS),
            *(tile(2), tile(1, elements=ELEMENTS[-1])),
            *(tile(THREE, elements=size) for size in threes),
        ),
        fits=_fits,
        same_time=True,
        pack=_pack,
        scratch_bytes=lambda node, tile: 0 if "elements" in tile.sizes else _WORD * _elements(node),
        pixels_at_once=lambda _, tile: min(2, tile.sizes["pixels"]),  # three read half of the constants at once
        behind=lambda node, _: behind_pixels(node),  # reads copies of the windows
    )


def _lines(suffix: str, up: bool = False) -> Variant[Conv2d]:
    rounding = {"up": UP_POINT} if up else {}
    return Variant(
        CONV2D,
        _lines_work,
        suffix=suffix,
        body="simd32_lines",
        shared=("windows",),
        isa=Isa.SIMD32,
        accepts=(lambda node: _accepts_lines(node) and _up(node) is not None) if up else _accepts_lines,
        tiles=(Tile(outputs=OUTPUTS, pixels=2, taps=TAPS, elements=LINES_WORDS, **rounding),),
        pack=_pack_lines,
        behind=lambda node, _: behind_pixels(node),  # reads all lines of two windows before it writes
    )


_VARIANTS = (
    _variant("simd32_1x1", _accepts_pointwise),
    _variant("simd32", _accepts_windows, taps=TAPS),
    _wide("simd32_wide_1x1", _accepts_pointwise),
    _wide("simd32_wide_up_1x1", _accepts_pointwise, up=True),
    _wide("simd32_wide", _accepts_windows, taps=TAPS),
    _wide("simd32_wide_up", _accepts_windows, taps=TAPS, up=True),
)


# Of layers that are raised at most two pixels are computed together.
_TWINS = (
    with_twin(each, _is_raised, *(tile for tile in each.tiles if tile.sizes["pixels"] == THREE)) for each in _VARIANTS
)

VARIANTS = (
    *chain.from_iterable(_TWINS),
    _lines("simd32_lines"),
    _lines("simd32_lines_up", up=True),
    replace(
        _lines("simd32_lines_long"),
        accepts=_accepts_long,
        pack=lambda node, tile: _pack_lines(node, tile, apart=True),
        tiles=(Tile(outputs=OUTPUTS, pixels=2, taps=LONG_TAPS, elements=LONG_WORDS),),
        defines=("SH_LONG",),
    ),
)
