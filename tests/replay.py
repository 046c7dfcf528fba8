"""Whether a plan computes what its graph means, on hashes in place of values.

It knows ops, their rows and C's addressing, and shares nothing with the planner or its check. Each byte of the arena is
a word of a hash: what an op writes is the hash of its name, its row and the words that it reads, so a wrong, missing or
overwritten byte anywhere changes all that is computed from it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence

from shoehorn_mcu.ir import Graph, Node, output_rows
from shoehorn_mcu.kernels import ANY, Instance, choose
from shoehorn_mcu.ops import Reshape
from shoehorn_mcu.planner.memory_plan import Editions, Placement, Plan, Step
from shoehorn_mcu.schedule.stage import Stage, computes

_WORD = 8  # bytes of hash for one byte of the arena


def _row(name: str, y: int, read: bytes, row_bytes: int) -> bytes:
    return hashlib.shake_128(f"{name} {y} ".encode() + read).digest(row_bytes * _WORD)


class Rows:
    """What every row of a graph has to hold."""

    def __init__(self, graph: Graph, stages: Sequence[Stage] = ()) -> None:
        """With the kernels of these stages; of an op without one, that which portable C gets."""
        self.graph = graph
        kernels = {stage.name: stage.kernel for stage in stages}
        self.writers = {node.op.name: node for node in graph.nodes() if computes(node)}
        shared = {node.output.name for node in graph.nodes() if node.op.shares_rows}
        self.overwritten = {
            name: _overwritten(node, kernels.get(name) or choose(node, ANY), shared)
            for name, node in self.writers.items()
        }
        self.right: dict[str, bytes] = {}
        self.sharers: dict[str, Node] = {}  # by the tensors whose rows are parts of others' rows
        for name in graph.inputs:
            kind = graph.tensors[name].type
            self.right[name] = b"".join(_row(name, y, b"", kind.row_bytes) for y in range(kind.rows))
        for node in graph.nodes():
            if isinstance(node.op, Reshape):
                self.right[node.output.name] = self.right[node.inputs[0].name]
                continue
            if node.op.shares_rows:
                self.sharers[node.output.name] = node
                continue
            self.right[node.output.name] = b""  # of which an op may read earlier rows
            for y in range(node.output.type.rows):
                self.right[node.output.name] += self.computed(node, y, self.row)

    def row(self, name: str, y: int) -> bytes:
        size = self.graph.tensors[name].type.row_bytes * _WORD
        return self.right[name][y * size : (y + 1) * size]

    def computed(self, node: Node, y: int, read: Callable[[str, int], bytes]) -> bytes:
        """Output row y, where `read(tensor, row)` gives the words of a row."""
        wanted = zip(node.row_operands, node.op.rows(y, node.sig), strict=True)
        words = [self.part(t.name, r, read) for t, rows in wanted if t.data is None for r in rows if r is not None]
        return _row(node.op.name, y, b"".join(words), node.output.type.row_bytes)

    def part(self, name: str, y: int, read: Callable[[str, int], bytes]) -> bytes:
        """The words of a row, or of the whole row of another tensor that it is a part of, as plans read that."""
        if name not in self.sharers:
            return read(name, y)
        node = self.sharers[name]
        places = zip(node.row_inputs, node.op.rows(y, node.sig), strict=True)
        ((tensor, row),) = ((t.name, r) for t, rows in places for r in rows if r is not None)
        return self.part(tensor, row, read)


class _Arena:
    def __init__(self, plan: Plan) -> None:
        self._words = bytearray(plan.arena_bytes * _WORD)
        self._rings = {(ring.tensor, ring.edition): ring for ring in plan.placements}
        self._editions: dict[str, int] = {}  # other than 0
        self._end = plan.arena_bytes

    def goes_by(self, editions: Editions) -> None:
        """From here on tensors lie in these rings."""
        self._editions = dict(editions)

    def _ring(self, name: str) -> Placement:
        return self._rings[name, self._editions.get(name, 0)]

    def _span(self, ring: Placement, y: int) -> slice:
        at = ring.slots[y] if ring.slots else ring.address + y * ring.row_bytes
        if at < 0 or at + ring.row_bytes > self._end:
            raise IndexError
        return slice(at * _WORD, (at + ring.row_bytes) * _WORD)

    def at(self, name: str, y: int) -> int:
        return self._span(self._ring(name), y).start

    def read(self, name: str, y: int) -> bytes:
        return bytes(self._words[self._span(self._ring(name), y)])

    def write(self, name: str, y: int, words: bytes) -> None:
        self._words[self._span(self._ring(name), y)] = words


def replays(rows: Rows, plan: Plan) -> bool:
    """Whether every row that the plan computes, and every output, is right.

    A kernel's row spoils its own inputs, but for one that it may overwrite.
    """
    try:
        return _replays(rows, plan, _Arena(plan))
    except (IndexError, KeyError, ZeroDivisionError):
        return False


def _replays(rows: Rows, plan: Plan, arena: _Arena) -> bool:
    graph = rows.graph

    def whole(name: str) -> bool:
        return all(arena.read(name, y) == rows.row(name, y) for y in range(graph.tensors[name].type.rows))

    given = () if plan.streamed else graph.inputs
    for name in given:
        for y in range(graph.tensors[name].type.rows):
            arena.write(name, y, rows.row(name, y))
    if not all(map(whole, given)):
        return False
    for step in plan.steps:
        arena.goes_by(step.editions)
        if not all(_computes(rows, step, y, arena) for y in range(*step.rows)):
            return False
    arena.goes_by(())
    if plan.handed_out:
        handed_out = [y for step in plan.steps if step.hands_out for y in range(*step.rows)]
        return handed_out == [*range(len(output_rows(graph)))]
    return all(map(whole, graph.outputs))


def _overwritten(node: Node, kernel: Instance, shared: Collection[str]) -> tuple[str, int | None] | None:
    """The tensor of which the kernel may overwrite a row that it reads, and how far behind that it stays.

    None for the distance: it reads one row, byte by byte, before it writes its own row there.
    """
    behind = kernel.behind(node)
    place = kernel.in_place(node) if behind is None else 0
    if place is None or node.row_operands[place].data is not None:
        return None
    name = node.row_operands[place].name
    if name in shared:
        return None
    return (name, behind) if [t.name for t in node.row_operands].count(name) == 1 else None


def _overwritten_row(node: Node, y: int, over: tuple[str, int | None] | None, arena: _Arena) -> tuple[str, int] | None:
    """The row, if there is one, that output row y may overwrite where the plan has both."""
    if over is None:
        return None
    name, behind = over
    rows = node.op.rows(y, node.sig)[[tensor.name for tensor in node.row_operands].index(name)]
    here = arena.at(node.output.name, y)
    for row in rows:
        gap = 0 if row is None else (arena.at(name, row) - here) // _WORD
        allowed = gap == 0 if behind is None else gap == -(-behind // 4) * 4
        if row is not None and allowed:
            return name, row
    return None


def _computes(rows: Rows, step: Step, y: int, arena: _Arena) -> bool:
    """Whether one row of a step, once it is done, is right."""
    if step.delivers:
        (name,) = rows.graph.inputs
        arena.write(name, y, rows.row(name, y))
        return True
    if step.hands_out:
        part = output_rows(rows.graph)[y]
        return arena.read(part.tensor, part.row) == rows.row(part.tensor, part.row)
    node = rows.writers[step.op]
    name, kind = node.output.name, node.output.type
    if not 0 <= y < kind.rows:
        return False
    over = _overwritten_row(node, y, rows.overwritten[step.op], arena)
    kept = None if over is None else arena.read(*over)

    def read(tensor: str, row: int) -> bytes:
        return kept if kept is not None and (tensor, row) == over else arena.read(tensor, row)

    arena.write(name, y, bytes(kind.row_bytes * _WORD))
    arena.write(name, y, rows.computed(node, y, read))
    return arena.read(name, y) == rows.row(name, y)
