"""The pass `fuse-maps`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from shoehorn_mcu.ir import DType, Graph
from shoehorn_mcu.ir.edit import readers, with_ops
from shoehorn_mcu.ops import Map
from shoehorn_mcu.ops.formula import compose
from shoehorn_mcu.ops.maps import MOST_OPERANDS

MOST_STEPS = 256
"""Of a fused formula: a longer one is a longer function than its compiler has registers for."""


def fuse_maps(graph: Graph) -> Graph:
    """Makes one formula of two in a row, element by element, where nothing else reads the tensor between them.

    >   a = Map(x, "x / 1.41"); b = Map(a, "erf(a)"); c = Map(b, "b + 1"); y = Map(x, c, "0.5 * x * c")
    <   y = Map(x, "0.5 * x * (erf(x / 1.41) + 1)")                                                   GELU

    Exact: the formula has the same steps, each rounded as before. Constants of one element become numbers of the
    formula. A tensor that the reader repeats by broadcasting stays, so that no element is computed twice.
    """
    readers_of, tensors = readers(graph), graph.tensors
    ops = {op.output: op for op in graph.ops}
    for last in graph.ops:
        op = ops[last.output]
        for name in dict.fromkeys(op.inputs):
            before = ops.get(name)
            alone = name not in graph.results and len({each.name for each in readers_of[name]}) == 1
            if isinstance(op, Map) and isinstance(before, Map) and alone and _alike(graph, name, op.output):
                made = _fused(graph, op, before, name)
                if made is not None:
                    op = ops[op.output] = made
                    del ops[name]
    return with_ops(replace(graph, tensors=tensors), ops.values())


def _alike(graph: Graph, name: str, output: str) -> bool:
    return graph.tensors[name].type.shape == graph.tensors[output].type.shape


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
