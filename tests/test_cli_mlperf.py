"""`gen mlperf`: which model is which benchmark, what is refused, and the folder that is written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from conftest import Gen
from shared import DATA, MODELS, needs_shared

from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.cli import mlperf as command
from shoehorn_mcu.emit.folder.mlperf import CHOICES, task_of
from shoehorn_mcu.importers import imported
from shoehorn_mcu.machine import targets
from shoehorn_mcu_host.base.tasks import BY_ID, TASKS
from shoehorn_mcu_host.folder.project import Project
from shoehorn_mcu_host.mlperf import submission


def model(task: str) -> Path:
    return MODELS / BY_ID[task].files[1]


@needs_shared
@pytest.mark.parametrize("task", BY_ID)
def test_each_reference_model_is_known_by_its_shapes_and_work(task: str):
    graph = imported(model(task), {}).graph
    found = task_of(graph, "auto")
    assert found is not None and found.id == task
    assert graph.macs == pytest.approx(BY_ID[task].macs, rel=0.001)


@needs_shared
def test_a_named_task_may_be_the_other_one_of_the_same_shapes_and_no_third():
    graph = imported(model("ic01"), {}).graph
    found = task_of(graph, "ic02")
    assert found is not None and found.id == "ic02"
    assert task_of(graph, "none") is None
    with pytest.raises(ShoehornError, match=r"is not a sww01 model, which has one int8 input \(1, 30, 1, 40\)"):
        task_of(graph, "sww01")


def test_the_choices_are_the_tasks():
    assert CHOICES == ("auto", "none", "kws01", "vww01", "ic01", "ic02", "ad01", "sww01")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--board", "nucleo-l4r5zo"], "nucleo-l4r5zo"),
        (["--board", "native", "--models", "nowhere"], "nowhere: no such folder; it holds the models"),
        (["--board", "native", "--org", "../x"], "--org '../x': becomes a folder; write letters, digits"),
    ],
)
def test_a_refusal_is_one_line_and_writes_nothing(
    gen: Gen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    result = gen("mlperf", "--models", "models", *arguments)

    assert result.exit_code == 1
    assert message in result.stderr and len(result.stderr.splitlines()) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["models"]


def test_a_folder_without_models_names_those_that_are_missing(gen: Gen, tmp_path: Path):
    (tmp_path / "models").mkdir()
    result = gen("mlperf", "--board", "native", "--models", tmp_path / "models", "--out", tmp_path / "out")

    assert result.exit_code == 1 and not (tmp_path / "out").exists()
    assert "native: no benchmark was built" in result.stderr
    for task in TASKS:
        assert f"has no model for {task.id}; put {task.id}.tflite or {task.files[0]} there" in result.stderr


def test_a_port_measures_one_benchmark(gen: Gen, tmp_path: Path):
    result = gen("mlperf", "--board", "native", "--models", tmp_path, "--port", "/dev/null")
    assert result.exit_code == 2 and "name its benchmark with --task" in result.stderr
    result = gen("mlperf", "--board", "native", "--models", tmp_path, "--port", "x", "--emulate")
    assert result.exit_code == 2 and "exclude each other" in result.stderr
    result = gen("mlperf", "--board", "native", "--models", tmp_path, "--port", "x", "--task", "ic02", "--samples", "5")
    assert result.exit_code == 2 and "accuracy on a board counts over all samples" in result.stderr


def test_a_system_has_what_the_manifest_knows_and_todo_for_the_rest():
    manifest = json.loads((Path(__file__).parents[1] / "boards" / "nucleo-l4r5zi.json").read_text())
    found = json.loads(submission.system_json("us", "nucleo-l4r5zi", manifest))

    assert found["Board Name"] == "NUCLEO-L4R5ZI" and found["SoC Name"] == "stm32l4r5zi"
    assert found["Processor(s) Frequencies"] == "120 MHz"
    assert found["SoC Memory capacity (not including processor or accelerator)"] == "640 KB"
    assert found["SoC storage capacity"] == "2 MB"
    assert [key for key, value in found.items() if value == "TODO"] == ["Status", "Hardware Notes"]
    assert "system_type" not in found  # the public checker refuses it


def test_only_runs_on_a_board_reach_the_results():
    place = submission.run_folder(Path("o"), "us", "b", BY_ID["ic02"], "accuracy", False)
    assert place == Path("o/submission/closed/us/results/b/ic2/accuracy")
    place = submission.run_folder(Path("o"), "us", "b", BY_ID["ic02"], "accuracy", True)
    assert place == Path("o/not-results/emulated/b/ic2/accuracy")
    place = submission.run_folder(Path("o"), "us", "b", BY_ID["sww01"], "performance", False)
    assert place == Path("o/not-results/by-uart/b/sww/performance")


def keywords(folder: Path, count: int) -> None:
    """The first keywords in the public runner's layout."""
    folder.mkdir(parents=True)
    rows = (DATA / "kws01" / "y_labels.csv").read_text().splitlines()[:count]
    samples = np.fromfile(DATA / "kws01" / "x_int8_1000x490.bin", np.int8).reshape(-1, 490)
    for row, sample in zip(rows, samples, strict=False):
        (folder / row.split(",")[0]).write_bytes(sample.tobytes())
    (folder / "y_labels.csv").write_text("\n".join(rows))


@pytest.mark.long
@needs_shared
def test_the_folder_has_project_image_system_and_marked_runs(gen: Gen, tmp_path: Path):
    models, out = tmp_path / "models", tmp_path / "out"
    models.mkdir()
    shutil.copy(model("kws01"), models / "kws01.tflite")
    keywords(tmp_path / "data" / "kws01", 20)
    run = ("mlperf", "--board", "native", "--models", models, "--data", tmp_path / "data", "--out", out)
    result = gen(*run, "--samples", "10", "--emulate", "--org", "us")

    assert result.exit_code == 0, result.output
    home = out / "submission" / "closed" / "us"
    assert (home / "code/kws/image/firmware.elf").stat().st_size > 10_000
    assert (home / "code/kws/firmware/platformio.ini").is_file()
    assert not list((home / "code").rglob(".*"))
    assert sorted(p.name for p in (home / "results").iterdir()) == ["README.md"]
    place = out / "not-results/emulated/native/kws"
    for mode in ("accuracy", "performance"):
        assert sorted(p.name for p in (place / mode).iterdir()) == ["log.txt", "results.json", "results.txt"]
        assert (place / mode / "results.txt").read_text().startswith("EMULATED by native")
    table = {row["task"]: row for row in json.loads((out / "table.json").read_text())["benchmarks"]}
    assert table["kws01"]["samples"] == 10 and table["kws01"]["accuracy"] >= 80
    assert "has no model for ad01" in table["ad01"]["faults"][0]
    assert "- Not in the folder: ad01: " in (out / "TODO.md").read_text()
    (tmp_path / "data/kws01/y_labels.csv").write_text("tst.bin,12,99")
    again = gen(*run, "--emulate", "--task", "kws01")
    assert again.exit_code == 1 and "row 1: holds label 99; kws01 tells 12 classes apart, from 0 on" in again.output


@pytest.mark.long
@needs_shared
def test_models_that_do_not_fit_are_lines_and_the_others_are_written(gen: Gen, tmp_path: Path):
    result = gen("mlperf", "--board", "microbit", "--models", MODELS, "--out", tmp_path / "out", "--json")

    assert result.exit_code == 0, result.output
    rows = {row["task"]: row for row in json.loads(result.stdout)["benchmarks"]}
    built = [task for task, row in rows.items() if row["flash_bytes"]]
    assert "kws01" in built and "ic01" in built and "ic02" not in built and "ad01" not in built
    assert all(row["faults"] and "\n" not in row["faults"][0] for task, row in rows.items() if task not in built)


@pytest.mark.long
@needs_shared
def test_six_tasks_are_built_and_run_on_an_emulated_board(gen: Gen, tmp_path: Path):
    keywords(tmp_path / "data" / "kws01", 3)
    run = ("mlperf", "--board", "native", "--models", MODELS, "--data", tmp_path / "data", "--out", tmp_path / "out")
    result = gen(*run, "--emulate", "--json")

    assert result.exit_code == 0, result.output
    rows = {row["task"]: row for row in json.loads(result.stdout)["benchmarks"]}
    assert list(rows) == list(BY_ID)
    assert all(row["throughput"] > 0 and not row["faults"] for row in rows.values())


def test_a_board_that_is_no_hardware_stays_out_of_the_results_behind_a_port(
    digits_project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    class Silent:
        def __init__(self, name: str) -> None:
            self.name = name

        def close(self) -> None:
            pass

    monkeypatch.setattr(command, "Port", Silent)
    asked = command._Asked(targets.board("native"), tmp_path, "us", None, None, "/dev/ttyX", False)
    with command._device(asked, Project.open(digits_project), BY_ID["kws01"], "accuracy", True) as (_, session):
        session.note("measured")

    place = tmp_path / "not-results/emulated/native/kws/accuracy"
    assert (place / "results.txt").read_text().startswith("EMULATED by native")
    assert "EMULATED-native: measured" in (place / "log.txt").read_text()
    assert [p.name for p in tmp_path.iterdir()] == ["not-results"]
