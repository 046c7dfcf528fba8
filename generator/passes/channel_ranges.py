"""Between which stored values every channel of every tensor stays, whatever the input: interval arithmetic.

A channel is a place of a tensor's last axis, over all other axes. The ranges rest on two facts: sums and rescaled sums
never leave int32 (the importers prove it), and rounding, shifting and clamping never turn an order around. So an op
that rises (or falls) in each operand takes its extremes at the extremes of its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import cast

import numpy as np

from shoehorn_mcu.ir import Array, DType, Graph, Node, Op, Tensor, TensorType
from shoehorn_mcu.ops import (
    Add,
    AveragePool2d,
    Clamp,
    Concat,
    HardSwish,
    LeakyRelu,
    Logistic,
    Maximum,
    MaxPool2d,
    Mean,
    Minimum,
    Mul,
    Pad,
    Pool2d,
    Prelu,
    Relu,
    Relu6,
    Requantize,
    Reshape,
    ResizeBilinear,
    ResizeNearest,
    Slice,
    Sub,
    Tanh,
    Transpose,
    Unary,
)
from shoehorn_mcu.ops.fixed_point import Floats, Ints
from shoehorn_mcu.ops.unary import dtype_bounds
from shoehorn_mcu.passes.linear import LINEAR, Bools, linear, requantise


@dataclass(frozen=True, eq=False)
class Range:
    """Inclusive bounds of the stored values, one of each per channel."""

    low: Ints
    high: Ints

    @property
    def constant(self) -> Bools:
        """Which channels hold one value everywhere, always."""
        same: Bools = self.low == self.high
        return same


def ranges(graph: Graph) -> dict[str, Range]:
    """The range of every tensor that ops read by rows or write."""
    found = {name: _anything(graph.tensors[name].type) for name in graph.inputs}
    for node in graph.nodes():
        operands = [found.setdefault(t.name, _held(t)) for t in node.row_inputs]
        judge = RANGES.get(type(node.op), _unknown)
        found[node.output.name] = judge(node, operands)
    return found


def _anything(kind: TensorType) -> Range:
    """All that the type can hold; of what are no integers no bounds are kept, and none are asked for."""
    low, high = dtype_bounds(kind.dtype if kind.dtype.numpy.kind in "iu" else DType.INT32)
    channels = kind.nhwc[3]
    return Range(np.full(channels, low, np.int64), np.full(channels, high, np.int64))


def _held(tensor: Tensor) -> Range:
    """The range of a constant that an op reads by rows."""
    if tensor.data is None or tensor.data.dtype.kind not in "iu":
        return _anything(tensor.type)
    return _over_channels([tensor.data], tensor.type)


def _over_channels(arrays: Sequence[Array], kind: TensorType) -> Range:
    """The least and the greatest of these arrays' elements, per place of the last axis."""
    flat = np.concatenate([a.astype(np.int64).reshape(-1, kind.nhwc[3]) for a in arrays])
    return Range(flat.min(axis=0), flat.max(axis=0))


def _unknown(node: Node, operands: Sequence[Range]) -> Range:
    return _anything(node.output.type)


def _linear(node: Node, operands: Sequence[Range]) -> Range:
    """Each tap adds the lesser or greater of weight * low and weight * high; the extreme case of padding counts."""
    view, x = linear(node), node.inputs[0].type
    if view is None:
        return _anything(node.output.type)
    zero, bias = x.quantised.zero_point, node.inputs[2].data
    assert bias is not None
    low, high = ((bound - zero).reshape(view.groups, -1) for bound in (operands[0].low, operands[0].high))
    positive, negative = np.maximum(view.weights, 0), np.minimum(view.weights, 0)

    def sums(at_positive: Ints, at_negative: Ints) -> Floats:
        taps = _dot(positive, at_positive) + _dot(negative, at_negative)
        return view.by_case(taps).reshape(len(bias), -1)

    least, greatest = sums(low, high).min(axis=1), sums(high, low).max(axis=1)
    start = bias.astype(np.int64)
    return Range(requantise(start + least.astype(np.int64), node), requantise(start + greatest.astype(np.int64), node))


def _dot(weights: Floats, x: Ints) -> Floats:
    """[groups, outputs, kernel height, kernel width]: weights times x [groups, inputs], summed over inputs."""
    groups, outputs, kh, kw, inputs = weights.shape
    flat = weights.reshape(groups, -1, inputs) @ x.astype(np.float64)[:, :, None]
    return flat.reshape(groups, outputs, kh, kw)


def _table(node: Node, operands: Sequence[Range]) -> Range:
    """The extremes of the results over each channel's stretch of the table, which need not rise."""
    table = np.asarray(cast(Unary, node.op).table(node.sig)).astype(np.int64)
    stored = np.arange(len(table)) + dtype_bounds(node.inputs[0].type.dtype)[0]
    low, high = operands[0].low[:, None], operands[0].high[:, None]
    inside = (low <= stored) & (stored <= high)
    return Range(
        np.where(inside, table, table.max()).min(axis=1),
        np.where(inside, table, table.min()).max(axis=1),
    )


def _corners(node: Node, operands: Sequence[Range]) -> Range:
    """Ops of two operands: rising or falling in either while the other stands still, so the corners decide.

    Prelu bends where x passes its zero point, so both sides of the bend count as corners too.
    """
    a, b = operands
    of_a = [a.low, a.high]
    if isinstance(node.op, Prelu):
        zero = node.inputs[0].type.quantised.zero_point
        of_a += [np.clip(bend, a.low, a.high) for bend in (zero - 1, zero)]
    corners = [
        np.broadcast_to(node.op.reference(pair, node.sig), node.output.type.nhwc[3:])
        for pair in product(of_a, (b.low, b.high))
    ]
    return _over_channels(corners, node.output.type)


def _window(node: Node, operands: Sequence[Range]) -> Range:
    """Pools and resizes give nothing beyond the values they read, but for the clamp."""
    clamp = node.op.clamp if isinstance(node.op, Pool2d) else Clamp()
    (x,) = operands
    return Range(np.clip(x.low, clamp.low, clamp.high), np.clip(x.high, clamp.low, clamp.high))


def _moved(node: Node, operands: Sequence[Range]) -> Range:
    """Ops that rise in every operand: what they make of operands filled with the low and with the high bounds."""
    if node.output.type.dtype.numpy.kind not in "iu":
        return _anything(node.output.type)
    extremes = []
    for bounds in ([x.low for x in operands], [x.high for x in operands]):
        filled = [_filled(bound, t.type) for bound, t in zip(bounds, node.row_inputs, strict=True)]
        extremes.append(node.op.reference(filled, node.sig))
    return _over_channels(extremes, node.output.type)


def _filled(channels: Ints, kind: TensorType) -> Array:
    return np.broadcast_to(channels, kind.nhwc).reshape(kind.shape).astype(kind.dtype.numpy)


Judge = Callable[[Node, Sequence[Range]], Range]

RANGES: Mapping[type[Op], Judge] = {
    **dict.fromkeys(LINEAR, _linear),
    **dict.fromkeys((Add, Sub, Mul, Maximum, Minimum, Prelu), _corners),
    **dict.fromkeys((Logistic, Tanh, HardSwish, Relu, Relu6, LeakyRelu, Requantize), _table),
    **dict.fromkeys((AveragePool2d, MaxPool2d, ResizeNearest, ResizeBilinear), _window),
    **dict.fromkeys((Mean, Reshape, Pad, Concat, Slice, Transpose), _moved),
}
"""By op: the range of its output. Ops that are not here may give anything that their type holds."""
