"""Rows in an order of their own, computed again where that keeps the peak within a budget at the least extra work.

A given order, that of flow.py say, becomes a sequence of bands of rows (stepgraph.py). The local search of remat first
looks for an order that needs nothing twice; then it starts from retraces (retrace.py) and anneals order and
copies. What it finds is counted again row by row (replay.py), and rows that nobody needs go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import monotonic

from generator.planner.flow import Event, Flow
from generator.planner.problem import Problem
from generator.planner.remat.outcome import Effort
from generator.planner.remat.search import ANNEAL, ORDER, QUICK, WORK_PER_SECOND, Search
from generator.planner.replay import Replay, pruned, replay
from generator.planner.retrace import guess
from generator.planner.stepgraph import StepGraph, step_graph

NODES = 2500  # bands of rows, about
_TRIES_PER_SECOND = 60  # sequences weighed before the search
_SEARCH_SHARE = 0.6  # of the seconds


def again(problem: Problem, start: Sequence[Event], budget: int, effort: Effort | None = None) -> list[Event] | None:
    """An order with a peak of at most `budget` bytes and the least predicted work found; None: none was found.

    `start` computes every row at least once; where it fits, it is the answer. Equal calls give equal answers, unless
    the clock says `effort.stop`. Raises OrderFault where `start` does not run.
    """
    flow = Flow(problem)
    start = [Event(event.op, row) for event in start for row in range(event.row, event.row + event.rows)]
    if replay(flow, start).peak <= budget:
        return list(start)
    if least(flow) > budget:
        return None
    return _Try(flow, start, budget, effort or Effort()).answer()


def least(flow: Flow) -> int:
    """What some moment of any order takes: the inputs, or a row with what it reads."""
    inputs = sum(flow.rows[name] * flow.slot[name] for name, born in flow.born.items() if born < 0)
    outputs = {flow.problem.root(name) for name in flow.problem.outputs}
    kept = sum(flow.rows[name] * flow.slot[name] for name in outputs)
    ops = range(len(flow.problem.ops))
    rows = (_row_takes(flow, op, y) for op in ops for y in range(flow.rows[flow.writes[op]]))
    return max(inputs, kept, max(rows, default=0))


def _row_takes(flow: Flow, op: int, y: int) -> int:
    read = {(tap.tensor, row) for tap in flow.taps[op] for row in tap.reads[y]}
    own = flow.slot[flow.writes[op]]
    place = flow.in_place[op]
    reused = 0 if place is None else min(own, flow.slot[flow.taps[op][place].tensor])
    return sum(flow.slot[tensor] for tensor, _ in read) + own + flow.scratch[op] - reused


class _Try:
    """The road from an order that is too high to one that fits."""

    def __init__(self, flow: Flow, start: Sequence[Event], budget: int, effort: Effort) -> None:
        self._flow, self._budget, self._effort = flow, budget, effort
        self._steps: StepGraph = step_graph(flow, NODES)
        self._order = self._steps.sequence(start)
        self._once = sum(self._steps.graph.durations)
        self._best: tuple[int, list[Event]] | None = None
        stop = effort.seconds if effort.stop is None else effort.stop
        self._end = monotonic() + stop
        graph = replace(self._steps.graph, order=self._order)
        work = int(effort.seconds * _SEARCH_SHARE * WORK_PER_SECOND)
        self._search = Search(graph, budget, work, self._more, self._steps.terms)

    def _more(self) -> bool:
        return monotonic() <= self._end

    def answer(self) -> list[Event] | None:
        self._search.run(ORDER, self._once)
        self._take(self._search.best)
        if self._best is None:
            self._again()
        return self._best and self._best[1]

    def _again(self) -> None:
        """Recomputing, from a guess and from the given order, whichever the search takes further."""
        guessed = guess(self._steps, self._order, self._budget, int(self._effort.seconds * _TRIES_PER_SECOND))
        self._take(guessed)
        if not self._search.restart(guessed):
            self._search.restart(self._order)
        for phase in (QUICK, *ANNEAL):
            self._search.run(phase, self._once)
            self._take(self._search.best)
            if self._search.best is not None:
                self._search.restart(self._search.best)

    def _take(self, sequence: Sequence[int] | None) -> None:
        """Keeps a sequence that fits, row by row, and takes less work than the one before."""
        if sequence is None:
            return
        events = pruned(self._flow, self._steps.events(sequence))
        found: Replay = replay(self._flow, events)
        if found.peak <= self._budget and (self._best is None or found.work < self._best[0]):
            self._best = found.work, events
