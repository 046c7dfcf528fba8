"""The shortest sequence for a graph and a budget: the search, its bounds and the check of its answer.

A graph of a few nodes is searched whole. Of others a local search finds sequences, a relaxation in CP-SAT gives a lower
bound, and small ones are finally solved by a full model in CP-SAT. An independent check replays every answer.
"""

from __future__ import annotations

from time import monotonic

from shoehorn_mcu.planner.effort import LASTING, REMAT, STATES
from shoehorn_mcu.planner.remat import lasting, retention, staged, states
from shoehorn_mcu.planner.remat.check import check
from shoehorn_mcu.planner.remat.graph import Graph, quoted
from shoehorn_mcu.planner.remat.memory import duration, peak, working_set
from shoehorn_mcu.planner.remat.milestones import Milestones
from shoehorn_mcu.planner.remat.outcome import Effort, Limit, Outcome, SequenceFault, Status
from shoehorn_mcu.planner.remat.search import ANNEAL, ORDER, QUICK, REFINE, Search, library


def rematerialise(graph: Graph, budget: int, effort: Effort | None = None) -> Outcome:
    """The shortest sequence found whose peak is at most `budget`, checked. Ctrl-C gives the best so far.

    Raises SequenceFault if the check rejects the sequence found.
    """
    effort = effort or Effort()
    if refusal := _too_tight(graph, budget):
        return _none(graph, budget, Status.INFEASIBLE, sum(graph.durations), refusal)
    if peak(graph, graph.order) <= budget:
        return _checked(graph, budget, graph.order, sum(graph.durations), "the given order fits")
    if len(graph.names) > STATES.MOST_NODES:
        return _Solve(graph, budget, effort).outcome()
    sequence = states.shortest(graph, budget)
    if sequence is None:
        return _none(graph, budget, Status.INFEASIBLE, sum(graph.durations), "no sequence fits: all were tried")
    return _checked(graph, budget, sequence, duration(graph, sequence), "proven")


def in_fixed_order(graph: Graph, budget: int, effort: Effort | None = None) -> Outcome:
    """As `rematerialise`, in MOCCASIN's plan space as published: first runs in the graph's order, no third run.

    CP-SAT alone searches it (staged.py), and the bound holds for that space only.
    """
    effort = effort or Effort()
    if refusal := _too_tight(graph, budget):
        return _none(graph, budget, Status.INFEASIBLE, sum(graph.durations), refusal)
    limit = Limit(effort.seconds * REMAT.FIXED_SHARE, monotonic() + effort.patience)
    found = staged.solve(graph, budget, (2,) * len(graph.names), limit)
    tried = f"{effort.patience:g} seconds are over" if limit.reached else "tried in full"
    reason = "interrupted" if found.interrupted else tried
    if found.sequence is None:
        status = Status.INFEASIBLE if found.proven else Status.UNKNOWN
        return _none(graph, budget, status, sum(graph.durations), f"no sequence found in this order: {reason}")
    return _checked(graph, budget, found.sequence, found.bound, "proven" if found.proven else reason)


class _Solve:
    """The search for a graph whose given order does not fit the budget."""

    def __init__(self, graph: Graph, budget: int, effort: Effort) -> None:
        self._graph, self._budget, self._effort = graph, budget, effort
        self._bound = sum(graph.durations)
        self._late = False
        self._many = len(graph.names) >= REMAT.MANY_NODES
        rate = REMAT.BLOCKS_WORK_PER_SECOND if self._many else REMAT.WORK_PER_SECOND
        work = int(effort.seconds * REMAT.SEARCH_SHARE * rate)
        library()  # compiles, the first time
        self._end = monotonic() + effort.patience
        self._search = Search(graph, budget, work, self._more, blocks=self._many)
        self._milestones = Milestones(graph, budget)

    def outcome(self) -> Outcome:
        reason = "search finished"
        try:
            self._find()
            self._end_what_is_small()
        except KeyboardInterrupt:
            reason = "interrupted"
        if self._late and not self._proven:
            reason = f"{self._effort.patience:g} seconds are over"
        if self._search.best is None:
            return _none(self._graph, self._budget, Status.UNKNOWN, self._bound, f"no sequence found: {reason}")
        reason = "proven" if self._proven else reason
        return _checked(self._graph, self._budget, self._search.best, self._bound, reason)

    def _find(self) -> None:
        """Order alone; a first bound, which may end the search; a quick answer; bound; anneals; bound."""
        self._search.run(ORDER.of(len(self._graph.names)), self._bound)
        if self._proven:
            return
        self._raise_bound(REMAT.FIRST_PATIENCE)
        if self._many:
            self._find_in_many()
            self._raise_bound(REMAT.PATIENCE)
            return
        self._search.run(QUICK.of(len(self._graph.names)), self._bound)
        self._raise_bound(REMAT.PATIENCE)
        for phase in ANNEAL:
            if self._proven:
                return
            self._search.restart(self._search.nearest)
            self._search.run(phase.of(len(self._graph.names)), self._bound)
        self._raise_bound(None)

    def _find_in_many(self) -> None:
        """In turns: which long-lived outputs to keep in the order of first runs, and an anneal from there."""
        for phase, share in zip(REFINE, LASTING.SHARES, strict=True):
            if self._proven or not self._more():
                return
            order = tuple(dict.fromkeys(self._search.nearest))
            found = lasting.relieved(self._graph, order, self._budget, self._limit(share))
            if found is not None and peak(self._graph, found) <= self._budget:
                self._search.offer(found)
            self._search.restart(self._search.best or found or order)
            self._search.run(phase.of(len(self._graph.names)), self._bound)

    def _raise_bound(self, patience: int | None) -> None:
        limit, stale = self._limit(), 0
        while not self._proven and self._more() and (step := self._milestones.tighten(limit)) is not None:
            stale = 0 if step.bound > self._bound else stale + 1
            self._bound = max(self._bound, step.bound)
            if step.sequence is not None:
                self._search.offer(step.sequence)
            if patience is not None and stale >= patience:
                return

    def _end_what_is_small(self) -> None:
        """Solves the full model of a small graph, which may prove more than the relaxation's bound."""
        if self._proven or len(self._graph.names) > REMAT.SMALL:
            return
        copies, all_there_are = _copies(self._graph, self._search)
        options = retention.Options(copies)
        found = retention.solve(self._graph, self._budget, options, self._limit(), self._search.best)
        if found.sequence is not None:
            self._search.offer(found.sequence)
        if all_there_are:
            self._bound = max(self._bound, min(found.bound, self._search.duration))

    @property
    def _proven(self) -> bool:
        return self._search.best is not None and self._search.duration <= self._bound

    def _limit(self, share: float = REMAT.BOUND_SHARE) -> Limit:
        return Limit(self._effort.seconds * share, self._end)

    def _more(self) -> bool:
        self._late = self._late or monotonic() > self._end
        return not self._late


def _copies(graph: Graph, search: Search) -> tuple[tuple[int, ...], bool]:
    """The most runs of each node in any sequence shorter than the best one, and whether these limits are complete.

    They are not where a node costs nothing, or could be run too often to model.
    """
    if search.best is None:
        return (2,) * len(graph.names), False
    spare = search.duration - sum(graph.durations) - 1
    copies = [1 + spare // d if d else REMAT.COPIES + 1 for d in graph.durations]
    return tuple(min(c, REMAT.COPIES) for c in copies), max(copies) <= REMAT.COPIES


def _too_tight(graph: Graph, budget: int) -> str | None:
    """Why no sequence can fit: the node whose inputs and output alone exceed the budget; None if there is none."""
    node = max(graph.nodes, key=lambda v: working_set(graph, v))
    needed = working_set(graph, node)
    if needed <= budget:
        return None
    return f"node {quoted(graph.names[node])} needs {needed:,} for its inputs and its output, the budget is {budget:,}"


def _none(graph: Graph, budget: int, status: Status, bound: int, reason: str) -> Outcome:
    return Outcome(status, (), budget, 0, 0, sum(graph.durations), bound, reason)


def _checked(graph: Graph, budget: int, sequence: tuple[int, ...], bound: int, reason: str) -> Outcome:
    highest, total = peak(graph, sequence), duration(graph, sequence)
    if faults := check(graph, sequence, budget, highest, total):
        raise SequenceFault(f"the sequence is wrong, please report this: {'; '.join(faults[:3])}")
    status = Status.OPTIMAL if total <= bound else Status.FEASIBLE
    return Outcome(status, sequence, budget, highest, total, sum(graph.durations), bound, reason)
