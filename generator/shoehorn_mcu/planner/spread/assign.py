"""Which memory each group is in: the bytes alive in a memory fit it at every moment, and the core waits least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.planner.effort import ASSIGN
from shoehorn_mcu.planner.memory_plan import Memory
from shoehorn_mcu.planner.spread.places import Group


def _alive(groups: Sequence[Group]) -> NDArray[np.int64]:
    """Bytes alive by moment and group, at the moments that matter: those with less alive than another are left out."""
    pieces = [
        (n, p.first, p.last, p.bytes) for n, group in enumerate(groups) for own in group.pieces.values() for p in own
    ]
    number, first, last, size = np.array(pieces, np.int64).reshape(-1, 4).T
    starts = np.unique(first)
    found = np.zeros((len(starts) + 1, len(groups)), np.int64)
    np.add.at(found, (np.searchsorted(starts, first), number), size)
    np.subtract.at(found, (np.searchsorted(starts, last, "right"), number), size)
    lines = np.unique(found.cumsum(axis=0)[:-1], axis=0)
    if len(lines) > ASSIGN.COMPARED:
        return lines
    below = (lines[:, None, :] <= lines[None, :, :]).all(axis=2)
    kept: NDArray[np.int64] = lines[below.sum(axis=1) == 1]  # each is below itself
    return kept


@dataclass(frozen=True)
class Assignment:
    """The place in `memories` of each group, and a lower bound on the cycles of waiting of all assignments."""

    memory: tuple[int, ...]
    least_waits: int


def _greedy(
    groups: Sequence[Group], alive: NDArray[np.int64], room: Sequence[int], costs: Sequence[Sequence[int]]
) -> list[int] | None:
    """Groups that save most cycles per byte first, each in the cheapest memory with room left at every moment."""
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


def assigned(groups: Sequence[Group], memories: Sequence[Memory], room: Sequence[int]) -> Assignment | None:
    """The assignment with the least waiting, and of those one in earlier memories; None where the live bytes exceed
    the memories whatever the assignment, or none was found.
    """
    from ortools.sat.python import cp_model

    from shoehorn_mcu.planner.remat.outcome import Limit
    from shoehorn_mcu.planner.remat.solver import solve

    alive = _alive(groups)
    # No memory has room for some group, or all memories together have no room for the groups of some moment.
    if (alive > max(room)).any() or (alive.sum(axis=1) > sum(room)).any():
        return None
    scale = len(groups) * len(memories) + 1  # any waiting outweighs every preference of earlier memories
    costs = [[int(g.waits(memory) * ASSIGN.PARTS) * scale + m for m, memory in enumerate(memories)] for g in groups]
    model = cp_model.CpModel()
    where = [[model.new_bool_var("") for _ in memories] for _ in groups]
    for own in where:
        model.add_exactly_one(own)
    for m, most in enumerate(room):
        for line in alive[alive.sum(axis=1) > most]:
            model.add(sum(int(line[g]) * where[g][m] for g in np.flatnonzero(line)) <= most)
    pairs = ((g, m) for g in range(len(groups)) for m in range(len(memories)))
    model.minimize(sum(costs[g][m] * where[g][m] for g, m in pairs))
    hint = _greedy(groups, alive, room, costs)
    for own, chosen in zip(where, hint or (), strict=False):
        for memory, var in enumerate(own):
            model.add_hint(var, int(memory == chosen))
    answer = solve(model, Limit(ASSIGN.EFFORT, monotonic() + ASSIGN.LIMIT_SECONDS))
    least = (answer.bound or 0) // scale // ASSIGN.PARTS
    if answer.has_answer:
        return Assignment(tuple([answer.value(var) for var in own].index(1) for own in where), least)
    return None if hint is None or answer.infeasible else Assignment(tuple(hint), least)
