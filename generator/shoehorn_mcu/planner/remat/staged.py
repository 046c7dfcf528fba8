"""MOCCASIN's model with its order of first copies fixed (Bartan et al., ICML 2023), solved from few events to many.

Event (j, k) is a possible run of the node of rank k in stage j >= k; stage j ends with the first run of the node of
rank j, and the events of a stage are in order of rank. The first copy of a node is run at event (k, k), the others,
C_v - 1 at most, at any of its later ones, each from there until its last reader. That is the plan space as published.

The formulation for CP-SAT and its guidance differ from the paper:

- A start is a Boolean per event, not a number in a domain. An interval ends with one of its readers, so it is a Boolean
  per gap between events that write or read the node (`slots.py`). Memory is a linear constraint per event, not one
  cumulative. Intervals have any length, of which the authors' code offers some. CP-SAT's presolve is off: it took
  longer than the search.
- Few events are offered at first: those of nodes that the stage's first run reads, and only where recomputing them may
  help, because the given order exceeds the budget somewhere since they were last used. Then come the inputs of these
  nodes, and so on, in one window of stages after the other, together with the events of the best sequence so far, which
  is the hint. Windows grow while their models are solved quickly. CP-SAT's own neighbourhood search, with several
  workers in parallel, does something similar at random.
- There is no first phase for a small peak: among few events, a sequence within the budget is soon found or excluded.
  Where it is excluded, more events are offered.
- All events at once are offered last, and only if they are few enough for a proof.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

from shoehorn_mcu.planner.effort import STAGED
from shoehorn_mcu.planner.remat import slots
from shoehorn_mcu.planner.remat.graph import Graph
from shoehorn_mcu.planner.remat.memory import Terms, duration, profile
from shoehorn_mcu.planner.remat.outcome import Limit
from shoehorn_mcu.planner.remat.retention import Solution

Event = tuple[int, int]  # (stage, rank)


@dataclass(frozen=True)
class _Reach:
    """Selects the events of a stage: nodes at most `depth` edges before the stage's own node.

    No first run may have run or read them in the last n * `far` stages, and since their last use a step of the given
    order must have exceeded the budget.
    """

    depth: int
    far: float


_WHOLE = (_Reach(1, 1 / 8), _Reach(1, 0))
_WINDOWS = (_Reach(2, 1 / 25), _Reach(2, 1 / 100), _Reach(3, 1 / 50), _Reach(4, 1 / 100))


def solve(graph: Graph, budget: int, copies: Sequence[int], limit: Limit) -> Solution:
    """The shortest sequence found that keeps the graph's order of first runs and runs node v `copies[v]` times at most.

    The bound exceeds the duration of the order only if all events were offered. Ctrl-C returns the best so far.
    """
    search = _Search(graph, budget, copies, limit)
    try:
        for reach in _WHOLE:
            search.offer(search.stages.offered(reach, search.stages.all))
        search.sweep_on()
        return search.ended()
    except KeyboardInterrupt:
        return replace(search.so_far(), interrupted=True)


class _Stages:
    """The graph by ranks, and its events."""

    def __init__(self, graph: Graph, budget: int) -> None:
        self._graph = graph
        self._over = [0, *accumulate(bytes_ > budget for bytes_ in profile(graph, graph.order))]  # steps before each
        self.rank = {v: rank for rank, v in enumerate(graph.order)}
        self._inputs = [[self.rank[u] for u in graph.inputs[v]] for v in graph.order]
        self._readers = [sorted(self.rank[w] for w in graph.readers[v]) for v in graph.order]

    @property
    def all(self) -> range:
        return range(len(self._inputs))

    def offered(self, reach: _Reach, stages: Iterable[int]) -> set[Event]:
        """The events of these stages within reach."""
        far = int(len(self.all) * reach.far)
        found: set[Event] = set()
        for stage in stages:
            edge = {stage}
            for _ in range(reach.depth):
                edge = {k for v in edge for k in self._inputs[v] if self._may_help(stage, k, far)}
                found |= {(stage, k) for k in edge}
        return found

    def _may_help(self, stage: int, rank: int, far: int) -> bool:
        """Whether the node is unused for more than `far` stages, at least one of which exceeds the budget."""
        readers = self._readers[rank]
        at = bisect_left(readers, stage)
        touched = readers[at - 1] if at else rank
        return stage - touched > far and self._over[stage] > self._over[min(touched + 1, stage)]

    def window(self, reach: _Reach, end: int, width: int) -> tuple[int, set[Event]]:
        """The first of some consecutive stages that end before `end`, and their events within reach: about `width`."""
        first, window = end, set[Event]()
        while first > 0 and len(window) < width:
            first -= 1
            window |= self.offered(reach, [first])
        return first, window

    @cached_property
    def every(self) -> set[Event]:
        """Every event that the first run of its stage or of a later one may depend on, directly or through others."""
        needed = list(self.all)  # per rank: the last stage that depends on it
        for rank in reversed(self.all):
            for k in self._inputs[rank]:
                needed[k] = max(needed[k], needed[rank])
        return {(stage, rank) for rank in self.all for stage in range(rank + 1, needed[rank] + 1)}

    def placed(self, sequence: Sequence[int]) -> list[Event]:
        """The events of a sequence's steps."""
        stage, events = 0, []
        for v in sequence:
            events.append((stage, self.rank[v]))
            stage += self.rank[v] == stage
        return events


class _Search:
    """The best sequence so far, and the remaining limit."""

    def __init__(self, graph: Graph, budget: int, copies: Sequence[int], limit: Limit) -> None:
        self.stages = _Stages(graph, budget)
        self._graph, self._budget, self._limit = graph, budget, limit
        self._terms = Terms(tuple(copies))
        self._share = limit.deterministic * STAGED.SHARE
        self._width = STAGED.WIDTH
        self._best: tuple[int, ...] | None = None

    @property
    def _done(self) -> bool:
        return self._is_shortest or self._limit.reached

    @property
    def _is_shortest(self) -> bool:
        """Whether its duration is that of running each node once."""
        return self._best is not None and duration(self._graph, self._best) == sum(self._graph.durations)

    @property
    def _few(self) -> bool:
        """Whether there are few enough events for a model of all of them."""
        return len(self.stages.every) + len(self.stages.all) <= STAGED.MOST_EVENTS

    def offer(self, events: set[Event]) -> bool:
        """Solves the model of these events, all first runs and the best sequence's events; True if to the end."""
        if self._done:
            return False
        with self._limit.part(self._share) as part:
            found = self._solve(events, part)
        self._take(found.sequence)
        return found.proven

    def sweep_on(self) -> None:
        """Sweeps the windows of each reach in turn while that improves the sequence.

        After that each model gets more time, if some ended early and there are too many events for one model of all.
        """
        while not self._done:
            before = self._best
            ended = [self._sweep(reach) for reach in _WINDOWS]
            if self._best == before:
                if all(ended) or self._few:
                    return
                self._share *= 2

    def _sweep(self, reach: _Reach) -> bool:
        """Offers one window after the other, from the last stages to the first; each overlaps half of the one before.

        If no sequence is known yet, all events within reach are offered at once. True if all were solved to the end.
        """
        if self._best is None:
            return self.offer(self.stages.offered(reach, self.stages.all))
        end, all_ended = len(self.stages.all), True
        while end > 0 and not self._done:
            first, window = self.stages.window(reach, end, self._width)
            ended = self.offer(window)
            self._width = self._width * 2 if ended else max(STAGED.WIDTH, self._width // 2)
            all_ended &= ended
            end = (first + end) // 2 if first else 0
        return all_ended

    def ended(self) -> Solution:
        """The final solution: with all events if they are few enough, else the best so far."""
        if self._few and not self._limit.reached:
            found = self._solve(self.stages.every, self._limit)
            self._take(found.sequence)
            return Solution(self._best, found.bound, found.proven)
        return self.so_far()

    def so_far(self) -> Solution:
        """The best sequence, with the trivial lower bound: each node once."""
        return Solution(self._best, sum(self._graph.durations), self._is_shortest)

    def _solve(self, events: set[Event], limit: Limit) -> Solution:
        best = self.stages.placed(self._best or ())
        offered = sorted({*events, *best, *((rank, rank) for rank in self.stages.all)})
        self._limit.deterministic -= len(offered) * STAGED.BUILDING
        number = {event: t for t, event in enumerate(offered)}
        nodes = [self._graph.order[rank] for _, rank in offered]
        hint = [number[event] for event in best]
        return slots.solve(self._graph, nodes, self._budget, limit, self._terms, hint, in_order=True)

    def _take(self, sequence: tuple[int, ...] | None) -> None:
        if sequence is None:
            return
        if self._best is None or duration(self._graph, sequence) < duration(self._graph, self._best):
            self._best = sequence
