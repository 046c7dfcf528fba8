"""`gen boards` and `gen ops`: the boards and operators, as tables or JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import click

from shoehorn_mcu import targets
from shoehorn_mcu.console import GAP, emit_json, err, json_option, out, print_table
from shoehorn_mcu.host_tools.manifest import Memory
from shoehorn_mcu.kernels import CATALOGUE

if TYPE_CHECKING:
    from shoehorn_mcu.importers import Importer

_HEAD = ("board", "cpu", "kernels", "SRAM", "flash", "core", "timer", "verified", "name")
_VERIFIED = _HEAD.index("verified")
_GROUPS = (("parts", True), ("emulated machines, and this one", False))
_KILO = ((1_000_000_000, "GHz"), (1_000_000, "MHz"), (1_000, "kHz"))


@click.command()
@json_option
def boards(as_json: bool) -> None:
    """Lists the boards, their kernels and clocks, and how far each is verified.

    `kernels` names the best instruction set that the board runs and for which there are kernels; `c` is portable C.
    `core` is the processor's clock, `timer` the one that `gen bench` reads. `verified` is the furthest test that
    passed: build, emulator or hardware; it is in the title where it is the same for all.
    """
    listed = targets.boards()
    if as_json:
        emit_json({"boards": [_row(board) for board in listed]})
        return
    for title, physical in _GROUPS:
        cells = [_cells(_row(board)) for board in listed if _is_physical(board) is physical]
        if cells:
            _print_boards(title, cells)


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
        "verified": list(spec.verified),
    }


def _memory(memory: Memory) -> Mapping[str, Any]:
    """A memory that tensors may be in, and the cycles that a core waits there for a byte."""
    waits = {"read_cycles": memory.read_cycles, "write_cycles": memory.write_cycles}
    return {"name": memory.name, "kind": memory.kind, "origin": memory.origin, "bytes": memory.bytes, **waits}


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    sizes = (_kilobytes(row["sram_bytes"]), _kilobytes(row["flash_bytes"]))
    core = "" if row["core_hz"] is None else _hertz(row["core_hz"])
    best, verified = row["kernel_isas"][0], row["verified"][-1] if row["verified"] else "no"
    return row["id"], row["cpu"], best, *sizes, core, _hertz(row["clock"]["hz"]), verified, row["name"]


def _kilobytes(size_bytes: int) -> str:
    return f"{size_bytes / 1024:g}K" if size_bytes < 1024**2 else f"{size_bytes / 1024**2:g}M"


def _hertz(hz: int) -> str:
    factor, unit = next((each for each in _KILO if hz >= each[0]), (1, "Hz"))
    return f"{hz / factor:g} {unit}"


@click.command()
@json_option
def ops(as_json: bool) -> None:
    """Lists the ops that a model may use, by the names of its format, and the kernels by instruction set.

    A kernel's name ends with the element type that it computes with: s8 for int8, f32 for float32, none for any type.
    """
    from shoehorn_mcu.importers import IMPORTERS

    known = {suffix.removeprefix("."): importer for suffix, importer in IMPORTERS.items()}
    if as_json:
        types = {
            name: {op: [kind for kind, ops in _by_types(of) if op in ops] for op in of.ops}
            for name, of in known.items()
        }
        formats = {name: list(of.ops) for name, of in known.items()}
        emit_json({"importers": formats, "types": types, "kernels": _kernels()})
        return
    alike: dict[tuple[frozenset[str], frozenset[str]], list[str]] = {}  # formats that reach one importer
    for name, of in known.items():
        alike.setdefault((frozenset(of.int8), frozenset(of.other)), []).append(name)
    for names in alike.values():
        of = known[names[0]]
        out.print(f"{', '.join(names)}: {len(of.ops)} ops")
        both, int8, other = of.int8 & of.other, of.int8 - of.other, of.other - of.int8
        for title, each in (("int8 and other types", both), ("int8", int8), ("other types", other)):
            out.print(f"{' ' * GAP}{title}:")
            for line in _in_columns(sorted(each), out.width - 2 * GAP):
                out.print(f"{' ' * 2 * GAP}{line}")
    _print_kernels()
    text = (
        "int8: quantised values, held as int8 or uint8. Other types: float32, and for ops element by element, along an "
        "axis, of indices or layout also bool and integers. An ONNX op that is none of these, but a function of ONNX, "
        "is computed by the ops that it is made of. If and IF need a constant condition, Scan a known number of rounds."
    )
    err.print(fill(text, err.width))


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


def _print_kernels() -> None:
    """A table of the kernels: a column per instruction set."""
    kernels = _kernels()
    sets = [isa.value for isa in targets.Isa if any(isa.value in of["isas"] for of in kernels.values())]
    rows = [[name, *("x" if isa in of["isas"] else "" for isa in sets)] for name, of in kernels.items()]
    print_table(["kernel", *sets], rows, title="kernels by instruction set")


def _by_types(importer: Importer) -> Sequence[tuple[str, frozenset[str]]]:
    """The ops by the element types that they compute with."""
    return (("int8", importer.int8), ("other", importer.other))


def _in_columns(names: Sequence[str], width: int) -> Sequence[str]:
    """The names as lines of equal columns, sorted downwards."""
    widest = max(map(len, names)) + GAP
    columns = max(1, (width + GAP) // widest)
    height = -(-len(names) // columns)
    return ["".join(name.ljust(widest) for name in names[row::height]).rstrip() for row in range(height)]
