"""Improves a given sequence with CP-SAT: which outputs to keep and which to recompute, among positions near it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shoehorn_mcu.planner.remat import slots
from shoehorn_mcu.planner.remat.graph import LIMIT, Graph
from shoehorn_mcu.planner.remat.memory import Terms, duration
from shoehorn_mcu.planner.remat.solver import Limit

MOST_NODES = 1000  # of a graph that CP-SAT is asked about
_OFFERS = ((8, 1), (30, 1))  # slots that an input waits before it is offered again, and how often
_SHARE = 0.4  # of what is left: for one model
_WINDOW = 400  # steps that are free at one time
_WINDOW_SHARE = 0.1  # of all


@dataclass(frozen=True)
class Retained:
    """The best sequence, and the least work of all choices of what was offered around it first; None: not known."""

    sequence: tuple[int, ...]
    least: int | None


def retained(graph: Graph, terms: Terms, sequence: Sequence[int], budget: int, limit: Limit) -> Retained:
    """A sequence no longer than this one, which fits. Offers begin anew with what is shorter."""
    best, least = tuple(sequence), None
    at = 0
    while at < len(_OFFERS) and not limit.reached:
        places, steps = slots.offered(graph, terms, best, *_OFFERS[at])
        with limit.part(limit.deterministic * _SHARE) as part:
            found = slots.solve(graph, places, budget, part, terms, steps)
        if at == 0:
            least = found.bound if found.bound < LIMIT else None
        if found.sequence is not None and duration(graph, found.sequence) < duration(graph, best):
            best, at = found.sequence, 0
        else:
            at += 1
    return Retained(best, least)


def windowed(graph: Graph, terms: Terms, sequence: Sequence[int], budget: int, limit: Limit) -> tuple[int, ...]:
    """A sequence no longer than this one, which fits, for graphs of any size.

    What is run and kept is chosen anew within one window of steps after the other, wherever something is run again.
    """
    best = tuple(sequence)
    most = limit.deterministic * _WINDOW_SHARE
    start = 0
    while not limit.reached and (again := _repeat(best, start)) is not None:
        start = max(start, again - _WINDOW // 2)
        best = _in_window(graph, terms, best, range(start, start + _WINDOW), budget, limit, most) or best
        start += _WINDOW
    return best


def _repeat(sequence: Sequence[int], start: int) -> int | None:
    """The first step from `start` on of a node that has run before."""
    seen = set(sequence[:start])
    for step in range(start, len(sequence)):
        if sequence[step] in seen:
            return step
        seen.add(sequence[step])
    return None


def _in_window(
    graph: Graph, terms: Terms, sequence: tuple[int, ...], window: range, budget: int, limit: Limit, most: float
) -> tuple[int, ...] | None:
    """A shorter sequence with other choices in this window, or None."""
    places, steps = slots.offered(graph, terms, sequence, *_OFFERS[0], window)
    free = range(steps[window.start], steps[min(window.stop, len(steps)) - 1] + 1)
    with limit.part(most) as part:
        found = slots.solve(graph, places, budget, part, terms, steps, free=free).sequence
    return found if found is not None and duration(graph, found) < duration(graph, sequence) else None
