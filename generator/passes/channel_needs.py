"""Which channels of every tensor are needed: those that outputs show, and those that needed channels are made from.

A linear op over one group may drop any of its outputs, and does without an input whose weights are zero or whose value
is the same everywhere, since that adds the same to every sum. All other ops *tie* channels: both ends stay or both go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import lcm
from typing import cast

import numpy as np

from shoehorn_mcu.ir import Graph, Node, Op
from shoehorn_mcu.ops import (
    Add,
    AveragePool2d,
    Concat,
    Dequantize,
    HardSwish,
    LeakyRelu,
    Logistic,
    Maximum,
    MaxPool2d,
    Mean,
    Minimum,
    Mul,
    Pad,
    Prelu,
    Quantize,
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
)
from shoehorn_mcu.ops.fixed_point import Ints
from shoehorn_mcu.passes.channel_ranges import Range
from shoehorn_mcu.passes.linear import Bools, Linear, linear


@dataclass(frozen=True, eq=False)
class Reads:
    """What a linear op over one group does with each input channel, both [outputs, inputs]."""

    needed: Bools  # the output needs the input as it comes
    folded: Ints  # else: what the input adds to every sum of the output


@dataclass(frozen=True, eq=False)
class Tie:
    """Channel `operand[k]` of one operand and channel `output[k]` of the output stay or go together, for every k."""

    operand: Ints
    output: Ints


def reads(node: Node, x: Range) -> Reads | None:
    """How a linear op over one group reads its input, which stays within `x`; None for any other op."""
    view = linear(node)
    if view is None or view.groups > 1:
        return None
    weights = view.weights[0] * view.used[:, :, None]
    needed = (weights != 0).any(axis=(1, 2))
    folded = np.zeros(needed.shape, np.int64)
    same = x.constant
    needed[:, same] = False
    centred = x.low - node.inputs[0].type.quantised.zero_point
    adds = np.flatnonzero(same & (centred != 0))
    sums = view.by_case(np.moveaxis(weights[..., adds], 3, 1)) * centred[adds][:, None, None]
    varies = (sums != sums[..., :1, :1]).any(axis=(2, 3))
    needed[:, adds] = varies
    folded[:, adds] = np.where(varies, 0, sums[..., 0, 0])
    return Reads(needed, folded)


def needs(graph: Graph, reads_of: Mapping[str, Reads]) -> dict[str, Bools]:
    """The needed channels of every tensor that is read by rows or written, `reads_of` by name of op.

    Inputs and outputs of the graph need all of theirs, and every tensor at least one.
    """
    needed = {t.name: np.zeros(t.type.nhwc[3], np.bool_) for n in graph.nodes() for t in (*n.row_inputs, n.output)}
    also = (
        t.name for n in graph.nodes() for t in n.inputs[len(n.row_inputs) :] if t.name in needed
    )  # computed weights
    for name in (*graph.inputs, *graph.outputs, *also):
        needed[name] = np.ones(graph.tensors[name].type.nhwc[3], np.bool_)
    order = list(graph.nodes())[::-1]
    ties_of = {node.op.name: _ties(node) for node in order if node.op.name not in reads_of}
    _spread(order, reads_of, ties_of, needed)
    for name in [*(node.output.name for node in order), *needed]:
        if not needed[name].any():
            needed[name][0] = True
            _spread(order, reads_of, ties_of, needed)
    return needed


def _spread(
    order: list[Node],
    reads_of: Mapping[str, Reads],
    ties_of: Mapping[str, tuple[Tie, ...]],
    needed: dict[str, Bools],
) -> None:
    """Marks in `needed` all that the marked channels need, until nothing is added."""
    count = -1
    while count != (count := sum(int(channels.sum()) for channels in needed.values())):
        for node in order:
            output = needed[node.output.name]
            if (read := reads_of.get(node.op.name)) is not None:
                needed[node.inputs[0].name] |= read.needed[output].any(axis=0)
                continue
            for operand, tie in zip(node.row_inputs, ties_of[node.op.name], strict=True):
                either = needed[operand.name][tie.operand] | output[tie.output]
                needed[operand.name][tie.operand[either]] = True
                output[tie.output[either]] = True


def _ties(node: Node) -> tuple[Tie, ...]:
    """One tie per operand that is read by rows."""
    view = linear(node)
    if view is not None:
        return (_by_group(view),)
    return TIES.get(type(node.op), _all)(node)


def _by_group(view: Linear) -> Tie:
    """Every input of a group with every output of it."""
    groups, outputs, _, _, inputs = view.weights.shape
    group = np.arange(groups)[:, None, None]
    x = group * inputs + np.arange(inputs)
    y = group * outputs + np.arange(outputs)[:, None]
    shape = (groups, outputs, inputs)
    return Tie(np.broadcast_to(x, shape).ravel(), np.broadcast_to(y, shape).ravel())


def _all(node: Node) -> tuple[Tie, ...]:
    """Every channel of every operand with every channel of the output."""
    outputs = node.output.type.nhwc[3]
    return tuple(_together(t.type.nhwc[3], outputs) for t in node.row_inputs)


def _together(inputs: int, outputs: int) -> Tie:
    zeros = np.zeros(max(inputs, outputs), np.int64)
    x, y = np.arange(inputs), np.arange(outputs)
    return Tie(np.concatenate([x, zeros[:outputs]]), np.concatenate([zeros[:inputs], y]))


def _each(node: Node) -> tuple[Tie, ...]:
    """Channel by channel; the one channel of an operand that is broadcast is tied to nothing, since it always stays."""
    outputs = node.output.type.nhwc[3]
    channels = (np.arange(outputs if t.type.nhwc[3] == outputs else 0) for t in node.row_inputs)
    return tuple(Tie(places, places) for places in channels)


def _mean(node: Node) -> tuple[Tie, ...]:
    axes, x = cast(Mean, node.op).axes, node.inputs[0].type
    return _all(node) if len(x.shape) - 1 in axes else _each(node)


def _transpose(node: Node) -> tuple[Tie, ...]:
    return _each(node) if cast(Transpose, node.op).perm_4d[3] == 3 else _all(node)


def _reshape(node: Node) -> tuple[Tie, ...]:
    """Element n is in channel n modulo the channels at either end; both divide the number of elements."""
    x, y = node.inputs[0].type.nhwc[3], node.output.type.nhwc[3]
    n = np.arange(lcm(x, y))
    return (Tie(n % x, n % y),)


def _pad(node: Node) -> tuple[Tie, ...]:
    """The channels that are padded in are tied to nothing."""
    x, before = node.inputs[0].type, cast(Pad, node.op).before
    places = np.arange(x.nhwc[3])
    return (Tie(places, places + (before[-1] if before else 0)),)


def _concat(node: Node) -> tuple[Tie, ...]:
    if cast(Concat, node.op).axis != len(node.output.type.shape) - 1:
        return _each(node)
    sizes = [t.type.nhwc[3] for t in node.inputs]
    starts = np.cumsum([0, *sizes[:-1]])
    return tuple(Tie(np.arange(size), start + np.arange(size)) for size, start in zip(sizes, starts, strict=True))


def _slice(node: Node) -> tuple[Tie, ...]:
    """Where channels are skipped, dropping one would change the steps between the others, so all stay."""
    op = cast(Slice, node.op)
    if not op.step or abs(op.step[-1]) != 1:
        return _all(node)
    places = np.arange(op.size[-1])
    return (Tie(op.begin[-1] + places * op.step[-1], places),)


ELEMENTWISE = (Relu, Relu6, LeakyRelu, Logistic, Tanh, HardSwish, Requantize, Quantize, Dequantize)

TIES: Mapping[type[Op], Callable[[Node], tuple[Tie, ...]]] = {
    **dict.fromkeys((Add, Sub, Mul, Maximum, Minimum, Prelu), _each),
    **dict.fromkeys(ELEMENTWISE, _each),
    **dict.fromkeys((AveragePool2d, MaxPool2d, ResizeNearest, ResizeBilinear), _each),
    Mean: _mean,
    Transpose: _transpose,
    Reshape: _reshape,
    Pad: _pad,
    Concat: _concat,
    Slice: _slice,
}
"""By op that is not linear: what ties its operands to its output; in ops that are not here all channels go together."""
