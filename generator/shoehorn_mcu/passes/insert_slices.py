"""The pass `insert-slices`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby

from shoehorn_mcu.ir import Graph, Node, Op, Tensor, is_a
from shoehorn_mcu.ir.edit import Draft, only_reader, readers, with_ops
from shoehorn_mcu.ops import Concat, InsertSlice
from shoehorn_mcu.ops.insert import CHANNELS, COLUMNS, own_rows


def insert_slices(graph: Graph) -> Graph:
    """Lets ops write their results where a concatenation along channels or columns would copy them.

    >   a = Conv2d(x): 1x8x8x4; b = Conv2d(z): 1x8x8x6; y = Concat(a, b): 1x8x8x10
    <   t = InsertSlice(Conv2d(x), channels 0..3 of 10); y = InsertSlice(Conv2d(z), channels 4..9, onto t)

    An op does if nothing else reads its result, and its kernels can: `Op.spaced` tells whether with gaps between their
    pixels. Any op's can where its part of a row is in one piece, as it is along columns and in rows of one pixel. Other
    pieces are copied as before. A concatenation without such an op stays, and so does a result of the model and what a
    reshape views: their rows are side by side, and planned as one.
    """
    fixed = {*graph.results, *(op.inputs[0] for op in graph.ops if op.view)}
    joins = [n for n in graph.nodes() if is_a(n, Concat) and not n.op.shared and n.output.name not in fixed]
    place, readers_of = {op.output: i for i, op in enumerate(graph.ops)}, readers(graph)
    found = [chain for node in joins if (chain := _chain(graph, node, place, readers_of)) is not None]
    if not found:
        return graph
    joined = {chain.node.op.name for chain in found}
    draft = Draft(replace(graph, ops=tuple(op for op in graph.ops if op.name not in joined)))
    ends: dict[str, _Writer] = {}
    for chain in found:
        writer = _Writer(chain, draft)
        ends |= {op.output: writer for op in (chain.node.op, *(link.op for link in chain.links if link.op is not None))}
    ops = [made for op in graph.ops for made in (ends[op.output].up_to(op) if op.output in ends else (op,))]
    return draft.with_ops(ops)


def with_copies(graph: Graph) -> Graph | None:
    """The graph with its concatenations, as before the pass; None where it has no op that inserts.

    Kernels can write a row of a tensor of its own over one that they read, and such a row is shorter: of a graph with
    copies a plan may be smaller.
    """
    nodes = {node.output.name: node for node in graph.nodes() if is_a(node, InsertSlice)}
    if not nodes:
        return None
    tensors = dict(graph.tensors)
    before = {_onto(node) for node in nodes.values()}
    ops: list[Op] = []
    for op in graph.ops:
        if not isinstance(op, InsertSlice):
            ops.append(op)
            continue
        if not _is_copy(op):
            ops.append(op.op)
            tensors[op.op.output] = op.computed(nodes[op.output]).output
        if op.output not in before:
            chain = [node.op for node in _back(nodes, op.output)]
            names = (n for each in sorted(chain, key=lambda each: each.first) for n in _pieces(each))
            ops.append(Concat(name=op.join, inputs=tuple(names), output=op.output, axis=op.axis))
    return with_ops(replace(graph, tensors=tensors), ops)


def _onto(node: Node[InsertSlice]) -> str | None:
    place = node.op.onto
    return None if place is None else node.inputs[place].name


def _back(nodes: Mapping[str, Node[InsertSlice]], output: str) -> Iterator[Node[InsertSlice]]:
    """The ops that write parts of a tensor, the last one first."""
    name: str | None = output
    while name is not None:
        yield nodes[name]
        name = _onto(nodes[name])


def _is_copy(op: InsertSlice) -> bool:
    return isinstance(op.op, Concat) and op.op.axis == op.axis


def _pieces(op: InsertSlice) -> tuple[str, ...]:
    """What the part is a concatenation of."""
    return op.op.inputs if _is_copy(op) else (op.op.output,)


@dataclass(frozen=True)
class _Link:
    """Adjacent pieces of a concatenation that one op writes."""

    pieces: tuple[Tensor, ...]
    first: int  # element along the axis
    ready: int  # place of the last op that computes one of them; -1: they are there from the start
    op: Op | None  # the op that computes the one piece, where it can write it; None: they are copied


@dataclass(frozen=True)
class _Chain:
    """A concatenation, and its links in the order in which they are written."""

    node: Node[Concat]
    axis: int  # of NHWC
    links: tuple[_Link, ...]


def _chain(
    graph: Graph, node: Node[Concat], place: Mapping[str, int], readers_of: Mapping[str, tuple[Op, ...]]
) -> _Chain | None:
    """How a concatenation is written by parts; None where no op can write its own."""
    axis = node.op.axis
    if len(node.output.type.shape) != 4 or axis not in (COLUMNS, CHANNELS):
        return None
    spaced = axis == CHANNELS and node.output.type.nhwc[COLUMNS] > 1

    def writer(piece: Tensor) -> Op | None:
        if piece.name not in place or only_reader(graph, readers_of, piece.name) is None:
            return None
        op = graph.ops[place[piece.name]]
        return op if _can_insert(op, spaced) else None

    links, first = [], 0
    for op, group in groupby(node.inputs, writer):
        pieces = tuple(group)
        links.append(_Link(pieces, first, max(place.get(piece.name, -1) for piece in pieces), op))
        first += sum(piece.type.shape[axis] for piece in pieces)
    if all(link.op is None for link in links):
        return None
    return _Chain(node, axis, tuple(sorted(links, key=lambda link: link.ready)))


def _can_insert(op: Op, spaced: bool) -> bool:
    """Whether a kernel can write the op's rows as parts of longer ones; `spaced`: with gaps between their pixels."""
    if op.view or op.shares_rows or op.carries or isinstance(op, Concat | InsertSlice):
        return False
    return op.spaced or not spaced


class _Writer:
    """Makes the ops of a chain, in their order."""

    def __init__(self, chain: _Chain, draft: Draft) -> None:
        """`draft` gets the tensors and the names of ops that are added."""
        self._chain, self._draft = chain, draft
        self._made = 0
        self._onto: str | None = None

    def up_to(self, op: Op) -> Iterator[Op]:
        """The links that are not made yet, up to that of an op; all where it is the concatenation."""
        links = self._chain.links
        last = next((i for i, link in enumerate(links) if link.op is op), len(links) - 1)
        while self._made <= last:
            yield self._insert(links[self._made])

    def _insert(self, link: _Link) -> Op:
        self._made += 1
        join, axis, output = self._chain.node.op, self._chain.axis, self._chain.node.output
        last = self._made == len(self._chain.links)
        part = output.name if last else self._draft.tensor(f"{output.name}_{self._made}", output.type)
        op = link.op or self._copy(link)
        rows = own_rows(op)
        onto = () if self._onto is None else (self._onto,)
        self._onto = part
        return InsertSlice(
            name=op.name,
            inputs=(*op.inputs[:rows], *onto, *op.inputs[rows:]),
            output=part,
            op=op,
            axis=axis,
            first=link.first,
            count=sum(piece.type.shape[axis] for piece in link.pieces),
            size=output.type.shape[axis],
            join=join.name,
        )

    def _copy(self, link: _Link) -> Op:
        name = self._draft.op_name(self._chain.node.op.name)
        names = tuple(piece.name for piece in link.pieces)
        return Concat(name=name, inputs=names, output=f"{name}_part", axis=self._chain.axis)
