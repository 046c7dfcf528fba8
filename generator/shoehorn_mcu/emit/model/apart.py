"""The parts of `<model>.c` for tensors whose rows are in several arenas: how a row is found, and told to a trace."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from shoehorn_mcu.emit import c
from shoehorn_mcu.emit.unit import Unit

ROW = "row_apart"
TRACE_END = "trace_end"


def definition(unit: Unit) -> list[str]:
    """The function that finds a row, where a tensor has rows in several arenas.

    Its table counts through all arenas, one behind the other: a row takes no more bytes of it than in one arena.
    """
    if not any(map(unit.is_apart, unit.placements)):
        return []
    starts = unit.plan.starts
    *_, last = unit.arenas
    body = [
        "const uint16_t *narrow = tensor->slots16;",
        "size_t at = (size_t)(narrow != NULL ? narrow[y] : tensor->other->slots[y]) * SH_SLOT_BYTES;",
    ]
    for memory, following in pairwise(unit.arenas):
        body += c.block(f"if (at < {starts[following]})", [f"return {_from(unit, memory)};"])
    body.append(f"return {_from(unit, last)};")
    return [
        "// Row y of a tensor with rows in several arenas: its table counts through them, one behind the other.",
        c.function(f"static inline void *{ROW}(const sh_tensor *tensor, int32_t y)", body),
        "",
        *(_trace_end(unit) if traced(unit) else []),
    ]


def _from(unit: Unit, memory: str) -> str:
    """The C expression of the address in a memory that is `at` in the table."""
    start = unit.plan.starts[memory]
    return f"{unit.arenas[memory].name} + at" if start == 0 else f"{unit.arenas[memory].name} + (at - {start})"


def traced(unit: Unit) -> bool:
    """Whether a step writes rows to several arenas."""
    return unit.traceable and any(unit.is_apart(stage.node.output.name) for stage in unit.stepped)


def _trace_end(unit: Unit) -> Sequence[str]:
    """The function that tells a trace of a step's rows, those in several arenas (`memory` is null) one by one."""
    further = "sh_trace_next(op);" if unit.marked else "sh_trace_begin(op);"
    each = [
        *c.block("if (y > y0)", [further]),
        f"sh_trace_end(op, {ROW}(tensor, y), &row, 0, 1);",
    ]
    body = [
        *c.block("if (memory != NULL)", ["sh_trace_end(op, memory, tensor, y0, y1);", "return;"]),
        "const sh_tensor row = {.rows = 1, .row_bytes = tensor->row_bytes};",
        *c.block("for (int32_t y = y0; y < y1; y++)", each),
    ]
    taken = "int32_t op, uint8_t *memory, const sh_tensor *tensor, int32_t y0, int32_t y1"
    return [
        "#ifdef SH_TRACE",
        "// Without an arena the rows are in several ones: each is told as a tensor of its own.",
        c.function(f"static void {TRACE_END}({taken})", body),
        "#endif",
        "",
    ]
