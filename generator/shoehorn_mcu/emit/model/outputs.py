"""The two forms of a library's outputs, each with all that files say of it: whole tensors, or rows that are handed out.

A plan of the second form has steps that hand out rows. `definition` writes the function that such a step calls, and
`call` writes the call.
"""

from __future__ import annotations

from shoehorn_mcu.emit import c
from shoehorn_mcu.emit.model import ops
from shoehorn_mcu.emit.model.form import Form, Lines
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.planner.memory_plan import Editions

NAME = "hand_out"


class WholeOutputs(Form):
    """Each output is in the arena after the last step, where the program reads it."""

    taking, taking_one = "read the outputs", "read the output"
    # `held` and `pushed` are about an input that arrives row by row.
    held = "The input arrives row by row and is never held whole."
    pushed = (
        "// Each call copies its row and computes every row that needs no later input; after the last call the outputs",
        "// are complete. They are valid until the next row is written or pushed. There is no {}_run.",
    )
    validity: Lines = ("// Outputs are valid until an input is written.",)
    heading: Lines = ("", "// Outputs.")

    def __init__(self, unit: Unit) -> None:
        self.example = [
            f"    const {unit.upper}_OUTPUT_TYPE *output = {unit.name}_output();",
            f"    // ... read {unit.upper}_OUTPUT_ELEMENTS values from output ...",
        ]


class RowOutput(Form):
    """Each row of the one output is handed out to a function of the program as soon as it is finished."""

    held = "The input arrives row by row, the output is handed out row by row; both are never held whole."
    pushed = (
        "// Each call copies its row, computes every row that needs no later input, and hands out the finished",
        "// rows of the output; the last call hands out the last one. There is no {}_run.",
    )
    validity: Lines = ()
    heading: Lines = ()

    def __init__(self, unit: Unit, tensor: str) -> None:
        callback, type_ = f"{unit.name}_on_row", unit.type(tensor)
        self.functions, self.app_functions = {"output": "on_row"}, {"output": "sh_app_no_data"}
        head = f"void {callback}(int32_t y, const void *row)"
        self.taking, self.taking_one = f"take the rows of the output in {callback}", f"take its rows in {callback}"
        self.app = {
            "SH_APP_OUTPUT_ROWS": f"{type_.rows}u",
            "SH_APP_OUTPUT_ROW_BYTES": f"{type_.row_bytes}u",
            "SH_APP_ON_ROW_TABLE(X)": f"X({callback})",
        }
        self.prototypes = [
            "",
            "// Your program provides this function. It gets each row of the output as soon as that is finished, row 0",
            f"// first, each once: {unit.upper}_OUTPUT_ROW_BYTES bytes that are valid until it returns. It must call",
            f"// nothing of this library. There is no {unit.name}_output.",
            f"{head};",
        ]
        self.example_head = [
            head,
            "{",
            f"    const {unit.upper}_OUTPUT_TYPE *values = row;",
            f"    // ... use the {unit.upper}_OUTPUT_ROW_BYTES bytes of row y of the output ...",
            "}",
            "",
        ]


Outputs = WholeOutputs | RowOutput


def definition(unit: Unit) -> list[str]:
    """The function that hands out rows y0 to y1 - 1 of the output.

    Like the function of an op, it has one more parameter for each tensor that has several editions.
    """
    (name,) = unit.graph.outputs
    taken = ("int32_t y0", "int32_t y1", *(f"const sh_tensor *t{unit.number[each]}" for each in _moving(unit)))
    loop = c.block("for (int32_t y = y0; y < y1; y++)", [f"{unit.name}_on_row(y, {ops.row(unit, name, 'y')});"])
    return ["// Hands out rows of the output.", c.function(f"static void {NAME}({', '.join(taken)})", loop), ""]


def call(unit: Unit, editions: Editions, y0: str, y1: str) -> str:
    """The call that hands out the rows of a step."""
    means = dict(editions)
    return c.call(NAME, (y0, y1, *(f"&{unit.placement_name(each, means.get(each, 0))}" for each in _moving(unit))))


def _moving(unit: Unit) -> list[str]:
    """The tensors with rows of the output that have several editions."""
    tensors = dict.fromkeys(part.tensor for part in unit.output_rows)
    return [name for name in tensors if len(unit.editions[name]) > 1]
