"""`gen tune`: measures the kernels that can compute each layer, on the board, and writes the fastest to a file."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from shoehorn_mcu.base.version import __version__
from shoehorn_mcu.cli.console import emit_json, err, figure, out, output_options, path_option, print_table
from shoehorn_mcu.cli.device import board_options, folder_argument, is_emulated
from shoehorn_mcu.cli.page import progress
from shoehorn_mcu.emit import bundle
from shoehorn_mcu.emit.folder import graph_file
from shoehorn_mcu.firmware import tune as trials
from shoehorn_mcu.firmware.tune import Layer, Trial
from shoehorn_mcu.kernels import Instance, cost, tuning
from shoehorn_mcu.kernels.tuning import Origin, Tuning
from shoehorn_mcu.machine import targets
from shoehorn_mcu.machine.targets import Board, Isa
from shoehorn_mcu_host.base.errors import HostError, MemoryTooSmall
from shoehorn_mcu_host.board.bench import MICROSECONDS
from shoehorn_mcu_host.board.trials import CYCLES, Place, times, unit_of
from shoehorn_mcu_host.folder.plan import Plan
from shoehorn_mcu_host.folder.project import Project

_RUNS = 3  # where the clock measures time; an emulator counts the same each time


class Stopped(HostError):
    """The board failed after some candidates were measured; they are kept."""

    kind = "tuning-stopped"


@dataclass(frozen=True, eq=False)
class _Job:
    """What one run of the command measures, and where its results are kept."""

    project: Project
    board: Board
    place: Place
    runs: int
    path: Path
    layers: Sequence[Layer]


@click.command()
@folder_argument
@board_options
@click.option("--mount", metavar="PATH", help="Where the board's drive or boot partition is mounted, for flashing.")
@click.option("--runs", type=click.IntRange(min=1), help=f"Inferences per image.  [default: {_RUNS}, 1 in QEMU]")
@path_option("-o", "--out", "path", help="The tuning file. Default: ./<model>-<board>.tuning.json.")
@output_options
def tune(
    folder: Path,
    port: str | None,
    emulated: bool,
    mount: str | None,
    runs: int | None,
    path: Path | None,
    as_json: bool,
) -> None:
    """Measures the kernels that can compute each layer of DIR on the board, and writes a file for --tuning.

    Candidates are measured in images of their own. Each image holds many candidates, and is built and flashed once. The
    file is saved after each image, so an interrupted run goes on where it stopped.
    """
    project = Project.open(folder)
    project.check_intact(graph_file.NAME, graph_file.CONSTANTS)
    place = Place(is_emulated(project, port, emulated), port, mount)
    job, begun = _prepared(project, place, runs, path)
    found = _measured(job, begun)
    said = _readout(job, found)
    if as_json:
        emit_json(said)
    else:
        _print(said, job)


def _prepared(project: Project, place: Place, runs: int | None, path: Path | None) -> tuple[_Job, Tuning]:
    """The job, and what an earlier run has measured of it."""
    source = graph_file.load(project.folder)
    board = targets.load_board(project.folder / "boards" / f"{project.board_id}.json")
    unit = unit_of(project, place)
    path = path or Path(f"{project.model_name}-{board.id}.tuning.json")
    origin = Origin(__version__, project.model_name, source.sha256, board.id, board.spec.cpu, place.transport, unit)
    begun = tuning.started(path, origin)
    chosen = {op.name: op.kernel for op in Plan.of(project).ops}
    runs = runs or (_RUNS if unit == MICROSECONDS.name else 1)
    return _Job(project, board, place, runs, path, trials.layers(source.graph, board, chosen)), begun


def _measured(job: _Job, known: Tuning) -> Tuning:
    """Measures what is not known, image by image, and saves it after each. Stopped: the board failed."""
    wanted = trials.trials(job.layers, known.measured)
    total = sum(len(layer.candidates) for layer in job.layers if len(layer.candidates) > 1)
    if len(wanted) < total:
        err.say(f"note: {total - len(wanted)} of {total} candidates were measured before: {job.path}")
    waiting = list(trials.groups(wanted, job.board))
    known = _decided(job, known)
    with tempfile.TemporaryDirectory(prefix="shoehorn-") as scratch, progress("measuring") as say:
        while waiting:
            group = waiting.pop(0)
            left = sum(map(len, waiting)) + len(group)
            say(f"{total - left} of {total} candidates")
            try:
                found = _run(job, group, Path(scratch) / "image")
            except MemoryTooSmall as refusal:
                if len(group) == 1:
                    err.say(f"note: {group[0].kernel.name} is not measured: {refusal}")
                else:
                    waiting[:0] = [group[: len(group) // 2], group[len(group) // 2 :]]
                continue
            except HostError as error:
                if left == total:
                    raise
                raise Stopped(
                    f"{error}; {total - left} of {total} candidates are measured and kept in {job.path}: "
                    "the same command goes on"
                ) from error
            known = _decided(job, tuning.with_times(known, found))
            tuning.save(job.path, known)
    if total:
        tuning.save(job.path, known)
    return known


def _run(job: _Job, group: Sequence[Trial], folder: Path) -> tuning.Measured:
    """The measured time per row of each trial of an image."""
    bundle.write(trials.image(group, job.board), folder)
    ops = times(Project.open(folder), job.place, job.runs, _flashed)
    found: dict[str, dict[str, float]] = {}
    for i, trial in enumerate(group):
        rows = trial.layer.measured.output.type.rows
        found.setdefault(trial.layer.key, {})[trial.kernel.name] = ops[f"trial_{i}"] / rows
    return found


def _flashed(project: Project) -> None:
    """Waits for the user where the image is on a card that has to be put into the board."""
    if project.spec["flash_tool"] == "boot-partition":
        click.pause("put the card into the board, power it, and press a key ...", err=True)


def _decided(job: _Job, known: Tuning) -> Tuning:
    """The tuning with the fastest kernel of each layer whose candidates are all measured."""
    best = {layer.key: _ranked(layer, known)[0] for layer in job.layers if _is_complete(layer, known)}
    return replace(known, kernels={**known.kernels, **best})


def _is_complete(layer: Layer, known: Tuning) -> bool:
    times_of = known.measured.get(layer.key, {})
    return len(layer.candidates) > 1 and all(kernel.name in times_of for kernel in layer.candidates)


def _ranked(layer: Layer, known: Tuning) -> list[str]:
    """The measured candidates, fastest first; of equally fast ones the folder's kernel."""
    times_of = known.measured.get(layer.key, {})
    names = [kernel.name for kernel in layer.candidates if kernel.name in times_of]
    return sorted(names, key=lambda name: (times_of[name], name != layer.chosen))


def _readout(job: _Job, known: Tuning) -> dict[str, Any]:
    """The object that `--json` prints. Times are those of one inference."""
    assert known.origin
    unit = _predicted_unit(job.board, known.origin.unit)
    shown = [_layer(job, each, known, unit) for each in job.layers if len(each.candidates) > 1 and _ranked(each, known)]
    whole = [each for each in shown if each["chosen"]["time"] is not None]
    return {
        "model": known.origin.model,
        "board": job.board.id,
        "transport": known.origin.transport,
        "unit": known.origin.unit,
        "predicted_unit": unit,
        "runs": job.runs,
        "file": str(job.path) if shown else None,
        "layers": shown,
        "untried": sum(len(layer.candidates) == 1 for layer in job.layers),
        "total": {name: _rounded(sum(each[name]["time"] for each in whole)) for name in _TOTALS},
    }


def _layer(job: _Job, layer: Layer, known: Tuning, unit: str) -> dict[str, Any]:
    """A layer of the readout; predictions are in `unit`."""
    names, measured = _ranked(layer, known), known.measured[layer.key]
    per_name = {name: _rounded(measured[name] * layer.rows) for name in names}
    predicted = {kernel.name: _predicted(layer, kernel, job.board, unit) for kernel in layer.candidates}
    best, worst, chosen = names[0], names[-1], per_name.get(layer.chosen)
    alike = [name for name in names if _isa(layer, name) is _isa(layer, best)]
    return {
        "ops": [node.op.name for node in layer.nodes],
        "key": layer.key,
        "worst": {"kernel": worst, "time": per_name[worst]},
        "best": {"kernel": best, "time": per_name[best]},
        "chosen": {"kernel": layer.chosen, "time": chosen, "predicted": predicted.get(layer.chosen)},
        "gain_percent": None if chosen is None else _percent(chosen - per_name[best], chosen),
        "worst_gain_percent": _percent(per_name[worst] - per_name[best], per_name[worst]),
        "worst_same_isa": {"kernel": alike[-1], "time": per_name[alike[-1]]} if len(alike) > 1 else None,
        "candidates": [{"kernel": n, "time": per_name[n], "predicted": predicted[n]} for n in names],
    }


def _isa(layer: Layer, name: str) -> Isa:
    """The instruction set of a candidate; most candidates of one instruction set differ in their tiles."""
    return next(kernel.variant.isa for kernel in layer.candidates if kernel.name == name)


def _predicted_unit(board: Board, unit: str) -> str:
    """The unit of predictions beside times in `unit`: the same where the cost model and the board's clock allow."""
    known = {each.value for each in cost.units(board.spec.cpu)}
    if unit in known or (unit == MICROSECONDS.name and CYCLES in known and board.spec.core_hz):
        return unit
    return cost.choice_unit(board.spec.cpu).value


def _predicted(layer: Layer, kernel: Instance, board: Board, unit: str) -> float:
    """The predicted time of a candidate in `_predicted_unit`."""
    if unit != MICROSECONDS.name:
        return _rounded(layer.predicted(kernel, board.spec.cpu, cost.Unit(unit)))
    return _rounded(layer.predicted(kernel, board.spec.cpu, cost.Unit.CYCLES) * 1e6 / (board.spec.core_hz or 1))


def _rounded(time: float) -> float:
    """Whole counts as they are, times with three digits."""
    return round(time) if time >= 1000 or time == round(time) else round(time, 3)


def _percent(saved: float, of: float) -> float:
    return round(100 * saved / of, 1) if of else 0.0


_TOTALS = ("worst", "chosen", "best")


def _print(said: Mapping[str, Any], job: _Job) -> None:
    """Prints the layers as a table, and what they need together."""
    unit, total = said["unit"], said["total"]
    if not said["layers"]:
        out.print(f"only one kernel computes each layer on {job.board.spec.cpu}: there is nothing to measure")
        return
    apart = f", predicted in {said['predicted_unit']}" if said["predicted_unit"] != unit else ""
    head = ("op", "worst", "", "best", "", "chosen", "predicted", "gain", "of worst", "same isa")
    rows = [_cells(each) for each in said["layers"]]
    title = f"{said['model']} on {job.board.name}: {unit} of one inference{apart}"
    print_table(head, rows, title=title, right=(2, 4, 5, 6, 7, 8, 9), fold=0, spare=6)
    for layer in said["layers"]:
        best, chosen = (_short(layer[name]["kernel"], layer) for name in ("best", "chosen"))
        if best != chosen:
            out.say(f"{_named(layer)}: {best} instead of {chosen}")
    if said["untried"]:
        out.say(f"only one kernel computes each of {said['untried']} other layers")
    figures = ", ".join(f"{name} {figure(total[name])}" for name in _TOTALS)
    gain = _percent(total["chosen"] - total["best"], total["chosen"])
    out.say(f"together: {figures} {unit}; the best need {gain} % less than the chosen")
    following = ["gen", "firmware", "MODEL", "--board", said["board"], "--tuning", said["file"]]
    out.say(f"wrote {said['file']}; next: {shlex.join(following)}")


def _cells(layer: Mapping[str, Any]) -> tuple[str, ...]:
    """The line of a layer."""
    extremes, alike = (layer[name] for name in ("worst", "best")), layer["worst_same_isa"]
    return (
        _named(layer),
        *(cell for each in extremes for cell in (_short(each["kernel"], layer), figure(each["time"]))),
        figure(layer["chosen"]["time"]),
        figure(layer["chosen"]["predicted"]),
        _share(layer["gain_percent"]),
        _share(layer["worst_gain_percent"]),
        _share(_percent(alike["time"] - layer["best"]["time"], alike["time"]) if alike else None),
    )


def _named(layer: Mapping[str, Any]) -> str:
    """The first op of a layer, and how many there are."""
    first, others = layer["ops"][0], len(layer["ops"]) - 1
    return f"{first} and {others} more" if others else first


def _short(kernel: str, layer: Mapping[str, Any]) -> str:
    """The kernel without its contract."""
    return kernel.removeprefix(layer["key"].partition(" ")[0] + "_")


def _share(percent: float | None) -> str:
    return "" if percent is None else f"{percent} %"
