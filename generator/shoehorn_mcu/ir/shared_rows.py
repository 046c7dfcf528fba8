"""Tensors without bytes of their own: each of their rows is a part of a row of another tensor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from shoehorn_mcu.ir.graph import Graph, Node


@dataclass(frozen=True)
class Part:
    """Where a row is: in this row of a tensor that has bytes, from byte `start` of the row on."""

    tensor: str
    row: int
    start: int


Parts = tuple[Part, ...]
"""By row."""


def shared_rows(graph: Graph) -> Mapping[str, Parts]:
    """By tensor that an op with `shares_rows` writes: where its rows are."""
    found: dict[str, Parts] = {}
    for node in graph.nodes():
        if node.op.shares_rows:
            found[node.output.name] = tuple(_behind(found, part) for part in parts_of(node) or ())
    return found


def output_rows(graph: Graph) -> Parts:
    """By row of the one output: where it is."""
    (name,) = graph.outputs
    rows = range(graph.tensors[name].type.rows)
    return shared_rows(graph).get(name) or tuple(Part(name, y, 0) for y in rows)


def parts_of(node: Node) -> Parts | None:
    """The part of an input's row that each output row is; None where some row is not such a part."""
    start = node.op.row_start(node.sig)
    if start is None:
        return None
    found = tuple(_parts(node, start))
    return found if len(found) == node.output.type.rows else None


def _parts(node: Node, start: int) -> Iterator[Part]:
    for y in range(node.output.type.rows):
        places = zip(node.row_inputs, node.op.rows(y, node.sig), strict=True)
        read = [(tensor.name, row) for tensor, rows in places for row in rows if row is not None]
        if len(read) == 1:
            yield Part(*read[0], start)


def _behind(known: Mapping[str, Parts], part: Part) -> Part:
    """The part in terms of a tensor that has bytes."""
    if part.tensor not in known:
        return part
    outer = known[part.tensor][part.row]
    return replace(outer, start=outer.start + part.start)
