"""The needed channels of every tensor: those of outputs, and those that needed channels are computed from.

A linear op over one group may drop any of its output channels, and any input channel whose weights are zero or whose
value is constant, since that adds a constant to every sum. All other ops *tie* channels: both ends are kept or dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from shoehorn_mcu.ir import Bools, DType, Graph, Ints, Node, Range, Tie, is_a
from shoehorn_mcu.ops import LinearOp
from shoehorn_mcu.ops.arithmetic import LIMIT


@dataclass(frozen=True, eq=False)
class Reads:
    """How a linear op over one group reads each input channel; both arrays are [outputs, inputs]."""

    needed: Bools  # the output needs the input's values
    folded: Ints  # otherwise: the constant that the input adds to every sum of the output


def reads(node: Node, x: Range) -> Reads | None:
    """How an int8 linear op over one group reads its input, which stays within `x`; None for any other op."""
    if not is_a(node, LinearOp) or node.output.type.dtype is DType.FLOAT32:
        return None
    view = node.op.linear_view(node)
    if view.groups > 1:
        return None
    weights = view.weights[0] * view.used[:, :, None]
    needed = (weights != 0).any(axis=(1, 2))
    folded = np.zeros(needed.shape, np.int64)
    same = x.constant
    proven = node.op.accumulators(node) <= LIMIT  # only then may a constant part move into the bias
    needed[np.ix_(proven, same)] = False
    centred = x.low - node.x.type.quantised.zero_point
    adds = np.flatnonzero(same & (centred != 0))
    sums = view.by_case(np.moveaxis(weights[..., adds], 3, 1)) * centred[adds][:, None, None]
    varies = (sums != sums[..., :1, :1]).any(axis=(2, 3))
    needed[:, adds] |= varies
    folded[:, adds] = np.where(needed[:, adds], 0, sums[..., 0, 0])
    return Reads(needed, folded)


def needs(graph: Graph, reads_of: Mapping[str, Reads]) -> dict[str, Bools]:
    """The needed channels of every tensor that is read by rows or written, `reads_of` by name of op.

    All channels of the graph's inputs, outputs and states are needed, and at least one of every tensor.
    """
    needed = {t.name: np.zeros(t.type.nhwc[3], np.bool_) for n in graph.nodes() for t in (*n.row_inputs, n.output)}
    for name in (*graph.sources, *graph.results):
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
    """Marks in `needed` all channels that the marked ones depend on, until no more are added."""
    count = -1
    while count != (count := sum(int(channels.sum()) for channels in needed.values())):
        for node in order:
            output = needed[node.output.name]
            if (read := reads_of.get(node.op.name)) is not None:
                needed[node.x.name] |= read.needed[output].any(axis=0)
                continue
            for operand, tie in zip(node.row_inputs, ties_of[node.op.name], strict=True):
                either = needed[operand.name][tie.operand] | output[tie.output]
                needed[operand.name][tie.operand[either]] = True
                output[tie.output[either]] = True


def _ties(node: Node) -> tuple[Tie, ...]:
    """One tie per operand that is read by rows."""
    said = node.op.channels(node)
    if said is not None:
        return said.ties
    outputs = node.output.type.nhwc[3]
    return tuple(_together(t.type.nhwc[3], outputs) for t in node.row_inputs)


def _together(inputs: int, outputs: int) -> Tie:
    """Ties every channel of an operand to every channel of the output."""
    zeros = np.zeros(max(inputs, outputs), np.int64)
    x, y = np.arange(inputs), np.arange(outputs)
    return Tie(np.concatenate([x, zeros[:outputs]]), np.concatenate([zeros[:inputs], y]))
