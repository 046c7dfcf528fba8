"""`<model>.c` and `<model>.h` alone: a whole library in one translation unit, readable from top to bottom."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from shoehorn_mcu.base.version import __version__
from shoehorn_mcu.emit import c
from shoehorn_mcu.emit.bundle import Bundle, sealed
from shoehorn_mcu.emit.folder.memory_map import memory_map
from shoehorn_mcu.emit.kernels.amalgam import Amalgam, Definition, Kernel, is_prototype, shown, text_of
from shoehorn_mcu.emit.kernels.c_items import Item, Reader, renamed
from shoehorn_mcu.emit.model.avr import refusals
from shoehorn_mcu.emit.model.header import model_h
from shoehorn_mcu.emit.model.source import introduction, model_c
from shoehorn_mcu.emit.model.weights import Constants, array_texts
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.machine.targets import Isa

_KERNELS = (
    "// Files that comments name are Shoehorn's. Names that end in a number are of the kernel with that number.",
)
_RUNTIME = "sh/"
_CORES = "cores/sh_cores.h"  # is in the header
_HUSHED = """#if defined(__GNUC__) && !defined(__clang__)
// Of some loops that never run with the sizes of this model gcc says that they would overflow.
#pragma GCC diagnostic ignored "-Waggressive-loop-optimizations"
#endif"""
_HUSHED_ASSEMBLY = """#if defined(__clang__)
// A loop of assembly may be longer than what C demands of compilers.
#pragma clang diagnostic ignored "-Woverlength-strings"
#endif"""


def single_file(unit: Unit, found: Constants) -> Bundle:
    """The two files, by path."""
    unit = replace(unit, traceable=False)
    steps = _Steps(unit, found)
    taken = {name for item in steps.own for name in item.names}
    kernels = {stage.kernel.name: stage.kernel for stage in unit.stages}
    amalgam = Amalgam.of((kernels[name] for name in sorted(kernels)), unit.name, alone=True)
    users = {
        k.symbol: ", ".join(str(s.index) for s in unit.stages if s.kernel.name == k.instance.name)
        for k in amalgam.kernels
    }
    written = Kernels(amalgam, taken, users)
    systems = {"<stddef.h>", "<stdint.h>", *steps.systems, *(name for k in amalgam.kernels for name in k.systems)}
    heads = list(dict.fromkeys(head for kernel in amalgam.kernels for head in kernel.heads))
    parts = [
        "\n".join(_introduction(unit)),
        *heads,
        _heading(1, "Interface"),
        "\n".join((f'#include "{unit.name}.h"', "", *(f"#include {name}" for name in sorted(systems)))),
        hushed(amalgam),
        *refusals(unit, found),
        _heading(2, "Memory", memory_map(unit)),
        _heading(3, "Constants: weights, biases, multipliers and tables, as the kernels read them"),
        *array_texts(unit, found, "static "),
        _heading(4, "Kernels: each computes a row of an op's output", _KERNELS),
        *written.texts(),
        _heading(5, "Steps: where tensors are, what each op calls, and the order of all"),
        shown(steps.items(written.names)),
    ]
    texts = {f"{unit.name}.c": "\n\n".join(parts) + "\n", f"{unit.name}.h": _header(unit)}
    return {path: sealed(text).encode() for path, text in texts.items()}


def _header(unit: Unit) -> str:
    """The interface. Where several cores share an inference, with what the program provides for them."""
    text = model_h(unit)
    if unit.cores == 1:
        return text
    own = text_of(_CORES).partition("\n")[2]
    told = text.replace("(sh/cores/sh_cores.h)", "(below)")
    return told.replace("#include <stdint.h>\n", f"#include <stdint.h>\n\n{own}")


def _introduction(unit: Unit) -> list[str]:
    """What the file is, and what is where in it."""
    name = unit.name
    return [
        *introduction(unit, f"Shoehorn {__version__}"),
        "//",
        f"// This file and {name}.h are the whole library. Compile this file as C11; include {name}.h in C or in C++.",
        "//",
        f"// 1. Interface: {name}.h",
        "// 2. Memory: which tensor is where in the arena",
        "// 3. Constants",
        "// 4. Kernels",
        "// 5. Steps",
    ]


def hushed(amalgam: Amalgam) -> str:
    """The warnings that do not apply."""
    plain = all(kernel.instance.variant.isa in (Isa.C, Isa.FPU) for kernel in amalgam.kernels)
    return _HUSHED if plain else f"{_HUSHED}\n{_HUSHED_ASSEMBLY}"


def _heading(number: int, text: str, more: Sequence[str] = ()) -> str:
    return "\n".join((f"// {'=' * 97}", f"// {number}. {text}", f"// {'=' * 97}", *([*more] if more else [])))


class _Steps:
    """The text of `<model>.c` of a folder as items: its own, and those of runtime_c that it includes."""

    def __init__(self, unit: Unit, found: Constants) -> None:
        reader = Reader(self._text_of, outside=frozenset(), titles={"": ""})
        reader.read(model_c(unit, found))
        self.systems: Collection[str] = reader.systems.keys()
        self.own = [item for item in reader.items if not item.file]
        self._runtime = [item for item in reader.items if item.file]

    @staticmethod
    def _text_of(path: str) -> str:
        here = path.startswith(_RUNTIME) and path != f"{_RUNTIME}{_CORES}"
        return text_of(path.removeprefix(_RUNTIME)) if here else ""

    def items(self, there: Collection[str]) -> list[Item]:
        """What is used, in order, without runtime_c's definitions of names that are `there` already."""
        by_name = {name: item for item in self._runtime for name in item.names}
        left, used = [word for item in self.own for word in item.words], set()
        while left:
            word = left.pop()
            if word in by_name and word not in used and word not in there:
                used.add(word)
                left += by_name[word].words
        return [item for item in self._runtime if used & {*item.names}] + self.own


class Kernels:
    """The kernels in one file: what several use, then each with what it alone uses."""

    def __init__(self, amalgam: Amalgam, taken: Collection[str], users: Mapping[str, str]) -> None:
        """`taken` are names that others have in the file, `users` the numbers of ops, by function."""
        self._amalgam, self._users = amalgam, users
        self._names = {kernel.number: amalgam.names(kernel, taken) for kernel in amalgam.kernels}
        self.names = {
            self._names[kernel.number].get(name, name) for kernel in amalgam.kernels for name in kernel.definitions
        }

    def texts(self) -> Iterator[str]:
        """The parts of the section."""
        shared: dict[str, tuple[Kernel, Definition]] = {}
        for kernel in self._amalgam.kernels:
            for definition in kernel.definitions.values():
                if len(self._amalgam.users[definition.key]) > 1:
                    shared.setdefault(definition.key, (kernel, definition))
        if shared:
            yield _part("What several kernels use")
            yield from self._by_file(shared.values())
        for kernel in self._amalgam.kernels:
            title = kernel.title(kernel.instance.variant.source)
            yield _part(f"Kernel {kernel.number}: {kernel.instance.name}, for op {self._users[kernel.symbol]}", title)
            own = [d for d in dict.fromkeys(kernel.definitions.values()) if d.key not in shared]
            yield from self._by_file(((kernel, each) for each in own), kernel.instance.variant.source)

    def _by_file(self, definitions: Iterable[tuple[Kernel, Definition]], told: str = "") -> Iterator[str]:
        """The text of definitions, behind what their file says of itself, where it is not `told`."""
        seen, file = {told, ""}, ""
        items: list[Item] = []
        for kernel, definition in definitions:
            if definition.file != file:
                if items:
                    yield shown(items)
                file, items = definition.file, []
                title = kernel.title(file)
                if title and file not in seen:
                    yield title
                seen.add(file)
            items += self._items(kernel, definition)
        if items:
            yield shown(items)

    def _items(self, kernel: Kernel, definition: Definition) -> Iterator[Item]:
        """The items of a definition as this file has them: functions are its own, and need no declaration."""
        names = self._names[kernel.number]
        functions = {item.names for item in definition.items if not is_prototype(item)}
        for item in definition.items:
            if is_prototype(item) and (item.names in functions or kernel.symbol in item.names):
                continue
            text = renamed(item.text, names)
            if kernel.symbol in item.names:
                text = re.sub(rf"^\w+_fn {kernel.symbol};\n*", "", text, flags=re.MULTILINE)
                text = re.sub(rf"^void {kernel.symbol}\(", r"static \g<0>", text, flags=re.MULTILINE)
            yield replace(item, text=text)


def _part(text: str, more: str = "") -> str:
    return "\n".join((f"// {'-' * 97}", c.comment(text), f"// {'-' * 97}", *([more] if more else [])))
