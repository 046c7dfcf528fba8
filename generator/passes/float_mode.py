"""The arithmetic of float32 ops, as the option --float asks for it. Not one of the passes that keep every bit."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

import numpy as np

from shoehorn_mcu.errors import ShoehornError
from shoehorn_mcu.ir import DType, Graph, Tensor, TensorType, verify
from shoehorn_mcu.ops import Conv2d, Dense, DepthwiseConv2d
from shoehorn_mcu.ops.laws import quoted


class FloatModeError(ShoehornError):
    """The model or the core cannot compute in this mode of --float."""

    kind = "float-mode"


class FloatMode(Enum):
    """How float32 models are computed.

    RELAXED: a product and its addition are rounded once, sums begin with the bias, numbers below 2^-126 are 0.
    HALF: as RELAXED, and weights are rounded to float16 and stored so.
    """

    PRECISE = "precise"  # the sums of TensorFlow Lite's reference kernels, in their order
    RELAXED = "relaxed"
    HALF = "half"


def with_float_mode(graph: Graph, mode: FloatMode) -> Graph:
    """The graph with its convolutions and dense layers on float32 in this arithmetic.

    >   y = Conv2d(x float32, w float32, b)
    <   y = Conv2d(x float32, w float16, b) fused

    FloatModeError: there are no such ops, or a weight is beyond float16.
    """
    if mode is FloatMode.PRECISE:
        return graph
    changed = {
        op.name: replace(op, fused=True)
        for op in graph.ops
        if isinstance(op, Conv2d | DepthwiseConv2d | Dense) and graph.tensors[op.output].type.dtype is DType.FLOAT32
    }
    if not changed:
        raise FloatModeError(
            f"{graph.name}: --float {mode.value} is for float32 models, and no sum here is of float32; "
            "leave --float out"
        )
    tensors = dict(graph.tensors)
    if mode is FloatMode.HALF:
        halved = (node.inputs[1] for node in graph.nodes() if node.op.name in changed)
        tensors.update({weights.name: _halved(graph, weights) for weights in halved})
    return verify(replace(graph, tensors=tensors, ops=tuple(changed.get(op.name, op) for op in graph.ops)))


def _halved(graph: Graph, weights: Tensor) -> Tensor:
    """The constant in float16, rounded to nearest."""
    assert weights.data is not None
    with np.errstate(over="ignore"):
        data = weights.data.astype(np.float16)
    if not np.isfinite(data).all():
        raise FloatModeError(
            f"{graph.name}: weights {quoted(weights.name)} reach {np.abs(weights.data).max():g}, beyond float16; "
            "use --float relaxed"
        )
    return Tensor(weights.name, TensorType(weights.type.shape, DType.FLOAT16), data)
