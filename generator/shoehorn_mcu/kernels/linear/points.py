"""Two forms of one sum: a dense layer is a 1x1 convolution, and one over rows of a single pixel is a dense layer.

Both have the same multipliers (LinearOp.scales), and add real numbers in the same order, so each may run the
kernels of the other, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from shoehorn_mcu.ir import DType, Node, Tensor, is_a
from shoehorn_mcu.kernels.base.operands import all_s8
from shoehorn_mcu.ops import Conv2d, Dense, LinearOp

Shape = tuple[int, ...]

OTHER_CONTRACT = {
    "conv2d_s8": "dense_s8",
    "dense_s8": "conv2d_s8",
    "conv2d_f32": "dense_f32",
    "dense_f32": "conv2d_f32",
}
"""By the name of a contract: that of the other form."""

_REALS = (DType.FLOAT32, DType.FLOAT16)


def other_form(node: Node) -> Callable[[Node], Node] | None:
    """What makes a node the same sum in the other form; None where it has none."""
    if not is_a(node, LinearOp) or not isinstance(node.op, Dense | Conv2d):
        return None
    integers = all_s8(node) and node.weights.type.dtype in (DType.INT8, DType.INT16)
    if not integers and not all(t.type.dtype in _REALS for t in (*node.inputs, node.output)):
        return None
    if isinstance(node.op, Dense):
        return as_convolution
    x, weights = (tensor.type.shape for tensor in node.inputs[:2])
    is_column = x[:3] == node.output.type.shape[:3] and x[2] == 1 and weights[1:] == (1, 1, x[3])
    return as_dense if is_column else None


def as_convolution(node: Node) -> Node:
    """A dense layer as a 1x1 convolution over a map of as many rows."""
    assert is_a(node, Dense)
    x, weights, _ = node.inputs
    outputs, inputs = weights.type.shape
    return _formed(node, Conv2d, x.type.nhwc, (outputs, 1, 1, inputs), node.output.type.nhwc)


def as_dense(node: Node) -> Node:
    """A 1x1 convolution over rows of one pixel as a dense layer."""
    assert is_a(node, Conv2d)
    x, weights, _ = node.inputs
    outputs, _, _, inputs = weights.type.shape
    return _formed(node, Dense, x.type.shape, (outputs, inputs), node.output.type.shape)


def _formed(node: Node[Conv2d | Dense], form: type[Conv2d | Dense], x: Shape, weights: Shape, y: Shape) -> Node:
    op, shapes = node.op, (x, weights, node.bias.type.shape)
    made = form(name=op.name, inputs=op.inputs, output=op.output, clamp=op.clamp, fused=op.fused)
    return Node(made, tuple(map(_shaped, node.inputs, shapes)), _shaped(node.output, y))


def _shaped(tensor: Tensor, shape: Shape) -> Tensor:
    data = None if tensor.data is None else tensor.data.reshape(shape)
    return replace(tensor, type=replace(tensor.type, shape=shape), data=data)
