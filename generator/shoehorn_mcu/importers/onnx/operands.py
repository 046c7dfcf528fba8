"""Which operands of ONNX's ops are integers, by its own schemas: indices, axes, shapes, pads, counts and their like."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from shoehorn_mcu.importers.fault import ImportFault
from shoehorn_mcu.importers.lowering.node import RawNode
from shoehorn_mcu.ops.laws import quoted

_WHOLE = frozenset(f"tensor({sign}int{bits})" for sign in ("", "u") for bits in (4, 8, 16, 32, 64))


def check_whole(node: RawNode, dtype_of: Callable[[str], np.dtype[Any] | None]) -> None:
    """Raises ImportFault where an operand that ONNX has as integers is of another type.

    `dtype_of`: of a value, by its name; None where it is not known.
    """
    for place, role in _whole(node.code):
        name = node.inputs[place] if place < len(node.inputs) else ""
        dtype = dtype_of(name) if name else None
        if dtype is not None and dtype.kind not in "iu":
            raise ImportFault(f"its operand '{role}' {quoted(name)} is {dtype}, integers are needed; export it again")


@cache
def _whole(code: str) -> tuple[tuple[int, str], ...]:
    """The places of such operands and what ONNX calls them."""
    from onnx import defs

    if not defs.has(code):
        return ()
    inputs = enumerate(defs.get_schema(code).inputs)
    return tuple((place, each.name) for place, each in inputs if each.types and set(each.types) <= _WHOLE)
