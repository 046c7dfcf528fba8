"""Retention intervals around a sequence: where rows may be run again is offered, what to keep instead is solved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from generator.planner.remat import slots
from generator.planner.remat.graph import LIMIT, Graph
from generator.planner.remat.memory import Terms, duration
from generator.planner.remat.solver import Limit

MOST_NODES = 1000  # of a graph that CP-SAT is asked about
_OFFERS = ((8, 1), (30, 1))  # slots that an input waits before it is offered again, and how often
_SHARE = 0.4  # of what is left: for one model


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
        part = Limit(limit.deterministic * _SHARE, limit.end)
        limit.deterministic -= part.deterministic
        found = slots.solve(graph, places, budget, part, terms, steps)
        limit.deterministic += max(0.0, part.deterministic)
        if at == 0:
            least = found.bound if found.bound < LIMIT else None
        if found.sequence is not None and duration(graph, found.sequence) < duration(graph, best):
            best, at = found.sequence, 0
        else:
            at += 1
    return Retained(best, least)
