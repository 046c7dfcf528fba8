"""Plans that compute rows again: which budgets are tried, for a capacity and for the smallest arena."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from shoehorn_mcu.memory_plan import Plan
from shoehorn_mcu.planner.order.flow import Event, Flow
from shoehorn_mcu.planner.recompute.search import Order, between, least, nearer
from shoehorn_mcu.planner.remat.neighbourhood import MOST_NODES
from shoehorn_mcu.planner.remat.outcome import Effort

_LEAST_SECONDS, _MOST_SECONDS, _ROWS_PER_SECOND = 1.2, 20.0, 120  # of effort for orders of their own
_PATIENCE = 20  # times as long by the clock, so that effort decides on any machine
_SPARE = (0.0, 0.03, 0.06, 0.1, 0.15)  # of the capacity: rows may not pack to the last byte
_FINER, _FINER_SHARE = 2, 0.6  # budgets after the first whose order packs, and the effort of each
_DESCENTS = 6  # for the smallest arena
_DESCENT_SHARE, _FEW_SHARE = 0.6, 0.4  # the effort of each; where rows are few, CP-SAT adds to it
_FAILURES = 3  # in a row, after which nothing more is expected
_FIRST_CUT, _GROWTH = 0.1, 1.5  # part of the peak that is tried to be saved, and how it grows until a budget is too low


class Budgets:
    """The budgets of one problem.

    `start` computes each row once; `most_macs` is what may be computed again (None: as much as it takes). `place` makes
    a plan of an order: within so many bytes, with a reason.
    """

    def __init__(
        self,
        flow: Flow,
        start: Sequence[Event],
        most_macs: int | None,
        say: Callable[[str], None],
        place: Callable[[Sequence[Event], int | None, str], Plan],
    ) -> None:
        self._flow, self._start, self._most_macs = flow, start, most_macs
        self._say, self._place = say, place

    def effort(self, share: float = 1) -> Effort:
        """For one order."""
        rows = sum(self._flow.rows.values())
        seconds = share * min(_MOST_SECONDS, max(_LEAST_SECONDS, rows / _ROWS_PER_SECOND))
        return Effort(seconds, seconds * _PATIENCE)

    def for_capacity(self, capacity: int) -> Iterator[Plan]:
        """Plans by less and less, until one fits; of those after it each takes less work than the one before."""
        now, loose = self._start, None
        for part in _SPARE:
            budget = int(capacity * (1 - part))
            order = self._nearer(now, budget, self.effort())
            if order is None:
                return
            plan = self._place(order.events, capacity, order.reason)
            yield plan
            if plan.arena_bytes <= capacity:
                yield from self._further(order, capacity) if loose is None else self._between(loose, order, capacity)
            if plan.arena_bytes <= capacity or order.peak > budget:
                return
            now, loose = order.events, order

    def _further(self, packed: Order, capacity: int) -> Iterator[Plan]:
        """Plans that take less work than an order that packs, and go lower, which may help elsewhere."""
        now, least_work = packed.events, packed.work
        for part in _SPARE[1 : 1 + _FINER]:
            order = self._nearer(now, int(capacity * (1 - part)), self.effort(_FINER_SHARE))
            if order is None:
                return
            if order.work < least_work:
                plan = self._place(order.events, capacity, order.reason)
                least_work = order.work if plan.arena_bytes <= capacity else least_work
                yield plan
            now = order.events

    def _between(self, loose: Order, packed: Order, capacity: int) -> Iterator[Plan]:
        """The same, halfway between an order that packs and one that does not."""
        for _ in range(_FINER):
            budget = (loose.peak + packed.peak) // 2
            self._say(f"recomputing rows within {budget:,} bytes")
            order = between(self._flow, loose, packed, budget, self.effort(_FINER_SHARE))
            if order is packed or not self._allowed(order):
                return
            plan = self._place(order.events, capacity, order.reason)
            yield plan
            if plan.arena_bytes <= capacity:
                packed = order
            else:
                loose = order

    def descending(self, start: Sequence[Event], peak: int) -> Iterator[Plan]:
        """Plans that compute rows again within the allowance, from an order with this peak: lower and lower by growing
        steps, then halfway to the highest budget that is too low.
        """
        now, cut, low = start, _FIRST_CUT, least(self._flow) - 1
        failed, halving = 0, False
        few = sum(self._flow.rows.values()) <= MOST_NODES
        for _ in range(_DESCENTS):
            budget = (low + peak) // 2 if halving else max(int(peak * (1 - cut)), (low + peak) // 2)
            if budget <= low:
                return
            order = self._nearer(now, budget, self.effort(_FEW_SHARE if few else _DESCENT_SHARE))
            failed = 0 if order is not None else failed + 1
            if failed == _FAILURES:
                return
            if order is None or order.peak > budget:
                low, halving = budget, True
            if order is not None:
                yield self._place(order.events, order.peak, order.reason)
                now, peak, cut = order.events, order.peak, cut * _GROWTH

    def _nearer(self, start: Sequence[Event], budget: int, effort: Effort) -> Order | None:
        """An order that computes rows again within the allowance, and keeps within the budget or comes nearer to it."""
        self._say(f"recomputing rows within {budget:,} bytes")
        order = nearer(self._flow, start, budget, effort)
        return order if order is not None and self._allowed(order) else None

    def _allowed(self, order: Order) -> bool:
        return self._most_macs is None or self._extra_macs(order.events) <= self._most_macs

    def _extra_macs(self, events: Sequence[Event]) -> int:
        problem = self._flow.problem
        return sum(problem.ops[e.op].row_macs * e.rows for e in events) - sum(
            op.row_macs * problem.by_name[op.writes].rows for op in problem.ops
        )
