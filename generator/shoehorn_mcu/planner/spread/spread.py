"""Divides what a finished plan keeps in one arena among several memories: each row and each scratch is in one.

Which memory is an assignment problem: the bytes alive in a memory fit it at every moment, and the core waits as little
as possible. CP-SAT solves it for the sums of live bytes, from a greedy answer; placement/ then finds addresses. Where a
memory cannot be packed as full as that, it counts as smaller, and the assignment is made anew. The order of rows stays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from shoehorn_mcu.planner.effort import SPREAD
from shoehorn_mcu.planner.memory_plan import ANY_ORDER, SRAM, Memory, Outcome, Placement, Plan, Status
from shoehorn_mcu.planner.order.flow import Flow
from shoehorn_mcu.planner.placement.bundles import Bundle
from shoehorn_mcu.planner.placement.place import Effort, place
from shoehorn_mcu.planner.problem import ALIGNMENT, Problem, aligned
from shoehorn_mcu.planner.recompute.search import least as least_of_any
from shoehorn_mcu.planner.spread.assign import assigned
from shoehorn_mcu.planner.spread.places import Group, Owner, Places, Spot

_OUTSIDE = "smaller than the searched plans of one arena: rows overlap in several memories"


_Moves = dict[Spot, tuple[int, int]]
"""By representative of spots: the number of their memory, and by how much their addresses in the plan change."""


def _packed(places: Places, memories: Sequence[Memory]) -> tuple[_Moves, int] | None:
    """Where everything goes; and the lower bound of the first assignment."""
    room, least = [memory.bytes // ALIGNMENT * ALIGNMENT for memory in memories], None
    for _ in range(SPREAD.ROUNDS):
        found = assigned(places.groups, memories, room)
        if found is None:
            return None
        least = found.least_waits if least is None else least
        moves: _Moves = {}
        over = False
        for m, memory in enumerate(memories):
            groups = [group for group, at in zip(places.groups, found.memory, strict=True) if at == m]
            most = memory.bytes // ALIGNMENT * ALIGNMENT
            height, moved = _filled(places, groups, most)
            moves |= {spot: (m, by) for spot, by in moved.items()}
            if height > most:
                over = True
                room[m] -= aligned(height - most)
        if not over:
            return moves, least
    return None


def _filled(places: Places, groups: Sequence[Group], most: int) -> tuple[int, dict[Spot, int]]:
    """What groups take of a memory of so many bytes, and the moves there; rows side by side stay so if possible."""
    found = _placed(places.bundles(groups, whole=True), most)
    if found[0] > most and places.is_divided:
        found = _placed(places.bundles(groups, whole=False), most)
    return found


def _placed(bundles: Iterable[tuple[Bundle, tuple[Spot, ...], int]], most: int) -> tuple[int, dict[Spot, int]]:
    """The height of some bundles, and by how much their spots move."""
    listed = list(bundles)
    height, bases = place([bundle for bundle, _, _ in listed], most, Effort.SOME)
    return height, {spot: bases[bundle.name] - lowest for bundle, spots, lowest in listed for spot in spots}


def spread(problem: Problem, plan: Plan, memories: Sequence[Memory], by_rows: bool = False) -> Plan | None:
    """The plan with the arenas of these memories in place of its one; None where no way was found to pack them.

    `problem` has the ops of the plan's steps. All editions of a tensor are in one memory, and so are tensors that are
    in one place, such as a state and its next value. If `by_rows`, that holds for each row of a tensor, unless the rows
    must lie side by side or are a small part of every memory. `Outcome.least_waits` is a lower bound on the cycles of
    waiting of all such assignments for this order of rows.
    """
    smallest = min((memory.bytes for memory in memories if memory.bytes), default=0)
    for linked in (True, False):
        places = Places(problem, plan, linked, max(1, smallest // SPREAD.PARTS) if by_rows else None)
        packed = _packed(places, memories)
        if packed is not None:
            return _moved(problem, plan, places, memories, *packed)
    return None


def _moved(problem: Problem, plan: Plan, places: Places, memories: Sequence[Memory], moves: _Moves, least: int) -> Plan:
    """The plan with everything at its new place."""

    def at(spot: Spot) -> tuple[str, int] | None:
        """The memory and the new address; None where no step touches it."""
        if spot not in places.address or places.stiff(spot) not in moves:
            return None
        m, by = moves[places.stiff(spot)]
        return memories[m].name, places.address[spot] + by

    some: dict[Owner | str, tuple[str, int]] = {}  # of a part of a tensor, and of a tensor, where one of its rows is
    for spot in places.address:
        if (there := at(spot)) is not None:
            some.setdefault(places.owner(spot), there)
            some.setdefault(spot.name, there)

    def moved(placed: Placement) -> Placement:
        """Rows that no step touches are where another one of the part is, else of the tensor."""
        spots = [places.spot(placed.tensor, placed.edition, y) for y in range(placed.rows)]
        found = [at(spot) for spot in spots]
        pairs = [*zip(spots, found, strict=True)]
        own = {places.owner(spot): there for spot, there in reversed(pairs) if there is not None}
        rows = []
        for y, (spot, there) in enumerate(pairs):
            owner = places.owner(spot)
            other = own.get(owner) or some.get(owner) or some.get(spot.name) or (SRAM, 0)
            rows.append(other if there is None else (there[0], there[1] + places.offset(spot, y)))
        memory, address = rows[0]
        side_by_side = rows == [(memory, address + y * placed.row_bytes) for y in range(placed.rows)]
        if spots[0].kind == "whole" or (side_by_side and not placed.slots):
            return replace(placed, address=address, memory=memory)
        names, slots = zip(*rows, strict=True)
        several = names if len({*names}) > 1 else ()
        return replace(placed, address=address, slots=slots, memory=memory, memories=several)

    placements = tuple(map(moved, plan.placements))
    scratch = []
    for each in plan.scratch:
        memory, address = at(Spot(each.op, "scratch")) or (SRAM, 0)
        scratch.append(replace(each, address=address, memory=memory))
    ends: dict[str, int] = defaultdict(int)
    for placed in placements:
        for y in range(placed.rows) if placed.slots else (placed.rows - 1,):
            memory = placed.memory_of(y)
            ends[memory] = max(ends[memory], aligned(placed.at(y) + placed.row_bytes))
    for each in scratch:
        ends[each.memory] = max(ends[each.memory], aligned(each.address + each.bytes))
    return replace(
        plan,
        placements=placements,
        scratch=tuple(scratch),
        arena_bytes=ends.get(SRAM, 0),
        other_arenas=tuple((m.name, ends[m.name]) for m in memories if m.name != SRAM and ends.get(m.name)),
        memories=tuple(memories),
        outcome=replace(_bounded(problem, plan, sum(ends.values())), smaller=None, least_waits=least),
    )


def _bounded(problem: Problem, plan: Plan, total: int) -> Outcome:
    """The plan's outcome with `total` bytes in all memories.

    Where these are below the bound, rows overlap that have places of their own in the searched plans of one arena: what
    holds then is the bound of any order of rows.
    """
    known = plan.outcome
    if total < known.bound_bytes:
        bound = min(total, least_of_any(Flow(problem)))
        return replace(known, status=Status.FEASIBLE, bound_bytes=bound, bound_of=ANY_ORDER, reason=_OUTSIDE)
    status = Status.OPTIMAL if total == known.bound_bytes else Status.FEASIBLE
    return replace(known, status=status)
