"""Plans in several memories: each tensor is in one, the check accepts them, and the C computes the same bytes."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import Gen
from elftools.elf.elffile import ELFFile
from emitted import compile_library, expected, run
from random_graphs import random_graph
from random_plans import few_tries, plans, prepared
from samples import random_inputs
from test_cli_device import needs_qemu

import shoehorn_mcu
from shoehorn_mcu import PlanOptions
from shoehorn_mcu.base.paths import MODELS as SHIPPED
from shoehorn_mcu.emit.bundle import write
from shoehorn_mcu.emit.folder.memory_map import memory_map
from shoehorn_mcu.emit.page import page
from shoehorn_mcu.emit.page.picture import picture
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.firmware import build
from shoehorn_mcu.firmware.settings import Options
from shoehorn_mcu.machine import targets
from shoehorn_mcu.planner import DoesNotFit, Goal, Problem, check, make_plan, spread
from shoehorn_mcu.planner.memory_plan import SRAM, Memory, Plan
from shoehorn_mcu.schedule import predict, search
from shoehorn_mcu.schedule.cuts import Cuts
from shoehorn_mcu.schedule.lower import lower
from shoehorn_mcu.schedule.request import PlanRequest, Scheduled
from shoehorn_mcu.schedule.search import schedule
from shoehorn_mcu.schedule.stage import stages
from shoehorn_mcu_host.firmware.build import build as build_folder
from shoehorn_mcu_host.folder.project import Project

DIGITS = SHIPPED / "digits.tflite"


def in_memories(problem: Problem, memories: Sequence[Memory]) -> Problem:
    room = {memory.name: memory.bytes for memory in memories}
    return replace(problem, capacity_bytes=room.pop(SRAM, 0), others=tuple(room.items()))


def memories(total: int, *shares: float) -> tuple[Memory, ...]:
    """The first is the main one, which never waits; each further one waits longer."""
    names = (SRAM, "near", "far")
    sizes = (int(total * share) // 4 * 4 for share in shares)
    return tuple(Memory(names[i], size, i / 2, i / 4) for i, size in enumerate(sizes))


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(i, marks=pytest.mark.long) for i in range(6, 24))])
def test_plans_of_random_graphs_are_right_in_several_memories(seed: int, monkeypatch: pytest.MonkeyPatch):
    few_tries(monkeypatch)
    graph, chosen = prepared(random_graph(seed), seed)
    divided = 0
    for problem, plan in plans(graph, chosen, seed):
        plain = replace(problem, blocks=())
        if plan.cascades:
            continue
        for shares in ((0.8, 0.6), (0.5, 0.4, 0.4), (1.2, 1.0), (0.0, 1.3)):
            some = memories(plan.arena_bytes, *shares)
            found = spread(plain, plan, some)
            if found is None:
                continue
            divided += 1

            assert check(in_memories(plain, some), found) == []
            assert found.total_bytes >= found.outcome.bound_bytes
            assert found.outcome.least_waits <= waits(plain, found)
    assert divided > 0


def test_the_working_memory_of_kernels_is_placed_in_several_memories():
    """As of kernels that a tuning names, which need it in any plan."""
    made, problem = digits(Goal.TIME)
    needing = tuple(replace(op, scratch_bytes=64 + 32 * i) if i % 3 == 0 else op for i, op in enumerate(problem.ops))
    problem = replace(problem, ops=needing, blocks=())
    plan = make_plan(problem, Goal.TIME)
    places = set()
    for shares in ((0.8, 0.6), (0.5, 0.4, 0.4), (0.0, 1.3)):
        some = memories(plan.arena_bytes, *shares)
        found = spread(problem, plan, some)
        assert found is not None

        assert check(in_memories(problem, some), found) == []
        assert [(s.op, s.bytes) for s in found.scratch] == [(s.op, s.bytes) for s in plan.scratch]
        assert found.outcome.least_waits <= waits(problem, found)
        assert predict.waits(found, made.stages) == pytest.approx(waits(problem, found), abs=1)
        places |= {s.memory for s in found.scratch}
        lines = memory_map(Unit("digits", made.graph, made.stages, found))
        assert sum(line.endswith("working memory") for line in lines) == len(found.scratch)
    assert len(found.scratch) > 3 and len(places) > 1


def waits(problem: Problem, plan: Plan) -> float:
    """Cycles of waiting, counted row by row."""
    where = {p.tensor: plan.memory(p.memory) for p in plan.placements}
    ops, specs = {op.name: op for op in problem.ops}, problem.by_name
    found = 0.0
    for step in plan.steps:
        op = ops[step.op]
        for y in range(*step.rows):
            for read in op.reads:
                found += len(read.rows[y]) * specs[read.tensor].row_bytes * where[read.tensor].read_cycles
            found += 0 if step.delivers else specs[op.writes].row_bytes * where[op.writes].write_cycles
            found += sum(s.bytes * plan.memory(s.memory).cycles for s in plan.scratch if s.op == op.name)
    return found


def digits(goal: Goal = Goal.SRAM, streamed: bool = False) -> tuple[Scheduled, Problem]:
    ready = build.prepare(DIGITS, None, Options(stream_input=streamed))
    made = schedule(Cuts(ready.graph, stages(ready.graph)), PlanRequest(goal, None, streamed))
    return made, lower(made.graph, made.stages, None, streamed)


@pytest.mark.parametrize(("goal", "streamed"), [(Goal.TIME, False), (Goal.SRAM, False), (Goal.SRAM, True)])
@pytest.mark.parametrize("caller_arena", [False, True])
def test_the_library_computes_the_same_bytes_from_three_memories(
    goal: Goal, streamed: bool, caller_arena: bool, tmp_path: Path
):
    made, problem = digits(goal, streamed)
    some = memories(made.plan.arena_bytes, *((0.45, 0.45, 0.45) if goal is Goal.TIME else (0.8, 0.3, 0.4)))
    plan = spread(problem, made.plan, some)
    assert plan is not None
    assert len(plan.arenas) == 3
    unit = Unit("digits", made.graph, made.stages, plan, caller_arena=caller_arena)
    vectors = [random_inputs(made.graph, np.random.default_rng(seed)) for seed in range(5)]

    for got, inputs in zip(run(unit, compile_library(unit, tmp_path), vectors), vectors, strict=True):
        for name, values in expected(made.graph, inputs).items():
            assert (got[name] == values).all()


def test_a_traced_library_names_the_arena_of_each_tensor(tmp_path: Path):
    """The macros of a build with trace hooks compile, for a table of steps and for statements."""
    for goal in (Goal.TIME, Goal.SRAM):
        made, problem = digits(goal)
        plan = spread(problem, made.plan, memories(made.plan.arena_bytes, 0.8, 0.6))
        assert plan is not None
        unit = Unit("digits", made.graph, made.stages, plan)
        folder = tmp_path / goal.value
        folder.mkdir()
        (folder / "trace.c").write_text(TRACE)
        vector = random_inputs(made.graph, np.random.default_rng(1))
        program = compile_library(unit, folder, flags=("-O1", "-DSH_TRACE"))
        (got,) = run(unit, program, [vector])

        assert all((got[name] == values).all() for name, values in expected(made.graph, vector).items())


TRACE = """#include "src/sh/include/sh_trace.h"
bool sh_trace_on = true;
void sh_trace_begin(int32_t op) { (void)op; }
void sh_trace_end(int32_t op, uint8_t *arena, const sh_tensor *tensor, int32_t y0, int32_t y1)
{
    (void)op;
    (void)*(volatile uint8_t *)sh_tensor_row(arena, tensor, y0);
    (void)y1;
}
"""


def planted(plan: Plan) -> list[Plan]:
    """Each tensor of a plan in the other memory, at the same address."""
    found = []
    for tensor in dict.fromkeys(p.tensor for p in plan.placements):
        other = {SRAM: "near", "near": SRAM}
        moved = (replace(p, memory=other[p.memory]) if p.tensor == tensor else p for p in plan.placements)
        found.append(replace(plan, placements=tuple(moved)))
    return found


def test_a_row_in_the_wrong_memory_is_reported_or_harms_nothing():
    """The check refuses what a replay of the C would get wrong; some moves into bytes that are free are right."""
    made, problem = digits(Goal.SRAM)
    some = memories(made.plan.arena_bytes, 0.8, 0.6)
    plan = spread(problem, made.plan, some)
    assert plan is not None
    refused = [bool(check(in_memories(problem, some), each)) for each in planted(plan)]

    assert sum(refused) >= len(refused) // 2


def test_the_assignment_with_the_least_waiting_is_found():
    """Every assignment of the tensors of whole tensors, tried."""
    made, problem = digits(Goal.TIME)
    some = memories(made.plan.arena_bytes, 0.5, 1.0)
    plan = spread(problem, made.plan, some)
    assert plan is not None
    assert plan.outcome.least_waits <= waits(problem, plan)
    own = [p.tensor for p in plan.placements if problem.by_name[p.tensor].view_of is None]
    least = float("inf")
    for chosen in itertools.islice(itertools.product((0, 1), repeat=len(own)), 1 << 14):
        where = dict(zip(own, chosen, strict=True))
        placed = tuple(replace(p, memory=some[where.get(problem.root(p.tensor), 0)].name) for p in plan.placements)
        if _fits(problem, plan, where, some):
            least = min(least, waits(problem, replace(plan, placements=placed)))

    assert waits(problem, plan) <= least + 1


def _fits(problem: Problem, plan: Plan, where: dict[str, int], some: Sequence[Memory]) -> bool:
    """Whether whole tensors have room by the bytes alive during each step."""
    last = {n: i for i, op in enumerate(problem.ops) for n in [problem.root(read.tensor) for read in op.reads]}
    first = {op.writes: i for i, op in enumerate(problem.ops)}
    last |= dict.fromkeys(map(problem.root, problem.outputs), len(problem.ops))
    for i in range(len(problem.ops)):
        used = [0] * len(some)
        for name, memory in where.items():
            if first.get(name, -1) <= i <= last.get(name, first.get(name, -1)):
                used[memory] += -(-problem.by_name[name].bytes // 4) * 4
        if any(size > memory.bytes for size, memory in zip(used, some, strict=True)):
            return False
    return True


def test_the_page_and_the_table_tell_the_memories_apart(gen: Gen):
    board = targets.board("mps2-an386")
    made = build.plan_model(DIGITS, board, Options(sram_bytes={"ram": 1000, "psram": 600}))
    seen = picture(made.unit)
    text = page(made.unit, made.report)

    assert re.search(r"<dt>Memories</dt><dd>ram 816 of 1,000 bytes, psram 384 of 600 bytes; 0 cycles", text)
    assert seen.arena_bytes == sum(made.unit.plan.arenas.values())
    assert {owner.type.rpartition(" in ")[2] for owner in seen.owners if owner.kind != "scratch"} == {"sram", "psram"}
    assert max(r.address + seen.owners[r.owner].row_bytes for r in seen.rectangles) <= seen.arena_bytes
    shown = gen("plan", DIGITS, "--board", "mps2-an386", "--sram", "ram=1000,psram=600").stdout
    assert "in the memories ram 816 of 1,000 bytes, psram 384 of 600 bytes" in shown


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--sram", "ram=64k,ram=1k"), "'ram' is given twice"),
        (("--sram", "ram="), "'ram=' is not NAME=SIZE; write ram=64k,ccm=16k"),
        (("--sram", "ram=64k,psram=many"), "'many' is not a size; write bytes, 64k or 1M"),
        (("--sram", "ram=64k,psram=1k", "--slower", "5%"), "--slower compares plans for one arena; give one size"),
    ],
)
def test_memories_that_cannot_be_read_are_refused_in_one_line(options: tuple[str, ...], message: str, gen: Gen):
    done = gen("plan", DIGITS, "--board", "mps2-an386", *options)

    assert done.exit_code in (1, 2)
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_several_models_have_one_arena(tmp_path: Path, gen: Gen):
    other = tmp_path / "other.tflite"
    other.write_bytes(DIGITS.read_bytes())
    options = ("--board", "mps2-an386", "--sram", "ram=64k,psram=1k")
    done = gen("firmware", DIGITS, other, *options, "--out", tmp_path / "d")

    assert done.exit_code == 1
    assert "several models have one arena; give one size" in done.stderr
    assert not (tmp_path / "d").exists()


def planned(*some: Memory, goal: Goal = Goal.TIME) -> Scheduled:
    ready = build.prepare(DIGITS, None, Options())
    return schedule(Cuts(ready.graph, stages(ready.graph)), PlanRequest(goal, None, memories=some))


def test_what_fits_the_fastest_memory_is_there_and_what_fits_the_first_of_equal_ones_too():
    fast = planned(Memory(SRAM, 4096, 1.0, 1.0), Memory("dtcm", 4096))
    equal = planned(Memory(SRAM, 4096), Memory("dtcm", 8192))

    assert fast.plan.arenas == {SRAM: 0, "dtcm": fast.plan.total_bytes}
    assert predict.waits(fast.plan, fast.stages) == 0
    assert equal.plan.other_arenas == ()


def test_a_plan_for_one_memory_is_that_of_today():
    ready = build.prepare(DIGITS, None, Options())
    one = schedule(Cuts(ready.graph, stages(ready.graph)), PlanRequest(Goal.TIME, 4096)).plan
    with_more = planned(Memory(SRAM, 4096), Memory("psram", 1 << 20, 2.0, 2.0)).plan

    assert replace(with_more, outcome=one.outcome) == one


def test_a_fast_memory_is_worth_less_than_the_waiting_for_a_slow_one():
    """With a slow second memory a plan by rows in the fast one is faster; with a fast one, a plan in both."""
    slow = planned(Memory(SRAM, 1600), Memory("psram", 8192, 50.0, 50.0))
    quick = planned(Memory(SRAM, 800), Memory("psram", 8192, 0.01, 0.01))

    assert slow.plan.other_arenas == ()
    assert quick.plan.other_arenas != ()
    assert predict.waits(quick.plan, quick.stages) >= quick.plan.outcome.least_waits > 0


def test_what_no_memory_holds_is_refused_with_its_name():
    small = tuple(Memory(name, 60) for name in (SRAM, "psram", *"bcdefghijklmnopqrstuvw"))
    with pytest.raises(DoesNotFit, match="'image' has 64 bytes in one piece, the memories are sram 60, psram 60"):
        planned(*small)
    with pytest.raises(DoesNotFit, match="needs an arena of at least"):
        planned(Memory(SRAM, 100), Memory("psram", 100))


@pytest.mark.parametrize(("needed", "searched"), [(2600, [1000, 2000]), (2700, [1000])])
def test_where_far_more_is_needed_than_all_memories_have_plans_are_searched_for_once(
    needed: int, searched: list[int], monkeypatch: pytest.MonkeyPatch
):
    tried = []

    def refused(self: search._Search) -> Scheduled:
        tried.append(self.request.capacity_bytes)
        raise DoesNotFit("it does not fit", needed, self.request.capacity_bytes)

    monkeypatch.setattr(search._Search, "best", refused)
    with pytest.raises(DoesNotFit) as refusal:
        planned(Memory(SRAM, 1000), Memory("psram", 1000))
    assert tried == searched
    assert refusal.value.available_bytes == 2000


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"rem": 4096}, r"--sram rem=4096: mps2-an386 has no memory of this name; did you mean 'ram'\?"),
        ({"ram": 4096, "ccm": 64}, r"--sram ccm=64: mps2-an386 has no memory of this name; it has ram, block, psram"),
        ({"ram": 4}, "--sram ram=4: no row of digits fits, the smallest has 8 bytes; give more, or leave ram out"),
        ({"Ram": 64}, r"--sram 'Ram'=64: no name of a memory; write lower-case letters, digits and _"),
        ({"ram": 64, "sram": 64}, "--sram: ram and sram are one memory of mps2-an386; give it once"),
    ],
)
def test_a_memory_that_is_none_or_too_small_is_refused(sizes: dict[str, int], message: str):
    with pytest.raises(Exception, match=message) as caught:
        build.plan_model(DIGITS, targets.board("mps2-an386"), Options(sram_bytes=sizes))

    assert "\n" not in str(caught.value)


def test_without_a_board_the_names_are_the_user_s():
    made = build.plan_model(DIGITS, None, Options(sram_bytes={"fast": 800, "slow": 700}))
    listed = made.report["plan"]["memories"]  # type: ignore[index, call-overload]

    assert [(m["name"], m["available_bytes"]) for m in listed] == [("sram", 800), ("slow", 700)]
    assert [*made.unit.arenas] == [SRAM, "slow"]


@needs_qemu
@pytest.mark.parametrize(
    ("board", "names", "caller_arena"),
    [
        ("mps2-an386", ("ram", "psram"), True),
        pytest.param("mps2-an386", ("ram", "block"), False, marks=pytest.mark.long),
        pytest.param("mps2-an500", ("ram", "psram"), False, marks=pytest.mark.long),
        pytest.param("mps2-an505", ("isram", "psram"), False, marks=pytest.mark.long),
        ("mps3-an547", ("isram", "ddr"), False),
    ],
)
def test_a_firmware_in_two_memories_answers_over_its_serial_port(
    board: str, names: tuple[str, str], caller_arena: bool, tmp_path: Path
):
    """On boards that boot: every byte of every op is right, and the linker has each arena in its memory."""
    folder = tmp_path / "firmware"
    options = PlanOptions(board=board, sram_bytes=dict(zip(names, (800, 600), strict=True)))
    made = shoehorn_mcu.generate(DIGITS, folder, options, caller_arena=caller_arena)
    found = shoehorn_mcu.validate(made.folder, emulate=True, count=3)
    report = json.loads((folder / "report.json").read_text())
    first, second = report["plan"]["memories"]

    assert found.mismatched_vectors == 0
    assert 0 < first["arena_bytes"] <= 800
    assert 0 < second["arena_bytes"] <= 600
    with Project.open(folder).elf.open("rb") as file:
        there = {s.name: (s["sh_addr"], s["sh_size"]) for s in ELFFile(file).iter_sections()}
    origins = {memory.name: memory.origin for memory in targets.board(board).spec.other_memories}
    for memory in (first, second):
        if memory["name"] != "ram":
            assert there[f".memory.{memory['name']}"] == (origins[memory["name"]], memory["arena_bytes"])
    assert abs(report["ram"]["predicted_bytes"] - report["firmware"]["ram_bytes"]) <= 64


@pytest.mark.parametrize(
    ("board", "names"),
    [
        ("nucleo-h743zi", ("sram1", "sram4")),
        pytest.param("stm32-h405", ("ram", "ccm"), marks=pytest.mark.long),
        pytest.param("rpi-pico", ("scratch_x", "scratch_y"), marks=pytest.mark.long),
    ],
)
def test_a_firmware_in_two_memories_is_built_for_a_board_without_emulator(
    board: str, names: tuple[str, str], tmp_path: Path
):
    """The linker has each arena at its address, and none of them takes bytes of the image."""
    options = Options(sram_bytes=dict(zip(names, (800, 600), strict=True)))
    planned, files = build.firmware(DIGITS, targets.board(board), options)
    write(files, tmp_path / "made")
    project = Project.open(tmp_path / "made")
    result = build_folder(project)
    others = targets.board(board).spec.other_memories
    sizes = planned.unit.plan.arenas
    with project.elf.open("rb") as file:
        sections = {s.name: s for s in ELFFile(file).iter_sections()}

    assert abs(result.ram_bytes - planned.report["ram"]["predicted_bytes"]) <= 64  # type: ignore[call-overload, index]
    for memory in (memory for memory in others if memory.name in names):
        section = sections[f".memory.{memory.name}"]
        assert (section["sh_addr"], section["sh_size"]) == (memory.origin, sizes[memory.name])
        assert section["sh_type"] == "SHT_NOBITS"
    assert planned.unit.cores == 1 and len(planned.unit.arenas) == 2
