"""What a plan in one arena places: spots, those of them that keep their distances, and what is in one memory.

In one memory is a tensor, or where tensors are divided each part of its rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple

from shoehorn_mcu.base.grouped import by_key
from shoehorn_mcu.planner.effort import SPREAD
from shoehorn_mcu.planner.live_ranges import LiveRanges, Row
from shoehorn_mcu.planner.memory_plan import Memory, Placement, Plan, Step
from shoehorn_mcu.planner.order.flow import Flow, rigid, single_events
from shoehorn_mcu.planner.placement.bundles import Bundle, Piece, joined
from shoehorn_mcu.planner.problem import ALIGNMENT, Problem, aligned


class Spot(NamedTuple):
    """What has one address: a whole tensor or a part of it, a row of an edition, or the scratch of an op."""

    name: str  # of the tensor, or of the op
    kind: str
    edition: int = 0
    y: int = 0  # of a part its first row


class Owner(NamedTuple):
    """What is in one memory: a part of a tensor, or the scratch of an op."""

    name: str
    part: int = 0
    scratch: bool = False


@dataclass(frozen=True)
class _Live:
    """Bytes [address, end) of the plan's arena, alive from event `first` to event `last`, both inclusive."""

    spot: Spot
    address: int
    end: int
    first: int
    last: int


class Sets:
    """Disjoint sets."""

    def __init__(self) -> None:
        self._above: dict[Hashable, Hashable] = {}

    def of(self, item: Hashable) -> Hashable:
        """The representative of the set that a member is in."""
        while (above := self._above.setdefault(item, item)) != item:
            self._above[item] = self._above[above]
            item = above
        return item

    def join(self, one: Hashable, other: Hashable) -> None:
        self._above[self.of(other)] = self.of(one)


@dataclass(frozen=True)
class Division:
    """How the rows of a tensor are divided into parts.

    Of a tensor of which at most `cycle` rows are alive at one time, rows `cycle` apart follow each other in a part: so
    each part has some bytes all the time. Where all rows are alive together, a part is a run of rows.
    """

    cycle: int
    parts: int

    def part(self, y: int) -> int:
        """The part of row y."""
        return y % self.cycle * self.parts // self.cycle

    def first(self, y: int) -> int:
        """The first row of the part of row y, which is a run."""
        return -(-self.part(y) * self.cycle // self.parts)


@dataclass(frozen=True)
class Group:
    """Bytes that must be in one memory, by spots, and those of their rows that an inference reads and writes."""

    pieces: Mapping[Spot, tuple[Piece, ...]]  # by one spot of those that keep their distances; offsets in the arena
    read: int
    written: int

    def waits(self, memory: Memory) -> float:
        """Cycles of waiting in one inference."""
        return self.read * memory.read_cycles + self.written * memory.write_cycles


class Places:
    """What a plan places: spots, those of them that keep their distances, and owners that are in one memory.

    `linked`: a row that overwrites another one stays at its address; else it gets an address of its own. So does a row
    that overwrites one of another part than those before. Tensors are divided into parts of about `part_bytes` each;
    without that, each is one part.
    """

    def __init__(self, problem: Problem, plan: Plan, linked: bool, part_bytes: int | None = None) -> None:
        self._problem, self._plan = problem, plan
        self._events: list[tuple[Step, int]] = [(step, y) for step in plan.steps for y in range(*step.rows)]
        self._placed = {(p.tensor, p.edition): p for p in plan.placements}
        ranges = Flow(problem).live_ranges(single_events(problem, plan.steps))
        self._divisions = {} if part_bytes is None else dict(self._divided(ranges, part_bytes))
        self._stiff = Sets()  # of spots
        self._tied = _Tied()
        self.address: dict[Spot, int] = {}  # in the plan's arena
        lives = [*self._rows(ranges, linked), *self._scratch()]
        self._lowest: dict[Spot, int] = {}  # by representative: the least address of its set
        for spot, address in self.address.items():
            first = self.stiff(spot)
            self._lowest[first] = min(address, self._lowest.get(first, address))
        self.groups = tuple(self._groups(lives))

    @property
    def is_divided(self) -> bool:
        """Whether any tensor has several parts."""
        return bool(self._divisions)

    def stiff(self, spot: Spot) -> Spot:
        """The representative of the spots that keep their distances to this one."""
        found = self._stiff.of(spot)
        assert isinstance(found, Spot)
        return found

    def spot(self, tensor: str, edition: int, y: int) -> Spot:
        """The spot of a row."""
        if self._placed[tensor, edition].slots:
            return Spot(self._problem.root(tensor), "row", edition, y)
        place = self._problem.place(tensor)
        if place in self._divisions:
            return Spot(place, "part", 0, self._divisions[place].first(y))
        return Spot(place, "whole")

    def owner(self, spot: Spot) -> Owner:
        """What a spot is a part of."""
        if spot.kind == "scratch":
            return Owner(spot.name, scratch=True)
        return Owner(spot.name, self._part(spot.name, spot.y))

    def offset(self, spot: Spot, y: int) -> int:
        """How far row y is behind the start of its spot, which is no whole tensor."""
        return (y - spot.y) * self._problem.by_name[spot.name].row_bytes if spot.kind == "part" else 0

    def bundles(self, groups: Iterable[Group], whole: bool) -> Iterator[tuple[Bundle, tuple[Spot, ...], int]]:
        """The bundles of groups in one memory: with the representatives of the spots in each, and the least of their
        addresses. If `whole`, parts of one tensor keep their distances.
        """
        pieces = {spot: own for group in groups for spot, own in group.pieces.items()}
        sets = Sets()  # of spots and tensors
        for spot in self.address if whole else ():
            if spot.kind == "part" and self.stiff(spot) in pieces:
                sets.join(spot.name, self.stiff(spot))
        for spots in by_key((sets.of(spot), spot) for spot in pieces).values():
            lowest = min(self._lowest[spot] for spot in spots)
            moved = [replace(piece, offset=piece.offset - lowest) for spot in spots for piece in pieces[spot]]
            yield Bundle(spots[0], joined(moved)), tuple(spots), lowest

    def _part(self, place: str, y: int) -> int:
        return self._divisions[place].part(y) if place in self._divisions else 0

    def _divided(self, ranges: LiveRanges[Row], part_bytes: int) -> Iterator[tuple[str, Division]]:
        """The tensors that may be in several memories and have more than `part_bytes` alive at one time."""
        most = _most_rows(ranges, len(self._events))
        for tensor in most.keys() - rigid(self._problem):
            spec, placed = self._problem.by_name[tensor], self._placed[tensor, 0]
            if not placed.slots and spec.row_bytes % ALIGNMENT:
                continue  # rows side by side are not at whole words
            cycle = most[tensor] if placed.slots else spec.rows
            wanted = min(cycle, SPREAD.MOST_PARTS, -(-most[tensor] * spec.row_bytes // part_bytes))
            if wanted > 1:
                yield tensor, Division(cycle, 1 << (wanted.bit_length() - 1))

    def _seen(self, tensor: str, time: int, y: int) -> tuple[Spot, Placement]:
        """The spot of a row at an event, and the placement it has there."""
        edition = self._events[time][0].edition(tensor) if time >= 0 else 0
        placed, spot = self._placed[tensor, edition], self.spot(tensor, edition, y)
        self.address[spot] = placed.address if spot.kind == "whole" else placed.at(y) - self.offset(spot, y)
        return spot, placed

    def _rows(self, ranges: LiveRanges[Row], linked: bool) -> Iterator[_Live]:
        """The copies of rows, each at its first spot; the other spots that steps name for it are joined with that."""
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
                self._join(found[copy].spot, self._seen(tensor, time, y)[0])
            for above in (copy for copy in ranges.writes[time] if linked and copy in found):
                for below in copies:
                    yield from self._overwrite(found, below, above, time)
        yield from (live for live in found.values() if live.first <= live.last)

    def _join(self, one: Spot, other: Spot) -> bool:
        """Has two spots keep their distance, in one memory; not where two parts of a tensor would be in one."""
        if not self._tied.join(self.owner(one), self.owner(other)):
            return False
        self._stiff.join(one, other)
        return True

    def _overwrite(self, found: dict[int, _Live], below: int, above: int, time: int) -> Iterator[_Live]:
        """Joins a row with the one that it overwrites, where it does; they are not alive at the same time then.

        Yields the bytes below that row, where the new one begins there: they are alive while it is computed.
        """
        old, new = found[below], found[above]
        if old.last != time or old.end <= new.address or new.end <= old.address:
            return
        if not self._join(old.spot, new.spot):
            return
        if new.address <= old.address and old.end <= new.end:
            found[below] = replace(old, last=time - 1)
        else:
            found[above] = replace(new, first=time + 1)
            if new.address < old.address:
                yield _Live(new.spot, new.address, old.address, time, time)

    def _scratch(self) -> Iterator[_Live]:
        times = by_key((step.op, time) for time, (step, _) in enumerate(self._events))
        for scratch in self._plan.scratch:
            spot = Spot(scratch.op, "scratch")
            self.address[spot] = scratch.address
            for time in times.get(scratch.op, ()):
                yield _Live(spot, scratch.address, scratch.address + aligned(scratch.bytes), time, time)

    def _groups(self, lives: Sequence[_Live]) -> Iterator[Group]:
        """In a fixed order."""
        same = Sets()  # of owners and spots
        for spot in self.address:
            same.join(self.owner(spot), self.stiff(spot))
        pieces = defaultdict[Spot, list[Piece]](list)
        for live in lives:
            pieces[self.stiff(live.spot)].append(Piece(live.address, live.end - live.address, live.first, live.last))
        members = defaultdict[Hashable, dict[Spot, tuple[Piece, ...]]](dict)
        for spot, alive in pieces.items():
            members[same.of(spot)][spot] = joined(alive)
        read, written = defaultdict[Hashable, int](int), defaultdict[Hashable, int](int)
        for owner, r, w in self._moved():
            read[same.of(owner)] += r
            written[same.of(owner)] += w
        yield from (Group(own, read[name], written[name]) for name, own in members.items())

    def _moved(self) -> Iterator[tuple[Owner, int, int]]:
        """Of owners: the bytes that one inference reads and writes.

        Scratch counts as written and read once by each row of its op; a streamed input is written by the program.
        """
        specs, ops = self._problem.by_name, {op.name: op for op in self._problem.ops}
        rows: dict[str, int] = defaultdict(int)
        for step, y in self._events:
            op = ops[step.op]
            rows[op.name] += 1
            for each in op.reads:
                place, size = self._problem.place(each.tensor), specs[each.tensor].row_bytes
                if place in self._divisions:
                    yield from ((Owner(place, self._part(place, row)), size, 0) for row in each.rows[y])
                else:
                    yield Owner(place), len(each.rows[y]) * size, 0
            if not step.delivers:
                place = self._problem.place(op.writes)
                yield Owner(place, self._part(place, y)), 0, specs[op.writes].row_bytes
        for scratch in self._plan.scratch:
            moved = rows[scratch.op] * scratch.bytes
            yield Owner(scratch.op, scratch=True), moved, moved


class _Tied:
    """Owners that are in one memory because some of their rows keep their distances; of a tensor one part at most."""

    def __init__(self) -> None:
        self._sets = Sets()
        self._parts: dict[Hashable, dict[str, int]] = {}  # by representative: tensor -> part

    def join(self, one: Owner, other: Owner) -> bool:
        """Joins their sets, if no tensor has different parts in them."""
        first, second = self._sets.of(one), self._sets.of(other)
        if first == second:
            return True
        mine = self._parts.setdefault(first, {one.name: one.part})
        others = self._parts.setdefault(second, {other.name: other.part})
        if any(mine.get(name, part) != part for name, part in others.items()):
            return False
        self._sets.join(first, second)
        mine.update(others)
        return True


def _most_rows(ranges: LiveRanges[Row], events: int) -> dict[str, int]:
    """By tensor the most rows of it that are alive at one time."""
    change: dict[str, dict[int, int]] = {}
    for copy, row in enumerate(ranges.values):
        own = change.setdefault(row.tensor, defaultdict(int))
        first, last = ranges.during(copy)
        own[first] += 1
        own[min(last, events) + 1] -= 1
    return {name: max(accumulate(own[time] for time in sorted(own))) for name, own in change.items()}
