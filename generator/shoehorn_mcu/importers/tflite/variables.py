"""TFLite's resource variables as states: VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE, and CALL_ONCE for first values."""

from __future__ import annotations

from dataclasses import dataclass, replace

from shoehorn_mcu.importers.fault import ImportFault, Unsupported
from shoehorn_mcu.importers.tflite.file import RawModel, RawOp, RawTensor

CODES = ("CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE")


@dataclass(frozen=True)
class RawState:
    """A variable: the number of the tensor that it is read as, that of its next value, and its first value."""

    read: int
    write: int
    initial: RawTensor


def without_variables(raw: RawModel) -> tuple[RawModel, tuple[RawState, ...]]:
    """The model without the ops on variables, and the variables that are read and assigned.

    A read behind an assignment is the assigned tensor; a variable that is never assigned is its first value. Raises
    Unsupported where a variable has no first value or is assigned what no op computes, ImportFault for damage.
    """
    if not any(op.code in CODES for op in raw.ops):
        return raw, ()
    first = _first_values(raw)
    handles: dict[int, str] = {}
    read: dict[str, int] = {}  # the tensor of a variable's first read
    now: dict[str, int] = {}  # the tensor that a variable's value is, once it was read or assigned
    assigned: dict[str, int] = {}
    same: dict[int, int] = {}  # tensors that are others, by number
    ops = []
    for index, op in enumerate(raw.ops):
        if op.code == "VAR_HANDLE":
            handles[_one(op.outputs, index, op)] = op.options.name
        elif op.code == "READ_VARIABLE":
            name = _variable(handles, op, index)
            place = _one(op.outputs, index, op)
            if name in now:
                same[place] = now[name]
            else:
                read[name] = now[name] = place
        elif op.code == "ASSIGN_VARIABLE":
            name = _variable(handles, op, index)
            if len(op.inputs) != 2:
                raise ImportFault(f"op {index} {op.code} has {len(op.inputs)} inputs; convert it again")
            assigned[name] = now[name] = same.get(op.inputs[1], op.inputs[1])
        elif op.code != "CALL_ONCE":
            ops.append(replace(op, inputs=tuple(same.get(i, i) for i in op.inputs)))
    tensors, states = list(raw.tensors), []
    computed = {place for op in ops for place in op.outputs}
    for name, place in read.items():
        if name not in first:
            raise Unsupported(f"variable '{name}' is read before anything gives it a value")
        if assigned.get(name, place) == place:
            tensors[place] = replace(tensors[place], data=first[name].data)
        elif assigned[name] not in computed:
            raise Unsupported(f"variable '{name}' is assigned a tensor that no op computes")
        else:
            states.append(RawState(place, assigned[name], first[name]))
    outputs = tuple(same.get(i, i) for i in raw.outputs)
    return replace(raw, tensors=tuple(tensors), ops=tuple(ops), outputs=outputs, others=()), tuple(states)


def _first_values(raw: RawModel) -> dict[str, RawTensor]:
    """The constants that the subgraphs named by CALL_ONCE assign, by variable."""
    found: dict[str, RawTensor] = {}
    for index, op in enumerate(raw.ops):
        if op.code != "CALL_ONCE":
            continue
        number = op.options.subgraphs[0] - 1  # the first subgraph is the model itself
        if not 0 <= number < len(raw.others):
            raise ImportFault(f"op {index} CALL_ONCE names subgraph {number + 1}, which is missing; convert it again")
        part, handles = raw.others[number], dict[int, str]()
        for place, each in enumerate(part.ops):
            if each.code == "VAR_HANDLE":
                handles[_one(each.outputs, place, each)] = each.options.name
            elif (
                each.code == "ASSIGN_VARIABLE" and len(each.inputs) == 2 and each.inputs[1] in range(len(part.tensors))
            ):
                value = part.tensors[each.inputs[1]]
                if value.data is None:
                    raise Unsupported(f"a first value of op {index} CALL_ONCE is computed, it must be constant")
                found[_variable(handles, each, place)] = value
            else:
                raise Unsupported(f"op {index} CALL_ONCE runs {each.code}, only assignments of constants are supported")
    return found


def _one(places: tuple[int, ...], index: int, op: RawOp) -> int:
    if len(places) != 1:
        raise ImportFault(f"op {index} {op.code} has {len(places)} outputs; convert it again")
    return places[0]


def _variable(handles: dict[int, str], op: RawOp, index: int) -> str:
    """The variable whose handle an op reads first."""
    if not op.inputs or op.inputs[0] not in handles:
        raise ImportFault(f"op {index} {op.code} has no handle of a variable; convert it again")
    return handles[op.inputs[0]]
