"""The C of a formula: the macros that kernels with a formula are compiled with (runtime_c/include/sh_formula.h)."""

from __future__ import annotations

from functools import lru_cache

from shoehorn_mcu.ir import DType
from shoehorn_mcu.ops.formula import Formula, Step, parse

_TYPES = {
    DType.FLOAT32: "float",
    DType.FLOAT16: "uint16_t",  # by its bits
    DType.BOOL: "uint8_t",
    DType.INT64: "sh_int64",
    DType.UINT64: "sh_uint64",
}
_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^"}


def c_type(dtype: DType) -> str:
    """The C type of an element."""
    return _TYPES.get(dtype, f"{dtype.value}_t")


@lru_cache(maxsize=1 << 12)
def macros(text: str) -> tuple[str, ...]:
    """The macros of a formula, each as `NAME value`."""
    made = parse(text)
    types = [c_type(dtype) for dtype in made.operands]
    return (
        "SH_OPERANDS(X) " + " ".join(f"X({i}, {kind})" for i, kind in enumerate(types)),
        *(f"SH_TYPE_{i} {kind}" for i, kind in enumerate(types)),
        "SH_PARAMETERS " + ", ".join(f"{kind} v{i}" for i, kind in enumerate(types)),
        "SH_ARGUMENTS " + ", ".join(f"v{i}" for i in range(len(types))),
        f"SH_RESULT {c_type(made.result)}",
        "SH_FORMULA " + " ".join(f"\\\n    {line}" for line in _statements(made)),
    )


def _statements(made: Formula) -> list[str]:
    """The tables and a local for each step; float32 values stay out of Helium's vectors (SH_SCALAR)."""
    read = {i for step in made.steps for i in step.reads}
    tables = _tables(made)
    lines = [
        f"static const {c_type(dtype)} {name}[] = {{{entries.replace(',', ', ')}}};"
        for (dtype, entries), name in tables.items()
    ]
    lines += [f"(void)v{i};" for i in range(len(made.operands)) if i not in read]
    lines += [f"SH_SCALAR(v{i});" for i, dtype in enumerate(made.operands) if dtype is DType.FLOAT32]
    dtypes = made.dtypes
    for number, step in enumerate(made.steps, len(made.operands)):
        into_float = step.dtype is DType.FLOAT32 and step.name in ("cast", "bits")
        value = _looked_up(step, dtypes, tables) if step.name == "table" else _expression(step, dtypes)
        lines.append(f"{'' if into_float else 'const '}{c_type(step.dtype)} v{number} = {value};")
        lines += [f"SH_SCALAR(v{number});"] if into_float else []
    return [*lines, f"return v{len(dtypes) - 1};"]


def _tables(made: Formula) -> dict[tuple[DType, str], str]:
    """The names of the tables, each of which several steps may read."""
    found = dict.fromkeys((step.dtype, step.constant) for step in made.steps if step.name == "table")
    return {table: f"table{number}" for number, table in enumerate(found)}


def _looked_up(step: Step, dtypes: tuple[DType, ...], tables: dict[tuple[DType, str], str]) -> str:
    (place,) = step.reads
    inside = f"sh_place_{dtypes[place].value}(v{place}, {len(step.entries) - 1})"
    return f"{tables[step.dtype, step.constant]}[{inside}]"


def _expression(step: Step, dtypes: tuple[DType, ...]) -> str:
    """The C expression of one step but a table."""
    of, kind = [f"v{i}" for i in step.reads], c_type(step.dtype)
    real = step.dtype is DType.FLOAT32
    match step.name:
        case "constant":
            return _constant(step)
        case "select":
            return f"({kind})({of[0]} ? {of[1]} : {of[2]})"
        case "less":
            return f"{of[0]} < {of[1]}"
        case "equal":
            return f"{of[0]} == {of[1]}"
        case "bits":
            return f"sh_float_of_bits({of[0]})" if real else f"sh_bits_of_float({of[0]})"
        case "cast":
            return _cast(of[0], dtypes[step.reads[0]], step.dtype)
        case "sqrt" if real:
            return f"sh_sqrt_f32({of[0]})"
        case "not":
            return f"!{of[0]}" if step.dtype is DType.BOOL else f"({kind})~{of[0]}"
        case "and" | "or" | "xor":
            return f"({kind})({of[0]} {_OPERATORS[step.name]} {of[1]})"
        case "neg" if real:
            return f"-{of[0]}"
        case "add" | "sub" | "mul" | "div" if real:
            return f"{of[0]} {_OPERATORS[step.name]} {of[1]}"
        case _:
            return f"sh_{step.name}_{step.dtype.value}({', '.join(of)})"


def _cast(value: str, of: DType, to: DType) -> str:
    if of is DType.FLOAT16:
        return f"sh_half_to_float({value})"
    if to is DType.FLOAT16:
        return f"sh_float_to_half({value})"
    if to is DType.BOOL:
        return f"{value} != 0"
    if of is DType.FLOAT32 and to is not DType.FLOAT32:
        return f"sh_{to.value}_of_float({value})"
    return f"({c_type(to)}){value}"


def _constant(step: Step) -> str:
    """A literal; float32 that is not finite by its bits."""
    number = step.number
    if step.dtype is not DType.FLOAT32:
        return {DType.INT64: f"INT64_C({number})", DType.UINT64: f"UINT64_C({number})"}.get(
            step.dtype, f"({c_type(step.dtype)}){number}"
        )
    if number != number:
        return "sh_float_of_bits(0x7FC00000)"
    if number in (float("inf"), float("-inf")):
        return f"sh_float_of_bits({'0x7F800000' if number > 0 else '-0x00800000'})"
    return f"{number:.9g}".replace("e", ".0e" if "." not in f"{number:.9g}" else "e") + (
        "f" if "." in f"{number:.9g}" or "e" in f"{number:.9g}" else ".0f"
    )
