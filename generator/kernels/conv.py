"""Kernels of the linear ops: convolutions and dense layers."""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from generator.ir import DType, Node
from generator.kernels.base import Kernel, Value
from generator.kernels.operands import all_s8, are, data
from generator.kernels.work import BLOCK, Work, by_blocks, elements, inside
from generator.ops import Conv2d, Dense, DepthwiseConv2d, TransposeConv2d
from generator.ops.conv import Window, conv_scales, dense_scales, folded_bias


def _linear_s8(node: Node) -> bool:
    _, weights, bias = node.inputs
    constant = weights.data is not None and bias.data is not None
    return constant and all_s8(node) and are(DType.INT8, weights) and are(DType.INT32, bias)


def _window(op: Conv2d | DepthwiseConv2d | TransposeConv2d, node: Node) -> dict[str, Value]:
    """What the three convolutions share."""
    x, weights, _ = node.inputs
    multipliers, shifts = conv_scales(node.sig)
    return {
        "in_width": x.type.nhwc[2],
        "in_channels": x.type.nhwc[3],
        "out_width": node.output.type.nhwc[2],
        "kernel_height": weights.type.shape[1],
        "kernel_width": weights.type.shape[2],
        "stride": op.stride[1],
        "pad_left": op.padding.left,
        "x_zero": x.type.quantised.zero_point,
        "y_zero": node.output.type.quantised.zero_point,
        "y_min": op.clamp.low,
        "y_max": op.clamp.high,
        "weights": data(weights),
        "multipliers": multipliers,
        "shifts": shifts,
    }


def _folded(node: Node, channel_axis: int) -> Value:
    x, weights, bias = node.inputs
    return folded_bias(data(weights), data(bias), x.type.quantised.zero_point, channel_axis)


def _conv2d(node: Node) -> dict[str, Value]:
    op = cast(Conv2d, node.op)
    outputs, _, _, group_inputs = node.inputs[1].type.shape
    groups = node.inputs[0].type.nhwc[3] // group_inputs
    return {
        **_window(op, node),
        "dilation": op.dilation[1],
        "groups": groups,
        "group_inputs": group_inputs,
        "group_outputs": outputs // groups,
        "bias": _folded(node, 0),
    }


def _depthwise_conv2d(node: Node) -> dict[str, Value]:
    op = cast(DepthwiseConv2d, node.op)
    x, weights, _ = node.inputs
    return {
        **_window(op, node),
        "dilation": op.dilation[1],
        "channel_multiplier": weights.type.shape[3] // x.type.nhwc[3],
        "bias": _folded(node, 3),
    }


def _transpose_conv2d(node: Node) -> dict[str, Value]:
    op = cast(TransposeConv2d, node.op)
    return {**_window(op, node), "out_channels": node.output.type.nhwc[3], "bias": data(node.inputs[2])}


def _dense(node: Node) -> dict[str, Value]:
    op = cast(Dense, node.op)
    outputs, inputs = node.inputs[1].type.shape
    multipliers, shifts = dense_scales(node.sig)
    return {
        "positions": node.output.type.nhwc[2],
        "inputs": inputs,
        "outputs": outputs,
        "y_zero": node.output.type.quantised.zero_point,
        "y_min": op.clamp.low,
        "y_max": op.clamp.high,
        "weights": data(node.inputs[1]),
        "bias": _folded(node, 0),
        "multipliers": multipliers,
        "shifts": shifts,
    }


def _right_shifts(node: Node, shifts: NDArray[np.int8]) -> float:
    """Outputs of a row that are rounded with a shift to the right."""
    return node.output.type.row_elements * float((shifts < 0).mean())


def window_taps(op: Window, node: Node) -> tuple[float, float]:
    """Taps of one channel in a row of outputs: those inside the input, and those in the padding."""
    _, height, width, _ = node.inputs[0].type.nhwc
    _, out_height, out_width, _ = node.output.type.nhwc
    _, kernel_height, kernel_width, _ = op.weights(node.sig).shape
    down = inside(out_height, kernel_height, height, op.stride[0], op.padding.top, op.dilation[0])
    across = inside(out_width, kernel_width, width, op.stride[1], op.padding.left, op.dilation[1])
    within = down * across / out_height
    return within, kernel_height * kernel_width * out_width - within


def _conv2d_work(node: Node) -> Work:
    op = cast(Conv2d, node.op)
    channels, kernel_height, _, group_inputs = node.inputs[1].type.shape
    within, padded = window_taps(op, node)
    outputs = node.output.type.row_elements
    pixels = node.output.type.nhwc[2]
    return elements(within * channels, group_inputs) + Work(
        pixels=pixels,
        blocks=pixels * (node.inputs[0].type.nhwc[3] // group_inputs),
        kernel_rows=outputs * kernel_height,
        outputs=outputs,
        right_shifts=_right_shifts(node, conv_scales(node.sig)[1]),
        padded=padded * channels,
        padded_elements=padded * channels * group_inputs,
    )


def _depthwise_conv2d_work(node: Node) -> Work:
    op = cast(DepthwiseConv2d, node.op)
    _, kernel_height, _, channels = node.inputs[1].type.shape
    within, padded = window_taps(op, node)
    pixels = node.output.type.nhwc[2]
    blocks = pixels * -(-channels // BLOCK)
    return by_blocks(within + padded, channels) + Work(
        pixels=pixels,
        blocks=blocks,
        kernel_rows=blocks * kernel_height,
        outputs=node.output.type.row_elements,
        right_shifts=_right_shifts(node, conv_scales(node.sig)[1]),
        padded=padded * -(-channels // BLOCK),
        padded_elements=padded * channels,
        divided=within * channels if channels != node.inputs[0].type.nhwc[3] else 0,
    )


def _transpose_conv2d_work(node: Node) -> Work:
    op = cast(TransposeConv2d, node.op)
    _, height, width, inputs = node.inputs[0].type.nhwc
    _, out_height, out_width, channels = node.output.type.nhwc
    kernel_height, kernel_width = node.inputs[1].type.shape[1:3]
    # Tap k of output o reads input (o + before - k) / stride, where that is a whole number inside the input.
    rows = _hits(out_height, kernel_height, height, op.stride[0], op.padding.top) / out_height
    columns = _hits(out_width, kernel_width, width, op.stride[1], op.padding.left)
    return elements(rows * columns * channels, inputs) + Work(
        pixels=out_width,
        kernel_rows=rows * out_width * channels,
        padded=(kernel_height - rows) * out_width * channels,
        outputs=out_width * channels,
        right_shifts=_right_shifts(node, conv_scales(node.sig)[1]),
    )


def _hits(outputs: int, taps: int, size: int, stride: int, before: int) -> int:
    """Places of a transpose convolution's window, along one dimension, at which an input lies."""
    places = np.arange(outputs)[:, None] + before - np.arange(taps)[None]
    return int(((places % stride == 0) & (places >= 0) & (places < size * stride)).sum())


def _dense_work(node: Node) -> Work:
    outputs, inputs = node.inputs[1].type.shape
    pixels = node.output.type.nhwc[2]
    return elements(pixels * outputs, inputs) + Work(
        pixels=pixels, outputs=pixels * outputs, right_shifts=_right_shifts(node, dense_scales(node.sig)[1])
    )


KERNELS = (
    Kernel(op=Conv2d, name="conv2d_s8", params=_conv2d, work=_conv2d_work, accepts=_linear_s8),
    Kernel(
        op=DepthwiseConv2d,
        name="depthwise_conv2d_s8",
        params=_depthwise_conv2d,
        work=_depthwise_conv2d_work,
        accepts=_linear_s8,
    ),
    Kernel(
        op=TransposeConv2d,
        name="transpose_conv2d_s8",
        params=_transpose_conv2d,
        work=_transpose_conv2d_work,
        accepts=_linear_s8,
    ),
    Kernel(op=Dense, name="dense_s8", params=_dense, work=_dense_work, accepts=_linear_s8),
)
