"""The two forms of a library's inputs, each with all that files say of it: whole tensors and one call that runs an
inference, or rows that arrive, with `push_row` instead of `run`.
"""

from __future__ import annotations

from shoehorn_mcu.emit import c
from shoehorn_mcu.emit.model import ops, steps
from shoehorn_mcu.emit.model.form import Form, Lines
from shoehorn_mcu.emit.model.outputs import Outputs
from shoehorn_mcu.emit.model.states import Stateless, States
from shoehorn_mcu.emit.unit import Unit


class WholeInputs(Form):
    """The program writes all inputs, then calls `<model>_run`."""

    use = "An inference reuses the bytes of its inputs, so write all inputs before each call."

    def __init__(self, unit: Unit, outputs: Outputs, states: States | Stateless) -> None:
        self._unit, self._states, run = unit, states, f"{unit.name}_run"
        self.summary = f"Write the inputs, call {run}, {outputs.taking}."
        self.paragraph = f"Write the input, call {run}, {outputs.taking_one}."
        self.prototypes = [f"// Inputs may be written until {run}, which reuses their bytes.", *outputs.validity]
        self.prototypes_behind = ["", "// One inference.", f"void {run}(void);", *states.forgetting()]
        self.example = [
            f"    {unit.upper}_INPUT_TYPE *input = {unit.name}_input();",
            f"    // ... write {unit.upper}_INPUT_ELEMENTS values to input ...",
            f"    {run}();",
        ]
        self.app = {
            "SH_APP_RUN()": f"{run}()",
            "SH_APP_INPUT_ROWS": "0u",
            "SH_APP_INPUT_ROW_BYTES": "0u",
            "SH_APP_PUSH_ROW(row)": "((void)(row))",
            "SH_APP_RESET()": "((void)0)",
        }

    def running(self, schedule: steps.Schedule) -> list[str]:
        """The functions that run an inference and forget the earlier ones."""
        unit, states = self._unit, self._states
        count = f"{len(schedule.steps)}u"
        body = steps.loop(schedule, "0", count) if schedule.is_table else steps.statements(unit, schedule)
        run = c.function(f"void {unit.name}_run(void)", [*states.begin, *body, *states.end])
        return [*states.resetting(), run]


class RowInput(Form):
    """The program pushes the rows of the one input, which is never held whole."""

    includes = ("include/sh_bytes.h",)
    init = ("arrived = 0;",)
    prototypes_behind: Lines = ()

    def __init__(self, unit: Unit, tensor: str, outputs: Outputs, states: States | Stateless) -> None:
        self._unit, self._tensor, self._states = unit, tensor, states
        name, rows, row_bytes = unit.name, f"{unit.upper}_INPUT_ROWS", f"{unit.upper}_INPUT_ROW_BYTES"
        type_, self._anew = unit.type(tensor), f"{name}_{states.anew}"
        self.summary = outputs.held
        self.paragraph = f"Call {name}_push_row with each row of the input, {outputs.taking_one}."
        self.use = f"`{name}_reset()` abandons an unfinished inference."
        self.prototypes = [
            f"// One inference is {rows} calls of {name}_push_row, row 0 first, {row_bytes} bytes each.",
            *(line.format(name) for line in outputs.pushed),
            f"void {name}_push_row(const void *row);",
            "",
            "// The address of the next row. Write the row there and push this pointer to avoid the copy and a buffer.",
            f"void *{name}_next_row(void);",
            "",
            f"// Abandons an unfinished inference: the next row is row 0.{states.anew_remark}",
            f"void {self._anew}(void);",
            *states.forgetting(" An unfinished inference is abandoned."),
            *outputs.heading,
        ]
        self.example = [
            f"    for (int y = 0; y < {rows}; y++) {{",
            f"        void *row = {name}_next_row();",
            f"        // ... write {row_bytes} bytes to row ...",
            f"        {name}_push_row(row);",
            "    }",
        ]
        self.functions, self.app_functions = {"input": "push_row"}, {"input": f"{name}_next_row"}
        self.app = {
            "SH_APP_RUN()": "((void)0)",
            "SH_APP_INPUT_ROWS": f"{type_.rows}u",
            "SH_APP_INPUT_ROW_BYTES": f"{type_.row_bytes}u",
            "SH_APP_PUSH_ROW(row)": f"{name}_push_row(row)",
            "SH_APP_RESET()": f"{self._anew}()",
        }

    def running(self, schedule: steps.Schedule) -> list[str]:
        """The functions of the interface, and how far each of them gets in the table of steps."""
        unit, states, name = self._unit, self._states, self._unit.name
        place = ops.placed_row(unit, self._tensor, f"&t{unit.number[self._tensor]}", "arrived")
        push = [
            f"void *place = {name}_next_row();",
            *c.block("if (row != place)", [f"memcpy(place, row, {unit.upper}_INPUT_ROW_BYTES);"]),
            *states.begin,
            *(steps.loop(schedule, "starts[arrived]", "starts[arrived + 1]") if schedule.steps else []),
            *states.arrived(f"arrived + 1 == {unit.upper}_INPUT_ROWS"),
        ]
        return [
            *states.resetting([f"{self._anew}();"]),
            *(steps.starts(schedule) if schedule.steps else []),
            "// Rows of this inference that have arrived.",
            "static int32_t arrived;",
            "",
            c.function(f"void *{name}_next_row(void)", [f"return {place};"]),
            "",
            c.function(f"void {name}_push_row(const void *row)", push),
            "",
            c.function(f"void {self._anew}(void)", ["arrived = 0;"]),
        ]
