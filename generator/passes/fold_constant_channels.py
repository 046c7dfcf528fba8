"""The pass `fold-constant-channels`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import compress
from typing import TypeVar, cast

import numpy as np

from shoehorn_mcu.ir import Graph, Node, Op, Tensor
from shoehorn_mcu.ir.edit import only_reader, readers, with_ops
from shoehorn_mcu.ops import DepthwiseConv2d, Pad, Reshape, Slice, TransposeConv2d
from shoehorn_mcu.passes.channel_needs import Reads, needs, reads
from shoehorn_mcu.passes.channel_ranges import ranges
from shoehorn_mcu.passes.linear import LINEAR, Bools

T = TypeVar("T")


def fold_constant_channels(graph: Graph) -> Graph:
    """Drops channels that hold one value whatever the input, and channels that nothing is made from.

    >   a = Conv2d(x, w: 8x1x1x4, b); y = Dense(a, v: 3x8, c)      w[5] is zero, so a[..., 5] is always s
    <   a = Conv2d(x, w: 7x1x1x4, b); y = Dense(a, v: 3x7, c + (s - a_zero) * v[:, 5])

    Exact: what the channel added to the sum is the same everywhere, also under padding, or it stays. Channels of the
    graph's inputs and outputs stay. The biases hold what the sums held, so what could not overflow still cannot.
    """
    while (less := _once(graph)) is not graph:
        graph = less
    return graph


def _once(graph: Graph) -> Graph:
    """The graph itself where nothing goes. A second time may find more: of two groups, one may be left."""
    found = ranges(graph)
    of_op = ((node.op.name, reads(node, found[node.inputs[0].name])) for node in graph.nodes() if node.inputs)
    reads_of = {name: read for name, read in of_op if read is not None}
    needed = needs(graph, reads_of)
    if all(channels.all() for channels in needed.values()):
        return graph
    cut = _Cut(graph, needed, reads_of)
    ops = [cut.op(node) for node in graph.nodes()]
    return with_ops(replace(graph, tensors=cut.tensors), ops)


class _Cut:
    """A graph losing its unneeded channels: `tensors` grows by new constants as ops are cut."""

    def __init__(self, graph: Graph, needed: Mapping[str, Bools], reads_of: Mapping[str, Reads]) -> None:
        self._graph = graph
        self._readers_of = readers(graph)
        self._needed = needed
        self._reads_of = reads_of
        self.tensors = {n: _kept(t, needed[n], -1) if n in needed else t for n, t in graph.tensors.items()}

    def op(self, node: Node) -> Op:
        """The op between what is left of its operands and what is left of its output."""
        if all(self._needed[t.name].all() for t in (*node.row_inputs, node.output)):
            return node.op
        if isinstance(node.op, LINEAR):
            return self._linear(node)
        adapt = _ADAPT.get(type(node.op))
        operand = self._needed[node.inputs[0].name]
        return adapt(node.op, operand, self._needed[node.output.name]) if adapt else node.op

    def _linear(self, node: Node) -> Op:
        """Rows of weights and bias go with outputs; columns of weights with inputs, and into the bias what they add."""
        x, weights, bias = node.inputs
        inputs, outputs = self._needed[x.name], self._needed[node.output.name]
        weights = _kept(weights, outputs, 3 if isinstance(node.op, DepthwiseConv2d) else 0)
        if (read := self._reads_of.get(node.op.name)) is not None and not inputs.all():
            weights = _kept(weights, inputs, -1)  # no depthwise: one over a single group has one input, which stays
            assert bias.data is not None
            total = bias.data.astype(np.int64) + read.folded[:, ~inputs].sum(axis=1)
            bias = replace(bias, data=total.astype(bias.data.dtype))
        bias = _kept(bias, outputs, 0)
        names = (self._constant(node, weights, "weights"), self._constant(node, bias, "bias"))
        op = replace(node.op, inputs=(x.name, *names))
        if isinstance(op, TransposeConv2d):
            return replace(op, output_shape=self.tensors[op.output].type.shape)
        return op

    def _constant(self, node: Node, tensor: Tensor, role: str) -> str:
        """The name under which a new constant of one op is kept: its own, unless others see that too."""
        name = tensor.name
        if only_reader(self._graph, self._readers_of, name) is None:
            name = f"{node.op.name}_{role}"
            while name in self.tensors:
                name += "_"
        self.tensors[name] = replace(tensor, name=name)
        return name


def _kept(tensor: Tensor, channels: Bools, axis: int) -> Tensor:
    """The tensor with these places of one axis alone; a new contiguous array where it is a constant."""
    if channels.all():
        return tensor
    shape, quant = list(tensor.type.shape), tensor.type.quant
    axis %= len(shape)
    shape[axis] = int(channels.sum())
    if quant is not None and quant.axis is not None and quant.axis % len(shape) == axis:
        quant = replace(quant, scales=_of(quant.scales, channels), zero_points=_of(quant.zero_points, channels))
    data = None if tensor.data is None else np.ascontiguousarray(np.compress(channels, tensor.data, axis))
    return Tensor(tensor.name, replace(tensor.type, shape=tuple(shape), quant=quant), data)


def _of(values: tuple[T, ...], channels: Bools) -> tuple[T, ...]:
    """The values of these channels; a single value is that of all."""
    return values if len(values) == 1 else tuple(compress(values, channels))


def _reshape(op: Op, operand: Bools, output: Bools) -> Op:
    old = cast(Reshape, op)
    return replace(old, shape=(*old.shape[:-1], int(output.sum())))


def _pad(op: Op, operand: Bools, output: Bools) -> Op:
    old = cast(Pad, op)
    before = int(output[: old.before[-1]].sum())
    after = int(output[old.before[-1] + len(operand) :].sum())
    return replace(old, before=(*old.before[:-1], before), after=(*old.after[:-1], after))


def _slice(op: Op, operand: Bools, output: Bools) -> Op:
    """The slice begins at the first kept channel at or after its old beginning, in its own direction."""
    old = cast(Slice, op)
    begin = int(operand[: old.begin[-1]].sum())
    if old.step[-1] < 0:
        begin = int(operand[: old.begin[-1] + 1].sum()) - 1
    return replace(old, begin=(*old.begin[:-1], begin), size=(*old.size[:-1], int(output.sum())))


_ADAPT: Mapping[type[Op], Callable[[Op, Bools, Bools], Op]] = {Reshape: _reshape, Pad: _pad, Slice: _slice}
"""By op: what its attributes become, from the kept channels of its operand and its output. Others name no channel."""
