"""Writes C text: the only module that handles commas, braces and literals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from shoehorn_mcu.ir import Array

TYPES: Mapping[str, str] = {
    "int8": "int8_t",
    "uint8": "uint8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "uint16": "uint16_t",
    "uint32": "uint32_t",
    "uint64": "uint64_t",
    "float16": "uint16_t",  # by its bits
    "float32": "float",
    "float64": "double",
    "bool": "uint8_t",
}
_LOWEST = {-(2**31): "-2147483647 - 1", -(2**63): "-9223372036854775807 - 1"}
_WIDTH = 100
_NAME = 60


# REUSE-IgnoreStart: the licence of the generated files, not of this one.
LICENCE = "0BSD"
SPDX = "SPDX-License-Identifier: 0BSD"
# REUSE-IgnoreEnd


def header(guard: str, remarks: Iterable[str], body: Iterable[str]) -> str:
    """A header file: licence, comment lines (with their `//`), and the lines of the body within an include guard."""
    lines = (f"// {SPDX}", *remarks, f"#ifndef {guard}", f"#define {guard}", "", *body, "", "#endif", "")
    return "\n".join(lines)


def plain(text: str, but: str = "") -> str:
    """The text, in which a question mark replaces each character that is not printable ASCII or is one of `but`."""
    return "".join(ch if " " <= ch <= "~" and ch not in but else "?" for ch in text)


def comment(text: str) -> str:
    """One `//` line; no tensor name, whatever its characters, can end or continue it."""
    shown = plain(text, but="\\")
    return f"// {shown}".replace("??/", "?? /").rstrip()


def quoted(name: str) -> str:
    """A tensor's name, shortened for a comment: converters make very long ones. plan.json has it whole."""
    return f"'{name}'" if len(name) <= _NAME else f"'{name[: _NAME - 3]}...'"


def number(value: float | np.generic) -> str:
    """A literal; a float that float32 holds exactly gets nine digits and an `f`.

    Infinity and NaN are what gcc and clang have built in, as there may be no math.h.
    """
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, float):
        if math.isnan(plain):
            return '__builtin_nanf("")'
        if math.isinf(plain):
            return "-__builtin_inff()" if plain < 0 else "__builtin_inff()"
        single = float(np.float32(plain)) == plain
        digits = f"{plain:.9g}" if single else repr(plain)
        digits += "" if any(ch in digits for ch in ".e") else ".0"
        return digits + ("f" if single else "")
    return _integer(int(plain))


def _integer(value: int) -> str:
    """A literal. The lowest of a type is a difference, as C would negate a number that does not fit."""
    return _LOWEST.get(value) or str(value)


def array(name: str, data: Array, qualifiers: str) -> str:
    """A one-dimensional array definition, its elements wrapped."""
    flat = data.ravel()
    if flat.dtype == np.float16:
        flat = flat.view(np.uint16)
    if flat.dtype == np.bool_:
        flat = flat.view(np.uint8)
    text = number if flat.dtype.kind == "f" else _integer if flat.itemsize >= 4 else str
    texts = list(map(text, flat.tolist()))
    head = f"{qualifiers} {TYPES[data.dtype.name]} {name}[{flat.size}] = {{".lstrip()
    return "\n".join((head, *_wrapped(texts), "};"))


def _wrapped(texts: Sequence[str]) -> list[str]:
    """Lines of elements; all lines of an array have the same number, so that columns keep their meaning."""
    per_line = max(1, (_WIDTH - 4) // (max(map(len, texts), default=1) + 2))
    return ["    " + ", ".join(texts[i : i + per_line]) + "," for i in range(0, len(texts), per_line)]


def table(name: str, ctype: str, rows: Sequence[Sequence[int]]) -> str:
    """A constant table of integers, one line a row."""
    body = (f"    {{{', '.join(map(str, row))}}}," for row in rows)
    return "\n".join((f"static const {ctype} {name}[{len(rows)}][{len(rows[0])}] = {{", *body, "};"))


def struct(ctype: str, name: str, members: Mapping[str, str]) -> str:
    """A static constant with designated initialisers, on one line where it fits; values are C texts."""
    short = ", ".join(f".{member} = {value}" for member, value in members.items())
    line = f"static const {ctype} {name} = {{{short}}};"
    if members and len(line) <= _WIDTH:
        return line
    body = [f"    .{member} = {value}," for member, value in members.items()] or ["    0,"]
    return "\n".join((f"static const {ctype} {name} = {{", *body, "};"))


def function(head: str, body: Iterable[str]) -> str:
    """A definition; the body's lines are indented by one level here."""
    return "\n".join((head, "{", *(f"    {line}" if line else "" for line in body), "}"))


def block(head: str, body: Iterable[str]) -> list[str]:
    """The lines of a braced statement."""
    return [f"{head} {{", *(f"    {line}" if line else "" for line in body), "}"]


def call(name: str, arguments: Iterable[str]) -> str:
    """A call as an expression."""
    return f"{name}({', '.join(arguments)})"


def offset(pointer: str, count: int) -> str:
    """The pointer plus `count` elements."""
    return f"{pointer} + {count}" if count else pointer


def pointers(name: str, values: Sequence[str]) -> list[str]:
    """A local array of row pointers, one line each."""
    return [f"const int8_t *const {name}[] = {{", *(f"    {value}," for value in values), "};"]


def string(text: str) -> str:
    """A string literal of printable ASCII; anything else becomes a question mark."""
    return '"' + plain(text).replace("\\", "\\\\").replace('"', '\\"').replace("?", "\\?") + '"'
