"""Sweeps: axes, rows that are written once, what is shared, and what a person reads of it."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest

distributed = pytest.importorskip("distributed", reason="needs the extra shoehorn-mcu[sweep]")
pq = pytest.importorskip("pyarrow.parquet", reason="needs the extra shoehorn-mcu[sweep]")

from shoehorn_mcu.base import paths  # noqa: E402
from shoehorn_mcu.base.errors import ShoehornError  # noqa: E402
from shoehorn_mcu.cli import sweep as sweep_command  # noqa: E402
from shoehorn_mcu.machine import targets  # noqa: E402
from shoehorn_mcu.sweeps import cluster, identity, run, stages  # noqa: E402
from shoehorn_mcu.sweeps.axes import Combination, Stage, Status, Sweep, checked, of_file, value_of  # noqa: E402
from shoehorn_mcu.sweeps.fault import SweepError  # noqa: E402
from shoehorn_mcu.sweeps.page import page  # noqa: E402
from shoehorn_mcu.sweeps.rows import SCHEMA, TIMES, Rows, asked  # noqa: E402
from shoehorn_mcu.sweeps.store import Store  # noqa: E402
from shoehorn_mcu_host.base import system  # noqa: E402
from shoehorn_mcu_host.base.errors import LinkError  # noqa: E402
from tests import slim_nets  # noqa: E402

DIGITS = str(paths.MODELS / "digits.tflite")


def axes(**options: tuple[str, ...]) -> Sweep:
    return checked([DIGITS], ["microbit"], {name.replace("_", "-"): each for name, each in options.items()}, "plan")


def one(folder: Path, sweep: Sweep) -> list[dict[str, Any]]:
    """All rows of a sweep, computed in this process."""
    for task in run.work(sweep, folder).tasks:
        stages.perform(task)
    found, damaged = Rows(folder).all()
    assert damaged == []
    return found


# Axes


def test_the_product_of_the_axes_is_in_their_order() -> None:
    found = checked(["/a/kws.tflite", "/a/vww.tflite"], ["microbit", "native"], {"sram": ("16k", "32k")})

    assert [each.name for each in found.combinations()] == [
        *("kws microbit --sram 16k", "kws microbit --sram 32k", "kws native --sram 16k", "kws native --sram 32k"),
        *("vww microbit --sram 16k", "vww microbit --sram 32k", "vww native --sram 16k", "vww native --sram 32k"),
    ]


def test_a_file_has_patterns_a_stage_and_what_is_excluded(tmp_path: Path) -> None:
    for name in ("b.tflite", "a.tflite", "c.onnx"):
        (tmp_path / name).touch()
    (tmp_path / "sweep.toml").write_text(
        textwrap.dedent("""
            models = ["*.tflite", "c.onnx"]
            boards = ["microbit", "native"]
            until = "build"
            vectors = 7
            runs = 2
            options = { stream-input = ["no", "yes"], minimize = "sram" }
            [[exclude]]
            model = "a"
            board = ["native"]
            [[exclude]]
            options = { stream-input = "yes" }
            model = ["b.tflite", "c"]
        """)
    )

    found = of_file(tmp_path / "sweep.toml")

    assert (found.until, found.vectors, found.runs) == (Stage.BUILD, 7, 2)
    assert [each.name for each in found.combinations()] == [
        *("a microbit --minimize sram", "a microbit --stream-input --minimize sram"),
        *("b microbit --minimize sram", "b native --minimize sram"),
        *("c microbit --minimize sram", "c native --minimize sram"),
    ]


def test_options_become_what_the_planner_takes() -> None:
    found = Combination(DIGITS, "microbit", {"sram": "16k", "minimize": "sram", "stream-input": "yes", "cores": "2"})

    assert found.words == "--sram 16k --minimize sram --stream-input --cores 2"
    assert (found.plan_options.sram_bytes, found.plan_options.minimize) == (16384, "sram")
    assert (found.plan_options.stream_input, found.plan_options.cores) == (True, 2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("boards = ['microbit']", "models: field required"),
        ("models = ['m']\nboards = ['microbit']\nbudget = 3", "no key is called 'budget'; there are models, boards,"),
        ("models = ['m']\nboards = ['microbt']", "sweep.toml: unknown board 'microbt'; did you mean 'microbit'"),
        (
            "models = ['m']\nboards = ['microbit']\nuntil = 'never'",
            "until: 'never' is no stage; there are plan, firmware",
        ),
        ("models = ['m']\nboards = ['microbit']\nvectors = 0", "vectors: input should be greater than or equal to 1"),
        ("models = ['m', 'm']\nboards = ['microbit']", "is given twice"),
        ("models = []\nboards = ['microbit']", "models: the axis has no value"),
        ("models = ['*.x']\nboards = ['microbit']", "models: '*.x' names no file below"),
        (
            "models = ['m']\nboards = ['microbit']\n[options]\nsrams = '1k'",
            "'srams' cannot be swept; did you mean 'sram'?",
        ),
        ("models = ['m']\nboards = ['microbit']\n[options]\nsram = 'x'", "--sram: 'x' is not a size"),
        ("models = ['m']\nboards = ['microbit']\n[options]\nstream-input = 'maybe'", "'maybe' is not yes or no"),
        ("models = ['m']\nboards = ['microbit']\n[options]\nminimize = 'fun'", "'fun' is none of time, sram, flash"),
        ("models = ['m']\nboards = ['microbit']\n[options]\ncores = '99'", "99 is not between 1 and 64"),
        (
            "models = ['m']\nboards = ['microbit']\n[[exclude]]\nboards = 'x'",
            "no key is called 'exclude.0.boards'; did",
        ),
        ("models = ['m']\nboards = ['microbit']\n[[exclude]]\nboard = 'microbit'", "every combination is excluded"),
        ("models = [", "sweep.toml: Invalid value"),
        ("models = '\x00'", "sweep.toml: "),
    ],
)
def test_a_wrong_file_is_told_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "sweep.toml").write_text(text)

    with pytest.raises(ShoehornError) as error:
        of_file(tmp_path / "sweep.toml")

    assert said in str(error.value)
    assert str(error.value).isprintable()


def test_a_million_combinations_are_the_most() -> None:
    many = [f"/m{number}" for number in range(100_001)]
    with pytest.raises(SweepError, match="1,000,010 combinations, more than 1,000,000"):
        checked(many, ["microbit"], {"cores": [str(number) for number in range(1, 11)]})


def test_values_that_are_none_are_named() -> None:
    with pytest.raises(SweepError, match=r"^--cores: invalid literal"):
        value_of("cores", "two")
    assert value_of("slower", "5%") == 5.0
    assert value_of("top", "3") == 3


# Rows


def row_of(combination: Combination, **values: Any) -> dict[str, Any]:
    return {**dict.fromkeys(SCHEMA.names), **asked(combination), "status": "planned", **values}


def test_a_row_is_read_as_it_was_written(tmp_path: Path) -> None:
    combination = Combination(DIGITS, "microbit", {"sram": "16k"})
    rows = Rows(tmp_path)
    row = row_of(combination, arena_bytes=2560, time=1.5, proven_optimal=True, message="é" * 3000)

    assert rows.read(combination) is None
    rows.write(combination, row)

    assert rows.read(combination) == {**row, "message": "é" * 2000}
    assert rows.read(replace(combination, board="native")) is None
    assert [path.name for path in rows.place.iterdir()] == [rows.path(combination).name]
    assert rows.path(combination).stat().st_size < 8000 + 2 * 2000


def test_a_folder_of_rows_is_one_table_for_other_programs(tmp_path: Path) -> None:
    for board in ("microbit", "native"):
        combination = Combination(DIGITS, board)
        Rows(tmp_path).write(combination, row_of(combination, arena_bytes=len(board)))

    table = pq.read_table(tmp_path / "rows")

    assert sorted(table.column("arena_bytes").to_pylist()) == [6, 8]


def test_a_row_that_was_cut_in_half_is_made_anew_and_told(tmp_path: Path) -> None:
    sweep = axes(sram=("2k", "4k"))
    one(tmp_path, sweep)
    path = Rows(tmp_path).path(next(sweep.combinations()))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])

    work = run.work(sweep, tmp_path)

    assert work.damaged == 1
    assert [each.words for task in work.tasks for each in task.combinations] == ["--sram 2k"]
    assert Rows(tmp_path).all()[1] == [path]


def test_a_write_that_fails_leaves_the_old_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    combination = Combination(DIGITS, "microbit")
    rows = Rows(tmp_path)
    rows.write(combination, row_of(combination, arena_bytes=1))

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        rows.write(combination, row_of(combination, arena_bytes=2))

    assert rows.read(combination)["arena_bytes"] == 1  # type: ignore[index]
    assert len(list(rows.place.iterdir())) == 1


def test_a_row_of_other_columns_is_made_anew(tmp_path: Path) -> None:
    import pyarrow as pa

    combination = Combination(DIGITS, "microbit")
    path = Rows(tmp_path).path(combination)
    path.parent.mkdir()
    pq.write_table(pa.table({"model": ["digits"]}), path)

    assert Rows(tmp_path).read(combination) is None
    assert Rows(tmp_path).all() == ([], [])


# What is shared


def test_budgets_beyond_what_the_board_has_ask_for_the_same_plan() -> None:
    board = targets.board("microbit")
    of = {
        sram: identity.identity(Combination(DIGITS, "microbit", {"sram": sram}), board, "plan", 1, 1)
        for sram in ("12k", "16k", "1M", "fit")
    }

    assert of["16k"].plan == of["1M"].plan != of["12k"].plan
    assert of["fit"].plan not in (of["16k"].plan, of["12k"].plan)  # `fit` uses further memories of a board
    assert len({each.inputs for each in of.values()}) == 4


def test_a_row_is_of_its_model_its_tools_and_how_it_was_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tmp_path / "m.tflite"
    model.write_bytes(b"one")
    board, combination = targets.board("microbit"), Combination(str(model), "microbit")

    def now(*how: Any) -> identity.Identity:
        return identity.identity(combination, board, *(how or ("plan", 1, 1)))

    first = now()
    assert now() == first
    assert now("bench", 1, 1).plan == now("plan", 2, 1).plan == now("plan", 1, 2).plan == first.plan
    assert len({now(*how).inputs for how in (("plan", 1, 1), ("bench", 1, 1), ("plan", 2, 1), ("plan", 1, 2))}) == 4
    other = identity.Tools("9.9.9", "f" * 64, "ziglang 1")
    with monkeypatch.context() as patch:
        patch.setattr(identity.Tools, "here", staticmethod(lambda: other))
        assert now().plan != first.plan
    model.write_bytes(b"two!")
    assert now().plan != first.plan


def test_a_row_is_of_the_weights_beside_its_model_too(tmp_path: Path) -> None:
    """PyTorch writes them into a file of their own, and the same .onnx file for other weights."""
    model, weights = tmp_path / "m.onnx", tmp_path / "m.onnx.data"
    onnx.save(slim_nets.tiny(), model, save_as_external_data=True, location=weights.name, size_threshold=0)
    board, combination = targets.board("microbit"), Combination(str(model), "microbit")
    before = identity.identity(combination, board, "plan", 1, 1)

    assert identity.identity(combination, board, "plan", 1, 1) == before
    weights.write_bytes(weights.read_bytes()[::-1] + b"\0")
    assert identity.identity(combination, board, "plan", 1, 1).plan != before.plan


def test_combinations_that_ask_the_same_are_one_task(tmp_path: Path) -> None:
    work = run.work(axes(sram=("1M", "2M", "2k")), tmp_path)

    assert [[each.words for each in task.combinations] for task in work.tasks] == [
        ["--sram 1M", "--sram 2M"],
        ["--sram 2k"],
    ]


def test_a_row_per_combination_with_the_plan_made_once(tmp_path: Path) -> None:
    rows = one(tmp_path, axes(sram=("1M", "2M", "512"), minimize=("sram",)))

    assert [(row["sram"], row["status"], row["kind"]) for row in rows] == [
        ("1M", "planned", None),
        ("2M", "planned", None),
        ("512", "refused", "does-not-fit"),
    ]
    assert [row["plan_shared"] for row in rows] == [None, True, None]
    assert rows[0]["arena_bytes"] == rows[1]["arena_bytes"] == 1024
    assert rows[0]["macs"] and rows[0]["predicted_cycles"] and rows[0]["predicted_ram_bytes"]
    assert (rows[2]["needed_bytes"], rows[2]["available_bytes"]) == (1024, 512)
    assert "lower --sram" not in rows[2]["cures"] and rows[2]["message"].startswith("digits on microbit: needs")
    assert (tmp_path / rows[0]["page"]).read_text().startswith("<!doctype html>")
    assert run.work(axes(sram=("1M", "2M", "512"), minimize=("sram",)), tmp_path).tasks == ()


def test_a_lost_row_is_computed_from_what_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = axes(sram=("4k",))
    (before,) = one(tmp_path, sweep)
    shutil.rmtree(tmp_path / "rows")
    monkeypatch.setattr(stages.build, "plan_model", None)  # nothing is planned again

    (after,) = one(tmp_path, sweep)

    changed = {name for name in SCHEMA.names if before[name] != after[name]}
    assert changed <= {"plan_shared", "plan_seconds", "cpu_seconds", "finished"}
    assert after["plan_shared"] is True and after["plan_seconds"] == 0


def test_the_whole_way_is_gone_once_for_equal_firmware(tmp_path: Path) -> None:
    sweep = replace(axes(sram=("4k", "8k")), boards=("native",), until=Stage.BENCH, vectors=2)

    first, second = one(tmp_path, sweep)

    assert (first["status"], second["status"], first["message"]) == ("measured", "measured", None)
    assert first["folder_sha256"] == second["folder_sha256"]
    assert (first["proof_shared"], second["proof_shared"]) == (None, True)
    assert (first["vectors"], first["mismatched_vectors"], first["time_unit"]) == (2, 0, "us")
    assert first["build_seconds"] > 0 and second["build_seconds"] is None
    assert first["time"] == second["time"] > 0
    assert list((tmp_path / "cache" / "scratch").iterdir()) == []


def test_a_model_that_cannot_be_imported_is_a_row_and_no_end(tmp_path: Path) -> None:
    (tmp_path / "no.tflite").write_bytes(b"nonsense")
    sweep = checked([str(tmp_path / "no.tflite"), str(tmp_path / "gone.tflite"), DIGITS], ["microbit"], {}, "plan")

    gone, no, digits = sorted(one(tmp_path / "out", sweep), key=lambda row: row["model"] == "digits")

    assert (gone["status"], no["status"], digits["status"]) == ("refused", "refused", "planned")
    assert gone["message"].endswith("gone.tflite: cannot be read: No such file or directory")
    assert "no.tflite" in no["message"]
    left = run.work(sweep, tmp_path / "out").tasks
    assert [task.first.model for task in left] == [str(tmp_path / "gone.tflite")]  # it may be there the next time


def test_a_defect_of_ours_is_a_row_that_the_next_run_tries_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(stages.build, "plan_model", lambda *_: 1 // 0)
        (row,) = one(tmp_path, axes())
    assert (row["status"], row["kind"]) == ("failed", "defect")
    assert row["message"] == "please report this: ZeroDivisionError: integer division or modulo by zero"

    (again,) = one(tmp_path, axes())
    assert again["status"] == "planned"


def test_a_board_that_nobody_has_stays_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    board = targets.board("native")
    task = stages.Task(str(tmp_path), (), Stage.BENCH, 1, 1)
    built = type("Built", (), {"ram_bytes": 1, "flash_bytes": 2, "stack_bytes": 3})
    monkeypatch.setattr(stages, "compiled", lambda _: built)
    monkeypatch.setattr(stages.Project, "open", lambda _: None)
    alone = replace(board, id="far", spec=board.spec.model_copy(update={"emulator": None}))

    found, seconds = stages._proved(task, alone, tmp_path, {})

    assert (found["status"], found["kind"], found["ram_bytes"]) == ("open", "no-board", 1)
    assert found["message"] == "no worker has a far; start a worker that has one (docs/sweeps.md)"
    assert list(seconds) == ["build_seconds"]


def test_a_real_board_is_flashed_and_asked_over_its_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = stages.Task(str(tmp_path), (), Stage.VALIDATE, 5, 1)
    built = type("Built", (), {"ram_bytes": 1, "flash_bytes": 2, "stack_bytes": 3})
    monkeypatch.setattr(stages, "compiled", lambda _: built)
    monkeypatch.setattr(stages.Project, "open", lambda folder: folder)
    heard: list[Any] = []

    def silent(folder: Path, **how: Any) -> None:
        heard.append(how)
        raise LinkError(f"{folder}: the board does not answer")

    monkeypatch.setattr(stages, "flash", lambda *where, dry_run: heard.append((*where, dry_run)))
    monkeypatch.setattr(stages.api, "validate", silent)

    boards = {"microbit": stages.Attached("/dev/ttyX", probe="066", mount="/media/m")}
    found, seconds = stages._proved(task, targets.board("microbit"), tmp_path, boards)

    assert heard == [(tmp_path, "066", "/media/m", False), {"emulate": False, "port": "/dev/ttyX", "count": 5}]
    assert (found["status"], found["message"]) == ("failed", "the board does not answer")
    assert list(seconds) == ["build_seconds", "flash_seconds", "validate_seconds"]


def test_proofs_of_a_board_and_of_its_emulator_are_apart() -> None:
    task, board = stages.Task("", (), Stage.BENCH, 1, 1), targets.board("microbit")

    emulated = stages._proof_key(task, board, "d" * 64, {})
    assert emulated == stages._proof_key(task, board, "d" * 64, {"native": stages.Attached("p")})
    assert emulated != stages._proof_key(task, board, "d" * 64, {"microbit": stages.Attached("p")})


# Scratch


def test_scratch_of_a_process_that_was_killed_is_removed_by_the_next_run(tmp_path: Path) -> None:
    store = Store(tmp_path)
    code = (
        "import os, sys, pathlib; from shoehorn_mcu.sweeps.store import Store\n"
        "with Store(pathlib.Path(sys.argv[1])).scratch() as folder:\n"
        "    folder.mkdir(); (folder / 'f').touch(); print('ready', flush=True); input()\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout and other.stdout.readline() == "ready\n"
        assert store.tidy() == 0  # it still runs
        other.send_signal(signal.SIGKILL)
    place = tmp_path / "cache" / "scratch"
    assert len(list(place.iterdir())) == 2

    assert store.tidy() == 1
    assert list(place.iterdir()) == []


def test_damaged_keepings_are_as_if_there_were_none(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.keep("plans", "k", {"a": 1})
    assert store.known("plans", "k") == {"a": 1}
    (tmp_path / "cache" / "plans" / "k.json").write_text('{"a": ')
    assert store.known("plans", "k") is None
    (tmp_path / "cache" / "plans" / "k.json").write_text("[1]")
    assert store.known("plans", "k") is None


# The folder


def test_two_sweeps_in_one_folder(tmp_path: Path) -> None:
    with run.opened(tmp_path), pytest.raises(SweepError, match="another sweep runs there"), run.opened(tmp_path):
        pass
    with run.opened(tmp_path):  # free again
        pass


def test_folders_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    with pytest.raises(SweepError, match="is not empty and is no sweep's folder"), run.opened(tmp_path):
        pass
    other = tmp_path / "other"
    other.mkdir()
    (other / "sweep.json").write_text('{"sweep": 99}\n')
    with pytest.raises(SweepError, match="another version of Shoehorn made"), run.opened(other):
        pass
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(SweepError, match="file: cannot be written: File exists; nothing is lost"), run.opened(file):
        pass


# Through Dask


class Future:
    """What a fake client gives."""

    def __init__(self, key: str, status: str, error: Exception | None = None) -> None:
        self.key, self.status, self._error = key, status, error

    def exception(self) -> Exception | None:
        return self._error

    def release(self) -> None:
        pass

    def done(self) -> bool:
        return False

    def cancel(self, force: bool) -> None:
        assert force
        self.status = "cancelled"


class Client:
    """A Dask client whose worker does each task when its result is asked for, one after the other."""

    def __init__(self, workers: dict[str, Any], perform: Any) -> None:
        self.workers, self.perform, self.loop = workers, perform, None
        self.resources: list[Any] = []
        self.waiting: list[tuple[Future, Any]] = []

    def scheduler_info(self, n_workers: int) -> dict[str, Any]:
        return {"workers": self.workers}

    def run(self, function: Any, *arguments: Any, on_error: str) -> dict[str, str]:
        return {name: function(*arguments) for name in self.workers}

    def register_plugin(self, plugin: Any) -> None:
        self.plugin = plugin

    def submit(self, perform: Any, task: Any, *, key: str, pure: bool, resources: Any) -> Future:
        self.resources.append(resources)
        future = Future(key, "pending")
        self.waiting.append((future, task))
        return future

    def call_stack(self, futures: list[Future]) -> dict[str, Any]:
        return {"w": {}}


class Completed:
    """distributed.as_completed for that client."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def add(self, future: Future) -> None:
        pass

    def __next__(self) -> Future:
        given_up = [number for number, (future, _) in enumerate(self.client.waiting) if future.status == "cancelled"]
        future, task = self.client.waiting.pop(given_up[0] if given_up else 0)
        if future.status == "cancelled":  # Dask gives these, too
            return future
        try:
            self.client.perform(task)
            future.status = "finished"
        except Exception as error:
            future.status, future._error = "error", error
        return future


def swept(
    monkeypatch: pytest.MonkeyPatch, folder: Path, sweep: Sweep, client: Client, **how: Any
) -> tuple[list[dict[str, Any]], list[run.Progress]]:
    monkeypatch.setattr(distributed, "as_completed", lambda loop: Completed(client))
    said: list[run.Progress] = []
    rows = list(run.sweep(sweep, folder, run.Where(client=client), say=lambda now: said.append(replace(now)), **how))
    return rows, said


WORKER = {"tcp://w": {"nthreads": 1, "resources": {}}}


def test_rows_are_yielded_once_each_whether_new_or_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = axes(sram=("2k", "4k"))
    rows, _ = swept(monkeypatch, tmp_path, small, Client(WORKER, stages.perform))
    assert [row["sram"] for row in rows] == ["2k", "4k"]

    rows, said = swept(monkeypatch, tmp_path, axes(sram=("2k", "4k", "1M", "2M")), Client(WORKER, stages.perform))

    assert [row["sram"] for row in rows] == ["2k", "4k", "1M", "2M"]
    assert (said[0].total, said[0].done, said[0].kept) == (4, 2, 2)
    assert (said[-1].done, said[-1].by_status["planned"], said[-1].running) == (4, 4, 0)


def test_a_task_that_kills_its_workers_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class KilledWorker(Exception):
        pass

    def perform(task: Any) -> None:
        if task.first.options["sram"] == "2k":
            raise KilledWorker("task, worker")
        stages.perform(task)

    rows, _ = swept(monkeypatch, tmp_path, axes(sram=("2k", "4k")), Client(WORKER, perform))

    assert [(row["status"], row["kind"]) for row in rows] == [("failed", "worker"), ("planned", None)]
    assert rows[0]["message"].startswith("its worker died of it several times")
    assert [task.first.options["sram"] for task in run.work(axes(sram=("2k", "4k")), tmp_path).tasks] == ["2k"]


def test_few_tasks_are_with_dask_and_the_others_can_be_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = axes(sram=tuple(f"{size}k" for size in range(2, 9)))
    client = Client(WORKER, stages.perform)
    ended: list[Any] = []

    rows, _ = swept(monkeypatch, tmp_path, sweep, client, stopping=lambda: bool(ended) or ended.append(1))

    assert len(client.resources) == 2  # none more when the first had ended, and the second was given up
    assert [row["sram"] for row in rows] == ["2k"]
    assert len(run.work(sweep, tmp_path).tasks) == 6


def test_a_board_that_does_not_answer_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = replace(axes(sram=("2k", "4k", "6k", "8k")), boards=("microbit", "native"), until=Stage.BENCH)
    workers = {"w": {"nthreads": 1, "resources": {"board:microbit": 1, "gpu": 1}}}

    def perform(task: Any) -> None:
        silent = task.first.board == "microbit"
        for each in task.combinations:
            values = {"status": "failed", "kind": "link"} if silent else {"status": "measured"}
            Rows(tmp_path).write(each, row_of(each, **values))

    client = Client(workers, perform)
    rows, said = swept(monkeypatch, tmp_path, sweep, client)

    assert client.resources.count({"board:microbit": 1}) == 2  # those that Dask had already
    assert [row["board"] for row in rows].count("microbit") == 2
    assert [row["board"] for row in rows].count("native") == 4
    assert said[-1].skipped == 2


def test_what_an_emulator_proved_is_proved_again_once_a_worker_has_the_board(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = replace(axes(sram=("2k",)), boards=("microbit", "native"), until=Stage.BENCH)
    real = {"w": {"nthreads": 1, "resources": {"board:microbit": 1}}}
    by_emulator = {"status": "measured", "emulator": "qemu-system-arm 7.2"}

    def wrote(**values: Any) -> Any:
        return lambda task: [Rows(tmp_path).write(each, row_of(each, **values)) for each in task.combinations]

    def identified(row: dict[str, Any]) -> dict[str, Any]:
        board = targets.board(row["board"])
        each = next(each for each in sweep.combinations() if each.board == row["board"])
        return {**row, "inputs": identity.identity(each, board, "bench", sweep.vectors, sweep.runs).inputs}

    for each in sweep.combinations():
        Rows(tmp_path).write(each, identified(row_of(each, **by_emulator)))
    (tmp_path / "sweep.json").write_text('{"sweep": 1}\n')

    _, said = swept(monkeypatch, tmp_path, sweep, Client(WORKER, wrote()))
    assert said[0].kept == 2

    rows, said = swept(monkeypatch, tmp_path, sweep, Client(real, wrote(status="measured")))
    assert (said[0].kept, [row["emulator"] for row in rows]) == (1, [by_emulator["emulator"], None])


def test_a_worker_whose_disk_is_full_is_a_row_that_the_next_run_tries_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(task: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    rows, _ = swept(monkeypatch, tmp_path, axes(sram=("4k",)), Client(WORKER, full))

    said = "OSError: [Errno 28] No space left on device"
    assert [(row["status"], row["kind"], row["message"]) for row in rows] == [("failed", "worker", said)]
    assert len(run.work(axes(sram=("4k",)), tmp_path).tasks) == 1


def test_a_worker_with_other_tools_is_refused_with_both_versions(tmp_path: Path) -> None:
    (tmp_path / "mark").write_text("m")
    here = identity.Tools.here()
    other = replace(here, compiler="ziglang 0.1")

    assert cluster.fault_here(here, str(tmp_path), "m") == ""
    assert str(here) in cluster.fault_here(other, str(tmp_path), "m")
    assert "with ziglang 0.1; install the same version" in cluster.fault_here(other, str(tmp_path), "m")
    assert cluster.fault_here(here, str(tmp_path), "n").startswith("it does not see")
    assert cluster.fault_here(here, "/nowhere", "m").startswith("it does not see /nowhere")
    with pytest.raises(SweepError, match="it does not see"):
        cluster.Guard(here, str(tmp_path), "n").setup(None)


def test_a_sweep_ends_where_a_worker_is_unfit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "fault_here", lambda *_: "it has another \x1b[31mversion")

    with pytest.raises(SweepError, match=r"worker tcp://w: it has another \\x1b\[31mversion"):
        swept(monkeypatch, tmp_path, axes(), Client(WORKER, stages.perform))


def test_boards_of_a_worker_are_in_its_own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def now(text: str | None) -> stages.Bench:
        cluster.boards_here.cache_clear()
        if text is not None:
            (tmp_path / "w.toml").write_text(text)
        return cluster.boards_here()

    monkeypatch.delenv(cluster.BOARDS_FILE, raising=False)
    assert now(None) == {}
    monkeypatch.setenv(cluster.BOARDS_FILE, str(tmp_path / "w.toml"))
    with pytest.raises(SweepError, match=r"SHOEHORN_WORKER=.*w.toml: .*No such file"):
        now(None)
    assert now('[microbit]\nport = "/dev/ttyACM0"') == {"microbit": stages.Attached("/dev/ttyACM0")}
    assert now('[m]\nport = "a"\nprobe = "b"\nmount = "c"') == {"m": stages.Attached("a", "b", "c")}
    for wrong in ("[microbit]\nport = 3", "[microbit]", 'microbit = "x"', '[microbit]\nport = "x"\nbaud = 3'):
        with pytest.raises(SweepError, match=r"a board has a table: \[nucleo-f401re\] port = "):
            now(wrong)
    with pytest.raises(SweepError, match=r"w\.toml: "):
        now("[microbit")
    cluster.boards_here.cache_clear()


def test_no_scheduler_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_SECONDS", 0.2)

    for address in ("tcp://127.0.0.1:1", "nonsense://x"):
        with pytest.raises(SweepError) as error, cluster.connected(address):
            pass
        assert str(error.value).startswith(f"--scheduler {address}: no scheduler answers there; start one by `dask")
    with pytest.raises(SweepError, match="--tls: /no/ca: no such file"):
        cluster._security(cluster.Security("/no/ca", "/no/cert", "/no/key"))


def test_what_a_killed_worker_started_ends_with_it() -> None:
    code = (
        "import subprocess, sys, time; from shoehorn_mcu_host.base import system\n"
        "watcher = system.lead_group()\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(100)'])\n"
        "print(child.pid, flush=True); time.sleep(100)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout
        child = int(worker.stdout.readline())
        worker.send_signal(signal.SIGKILL)
    for _ in range(200):
        if not _runs(child):
            return
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    pytest.fail("the child outlived the worker that was killed")


def _runs(process: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False


def test_a_sweep_on_workers_of_this_machine(tmp_path: Path) -> None:
    import shoehorn_mcu

    found = list(
        shoehorn_mcu.sweep([DIGITS], tmp_path, ["microbit"], {"sram": ["2k", "1M", "2M"]}, until="plan", workers=1)
    )

    assert [(row["sram"], row["status"], row["worker"]) for row in found] == [
        ("2k", "planned", "0"),
        ("1M", "planned", "0"),
        ("2M", "planned", "0"),
    ]
    assert len({row["finished"] for row in found}) <= 3 and all(row["inputs"] for row in found)


def test_ctrl_c_while_workers_start_ends_before_the_first_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(WORKER, stages.perform)

    assert swept(monkeypatch, tmp_path, axes(), client, stopping=lambda: True)[0] == []
    assert client.resources == []


def test_what_starts_in_the_block_is_deaf_to_ctrl_c() -> None:
    code = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))"
    with system.deaf():
        inside = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    after = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout

    assert (inside, after) == ("True\n", "False\n")


@pytest.mark.long
def test_workers_and_clients_that_are_killed_lose_nothing(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from shoehorn_mcu.sweeps import run\n"
        "from shoehorn_mcu.sweeps.axes import checked\n"
        "if __name__ == '__main__':\n"
        "    budgets = {'sram': tuple(f'{n}k' for n in range(2, 14)), 'minimize': ('time', 'sram')}\n"
        "    axes = checked([sys.argv[2]], ['microbit'], budgets, 'build')\n"
        "    for row in run.sweep(axes, Path(sys.argv[1]), run.Where(workers=2)): print(row['worker'], flush=True)\n"
    )
    (tmp_path / "client.py").write_text(code)
    folder = tmp_path / "out"
    command = [sys.executable, str(tmp_path / "client.py"), str(folder), DIGITS]
    for kill in ("worker", "client", "worker", ""):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as client:
            assert client.stdout
            if kill:
                client.stdout.readline()
            if kill == "client":
                client.kill()
            elif kill == "worker":
                for process in _workers_below(client.pid):
                    os.kill(process, signal.SIGKILL)
                    break
            client.communicate()

    found, damaged = Rows(folder).all()
    assert damaged == [] and len(found) == 24
    assert {row["status"] for row in found} == {"built"}
    assert Store(folder).tidy() == 0 and list((folder / "cache" / "scratch").iterdir()) == []


def _workers_below(parent: int) -> list[int]:
    """The processes of Dask's workers that a client started."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes()
            fields = (path / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == parent and b"spawn_main" in words:
            found.append(int(path.name))
    return found


# The page and the command


def test_what_a_run_left_open_is_told_and_is_no_success(
    tmp_path: Path, gen: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def some(axes: Sweep, folder: Path, *_: Any, say: Any, **__: Any) -> Iterator[dict[str, Any]]:
        say(run.Progress(total=5, done=1, kept=0, damaged=1, skipped=2))
        yield from one(folder, axes)

    monkeypatch.setattr(run, "sweep", some)
    done = gen("sweep", DIGITS, "--boards", "microbit", "--until", "plan", "--out", tmp_path / "o")

    assert done.exit_code == 1
    assert "note: rows that could not be read and were made anew: 1" in done.stderr
    assert "note: a board does not answer; combinations that stay open: 2" in done.stderr
    assert "note: open combinations: 4; the same command goes on" in done.stderr


def test_the_page_tells_of_all_rows_and_executes_nothing_of_them(tmp_path: Path) -> None:
    evil = Combination("/m/</script><b>.tflite", "microbit", {"sram": "16k"})
    fine = Combination(DIGITS, "native", {"sram": "16k"})
    rows = [
        row_of(evil, status="refused", kind="does-not-fit", message="<img src=x>"),
        row_of(
            fine,
            status="measured",
            arena_bytes=2560,
            proven_optimal=True,
            vectors=3,
            mismatched_vectors=0,
            time=5.0,
            time_unit="us",
            build_seconds=1.0,
            page="pages/ab.html",
        ),
    ]

    text = page(rows, "<sweep>")

    assert text == page(rows[::-1], "<sweep>")
    assert "2 combinations of 2 models and 2 boards; 1 row of firmware that computed every byte" in text
    assert '<td class="measured" title="measured, --sram 16k; 1 of 1 combinations">2,560 *</td>' in text
    assert 'title="&lt;img src=x&gt;">does-not-fit</td>' in text
    assert "<title>Sweep: &lt;sweep&gt;</title>" in text and "<b>" not in text and "<img" not in text
    assert text.count("</script>") == 2
    data = json.loads(re.search(r'id="data">(.*?)</script>', text)[1])  # type: ignore[index]
    assert data["units"] == ["us", "predicted instructions"] and len(data["rows"]) == 2
    assert dict(zip(data["columns"], data["rows"][1], strict=True))["time"] is None


def test_the_page_says_first_where_bytes_differ() -> None:
    row = row_of(Combination(DIGITS, "native"), status="mismatch", vectors=3, mismatched_vectors=2, arena_bytes=1)

    text = page([row], "s")

    assert "1 firmware did not compute the reference" in text.replace("&#x27;", "'")
    assert ">differs</td>" in text


def test_numbers_of_the_printed_rows_end_below_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    plain: dict[str, Any] = dict.fromkeys((*TIMES, "kind", "message", "time_unit"))
    plain |= {"model": "digits", "options": "", "status": Status.PLANNED, "time_unit": "cycles"}
    name = next(name for name, unit in TIMES.items() if not unit)
    made = [(1_024, 7), (23_520, 11_000_000), (672, 288_117)]
    sweep_command._print_rows([{**plain, "board": "one.json", "arena_bytes": a, name: t} for a, t in made])

    rows = capsys.readouterr().out.splitlines()[1:4]
    for figures in zip(*made, strict=True):
        texts = [f"{figure:,}" for figure in figures]
        assert len({row.index(f"{text} ") + len(text) for row, text in zip(rows, texts, strict=True)}) == 1


def test_the_command_counts_sweeps_and_shows(gen: Any, tmp_path: Path) -> None:
    words = ("sweep", DIGITS, "--boards", "microbit", "--sram", "1M,2M,2k", "--until", "plan", "--out", tmp_path / "o")

    assert "3 combinations: 0 have their row, 3 are open; these need 2 plans" in gen(*words, "--dry-run").output
    one(tmp_path / "o", axes(sram=("1M", "2M", "2k")))
    shown = gen("sweep", tmp_path / "o", "--show")

    assert shown.exit_code == 0 and shown.output.endswith("3 planned\n")
    assert shown.output.count("predicted cycles") == 3
    assert len(json.loads(gen("sweep", tmp_path / "o", "--show", "--json").output)["rows"]) == 3
    told = json.loads(gen(*words, "--dry-run", "--json").output)
    assert told == {"combinations": 3, "done": 3, "open": 0, "plans": 0}


def test_the_command_that_has_nothing_left_to_do_writes_its_page(gen: Any, tmp_path: Path) -> None:
    one(tmp_path / "o", axes(sram=("2k", "512")))
    with run.opened(tmp_path / "again"):
        pass
    shutil.copytree(tmp_path / "o", tmp_path / "again", dirs_exist_ok=True)
    words = (
        "sweep",
        DIGITS,
        "--boards",
        "microbit",
        "--sram",
        "2k,512",
        "--until",
        "plan",
        "--out",
        tmp_path / "again",
    )

    done = gen(*words)

    assert done.exit_code == 0, done.output
    assert "refused: does-not-fit" in done.output and "1 planned, 1 refused" in done.output
    (said,) = [line for line in done.output.splitlines() if line.startswith("refused: ")]
    assert "needs an arena of" in said and "512 are available" in said
    assert "2 combinations of 1 model and 1 board" in (tmp_path / "again" / "sweep.html").read_text()


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (("m.tflite",), "Missing option '--boards'", 2),
        (("m.tflite", "--boards", "nowhere"), "'nowhere'", 1),
        (("s.toml", "--boards", "microbit"), "s.toml has the axes; write them there", 2),
        (("m.tflite", "--boards", "microbit", "--sram", "1x"), "--sram: '1x' is not a size", 1),
        (("m.tflite", "--boards", "microbit", "--workers", "1", "--scheduler", "x"), "give one of them", 2),
        (("m.tflite", "--boards", "microbit", "--tls", "a,b,c"), "belongs to --scheduler", 2),
        (("nothere", "--show"), "--show takes the folder of a sweep", 2),
    ],
)
def test_wrong_words_are_told_in_one_line(gen: Any, words: tuple[str, ...], said: str, code: int) -> None:
    done = gen("sweep", *words)

    assert done.exit_code == code and said in done.output
    assert "Traceback" not in done.output


def test_a_model_is_swept_with_a_streamed_input_or_not(gen: Any, tmp_path: Path) -> None:
    words = ("sweep", DIGITS, "--boards", "microbit", "--stream-input", "both", "--dry-run", "--out", tmp_path / "o")

    assert "2 combinations" in gen(*words).output


def test_axes_of_a_file_are_counted(gen: Any, tmp_path: Path) -> None:
    axes = f"models = ['{DIGITS}']\nboards = ['microbit', 'mps2-an386']\n[options]\nsram = ['2k', '4k']"
    (tmp_path / "s.toml").write_text(axes)

    done = gen("sweep", tmp_path / "s.toml", "--dry-run", "--out", tmp_path / "o")

    assert (done.exit_code, "4 combinations" in done.output) == (0, True), done.output


def test_without_the_extra_one_line_says_what_to_install(gen: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)

    done = gen("sweep", DIGITS, "--boards", "microbit", "--dry-run")

    assert done.exit_code == 1
    assert "gen sweep needs distributed: `pip install 'shoehorn-mcu[sweep]'` brings it" in done.output


def _slept(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


@pytest.mark.long
def test_a_worker_that_slept_with_the_machine_goes_on(tmp_path: Path) -> None:
    """It is not given up, however long it says nothing; Dask's own limit is five minutes."""
    import dask

    with dask.config.set({"distributed.scheduler.worker-ttl": "2s"}), cluster.local(1, tmp_path) as client:
        (worker,) = client.run(os.getpid).values()
        found = client.submit(_slept, 2.0)
        time.sleep(1)
        os.kill(worker, signal.SIGSTOP)
        time.sleep(20)
        os.kill(worker, signal.SIGCONT)

        assert found.result(timeout=60) == worker
