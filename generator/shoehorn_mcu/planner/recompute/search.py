"""Orders of single rows: rows are recomputed where that keeps the peak within a budget, at the least extra work found.

A given order (that of the partition search, say) becomes a sequence of bands of rows (bands.py), coarse ones first. The
local search of remat first looks for an order without any recomputation. If there is none, it continues in fine bands
and may also recompute; from a peak far above the budget it lowers the limit step by step. If that fails, or if rows
are few, ops are cloned (clones.py) or retraced (retrace.py) and the search restarts from there. If bands are few,
retention intervals in CP-SAT (remat/neighbourhood.py) come last. Every answer is measured row by row (replay.py),
and rows without a reader are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from time import monotonic

from shoehorn_mcu.planner.effort import RECOMPUTE, REMAT
from shoehorn_mcu.planner.memory_plan import DELIVERY
from shoehorn_mcu.planner.order.flow import Event, Flow
from shoehorn_mcu.planner.order.replay import pruned, replay
from shoehorn_mcu.planner.problem import Problem
from shoehorn_mcu.planner.recompute.bands import step_graph
from shoehorn_mcu.planner.recompute.clones import lowest
from shoehorn_mcu.planner.recompute.coarsening import (
    PHASES,
    REORDER,
    Level,
    level_of,
    levels,
    rows_of,
    rowwise,
    sizes,
    steps_of,
)
from shoehorn_mcu.planner.recompute.halos import banded
from shoehorn_mcu.planner.recompute.retrace import guess
from shoehorn_mcu.planner.remat.memory import peak, runs
from shoehorn_mcu.planner.remat.outcome import Effort, Limit
from shoehorn_mcu.planner.remat.search import Phase


@dataclass(frozen=True)
class Order:
    """Rows in an order that fits. `least_work`: a lower bound on the work, proven by CP-SAT for the offered positions
    only; None if not proven.
    """

    events: list[Event]
    peak: int  # bytes alive
    work: int  # predicted instructions
    once: int  # predicted instructions with every row computed once
    least_work: int | None = None

    @property
    def reason(self) -> str:
        """The extra work of the order and the lower bound on it, for the user."""
        if self.work == self.once:
            return ""
        found = f"{self._percent(self.work)} more work, the least found"
        if self.least_work is None or self.least_work <= self.once:
            return found
        return f"{found}; lower bound {self._percent(self.least_work)} for the recompute positions tried"

    def _percent(self, work: int) -> str:
        return f"{100 * (work - self.once) / max(1, self.once):.2f} %"


def recomputed(
    problem: Problem,
    start: Sequence[Event],
    budget: int,
    effort: Effort | None = None,
    most_rows: int = REMAT.MOST_NODES,
) -> Order | None:
    """An order with a peak of at most `budget` bytes and the least predicted work found; None if none was found.

    `start` computes every row at least once and is returned if it fits. Equal calls give equal answers, unless the
    wall-clock limit `effort.stop` ends the search. CP-SAT solves problems of up to `most_rows` rows in one model and
    larger ones window by window; with 0 it is not used. Raises OrderFault if `start` is not executable.
    """
    found = nearer(Flow(problem), start, budget, effort, most_rows)
    return found if found is not None and found.peak <= budget else None


def nearer(
    flow: Flow, start: Sequence[Event], budget: int, effort: Effort | None = None, most_rows: int = REMAT.MOST_NODES
) -> Order | None:
    """As `recomputed`, but if no order fits the budget, one with a lower peak than `start`, or None.

    With 0 for `most_rows` the first order found is the answer, without another search for less work.
    """
    if least(flow) > budget:
        return None
    effort, now = effort or Effort(), _single(start)
    near, reached = _near(flow, now, budget, effort)
    found = _Ask(flow, near, budget, effort, most_rows).answer() if reached else None
    if found is None or (most_rows and found.work > found.once):
        other = _in_bands(flow, budget, effort)
        if other is not None and (found is None or other.work < found.work):
            return other
    if found is not None:
        return found
    return None if near is now else _order(flow, near)


def _in_bands(flow: Flow, budget: int, effort: Effort) -> Order | None:
    """An order within the budget that is searched from groups with recomputed halos; None if none was found."""
    start = banded(flow, budget, int(effort.seconds * RECOMPUTE.BANDED_ROWS_PER_SECOND))
    longer = Effort(effort.seconds * RECOMPUTE.BANDED_SHARE, effort.stop)
    found = None if start is None else _Try(flow, start, budget, longer, few=False).directly()
    return None if found is None else _order(flow, found[1])


def between(flow: Flow, above: Order, below: Order, budget: int, effort: Effort) -> Order:
    """An order within a budget between the peaks of `above` and `below`; `below` if none with less work is found.

    A short search: in fine bands from `above`, or if that fails from `below`.
    """
    for start in (above, below):
        tried = _Try(flow, start.events, budget, effort, few=False).directly()
        if tried is not None and tried[0] < below.work:
            return _order(flow, tried[1])
    return below


def keeping(
    problem: Problem, events: Sequence[Event], capacity: int, effort: Callable[[float], Effort]
) -> Iterator[tuple[Flow, Order]]:
    """Orders with less work each that keep rows which `events` computes several times, where the capacity has bytes for
    them, and the flow of each; the budgets rise from the peak of `events` to the capacity. There are none where little
    work can be saved. `effort` gives a share of the effort for one order.
    """
    flow = Flow(problem.rows_apart)  # rows that overlap those of their window pack less well
    if replay(flow, events).peak > capacity:
        flow = Flow(problem)
    given = replay(flow, events)
    if given.work <= work_once(flow) * (1 + RECOMPUTE.LITTLE) or given.peak > capacity:
        return
    least_work = given.work
    for part in RECOMPUTE.KEPT:
        order = _keeping(flow, events, given.peak + int((capacity - given.peak) * part), effort(RECOMPUTE.KEPT_SHARE))
        if order is not None and order.work < least_work:
            least_work = order.work
            yield flow, order


def _keeping(flow: Flow, events: Sequence[Event], budget: int, effort: Effort) -> Order | None:
    """The order with the least work found from there; None if none within the budget was found."""
    level = rowwise(flow, events, budget, effort, RECOMPUTE.SEARCH_SHARE / len(RECOMPUTE.NODES))
    found = level.anneal(level.steps.repeated(events), PHASES)
    order = None if found is None else _order(flow, pruned(flow, level.steps.events(found)))
    return order if order is not None and order.peak <= budget else None


def _near(flow: Flow, start: list[Event], budget: int, effort: Effort) -> tuple[list[Event], bool]:
    """An order at most one rung above the budget, or the nearest one found, and whether it is that near."""
    now, peak_now = start, replay(flow, start).peak
    rung = max(1, int(peak_now * RECOMPUTE.RUNG), (peak_now - budget) // RECOMPUTE.RUNGS)
    while peak_now - rung > budget:
        tried = _Try(flow, now, peak_now - rung, effort, few=False)
        found = tried.directly() or tried.elsewhere()
        if found is None:
            return now, False
        now = found[1]
        peak_now = replay(flow, now).peak
    return now, True


def is_far(flow: Flow, start: Sequence[Event], budget: int) -> bool:
    """Whether the budget is so far below the peak of `start` that each step of `nearer` is larger than `RUNG`."""
    high = replay(flow, _single(start)).peak
    return (high - budget) / RECOMPUTE.RUNGS / max(1, high) > RECOMPUTE.RUNG


def _order(flow: Flow, events: list[Event], least_work: int | None = None) -> Order:
    said = replay(flow, events)
    return Order(events, said.peak, said.work, work_once(flow), least_work)


def work_once(flow: Flow) -> int:
    """Predicted instructions with every row computed once."""
    return sum(op.row_cost * flow.rows[op.writes] for op in flow.problem.ops if op.name != DELIVERY)


def macs_once(problem: Problem) -> int:
    """Multiply-accumulates of computing every row once."""
    return sum(op.row_macs * problem.by_name[op.writes].rows for op in problem.ops)


def extra_macs(problem: Problem, events: Sequence[Event]) -> int:
    """Multiply-accumulates of an order beyond those of computing every row once."""
    return sum(problem.ops[event.op].row_macs * event.rows for event in events) - macs_once(problem)


def reordered(
    problem: Problem, start: Sequence[Event], effort: Effort | None = None, cut: float = RECOMPUTE.FIRST_CUT
) -> list[Event]:
    """The order with the lowest peak found without recomputation; `start` if none is lower.

    `start` computes every row once; `cut` is the first reduction of its peak that is tried, as a part of it. As
    deterministic as `recomputed`.
    """
    flow, effort = Flow(problem), effort or Effort()
    best = _single(start)
    peak, low = replay(flow, best).peak, least(flow)
    share = 1 / REORDER.share / RECOMPUTE.ROUNDS / len(RECOMPUTE.NODES)
    tried = sizes(flow)
    for _ in range(RECOMPUTE.ROUNDS):
        budget, before = max(low, int(peak * (1 - cut))), peak
        if budget >= peak or cut < RECOMPUTE.LAST_CUT:
            break
        for nodes in tried:
            level = level_of(flow, best, budget, nodes, effort, share)
            events = level.steps.events(level.reorder())
            if (lower := replay(flow, events).peak) < peak:
                best, peak = events, lower
            if peak <= budget:
                break
            tried = tried[-1:]  # what coarse bands have missed once, they miss later, too
        if before - peak < (before - budget) * RECOMPUTE.REACHED:
            cut /= 2
    return best


def _single(events: Sequence[Event]) -> list[Event]:
    """The events split into single rows."""
    return [Event(event.op, row) for event in events for row in range(event.row, event.row + event.rows)]


def least(flow: Flow) -> int:
    """A lower bound on the peak of any order, in bytes: the inputs, or the largest working set of one row."""
    return tightest(flow)[0]


def tightest(flow: Flow) -> tuple[int, str]:
    """The bound of `least` and the op that sets it: the first op for the inputs, the last one for the outputs."""
    ops = flow.problem.ops
    inputs = sum(flow.rows[name] * flow.slot[name] for name, born in flow.born.items() if born < 0)
    outputs = {flow.problem.root(name) for name in flow.problem.kept}
    kept = sum(flow.rows[name] * flow.slot[name] for name in outputs)
    rows = ((_row_takes(flow, i, y), op.name) for i, op in enumerate(ops) for y in range(flow.rows[op.writes]))
    found = [(inputs, ops[0].name), (kept, ops[-1].name), *rows] if ops else [(max(inputs, kept), "")]
    return max(found, key=itemgetter(0))


def _row_takes(flow: Flow, op: int, y: int) -> int:
    read = {(tap.tensor, row) for tap in flow.taps[op] for row in tap.reads[y]}
    own = flow.slot[flow.writes[op]]
    reused = flow.saved(op) if flow.row_below(op, y) is not None else 0
    return sum(flow.slot[tensor] for tensor, _ in read) + own + flow.scratch[op] - reused


class _Ask:
    """One search: tries limits at and below the budget (a lower one may give less work), then CP-SAT refines."""

    def __init__(self, flow: Flow, start: Sequence[Event], budget: int, effort: Effort, most_rows: int) -> None:
        self._flow, self._start, self._budget, self._effort = flow, list(start), budget, effort
        self._rows = rows_of(flow)
        self._few, self._most_rows = self._rows <= most_rows, most_rows
        self._end = monotonic() + effort.patience

    def answer(self) -> Order | None:
        order = _order(self._flow, self._start)
        if order.peak <= self._budget:
            return order
        orders: list[tuple[int, list[Event]]] = []
        for part in RECOMPUTE.TRIED if self._few else RECOMPUTE.TRIED[:1]:
            budget = max(least(self._flow), int(self._budget * part))
            left = max(0.0, self._end - monotonic())
            tried = _Try(self._flow, self._start, budget, Effort(self._effort.seconds, left), self._few).answer()
            if tried is not None:
                orders.append(tried)
                if tried[0] == order.once:
                    return _order(self._flow, tried[1])
        if not orders:
            return None
        orders.sort(key=itemgetter(0))
        return self._retained(orders) if self._few else self._windowed(orders[0][1])

    def _windowed(self, events: list[Event]) -> Order:
        """The order after CP-SAT chose, window by window, which rows to keep and which to recompute."""
        best = _order(self._flow, events)
        steps = steps_of(self._flow, RECOMPUTE.NODES[-1])
        sequence = steps.repeated(events)
        if not self._most_rows or not runs(steps.graph, sequence):
            return best  # the rows of one band may be computed at distant positions, so bands cannot express the order
        if peak(steps.graph, sequence, steps.terms) > self._budget:
            return best
        from shoehorn_mcu.planner.remat.neighbourhood import windowed  # imports CP-SAT, which few plans need

        limit = Limit(self._effort.seconds * RECOMPUTE.WINDOW_SHARE, self._end)
        kept = windowed(steps.graph, steps.terms, sequence, self._budget, limit)
        order = _order(self._flow, pruned(self._flow, steps.events(kept)))
        return order if order.peak <= self._budget and order.work < best.work else best

    def _retained(self, orders: Sequence[tuple[int, list[Event]]]) -> Order:
        """The best order after CP-SAT improved each of them, if there are few enough rows for one model."""
        from shoehorn_mcu.planner.remat.neighbourhood import retained  # imports CP-SAT, which few plans need

        best = _order(self._flow, orders[0][1])
        steps = step_graph(self._flow, self._rows)  # one node per row
        limit = Limit(self._effort.seconds * RECOMPUTE.RETAIN_SHARE, self._end)
        for _, events in orders:
            share = Limit(limit.deterministic / len(orders), limit.end)
            kept = retained(steps.graph, steps.terms, steps.repeated(events), self._budget, share)
            order = _order(self._flow, pruned(self._flow, steps.events(kept.sequence)), kept.least)
            if order.peak <= self._budget and (order.work, best.least_work is None) <= (best.work, True):
                best = order
        return best


class _Try:
    """One attempt to get from an order above the limit to one that fits."""

    def __init__(self, flow: Flow, start: Sequence[Event], budget: int, effort: Effort, few: bool) -> None:
        self._flow, self._start, self._budget, self._few = flow, start, budget, few
        rows = sum(map(len, flow.last_user.values()))
        self._clones = int(effort.seconds * RECOMPUTE.CLONED_ROWS_PER_SECOND / (1 + rows))
        self._tries = int(effort.seconds * RECOMPUTE.TRIES_PER_SECOND)
        self._levels = levels(flow, start, budget, effort, RECOMPUTE.SEARCH_SHARE / len(RECOMPUTE.NODES))
        self._best: tuple[int, list[Event]] | None = None

    def answer(self) -> tuple[int, list[Event]] | None:
        """The least work found and its order; None if none fits."""
        once = len(self._start) == sum(self._flow.rows[name] for name in self._flow.writes)
        for level in self._levels if once else ():
            self._take(level, level.reorder())
            if self._best is not None:
                return self._best
        found = self.directly()
        return self.elsewhere() if found is None or self._few else found

    def directly(self) -> tuple[int, list[Event]] | None:
        """Searches in fine bands, from the given order."""
        finest = self._levels[-1]
        self._take(finest, finest.anneal(finest.steps.repeated(self._start), PHASES))
        return self._best

    def elsewhere(self) -> tuple[int, list[Event]] | None:
        """Searches from orders with clones, then in bands from coarse to fine, from the best order or a guess."""
        parts = RECOMPUTE.SEED_BUDGETS
        for part in parts if self._few else parts[:1]:  # a lower order is sometimes also cheaper
            budget = max(least(self._flow), int(self._budget * part))
            self._keep(lowest(self._flow.problem, self._start, budget, self._clones))
        sequence: tuple[int, ...] | None = None
        coarser: Level | None = None
        phases: tuple[Phase, ...]
        for level in self._levels:
            finest = level is self._levels[-1]
            if self._best is not None and finest:
                start, phases = level.steps.repeated(self._best[1]), PHASES[1:]
            elif sequence is not None and coarser is not None:
                start, phases = level.steps.refined(coarser.steps, sequence), PHASES[1:]
            else:
                start, phases = guess(self._flow, level.steps, level.order, self._budget, self._tries), PHASES
                self._take(level, start)
            sequence, coarser = level.anneal(start, phases), level
            self._take(level, sequence)
        return self._best

    def _take(self, level: Level, sequence: Sequence[int] | None) -> None:
        if sequence is not None:
            self._keep(level.steps.events(sequence))

    def _keep(self, events: Sequence[Event]) -> None:
        """Keeps an order if it fits when measured row by row and costs less work than the best so far."""
        events = pruned(self._flow, events)
        replayed = replay(self._flow, events)
        if replayed.peak <= self._budget and (self._best is None or replayed.work < self._best[0]):
            self._best = replayed.work, events
