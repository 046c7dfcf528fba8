"""The pass `widen-depthwise`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from shoehorn_mcu.ir import DType, Graph, Node, Op, Tensor
from shoehorn_mcu.ir.edit import free_name, with_ops
from shoehorn_mcu.ops import Conv2d, DepthwiseConv2d


def widen_depthwise(graph: Graph) -> Graph:
    """Makes a convolution of an int8 depthwise one whose input has a single channel: kernels for that are faster.

    >   y = DepthwiseConv2d(x: 1x49x40x1, w: 1x10x8x8, b)
    <   y = Conv2d(x, w': 8x10x8x1, b)        w'[o, ky, kx, 0] is w[0, ky, kx, o]

    Exact: each output is the same sum, with the same scale.
    """
    tensors = dict(graph.tensors)
    ops = [_widened(node, tensors) if _has_one_channel(node) else node.op for node in graph.nodes()]
    return with_ops(replace(graph, tensors=tensors), ops)


def _has_one_channel(node: Node) -> bool:
    return isinstance(node.op, DepthwiseConv2d) and node.inputs[0].type.shape[3] == 1 and _is_s8(node)


def _is_s8(node: Node) -> bool:
    return node.output.type.dtype is DType.INT8 and node.inputs[1].data is not None


def _widened(node: Node, tensors: dict[str, Tensor]) -> Op:
    """The convolution; its weights go into `tensors`."""
    op, weights = node.op, node.inputs[1]
    assert isinstance(op, DepthwiseConv2d) and weights.data is not None
    data = np.ascontiguousarray(weights.data.transpose(3, 1, 2, 0))
    quant = weights.type.quantised
    along = quant if quant.axis is None else replace(quant, axis=Conv2d.channel_axis)
    name = free_name(tensors, f"{op.name}_weights")
    tensors[name] = replace(weights, name=name, type=replace(weights.type, shape=data.shape, quant=along), data=data)
    return Conv2d(
        name=op.name,
        inputs=(op.inputs[0], name, op.inputs[2]),
        output=op.output,
        stride=op.stride,
        dilation=op.dilation,
        padding=op.padding,
        clamp=op.clamp,
    )
