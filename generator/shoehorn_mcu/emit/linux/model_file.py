"""`sh_model.h`: what `sh_module.c` has to know of one model."""

from __future__ import annotations

from collections.abc import Sequence

from shoehorn_mcu.emit import c
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.ir import DType, TensorType

_KINDS = {"int": "i", "uint": "u", "float": "f", "bool": "b"}


def row_shape(type_: TensorType) -> tuple[int, ...]:
    """The shape of an array with one row: the last two dimensions, or the one that there is."""
    return type_.shape[-2:]


def _array(name: str, dtype: DType, shape: Sequence[int]) -> str:
    """The initialiser of an `array`."""
    kind = _KINDS[dtype.value.rstrip("0123456789")]
    sizes = ", ".join(map(str, shape)) or "0"
    return f"{{{c.string(name)}, {c.string(dtype.value)}, '{kind}', {dtype.bytes}, {len(shape)}, {{{sizes}}}}}"


def _table(name: str, rows: Sequence[str]) -> list[str]:
    """A macro with the initialiser of an array, and one with the number of its elements."""
    lines = [f"#define {name}S \\", "    {", *(f"        {row}," for row in rows), "    }"]
    width = max(map(len, lines[1:-1]), default=0)
    return [f"#define {name}_COUNT {len(rows)}", lines[0], *(f"{line:<{width}} \\" for line in lines[1:-1]), lines[-1]]


def _each(kind: str, functions: Sequence[str]) -> str:
    """A macro that uses a macro with each function of the inputs or the outputs."""
    return f"#define SH_EACH_{kind}(COPY) " + " ".join(f"COPY({i}, {name}())" for i, name in enumerate(functions))


def model_file(unit: Unit) -> str:
    """The header of the model for the module's C."""
    graph, name, upper = unit.graph, unit.name, unit.upper
    functions = {suffix: f"{name}_{suffix}" for suffix, _ in unit.whole_ends()}
    taken = [function for suffix, function in functions.items() if suffix.startswith("input")]
    given = [function for suffix, function in functions.items() if suffix.startswith("output")]
    types = {tensor: unit.type(tensor) for tensor in (*graph.inputs, *graph.outputs)}
    shapes = {tensor: type_.shape for tensor, type_ in types.items()}
    if unit.streamed is not None:
        shapes[unit.streamed] = row_shape(types[unit.streamed])
    ends = {"SH_INPUT": graph.inputs, "SH_OUTPUT": graph.outputs}
    rows = {kind: [_array(t, types[t].dtype, shapes[t]) for t in names] for kind, names in ends.items()}
    body = [
        f'#include "{name}.h"',
        "",
        f"#define SH_NAME {c.string(name)}",
        f"#define SH_MOST_RANK {max(1, *map(len, shapes.values()))}",
        *(line for kind in rows for line in _table(kind, rows[kind])),
        _each("OUTPUT", given),
    ]
    if unit.streamed is None:
        body += [_each("INPUT", taken), f"#define SH_RUN {name}_run"]
    else:
        body += [f"#define SH_ROWS {upper}_INPUT_ROWS", f"#define SH_PUSH {name}_push_row"]
    body += [line for function, about in calls(unit).items() for line in _call(unit, function, about)]
    remark = c.comment(f"What sh_module.c has to know of {c.quoted(graph.name)}.")
    return c.header("SH_MODEL_H", [remark], body)


def _call(unit: Unit, function: str, about: str) -> list[str]:
    """The macros of a function of the module."""
    if function in ("run", "push"):
        return [f"#define SH_ABOUT {c.string(about)}"]
    upper = function.upper()
    return [f"#define SH_{upper} {unit.name}_{function}", f"#define SH_ABOUT_{upper} {c.string(about)}"]


def calls(unit: Unit) -> dict[str, str]:
    """The functions of the Python module, and what each does in a sentence."""
    several = len(unit.graph.outputs) > 1
    result = "a tuple of the outputs" if several else "the output"
    if unit.streamed is None:
        found = {"run": f"One inference: takes an array for each input and returns {result}."}
        again = "Gives the states of the model the values that they have before the first inference."
        return {**found, **({"reset": again} if unit.graph.states else {})}
    rows = unit.type(unit.streamed).rows
    found = {"push": f"Takes the next of {rows} rows of the input; returns {result} behind the last one, else None."}
    if not unit.graph.states:
        return {**found, "reset": "Abandons an unfinished inference: the next row is row 0."}
    return {
        **found,
        "reset": "Abandons an unfinished inference, and gives the states of the model their first values.",
        "restart": "Abandons an unfinished inference: the next row is row 0. States stay.",
    }
