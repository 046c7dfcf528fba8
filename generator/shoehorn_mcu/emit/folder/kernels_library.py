"""`lib/sh_kernels`: the kernels of several models in one firmware, each compiled once.

The libraries of the models have the headers and call these functions; only their steps and constants are their own.
"""

from __future__ import annotations

from collections.abc import Sequence

from shoehorn_mcu.emit import c
from shoehorn_mcu.emit.bundle import Bundle
from shoehorn_mcu.emit.folder.library import library_json
from shoehorn_mcu.emit.kernels.kernel_files import kernel_files
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.kernels import Instance

KERNELS = "sh_kernels"
"""The library's name, and the prefix of its functions; no model's name begins like it (names.py)."""


def kernels_library(units: Sequence[Unit]) -> Bundle:
    """Every file of the library, by path below its folder."""
    kernels = {stage.kernel.name: stage.kernel for unit in units for stage in unit.stages}
    files = dict(kernel_files(KERNELS, {kernel: _users(units, kernel) for kernel in kernels.values()}))
    files["library.json"] = library_json(KERNELS, f"The kernels of {', '.join(unit.name for unit in units)}.")
    files[f"src/{KERNELS}.h"] = _header(units).encode()
    return dict(sorted(files.items()))


def _users(units: Sequence[Unit], kernel: Instance) -> str:
    """The models that call a kernel."""
    return ", ".join(unit.name for unit in units if any(stage.kernel.name == kernel.name for stage in unit.stages))


def _header(units: Sequence[Unit]) -> str:
    """A header by which build systems find the library; the models declare the functions that they call."""
    remarks = (
        c.comment(f"The kernels of {', '.join(unit.name for unit in units)}, each once. Generated; do not edit."),
        "// Each model declares the functions that it calls.",
    )
    return c.header("SH_KERNELS_H", remarks, [])
