"""`gen firmware` and `gen plan`: reads arguments, calls build.py, prints."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from shoehorn_mcu.base.paths import MODELS
from shoehorn_mcu.cli.buffers import capacity_option, place_buffers
from shoehorn_mcu.cli.console import (
    Grouped,
    emit_json,
    err,
    grouped,
    out,
    output_options,
    path_option,
    print_notes,
    together,
)
from shoehorn_mcu.cli.graph import graph_options, plan_graph
from shoehorn_mcu.cli.options import Planning, planning_options, writing_options
from shoehorn_mcu.cli.page import page_options, points, print_curve, progress, shown_by_default, write_page
from shoehorn_mcu.cli.plan import print_plan, print_together
from shoehorn_mcu.emit import bundle
from shoehorn_mcu.emit.folder import energy as energies
from shoehorn_mcu.emit.folder import framework as frameworks
from shoehorn_mcu.emit.folder import mlperf
from shoehorn_mcu.emit.folder.project import refresh_models
from shoehorn_mcu.firmware import build, several
from shoehorn_mcu.firmware.options import TABLE, Group, PlanOptions, resolved

if TYPE_CHECKING:
    from shoehorn_mcu.machine.targets import Board
    from shoehorn_mcu.quantisation import Quantized


@click.command(cls=Grouped)
@click.argument("model", type=click.Path(path_type=Path), required=False)
@planning_options("board", required=True)
@path_option("-o", "--out", "folder", group=Group.OUTPUT, help="The folder to write. Default: ./<model>-<board>.")
@grouped(
    Group.OUTPUT,
    "--mlperf",
    "task",
    type=click.Choice(mlperf.CHOICES),
    default="auto",
    show_default=True,
    help="MLPerf Tiny task of the text protocol; auto: chosen by the model's shapes.",
)
@grouped(
    Group.OUTPUT,
    "--framework",
    type=click.Choice(frameworks.CHOICES),
    default=frameworks.NONE,
    show_default=True,
    help="Write a project of this framework for the vendor's own platform in PlatformIO, with a program that runs the "
    "model, instead of the firmware that `gen validate` and `gen bench` talk to.",
)
@grouped(
    Group.OUTPUT,
    "--energy",
    type=click.Choice(energies.CHOICES),
    default=energies.Energy.NONE.value,
    show_default=True,
    help="A firmware for an instrument: with marks for `gen bench --energy`, or in MLPerf's energy mode.",
)
@grouped(
    Group.OUTPUT,
    "--library-only",
    is_flag=True,
    help="Refresh lib/<model> and its descriptions in an existing folder, and leave every other file alone.",
)
@path_option(
    "--quantize",
    "data",
    group=Group.MODEL,
    metavar="X.npz|FOLDER",
    help="First quantise a float32 model with these samples, as `gen quantize` does.",
)
@grouped(
    Group.SEVERAL,
    "--concurrent",
    is_flag=True,
    help="Give each of several models an arena of its own, so that one may run while another does.",
)
@grouped(
    Group.SEVERAL,
    "--stream",
    "streamed",
    multiple=True,
    metavar="NAME",
    help="Of several models, stream the input of this one, as --stream-input does for all. Repeatable.",
)
@writing_options
@click.argument("more", nargs=-1, type=click.Path(path_type=Path), metavar="[MODEL3]...")
@output_options
def firmware(
    model: Path | None,
    folder: Path | None,
    task: str,
    framework: str,
    energy: str,
    library_only: bool,
    data: Path | None,
    concurrent: bool,
    streamed: tuple[str, ...],
    caller_arena: bool,
    force: bool,
    planning: Planning,
    more: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Plans MODEL for a board and writes a PlatformIO project; without MODEL, the shipped digits model.

    Several models become one firmware. They share the kernels, and an arena for the largest of them: one runs at a
    time. Options apply to all of them, --mlperf to the first.
    """
    if model is not None and planning.second is not None and not planning.pipeline:
        if data is not None:
            raise click.UsageError("--quantize is for one model; `gen quantize` writes each to a file")
        if framework != frameworks.NONE:
            raise click.UsageError("--framework is for one model")
        if energy != energies.Energy.NONE.value:
            raise click.UsageError("--energy is for one model; write a folder for each")
        models = [model, planning.second, *more]
        _write_several(models, planning, streamed, concurrent, task, folder, library_only, force, as_json)
        return
    if more:
        raise click.UsageError(f"--pipeline makes one model of two; '{more[0]}' is a third")
    if concurrent or streamed:
        raise click.UsageError("--concurrent and --stream are for several models; of one, use --stream-input")
    if framework != frameworks.NONE and library_only:
        raise click.UsageError("--library-only refreshes our own firmware; leave --framework or it out")
    if framework != frameworks.NONE and energy != energies.Energy.NONE.value:
        raise click.UsageError("--energy is of our own firmware; leave --framework or it out")
    board, options = resolved(planning.of_one(), caller_arena)
    assert board is not None  # click requires it
    source = model or MODELS / "digits.tflite"
    made: Quantized | None = None
    with ExitStack() as files_to_remove:
        if data is not None:
            from shoehorn_mcu.quantisation import Settings, quantized_file

            with progress("quantising") as say:
                given = Settings(shapes=options.shapes)
                source, made = files_to_remove.enter_context(quantized_file(source, data, given, say))
            options = replace(options, shapes={})  # the quantised file has them
        with progress("planning") as say:
            planned, files = build.firmware(source, board, options, task, say, framework, energies.Energy(energy))
    if made is not None:
        print_notes(made.notes)
    print_notes(planned.notes)
    folder = folder or Path(f"{planned.unit.name}-{board.id}")
    files = _put(files, folder, [planned.unit.name], planned.unit.cores, library_only, force)
    if made is not None:
        from shoehorn_mcu.cli.quantize import quantized_json, summary
    if as_json:
        emit_json({**planned.report, "quantization": quantized_json(made)} if made else planned.report)
        return
    print_plan(planned, board)
    if made is not None:
        out.say(summary(made))
    following = _validating(folder, board, planned.unit.cores)
    if framework != frameworks.NONE:
        following = ["pio", "run", "-d", str(folder)]
    out.say(f"wrote {folder}: {len(files)} files; next: {shlex.join(following)}")


def _put(
    files: bundle.Bundle, folder: Path, names: Sequence[str], cores: int, library_only: bool, force: bool
) -> bundle.Bundle:
    """Writes the folder, or refreshes the libraries of these models in it; the files that were written."""
    if library_only:
        return refresh_models(files, folder, names, cores, force)
    bundle.write(files, folder, force)
    return files


def _write_several(
    models: Sequence[Path],
    planning: Planning,
    streamed: Sequence[str],
    concurrent: bool,
    task: str,
    folder: Path | None,
    library_only: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Plans several models, writes their firmware's folder and prints what each takes, then the whole."""
    board, options = resolved(planning.of_each())
    assert board is not None  # click requires it
    chosen = several.streamed(models, options, streamed)
    with progress("planning") as say:
        together, files = several.firmware_of_several(chosen, board, task, concurrent, say)
    for planned in together.models:
        print_notes(planned.notes)
    folder = folder or Path("-".join((*together.names, board.id)))
    files = _put(files, folder, together.names, together.cores, library_only, force)
    if as_json:
        reports = [planned.report for planned in together.models]
        emit_json({**reports[0], "together": together.json(), "models": reports})
        return
    print_together(together)
    following = _validating(folder, board, together.cores)
    out.say(f"wrote {folder}: {len(files)} files; next: {shlex.join(following)}")


def _validating(folder: Path, board: Board, cores: int) -> list[str]:
    """The command that validates a written folder, in the board's emulator where that has so many cores."""
    emulator = board.spec.emulator
    emulates = emulator is not None and (cores == 1 or emulator.row.has_all_cores)
    return ["gen", "validate", str(folder), *(["--emulate"] if emulates else [])]


_MODEL_ONLY = (*TABLE, "html", "with_pareto")
"""Options of `gen plan` that do not apply to a bare graph or a list of buffers."""


def _first_given(ctx: click.Context) -> str:
    """The first option of _MODEL_ONLY that is on the command line, as written there, or ""."""
    given = (p for p in ctx.command.params if p.name in _MODEL_ONLY)
    written = (p.opts[0] for p in given if ctx.get_parameter_source(p.name or "") is ParameterSource.COMMANDLINE)
    return next(written, "")


_old_subjects = together(
    path_option("--graph", metavar="FILE", hidden=True),
    graph_options(old=True),
    path_option("--buffers", metavar="FILE", hidden=True),
    capacity_option(old=True),
)
"""Old spellings of `gen remat` and `gen pack`, which keep working."""


@click.command(cls=Grouped)
@click.argument("model", type=click.Path(path_type=Path), required=False)
@planning_options("board")
@page_options
@_old_subjects
@output_options
@click.pass_context
def plan(
    ctx: click.Context,
    model: Path | None,
    planning: Planning,
    html: Path | None,
    with_pareto: bool | None,
    graph: Path | None,
    budget: int | None,
    seconds: float | None,
    fixed_order: bool,
    buffers: Path | None,
    capacity: int | None,
    as_json: bool,
) -> None:
    """Plans the memory of MODEL and writes no firmware. Without --board the plan has portable kernels."""
    if graph is None and (budget is not None or seconds is not None or fixed_order):
        raise click.UsageError("--budget, --seconds and --fixed-order belong to `gen remat`; for a model use --sram")
    if buffers is None and capacity is not None:
        raise click.UsageError("--capacity belongs to `gen pack`; for a model use --sram")
    if sum(subject is not None for subject in (model, graph, buffers)) != 1:
        raise click.UsageError("give one MODEL")
    if model is None and (given := _first_given(ctx)):
        raise click.UsageError(f"{given} belongs to MODEL")
    if graph is not None:
        if budget is None:
            raise click.UsageError("--graph needs --budget BYTES")
        options = {"--budget": budget, "--seconds": seconds, "--fixed-order": fixed_order or None}
        _note_new_spelling("--graph", "remat", graph, options, as_json)
        plan_graph(graph, budget, seconds, fixed_order, as_json)
    elif buffers is not None:
        _note_new_spelling("--buffers", "pack", buffers, {"--capacity": capacity}, as_json)
        place_buffers(buffers, capacity, as_json)
    elif model is not None:
        _plan_model(model, planning.of_one(), html, with_pareto, as_json)


def _note_new_spelling(old: str, command: str, path: Path, options: Mapping[str, float | None], as_json: bool) -> None:
    """Prints the new spelling of the command on stderr."""
    words = ["gen", command, str(path)]
    for name, value in options.items():
        if value is not None:
            words += [name] if value is True else [name, f"{value:g}" if isinstance(value, float) else str(value)]
    words += ["--json"] if as_json else []
    err.say(f"note: `gen plan {old}` is now: {shlex.join(words)}")


def _plan_model(model: Path, chosen: PlanOptions, html: Path | None, with_pareto: bool | None, as_json: bool) -> None:
    """Plans a model, prints the plan, and writes the page with --html, by default with the curve if it shows a choice.

    The curve is printed only if asked for.
    """
    board, options = resolved(chosen)
    with progress("planning") as say:
        planned = build.plan_model(model, board, options, say)
        curve = points(planned, say) if with_pareto or (with_pareto is None and html is not None) else ()
    print_notes(planned.notes)
    if html is not None:
        write_page(planned, curve if with_pareto else shown_by_default(curve), html)
    if as_json:
        emit_json({**planned.report, "pareto": [vars(point) for point in curve]} if with_pareto else planned.report)
        return
    print_plan(planned, board)
    if curve and with_pareto:
        print_curve(curve, planned)
    if html is not None:
        out.say(f"wrote {html}")
