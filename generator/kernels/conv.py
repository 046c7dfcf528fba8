"""Kernels of the linear ops: convolutions and dense layers."""

from __future__ import annotations

from typing import cast

from generator.ir import DType, Node
from generator.kernels.base import Kernel, Value
from generator.kernels.operands import all_s8, are, data
from generator.ops import Conv2d, Dense, DepthwiseConv2d, TransposeConv2d
from generator.ops.conv import conv_scales, dense_scales, folded_bias


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


KERNELS = (
    Kernel(op=Conv2d, name="conv2d_s8", params=_conv2d, accepts=_linear_s8),
    Kernel(op=DepthwiseConv2d, name="depthwise_conv2d_s8", params=_depthwise_conv2d, accepts=_linear_s8),
    Kernel(op=TransposeConv2d, name="transpose_conv2d_s8", params=_transpose_conv2d, accepts=_linear_s8),
    Kernel(op=Dense, name="dense_s8", params=_dense, accepts=_linear_s8),
)
