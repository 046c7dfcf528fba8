"""`gen tune`: candidates measured on the board, kept through interruptions, and read by `gen firmware --tuning`."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Gen
from samples import graph_of, int8, sample

from shoehorn_mcu import __version__, ops
from shoehorn_mcu.base.paths import MODELS
from shoehorn_mcu.cli import console
from shoehorn_mcu.cli import tune as cli_tune
from shoehorn_mcu.emit import bundle
from shoehorn_mcu.emit.folder import graph_file
from shoehorn_mcu.emit.folder.reference import reference_files
from shoehorn_mcu.firmware import build, tune
from shoehorn_mcu.firmware.settings import Options
from shoehorn_mcu.ir import DType, Graph, Node, Op, Quant, TensorType
from shoehorn_mcu.kernels import candidates, choose, contract_of, within_flash
from shoehorn_mcu.kernels.tuning import HEADER, Origin, Tuning, TuningError, load, save
from shoehorn_mcu.machine import targets
from shoehorn_mcu.machine.targets import Board
from shoehorn_mcu.machine.targets import Machine as Core
from shoehorn_mcu_host.base.errors import HostError, MemoryTooSmall
from shoehorn_mcu_host.board import session, trials
from shoehorn_mcu_host.board.emulate import emulate
from shoehorn_mcu_host.folder.project import Project

BOARD = "mps2-an386"
needs_qemu = pytest.mark.skipif(shutil.which("qemu-system-arm") is None, reason="qemu-system-arm is not installed")
Json = dict[str, Any]


@pytest.fixture(scope="module")
def folder(gen: Gen, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped model for an emulated Cortex-M4."""
    made = tmp_path_factory.mktemp("tune") / "digits"
    assert gen("firmware", "--board", BOARD, "--out", made).exit_code == 0
    return made


@pytest.fixture(scope="module")
def tuned(gen: Gen, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Json, Path]:
    """What one whole run prints, and its file."""
    path = tmp_path_factory.mktemp("tuned") / "tuning.json"
    result = gen("tune", folder, "--out", path, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout), path


@pytest.fixture
def by_two(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Iterator[list[tune.Trial]]]:
    """Two images, whatever fits; gives the function that would make as few as fit."""

    def halves(of: list[tune.Trial], board: Board) -> Iterator[list[tune.Trial]]:
        yield from (of[: len(of) // 2], of[len(of) // 2 :])

    true = tune.groups
    monkeypatch.setattr(tune, "groups", halves)
    return true


def edited(path: Path, to: Path, change: Callable[[Json], object]) -> Path:
    """A copy of a tuning file, changed."""
    found = json.loads(path.read_text())
    change(found)
    to.write_text(json.dumps(found))
    return to


# Measuring.


@needs_qemu
def test_the_fastest_kernel_of_each_layer_is_in_the_file_and_in_the_next_firmware(
    gen: Gen, folder: Path, tuned: tuple[Json, Path], tmp_path: Path
):
    said, path = tuned
    file = json.loads(path.read_text())
    assert said["layers"] and said["board"] == BOARD and said["transport"] == "emulator"
    for layer in said["layers"]:
        times = {each["kernel"]: each["time"] for each in layer["candidates"]}
        assert layer["best"]["time"] == min(times.values()) and layer["worst"]["time"] == max(times.values())
        assert len(times) > 1 and min(times.values()) > 0
        assert file[layer["key"]] == layer["best"]["kernel"]
        assert layer["chosen"]["predicted"] > 0
        alike = layer["worst_same_isa"]
        assert alike is None or alike["time"] == times[alike["kernel"]] >= layer["best"]["time"]
    assert any(layer["worst_same_isa"] for layer in said["layers"])
    assert said["total"]["best"] <= said["total"]["chosen"] < said["total"]["worst"]

    result = gen("firmware", "--board", BOARD, "--out", tmp_path / "next", "--tuning", path)
    best = {op: layer["best"]["kernel"] for layer in said["layers"] for op in layer["ops"]}
    planned = json.loads((tmp_path / "next/plan.json").read_text())["ops"]
    assert result.exit_code == 0 and "ignored" not in result.stderr
    assert {op["name"]: op["kernel"] for op in planned if op["name"] in best} == best
    assert load(path).digest in (tmp_path / "next/lib/digits/src/digits.c").read_text()


@needs_qemu
def test_a_layer_takes_the_time_that_its_op_takes_in_the_model(gen: Gen, folder: Path, tuned: tuple[Json, Path]):
    said, _ = tuned
    found = json.loads(gen("bench", folder, "--emulate", "--runs", 1, "--json").stdout)
    in_model = {op["name"]: op["cycles"] if said["unit"] == "cycles" else op["median"] for op in found["ops"]}
    for layer in said["layers"]:
        whole = sum(in_model[name] for name in layer["ops"])

        # The model's plan is by rows: a step per row, and rows at addresses from a table.
        assert layer["chosen"]["time"] == pytest.approx(whole, rel=0.1, abs=200), layer["ops"]


@needs_qemu
def test_a_second_run_measures_nothing_and_says_the_same(gen: Gen, folder: Path, tuned: tuple[Json, Path]):
    said, path = tuned
    before = path.read_text()
    again = gen("tune", folder, "--out", path, "--json")

    assert json.loads(again.stdout) == said
    assert path.read_text() == before
    assert "candidates were measured before" in again.stderr


@needs_qemu
def test_the_readout_names_worst_best_chosen_and_gain(
    gen: Gen, folder: Path, tuned: tuple[Json, Path], monkeypatch: pytest.MonkeyPatch
):
    said, path = tuned
    monkeypatch.setattr(console.out, "width", 160)  # all columns
    shown = gen("tune", folder, "--out", path).stdout

    head = next(line for line in shown.splitlines() if line.startswith("op "))
    assert head.split() == ["op", "worst", "best", "chosen", "predicted", "gain", "of", "worst", "same", "isa"]
    for layer in said["layers"]:
        line = next(each for each in shown.splitlines() if each.startswith(layer["ops"][0] + " "))
        assert f"{layer['best']['time']:,}" in line and f"{layer['worst_gain_percent']} %" in line
        better = layer["gain_percent"] > 0
        assert (f"{layer['ops'][0]}: " in shown) >= better
    assert f"--tuning {path}" in " ".join(shown.split())


def test_a_core_with_one_kernel_per_layer_has_nothing_to_measure(
    gen: Gen, digits_project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tune, "choices", lambda node, isas: candidates(node, isas)[:1])
    result = gen("tune", digits_project, "--out", tmp_path / "t.json")

    assert result.exit_code == 0
    assert "only one kernel computes each layer on host: there is nothing to measure" in result.stdout
    assert not (tmp_path / "t.json").exists()


# Interruptions.


@needs_qemu
def test_an_interrupted_run_goes_on_where_it_stopped(
    gen: Gen,
    folder: Path,
    tuned: tuple[Json, Path],
    tmp_path: Path,
    by_two: Callable[..., Iterator[list[tune.Trial]]],
    monkeypatch: pytest.MonkeyPatch,
):
    measured, path = [], tmp_path / "t.json"
    true = cli_tune.times

    def broken(*arguments: Any) -> Any:
        if len(measured) == 1:
            raise KeyboardInterrupt
        measured.append(true(*arguments))
        return measured[-1]

    monkeypatch.setattr(cli_tune, "times", broken)
    result = gen("tune", folder, "--out", path)
    kept = load(path).measured
    assert (result.exit_code, result.stderr) == (130, "gen: interrupted\n")
    assert 0 < sum(map(len, kept.values())) < sum(map(len, load(tuned[1]).measured.values()))

    monkeypatch.setattr(cli_tune, "times", true)
    monkeypatch.setattr(tune, "groups", by_two)
    seen: list[tune.Trial] = []
    monkeypatch.setattr(
        tune, "image", lambda group, board, make=tune.image: (seen.extend(group), make(group, board))[1]
    )
    result = gen("tune", folder, "--out", path)
    assert result.exit_code == 0
    assert not any(trial.kernel.name in kept.get(trial.layer.key, {}) for trial in seen)
    assert {key: set(times) for key, times in load(path).measured.items()} == {
        key: set(times) for key, times in load(tuned[1]).measured.items()
    }
    assert load(path).kernels == load(tuned[1]).kernels


@needs_qemu
def test_a_killed_run_leaves_a_whole_file(folder: Path, tmp_path: Path):
    """Killed while it writes nothing: the file is there after the first of three images."""
    path = tmp_path / "t.json"
    code = """
import sys
from shoehorn_mcu.firmware import tune
from shoehorn_mcu.__main__ import main
tune.groups = lambda of, board: ([each] for each in of)
main()
"""
    command = [sys.executable, "-c", code, "tune", str(folder), "--out", str(path)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 120
        while not path.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)

    assert sum(map(len, load(path).measured.values())) >= 1
    assert HEADER in json.loads(path.read_text())


@needs_qemu
def test_a_board_unplugged_in_the_middle_is_one_line_and_what_was_measured_is_kept(
    gen: Gen, folder: Path, tmp_path: Path, by_two: object, monkeypatch: pytest.MonkeyPatch
):
    """The board is an emulator behind a serial port; the emulator is ended while the second image runs."""
    path, flashed = tmp_path / "t.json", []
    true = trials.time_ops
    with ExitStack() as boards:

        def flash(project: Project, port: str | None, mount: str | None, dry_run: bool) -> list[str]:
            flashed.append(boards.enter_context(emulate(project)))
            return []

        def time_ops(*arguments: Any) -> Any:
            if len(flashed) == 2:
                flashed[-1].process.kill()
                flashed[-1].process.wait()
            return true(*arguments)

        monkeypatch.setattr(trials, "flash", flash)
        monkeypatch.setattr(trials, "time_ops", time_ops)
        monkeypatch.setattr(session, "find", lambda port: flashed[-1].url)
        result = gen("tune", folder, "--port", "p", "--out", path, "--json")
    error = json.loads(result.stdout)["error"]

    assert (result.exit_code, error["kind"]) == (1, "tuning-stopped")
    assert "candidates are measured and kept in" in error["message"]
    assert len(result.stderr.splitlines()) == 1
    assert load(path).origin.transport == "serial"  # type: ignore[union-attr]
    assert sum(map(len, load(path).measured.values())) > 0


@needs_qemu
def test_an_image_that_the_linker_finds_too_large_is_halved_and_a_kernel_too_large_alone_is_left_out(
    gen: Gen, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    sizes: list[int] = []
    large: list[tune.Trial] = []

    def run(_: object, group: list[tune.Trial], __: Path) -> dict[str, dict[str, float]]:
        sizes.append(len(group))
        large.extend(group[: 1 - len(large)])
        if len(group) > 3 or large[0] in group:
            raise MemoryTooSmall("the image needs 9 bytes, the flash has 8", 9, 8)
        found: dict[str, dict[str, float]] = {}
        for trial in group:
            found.setdefault(trial.layer.key, {})[trial.kernel.name] = 5.0
        return found

    monkeypatch.setattr(cli_tune, "_run", run)
    path = tmp_path / "t.json"
    result = gen("tune", folder, "--out", path)

    assert result.exit_code == 0, result.output
    measured = [name for times in load(path).measured.values() for name in times]  # type: ignore[union-attr]
    kernel = large[0].kernel.name
    assert max(sizes) > 3 and 1 in sizes
    assert result.stderr.count(f"note: {kernel} is not measured: the image needs 9 bytes, the flash has 8") == 1
    assert len(measured) == max(sizes) - 1 and kernel not in load(path).measured[large[0].layer.key]  # type: ignore[union-attr]


@needs_qemu
def test_a_board_that_fails_before_the_first_image_is_the_error_itself(
    gen: Gen, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def run(*_: object) -> None:
        raise HostError("no board answers")

    monkeypatch.setattr(cli_tune, "_run", run)
    result = gen("tune", folder, "--out", tmp_path / "t.json")

    assert (result.exit_code, result.stderr) == (1, "gen: no board answers\n")


# Files.


@needs_qemu
@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("model_sha256", "0" * 64, "another model ('digits')"),
        ("board", "mps2-an505", "another board ('mps2-an505')"),
        ("version", "0.0.1", "Shoehorn 0.0.1, this is"),
    ],
)
def test_a_file_of_something_else_is_ignored_with_one_line(
    gen: Gen, folder: Path, tuned: tuple[Json, Path], tmp_path: Path, field: str, value: str, words: str
):
    def change(found: Json) -> None:
        found[HEADER][field] = value
        found |= {key: "conv2d_s8_c" for key in found if key.startswith("conv2d_s8")}

    path = edited(tuned[1], tmp_path / "other.json", change)
    result = gen("firmware", "--board", BOARD, "--out", tmp_path / "made", "--tuning", path)
    identities = [json.loads((each / "plan.json").read_text())["identity"] for each in (folder, tmp_path / "made")]

    assert result.exit_code == 0
    assert result.stderr.startswith(f"note: {path}: ignored; it was measured with {words}")
    assert len(result.stderr.splitlines()) == 1
    assert identities[0] == identities[1]

    refused = gen("tune", folder, "--out", path)
    assert refused.exit_code == 1 and refused.stderr.startswith(f"gen: {path}: was measured with {words}")
    assert "name another with --out" in refused.stderr and len(refused.stderr.splitlines()) == 1


def test_without_a_board_a_tuning_of_its_core_fits():
    origin = Origin(__version__, "net", "abc", "nucleo", "cortex-m4f", "serial", "cycles")

    assert origin.differs("abc", None, "cortex-m4f") == origin.differs("abc", "nucleo", "cortex-m4f") == ""
    assert origin.differs("abc", None, "cortex-m0") == "another core ('cortex-m4f')"
    assert origin.differs("abc", "disco", "cortex-m4f") == "another board ('nucleo')"


@needs_qemu
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda found: found[HEADER].pop("version"), "'shoehorn' has no version"),
        (lambda found: found[HEADER].pop("unit"), "'shoehorn' is not as gen tune writes it"),
        (lambda found: found[HEADER].update(measured=[]), "'shoehorn' is not as gen tune writes it"),
        (lambda found: found[HEADER].update(measured={"conv2d_s8 a=1": {"conv2d_s8_c": "x"}}), "'shoehorn' is not"),
        (
            lambda found: found[HEADER]["measured"].update({"conv2d_s8 a": {"conv2d_s8_x": 1}}),
            "no kernel 'conv2d_s8_x'",
        ),
        (lambda found: found.update({"conv2d_s8 a=1": "conv2d_s8_turbo"}), "no kernel 'conv2d_s8_turbo'"),
        (lambda found: found.update(shoehorn=3), "'shoehorn' has no version"),
    ],
)
def test_a_damaged_file_is_refused_in_one_line(
    gen: Gen, folder: Path, tuned: tuple[Json, Path], tmp_path: Path, change: Callable[[Json], object], words: str
):
    path = edited(tuned[1], tmp_path / "bad.json", change)
    for result in (gen("plan", MODELS / "digits.tflite", "--tuning", path), gen("tune", folder, "--out", path)):
        assert result.exit_code == 1 and words in result.stderr
        assert len(result.stderr.splitlines()) == 1


@needs_qemu
def test_a_file_cut_in_half_is_refused_in_one_line(gen: Gen, folder: Path, tuned: tuple[Json, Path], tmp_path: Path):
    path, text = tmp_path / "half.json", tuned[1].read_text()
    path.write_text(text[: len(text) // 2])
    for result in (gen("plan", MODELS / "digits.tflite", "--tuning", path), gen("tune", folder, "--out", path)):
        assert result.exit_code == 1 and result.stderr.startswith(f"gen: {path}: not JSON: ")
        assert len(result.stderr.splitlines()) == 1


def test_a_file_written_by_hand_is_not_replaced(gen: Gen, folder: Path, tmp_path: Path):
    path = tmp_path / "mine.json"
    path.write_text("{}")
    result = gen("tune", folder, "--out", path)

    assert result.exit_code == 1 and "was not written by gen tune" in result.stderr
    assert path.read_text() == "{}"


def test_wrong_folders_are_one_line(gen: Gen, folder: Path, tmp_path: Path):
    def refusal(change: Callable[[Path], object]) -> str:
        copy = tmp_path / "copy"
        shutil.copytree(folder, copy)
        change(copy)
        result = gen("tune", copy, "--out", tmp_path / "t.json")
        shutil.rmtree(copy)
        assert result.exit_code == 1 and len(result.stderr.splitlines()) == 1
        return result.stderr

    assert "model.json: No such file" in refusal(lambda copy: (copy / graph_file.NAME).unlink())
    assert "damaged: not as gen firmware wrote it" in refusal(lambda copy: (copy / graph_file.NAME).write_text("{}"))
    assert "not a Shoehorn folder" in refusal(lambda copy: (copy / "report.json").unlink())


def test_a_tuned_kernel_that_exceeds_the_flash_gives_way():
    board = targets.board(BOARD)
    planned = build.plan_model(MODELS / "digits.tflite", board, Options())
    nodes = [stage.node for stage in planned.unit.stages]
    key = contract_of(nodes[0]).key(nodes[0])
    tuning = {key: candidates(nodes[0], board.cpu.isas)[-1].name}
    roomy = within_flash(nodes[:1], Core(board.spec.cpu, board.cpu.isas, 1 << 20, tuning))
    tight = within_flash(nodes[:1], Core(board.spec.cpu, board.cpu.isas, 1, tuning))

    assert choose(nodes[0], roomy).name == tuning[key]
    assert choose(nodes[0], tight).name != tuning[key]


# Images and the graph's file.


def _said(op: Op) -> tuple[type, dict[str, object]]:
    """An op's class and fields, and those of an op in it."""
    return type(op), {name: _said(each) if isinstance(each, Op) else each for name, each in vars(op).items()}


@pytest.mark.parametrize("op_class", ops.OPS, ids=lambda each: each.__name__)
def test_a_graph_is_read_as_it_was_written(op_class: type, tmp_path: Path):
    graph = sample(op_class, np.random.default_rng(1))
    for path, data in reference_files(graph, "made", "abc").items():
        (tmp_path / "reference").mkdir(exist_ok=True)
        (tmp_path / "reference" / path).write_bytes(data if isinstance(data, bytes) else data.encode())
    found = graph_file.load(tmp_path)

    assert found.sha256 == "abc"
    assert (found.graph.name, found.graph.inputs, found.graph.outputs) == (graph.name, graph.inputs, graph.outputs)
    assert [*map(_said, found.graph.ops)] == [*map(_said, graph.ops)]
    for name, tensor in found.graph.tensors.items():
        assert tensor.type == graph.tensors[name].type
        assert np.array_equal(tensor.data, graph.tensors[name].data)  # type: ignore[arg-type]


def test_a_graph_of_another_version_is_refused(folder: Path, tmp_path: Path):
    shutil.copytree(folder / "reference", tmp_path / "reference")
    path = tmp_path / graph_file.NAME
    found = json.loads(path.read_text())
    for change, words in (
        ({"generator": "0.0.1"}, "of Shoehorn 0.0.1, this is"),
        ({"format": 2}, "of Shoehorn"),
        ({"ops": [{"type": "Turbo"}]}, "damaged"),
        ({"tensors": {}}, "damaged|names tensors"),
    ):
        path.write_text(json.dumps({**found, **change}))
        with pytest.raises(Exception, match=words) as refusal:
            graph_file.load(tmp_path)
        assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("op_class", [each for each in ops.OPS if not each.view], ids=lambda each: each.__name__)
def test_each_op_can_be_measured(op_class: type):
    graph = sample(op_class, np.random.default_rng(2))
    board = targets.board("mps3-an547")
    layers = tune.layers(graph, board, {op.name: "" for op in graph.ops})
    group = [tune.Trial(layer, kernel) for layer in layers for kernel in layer.candidates]
    files = tune.image(group, board)
    planned = json.loads(files["plan.json"])["ops"]

    assert {op["name"]: op["kernel"] for op in planned if op["name"].startswith("trial_")} == {
        f"trial_{i}": trial.kernel.name for i, trial in enumerate(group)
    }


def measured_graph(group: list[tune.Trial], board: Board, folder: Path) -> Graph:
    """The graph of the image that runs these trials."""
    bundle.write(tune.image(group, board), folder)
    return graph_file.load(folder).graph


@pytest.mark.parametrize("op_class", [ops.Conv2d, ops.Quantize, ops.Reduce, ops.FilterBank, ops.Rescale])
def test_the_values_that_a_kernel_is_measured_with_are_spread_over_their_type(op_class: type, tmp_path: Path):
    """Those of 32 bits are far from its ends, so that no sum overflows."""
    graph = sample(op_class, np.random.default_rng(2))
    board = targets.board("mps3-an547")
    (layer,) = tune.layers(graph, board, {op.name: "" for op in graph.ops})
    (given, *_), tensors = (
        layer.measured.row_inputs,
        measured_graph([tune.Trial(layer, layer.candidates[0])], board, tmp_path).tensors,
    )
    (row,) = (tensors[name] for name in ("row_0_0", "x_0_0") if name in tensors and tensors[name].data is not None)
    assert row.data is not None and row.type.dtype is given.type.dtype
    assert row.type.shape[-2:] == given.type.shape[-2:]  # a row as wide as the model's, below which all is padding
    low, high = float(row.data.min()), float(row.data.max())
    if given.type.dtype is DType.FLOAT32:
        assert -5 < low < -0.5 < 0.5 < high < 5
    else:
        least, most = (float(np.clip(end, -(1 << 16), 1 << 16)) for end in given.type.dtype.limits)
        assert least <= low <= least + (most - least) / 4
        assert most - (most - least) / 4 <= high <= most


def tall_graph(rows: int) -> Graph:
    rng = np.random.default_rng(0)
    one = Quant((1.0,), (0,))
    w = (TensorType((8, 3, 3, 4), DType.INT8, one), rng.integers(-9, 9, (8, 3, 3, 4), np.int8))
    b = (TensorType((8,), DType.INT32, one), np.zeros(8, np.int32))
    shared = {"stride": (1, 1), "dilation": (1, 1), "padding": ops.Padding(1, 1, 1, 1)}
    return graph_of(ops.Conv2d, [int8((1, rows, 16, 4), one), w, b], int8((), Quant((9.0,), (0,))), **shared)


def tall(rows: int) -> Node:
    return next(tall_graph(rows).nodes())


@pytest.mark.parametrize("name", ["microbit", "mps2-an386"])
def test_a_layer_is_measured_in_four_fifths_of_the_ram_that_the_application_leaves(name: str) -> None:
    board = targets.board(name)
    rows = 64
    while 192 * rows <= 4 * board.arena_limit_bytes:
        rows *= 2
    (layer,) = tune.layers(tall_graph(rows), board, {"op": ""})

    kept = layer.measured.output.type.rows
    assert 192 * kept <= 0.8 * board.arena_limit_bytes < 192 * 2 * kept
    assert layer.rows == rows


def test_operands_of_two_heights_and_constants_are_measured_as_they_are() -> None:
    """A half of one of them would be another op."""
    rng, quant = np.random.default_rng(1), Quant((0.5,), (0,))
    kinds = [int8((1, 8, 4, 2), quant), int8((1, 1, 4, 2), quant)]
    held = (kinds[0], rng.integers(-9, 9, (1, 8, 4, 2), np.int8))
    for inputs in (kinds, [kinds[1], kinds[1]], [kinds[0], held]):
        made = graph_of(ops.Add, inputs, int8((), quant), clamp=ops.Clamp(-128, 127))
        node = next(made.nodes())
        assert tune.fitting(node, 1) is node
    both = next(graph_of(ops.Add, [kinds[0], kinds[0]], int8((), quant), clamp=ops.Clamp(-128, 127)).nodes())
    assert tune.fitting(both, 1).output.type.rows == 1


def test_a_layer_that_does_not_fit_is_measured_with_fewer_rows_and_the_same_kernels():
    node = tall(100)  # 64 bytes in and 128 out per row
    small = tune.fitting(node, 2600)

    assert (small.inputs[0].type.rows, small.output.type.rows) == (12, 12)
    assert contract_of(small).key(small) == contract_of(node).key(node)
    assert tune.fitting(node, 1 << 20) is node
    assert tune.fitting(node, 100).output.type.rows == 1  # as few as there can be


def test_a_layer_with_a_constant_that_is_read_by_rows_keeps_its_rows() -> None:
    rows = int8((1, 8, 4, 2), Quant((0.5,), (0,)))
    (node,) = graph_of(ops.Add, [rows, (rows, np.ones(rows.shape, np.int8))], rows).nodes()
    (other,) = graph_of(ops.Add, [rows, rows], rows).nodes()

    assert tune.fitting(node, 10) is node
    assert tune.fitting(other, 80).output.type.rows == 2


def test_images_are_as_few_as_the_flash_allows():
    board = targets.board("microbit")
    layer = tune.Layer("k", (tall(4),), (), "", tall(4))
    kernels = candidates(tall(4), board.cpu.isas)
    group = [tune.Trial(layer, kernel) for kernel in kernels] * 200
    found = list(tune.groups(group, board))

    assert [trial for each in found for trial in each] == group
    assert len(found) > 1
    assert list(tune.groups(group[:4], board)) == [group[:4]]


@pytest.mark.parametrize("constants", [False, True])
def test_an_image_is_filled_to_the_last_byte_of_flash_or_of_constants(
    constants: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = targets.board("microbit")
    taken = tune.flash.application_bytes(board.spec.cpu) + tune.flash.ERROR_BYTES
    room = 0.0 if constants else tune._FLASH_SHARE * (board.spec.flash_bytes - taken)
    part = tune._MOST_CONSTANTS // 30
    monkeypatch.setattr(tune, "_MOST_CONSTANTS", 30 * part)
    monkeypatch.setattr(tune, "_sizes", lambda of, _: (part * len(of) if constants else 0, room * len(of) / 30))
    monkeypatch.setattr(tune, "_FLASH_SHARE", 1e9 if constants else tune._FLASH_SHARE)
    layer = tune.Layer("k", (tall(4),), (), "", tall(4))
    trial = tune.Trial(layer, candidates(tall(4), board.cpu.isas)[0])

    assert [len(group) for group in tune.groups([trial] * 70, board)] == [30, 30, 10]


def test_a_board_that_counts_microseconds_has_predictions_in_them_by_its_clock() -> None:
    board = targets.board("netduinoplus2")  # a Cortex-M4 at 168 MHz
    node = tall(4)
    kernel = candidates(node, board.cpu.isas)[0]
    layer = tune.Layer("k", (node,), (kernel,), "", node)
    said = [cli_tune._predicted(layer, kernel, board, unit) for unit in ("cycles", "us")]

    assert cli_tune._predicted_unit(board, "us") == "us"
    assert said[1] == pytest.approx(said[0] / 168, rel=1e-3)


def test_a_tuning_is_a_text_of_a_line_for_each_layer_behind_its_header(tmp_path: Path) -> None:
    origin = Origin(__version__, "m", "0" * 64, "microbit", "cortex-m0", "serial", "microseconds")
    save(tmp_path / "t.json", Tuning({"a": "x", "b": "y"}, origin=origin))

    text = (tmp_path / "t.json").read_text()
    assert text.startswith('{\n "shoehorn": {\n  "format": 1,\n')
    assert text.endswith(' "a": "x",\n "b": "y"\n}\n')
    assert [path.name for path in tmp_path.iterdir()] == ["t.json"]


def test_constants_that_are_read_by_rows_count_as_constants_of_a_layer() -> None:
    board = targets.board("mps3-an547")
    for op_class in (ops.Add, ops.Concat, ops.Conv2d):
        graph = sample(op_class, np.random.default_rng(2))
        (layer,) = tune.layers(graph, board, {op.name: "" for op in graph.ops})
        for kernel in layer.candidates:
            first, *rest = layer.measured.inputs
            held = replace(first, data=np.ones(first.type.shape, first.type.dtype.numpy))
            fixed = replace(layer, measured=replace(layer.measured, inputs=(held, *rest)))
            assert held.data is not None
            more = tune.Trial(fixed, kernel).constant_bytes - tune.Trial(layer, kernel).constant_bytes
            assert more == held.data.nbytes > 0


def test_of_a_file_of_another_version_only_that_is_read(tmp_path: Path) -> None:
    """Its other entries may have another form; the same entries of this version are damaged."""
    path = tmp_path / "tuning.json"
    path.write_text(json.dumps({HEADER: {"version": "0.0.1", "measured": 7}}))
    found = load(path)
    assert found.origin is not None and found.origin.version == "0.0.1" and not found.measured
    path.write_text(json.dumps({HEADER: {"version": __version__, "measured": 7}}))
    with pytest.raises(TuningError, match="damaged: 'shoehorn' is not as gen tune writes it; measure again"):
        load(path)
