"""The pass `fold-affine`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.ir import DType, Graph, Node, Op, Tensor
from shoehorn_mcu.ir.edit import free_name, only_reader, readers, with_ops
from shoehorn_mcu.ops import Clamped, Conv2d, Dense, DepthwiseConv2d, Padding, RealClamp

Floats = NDArray[np.float64]


def fold_affine(graph: Graph) -> Graph:
    """Moves a factor and an addend per channel, such as a batch normalisation, into the op whose output it alone reads.

    >   a = Conv2d(x, w, b); y = DepthwiseConv2d(a, f, c) 1x1, clamp=0..6      nothing else reads a; float32
    <   y = Conv2d(x, w * f, b * f + c) clamp=0..6

    An activation, whose factor is 1 and whose addend is 0, is moved into every op that clamps its result. That is
    exact; products of constants are rounded to float32 once, so results differ from the unfolded ones as two roundings
    of one sum do. The source is Jacob et al. (2018), Quantization and Training of Neural Networks, section 3.2.
    """
    readers_of, tensors = readers(graph), dict(graph.tensors)
    ops: list[Op | None] = list(graph.ops)
    place = {op.output: i for i, op in enumerate(graph.ops)}  # of the op that writes a tensor, folded ones too
    for node in graph.nodes():
        source = node.op.inputs[0]
        if not _is_affine(node) or source not in place or only_reader(graph, readers_of, source) is not node.op:
            continue
        before = ops[place[source]]
        assert before is not None  # it writes what this op reads
        folded = _folded(Node(before, tuple(tensors[n] for n in before.inputs), node.inputs[0]), node, tensors)
        if folded is not None:
            ops[place[node.op.output]] = None
            ops[place[source]] = folded
            place[node.op.output] = place[source]
    return with_ops(replace(graph, tensors=tensors), (op for op in ops if op is not None))


def _is_affine(node: Node) -> bool:
    """Whether the op is a product and a sum per channel, in float32."""
    op = node.op
    if not isinstance(op, DepthwiseConv2d) or node.output.type.dtype is not DType.FLOAT32:
        return False
    one = node.inputs[1].type.shape == (1, 1, 1, node.inputs[0].type.nhwc[3])
    return one and op.stride == (1, 1) and op.padding == Padding()


def _folded(before: Node, node: Node, tensors: dict[str, Tensor]) -> Op | None:
    """The op that computes both, whose new constants go into `tensors`; None where the one before cannot take it."""
    op, producer = node.op, before.op
    assert isinstance(op, DepthwiseConv2d)
    if not isinstance(producer, Clamped) or before.output.type.dtype is not DType.FLOAT32:
        return None
    factor, addend = (_values(tensor).reshape(-1) for tensor in node.inputs[1:])
    if (factor == 1).all() and not addend.any():
        low, high = max(op.clamp.low, producer.clamp.low), min(op.clamp.high, producer.clamp.high)
        return replace(producer, output=op.output, clamp=RealClamp(low, high)) if low <= high else None
    if not isinstance(producer, Conv2d | DepthwiseConv2d | Dense) or producer.clamp != RealClamp():
        return None
    weights, bias = (_values(tensor) for tensor in before.inputs[1:])
    along = factor if isinstance(producer, DepthwiseConv2d) else factor.reshape(-1, *(1,) * (weights.ndim - 1))
    data = [(weights * along).astype(np.float32), (bias * factor + addend).astype(np.float32)]
    if not all(np.isfinite(array).all() for array in data):
        return None
    names = []
    for old, array in zip(before.inputs[1:], data, strict=True):
        names.append(free_name(tensors, old.name))
        tensors[names[-1]] = Tensor(names[-1], old.type, array)
    return replace(producer, inputs=(producer.inputs[0], *names), output=op.output, clamp=op.clamp)


def _values(tensor: Tensor) -> Floats:
    assert tensor.data is not None  # both ops' laws want constants
    return tensor.data.astype(np.float64)
