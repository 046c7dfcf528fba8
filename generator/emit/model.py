"""`<model>.c`: the arena, the rings in it, and the steps."""

from __future__ import annotations

import numpy as np

from shoehorn_mcu.emit import c, ops, stream
from shoehorn_mcu.emit.header import ARENA_ALIGNMENT, accessor, init_head
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.emit.weights import Constants
from shoehorn_mcu.memory_plan import Ring

SLOT_BYTES = 4  # SH_SLOT_BYTES of sh_ring.h


def _ends(unit: Unit) -> list[str]:
    """The accessors of inputs and outputs; a streamed input has none, its rows are pushed."""
    lines: list[str] = []
    for suffix, tensor in unit.ends():
        if tensor != unit.streamed or suffix != "input":
            body = [f"void *first = arena + {unit.rings[tensor].address};", "return first;"]
            lines += [c.function(accessor(unit, suffix, tensor), body), ""]
    return lines


def _includes(unit: Unit) -> list[str]:
    headers = sorted({stage.kernel.header for stage in unit.stepped})
    functions = sorted({(stage.kernel.struct, stage.kernel.symbol(unit.name)) for stage in unit.stepped})
    return [
        f'#include "{unit.name}.h"',
        "",
        "#include <stddef.h>",
        "",
        f'#include "{unit.name}_weights.h"',
        *(['#include "sh/include/sh_bytes.h"'] if unit.streamed else []),
        '#include "sh/include/sh_ring.h"',
        *(f'#include "sh/{header}"' for header in headers),
        "",
        *(f"{struct}_fn {function};" for struct, function in functions),
    ]


def _trace(unit: Unit) -> list[str]:
    """How a step is called, with hooks and without; `STEP_AT` where it says in which rings."""
    moving = any(unit.moving[stage.name] for stage in unit.stepped)
    at = "STEP_AT(n, ring, y0, y1, ...)", "op##n(y0, y1, __VA_ARGS__)"
    calls = [("STEP(n, ring, y0, y1)", "op##n(y0, y1)"), *([at] if moving else [])]
    end = "sh_trace_end(n, arena, &(ring), y0, y1)"
    hooked = [f"#define {head} \\\n    (sh_trace_begin(n), {call}, {end})" for head, call in calls]
    return [
        "#ifdef SH_TRACE",
        '#include "sh/include/sh_trace.h"',
        *hooked,
        "#else",
        *(f"#define {head} {call}" for head, call in calls),
        "#endif",
    ]


def _arena(unit: Unit) -> list[str]:
    """The arena itself, or the pointer to the caller's."""
    if unit.caller_arena:
        return ["// The caller's memory.", "static uint8_t *arena;"]
    section = f"{unit.upper}_ARENA_SECTION"
    return [
        f"#ifdef {section}",
        f"#define ARENA_PLACE __attribute__((section({section})))",
        "#else",
        "#define ARENA_PLACE",
        "#endif",
        f"static _Alignas({ARENA_ALIGNMENT}) uint8_t arena[{unit.upper}_ARENA_BYTES] ARENA_PLACE;",
    ]


def _init(unit: Unit) -> str:
    reset = ["arrived = 0;"] if unit.streamed else []
    return c.function(init_head(unit), ["arena = memory;", *reset])


def _rings(unit: Unit) -> list[str]:
    """The arena and the rings that steps touch."""
    used = {t.name for stage in unit.stepped for t in (*stage.row_inputs, stage.node.output)} | {unit.streamed}
    size = f"{unit.upper}_ARENA_BYTES"
    lines = [
        *_arena(unit),
        f'_Static_assert({size} <= INT32_MAX, "rows are counted in int32_t");',
        "",
    ]
    tables: dict[tuple[int, ...], str] = {}  # chunks of a block lie in the same places, one after the other
    for ring in unit.plan.rings:
        if ring.tensor not in used:
            continue
        name = unit.ring_name(ring.tensor, ring.edition)
        lines.append(c.comment(f"{c.quoted(ring.tensor)} {unit.type(ring.tensor)}"))
        lines += _scattered(name, ring, tables, size) if ring.slots else _contiguous(name, ring, size)
        lines.append("")
    return lines


def _contiguous(name: str, ring: Ring, arena: str) -> list[str]:
    members = {
        "offset": str(ring.address),
        "rows": str(ring.rows),
        "height": str(ring.height),
        "row_bytes": str(ring.row_bytes),
    }
    end = f"{ring.address} + {ring.rows} * {ring.row_bytes}"
    return [
        c.struct("sh_ring", name, members),
        f'_Static_assert({ring.address} % 4 == 0 && {end} <= {arena}, "{name} leaves the arena");',
    ]


def _scattered(name: str, ring: Ring, tables: dict[tuple[int, ...], str], arena: str) -> list[str]:
    """A ring whose rows have places of their own, in a table of slots; equal `tables` are written once."""
    slots = [at // SLOT_BYTES for at in ring.slots]
    width = 16 if max(slots) < 2**16 else 32
    members = {
        "rows": str(ring.rows),
        "height": str(ring.height),
        "row_bytes": str(ring.row_bytes),
        f"slots{width}": tables.setdefault(ring.slots, f"{name}_slots"),
    }
    known = tables[ring.slots] != f"{name}_slots"
    return [
        *([] if known else [c.array(f"{name}_slots", np.array(slots, f"uint{width}"), "static const")]),
        c.struct("sh_ring", name, members),
        f'_Static_assert({max(ring.slots)} + {ring.row_bytes} <= {arena}, "{name} leaves the arena");',
    ]


def _run(unit: Unit) -> str:
    index = {stage.name: stage for stage in unit.stages}
    steps = [ops.step(unit, index[s.op], s.editions, *map(str, s.rows)) for s in unit.plan.steps]
    return c.function(f"void {unit.name}_run(void)", steps)


def model_c(unit: Unit, found: Constants) -> str:
    """The implementation."""
    functions = [line for stage in unit.stepped for line in (ops.function(unit, stage, found), "")]
    outcome = unit.plan.outcome
    lines = [
        f"// {c.SPDX}",
        c.comment(f"{c.quoted(unit.graph.name)}: {len(unit.stages)} ops, {len(unit.plan.steps)} steps."),
        f"// An arena of {unit.plan.arena_bytes} bytes (lower bound {outcome.bound_bytes}). Written by Shoehorn.",
        *_includes(unit),
        "",
        *_trace(unit),
        "",
        *_rings(unit),
        *functions,
        *_ends(unit),
        *(stream.definitions(unit) if unit.streamed else [_run(unit)]),
        *(["", _init(unit)] if unit.caller_arena else []),
        "",
    ]
    return "\n".join(lines)
