"""The C text of one op: its parameters, its table of rows, and the function that computes its rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from shoehorn_mcu.emit import c
from shoehorn_mcu.emit.model import apart
from shoehorn_mcu.emit.model.rows import Affine, Null, Place, Window, windows
from shoehorn_mcu.emit.model.weights import Constants
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.ir import Parts
from shoehorn_mcu.kernels.base.contract import Packed, Value, array_of
from shoehorn_mcu.planner.memory_plan import Editions
from shoehorn_mcu.schedule.stage import Stage

_LOOP_FROM = 9  # row pointers of one input; fewer are written out instead of a loop


def remark(stage: Stage) -> str:
    """A human-readable comment on the op."""
    operands = ", ".join(f"{'const ' * (t.data is not None)}{c.quoted(t.name)} {t.type}" for t in stage.row_inputs)
    output = stage.node.output
    kind = type(stage.computed.op).__name__
    part = " (a part of each row)" if stage.node.row_part else ""
    return "\n".join(
        (
            c.comment(f"op {stage.index}: {kind} {c.quoted(stage.name)}{part}"),
            c.comment(f"{operands} -> {c.quoted(output.name)} {output.type}"),
        )
    )


def params(stage: Stage, found: Constants) -> str:
    """The parameters struct, its pointers into the constants."""

    def text(member: str, value: Value) -> str:
        if array_of(value) is not None:
            return found.names[stage.index, member]
        return "NULL" if value is None or isinstance(value, np.ndarray | Packed) else c.number(value)

    members = {member: text(member, value) for member, value in stage.params.items()}
    return c.struct(stage.kernel.contract.struct, f"op{stage.index}_params", members)


class _Rows:
    """Writes the C expressions for the row pointers of one op."""

    def __init__(self, unit: Unit, stage: Stage, found: Constants) -> None:
        self._unit, self._stage, self._found = unit, stage, found
        heights = [t.type.rows for t in stage.row_inputs]
        self.windows, self.table = windows(stage.call_rows, heights)

    @property
    def count(self) -> int:
        """The row pointers of a call."""
        return sum(len(window.places) for window in self.windows)

    def table_text(self) -> str | None:
        """The table of the input rows that no formula describes."""
        if not self.table:
            return None
        largest = max(max(line) for line in self.table)
        return c.table(f"op{self._stage.index}_rows", "int16_t" if largest < 2**15 else "int32_t", self.table)

    def pointer(self, place: int, rule: Place, offset: str = "") -> str:
        """One row pointer; `offset` (" + 3 * k") is added to an affine row, and to the column of a listed one."""
        if isinstance(rule, Null):
            return "NULL"
        if isinstance(rule, Affine):
            row = f"{rule.text()}{offset}"
        else:
            row = f"op{self._stage.index}_rows[y][{rule.column}{offset}]"
        tensor = self._stage.row_inputs[place]
        inside = f"{row} >= 0 && {row} < {tensor.type.rows}"
        if tensor.name in self._stage.shared:
            at = _shared_row(self._unit, tensor.name, row)
        elif tensor.data is not None:
            name = self._found.names[self._stage.index, f"x{place}"]
            at = f"(const int8_t *){name} + ({row}) * {tensor.type.row_bytes}"
        elif self._unit.is_apart(tensor.name) or not rule.guarded:
            at = placed_row(self._unit, tensor.name, _tensor(self._unit, tensor.name), row)
        else:
            arena = self._unit.arena_of(tensor.name)
            return c.call("sh_tensor_row_or_null", (arena, _tensor(self._unit, tensor.name), row))
        return f"{inside} ? {at} : NULL" if rule.guarded else at

    def declare(self) -> list[str]:
        """The lines that declare and fill `x`, the array of row pointers."""
        loops = [len(w.places) >= _LOOP_FROM and w.stride is not None for w in self.windows]
        if not any(loops):
            flat = [self.pointer(i, rule) for i, w in enumerate(self.windows) for rule in w.places]
            return c.pointers("x", flat)
        lines = [f"const int8_t *x[{self.count}];"]
        base = 0
        for i, (window, loop) in enumerate(zip(self.windows, loops, strict=True)):
            lines += self._loop(i, window, base) if loop else self._single(i, window, base)
            base += len(window.places)
        return lines

    def _loop(self, i: int, window: Window, base: int) -> Iterator[str]:
        """`stride` is a number here (see declare)."""
        count, stride = len(window.places), window.stride
        offset = " + k" if stride == 1 else f" + {stride} * k" if stride else ""
        target = f"x[{base} + k]" if base else "x[k]"
        body = [f"{target} = {self.pointer(i, window.places[0], offset)};"]
        yield from c.block(f"for (int32_t k = 0; k < {count}; k++)", body)

    def _single(self, i: int, window: Window, base: int) -> list[str]:
        return [f"x[{base + k}] = {self.pointer(i, rule)};" for k, rule in enumerate(window.places)]


def _tensor(unit: Unit, tensor: str) -> str:
    """The C expression of a tensor's placement; a parameter where the tensor has several."""
    number = f"t{unit.number[tensor]}"
    return number if len(unit.editions[tensor]) > 1 else f"&{number}"


def row(unit: Unit, tensor: str, y: str) -> str:
    """The C expression of the address of a tensor's row."""
    if tensor in unit.shared:
        return _shared_row(unit, tensor, y)
    return placed_row(unit, tensor, _tensor(unit, tensor), y)


def placed_row(unit: Unit, tensor: str, placed: str, y: str) -> str:
    """The same of a tensor with a placement, which is the C expression `placed`."""
    if unit.is_apart(tensor):
        return c.call(apart.ROW, (placed, y))
    return c.call("sh_tensor_row", (unit.arena_of(tensor), placed, y))


def _shared_row(unit: Unit, tensor: str, row: str) -> str:
    """The call of the function that `shared` writes."""
    number, parts = unit.shared[tensor]
    placed = dict.fromkeys(part.tensor for part in parts)
    return c.call(f"shared{number}", (*(_tensor(unit, name) for name in placed), row))


def shared(unit: Unit) -> list[str]:
    """For each tensor whose rows are parts of others' rows the function that finds one, from those tensors."""
    lines: list[str] = []
    for name, (number, parts) in unit.shared.items():
        parameter = {each: f"x{i}" for i, each in enumerate(dict.fromkeys(part.tensor for part in parts))}
        found = ""
        for first, end, step in reversed(_runs(parts)):
            start = parts[first]
            place = Affine(start.row - first * step, step, False).text()
            at = placed_row(unit, start.tensor, parameter[start.tensor], place)
            at = f"(const int8_t *){at} + {start.start}" if start.start else at
            found = f"y < {end} ? {at} : {found}" if found else at
        taken = (*(f"const sh_tensor *{each}" for each in parameter.values()), "int32_t y")
        text = [*([] if "y" in found else ["(void)y;"]), f"return {found};"]
        body = c.function(f"static const int8_t *shared{number}({', '.join(taken)})", text)
        lines += [c.comment(f"Row y of {c.quoted(name)} {unit.type(name)}"), body, ""]
    return lines


def _runs(parts: Parts) -> list[tuple[int, int, int]]:
    """First row, row after the last and step of runs of rows that are in one tensor, from the same byte on."""
    found: list[tuple[int, int, int]] = []
    y = 0
    while y < len(parts):
        first, start = y, parts[y]
        following = parts[y + 1] if y + 1 < len(parts) else start
        step = following.row - start.row if following == replace(start, row=following.row) else 0
        while y < len(parts) and parts[y] == replace(start, row=start.row + (y - first) * step):
            y += 1
        found.append((first, y, step))
    return found


def function(unit: Unit, stage: Stage, found: Constants) -> str:
    """`static void opN(int32_t y0, int32_t y1)` preceded by its parameters and tables.

    It also has a parameter for each tensor with several placements, in the order of `unit.moving`, and before the
    others the core, where each core has its own part of the scratch.
    """
    rows = _Rows(unit, stage, found)
    kernel = stage.kernel
    name = stage.node.output.name
    output = placed_row(unit, name, _tensor(unit, name), "y")
    begun, written = _part(stage, rows.count, output)
    arguments = [f"&op{stage.index}_params", "x", written]
    arguments += ["y"] if kernel.contract.takes_row else []
    if kernel.contract.takes_scratch:
        arguments.append(_scratch(unit, stage))
    count = stage.rows_per_call
    advance = "y++" if count == 1 else f"y += {count}"
    body = [*rows.declare(), *begun, c.call(unit.symbol(kernel), arguments) + ";"]
    loop = c.block(f"for (int32_t y = y0; y < y1; {advance})", body)
    taken = [
        *(["int32_t core"] if unit.scratch_parts(stage) > 1 else []),
        "int32_t y0",
        "int32_t y1",
        *(f"const sh_tensor *t{unit.number[name]}" for name in unit.moving[stage.name]),
    ]
    text = c.function(f"static void op{stage.index}({', '.join(taken)})", loop)
    parts = [remark(stage), params(stage, found), rows.table_text(), "", text]
    return "\n".join(part for part in parts if part is not None)


def _part(stage: Stage, pointers: int, row: str) -> tuple[list[str], str]:
    """For an op that writes a part of its row, a C expression: the lines that begin the row, and where the part is."""
    part, kind = stage.node.row_part, stage.node.output.type
    if part is None:
        return [], row
    onto, size = f"x[{pointers - 1}]", str(kind.row_bytes * stage.rows_per_call)
    begin = ("sh_insert_first", ("to", size)) if part.onto is None else ("sh_insert_onto", ("to", onto, size))
    return [f"int8_t *to = {row};", f"{c.call(*begin)};"], c.offset("to", part.start * kind.dtype.bytes)


def _scratch(unit: Unit, stage: Stage) -> str:
    """The C expression of the kernel's scratch: on several cores, of the part of one."""
    places = {scratch.op: scratch for scratch in unit.plan.scratch}
    if stage.name not in places:
        return "NULL"
    found, parts = places[stage.name], unit.scratch_parts(stage)
    first = c.offset(unit.arenas[found.memory].name, found.address)
    return first if parts == 1 else f"{first} + core * {found.bytes // parts}"


def call(unit: Unit, stage: Stage, editions: Editions, y0: str, y1: str) -> str:
    """The call of the op's function that runs a step, or on several cores the part of it that `core` computes."""
    means = dict(editions)
    given = (f"&{unit.placement_name(name, means.get(name, 0))}" for name in unit.moving[stage.name])
    return c.call(f"op{stage.index}", (*(["core"] if unit.scratch_parts(stage) > 1 else []), y0, y1, *given))


def written(unit: Unit, stage: Stage, editions: Editions) -> str:
    """The name of the placement that a step writes."""
    name = stage.node.output.name
    return unit.placement_name(name, dict(editions).get(name, 0))
