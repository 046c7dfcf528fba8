"""From ops with kernels to a plan: the problem lowered, planned, and the graph cut where the plan says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from shoehorn_mcu.cuts import Cuts
from shoehorn_mcu.ir import Graph
from shoehorn_mcu.lower import lower
from shoehorn_mcu.memory_plan import Plan
from shoehorn_mcu.planner import Goal, Problem, Weighing, checked, divided, make_plan
from shoehorn_mcu.predict import time
from shoehorn_mcu.runs import joined
from shoehorn_mcu.stage import Stage
from shoehorn_mcu.upgrade import Limits, upgraded


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


@dataclass(frozen=True, eq=False)
class Scheduled:
    """A plan, and the graph and the stages that it is for."""

    graph: Graph
    stages: tuple[Stage, ...]
    plan: Plan


def schedule(
    graph: Graph, stages: Sequence[Stage], request: PlanRequest, say: Callable[[str], None] = lambda _: None
) -> Scheduled:
    """The plan of a graph, whose blocks are cut into chunks of channels as the plan says.

    With several cores the rows of its steps are divided among them. Kernels that need scratch replace slower ones where
    the plan has room for it (upgrade.py), and rows that lie side by side become one (runs.py). The plan is checked
    against the graph as it is emitted. Raises DoesNotFit where no plan is within the capacity, PlanFault where the
    check rejects the plan.
    """

    def price(plan: Plan) -> float:
        """The predicted time of a plan without cuts."""
        long, run = joined(replace(problem, blocks=()), stages, plan)
        return time(run, long)

    cuts = Cuts(graph, stages)
    problem = lower(graph, stages, request.capacity_bytes, request.stream_input, cuts)
    weighing = None
    if request.weigh_smaller and request.cores == 1:
        weighing = Weighing(price, request.prefer_smaller)

    def emitted(plan: Plan) -> Problem:
        cut, parts = cuts.chosen(plan.cascades)
        if cut is graph:
            return replace(problem, blocks=())
        return lower(cut, parts, request.capacity_bytes, request.stream_input)

    plan = make_plan(problem, request.goal, request.most_macs, say, weighing, emitted)
    cut, parts = cuts.chosen(plan.cascades)
    arena_bytes = plan.arena_bytes if request.goal is Goal.SRAM else request.capacity_bytes
    limits = Limits(arena_bytes, stages[0].machine.flash_left if stages else None)
    made = emitted(plan)
    shared = divided(made, plan, request.cores) if request.cores > 1 else plan
    faster, larger = upgraded(made, parts, shared, limits)
    final = lower(cut, faster, request.capacity_bytes, request.stream_input) if larger is not plan else made
    long, run = joined(final, faster, larger)
    if run != plan:
        checked(final, run)
    return Scheduled(cut, long, run)
