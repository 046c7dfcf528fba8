"""The Python files of a wheel: the package with its names, and the types of its functions for type checkers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shoehorn_mcu.base.paths import FIRMWARE_TEMPLATES
from shoehorn_mcu.base.version import __version__
from shoehorn_mcu.emit import c
from shoehorn_mcu.emit.linux.model_file import calls, row_shape
from shoehorn_mcu.emit.templates import fill
from shoehorn_mcu.emit.unit import Unit


def plain(name: str) -> str:
    """A model's name for a docstring and for METADATA, whatever its characters."""
    return "".join(ch if ch.isascii() and (ch.isalnum() or ch in " ._-+") else "?" for ch in name)


def _tensor(unit: Unit, tensor: str) -> str:
    """The expression of an input or an output."""
    type_ = unit.type(tensor)
    scale = zero = None
    if type_.quant is not None and np.issubdtype(type_.dtype.numpy, np.integer):
        scale, zero = float(type_.quant.scale), int(type_.quant.zero_point)
    parts = (ascii(tensor), repr(type_.shape), f'numpy.dtype("{type_.dtype.value}")', repr(scale), repr(zero))
    return f"    Tensor({', '.join(parts)}),"


def _tuple(name: str, kind: str, rows: Sequence[str]) -> list[str]:
    return [f"{name}: tuple[{kind}, ...] = (", *rows, ")"]


def package(unit: Unit, version: str) -> str:
    """`__init__.py`."""
    functions, ends = calls(unit), (*unit.graph.inputs, *unit.graph.outputs)
    names = ["Tensor", *(["classes"] if unit.classes else []), "cores", "inputs", "model_sha256", "outputs", *functions]
    first = unit.type(ends[0])
    if unit.streamed is None:
        arrays = ", ".join(f"{unit.name}.inputs[{i}]" for i in range(len(unit.graph.inputs)))
        taken = f"Arrays have the shapes and types of {arrays}."
    else:
        names.append("row_shape")
        taken = f"Rows are arrays of {unit.name}.inputs[0].dtype, with the shape {unit.name}.row_shape."
    about = [*(f"{unit.name}.{name}: {about}" for name, about in functions.items()), taken]
    tables = [
        *_tuple("inputs", "Tensor", [_tensor(unit, tensor) for tensor in unit.graph.inputs]),
        *_tuple("outputs", "Tensor", [_tensor(unit, tensor) for tensor in unit.graph.outputs]),
        *([f"row_shape = {row_shape(first)!r}"] if unit.streamed is not None else []),
        *(_tuple("classes", "str", [f"    {name!a}," for name in unit.classes]) if unit.classes else []),
    ]
    values = {
        **{"MODEL": plain(unit.graph.name), "VERSION": __version__, "NAME": unit.name, "CORES": unit.cores},
        **{"CALLS": "\n".join(about), "FUNCTIONS": ", ".join(sorted(functions)), "ALL": repr(sorted(names))},
        **{"WHEEL": ascii(version), "SHA256": ascii(unit.source_sha256), "VALUES": "\n".join(tables)},
    }
    return fill(FIRMWARE_TEMPLATES / "linux/package.py.in", values).decode()


def stubs(unit: Unit) -> str:
    """`_native.pyi`: the types of the functions in C."""
    functions = calls(unit)
    several = len(unit.graph.outputs) > 1
    one = "numpy.ndarray[Any, Any]"
    result = f"tuple[{', '.join([one] * len(unit.graph.outputs))}]" if several else one
    taken = ", ".join(f"input_{i}: Any" for i in range(len(unit.graph.inputs)))
    types = {
        "run": f"({taken}, /) -> {result}",
        "push": f"(row: Any, /) -> {result} | None",
        "reset": "() -> None",
        "restart": "() -> None",
    }
    lines = [f"def {name}{types[name]}: ..." for name in functions]
    return "\n".join((f"# {c.SPDX}", "from typing import Any", "", "import numpy", "", *lines, ""))
