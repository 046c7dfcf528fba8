"""Divides what a finished plan keeps in one arena among several memories: each tensor and each scratch is in one.

Which memory is an assignment problem: the bytes alive in a memory fit it at every moment, and the core waits as little
as possible. CP-SAT solves it for the sums of live bytes, from a greedy answer; placement/ then finds addresses. Where a
memory cannot be packed as full as that, it counts as smaller, and the assignment is made anew. The order of rows stays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.memory_plan import SRAM, Memory, Placement, Plan, Status, Step
from shoehorn_mcu.planner.order.flow import Event, Flow
from shoehorn_mcu.planner.placement.bundles import Bundle, Piece
from shoehorn_mcu.planner.placement.place import Effort, place
from shoehorn_mcu.planner.problem import ALIGNMENT, Problem, aligned

_ROUNDS = 8  # assignments that are tried to be packed
_EFFORT = 4.0  # of CP-SAT for one assignment, in its own count of time
_LIMIT_SECONDS = 60.0  # the last stop of one
_PARTS = 100  # of a cycle, in which CP-SAT counts
_COMPARED = 600  # moments up to which those are left out at which nothing is alive that is not at another one


class _Spot(NamedTuple):
    """What has one address: a whole tensor, a row of an edition, or the scratch of an op."""

    name: str  # of the tensor, or of the op
    kind: str
    edition: int = 0
    y: int = 0


@dataclass(frozen=True)
class _Live:
    """Bytes [address, end) of the plan's arena, alive from event `first` to event `last`, both inclusive."""

    spot: _Spot
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
class _Group:
    """Bundles that must be in one memory, and the bytes of their rows that an inference reads and writes."""

    bundles: tuple[Bundle, ...]
    read: int
    written: int

    def waits(self, memory: Memory) -> float:
        """Cycles of waiting in one inference."""
        return self.read * memory.read_cycles + self.written * memory.write_cycles


class _Parts:
    """What a plan places: spots, those of them that keep their distances, and tensors that are in one memory.

    `linked`: a row that overwrites another one stays at its address; else it gets an address of its own.
    """

    def __init__(self, problem: Problem, plan: Plan, linked: bool) -> None:
        self._problem, self._plan = problem, plan
        self._events: list[tuple[Step, int]] = [(step, y) for step in plan.steps for y in range(*step.rows)]
        self._places = {(p.tensor, p.edition): p for p in plan.placements}
        self._stiff = _Sets()  # of spots
        self.address: dict[_Spot, int] = {}  # in the plan's arena
        lives = [*self._rows(linked), *self._scratch()]
        self.lowest: dict[Hashable, int] = {}  # by bundle: the least of its addresses
        for spot, address in self.address.items():
            bundle = self.bundle(spot)
            self.lowest[bundle] = min(address, self.lowest.get(bundle, address))
        self.groups = tuple(self._groups(lives))

    def bundle(self, spot: _Spot) -> Hashable:
        """The name of the bundle that a spot is in."""
        return self._stiff.of(spot)

    def spot(self, tensor: str, edition: int, y: int) -> _Spot:
        """The spot of a row."""
        if self._places[tensor, edition].slots:
            return _Spot(self._problem.root(tensor), "row", edition, y)
        return _Spot(self._problem.place(tensor), "whole")

    def _seen(self, tensor: str, time: int, y: int) -> tuple[_Spot, Placement]:
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
            spot = _Spot(scratch.op, "scratch")
            self.address[spot] = scratch.address
            for time in times[scratch.op]:
                yield _Live(spot, scratch.address, scratch.address + aligned(scratch.bytes), time, time)

    def _groups(self, lives: Sequence[_Live]) -> Iterator[_Group]:
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
        yield from (_Group(tuple(own), read[name], written[name]) for name, own in members.items())

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


def _alive(groups: Sequence[_Group]) -> NDArray[np.int64]:
    """Bytes alive by moment and group, at the moments that matter: those with less alive than another are left out."""
    starts = sorted({p.first for g in groups for b in g.bundles for p in b.pieces})
    place = {moment: i for i, moment in enumerate(starts)}
    found = np.zeros((len(starts) + 1, len(groups)), np.int64)
    for number, group in enumerate(groups):
        for piece in (p for b in group.bundles for p in b.pieces):
            found[place[piece.first], number] += piece.bytes
            found[int(np.searchsorted(starts, piece.last, "right")), number] -= piece.bytes
    lines = np.unique(found.cumsum(axis=0)[:-1], axis=0)
    if len(lines) > _COMPARED:
        return lines
    below = (lines[:, None, :] <= lines[None, :, :]).all(axis=2)
    kept: NDArray[np.int64] = lines[below.sum(axis=1) == 1]  # each is below itself
    return kept


@dataclass(frozen=True)
class _Assignment:
    """The place in `memories` of each group, and a lower bound on the cycles of waiting of all assignments."""

    memory: tuple[int, ...]
    least_waits: int


def _greedy(
    groups: Sequence[_Group], alive: NDArray[np.int64], room: Sequence[int], costs: Sequence[Sequence[int]]
) -> list[int] | None:
    """Those that save most cycles per byte first, each in the cheapest memory that has room left at every moment."""
    spread = [max(own) - min(own) for own in costs]
    largest = alive.max(axis=0, initial=0)
    order = sorted(range(len(groups)), key=lambda g: (-spread[g] / max(1, int(largest[g])), -int(largest[g]), g))
    used = np.zeros((len(room), len(alive)), np.int64)
    found = [0] * len(groups)
    for g in order:
        fits = (m for m in range(len(room)) if (used[m] + alive[:, g] <= room[m]).all())
        best = min(fits, key=lambda m: (costs[g][m], m), default=None)
        if best is None:
            return None
        found[g] = best
        used[best] += alive[:, g]
    return found


def _assigned(groups: Sequence[_Group], memories: Sequence[Memory], room: Sequence[int]) -> _Assignment | None:
    """The assignment with the least waiting, and of those one in earlier memories; None where the live bytes exceed
    the memories whatever the assignment, or none was found.
    """
    from ortools.sat.python import cp_model

    from shoehorn_mcu.planner.remat.outcome import Limit
    from shoehorn_mcu.planner.remat.solver import solve

    alive = _alive(groups)
    scale = len(groups) * len(memories) + 1  # any waiting outweighs every preference of earlier memories
    costs = [[int(g.waits(memory) * _PARTS) * scale + m for m, memory in enumerate(memories)] for g in groups]
    model = cp_model.CpModel()
    where = [[model.new_bool_var("") for _ in memories] for _ in groups]
    for own in where:
        model.add_exactly_one(own)
    for m, most in enumerate(room):
        for line in alive:
            if line.sum() > most:
                model.add(sum(int(line[g]) * where[g][m] for g in np.flatnonzero(line)) <= most)
    pairs = ((g, m) for g in range(len(groups)) for m in range(len(memories)))
    model.minimize(sum(costs[g][m] * where[g][m] for g, m in pairs))
    hint = _greedy(groups, alive, room, costs)
    for g, m in enumerate(hint or ()):
        for other, var in enumerate(where[g]):
            model.add_hint(var, int(other == m))
    answer = solve(model, Limit(_EFFORT, monotonic() + _LIMIT_SECONDS))
    least = (answer.bound or 0) // scale // _PARTS
    if answer.has_answer:
        return _Assignment(tuple(next(m for m, var in enumerate(own) if answer.value(var)) for own in where), least)
    return None if hint is None or answer.infeasible else _Assignment(tuple(hint), least)


def _packed(groups: Sequence[_Group], memories: Sequence[Memory]) -> tuple[dict[Hashable, tuple[int, int]], int] | None:
    """By bundle its place in `memories` and its base there; and the lower bound of the first assignment."""
    room, least = [memory.bytes // ALIGNMENT * ALIGNMENT for memory in memories], None
    for _ in range(_ROUNDS):
        found = _assigned(groups, memories, room)
        if found is None:
            return None
        least = found.least_waits if least is None else least
        bases: dict[Hashable, tuple[int, int]] = {}
        over = False
        for m, memory in enumerate(memories):
            bundles = [b for g, at in zip(groups, found.memory, strict=True) if at == m for b in g.bundles]
            most = memory.bytes // ALIGNMENT * ALIGNMENT
            height, placed = place(bundles, most, Effort.SOME)
            bases |= {name: (m, base) for name, base in placed.items()}
            if height > most:
                over = True
                room[m] -= aligned(height - most)
        if not over:
            return bases, least
    return None


def spread(problem: Problem, plan: Plan, memories: Sequence[Memory]) -> Plan | None:
    """The plan with the arenas of these memories in place of its one; None where no way was found to pack them.

    `problem` has the ops of the plan's steps. All editions of a tensor are in one memory, and so are tensors that are
    in one place, such as a state and its next value. `Outcome.least_waits` is a lower bound on the cycles of waiting
    of all such assignments for this order of rows.
    """
    for linked in (True, False):
        parts = _Parts(problem, plan, linked)
        packed = _packed(parts.groups, memories)
        if packed is not None:
            return _moved(plan, parts, memories, *packed)
    return None


def _moved(
    plan: Plan, parts: _Parts, memories: Sequence[Memory], bases: Mapping[Hashable, tuple[int, int]], least: int
) -> Plan:
    """The plan with everything at its new place."""

    def at(spot: _Spot) -> tuple[str, int] | None:
        """The memory and the new address; None where no step touches it."""
        if spot not in parts.address or parts.bundle(spot) not in bases:
            return None
        m, base = bases[parts.bundle(spot)]
        return memories[m].name, base + parts.address[spot] - parts.lowest[parts.bundle(spot)]

    placements = []
    for placed in plan.placements:
        found = [at(parts.spot(placed.tensor, placed.edition, y)) for y in range(placed.rows)]
        memory, other = next((each for each in found if each is not None), (SRAM, 0))
        slots = tuple(each[1] if each is not None else other for each in found) if placed.slots else ()
        placements.append(replace(placed, address=slots[0] if slots else other, slots=slots, memory=memory))
    scratch = []
    for each in plan.scratch:
        memory, address = at(_Spot(each.op, "scratch")) or (SRAM, 0)
        scratch.append(replace(each, address=address, memory=memory))
    ends: dict[str, int] = defaultdict(int)
    for placed in placements:
        end = max(placed.slots) + placed.row_bytes if placed.slots else placed.address + placed.bytes
        ends[placed.memory] = max(ends[placed.memory], aligned(end))
    for each in scratch:
        ends[each.memory] = max(ends[each.memory], aligned(each.address + each.bytes))
    total = sum(ends.values())
    status = Status.OPTIMAL if total == plan.outcome.bound_bytes else Status.FEASIBLE
    return replace(
        plan,
        placements=tuple(placements),
        scratch=tuple(scratch),
        arena_bytes=ends.get(SRAM, 0),
        other_arenas=tuple((m.name, ends[m.name]) for m in memories if m.name != SRAM and ends.get(m.name)),
        memories=tuple(memories),
        outcome=replace(plan.outcome, status=status, smaller=None, least_waits=least),
    )
