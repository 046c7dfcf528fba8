"""A problem in bands of rows, from coarse to fine, and the local search of remat on each of these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from time import monotonic

from shoehorn_mcu.planner.effort import RECOMPUTE, REMAT
from shoehorn_mcu.planner.order.flow import Event, Flow
from shoehorn_mcu.planner.recompute.bands import StepGraph, step_graph
from shoehorn_mcu.planner.remat.memory import peak
from shoehorn_mcu.planner.remat.outcome import Effort
from shoehorn_mcu.planner.remat.search import Phase, Search

REORDER = Phase(hot=3e-5, cold=3e-8, share=0.15, copy=False)  # low temperature: the given order is good already
PHASES = (Phase(5e-4, 5e-7, 0.4), Phase(5e-5, 1e-7, 0.25), Phase(5e-6, 1e-7, 0.2))


class Level:
    """The problem in bands of one fineness, and the search there."""

    def __init__(self, flow: Flow, start: Sequence[Event], budget: int, nodes: int, work: int, end: float) -> None:
        self._budget = budget
        self.steps: StepGraph = steps_of(flow, nodes)
        self.order = self.steps.sequence(start)
        self.once = sum(self.steps.graph.durations)
        graph = replace(self.steps.graph, order=self.order)
        self.search = Search(graph, budget, work, lambda: monotonic() <= end, self.steps.terms)

    def reorder(self) -> tuple[int, ...]:
        """A sequence of every node once: within the budget, or else the one with the lowest peak of the last ones."""
        self.search.run(REORDER, self.once)
        steps = self.steps
        return self.search.best or min(self.search.last, key=lambda each: peak(steps.graph, each, steps.terms))

    def anneal(self, start: Sequence[int], phases: tuple[Phase, ...]) -> tuple[int, ...] | None:
        """The best sequence found from `start`. If that is a little above the budget, the phases run once more."""
        if not self.search.restart(start):
            return None
        self._run(phases)
        if self.search.best is None and self.search.over <= self._budget:
            self._run(phases)
        return self.search.best

    def _run(self, phases: tuple[Phase, ...]) -> None:
        for phase in phases:
            self.search.run(phase, self.once)
            if self.search.best is not None:
                self.search.restart(self.search.best)


@lru_cache(len(RECOMPUTE.NODES))
def steps_of(flow: Flow, nodes: int) -> StepGraph:
    """The step graph of a flow, cached."""
    return step_graph(flow, nodes)


def rowwise(flow: Flow, start: Sequence[Event], budget: int, effort: Effort, share: float) -> Level:
    """The level of single rows; it may search for `share` of the effort."""
    return level_of(flow, start, budget, rows_of(flow), effort, share)


def levels(flow: Flow, start: Sequence[Event], budget: int, effort: Effort, share: float) -> list[Level]:
    """The levels from coarse to fine; each may search for `share` of the effort."""
    return [level_of(flow, start, budget, nodes, effort, share) for nodes in sizes(flow)]


def level_of(flow: Flow, start: Sequence[Event], budget: int, nodes: int, effort: Effort, share: float) -> Level:
    """The level with about so many bands of rows; it may search for `share` of the effort."""
    work = int(effort.seconds * REMAT.WORK_PER_SECOND * share)
    return Level(flow, start, budget, nodes, work, monotonic() + effort.patience)


def sizes(flow: Flow) -> list[int]:
    """The approximate numbers of bands of the levels, from coarse to fine; the finest may have a band per row."""
    rows = rows_of(flow)
    coarser = sum(nodes < rows for nodes in RECOMPUTE.NODES)
    return list(RECOMPUTE.NODES[: coarser + 1])


def rows_of(flow: Flow) -> int:
    """The rows of all tensors that are written or given."""
    return sum(flow.rows[name] for name in flow.born)
