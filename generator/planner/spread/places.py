"""What a plan in one arena places: spots, those of them that keep their distances, and what is in one memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from shoehorn_mcu.memory_plan import Memory, Placement, Plan, Step
from shoehorn_mcu.planner.order.flow import Event, Flow
from shoehorn_mcu.planner.placement.bundles import Bundle, Piece
from shoehorn_mcu.planner.problem import Problem, aligned


class Spot(NamedTuple):
    """What has one address: a whole tensor, a row of an edition, or the scratch of an op."""

    name: str  # of the tensor, or of the op
    kind: str
    edition: int = 0
    y: int = 0


@dataclass(frozen=True)
class _Live:
    """Bytes [address, end) of the plan's arena, alive from event `first` to event `last`, both inclusive."""

    spot: Spot
    address: int
    end: int
    first: int
    last: int


class _Sets:
    """Disjoint sets."""

    def __init__(self) -> None:
        self._above: dict[Hashable, Hashable] = {}

    def of(self, item: Hashable) -> Hashable:
        """The member that stands for the set."""
        while (above := self._above.setdefault(item, item)) != item:
            self._above[item] = self._above[above]
            item = above
        return item

    def join(self, one: Hashable, other: Hashable) -> None:
        self._above[self.of(other)] = self.of(one)


@dataclass(frozen=True)
class Group:
    """Bundles that must be in one memory, and the bytes of their rows that an inference reads and writes."""

    bundles: tuple[Bundle, ...]
    read: int
    written: int

    def waits(self, memory: Memory) -> float:
        """Cycles of waiting in one inference."""
        return self.read * memory.read_cycles + self.written * memory.write_cycles


class Places:
    """What a plan places: spots, those of them that keep their distances, and tensors that are in one memory.

    `linked`: a row that overwrites another one stays at its address; else it gets an address of its own.
    """

    def __init__(self, problem: Problem, plan: Plan, linked: bool) -> None:
        self._problem, self._plan = problem, plan
        self._events: list[tuple[Step, int]] = [(step, y) for step in plan.steps for y in range(*step.rows)]
        self._places = {(p.tensor, p.edition): p for p in plan.placements}
        self._stiff = _Sets()  # of spots
        self.address: dict[Spot, int] = {}  # in the plan's arena
        lives = [*self._rows(linked), *self._scratch()]
        self.lowest: dict[Hashable, int] = {}  # by bundle: the least of its addresses
        for spot, address in self.address.items():
            bundle = self.bundle(spot)
            self.lowest[bundle] = min(address, self.lowest.get(bundle, address))
        self.groups = tuple(self._groups(lives))

    def bundle(self, spot: Spot) -> Hashable:
        """The name of the bundle that a spot is in."""
        return self._stiff.of(spot)

    def spot(self, tensor: str, edition: int, y: int) -> Spot:
        """The spot of a row."""
        if self._places[tensor, edition].slots:
            return Spot(self._problem.root(tensor), "row", edition, y)
        return Spot(self._problem.place(tensor), "whole")

    def _seen(self, tensor: str, time: int, y: int) -> tuple[Spot, Placement]:
        """The spot of a row at an event, and the placement it has there."""
        edition = self._events[time][0].edition(tensor) if time >= 0 else 0
        placed, spot = self._places[tensor, edition], self.spot(tensor, edition, y)
        self.address[spot] = placed.at(y) if placed.slots else placed.address
        return spot, placed

    def _rows(self, linked: bool) -> Iterator[_Live]:
        """The copies of rows, each at its first spot; the other spots that steps name for it are joined with that."""
        index = {op.name: i for i, op in enumerate(self._problem.ops)}
        ranges = Flow(self._problem).live_ranges([Event(index[step.op], y) for step, y in self._events])
        end = max(len(self._events) - 1, 0)
        found: dict[int, _Live] = {}  # by copy; rows of no bytes are nowhere
        for copy, (tensor, y) in enumerate(ranges.values):
            if not self._problem.by_name[tensor].bytes:
                continue
            first = ranges.first[copy]
            spot, placed = self._seen(tensor, first, y)
            at, size = placed.at(y), aligned(placed.row_bytes) if placed.slots else placed.row_bytes
            last = min(ranges.last[copy], end)
            if self._problem.by_name[tensor].over is not None:
                last = first - 1  # its bytes are alive as those of the tensor below
            found[copy] = _Live(spot, at, at + size, first, last)
        for time, read in enumerate(ranges.reads):
            copies = [copy for copy in read if copy in found]
            for copy in copies:
                tensor, y = ranges.values[copy]
                self._stiff.join(found[copy].spot, self._seen(tensor, time, y)[0])
            for above in (copy for copy in ranges.writes[time] if linked and copy in found):
                for below in copies:
                    yield from self._overwrite(found, below, above, time)
        yield from (live for live in found.values() if live.first <= live.last)

    def _overwrite(self, found: dict[int, _Live], below: int, above: int, time: int) -> Iterator[_Live]:
        """Joins a row with the one that it overwrites, where it does; they are not alive at the same time then.

        Yields the bytes below that row, where the new one begins there: they are alive while it is computed.
        """
        old, new = found[below], found[above]
        if old.last != time or old.end <= new.address or new.end <= old.address:
            return
        self._stiff.join(old.spot, new.spot)
        if new.address <= old.address and old.end <= new.end:
            found[below] = replace(old, last=time - 1)
        else:
            found[above] = replace(new, first=time + 1)
            if new.address < old.address:
                yield _Live(new.spot, new.address, old.address, time, time)

    def _scratch(self) -> Iterator[_Live]:
        times = defaultdict[str, list[int]](list)
        for time, (step, _) in enumerate(self._events):
            times[step.op].append(time)
        for scratch in self._plan.scratch:
            spot = Spot(scratch.op, "scratch")
            self.address[spot] = scratch.address
            for time in times[scratch.op]:
                yield _Live(spot, scratch.address, scratch.address + aligned(scratch.bytes), time, time)

    def _groups(self, lives: Sequence[_Live]) -> Iterator[Group]:
        """In a fixed order."""
        same = _Sets()  # of owners and bundles
        for spot in self.address:
            same.join((spot.kind == "scratch", spot.name), self.bundle(spot))
        pieces = defaultdict[Hashable, list[Piece]](list)
        for live in lives:
            bundle = self.bundle(live.spot)
            offset = live.address - self.lowest[bundle]
            pieces[bundle].append(Piece(offset, live.end - live.address, live.first, live.last))
        members = defaultdict[Hashable, list[Bundle]](list)
        for bundle, alive in pieces.items():
            members[same.of(bundle)].append(Bundle(bundle, _united(alive)))
        read, written = defaultdict[Hashable, int](int), defaultdict[Hashable, int](int)
        for owner, r, w in self._moved():
            read[same.of(owner)] += r
            written[same.of(owner)] += w
        yield from (Group(tuple(own), read[name], written[name]) for name, own in members.items())

    def _moved(self) -> Iterator[tuple[tuple[bool, str], int, int]]:
        """Of tensors and of scratch: the bytes that one inference reads and writes.

        Scratch counts as written and read once by each row of its op; a streamed input is written by the program.
        """
        specs, ops = self._problem.by_name, {op.name: op for op in self._problem.ops}
        rows: dict[str, int] = defaultdict(int)
        for step, y in self._events:
            op = ops[step.op]
            rows[op.name] += 1
            for each in op.reads:
                yield (False, self._problem.place(each.tensor)), len(each.rows[y]) * specs[each.tensor].row_bytes, 0
            if not step.delivers:
                yield (False, self._problem.place(op.writes)), 0, specs[op.writes].row_bytes
        for scratch in self._plan.scratch:
            yield (True, scratch.op), rows[scratch.op] * scratch.bytes, rows[scratch.op] * scratch.bytes


def _united(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    """The same bytes alive at the same or at adjoining times as one piece."""
    found: list[Piece] = []
    for piece in sorted(pieces, key=lambda p: (p.offset, p.bytes, p.first)):
        last = found[-1] if found else None
        if last and (last.offset, last.bytes) == (piece.offset, piece.bytes) and piece.first <= last.last + 1:
            found[-1] = replace(last, last=max(last.last, piece.last))
        else:
            found.append(piece)
    return tuple(found)
