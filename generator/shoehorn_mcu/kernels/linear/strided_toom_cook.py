"""Convolutions with a stride of 2 by fewer products for Armv6 SIMD (`conv2d_s8_simd32_toom_strided.inc`).

The even columns of a window of three are a convolution with a stride of 1 by w0 and w2, two outputs of which take three
products (Toom-Cook at the points 0, 1 and infinity, which divides by nothing); the odd columns take one for each
output. So a unit of two outputs takes 5 products for 6, and one of two rows, by the same sums down, 25 for 36.

Lavin and Gray, Fast Algorithms for Convolutional Neural Networks (2016), section 4: F(2, 2) of the even phase.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np

from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels.base.contract import Tile, Value, Variant, all_in_weights
from shoehorn_mcu.kernels.base.known import known
from shoehorn_mcu.kernels.base.operands import ALIGNMENT, OFFSETS
from shoehorn_mcu.kernels.base.packed import linear, scaled_exactly
from shoehorn_mcu.kernels.base.rounding import UP_POINT, Int64s, Up, clamp_of, up
from shoehorn_mcu.kernels.base.work import Work
from shoehorn_mcu.kernels.linear.conv import CONV2D
from shoehorn_mcu.kernels.linear.toom_cook import (
    CHOICE,
    FOUR,
    behind,
    by_groups,
    fours_of,
    geometry,
    has_room,
    in_pairs,
    in_words,
    of_units,
)
from shoehorn_mcu.machine.targets import Isa
from shoehorn_mcu.ops import Conv2d

_STRIDE = 2
_REACH = 2  # outputs of a unit
_PIXELS = 2 * _REACH  # of a row at once: two units
_COLUMNS = _STRIDE * _PIXELS + 1  # of inputs, which they read
_ACROSS = 5  # products of a unit of one row, of each line
_B, _A, _C = [[1, 0, 1]], [[1, 0, 0], [0, 1, 0]], [[0, 0, 1], [0, 1, 0]]
_SUMS = tuple(np.array(each) for each in (_B, _A, _C))
"""By sum, in the order of the kernel: what multiplies the inputs of its products, [product][tap]."""


def _accepts(node: Node[Conv2d]) -> bool:
    return geometry(node, _STRIDE) and scaled_exactly(linear(node, CONV2D))


def _accepts_up(node: Node[Conv2d]) -> bool:
    return geometry(node, _STRIDE) and _up(node) is not None


@known
def _up(node: Node[Conv2d]) -> Up | None:
    """The constants that round in one step."""
    of = linear(node, CONV2D)
    return up(*of.totals, of.bias, of.multipliers, of.shifts, clamp_of(node))


def _fits(node: Node[Conv2d], tile: Tile) -> bool:
    """Whether twice every sum fits 32 bits, which the two steps multiply."""
    if tile.rows > 1 and not in_pairs(node, _STRIDE):
        return False
    return "up" in tile.sizes or has_room(linear(node, CONV2D), 2)


def _lines(node: Node[Conv2d], tile: Tile) -> int:
    """The lines of inputs that a call reads."""
    return node.weights.type.shape[1] + _STRIDE * (tile.rows - 1)


def _down(node: Node[Conv2d], tile: Tile) -> tuple[Int64s, ...]:
    """As `_SUMS`, of the lines: one row has one sum, of all lines as they are."""
    return (np.eye(node.weights.type.shape[1], dtype=np.int64),) if tile.rows == 1 else _SUMS


def _pack(node: Node[Conv2d], tile: Tile) -> dict[str, Value]:
    of, found = linear(node, CONV2D), _up(node) if "up" in tile.sizes else None
    weights = by_groups(of, node.weights.type.shape)
    sums = (
        np.einsum("dy,pk,oykgc->odpgc", down, across, weights).reshape(len(weights), -1, *weights.shape[3:])
        for down, across in product(_down(node, tile), _SUMS)
    )
    made = np.concatenate([*sums], axis=1)  # [output][product][group][4]
    return all_in_weights(in_words(made, of, found, 1))


def _scratch_bytes(node: Node[Conv2d], tile: Tile) -> int:
    """The transformed inputs of two units, and the columns of a line that the units read."""
    of_units = _lines(node, tile) * _ACROSS * 2 * fours_of(node) * 2 * 4
    return of_units + -(-_COLUMNS * node.x.type.nhwc[3] // ALIGNMENT) * ALIGNMENT


def _work(node: Node[Conv2d], tile: Tile) -> Work:
    sums = [len(down) * len(across) for down, across in product(_down(node, tile), _SUMS)]
    return of_units(node, tile, _COLUMNS, _lines(node, tile), _ACROSS, sums)


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
        tiles=tuple(Tile(outputs=FOUR, reach=_REACH, **rows, **sizes) for rows in ({}, {"rows": 2})),
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
