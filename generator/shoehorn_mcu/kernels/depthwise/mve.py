"""The depthwise convolutions for Helium (`depthwise_conv2d_s8_mve.inc` and, for 3x3 windows,
`depthwise_conv2d_s8_mve_3x3.inc`): their packed weights.

Products of bytes are 16 bits wide, and two of them still fit as weights are -127 to 127; so taps are added in pairs
before they are widened. CMSIS-NN's `arm_depthwise_conv_s8_opt` widens every product.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels.base.contract import Tile, Variant
from shoehorn_mcu.kernels.base.rounding import Int32s, right_shifts
from shoehorn_mcu.kernels.base.work import Work
from shoehorn_mcu.kernels.depthwise.simd32 import (
    Depthwise,
    adds_pairs,
    adjacent,
    even,
    is_twice,
    layer_of_pairs,
    packing,
    tables_of,
)
from shoehorn_mcu.kernels.linear.conv import DEPTHWISE
from shoehorn_mcu.kernels.linear.offsets import with_twin
from shoehorn_mcu.machine.targets import Isa
from shoehorn_mcu.ops import DepthwiseConv2d

VECTOR = 16  # channels that are computed at once
ORDER = np.array([0, 4, 8, 12, 2, 6, 10, 14, 1, 5, 9, 13, 3, 7, 11, 15])
"""Of a vector's channels: where their sums are."""


def pack(of: Depthwise) -> Int32s:
    """The words that the kernel for any window reads, 16 channels after the others, and x_zero for each channel."""
    full = _filled(of)
    scales = _in_order(np.stack([full.multipliers, -right_shifts(full.multipliers, full.shifts)]))
    return _packed(of, _in_order(full.bias[None]), _taps(even(full.doubled)), scales)


def pack_3x3(of: Depthwise) -> Int32s:
    """The words that the kernel for 3x3 windows reads, 16 channels after the others, and x_zero for each channel."""
    full = _filled(of)
    scales = np.stack([full.bias, full.multipliers, -right_shifts(full.multipliers, full.shifts)])
    return _packed(of, _taps(full.weights), _in_order(scales))


def _packed(of: Depthwise, *parts: Int32s) -> Int32s:
    """The parts of each 16 channels side by side, [block][words], and the padding."""
    return np.concatenate([np.concatenate(parts, axis=1).ravel(), of.padding]).astype(np.int32)


def _filled(of: Depthwise) -> Depthwise:
    """The layer with channels up to a multiple of 16: zeros, or 1, 2, 4 or 8 repeated."""
    channels = of.weights.shape[1]

    def filled(rows: NDArray[Any]) -> NDArray[Any]:
        if VECTOR % channels == 0:
            return np.tile(rows, VECTOR // channels)
        return np.pad(rows, (*((0, 0),) * (rows.ndim - 1), (0, -channels % VECTOR)))

    weights, bias, multipliers, shifts = (filled(rows) for rows in of[:4])
    offsets = filled(np.broadcast_to(of.offsets, channels))
    return of._replace(weights=weights, bias=bias, multipliers=multipliers, shifts=shifts, offsets=offsets)


def _by_block(rows: NDArray[Any]) -> NDArray[Any]:
    """[row][channel] as [block][row][16]."""
    return rows.reshape(len(rows), -1, VECTOR).transpose(1, 0, 2)


def _taps(weights: NDArray[np.int8]) -> Int32s:
    """[tap][channel] as [block][word]."""
    by_block = np.ascontiguousarray(_by_block(weights))
    return by_block.view("<i4").reshape(len(by_block), -1).astype(np.int32)


def _in_order(rows: NDArray[Any]) -> Int32s:
    """[row][channel] as [block][word]: for each four of ORDER their words of each row."""
    by_block = _by_block(rows)[..., ORDER].reshape(-1, len(rows), 4, 4).transpose(0, 2, 1, 3)
    return by_block.reshape(len(by_block), -1).astype(np.int32)


def _work(node: Node[DepthwiseConv2d], tile: Tile) -> Work:
    """Counts of pixels, vectors of channels, whole ones or not, and pairs of taps; and of the tables of taps."""
    _, height, width, channels = node.weights.type.shape
    taps = height * width * (2 if is_twice(node) else 1)
    pixels, pairs = float(node.output.type.nhwc[2]), -(-taps // 2)
    rows, inner = adjacent(node)
    joined = rows if inner > 1 and node.op.stride[1] == 1 and VECTOR % channels == 0 else 0.0
    pixels -= joined * inner
    whole = pixels * (channels // VECTOR) + joined * (inner * channels // VECTOR)
    partly = pixels * (channels % VECTOR > 0) + joined * (inner * channels % VECTOR > 0)
    return tables_of(node) + Work(
        pixels=pixels + joined,
        blocks=whole,
        pairs=whole * pairs,
        part_blocks=partly,
        part_pairs=partly * pairs,
    )


def _accepts_3x3(node: Node[DepthwiseConv2d]) -> bool:
    return node.weights.type.shape[1:3] == (3, 3) and adds_pairs(node) and not is_twice(node)


def _work_3x3(node: Node[DepthwiseConv2d], tile: Tile) -> Work:
    """Counts of tables of taps, of pixels, those behind which taps are moved, and of vectors of channels."""
    pixels, channels = node.output.type.nhwc[2:]
    rows, inner = adjacent(node)
    repeats = node.op.stride[1] == 1 and VECTOR % channels == 0
    total = Work()
    # Runs of pixels: those that touch padding alone, and in a part of the rows the others together.
    for times, together in ((pixels - rows * inner, 1), (rows, inner)):
        whole, rest = divmod(together * channels, VECTOR) if repeats else (0, 0)
        if repeats:
            made, moved, vectors = whole + (rest > 0), int(rest > 0), whole + (rest > 0)
            tables = (whole > 0) + (rest > 0)
        else:
            made, tables, vectors = together, int(together > 0), together * -(-channels // VECTOR)
            moved = together * (node.op.stride[1] > 1 or channels % VECTOR > 0)
        total += Work(tables=times * tables, pixels=times * made, moved=times * moved, blocks=times * vectors)
    return total


_PACK = packing(pack, layer=layer_of_pairs)
_ANY = Variant(DEPTHWISE, _work, suffix="mve", shared=("taps",), isa=Isa.MVE, accepts=adds_pairs, pack=_PACK)

VARIANTS = (
    *with_twin(_ANY, is_twice),
    Variant(DEPTHWISE, _work_3x3, suffix="mve_3x3", isa=Isa.MVE, accepts=_accepts_3x3, pack=packing(pack_3x3)),
)
