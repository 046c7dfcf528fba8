"""Convolutions with a stride of 2 by fewer products for Armv6 SIMD (`conv2d_s8_simd32_toom_strided.inc`).

The even columns of a window of three are a convolution with a stride of 1 by w0 and w2, two outputs of which take three
products (Toom-Cook at the points 0, 1 and infinity, which divides by nothing); the odd columns take one for each
output. So a unit of two outputs takes 5 products for 6, and one of two rows, by the same sums down, 25 for 36.

Lavin and Gray, Fast Algorithms for Convolutional Neural Networks (2016), section 4: F(2, 2) of the even phase.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np

from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels.base.contract import Tile, Value, Variant, all_in_weights
from shoehorn_mcu.kernels.base.known import known
from shoehorn_mcu.kernels.base.operands import ALIGNMENT, OFFSETS
from shoehorn_mcu.kernels.base.packed import clamped, linear, scaled_exactly
from shoehorn_mcu.kernels.base.rounding import UP_POINT, Int64s, Up, clamp_of, up
from shoehorn_mcu.kernels.base.work import Work
from shoehorn_mcu.kernels.linear.conv import CONV2D
from shoehorn_mcu.kernels.linear.toom_cook import (
    CHOICE,
    FOUR,
    behind,
    by_groups,
    fours_of,
    framed_lines,
    has_room,
    in_pairs,
    in_words,
    of_three_columns,
    scales,
    scales_up,
)
from shoehorn_mcu.machine.targets import Isa
from shoehorn_mcu.ops import Conv2d

STRIDE = 2
REACH = 2  # outputs of a unit
_PIXELS = 2 * REACH  # of a row at once: two units
_COLUMNS = STRIDE * _PIXELS + 1  # of inputs, which they read
_ACROSS = 5  # products of a unit of one row, of each line
_TOGETHER = 8  # pairs of channels in a turn of the inner loop
_B, _A, _C = [[1, 0, 1]], [[1, 0, 0], [0, 1, 0]], [[0, 0, 1], [0, 1, 0]]
_SUMS = tuple(np.array(each) for each in (_B, _A, _C))
"""By sum, in the order of the kernel: what multiplies the inputs of its products, [product][tap]."""


def _geometry(node: Node[Conv2d]) -> bool:
    return of_three_columns(node, STRIDE) and node.weights.type.shape[3] >= FOUR


def _accepts(node: Node[Conv2d]) -> bool:
    return _geometry(node) and scaled_exactly(linear(node, CONV2D))


def _accepts_up(node: Node[Conv2d]) -> bool:
    return _geometry(node) and _up(node) is not None


@known
def _up(node: Node[Conv2d]) -> Up | None:
    """The constants that round in one step."""
    of = linear(node, CONV2D)
    return up(*of.totals, of.bias, of.multipliers, of.shifts, clamp_of(node))


def _fits(node: Node[Conv2d], tile: Tile) -> bool:
    """Whether twice every sum fits 32 bits, which the two steps multiply."""
    if tile.rows > 1 and not in_pairs(node, STRIDE):
        return False
    return "up" in tile.sizes or has_room(linear(node, CONV2D), 2)


def _lines(node: Node[Conv2d], tile: Tile) -> int:
    """The lines of inputs that a call reads."""
    return node.weights.type.shape[1] + STRIDE * (tile.rows - 1)


def _down(node: Node[Conv2d], tile: Tile) -> tuple[Int64s, ...]:
    """As `_SUMS`, of the lines: one row has one sum, of all lines as they are."""
    return (np.eye(node.weights.type.shape[1], dtype=np.int64),) if tile.rows == 1 else _SUMS


def _runs(node: Node[Conv2d], tile: Tile) -> Iterator[int]:
    """The products of each sum of a unit."""
    return (len(down) * len(across) for down, across in product(_down(node, tile), _SUMS))


def _pack(node: Node[Conv2d], tile: Tile) -> dict[str, Value]:
    of, found = linear(node, CONV2D), _up(node) if "up" in tile.sizes else None
    weights = by_groups(of, node.weights.type.shape)
    sums = (
        np.einsum("dy,pk,oykgc->odpgc", down, across, weights).reshape(len(weights), -1, *weights.shape[3:])
        for down, across in product(_down(node, tile), _SUMS)
    )
    made = np.concatenate([*sums], axis=1)  # [output][product][group][4]
    if found is None:
        return all_in_weights(in_words(made, of.bias, scales(of)))
    return all_in_weights(in_words(made, found.bias, scales_up(found, 1)))


def _scratch_bytes(node: Node[Conv2d], tile: Tile) -> int:
    """The transformed inputs of two units, and the columns of a line that the units read."""
    of_units = _lines(node, tile) * _ACROSS * 2 * fours_of(node) * 2 * 4
    return of_units + -(-_COLUMNS * node.x.type.nhwc[3] // ALIGNMENT) * ALIGNMENT


def _work(node: Node[Conv2d], tile: Tile) -> Work:
    """Counts of groups of pixels; of their lines and fours of channels that are transformed, of those with columns that
    are copied and their fours; of blocks of four outputs, of sums in them, of turns and pairs of the inner loop; and of
    outputs in whole groups of pixels and in others. Of two rows those of both, and of words that are transformed down.
    """
    pixels, outputs = node.output.type.nhwc[2:]
    lines, fours, whole = _lines(node, tile), fours_of(node), pixels // _PIXELS
    groups, framed = framed_lines(node, tile, _COLUMNS, lines)
    blocks, runs = groups * -(-outputs // FOUR), [2 * fours * count for count in _runs(node, tile)]
    return Work(
        groups=groups,
        lines=groups * lines,
        fours=2 * groups * lines * fours,
        framed=framed,
        framed_fours=framed * _COLUMNS * fours,
        blocks=blocks,
        points=blocks * len(runs),
        turns=blocks * sum(-(-pairs // _TOGETHER) for pairs in runs),
        pairs=blocks * sum(runs),
        outputs=tile.rows * whole * _PIXELS * outputs,
        other_outputs=tile.rows * (pixels - whole * _PIXELS) * outputs,
        clamped=tile.rows * clamped(node),
        down=0 if tile.rows == 1 else groups * _ACROSS * 2 * fours * 2,
    )


def _variant(suffix: str, accepts: Callable[[Node[Conv2d]], bool], **sizes: int) -> Variant[Conv2d]:
    return Variant(
        CONV2D,
        _work,
        suffix=suffix,
        body="simd32_toom_strided",
        shared=("framed", "simd32_pair", "simd32_units"),
        isa=Isa.SIMD32,
        accepts=accepts,
        kinds=("", OFFSETS),  # an offset of the weights is part of the transformed ones
        tiles=tuple(Tile(outputs=FOUR, reach=REACH, **rows, **sizes) for rows in ({}, {"rows": 2})),
        fits=_fits,
        choice=CHOICE,
        pack=_pack,
        scratch_bytes=_scratch_bytes,
        pixels_at_once=lambda _, tile: _PIXELS * tile.rows,
        behind=behind,
    )


VARIANTS = (
    _variant("simd32_toom_strided", _accepts),
    _variant("simd32_toom_strided_up", _accepts_up, up=UP_POINT),
)
