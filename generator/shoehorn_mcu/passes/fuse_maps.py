"""The pass `fuse-maps`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from shoehorn_mcu.ir import DType, Graph, Op
from shoehorn_mcu.ir.edit import readers, with_ops
from shoehorn_mcu.ops import Add, DepthwiseConv2d, Map, Sub
from shoehorn_mcu.ops.clamp import Bounds
from shoehorn_mcu.ops.conv import Padding
from shoehorn_mcu.ops.formula import Term, compose, formula
from shoehorn_mcu.ops.maps import MOST_OPERANDS

MOST_STEPS = 256
"""Of a fused formula: a longer one is a longer function than its compiler has registers for."""


def fuse_maps(graph: Graph) -> Graph:
    """Makes one formula of two in a row, element by element, where nothing else reads the tensor between them.

    >   a = Map(x, "x / 1.41"); b = Map(a, "erf(a)"); c = Map(b, "b + 1"); y = Map(x, c, "0.5 * x * c")
    <   y = Map(x, "0.5 * x * (erf(x / 1.41) + 1)")                                                   GELU

    One of both may be a sum, or a factor and an addend for all channels, of float32. Exact: the formula has the same
    steps, each rounded as before. Constants of one element become numbers of the formula. A tensor that the reader
    repeats by broadcasting stays, so that no element is computed twice.
    """
    readers_of = readers(graph)
    ops = {op.output: op for op in graph.ops}
    for last in graph.ops:
        op = ops[last.output]
        for name in dict.fromkeys(op.inputs):
            before = ops.get(name)
            alone = name not in graph.results and len({each.name for each in readers_of[name]}) == 1
            alike = graph.tensors[name].type.shape == graph.tensors[op.output].type.shape
            if before is None or not alone or not alike:
                continue
            made = _of_both(graph, op, before, name)
            if made is not None:
                op = ops[op.output] = made
                del ops[name]
    return with_ops(graph, ops.values())


def _of_both(graph: Graph, op: Op, before: Op, name: str) -> Map | None:
    """One op for both, of which one has a formula and the other one may have it."""
    if not isinstance(op, Map) and not isinstance(before, Map):
        return None
    outer, inner = (each if isinstance(each, Map) else _as_map(graph, each) for each in (op, before))
    return None if outer is None or inner is None else _fused(graph, outer, inner, name)


def _as_map(graph: Graph, op: Op) -> Map | None:
    """The op as a formula that computes the same bits; None where it is no such op."""
    types = [graph.tensors[name].type for name in (*op.inputs[:1], op.output)]
    if any(each.dtype is not DType.FLOAT32 for each in types) or types[0].shape != types[1].shape:
        return None
    if isinstance(op, Add | Sub) and graph.tensors[op.inputs[1]].type.shape == types[0].shape:
        bounds, is_sum = op.clamp, isinstance(op, Add)
        made = formula(lambda a, b: _bounded(a + b if is_sum else a - b, bounds), DType.FLOAT32, DType.FLOAT32)
        return Map(name=op.name, inputs=op.inputs, output=op.output, formula=made.text)
    if not isinstance(op, DepthwiseConv2d) or op.padding != Padding() or op.stride != (1, 1) or op.fused:
        return None
    weights, bias = (graph.tensors[name].data for name in op.inputs[1:])
    if (
        weights is None
        or bias is None
        or weights.shape[:3] != (1, 1, 1)
        or len({*weights.flat}) * len({*bias.flat}) > 1
    ):
        return None
    factor, addend, limits = float(weights.flat[0]), float(bias.flat[0]), op.clamp
    # A convolution's sum begins with +0: adding a bias of 0 makes -0 to that as well.
    scaled = formula(lambda t: _bounded((t if factor == 1 else t * factor) + (addend or 0.0), limits), DType.FLOAT32)
    return Map(name=op.name, inputs=op.inputs[:1], output=op.output, formula=scaled.text)


def _bounded(value: Term, bounds: Bounds) -> Term:
    """Within the bounds, as ops.real.clamped: NaN stays."""
    if np.isfinite(bounds.low):
        value = (value < bounds.low).select(bounds.low, value)
    return (bounds.high < value).select(bounds.high, value) if np.isfinite(bounds.high) else value


def _fused(graph: Graph, op: Map, before: Map, name: str) -> Map | None:
    """One op for both; None where it would have too many operands or steps, or none that is computed."""
    numbers = {n: value for n in (*op.inputs, *before.inputs) if (value := _number(graph, n)) is not None}
    made, operands = compose((op.parsed, op.inputs), (before.parsed, before.inputs), name, numbers)
    if not 0 < len(operands) <= MOST_OPERANDS or len(made.steps) > MOST_STEPS:
        return None
    fused = replace(op, inputs=operands, formula=made.text, stored=op.stored or before.stored)
    kinds = tuple(graph.tensors[n].type for n in operands)
    return fused if fused.infer(kinds) == graph.tensors[op.output].type.shape else None


def _number(graph: Graph, name: str) -> float | int | None:
    """The value of a constant of one element that a formula can have as a number."""
    tensor = graph.tensors[name]
    if tensor.data is None or tensor.data.size != 1 or tensor.type.dtype is DType.FLOAT16:
        return None
    value: float | int = tensor.data.reshape(()).item()
    return value if np.isfinite(value) else None
