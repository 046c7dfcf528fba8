"""The pass `zero-constant-channels`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from shoehorn_mcu.ir import Graph, Node, Op, Range, is_a
from shoehorn_mcu.ir.edit import Draft
from shoehorn_mcu.ops import LinearOp
from shoehorn_mcu.ops.arithmetic import LIMIT
from shoehorn_mcu.passes.channel_ranges import ranges


def zero_constant_channels(graph: Graph) -> Graph:
    """Zeroes the weights of output channels with the same value for any input, and moves the value into the bias.

    >   a = Conv2d(x, w: 8x1x1x4, b)      the multiplier of channel 5 is 0, or its sums never reach the clamp's range
    <   a = Conv2d(x, w', b')             w'[5] is zero, and b'[5] is a sum that gives the same value

    Exact: the output does not change. Sums of such a channel can no longer overflow, inputs that only it read are no
    longer needed, and `fold-constant-channels` drops it if its readers allow that.
    """
    draft, found = Draft(graph), ranges(graph)
    ops = [_zeroed(node, found, draft) for node in graph.nodes()]
    if all(new is old for new, old in zip(ops, graph.ops, strict=True)):
        return graph
    return draft.with_ops(ops)


def _zeroed(node: Node, found: Mapping[str, Range], draft: Draft) -> Op:
    """The op with zeroed channels; its new constants go into the draft."""
    if not is_a(node, LinearOp):
        return node.op
    op = node.op
    _, weights, bias = node.inputs
    assert weights.data is not None and bias.data is not None
    value, x = found[node.output.name], found[node.x.name]
    if not value.constant.any():
        return op
    # The sum nearest to those that occur rounds and saturates to the same value.
    sums = np.clip(op.sum_bounds(node, x)[0], -LIMIT, LIMIT)
    sums = np.where(op.scales(node.sig)[0] == 0, 0, sums)
    constant = value.constant & (op.requantise(sums, node.sig) == value.low)
    others = tuple(axis for axis in range(weights.data.ndim) if axis != op.channel_axis % weights.data.ndim)
    constant &= (weights.data != 0).any(axis=others) | (np.abs(bias.data.astype(np.int64)) > LIMIT)
    if not constant.any():
        return op
    by_channel = [1] * weights.data.ndim
    by_channel[op.channel_axis] = -1
    kept = np.where(constant.reshape(by_channel), 0, weights.data).astype(weights.data.dtype)
    start = np.where(constant, sums, bias.data).astype(bias.data.dtype)
    zeroed = draft.tensor(f"{op.name}_weights", weights.type, kept)
    return replace(op, inputs=(op.inputs[0], zeroed, draft.tensor(f"{op.name}_bias", bias.type, start)))
