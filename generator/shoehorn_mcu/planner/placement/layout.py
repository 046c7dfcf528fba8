"""Plans by rows: from an order of rows to lifetimes of single rows, and from those to addresses (place.py)."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from shoehorn_mcu.base.grouped import by_key
from shoehorn_mcu.planner.blocks.cascade import Composite, Part
from shoehorn_mcu.planner.effort import LAYOUT
from shoehorn_mcu.planner.live_ranges import LiveRanges, Row
from shoehorn_mcu.planner.memory_plan import Editions, Placement, Scratch, Step
from shoehorn_mcu.planner.order.flow import Event, Flow, rigid, single_events
from shoehorn_mcu.planner.placement.bundles import Profile, profile
from shoehorn_mcu.planner.placement.editions import editions
from shoehorn_mcu.planner.placement.place import Bundle, Effort, Piece, first_fit, load, place
from shoehorn_mcu.planner.problem import NEVER, Problem, aligned


class _Bytes(NamedTuple):
    """The name of a bundle: a whole tensor, or the n-th computation of one of its rows."""

    tensor: str
    row: int = -1  # the whole tensor
    copy: int = 0


@dataclass(frozen=True)
class _Need:
    """The name of a bundle: the scratch of an op, or of a part of a composite."""

    op: int
    part: Part | None = None


class _Spot(NamedTuple):
    """The address of a row: its bundle, and the offset from the base of that."""

    bundle: _Bytes
    offset: int


_Name = _Bytes | _Need
_Bases = Mapping[Hashable, int]


@dataclass
class _Copy:
    """One computation of a row: the first and last event that touch it, both inclusive, and its address.

    Inputs are in memory from event -1 on.
    """

    row: Row
    first: int
    last: int
    spot: _Spot


class Share(Enum):
    """Which rows are overwritten in place: sharing bytes lowers the sum of live bytes, but makes placement harder."""

    NEEDED = "those as large as what they overwrite, and those that lower the peak"
    ALL = "all"
    SCATTERED = "those with addresses of their own"
    NONE = "none"


@dataclass(frozen=True)
class Layout:
    """Steps, and an address for everything."""

    steps: tuple[Step, ...]
    placements: tuple[Placement, ...]
    scratch: tuple[Scratch, ...]
    arena_bytes: int
    drifts: bool  # rows may begin lower than those that they overwrite: such orders rarely pack to their peak


def _copies(flow: Flow, ranges: LiveRanges[Row]) -> Iterator[tuple[Row, int, int, _Spot]]:
    """The members of each _Copy.

    A row of a rigid tensor has the same address at each computation. Outputs are alive until the last event.
    """
    stiff, end = rigid(flow.problem), max(len(ranges.reads) - 1, 0)
    earlier = Counter[Row]()
    for row, first, last in zip(ranges.values, ranges.first, ranges.last, strict=True):
        spec = flow.problem.by_name[row.tensor]
        whole = _Spot(_Bytes(spec.over or row.tensor), row.y * spec.row_bytes)
        spot = whole if row.tensor in stiff else _Spot(_Bytes(*row, earlier[row]), 0)
        earlier[row] += 1
        yield row, first, min(last, end), spot


@dataclass(frozen=True)
class RowOrder:
    """An order of rows; `composites` are those that the flow has after its ops."""

    flow: Flow
    events: Sequence[Event]
    composites: Sequence[Composite] = ()

    @cached_property
    def ranges(self) -> LiveRanges[Row]:
        return self.flow.live_ranges(self.events)

    @cached_property
    def copies(self) -> list[tuple[Row, int, int, _Spot]]:
        """The members of each _Copy where no row is overwritten in place."""
        return list(_copies(self.flow, self.ranges))

    @cached_property
    def sorted_copies(self) -> list[int]:
        """The copies by tensor and row."""
        number = {name: i for i, name in enumerate(self.flow.rows)}
        keys = [(number[row.tensor], row.y) for row, *_ in self.copies]
        return sorted(range(len(keys)), key=keys.__getitem__)

    @cached_property
    def times(self) -> Counter[Row]:
        """How often each row is computed."""
        return Counter(self.ranges.values)

    @cached_property
    def stiff(self) -> frozenset[str]:
        return rigid(self.flow.problem)

    @cached_property
    def overlapping(self) -> _Layout:
        """Where all rows are overwritten that may be."""
        return _Layout(self)

    @cached_property
    def crowd(self) -> Profile:
        """Live bytes by event in that layout."""
        return profile(self.overlapping.bundles)


class _Layout:
    """Bundles of one order of rows."""

    def __init__(self, order: RowOrder, share: Share = Share.ALL, limit: int = 0) -> None:
        """With Share.NEEDED rows are overwritten that lower the peak to `limit`, or as far as it goes."""
        flow, events = order.flow, order.events
        self._flow, self._events, self._composites = flow, events, order.composites
        self._stiff, self._ranges, self._times = order.stiff, order.ranges, order.times
        self._copies = [_Copy(*each) for each in order.copies]
        self._sorted = [self._copies[number] for number in order.sorted_copies]
        self._limit = 0
        self._crowd: Profile | None = None  # live bytes by event, where rows may be shorter than what they overwrite
        if share is Share.NEEDED:
            self._crowd = order.crowd
            self._limit = max(limit, *self._crowd.alive)
        self._tails: dict[_Name, list[Piece]] = {}
        for time, event in enumerate(events):
            if share is not Share.NONE or flow.runners[event.op].spec.onto:
                self._share(time, event, share)
        self._lowest: dict[_Name, int] = {}  # offsets
        for copy in self._copies:
            self._lowest[copy.spot.bundle] = min(copy.spot.offset, self._lowest.get(copy.spot.bundle, 0))
        self.bundles: tuple[Bundle, ...] = tuple(self._bundles())

    @property
    def drifts(self) -> bool:
        """Whether rows begin lower than those that they overwrite: the load is rarely reached then."""
        return bool(self._tails)

    def _share(self, time: int, event: Event, share: Share) -> None:
        """Places a row over the one that it may overwrite, if no later event reads that one."""
        flow = self._flow
        number = flow.overwritten(self._ranges, time, event)
        if number is None:
            return
        below, above = self._copies[number], self._copies[self._ranges.writes[time].start]
        if below.row.tensor in self._stiff and (share is Share.SCATTERED or self._times[below.row] > 1):
            return
        size, room, behind = flow.slot[above.row.tensor], flow.slot[below.row.tensor], flow.behind(event.op)
        shrinks = size < room
        window = flow.runners[event.op].spec.behind is not None
        if (shrinks or window) and self._has_room(time, size):
            return
        above.spot = below.spot
        if behind:
            above.spot = _Spot(below.spot.bundle, below.spot.offset - behind)
            below.last = time - 1
            tail = Piece(above.spot.offset + size, room + behind - size, time, time)  # of the row below
            self._tails.setdefault(above.spot.bundle, []).append(tail)
        elif shrinks:
            above.first = time + 1
        else:
            below.last = time - 1

    def _has_room(self, time: int, size: int) -> bool:
        """Whether a short row can have its own address without raising the peak; in a longer row it leaves a gap."""
        return self._crowd is not None and self._crowd.at(time) + size <= self._limit

    def _bundles(self) -> Iterator[Bundle]:
        """A bundle per rigid tensor, one per row of the others, one per scratch."""
        inputs = {self._flow.problem.root(name) for name in self._flow.problem.inputs}
        pieces: dict[_Name, list[Piece]] = {}
        for copy in self._sorted:
            live = pieces.setdefault(copy.spot.bundle, [])
            if copy.first <= copy.last and self._flow.slot[copy.row.tensor]:
                live.append(Piece(copy.spot.offset, self._flow.slot[copy.row.tensor], copy.first, copy.last))
        for name, tails in self._tails.items():
            pieces.setdefault(name, []).extend(tails)
        for name, lowest in self._lowest.items():
            if lowest and name in pieces:
                pieces[name] = [replace(piece, offset=piece.offset - lowest) for piece in pieces[name]]
        for time, event in enumerate(self._events):
            for need, size in self._needs(event):
                pieces.setdefault(need, []).append(Piece(0, size, time, time))
        for bundle, alive in pieces.items():
            if alive:
                yield Bundle(bundle, tuple(alive), sinks=isinstance(bundle, _Bytes) and bundle.tensor in inputs)

    def _needs(self, event: Event) -> Iterator[tuple[_Need, int]]:
        """Scratch of an op, in bytes."""
        flow = self._flow
        if event.op >= flow.count:
            parts = self._composites[event.op - flow.count].needs(event.row)
            yield from ((_Need(event.op, part), size) for part, size in parts)
        elif flow.scratch[event.op]:
            yield _Need(event.op), flow.scratch[event.op]

    def placements(self, bases: _Bases, steps: Sequence[range]) -> tuple[list[Placement], list[Editions]]:
        """The placement of each tensor (a view has that of its root), and the editions that each step uses."""
        problem = self._flow.problem
        addresses = {
            number: bases[copy.spot.bundle] + copy.spot.offset - self._lowest[copy.spot.bundle]
            for number, copy in enumerate(self._copies)
            if copy.row.tensor not in self._stiff
        }
        tables, chosen = editions(self._ranges, steps, addresses)
        by_root = by_key((problem.root(spec.name), spec.name) for spec in problem.tensors)
        chosen = [tuple(sorted((name, i) for root, i in each for name in by_root[root])) for each in chosen]
        found = []
        for spec in problem.tensors:
            root = problem.root(spec.name)
            if root in self._stiff and (base := _Bytes(problem.place(root))) in bases:
                at = bases[base] - self._lowest.get(base, 0)
                found.append(Placement(spec.name, at, spec.rows, spec.row_bytes))
            for edition, slots in enumerate(tables.get(root, ())):
                found.append(Placement(spec.name, slots[0], spec.rows, spec.row_bytes, slots, edition))
        return found, chosen


def _placed(
    order: RowOrder, enough: int | None, effort: Effort, below: int
) -> tuple[tuple[_Layout, int, _Bases], bool]:
    """Bundles, arena and bases, with the choice of in-place rows that gives the least arena, and whether it drifts."""
    best: tuple[_Layout, int, _Bases] | None = None
    low: int | None = None  # the load where rows drift, if that was not reached
    for share in _shares(order):
        made = order.overlapping if share is Share.ALL else _Layout(order, share)
        least = load(made.bundles)
        if made.drifts and best is not None:
            continue  # the first choice overlaps fewer rows and packs better
        most = below if best is None else min(best[1], below)
        another = best is not None and effort is Effort.FULL
        if best is None or _may_be_less(made, least, most, another):
            given = Effort.LEAST if another or made.drifts else effort
            arena_bytes, bases = place(made.bundles, max(least, enough or 0), given, most)
            low = least if made.drifts else low
            if best is None or arena_bytes < best[1]:
                best = made, arena_bytes, bases
        if enough is not None and best[1] <= enough:
            break
    assert best is not None
    if low is None:
        return best, False
    return _with_fewer(order, enough, low, below, best), True


def _shares(order: RowOrder) -> Iterable[Share]:
    """The choices of in-place rows; where no op can write in place they are all the same."""
    return Share if any(tap is not None for tap in order.flow.in_place) else (Share.NONE,)


def _may_be_less(layout: _Layout, least: int, most: int, fits_first: bool) -> bool:
    """Whether an arena below `most` is likely; with `fits_first` only where first fit comes near."""
    return least < most and not (fits_first and first_fit(layout.bundles) > most * LAYOUT.HOPELESS)


def _with_fewer(
    order: RowOrder, enough: int | None, low: int, below: int, best: tuple[_Layout, int, _Bases]
) -> tuple[_Layout, int, _Bases]:
    """The best placement where as few rows overlap as some arenas above the load `low` need: the fewer, the easier."""
    for _ in range(LAYOUT.ARENAS):
        most = min(best[1], below)
        limit = aligned((low + most) // 2)
        if limit <= low or most - low < most * LAYOUT.WORTH or (enough is not None and best[1] <= enough):
            break
        made = _Layout(order, Share.NEEDED, limit)
        arena_bytes, bases = place(made.bundles, limit, Effort.LEAST, most)
        if arena_bytes < best[1]:
            best = made, arena_bytes, bases
        if arena_bytes > limit:
            low = limit
    return best


def lay_out(
    flow: Flow,
    events: Sequence[Event],
    composites: Sequence[Composite] = (),
    enough: int | None = None,
    effort: Effort | None = None,
    below: int = NEVER,
) -> Layout:
    """Places all rows and scratch for an order of rows; `composites` are those that the flow has after its ops.

    The smallest arena found with full effort, or with `enough` the first one within so many bytes, with less effort.
    Only arenas of less than `below` bytes are searched for; without one it is any.
    """
    effort = effort or (Effort.FULL if enough is None else Effort.SOME)
    (made, arena_bytes, bases), drifts = _placed(RowOrder(flow, events, composites), enough, effort, below)
    used = dict.fromkeys(e.op - flow.count for e in events if e.op >= flow.count)
    parts = list(_parts(events))
    placements, chosen = made.placements(bases, parts)
    scratch = []
    for op, spec in enumerate(flow.problem.ops):
        if spec.scratch_bytes and _Need(op) in bases:
            scratch.append(Scratch(spec.name, bases[_Need(op)], spec.scratch_bytes))
    for i in used:
        needs = ((need, base) for need, base in bases.items() if isinstance(need, _Need) and need.op == flow.count + i)
        places = {need.part: base for need, base in needs if need.part is not None}
        placements += composites[i].placements(places)
        scratch += composites[i].scratch(places)
    steps = [
        replace(step, editions=edition)
        for part, edition in zip(parts, chosen, strict=True)
        for step in _steps(flow, events[part.start : part.stop], composites)
    ]
    return Layout(tuple(steps), tuple(placements), tuple(scratch), arena_bytes, drifts)


def _parts(events: Sequence[Event]) -> Iterator[range]:
    """Neighbouring rows of one op, by the places of their events."""
    start = 0
    for i in range(1, len(events) + 1):
        if i == len(events) or (events[i].op, events[i].row) != (events[i - 1].op, events[i - 1].row + 1):
            yield range(start, i)
            start = i


def _steps(flow: Flow, events: Sequence[Event], composites: Sequence[Composite]) -> Iterator[Step]:
    """Neighbouring rows of one op are one step; a band of a composite is several steps."""
    first, last = events[0], events[-1]
    if first.op < flow.count:
        op = flow.problem.ops[first.op]
        yield Step(op.name, (first.row, last.row + last.rows))
    else:
        for event in events:
            yield from composites[first.op - flow.count].steps(event.row)


def fullest_step(problem: Problem, steps: Sequence[Step]) -> int:
    """The step during which most bytes are alive."""
    alive = _Alive(problem, steps)
    return alive.step_of(alive.fullest(range(len(alive.events)))) if alive.events else 0


def alive_at(problem: Problem, steps: Sequence[Step], step: int) -> list[tuple[str, int]]:
    """Tensors (and scratch) that are alive at the peak of a step, largest first."""
    alive = _Alive(problem, steps)
    if not alive.events:
        return [(t.name, t.bytes) for t in problem.tensors]
    held = alive.held(alive.fullest(alive.events_of(step)))
    return sorted(held.items(), key=lambda item: (-item[1], item[0]))


class _Alive:
    """What is alive at each event, in the steps of a plan."""

    def __init__(self, problem: Problem, steps: Sequence[Step]) -> None:
        self.events = single_events(problem, steps)
        self._ends = list(accumulate(s.rows[1] - s.rows[0] for s in steps))
        self._pieces = [
            (b.name.tensor if isinstance(b.name, _Bytes) else "scratch", p)
            for b in (_Layout(RowOrder(Flow(problem), self.events)).bundles if self.events else ())
            for p in b.pieces
        ]
        change = [0] * (len(self.events) + 2)
        for _, piece in self._pieces:
            change[max(piece.first, 0)] += piece.bytes
            change[piece.last + 1] -= piece.bytes
        self._loads = list(accumulate(change))

    def step_of(self, event: int) -> int:
        return bisect_right(self._ends, event)

    def events_of(self, step: int) -> range:
        return range(self._ends[step - 1] if step else 0, self._ends[step])

    def fullest(self, during: range) -> int:
        return max(during, key=self._loads.__getitem__)

    def held(self, time: int) -> dict[str, int]:
        found: dict[str, int] = {}
        for name, piece in self._pieces:
            if piece.first <= time <= piece.last:
                found[name] = found.get(name, 0) + piece.bytes
        return found
