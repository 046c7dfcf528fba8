"""The pass `drop-views`."""

from __future__ import annotations

from shoehorn_mcu.ir import Graph, Node, Op
from shoehorn_mcu.ir.edit import only_reader, readers, reading, with_ops
from shoehorn_mcu.ops import Pad, Reshape, Slice, Transpose


def drop_views(graph: Graph) -> Graph:
    """Drops ops that return their input unchanged, and merges consecutive reshapes.

    >   a = Reshape(x: 4x4) shape=(4, 4); b = Tanh(a)       output b
    <   b = Tanh(x)                                         output b

    >   a = Reshape(x) shape=(16,); b = Reshape(a) shape=(2, 8)     output b, nothing else reads a
    <   b = Reshape(x) shape=(2, 8)                                 output b

    An op whose result is an output or a state of the graph stays, so that the tensor keeps its name.
    """
    readers_of = readers(graph)
    source: dict[str, str] = {}  # dropped tensor -> the tensor that it equals
    kept: list[Op] = []
    for old in graph.ops:
        op = reading(old, source)
        merges = isinstance(op, Reshape) and isinstance(only_reader(graph, readers_of, op.output), Reshape)
        if merges or (_changes_nothing(graph.node(op)) and op.output not in graph.results):
            source[op.output] = op.inputs[0]
        else:
            kept.append(op)
    return with_ops(graph, kept)


def _changes_nothing(node: Node) -> bool:
    """Whether the output is the input: same type, same elements in the same places."""
    op, x, y = node.op, node.x.type, node.output.type
    if x != y:
        return False
    if isinstance(op, Slice):
        return not any(op.begin) and all(s == 1 for s in op.step)
    if isinstance(op, Transpose):
        return op.perm == tuple(range(len(op.perm)))
    return isinstance(op, Reshape | Pad)  # of equal shapes: a Pad that pads nothing
