"""The emulators that run a board's image, a row each: what each proves, what its clock counts, how to install it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec

from shoehorn_mcu_host.base.errors import HostError

EXTRA = "pip install 'shoehorn-mcu[boards]'"


class Level(StrEnum):
    """How far a board was proven, and in a line what that proves; the further level is the later one."""

    proves: str

    def __new__(cls, word: str, proves: str) -> Level:
        level = str.__new__(cls, word)
        level._value_, level.proves = word, proves
        return level

    BUILD = "build", "it compiles and links; nothing of it ran"
    CORE = "core", "it runs on a bare core, its chip a stub: every byte, no clock or pin"
    EMULATOR = "emulator", "it runs in an emulator of its chip: also memory map, UART and timer"
    HARDWARE = "hardware", "it runs on the part, by a report of somebody who has one"

    @property
    def rank(self) -> int:
        """The place among the levels."""
        return list(Level).index(self)


class Counts(StrEnum):
    """What an emulator's clock counts."""

    INSTRUCTIONS = "instructions"
    CYCLES = "cycles"
    TIME = "us"


@dataclass(frozen=True)
class Emulator:
    """A row of EMULATORS."""

    proves: Level
    counts: Counts
    install: str  # what to do where it is missing
    what_for: str = ""  # the boards that a program on PATH emulates
    is_qemu: bool = False  # it has QEMU's command line, and a manifest names a machine
    has_all_cores: bool = True  # of a chip with several
    module: str = ""  # a module of Shoehorn runs it, in a process of its own
    needs: str = ""  # the package that the module imports; empty: a program on PATH
    families: frozenset[str] = frozenset()  # the families whose chips it has; empty: any that a manifest gives
    # Its clock's ticks are what it counts. Else they are of the board's timer, and QEMU's nanoseconds are instructions.
    ticks_are_counts: bool = False


_MACHINES = "shoehorn_mcu_host.board.machines"
_PIP = f"`{EXTRA}` brings it"


def _qemu(what_for: str, package: str) -> Emulator:
    install = f"on Debian `apt-get install {package}` brings it"
    return Emulator(Level.EMULATOR, Counts.INSTRUCTIONS, install, what_for, is_qemu=True)


EMULATORS: Mapping[str, Emulator] = {
    "native": Emulator(Level.EMULATOR, Counts.TIME, "it is this machine"),
    "qemu-system-arm": _qemu("boards with 32-bit Arm cores", "qemu-system-arm"),
    "qemu-system-aarch64": _qemu("a 64-bit Raspberry Pi", "qemu-system-arm"),
    "qemu-system-riscv32": _qemu("boards with RISC-V cores", "qemu-system-misc"),
    "unicorn": Emulator(
        Level.CORE,
        Counts.INSTRUCTIONS,
        _PIP,
        has_all_cores=False,
        module=f"{_MACHINES}.bare_core",
        needs="unicorn",
        ticks_are_counts=True,
    ),
    "rp2040py": Emulator(
        Level.EMULATOR,
        Counts.CYCLES,
        _PIP,
        has_all_cores=False,
        module=f"{_MACHINES}.pico",
        needs="rp2040py",
        families=frozenset({"rp2040"}),
    ),
    # Its timer follows no clock of the chip closely, so times are what the board's timer says.
    "esp-emu": Emulator(
        Level.EMULATOR,
        Counts.TIME,
        "https://github.com/espressif/esp-emulator has it",
        "an ESP32-C3 or ESP32-C6, where a manifest names it",
        module=f"{_MACHINES}.esp",
        families=frozenset({"esp32c3", "esp32c6"}),
    ),
}
"""By the name that a manifest gives as `emulator.program`."""


def provers(level: Level) -> str:
    """What proves a level, in words: emulators by name, those of QEMU as one."""
    if level is Level.BUILD:
        return "compiler"
    if level is Level.HARDWARE:
        return "gen validate --report"
    rows = ((name, row) for name, row in EMULATORS.items() if row.proves is level)
    names = ["this machine" if name == "native" else "QEMU" if row.is_qemu else name for name, row in rows]
    return ", ".join(dict.fromkeys(names))


def require(program: str) -> None:
    """HostError unless this emulator is installed: says which one is missing, and what brings it."""
    row = EMULATORS[program]
    there = find_spec(row.needs) if row.needs else program == "native" or shutil.which(program)
    if not there:
        raise HostError(f"{row.needs or program} is not installed; {row.install}")
