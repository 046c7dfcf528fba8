"""`shoehorn_mcu` as a library: plan, generate, validate and bench do what the commands do."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from conftest import Gen
from test_cli_project import DIGITS, files_of

import shoehorn_mcu
from shoehorn_mcu import PlanOptions
from shoehorn_mcu.cli.options import Planning, planning_options
from shoehorn_mcu.firmware import build
from shoehorn_mcu.firmware.options import Group
from shoehorn_mcu.firmware.settings import Options

FACE = (
    "plan",
    "generate",
    "generate_for_linux",
    "generate_together",
    "validate",
    "bench",
    "optimize",
    "quantize",
    "import_torch",
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped model for `native`, in a caller's arena."""
    folder = tmp_path_factory.mktemp("api") / "digits"
    shoehorn_mcu.generate(DIGITS, folder, PlanOptions(board="native"), caller_arena=True)
    return folder


def test_importing_the_package_imports_nothing_of_it():
    code = (
        "import sys, shoehorn_mcu; ours = {n for n in sys.modules if n.startswith('shoehorn_mcu.') or n == 'numpy'}\n"
        "print(sorted(ours - {'shoehorn_mcu.base', 'shoehorn_mcu.base.version'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


@pytest.mark.parametrize("name", FACE)
def test_each_function_is_documented_and_says_what_it_raises(name: str):
    function = getattr(shoehorn_mcu, name)
    text = inspect.getdoc(function) or ""

    assert name in shoehorn_mcu.__all__ and name in dir(shoehorn_mcu)
    assert "ShoehornError" in text
    assert all(
        parameter.annotation is not parameter.empty for parameter in inspect.signature(function).parameters.values()
    )
    told = set(inspect.signature(function).parameters) - {"folder", "options", "model", "runs"}
    assert {parameter for parameter in told if f"`{parameter}`" not in text} == set()


def test_optimize_disables_passes_and_keeps_tensors():
    whole = shoehorn_mcu.optimize(DIGITS)
    disable = {each.name for each in whole.passes}
    nothing = shoehorn_mcu.optimize(DIGITS, disable=disable)
    kept = shoehorn_mcu.optimize(nothing.graph, disable={"fuse-clamp"}, preserve=[nothing.graph.ops[2].output])

    assert whole.graph.outputs == nothing.graph.outputs == ("digit",)
    assert nothing.passes == () and len(nothing.graph.ops) == 16
    assert {each.name for each in kept.passes} == disable - {"fuse-clamp"}
    assert kept.graph.outputs == ("digit", nothing.graph.ops[2].output)
    with pytest.raises(shoehorn_mcu.ShoehornError, match="no pass is called 'fuse-clamps'"):
        shoehorn_mcu.optimize(DIGITS, disable={"fuse-clamps"})


def test_a_single_name_needs_no_collection():
    (first, *_), name = shoehorn_mcu.optimize(DIGITS).graph.ops, "fuse-clamp"
    one = shoehorn_mcu.optimize(DIGITS, disable=name, preserve=first.output)
    several = shoehorn_mcu.optimize(DIGITS, disable=[name], preserve=[first.output])
    plans = [
        shoehorn_mcu.plan(DIGITS, PlanOptions(disable=disabled, preserve=kept))
        for disabled, kept in ((name, first.output), ([name], [first.output]))
    ]

    assert [each.name for each in one.passes] == [each.name for each in several.passes]
    assert name not in [each.name for each in one.passes]
    assert first.output in one.graph.outputs == several.graph.outputs
    assert plans[0].arena_bytes == plans[1].arena_bytes
    with pytest.raises(shoehorn_mcu.ShoehornError, match="no pass is called 'fuse-clamps'"):
        shoehorn_mcu.optimize(DIGITS, disable="fuse-clamps")


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'compile'"):
        _ = shoehorn_mcu.compile


def test_a_plan_is_the_one_that_the_command_prints(gen: Gen):
    options = PlanOptions(board="microbit", sram_bytes=1500, recompute_percent=5)
    planned = shoehorn_mcu.plan(DIGITS, options)
    printed: Any = json.loads(
        gen("plan", DIGITS, "--board", "microbit", "--sram", "1500", "--recompute", "5", "--json").stdout
    )
    report = json.loads(json.dumps(planned.report))
    for each in (printed, report):
        each["plan"]["solve_seconds"] = None

    assert report == printed
    assert planned.arena_bytes == printed["plan"]["arena_bytes"] <= 1500
    assert planned.predicted_instructions == printed["plan"]["predicted_instructions"]
    assert (planned.model, planned.constant_bytes > 5000) == ("digits", True)


def test_without_a_board_the_library_alone_is_written(gen: Gen, tmp_path: Path):
    options = PlanOptions(cpu="cortex-m4", flash_bytes=100_000, stream_input=True, minimize="sram")
    made = shoehorn_mcu.generate(DIGITS, tmp_path / "a", options, caller_arena=True)
    command = ["--cpu", "cortex-m4", "--stream-input", "--minimize", "sram", "--caller-arena", "--flash", "100000"]
    assert gen("library", DIGITS, *command, "--out", tmp_path / "b").exit_code == 0

    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")
    assert {*made.files, ".shoehorn.json"} == set(files_of(tmp_path / "a"))


def test_a_project_is_the_one_that_the_command_writes(digits_project: Path, tmp_path: Path):
    made = shoehorn_mcu.generate(DIGITS, tmp_path / "d", PlanOptions(board="native"))

    assert files_of(tmp_path / "d") == files_of(digits_project)
    assert made.folder == tmp_path / "d"


def test_a_tuning_file_fixes_the_kernel_of_an_op(tmp_path: Path):
    stage = build.plan_model(DIGITS, None, Options()).unit.stages[1]
    (tmp_path / "tuning.json").write_text(json.dumps({stage.kernel.contract.key(stage.node): "conv2d_s8_c"}))
    options = PlanOptions(cpu="cortex-m4")
    tuned = replace(options, tuning=tmp_path / "tuning.json")
    free, fixed = (shoehorn_mcu.plan(DIGITS, each).report["ops"][1]["kernel"] for each in (options, tuned))

    assert (free, fixed) == ("conv2d_s8_simd32_row_up_1x1_o4_p2_e144_u10", "conv2d_s8_c")


def test_a_project_validates_and_is_timed(project: Path, tmp_path: Path):
    np.savez(tmp_path / "x.npz", image=np.full((2, 8, 8, 1), -128, np.int8))
    found = shoehorn_mcu.validate(project, emulate=True, count=3, seed=1)
    given = shoehorn_mcu.validate(project, inputs=tmp_path / "x.npz")  # native exists as an emulator only
    timing = shoehorn_mcu.bench(project, runs=2)

    assert (found.vectors, found.mismatched_vectors) == (3, 0)
    assert (given.vectors, given.mismatched_vectors) == (2, 0)
    assert (len(timing.totals), timing.unit) == (2, "us")


def test_only_the_library_may_be_refreshed(project: Path, tmp_path: Path):
    shoehorn_mcu.generate(DIGITS, tmp_path / "d", PlanOptions(board="native"))
    (tmp_path / "d" / "src" / "main.c").write_text("// mine")
    shoehorn_mcu.generate(DIGITS, tmp_path / "d", PlanOptions(board="native"), caller_arena=True, library_only=True)

    assert (tmp_path / "d" / "src" / "main.c").read_text() == "// mine"
    header = "lib/digits/src/digits.h"
    assert (tmp_path / "d" / header).read_bytes() == (project / header).read_bytes()


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        (PlanOptions(board="nativ"), "unknown-board"),
        (PlanOptions(cpu="cortex-m99"), "unknown-cpu"),
        (PlanOptions(preserve=("nothing",)), None),
        (PlanOptions(tuning="nowhere.json"), "bad-tuning"),
        (PlanOptions(sram_bytes=10), None),
    ],
)
def test_a_refusal_is_one_line_with_a_kind(options: PlanOptions, kind: str | None):
    with pytest.raises(shoehorn_mcu.ShoehornError) as refusal:
        shoehorn_mcu.plan(DIGITS, options)

    assert "\n" not in str(refusal.value)
    assert kind in (refusal.value.kind, None)


def test_arguments_that_exclude_each_other_are_value_errors(project: Path):
    with pytest.raises(ValueError, match="a board has its own core"):
        shoehorn_mcu.plan(DIGITS, PlanOptions(board="native", cpu="host"))
    with pytest.raises(ValueError, match="library_only refreshes"):
        shoehorn_mcu.generate(DIGITS, project, library_only=True)
    with pytest.raises(ValueError, match="exclude each other"):
        shoehorn_mcu.validate(project, port="/dev/null", emulate=True)
    with pytest.raises(ValueError, match="count is 0"):
        shoehorn_mcu.validate(project, count=0)


def read_from(words: list[str]) -> PlanOptions:
    """What a command that plans makes of words on the command line."""
    read: list[PlanOptions] = []

    @click.command()
    @planning_options("board", "cpu", "flash_bytes")
    def command(planning: Planning) -> None:
        read.append(planning.of_one())

    command(words, standalone_mode=False)
    return read[0]


def test_a_command_without_options_plans_as_a_program_without_options():
    assert read_from([]) == PlanOptions()


def test_each_option_of_a_command_is_a_field_for_programs(tmp_path: Path):
    names = tmp_path / "names.txt"
    names.write_text("no\n\nyes\n")
    words = {
        "board": (["--board", "native"], "native"),
        "cpu": (["--cpu", "host"], "host"),
        "shapes": (["--shape", "batch=1", "--shape", "image=1x3x8x8"], {"batch": (1,), "image": (1, 3, 8, 8)}),
        "float": (["--float", "half"], "half"),
        "disable": (["--disable", "fold-pad", "--disable", "sum-rows"], ("fold-pad", "sum-rows")),
        "sram_bytes": (["--sram", "dtcm=64k, ram=1M"], {"dtcm": 65536, "ram": 1 << 20}),
        "flash_bytes": (["--flash", "12K"], 12288),
        "weights_in_ram": (["--weights-in-ram", "fit"], "fit"),
        "recompute_percent": (["--recompute", "1.25"], 1.25),
        "minimize": (["--minimize", "flash"], "flash"),
        "slower_percent": (["--slower", "5%"], 5.0),
        "tuning": (["--tuning", "made.json"], Path("made.json")),
        "cores": (["--cores", "2"], 2),
        "stream_input": (["--stream-input"], True),
        "stream_output": (["--stream-output"], True),
        "preserve": (["--preserve", "a"], ("a",)),
        "io": (["--io", "native"], "native"),
        "pixels": (["--pixels", "1,2,3/4.5"], ((1.0, 2.0, 3.0), (4.5,))),
        "top": (["--top", "3"], 3),
        "classes": (["--classes", str(names)], ("no", "yes")),
        "states": (["--state", "h=next", "--state", "c=other"], {"h": "next", "c": "other"}),
        "stateless": (["--stateless"], True),
        "behind": (["wake.tflite", "--pipeline"], Path("wake.tflite")),
        "stride": (["--stride", "20ms", "--rate", "8000"], 160),
        "slide": (["--slide", "20ms"], "20ms"),
        "slices": (["--slices", "3"], 3),
        "sample_hz": (["--rate", "8000"], 8000),
    }
    assert words.keys() == {each.name for each in fields(PlanOptions)}

    read = read_from([word for given, _ in words.values() for word in given])

    assert read == PlanOptions(**{name: value for name, (_, value) in words.items()})


@pytest.mark.parametrize("command", ["firmware", "plan", "library"])
def test_the_help_lists_every_option_in_a_group(command: str, gen: Gen):
    shown = gen(command, "--help").stdout
    headings = [line.removesuffix(":") for line in shown.splitlines() if re.match(r"\w.*:$", line)]

    assert headings == [group.value for group in Group]
    assert [line for line in shown.splitlines() if line.startswith("Options:")] == []
    assert re.search(r"Memory:\n(  .*\n)*  --sram", shown) and re.search(r"Output:\n(  .*\n)*  -h, --help", shown)
