"""Plans that recompute rows: which memory budgets are tried, for a capacity and for the smallest arena."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from shoehorn_mcu.planner.effort import BUDGET, REMAT
from shoehorn_mcu.planner.memory_plan import Plan
from shoehorn_mcu.planner.order.flow import Event, Flow
from shoehorn_mcu.planner.recompute.search import Order, between, extra_macs, is_far, least, nearer
from shoehorn_mcu.planner.remat.outcome import Effort


class Budgets:
    """The budgets of one problem.

    `start` computes each row once; `most_macs` limits the recomputed multiply-accumulates (None: no limit).
    `place(order, bytes, reason, thorough)` makes a plan of an order; it stops packing at an arena of so many bytes,
    and soon where the plan only says how many are needed.
    """

    def __init__(
        self,
        flow: Flow,
        start: Sequence[Event],
        most_macs: int | None,
        say: Callable[[str], None],
        place: Callable[[Sequence[Event], int, str, bool], Plan],
    ) -> None:
        self._flow, self._start, self._most_macs = flow, start, most_macs
        self._say, self._place = say, place

    def effort(self, share: float = 1) -> Effort:
        """The search effort for one order of rows; it grows with the number of rows."""
        rows = sum(self._flow.rows.values())
        seconds = share * min(BUDGET.MOST_SECONDS, max(BUDGET.LEAST_SECONDS, rows / BUDGET.ROWS_PER_SECOND))
        return Effort(seconds, seconds * BUDGET.PATIENCE)

    def for_capacity(self, capacity: int) -> Iterator[Plan]:
        """Plans for falling budgets until one fits, then plans that fit with less work each.

        A search may miss what one for a lower budget finds, so a few failures do not end it. Far below the peak one
        failure does: the searches for all these budgets begin with an eighth of the way down (`RUNGS`), and these first
        limits are nearly the same.
        """
        far = is_far(self._flow, self._start, capacity)
        now, loose, failed = self._start, None, 0
        for part in BUDGET.SPARE:
            budget = int(capacity * (1 - part))
            order = self._nearer(now, budget, self.effort())
            if order is None:
                failed += 1
                if far or failed == BUDGET.FAILURES:
                    return
                continue
            plan = self._place(order.events, capacity, order.reason, order.peak <= capacity)
            yield plan
            if plan.arena_bytes <= capacity:
                yield from self._further(order, capacity) if loose is None else self._between(loose, order, capacity)
            if plan.arena_bytes <= capacity or order.peak > budget:
                return
            now, loose = order.events, order

    def _further(self, packed: Order, capacity: int) -> Iterator[Plan]:
        """Plans with less work than an order that packs, from searches below its budget, which may be cheaper."""
        now, least_work = packed.events, packed.work
        for part in BUDGET.SPARE[1 : 1 + BUDGET.FINER]:
            order = self._nearer(now, int(capacity * (1 - part)), self.effort(BUDGET.FINER_SHARE))
            if order is None:
                return
            if order.work < least_work:
                plan = self._place(order.events, capacity, order.reason, True)
                least_work = order.work if plan.arena_bytes <= capacity else least_work
                yield plan
            now = order.events

    def _between(self, loose: Order, packed: Order, capacity: int) -> Iterator[Plan]:
        """Plans with less work than `packed`, from budgets halfway between it and `loose`, which does not pack."""
        for _ in range(BUDGET.FINER):
            budget = (loose.peak + packed.peak) // 2
            self._say(f"recomputing rows within {budget:,} bytes")
            order = between(self._flow, loose, packed, budget, self.effort(BUDGET.FINER_SHARE))
            if order is packed or not self._allowed(order):
                return
            plan = self._place(order.events, capacity, order.reason, True)
            yield plan
            if plan.arena_bytes <= capacity:
                packed = order
            else:
                loose = order

    def descending(self, start: Sequence[Event], peak: int, wanted: int = 0) -> Iterator[Plan]:
        """Plans for the smallest arena with recomputed rows within the allowance, from an order with this peak.

        The budget falls by growing steps until one fails, then halves the distance to the highest failed budget, as
        long as an order of `wanted` bytes may be found (0: the least); until there are so few, orders of many rows are
        steps on the way, which are not refined and packed quickly.
        """
        now, cut, low = start, BUDGET.FIRST_CUT, least(self._flow) - 1
        failed, halving = 0, False
        few = sum(self._flow.rows.values()) <= REMAT.MOST_NODES
        goal = wanted or peak
        for _ in range(BUDGET.DESCENTS):
            budget = (low + peak) // 2 if halving else max(int(peak * (1 - cut)), (low + peak) // 2)
            if budget <= low or 0 < wanted <= low:
                return
            effort = self.effort(BUDGET.FEW_SHARE if few else BUDGET.DESCENT_SHARE)
            order = self._nearer(now, budget, effort, step=not few and budget > goal)
            failed = 0 if order is not None else failed + 1
            if failed == BUDGET.MISSES:
                return
            if order is None or order.peak > budget:
                low, halving = budget, True
            if order is not None:
                yield self._place(order.events, order.peak, order.reason, few or order.peak <= goal)
                now, peak, cut = order.events, order.peak, cut * BUDGET.GROWTH

    def _nearer(self, start: Sequence[Event], budget: int, effort: Effort, step: bool = False) -> Order | None:
        """An order with recomputed rows within the allowance whose peak is within the budget or nearer to it.

        A `step` on the way to a lower peak is the first one found, whose work is not lowered.
        """
        self._say(f"recomputing rows within {budget:,} bytes")
        order = nearer(self._flow, start, budget, effort, 0 if step else REMAT.MOST_NODES)
        return order if order is not None and self._allowed(order) else None

    def _allowed(self, order: Order) -> bool:
        return self._most_macs is None or extra_macs(self._flow.problem, order.events) <= self._most_macs
