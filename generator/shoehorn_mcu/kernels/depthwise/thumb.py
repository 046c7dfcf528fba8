"""Depthwise convolutions for Armv6-M: `depthwise_conv2d_s8_thumb.inc`, and `_column.inc` for rows of a single pixel."""

from __future__ import annotations

import numpy as np

from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels.base import steps32
from shoehorn_mcu.kernels.base.contract import Tile, Value, Variant, all_in_weights
from shoehorn_mcu.kernels.base.operands import behind_channels, behind_whole_rows
from shoehorn_mcu.kernels.base.rounding import Int32s, clamp_of
from shoehorn_mcu.kernels.base.work import Work
from shoehorn_mcu.kernels.depthwise.simd32 import adjacent, layer_of, tables_of
from shoehorn_mcu.kernels.linear.conv import DEPTHWISE, lines_of
from shoehorn_mcu.kernels.linear.offsets import with_offsets
from shoehorn_mcu.machine.targets import Isa
from shoehorn_mcu.ops import DepthwiseConv2d

WORDS = 192  # of inputs that are copied at once
NINE = 9  # taps that the inner loop computes at once
MOST_TAPS, MOST_COLUMNS = 54, 8  # of a window; of one with a dilation
COLUMN_TAPS = 56  # of one whose row is a single pixel


def _scales(node: Node[DepthwiseConv2d]) -> Int32s | None:
    """[channel][8]: the words of `sh_steps32.h`; None where some channel has none."""
    of = layer_of(node)
    return steps32.words_of(of.whole.T, of.bias, of.multipliers, of.shifts, clamp_of(node))


def _accepts(node: Node[DepthwiseConv2d]) -> bool:
    """An output channel per input channel, windows that the copies hold, and exact."""
    _, height, width, channels = node.weights.type.shape
    apart = node.op.dilation[1] != 1
    fits = height * width <= MOST_TAPS and not (apart and width > MOST_COLUMNS)
    return fits and channels == node.x.type.nhwc[3] and _scales(node) is not None


def _filled(taps: int) -> int:
    """Taps of a window, up to a multiple of nine."""
    return -(-taps // NINE) * NINE


def _pack(node: Node[DepthwiseConv2d], tile: Tile) -> dict[str, Value]:
    of, scales = layer_of(node), _scales(node)
    assert scales is not None  # the node was accepted
    _, height, width, channels = node.weights.type.shape
    taps = height * width
    offsets = np.broadcast_to(of.offsets, channels).astype(np.int32)[:, None]
    weights = np.zeros((channels, -(-_filled(taps) // 4) * 4), np.int8) - offsets.astype(np.int8)
    weights[:, :taps] = of.weights.reshape(height, width, channels).transpose(2, 1, 0).reshape(channels, taps)
    own = offsets[:, : int(of.offsets.any())]  # the kernel adds it to each byte
    return all_in_weights(np.concatenate([scales, own, weights.view("<i4")], axis=1).astype(np.int32).ravel())


def _segment(node: Node[DepthwiseConv2d]) -> int:
    """How many pixels of a channel are computed at once at most."""
    height, width = node.weights.type.shape[1:3]
    pitch = height * width if node.op.dilation[1] != 1 else node.op.stride[1] * height
    return (WORDS - _filled(height * width)) // pitch + 1


def _work(node: Node[DepthwiseConv2d], tile: Tile) -> Work:
    """Counts of segments of pixels, of their channels with weights and runs of inputs, of inputs that are copied from
    three lines or from one, and of outputs with their groups of nine taps.
    """
    op, pixels = node.op, node.output.type.nhwc[2]
    _, height, width, channels = node.weights.type.shape
    lines, stride = lines_of(node), op.stride[1]
    apart, filled = op.dilation[1] != 1, _filled(height * width)
    segments = -(-pixels // min(pixels, _segment(node)))
    columns = (pixels - 1) * stride + width
    outside = op.padding.left + max(0, columns - op.padding.left - node.x.type.nhwc[2])
    laid = sum(lines.taps) if apart else columns - outside + (segments - 1) * (width - stride)
    whole = adjacent(node)[0] * (height == 3)  # of the rows: copied from three lines at once
    rest = lines.inside - height * whole
    return Work(
        segments=segments,
        channels=segments * channels,
        weights=segments * channels * filled,
        runs=segments * channels * (width if apart else 1) * (whole + rest),
        threes=laid * channels * whole,
        laid=laid * channels * rest,
        outputs=pixels * channels,
        nines=pixels * channels * filled // NINE,
    )


def _behind(node: Node[DepthwiseConv2d], tile: Tile) -> int | None:
    return behind_whole_rows(node, _segment(node), 1)


def _accepts_column(node: Node[DepthwiseConv2d]) -> bool:
    """An output channel per input channel, rows of one pixel, and exact."""
    _, height, width, channels = node.weights.type.shape
    is_column = node.output.type.nhwc[2] == 1 and channels == node.x.type.nhwc[3]
    return is_column and height * width <= COLUMN_TAPS and _scales(node) is not None


def _pack_column(node: Node[DepthwiseConv2d], tile: Tile) -> dict[str, Value]:
    of, scales = layer_of(node), _scales(node)
    assert scales is not None  # the node was accepted
    taps, channels = of.weights.shape
    weights = np.zeros((channels, -(-taps // 4) * 4), np.int8)
    weights[:, :taps] = of.weights.T
    words = np.concatenate([weights.view("<i4"), scales], axis=1).astype(np.int32).ravel()
    return all_in_weights(np.concatenate([words, of.padding]))


def _column_work(node: Node[DepthwiseConv2d], tile: Tile) -> Work:
    """Counts of the table of taps, and of channels with their groups of four taps."""
    _, height, width, channels = node.weights.type.shape
    return tables_of(node) + Work(outputs=channels, fours=channels * -(-height * width // 4))


_COLUMN = Variant(
    DEPTHWISE,
    _column_work,
    suffix="thumb_column",
    shared=("taps",),
    isa=Isa.THUMB,
    accepts=_accepts_column,
    pack=_pack_column,
    behind=lambda node, _: behind_channels(node, 1),
)
_THUMB = Variant(DEPTHWISE, _work, suffix="thumb", isa=Isa.THUMB, accepts=_accepts, pack=_pack, behind=_behind)

VARIANTS = (_THUMB, with_offsets(_THUMB), _COLUMN)
