"""What decides a row, as hashes: the model's bytes, the board's manifest, the options, and the tools."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

import shoehorn_mcu_host
from shoehorn_mcu.base import paths
from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.base.version import __version__
from shoehorn_mcu.firmware.limits import limits
from shoehorn_mcu.firmware.options import resolved
from shoehorn_mcu.firmware.settings import Fit
from shoehorn_mcu.importers import other_files
from shoehorn_mcu.machine.targets import Board
from shoehorn_mcu.sweeps.axes import Combination
from shoehorn_mcu_host.base.children import heard
from shoehorn_mcu_host.base.emulators import EMULATORS

_SUFFIXES = {".py", ".c", ".h", ".inc", ".json", ".in", ".ld", ".S", ".js", ".css", ".html"}
_SECONDS = 20  # for an emulator to say its version


@dataclass(frozen=True)
class Tools:
    """The versions that decide what a row says; workers must have the client's."""

    shoehorn: str  # the version
    sources: str  # a hash of all files of the packages and of what they copy into folders
    compiler: str

    @staticmethod
    @cache
    def here() -> Tools:
        """Of this process."""
        return Tools(__version__, _sources_sha256(), f"ziglang {metadata.version('ziglang')}")

    def __str__(self) -> str:
        return f"Shoehorn {self.shoehorn} ({self.sources[:8]}) with {self.compiler}"


def _sources_sha256() -> str:
    roots = {
        "generator": paths.MODELS.parent,
        "host": Path(shoehorn_mcu_host.__file__).parent,
        "runtime_c": paths.RUNTIME_C,
        "firmware_templates": paths.FIRMWARE_TEMPLATES,
        "boards": paths.BOARDS,
    }
    total = hashlib.sha256()
    for name, root in roots.items():
        for path in sorted(root.rglob("*")):
            inside = path.relative_to(root)
            if path.suffix in _SUFFIXES and "_data" not in inside.parts and path.is_file():
                data = path.read_bytes()
                total.update(f"{name}/{inside.as_posix()}\0{len(data)}\0".encode() + data)
    return total.hexdigest()


@cache
def _hash_of(path: str, _size: int, _changed: int) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of(path: str) -> str:
    """The hash of a file, read once as long as it does not change; raises OSError."""
    status = Path(path).stat()
    return _hash_of(path, status.st_size, status.st_mtime_ns)


def model_sha256(path: str) -> str:
    """The hash of a model and of other files that hold constants of it; raises OSError."""
    own = sha256_of(path)
    status = Path(path).stat()
    others = {str(place): sha256_of(str(place)) for place in _others(path, status.st_size, status.st_mtime_ns)}
    return _hash({"model": own, **others}) if others else own


@cache
def _others(path: str, _size: int, _changed: int) -> tuple[Path, ...]:
    """The other files of a model; none where it cannot be imported, which the import says."""
    try:
        return other_files(Path(path))
    except ShoehornError:
        return ()


@cache
def emulator_of(program: str) -> str:
    """The emulator and its version; where it cannot be asked, its name alone."""
    row = EMULATORS[program]
    with suppress(metadata.PackageNotFoundError, OSError, subprocess.SubprocessError):
        if row.needs:
            return f"{program} {metadata.version(row.needs)}"
        if row.is_qemu and (found := re.search(r"version (\d[\w.]*)", heard([program, "--version"], _SECONDS).stdout)):
            return f"{program} {found[1]}"
    return program


@dataclass(frozen=True)
class Identity:
    """What a combination's plan and its whole row depend on."""

    plan: str  # equal where the planner is asked the same thing
    inputs: str  # of the row


def identity(combination: Combination, board: Board, until: str, vectors: int, runs: int) -> Identity:
    """The hashes of a combination.

    Two budgets ask the same of the planner where the board has no more than either. Raises OSError where the model
    cannot be read, ShoehornError where the options contradict the board.
    """
    manifest = sha256_of(str(board.path))
    asked: Mapping[str, Any] = {
        "model": model_sha256(combination.model),
        "name": Path(combination.model).name,
        "board": manifest,
        "options": {name: text for name, text in combination.options.items() if name != "sram"},
        "sram": _budget(combination.board, tuple(combination.options.items()), manifest),
        "tools": str(Tools.here()) + Tools.here().sources,
    }
    plan = _hash(asked)
    emulator = emulator_of(board.spec.emulator.program) if board.spec.emulator else ""
    proof = {"until": until, "vectors": vectors, "runs": runs, "emulator": emulator}
    return Identity(plan, _hash({"plan": plan, "asked": combination.words, **proof}))


@lru_cache(maxsize=65_536)
def _budget(board: str, options: tuple[tuple[str, str], ...], _manifest: str) -> object:
    """The budget as the planner has it: never more than the board has left."""
    found, chosen = resolved(Combination("", board, dict(options)).plan_options)
    may = limits(found, chosen)
    if isinstance(chosen.sram_bytes, int):
        return may.capacity_bytes
    return chosen.sram_bytes.value if isinstance(chosen.sram_bytes, Fit) else chosen.sram_bytes


def _hash(value: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()
