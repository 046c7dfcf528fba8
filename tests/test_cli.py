"""The front door: errors in words and in JSON, exit codes, Ctrl-C at any time, help, old spellings, completion."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from time import sleep
from typing import Any

import click
import pytest
from conftest import Gen
from shared import GEN
from tflite_writer import ModelSpec, OpSpec, TensorSpec

from shoehorn_mcu.base.paths import MODELS as SHIPPED
from shoehorn_mcu.cli.console import err
from shoehorn_mcu.cli.group import main

DIGITS = SHIPPED / "digits.tflite"


def run(*words: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """`gen` as a process of its own."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "timeout": 120, **options}
    return subprocess.run([*GEN, *map(str, words)], **options)


def error_of(gen: Gen, *words: str | Path, code: int = 1) -> dict[str, Any]:
    """The error object that a command prints with --json."""
    done = gen(*words, "--json")
    assert done.exit_code == code
    found: dict[str, Any] = json.loads(done.stdout)["error"]
    assert found["message"] in done.stderr
    return found


# --- Errors


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["firmware", "--board", "micro-bit"], "unknown-board"),
        (["plan", "none.tflite"], "bad-file"),
        (["plan", DIGITS, "--disable", "fold-pads"], "unknown-pass"),
        (["plan", DIGITS, "--preserve", "stern"], "unknown-tensor"),
        (["plan", DIGITS, "--sram", "100", "--recompute", "0"], "does-not-fit"),
        (["remat", "none.json", "--budget", "3"], "bad-file"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_with_json_an_error_is_an_object_on_stdout(words: list[str], kind: str, gen: Gen):
    found = error_of(gen, *words)

    assert found["kind"] == kind
    assert found["message"] and "\n" not in found["message"]


def test_what_does_not_fit_says_both_figures_in_json(gen: Gen):
    found = error_of(gen, "plan", DIGITS, "--sram", "100", "--recompute", "0")

    assert found["available_bytes"] == 100 < found["needed_bytes"] < 2560


def test_what_does_not_fit_has_its_parts_in_json_and_a_line_for_each_on_a_terminal(
    gen: Gen, monkeypatch: pytest.MonkeyPatch
):
    words = ("plan", DIGITS, "--sram", "100", "--recompute", "0")
    piped = gen(*words).stderr
    monkeypatch.setattr(err, "_force_terminal", True)
    need, peak, cures = gen(*words).stderr.splitlines()[-3:]
    found = error_of(gen, *words)

    assert piped == f"gen: {found['message']}\n"
    assert found["message"] == "; ".join((found["need"], found["peak"], *found["cures"]))
    assert need.endswith(f"gen: {found['need']}") and peak == f"  {found['peak']}"
    assert cures == f"  {'; '.join(found['cures'])}" and len(found["cures"]) == 4


def test_a_refusal_that_is_an_answer_is_one_object(gen: Gen, tmp_path: Path):
    path = tmp_path / "buffers.csv"
    path.write_text("id,lower,upper,size\na,0,5,6\nb,3,9,5\n")
    found = json.loads(gen("pack", path, "--capacity", "10", "--json").stdout)

    assert (found["status"], found["error"]["kind"], found["error"]["needed_bytes"]) == (
        "infeasible",
        "does-not-fit",
        11,
    )


def test_wrong_usage_is_an_object_too_and_exits_with_2(gen: Gen):
    assert error_of(gen, "plan", code=2)["kind"] == "usage"
    assert error_of(gen, "plan", DIGITS, "--no-such-option", code=2)["kind"] == "usage"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["frimware"], "no command 'frimware'; did you mean 'firmware'?"),
        (["zzz"], "no command 'zzz'; `gen --help` lists the commands"),
        (["firmware", "--board", "rpizero"], "did you mean 'rpi-zero'"),
        (["plan", DIGITS, "--disable", "zzz"], "the passes are drop-dead"),
        (["plan", DIGITS, "--preserve", "sten"], "did you mean 'stem'"),
    ],
)
def test_a_name_that_is_nearly_right_gets_the_right_one(words: list[str], hint: str, gen: Gen):
    assert hint in gen(*words).stderr


SCREEN = 24


def half(folder: Path, ops: int) -> Path:
    """A model of so many ops on float16, which no kernel runs."""
    path = folder / "half.tflite"
    tensors = [TensorSpec(f"t{i}", (1, 4), "FLOAT16") for i in range(ops + 1)]
    path.write_bytes(ModelSpec(tensors, [OpSpec("RELU", (i,), (i + 1,)) for i in range(ops)], (0,), (ops,)).bytes())
    return path


def test_a_model_that_cannot_run_gets_a_diagnosis_and_at_most_a_screen(gen: Gen, tmp_path: Path):
    said = gen("plan", half(tmp_path, 61)).stderr

    assert said.startswith("gen: half.tflite: a float16 model; convert it to int8")
    assert len(said.splitlines()) < SCREEN


def test_the_whole_list_of_what_cannot_run_is_there_with_v_and_in_json(gen: Gen, tmp_path: Path):
    model = half(tmp_path, 61)
    listed = gen("plan", model, "-v").stderr.splitlines()[1:]
    found = error_of(gen, "plan", model)

    assert found["kind"] == "unsupported-model"
    assert found["diagnosis"].startswith("a float16 model")
    assert sum(cause["count"] for cause in found["causes"]) == len(listed) > 50
    assert sorted(place for cause in found["causes"] for place in cause["places"]) == sorted(
        line.strip() for line in listed
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize(
    "words", [["boards"], ["boards", "--json"], ["--help"], ["plan", DIGITS]], ids=lambda words: words[0]
)
def test_a_full_disk_ends_in_one_line(words: list[str]):
    with Path("/dev/full").open("w") as full:
        done = run(*words, stdout=full)

    assert (done.returncode, done.stderr) == (1, "gen: stdout: No space left on device\n")


def test_a_reader_that_has_seen_enough_is_no_error():
    with subprocess.Popen([*GEN, "boards"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stderr
        process.stdout.close()
        assert process.stderr.read() == ""


def test_a_defect_is_one_line_that_asks_for_a_report(tmp_path: Path):
    code = (
        "import shoehorn_mcu.machine.targets as t; t.listed = lambda: 1 // 0\n"
        "from shoehorn_mcu.__main__ import main; main()"
    )
    command = [sys.executable, "-c", code, "boards"]
    short = subprocess.run(command, capture_output=True, text=True)
    long = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "GEN_TRACEBACK": "1"})

    assert short.returncode == long.returncode == 1
    assert re.fullmatch(r"gen: a defect of Shoehorn: ZeroDivisionError in <string>:1: .*report.*\n", short.stderr)
    assert "Traceback" in long.stderr


# --- Ctrl-C


@pytest.mark.parametrize("module", ["click", "rich.console", "numpy", "shoehorn_mcu.firmware.build"])
def test_ctrl_c_during_imports_is_one_line(module: str, tmp_path: Path):
    """The import of one module is made to wait, and to say so."""
    code = f"""
import builtins, sys, time
real = builtins.__import__
def slow(name, *rest):
    if name == {module!r} and sys.stdout:
        print("importing", flush=True)
        time.sleep(60)
    return real(name, *rest)
from shoehorn_mcu.__main__ import main
builtins.__import__ = slow
main()
"""
    command = [sys.executable, "-c", code, "plan", str(DIGITS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stdout.readline() == "importing\n"
        sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)

    assert (process.returncode, out, err) == (130, "", "gen: interrupted\n")


# --- Help and completion


def test_the_list_of_commands_cuts_no_sentence(gen: Gen):
    shown = " ".join(gen("--help").stdout.split())
    context = click.Context(main)

    assert "..." not in shown.split("Commands:")[1]
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command and command.help
        assert f"{name} {' '.join(command.help.split(chr(10) * 2)[0].split())}" in shown


def test_gen_plan_s_help_has_nothing_of_graphs_and_buffers(gen: Gen):
    shown = gen("plan", "--help").stdout

    assert not re.search(r"--(graph|budget|seconds|fixed-order|buffers|capacity)\b", shown)


def test_the_shell_s_completion_knows_the_commands():
    words = {"_GEN_COMPLETE": "bash_complete", "COMP_WORDS": "gen va", "COMP_CWORD": "1"}
    done = run(env={**os.environ, **words})

    assert done.stdout == "plain,validate\n"
    assert "_GEN_COMPLETE=bash_complete" in run(env={**os.environ, "_GEN_COMPLETE": "bash_source"}).stdout


# --- Old spellings


def test_the_old_spelling_of_pack_works_and_says_the_new_one(gen: Gen, tmp_path: Path):
    path = tmp_path / "my buffers.csv"
    path.write_text("id,lower,upper,size\na,0,5,6\nb,3,9,5\n")
    old = gen("plan", "--buffers", path, "--capacity", "12", "--json")
    said = re.fullmatch(r"note: `gen plan --buffers` is now: (.*)\n", old.stderr)

    assert said
    words = shlex.split(said[1])
    assert words == ["gen", "pack", str(path), "--capacity", "12", "--json"]
    assert json.loads(gen(*words[1:]).stdout)["offsets"] == json.loads(old.stdout)["offsets"]


def test_the_old_spelling_of_remat_works_and_says_the_new_one(gen: Gen, tmp_path: Path):
    path = tmp_path / "graph.json"
    nodes = [{"id": v, "size": 1, "duration": 1} for v in range(3)]
    links = [{"source": v, "target": v + 1} for v in range(2)]
    path.write_text(json.dumps({"directed": True, "nodes": nodes, "links": links}))
    options = ("--budget", "2", "--seconds", "1.5", "--fixed-order", "--json")
    old = gen("plan", "--graph", path, *options)
    said = old.stderr.removeprefix("note: `gen plan --graph` is now: ").split()

    assert said == ["gen", "remat", str(path), *options[:4], *options[4:]]
    assert json.loads(gen(*said[1:]).stdout)["sequence"] == json.loads(old.stdout)["sequence"] == [0, 1, 2]


# --- What is printed


def test_the_next_command_can_be_pasted_whatever_the_folder_is_called(gen: Gen, tmp_path: Path):
    folder = tmp_path / "it's a $folder"
    printed = gen("firmware", "--board", "native", "--out", folder).stdout
    following = printed.splitlines()[-1].split("next: ")[1]

    assert shlex.split(following) == ["gen", "validate", str(folder), "--emulate"]


@pytest.mark.parametrize("words", [["boards"], ["ops"], ["plan", DIGITS, "--sram", "1000"]], ids=lambda w: w[0])
def test_no_line_ends_in_blanks(words: list[str], gen: Gen):
    assert [line for line in gen(*words).stdout.splitlines() if line != line.rstrip()] == []


def test_notes_about_the_stack_bound_are_for_those_who_ask(gen: Gen, tmp_path: Path):
    for verbose in ([], ["-v"]):
        folder = tmp_path / f"d{len(verbose)}"
        gen("firmware", "--board", "native", "--out", folder)
        done = gen("validate", folder, "--emulate", "--count", "1", *verbose)
        assert ("note: " in done.stderr) is bool(verbose), done.stderr


def test_what_is_written_goes_where_o_says_in_every_command() -> None:
    context = click.Context(main)
    commands = {name: main.get_command(context, name) for name in main.list_commands(context)}
    options = [(name, option.opts) for name, command in commands.items() if command for option in command.params]
    written = {name: opts for name, opts in options if "--out" in opts}

    assert {"firmware", "library", "quantize", "slim", "sweep", "tune", "mlperf"} <= set(written)
    assert {name: opts for name, opts in written.items() if opts != ["-o", "--out"]} == {}
