"""The parts of `<model>.h` and `<model>.c` for a streamed input: push_row() instead of run()."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shoehorn_mcu.emit import c, ops
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.memory_plan import Editions

SUMMARY = (
    "// The input arrives row by row and is never held whole. Nothing is allocated and no call can fail.",
    "// The tensors share one arena, so one inference runs at a time.",
)


def _input(unit: Unit) -> str:
    assert unit.streamed is not None
    return unit.streamed


def prototypes(unit: Unit) -> list[str]:
    """The interface, and the rules of its use."""
    name, rows = unit.name, f"{unit.upper}_INPUT_ROWS"
    return [
        f"// One inference is {rows} calls of {name}_push_row, row 0 first, {unit.upper}_INPUT_ROW_BYTES bytes each.",
        "// Each call copies its row and computes every row that needs no later input; after the last call the outputs",
        f"// are complete. They are valid until the next row is written or pushed. There is no {name}_run.",
        f"void {name}_push_row(const void *row);",
        "",
        "// The address of the next row. Write the row there and push this pointer to avoid the copy and a buffer.",
        f"void *{name}_next_row(void);",
        "",
        "// Abandons an unfinished inference: the next row is row 0.",
        f"void {name}_reset(void);",
        "",
        "// Outputs.",
    ]


Kind = tuple[str, Editions]
"""The part of a step that many steps share: an op, and the editions of the tensors that it uses."""


def _schedule(unit: Unit) -> tuple[list[Kind], list[tuple[int, int, int]], list[int]]:
    """The kinds of steps; the steps as (kind, first row, row after the last); and for each row of the input the first
    step that its push runs.
    """
    ran = [step for step in unit.plan.steps if not step.delivers]
    index = {stage.name: stage.index for stage in unit.stages}
    kinds = sorted({(s.op, s.editions) for s in ran}, key=lambda kind: (index[kind[0]], kind[1]))
    number = {kind: i for i, kind in enumerate(kinds)}
    steps: list[tuple[int, int, int]] = []
    starts: list[int] = []
    for step in unit.plan.steps:
        if step.delivers:
            starts += [len(steps)] * (step.rows[1] - step.rows[0])
        else:
            steps.append((number[step.op, step.editions], *step.rows))
    return kinds, steps, [*starts, len(steps)]


def _unsigned(largest: int) -> str:
    """The narrowest unsigned type that can hold `largest`."""
    return f"uint{next(bits for bits in (8, 16, 32) if largest < 2**bits)}"


def _tables(steps: list[tuple[int, int, int]], starts: list[int]) -> list[str]:
    largest = max(max(step) for step in steps)
    return [
        "// Each step: its kind (see step), its first row, and the row after its last.",
        c.table("steps", f"{_unsigned(largest)}_t", steps),
        "",
        "// The first step that the push of each input row runs; then the number of steps.",
        c.array("starts", np.array(starts, _unsigned(len(steps))), "static const"),
        "",
    ]


def _step(unit: Unit, kinds: Sequence[Kind]) -> str:
    """A function that runs one step."""
    stages = {stage.name: stage for stage in unit.stages}
    lines = ["switch (kind) {"]
    for i, (op, editions) in enumerate(kinds):
        lines += [f"case {i}:", f"    {ops.step(unit, stages[op], editions, 'y0', 'y1')}", "    break;"]
    lines += ["default:", "    break;", "}"]
    return c.function("static void step(int32_t kind, int32_t y0, int32_t y1)", lines)


def definitions(unit: Unit) -> list[str]:
    """The steps as a table, and the functions of the interface."""
    kinds, steps, starts = _schedule(unit)
    name, tensor = unit.name, f"t{unit.number[_input(unit)]}"
    body = ["step(steps[i][0], steps[i][1], steps[i][2]);"]
    loop = c.block("for (uint32_t i = starts[arrived]; i < starts[arrived + 1]; i++)", body)
    push = [
        f"void *place = {name}_next_row();",
        *c.block("if (row != place)", [f"memcpy(place, row, {unit.upper}_INPUT_ROW_BYTES);"]),
        *(loop if steps else []),
        f"arrived = arrived + 1 == {unit.upper}_INPUT_ROWS ? 0 : arrived + 1;",
    ]
    return [
        *(_tables(steps, starts) if steps else []),
        *([_step(unit, kinds), ""] if steps else []),
        "// Rows of this inference that have arrived.",
        "static int32_t arrived;",
        "",
        c.function(f"void *{name}_next_row(void)", [f"return sh_tensor_row(arena, &{tensor}, arrived);"]),
        "",
        c.function(f"void {name}_push_row(const void *row)", push),
        "",
        c.function(f"void {name}_reset(void)", ["arrived = 0;"]),
    ]
