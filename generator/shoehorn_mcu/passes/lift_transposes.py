"""The pass `lift-transposes`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from shoehorn_mcu.ir import Graph, Op, Tensor
from shoehorn_mcu.ir.edit import only_reader, readers, with_ops
from shoehorn_mcu.ops import Reshape, Transpose


def lift_transposes(graph: Graph) -> Graph:
    """Moves a transpose before the ops on single elements that are between it and other ops that move elements.

    >   b = Reshape(Transpose(x)); c = Relu(b); y = Transpose(c)             nothing else reads b or c
    <   b = Reshape(Transpose(x)); c = Transpose(b); y = Relu(c)

    So merge-transposes and fuse-shuffle find these side by side, as where an activation follows a channel shuffle.
    """
    readers_of, written = readers(graph), {op.output: op for op in graph.ops}
    tensors, ops = dict(graph.tensors), dict(written)
    for last in graph.ops:
        chain = _between(graph, last, written, readers_of) if isinstance(last, Transpose) else []
        if not chain:
            continue
        shape, source = tensors[last.output].type.shape, chain[0][0].inputs[chain[0][1]]
        kind = tensors[source].type
        # Each op writes what the op behind it wrote before, the transpose what the first one wrote.
        for (op, place), name in zip(((last, 0), *chain), (*(op.output for op, _ in chain), last.output), strict=True):
            kind = kind if op is last else graph.tensors[op.output].type
            tensors[name] = Tensor(name, replace(kind, shape=shape))
            ops[name] = replace(op, inputs=(*op.inputs[:place], source, *op.inputs[place + 1 :]), output=name)
            source = name
    return with_ops(replace(graph, tensors=tensors), ops.values())


def _between(
    graph: Graph, last: Transpose, written: Mapping[str, Op], readers_of: Mapping[str, tuple[Op, ...]]
) -> list[tuple[Op, int]]:
    """The ops on single elements from one that moves elements to this one, in their order, with the place of what they
    compute on; empty where there are none.
    """
    found: list[tuple[Op, int]] = []
    op = written.get(last.inputs[0])
    while op is not None and only_reader(graph, readers_of, op.output) is not None:
        if isinstance(op, Reshape | Transpose):
            return found[::-1]
        place = by_element(graph, op)
        if place is None:
            return []
        found.append((op, place))
        op = written.get(op.inputs[place])
    return []


def by_element(graph: Graph, op: Op) -> int | None:
    """The operand of which an op computes each element alone, beside numbers; None where there is none."""
    if not op.any_shape:
        return None
    wide = [place for place, name in enumerate(op.inputs) if graph.tensors[name].type.elements > 1]
    same = len(wide) == 1 and graph.tensors[op.inputs[wide[0]]].type.shape == graph.tensors[op.output].type.shape
    return wide[0] if same else None
