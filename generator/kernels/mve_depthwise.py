"""The depthwise convolution for Helium (`depthwise_conv2d_s8_mve.inc`): its packed weights.

Products of bytes are 16 bits wide, and two of them still fit as weights are -127 to 127; so taps are added in pairs
before they are widened. CMSIS-NN's `arm_depthwise_conv_s8_opt` widens every product.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels.base import Tile, Value, Variant, all_in_weights
from shoehorn_mcu.kernels.conv import DEPTHWISE
from shoehorn_mcu.kernels.depthwise import Depthwise, adjacent, even, layer_of, packable_by_pairs, tables_of
from shoehorn_mcu.kernels.rounding import Int32s, Int64s, right_shifts
from shoehorn_mcu.kernels.work import Work
from shoehorn_mcu.ops import DepthwiseConv2d
from shoehorn_mcu.targets import Isa

VECTOR = 16  # channels that are computed at once
ORDER = np.array([0, 4, 8, 12, 2, 6, 10, 14, 1, 5, 9, 13, 3, 7, 11, 15])
"""Of a vector's channels: where their sums are."""


def pack(of: Depthwise) -> Int32s:
    """The words that the kernel reads, 16 channels after the others, and x_zero for each channel."""
    channels = of.weights.shape[1]
    padding = np.full(-(-channels // 4) * 4, of.x_zero, np.int8).view("<i4")
    if VECTOR % channels == 0:
        of, channels = _repeated(of, VECTOR // channels), VECTOR
    blocks = -(-channels // VECTOR)

    def by_block(rows: Int64s) -> Int64s:
        """[rows][channel] as [block][rows][16], missing channels zeros."""
        full = np.zeros((len(rows), blocks * VECTOR), np.int64)
        full[:, :channels] = rows
        return full.reshape(len(rows), blocks, VECTOR).transpose(1, 0, 2)

    taps = by_block(even(of.weights).astype(np.int64)).astype(np.int8)
    weights = np.ascontiguousarray(taps).view("<i4").reshape(blocks, -1)
    bias = by_block(of.bias[None].astype(np.int64))[..., ORDER].reshape(blocks, -1)
    pairs = np.stack([of.multipliers.astype(np.int64), -right_shifts(of.multipliers, of.shifts)])
    scales = by_block(pairs)[..., ORDER].reshape(blocks, 2, 4, 4).transpose(0, 2, 1, 3).reshape(blocks, -1)
    return np.concatenate([np.concatenate([bias, weights, scales], axis=1).ravel(), padding]).astype(np.int32)


def _repeated(of: Depthwise, times: int) -> Depthwise:
    """The layer of so many pixels side by side."""
    return of._replace(
        weights=np.tile(of.weights, times),
        bias=np.tile(of.bias, times),
        multipliers=np.tile(of.multipliers, times),
        shifts=np.tile(of.shifts, times),
    )


def _accepts(node: Node) -> bool:
    """An output channel per input channel, and exact."""
    return node.inputs[1].type.shape[3] == node.inputs[0].type.nhwc[3] and packable_by_pairs(layer_of(node))


def _pack(node: Node, tile: Tile) -> dict[str, Value]:
    return all_in_weights(pack(layer_of(node)))


def _work(node: Node, tile: Tile) -> Work:
    """Counts of pixels, vectors of channels, whole ones or not, and pairs of taps; and of the tables of taps."""
    op = cast(DepthwiseConv2d, node.op)
    _, height, width, channels = node.inputs[1].type.shape
    pixels, pairs = float(node.output.type.nhwc[2]), -(-height * width // 2)
    rows, inner = adjacent(op, node)
    joined = rows if inner > 1 and op.stride[1] == 1 and VECTOR % channels == 0 else 0.0
    pixels -= joined * inner
    whole = pixels * (channels // VECTOR) + joined * (inner * channels // VECTOR)
    partly = pixels * (channels % VECTOR > 0) + joined * (inner * channels % VECTOR > 0)
    return tables_of(op, node) + Work(
        pixels=pixels + joined,
        blocks=whole,
        pairs=whole * pairs,
        part_blocks=partly,
        part_pairs=partly * pairs,
    )


VARIANTS = (Variant(DEPTHWISE, _work, suffix="mve", shared="taps", isa=Isa.MVE, accepts=_accepts, pack=_pack),)
