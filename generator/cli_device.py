"""`gen flash`, `emulate`, `bench` and `validate`: reads arguments, calls the host tools, prints."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from shoehorn_mcu.console import emit_json, err, is_verbose, out, output_options, print_table, together
from shoehorn_mcu.host_tools import samples, session, vectors
from shoehorn_mcu.host_tools.accuracy import Accuracy
from shoehorn_mcu.host_tools.bench import Timing as Bench
from shoehorn_mcu.host_tools.bench import bench as time_inferences
from shoehorn_mcu.host_tools.bench import bytes_to_move
from shoehorn_mcu.host_tools.build import ensure_built
from shoehorn_mcu.host_tools.cores import CoreMeter, metered
from shoehorn_mcu.host_tools.cycles import Meter, NoMeter
from shoehorn_mcu.host_tools.emulate import emulate as start_emulator
from shoehorn_mcu.host_tools.errors import HostError
from shoehorn_mcu.host_tools.flash import flash as write_flash
from shoehorn_mcu.host_tools.link import Link
from shoehorn_mcu.host_tools.plan import Plan
from shoehorn_mcu.host_tools.project import Project
from shoehorn_mcu.host_tools.validate import Validation, precise_of, reference_of
from shoehorn_mcu.host_tools.validate import validate as compare

_COUNT, _SEED = 10, 0
_MOST_CLASSES = 12  # of a table of confusions, and lines of the most frequent ones

folder_argument = click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))


board_options = together(
    click.option("--port", metavar="P", help="The board's serial port or URL. Default: the only one there is."),
    click.option("--emulate", "emulated", is_flag=True, help="Boot the image in the board's emulator."),
)
"""The options that say where the board is."""


def ensure_image(project: Project) -> None:
    """Builds the folder where its image is not there or older than a source."""
    with err.status(Text(f"building {project.folder.name}")):
        result = ensure_built(project)
    if result is None:
        return
    for line in (*result.warnings, *(result.notes if is_verbose() else ())):
        err.print(f"note: {line}", soft_wrap=True)


def is_emulated(project: Project, port: str | None, emulated: bool) -> bool:
    """Whether to use the emulator; boards that exist only as emulators need no --emulate."""
    if port and emulated:
        raise click.UsageError("--port and --emulate exclude each other")
    return session.is_emulated(project, port, emulated)


@contextmanager
def _timed(
    project: Project, plan: Plan, port: str | None, emulated: bool
) -> Iterator[tuple[Link, Meter | CoreMeter | NoMeter]]:
    """The board, in frame mode; an emulator counts instructions, and cycles where the meter does."""
    if emulated:
        ensure_image(project)
    with (
        metered(project, emulated, plan.cores) as meter,
        session.connected(project, plan, port, emulated, True, meter.arguments) as link,
    ):
        yield link, meter


@contextmanager
def _bar(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr that counts transferred bytes and disappears at the end."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    quiet = not err.is_terminal
    with Progress(*columns, TimeRemainingColumn(), console=err, transient=True, disable=quiet) as progress:
        task = progress.add_task(what, total=total)
        yield lambda count: progress.advance(task, count)


@click.command()
@folder_argument
@click.option("--port", metavar="P", help="Probe's id, or where the board's drive or boot partition is mounted.")
@click.option("--mount", metavar="PATH", help="Where the board's drive or boot partition is mounted.")
@click.option("--dry-run", is_flag=True, help="Print the exact commands and run none.")
@output_options
def flash(folder: Path, port: str | None, mount: str | None, dry_run: bool, as_json: bool) -> None:
    """Builds DIR and writes it to the board; an emulated board is booted once instead."""
    project = Project.open(folder)
    with err.status("flashing"):
        commands = write_flash(project, port, mount, dry_run)
    if as_json:
        emit_json({"board": project.board_id, "flashed": not dry_run, "commands": list(commands)})
    elif dry_run:
        for command in commands:
            click.echo(command)
    else:
        following = ["gen", "validate", str(folder)]
        out.print(
            f"flashed {project.folder.name} onto {project.board_id}; next: {shlex.join(following)}", soft_wrap=True
        )


@click.command()
@folder_argument
@output_options
def emulate(folder: Path, as_json: bool) -> None:
    """Boots DIR in the board's emulator, prints the URL of its serial port, and stays until Ctrl-C."""
    project = Project.open(folder)
    ensure_image(project)
    with start_emulator(project) as machine:
        if as_json:
            emit_json({"board": project.board_id, "url": machine.url})
        else:
            click.echo(machine.url)
        err.print("running; Ctrl-C ends it")
        while (fault := machine.fault()) is None:
            time.sleep(0.1)
        raise HostError(fault)


@click.command()
@folder_argument
@board_options
@click.option("--runs", type=click.IntRange(min=1), default=3, show_default=True, help="Inferences to time.")
@output_options
def bench(folder: Path, port: str | None, emulated: bool, runs: int, as_json: bool) -> None:
    """Times whole inferences and each op on the board."""
    project = Project.open(folder)
    plan = Plan.of(project)
    emulated = is_emulated(project, port, emulated)
    unit = session.clock_unit(project, emulated)
    (vector,) = vectors.random(project.folder, plan.inputs, 1, _SEED)
    total = bytes_to_move(plan, 2 * runs)
    with _timed(project, plan, port, emulated) as (link, meter), _bar("timing", total) as progress:
        timing = time_inferences(link, plan, vector, unit, runs, progress, meter)
    found = timing.json(project.board_id, "emulator" if emulated else "serial", project.spec["clock_name"])
    if as_json:
        emit_json(found)
    else:
        _print_timing(found, timing)


def _print_timing(found: dict[str, Any], timing: Bench) -> None:
    unit, total, cycles = found["unit"], found["total"], found["cycles"]
    whole = sum(op["median"] for op in found["ops"]) or 1
    rows = [
        (
            op["name"],
            op["kernel"].removeprefix("sh_"),
            f"{op['median']:,}",
            f"{100 * op['median'] / whole:.1f}",
            *([f"{op['cycles']:,}"] if cycles else []),
        )
        for op in found["ops"]
    ]
    print_table(("op", "kernel", unit, "%", *(["cycles"] if cycles else [])), rows, right=(2, 3, 4), fold=1)
    runs = "1 run" if found["runs"] == 1 else f"{found['runs']} runs"
    spread = f"{total['min']:,} to {total['max']:,} in {runs}"
    slowest = f"the slowest of {timing.cores.count} cores"
    clock = found["clock"]["name"] if timing.cores.instructions is None else slowest
    out.print(f"whole inference: {total['median']:,} {unit} ({spread}), by {clock}", soft_wrap=True)
    _print_cores(timing)
    if cycles:
        ms = f", {cycles['ms']:,} ms at {cycles['hz'] / 1e6:g} MHz" if cycles["hz"] else ""
        spread = f"{cycles['min']:,} to {cycles['max']:,}"
        out.print(f"estimated: {cycles['median']:,} cycles of {cycles['model']} ({spread}){ms}", soft_wrap=True)
    elif timing.no_cycles and timing.cores.count == 1:
        out.print(f"cycles: not estimated; {timing.no_cycles}", soft_wrap=True)
    out.print(f"stack: {timing.stack_used_bytes:,} of {timing.stack_bytes:,} bytes ever used")


def _print_cores(timing: Bench) -> None:
    """What each core did, where several share an inference."""
    if timing.cores.instructions is not None:
        each = ", ".join(f"{count:,}" for count in timing.cores.instructions)
        out.print(f"instructions of each core, without waiting: {each}", soft_wrap=True)
    elif timing.no_cycles and timing.cores.count > 1:
        said = f"those of all {timing.cores.count} cores together, with waiting"
        out.print(f"instructions: {said}; {timing.no_cycles}", soft_wrap=True)


@click.command()
@folder_argument
@board_options
@click.option(
    "--inputs",
    type=click.Path(path_type=Path),
    metavar="X",
    help="Vectors: an .npz file with an array per model input, a WAV file, or a folder of images or WAV files.",
)
@click.option(
    "--labels",
    type=click.Path(path_type=Path),
    metavar="Y",
    help="Classes: one integer per vector, .npz or .npy, or for a folder the names of its classes, one per line.",
)
@click.option(
    "--pixels",
    type=(float, float),
    metavar="BLACK WHITE",
    help="Values that the model takes for black and white pixels. Default: as its quantisation says.",
)
@click.option("--quantize", is_flag=True, help="Arrays of floats in X.npz are real values: quantise them.")
@click.option("--count", type=click.IntRange(min=1), help=f"Number of random vectors.  [default: {_COUNT}]")
@click.option("--seed", type=click.IntRange(min=0), help=f"Seed of the random vectors.  [default: {_SEED}]")
@click.option("--outputs", type=click.Path(path_type=Path), metavar="Z.npz", help="Write the board's outputs here.")
@output_options
@click.pass_context
def validate(
    ctx: click.Context,
    folder: Path,
    port: str | None,
    emulated: bool,
    inputs: Path | None,
    labels: Path | None,
    pixels: tuple[float, float] | None,
    quantize: bool,
    count: int | None,
    seed: int | None,
    outputs: Path | None,
    as_json: bool,
) -> None:
    """Compares the board with the reference, byte for byte and op by op.

    Names, shapes and types in X.npz and Z.npz are those of the model's file, NCHW for ONNX, whatever the firmware has.
    Values are stored values: int8 for an int8 model. Random vectors cover all stored values; random float32 inputs are
    uniform over the real values of the first quantised tensor.

    With labels it prints how often the board decides for the right class, beside the reference, and which classes are
    confused. Labels may also be in X.npz, as the array `labels` or `y`; a folder of samples has a folder per class.
    Images are resized to the model's size and need Pillow. WAV files are mono, 16 bits, and padded with silence; if the
    model keeps states, it takes each file piece by piece, and its last decision counts.
    """
    if inputs and (count is not None or seed is not None):
        raise click.UsageError("--inputs excludes --count and --seed")
    for option, given in (("--quantize", quantize), ("--labels", labels), ("--pixels", pixels)):
        if given and not inputs:
            raise click.UsageError(f"{option} says how to read --inputs")
    project = Project.open(folder)
    plan = Plan.of(project)
    emulated = is_emulated(project, port, emulated)
    chosen = samples.load(project.folder, plan, inputs, labels, quantize, pixels) if inputs else None
    wanted = len(chosen.vectors) if chosen else count or _COUNT
    source = chosen.vectors if chosen else vectors.random(project.folder, plan.inputs, wanted, seed or _SEED)
    reference, precise = reference_of(project, plan), precise_of(project)
    total = bytes_to_move(plan, wanted)
    if emulated:
        ensure_image(project)
    connection = session.connected(project, plan, port, emulated, False)
    with connection as link, _bar("validating", total) as progress:
        labelled, starts = (chosen.labels, chosen.starts) if chosen else (None, ())
        found = compare(link, plan, reference.run, source, progress, precise, reference.reset, labelled, starts)
    if inputs and found.precise:
        validated = {"inputs": inputs.name, "vectors": found.vectors, **asdict(found.precise)}
        project.report_as("float", {"mode": project.report.float_mode, "validated": validated})
    if outputs:
        vectors.to_npz(outputs, found.outputs)
    if as_json:
        emit_json(found.json("emulator" if emulated else "serial"))
    else:
        _print_validation(found, project)
    ctx.exit(1 if found.mismatched_vectors else 0)


def _print_validation(found: Validation, project: Project) -> None:
    where = f"{project.model_name} on {project.board_id}: {_vectors(found.vectors)} in {found.seconds:.1f} s"
    if found.mismatched_vectors == 0:
        out.print(f"{where}, every byte of every op equal to the reference", soft_wrap=True)
    else:
        verb = "differs" if found.mismatched_vectors == 1 else "differ"
        by = f"by up to {found.max_abs_diff}" if found.max_abs_diff else "inside the model, not in the outputs"
        bad = f"{found.mismatched_vectors} {verb} ({by}); first in op {found.first_bad_op}"
        out.print(f"{where}, {bad}", soft_wrap=True)
    if (far := found.precise) is not None:
        apart = f"by up to {far.max_abs_diff:.3g} ({far.max_ulp:,} units of the last place)"
        top1 = f"the same largest element in {far.same_top1} of {_vectors(found.vectors)}"
        out.print(f"outputs differ from precise float32 {apart}; {top1}", soft_wrap=True)
    if found.accuracy is not None:
        _print_accuracy(found.accuracy)
    if found.retries:
        frames = "1 frame" if found.retries == 1 else f"{found.retries} frames"
        err.print(f"note: {frames} had to be repeated")


def _print_accuracy(found: Accuracy) -> None:
    """Top-1 beside the reference's, and the confusion: as a table of few classes, of many the most frequent."""
    count = len(found.labels.classes)
    said = [f"reference {_share(found.reference_right, count)}"]
    if found.precise_right is not None:
        said.append(f"precise float32 {_share(found.precise_right, count)}")
    out.print(f"top-1: {_share(found.right, count)}; {'; '.join(said)}", soft_wrap=True)
    classes = range(len(found.confusion))
    if len(classes) <= _MOST_CLASSES:
        head = ("label", *(found.labels.name(number) for number in classes))
        rows = [
            (found.labels.name(number), *(f"{times:,}" if times else "." for times in found.confusion[number]))
            for number in classes
        ]
        print_table(head, rows, title="decisions by label", right=tuple(range(1, len(head))))
        return
    for label, decision, times in found.mistakes[:_MOST_CLASSES]:
        out.print(f"  {label} taken for {decision}: {times}", soft_wrap=True)


def _share(right: int, count: int) -> str:
    return f"{right:,} of {count:,} ({100 * right / count:.1f} %)"


def _vectors(count: int) -> str:
    return "1 vector" if count == 1 else f"{count} vectors"
