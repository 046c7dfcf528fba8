"""Blocks in bands from the graph to bytes: C beside numpy of the graph as it was, and plans with one fault planted."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from bottlenecks import bottlenecks
from evaluate import evaluate, random_arrays
from many_models import ManyModels, compile_kernels
from mutants import Mutants, mutants
from replay import Rows, replays
from test_place import few_tries

from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.ir import Graph
from shoehorn_mcu.planner import DoesNotFit, Goal, PlanFault, Problem, Scope, check, checked, make_plan
from shoehorn_mcu.planner.blocks.cascade import Composite, Pattern
from shoehorn_mcu.planner.memory_plan import BY_ROWS, Placement, Plan
from shoehorn_mcu.schedule import split
from shoehorn_mcu.schedule.cuts import Cuts
from shoehorn_mcu.schedule.lower import lower
from shoehorn_mcu.schedule.request import PlanRequest, Scheduled
from shoehorn_mcu.schedule.search import schedule
from shoehorn_mcu.schedule.stage import Stage, nearer, stages

CHUNK = 2
CHUNKS = 240
QUICK = 4  # the chunk in every run of the suite: its plans are made quickly, and most of them have bands
MUTATED = [(2, 6, 7, 8), *(tuple(range(first, first + 10, 2)) for first in (0, 2, 4, 6))]  # the first in every run


@pytest.fixture(autouse=True)
def _few_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    few_tries(monkeypatch)
    monkeypatch.setattr("shoehorn_mcu.planner.effort.BUDGET.LEAST_SECONDS", 0.01)


@pytest.fixture(scope="module")
def kernels() -> list[Path]:
    return compile_kernels()


def _chunks() -> list[object]:
    marks = [() if chunk == QUICK else (pytest.mark.long,) for chunk in range(CHUNKS)]
    return [pytest.param(i * CHUNK, id=f"{i * CHUNK}..{(i + 1) * CHUNK - 1}", marks=m) for i, m in enumerate(marks)]


@cache
def scheduled(seed: int) -> tuple[Graph, tuple[Scheduled, ...]]:
    """Random bottlenecks with their smallest plans, stored and streamed, and one that just has to fit."""
    graph = bottlenecks(seed)
    return graph, tuple(_scheduled(graph, seed))


def _scheduled(graph: Graph, seed: int) -> Iterator[Scheduled]:
    cuts = Cuts(graph, stages(graph))
    for stream in (False, True):
        smallest = schedule(cuts, PlanRequest(Goal.SRAM, None, stream, None))
        yield smallest
        least, most = smallest.plan.arena_bytes, smallest.plan.outcome.whole_tensor_bytes
        capacity = random.Random(seed).randint(least, max(least, (least + most) // 2))
        fitting = schedule(cuts, PlanRequest(Goal.TIME, capacity, stream, None))
        assert fitting.plan.arena_bytes <= capacity
        if fitting.plan.steps != smallest.plan.steps:
            yield fitting


@pytest.mark.parametrize("first", _chunks())
def test_the_library_of_blocks_in_bands_computes_what_the_graph_as_it_was_means(
    first: int, kernels: list[Path], tmp_path: Path
):
    made: list[tuple[Graph, Unit]] = []
    assert first != QUICK * CHUNK or any(each.plan.cascades for each in scheduled(first)[1])
    for seed in range(first, first + CHUNK):
        graph, plans = scheduled(seed)
        for i, each in enumerate(plans):
            assert check(lower(each.graph, each.stages, None, each.plan.streamed), each.plan) == []
            made.append((graph, Unit(f"seed_{seed}_{i}", each.graph, each.stages, each.plan)))
    turns = [(i, random_arrays(graph, vector)) for i, (graph, _) in enumerate(made) for vector in (1, 2)]
    found = ManyModels([unit for _, unit in made], kernels, tmp_path).run(turns)
    for (place, inputs), outputs in zip(turns, found, strict=True):
        graph, unit = made[place]
        wanted = evaluate(graph, inputs)
        for name in graph.outputs:
            np.testing.assert_array_equal(outputs[name], wanted[name], err_msg=f"{unit.name} {name}")


@pytest.mark.long
def test_the_random_bottlenecks_have_plans_with_bands_of_all_kinds():
    plans = [made.plan for seed in (*range(9), 48) for made in scheduled(seed)[1]]
    kinds = Counter((plan.streamed, bool(plan.cascades)) for plan in plans)
    cascades = [cascade for plan in plans for cascade in plan.cascades]

    assert min(kinds[streamed, True] for streamed in (False, True)) > 2
    assert {cascade.chunks > 1 for cascade in cascades} == {False, True}
    assert len({cascade.band for cascade in cascades}) > 2
    assert any(len(plan.cascades) > 1 for plan in plans)


def test_the_random_bottlenecks_give_outputs_of_many_values():
    alike = 0
    for seed in range(60):
        graph = bottlenecks(seed)
        one, other = (evaluate(graph, random_arrays(graph, vector)) for vector in (1, 2))
        alike += all((one[name] == other[name]).mean() > 0.5 for name in graph.outputs)

    assert alike < 20


# --- Faults


def inner_rings(plan: Plan, made: Scheduled) -> list[Placement]:
    """Rings of what the ops of a cascade hand on to each other."""
    ops = {name for cascade in plan.cascades for name in cascade.ops[:-1]}
    inner = {stage.node.output.name for stage in made.stages if stage.name in ops}
    return [ring for ring in plan.placements if ring.tensor in inner]


def with_ring(plan: Plan, old: Placement, new: Placement) -> Plan:
    return replace(plan, placements=tuple(new if ring is old else ring for ring in plan.placements))


def inner_mutants(made: Scheduled, chance: random.Random) -> Mutants:
    """An inner row a word off or in the place of another, two rows of one ring in one place, bands exchanged."""
    plan = made.plan
    for ring in chance.sample(rings := inner_rings(plan, made), min(4, len(rings))):
        slots = list(ring.slots) or [ring.at(y) for y in range(ring.rows)]
        y = chance.randrange(ring.rows)
        for by in (-4, 4):
            moved = (*slots[:y], slots[y] + by, *slots[y + 1 :])
            yield f"inner row {by:+}", with_ring(plan, ring, replace(ring, slots=moved))
        apart = [other for other in range(ring.rows) if slots[other] != slots[y]]
        if apart:
            joined = tuple(slots[y] if other == apart[0] else at for other, at in enumerate(slots))
            yield "inner ring of one place less", with_ring(plan, ring, replace(ring, slots=joined))
    for cascade in plan.cascades:
        ends = [i for i, step in enumerate(plan.steps) if step.op == cascade.ops[-1]]
        begins = [i for i, step in enumerate(plan.steps) if step.op == cascade.ops[0]]
        if len(ends) > 1 and begins[0] < ends[0] < ends[1]:
            first, second = plan.steps[begins[0] : ends[0] + 1], plan.steps[ends[0] + 1 : ends[1] + 1]
            steps = (*plan.steps[: begins[0]], *second, *first, *plan.steps[ends[1] + 1 :])
            yield "bands exchanged", replace(plan, steps=steps)
        i = chance.choice([i for i, step in enumerate(plan.steps) if step.op in cascade.ops])
        yield "inner step left out", replace(plan, steps=(*plan.steps[:i], *plan.steps[i + 1 :]))
        if i + 1 < len(plan.steps):
            exchanged = (*plan.steps[:i], plan.steps[i + 1], plan.steps[i], *plan.steps[i + 2 :])
            yield "inner steps exchanged", replace(plan, steps=exchanged)


@pytest.mark.parametrize(
    "seeds", [pytest.param(seeds, marks=(pytest.mark.long,) if i else ()) for i, seeds in enumerate(MUTATED)], ids=str
)
def test_the_check_refuses_a_cascade_that_is_one_off_unless_it_computes_the_same(seeds: tuple[int, ...]):
    """`replays` runs a plan on hashes of rows, from the ops alone, and so proves whether a mutant is harmless."""
    verdicts: Counter[tuple[str, str]] = Counter()
    for seed in seeds:
        chance = random.Random(seed)
        for made in scheduled(seed)[1]:
            if not made.plan.cascades:
                continue
            problem, rows = lower(made.graph, made.stages, None, made.plan.streamed), Rows(made.graph, made.stages)
            assert replays(rows, made.plan), f"seed {seed}"
            for kind, mutant in (*mutants(made.plan, chance), *inner_mutants(made, chance)):
                faults, right = check(problem, mutant), replays(rows, mutant)
                bytes_wrong = any(word in fault for fault in faults for word in ("is read, but", "are outside"))
                told = f"seed {seed}, {kind}: harmless is {right}, but the check says {faults}"
                assert not right if bytes_wrong else right or faults, told
                verdicts[kind, "caught" if faults else "harmless"] += 1
    inner = {"inner row -4", "inner row +4", "inner ring of one place less", "bands exchanged"}
    inner |= {"inner step left out", "inner steps exchanged"}
    assert inner < {kind for kind, _ in verdicts}
    for kind in inner | {"slot of a neighbour", "step left out", "steps exchanged", "step's rows"}:
        assert verdicts[kind, "caught"] > 5, (kind, verdicts)


@cache
def _smallest() -> tuple[Cuts, Plan]:
    """A graph with blocks, and the smallest plan of it."""
    graph = bottlenecks(3)
    cuts = Cuts(graph, stages(graph))
    return cuts, schedule(cuts, PlanRequest(Goal.SRAM, None, False, None)).plan


@pytest.mark.parametrize("goal", Goal)
def test_a_capacity_below_what_an_op_needs_is_refused_without_a_search(goal: Goal):
    cuts, smallest = _smallest()
    capacity, tried = smallest.outcome.bound_bytes // 4, list[str]()

    with pytest.raises(DoesNotFit) as refused:
        schedule(cuts, PlanRequest(goal, capacity, False, None), tried.append)

    said = re.match(
        r"needs an arena of at least ([\d,]+) bytes \(set by '\w+'; ([\d,]+) in a plan made without a search\)",
        str(refused.value),
    )
    assert said, refused.value
    least, found = (int(each.replace(",", "")) for each in said.groups())
    assert capacity < least <= smallest.arena_bytes <= found == refused.value.needed_bytes
    assert tried == []


def test_a_capacity_below_the_bound_is_refused_with_the_bound():
    cuts, smallest = _smallest()
    bound, tried = smallest.outcome.bound_bytes, list[str]()

    with pytest.raises(DoesNotFit, match=r"needs an arena of at least .* in the best plan found") as refused:
        schedule(cuts, PlanRequest(Goal.TIME, bound - 1, False, None), tried.append)

    assert refused.value.needed_bytes >= bound
    assert "rows" in tried


@cache
def _chunked_plan() -> tuple[Graph, tuple[Stage, ...], Scheduled]:
    for seed in range(2, 60):  # the first two have no bands
        graph = bottlenecks(seed)
        chosen = stages(graph)
        made = schedule(Cuts(graph, chosen), PlanRequest(Goal.SRAM, None, False, None))
        if any(cascade.chunks > 1 for cascade in made.plan.cascades):
            return graph, chosen, made
    raise AssertionError("no plan has chunks")


def test_each_choice_is_cut_once_and_the_plan_is_checked_once(monkeypatch: pytest.MonkeyPatch):
    graph, chosen, _ = _chunked_plan()
    cuts: Counter[tuple[str, int]] = Counter()
    checks: list[Problem] = []

    def cut(graph: Graph, block: split.Splittable, chunks: int) -> split.Chunks:
        cuts[block.ops[0], chunks] += 1
        return real_cut(graph, block, chunks)

    def checked(problem: Problem, plan: Plan) -> list[str]:
        checks.append(problem)
        return check(problem, plan)

    real_cut = split.cut
    monkeypatch.setattr(split, "cut", cut)
    monkeypatch.setattr(import_module("shoehorn_mcu.planner.make_plan"), "check", checked)
    made = schedule(Cuts(graph, chosen), PlanRequest(Goal.SRAM, None, False, None))

    assert len(checks) <= (1 if nearer(chosen) is None else 2)  # a plan with each choice of kernels
    assert set(cuts.values()) == {len(checks)}
    assert lower(made.graph, made.stages, None) in checks


def test_a_plan_that_is_fast_without_blocks_in_bands_cuts_none(monkeypatch: pytest.MonkeyPatch):
    graph, chosen, _ = _chunked_plan()
    monkeypatch.setattr(split, "cut", None)
    made = schedule(Cuts(graph, chosen), PlanRequest(Goal.TIME, None, False, None))

    assert made.plan.outcome.bound_of == BY_ROWS
    assert made.plan.outcome.bound_bytes <= made.plan.arena_bytes


@pytest.mark.parametrize("seed", range(12))
def test_no_cut_needs_fewer_bytes_than_is_known_before_it_is_made(seed: int):
    graph = bottlenecks(seed)
    own = stages(graph)
    for form in filter(None, (own, nearer(own))):
        problem = lower(graph, form, None, cuts=Cuts(graph, form))
        for block in problem.blocks:
            for band in (1, 2, 5, problem.by_name[problem.ops[block.last].writes].rows):
                pattern = Pattern(problem, block, band)
                for cut, row_bytes in zip(block.cuts, block.row_bytes, strict=True):
                    assert len(row_bytes) == len(pattern.ops) - (cut.chunks == 1)
                    assert 0 < pattern.least_bytes(row_bytes) <= Composite(pattern, cut).frame_bytes


def test_the_stages_that_are_emitted_are_those_that_the_cut_graph_would_get():
    graph, chosen, made = _chunked_plan()
    wanted = stages(made.graph)

    assert made.graph is not graph
    assert [stage.index for stage in made.stages] == list(range(len(made.stages)))
    for stage, other in zip(made.stages, wanted, strict=True):
        assert stage.node.op is other.node.op
        assert all(one is another for one, another in zip(stage.node.inputs, other.node.inputs, strict=True))
        assert stage.rows == other.rows
        assert stage.kernel.name == other.kernel.name
    kept = {stage.name: stage.kernel for stage in chosen}
    assert any(stage.kernel is kept.get(stage.name) for stage in made.stages)


def test_a_plan_that_does_not_suit_the_graph_that_is_emitted_is_refused():
    graph, chosen, _ = _chunked_plan()
    cuts = Cuts(graph, chosen)

    plan = make_plan(lower(graph, chosen, None, False, cuts), Goal.SRAM, None, scope=Scope(unchecked=True))

    with pytest.raises(PlanFault, match=r"^the plan is wrong, please report this: .*no op is called"):
        checked(lower(graph, chosen, None), plan)
