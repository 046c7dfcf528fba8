"""Bytes against predicted time: plans of one problem for budgets from the smallest arena to whole tensors.

How time is predicted: predict.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from generator import predict
from generator.ir import Graph
from generator.lower import lower
from generator.plan import Plan
from generator.planner import DoesNotFit, Goal, make_plan
from generator.stage import Stage

BUDGETS = 6


@dataclass(frozen=True)
class Point:
    """One plan of the curve."""

    arena_bytes: int
    steps: int
    macs: int
    predicted_instructions: int


def predicted(plan: Plan, stages: Sequence[Stage]) -> Point:
    """What one inference of the plan takes; recomputed rows count again."""
    rows, _ = predict.rows_and_steps(plan)
    macs = sum(s.macs * rows[s.name] // s.node.output.type.rows for s in stages)
    return Point(plan.arena_bytes, len(plan.steps), macs, predict.instructions(plan, stages))


def curve(graph: Graph, stages: Sequence[Stage], streamed: bool, say: Callable[[str], None]) -> tuple[Point, ...]:
    """The plans that no other one beats, smallest arena first; the input is `streamed` in all of them or in none.

    `say` gets a line before each plan is made.
    """
    problem = lower(graph, stages, None, streamed)
    say("the smallest arena")
    smallest = make_plan(problem, Goal.SRAM)
    found = {predicted(smallest, stages)}
    low, high = smallest.arena_bytes, smallest.outcome.whole_tensor_bytes
    for i in range(1, BUDGETS):
        budget = round(low * (high / low) ** (i / (BUDGETS - 1)))
        say(f"plan {i + 1} of {BUDGETS}, within {budget:,} bytes")
        try:
            found.add(predicted(make_plan(replace(problem, capacity_bytes=budget)), stages))
        except DoesNotFit:
            continue  # rows did not pack into this budget; a smaller plan is on the curve already
    return _undominated(found)


def _undominated(found: set[Point]) -> tuple[Point, ...]:
    kept: list[Point] = []
    for p in sorted(found, key=lambda p: (p.arena_bytes, p.predicted_instructions, p.steps)):
        if not kept or p.predicted_instructions < kept[-1].predicted_instructions:
            kept.append(p)
    return tuple(kept)
