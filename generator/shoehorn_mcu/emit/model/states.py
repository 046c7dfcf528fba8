"""What files say of states, tensors that keep their values between inferences, and what they say without any."""

from __future__ import annotations

import numpy as np

from shoehorn_mcu.emit import c
from shoehorn_mcu.emit.model.form import Form, Lines
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.ir import Array, State


def address(unit: Unit, tensor: str) -> str:
    """The C expression of the address of a whole tensor."""
    return c.offset(unit.arena_of(tensor), unit.placements[tensor].address)


def rings(unit: Unit) -> list[str]:
    """Where each ring begins."""
    lines = []
    for number, state in dict(unit.rings.values()).items():
        lines += [c.comment(f"The place of row 0 of {c.quoted(state.read)}."), f"static int32_t {_first(number)};", ""]
    return lines


def ring(unit: Unit, tensor: str) -> dict[str, str]:
    """The members of the struct that says where a tensor's rows are in a ring; none where they are in no ring."""
    if tensor not in unit.rings:
        return {}
    number, state = unit.rings[tensor]
    return {"first": f"&{_first(number)}", "places": str(unit.type(state.read).rows)}


def _first(number: int) -> str:
    """The C name of the place of a ring's row 0."""
    return f"first{number}"


class Stateless(Form):
    """A model that keeps nothing from one inference to the next."""

    begin: Lines = ()  # statements before the first step
    end: Lines = ()  # statements after the last step
    # The end of the name of the function that drops the rows pushed so far, and a remark for its comment.
    anew, anew_remark = "reset", ""
    caller_arena = (  # the rule for memory of the caller
        "Models that never run",
        "// at the same time may share the memory; inputs and outputs are then valid until another model uses it.",
    )

    def forgetting(self, _more: Lines = ()) -> Lines:
        """Nothing is to be forgotten; the same holds for `resetting`."""
        return ()

    resetting = forgetting

    def arrived(self, last: str) -> list[str]:
        """The statement that counts a row of the input, where the C expression `last` says that it is the last one."""
        return [f"arrived = {last} ? 0 : arrived + 1;"]


class States(Form):
    """A model that keeps values from one inference to the next."""

    includes = ("include/sh_bytes.h",)
    init = ("begun = 0;",)
    anew, anew_remark = "restart", " States stay."
    caller_arena = (
        "The model keeps",
        "// values there between inferences, so nothing else may use the memory. They take their first values anew.",
    )

    def __init__(self, unit: Unit) -> None:
        self._unit = unit
        self.begin = c.block("if (begun == 0)", [f"{unit.name}_reset();"])
        self.end = _end(unit)
        self.app = {"SH_APP_RESET_STATES()": f"{unit.name}_reset()"}

    def forgetting(self, more: str = "") -> list[str]:
        """The declaration of the function that forgets all inferences before."""
        unit = self._unit
        kept = sum(unit.type(state.read).bytes for state in unit.graph.states)
        return [
            "",
            f"// The model keeps {kept} bytes of its arena between inferences. This gives them their first values, "
            "which",
            f"// they have before the first inference, too.{more}",
            f"void {unit.name}_reset(void);",
        ]

    def resetting(self, more: Lines = ()) -> list[str]:
        """The function, the first values that are not one byte repeated, and whether there was an inference."""
        unit = self._unit
        arrays, body = [], []
        for number, state in enumerate(unit.graph.states):
            data = repeated(unit, state)
            size, name = unit.type(state.read).bytes, f"state{number}"
            if data.nbytes == 0:
                body.append(f"memset({address(unit, state.read)}, {unit.graph.initial(state).tobytes()[0]}, {size});")
            else:
                arrays += [c.array(name, data, "static const"), ""]
                body += _copies(unit, state, name, data.nbytes)
            if state.read in unit.rings:
                body.append(f"{_first(number)} = 0;")
        return [
            *arrays,
            "// 1 once the states have values.",
            "static uint8_t begun;",
            "",
            c.function(f"void {unit.name}_reset(void)", [*body, "begun = 1;", *more]),
            "",
        ]

    def arrived(self, last: str) -> list[str]:
        """As of a model without states; the last row ends the inference."""
        lines = c.block(f"if ({last})", ["arrived = 0;", *self.end])
        return [*lines[:-1], *c.block("} else", ["arrived++;"])]


def first_bytes(unit: Unit) -> int:
    """Bytes of the first values of all states that are in flash."""
    return sum(repeated(unit, state).nbytes for state in unit.graph.states)


def repeated(unit: Unit, state: State) -> Array:
    """The first values of a state as few rows of which the others are repetitions; nothing where all are one byte."""
    data, kind = unit.graph.initial(state), unit.type(state.read)
    raw = np.frombuffer(data.tobytes(), np.uint8)
    if (raw == raw[0]).all():
        return data.ravel()[:0]
    rows = raw.reshape(kind.rows, kind.row_bytes)
    fewest = next(n for n in range(1, kind.rows + 1) if (rows[n:] == rows[: kind.rows - n]).all())
    return data.ravel()[: fewest * kind.row_elements]


def _copies(unit: Unit, state: State, name: str, part: int) -> list[str]:
    """The statements that put rows of `part` bytes one behind the other into a state, the last ones not all."""
    size = unit.type(state.read).bytes
    times, rest = divmod(size, part)
    arena, at = unit.arena_of(state.read), unit.placements[state.read].address
    if times == 1 and not rest:
        return [f"memcpy({address(unit, state.read)}, {name}, {size});"]
    place = c.offset(arena, at)
    lines = c.block(f"for (int32_t i = 0; i < {times}; i++)", [f"memcpy({place} + i * {part}, {name}, {part});"])
    return [*lines, *([f"memcpy({c.offset(arena, at + times * part)}, {name}, {rest});"] if rest else [])]


def _end(unit: Unit) -> list[str]:
    """The statements after the last step: each state takes its next value, if that is not written over it.

    Of a ring the new rows take the places of as many at its front, and the row behind those becomes the first.
    """
    lines = []
    for state in unit.copied:
        if state.read in unit.rings:
            lines += _copied_rows(unit, state)
        else:
            to, source = (address(unit, name) for name in (state.read, state.write))
            lines.append(f"memcpy({to}, {source}, {unit.type(state.read).bytes});")
    for number, state in dict(unit.rings.values()).items():
        rows, new = unit.type(state.read).rows, unit.type(state.write).rows
        first = _first(number)
        lines += [f"{first} += {new};", f"{first} -= {first} < {rows} ? 0 : {rows};"]
    return lines


def _copied_rows(unit: Unit, state: State) -> list[str]:
    """The rows of a ring's next value are copied over those that are dropped."""
    kind = unit.type(state.write)
    to = c.call("sh_tensor_row", (unit.arena_of(state.read), f"&t{unit.number[state.read]}", "y"))
    source = f"{address(unit, state.write)} + y * {kind.row_bytes}"
    return c.block(f"for (int32_t y = 0; y < {kind.rows}; y++)", [f"memcpy({to}, {source}, {kind.row_bytes});"])
