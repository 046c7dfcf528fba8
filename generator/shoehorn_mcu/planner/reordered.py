"""Plans of rows in an order that is not bound to groups of ops, without recomputation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from shoehorn_mcu.planner.any_order import AnyOrder
from shoehorn_mcu.planner.effort import CANDIDATE
from shoehorn_mcu.planner.memory_plan import AGAIN, ANY_ORDER, Again, Plan, Status
from shoehorn_mcu.planner.order.again import bound_again
from shoehorn_mcu.planner.order.flow import Event, Flow, single_events
from shoehorn_mcu.planner.order.replay import replay
from shoehorn_mcu.planner.order.shorten import shortened
from shoehorn_mcu.planner.placement.layout import Layout, lay_out
from shoehorn_mcu.planner.placement.place import Effort
from shoehorn_mcu.planner.problem import NEVER
from shoehorn_mcu.planner.recompute.search import least, macs_once


class Reordered:
    """The plans of one problem. `orders` gives its orders, which are searched on first use, and `laid` makes the plan
    of a layout, among plans of the named kind.
    """

    def __init__(self, flow: Flow, orders: Callable[[], AnyOrder], laid: Callable[[Layout, str], Plan]) -> None:
        self._flow, self._orders, self._laid = flow, orders, laid

    def within(self, most_bytes: int) -> Iterator[Plan]:
        """Plans without recomputation whose row order is not bound to groups and whose peak is at most `most_bytes`."""
        if least(self._flow) > most_bytes:
            return
        orders = self._orders()
        if orders.peak <= most_bytes:
            plan = self.plan(orders.lowest)
            yield plan
            most_bytes = min(most_bytes, plan.arena_bytes - 1)
            if orders.bound > most_bytes:
                return
            rows = orders.rows
            few = rows < CANDIDATE.FEW_ROWS
            may_lose = CANDIDATE.LOSS if few and orders.apart is not None else 2 * CANDIDATE.LOSS
            loses = most_bytes >= int(orders.peak * (1 + CANDIDATE.LEAST_GAIN))
            if few and loses and orders.is_by_beam:  # what local search finds often packs better
                may_lose = CANDIDATE.LEAST_GAIN
            enough, below = int(orders.peak * (1 + may_lose)), NEVER if few else most_bytes + 1
            for other in orders.others() if rows < CANDIDATE.MANY_ROWS and most_bytes >= enough else ():
                if orders.peak_of(other) <= most_bytes:
                    yield (plan := self.plan(other, below=below))
                    most_bytes = min(most_bytes, plan.arena_bytes - 1)
                enough, below = int(orders.peak * (1 + CANDIDATE.LOSS)), most_bytes + 1
                if most_bytes < enough:
                    break
        yield from self.apart(most_bytes)

    def apart(self, most_bytes: int) -> Iterator[Plan]:
        """Such a plan with rows apart, if there is one, with full effort where it may save much."""
        orders = self._orders()
        if orders.apart is not None:
            flow, events = orders.apart
            peak = replay(flow, events).peak
            if peak <= most_bytes:
                effort = Effort.FULL if peak < max(orders.peak, most_bytes * (1 - CANDIDATE.LOSS)) else Effort.LEAST
                layout = lay_out(flow, events, effort=effort, below=most_bytes + 1)
                yield self._laid(layout, ANY_ORDER)

    def plan(
        self,
        events: Sequence[Event],
        enough: int | None = None,
        reason: str = "",
        thorough: bool = True,
        below: int = NEVER,
    ) -> Plan:
        """The plan of a row order outside the space of groups, with the largest working set of a row as its bound."""
        effort = None if thorough else Effort.QUICK
        layout = lay_out(self._flow, shortened(self._flow, events), enough=enough, effort=effort, below=below)
        return self._laid(layout, ANY_ORDER if self._once(events) else AGAIN).because(reason)

    def _once(self, events: Sequence[Event]) -> bool:
        """Whether an order computes each row once."""
        return sum(event.rows for event in events) == sum(self._flow.rows[name] for name in self._flow.writes)

    def bounded(self, plan: Plan, whole: int) -> Plan:
        """A plan that computes each row once, none in bands, with the lower bound of all such plans, in bytes.

        Whole tensors, whose bound is `whole`, need no padding, and may overwrite more.
        """
        if plan.cascades or not self._once(single_events(self._flow.problem, plan.steps)):
            return plan
        orders = self._orders()
        if plan.arena_bytes > orders.bound:
            _ = orders.lowest  # raises the bound
        made = plan.with_bound(min(orders.bound, whole), ANY_ORDER)
        if made.outcome.status is Status.OPTIMAL:
            return made
        known, said = plan.outcome, orders.proof
        if known.status is Status.OPTIMAL and known.bound_of != ANY_ORDER:
            said = f"proven minimal among {known.bound_of}; {said}"
        return made.because(said)

    def bounded_again(self, plan: Plan, most_macs: int, whole: int, work: int) -> Plan:
        """A plan without chunks of channels that computes at most so many multiply-accumulates again, with the lower
        bound of all such plans; `whole` as in `bounded`, `work` as in `bound_again`.
        """
        problem = self._flow.problem
        names = {op.name for op in problem.ops}
        known = single_events(problem, plan.steps) if all(step.op in names for step in plan.steps) else ()
        bound = min(max(least(self._flow), bound_again(self._flow, most_macs, known, work)), whole)
        found = Again(bound, most_macs, 100 * most_macs / max(1, macs_once(problem)))
        made = plan.with_bound(bound, found.of) if plan.outcome.bound_of == AGAIN else plan
        return replace(made, outcome=replace(made.outcome, again=found))
