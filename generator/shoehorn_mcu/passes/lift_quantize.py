"""The pass `lift-quantize`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from shoehorn_mcu.ir import Graph, Op, Tensor
from shoehorn_mcu.ir.edit import only_reader, readers, with_ops
from shoehorn_mcu.ops import Quantize, Reshape, Transpose


def lift_quantize(graph: Graph) -> Graph:
    """Quantises elements before they are moved, not behind that.

    >   a = HardSigmoid(x); b = Reshape(a) shape=(1, 1, 1, 16); y = Quantize(b): int8     nothing else reads b
    <   a = HardSigmoid(x); b = Quantize(a): int8; y = Reshape(b) shape=(1, 1, 1, 16)

    The elements that are moved have 8 bits then, and `fuse-tables` finds the op that computes them next to the one that
    quantises them. Exact: all elements have one scale, and those of float16 have none.
    """
    readers_of, writers = readers(graph), {op.output: op for op in graph.ops}
    tensors, ops = dict(graph.tensors), dict(writers)
    for last in graph.ops:
        if isinstance(last, Quantize) and (moves := _before(graph, readers_of, writers, last)):
            made, source = graph.tensors[last.output].type, moves[0].inputs[0]
            for op, name in zip((last, *moves), [op.output for op in (*moves, last)], strict=True):
                ops[name] = replace(op, inputs=(source, *op.inputs[1:]), output=name)
                shape = graph.tensors[source if op is last else op.output].type.shape
                tensors[name] = Tensor(name, replace(made, shape=shape))
                source = name
    return with_ops(replace(graph, tensors=tensors), ops.values())


def _before(
    graph: Graph, readers_of: Mapping[str, tuple[Op, ...]], writers: Mapping[str, Op], last: Op
) -> list[Reshape | Transpose]:
    """The movers in a row that end with what `last` alone reads, the first one first."""
    found: list[Reshape | Transpose] = []
    reader = last
    while isinstance(op := writers.get(reader.inputs[0]), Reshape | Transpose):
        if only_reader(graph, readers_of, op.output) is not reader or graph.tensors[op.inputs[0]].data is not None:
            break
        found.insert(0, op)
        reader = op
    return found
