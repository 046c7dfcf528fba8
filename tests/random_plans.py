"""The plans under which a random graph is tried: the smallest, one with a capacity, one with streamed input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from shoehorn_mcu import passes
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.ir import Graph
from shoehorn_mcu.passes.insert_slices import insert_slices
from shoehorn_mcu.passes.share_rows import share_rows
from shoehorn_mcu.planner import Goal, Problem, check, make_plan
from shoehorn_mcu.planner.memory_plan import DELIVERY, Outcome, Plan, Status
from shoehorn_mcu.planner.order.flow import Event, Flow
from shoehorn_mcu.planner.partition.search import PartitionSearch
from shoehorn_mcu.planner.placement.layout import lay_out
from shoehorn_mcu.schedule.cuts import Cuts
from shoehorn_mcu.schedule.lower import lower
from shoehorn_mcu.schedule.request import PlanRequest, Scheduled
from shoehorn_mcu.schedule.search import schedule
from shoehorn_mcu.schedule.stage import Stage, stages


def few_tries(patch: pytest.MonkeyPatch) -> None:
    """Lets the planner search a little only: the sweep asks whether plans are right, not how small."""
    for name, few in (
        ("FIT_ROUNDS", 6),
        ("SEARCH", 0.05),
        ("RUNS", 4),
        ("WORK", 200_000),
        ("LOWERING_WORK", 200_000),
    ):
        patch.setattr(f"shoehorn_mcu.planner.effort.PLACE.{name}", few)
    for name, few in (("LEAST_SECONDS", 0.05), ("MOST_SECONDS", 0.05), ("DESCENTS", 1), ("FIRST_CUT", 0.2)):
        patch.setattr(f"shoehorn_mcu.planner.effort.BUDGET.{name}", few)


def prepared(graph: Graph, seed: int) -> tuple[Graph, tuple[Stage, ...]]:
    """The graph as it is, or (one in four each) with shared rows and ops that insert slices, or after all passes, which
    drop its dead ends; and its kernels.
    """
    after = passes.run(graph)[0] if seed % 4 == 3 else insert_slices(share_rows(graph)) if seed % 4 == 1 else graph
    return after, stages(after)


def plans(graph: Graph, chosen: Sequence[Stage], seed: int) -> list[tuple[Problem, Plan]]:
    """By rows, with whole tensors, with rows again, and by rows with streamed input where there is one input."""
    plain = lower(graph, chosen, None)
    found = [(plain, make_plan(plain, Goal.SRAM)), (plain, make_plan(plain, Goal.TIME))]
    found.append((plain, with_rows_again(plain, np.random.default_rng(seed))))
    if len(graph.inputs) == 1:
        streamed = lower(graph, chosen, None, True)
        found += [(streamed, make_plan(streamed, Goal.SRAM))]
    return found


def with_rows_again(problem: Problem, rng: np.random.Generator) -> Plan:
    """By rows, a random third of which are computed again, at a random time after the first one."""
    problem = replace(problem, blocks=())
    modes = PartitionSearch(problem, 0)
    events = [
        Event(event.op, row)
        for event in modes.space.events(modes.minimax().groups)
        for row in range(event.row, event.row + event.rows)
    ]
    repeated = [(at, event) for at, event in enumerate(events) if problem.ops[event.op].name != DELIVERY]
    for at, event in reversed([pair for pair in repeated if rng.random() < 1 / 3]):
        events.insert(int(rng.integers(at + 1, len(events), endpoint=True)), event)
    layout = lay_out(Flow(problem), events, enough=0)
    outcome = Outcome(Status.FEASIBLE, 0, 0, 0.0)
    return Plan(layout.steps, layout.placements, layout.scratch, layout.arena_bytes, outcome)


def _plan(graph: Graph, chosen: Sequence[Stage], request: PlanRequest) -> Scheduled:
    """A plan that the check finds clean and that keeps its promises."""
    made = schedule(Cuts(graph, chosen), request)
    problem = lower(made.graph, made.stages, request.capacity_bytes, request.stream_input)
    assert check(problem, made.plan) == []
    assert made.plan.outcome.bound_bytes <= made.plan.arena_bytes
    assert request.capacity_bytes is None or made.plan.arena_bytes <= request.capacity_bytes
    return made


def _plans(graph: Graph, chosen: Sequence[Stage], rng: np.random.Generator) -> list[Scheduled]:
    """The smallest plan; then one with a random capacity, with streamed input, or with rows computed again, at random
    or to save memory.
    """
    stream = len(graph.inputs) == 1 and bool(rng.random() < 0.5)
    smallest = _plan(graph, chosen, PlanRequest(Goal.SRAM))
    least = _plan(graph, chosen, PlanRequest(Goal.SRAM, None, stream)) if stream else smallest
    kind = rng.random()
    if stream and kind < 0.3:
        return [smallest, least]
    if kind < 0.5:
        problem = lower(graph, chosen, None, stream)
        plan = with_rows_again(problem, rng)
        assert check(problem, plan) == []
        return [smallest, Scheduled(graph, tuple(chosen), plan, problem)]
    if kind < 0.7:
        return [smallest, _plan(graph, chosen, PlanRequest(Goal.SRAM, None, stream, most_macs=None))]
    most = max(least.plan.arena_bytes, least.plan.outcome.whole_tensor_bytes)
    capacity = int(rng.integers(least.plan.arena_bytes, most, endpoint=True))
    return [smallest, _plan(graph, chosen, PlanRequest(Goal.TIME, capacity, stream))]


def units_of(graph: Graph, seed: int) -> list[Unit]:
    """The graph under two plans; an error says the seed."""
    try:
        planned, chosen = prepared(graph, seed)
        plans = _plans(planned, chosen, np.random.default_rng(seed))
    except Exception as error:
        error.add_note(f"seed {seed}: `python tests/random_seed.py {seed}` says more")
        raise
    return [Unit(f"seed_{seed}_{i}", made.graph, made.stages, made.plan) for i, made in enumerate(plans)]
