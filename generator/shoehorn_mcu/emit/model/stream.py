"""The parts of `<model>.h` and `<model>.c` for a streamed input: push_row() instead of run()."""

from __future__ import annotations

from shoehorn_mcu.emit import c
from shoehorn_mcu.emit.model import ops, states, steps
from shoehorn_mcu.emit.unit import Unit


def summary(unit: Unit) -> list[str]:
    """What the library does, for the head of its header."""
    ends = "The input arrives row by row and is"
    if unit.handed_out is not None:
        ends = "The input arrives row by row, the output is handed out row by row; both are"
    return [
        f"// {ends} never held whole. Nothing is allocated and no call can fail.",
        "// The tensors share one arena, so one inference runs at a time.",
    ]


def _input(unit: Unit) -> str:
    assert unit.streamed is not None
    return unit.streamed


def prototypes(unit: Unit) -> list[str]:
    """The interface, and the rules of its use."""
    name, rows = unit.name, f"{unit.upper}_INPUT_ROWS"
    return [
        f"// One inference is {rows} calls of {name}_push_row, row 0 first, {unit.upper}_INPUT_ROW_BYTES bytes each.",
        *_completion(unit),
        f"void {name}_push_row(const void *row);",
        "",
        "// The address of the next row. Write the row there and push this pointer to avoid the copy and a buffer.",
        f"void *{name}_next_row(void);",
        "",
        *_abandoning(unit),
        *([] if unit.handed_out else ["", "// Outputs."]),
    ]


def _completion(unit: Unit) -> list[str]:
    """What a call does, and when outputs are complete."""
    if unit.handed_out is not None:
        return [
            "// Each call copies its row, computes every row that needs no later input, and hands out the finished",
            f"// rows of the output; the last call hands out the last one. There is no {unit.name}_run.",
        ]
    return [
        "// Each call copies its row and computes every row that needs no later input; after the last call the outputs",
        f"// are complete. They are valid until the next row is written or pushed. There is no {unit.name}_run.",
    ]


def _abandoning(unit: Unit) -> list[str]:
    """The functions that begin anew."""
    name, remark = unit.name, "// Abandons an unfinished inference: the next row is row 0."
    if not unit.graph.states:
        return [remark, f"void {name}_reset(void);"]
    return [f"{remark} States stay.", f"void {name}_restart(void);", *states.prototypes(unit)]


def definitions(unit: Unit, schedule: steps.Schedule) -> list[str]:
    """The functions of the interface, and how far each of them gets in the table of steps."""
    name, tensor = unit.name, _input(unit)
    place = ops.placed_row(unit, tensor, f"&t{unit.number[tensor]}", "arrived")
    push = [
        f"void *place = {name}_next_row();",
        *c.block("if (row != place)", [f"memcpy(place, row, {unit.upper}_INPUT_ROW_BYTES);"]),
        *states.begin(unit),
        *(steps.loop(schedule, "starts[arrived]", "starts[arrived + 1]") if schedule.steps else []),
        *_arrived(unit),
    ]
    restart = f"{name}_restart" if unit.graph.states else f"{name}_reset"
    return [
        *(steps.starts(schedule) if schedule.steps else []),
        "// Rows of this inference that have arrived.",
        "static int32_t arrived;",
        "",
        c.function(f"void *{name}_next_row(void)", [f"return {place};"]),
        "",
        c.function(f"void {name}_push_row(const void *row)", push),
        "",
        c.function(f"void {restart}(void)", ["arrived = 0;"]),
    ]


def _arrived(unit: Unit) -> list[str]:
    """Counts the row that arrived; the last one ends the inference."""
    last = f"arrived + 1 == {unit.upper}_INPUT_ROWS"
    if not unit.graph.states:
        return [f"arrived = {last} ? 0 : arrived + 1;"]
    lines = c.block(f"if ({last})", ["arrived = 0;", *states.end(unit)])
    return [*lines[:-1], *c.block("} else", ["arrived++;"])]
