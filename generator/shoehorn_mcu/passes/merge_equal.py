"""The pass `merge-equal`: common subexpressions."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import fields

from shoehorn_mcu.ir import Graph, Node, Op
from shoehorn_mcu.ir.edit import reading, with_ops


def merge_equal(graph: Graph) -> Graph:
    """Computes once what two ops of one kind, with equal attributes, compute from equal operands.

    >   a = Relu(x); b = Relu(x); y = Add(a, b)
    <   a = Relu(x); y = Add(a, a)

    Constants are equal if their types and bytes are. An op whose result is an output or a state of the graph stays, and
    so does one that makes more bytes than it reads, such as Pad or Dequantize: to keep its result would cost SRAM, to
    compute it again costs little.
    """
    known: dict[Hashable, str] = {}
    source: dict[str, str] = {}  # dropped tensor -> the tensor that it equals
    kept: list[Op] = []
    for old in graph.ops:
        op = reading(old, source)
        node = graph.node(op)
        first = known.setdefault(_meaning(node), op.output)
        if first != op.output and op.output not in graph.results and not _grows(node):
            source[op.output] = first
        else:
            kept.append(op)
    return with_ops(graph, kept)


def _meaning(node: Node) -> Hashable:
    """Equal for ops that write the same values."""
    own = {each.name for each in fields(Op)}
    attributes = tuple((each.name, getattr(node.op, each.name)) for each in fields(node.op) if each.name not in own)
    operands = tuple(t.name if t.data is None else (t.type, t.data.tobytes()) for t in node.inputs)
    return type(node.op), attributes, operands, node.output.type


def _grows(node: Node) -> bool:
    """Whether a copy of the output needs more bytes than the activations that it is made from; a view needs none."""
    read = sum(tensor.type.bytes for tensor in node.inputs if tensor.data is None)
    return not node.op.view and node.op.macs(node.sig) == 0 and node.output.type.bytes > read
