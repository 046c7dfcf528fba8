"""What files say of the names of the classes that a model tells apart."""

from __future__ import annotations

from shoehorn_mcu.emit import c
from shoehorn_mcu.emit.model.form import Form
from shoehorn_mcu.emit.unit import Unit


def _text(name: str) -> str:
    """A string literal; what is not plain ASCII as the octal numbers of its UTF-8."""
    plain = set(map(chr, range(32, 127))) - set('"\\?')
    return '"' + "".join(ch if ch in plain else "".join(f"\\{byte:03o}" for byte in ch.encode()) for ch in name) + '"'


class Classes(Form):
    """Their number, and a function that gives the name of one."""

    def __init__(self, unit: Unit) -> None:
        head, count = f"const char *{unit.name}_class(int32_t number)", f"{unit.upper}_CLASSES"
        inside = f"(number >= 0) && (number < {count})"
        self.macros = ["", f"#define {count} {len(unit.classes)}"]
        self.prototypes = ["", "// The name of a class, UTF-8; an empty text for a number that is none.", f"{head};"]
        self.definitions = [
            f"static const char *const classes[{count}] = {{",
            *(f"    {_text(name)}," for name in unit.classes),
            "};",
            "",
            c.function(head, [f'return ({inside}) ? classes[number] : "";']),
            "",
        ]
