"""Steps, rings and addresses for a problem; knows bytes, rows and steps, not ops or C."""

from __future__ import annotations

from enum import Enum

from generator.errors import ShoehornError
from generator.plan import DELIVERY, Plan, Status
from generator.planner.check import check
from generator.planner.greedy import solve
from generator.planner.problem import ALIGNMENT, OpSpec, Problem, Read, TensorSpec
from generator.planner.rows import alive_at, by_rows

_NAME = 60  # characters of a name in a message


class Goal(Enum):
    """What a plan is to have least of, once it fits."""

    TIME = "time"
    SRAM = "sram"


class DoesNotFit(ShoehornError):
    """No plan within the capacity; the message says the peak and who is alive there."""

    def __init__(self, message: str, needed_bytes: int, available_bytes: int) -> None:
        super().__init__(message)
        self.needed_bytes = needed_bytes
        self.available_bytes = available_bytes


class PlanFault(ShoehornError):
    """The independent check found a fault in a plan: a defect of the planner, never of the model."""


def make_plan(problem: Problem, goal: Goal = Goal.TIME) -> Plan:
    """A checked plan within the capacity: whole tensors where they fit and time is the goal, else rows.

    A streamed input is planned by rows in any case, and the other tensors stay whole where a capacity leaves room.

    Raises DoesNotFit where no plan was found within the capacity, PlanFault where the check refuses the plan.
    """
    capacity = problem.capacity_bytes
    plan = solve(problem)
    fits = capacity is None or plan.arena_bytes <= capacity
    if problem.streamed or not (fits and goal is Goal.TIME):
        plan = by_rows(problem, plan, None if goal is Goal.SRAM else capacity)
    if capacity is not None and plan.arena_bytes > capacity:
        raise DoesNotFit(_refusal(problem, plan, capacity), plan.arena_bytes, capacity)
    if faults := check(problem, plan):
        raise PlanFault(f"the plan is wrong, please report this: {'; '.join(faults[:3])}")
    return plan


def _short(name: str) -> str:
    """Converters join names into hundreds of characters; the first ones say which tensor it is."""
    return name if len(name) <= _NAME else f"{name[: _NAME - 3]}..."


def _refusal(problem: Problem, plan: Plan, capacity: int) -> str:
    """What is needed, and the tensors alive at the peak, largest first."""
    peak = plan.outcome.peak_step
    named = ", ".join(f"'{_short(name)}' {size:,}" for name, size in alive_at(problem, plan, peak))
    arriving = not plan.steps or plan.steps[peak].delivers
    step = "the input" if arriving else f"step {peak} ('{plan.steps[peak].op}')"
    proven = plan.outcome.status is Status.OPTIMAL
    needed = f"at least {plan.arena_bytes:,} bytes" if proven else f"{plan.arena_bytes:,} bytes in the best plan found"
    return (
        f"needs an arena of {needed}, {max(0, capacity):,} are available; "
        f"the peak is {step}, where these are alive: {named}"
    )


__all__ = [
    "ALIGNMENT",
    "DELIVERY",
    "DoesNotFit",
    "Goal",
    "OpSpec",
    "PlanFault",
    "Problem",
    "Read",
    "TensorSpec",
    "check",
    "make_plan",
]
