"""`gen bench`: reads arguments, calls the host tools, prints."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from shoehorn_mcu.cli.console import emit_json, out, output_options, print_table
from shoehorn_mcu.cli.device import (
    SEED,
    board_options,
    ensure_image,
    folder_argument,
    in_turn,
    is_emulated,
    model_option,
    progress_bar,
)
from shoehorn_mcu.cli.energy import (
    Energies,
    check_marked,
    driven,
    energy_options,
    estimate_line,
    estimated,
    measured_energy,
    print_energy,
)
from shoehorn_mcu_host.base.words import counted
from shoehorn_mcu_host.board import session
from shoehorn_mcu_host.board.bench import Timing as Bench
from shoehorn_mcu_host.board.bench import bench as time_inferences
from shoehorn_mcu_host.board.bench import bytes_to_move
from shoehorn_mcu_host.board.cores import metered
from shoehorn_mcu_host.energy.figures import Measured
from shoehorn_mcu_host.energy.instruments import recording
from shoehorn_mcu_host.folder import vectors
from shoehorn_mcu_host.folder.plan import Plan
from shoehorn_mcu_host.folder.project import Project


@click.command()
@folder_argument
@board_options
@model_option
@click.option("--runs", type=click.IntRange(min=1), default=3, show_default=True, help="Inferences to time.")
@energy_options
@output_options
def bench(
    folder: Path, port: str | None, emulated: bool, name: str | None, runs: int, as_json: bool, **energy: Any
) -> None:
    """Times whole inferences and each op on the board, and with --energy measures what they draw."""
    projects = Project.open(folder).chosen(name)
    asked = Energies.of(**energy)
    if asked.reads_a_file:
        _read(projects[0], asked, as_json)
        return
    emulated = is_emulated(projects[0], port, emulated)
    if asked.instrument is not None:
        check_marked(projects[0], emulated, asked)
    said = []
    for project in projects:
        timing, drawn = _timing(project, port, emulated, runs, asked)
        clock = session.clock_name(project, emulated)
        found = timing.json(project.board_id, "emulator" if emulated else "serial", clock)
        if (estimate := estimated(project, found)) is not None:
            found["energy_estimate"] = estimate
        if drawn is not None:
            found["energy"] = drawn.json()
        said.append(found)
        if not as_json:
            _print_timing(found, timing, project.model_name if len(projects) > 1 else None)
            if drawn is not None:
                print_energy(found["energy"], asked.others)
    if as_json:
        emit_json(in_turn(projects, said))


def _read(project: Project, asked: Energies, as_json: bool) -> None:
    """The energy in a recorded file."""
    drawn = measured_energy(project, Plan.of(project), asked).json()
    if as_json:
        emit_json({"board": project.board_id, "transport": "file", "energy": drawn})
    else:
        print_energy(drawn, asked.others)


def _timing(
    project: Project, port: str | None, emulated: bool, runs: int, asked: Energies
) -> tuple[Bench, Measured | None]:
    """The times of one model, in an emulator with the cycles that a meter counts; and its energy where asked for."""
    plan, drawn = Plan.of(project), None
    unit = session.clock_unit(project, emulated)
    (vector,) = vectors.random(project.described, plan.inputs, 1, SEED)
    total = bytes_to_move(plan, 2 * runs)
    instrument = recording(asked.instrument, asked.supply) if asked.instrument and asked.records else nullcontext()
    if emulated:
        ensure_image(project)
    with (
        instrument as tape,
        metered(project, emulated, plan.cores) as meter,
        session.connected(project, plan, port, emulated, True, meter.arguments) as link,
    ):
        if asked.instrument is not None:
            drawn = driven(project, link, plan, vector, runs, asked, tape)
        with progress_bar("timing", total) as progress:
            return time_inferences(link, plan, vector, unit, runs, progress, meter), drawn


def _print_timing(found: dict[str, Any], timing: Bench, title: str | None) -> None:
    unit, total, cycles, estimate = found["unit"], found["total"], found["cycles"], found.get("energy_estimate")
    whole = sum(op["median"] for op in found["ops"]) or 1
    rows = [
        (
            op["name"],
            op["kernel"].removeprefix("sh_"),
            f"{op['median']:,}",
            f"{100 * op['median'] / whole:.1f}",
            *([f"{op['cycles']:,}"] if cycles else []),
            *([f"{estimate['ops'][number]['median']:,.3f}"] if estimate else []),
        )
        for number, op in enumerate(found["ops"])
    ]
    head = ("op", "kernel", unit, "%", *(["cycles"] if cycles else []), *(["estimated uJ"] if estimate else []))
    print_table(head, rows, title=title, right=(2, 3, 4, 5), fold=1)
    runs = counted(found["runs"], "run")
    spread = f"{total['min']:,} to {total['max']:,} in {runs}"
    slowest = f"the slowest of {timing.cores.count} cores"
    clock = found["clock"]["name"] if timing.cores.instructions is None else slowest
    out.say(f"whole inference: {total['median']:,} {unit} ({spread}), by {clock}")
    _print_cores(timing)
    if cycles:
        ms = f", {cycles['ms']:,} ms at {cycles['hz'] / 1e6:g} MHz" if cycles["hz"] else ""
        spread = f"{cycles['min']:,} to {cycles['max']:,}"
        out.say(f"estimated: {cycles['median']:,} cycles of {cycles['model']} ({spread}){ms}")
    elif timing.no_cycles and timing.cores.count == 1:
        out.say(f"cycles: not estimated; {timing.no_cycles}")
    if (signal := timing.signal) is not None:
        out.say(_signal_line(signal))
    if estimate:
        out.say(estimate_line(estimate))
    out.print(f"stack: {timing.stack_used_bytes:,} of {timing.stack_bytes:,} bytes ever used")


def _signal_line(signal: dict[str, Any]) -> str:
    """How much of the time an always-on model computes."""
    said = [f"an inference for each {1000 * signal['seconds']:,.6g} ms of the signal"]
    if signal["cycles_per_second"] is not None:
        said.append(f"{signal['cycles_per_second']:,} cycles per second of it")
    if signal["load_percent"] is not None:
        said.append(f"a load of {signal['load_percent']:,.3g} %")
    return ", ".join(said)


def _print_cores(timing: Bench) -> None:
    """What each core did, where several share an inference."""
    if timing.cores.instructions is not None:
        each = ", ".join(f"{count:,}" for count in timing.cores.instructions)
        out.say(f"instructions of each core, without waiting: {each}")
    elif timing.no_cycles and timing.cores.count > 1:
        out.say(f"instructions: those of all {timing.cores.count} cores together, with waiting; {timing.no_cycles}")
