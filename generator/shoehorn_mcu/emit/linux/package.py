"""The files of `linux/` in the folder of a library: all that a wheel and a shared library are made of but the code."""

from __future__ import annotations

import keyword
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace

from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.base.paths import FIRMWARE_TEMPLATES
from shoehorn_mcu.base.version import __version__
from shoehorn_mcu.emit.bundle import Bundle, digest
from shoehorn_mcu.emit.linux.model_file import model_file
from shoehorn_mcu.emit.linux.python_files import package, plain, stubs
from shoehorn_mcu.emit.model.header import model_h
from shoehorn_mcu.emit.templates import fill
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu_host.base.about import About

_TEMPLATES = FIRMWARE_TEMPLATES / "linux"
_SYSTEMS = ("asan", "atomic", "c", "crypt", "dl", "gcc", "m", "pthread", "python3", "resolv", "rt", "util", "z")
"""Libraries of the system that a `lib<model>.so` of the same name would hide from a linker."""


class NotForLinux(ShoehornError):
    """A library that cannot be one for Linux; the message says what to change."""

    kind = "not-for-linux"


@dataclass(frozen=True)
class LinuxPackage:
    """What the wheel says of itself, and the text files that it and the shared library are made of."""

    about: About
    files: Bundle  # of the whole folder, by path below it


def require_name(name: str) -> None:
    """NotForLinux where a module or a library of this name would hide another, or cannot be imported."""
    for fault in _name_faults(name):
        raise NotForLinux(f"--os linux: {fault}; rename the model's file")


def _name_faults(name: str) -> Iterator[str]:
    if keyword.iskeyword(name):
        yield f"Python cannot import a module named '{name}'"
    if name in sys.stdlib_module_names or name == "numpy":
        yield f"a module named '{name}' would hide Python's own"
    if name in _SYSTEMS:
        yield f"lib{name}.so would hide the system's library of that name"


def linux_package(unit: Unit, library: Bundle) -> LinuxPackage:
    """The package of a model; `library` has the files of its C library, by path below the folder.

    The wheel's version ends in a local part that is a sum of what it is made of, so that pip replaces a wheel of
    another model or plan, and keeps one of the same.
    """
    require_name(unit.name)
    sources = {f"src/{path.name}": path.read_bytes() for path in sorted(_TEMPLATES.glob("*.[ch]"))}
    if unit.cores == 1:
        del sources["src/sh_pool.c"]
    sources["src/sh_model.h"] = model_file(unit).encode()
    version = f"{__version__}+m{digest({**library, **sources, '__init__.py': package(unit, '').encode()})[:12]}"
    values = {"NAME": unit.name, "UPPER": unit.upper, "VERSION": __version__, "MODEL": plain(unit.graph.name)}
    readme = fill(_TEMPLATES / "README.md.in", {**values, "CALLS": _calls(unit)})
    text = {
        f"include/{unit.name}.h": model_h(replace(unit, threads=True)),
        f"python/{unit.name}/__init__.py": package(unit, version),
        f"python/{unit.name}/_native.pyi": stubs(unit),
        f"python/{unit.name}/py.typed": "",
    }
    files = {**sources, **{path: data.encode() for path, data in text.items()}}
    files[f"lib/pkgconfig/{unit.name}.pc"] = fill(_TEMPLATES / "model.pc.in", values)
    files["README.md"] = readme
    whole = {**library, **{f"linux/{path}": data for path, data in files.items()}}
    summary = f"The model {plain(unit.graph.name)} as compiled code, written by Shoehorn"
    return LinuxPackage(About(unit.name, version, summary, readme.decode(), f"shoehorn-mcu {__version__}"), whole)


def _calls(unit: Unit) -> str:
    """Python that runs an inference."""
    name, graph = unit.name, unit.graph
    if unit.streamed is not None:
        return "\n".join(
            (
                f"rows = numpy.zeros(({unit.type(unit.streamed).rows}, *{name}.row_shape), {name}.inputs[0].dtype)",
                "for row in rows:",
                f"    outputs = {name}.push(row)  # None, until the last row has arrived",
            )
        )
    arrays = f"arrays = [numpy.zeros(each.shape, each.dtype) for each in {name}.inputs]"
    results = "output" if len(graph.outputs) == 1 else ", ".join(f"output_{i}" for i in range(len(graph.outputs)))
    return f"{arrays}\n{results} = {name}.run(*arrays)"
