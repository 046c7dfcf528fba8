"""What commands print of results that only a board, a training or a long search gives: they are made by hand here."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from conftest import Gen
from onnx import TensorProto, helper

from shoehorn_mcu import PlanOptions, generate
from shoehorn_mcu.base.paths import MODELS
from shoehorn_mcu.cli import outside, plan, quantize, slim, validate
from shoehorn_mcu.firmware.kept_cost import Cost
from shoehorn_mcu.machine import targets
from shoehorn_mcu.slim import record
from shoehorn_mcu.slim.price import OtherKernel, Price
from shoehorn_mcu_host.folder.project import Project
from shoehorn_mcu_host.validate.accuracy import Accuracy, Labels
from shoehorn_mcu_host.validate.comparison import Compared, Comparison, Tolerance
from shoehorn_mcu_host.validate.validate import Deviation, Validation

PROJECT = cast(Project, SimpleNamespace(model_name="digits", board_id="native"))
EQUAL = Validation(4, 0, 0, None, 1.5, 0, {})
THREE = ((5, 1, 0), (0, 4, 0), (0, 0, 2))
BOARD = targets.board("mps2-an386")


def many(classes: int) -> tuple[tuple[int, ...], ...]:
    """Decisions of so many classes: each class is once taken for the next one, the first one three times."""
    rows = [[0] * classes for _ in range(classes)]
    for label in range(classes):
        rows[label][(label + 1) % classes] = 1 if label else 3
    return tuple(map(tuple, rows))


@pytest.mark.parametrize(
    ("found", "lines"),
    [
        (EQUAL, ["digits on native: 4 vectors in 1.5 s, every byte of every op equal to the reference"]),
        (
            replace(EQUAL, mismatched_vectors=1, max_abs_diff=3, first_bad_op="conv"),
            ["digits on native: 4 vectors in 1.5 s, 1 differs (by up to 3); first in op conv"],
        ),
        (
            replace(EQUAL, mismatched_vectors=2, first_bad_op="conv"),
            ["2 differ (inside the model, not in the outputs); first in op conv"],
        ),
        (
            replace(EQUAL, precise=Deviation(0.125, 2048, 3)),
            [
                "outputs differ from precise float32 by up to 0.125 (2,048 units of the last place); the same largest "
                "element in 3 of 4 vectors"
            ],
        ),
        (
            replace(EQUAL, accuracy=Accuracy(Labels((0,) * 6 + (1,) * 4 + (2,) * 2, ("cat",)), 11, 10, 9, THREE)),
            [
                "top-1: 11 of 12 (91.7 %); reference 10 of 12 (83.3 %); precise float32 9 of 12 (75.0 %)",
                "cat      5  1  .",
            ],
        ),
        (
            replace(EQUAL, accuracy=Accuracy(Labels((0,) * 22), 0, 0, None, many(20))),
            ["top-1: 0 of 22 (0.0 %); reference 0 of 22 (0.0 %)\n  0 taken for 1: 3\n  1 taken for 2: 1\n"],
        ),
    ],
)
def test_a_validation_says_what_differs(
    found: Validation, lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    validate._print_validation(found, PROJECT)

    said = capsys.readouterr().out
    assert all(line in said for line in lines), said


@pytest.mark.parametrize(("retries", "said"), [(1, "note: 1 frame had"), (2, "note: 2 frames had")])
def test_frames_that_were_repeated_are_a_note(retries: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    validate._print_validation(replace(EQUAL, retries=retries), PROJECT)

    assert f"{said} to be repeated" in capsys.readouterr().err


FAR = Compared("scores", 12, 0.5, 0.25, 0, 0.25, 2, (10, 0, 2, 0, 0), 30.0, 4, within=False)
APART = Comparison("onnxruntime", "ONNX Runtime", "net.onnx", 4, (FAR,), Tolerance(steps=1))


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (APART, "scores further away than 1 step: the import may be wrong, please report it with the model"),
        (
            replace(APART, with_what="expected", note="it rounds apart"),
            "scores further away than 1 step; it rounds apart\n",
        ),
        (replace(APART, tolerance=Tolerance()), "shown, not judged: such kernels round in other places"),
        (
            replace(APART, with_what="expected", tolerance=Tolerance()),
            "shown, not judged: a quantised model is not equal to real values; --tolerance says what is enough",
        ),
        (replace(APART, left=("extra",)), "not compared, because it is none of its outputs: extra"),
    ],
)
def test_a_comparison_ends_with_a_verdict(found: Comparison, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    outside.print_comparison(found)

    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "tolerance"),
    [("3", Tolerance(steps=3)), ("0.5%", Tolerance(relative=0.005)), ("12%", Tolerance(relative=0.12))],
)
def test_a_tolerance_is_steps_or_a_percentage(words: str, tolerance: Tolerance) -> None:
    assert outside.allowed(cast(Any, None), cast(Any, None), words) == tolerance


@pytest.mark.parametrize(
    ("copied", "said"),
    [
        (
            {"bytes": 0, "arrays": 0, "saved_cycles": 0},
            "none, no waits for this board's flash are known or there is no",
        ),
        ({"bytes": 4096, "arrays": 3, "saved_cycles": 12345}, "4,096 bytes in 3 arrays, 12,345 cycles of waiting for"),
    ],
)
def test_weights_in_ram_are_counted(copied: dict[str, int], said: str) -> None:
    assert plan.weights_line(copied).startswith(f"weights in RAM: {said}")


@pytest.mark.parametrize(
    ("cost", "said"),
    [
        (Cost(0, 0, None, "it does not fit"), "no plan: it does not fit"),
        (Cost(1024, 5000, None), "arena 1,024 bytes, 5,000 instructions predicted"),
        (Cost(1024, 5000, 9000), "arena 1,024 bytes, 9,000 cycles predicted"),
    ],
)
def test_the_cost_of_a_quantised_network_is_said(cost: Cost, said: str) -> None:
    assert quantize._figures(cost) == said


BEFORE, AFTER = Price(9000, 8000, 4096, 2048, 100), Price(4000, 2000, 1024, 512, 50)
TRIAL = record.Trial("narrow conv1", True, "", 90.0, 80.0, 88.0, 89.5, AFTER, 1.0, 3)


def test_a_step_of_gen_slim_says_what_was_kept_and_why_not(capsys: pytest.CaptureFixture[str]) -> None:
    other = replace(TRIAL, name="drop conv2", kept=False, why="loses 3.0 points")
    slim._print_step(record.Step(2, (), (TRIAL, other)))

    kept, undone = capsys.readouterr().out.splitlines()
    assert kept.startswith("step 2: narrow conv1: kept; int8 90.0 -> ")
    assert kept.endswith("; 2,000 cycles, arena 1,024 bytes")
    assert undone.startswith("step 2: drop conv2: undone: it loses 3.0 points; int8 90.0 -> ")


@pytest.mark.parametrize("final", [TRIAL, None])
def test_the_end_of_gen_slim_says_what_was_gained(
    final: record.Trial | None, capsys: pytest.CaptureFixture[str]
) -> None:
    test = (record.Compared("the original", 90, 100), record.Compared("slim", 88, 100, 5, 3))
    other = OtherKernel("conv1", "fast", "slow")
    made_up = replace(AFTER, cycles=1900)
    end = record.Record({}, True, BEFORE, {}, (), "no move is left", final, made_up, (other,) * 5, (), test)
    slim._print_end(end, Path("net-slim"), BOARD)

    said = capsys.readouterr().out
    times = ("2,000 cycles (4.00", "1,024", "512") if final else ("8,000 cycles (1.00", "4,096", "2,048")
    assert f"mps2-an386: 8,000 -> {times[0]} times as fast), arena 4,096 -> {times[1]}" in said
    assert "(5 lost, 3 won)" in said and "-2.0 ± " in said
    assert "by made-up weights, with which it would take 1,900 cycles: with its own weights 'conv1' has slow, " in said
    assert said.count("'conv1' has slow, not fast") == 3 and "and 2 more in slim.html\n" in said
    assert (
        "ended because no move is left; wrote net-slim; next: gen plan net-slim/slim-int8.onnx --board mps2-an386"
        in said
    )


GRAPH = {
    "directed": True,
    "nodes": [{"id": name, "size": size, "duration": 1} for name, size in (("a", 2), ("b", 2), ("c", 2), ("d", 1))],
    "links": [{"source": x, "target": y} for x, y in ("ab", "bc", "cd", "ad")],
}
"""`d` reads `a` as well: beside `b` and `c` there is room for it in 6, and in 5 it runs twice."""


@pytest.mark.parametrize(
    ("budget", "lines"),
    [
        (6, ["peak 6 of 6", "duration 4, +0.0000 % of running each node once (proven least)", "0 recomputations"]),
        (
            5,
            [
                "peak 5 of 5",
                "duration 5, +25.0000 % of running each node once (proven least)",
                "1 recomputation of 1 node: 'a'",
            ],
        ),
    ],
)
def test_the_order_of_a_graph_is_said_in_words(budget: int, lines: list[str], gen: Gen, tmp_path: Path) -> None:
    (tmp_path / "graph.json").write_text(json.dumps(GRAPH))
    found = gen("remat", tmp_path / "graph.json", "--budget", str(budget), "--seconds", "5")

    assert found.exit_code == 0, found.output
    assert found.stdout.splitlines() == lines
    assert "planning 4 nodes and 4 edges; Ctrl-C gives the best so far" in found.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("validate", "folder", "--pixels", "0", "1"), "--pixels says how to read --inputs"),
        (("quantize", "net.onnx", "--data", "x.npz", "--out", "net.tflite"), "'net.tflite' does not end in .onnx"),
        (("--", "-x"), "No such option '-x'"),
        (("no-such-command",), "no command 'no-such-command'; `gen --help` lists the commands"),
    ],
)
def test_wrong_usage_is_said(words: tuple[str, ...], said: str, gen: Gen) -> None:
    found = gen(*words)

    assert found.exit_code == 2
    assert said in found.output


def test_one_file_is_for_a_library_without_a_board(tmp_path: Path) -> None:
    options = PlanOptions(board="native")

    with pytest.raises(ValueError, match="single_file writes a library without a board; leave one of them out"):
        generate(MODELS / "digits.tflite", tmp_path / "digits", options, single_file=True)


def refused_ops(folder: Path, count: int) -> Path:
    """A model of so many ops that no kernel runs, for as many reasons, between ops that run."""
    nodes = []
    for i in range(count):
        nodes.append(helper.make_node("LpNormalization", [f"x{i}" if i else "x"], [f"r{i}"], p=i + 3))
        nodes.append(helper.make_node("Relu", ["x"], [f"x{i + 1}"]))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 4)) for name in ("x", f"x{count}")]
    graph = helper.make_graph(nodes, "refused", ends[:1], ends[1:])
    path = folder / "refused.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]).SerializeToString())
    return path


def test_of_many_ops_and_reasons_the_first_are_shown_and_the_others_counted(gen: Gen, tmp_path: Path) -> None:
    path = refused_ops(tmp_path, 20)
    short, long = gen("inspect", path), gen("inspect", path, "-v")

    assert "the 20 of 40 ops with the most activations; -v lists all" in short.stdout
    assert "17 other reasons (-v)" in short.stdout and "  14 other reasons; -v lists all" in short.stdout
    assert "-v" not in long.stdout and long.stdout.count("are supported") > 20 > short.stdout.count("are supported")


def test_of_many_buffers_the_first_are_shown(gen: Gen, tmp_path: Path) -> None:
    rows = [f"b{i},{i},{i + 1},{i + 1}" for i in range(50)]
    (tmp_path / "buffers.csv").write_text("\n".join(["id,lower,upper,size", *rows]) + "\n")
    found = gen("pack", tmp_path / "buffers.csv")

    assert found.exit_code == 0
    shown = len([line for line in found.stdout.splitlines() if line.startswith("b") and "buffer" not in line])
    assert 10 < shown < 50 and f"and {50 - shown} more; --json lists all" in found.stderr
