"""The whole project folder: the library, the application, the board, the reference and the files that describe them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from shoehorn_mcu.base.paths import FIRMWARE_TEMPLATES
from shoehorn_mcu.emit.bundle import DESCRIBING, Bundle, FolderError, digest, refresh
from shoehorn_mcu.emit.folder import app, mlperf, sound
from shoehorn_mcu.emit.folder.energy import Energy
from shoehorn_mcu.emit.folder.energy import check as check_energy
from shoehorn_mcu.emit.folder.kernels_library import KERNELS, kernels_library
from shoehorn_mcu.emit.folder.library import library
from shoehorn_mcu.emit.folder.plan_json import plan_json, source_json
from shoehorn_mcu.emit.folder.readme import readme
from shoehorn_mcu.emit.folder.reference import reference_files
from shoehorn_mcu.emit.kernels.runtime_files import with_included
from shoehorn_mcu.emit.model.arenas import ARENA_ALIGNMENT
from shoehorn_mcu.emit.model.weights import Constants
from shoehorn_mcu.emit.page import page
from shoehorn_mcu.emit.templates import TemplateError, fill
from shoehorn_mcu.emit.unit import Unit, arena_section
from shoehorn_mcu.kernels import oracle
from shoehorn_mcu.machine.families import families, family_files
from shoehorn_mcu.machine.targets import Board
from shoehorn_mcu_host.base.emulators import Level

_SKIPPED = {"__pycache__"}


def _tree(folder: Path, prefix: str) -> Bundle:
    """Files of a template folder, verbatim."""
    return {
        f"{prefix}{path.relative_to(folder).as_posix()}": path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not _SKIPPED & set(path.parts)
    }


def places(board: Board) -> Mapping[str, object]:
    """Values for a linker script: origin and size of each memory region, and the stack."""
    values: dict[str, object] = {"STACK_BYTES": board.spec.stack_bytes}
    for memory in board.spec.memory:
        values[f"{memory.name.upper()}_ORIGIN"] = f"0x{memory.origin:08X}"
        values[f"{memory.name.upper()}_BYTES"] = memory.bytes
    return {**values, **_more_memories(board)}


def _more_memories(board: Board) -> Mapping[str, str]:
    """The lines of a linker script for the board's memories beside the main one: nothing but arenas is there."""
    regions, sections = "", ""
    for memory in board.spec.other_memories:
        region = memory.name.upper()
        regions += f"\n    {region} (rw) : ORIGIN = 0x{memory.origin:08X}, LENGTH = {memory.bytes}"
        section = arena_section(memory.name)
        sections += f"\n    .memory.{memory.name} (NOLOAD) : ALIGN({ARENA_ALIGNMENT}) {{ *({section}) }} > {region}"
    text = f"\n/* before *(.bss.*), which would take them */\nSECTIONS\n{{{sections}\n}}" if sections else ""
    return {"MORE_MEMORIES": regions, "MORE_SECTIONS": text}


def board_files(board: Board, cores: int = 1, energy: Energy = Energy.NONE) -> Bundle:
    """`lib/board`: the files of the board's family, side by side; `.in` files filled from the manifest.

    On several cores, with the files of the family for them; of a firmware for an instrument, with those of its mark.
    """
    name, marked = board.spec.family, energy is not Energy.NONE
    if cores > 1 and not families()[name].files_of_several_cores:
        raise TemplateError(f"{board.path}: family '{name}' has no start-up code for several cores; leave --cores out")
    files: dict[str, bytes] = {"lib/board/board_config.h": app.board_config_h(board, cores, energy).encode()}
    for path in family_files(name, several_cores=cores > 1, marked=marked).values():
        filled = path.suffix == ".in"
        place = path.name.removesuffix(".in")
        files[f"lib/board/{place}"] = fill(path, places(board)) if filled else path.read_bytes()
    return files


def _check_cores(folder: Path, cores: int) -> None:
    """Raises FolderError where the board's files in a project folder are for another number of cores."""
    path = folder / "lib" / "board" / "board_config.h"
    if path.is_file() and (folder / "src" / "app_config.h").is_file():
        found = re.search(r"^#define SH_BOARD_CORES (\d+)$", path.read_text(errors="replace"), re.M)
        if (have := int(found[1]) if found else 1) != cores:
            cure = "write the whole folder, without --library-only"
            raise FolderError(
                f"{folder}: was written for {have} core{'s' * (have > 1)}, this plan uses {cores}; {cure}"
            )


def refresh_models(files: Bundle, folder: Path, names: Sequence[str], cores: int, force: bool = False) -> Bundle:
    """Refreshes the files of a project folder that depend on its models only, which are called so: their libraries, and
    the files that describe them. Returns these files; raises FolderError as `bundle.refresh` does, and for other cores.
    """
    _check_cores(folder, cores)
    libraries = (*(f"lib/{name}" for name in names), *([f"lib/{KERNELS}"] if len(names) > 1 else []))
    described = ("plan.json", "plan.html", "report.json", "src/app_config.h")
    below = tuple(f"{name}/" for name in (*libraries, *DESCRIBING))
    part = {path: data for path, data in files.items() if path in described or path.startswith(below)}
    refresh(part, folder, libraries, force)
    return part


def _reference(unit: Unit, place: str) -> Bundle:
    """`reference/` without the runtime: the model for the reference runtime; `place` is the path of the folder.

    `reference/precise/` has the model in precise float32 where the firmware's is not, and `reference/window/` the model
    of whole windows where the firmware takes new rows.
    """
    flush = unit.precise is not None or unit.flushes
    own = reference_files(unit.graph, unit.name, unit.source_sha256, flush)
    files = {f"{place}{path}": _bytes(data) for path, data in own.items()}
    files[f"{place}source.json"] = _json(source_json(unit.origin))
    if unit.precise is not None:
        precise = reference_files(unit.precise, unit.name, unit.source_sha256)
        files |= {f"{place}precise/{path}": _bytes(precise[path]) for path in ("graph.json", "constants.bin")}
    if unit.window is not None:
        whole = reference_files(unit.window.graph, unit.name, unit.source_sha256, flush)
        files |= {f"{place}window/{path}": _bytes(whole[path]) for path in ("graph.json", "constants.bin")}
    return files


def _reference_runtime(units: Iterable[Unit]) -> Bundle:
    """`reference/runtime/`: the C of the reference runtime for the contracts of these models."""
    windows = [unit.window.graph for unit in units if unit.window]
    graphs = [*windows, *(graph for unit in units for graph in (unit.graph, unit.precise) if graph is not None)]
    used = {oracle(node).source for graph in graphs for node in graph.nodes() if not node.op.view}
    return {f"reference/runtime/{path}": text for path, text in with_included(used).items()}


def _bytes(data: bytes | str) -> bytes:
    return data.encode() if isinstance(data, str) else data


@dataclass(frozen=True, eq=False)
class Emitted:
    """A model of a firmware with its constants, the object of its report, and where in the arena its tensors are."""

    unit: Unit
    constants: Constants
    report: Mapping[str, object]
    offset: int = 0


def project(
    unit: Unit,
    found: Constants,
    board: Board,
    choice: str,
    report: Mapping[str, object],
    energy: Energy = Energy.NONE,
) -> Bundle:
    """Every file of the folder, by path. `choice` is one of mlperf.CHOICES; equal arguments give equal bytes."""
    check_energy(board, energy)
    if energy is not Energy.NONE:
        report = {**report, "energy_mode": energy.value}
    unit = replace(unit, marked=energy is Energy.MARKS)
    model = library(unit, found)
    task = mlperf.task_of(unit.graph, choice)
    models = app.Models((unit,), (digest(model)[:16],), task, unit.plan.arena_bytes, (0,))
    return _project(models, {unit.name: model}, (report,), board, energy)


def project_of_several(
    emitted: Sequence[Emitted], board: Board, choice: str, arena_bytes: int, together: Mapping[str, object]
) -> Bundle:
    """The same for several models, which call the kernels of one library and take the application's arena.

    `together` becomes the entry of that name in the report of the first model, which `choice` is about.
    """
    flushes = any(each.unit.precise for each in emitted)
    units = [replace(each.unit, caller_arena=True, kernels=KERNELS, flushes=flushes) for each in emitted]
    kernels = kernels_library(units)
    libraries = {unit.name: library(unit, each.constants) for unit, each in zip(units, emitted, strict=True)}
    identities = [digest({**libraries[unit.name], **{f"{KERNELS}/{p}": kernels[p] for p in kernels}}) for unit in units]
    task, offsets = mlperf.task_of(units[0].graph, choice), [each.offset for each in emitted]
    models = app.Models(units, [identity[:16] for identity in identities], task, arena_bytes, offsets)
    first, *others = (each.report for each in emitted)
    reports = [{**first, "together": together}, *({k: v for k, v in r.items() if k != "firmware"} for r in others)]
    return _project(models, {**libraries, KERNELS: kernels}, reports, board)


def _project(
    models: app.Models,
    libraries: Mapping[str, Bundle],
    reports: Sequence[Mapping[str, object]],
    board: Board,
    energy: Energy = Energy.NONE,
) -> Bundle:
    """The folder of one model or several; the files that describe the first are where those of a single model are."""
    units = models.units
    settings = FIRMWARE_TEMPLATES / "platformio.ini.in"
    files: dict[str, bytes] = {
        "platformio.ini": fill(settings, {"BOARD": board.id, "MODEL": ", ".join(unit.name for unit in units)}),
        "README.md": readme(units, board).encode(),
        "src/app_config.h": app.app_config_h(models, board, energy).encode(),
        f"boards/{board.id}.json": board.path.read_bytes(),
    }
    for number, (unit, identity, report) in enumerate(zip(units, models.identities, reports, strict=True)):
        place = f"models/{unit.name}/" if number else ""
        files |= {
            f"{place}report.json": _json(report),
            f"{place}plan.json": _json(plan_json(unit, identity)),
            f"{place}plan.html": page(unit, report).encode(),
            **_reference(unit, f"{place}reference/"),
        }
    files |= {f"lib/{name}/{path}": data for name, bundle in libraries.items() for path, data in bundle.items()}
    files |= _tree(FIRMWARE_TEMPLATES / "app", "src/")
    files |= _tree(FIRMWARE_TEMPLATES / "models", "src/") if len(units) > 1 else {}
    files |= _tree(FIRMWARE_TEMPLATES / "cores", "src/") if models.cores > 1 else {}
    if app.hears(models.task):
        files |= {**_tree(FIRMWARE_TEMPLATES / "sound", "src/"), "src/sound_tables.h": sound.tables().encode()}
    files |= board_files(board, models.cores, energy)
    files |= _tree(FIRMWARE_TEMPLATES / "platform", "platform/")
    files |= stub(board)
    files |= _reference_runtime(units)
    return dict(sorted(files.items()))


def stub(board: Board) -> Bundle:
    """stub.json, where the board's emulator has only its core."""
    row, emulator = families()[board.spec.family].stub, board.spec.emulator
    if row is None or emulator is None or emulator.row.proves is not Level.CORE:
        return {}
    return {"stub.json": _json(row.document(board.spec.defines))}


def _json(value: Mapping[str, object]) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()
