"""The one entry: the best candidate for a goal, checked, or a refusal that says what is needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

from shoehorn_mcu.base.errors import MemoryTooSmall, ShoehornError
from shoehorn_mcu.planner.candidates import Candidates
from shoehorn_mcu.planner.check import check
from shoehorn_mcu.planner.memory_plan import DELIVERY, HANDOUT, INTERRUPTED, Plan, Smaller, Status
from shoehorn_mcu.planner.placement.layout import alive_at, fullest_step
from shoehorn_mcu.planner.problem import NEVER, Problem

_NAME = 60  # characters of a name in a message
_ENDS = {DELIVERY: "the input", HANDOUT: "the output"}
_FASTEST = "the fastest plan tried that fits"
PREFERRED_PERCENT = 1.5  # extra predicted time up to which a smaller plan is preferred by default
_OF_GROUPS = " (lower bound of the searched plans; recomputing single rows may go below it)"


class Goal(Enum):
    """The quantity to minimise among plans that fit: run time or SRAM."""

    TIME = "time"
    SRAM = "sram"


class DoesNotFit(MemoryTooSmall):
    """No plan within the capacity was found; `peak` names the peak step and the tensors alive there."""

    searched = True  # whether plans were searched for; else bounds alone say that there is none


def arena_refused(needed: str, needed_bytes: int, capacity: int, kind: str = "", peak: str = "") -> DoesNotFit:
    """The refusal of an arena: how many bytes are needed, in words too, and how many there are."""
    said = f"needs an arena of {needed}, {max(0, capacity):,} are available{kind}"
    return DoesNotFit(said, needed_bytes, capacity, peak=peak)


class PlanFault(ShoehornError):
    """The independent check found a fault in a plan: a defect of the planner, never of the model."""

    kind = "defect"


@dataclass(frozen=True)
class Weighing:
    """How the fastest plan is compared with a smaller one: `price` returns a plan's predicted time.

    With `prefer_smaller` the smaller plan is returned if it needs less than 1.5 % more time.
    """

    price: Callable[[Plan], float]
    prefer_smaller: bool = False


@dataclass(frozen=True, kw_only=True)
class Scope:
    """How far a plan is searched, and whether it is checked."""

    brief: bool = False  # the smallest arena with recomputed rows is searched only if ops read tensors late
    # A plan with blocks in bands keeps rows between bands where bytes are free. One that leaves them free is easier to
    # divide among memories.
    keep_rows: bool = True
    # An arena in bytes that is known to be possible: for the smallest one only less is searched for, and where nothing
    # is found the plan is of any size.
    below: int | None = None
    # The caller has the chosen plan `checked`, on the problem of the ops that are emitted for it.
    unchecked: bool = False
    # Refuses what exceeds the capacity by groups of rows, though another order or blocks in bands may fit: nothing is
    # placed, which may take a minute.
    quick_refusal: bool = False
    # Whether a plan that fits can be used, for the fastest one: of those that can the fastest is chosen.
    usable: Callable[[Plan], bool] | None = None


EVERYWHERE = Scope()


def make_plan(
    problem: Problem,
    goal: Goal = Goal.TIME,
    most_macs: int | None = 0,
    say: Callable[[str], None] = lambda _: None,
    weighing: Weighing | None = None,
    scope: Scope = EVERYWHERE,
) -> Plan:
    """A checked plan within the capacity: whole tensors if they fit and time is the goal, else rows.

    If rows alone do not fit, blocks run in bands and rows may be recomputed; `most_macs` limits the recomputed
    multiply-accumulates (None: no limit). A streamed input or output is always planned by rows; the other tensors stay
    whole if that fits. Where the largest op alone exceeds the capacity in every plan, nothing is searched. `say` is
    called with the kind of plan that is being searched. Ctrl-C ends the search: the best plan so far is returned. The
    independent check replays the plan on the given problem with the cuts of the plan in place of their blocks.

    Raises DoesNotFit if no plan within the capacity was found, PlanFault if the independent check rejects the plan.
    """
    candidates = Candidates(problem, most_macs, say, scope.brief, NEVER if scope.below is None else scope.below)
    plan = _Search(problem, goal, candidates, weighing, scope).run()
    capacity = problem.capacity_bytes
    if capacity is not None and plan.arena_bytes > capacity:
        raise _refusal(candidates, plan, capacity)
    return plan if scope.unchecked else checked(candidates.applied(plan), plan)


def checked(problem: Problem, plan: Plan) -> Plan:
    """The plan, if the independent check accepts it for the problem; else raises PlanFault."""
    if faults := check(problem, plan):
        raise PlanFault(f"the plan is wrong, please report this: {'; '.join(faults[:3])}")
    return plan


class _Search:
    """The search for the best candidate, whose outcome's reason says why it ended with it."""

    def __init__(
        self, problem: Problem, goal: Goal, candidates: Candidates, weighing: Weighing | None, scope: Scope
    ) -> None:
        self._capacity, self._in_time, self._candidates = problem.capacity_bytes, goal is Goal.TIME, candidates
        self._weighing, self._quick_refusal = weighing, scope.quick_refusal
        self._usable = scope.usable or (lambda _: True)
        self._keep_rows = scope.keep_rows and not (scope.brief and goal is Goal.SRAM)
        self._best: Plan | None = None  # the smallest one so far
        self._fitting: Plan | None = None  # of those that fit the one with the least work

    def run(self) -> Plan:
        """The best candidate, or that so far when the search is interrupted."""
        try:
            self._refuse()
            if self._capacity is not None and self._candidates.all_exceed(self._capacity):
                return self._candidates.unsearched()
            return self._candidates.bounded_again((self._fastest() if self._in_time else None) or self._smallest())
        except KeyboardInterrupt:
            if self._best is None:
                raise
            return (self._fitting or self._best).because(INTERRUPTED)

    def _fastest(self) -> Plan | None:
        """The plan that fits with the least work; None where none does."""
        candidates = self._candidates
        limit = candidates.whole.arena_bytes if self._capacity is None else self._capacity
        for plan in candidates.within(limit):
            self._best = _lower(self._best, plan)
            if plan.arena_bytes <= limit and self._usable(plan):
                self._fitting = plan.because(plan.outcome.reason or _FASTEST)
                for kept in candidates.keeping(plan, limit) if self._keep_rows else ():
                    self._fitting = kept
                if not candidates.costly(plan, self._fitting, limit):
                    return _weighed(self._fitting, candidates, self._weighing)
                break
        for plan in candidates.recomputing(limit):
            self._best = _lower(self._best, plan)
            less = self._fitting is None or candidates.extra(plan) < candidates.extra(self._fitting)
            if plan.arena_bytes <= limit and less and self._usable(plan):
                self._fitting = plan.because(plan.outcome.reason or _FASTEST)
        for plan in candidates.spared(limit) if self._fitting is None and self._keep_rows else ():
            self._fitting = plan
        return self._fitting

    def _refuse(self) -> None:
        """Raises DoesNotFit where a refusal is to be quick and the lowest peak by rows is above the capacity."""
        if self._quick_refusal and self._capacity is not None and self._candidates.peak > self._capacity:
            peak = self._candidates.peak
            raise arena_refused(f"{peak:,} bytes by groups of rows", peak, self._capacity)

    def _smallest(self) -> Plan:
        """The plan with the smallest arena, or the first one that fits where the goal is time."""
        candidates = self._candidates
        for plan in candidates.smallest(self._capacity or 0 if self._in_time else 0):
            self._best = _lower(self._best, plan)
            if self._fits(self._best):
                return self._best.because(self._best.outcome.reason or _FASTEST)
        assert self._best is not None
        for search in (candidates.keeping_as_small, candidates.spared_as_small) if self._keep_rows else ():
            for kept in search(self._best):
                self._best = kept
        best = self._best
        if self._fits(best):
            return best.because(best.outcome.reason or _FASTEST)
        best = candidates.bounded_again(candidates.in_any_order(best))
        if best.outcome.status is Status.OPTIMAL:
            return best.because(f"proven minimal among {best.outcome.bound_of}")
        reason = best.outcome.reason
        return best.because(f"search finished; {reason}" if reason else "search finished")

    def _fits(self, plan: Plan) -> bool:
        """Whether the goal is time, and the plan fits."""
        return self._in_time and self._capacity is not None and plan.arena_bytes <= self._capacity


def _weighed(plan: Plan, candidates: Candidates, weighing: Weighing | None) -> Plan:
    """The fastest plan, with the lower bound of plans by rows and a smaller plan named; or that one, if preferred."""
    if plan.cascades:
        return plan
    plan = candidates.bounded_by_rows(plan)
    if weighing is None or plan.arena_bytes == plan.outcome.bound_bytes:
        return plan
    low = candidates.low()
    if low.arena_bytes >= plan.arena_bytes:
        return plan
    fast = weighing.price(plan)
    percent = 100 * (weighing.price(low) - fast) / max(1.0, fast)
    if weighing.prefer_smaller and percent < PREFERRED_PERCENT:
        saved = plan.arena_bytes - low.arena_bytes
        return low.because(f"{saved:,} bytes less than the fastest plan, for {max(0.0, percent):.2f} % more time")
    named = replace(plan, outcome=replace(plan.outcome, smaller=Smaller(low.arena_bytes, percent)))
    other = f"a plan of {low.arena_bytes:,} bytes costs {max(0.0, percent):.2f} % more time"
    return named.because(f"{plan.outcome.reason}; {other}")


def _lower(best: Plan | None, plan: Plan) -> Plan:
    """The plan with the smaller arena; if equal the one with the higher bound, else the earlier one."""
    if best is None:
        return plan
    return min(best, plan, key=lambda candidate: (candidate.arena_bytes, -candidate.outcome.bound_bytes))


def _short(name: str) -> str:
    """The first characters of a name: converters join names into hundreds, and the first ones identify the tensor."""
    return name if len(name) <= _NAME else f"{name[: _NAME - 3]}..."


def _refusal(candidates: Candidates, plan: Plan, capacity: int) -> DoesNotFit:
    """The refusal: the bytes needed, and the tensors alive at the peak, largest first."""
    problem = candidates.applied(plan)
    peak = fullest_step(problem, plan.steps)
    named = ", ".join(f"'{_short(name)}' {size:,}" for name, size in alive_at(problem, plan.steps, peak))
    at = plan.steps[peak].op if plan.steps else DELIVERY
    step = _named(at) if at in _ENDS else f"step {peak} ({_named(at)})"
    bound, op = candidates.at_least()
    searched, kind = not candidates.all_exceed(capacity), ""
    if plan.outcome.status is Status.OPTIMAL:
        needed, kind = f"at least {plan.arena_bytes:,} bytes", _OF_GROUPS if bound < plan.arena_bytes else ""
    elif bound > capacity:
        needed = f"at least {bound:,} bytes"
        cause = [f"set by {_named(op)}"] if op is not None else []
        found = "the best plan found" if searched else "a plan made without a search"
        if bound < plan.arena_bytes:
            needed += f" ({'; '.join([*cause, f'{plan.arena_bytes:,} in {found}'])})"
    elif capacity < candidates.bound <= plan.arena_bytes:
        needed, kind = f"at least {candidates.bound:,} bytes ({plan.arena_bytes:,} in the best plan found)", _OF_GROUPS
    else:
        needed = f"{plan.arena_bytes:,} bytes in the best plan found (lower bound {bound:,})"
    where = f"the peak is {step}, where these are alive: {named}"
    refusal = arena_refused(needed, plan.arena_bytes, capacity, kind, where)
    refusal.searched = searched
    return refusal


def _named(op: str) -> str:
    return _ENDS.get(op, f"'{_short(op)}'")
