"""The pass `drop-dead`."""

from __future__ import annotations

from shoehorn_mcu.ir import Graph, Op
from shoehorn_mcu.ir.edit import with_ops


def drop_dead(graph: Graph) -> Graph:
    """Drops ops that no output and no state needs; the graph's inputs stay.

    >   a = Relu(x); b = Tanh(x)    output a
    <   a = Relu(x)                 output a
    """
    needed = set(graph.results)
    kept: list[Op] = []
    for op in reversed(graph.ops):
        if op.output in needed:
            kept.append(op)
            needed.update(op.inputs)
    return with_ops(graph, reversed(kept))
