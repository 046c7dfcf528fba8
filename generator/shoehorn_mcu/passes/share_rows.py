"""The pass `share-rows`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from shoehorn_mcu.ir import Graph, Node, Op, parts_of
from shoehorn_mcu.ir.edit import readers, with_ops
from shoehorn_mcu.ops import Sharer

MOST_DROPPED = 0.5  # of the input's bytes, by a slice: its rows keep the input's rows alive


def share_rows(graph: Graph) -> Graph:
    """Lets ops read the inputs of a concatenation or slice in its place, where its rows are parts of theirs.

    >   c = Concat(state: 1x10x1x64, x: 1x1x1x64, axis=1); a = Slice(c, 32 of 64 channels); y = DepthwiseConv2d(a)
    <   c and a are shared: the convolution reads rows of state and of x, each from its byte 0 on

    Elements that stay side by side are rows, pixels that follow each other, or channels of a single pixel. A result of
    the model, and what a reshape views, keeps its bytes.
    """
    readers_of = readers(graph)
    viewed = {op.inputs[0] for op in graph.ops if op.view}
    fixed = {*graph.results, *viewed}
    ops = [_shared(node, fixed, readers_of) for node in graph.nodes()]
    if not any(op.shares_rows for op in ops):
        return graph
    # The next value of a state is computed when all has been read that it may be written over.
    written = {state.write for state in graph.states}
    late = {op.name for op in ops if op.output in written and not readers_of.get(op.output)}
    return with_ops(graph, sorted(ops, key=lambda op: op.name in late))


def _shared(node: Node, fixed: Collection[str], readers_of: Mapping[str, Sequence[Op]]) -> Op:
    """The op itself, or as one that shares rows."""
    op = node.op
    if not isinstance(op, Sharer) or op.output in fixed or not readers_of.get(op.output):
        return op
    if any(tensor.data is not None for tensor in node.inputs) or parts_of(node) is None:
        return op
    dropped = sum(tensor.type.bytes for tensor in node.inputs) - node.output.type.bytes
    return replace(op, shared=True) if dropped <= MOST_DROPPED * node.x.type.bytes else op
