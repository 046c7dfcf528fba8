"""`<model>.c`: the arena, the placements of tensors in it, and the steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from shoehorn_mcu.emit import c
from shoehorn_mcu.emit.kernels.kernel_files import header_name
from shoehorn_mcu.emit.model import apart, header, ops, states, steps
from shoehorn_mcu.emit.model.arenas import arenas_text
from shoehorn_mcu.emit.model.forms import Forms
from shoehorn_mcu.emit.model.weights import Constants
from shoehorn_mcu.emit.unit import Unit, touched
from shoehorn_mcu.planner.memory_plan import Placement

SLOT_BYTES = 4  # SH_SLOT_BYTES of sh_tensor.h


def _ends(unit: Unit) -> list[str]:
    """The accessors of inputs and outputs."""
    lines: list[str] = []
    for suffix, tensor in unit.whole_ends():
        body = [f"void *first = {states.address(unit, tensor)};", "return first;"]
        lines += [c.function(header.accessor(unit, suffix, tensor), body), ""]
    return lines


def _includes(unit: Unit, form: Forms) -> list[str]:
    needed = dict.fromkeys((*form.inputs.includes, *form.states.includes, *form.cores.includes, *form.sliding.includes))
    inserting = any(stage.node.row_part for stage in unit.stepped)
    return [
        f'#include "{unit.name}.h"',
        "",
        "#include <stddef.h>",
        "",
        f'#include "{header_name(unit.name)}"',
        f'#include "{unit.name}_weights.h"',
        *(f'#include "sh/{path}"' for path in needed),
        *(['#include "sh/include/sh_insert.h"'] if inserting else []),
        '#include "sh/include/sh_tensor.h"',
    ]


def _placements(unit: Unit, form: Forms) -> list[str]:
    """The arena, and the placements of the tensors that steps touch."""
    used = {name for stage in unit.stepped for name in touched(stage)} | {unit.streamed}
    lines = []
    for arena in unit.arenas.values():
        counted = f'_Static_assert({arena.macro}_BYTES <= INT32_MAX, "rows are counted in int32_t");'
        lines += [*form.arenas.storage(arena), counted, ""]
    tables: dict[tuple[int, ...], str] = {}  # the chunks of a block have the same addresses, one chunk after the other
    for placement in unit.plan.placements:
        if placement.tensor not in used:
            continue
        name = unit.placement_name(placement.tensor, placement.edition)
        size = f"{unit.arenas[placement.memory].macro}_BYTES"
        lines.append(c.comment(f"{c.quoted(placement.tensor)} {unit.type(placement.tensor)}"))
        if placement.memories:
            *_, last = unit.arenas
            size = f"{unit.plan.starts[last]} + {unit.arenas[last].macro}_BYTES"
        if placement.slots:
            lines += _scattered(name, replace(placement, slots=unit.plan.table(placement)), tables, size)
        else:
            lines += _contiguous(unit, name, placement, size)
        lines.append("")
    return lines


def _contiguous(unit: Unit, name: str, placement: Placement, arena: str) -> list[str]:
    ring = states.ring(unit, placement.tensor)
    members = {
        "offset": str(placement.address),
        "rows": str(placement.rows),
        "row_bytes": str(placement.row_bytes),
        **_other(name, ring),
    }
    end = placement.address + placement.rows * placement.row_bytes
    return [
        *_other_rows(name, ring),
        c.struct("sh_tensor", name, members),
        f'_Static_assert({end} <= {arena}, "{name} leaves the arena");',
    ]


def _scattered(name: str, placement: Placement, tables: dict[tuple[int, ...], str], arena: str) -> list[str]:
    """A tensor with an address per row, in a table of slots; equal `tables` are written once."""
    slots = [at // SLOT_BYTES for at in placement.slots]
    width = 16 if max(slots) < 2**16 else 32
    table = tables.setdefault(placement.slots, f"{name}_slots")
    other = {} if width == 16 else {"slots": table}
    members = {
        "rows": str(placement.rows),
        "row_bytes": str(placement.row_bytes),
        **({"slots16": table} if width == 16 else _other(name, other)),
    }
    known = table != f"{name}_slots"
    return [
        *([] if known else [c.array(f"{name}_slots", np.array(slots, f"uint{width}"), "static const")]),
        *_other_rows(name, other),
        c.struct("sh_tensor", name, members),
        f'_Static_assert({max(placement.slots) + placement.row_bytes} <= {arena}, "{name} leaves the arena");',
    ]


def _other_rows(name: str, members: Mapping[str, str]) -> list[str]:
    """The definition of the struct that says where the rows of such a tensor are."""
    return [c.struct("sh_other_rows", f"{name}_rows", members)] if members else []


def _other(name: str, members: Mapping[str, str]) -> Mapping[str, str]:
    """The tensor's member that points there."""
    return {"other": f"&{name}_rows"} if members else {}


def introduction(unit: Unit, writer: str = "Shoehorn") -> list[str]:
    """What the library is, for the head of its file."""
    outcome = unit.plan.outcome
    return [
        f"// {c.SPDX}",
        c.comment(f"{c.quoted(unit.graph.name)}: {len(unit.stages)} ops, {len(unit.plan.steps)} steps."),
        f"// {arenas_text(unit)}. Written by {writer}.",
        f"// Lower bound of {outcome.bound_of}: {outcome.bound_bytes} bytes.",
        *([f"// Float mode: {unit.float_mode}{', fused' * unit.fuses}."] if unit.precise or unit.fuses else []),
        *([f"// Kernels as the tuning file {unit.tuning_digest} says."] if unit.tuning_digest else []),
    ]


def model_c(unit: Unit, found: Constants) -> str:
    """The implementation."""
    functions = [line for stage in unit.stepped for line in (ops.function(unit, stage, found), "")]
    schedule, form = steps.schedule(unit), Forms(unit)
    lines = [
        *introduction(unit),
        *_includes(unit, form),
        "",
        *steps.hooks(unit, schedule),
        "",
        *states.rings(unit),
        *_placements(unit, form),
        *apart.definition(unit),
        *ops.shared(unit),
        *functions,
        *_ends(unit),
        *(steps.table(unit, schedule) if schedule.is_table else []),
        *form.classes.definitions,
        *form.inputs.running(schedule),
        *form.sliding.definitions,
        *form.arenas.definitions,
        "",
    ]
    return "\n".join(lines)
