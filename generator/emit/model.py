"""`<model>.h` and `<model>.c`: the interface, the rings in their arena, and the steps."""

from __future__ import annotations

import numpy as np

from shoehorn_mcu.emit import c, ops, stream
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.emit.weights import Constants
from shoehorn_mcu.ir import TensorType
from shoehorn_mcu.memory_plan import Ring

ARENA_ALIGNMENT = 16  # bytes; rings lie at multiples of 4 in it
SLOT_BYTES = 4  # SH_SLOT_BYTES of sh_ring.h


def _quantisation(type_: TensorType) -> str:
    if type_.quant is None:
        return ""
    return f", scale {type_.quant.scale:.9g}, zero point {type_.quant.zero_point}"


def _ends(unit: Unit, prototype: bool) -> list[str]:
    """The accessors of inputs and outputs: prototypes, or definitions."""
    lines: list[str] = []
    for suffix, tensor in unit.ends():
        if tensor == unit.streamed and suffix == "input":
            continue  # push_row takes it
        type_ = unit.type(tensor)
        const = "" if suffix.startswith("input") else "const "
        head = f"{const}{c.TYPES[type_.dtype.value]} *{unit.name}_{suffix}(void)"
        if prototype:
            shown = f"{suffix.replace('_', ' ')}: {c.quoted(tensor)} {type_}{_quantisation(type_)}"
            lines += [c.comment(shown), f"{head};"]
        else:
            address = unit.rings[tensor].address
            lines += [c.function(head, [f"void *first = arena + {address};", "return first;"]), ""]
    return lines


def _summary(unit: Unit) -> list[str]:
    return [
        f"// Write the inputs, call {unit.name}_run, read the outputs. Nothing is allocated and nothing can fail;",
        "// there is one arena, so one inference at a time.",
    ]


def _validity(unit: Unit) -> list[str]:
    return [
        f"// Inputs may be written until {unit.name}_run, which uses their bytes for other things.",
        "// Outputs stay until an input is written.",
    ]


def model_h(unit: Unit) -> str:
    """The interface; C++ may include it."""
    guard = f"SHOEHORN_{unit.upper}_H"
    sizes = [f"#define {unit.upper}_{s.upper()}_BYTES {unit.type(t).bytes}" for s, t in unit.ends()]
    sizes += stream.sizes(unit) if unit.streamed else []
    return "\n".join(
        (
            f"// {c.SPDX}",
            c.comment(f"{c.quoted(unit.graph.name)} as static C, written by Shoehorn."),
            "//",
            *(stream.SUMMARY if unit.streamed else _summary(unit)),
            f"#ifndef {guard}",
            f"#define {guard}",
            "",
            "#include <stdint.h>",
            "",
            f"#define {unit.upper}_ARENA_BYTES {unit.plan.arena_bytes}",
            *sizes,
            "",
            "#ifdef __cplusplus",
            'extern "C" {',
            "#endif",
            "",
            *(stream.prototypes(unit) if unit.streamed else _validity(unit)),
            *_ends(unit, prototype=True),
            *([] if unit.streamed else ["", "// One inference.", f"void {unit.name}_run(void);"]),
            "",
            "#ifdef __cplusplus",
            "}",
            "#endif",
            "",
            "#endif",
            "",
        )
    )


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
    hooked = [
        f"#define {head} \\\n    (sh_trace_begin(n), {call}, sh_trace_end(n, &(ring), y0, y1))" for head, call in calls
    ]
    return [
        "#ifdef SH_TRACE",
        '#include "sh/include/sh_trace.h"',
        *hooked,
        "#else",
        *(f"#define {head} {call}" for head, call in calls),
        "#endif",
    ]


def _rings(unit: Unit) -> list[str]:
    """The arena and the rings that steps touch."""
    used = {t.name for stage in unit.stepped for t in (*stage.row_inputs, stage.node.output)} | {unit.streamed}
    lines = [
        f"static _Alignas({ARENA_ALIGNMENT}) uint8_t arena[{unit.upper}_ARENA_BYTES];",
        f'_Static_assert({unit.upper}_ARENA_BYTES <= INT32_MAX, "rows are counted in int32_t");',
        "",
    ]
    tables: dict[tuple[int, ...], str] = {}  # chunks of a block lie in the same places, one after the other
    for ring in unit.plan.rings:
        if ring.tensor not in used:
            continue
        name = unit.ring_name(ring.tensor, ring.edition)
        lines.append(c.comment(f"{c.quoted(ring.tensor)} {unit.type(ring.tensor)}"))
        lines += _scattered(name, ring, tables) if ring.slots else _contiguous(name, ring)
        lines.append("")
    return lines


def _contiguous(name: str, ring: Ring) -> list[str]:
    members = {
        "base": f"arena + {ring.address}",
        "rows": str(ring.rows),
        "height": str(ring.height),
        "row_bytes": str(ring.row_bytes),
    }
    end = f"{ring.address} + {ring.rows} * {ring.row_bytes}"
    return [
        c.struct("sh_ring", name, members),
        f'_Static_assert({ring.address} % 4 == 0 && {end} <= sizeof arena, "{name} leaves the arena");',
    ]


def _scattered(name: str, ring: Ring, tables: dict[tuple[int, ...], str]) -> list[str]:
    """A ring whose rows have places of their own, in a table of slots; equal `tables` are written once."""
    slots = [at // SLOT_BYTES for at in ring.slots]
    width = 16 if max(slots) < 2**16 else 32
    members = {
        "base": "arena",
        "rows": str(ring.rows),
        "height": str(ring.height),
        "row_bytes": str(ring.row_bytes),
        f"slots{width}": tables.setdefault(ring.slots, f"{name}_slots"),
    }
    known = tables[ring.slots] != f"{name}_slots"
    return [
        *([] if known else [c.array(f"{name}_slots", np.array(slots, f"uint{width}"), "static const")]),
        c.struct("sh_ring", name, members),
        f'_Static_assert({max(ring.slots)} + {ring.row_bytes} <= sizeof arena, "{name} leaves the arena");',
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
        *_ends(unit, prototype=False),
        *(stream.definitions(unit) if unit.streamed else [_run(unit)]),
        "",
    ]
    return "\n".join(lines)
