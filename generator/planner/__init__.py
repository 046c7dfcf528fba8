"""Steps, rings and addresses for a problem; knows bytes, rows and steps, not ops or C."""

from __future__ import annotations

from generator.errors import ShoehornError
from generator.plan import Plan, Status
from generator.planner.check import check
from generator.planner.greedy import alive, blocks, solve
from generator.planner.problem import ALIGNMENT, OpSpec, Problem, Read, TensorSpec

_NAME = 60  # characters of a name in a message


class DoesNotFit(ShoehornError):
    """No plan within the capacity; the message says the peak and who is alive there."""

    def __init__(self, message: str, needed_bytes: int, available_bytes: int) -> None:
        super().__init__(message)
        self.needed_bytes = needed_bytes
        self.available_bytes = available_bytes


class PlanFault(ShoehornError):
    """The independent check found a fault in a plan: a defect of the planner, never of the model."""


def make_plan(problem: Problem) -> Plan:
    """A checked plan within the capacity.

    Raises DoesNotFit where no plan was found within the capacity, PlanFault where the check refuses the plan.
    """
    plan = solve(problem)
    capacity = problem.capacity_bytes
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
    named = ", ".join(
        f"{'scratch of ' if b.scratch else ''}'{_short(b.name)}' {b.bytes:,}" for b in alive(blocks(problem), peak)
    )
    step = f"step {peak} ('{problem.ops[peak].name}')" if problem.ops else "the input"
    how = "at least" if plan.outcome.status is Status.OPTIMAL else "by the best plan found"
    return (
        f"needs an arena of {how} {plan.arena_bytes:,} bytes, {max(0, capacity):,} are available; "
        f"the peak is {step}, where these are alive: {named}"
    )


__all__ = ["ALIGNMENT", "DoesNotFit", "OpSpec", "PlanFault", "Problem", "Read", "TensorSpec", "check", "make_plan"]
