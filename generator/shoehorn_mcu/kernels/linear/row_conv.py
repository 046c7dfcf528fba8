"""Convolutions of one group for Armv6 SIMD, all pixels of a row in one call of assembly: `conv2d_s8_simd32_row.inc`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels.base.contract import Tile, Value, Variant, all_in_weights
from shoehorn_mcu.kernels.base.known import known
from shoehorn_mcu.kernels.base.operands import ALIGNMENT, behind_pixels
from shoehorn_mcu.kernels.base.packed import (
    INPUTS,
    OUTPUTS,
    clamped,
    is_packable,
    is_raised,
    linear,
    pack_words,
    rounded_up,
)
from shoehorn_mcu.kernels.base.rounding import UP_BYTE, UP_POINT, Int64s, Up, clamp_of
from shoehorn_mcu.kernels.base.work import Work
from shoehorn_mcu.kernels.linear.conv import CONV2D, lines_of
from shoehorn_mcu.kernels.linear.packed_conv import ELEMENTS, has_one_group, is_pointwise
from shoehorn_mcu.machine.targets import Isa
from shoehorn_mcu.ops import Conv2d

TAPS = 16  # most lines of a window
TURNS = {1: 8, 2: 16}  # by pixels: words of a turn of the inner loop
_WORD = 4  # bytes
_FOUR = ((0, 2), (1, 3))  # the words of four elements
_RESTS: tuple[tuple[tuple[int, int], ...], ...] = ((), ((-1, 0),), ((0, 1),), ((-1, 1), (0, 2)))
"""The words of one to three elements behind the last four, by how many they are; -1: an element of weight 0."""


def words_of(run: int) -> list[tuple[int, int]]:
    """The elements of each extended word of a line of so many."""
    whole = run - run % INPUTS
    fours = [(four + low, four + high) for four in range(0, whole, INPUTS) for low, high in _FOUR]
    return fours + [(whole + low if low >= 0 else -1, whole + high) for low, high in _RESTS[run % INPUTS]]


def _run(node: Node[Conv2d]) -> int:
    """Elements of a line of a window."""
    _, _, width, inputs = node.weights.type.shape
    return width * inputs


def _words(node: Node[Conv2d]) -> int:
    """Of the extended window of a pixel."""
    run = _run(node)
    return node.weights.type.shape[1] * (run // INPUTS * 2 + len(_RESTS[run % INPUTS]))


def _frame(node: Node[Conv2d]) -> int:
    """Bytes of the lines of a pair of windows."""
    _, height, width, inputs = node.weights.type.shape
    return 0 if is_pointwise(node) else height * (width + node.op.stride[1]) * inputs


def _accepts(node: Node[Conv2d]) -> bool:
    fits = node.op.dilation[1] == 1 and _run(node) >= INPUTS and node.weights.type.shape[1] <= TAPS
    return fits and has_one_group(node) and is_packable(node, CONV2D) and not is_raised(node, CONV2D)


def _accepts_pointwise(node: Node[Conv2d]) -> bool:
    return is_pointwise(node) and _accepts(node)


def _accepts_windows(node: Node[Conv2d]) -> bool:
    return not is_pointwise(node) and _accepts(node)


@known
def _up(node: Node[Conv2d]) -> Up | None:
    """The constants that round in one step, from 2^8 times the sum: that is what the second of a pair has anyway."""
    return rounded_up(linear(node, CONV2D), clamp_of(node), UP_BYTE)


def _order(node: Node[Conv2d]) -> Int64s:
    """The elements of a window in each of its words, [word][2]; -1: none."""
    line = np.array(words_of(_run(node)))
    starts = np.arange(node.weights.type.shape[1])[:, None, None] * _run(node)
    return np.where(line < 0, -1, line + starts).reshape(-1, 2)


def _pack(node: Node[Conv2d], tile: Tile) -> dict[str, Value]:
    up = _up(node) if "up" in tile.sizes else None
    return all_in_weights(pack_words(linear(node, CONV2D), _order(node), up))


def _fits(node: Node[Conv2d], tile: Tile) -> bool:
    """The words of two pixels, and their frame, on the smallest part of the stack that holds them, else in scratch."""
    needed = max(2 * _words(node), -(-_frame(node) // 2))
    return next((size for size in ELEMENTS if needed <= size), None) == tile.sizes.get("elements")


def _scratch_bytes(node: Node[Conv2d], tile: Tile) -> int:
    if "elements" in tile.sizes:
        return 0
    return 2 * _WORD * _words(node) + -(-_frame(node) // ALIGNMENT) * ALIGNMENT


def _calls(node: Node[Conv2d]) -> tuple[int, int]:
    """How many calls of assembly compute a row, and how many of these have windows that reach into the padding."""
    (op, width), pixels = (node.op, node.x.type.nhwc[2]), node.output.type.nhwc[2]
    reach = node.weights.type.shape[2]
    calls = framed = 0
    before = ""
    for first in range(0, pixels, 2):
        last = min(first + 1, pixels - 1)
        starts = [ox * op.stride[1] - op.padding.left for ox in (first, last)]
        kind = "framed" if starts[0] < 0 or starts[1] + reach > width else "single" if first == last else "inside"
        calls += kind != "inside" or kind != before
        framed += kind == "framed"
        before = kind
    return calls, framed


def _work(node: Node[Conv2d], tile: Tile) -> Work:
    """Counts of calls of assembly, and of lines that are copied for them, with their bytes; of pairs of pixels and
    single ones, of the lines of their windows, with the fours of elements in these; of blocks of outputs, of words and
    turns of the inner loop.
    """
    pixels, outputs = node.output.type.nhwc[2:]
    _, height, width, inputs = node.weights.type.shape
    run, words, blocks = _run(node), _words(node), -(-outputs // OUTPUTS)
    calls, padded = _calls(node)
    framed = 0.0 if is_pointwise(node) else padded * height + (calls - padded) * lines_of(node).missing
    total = Work(
        rows_of_calls=calls,
        framed=framed,
        framed_bytes=framed * (width + node.op.stride[1]) * inputs,
        clamped=clamped(node),
    )
    for name, times, turn in (("single", pixels % 2, TURNS[1]), ("pair", pixels // 2, TURNS[2])):
        total += Work(
            **{
                f"{name}s": times,
                f"{name}_lines": times * height,
                f"{name}_rests": times * height * (run % INPUTS > 0),
                f"{name}_fours": times * height * (run // INPUTS),
                f"{name}_blocks": times * blocks,
                f"{name}_words": times * blocks * words,
                f"{name}_turns": times * blocks * -(-words // turn),
            }
        )
    return total


def _variant(suffix: str, accepts: Callable[[Node[Conv2d]], bool], up: bool = False, **taps: int) -> Variant[Conv2d]:
    rounding = {"up": UP_POINT} if up else {}

    def tile(**elements: int) -> Tile:
        return Tile(outputs=OUTPUTS, pixels=2, **taps, **elements, **rounding)

    return Variant(
        CONV2D,
        _work,
        suffix=suffix,
        body="simd32_row",
        shared=("framed",) if taps else (),
        isa=Isa.SIMD32,
        accepts=(lambda node: accepts(node) and _up(node) is not None) if up else accepts,
        tiles=(*(tile(elements=size) for size in ELEMENTS), tile()),
        fits=_fits,
        same_time=True,
        pack=_pack,
        scratch_bytes=_scratch_bytes,
        behind=lambda node, _: behind_pixels(node),  # reads copies of the windows
    )


VARIANTS = (
    _variant("simd32_row_1x1", _accepts_pointwise),
    _variant("simd32_row_up_1x1", _accepts_pointwise, up=True),
    _variant("simd32_row", _accepts_windows, taps=TAPS),
    _variant("simd32_row_up", _accepts_windows, taps=TAPS, up=True),
)
