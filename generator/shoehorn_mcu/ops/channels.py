"""How ops tie channels of their operands to channels of their output (Op.channels), for ops that share a pattern."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shoehorn_mcu.ir import Array, Bools, Channels, Ints, Node, Op, Range, Tie


def channel_by_channel(node: Node) -> Channels:
    """Output channel c needs channel c of every operand; the op's attributes name no channel.

    The only channel of a broadcast operand is not tied, since it is always kept.
    """
    outputs = node.output.type.nhwc[3]
    channels = (np.arange(outputs if t.type.nhwc[3] == outputs else 0) for t in node.row_inputs)

    def cut(operands: Sequence[Bools], output: Bools) -> Op:
        return node.op

    return Channels(tuple(Tie(places, places) for places in channels), cut)


class ByChannels(Op):
    """An op whose channels are tied so."""

    def channels(self, node: Node) -> Channels | None:
        return channel_by_channel(node)


def over_channels(arrays: Sequence[Array], channels: int) -> Range:
    """The least and the greatest of these arrays' elements, per place of the last axis."""
    flat = np.concatenate([a.astype(np.int64).reshape(-1, channels) for a in arrays])
    return Range(flat.min(axis=0), flat.max(axis=0))


def monotone(node: Node, operands: Sequence[Range]) -> Range:
    """Bounds of an op that rises in every operand: its results for operands filled with their low and high bounds."""
    if node.output.type.dtype.numpy.kind not in "iu":
        return Range.of_type(node.output.type)
    extremes = []
    for bounds in ([x.low for x in operands], [x.high for x in operands]):
        filled = [_filled(bound, node, i) for i, bound in enumerate(bounds)]
        extremes.append(node.op.reference(filled, node.sig))
    return over_channels(extremes, node.output.type.nhwc[3])


def _filled(channels: Ints, node: Node, place: int) -> Array:
    kind = node.row_inputs[place].type
    return np.broadcast_to(channels, kind.nhwc).reshape(kind.shape).astype(kind.dtype.numpy)
