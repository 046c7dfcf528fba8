"""MOCCASIN's model with its order of first copies fixed (Bartan et al., ICML 2023), solved from few events to many.

Event (j, k) is the chance to run the node of rank k in stage j >= k; stage j ends with the first run of the node of
rank j, and the events of a stage stand by rank. The first copy of a node is run at event (k, k), the others, C_v - 1 at
most, at any of its later ones, each from there until its last reader. That is the plan space as published.

What is not as published is how it is put to CP-SAT, and how that is led:

- A start is a Boolean per event, not a number in a domain. An interval ends with one of its readers, so it is a Boolean
  per gap between events that write or read the node (`slots.py`). Memory is a linear constraint per event, not one
  cumulative. Intervals have any length, of which the authors' code offers some. CP-SAT's presolve is off: it took
  longer than the search.
- Few events are offered at first: in each stage, what its node would have to run again. More follow, then all those of
  one window of stages after the other, always with the events of the best sequence so far, which is the hint. CP-SAT's
  own search by neighbourhoods, which several workers would do side by side, does the like at random.
- There is no first phase for a small peak: among few events, a sequence within the budget is soon found or excluded.
  Where it is excluded, more events are offered.
- All events at once come last, and only where they are so few that this may prove something.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from generator.planner.remat import slots
from generator.planner.remat.graph import Graph
from generator.planner.remat.memory import Terms, duration
from generator.planner.remat.retention import Found
from generator.planner.remat.solver import Limit

Event = tuple[int, int]  # (stage, rank)

_SHARE = 1 / 30  # of the limit: what one model gets, where it is not the last
_MOST_EVENTS = 6000  # of a model with all of them: the order of a hundred nodes has 5050


@dataclass(frozen=True)
class _Reach:
    """Which events of a stage are offered: `depth` steps back from its node at most, each a node that was neither run
    first nor read by a first run in the last n / `part` stages.
    """

    depth: int
    part: int


_WIDER = (_Reach(1, 8), _Reach(1, 25), _Reach(2, 25))
_WINDOWS = ((_Reach(3, 50), 200), (_Reach(4, 100), 300))  # with so many events more than the best sequence


def solve(graph: Graph, budget: int, copies: Sequence[int], limit: Limit) -> Found:
    """The shortest sequence found that keeps the graph's order of first runs and runs node v `copies[v]` times at most.

    The bound says more than the duration of the order only where all events were offered. Ctrl-C gives the best so far.
    """
    search = _Search(graph, budget, copies, limit)
    try:
        for reach in _WIDER:
            search.offer(search.stages.offered(reach, search.stages.all))
        for reach, width in _WINDOWS:
            while search.sweep(reach, width):
                pass
        return search.ended()
    except KeyboardInterrupt:
        return replace(search.so_far(), interrupted=True)


class _Stages:
    """The graph by ranks: which events there are."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.rank = {v: rank for rank, v in enumerate(graph.order)}
        self._inputs = [[self.rank[u] for u in graph.inputs[v]] for v in graph.order]
        self._readers = [sorted(self.rank[w] for w in graph.readers[v]) for v in graph.order]

    @property
    def all(self) -> range:
        return range(len(self._inputs))

    def offered(self, reach: _Reach, stages: Iterable[int]) -> set[Event]:
        """The events of these stages within reach."""
        far = len(self._inputs) // reach.part
        found: set[Event] = set()
        for stage in stages:
            edge = {stage}
            for _ in range(reach.depth):
                edge = {k for v in edge for k in self._inputs[v] if stage - self._touched(k, stage) > far}
                found |= {(stage, k) for k in edge}
        return found

    def _touched(self, rank: int, stage: int) -> int:
        """The last stage before this one that ends with the node or with a reader of it."""
        readers = self._readers[rank]
        at = bisect_left(readers, stage)
        return readers[at - 1] if at else rank

    def windows(self, reach: _Reach, width: int) -> Iterator[set[Event]]:
        """All events within reach of some stages in a row, `width` or a little more; from the last stages to the first,
        each window overlapping the one before by half.
        """
        end = len(self._inputs)
        while end > 0:
            first, window = end, set[Event]()
            while first > 0 and len(window) < width:
                first -= 1
                window |= self.offered(reach, [first])
            yield window
            end = (first + end) // 2 if first else 0

    @cached_property
    def every(self) -> set[Event]:
        """Every event that some first run at the end of its stage or later may need, through whatever is between."""
        needed = list(self.all)  # per rank the last stage that needs it
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
    """The best sequence so far, and what may still be used up."""

    def __init__(self, graph: Graph, budget: int, copies: Sequence[int], limit: Limit) -> None:
        self.stages = _Stages(graph)
        self._graph, self._budget, self._limit = graph, budget, limit
        self._terms = Terms(tuple(copies))
        self._share = limit.deterministic * _SHARE
        self._best: tuple[int, ...] | None = None

    @property
    def _done(self) -> bool:
        return self._is_shortest or self._limit.reached

    @property
    def _is_shortest(self) -> bool:
        """It takes no longer than running each node once."""
        return self._best is not None and duration(self._graph, self._best) == sum(self._graph.durations)

    def offer(self, events: set[Event]) -> bool:
        """Solves the model of these events, of all first runs, and of the best sequence's events. True: it is better
        now.
        """
        with self._limit.part(self._share) as part:
            found = self._solve(events, part)
        return self._take(found)

    def sweep(self, reach: _Reach, width: int) -> bool:
        """Offers one window after the other; all within reach at once where no sequence is known. True: some helped."""
        if self._best is None:
            return self.offer(self.stages.offered(reach, self.stages.all))
        helped = [self.offer(window) for window in self.stages.windows(reach, width) if not self._done]
        return any(helped)

    def ended(self) -> Found:
        """With all events if they are few enough; else as it stands."""
        if len(self.stages.every) + len(self.stages.all) <= _MOST_EVENTS and not self._limit.reached:
            found = self._solve(self.stages.every, self._limit)
            self._take(found)
            return Found(self._best, found.bound, found.proven)
        return self.so_far()

    def so_far(self) -> Found:
        """The best sequence, with the bound that needs no search."""
        return Found(self._best, sum(self._graph.durations), self._is_shortest)

    def _solve(self, events: set[Event], limit: Limit) -> Found:
        best = self.stages.placed(self._best or ())
        offered = sorted({*events, *best, *((rank, rank) for rank in self.stages.all)})
        number = {event: t for t, event in enumerate(offered)}
        nodes = [self._graph.order[rank] for _, rank in offered]
        hint = [number[event] for event in best]
        return slots.solve(self._graph, nodes, self._budget, limit, self._terms, hint, in_order=True)

    def _take(self, found: Found) -> bool:
        if found.sequence is None:
            return False
        if self._best is not None and duration(self._graph, found.sequence) >= duration(self._graph, self._best):
            return False
        self._best = found.sequence
        return True
