"""`gen boards` and `gen ops`: the boards and operators, as tables or JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any

import click

from shoehorn_mcu.base.errors import printable
from shoehorn_mcu.base.grouped import by_key
from shoehorn_mcu.cli.console import emit_json, err, json_option, out, print_notes, print_table
from shoehorn_mcu.kernels import CATALOGUE
from shoehorn_mcu.machine import targets
from shoehorn_mcu_host.base.emulators import Level, provers
from shoehorn_mcu_host.base.manifest import Memory, Shoehorn

_HEAD = ("board", "cpu", "kernels", "SRAM", "flash", "core", "timer", "verified", "name")
_VERIFIED = _HEAD.index("verified")
_GROUPS = (("parts", True), ("emulated machines, and this one", False))
_NO_KERNEL, _NO_FORM = ".", "-"
_KILO = ((1_000_000_000, "GHz"), (1_000_000, "MHz"), (1_000, "kHz"))


@click.command()
@json_option
def boards(as_json: bool) -> None:
    """Lists the boards, their kernels and clocks, and how far each is verified.

    `kernels` names the best instruction set that the board runs and for which there are kernels; `c` is portable C.
    `core` is the processor's clock, `timer` the one that `gen bench` reads. `verified` is the furthest that was proven,
    and is in the title where it is the same for all; the last table says what each level proves, and by what. A board
    of yours that cannot be used is named with its fault in one line at the end.
    """
    listed, faults = targets.listed()
    notes = [printable(str(fault)) for fault in faults]
    if as_json:
        print_notes(notes)
        levels = {level: {"proves": level.proves, "by": provers(level)} for level in Level}
        unusable = {"unusable": notes} if notes else {}
        emit_json({"boards": [_row(board) for board in listed], "levels": levels, **unusable})
        return
    for title, physical in _GROUPS:
        cells = [_cells(_row(board)) for board in listed if _is_physical(board) is physical]
        if cells:
            _print_boards(title, cells)
    rows = [(level, level.proves, provers(level)) for level in Level]
    print_table(("verified", "proves that", "by"), rows, title="how far a board is verified", fold=1)
    print_notes(notes)


def _print_boards(title: str, cells: Sequence[Sequence[str]]) -> None:
    """One table. If all boards are verified to the same degree, the title says so and the column is left out."""
    shown, furthest = list(range(len(_HEAD))), {row[_VERIFIED] for row in cells}
    if len(furthest) == 1:
        shown.remove(_VERIFIED)
        title = f"{title} (verified: {furthest.pop()})"
    rows = [[row[i] for i in shown] for row in cells]
    name = len(shown) - 1  # wrapped, then left out, on a narrow terminal
    print_table([_HEAD[i] for i in shown], rows, title=title, right=(3, 4, 5, 6), fold=name, spare=name)


def kernel_isas(board: targets.Board) -> Sequence[str]:
    """The instruction sets with kernels that this board runs, best first."""
    there = {kernel.isa for kernel in CATALOGUE}
    return [isa.value for isa in board.cpu.isas if isa in there]


def _is_physical(board: targets.Board) -> bool:
    """Whether there is hardware to flash."""
    return board.spec.flash_tool != "emulator"


def _row(board: targets.Board) -> Mapping[str, Any]:
    spec = board.spec
    return {
        "id": board.id,
        "name": board.name,
        "cpu": spec.cpu,
        "isa": board.isa.value,
        "kernel_isas": list(kernel_isas(board)),
        "sram_bytes": spec.sram_bytes,
        "flash_bytes": spec.flash_bytes,
        "arena_limit_bytes": board.arena_limit_bytes,
        "memories": [_memory(memory) for memory in spec.memory if memory.is_data],
        "core_hz": spec.core_hz,
        "clock": {"name": spec.clock_name, "hz": spec.tick_hz},
        "physical": _is_physical(board),
        "verified": [str(level) for level in sorted(spec.verified, key=lambda level: level.rank)],
        "level": None if spec.level is None else str(spec.level),
        "proof": spec.proof or None,
        "emulator": _emulator(spec),
    }


def _emulator(spec: Shoehorn) -> Mapping[str, Any] | None:
    """What runs the board's image without the board, and what its clock counts."""
    if (emulator := spec.emulator) is None:
        return None
    row = emulator.row
    return {"program": emulator.program, "machine": emulator.machine, "proves": row.proves, "unit": row.counts}


def _memory(memory: Memory) -> Mapping[str, Any]:
    """A memory that tensors may be in, and the cycles that a core waits there for a byte."""
    waits = {"read_cycles": memory.read_cycles, "write_cycles": memory.write_cycles}
    return {"name": memory.name, "kind": memory.kind, "origin": memory.origin, "bytes": memory.bytes, **waits}


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    sizes = (_kilobytes(row["sram_bytes"]), _kilobytes(row["flash_bytes"]))
    core = "" if row["core_hz"] is None else _hertz(row["core_hz"])
    level = row["level"] or "no"
    return row["id"], row["cpu"], row["kernel_isas"][0], *sizes, core, _hertz(row["clock"]["hz"]), level, row["name"]


def _kilobytes(size_bytes: int) -> str:
    return f"{size_bytes / 1024:g}K" if size_bytes < 1024**2 else f"{round(size_bytes / 1024**2, 1):g}M"


def _hertz(hz: int) -> str:
    factor, unit = next((each for each in _KILO if hz >= each[0]), (1, "Hz"))
    return f"{hz / factor:g} {unit}"


@click.command()
@json_option
def ops(as_json: bool) -> None:
    """Lists the ops that a model may use, and for which instruction sets they have kernels, by element type.

    Ops have the names of their format. A cell has the first letters of the instruction sets.
    """
    from shoehorn_mcu.importers import IMPORTERS, Kind
    from shoehorn_mcu.inspect.op_table import table

    known = {suffix.removeprefix("."): importer for suffix, importer in IMPORTERS.items()}
    tables = {name: table(of) for name, of in known.items()}
    if as_json:
        types = {
            name: {op: {kind: [isa.value for isa in isas] for kind, isas in row.items()} for op, row in of.items()}
            for name, of in tables.items()
        }
        formats = {name: list(of.ops) for name, of in known.items()}
        emit_json({"importers": formats, "types": types, "kernels": _kernels()})
        return
    for names in by_key((of.forms, name) for name, of in known.items()).values():  # formats that reach one importer
        rows = [(op, *(_letters(row.get(kind)) for kind in Kind)) for op, row in tables[names[0]].items()]
        print_table(("op", *Kind), rows, title=f"{', '.join(names)}: {len(rows)} ops")
    others = {variant.isa for variant in CATALOGUE} - {targets.Isa.C}
    sets = ("c portable C", *(f"{_letters([isa])} {isa.value}" for isa in targets.Isa if isa in others))
    out.print(
        fill(f"kernels: {', '.join(sets)}; {_NO_KERNEL} none is needed; {_NO_FORM} there is no such form", out.width)
    )
    text = (
        "Every core runs portable C; a board's other instruction sets are in `gen boards --json`. int8 and int16 are "
        "quantised values, of which 8-bit ones may be uint8; other: bool and integers that are not. An op may have a "
        "form under some conditions only, such as a constant matrix. In ONNX, an op without a form in a quantised type "
        "is computed in float32 between conversions, and a function of ONNX that is not listed by the ops that it is "
        "made of. If and IF need a constant condition, Scan a known number of rounds."
    )
    err.print(fill(text, err.width))


def _letters(isas: Sequence[targets.Isa] | None) -> str:
    """The cell of an op and an element type."""
    if isas is None:
        return _NO_FORM
    return "".join(isa.value[0] for isa in isas) or _NO_KERNEL


def _kernels() -> Mapping[str, Mapping[str, Sequence[str]]]:
    """By kernel: the ops that it computes, and the instruction sets that it is written for, `c` first."""
    contracts = {variant.contract.name: variant.contract for variant in CATALOGUE}
    isas = {name: {v.isa.value for v in CATALOGUE if v.contract.name == name} for name in contracts}
    return {
        name: {
            "ops": sorted(op.__name__ for op in contract.ops),
            "isas": [isa.value for isa in targets.Isa if isa.value in isas[name]],
        }
        for name, contract in sorted(contracts.items())
    }
