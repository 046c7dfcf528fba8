"""The library as a user C module of MicroPython."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from shoehorn_mcu.base.version import __version__
from shoehorn_mcu.emit import c
from shoehorn_mcu.emit.bindings.about import About
from shoehorn_mcu.emit.bindings.ends import End, ends, free_name
from shoehorn_mcu.emit.bundle import Bundle
from shoehorn_mcu.emit.folder.single_file import single_file
from shoehorn_mcu.emit.model.arenas import ARENA_ALIGNMENT
from shoehorn_mcu.emit.model.weights import Constants
from shoehorn_mcu.emit.templates import filled
from shoehorn_mcu.emit.unit import Unit, quantisation

TYPECODES: Mapping[str, str] = {
    "int8": "b",
    "uint8": "B",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "uint64": "Q",
    "float16": "H",  # by its bits
    "float32": "f",
    "bool": "B",
}
"""The codes of the module `array`."""
# Words of Python, and modules that ports of MicroPython have.
_WORDS = """
and as assert async await break class continue def del elif else except finally for from global if import in is lambda
nonlocal not or pass raise return try while with yield
"""
_MODULES = """
array asyncio binascii bluetooth btree builtins cmath collections cryptolib deflate dht ds18x20 errno esp esp32 espnow
framebuf gc hashlib heapq io json lwip machine math microbit micropython mip music neopixel network ntptime onewire
openamp os platform pyb radio random re requests rp2 select socket speech ssl stm struct sys termios time tls uasyncio
uctypes urequests vfs webrepl zephyr zlib
"""
_TAKEN = frozenset(f"{_WORDS} {_MODULES}".split())


def faults(unit: Unit, cpu: str | None) -> Iterator[str]:
    """Why there is no module of the model, each with the cure."""
    del cpu  # the port's build has the core
    if unit.cores > 1:
        yield "a module runs on one core; leave --cores out"
    if unit.handed_out is not None:
        yield "the result of a module is whole; leave --stream-output out"


def module(unit: Unit, found: Constants, cpu: str | None, about: About) -> Bundle:
    """Every file of the folder, by path."""
    del cpu, about
    name, made = free_name(unit.name, _TAKEN), ends(unit)
    inputs, outputs = ([end for end in made if end.is_input is whether] for whether in (True, False))
    owned = sum(_aligned(arena.bytes) for arena in unit.arenas.values()) if unit.caller_arena else 0
    init = f"`{name}.init()` takes the {owned:,} bytes of the arena from the heap, `{name}.deinit()` gives them back."
    values = {
        "NAME": unit.name,
        "UPPER": unit.upper,
        "MODULE": name,
        "VERSION": __version__,
        "INPUTS": len(inputs),
        "OUTPUTS": len(outputs),
        "STREAMED": int(unit.streamed is not None),
        "STATES": int(bool(unit.graph.states)),
        "OWNED": owned,
        "CLASSES": len(unit.classes),
        "RANK": max(len(end.type.shape) for end in made),
        "ENDS": "\n".join(f"{_initialiser(end)}," for end in made),
        "INPUT_AT": "\n".join(_cases(unit, [end for end in inputs if not end.by_rows])),
        "OUTPUT_AT": "\n".join(_cases(unit, outputs)),
        "INIT": _init(unit) if owned else "(void)arena;",
        "EXAMPLE": "\n".join(_example(unit, name, inputs)),
        "ARENA": f"\n{init}\n" if owned else "",
    }
    files = {f"src/{path}": data for path, data in single_file(unit, found).items()}
    files |= filled("bindings/micropython", values)
    files[f"{unit.name}_module.c"] = files.pop("module.c")
    return dict(sorted(files.items()))


def _aligned(size: int) -> int:
    return -(-size // ARENA_ALIGNMENT) * ARENA_ALIGNMENT


def _init(unit: Unit) -> str:
    """The call that passes the arenas, which are one behind the other."""
    at, places = 0, []
    for arena in unit.arenas.values():
        places.append(c.offset("arena", at))
        at += _aligned(arena.bytes)
    return f"{c.call(f'{unit.name}_init', places)};"


def _initialiser(end: End) -> str:
    quant = quantisation(end.type)
    scale, zero = quant or (0.0, 0)
    size = end.type.row_bytes if end.is_input and end.by_rows else end.type.bytes
    members = {
        "bytes": f"{size}",
        "scale": c.number(scale),
        "zero_point": str(zero),
        "quantised": str(int(quant is not None)),
        "typecode": f"'{TYPECODES[end.type.dtype.value]}'",
        "rank": str(len(end.type.shape)),
        "shape": f"{{{', '.join(map(str, end.type.shape))}}}",
    }
    return "\n".join(["    {", *(f"        .{key} = {value}," for key, value in members.items()), "    }"])


def _cases(unit: Unit, made: Sequence[End]) -> list[str]:
    """The lines of a switch that gives the address of an input or output by its number."""
    lines = [] if made else ["    default:", "        return NULL;"]
    for number, end in enumerate(made):
        label = "default" if number == len(made) - 1 else f"case {number}"
        lines += [f"    {label}:", f"        return {unit.name}_{end.suffix}();"]
    return lines


def _example(unit: Unit, name: str, inputs: Sequence[End]) -> list[str]:
    """Python that runs one inference."""
    lines = [f"import {name}", *([f"{name}.init()"] if unit.caller_arena else [])]
    if unit.streamed is not None:
        rows, row_bytes = inputs[0].type.rows, inputs[0].type.row_bytes
        return [*lines, f"for y in range({rows}):", f"    result = {name}.push_row(bytes({row_bytes}))  # your row"]
    given = [f"bytes({end.type.bytes})" for end in inputs]
    text = given[0] if len(given) == 1 else f"({', '.join(given)})"
    return [*lines, f"result = {name}.run({text})  # your values"]
