"""Ops with their quantisation as operands, such as QLinearConv, written as DequantizeLinear of each operand, the op on
real numbers, and QuantizeLinear."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from shoehorn_mcu.importers.fault import ImportFault

if TYPE_CHECKING:
    from shoehorn_mcu.importers.onnx_node import RawNode
    from shoehorn_mcu.ir import Array


@dataclass(frozen=True)
class _Form:
    """Where the operands of such an op are: each is a value, its scale and its zero point."""

    code: str  # the op on real numbers
    operands: tuple[tuple[int, int, int], ...]
    result: tuple[int, int]  # scale and zero point
    bias: int | None = None
    axis: int = 1  # of a scale per channel of the second operand


_BINARY = ((0, 1, 2), (3, 4, 5)), (6, 7)
_MICROSOFT = "com.microsoft."

FORMS: Mapping[str, _Form] = {
    "QLinearConv": _Form("Conv", *_BINARY, bias=8, axis=0),
    "QLinearMatMul": _Form("MatMul", *_BINARY),
    f"{_MICROSOFT}QLinearAdd": _Form("Add", *_BINARY),
    f"{_MICROSOFT}QLinearAveragePool": _Form("AveragePool", ((0, 1, 2),), (3, 4)),
    f"{_MICROSOFT}QLinearGlobalAveragePool": _Form("GlobalAveragePool", ((0, 1, 2),), (3, 4)),
}
"""By the op's name; those of Microsoft's domain are what ONNX Runtime's quantiser writes."""


def expanded(nodes: Sequence[RawNode], constants: dict[str, Array]) -> tuple[RawNode, ...]:
    """The nodes, each of FORMS as several; the scales of biases are added to the constants."""
    return tuple(part for node in nodes for part in _parts(node, constants))


def _parts(node: RawNode, constants: dict[str, Array]) -> Iterator[RawNode]:
    form = FORMS.get(node.code)
    if form is None or node.attributes.get("channels_last"):
        yield node
        return
    if len(node.inputs) <= max(form.result):
        raise ImportFault(f"op {node.index} {node.code} has {len(node.inputs)} inputs; export it again")
    place, name = node.index, node.outputs[0]
    inputs = []
    for number, operand in enumerate(form.operands):
        own = f"{name}_operand_{number}"
        yield _dequantize(node, operand, own, form.axis if number else 1)
        inputs.append(own)
    if form.bias is not None and form.bias < len(node.inputs) and (bias := node.inputs[form.bias]):
        scales = [constants.get(node.inputs[scale]) for _, scale, _ in form.operands]
        if scales[0] is None or scales[1] is None:
            raise ImportFault(f"op {place} {node.code}: its scales are computed; export it again")
        constants[f"{name}_bias_scale"] = (scales[0].astype(np.float32) * scales[1].astype(np.float32)).reshape(-1)
        own = f"{name}_bias"
        constants[f"{name}_bias_zero"] = np.zeros(constants[f"{name}_bias_scale"].shape, np.int32)
        names = (bias, f"{name}_bias_scale", f"{name}_bias_zero")
        yield replace(node, code="DequantizeLinear", inputs=names, outputs=(own,), attributes={"axis": 0})
        inputs.append(own)
    attributes = {key: value for key, value in node.attributes.items() if key != "channels_last"}
    yield replace(node, code=form.code, inputs=tuple(inputs), outputs=(f"{name}_real",), attributes=attributes)
    scale, zero = (node.inputs[i] for i in form.result)
    yield replace(
        node, code="QuantizeLinear", inputs=(f"{name}_real", scale, zero), outputs=(name,), attributes={"axis": 1}
    )


def _dequantize(node: RawNode, operand: tuple[int, int, int], name: str, axis: int) -> RawNode:
    inputs = tuple(node.inputs[i] for i in operand)
    return replace(node, code="DequantizeLinear", inputs=inputs, outputs=(name,), attributes={"axis": axis})
