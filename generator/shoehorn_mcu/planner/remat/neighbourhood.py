"""Improves a given sequence with CP-SAT: which outputs to keep and which to recompute, among positions near it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shoehorn_mcu.planner.effort import NEAR
from shoehorn_mcu.planner.remat import slots
from shoehorn_mcu.planner.remat.graph import LIMIT, Graph
from shoehorn_mcu.planner.remat.memory import Terms, duration
from shoehorn_mcu.planner.remat.outcome import Limit


@dataclass(frozen=True)
class Retained:
    """The best sequence, and a lower bound on the work for the slots offered first; None if not proven."""

    sequence: tuple[int, ...]
    least: int | None


def retained(graph: Graph, terms: Terms, sequence: Sequence[int], budget: int, limit: Limit) -> Retained:
    """A sequence within the budget that is no longer than the given one; each improvement restarts the offers."""
    best, least = tuple(sequence), None
    at = 0
    while at < len(NEAR.OFFERS) and not limit.reached:
        places, steps = slots.offered(graph, terms, best, *NEAR.OFFERS[at])
        with limit.part(limit.deterministic * NEAR.SHARE) as part:
            found = slots.solve(graph, places, budget, part, terms, steps)
        if at == 0:
            least = found.bound if found.bound < LIMIT else None
        if found.sequence is not None and duration(graph, found.sequence) < duration(graph, best):
            best, at = found.sequence, 0
        else:
            at += 1
    return Retained(best, least)


def windowed(graph: Graph, terms: Terms, sequence: Sequence[int], budget: int, limit: Limit) -> tuple[int, ...]:
    """As `retained`, for graphs of any size.

    Runs and kept outputs are chosen anew in one window of steps after the other, wherever a node is recomputed.
    """
    best = tuple(sequence)
    most = limit.deterministic * NEAR.WINDOW_SHARE
    start = 0
    while not limit.reached and (again := _repeat(best, start)) is not None:
        start = max(start, again - NEAR.WINDOW // 2)
        best = _in_window(graph, terms, best, range(start, start + NEAR.WINDOW), budget, limit, most) or best
        start += NEAR.WINDOW
    return best


def _repeat(sequence: Sequence[int], start: int) -> int | None:
    """The first step from `start` on that recomputes a node; None if there is none."""
    seen = set(sequence[:start])
    for step in range(start, len(sequence)):
        if sequence[step] in seen:
            return step
        seen.add(sequence[step])
    return None


def _in_window(
    graph: Graph, terms: Terms, sequence: tuple[int, ...], window: range, budget: int, limit: Limit, most: float
) -> tuple[int, ...] | None:
    """A shorter sequence that differs in this window only, or None."""
    places, steps = slots.offered(graph, terms, sequence, *NEAR.OFFERS[0], window)
    free = range(steps[window.start], steps[min(window.stop, len(steps)) - 1] + 1)
    with limit.part(most) as part:
        found = slots.solve(graph, places, budget, part, terms, steps, free=free).sequence
    return found if found is not None and duration(graph, found) < duration(graph, sequence) else None
