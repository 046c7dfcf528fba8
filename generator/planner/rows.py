"""Plans by rows: from an order of rows to lifetimes of single rows, and from those to addresses (place.py)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate

from generator.plan import Ring, Scratch, Step
from generator.planner.bundles import Profile, profile
from generator.planner.cascade import Composite
from generator.planner.flow import Event, Flow, rigid
from generator.planner.place import Bundle, Piece, load, place
from generator.planner.problem import Problem


@dataclass
class _Life:
    """First and last event that touches a row, both inclusive; inputs are there from -1 on."""

    first: int
    last: int


class Share(Enum):
    """Which rows are overwritten in place: a shared place is less to hold, but harder to put somewhere."""

    NEEDED = "those as large as what they overwrite, and those without which the fullest moment would be fuller"
    ALL = "all"
    SCATTERED = "those with places of their own"
    NONE = "none"


_Lives = dict[str, list[list[_Life]]]
"""By tensor that is no view, by row: its lifetimes, more than one where it is computed again."""


@dataclass(frozen=True)
class _Spot:
    """Where a row lies: in which bundle, and how far from its base."""

    bundle: str
    offset: int


@dataclass(frozen=True)
class Layout:
    """Steps, and an address for everything."""

    steps: tuple[Step, ...]
    rings: tuple[Ring, ...]
    scratch: tuple[Scratch, ...]
    arena_bytes: int
    load_bytes: int  # most bytes alive at one time in this order


def _lives(flow: Flow, events: Sequence[Event]) -> _Lives:
    """When each row of each tensor is alive."""
    lives: _Lives = {name: [[] for _ in range(rows)] for name, rows in flow.rows.items() if name in flow.born}
    for name in flow.problem.inputs:
        for row in lives[flow.problem.root(name)]:
            row[:] = [_Life(-1, -1)]
    for time, event in enumerate(events):
        rows = range(event.row, event.row + event.rows)
        for y in rows:
            lives[flow.writes[event.op]][y].append(_Life(time, time))
        for tap in flow.taps[event.op]:
            for read in (read for y in rows for read in tap.reads[y]):
                lives[tap.tensor][read][-1].last = time
    for name in flow.problem.outputs:
        for row in lives[flow.problem.root(name)]:
            row[-1].last = max(len(events) - 1, 0)
    return lives


class _Layout:
    """Bundles of one order of rows."""

    def __init__(
        self, flow: Flow, events: Sequence[Event], composites: Sequence[Composite] = (), share: Share = Share.ALL
    ) -> None:
        self._flow, self._events, self._composites = flow, events, composites
        self._stiff = rigid(flow.problem)
        self._lives = _lives(flow, events)
        self._crowd: Profile | None = None  # what is alive when, if there is room beside it for short rows
        if share is Share.NEEDED:
            self._crowd = profile(_Layout(flow, events, composites).bundles)
        self.spots: dict[tuple[str, int], _Spot] = {}
        for name, rows in self._lives.items():
            for y in range(len(rows)):
                stiff = name in self._stiff
                self.spots[name, y] = _Spot(name, y * flow.slot[name]) if stiff else _Spot(f"{name}\n{y}", 0)
        for time, event in enumerate(events if share is not Share.NONE else ()):
            self._share(time, event, share)
        self.bundles: tuple[Bundle, ...] = tuple(self._bundles())

    def _share(self, time: int, event: Event, share: Share) -> None:
        """Puts a row over the one that it may overwrite, where nobody reads that one later."""
        flow = self._flow
        tap = flow.in_place[event.op]
        if tap is None:
            return
        name, y = flow.taps[event.op][tap].tensor, event.row
        if share is Share.SCATTERED and name in self._stiff:
            return
        below, above = self._lives[name][y], self._lives[flow.writes[event.op]][y]
        kept = flow.last_user[name][y] >= flow.count
        if kept or len(below) != 1 or len(above) != 1 or below[0].last != time:
            return
        shrinks = flow.slot[flow.writes[event.op]] < flow.slot[name]
        if shrinks and self._has_room(time, flow.slot[flow.writes[event.op]]):
            return
        self.spots[flow.writes[event.op], y] = self.spots[name, y]
        if shrinks:
            above[0].first = time + 1
        else:
            below[0].last = time - 1

    def _has_room(self, time: int, size: int) -> bool:
        """Whether a short row may have a place of its own; over a longer one it leaves a fragment beside it."""
        return self._crowd is not None and self._crowd.at(time) + size <= max(self._crowd.alive)

    def _bundles(self) -> Iterator[Bundle]:
        """A bundle per rigid tensor, one per row of the others, one per scratch."""
        inputs = {self._flow.problem.root(name) for name in self._flow.problem.inputs}
        pieces: dict[str, list[Piece]] = {}
        for name, rows in self._lives.items():
            for y, lives in enumerate(rows):
                spot = self.spots[name, y]
                found = pieces.setdefault(spot.bundle, [])
                size = self._flow.slot[name]
                found += [Piece(spot.offset, size, life.first, life.last) for life in lives if life.first <= life.last]
        for time, event in enumerate(self._events):
            for part, size in self._needs(event):
                pieces.setdefault(f"\n{event.op}\n{part}", []).append(Piece(0, size, time, time))
        for name, found in pieces.items():
            if found:
                yield Bundle(name, tuple(found), sinks=name in inputs)

    def _needs(self, event: Event) -> Iterator[tuple[str, int]]:
        """What an op needs while it runs, beside its rows: bytes by name."""
        flow = self._flow
        if event.op >= flow.count:
            yield from self._composites[event.op - flow.count].needs(event.row)
        elif flow.scratch[event.op]:
            yield "", flow.scratch[event.op]

    def rings(self, bases: Mapping[str, int]) -> Iterator[Ring]:
        """Where each tensor lies; a view lies where its root does."""
        problem = self._flow.problem
        for spec in problem.tensors:
            root = problem.root(spec.name)
            if root not in self._lives or not any(self._lives[root]):
                continue
            if root in self._stiff:
                yield Ring(spec.name, bases[root], spec.rows, spec.rows, spec.row_bytes)
                continue
            spots = (self.spots[root, y] for y in range(spec.rows))
            slots = tuple(bases[spot.bundle] + spot.offset for spot in spots)
            yield Ring(spec.name, slots[0], len(set(slots)), spec.rows, spec.row_bytes, slots)


def _placed(
    flow: Flow, events: Sequence[Event], composites: Sequence[Composite], enough: int | None
) -> tuple[_Layout, int, Mapping[str, int], int]:
    """Bundles, their arena and bases, and the load: with as many rows in place of others as does good."""
    best: tuple[_Layout, int, Mapping[str, int], int] | None = None
    for share in Share if any(tap is not None for tap in flow.in_place) else (Share.NONE,):
        made = _Layout(flow, events, composites, share)
        least = load(made.bundles)
        if best is None or least < best[1]:
            arena_bytes, bases = place(made.bundles, max(least, enough or 0), patient=enough is None)
            if best is None or arena_bytes < best[1]:
                best = made, arena_bytes, bases, least
        if enough is not None and best[1] <= enough:
            break
    assert best is not None
    return best


def lay_out(
    flow: Flow, events: Sequence[Event], composites: Sequence[Composite] = (), enough: int | None = None
) -> Layout:
    """Places everything for an order of rows; `composites` are those that the flow has behind its ops.

    As low as can be, or, with less patience, within `enough` bytes.
    """
    made, arena_bytes, bases, least = _placed(flow, events, composites, enough)
    used = dict.fromkeys(e.op - flow.count for e in events if e.op >= flow.count)
    rings, scratch = list(made.rings(bases)), []
    for op, spec in enumerate(flow.problem.ops):
        if spec.scratch_bytes and f"\n{op}\n" in bases:
            scratch.append(Scratch(spec.name, bases[f"\n{op}\n"], spec.scratch_bytes))
    for i in used:
        start = f"\n{flow.count + i}\n"
        places = {name.removeprefix(start): base for name, base in bases.items() if name.startswith(start)}
        rings += composites[i].rings(places)
        scratch += composites[i].scratch(places)
    steps = tuple(_steps(flow, events, composites))
    return Layout(steps, tuple(rings), tuple(scratch), arena_bytes, least)


def _steps(flow: Flow, events: Sequence[Event], composites: Sequence[Composite]) -> Iterator[Step]:
    """Neighbouring rows of one op become one step; a band of a composite stands for several."""
    start = 0
    for i in range(1, len(events) + 1):
        if i < len(events) and (events[i].op, events[i].row) == (events[i - 1].op, events[i - 1].row + 1):
            continue
        first, last = events[start], events[i - 1]
        if first.op < flow.count:
            op = flow.problem.ops[first.op]
            yield Step(op.name, (first.row, last.row + last.rows), (0, op.channels))
        else:
            for event in events[start:i]:
                yield from composites[first.op - flow.count].steps(event.row)
        start = i


def fullest_step(problem: Problem, steps: Sequence[Step]) -> int:
    """The step during which most bytes are alive."""
    alive = _Alive(problem, steps)
    return alive.step_of(alive.fullest(range(len(alive.events)))) if alive.events else 0


def alive_at(problem: Problem, steps: Sequence[Step], step: int) -> list[tuple[str, int]]:
    """Tensors (and scratch) that hold bytes at the fullest moment of a step, largest first."""
    alive = _Alive(problem, steps)
    if not alive.events:
        return [(t.name, t.bytes) for t in problem.tensors]
    held = alive.held(alive.fullest(alive.events_of(step)))
    return sorted(held.items(), key=lambda item: (-item[1], item[0]))


class _Alive:
    """What is alive when, in the steps of a plan."""

    def __init__(self, problem: Problem, steps: Sequence[Step]) -> None:
        index = {op.name: i for i, op in enumerate(problem.ops)}
        self.events = [Event(index[s.op], y) for s in steps for y in range(*s.rows)]
        self._ends = list(accumulate(s.rows[1] - s.rows[0] for s in steps))
        self._pieces = [
            (b.name.partition("\n")[0] or "scratch", p)
            for b in (_Layout(Flow(problem), self.events).bundles if self.events else ())
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
