"""Divides what a finished plan keeps in one arena among several memories: each tensor and each scratch is in one.

Which memory is an assignment problem: the bytes alive in a memory fit it at every moment, and the core waits as little
as possible. CP-SAT solves it for the sums of live bytes, from a greedy answer; placement/ then finds addresses. Where a
memory cannot be packed as full as that, it counts as smaller, and the assignment is made anew. The order of rows stays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

from shoehorn_mcu.memory_plan import SRAM, Memory, Plan, Status
from shoehorn_mcu.planner.placement.place import Effort, place
from shoehorn_mcu.planner.problem import ALIGNMENT, Problem, aligned
from shoehorn_mcu.planner.spread.assign import assigned
from shoehorn_mcu.planner.spread.places import Group, Places, Spot

_ROUNDS = 8  # assignments that are tried to be packed


def _packed(groups: Sequence[Group], memories: Sequence[Memory]) -> tuple[dict[Hashable, tuple[int, int]], int] | None:
    """By bundle its place in `memories` and its base there; and the lower bound of the first assignment."""
    room, least = [memory.bytes // ALIGNMENT * ALIGNMENT for memory in memories], None
    for _ in range(_ROUNDS):
        found = assigned(groups, memories, room)
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
        parts = Places(problem, plan, linked)
        packed = _packed(parts.groups, memories)
        if packed is not None:
            return _moved(plan, parts, memories, *packed)
    return None


def _moved(
    plan: Plan, parts: Places, memories: Sequence[Memory], bases: Mapping[Hashable, tuple[int, int]], least: int
) -> Plan:
    """The plan with everything at its new place."""

    def at(spot: Spot) -> tuple[str, int] | None:
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
        memory, address = at(Spot(each.op, "scratch")) or (SRAM, 0)
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
