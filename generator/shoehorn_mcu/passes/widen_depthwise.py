"""The pass `widen-depthwise`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from shoehorn_mcu.ir import DType, Graph, Node, Op, is_a
from shoehorn_mcu.ir.edit import Draft
from shoehorn_mcu.ops import Conv2d, DepthwiseConv2d


def widen_depthwise(graph: Graph) -> Graph:
    """Makes a convolution of an int8 depthwise one whose input has a single channel: kernels for that are faster.

    >   y = DepthwiseConv2d(x: 1x49x40x1, w: 1x10x8x8, b)
    <   y = Conv2d(x, w': 8x10x8x1, b)        w'[o, ky, kx, 0] is w[0, ky, kx, o]

    Exact: each output is the same sum, with the same scale.
    """
    draft = Draft(graph)
    return draft.with_ops(_widened(n, draft) if is_a(n, DepthwiseConv2d) else n.op for n in graph.nodes())


def _widened(node: Node[DepthwiseConv2d], draft: Draft) -> Op:
    """The convolution, whose weights go into the draft; the op itself where it is no such one."""
    op, weights = node.op, node.weights
    if node.x.type.shape[3] != 1 or node.output.type.dtype is not DType.INT8 or weights.data is None:
        return op
    data = np.ascontiguousarray(weights.data.transpose(3, 1, 2, 0))
    quant = weights.type.quantised
    along = quant if quant.axis is None else replace(quant, axis=Conv2d.channel_axis)
    name = draft.tensor(f"{op.name}_weights", replace(weights.type, shape=data.shape, quant=along), data)
    return Conv2d(
        name=op.name,
        inputs=(op.inputs[0], name, op.inputs[2]),
        output=op.output,
        stride=op.stride,
        dilation=op.dilation,
        padding=op.padding,
        clamp=op.clamp,
    )
