"""The pass `fuse-clamp`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from shoehorn_mcu.ir import DType, Graph, Node, Op
from shoehorn_mcu.ir.edit import only_reader, readers, with_ops
from shoehorn_mcu.ops import Clamp, Clamped, Unary


def fuse_clamp(graph: Graph) -> Graph:
    """Moves a Relu (or any unary op that only clamps stored values) into the op whose output it alone reads.

    >   a = Add(x, y) clamp=-128..127; b = Relu(a)      a and b have one quantisation, nothing else reads a
    <   b = Add(x, y) clamp=0..127

    Exact: the producer clamps last, so two clamps in a row equal one clamp to their intersection.
    """
    readers_of = readers(graph)
    writers = {node.op.output: node for node in graph.nodes()}
    fused: dict[str, Op] = {}  # name of a producer -> the same with the bounds
    dropped: set[str] = set()
    for node in graph.nodes():
        producer = writers.get(node.op.inputs[0])
        if producer is None or only_reader(graph, readers_of, node.op.inputs[0]) is not node.op:
            continue
        op, bounds = fused.get(producer.op.name, producer.op), _bounds(node)
        if not isinstance(op, Clamped) or not isinstance(op.clamp, Clamp):
            continue
        if bounds is not None and node.x.type == node.output.type:
            both = Clamp(max(op.clamp.low, bounds.low), min(op.clamp.high, bounds.high))
            if both.low <= both.high:
                fused[producer.op.name] = replace(op, output=node.op.output, clamp=both)
                dropped.add(node.op.name)
                writers[node.op.output] = producer  # a second clamp in a row is fused into the same op
    return with_ops(graph, (fused.get(op.name, op) for op in graph.ops if op.name not in dropped))


def _bounds(node: Node) -> Clamp | None:
    """The bounds of an int8 unary op that only clamps, found from its table of 256 results; None for any other op."""
    if not isinstance(node.op, Unary) or not node.x.type.dtype is node.output.type.dtype is DType.INT8:
        return None
    table = np.asarray(node.op.table(node.sig)).astype(np.int64)
    low, high = int(table.min()), int(table.max())
    return Clamp(low, high) if np.array_equal(table, np.clip(np.arange(-128, 128), low, high)) else None
