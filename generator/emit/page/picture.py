"""The arena over time: the plan replayed row by row, with a rectangle for the live range of each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.memory_plan import Step
from shoehorn_mcu.stage import Stage


@dataclass(frozen=True)
class Owner:
    """The owner of a rectangle's bytes: a tensor that is not a view, or an op's scratch."""

    name: str
    kind: str  # "input", "output", "tensor" or "scratch"
    type: str  # as text; empty for scratch
    rows: int
    row_bytes: int
    op: int  # index of the stage that writes it (or whose scratch it is); -1: it is an input, there from the start


@dataclass
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
    """An event is one row computed (or arriving), counted from 0 in plan order. Inputs are there before event 0."""

    owners: tuple[Owner, ...]
    rectangles: tuple[Rectangle, ...]
    events: int
    peak_event: int  # the first event with the most live bytes
    peak_bytes: int  # rows and scratch live then, shared bytes counted once; gaps and alignment are not counted


Key = tuple[str, int]
"""A row: its tensor (not a view) and its number."""


class _Replay:
    """Follows a plan and notes which row is written and read when."""

    def __init__(self, unit: Unit) -> None:
        self._unit = unit
        self._views = unit.graph.views
        self._stages = {stage.name: stage for stage in unit.stages}
        self._scratch = {s.op: s for s in unit.plan.scratch}
        self._reads: dict[str, list[list[Key]]] = {}
        self.owners = self._owners()
        self._number = {owner.name: i for i, owner in enumerate(self.owners) if owner.kind != "scratch"}
        self._place = {owner.op: i for i, owner in enumerate(self.owners) if owner.kind == "scratch"}
        self._open: dict[Key, Rectangle] = {}
        self.rectangles: list[Rectangle] = []

    def _root(self, tensor: str) -> str:
        while tensor in self._views:
            tensor = self._views[tensor]
        return tensor

    def _owners(self) -> list[Owner]:
        graph = self._unit.graph
        inputs, outputs = set(map(self._root, graph.inputs)), set(map(self._root, graph.outputs))
        writer = {stage.node.output.name: stage.index for stage in self._unit.stages}
        if self._unit.streamed:
            writer[self._unit.streamed] = len(self._unit.stages)
        found = []
        for name, placed in self._unit.placements.items():
            if name in self._views:
                continue
            kind = "input" if name in inputs else "output" if name in outputs else "tensor"
            type_ = str(self._unit.type(name))
            found.append(Owner(name, kind, type_, placed.rows, placed.row_bytes, writer.get(name, -1)))
        for op, scratch in self._scratch.items():
            found.append(Owner(f"scratch of {op}", "scratch", "", 1, scratch.bytes, self._stages[op].index))
        return found

    def _rows_of_root(self, tensor: str, rows: Sequence[int | None]) -> list[Key]:
        """The rows of a view's root that hold the bytes of these rows of the view."""
        root = self._root(tensor)
        size, whole = self._unit.placements[tensor].row_bytes, self._unit.placements[root].row_bytes
        seen = [row for row in rows if row is not None]
        if size == whole:
            return [(root, row) for row in seen]
        return [(root, r) for row in seen for r in range(row * size // whole, -(-(row + 1) * size // whole))]

    def _reads_of(self, stage: Stage) -> list[list[Key]]:
        """By output row: the rows read."""
        if stage.name not in self._reads:
            taps = [(i, t.name) for i, t in enumerate(stage.row_inputs) if t.data is None]
            self._reads[stage.name] = [
                list(dict.fromkeys(key for i, name in taps for key in self._rows_of_root(name, rows[i])))
                for rows in stage.rows
            ]
        return self._reads[stage.name]

    def write(self, tensor: str, row: int, time: int, reads: Sequence[Key] = (), edition: int = 0) -> None:
        """Row `row` is computed from these rows and may overwrite the last one."""
        address = self._unit.editions[tensor][edition].at(row)
        born = Rectangle(self._number[tensor], row, address, time, time)
        for key in reads:
            read = self._open[key]
            read.last = time
            if self._meet(read, born):
                born.over = read
        self._open[tensor, row] = born
        self.rectangles.append(born)

    def _meet(self, one: Rectangle, other: Rectangle) -> bool:
        """Whether the two share an address."""
        lower, upper = sorted((one, other), key=lambda rectangle: rectangle.address)
        return upper.address < lower.address + self.owners[lower.owner].row_bytes

    def step(self, step: Step, time: int) -> None:
        """The rows of one step, the first of them at event `time`."""
        if step.delivers:
            for y in range(*step.rows):
                self.write(self._unit.graph.inputs[0], y, time + y - step.rows[0])
            return
        stage = self._stages[step.op]
        reads = self._reads_of(stage)
        output = stage.node.output.name
        for y in range(*step.rows):
            self.write(output, y, time + y - step.rows[0], reads[y], step.edition(output))
        if step.op in self._scratch:
            last = time + step.rows[1] - step.rows[0] - 1
            place = self._place[stage.index]
            self.rectangles.append(Rectangle(place, 0, self._scratch[step.op].address, time, last))

    def keep(self, tensor: str, last: int) -> None:
        """Extends the live ranges of an output's rows to the end."""
        root = self._root(tensor)
        for row in range(self._unit.placements[root].rows):
            self._open[root, row].last = last


def picture(unit: Unit) -> Picture:
    """Every rectangle of the unit's plan, in the order in which they are computed."""
    replay = _Replay(unit)
    for name in () if unit.streamed else unit.graph.inputs:
        for row in range(unit.placements[name].rows):
            replay.write(name, row, 0)
    time = 0
    for step in unit.plan.steps:
        replay.step(step, time)
        time += step.rows[1] - step.rows[0]
    for name in unit.graph.outputs:
        replay.keep(name, max(0, time - 1))
    peak_event, peak_bytes = _peak(replay.owners, replay.rectangles, max(1, time))
    return Picture(tuple(replay.owners), tuple(replay.rectangles), time, peak_event, peak_bytes)


def _peak(owners: Sequence[Owner], rectangles: Sequence[Rectangle], events: int) -> tuple[int, int]:
    """The first event with the most live bytes, and their number."""
    change = [0] * (events + 1)
    for r in rectangles:
        change[r.first] += owners[r.owner].row_bytes
        change[r.last + 1] -= owners[r.owner].row_bytes
        if r.over:
            shared = min(owners[r.owner].row_bytes, owners[r.over.owner].row_bytes)
            change[r.first] -= shared
            change[r.first + 1] += shared
    loads = list(accumulate(change[:events]))
    most = max(loads)
    return loads.index(most), most
