"""The steps of a plan in C: a statement each, or, where steps repeat, a table of them and a function that runs one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shoehorn_mcu.emit import c, ops
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.memory_plan import Editions
from shoehorn_mcu.stage import Stage

Kind = tuple[Stage, Editions]
"""The part of a step that many steps share: an op, and the editions of the tensors that it uses."""


@dataclass(frozen=True)
class Schedule:
    """The steps that compute rows, in order, and where the rows of a streamed input arrive between them."""

    kinds: tuple[Kind, ...]
    steps: tuple[tuple[int, int, int], ...]  # number of the kind, first row, row after the last
    starts: tuple[int, ...]  # for each row of the streamed input the first step after its arrival; then all steps

    @property
    def is_table(self) -> bool:
        """Whether the steps are written as a table: always for a streamed input, else if several are of one kind.

        A row of the table takes 3 or 6 bytes of flash, a statement 25 to 55.
        """
        return bool(self.steps) and (len(self.starts) > 1 or len(self.steps) > len(self.kinds))


def schedule(unit: Unit) -> Schedule:
    """The schedule of a plan."""
    stages = {stage.name: stage for stage in unit.stages}
    ran = [step for step in unit.plan.steps if not step.delivers]
    kinds = sorted({(s.op, s.editions) for s in ran}, key=lambda kind: (stages[kind[0]].index, kind[1]))
    number = {kind: i for i, kind in enumerate(kinds)}
    steps: list[tuple[int, int, int]] = []
    starts: list[int] = []
    for step in unit.plan.steps:
        if step.delivers:
            starts += [len(steps)] * (step.rows[1] - step.rows[0])
        else:
            steps.append((number[step.op, step.editions], *step.rows))
    return Schedule(tuple((stages[op], editions) for op, editions in kinds), tuple(steps), (*starts, len(steps)))


def hooks(unit: Unit, found: Schedule) -> list[str]:
    """The macros of a build with trace hooks: around each statement, or in the function `step`."""
    if found.is_table:
        begin, end = "TRACE_BEGIN(kind)", "TRACE_END(kind, y0, y1)"
        hooked = [
            f"#define {begin} sh_trace_begin(kinds[kind].op)",
            f"#define {end} \\\n    sh_trace_end(kinds[kind].op, arena, kinds[kind].output, y0, y1)",
        ]
        plain = [f"#define {begin} ((void)0)", f"#define {end} ((void)0)"]
    else:
        step = "STEP(n, call, tensor, y0, y1)"
        hooked = [f"#define {step} \\\n    (sh_trace_begin(n), call, sh_trace_end(n, arena, &(tensor), y0, y1))"]
        plain = [f"#define {step} call"]
    return ["#ifdef SH_TRACE", '#include "sh/include/sh_trace.h"', *hooked, "#else", *plain, "#endif"]


def statements(unit: Unit, found: Schedule) -> list[str]:
    """A statement per step."""
    lines = []
    for kind, first, end in found.steps:
        stage, editions = found.kinds[kind]
        rows = str(first), str(end)
        call, output = ops.call(unit, stage, editions, *rows), ops.written(unit, stage, editions)
        lines.append(c.call("STEP", (str(stage.index), call, output, *rows)) + ";")
    return lines


def table(unit: Unit, found: Schedule) -> list[str]:
    """The table `steps` and the function `step`."""
    largest = max(map(max, found.steps))
    outputs = [(stage.index, ops.written(unit, stage, editions)) for stage, editions in found.kinds]
    return [
        "// Each step: its kind (see step), its first row, and the row after its last.",
        c.table("steps", f"{_unsigned(largest)}_t", found.steps),
        "",
        "#ifdef SH_TRACE",
        "// Each kind of step: its op, and the tensor that it writes.",
        "static const struct {",
        "    int32_t op;",
        "    const sh_tensor *output;",
        "} kinds[] = {",
        *(f"    {{{op}, &{output}}}," for op, output in outputs),
        "};",
        "#endif",
        "",
        _step(unit, found.kinds),
        "",
    ]


def starts(found: Schedule) -> list[str]:
    """The array `starts`, for a streamed input."""
    return [
        "// The first step that the push of each input row runs; then the number of steps.",
        c.array("starts", np.array(found.starts, _unsigned(len(found.steps))), "static const"),
        "",
    ]


def loop(start: str, end: str) -> list[str]:
    """The loop that runs the steps of the table from `start` to `end`, C expressions."""
    body = ["step(steps[i][0], steps[i][1], steps[i][2]);"]
    return c.block(f"for (uint32_t i = {start}; i < {end}; i++)", body)


def _unsigned(largest: int) -> str:
    """The narrowest unsigned type that can hold `largest`."""
    return f"uint{next(bits for bits in (8, 16, 32) if largest < 2**bits)}"


def _step(unit: Unit, kinds: Sequence[Kind]) -> str:
    """The function that runs one step."""
    lines = ["TRACE_BEGIN(kind);", "switch (kind) {"]
    for i, (stage, editions) in enumerate(kinds):
        lines += [f"case {i}:", f"    {ops.call(unit, stage, editions, 'y0', 'y1')};", "    break;"]
    lines += ["default:", "    break;", "}", "TRACE_END(kind, y0, y1);"]
    return c.function("static void step(int32_t kind, int32_t y0, int32_t y1)", lines)
