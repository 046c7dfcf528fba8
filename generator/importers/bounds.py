"""Proofs, before anything is generated, that no int32 of the arithmetic overflows, whatever the input."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.importers.fault import ImportFault
from shoehorn_mcu.ir import Graph, Node, Op, TensorType
from shoehorn_mcu.ops import (
    Add,
    AveragePool2d,
    Conv2d,
    Dense,
    DepthwiseConv2d,
    LeakyRelu,
    Mean,
    Mul,
    Prelu,
    Relu,
    Requantize,
    Softmax,
    Sub,
    TransposeConv2d,
)
from shoehorn_mcu.ops.fixed_point import quantize_multiplier

SPAN = 255  # largest distance between two 8-bit values: of x from its zero point
LIMIT = (1 << 31) - 1 - SPAN  # room for the zero point that is added at the end
SOFTMAX_LIMIT = 1 << 12  # addends of at most 1.0 that fit into TFLite's sum, which has 12 integer bits


def check(graph: Graph) -> None:
    """ImportFault where an op's accumulator or rescaled sum can leave int32; the message names the op."""
    for node in graph.nodes():
        judge = BOUNDS.get(type(node.op))
        why = judge(node) if judge else None
        if why is not None:
            raise ImportFault(f"op '{node.op.name}' writing '{node.op.output}': {why}; quantise it again")


def _rescaled(largest: float, factor: float) -> str | None:
    """What is wrong with rescaling sums of at most `largest` by `factor`, which shifts left where it is over 1."""
    if not factor < 2.0**30:
        return f"rescaling by {factor:g} overflows int32"
    shifted = int(largest) << max(0, quantize_multiplier(factor).shift)
    return None if shifted <= LIMIT else f"sums up to {largest:.0f}, rescaled by {factor:g}, overflow int32"


def _linear(channel_axis: int) -> Callable[[Node], str | None]:
    """Sums of weights times x, with the zero point of x folded into the bias or subtracted from x."""

    def judge(node: Node) -> str | None:
        x, weights, bias = node.inputs
        if weights.data is None or bias.data is None:
            return None
        w = np.moveaxis(weights.data, channel_axis, 0).reshape(weights.type.shape[channel_axis], -1)
        magnitude = np.abs(w.astype(np.int64)).sum(axis=1)
        start = bias.data.astype(np.int64)
        folded = start - x.type.quantised.zero_point * w.astype(np.int64).sum(axis=1)
        largest = np.maximum(np.abs(start) + SPAN * magnitude, np.abs(folded) + 128 * magnitude)
        if (worst := int(largest.max())) > LIMIT:
            channel = int(largest.argmax())
            return f"the accumulator of channel {channel} can reach {worst}, above int32"
        return _rescaled_channels(largest, x.type, weights.type, node.output.type)

    return judge


def _rescaled_channels(largest: NDArray[np.int64], x: TensorType, weights: TensorType, y: TensorType) -> str | None:
    scales = np.broadcast_to(np.array(weights.quantised.scales), largest.shape)
    factors = x.quantised.scale * scales / y.quantised.scale
    shifting = np.flatnonzero(factors >= 0.5)  # the others shift to the right, and LIMIT is checked already
    faults = (_rescaled(float(largest[c]), float(factors[c])) for c in shifting)
    return next((f"channel {c}: {why}" for c, why in zip(shifting, faults, strict=True) if why), None)


def _scales(node: Node) -> tuple[float, ...]:
    return tuple(t.type.quantised.scale for t in node.inputs)


def _sum(node: Node) -> str | None:
    """ADD and SUB scale both sides to 2^-20 of twice the larger scale; TFLite asks for a factor below 1 after that."""
    factor = 2 * max(_scales(node)) / (2.0**20 * node.output.type.quantised.scale)
    return None if factor < 1 else f"its output's scale is {factor * 2**20:g} times too small for its inputs'"


def _product(node: Node) -> str | None:
    return _rescaled(SPAN * SPAN, math.prod(_scales(node)) / node.output.type.quantised.scale)


def _ratio(node: Node) -> str | None:
    return _rescaled(SPAN, _scales(node)[0] / node.output.type.quantised.scale)


def _leaky(node: Node) -> str | None:
    assert isinstance(node.op, LeakyRelu)
    ratio = _scales(node)[0] / node.output.type.quantised.scale
    return _rescaled(SPAN, ratio * max(1.0, node.op.alpha))


def _prelu(node: Node) -> str | None:
    return _ratio(node) or _product(node)


def _mean(node: Node) -> str | None:
    """Mean's division by the count is part of the factor."""
    count = node.inputs[0].type.elements // node.output.type.elements
    if count * SPAN > LIMIT:
        return f"a sum of {count} elements can leave int32"
    return _rescaled(count * SPAN, _scales(node)[0] / node.output.type.quantised.scale / count)


def _pool(node: Node) -> str | None:
    assert isinstance(node.op, AveragePool2d)
    count = math.prod(node.op.kernel)
    return None if count * SPAN <= LIMIT else f"a sum of {count} elements can leave int32"


def _softmax(node: Node) -> str | None:
    """TFLite's sum of exponentials holds 12 integer bits, and its scale must be more than 2^-26."""
    assert isinstance(node.op, Softmax)
    depth, step = node.inputs[0].type.shape[-1], node.op.beta * _scales(node)[0]
    if depth >= SOFTMAX_LIMIT:
        return f"a sum of {depth} exponentials can leave int32; at most {SOFTMAX_LIMIT - 1} fit"
    return None if step * 2**26 > 1 else f"beta times scale is {step:g}, too small for TFLite's arithmetic"


BOUNDS: dict[type[Op], Callable[[Node], str | None]] = {
    Conv2d: _linear(0),
    DepthwiseConv2d: _linear(3),
    TransposeConv2d: _linear(0),
    Dense: _linear(0),
    Add: _sum,
    Sub: _sum,
    Mul: _product,
    Prelu: _prelu,
    LeakyRelu: _leaky,
    Relu: _ratio,
    Requantize: _ratio,
    Mean: _mean,
    AveragePool2d: _pool,
    Softmax: _softmax,
}
"""By op: what can overflow, in words, or None. Ops that are not here only compare, move or look up."""
