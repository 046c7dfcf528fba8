"""The depthwise convolution for NEON (`depthwise_conv2d_s8_neon.inc`): its packed weights.

Products of two taps are added in 16 bits before they are widened, as for Helium (`depthwise/mve.py`).
"""

from __future__ import annotations

import math

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
    blocks_of,
    is_twice,
    layer_of_pairs,
    packing,
    tables_of,
)
from shoehorn_mcu.kernels.linear.conv import DEPTHWISE
from shoehorn_mcu.kernels.linear.offsets import with_twin
from shoehorn_mcu.machine.targets import Isa
from shoehorn_mcu.ops import DepthwiseConv2d

VECTOR, HALF = 16, 8  # channels that are computed at once; HALF is the fewest there may be
NINE = 9  # taps of a window that has loops of its own


def _size(channels: int) -> int:
    """Channels of each block."""
    return VECTOR if channels >= VECTOR else HALF


def pack(of: Depthwise) -> Int32s:
    """The words that the kernel reads, block after block, and x_zero for each channel.

    Behind the weights are their offsets, where they are second weights.
    """
    channels = of.weights.shape[1]
    at = blocks_of(channels, _size(channels))

    def by_block(rows: NDArray[np.generic]) -> NDArray[np.generic]:
        """[rows][channel] as [block][rows * 16], zeros behind the channels of a half."""
        blocks = rows[:, at].transpose(1, 0, 2)
        return np.pad(blocks, ((0, 0), (0, 0), (0, VECTOR - at.shape[1]))).reshape(len(at), -1)

    shifts = -right_shifts(of.multipliers, of.shifts)
    bias, multipliers, rights = (by_block(row[None].astype(np.int32)) for row in (of.bias, of.multipliers, shifts))
    taps = of.weights
    if of.twice:
        taps = np.concatenate([taps, np.broadcast_to(of.offsets, taps.shape[1]).astype(np.int8)[None]])
    words = np.concatenate([bias, by_block(taps).view("<i4"), multipliers, rights], axis=1)
    return np.concatenate([words.ravel(), of.padding]).astype(np.int32)


def _accepts(node: Node[DepthwiseConv2d]) -> bool:
    """An output channel per input channel, of these at least HALF, and exact."""
    return node.x.type.nhwc[3] >= HALF and adds_pairs(node)


def _work(node: Node[DepthwiseConv2d], tile: Tile) -> Work:
    """Counts of the tables of taps, and of blocks of channels with a table, of pixels in them and of pairs of taps."""
    _, height, width, channels = node.weights.type.shape
    taps, pixels = height * width, node.output.type.nhwc[2]
    made = tables_of(node)
    blocks = -(-channels // _size(channels))
    name = ("nine" if taps == NINE else "any") + ("s" if _size(channels) == VECTOR else "_halves")
    counts = {f"{name}_set": made["tables"] * blocks, name: float(pixels * blocks)}
    if taps != NINE:
        pairs, odd = divmod(2 * taps if is_twice(node) else taps, 2)
        counts |= {f"{name}_pairs": pixels * blocks * pairs, f"{name}_odd": pixels * blocks * odd}
    return made + Work(**counts)


def _accepts_few(node: Node[DepthwiseConv2d]) -> bool:
    """As `_accepts`, of fewer channels: adjacent pixels are computed as if they were one, at a stride of 1."""
    return node.x.type.nhwc[3] < HALF and adds_pairs(node)


def _repeated(of: Depthwise) -> Depthwise:
    """The layer of so many pixels as one that their channels are whole blocks."""
    channels = of.weights.shape[1]
    times = math.lcm(channels, VECTOR) // channels
    return of._replace(
        weights=np.tile(of.weights, times),
        bias=np.tile(of.bias, times),
        multipliers=np.tile(of.multipliers, times),
        shifts=np.tile(of.shifts, times),
        offsets=np.tile(np.broadcast_to(of.offsets, channels), times),
    )


def _work_few(node: Node[DepthwiseConv2d], tile: Tile) -> Work:
    """Counts of the tables of taps, of vectors of adjacent pixels, and of outputs that are left, with their taps."""
    _, height, width, channels = node.weights.type.shape
    taps, outputs = height * width, node.output.type.row_elements
    rows, inner = adjacent(node)
    vectors = rows * (max(0, inner) * channels // VECTOR) * (node.op.stride[1] == 1)
    left = outputs - vectors * VECTOR
    name = "nines" if taps == NINE else "anys"
    made = tables_of(node) + Work(**{name: vectors}, outputs=left, taps=left * taps)
    return made if taps == NINE else made + Work(any_taps=vectors * taps)


def _accepts_dots(node: Node[DepthwiseConv2d]) -> bool:
    """Windows of 3x3 at a stride of 1 or 2, of VECTOR channels or more, and exact."""
    of_window = node.weights.type.shape[1:3] == (3, 3) and node.op.dilation[1] == 1 and node.op.stride[1] in (1, 2)
    return of_window and node.x.type.nhwc[3] >= VECTOR and adds_pairs(node)


def pack_dots(of: Depthwise) -> Int32s:
    """The words that the kernel for dot products reads: weights by columns, three and a 0 of each channel."""
    at = blocks_of(of.weights.shape[1], VECTOR)
    columns = np.pad(of.weights.astype(np.int8).reshape(3, 3, -1), ((0, 1), (0, 0), (0, 0)))  # [ky][kx][channel]
    weights = columns[:, :, at].transpose(2, 1, 3, 0).reshape(len(at), -1).copy()  # [block][kx][channel][ky]
    scales = (of.multipliers, -right_shifts(of.multipliers, of.shifts))
    bias, *others = (each.astype(np.int32)[at] for each in (of.bias, *scales))
    words = np.concatenate([bias, weights.view("<i4"), *others], axis=1)
    return np.concatenate([words.ravel(), np.full(VECTOR, of.x_zero, np.int8).view("<i4")]).astype(np.int32)


def _dots_work(node: Node[DepthwiseConv2d], tile: Tile) -> Work:
    """Counts of blocks of channels, of columns that are read for them, and of their outputs by the stride."""
    blocks, pixels = -(-node.x.type.nhwc[3] // VECTOR), node.output.type.nhwc[2]
    ones = node.op.stride[1] == 1
    return Work(
        pixels=1,
        blocks=blocks,
        ones_set=blocks * ones,
        ones=blocks * pixels * ones,
        twos=blocks * pixels * (not ones),
    )


_PACK = packing(pack, VECTOR, layer_of_pairs)
_NEON = Variant(DEPTHWISE, _work, suffix="neon", shared=("taps",), isa=Isa.NEON, accepts=_accepts, pack=_PACK)

_FEW = Variant(
    DEPTHWISE,
    _work_few,
    suffix="neon_few",
    body="neon",
    shared=("taps",),
    isa=Isa.NEON,
    accepts=_accepts_few,
    defines=("SH_FEW",),
    pack=packing(lambda of: pack(_repeated(of)), VECTOR, layer_of_pairs),
)

_PACK_DOTS = packing(pack_dots, VECTOR)
_DOT = Variant(DEPTHWISE, _dots_work, suffix="neon_dot", isa=Isa.DOT, accepts=_accepts_dots, pack=_PACK_DOTS)

VARIANTS = (*with_twin(_NEON, is_twice, sums=False), *with_twin(_FEW, is_twice, sums=False), _DOT)
