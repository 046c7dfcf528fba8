"""Estimated cycles of inferences in QEMU, by the plugin in board/plugin.

The plugin writes a line whenever the firmware enters one of MARKED: the functions between whose calls the firmware
itself measures. So cycles are those of the same stretches of code as the instructions that `bench` reads.
"""

from __future__ import annotations

import functools
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from shoehorn_mcu_host.base import cbuild
from shoehorn_mcu_host.base.children import heard
from shoehorn_mcu_host.base.emulators import EMULATORS
from shoehorn_mcu_host.base.errors import HostError
from shoehorn_mcu_host.firmware.elf import functions
from shoehorn_mcu_host.folder.project import Project

PLUGIN = Path(__file__).with_name("plugin")
MARKED = ("sh_board_ticks", "sh_trace_begin", "sh_trace_end")
TICKS, BEGIN, END = range(3)
_PROBE_SECONDS = 20.0
_Reading = TypeVar("_Reading")


@dataclass(frozen=True)
class Count:
    """Instructions and cycles."""

    instructions: int
    cycles: int

    def __add__(self, other: Count) -> Count:
        return Count(self.instructions + other.instructions, self.cycles + other.cycles)

    def __sub__(self, other: Count) -> Count:
        return Count(self.instructions - other.instructions, self.cycles - other.cycles)


@dataclass(frozen=True)
class Mark:
    """The firmware entered function `place` of MARKED; `at` is what had run since the start."""

    place: int
    at: Count


class Log:
    """The lines of numbers that the plugin appends to a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0

    def take(self) -> list[list[int]]:
        """The lines since the last call."""
        with self._path.open("rb") as file:
            file.seek(self._read)
            text = file.read()
        self._read += len(text)
        return [[*map(int, line.split())] for line in text.splitlines()]


class Meter:
    """The counts of one emulator, which is started with `arguments`.

    `model` names the core whose timing is used, `hz` is its clock on the board, or None.
    """

    def __init__(self, model: str, hz: int | None, arguments: Sequence[str], path: Path) -> None:
        self.model = model
        self.hz = hz
        self.arguments = tuple(arguments)
        self.reason = ""
        self._log = Log(path)

    def take(self) -> list[Mark]:
        """The marks since the last call."""
        return [Mark(place, Count(instructions, cycles)) for place, instructions, cycles in self._log.take()]


@dataclass(frozen=True)
class NoMeter:
    """No cycles; `reason` says why, unless there is no model of the board's timing or no QEMU."""

    reason: str = ""
    arguments: tuple[str, ...] = ()

    def take(self) -> list[Mark]:
        """No marks."""
        return []


UNMETERED = NoMeter()


def whole(marks: Sequence[Mark], parts: int) -> Count:
    """An inference that was not traced. The firmware read its clock before and after each of the last `parts` parts.

    ValueError where there are fewer.
    """
    ticks = [mark.at for mark in marks if mark.place == TICKS]
    return sum((end - begin for begin, end in last_pairs(ticks, parts)), Count(0, 0))


def by_op(marks: Sequence[Mark], steps: Sequence[int], ops: int) -> list[Count]:
    """Each op of an inference whose time per op was traced; `steps` are the numbers of the ops in the order of steps.

    The firmware read its clock in the hooks around each step. ValueError where there are fewer hooks than steps.
    """
    inside = [clock.at for hook, clock in pairwise(marks) if hook.place != TICKS and clock.place == TICKS]
    found = [Count(0, 0)] * ops
    for op, (begin, end) in zip(steps, last_pairs(inside, len(steps)), strict=True):
        found[op] += end - begin
    return found


def last_pairs(ticks: Sequence[_Reading], pairs: int) -> list[tuple[_Reading, _Reading]]:
    """The last `pairs` pairs of readings: before them may be those of an inference that was started again."""
    if len(ticks) < 2 * pairs:
        raise ValueError(f"{len(ticks)} readings of the clock, not {2 * pairs}")
    kept = ticks[len(ticks) - 2 * pairs :]
    return list(zip(kept[::2], kept[1::2], strict=True))


def refusal(project: Project, emulated: bool) -> str | None:
    """Why there are no estimates: empty where the timing is not modelled or QEMU does not run. None: there are some."""
    if not emulated or project.spec["cycles"] is None or not EMULATORS[project.spec["emulator"]["program"]].is_qemu:
        return ""
    return cannot_load(project) or None


def cannot_load(project: Project, cores: int = 1) -> str:
    """Why the emulator of a board does not load the plugin for so many cores; empty where it does."""
    program = project.spec["emulator"]["program"]
    return _refusal(program, cores) if EMULATORS[program].is_qemu else f"{program} takes no plugin of QEMU"


def arguments(project: Project, facts: Mapping[str, object], marked: Sequence[str] = MARKED) -> tuple[str, str]:
    """QEMU's arguments for the plugin: these facts, and these functions. HostError: the image lacks one."""
    marks = [("mark", address) for address in functions(project.elf, marked)]
    said = ",".join(f"{key}={_escaped(value)}" for key, value in [*facts.items(), *marks])
    return "-plugin", f"file={_escaped(_plugin())},{said}"


@contextmanager
def metered(project: Project, emulated: bool) -> Iterator[Meter | NoMeter]:
    """A meter for one emulator of the built project, or why there is none. HostError: the image is damaged."""
    reason = refusal(project, emulated)
    if reason is not None:
        yield NoMeter(reason)
        return
    model: Mapping[str, Any] = project.spec["cycles"]
    with tempfile.TemporaryDirectory(prefix="shoehorn-") as folder:
        path = Path(folder) / "cycles"
        path.touch()
        facts = {**model, **_flash(project), "out": path}
        yield Meter(model["core"], project.spec["core_hz"], arguments(project, facts), path)


def _flash(project: Project) -> dict[str, int]:
    """The plugin's arguments for the first flash, where it makes the core wait."""
    if project.spec["cycles"]["wait_states"] == 0:
        return {}
    first = next(region for region in project.spec["memory"] if region["kind"] == "flash")
    return {"flash": first["origin"], "flash_bytes": first["bytes"]}


def _escaped(value: object) -> str:
    """A value among QEMU's comma-separated arguments."""
    return str(int(value) if isinstance(value, bool) else value).replace(",", ",,")


@functools.cache
def _plugin() -> Path:
    return cbuild.plugin("cycles", PLUGIN / "qemu.h", sorted(PLUGIN.glob("*.c")))


@functools.cache
def _refusal(program: str, cores: int = 1) -> str:
    """Why this QEMU does not load the plugin; empty where it does."""
    quiet = ("-machine", "none", "-display", "none", "-monitor", "none", "-serial", "none")
    try:
        several = f",processors={cores}" if cores > 1 else ""
        command = [program, *quiet, "-plugin", f"file={_escaped(_plugin())},probe=on{several}"]
        done = heard(command, _PROBE_SECONDS)
    except (HostError, OSError, subprocess.SubprocessError) as error:
        return str(error)
    said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    if len(said) > 1 and said[-1].endswith("returned error code 1"):
        said.pop()  # the line before is the plugin's own
    return "" if done.returncode == 0 else f"this QEMU does not load the plugin: {said[-1]}"
