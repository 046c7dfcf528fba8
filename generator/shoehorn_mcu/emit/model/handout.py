"""The parts of `<model>.h` and `<model>.c` for a streamed output: <model>_on_row() instead of output()."""

from __future__ import annotations

from shoehorn_mcu.emit import c
from shoehorn_mcu.emit.model import ops
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.planner.memory_plan import Editions

NAME = "hand_out"


def callback(unit: Unit) -> str:
    """The name of the function that the program provides."""
    return f"{unit.name}_on_row"


def _head(unit: Unit) -> str:
    return f"void {callback(unit)}(int32_t y, const void *row)"


def prototypes(unit: Unit) -> list[str]:
    """The declaration of the function that the program provides, and the rules of its use."""
    if unit.handed_out is None:
        return []
    return [
        "// Your program provides this function. It gets each row of the output as soon as that is finished, row 0",
        f"// first, each once: {unit.upper}_OUTPUT_ROW_BYTES bytes that are valid until it returns. It must call",
        f"// nothing of this library. There is no {unit.name}_output.",
        f"{_head(unit)};",
    ]


def definition(unit: Unit) -> list[str]:
    """The function that hands out rows [y0, y1); as those of ops, with a parameter per tensor of several editions."""
    name = unit.handed_out
    if name is None:
        return []
    taken = ("int32_t y0", "int32_t y1", *(f"const sh_tensor *t{unit.number[each]}" for each in _moving(unit)))
    loop = c.block("for (int32_t y = y0; y < y1; y++)", [f"{callback(unit)}(y, {ops.row(unit, name, 'y')});"])
    return ["// Hands out rows of the output.", c.function(f"static void {NAME}({', '.join(taken)})", loop), ""]


def call(unit: Unit, editions: Editions, y0: str, y1: str) -> str:
    """The call that hands out the rows of a step."""
    means = dict(editions)
    return c.call(NAME, (y0, y1, *(f"&{unit.placement_name(each, means.get(each, 0))}" for each in _moving(unit))))


def _moving(unit: Unit) -> list[str]:
    """The tensors with rows of the output that have several editions."""
    tensors = dict.fromkeys(part.tensor for part in unit.output_rows)
    return [name for name in tensors if len(unit.editions[name]) > 1]
