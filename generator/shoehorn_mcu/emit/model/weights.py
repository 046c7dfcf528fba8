"""The constants of a model: its arrays, their C names and alignment, and their file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from shoehorn_mcu.emit import c
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.ir import Array
from shoehorn_mcu.kernels.base.contract import WORD, alignment_of, array_of


@dataclass(frozen=True, eq=False)
class Constants:
    """Arrays by C name, and the C name for each use: (op number, member of its struct or `x<input>`)."""

    arrays: Mapping[str, Array]
    names: Mapping[tuple[int, str], str]
    alignments: Mapping[str, int]  # in bytes, by C name

    @property
    def bytes(self) -> int:
        return sum(data.nbytes for data in self.arrays.values())


def _uses(unit: Unit) -> Iterator[tuple[int, str, Array, int]]:
    """Every constant that is read: op number, member, data, alignment. `x1` is the second input, read by rows."""
    for stage in unit.stages:
        for member, value in stage.params.items():
            data = array_of(value)
            if data is not None:
                yield stage.index, member, data, alignment_of(value)
        for place, tensor in enumerate(stage.row_inputs):
            if tensor.data is not None:
                yield stage.index, f"x{place}", tensor.data, WORD


def constants(unit: Unit) -> Constants:
    """Equal arrays of equal type are kept once, under the name of their first use, aligned for all their uses."""
    arrays: dict[str, Array] = {}
    names: dict[tuple[int, str], str] = {}
    known: dict[tuple[str, bytes], str] = {}
    alignments: dict[str, int] = {}
    for index, member, data, alignment in _uses(unit):
        key = (data.dtype.name, data.tobytes())
        name = known.setdefault(key, f"{unit.name}_op{index}_{member}")
        arrays.setdefault(name, data)
        alignments[name] = max(alignment, alignments.get(name, WORD))
        names[index, member] = name
    return Constants(arrays, names, alignments)


def _const(unit: Unit, name: str) -> str:
    """The qualifier of an array: those in RAM are initialised variables, which start-up copies like any other."""
    return "" if name in unit.in_ram.names else "const "


def _qualifiers(unit: Unit, found: Constants, name: str) -> str:
    """The text before the type of an array: its alignment and its qualifier.

    Kernels load arrays by words at least, so an array is aligned as a word or more strictly.
    """
    alignment = found.alignments[name]
    aligned = f"_Alignas({alignment}) " if alignment > found.arrays[name].itemsize else ""
    return aligned + _const(unit, name)


def weights_h(unit: Unit, found: Constants) -> str:
    """Declarations of the constants, with their alignment: on x86-64 Clang takes others for aligned by 16."""
    own = ((f"extern {_qualifiers(unit, found, name)}", name, data) for name, data in found.arrays.items())
    declared = (f"{qualifiers}{c.TYPES[data.dtype.name]} {name}[{data.size}];" for qualifiers, name, data in own)
    remark = f"// Constants of {unit.name}: weights, biases, multipliers and tables, as the kernels read them."
    return c.header(f"SHOEHORN_{unit.upper}_WEIGHTS_H", [remark], ("#include <stdint.h>", "", *declared))


def weights_c(unit: Unit, found: Constants, refusals: Sequence[str] = ()) -> str:
    """Definitions of the constants, behind lines that stop compilers for machines that cannot hold them."""
    parts = [f'// {c.SPDX}\n#include "{unit.name}_weights.h"', *refusals, *array_texts(unit, found)]
    if not found.arrays:
        parts.append("typedef int32_t sh_no_constants; // a C file must not be empty")
    return "\n\n".join(parts) + "\n"


def array_texts(unit: Unit, found: Constants, storage: str = "") -> Iterator[str]:
    """The definition of each constant."""
    first: dict[str, int] = {}
    for (index, _), name in found.names.items():
        first.setdefault(name, index)
    for name, data in found.arrays.items():
        stage = unit.stages[first[name]]
        remark = c.comment(f"op {stage.index} {type(stage.node.op).__name__} {c.quoted(stage.name)}")
        yield f"{remark}\n{c.array(name, data, (storage + _qualifiers(unit, found, name)).rstrip())}"
