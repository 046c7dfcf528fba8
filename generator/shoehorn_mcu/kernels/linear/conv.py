"""Kernels of the linear ops: convolutions and dense layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from shoehorn_mcu.ir import Bools, DType, Node
from shoehorn_mcu.kernels.base import operands
from shoehorn_mcu.kernels.base.contract import Contract, Tile, Value, Variant, portable, y_step
from shoehorn_mcu.kernels.base.work import LANES, Work, by_fours, by_lanes, copied, dots, elements, inside, rests
from shoehorn_mcu.machine.targets import Isa
from shoehorn_mcu.ops import Conv2d, Dense, DepthwiseConv2d, LinearOp, TransposeConv2d
from shoehorn_mcu.ops.conv import Window, folded_bias

Convolution = Conv2d | DepthwiseConv2d | TransposeConv2d


def _linear_s8(node: Node[LinearOp]) -> bool:
    _, weights, bias = node.inputs
    constant = weights.data is not None and bias.data is not None
    return constant and operands.all_s8(node) and operands.are(DType.INT8, weights) and operands.are(DType.INT32, bias)


def geometry(node: Node[Convolution]) -> dict[str, Value]:
    """Struct members for the shapes of any convolution's rows and window."""
    x, weights, _ = node.inputs
    return {
        "in_width": x.type.nhwc[2],
        "in_channels": x.type.nhwc[3],
        "out_width": node.output.type.nhwc[2],
        "kernel_height": weights.type.shape[1],
        "kernel_width": weights.type.shape[2],
        "stride": node.op.stride[1],
        "pad_left": node.op.padding.left,
    }


def _window(node: Node[Convolution]) -> dict[str, Value]:
    """Struct members common to all three convolutions on int8."""
    return {
        **geometry(node),
        "x_zero": node.x.type.quantised.zero_point,
        "y_zero": node.output.type.quantised.zero_point,
        **operands.bounded(node.op.clamp),
    }


def channel_groups(node: Node[Conv2d]) -> dict[str, int]:
    """Struct members of Conv2d for its dilation and its groups of channels."""
    outputs, _, _, group_inputs = node.weights.type.shape
    groups = node.x.type.nhwc[3] // group_inputs
    return {
        "dilation": node.op.dilation[1],
        "groups": groups,
        "group_inputs": group_inputs,
        "group_outputs": outputs // groups,
        "y_step": outputs,
    }


def multiplied(node: Node[DepthwiseConv2d]) -> dict[str, Value]:
    """Struct members of DepthwiseConv2d for its dilation and its outputs per input channel."""
    x, weights, _ = node.inputs
    return {
        "dilation": node.op.dilation[1],
        "channel_multiplier": weights.type.shape[3] // x.type.nhwc[3],
    }


def _transpose_conv2d(node: Node[TransposeConv2d]) -> dict[str, Value]:
    outputs = node.output.type.nhwc[3]
    return {**_window(node), "out_channels": outputs, "y_step": outputs}


def scaled(node: Node[LinearOp], bias: Value) -> dict[str, Value]:
    """The constants of a linear op with this bias, weights as in the model."""
    multipliers, shifts = node.op.scales(node.sig)
    return {"weights": operands.data(node.weights), "bias": bias, "multipliers": multipliers, "shifts": shifts}


def constants(node: Node[LinearOp]) -> dict[str, Value]:
    """The constants of a linear op, with the input's zero point folded into the bias."""
    weights, bias = operands.whole_weights(node), operands.data(node.bias)
    return scaled(node, folded_bias(weights, bias, node.x.type.quantised.zero_point, node.op.channel_axis))


def _dense(node: Node[Dense]) -> dict[str, Value]:
    outputs, inputs = node.weights.type.shape
    return {
        "positions": node.output.type.nhwc[2],
        "inputs": inputs,
        "outputs": outputs,
        "y_zero": node.output.type.quantised.zero_point,
        **operands.bounded(node.op.clamp),
    }


def _right_shifts(node: Node[LinearOp]) -> Work:
    """The outputs of a row whose rounding shifts to the right."""
    _, shifts = node.op.scales(node.sig)
    return Work(right_shifts=node.output.type.row_elements * float((shifts < 0).mean()))


@dataclass(frozen=True)
class Lines:
    """The input lines that the windows of an output row cover: the mean over all rows."""

    inside: float  # lines of a pixel's window that are inside the input
    missing: float  # lines that are padding
    taps: tuple[int, ...]  # by pixel: taps of a line that are inside the row; they are adjacent
    edges: int  # pieces of the pixels' lines that are outside the row


def padding_of(lines: Lines, kernel_width: int) -> tuple[float, float]:
    """Runs of padding in a row's windows, and the taps in them."""
    beside = sum(kernel_width - taps for taps in lines.taps)
    whole = lines.missing * len(lines.taps)
    return lines.inside * lines.edges + whole, lines.inside * beside + whole * kernel_width


def lines_of(node: Node[Window]) -> Lines:
    """Of a convolution."""
    sizes = (node.x.type.nhwc[1:3], node.output.type.nhwc[1:3], node.op.weights(node.sig).shape[1:3])
    return _lines(*sizes, node.op.stride, (node.op.padding.top, node.op.padding.left), node.op.dilation)


Size = tuple[int, ...]  # height and width


@lru_cache(maxsize=1024)
def _lines(x: Size, y: Size, kernel: Size, stride: Size, before: Size, dilation: Size) -> Lines:
    """`lines_of` from its geometry, which the chunks of a convolution share."""
    (out_height, out_width), (kernel_height, kernel_width) = y, kernel
    down = inside(out_height, kernel_height, x[0], stride[0], before[0], dilation[0]) / out_height
    columns = np.arange(out_width)[:, None] * stride[1] - before[1]
    columns = columns + np.arange(kernel_width)[None] * dilation[1]
    left, right = columns < 0, columns >= x[1]
    taps = kernel_width - (left | right).sum(axis=1)
    edges = left.any(axis=1).sum() + right.any(axis=1).sum()
    return Lines(down, kernel_height - down, tuple(taps.tolist()), int(edges))


Sums = Callable[[float, int, int], Work]
"""The work of so many sums of so many products, for so many outputs at a time."""


def window_work(node: Node[Window], groups: int = 1, sums: Sums = by_lanes) -> Work:
    """Sums over windows for LANES output channels of a group at a time, and for the rest (`sh_window_sum`)."""
    joined = node.op.dilation[1] == 1 and groups == 1  # the taps of a line are contiguous elements
    return _lines_work(lines_of(node), node.op.weights(node.sig).shape, node, groups, joined, sums)


def _lines_work(
    lines: Lines, weights: tuple[int, ...], node: Node, groups: int = 1, joined: bool = True, sums: Sums = by_lanes
) -> Work:
    channels, kernel_height, kernel_width, inputs = weights
    whole, left = divmod(channels // groups, LANES)
    blocks, ends = groups * whole, groups * (left > 0)
    pixels = node.output.type.nhwc[2]
    total = Work()
    for taps, columns in Counter(lines.taps).items():
        if taps:
            runs, run = (columns, taps * inputs) if joined else (columns * taps, inputs)
            met = lines.inside * runs  # in the lines with so many taps
            total += sums(blocks * met, run, LANES) + sums(ends * met, run, left)
    padded, padded_taps = padding_of(lines, kernel_width)
    return total + Work(
        pixels=pixels,
        blocks=pixels * blocks,
        rests=pixels * ends,
        kernel_rows=pixels * (blocks + ends) * kernel_height,
        outputs=node.output.type.row_elements,
        clipped=_clipped(lines, kernel_width),
        padded=padded * (blocks + ends),
        padded_elements=padded_taps * inputs * blocks,
        padded_rests=padded_taps * inputs * ends * left,
    )


def _clipped(lines: Lines, kernel_width: int) -> float:
    """Columns of the pixels' windows that are outside of the row."""
    return sum(kernel_width - taps for taps in lines.taps)


def convolution_work(node: Node[Conv2d], sums: Sums = by_lanes) -> Work:
    """Conv2d without what depends on the element type."""
    return window_work(node, node.x.type.nhwc[3] // node.weights.type.shape[3], sums)


def _conv2d_work(node: Node[Conv2d], sums: Sums = by_lanes) -> Work:
    return convolution_work(node, sums) + _right_shifts(node)


def _conv2d_dots(node: Node[Conv2d], tile: Tile) -> Work:
    return _conv2d_work(node, by_fours)


def depthwise_work(node: Node[DepthwiseConv2d]) -> Work:
    """DepthwiseConv2d without what depends on the element type."""
    _, kernel_height, kernel_width, channels = node.weights.type.shape
    shared = channels != node.x.type.nhwc[3]  # several outputs read one input: computed one by one
    eights, rest = divmod(0 if shared else channels, 8)
    fours, ones = divmod(rest, 4)
    ones = channels if shared else ones
    lines = lines_of(node)
    runs = lines.inside * sum(taps > 0 for taps in lines.taps)
    taps = lines.inside * sum(lines.taps)
    padded, padded_taps = padding_of(lines, kernel_width)
    pixels = node.output.type.nhwc[2]
    blocks = eights + fours
    return Work(
        pixels=pixels,
        blocks=pixels * blocks,
        kernel_rows=pixels * blocks * kernel_height,
        loops8=runs * eights,
        loops4=runs * fours,
        by8=taps * eights * 8,
        by4=taps * fours * 4,
        clipped=_clipped(lines, kernel_width),
        padded=padded * blocks,
        padded_elements=padded_taps * eights * 8,
        padded_fours=padded_taps * fours * 4,
        padded_ones=padded_taps * ones,
        # Outputs that are computed one by one have separate instructions for most of that.
        divided=pixels * ones,
        loops=pixels * ones * kernel_height,
        ragged=padded * ones,
        by1=taps * ones,
        outputs=node.output.type.row_elements,
    )


def _depthwise_conv2d_work(node: Node[DepthwiseConv2d]) -> Work:
    return depthwise_work(node) + _right_shifts(node)


def _depthwise_conv2d_held(node: Node[DepthwiseConv2d], tile: Tile) -> Work:
    pixels, channels = node.output.type.nhwc[2:]
    return _depthwise_conv2d_work(node) + copied(pixels, channels, channels % operands.ALIGNMENT == 0)


def _transpose_conv2d_work(node: Node[TransposeConv2d]) -> Work:
    inputs = node.x.type.nhwc[3]
    _, _, out_width, channels = node.output.type.nhwc
    kernel_height = node.weights.type.shape[1]
    rows, columns = _hits_of(node)
    sums = elements(rows * columns * channels, inputs) + _right_shifts(node)
    return sums + Work(
        pixels=out_width,
        kernel_rows=rows * out_width * channels,
        padded=(kernel_height - rows) * out_width * channels,
        outputs=out_width * channels,
    )


def transposed_work(node: Node[TransposeConv2d]) -> Work:
    """TransposeConv2d as sums over windows, each of the taps of a pixel that have an input (`linear_s16`)."""
    weights, (rows, _) = node.weights.type.shape, _hits_of(node)
    met = _met(node.output.type.nhwc[2], weights[2], node.x.type.nhwc[2], node.op.stride[1], node.op.padding.left)
    lines = Lines(rows, weights[1] - rows, tuple(met.sum(axis=1).tolist()), 0)
    return _lines_work(lines, weights, node)


def _transpose_conv2d_by_fours(node: Node[TransposeConv2d], tile: Tile) -> Work:
    """Sums over the taps that read an input, for LANES output channels at a time and for single ones."""
    inputs = node.x.type.nhwc[3]
    pixels, channels = node.output.type.nhwc[2:]
    rows, columns = _hits_of(node)
    whole, left = divmod(channels, LANES)
    taps = rows * columns
    sums = by_fours(taps * whole, inputs, LANES) + by_fours(taps * left, inputs, 1) + _right_shifts(node)
    return sums + Work(
        pixels=pixels,
        blocks=pixels * (whole + left),
        kernel_rows=rows * pixels * (whole + left),
        padded=(node.weights.type.shape[1] - rows) * pixels * (whole + left),
        outputs=pixels * channels,
    )


def _hits_of(node: Node[TransposeConv2d]) -> tuple[float, int]:
    """Kernel rows that read an input row, of a mean output row; taps that read a column, over an output row."""
    op = node.op
    _, height, width, _ = node.x.type.nhwc
    _, out_height, out_width, _ = node.output.type.nhwc
    kernel_height, kernel_width = node.weights.type.shape[1:3]
    # Tap k of output o reads input (o + before - k) / stride, where that is a whole number inside the input.
    rows = _hits(out_height, kernel_height, height, op.stride[0], op.padding.top) / out_height
    return rows, _hits(out_width, kernel_width, width, op.stride[1], op.padding.left)


def _hits(outputs: int, taps: int, size: int, stride: int, before: int) -> int:
    """Number of positions of a transpose convolution's window along one dimension that read an input."""
    return int(_met(outputs, taps, size, stride, before).sum())


def _met(outputs: int, taps: int, size: int, stride: int, before: int) -> Bools:
    """By output and tap of a transpose convolution's window along one dimension: whether it reads an input."""
    places = np.arange(outputs)[:, None] + before - np.arange(taps)[None]
    met: Bools = (places % stride == 0) & (places >= 0) & (places < size * stride)
    return met


def dense_work(node: Node[Dense]) -> Work:
    """Dense without what depends on the element type."""
    outputs, inputs = node.weights.type.shape
    pixels = node.output.type.nhwc[2]
    whole, left = divmod(outputs, LANES)
    pair, last = divmod(left, 2)
    sums = dots(pixels * whole, inputs) + rests(pixels * pair, inputs, 2 * pair) + rests(pixels * last, inputs, last)
    return sums + Work(
        pixels=pixels,
        blocks=pixels * whole,
        rests=pixels * (left > 0),
        outputs=pixels * outputs,
    )


def _dense_work(node: Node[Dense]) -> Work:
    return dense_work(node) + _right_shifts(node)


def _fits_nibbles(node: Node[LinearOp]) -> bool:
    weights = operands.data(node.weights)
    return bool(weights.min() >= -8 and weights.max() <= 7)


def _nibbles(node: Node[LinearOp], tile: Tile) -> dict[str, Value]:
    """The constants with two weights in a byte, the first one in its low bits; each run of inputs begins a byte."""
    weights = operands.data(node.weights)
    even = np.pad(weights, (*((0, 0),) * (weights.ndim - 1), (0, weights.shape[-1] % 2))).astype(np.uint8)
    return {**constants(node), "weights": (even[..., 0::2] & 15) | (even[..., 1::2] << 4)}


CONV2D = Contract(
    "conv2d_s8",
    (Conv2d,),
    lambda node: {**_window(node), **channel_groups(node)},
    constants,
    _linear_s8,
    takes_scratch=True,
    spaced=y_step,
    kind=operands.kind_of_weights,
)
DEPTHWISE = Contract(
    "depthwise_conv2d_s8",
    (DepthwiseConv2d,),
    lambda node: {**_window(node), **multiplied(node)},
    constants,
    _linear_s8,
    kind=operands.kind_of_weights,
)
TRANSPOSE = Contract(
    "transpose_conv2d_s8",
    (TransposeConv2d,),
    _transpose_conv2d,
    lambda node: scaled(node, operands.data(node.bias)),
    _linear_s8,
    spaced=y_step,
)
DENSE = Contract("dense_s8", (Dense,), _dense, constants, _linear_s8, kind=operands.kind_of_weights)


def _behind_one(node: Node[Window], tile: Tile) -> int | None:
    """Of kernels that read a window for each few of its outputs."""
    return operands.behind_pixels(node, 1)


VARIANTS = (
    replace(portable(CONV2D, _conv2d_work), behind=_behind_one),
    Variant(CONV2D, _conv2d_dots, suffix="simd32_dot", shared=("c",), isa=Isa.SIMD32, behind=_behind_one),
    replace(portable(DEPTHWISE, _depthwise_conv2d_work), behind=lambda node, _: operands.behind_channels(node)),
    Variant(
        DEPTHWISE,
        _depthwise_conv2d_held,
        suffix="held",
        body="c",
        tiles=operands.HELD,
        fits=operands.holds,
        same_time=True,
        behind=operands.behind_held,
    ),
    portable(TRANSPOSE, _transpose_conv2d_work),
    Variant(TRANSPOSE, _transpose_conv2d_by_fours, suffix="simd32", isa=Isa.SIMD32),
    portable(DENSE, _dense_work),
    Variant(CONV2D, lambda node, _: _conv2d_work(node), suffix="nibbles", accepts=_fits_nibbles, pack=_nibbles),
    Variant(DENSE, lambda node, _: _dense_work(node), suffix="nibbles", accepts=_fits_nibbles, pack=_nibbles),
)
