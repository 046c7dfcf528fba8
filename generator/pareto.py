"""Bytes against predicted time: plans for budgets from whole tensors down to where rows are computed again.

How time is predicted: predict.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from generator import predict
from generator.ir import Graph
from generator.planner import DoesNotFit, Goal
from generator.schedule import Scheduled, Wish, schedule
from generator.stage import Stage

BUDGETS = 6  # from the smallest arena without computing again to whole tensors
BELOW = (0.85, 0.7, 0.5)  # of that smallest arena
MOST_AGAIN = 0.25  # of the MACs


@dataclass(frozen=True)
class Point:
    """One plan of the curve."""

    arena_bytes: int
    steps: int
    macs: int  # those computed again included
    recomputed_macs: int
    predicted_instructions: int


def predicted(made: Scheduled) -> Point:
    """What one inference of the plan takes; recomputed rows count again."""
    plan, stages = made.plan, made.stages
    rows, _ = predict.rows_and_steps(plan)
    macs = sum(s.macs * rows[s.name] // s.node.output.type.rows for s in stages)
    again = macs - sum(s.macs for s in stages)
    return Point(plan.arena_bytes, len(plan.steps), macs, again, predict.instructions(plan, stages))


def curve(graph: Graph, stages: Sequence[Stage], streamed: bool, say: Callable[[str], None]) -> tuple[Point, ...]:
    """The plans that no other one beats, smallest arena first; the input is `streamed` in all of them or in none.

    `say` gets a line before each plan is made.
    """
    say("the smallest arena")
    smallest = schedule(graph, stages, Wish(Goal.SRAM, None, streamed))
    found = {predicted(smallest)}
    low, high = smallest.plan.arena_bytes, smallest.plan.outcome.whole_tensor_bytes
    budgets = [round(low * share) for share in BELOW]
    budgets += [round(low * (high / low) ** (i / (BUDGETS - 1))) for i in range(1, BUDGETS)]
    for i, budget in enumerate(budgets):
        say(f"plan {i + 2} of {len(budgets) + 1}, within {budget:,} bytes")
        try:
            wish = Wish(Goal.TIME, budget, streamed, int(graph.macs * MOST_AGAIN))
            found.add(predicted(schedule(graph, stages, wish)))
        except DoesNotFit:
            continue  # too little, or rows did not pack into it and a smaller plan is on the curve already
    return _undominated(found)


def _undominated(found: set[Point]) -> tuple[Point, ...]:
    kept: list[Point] = []
    for p in sorted(found, key=lambda p: (p.arena_bytes, p.predicted_instructions, p.steps)):
        if not kept or p.predicted_instructions < kept[-1].predicted_instructions:
            kept.append(p)
    return tuple(kept)
