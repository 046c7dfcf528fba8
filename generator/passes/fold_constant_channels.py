"""The pass `fold-constant-channels`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import compress
from typing import TypeVar

import numpy as np

from shoehorn_mcu.ir import Bools, Graph, Node, Op, Tensor
from shoehorn_mcu.ir.edit import only_reader, readers, with_ops
from shoehorn_mcu.ops import LinearOp
from shoehorn_mcu.passes.channel_needs import Reads, needs, reads
from shoehorn_mcu.passes.channel_ranges import ranges

T = TypeVar("T")


def fold_constant_channels(graph: Graph) -> Graph:
    """Drops channels that hold one value whatever the input, and channels that nothing is made from.

    >   a = Conv2d(x, w: 8x1x1x4, b); y = Dense(a, v: 3x8, c)      w[5] is zero, so a[..., 5] is always s
    <   a = Conv2d(x, w: 7x1x1x4, b); y = Dense(a, v: 3x7, c + (s - a_zero) * v[:, 5])

    Exact: what the channel added to the sum is the same everywhere, also under padding, or it stays. Channels of the
    graph's inputs, outputs and states stay. The biases hold what the sums held, so what cannot overflow still cannot.
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
        said = node.op.channels(node)
        assert said is not None, node.op.name  # else all its channels are kept together
        op = said.cut([self._needed[t.name] for t in node.row_inputs], self._needed[node.output.name])
        return replace(op, inputs=self._constants(node, node.op)) if isinstance(node.op, LinearOp) else op

    def _constants(self, node: Node, op: LinearOp) -> tuple[str, ...]:
        """Rows of weights and bias go with outputs; columns of weights with inputs, and into the bias what they add."""
        x, weights, bias = node.inputs
        inputs, outputs = self._needed[x.name], self._needed[node.output.name]
        weights = _kept(weights, outputs, op.channel_axis)
        if (read := self._reads_of.get(node.op.name)) is not None and not inputs.all():
            weights = _kept(weights, inputs, -1)  # no depthwise: one over a single group has one input, which stays
            assert bias.data is not None
            total = bias.data.astype(np.int64) + read.folded[:, ~inputs].sum(axis=1)
            bias = replace(bias, data=total.astype(bias.data.dtype))
        bias = _kept(bias, outputs, 0)
        return x.name, self._constant(node, weights, "weights"), self._constant(node, bias, "bias")

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
