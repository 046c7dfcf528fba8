"""The machines: instruction sets, cores, and boards read from `boards/*.json`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import pydantic

from shoehorn_mcu.base.errors import ShoehornError, did_you_mean, one_line
from shoehorn_mcu.base.paths import BOARDS
from shoehorn_mcu.machine import families
from shoehorn_mcu_host.base import proof
from shoehorn_mcu_host.base.errors import InputError
from shoehorn_mcu_host.base.files import read_json
from shoehorn_mcu_host.base.manifest import Manifest, Shoehorn, faults, first_of


class BoardError(ShoehornError):
    """A board's manifest that cannot be read or breaks the schema."""

    kind = "bad-board"


class UnknownBoard(BoardError):
    """No board has this id."""

    kind = "unknown-board"


class UnknownCpu(ShoehornError):
    """No core has this name."""

    kind = "unknown-cpu"


class WrongCpu(ShoehornError):
    """A core was named beside a board that has another one."""

    kind = "wrong-cpu"


ENVIRONMENT = "SHOEHORN_BOARDS"
"""Names the environment variable with the user's folders of board manifests, separated as in PATH."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}")  # names a folder, a file and a PlatformIO environment


class Isa(Enum):
    """Instruction sets that kernels are written for."""

    C = "c"  # any
    THUMB = "thumb"  # Armv6-M, which cores of Armv7-M run too
    SIMD32 = "simd32"  # Armv6 SIMD and the Cortex-M DSP extension
    MVE = "mve"  # Helium
    NEON = "neon"  # vectors of integers, of Armv7-A and later
    VECTORS = "vectors"  # vectors of float32 by NEON, which keep numbers below 2^-126 on AArch64 alone
    DOT = "dot"  # the dot product of Armv8.2-A, beside NEON
    MATRIX = "i8mm"  # products of matrices of int8 of Armv8.6-A, beside the dot product
    RISCV = "riscv"  # RV32IM: 31 registers, and products of 64 bits
    FPU = "fpu"  # float32 with fused multiply-add, and conversions from float16: FPv4 and later


class Fusing(Enum):
    """Where a product and its addition are rounded once in sums of float32, because a core is faster so."""

    NEVER = "never"  # it has no fused multiply-add, or one that takes longer than a product and a sum (Cortex-M4, M33)
    FLUSHED = "flushed"  # where numbers below 2^-126 may be 0: Helium has no other vectors of float32
    ALWAYS = "always"


@dataclass(frozen=True)
class Cpu:
    """A core by the instruction sets that it runs, best first, and its arithmetic.

    The platform's toolchain.py has its compiler flags.
    """

    isas: tuple[Isa, ...]
    fusing: Fusing = Fusing.NEVER
    flushing: tuple[Isa, ...] = ()  # those that it runs only where numbers below 2^-126 may be 0


CPUS: dict[str, Cpu] = {
    "host": Cpu((Isa.C,)),
    "cortex-m0": Cpu((Isa.THUMB, Isa.C)),
    "cortex-m3": Cpu((Isa.THUMB, Isa.C)),
    "cortex-m4f": Cpu((Isa.SIMD32, Isa.FPU, Isa.C)),
    "cortex-m7": Cpu((Isa.SIMD32, Isa.FPU, Isa.C)),
    "cortex-m33": Cpu((Isa.SIMD32, Isa.FPU, Isa.C)),
    "cortex-m55": Cpu((Isa.MVE, Isa.SIMD32, Isa.FPU, Isa.C), Fusing.FLUSHED),
    "arm1176": Cpu((Isa.SIMD32, Isa.C)),
    "cortex-a7": Cpu((Isa.NEON, Isa.SIMD32, Isa.FPU, Isa.C), Fusing.ALWAYS, (Isa.VECTORS,)),
    "cortex-a53": Cpu((Isa.NEON, Isa.VECTORS, Isa.FPU, Isa.C), Fusing.ALWAYS),
    "cortex-a76": Cpu((Isa.DOT, Isa.NEON, Isa.VECTORS, Isa.FPU, Isa.C), Fusing.ALWAYS),
    "cortex-a710": Cpu((Isa.MATRIX, Isa.DOT, Isa.NEON, Isa.VECTORS, Isa.FPU, Isa.C), Fusing.ALWAYS),
    "rv32imc": Cpu((Isa.RISCV, Isa.C)),
    "rv32imac": Cpu((Isa.RISCV, Isa.C)),
    "rv32imafc": Cpu((Isa.RISCV, Isa.C)),
}


# Other names of a core, and cores that run the kernels of another.
_ALIASES = {
    "cortex-m0+": "cortex-m0",
    "cortex-m0plus": "cortex-m0",
    "cortex-m1": "cortex-m0",
    "cortex-m23": "cortex-m0",
    "cortex-m4": "cortex-m4f",
    "cortex-m7f": "cortex-m7",
    "cortex-m33f": "cortex-m33",
    "cortex-m35p": "cortex-m33",
    "cortex-m85": "cortex-m55",
    "arm1176jzf-s": "arm1176",
    "cortex-a72": "cortex-a53",
    "cortex-a53-aarch32": "cortex-a7",
    "cortex-a72-aarch32": "cortex-a7",
    "cortex-a510": "cortex-a710",
    "cortex-a715": "cortex-a710",
    "cortex-a720": "cortex-a710",
    "neoverse-n2": "cortex-a710",
    "neoverse-v1": "cortex-a710",
    "neoverse-v2": "cortex-a710",
    "esp32-c3": "rv32imc",
    "esp32-c6": "rv32imac",
    "e31": "rv32imac",
    "hazard3": "rv32imac",
}


def cpu(name: str) -> str:
    """The key of CPUS that a user's name of a core means; UnknownCpu names those most like it."""
    key = name.strip().lower()
    key = _ALIASES.get(key, key)
    if key not in CPUS:
        cure = did_you_mean(key, [*CPUS, *_ALIASES], f"known cores: {', '.join(CPUS)}")
        free = "a library for any other core is in portable C and needs no --cpu"
        raise UnknownCpu(f"unknown cpu {one_line(name)}; {cure}; {free}")
    return key


# Of cores that could do more than the kernels of another: what a plan says.
_STAND_INS = {
    "cortex-a72": "cortex-a72 gets the kernels of cortex-a53, whose instructions are predicted",
    "cortex-a53-aarch32": "cortex-a53 in 32 bits gets the kernels of cortex-a7, whose instructions are predicted",
    "cortex-a72-aarch32": "cortex-a72 in 32 bits gets the kernels of cortex-a7, whose instructions are predicted",
}


def stand_in(name: str) -> str:
    """A line for the user where a core gets kernels that leave out what it could do; empty where it does not."""
    return _STAND_INS.get(name.strip().lower(), "")


@dataclass(frozen=True)
class Machine:
    """A core that kernels are chosen for, with everything else that the choice depends on besides the op."""

    cpu: str  # key of CPUS: whose costs are predicted
    isas: tuple[Isa, ...]
    flash_left: int | None = None  # bytes for kernels and the constants that they read; None: no limit
    tuning: Mapping[str, str] = field(default_factory=dict)  # kernels/tuning.py: measured choices
    # Kernels that were rejected for lack of flash: (key of the op's contract, kernel).
    without: frozenset[tuple[str, str]] = frozenset()
    scratch: bool = False  # kernels may need scratch; without it, only those that the tuning names
    packs: bool = True  # kernels may have constants in their own layout, if others compute the op too
    overwrites: bool = True  # kernels may write a row over one that they read
    disabled: frozenset[str] = frozenset()  # optional choices (`Variant.choice`) that the user does not want
    near: bool = False  # of kernels that are about as fast, one is chosen that may write nearest to what it reads

    @classmethod
    def of(cls, cpu: str, flushes: bool = False) -> Machine:
        """A core of CPUS with all its instruction sets and no limit; `flushes`: numbers below 2^-126 may be 0."""
        own = CPUS[cpu]
        return cls(cpu, (*own.flushing, *own.isas) if flushes else own.isas)


@dataclass(frozen=True)
class Board:
    """A board by its id (the manifest's file name)."""

    id: str
    path: Path
    name: str
    spec: Shoehorn
    mcu: str = ""  # the chip

    @property
    def cpu(self) -> Cpu:
        return CPUS[self.spec.cpu]

    @property
    def isa(self) -> Isa:
        """The best instruction set of the core."""
        return self.cpu.isas[0]

    @property
    def arena_limit_bytes(self) -> int:
        """The SRAM that is left for a model's arena on one core, in bytes."""
        return self.arena_limit(1)

    def arena_limit(self, cores: int) -> int:
        """The SRAM that is left for a model's arena, in bytes; each core has a stack."""
        return self.spec.sram_bytes - self.spec.firmware_ram_bytes - cores * self.spec.stack_bytes


def load_board(path: Path) -> Board:
    """The board of one manifest; BoardError names the file and the key that is wrong."""
    if not _ID.fullmatch(path.stem) or ".." in path.stem:
        raise BoardError(
            f"{one_line(str(path))}: the file's name is the board's id: letters, digits, '-', '_', '.', '+'"
        )
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
    if wrong := list(families.faults(manifest)):
        raise BoardError(f"{path}: {first_of(wrong)}")
    if fault := _proof_fault(path, manifest.shoehorn):
        raise BoardError(f"{path}: shoehorn.proof: {fault}")
    return Board(path.stem, path, manifest.name, manifest.shoehorn, manifest.build.mcu)


def _proof_fault(path: Path, spec: Shoehorn) -> str:
    """Why the report that a manifest cites does not prove what the manifest says; empty where it does."""
    if not spec.proof or spec.level is None:
        return ""
    try:
        found = proof.read(path.parent / spec.proof)
    except InputError as error:
        return str(error)
    except OSError as error:
        return f"{spec.proof}: cannot be read: {error.strerror}"
    if found.board != path.stem:
        return f"{spec.proof} is of board {found.board}"
    if found.vectors == 0 or found.mismatched_vectors:
        return f"{spec.proof} has {found.mismatched_vectors} mismatched of {found.vectors} vectors"
    if found.level.rank < spec.level.rank:
        return f"{spec.proof} proves '{found.level}', not '{spec.level}'"
    return ""


def boards() -> list[Board]:
    """Every board, by id: the user's (SHOEHORN_BOARDS), and the shipped ones whose id the user has not redefined.

    Those that cannot be used are left out.
    """
    return listed()[0]


def listed() -> tuple[list[Board], list[BoardError]]:
    """Every board, and why others of the user cannot be used."""
    found: list[Board] = []
    faults: list[BoardError] = []
    for path in _manifests().values():
        try:
            found.append(load_board(path))
        except BoardError as fault:
            faults.append(fault)
    return found, faults


def board(name: str) -> Board:
    """The board with this id, or of this manifest where the name ends in `.json`.

    UnknownBoard names the ids most like it.
    """
    if name.endswith(".json"):
        return load_board(Path(name))
    known = _manifests()
    if name not in known:
        otherwise = f"known boards: {', '.join(known)}"
        if "/" in name or "\\" in name:
            otherwise = "give the id of a board, which `gen boards` lists, or the path of a manifest, FILE.json"
        raise UnknownBoard(f"unknown board {one_line(name)}; {did_you_mean(name, known, otherwise)}")
    return load_board(known[name])


def _manifests() -> dict[str, Path]:
    """Manifests by id, in order of id."""
    folders = [BOARDS]
    for folder in map(Path, filter(None, os.environ.get(ENVIRONMENT, "").split(os.pathsep))):
        if not folder.is_dir():
            raise BoardError(f"{ENVIRONMENT}: {one_line(str(folder))} is not a folder")
        folders.append(folder)
    found = {path.stem: path for folder in folders for path in sorted(folder.glob("*.json"))}
    return dict(sorted(found.items()))
