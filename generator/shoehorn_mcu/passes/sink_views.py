"""The pass `sink-views`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from shoehorn_mcu.ir import Graph, Op, Tensor
from shoehorn_mcu.ir.edit import only_reader, readers, reading, with_ops
from shoehorn_mcu.ops import Dequantize, Map, Quantize, Reshape, Softmax, Unary


def sink_views(graph: Graph) -> Graph:
    """Drops a reshape and the one that undoes it, where each op between them computes the same in the first shape.

    >   a = MatMul(q, k): 1x4x64x1x64; b = Reshape(a): 1x4x64x64; c = Softmax(b); d = Reshape(c): 1x4x64x1x64
    <   a = MatMul(q, k): 1x4x64x1x64; c = Softmax(a): 1x4x64x1x64                        nothing else reads b or c

    A view holds its tensor whole. Without it attention runs row by row, and its scores are never whole.
    """
    readers_of = readers(graph)
    tensors, source = dict(graph.tensors), dict[str, str]()
    for first in graph.ops:
        chain = _between(graph, readers_of, first)
        if isinstance(first, Reshape) and chain is not None:
            *inner, last = chain
            before = first.inputs[0]
            shape = tensors[before].type.shape
            for op in inner:
                tensors[op.output] = Tensor(op.output, replace(tensors[op.output].type, shape=shape))
            source |= {first.output: before, last.output: inner[-1].output}
    kept = (op for op in graph.ops if op.output not in source)
    moved = (reading(op, source) for op in kept)
    return with_ops(replace(graph, tensors=tensors), moved)


def _between(graph: Graph, readers_of: Mapping[str, tuple[Op, ...]], first: Op) -> list[Op] | None:
    """The ops behind a reshape up to the one that undoes it, with that; None where there is no such row of ops."""
    if not isinstance(first, Reshape) or graph.tensors[first.inputs[0]].data is not None:
        return None
    shape = graph.tensors[first.inputs[0]].type.shape
    found: list[Op] = []
    op: Op = first
    while (after := only_reader(graph, readers_of, op.output)) is not None:
        found.append(after)
        if isinstance(after, Reshape):
            undone = graph.tensors[after.output].type.shape == shape and after.output not in graph.results
            return found if undone and len(found) > 1 else None
        if not _keeps_meaning(graph, after, shape):
            return None
        op = after
    return None


def _keeps_meaning(graph: Graph, op: Op, shape: tuple[int, ...]) -> bool:
    """Whether an op of one tensor, beside numbers, computes the same elements where that tensor has this shape."""
    inputs = [graph.tensors[name].type for name in op.inputs]
    if isinstance(op, Map):
        wide = [kind for kind in inputs if kind.elements > 1]
        return (
            len(wide) == 1 and wide[0].shape == graph.tensors[op.output].type.shape and len(shape) >= len(wide[0].shape)
        )
    if isinstance(op, Unary | Quantize | Dequantize):
        quants = (inputs[0].quant, graph.tensors[op.output].type.quant)
        return all(quant is None or len(quant.scales) == 1 for quant in quants)
    return isinstance(op, Softmax) and shape[-1:] == inputs[0].shape[-1:]
