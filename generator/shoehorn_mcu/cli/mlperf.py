"""`gen mlperf`: builds the benchmarks of MLPerf Tiny for a board, runs them, and writes a submission's folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click

from shoehorn_mcu.base.errors import ShoehornError, printable
from shoehorn_mcu.cli.console import emit_json, err, figure, out, output_options, path_option, print_table
from shoehorn_mcu.emit import bundle
from shoehorn_mcu.firmware import build
from shoehorn_mcu.firmware.options import PlanOptions, resolved
from shoehorn_mcu.machine.targets import Board
from shoehorn_mcu_host.base.errors import HostError
from shoehorn_mcu_host.base.tasks import BY_ID, TASKS, Metric, Task
from shoehorn_mcu_host.board import session as boards
from shoehorn_mcu_host.board.emulate import emulate
from shoehorn_mcu_host.board.ports import Port, find
from shoehorn_mcu_host.firmware.build import build as build_image
from shoehorn_mcu_host.folder.project import Project
from shoehorn_mcu_host.mlperf import data, modes, sound, submission
from shoehorn_mcu_host.mlperf.device import Device, Inference
from shoehorn_mcu_host.mlperf.score import Detections
from shoehorn_mcu_host.mlperf.session import Session

_EMULATED = modes.Windows(iterations=1, warmups=0, seconds=0.0)
"""An emulator's clock counts instructions, of which each inference has as many as the one before."""
_PATIENCE = 120.0  # of emulators


@dataclass
class _Row:
    """A benchmark in the table, as far as it came."""

    task: str
    model: str = ""
    flash_bytes: int | None = None
    ram_bytes: int | None = None
    stack_bytes: int | None = None
    samples: int | None = None
    accuracy: Any = None
    meets: bool | None = None
    throughput: float | None = None
    per_inference: float | None = None
    unit: str = ""
    invalid: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Asked:
    """What a run needs to know."""

    board: Board
    folder: Path
    org: str
    data: Path | None
    samples: int | None
    port: str | None
    emulated: bool


@click.command()
@click.option("--board", "board_id", required=True, metavar="BOARD", help="The board; `gen boards` lists them.")
@path_option(
    "--models",
    metavar="DIR",
    required=True,
    help="The folder of the models: kws01.tflite and so on, or the reference models by their own names.",
)
@path_option(
    "--data",
    "data_folder",
    metavar="DIR",
    help="The public runner's data: a folder for each benchmark, such as kws01, with y_labels.csv and its files.",
)
@path_option("-o", "--out", "folder", help="The folder to write. Default: ./mlperf-<board>.")
@click.option("--org", default="organisation", show_default=True, help="The submitter, as its folder is called.")
@click.option(
    "--task",
    "tasks",
    multiple=True,
    type=click.Choice([task.id for task in TASKS]),
    help="Only this benchmark. Repeatable. Default: all six.",
)
@click.option(
    "--samples",
    type=click.IntRange(min=1),
    metavar="N",
    help="Measure accuracy on N samples, evenly spaced, in place of all: for an emulator, which is slow.",
)
@click.option("--port", metavar="P", help="Measure the board at this serial port or URL, with --task's firmware on it.")
@click.option("--emulate", "emulated", is_flag=True, help="Measure in the board's emulator.")
@output_options
def mlperf(
    board_id: str,
    models: Path,
    data_folder: Path | None,
    folder: Path | None,
    org: str,
    tasks: tuple[str, ...],
    samples: int | None,
    port: str | None,
    emulated: bool,
    as_json: bool,
) -> None:
    """Builds MLPerf Tiny's benchmarks for a board and writes a submission's folder; with --emulate or --port runs them.

    Over a port one benchmark is measured at a time: flash its firmware, and name it with --task. A model that does not
    fit the board is a line of the table, and the others are written.
    """
    if port and emulated:
        raise click.UsageError("--port and --emulate exclude each other")
    chosen = [BY_ID[name] for name in dict.fromkeys(tasks)] or list(TASKS)
    if port and len(chosen) != 1:
        raise click.UsageError("--port measures the firmware that is on the board: name its benchmark with --task")
    if port and samples:
        raise click.UsageError("--samples is for an emulator; accuracy on a board counts over all samples")
    board, _ = resolved(PlanOptions(board=board_id))
    assert board is not None
    if not models.is_dir():
        raise HostError(f"{models}: no such folder; it holds the models, such as kws01.tflite")
    org = submission.checked_org(org)
    folder = folder or Path(f"mlperf-{board.id}")
    asked = _Asked(board, folder, org, data_folder, samples, port, emulated)
    with err.status("building") as status:
        rows = [_benchmark(asked, task, models, lambda line: status.update(printable(line))) for task in chosen]
    if not any(row.flash_bytes for row in rows):
        raise HostError(f"{board.id}: no benchmark was built; {'; '.join(fault for r in rows for fault in r.faults)}")
    missing = [f"{row.task}: {fault}" for row in rows for fault in row.faults]
    _write(folder / "TODO.md", submission.todo(org, board.id, missing))
    _report(asked, rows, as_json)
    if any(row.faults and row.flash_bytes for row in rows):
        click.get_current_context().exit(1)


def _report(asked: _Asked, rows: Sequence[_Row], as_json: bool) -> None:
    found = {"board": asked.board.id, "emulated": asked.emulated, "benchmarks": [asdict(row) for row in rows]}
    _write(asked.folder / "table.json", json.dumps(found, indent=1) + "\n")
    if as_json:
        emit_json(found)
        return
    head = ("benchmark", "flash", "RAM", "accuracy", "samples", "inf./sec.", "per inference")
    lines = []
    for row in rows:
        each = "" if row.per_inference is None else f"{row.per_inference:,.0f} {row.unit}"
        sizes, speed = map(figure, (row.flash_bytes, row.ram_bytes)), figure(row.throughput, ",.3f")
        lines.append((row.task, *sizes, _accuracy_of(row), f"{row.samples or ''}", speed, each))
    print_table(head, lines, right=(1, 2, 4, 5, 6))
    for row in rows:
        for line in (*row.faults, *(() if asked.emulated else row.invalid)):
            out.say(f"{row.task}: {printable(line)}")
    if asked.emulated:
        said = "windows are single inferences, and no figure is a result of hardware; the logs are in"
        out.say(f"emulated: {said} {submission.NOT_RESULTS}/")
    out.say(f"wrote {asked.folder}; next: read {asked.folder / 'TODO.md'}")


def _accuracy_of(row: _Row) -> str:
    if isinstance(row.accuracy, dict):
        return "{heard} heard, {missed} missed, {false} false".format(**row.accuracy)
    return "" if row.accuracy is None else f"{row.accuracy:.3f}" if row.accuracy <= 1 else f"{row.accuracy:.1f} %"


def _write(path: Path, content: str | bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise HostError(f"{path}: cannot be written ({error.strerror})") from error


def _benchmark(asked: _Asked, task: Task, models: Path, tell: Callable[[str], None]) -> _Row:
    """Builds a benchmark and runs it as asked; what went wrong is in the row."""
    row = _Row(task.id)
    try:
        tell(f"{task.id}: building")
        project = _built(asked, task, models, row)
        if asked.emulated or asked.port is not None:
            inputs = _inputs(asked, task)
            with _device(asked, project, task, "performance", counted=True) as (device, session):
                windows = _EMULATED if asked.emulated else modes.Windows()
                found = modes.performance(device, task, inputs, session, windows, tell)
            row.throughput, row.invalid = found.throughput, list(found.invalid)
            _count(asked, project, row, found.windows)
            _accuracy(asked, project, task, row, tell)
    except ShoehornError as error:
        row.faults.append(str(error))
    return row


def _model(models: Path, task: Task) -> Path:
    names = (f"{task.id}.tflite", *task.files)
    path = next((models / name for name in names if (models / name).is_file()), None)
    if path is None:
        raise HostError(f"{models}: has no model for {task.id}; put {names[0]} or {names[1]} there")
    return path


def _built(asked: _Asked, task: Task, models: Path, row: _Row) -> Project:
    """The project, written, built and copied into the submission."""
    source = _model(models, task)
    row.model = source.name
    _, options = resolved(PlanOptions(board=str(asked.board.path)))
    planned, files = build.firmware(source, asked.board, options, task.id)
    folder = asked.folder / submission.PROJECTS / task.short
    bundle.write(files, folder)
    result = build_image(Project.open(folder))
    row.flash_bytes, row.ram_bytes, row.stack_bytes = result.flash_bytes, result.ram_bytes, result.stack_bytes
    project = Project.open(folder)
    home = submission.home(asked.folder, asked.org)
    code = home / "code" / task.short
    for path, content in submission.sources(files):
        _write(code / "firmware" / path, content)
    for image in {project.elf, project.image}:
        _write(code / "image" / image.name, image.read_bytes())
    about = f"`{source.name}` (SHA-256 {planned.unit.source_sha256})"
    _write(code / "README.md", submission.benchmark_readme(task, asked.board.id, about, result))
    manifest = json.loads(asked.board.path.read_text())
    _write(home / "systems" / f"{asked.board.id}.json", submission.system_json(asked.org, asked.board.id, manifest))
    _write(home / "results" / "README.md", submission.RESULTS_README)
    return project


@contextmanager
def _device(asked: _Asked, project: Project, task: Task, mode: str, counted: bool) -> Iterator[tuple[Device, Session]]:
    """The device, and the session that hears it. A board that no hardware is stays an emulator behind a port, too."""
    emulator = project.spec["emulator"]["program"] if asked.emulated or boards.is_emulated(project, None, False) else ""
    folder = submission.run_folder(asked.folder, asked.org, asked.board.id, task, mode, bool(emulator))
    if not asked.emulated:
        with Session(folder, emulator) as session, Device(Port(find(asked.port)), session.say) as device:
            yield device, session
        return
    with emulate(project, counted) as machine, Session(folder, emulator) as session:
        try:
            with Device(Port(machine.url), session.say, _PATIENCE) as device:
                yield device, session
        except HostError as error:
            raise HostError(machine.fault() or str(error)) from error


def _place(asked: _Asked, task: Task) -> Path | None:
    """The benchmark's data, where there is a folder of it."""
    if asked.data is None or (asked.emulated and not (asked.data / task.data).exists()):
        return None
    return asked.data / task.data


def _inputs(asked: _Asked, task: Task) -> Sequence[data.Input]:
    """What performance is measured with: the first of the data, or in an emulator without data made-up bytes."""
    place = _place(asked, task)
    if place is None:
        if not asked.emulated:
            raise HostError(f"{task.id}: a run on a board needs the runner's data; name its folder with --data")
        return [data.made_up(task)]
    if task.metric is Metric.DETECTIONS:
        return [data.Made(each.name, next(each.chunks())) for each in sound.sounds(place)]
    return data.samples(place, task)[: modes.Windows().loops]


def _accuracy(asked: _Asked, project: Project, task: Task, row: _Row, tell: Callable[[str], None]) -> None:
    place = _place(asked, task)
    if place is None:
        return
    with _device(asked, project, task, "accuracy", counted=False) as (device, session):
        if task.metric is Metric.DETECTIONS:
            found = modes.hearing(device, task, sound.sounds(place), session, tell)
        else:
            every = data.samples(place, task)
            count = min(asked.samples or len(every), len(every))
            chosen = [every[i * len(every) // count] for i in range(count)]
            found = modes.accuracy(device, task, chosen, session, tell)
    row.samples, row.meets = found.samples, found.meets
    row.accuracy = asdict(found.figure) if isinstance(found.figure, Detections) else found.figure


def _count(asked: _Asked, project: Project, row: _Row, windows: Sequence[Inference]) -> None:
    """What the clock counted for an inference, in its own unit."""
    unit = boards.clock_unit(project, asked.emulated)
    hz = project.spec["tick_hz"]
    counts = [unit.convert(round(each.elapsed_us * hz / 1e6), hz) / each.iterations for each in windows]
    row.per_inference, row.unit = sorted(counts)[len(counts) // 2], unit.name
