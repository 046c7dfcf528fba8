"""The arena over time: a rectangle for the live range of each row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.planner.live_ranges import Row, live_ranges, rows_of_root
from shoehorn_mcu.planner.memory_plan import Step
from shoehorn_mcu.schedule.stage import Stage


@dataclass(frozen=True)
class Owner:
    """The owner of a rectangle's bytes: a tensor that is not a view, or an op's scratch."""

    name: str
    kind: str  # "input", "output", "state", "next state", "tensor" or "scratch"
    type: str  # as text; empty for scratch
    rows: int
    row_bytes: int
    op: int  # index of the stage that writes it (or whose scratch it is); -1: it is an input, there from the start


@dataclass(frozen=True)
class Rectangle:
    """Row `row` of an owner occupies `address` from event `first` to event `last`, both inclusive.

    `over` is the row that it overwrites while it is computed: both share bytes during event `first`, the last event of
    the overwritten row. A recomputed row has a rectangle for each time that it is computed.
    """

    owner: int
    row: int
    address: int  # bytes from the arena's start
    first: int
    last: int
    over: Rectangle | None = None


@dataclass(frozen=True)
class Picture:
    """An event is one row computed, arriving or handed out, from 0 in plan order. Inputs are there before event 0."""

    owners: tuple[Owner, ...]
    rectangles: tuple[Rectangle, ...]
    events: int
    peak_event: int  # the first event with the most live bytes
    peak_bytes: int  # rows and scratch live then, shared bytes counted once; gaps and alignment are not counted
    arena_bytes: int  # of all memories, whose arenas are one above the other


class _Drawing:
    """The owners and rectangles of a plan."""

    def __init__(self, unit: Unit) -> None:
        self._unit = unit
        self._views = unit.graph.views
        self._stages = {stage.name: stage for stage in unit.stages}
        self._scratch = {s.op: s for s in unit.plan.scratch}
        self._reads: dict[str, list[list[Row]]] = {}
        self.owners = self._owners()
        self._starts = unit.plan.starts
        *_, last = unit.arenas.values()
        self.arena_bytes = self._starts[last.memory] + last.bytes
        self._number = {owner.name: i for i, owner in enumerate(self.owners) if owner.kind != "scratch"}
        self._place = {owner.op: i for i, owner in enumerate(self.owners) if owner.kind == "scratch"}
        given = (row for name in unit.given for row in self._rows(name))
        kept = (row for name in unit.kept for row in self._rows(self._root(name)))
        events = [(step, y) for step in unit.plan.steps for y in range(*step.rows)]
        reads = (self._read_by(step, y) for step, y in events)
        writes = ([] if step.hands_out else [Row(self._written(step), y)] for step, y in events)
        self._ranges = live_ranges(reads, writes, given, kept)
        self.events = len(self._ranges.reads)
        self.rectangles = list(self._rectangles())

    def _root(self, tensor: str) -> str:
        while tensor in self._views:
            tensor = self._views[tensor]
        return tensor

    def _owners(self) -> list[Owner]:
        graph = self._unit.graph
        parts = {"input": graph.inputs, "output": graph.outputs}
        parts["state"] = tuple(state.read for state in graph.states)
        parts["next state"] = tuple(state.write for state in graph.states)
        kinds = {self._root(name): kind for kind, names in reversed(parts.items()) for name in names}
        writer = {stage.node.output.name: stage.index for stage in self._unit.stages}
        if self._unit.streamed:
            writer[self._unit.streamed] = len(self._unit.stages)
        found = []
        for name, placed in self._unit.placements.items():
            if name in self._views:
                continue
            kind, type_ = kinds.get(name, "tensor"), str(self._unit.type(name))
            type_ += f" in {' and '.join(placed.all_memories)}" if len(self._unit.arenas) > 1 else ""
            found.append(Owner(name, kind, type_, placed.rows, placed.row_bytes, writer.get(name, -1)))
        for op, scratch in self._scratch.items():
            found.append(Owner(f"scratch of {op}", "scratch", "", 1, scratch.bytes, self._stages[op].index))
        return found

    def _rows(self, tensor: str) -> list[Row]:
        return [Row(tensor, y) for y in range(self._unit.placements[tensor].rows)]

    def _rows_of_root(self, tensor: str, rows: Sequence[int]) -> Iterator[Row]:
        """The rows of a view's root that hold the bytes of these rows of the view."""
        root = self._root(tensor)
        size, whole = self._unit.placements[tensor].row_bytes, self._unit.placements[root].row_bytes
        return (Row(root, y) for y in rows_of_root(rows, size, whole))

    def _reads_of(self, stage: Stage) -> list[list[Row]]:
        """By output row: the rows read."""
        if stage.name not in self._reads:
            self._reads[stage.name] = [
                list(dict.fromkeys(row for name, rows in stage.reads for row in self._rows_of_root(name, rows[y])))
                for y in range(len(stage.rows))
            ]
        return self._reads[stage.name]

    def _written(self, step: Step) -> str:
        return self._unit.graph.inputs[0] if step.delivers else self._stages[step.op].node.output.name

    def _read_by(self, step: Step, y: int) -> list[Row]:
        """The rows that row y of a step reads."""
        if step.hands_out:
            part = self._unit.output_rows[y]
            return list(self._rows_of_root(part.tensor, [part.row]))
        return [] if step.delivers else self._reads_of(self._stages[step.op])[y]

    def _rectangles(self) -> Iterator[Rectangle]:
        """In the order in which rows are computed; that of a step's scratch behind those of its rows."""
        ranges = self._ranges
        given = sum(first < 0 for first in ranges.first)
        drawn = [self._rectangle(copy, 0, ()) for copy in range(given)]  # by copy
        yield from drawn
        time = 0
        for step in self._unit.plan.steps:
            if step.hands_out:
                time += step.rows[1] - step.rows[0]
                continue
            start, edition = time, step.edition(self._written(step))
            for _ in range(*step.rows):
                drawn.append(self._rectangle(len(drawn), edition, [drawn[copy] for copy in ranges.reads[time]]))
                yield drawn[-1]
                time += 1
            if step.op in self._scratch:
                place, scratch = self._place[self._stages[step.op].index], self._scratch[step.op]
                yield Rectangle(place, 0, self._starts[scratch.memory] + scratch.address, start, time - 1)

    def _rectangle(self, copy: int, edition: int, reads: Sequence[Rectangle]) -> Rectangle:
        """A copy, computed from these rows; it may overwrite the last one that has bytes in common with it."""
        tensor, y = self._ranges.values[copy]
        placed = self._unit.editions[tensor][edition]
        owner, address = self._number[tensor], self._starts[placed.memory_of(y)] + placed.at(y)
        over = next((read for read in reversed(reads) if self._meet(owner, address, read)), None)
        return Rectangle(owner, y, address, *self._ranges.during(copy), over)

    def _meet(self, owner: int, address: int, other: Rectangle) -> bool:
        """Whether a row at this address shares bytes with another."""
        end, other_end = address + self.owners[owner].row_bytes, other.address + self.owners[other.owner].row_bytes
        return address < other_end and other.address < end


def picture(unit: Unit) -> Picture:
    """Every rectangle of the unit's plan."""
    drawing = _Drawing(unit)
    peak_event, peak_bytes = _peak(drawing.owners, drawing.rectangles, max(1, drawing.events))
    found = tuple(drawing.owners), tuple(drawing.rectangles), drawing.events
    return Picture(*found, peak_event, peak_bytes, drawing.arena_bytes)


def _peak(owners: Sequence[Owner], rectangles: Sequence[Rectangle], events: int) -> tuple[int, int]:
    """The first event with the most live bytes, and their number."""
    change = [0] * (events + 1)
    for r in rectangles:
        change[r.first] += owners[r.owner].row_bytes
        change[r.last + 1] -= owners[r.owner].row_bytes
        if r.over:
            ends = (each.address + owners[each.owner].row_bytes for each in (r, r.over))
            shared = min(ends) - max(r.address, r.over.address)
            change[r.first] -= shared
            change[r.first + 1] += shared
    loads = list(accumulate(change[:events]))
    most = max(loads)
    return loads.index(most), most
