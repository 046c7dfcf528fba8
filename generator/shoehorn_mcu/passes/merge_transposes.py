"""The pass `merge-transposes`."""

from __future__ import annotations

from dataclasses import replace

from shoehorn_mcu.ir import Graph, Op
from shoehorn_mcu.ir.edit import reading, with_ops
from shoehorn_mcu.ops import Transpose
from shoehorn_mcu.ops.layout import in_order
from shoehorn_mcu.passes.drop_dead import drop_dead


def merge_transposes(graph: Graph) -> Graph:
    """Makes one of two transposes in a row, none where they undo each other, and a view of one that moves nothing.

    >   a = Transpose(x) perm=(0, 2, 3, 1); b = Transpose(a) perm=(0, 3, 1, 2); y = Tanh(b)
    <   y = Tanh(x)

    >   a = Transpose(x: 1x6x6x1) perm=(0, 3, 1, 2)
    <   a = Reshape(x) shape=(1, 1, 6, 6)

    A transpose whose result is read elsewhere, or is an output or a state of the graph, stays for that.
    """
    inner: dict[str, Transpose] = {}  # by output
    source: dict[str, str] = {}  # dropped tensor -> the tensor that it equals
    ops: list[Op] = []
    for old in graph.ops:
        op = reading(old, source)
        if isinstance(op, Transpose):
            while (before := inner.get(op.inputs[0])) is not None:
                op = replace(op, inputs=before.inputs, perm=tuple(before.perm[place] for place in op.perm))
            if op.perm == tuple(range(len(op.perm))) and op.output not in graph.results:
                source[op.output] = op.inputs[0]
                continue
            moved = in_order(op.name, graph.tensors[op.inputs[0]], op.output, op.perm)
            if isinstance(moved, Transpose):
                inner[op.output] = moved
            ops.append(moved)
        else:
            ops.append(op)
    return drop_dead(with_ops(graph, ops))
