"""The depthwise convolution for RISC-V (`depthwise_conv2d_s8_riscv.inc`): its packed weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels.base.contract import Tile, Value, Variant, all_in_weights
from shoehorn_mcu.kernels.base.operands import behind_channels
from shoehorn_mcu.kernels.base.rounding import Int32s
from shoehorn_mcu.kernels.base.work import Work
from shoehorn_mcu.kernels.depthwise.simd32 import Depthwise, blocks_of, layer_of, scaled_exactly, tables_of
from shoehorn_mcu.kernels.linear.conv import DEPTHWISE
from shoehorn_mcu.kernels.linear.offsets import with_offsets
from shoehorn_mcu.kernels.linear.riscv import scales
from shoehorn_mcu.machine.targets import Isa
from shoehorn_mcu.ops import DepthwiseConv2d

EIGHT = 8  # channels that are computed at once, and the fewest there may be
MOST_TAPS = 49


def pack(of: Depthwise) -> Int32s:
    """The words that the kernel reads, block after block, and x_zero for each channel.

    Weights with offsets are halfwords, others are bytes.
    """
    at = blocks_of(of.weights.shape[1], EIGHT)

    def by_block(rows: NDArray[np.generic]) -> NDArray[np.generic]:
        """[rows][channel] as [block][rows * 8]."""
        return np.ascontiguousarray(rows[:, at].transpose(1, 0, 2)).reshape(len(at), -1)

    scaled = scales(of.multipliers, of.shifts, of.y_zero)[at].reshape(len(at), -1)
    weights = of.whole.astype(np.int16 if of.offsets.any() else np.int8)
    words = np.concatenate([of.bias[at], by_block(weights).view("<i4"), scaled], axis=1)
    return np.concatenate([words.ravel(), of.padding]).astype(np.int32)


def _accepts(node: Node[DepthwiseConv2d]) -> bool:
    """An output channel per input channel, of these at least EIGHT, and exact."""
    _, height, width, channels = node.weights.type.shape
    fits = node.x.type.nhwc[3] == channels >= EIGHT and height * width <= MOST_TAPS
    return fits and scaled_exactly(layer_of(node))


def _pack(node: Node[DepthwiseConv2d], tile: Tile) -> dict[str, Value]:
    return all_in_weights(pack(layer_of(node)))


def _work(node: Node[DepthwiseConv2d], tile: Tile) -> Work:
    """Counts of the tables of taps, and of pixels, of blocks of channels in them, and of their taps."""
    _, height, width, channels = node.weights.type.shape
    pixels, blocks = node.output.type.nhwc[2], -(-channels // EIGHT)
    return tables_of(node) + Work(pixels=pixels, blocks=pixels * blocks, block_taps=pixels * blocks * height * width)


def _behind(node: Node[DepthwiseConv2d], tile: Tile) -> int | None:
    return behind_channels(node, EIGHT)


_RISCV = Variant(
    DEPTHWISE, _work, suffix="riscv", shared=("taps",), isa=Isa.RISCV, accepts=_accepts, pack=_pack, behind=_behind
)

VARIANTS = (_RISCV, with_offsets(_RISCV))
