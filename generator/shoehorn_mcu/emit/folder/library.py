"""The model as a plain C library for PlatformIO, Arduino, Zephyr, ESP-IDF and CMake projects."""

from __future__ import annotations

import json

from shoehorn_mcu.base.version import __version__
from shoehorn_mcu.emit import c
from shoehorn_mcu.emit.bundle import Bundle
from shoehorn_mcu.emit.folder.readme import use
from shoehorn_mcu.emit.kernels.kernel_files import header_name, kernel_files, kernels_h
from shoehorn_mcu.emit.kernels.runtime_files import included, with_included
from shoehorn_mcu.emit.model.avr import refusals
from shoehorn_mcu.emit.model.forms import Forms
from shoehorn_mcu.emit.model.header import model_h
from shoehorn_mcu.emit.model.source import model_c
from shoehorn_mcu.emit.model.weights import Constants, weights_c, weights_h
from shoehorn_mcu.emit.templates import filled
from shoehorn_mcu.emit.unit import Unit

PSRAM = "psram"
"""The name of a memory that ESP-IDF has a section of its own for."""

_PLACE = "sh/"  # of the runtime's files, beside those that include them


def runtime(files: Bundle) -> Bundle:
    """The files of runtime_c that these C files of a library include, and those that they include in turn."""
    first = [path.removeprefix(_PLACE) for text in files.values() for path in included(text) if path.startswith(_PLACE)]
    return {f"src/{_PLACE}{path}": text for path, text in with_included(first).items()}


def kernels(unit: Unit) -> Bundle:
    """The header of the kernels, and the files that compile them, whose names begin with the model's.

    Where another library has the kernels, the header alone.
    """
    used = {stage.kernel.name: stage.kernel for stage in unit.stages}
    if unit.kernels:
        symbols = {unit.symbol(kernel): kernel.contract for kernel in used.values()}
        header = kernels_h(unit.name, symbols)
        return {f"src/{header_name(unit.name)}": header.encode()}
    ops = {name: ", ".join(str(s.index) for s in unit.stages if s.kernel.name == name) for name in sorted(used)}
    return kernel_files(unit.name, {used[name]: f"{unit.name}, op {ops[name]}" for name in ops})


def library_json(name: str, description: str) -> bytes:
    """PlatformIO's manifest."""
    manifest = {
        "name": name,
        "version": __version__,
        "description": description,
        "license": c.LICENCE,
        "headers": f"{name}.h",
        "frameworks": "*",
        "platforms": "*",
        "build": {"srcDir": "src", "includeDir": "src"},
    }
    return (json.dumps(manifest, indent=2) + "\n").encode()


def library(unit: Unit, found: Constants) -> Bundle:
    """Every file of `lib/<model>`, by path below that folder.

    Where another library has the kernels, only PlatformIO, which builds both, has its manifest.
    """
    texts = {
        f"src/{unit.name}.h": model_h(unit),
        f"src/{unit.name}.c": model_c(unit, found),
        f"src/{unit.name}_weights.h": weights_h(unit, found),
        f"src/{unit.name}_weights.c": weights_c(unit, found, refusals(unit, found)),
    }
    files = {path: text.encode() for path, text in texts.items()} | dict(kernels(unit))
    files |= runtime(files)
    said = f"The model {unit.name} as static C: no heap, no interpreter, an arena of {unit.plan.total_bytes} bytes."
    form = Forms(unit)
    values = {
        "NAME": unit.name,
        "UPPER": unit.upper,
        "VERSION": __version__,
        "DESCRIPTION": said,
        "PARAGRAPH": form.inputs.paragraph,
        "SOURCES": "\n".join(f"    {path}" for path in sorted(files) if path.endswith(".c")),
        "ARENAS": form.arenas.readme,
        "PSRAM": " ".join(f"{arena.macro}_SECTION" for arena in unit.other_arenas if arena.memory == PSRAM),
        "USE": "\n".join(use(unit)),
    }
    others = {} if unit.kernels else filled("library", values)
    return {**files, "library.json": library_json(unit.name, said), **others}
