"""The whole project folder: the library, the application, the board, the reference and the files that describe them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from shoehorn_mcu.emit import app, mlperf
from shoehorn_mcu.emit.bundle import Bundle, FolderError, digest
from shoehorn_mcu.emit.library import library
from shoehorn_mcu.emit.page import page
from shoehorn_mcu.emit.plan_json import plan_json
from shoehorn_mcu.emit.readme import readme
from shoehorn_mcu.emit.reference import reference_files
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.emit.weights import Constants
from shoehorn_mcu.errors import ShoehornError
from shoehorn_mcu.paths import FIRMWARE_TEMPLATES, RUNTIME_C
from shoehorn_mcu.targets import Board

_FAMILIES = FIRMWARE_TEMPLATES / "families"
_SEVERAL = "+cores"  # ends the name of a family's row for several cores
_SKIPPED = {"__pycache__"}


class TemplateError(ShoehornError):
    """A template has a placeholder for which the board's manifest has no value."""


def fill(template: Path, values: Mapping[str, object]) -> bytes:
    """The template with each @NAME@ replaced; TemplateError names a placeholder that has no value."""
    text = template.read_text()

    def value(found: re.Match[str]) -> str:
        if found[1] not in values:
            raise TemplateError(f"{template}: @{found[1]}@ has no value; known are {', '.join(sorted(values))}")
        return str(values[found[1]])

    return re.sub(r"@([A-Z][A-Z0-9_]*)@", value, text).encode()


def _tree(folder: Path, prefix: str, files: Iterable[Path] | None = None) -> Bundle:
    """Files of a template folder, verbatim."""
    found = sorted(folder.rglob("*") if files is None else files)
    return {
        f"{prefix}{path.relative_to(folder).as_posix()}": path.read_bytes()
        for path in found
        if path.is_file() and not _SKIPPED & set(path.parts)
    }


def _places(board: Board) -> Mapping[str, object]:
    """Values for a linker script: origin and size of each memory region, and the stack."""
    values: dict[str, object] = {"STACK_BYTES": board.spec.stack_bytes}
    for memory in board.spec.memory:
        values[f"{memory.name.upper()}_ORIGIN"] = f"0x{memory.origin:08X}"
        values[f"{memory.name.upper()}_BYTES"] = memory.bytes
    return values


def family_files(family: str) -> Mapping[str, Path]:
    """The files of a chip family by name: all of its folders' files, a later folder's in place of an earlier one's.

    KeyError: there is no such family.
    """
    entries = [_FAMILIES / name for name in json.loads((_FAMILIES / "families.json").read_text())[family]]
    return {path.name: path for entry in entries for path in (sorted(entry.glob("*.*")) if entry.is_dir() else [entry])}


def board_files(board: Board, cores: int = 1) -> Bundle:
    """`lib/board`: the files of the board's family, side by side; `.in` files filled from the manifest.

    On several cores, the files of the family's row for them.
    """
    try:
        family = family_files(board.spec.family + _SEVERAL * (cores > 1))
    except KeyError as error:
        if cores > 1:
            raise TemplateError(
                f"{board.path}: family '{board.spec.family}' has no start-up code for several cores; leave --cores out"
            ) from error
        known = ", ".join(json.loads((_FAMILIES / "families.json").read_text()))
        raise TemplateError(f"{board.path}: unknown family '{board.spec.family}'; known: {known}") from error
    files: dict[str, bytes] = {"lib/board/board_config.h": app.board_config_h(board, cores).encode()}
    for path in family.values():
        filled = path.suffix == ".in"
        place = path.name.removesuffix(".in")
        files[f"lib/board/{place}"] = fill(path, _places(board)) if filled else path.read_bytes()
    return files


def check_cores(folder: Path, cores: int) -> None:
    """Raises FolderError where the board's files in a project folder are for another number of cores."""
    path = folder / "lib" / "board" / "board_config.h"
    if path.is_file() and (folder / "src" / "app_config.h").is_file():
        found = re.search(r"^#define SH_BOARD_CORES (\d+)$", path.read_text(errors="replace"), re.M)
        if (have := int(found[1]) if found else 1) != cores:
            cure = "write the whole folder, without --library-only"
            raise FolderError(
                f"{folder}: was written for {have} core{'s' * (have > 1)}, this plan uses {cores}; {cure}"
            )


def library_part(files: Bundle, name: str) -> Bundle:
    """The files of a project folder that depend on the model only: its library and the files that describe it."""
    described = ("plan.json", "plan.html", "report.json", "src/app_config.h")
    return {p: data for p, data in files.items() if p in described or p.startswith((f"lib/{name}/", "reference/"))}


def _reference(unit: Unit) -> Bundle:
    """`reference/`: the model for the reference runtime, and that runtime's C.

    `reference/precise/` has the model in precise float32 where the firmware's is not.
    """
    flush = unit.precise is not None
    own = reference_files(unit.graph, unit.name, unit.source_sha256, flush)
    files = {f"reference/{path}": _bytes(data) for path, data in own.items()}
    if unit.precise is not None:
        precise = reference_files(unit.precise, unit.name, unit.source_sha256)
        files |= {f"reference/precise/{path}": _bytes(precise[path]) for path in ("graph.json", "constants.bin")}
    sources = [*RUNTIME_C.glob("include/*.h"), *RUNTIME_C.glob("kernels/*/*.h"), *RUNTIME_C.glob("kernels/*/*_ref.c")]
    return files | dict(_tree(RUNTIME_C, "reference/runtime/", sources))


def _bytes(data: bytes | str) -> bytes:
    return data.encode() if isinstance(data, str) else data


def project(unit: Unit, found: Constants, board: Board, choice: str, report: Mapping[str, object]) -> Bundle:
    """Every file of the folder, by path. `choice` is one of mlperf.CHOICES; equal arguments give equal bytes."""
    task = mlperf.task_of(unit.graph, choice)
    model = library(unit, found)
    identity = digest(model)[:16]
    settings = FIRMWARE_TEMPLATES / "platformio.ini.in"
    files: dict[str, bytes] = {
        "platformio.ini": fill(settings, {"BOARD": board.id, "MODEL": unit.name}),
        "report.json": _json(report),
        "plan.json": _json(plan_json(unit, identity)),
        "plan.html": page(unit, report).encode(),
        "README.md": readme(unit, board).encode(),
        "src/app_config.h": app.app_config_h(unit, board, task, identity).encode(),
        f"boards/{board.id}.json": board.path.read_bytes(),
    }
    files |= {f"lib/{unit.name}/{path}": data for path, data in model.items()}
    files |= _tree(FIRMWARE_TEMPLATES / "app", "src/")
    files |= _tree(FIRMWARE_TEMPLATES / "cores", "src/") if unit.cores > 1 else {}
    files |= board_files(board, unit.cores)
    files |= _tree(FIRMWARE_TEMPLATES / "platform", "platform/")
    files |= _reference(unit)
    return dict(sorted(files.items()))


def _json(value: Mapping[str, object]) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()
