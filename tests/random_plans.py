"""The plans under which a random graph is tried: the smallest, one with a capacity, one with streamed input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from generator import passes
from generator.emit.unit import Unit
from generator.ir import Graph
from generator.lower import lower
from generator.plan import Plan
from generator.planner import Goal, Problem, check, make_plan
from generator.stage import Stage, stages
from generator.targets import Isa


def few_tries(patch: pytest.MonkeyPatch) -> None:
    """Lets the planner search for addresses a little only: the sweep asks whether plans are right, not how small."""
    for name, few in (("_ROUNDS", 6), ("_SEARCH", 0.05)):
        patch.setattr(f"generator.planner.place.{name}", few, raising=False)


def prepared(graph: Graph, seed: int) -> tuple[Graph, tuple[Stage, ...]]:
    """The graph as it is, or (one in four) after the passes, which drop its dead ends; and its kernels."""
    after = passes.run(graph)[0] if seed % 4 == 3 else graph
    return after, stages(after, (Isa.C,))


def problems(graph: Graph, chosen: Sequence[Stage]) -> list[tuple[Problem, Goal]]:
    """By rows, with whole tensors, and by rows with streamed input where there is one input."""
    plain = lower(graph, chosen, None)
    streamed = [(lower(graph, chosen, None, True), Goal.SRAM)] if len(graph.inputs) == 1 else []
    return [(plain, Goal.SRAM), (plain, Goal.TIME), *streamed]


def _plan(problem: Problem, goal: Goal) -> Plan:
    """A plan that the check finds clean and that keeps its promises."""
    plan = make_plan(problem, goal)
    assert check(problem, plan) == []
    assert plan.outcome.bound_bytes <= plan.arena_bytes
    assert problem.capacity_bytes is None or plan.arena_bytes <= problem.capacity_bytes
    return plan


def _plans(graph: Graph, chosen: Sequence[Stage], rng: np.random.Generator) -> list[Plan]:
    """The smallest plan, and one with a random capacity, with streamed input, or with both."""
    stream = len(graph.inputs) == 1 and bool(rng.random() < 0.5)
    smallest = _plan(lower(graph, chosen, None), Goal.SRAM)
    problem = lower(graph, chosen, None, stream)
    least = _plan(problem, Goal.SRAM) if stream else smallest
    if stream and rng.random() < 0.5:
        return [smallest, least]
    most = max(least.arena_bytes, least.outcome.whole_tensor_bytes)
    capacity = int(rng.integers(least.arena_bytes, most, endpoint=True))
    return [smallest, _plan(replace(problem, capacity_bytes=capacity), Goal.TIME)]


def units_of(graph: Graph, seed: int) -> list[Unit]:
    """The graph under two plans; an error says the seed."""
    try:
        planned, chosen = prepared(graph, seed)
        plans = _plans(planned, chosen, np.random.default_rng(seed))
    except Exception as error:
        error.add_note(f"seed {seed}: `python tests/random_seed.py {seed}` says more")
        raise
    return [Unit(f"seed_{seed}_{i}", planned, chosen, plan) for i, plan in enumerate(plans)]
