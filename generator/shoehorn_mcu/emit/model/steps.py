"""The steps of a plan in C: a statement each, or, where steps repeat, a table of them and a function that runs one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shoehorn_mcu.emit import c
from shoehorn_mcu.emit.model import apart, ops, outputs
from shoehorn_mcu.emit.model.form import Form
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.ir import DType
from shoehorn_mcu.planner.memory_plan import HANDOUT, Editions
from shoehorn_mcu.schedule.stage import Stage

Kind = tuple[Stage, Editions]
"""The part of a step that many steps share: an op, and the editions of the tensors that it uses."""


@dataclass(frozen=True)
class Schedule:
    """The steps that compute or hand out rows, in order, and where the rows of a streamed input arrive between them."""

    kinds: tuple[Kind, ...]
    handouts: tuple[Editions, ...]  # the kinds of steps that hand out rows; numbered behind `kinds`
    steps: tuple[tuple[int, int, int], ...]  # number of the kind, first row, row after the last
    starts: tuple[int, ...]  # for each row of the streamed input the first step after its arrival; then all steps
    cores: tuple[int, ...]  # of each step

    @property
    def is_table(self) -> bool:
        """Whether the steps are written as a table: always for a streamed input or output and for several cores, else
        if several are of one kind.

        A row of the table takes 3 or 6 bytes of flash, a statement 25 to 55.
        """
        repeats = len(self.starts) > 1 or len(self.steps) > len(self.kinds)
        return bool(self.steps) and (repeats or self.is_shared or bool(self.handouts))

    @property
    def is_shared(self) -> bool:
        """Whether several cores share some steps."""
        return max(self.cores, default=1) > 1


class SeveralCores(Form):
    """What files say where several cores share an inference."""

    includes = ("cores/sh_cores.h",)

    def __init__(self, unit: Unit) -> None:
        run = "sh_cores_run (sh/cores/sh_cores.h)"
        told = [
            f"// The cores that share an inference. The program provides {run}, which runs the",
            "// parts of a step on them; a loop that runs one part after the other on one core will do.",
        ]
        if unit.threads:
            told = [
                "// The threads that share an inference: the caller's, and others that the first inference starts and",
                "// that sleep between inferences. A process that was forked starts its own.",
            ]
        self.macros = [*told, f"#define {unit.upper}_CORES {unit.cores}"]


def schedule(unit: Unit) -> Schedule:
    """The schedule of a plan."""
    stages = {stage.name: stage for stage in unit.stages}
    ran = [step for step in unit.plan.steps if not step.delivers]
    kinds = sorted({(s.op, s.editions) for s in ran if s.computes}, key=lambda kind: (stages[kind[0]].index, kind[1]))
    handouts = sorted({s.editions for s in ran if s.hands_out})
    number = {kind: i for i, kind in enumerate([*kinds, *((HANDOUT, each) for each in handouts)])}
    steps: list[tuple[int, int, int]] = []
    starts: list[int] = []
    for step in unit.plan.steps:
        if step.delivers:
            starts += [len(steps)] * (step.rows[1] - step.rows[0])
        else:
            steps.append((number[step.op, step.editions], *step.rows))
    named = tuple((stages[op], editions) for op, editions in kinds)
    return Schedule(named, tuple(handouts), tuple(steps), (*starts, len(steps)), tuple(step.cores for step in ran))


def hooks(unit: Unit, found: Schedule) -> list[str]:
    """The macros of a build with trace hooks: around each statement, or in the function `step`."""
    if not unit.traceable:
        return []
    arena, *others = (each.name for each in unit.arenas.values())
    several = bool(others)
    told = apart.TRACE_END if apart.traced(unit) else "sh_trace_end"
    if found.is_table:
        arena = _kind_arena(unit) if several else arena
        begin, end = "TRACE_BEGIN(kind)", "TRACE_END(kind, y0, y1)"
        hooked = [
            f"#define {begin} SH_TRACED(sh_trace_begin(kinds[kind].op))",
            f"#define {end} \\\n    SH_TRACED({told}(kinds[kind].op, {arena}, kinds[kind].output, y0, y1))",
        ]
        plain = [f"#define {begin} ((void)0)", f"#define {end} ((void)0)"]
        if unit.marked:
            hooked.append(
                "#define TRACE_AGAIN(kind) (sh_trace_on && kinds[kind].again && sh_trace_again(kinds[kind].op))"
            )
            plain.append("#define TRACE_AGAIN(kind) 0")
    else:
        step = "STEP(n, call, memory, tensor, y0, y1)" if several else "STEP(n, call, tensor, y0, y1)"
        arena = "memory" if several else arena
        end = f"{told}(n, {arena}, &(tensor), y0, y1)"
        hooked = [f"#define {step} \\\n    (sh_trace_begin(n), call, {end})"]
        plain = [f"#define {step} call"]
        if unit.marked:
            again = step.replace("STEP", "STEP_AGAIN")
            loop = f"do {{ sh_trace_begin(n); do {{ call; }} while (sh_trace_again(n)); {end}; }} while (0)"
            hooked.append(f"#define {again} \\\n    {loop}")
            plain.append(f"#define {again} call")
    return ["#ifdef SH_TRACE", '#include "sh/include/sh_trace.h"', *hooked, "#else", *plain, "#endif"]


def _repeats(stage: Stage) -> bool:
    """Whether a step may run several times in place of once: not one that adds to sums, which leave their type then."""
    written = stage.node.output
    sums = written.type.dtype is DType.INT32
    return not any(read.name == written.name or (sums and read.type.dtype is DType.INT32) for read in stage.row_inputs)


def _kind_arena(unit: Unit) -> str:
    """The C expression of the arena that a kind of step writes to, of several; null for rows in several."""
    *others, last = (arena.name for arena in unit.arenas.values())
    if apart.traced(unit):
        others, last = [*others, last], "NULL"
    chosen = (f"kinds[kind].memory == {i} ? {arena} : " for i, arena in enumerate(others))
    return f"{''.join(chosen)}{last}"


def _arena_number(unit: Unit, tensor: str) -> int:
    """The number of the arena that a tensor is in; that of none for rows in several."""
    memory = unit.placements[tensor].memory
    return len(unit.arenas) if unit.is_apart(tensor) else [*unit.arenas].index(memory)


def statements(unit: Unit, found: Schedule) -> list[str]:
    """A statement per step."""
    lines = []
    for kind, first, end in found.steps:
        stage, editions = found.kinds[kind]
        rows = str(first), str(end)
        call, output = ops.call(unit, stage, editions, *rows), ops.written(unit, stage, editions)
        written = stage.node.output.name
        arena = ["NULL" if unit.is_apart(written) else unit.arena_of(written)] if len(unit.arenas) > 1 else []
        traced = c.call(
            "STEP_AGAIN" if unit.marked and _repeats(stage) else "STEP", (str(stage.index), call, *arena, output, *rows)
        )
        lines.append(f"{traced if unit.traceable else call};")
    return lines


def table(unit: Unit, found: Schedule) -> list[str]:
    """The table `steps` and the function `step`."""
    rows: Sequence[tuple[int, ...]] = found.steps
    remark = "// Each step: its kind (see step), its first row, and the row after its last."
    if found.is_shared:
        rows = [(*step, cores) for step, cores in zip(found.steps, found.cores, strict=True)]
        remark = "// Each step: its kind (see part), its first row, the row after its last, and its cores."
    largest = max(map(max, rows))
    several = len(unit.arenas) > 1
    places = [f", {_arena_number(unit, s.node.output.name)}" if several else "" for s, _ in found.kinds]
    if unit.marked:
        places = [f"{place}, {int(_repeats(stage))}" for place, (stage, _) in zip(places, found.kinds, strict=True)]
    written = (f"{stage.index}, &{ops.written(unit, stage, editions)}" for stage, editions in found.kinds)
    kinds = [
        "#ifdef SH_TRACE",
        f"// Each kind of step: its op, and the tensor that it writes{' with the number of its arena' * several}.",
        "static const struct {",
        "    int32_t op;",
        "    const sh_tensor *output;",
        *(["    uint8_t memory;"] if several else []),
        *(["    uint8_t again; // whether it may run several times"] if unit.marked else []),
        "} kinds[] = {",
        *(f"    {{{each}{place}}}," for each, place in zip(written, places, strict=True)),
        "};",
        "#endif",
        "",
    ]
    return [
        remark,
        c.table("steps", f"{_unsigned(largest)}_t", rows),
        "",
        *(kinds if unit.traceable else []),
        *(outputs.definition(unit) if found.handouts else []),
        *(_shared_step(unit, found) if found.is_shared else [_step(unit, found)]),
        "",
    ]


def starts(found: Schedule) -> list[str]:
    """The array `starts`, for a streamed input."""
    return [
        "// The first step that the push of each input row runs; then the number of steps.",
        c.array("starts", np.array(found.starts, _unsigned(len(found.steps))), "static const"),
        "",
    ]


def loop(found: Schedule, start: str, end: str) -> list[str]:
    """The loop that runs the steps of the table from `start` to `end`, C expressions."""
    body = ["step((int32_t)i);" if found.is_shared else "step(steps[i][0], steps[i][1], steps[i][2]);"]
    return c.block(f"for (uint32_t i = {start}; i < {end}; i++)", body)


_ROW = ("steps[i][0]", "steps[i][1]", "steps[i][2]")
"""A step in the table."""


def _unsigned(largest: int) -> str:
    """The narrowest unsigned type that can hold `largest`."""
    return f"uint{next(bits for bits in (8, 16, 32) if largest < 2**bits)}"


def _step(unit: Unit, found: Schedule) -> str:
    """The function that runs one step."""
    lines = _traced(unit, ("kind", "y0", "y1"), _switch(unit, found.kinds))
    lines = _or_handed_out(unit, found, ("kind", "y0", "y1"), lines)
    return c.function("static void step(int32_t kind, int32_t y0, int32_t y1)", lines)


def _traced(unit: Unit, step: tuple[str, str, str], run: list[str]) -> list[str]:
    """The statements of a step with the hooks around them."""
    if not unit.traceable:
        return run
    if unit.marked:
        run = [*c.block("do", run)[:-1], f"}} while (TRACE_AGAIN({step[0]}));"]
    return [f"TRACE_BEGIN({step[0]});", *run, f"TRACE_END({', '.join(step)});"]


def _or_handed_out(unit: Unit, found: Schedule, step: tuple[str, str, str], computed: list[str]) -> list[str]:
    """The statements of a step that computes rows, or those of one that hands out rows of the output, which no trace
    sees. `step` has the C expressions of its kind, its first row and the row after its last.
    """
    if not found.handouts:
        return computed
    kind, *rows = step
    first = len(found.kinds)
    calls = [f"{outputs.call(unit, editions, *rows)};" for editions in found.handouts]
    lines = c.block(f"if ({kind} < {first})", computed)[:-1]
    for i, each in enumerate(calls[:-1]):
        lines += c.block(f"}} else if ({kind} == {first + i})", [each])[:-1]
    return [*lines, *c.block("} else", [calls[-1]])]


def _switch(unit: Unit, kinds: Sequence[Kind]) -> list[str]:
    """The statement that computes rows [y0, y1) of a kind of step."""
    lines = ["switch (kind) {"]
    for i, (stage, editions) in enumerate(kinds):
        lines += [f"case {i}:", f"    {ops.call(unit, stage, editions, 'y0', 'y1')};", "    break;"]
    return [*lines, "default:", "    break;", "}"]


def _shared_step(unit: Unit, found: Schedule) -> list[str]:
    """The function that computes one core's rows of a step, and the one that runs a step on its cores."""
    part = [
        "int32_t kind = steps[i][0], rows = steps[i][2] - steps[i][1], cores = steps[i][3];",
        "int32_t y0 = steps[i][1] + rows * core / cores;",
        "int32_t y1 = steps[i][1] + rows * (core + 1) / cores;",
        *_switch(unit, found.kinds),
    ]
    run = [
        *c.block("if (steps[i][3] > 1)", ["sh_cores_run(part, i, steps[i][3]);"])[:-1],
        *c.block("} else", ["part(i, 0);"]),
    ]
    step = _traced(unit, _ROW, run)
    return [
        "// Computes the rows of step i that fall to `core`: contiguous ones, as many as other cores have or one less.",
        c.function("static void part(int32_t i, int32_t core)", part),
        "",
        c.function("static void step(int32_t i)", _or_handed_out(unit, found, _ROW, step)),
    ]
