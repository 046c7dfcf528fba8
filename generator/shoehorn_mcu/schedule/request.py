"""What is asked of a plan, and what is given: a plan with the graph and the stages that it is for."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.ir import Graph
from shoehorn_mcu.planner import Goal, Problem
from shoehorn_mcu.planner.memory_plan import Memory, Plan
from shoehorn_mcu.schedule.predict import time, waits
from shoehorn_mcu.schedule.stage import Stage

WORTH_PERCENT = 1.0  # of the predicted time: what a plan must save that uses one memory more, or divides a tensor

Say = Callable[[str], None]
"""Is given a line of progress."""


@dataclass(frozen=True)
class PlanRequest:
    """Goal and limits of a plan."""

    goal: Goal = Goal.TIME
    capacity_bytes: int | None = None  # of the arena; None: as much as it takes
    stream_input: bool = False  # the input arrives row by row
    most_macs: int | None = 0  # that may be recomputed; None: as many as the capacity needs
    weigh_smaller: bool = False  # a plan for time reports the cost of the next smaller one
    prefer_smaller: bool = False  # and is replaced by it if that costs almost nothing
    cores: int = 1  # that may share the rows of a step; for several no smaller plan is weighed: its steps have few rows
    memories: tuple[Memory, ...] = ()  # several, in place of the one of `capacity_bytes`
    stream_output: bool = False  # the output is handed out row by row
    brief: bool = False  # a quicker search, as make_plan says
    quick_refusal: bool = False  # as make_plan says


@dataclass(frozen=True, eq=False)
class Scheduled:
    """A plan, and the graph, the stages and the problem that it is for."""

    graph: Graph
    stages: tuple[Stage, ...]
    plan: Plan
    problem: Problem

    @property
    def time(self) -> float:
        """The predicted time of one inference."""
        return time(self.plan, self.stages)

    @property
    def waits_long(self) -> bool:
        """Whether less waiting for the memories may save enough time."""
        return waits(self.plan, self.stages) * 100 >= WORTH_PERCENT * self.time

    def or_faster(self, other: Scheduled | None) -> Scheduled:
        """The other plan if it saves enough time, else this one."""
        return other if other and other.time < self.time * (1 - WORTH_PERCENT / 100) else self

    def or_other(self, other: Scheduled) -> Scheduled:
        """The faster of both; it says so where the search for the other one was interrupted."""
        best = min(self, other, key=lambda each: each.time)
        reason = other.plan.outcome.reason
        return best.with_outcome(reason=reason) if other.plan.outcome.interrupted else best

    def with_outcome(self, **changes: object) -> Scheduled:
        """The plan with other fields of its outcome."""
        outcome = replace(self.plan.outcome, **changes)  # type: ignore[arg-type]
        return replace(self, plan=replace(self.plan, outcome=outcome))


class Undivided(ShoehornError):
    """No way was found to divide the arena of a plan among the memories, each tensor in one of them.

    `by_rows` is the plan with rows of a tensor in several, if one was found; the tensors of `whole` cannot be divided.
    """

    def __init__(self, plan: Plan, whole: Collection[str], by_rows: Scheduled | None) -> None:
        super().__init__(f"an arena of {plan.arena_bytes:,} bytes cannot be divided")
        self.plan, self.whole, self.by_rows = plan, whole, by_rows
