"""The machines: instruction sets, cores, and boards read from `boards/*.json`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import pydantic

from shoehorn_mcu.errors import ShoehornError, did_you_mean
from shoehorn_mcu.host_tools.files import read_json
from shoehorn_mcu.host_tools.manifest import Manifest, Shoehorn, faults
from shoehorn_mcu.paths import BOARDS


class BoardError(ShoehornError):
    """A board's manifest that cannot be read or breaks the schema."""

    kind = "bad-board"


class UnknownBoard(BoardError):
    """No board has this id."""

    kind = "unknown-board"


class Isa(Enum):
    """Instruction sets that kernels are written for."""

    C = "c"  # any
    SIMD32 = "simd32"  # Armv6 SIMD and the Cortex-M DSP extension
    MVE = "mve"  # Helium
    NEON = "neon"


@dataclass(frozen=True)
class Cpu:
    """A core: the instruction sets it runs, best first, and the compiler's names for it."""

    isas: tuple[Isa, ...]
    target: str  # `zig cc -target`; empty for the machine we run on
    flags: tuple[str, ...] = ()


CPUS: dict[str, Cpu] = {
    "host": Cpu((Isa.C,), ""),
    "cortex-m0": Cpu((Isa.C,), "thumb-freestanding-eabi", ("-mcpu=cortex_m0",)),
    "cortex-m3": Cpu((Isa.C,), "thumb-freestanding-eabi", ("-mcpu=cortex_m3",)),
    "cortex-m4f": Cpu((Isa.SIMD32, Isa.C), "thumb-freestanding-eabihf", ("-mcpu=cortex_m4",)),
    "cortex-m7": Cpu((Isa.SIMD32, Isa.C), "thumb-freestanding-eabihf", ("-mcpu=cortex_m7",)),
    "cortex-m33": Cpu((Isa.SIMD32, Isa.C), "thumb-freestanding-eabihf", ("-mcpu=cortex_m33",)),
    "cortex-m55": Cpu((Isa.MVE, Isa.SIMD32, Isa.C), "thumb-freestanding-eabihf", ("-mcpu=cortex_m55",)),
    "arm1176": Cpu((Isa.SIMD32, Isa.C), "arm-freestanding-eabihf", ("-mcpu=arm1176jzf_s",)),
    "cortex-a53": Cpu((Isa.NEON, Isa.C), "aarch64-freestanding-none", ("-mcpu=cortex_a53",)),
}


@dataclass(frozen=True)
class Board:
    """A board by its id (the manifest's file name)."""

    id: str
    path: Path
    name: str
    spec: Shoehorn

    @property
    def cpu(self) -> Cpu:
        return CPUS[self.spec.cpu]

    @property
    def isa(self) -> Isa:
        """The best instruction set of the core."""
        return self.cpu.isas[0]

    @property
    def arena_limit_bytes(self) -> int:
        """What is left of the SRAM for a model's arena."""
        return self.spec.sram_bytes - self.spec.firmware_ram_bytes - self.spec.stack_bytes


def load_board(path: Path) -> Board:
    """The board of one manifest; BoardError names the file and the key that is wrong."""
    try:
        manifest = Manifest.model_validate(read_json(path))
    except pydantic.ValidationError as error:
        raise BoardError(f"{path}: {faults(error)}") from error
    except ValueError as error:
        raise BoardError(f"{path}: not JSON: {error}") from error
    except OSError as error:
        raise BoardError(f"{path}: cannot be read: {error.strerror}") from error
    if manifest.shoehorn.cpu not in CPUS:
        raise BoardError(f"{path}: unknown cpu '{manifest.shoehorn.cpu}'; known: {', '.join(CPUS)}")
    return Board(path.stem, path, manifest.name, manifest.shoehorn)


def boards() -> list[Board]:
    """Every board, by id."""
    return [load_board(path) for path in sorted(BOARDS.glob("*.json"))]


def board(board_id: str) -> Board:
    """The board with this id; UnknownBoard names those most like it."""
    path = BOARDS / f"{board_id}.json"
    if not path.is_file():
        known = [p.stem for p in sorted(BOARDS.glob("*.json"))]
        cure = did_you_mean(board_id, known, f"known boards: {', '.join(known)}")
        raise UnknownBoard(f"unknown board '{board_id}'; {cure}")
    return load_board(path)
