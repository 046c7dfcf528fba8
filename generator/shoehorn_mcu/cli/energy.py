"""The energy of `gen bench`: its options, the instrument beside the board, and its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from shoehorn_mcu.cli.console import err, out, path_option, print_table, together
from shoehorn_mcu_host.base.errors import HostError, InputError
from shoehorn_mcu_host.base.files import read_json
from shoehorn_mcu_host.base.manifest import RunCurrent
from shoehorn_mcu_host.base.words import counted
from shoehorn_mcu_host.board.link import Link
from shoehorn_mcu_host.energy import csv_file, schedule
from shoehorn_mcu_host.energy.figures import Measured, measured
from shoehorn_mcu_host.energy.instruments import INSTRUMENTS, Supply, Tape
from shoehorn_mcu_host.folder.plan import Plan
from shoehorn_mcu_host.folder.project import Project
from shoehorn_mcu_host.folder.vectors import Vector

CSV = "csv"
_SPREAD = ("min", "median", "max")

energy_options = together(
    click.option(
        "--energy",
        "instrument",
        type=click.Choice(tuple(INSTRUMENTS)),
        help="Measure the energy of inferences and ops with this instrument; csv: with one that writes a file.",
    ),
    path_option(
        "--energy-file",
        "file",
        metavar="FILE",
        help="With csv, read this recording; with the others, keep the recording in this new file.",
    ),
    click.option(
        "--voltage",
        "volts",
        metavar="V",
        type=click.FloatRange(min=0.5, max=20.0),
        help="The board's supply, where the instrument does not measure it.",
    ),
    click.option("--supply", "feeds", is_flag=True, help="The PPK2 feeds the board, with --voltage."),
    click.option("--energy-device", "device", metavar="SERIAL", help="The instrument, where there are several."),
    click.option(
        "--mark-input",
        "channel",
        type=click.IntRange(0, 7),
        default=0,
        show_default=True,
        help="The instrument's digital input that the board's mark is on.",
    ),
    click.option(
        "--baseline",
        type=click.Choice(("idle", "none")),
        default="idle",
        show_default=True,
        help="What is subtracted: the power between marks, or nothing.",
    ),
    path_option(
        "--energy-beside",
        "beside",
        metavar="FILE",
        multiple=True,
        help="Show these figures beside: another run's `gen bench --energy --json`, as of other kernels. Repeatable.",
    ),
)
"""The options of an instrument."""


_WHOLE = "whole inference"


@dataclass(frozen=True)
class Figures:
    """Medians of a part of an inference: its time, and all that the supply gave."""

    ms: float
    uj: float


@dataclass(frozen=True)
class Beside:
    """The figures of another run, by op."""

    name: str
    parts: Mapping[str, Figures]


def read_beside(path: Path) -> Beside:
    """What `gen bench --energy --json` printed; InputError where it is something else."""
    try:
        energy = read_json(path)["energy"]
        parts = {op["name"]: Figures(op["ms"]["median"], op["gross"]["median"]) for op in energy["ops"]}
        parts[_WHOLE] = Figures(energy["ms"]["median"], energy["gross"]["median"])
        if not all(isinstance(each, float | int) for part in parts.values() for each in (part.ms, part.uj)):
            raise TypeError
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: is not what `gen bench --energy --json` prints") from error
    return Beside(path.name, parts)


@dataclass(frozen=True)
class Energies:
    """What the options say."""

    instrument: str | None
    file: Path | None
    supply: Supply
    subtract: bool
    others: tuple[Beside, ...] = ()

    @classmethod
    def of(
        cls,
        instrument: str | None,
        file: Path | None,
        volts: float | None,
        feeds: bool,
        device: str | None,
        channel: int,
        baseline: str,
        beside: Sequence[Path],
    ) -> Energies:
        """UsageError where they exclude each other."""
        if instrument is None and (file or volts or feeds or device or beside):
            raise click.UsageError("--energy-file, --voltage, --supply, --energy-device, --energy-beside need --energy")
        if feeds and instrument != "ppk2":
            raise click.UsageError("--supply is of --energy ppk2, which can feed a board")
        if feeds and volts is None:
            raise click.UsageError("--supply needs --voltage, which the board will get: look up what it can bear")
        if instrument not in (None, CSV) and file is not None and file.exists():
            raise HostError(f"{file}: is there already; name a new file for the recording")
        others = tuple(map(read_beside, beside))
        return cls(instrument, file, Supply(volts, feeds, device, channel), baseline == "idle", others)

    @property
    def reads_a_file(self) -> bool:
        """Whether no board is needed: the recording is there."""
        return self.instrument == CSV and self.file is not None

    @property
    def records(self) -> bool:
        """Whether an instrument of the table records while the board works."""
        return self.instrument not in (None, CSV)


def measured_energy(project: Project, plan: Plan, asked: Energies) -> Measured:
    """What a recorded file says."""
    assert asked.file is not None
    names = [op.name for op in plan.ops]
    recording = csv_file.read(asked.file, asked.supply.volts, names)
    return measured(recording, plan, schedule.Schedule.of(project, plan), CSV, asked.subtract)


def driven(
    project: Project, link: Link, plan: Plan, vector: Vector, runs: int, asked: Energies, tape: Tape | None
) -> Measured | None:
    """Lets the board make its marks; what the instrument says of them. With csv the marks are kept for its file."""

    def say(what: str) -> None:
        err.say(f"energy: {what}")

    try:
        made = schedule.drive(link, plan, vector, runs, say)
        if tape is None:
            path = made.save(project)
            marks = sum(phase.expected for phase in made.phases)
            again = f"gen bench {project.folder} --energy csv --energy-file FILE --voltage V"
            out.say(f"{marks} marks made, listed in {path}; next, with the recording: {again}")
            return None
        recording = tape.stop()
    except HostError:
        _keep(tape, asked)
        raise
    _keep(tape, asked)
    assert asked.instrument is not None
    return measured(recording, plan, made, asked.instrument, asked.subtract)


def _keep(tape: Tape | None, asked: Energies) -> None:
    """Writes what was recorded into the user's file, also after a fault."""
    found = tape.so_far() if tape is not None and asked.file is not None else None
    if found is not None and asked.file is not None:
        asked.file.write_text(found.csv())
        err.say(f"note: {len(found.seconds):,} samples are in {asked.file}")


def check_marked(project: Project, emulated: bool, asked: Energies) -> None:
    """HostError unless this firmware can mark what an instrument measures."""
    if project.report.energy_mode != "marks":
        raise HostError(
            f"{project.folder}: this firmware makes no marks; write it with `gen firmware --energy marks` and flash it"
        )
    if emulated and asked.records:
        raise HostError(f"{project.folder}: an emulator draws no current; connect the board, or leave --energy out")


def estimated(project: Project, found: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the times of `gen bench` mean by the data sheet's current; None where either is not known."""
    known = project.spec.get("run_current")
    if not known:
        return None
    current, cycles, hz = RunCurrent.model_validate(known), found["cycles"], project.spec["core_hz"]
    if cycles:
        total, ops = [cycles[key] / hz for key in _SPREAD], [op["cycles"] / hz for op in found["ops"]]
    elif found["unit"] == "us":
        total, ops = [found["total"][key] / 1e6 for key in _SPREAD], [op["median"] / 1e6 for op in found["ops"]]
    else:
        return None
    return {
        "total": {key: round(current.microjoules(each), 3) for key, each in zip(_SPREAD, total, strict=True)},
        "ops": [
            {"name": op["name"], "median": round(current.microjoules(each), 3)}
            for op, each in zip(found["ops"], ops, strict=True)
        ],
        **current.conditions(),
    }


def estimate_line(estimate: Mapping[str, Any]) -> str:
    """The estimate of a whole inference, with its source and conditions."""
    by = f"{estimate['ma']:g} mA at {estimate['volts']:g} V, {estimate['condition']} ({estimate['data_sheet']})"
    return f"estimated, not measured: {estimate['total']['median']:,.1f} uJ, from {by}"


def print_energy(found: dict[str, Any], others: Sequence[Beside] = ()) -> None:
    """Prints the table: time, power and energy of each op, then of the whole inference; and a table beside others."""
    rows = [(op["name"], op["kernel"].removeprefix("sh_"), *_cells(op, op["median"])) for op in found["ops"]]
    whole = (_WHOLE, "", *_cells(found, found["total"]["median"]))
    head = ("op", "kernel", "ms", "mW", "uJ", "above idle", "repeats", "+-%")
    print_table(head, [*rows, whole], right=(2, 3, 4, 5, 6, 7), fold=1)
    for other in others:
        _print_beside(found, other)
    total, gross = found["total"], found["gross"]
    runs = counted(found["runs"], "run")
    idle = found["baseline"]
    out.say(
        f"energy: {total['median']:,.3f} uJ above idle ({total['min']:,.3f} to {total['max']:,.3f} in {runs}), "
        f"{gross['median']:,.3f} uJ in all, measured by {found['instrument']} at {found['volts']:g} V"
    )
    power = f"{idle['mw']:,.3f} mW, the median of {idle['samples']:,} samples between marks"
    out.say(f"idle: {power if idle['samples'] else 'nothing is subtracted'}")
    out.say(
        f"{found['samples_per_second']:,.0f} samples a second, each for the time up to the next one (rectangles); "
        f"the ends of a mark are known to a sample, +-{found['uncertain_percent']:.3g} % of the whole inference"
    )


def _print_beside(found: Mapping[str, Any], other: Beside) -> None:
    """Prints time and energy of each op here and there, matched by name; of the whole inference last."""
    rows = []
    parts = [(op["name"], op) for op in found["ops"]]
    for name, here in [*parts, (_WHOLE, found)]:
        there = other.parts.get(name)
        uj = here["gross"]["median"]
        times = f"{there.uj / uj:.2f}" if there and uj else ""
        said = ("", "", "") if there is None else (f"{there.ms:,.4f}", f"{there.uj:,.3f}", times)
        rows.append((name, f"{here['ms']['median']:,.4f}", f"{uj:,.3f}", *said))
    head = ("op", "ms", "uJ", "ms there", "uJ there", "times")
    print_table(head, rows, title=f"beside {other.name}", right=(1, 2, 3, 4, 5), fold=0)


def _cells(part: dict[str, Any], net: float) -> tuple[str, ...]:
    return (
        f"{part['ms']['median']:,.4f}",
        f"{part['mw']:,.3f}",
        f"{part['gross']['median']:,.3f}",
        f"{net:,.3f}",
        f"{part['repeats']:,}",
        f"{part['uncertain_percent']:.3g}",
    )
