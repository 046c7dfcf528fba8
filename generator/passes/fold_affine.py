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
    changed = True
    while changed:
        changed = False
        readers_of = readers(graph)
        writers = {node.op.output: node for node in graph.nodes()}
        for node in graph.nodes():
            before = writers.get(node.op.inputs[0])
            if before is None or only_reader(graph, readers_of, node.op.inputs[0]) is not node.op:
                continue
            if _is_affine(node) and (folded := _folded(graph, before, node)) is not None:
                graph, changed = folded, True
                break
    return graph


def _is_affine(node: Node) -> bool:
    """Whether the op is a product and a sum per channel, in float32."""
    op = node.op
    if not isinstance(op, DepthwiseConv2d) or node.output.type.dtype is not DType.FLOAT32:
        return False
    one = node.inputs[1].type.shape == (1, 1, 1, node.inputs[0].type.nhwc[3])
    return one and op.stride == (1, 1) and op.padding == Padding()


def _folded(graph: Graph, before: Node, node: Node) -> Graph | None:
    """The graph with `node` folded into the op before it; None where that one cannot take it."""
    op, producer = node.op, before.op
    assert isinstance(op, DepthwiseConv2d)
    if not isinstance(producer, Clamped) or before.output.type.dtype is not DType.FLOAT32:
        return None
    factor, addend = (_values(tensor).reshape(-1) for tensor in node.inputs[1:])
    if (factor == 1).all() and not addend.any():
        low, high = max(op.clamp.low, producer.clamp.low), min(op.clamp.high, producer.clamp.high)
        if low > high:
            return None
        joined: Op = replace(producer, output=op.output, clamp=RealClamp(low, high))
        return _with(graph, producer, op, joined, ())
    if not isinstance(producer, Conv2d | DepthwiseConv2d | Dense) or producer.clamp != RealClamp():
        return None
    if any(tensor.data is None for tensor in before.inputs[1:]):
        return None
    weights, bias = (_values(tensor) for tensor in before.inputs[1:])
    along = factor if isinstance(producer, DepthwiseConv2d) else factor.reshape(-1, *(1,) * (weights.ndim - 1))
    data = [(weights * along).astype(np.float32), (bias * factor + addend).astype(np.float32)]
    if not all(np.isfinite(array).all() for array in data):
        return None
    tensors: list[Tensor] = []
    for old, array in zip(before.inputs[1:], data, strict=True):
        name = free_name({*graph.tensors, *(t.name for t in tensors)}, old.name)
        tensors.append(Tensor(name, old.type, array))
    inputs = (producer.inputs[0], *(tensor.name for tensor in tensors))
    return _with(graph, producer, op, replace(producer, inputs=inputs, output=op.output, clamp=op.clamp), tensors)


def _values(tensor: Tensor) -> Floats:
    assert tensor.data is not None  # both ops' laws want constants
    return tensor.data.astype(np.float64)


def _with(graph: Graph, producer: Op, op: Op, joined: Op, tensors: list[Tensor] | tuple[()]) -> Graph:
    """The graph with one op in the place of two, and these constants."""
    more = replace(graph, tensors={**graph.tensors, **{tensor.name: tensor for tensor in tensors}})
    return with_ops(more, (joined if each is producer else each for each in graph.ops if each is not op))
