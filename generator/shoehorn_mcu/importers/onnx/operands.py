"""What ONNX's own schemas say of a node: its attributes, and which operands are integers, such as indices and axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from shoehorn_mcu.importers.fault import ImportFault, Unsupported
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


def check_attributes(node: RawNode) -> None:
    """Raises Unsupported for an attribute that the op does not have."""
    known = _attributes(node.code)
    if known is not None and (unknown := sorted(node.attributes.keys() - known)):
        raise Unsupported(f"its attribute '{unknown[0]}' is not known")


_OLDER: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("GRU", "LSTM", "RNN"), ("input_forget", "linear_before_reset", "output_sequence")),
    "AveragePool": ("storage_order",),
    "BatchNormalization": ("spatial",),
    "Clip": ("max", "min"),
    "DFT": ("axis",),
    "DequantizeLinear": ("precision", "saturate"),
    "MaxPool": ("count_include_pad",),
    "Scatter": ("reduction",),
    "TopK": ("k",),
}
"""By op: the attributes that files have and the newest version of the op does not; of reductions also `axes`."""


@cache
def _attributes(code: str) -> frozenset[str] | None:
    """The attributes that converters read, or that change nothing; None: any may be there."""
    from onnx import defs

    if code in ("Dropout", "Identity") or not defs.has(code):
        return None
    axes = ("axes",) if code.startswith("Reduce") else ()
    return frozenset((*defs.get_schema(code).attributes, *_OLDER.get(code, ()), *axes))
