"""What `gen plan` prints of a plan: short enough to read, whole in its figures, the sum of it last."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import Gen
from shared import MODELS, needs_shared

from shoehorn_mcu.base.paths import MODELS as SHIPPED
from shoehorn_mcu.cli import console, page, plan
from shoehorn_mcu.importers import Imported
from shoehorn_mcu.ir import DType, Graph, Quant, Tensor, TensorType
from shoehorn_mcu.schedule import pareto

DIGITS = SHIPPED / "digits.tflite"
TIGHT = (DIGITS, "--sram", "1000")


def ops_of(printed: str) -> list[str]:
    """The lines of the op table."""
    lines = printed.splitlines()
    start = next(i for i, line in enumerate(lines) if line.split()[:2] == ["op", "kernel"])
    end = next(i for i, line in enumerate(lines) if i > start and not re.search(r"int(8|32)\[", line))
    return lines[start + 1 : end]


def test_the_chunks_of_an_op_are_one_line_and_its_figures_are_those_of_all(gen: Gen):
    whole = {line.split()[0]: line.split() for line in ops_of(gen("plan", DIGITS).stdout)}
    cut = {line.split()[0]: line.split() for line in ops_of(gen("plan", *TIGHT).stdout) if " x4 " in line}

    assert list(cut) == ["conv_2d_8", "depthwise_conv_2d_9", "conv_2d_10"]
    for name, (_, times, _, macs, *_) in cut.items():
        assert (times, macs) == ("x4", whole[name][2])


def test_what_matters_stands_at_the_end(gen: Gen):
    done = gen("plan", *TIGHT)
    *_, head, block, said, arena, steps, predicted = done.stdout.splitlines()

    assert head.split() == ["block", "chunks", "of", "channels", "rows", "a", "band"]
    assert block.split() == ["conv_2d_8", "4", "1"]
    assert re.match(
        r"\d+ of 17 layers run row by row, .*; 1 block runs by chunks .*; the peak is layer \d+ \(\w+ x4\)", said
    )
    of = r"plans by (rows in any order(, some computed again)?|groups of rows and by blocks in bands)"
    assert re.match(
        rf"arena [\d,]+ bytes \(by rows; whole tensors need 2,560; lower bound [\d,]+ of {of}\), constants", arena
    )
    assert re.match(r"\d+ steps, \d+\.\d % of the MACs recomputed; \w+", steps)
    assert re.match(r"predicted: [\d,]+ instructions( and [\d,]+ cycles)? per inference, from the work", predicted)


@needs_shared
def test_a_bound_is_that_of_one_kind_of_plans_which_is_named(gen: Gen, tmp_path: Path):
    """The smallest plan of this model has its rows in an order that is not by groups."""
    model, page = MODELS / "coral-split-concat.tflite", tmp_path / "plan.html"
    arenas = []
    for options, of in (((), "groups of rows"), (("--minimize", "sram"), "rows in any order")):
        shown = gen("plan", model, *options, "--html", page, "--no-pareto").stdout
        said = re.search(
            rf"^arena ([\d,]+) bytes \(by rows; .*(among| of) plans by {of}(; (.*))?\), const", shown, re.M
        )
        assert said, shown
        assert (said[4] == "--minimize sram tries other kinds, too") is (not options)
        drawn = page.read_text().replace("<span class=option>--minimize</span>", "--minimize")
        assert f"plans by {of}{said[3] or ''}</dd>" in drawn
        arenas.append(int(said[1].replace(",", "")))

    assert arenas[1] < arenas[0]


def test_a_narrow_terminal_cuts_kernel_names_and_no_figure(gen: Gen, monkeypatch: pytest.MonkeyPatch):
    wide = [line.split() for line in ops_of(gen("plan", *TIGHT).stdout)]
    for width in (72, 80, 120):
        monkeypatch.setattr(console.out, "width", width)
        narrow = [line.split() for line in ops_of(gen("plan", *TIGHT).stdout)]

        assert [line[:1] + line[-3:] for line in narrow] == [line[:1] + line[-3:] for line in wide]
        assert (narrow == wide) is (width == 120)


@needs_shared
def test_of_very_many_ops_the_slowest_are_shown(gen: Gen, monkeypatch: pytest.MonkeyPatch):
    model: Path = MODELS / "mlperf-vww96-int8.tflite"
    every = ops_of(gen("plan", model).stdout)
    monkeypatch.setattr(plan, "MOST_OPS", len(every) - 1)
    printed = gen("plan", model).stdout
    shown = ops_of(printed)

    assert len(shown) == 20 and set(shown) < set(every)
    assert shown == [line for line in every if line in shown]
    assert re.search(rf"the 20 slowest of {len(every)} ops, 9\d % of the predicted time", printed)
    assert not [line for line in every if line not in shown and "497,664" in line]


def test_a_model_whose_only_output_is_its_input_has_nothing_to_run(
    tmp_path: Path, gen: Gen, monkeypatch: pytest.MonkeyPatch
):
    kind = TensorType((1, 4), DType.INT8, Quant((0.5,), (0,)))
    graph = Graph("echo", {"x": Tensor("x", kind)}, (), ("x",), ("x",))
    monkeypatch.setattr("shoehorn_mcu.importers.imported", lambda path, shapes: Imported(graph, {}))
    (tmp_path / "echo.tflite").write_bytes(b"read by the importer above")
    done = gen("firmware", tmp_path / "echo.tflite", "--board", "native", "--out", tmp_path / "f")

    assert done.exit_code == 0, done.output
    assert re.search(r"predicted: 0 instructions( and 0 cycles)? per inference", done.stdout)


@needs_shared
@pytest.mark.usefixtures("full_effort")
def test_a_board_is_filled_where_that_is_asked_for(gen: Gen):
    """By default IC runs by rows: that costs 0.19 % more time."""
    model: Path = MODELS / "mlperf-ic-resnet8-int8.tflite"

    filled, default = (
        json.loads(gen("plan", model, "--board", "mps2-an386", *more, "--json").stdout)["plan"]
        for more in (("--sram", "fit"), ())
    )

    assert filled["arena_bytes"] > default["arena_bytes"]
    assert filled["predicted_cycles"] <= default["predicted_cycles"]


def test_a_budget_that_is_the_boards_needs_one(gen: Gen):
    done = gen("plan", SHIPPED / "digits.tflite", "--sram", "fit")

    assert done.exit_code == 1
    assert done.stderr.strip() == "gen: --sram fit is all that a board has left: give one by --board, or a size"


@pytest.mark.parametrize(
    ("interrupted", "whole", "found", "said"),
    [
        (False, True, ("a plan",), []),
        (False, False, ("a plan",), ["note: interrupted; the curve has the plans made so far"]),
        (True, True, (), ["note: interrupted; no plans for other budgets are made"]),
    ],
)
def test_a_curve_that_was_interrupted_says_so(
    interrupted: bool, whole: bool, found: tuple[str, ...], said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[str] = []
    made = SimpleNamespace(outcome=SimpleNamespace(interrupted=interrupted), streamed=False, handed_out=True)
    planned: Any = SimpleNamespace(unit=SimpleNamespace(plan=made, cores=3), uncut="cuts")

    def curve(*given: object) -> tuple[tuple[str, ...], bool]:
        assert given == ("cuts", pareto.Ends(False, True), print, 3)
        return ("a plan",), whole

    monkeypatch.setattr(pareto, "curve", curve)
    monkeypatch.setattr(page, "err", SimpleNamespace(print=heard.append))

    assert page.points(planned, print) == found
    assert heard == said
