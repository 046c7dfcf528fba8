"""The parts of `<model>.h` and `<model>.c` for the names of the classes that a model tells apart."""

from __future__ import annotations

from shoehorn_mcu.emit import c
from shoehorn_mcu.emit.unit import Unit


def macros(unit: Unit) -> list[str]:
    """Their number."""
    return ["", f"#define {unit.upper}_CLASSES {len(unit.classes)}"] if unit.classes else []


def _head(unit: Unit) -> str:
    return f"const char *{unit.name}_class(int32_t number)"


def prototypes(unit: Unit) -> list[str]:
    """The declaration of the function that names a class."""
    if not unit.classes:
        return []
    return ["", "// The name of a class, UTF-8; an empty text for a number that is none.", f"{_head(unit)};"]


def _text(name: str) -> str:
    """A string literal; what is not plain ASCII as the octal numbers of its UTF-8."""
    plain = set(map(chr, range(32, 127))) - set('"\\?')
    return '"' + "".join(ch if ch in plain else "".join(f"\\{byte:03o}" for byte in ch.encode()) for ch in name) + '"'


def definitions(unit: Unit) -> list[str]:
    """The function and the names."""
    if not unit.classes:
        return []
    count = f"{unit.upper}_CLASSES"
    inside = f"(number >= 0) && (number < {count})"
    return [
        f"static const char *const classes[{count}] = {{",
        *(f"    {_text(name)}," for name in unit.classes),
        "};",
        "",
        c.function(_head(unit), [f'return ({inside}) ? classes[number] : "";']),
        "",
    ]
