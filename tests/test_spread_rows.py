"""Plans with rows of one tensor in several memories: where they are better, and that check and C agree on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Gen
from emitted import compile_library, expected, run
from hypothesis import example, given, settings
from hypothesis import strategies as st
from random_graphs import random_graph
from random_plans import few_tries, plans, prepared
from samples import random_inputs
from test_cli_device import needs_qemu
from test_spread import DIGITS, TRACE, digits, in_memories, memories, planned

import shoehorn_mcu
from shoehorn_mcu import PlanOptions
from shoehorn_mcu.emit.folder.plan_json import plan_json
from shoehorn_mcu.emit.page import page
from shoehorn_mcu.emit.page.picture import picture
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.firmware import build
from shoehorn_mcu.firmware.settings import Options
from shoehorn_mcu.ir import Graph
from shoehorn_mcu.planner import DoesNotFit, Goal, Problem, check, make_plan, spread
from shoehorn_mcu.planner.memory_plan import SRAM, Memory, Placement, Plan
from shoehorn_mcu.planner.spread.places import Places
from shoehorn_mcu.schedule import predict
from shoehorn_mcu.schedule.lower import lower
from shoehorn_mcu.schedule.request import Scheduled
from shoehorn_mcu.schedule.runs import joined
from shoehorn_mcu.schedule.stage import Stage, stages
from shoehorn_mcu_host.folder.documents import PlanDocument

SHARES = ((0.8, 0.6), (0.55, 0.5), (0.5, 0.4, 0.4), (0.3, 0.5, 0.6), (0.0, 1.3))


def waits(problem: Problem, plan: Plan) -> float:
    """Cycles of waiting, counted row by row at the place that the step names."""
    placed = {(p.tensor, p.edition): p for p in plan.placements}
    ops = {op.name: op for op in problem.ops}
    found = 0.0
    for step in plan.steps:
        op = ops[step.op]
        for y in range(*step.rows):
            for read in op.reads:
                own = placed[read.tensor, step.edition(read.tensor)]
                found += sum(own.row_bytes * plan.memory(own.memory_of(row)).read_cycles for row in read.rows[y])
            own = placed[op.writes, step.edition(op.writes)]
            found += 0 if step.delivers else own.row_bytes * plan.memory(own.memory_of(y)).write_cycles
            found += sum(s.bytes * plan.memory(s.memory).cycles for s in plan.scratch if s.op == op.name)
    return found


def divided(plan: Plan) -> list[Placement]:
    return [placed for placed in plan.placements if placed.memories]


RANDOM_PLANS = given(seed=st.integers(0, 400), shares=st.sampled_from(SHARES))


@settings(max_examples=5, deadline=None)
@RANDOM_PLANS
@example(seed=222, shares=(0.8, 0.6))  # needs less than any plan of one arena that was searched
@example(seed=348, shares=(0.8, 0.6))  # rows are written in place of a whole tensor, and others before it
def test_rows_of_random_plans_are_right_in_several_memories(seed: int, shares: Sequence[float]):
    rows_are_right(seed, shares)


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@RANDOM_PLANS
def test_rows_of_many_random_plans_are_right_in_several_memories(seed: int, shares: Sequence[float]):
    rows_are_right(seed, shares)


def rows_are_right(seed: int, shares: Sequence[float]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        few_tries(patch)
        graph, chosen = prepared(random_graph(seed), seed)
        for problem, plan in plans(graph, chosen, seed):
            if plan.cascades:
                continue
            plain, some = replace(problem, blocks=()), memories(plan.arena_bytes, *shares)
            found = spread(plain, plan, some, by_rows=True)
            if found is not None:
                assert check(in_memories(plain, some), found) == []
                assert found.total_bytes >= found.outcome.bound_bytes
                assert found.outcome.least_waits <= waits(plain, found) + 1
                assert all(size <= room.bytes for room in some for size in [found.arenas.get(room.name, 0)])


def by_tensors(problem: Problem, plan: Plan, memories: Sequence[Memory], by_rows: bool = False) -> Plan | None:
    """What `spread` does where each tensor is in one memory."""
    return None if by_rows else spread(problem, plan, memories)


def found(*some: Memory, goal: Goal = Goal.TIME) -> Scheduled | None:
    try:
        return planned(*some, goal=goal)
    except DoesNotFit:
        return None


@settings(max_examples=4, deadline=None)
@given(
    ram=st.integers(120, 260),
    psram=st.integers(60, 180),
    cycles=st.sampled_from((0.0, 0.5, 4.0, 40.0)),
    goal=st.sampled_from(Goal),
)
def test_rows_in_several_memories_are_never_worse(ram: int, psram: int, cycles: float, goal: Goal):
    some = Memory(SRAM, ram * 4), Memory("psram", psram * 4, cycles, cycles)
    mine = found(*some, goal=goal)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shoehorn_mcu.schedule.form.spread", by_tensors)
        other = found(*some, goal=goal)

    if other is not None:
        assert mine is not None
        assert goal is Goal.TIME or mine.plan.total_bytes <= other.plan.total_bytes
        saved = predict.time(other.plan, other.stages) - predict.time(mine.plan, mine.stages)
        assert mine.plan.placements == other.plan.placements or saved > 0


def test_a_plan_that_no_tensor_fits_is_found_by_rows(monkeypatch: pytest.MonkeyPatch):
    some = Memory(SRAM, 800), Memory("psram", 600)
    assert divided(planned(*some).plan)

    monkeypatch.setattr("shoehorn_mcu.schedule.form.spread", by_tensors)
    with pytest.raises(DoesNotFit, match="divided in no way among the memories sram 800, psram 600"):
        planned(*some)


def test_less_waiting_divides_a_tensor_and_little_less_does_not(monkeypatch: pytest.MonkeyPatch):
    """The waits of digits are a small part of its time, unless a byte costs very many cycles."""
    slow, quick = ((Memory(SRAM, 1000), Memory("psram", 8192, cycles, cycles)) for cycles in (40.0, 0.05))
    mine, same = planned(*slow), planned(*quick)
    monkeypatch.setattr("shoehorn_mcu.schedule.form.spread", by_tensors)
    other, without = planned(*slow), planned(*quick)

    assert divided(mine.plan)
    assert predict.time(mine.plan, mine.stages) < 0.99 * predict.time(other.plan, other.stages)
    assert predict.waits(mine.plan, mine.stages) < predict.waits(other.plan, other.stages)
    assert same.plan.placements == without.plan.placements


@dataclass(frozen=True)
class Apart:
    """Digits with rows of some tensors in several memories."""

    problem: Problem
    memories: Sequence[Memory]
    plan: Plan
    graph: Graph
    stages: tuple[Stage, ...]

    def check(self, plan: Plan) -> list[str]:
        return check(in_memories(self.problem, self.memories), plan)

    def unit(self, plan: Plan | None = None, caller_arena: bool = False) -> Unit:
        return Unit("digits", self.graph, self.stages, plan or self.plan, caller_arena=caller_arena)


@cache
def apart(goal: Goal, streamed: bool, *shares: float) -> Apart:
    ready = build.prepare(DIGITS, None, Options(stream_input=streamed))
    chosen = stages(ready.graph)
    problem = replace(lower(ready.graph, chosen, None, streamed), blocks=())
    plan = make_plan(problem, goal)
    some = memories(plan.arena_bytes, *shares)
    found = spread(problem, plan, some, by_rows=True)
    assert found is not None
    assert divided(found)
    long, run = joined(problem, chosen, found)
    return Apart(problem, some, run, ready.graph, long)


PLANS = [
    (Goal.TIME, False, 0.55, 0.5),
    (Goal.TIME, True, 0.45, 0.4, 0.4),
    (Goal.SRAM, False, 0.7, 0.6),
    (Goal.SRAM, True, 0.8, 0.3),
]


@pytest.mark.parametrize("which", PLANS)
def test_the_predicted_waits_are_those_of_each_row(which: tuple[Goal, bool, float, float]):
    made = apart(*which)

    assert made.check(made.plan) == []
    assert predict.waits(made.plan, made.stages) == pytest.approx(waits(made.problem, made.plan), abs=1)


def test_a_tensor_of_many_rows_has_few_parts():
    """So the assignment has a number of variables that does not grow with the rows."""
    for goal in Goal:
        made, problem = digits(goal)
        places = Places(problem, made.plan, False, 1)
        parts = {places.owner(spot) for spot in places.address}

        assert places.is_divided
        assert max(owner.part for owner in parts) < 16
        assert len(places.groups) <= len(parts)


def computes(unit: Unit, graph: Graph, folder: Path, flags: Sequence[str] = ("-O1",)) -> None:
    """The library of a plan gives the right outputs."""
    vectors = [random_inputs(graph, np.random.default_rng(seed)) for seed in range(4)]
    for got, inputs in zip(run(unit, compile_library(unit, folder, flags=flags), vectors), vectors, strict=True):
        for name, values in expected(graph, inputs).items():
            assert (got[name] == values).all()


@pytest.mark.parametrize("which", PLANS)
@pytest.mark.parametrize("caller_arena", [False, True])
def test_the_library_computes_the_same_bytes(
    which: tuple[Goal, bool, float, float], caller_arena: bool, tmp_path: Path
):
    made = apart(*which)
    computes(made.unit(caller_arena=caller_arena), made.graph, tmp_path)


@pytest.mark.parametrize("seeds", [range(1, 40, 4), pytest.param(range(3, 40, 4), marks=pytest.mark.long)])
def test_libraries_of_random_plans_compute_the_same_bytes(
    seeds: Sequence[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Also with shared rows, inserted slices, rows computed again at other addresses, and streamed inputs."""
    few_tries(monkeypatch)
    tried: list[Unit] = []
    for seed in seeds:
        graph, chosen = prepared(random_graph(seed), seed)
        for problem, plan in plans(graph, chosen, seed):
            plain = replace(problem, blocks=())
            found = None if plan.cascades else spread(plain, plan, memories(plan.arena_bytes, 0.6, 0.6), by_rows=True)
            if found is not None and divided(found):
                long, run = joined(plain, chosen, found)
                tried.append(Unit(f"net{len(tried)}", graph, long, run))
        if len(tried) >= 6:
            break
    assert tried
    assert any(placed.edition for unit in tried for placed in divided(unit.plan))
    for unit in tried[:6]:
        (tmp_path / unit.name).mkdir()
        computes(unit, unit.graph, tmp_path / unit.name)


def test_a_table_through_large_arenas_has_wide_numbers(tmp_path: Path):
    made = apart(*PLANS[2])
    unit = made.unit(replace(made.plan, arena_bytes=300_001))

    assert max(max(unit.plan.table(placed)) for placed in divided(made.plan)) >= 300_004
    computes(unit, made.graph, tmp_path)


@pytest.mark.parametrize("which", PLANS)
def test_a_trace_sees_the_rows_of_each_step(which: tuple[Goal, bool, float, float], tmp_path: Path):
    """For statements and for a table of steps: the hook is given memory that it can read."""
    made = apart(*which)
    (tmp_path / "trace.c").write_text(TRACE)
    computes(made.unit(), made.graph, tmp_path, ("-O1", "-DSH_TRACE"))


def moved_rows(plan: Plan) -> list[Plan]:
    """Each row of a divided tensor, in all editions, in the other memory at the same address."""
    found = []
    for tensor, rows in {placed.tensor: placed.rows for placed in divided(plan)}.items():
        for y in range(rows):

            def moved(placed: Placement, y: int = y) -> Placement:
                other = {SRAM: "near", "near": SRAM}[placed.memory_of(y)]
                names = (*placed.memories[:y], other, *placed.memories[y + 1 :])
                return replace(placed, memory=names[0], memories=names)

            placements = tuple(moved(p) if p.tensor == tensor else p for p in plan.placements)
            found.append(replace(plan, placements=placements))
    return found


def test_a_row_in_the_wrong_memory_is_reported_or_harms_nothing(tmp_path: Path):
    """What the check accepts, some rows moved to bytes that are free, computes the same."""
    made = apart(*PLANS[2])
    planted = moved_rows(made.plan)
    faults = [made.check(each) for each in planted]
    accepted = [each for each, fault in zip(planted, faults, strict=True) if not fault]

    assert sum(map(bool, faults)) >= len(planted) // 2
    assert any("is read, but its bytes hold" in fault[0] for fault in faults if fault)
    for number, each in enumerate(accepted[:2]):
        (tmp_path / str(number)).mkdir()
        computes(made.unit(each), made.graph, tmp_path / str(number))


def test_rows_of_one_call_are_in_one_memory():
    """An op that computes pixel by pixel has as many rows per call as lie side by side in each memory."""
    made = apart(*PLANS[0])
    apart_names = {placed.tensor for placed in divided(made.plan)}
    touched = {s.name: {s.node.output.name, *(name for name, _ in s.reads)} & apart_names for s in made.stages}
    long = [stage for stage in made.stages if stage.rows_per_call > 1 and touched[stage.name]]

    assert long
    assert all(stage.rows_per_call < stage.node.output.type.rows for stage in long)


def test_the_document_of_a_plan_has_the_memory_of_each_row():
    made = apart(*PLANS[2])
    text = plan_json(made.unit(), "0" * 16)
    document = PlanDocument.model_validate(text, strict=False)
    several = [placed for placed in document.placements if placed.memories]

    assert [placed.memories for placed in several] == [placed.memories for placed in divided(made.plan)]
    assert all(placed.ends.keys() == {SRAM, "near"} for placed in several)
    assert {owner.type.rpartition(" in ")[2] for owner in picture(made.unit()).owners} >= {"sram and near"}
    short = {**text, "other_arenas": {"near": max(placed.ends["near"] for placed in several) - 1}}
    with pytest.raises(ValueError, match="leaves the arena of"):
        PlanDocument.model_validate(short, strict=False)


@pytest.mark.usefixtures("quick_placement")
def test_reports_say_which_tensors_have_rows_in_several_memories(gen: Gen, monkeypatch: pytest.MonkeyPatch):
    plan_model, plans = build.plan_model, []

    def kept(*asked: Any) -> build.Planned:
        plans.append(plan_model(*asked))
        return plans[-1]

    monkeypatch.setattr(build, "plan_model", kept)
    shown = gen("plan", DIGITS, "--board", "mps2-an386", "--sram", "ram=600,psram=300").stdout
    (made,) = plans
    named = {placed.tensor for placed in divided(made.unit.plan)}

    assert named
    assert {*made.report["plan"]["divided_tensors"]} == named  # type: ignore[index, call-overload]
    assert f"; rows of {len(named)} tensors are in several" in shown
    assert f"; tensors with rows in several: {len(named)}; 0 cycles of waiting" in page(made.unit, made.report)


@needs_qemu
@pytest.mark.usefixtures("full_placement", "quick_placement")
@pytest.mark.parametrize(
    ("board", "rooms", "streamed"),
    [
        ("mps2-an386", {"ram": 600, "psram": 300}, True),
        pytest.param("mps2-an505", {"isram": 600, "psram": 300}, False, marks=pytest.mark.long),
        pytest.param("mps3-an547", {"isram": 600, "ddr": 300}, False, marks=pytest.mark.long),
    ],
)
def test_a_firmware_with_rows_apart_answers_over_its_serial_port(
    board: str, rooms: dict[str, int], streamed: bool, tmp_path: Path
):
    """Neither memory has the 896 bytes that the model needs in one: every byte of every op is right."""
    options = PlanOptions(board=board, sram_bytes=rooms, stream_input=streamed)
    made = shoehorn_mcu.generate(DIGITS, tmp_path / "firmware", options)
    found = shoehorn_mcu.validate(made.folder, emulate=True, count=3)

    assert '"memories": [' in (tmp_path / "firmware" / "plan.json").read_text()
    assert found.mismatched_vectors == 0
