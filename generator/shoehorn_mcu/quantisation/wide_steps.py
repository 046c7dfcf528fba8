"""Channels whose weights have steps so wide that fast kernels cannot scale their sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from shoehorn_mcu.ir import DType
from shoehorn_mcu.quantisation.rewrite import Edit, attribute

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

_MOST = 0.499
"""Output steps for a step of an input and one of a weight. From 0.5 on a sum is scaled by more than its rounding takes
back, which no kernel but the portable one does, and one such channel is enough for a layer to be refused."""


@dataclass(frozen=True)
class _Layer:
    """The stored constants of a linear node, by name, and the scales of what it reads and writes."""

    weights: str
    scales: str
    bias: tuple[str, str] | None  # and its scales
    axis: int
    x: float
    y: float


def with_finer_steps(quantised: ModelProto) -> tuple[ModelProto, int]:
    """The int8 model with finer steps in those channels whose steps are too wide, and how many these are.

    Their largest weights are cut to what 127 finer steps reach. A channel without weights gets the steps of the others.
    Whether the cut does harm is for the caller to measure: mostly such a channel reads zeros alone.
    """
    edit = Edit(quantised)
    made = {node.output[0]: node for node in edit.nodes}
    count = 0
    for node in edit.nodes:
        layer = _layer(edit, made, node)
        if layer is not None:
            count += _refined(edit, layer)
    return edit.save(), count


def _refined(edit: Edit, layer: _Layer) -> int:
    """Gives a layer finer steps where they are too wide; how many channels these are."""
    weights, scales = edit.constants[layer.weights], edit.constants[layer.scales].astype(np.float64)
    by_channel = np.moveaxis(weights, layer.axis, 0).reshape(len(scales), -1).astype(np.float64)
    most = _MOST * layer.y / layer.x
    wide = scales > most
    if not wide.any():
        return 0
    finer = np.where(wide, most, scales)
    bare = wide & ~by_channel.any(axis=1)
    if bare.any() and not wide.all():
        finer[bare] = np.median(scales[~wide])
    finer = finer.astype(np.float32).astype(np.float64)
    ratio = scales / finer
    moved = np.moveaxis(weights, layer.axis, 0)
    steps = np.clip(np.rint(by_channel * ratio[:, None]), -127, 127).astype(weights.dtype).reshape(moved.shape)
    edit.constants[layer.weights] = np.ascontiguousarray(np.moveaxis(steps, 0, layer.axis))
    edit.constants[layer.scales] = finer.astype(np.float32)
    if layer.bias is not None:
        bias, of_bias = (edit.constants[name].astype(np.float64) for name in layer.bias)
        edit.constants[layer.bias[0]] = np.clip(np.rint(bias * ratio), *DType.INT32.limits).astype(np.int32)
        edit.constants[layer.bias[1]] = (of_bias / ratio).astype(np.float32)
    return int(wide.sum())


def _layer(edit: Edit, made: dict[str, NodeProto], node: NodeProto) -> _Layer | None:
    """The constants of a linear node with a scale per channel; None of another node."""
    if node.op_type not in ("Conv", "Gemm", "MatMul"):
        return None
    x, weights, *bias = (made.get(name) for name in node.input)
    y = edit.only_reader(node.output[0])
    if y is not None and y.op_type in ("Relu", "Clip"):
        y = edit.only_reader(y.output[0])
    held = [each for each in (x, weights, *bias, y) if each is not None]
    kinds = [each.op_type for each in held]
    if x is None or weights is None or y is None or y.op_type != "QuantizeLinear":
        return None
    if kinds[:-1] != ["DequantizeLinear"] * (len(held) - 1):
        return None
    if len(held) != len(node.input) + 1 or not {*weights.input, *x.input[1:], *y.input[1:]} <= edit.constants.keys():
        return None
    stored_as = [edit.constants[name].dtype for name in (weights.input[0], x.input[2], y.input[2])]
    if any(kind != np.int8 for kind in stored_as) or edit.constants[weights.input[1]].ndim != 1:
        return None
    stored = (bias[0].input[0], bias[0].input[1]) if bias and bias[0] is not None else None
    if stored is not None and (not {*stored} <= edit.constants.keys() or edit.constants[stored[1]].ndim != 1):
        return None
    own = [*weights.input[:2], *weights.output, *(stored or ()), *(bias[0].output if bias and bias[0] else ())]
    if any(edit.only_reader(name) is None for name in own):
        return None  # another layer reads the same constants, and has an input or a bias with other steps
    steps = (float(edit.constants[each.input[1]].max()) for each in (x, y))
    return _Layer(weights.input[0], weights.input[1], stored, attribute(weights, "axis", 1), *steps)
