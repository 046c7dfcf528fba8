"""The pass `fold-constant-channels`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from shoehorn_mcu.ir import Bools, Graph, Node, Op, Tensor
from shoehorn_mcu.ir.edit import free_name, only_reader, readers, taken, with_ops
from shoehorn_mcu.ops import LinearOp
from shoehorn_mcu.passes.channel_needs import Reads, needs, reads
from shoehorn_mcu.passes.channel_ranges import ranges


def fold_constant_channels(graph: Graph) -> Graph:
    """Drops channels that have the same value for any input, and channels that no output depends on.

    >   a = Conv2d(x, w: 8x1x1x4, b); y = Dense(a, v: 3x8, c)      w[5] is zero, so a[..., 5] is always s
    <   a = Conv2d(x, w: 7x1x1x4, b); y = Dense(a, v: 3x7, c + (s - a_zero) * v[:, 5])

    Exact: a channel is dropped only if it adds the same constant to every sum, also under padding. Channels of the
    graph's inputs, outputs and states stay. The constants move from the sums into the biases, which adds no overflow.
    """
    while (less := _once(graph)) is not graph:
        graph = less
    return graph


def _once(graph: Graph) -> Graph:
    """The graph itself if nothing is dropped. A second run may drop more: only one of two groups may be left."""
    found = ranges(graph)
    of_op = ((node.op.name, reads(node, found[node.x.name])) for node in graph.nodes() if node.inputs)
    reads_of = {name: read for name, read in of_op if read is not None}
    needed = needs(graph, reads_of)
    if all(channels.all() for channels in needed.values()):
        return graph
    cut = _Cut(graph, needed, reads_of)
    ops = [cut.op(node) for node in graph.nodes()]
    return with_ops(replace(graph, tensors=cut.tensors), ops)


class _Cut:
    """Removes the unneeded channels of a graph; `tensors` receives the new constants of the ops that are cut."""

    def __init__(self, graph: Graph, needed: Mapping[str, Bools], reads_of: Mapping[str, Reads]) -> None:
        self._graph = graph
        self._readers_of = readers(graph)
        self._needed = needed
        self._reads_of = reads_of
        self.tensors = {n: _kept(t, needed[n], -1) if n in needed else t for n, t in graph.tensors.items()}

    def op(self, node: Node) -> Op:
        """The op reduced to the kept channels of its operands and of its output."""
        if all(self._needed[t.name].all() for t in (*node.row_inputs, node.output)):
            return node.op
        said = node.op.channels(node)
        assert said is not None, node.op.name  # otherwise all its channels are kept
        op = said.cut([self._needed[t.name] for t in node.row_inputs], self._needed[node.output.name])
        return replace(op, inputs=self._constants(node, node.op)) if isinstance(node.op, LinearOp) else op

    def _constants(self, node: Node, op: LinearOp) -> tuple[str, ...]:
        """Drops the weights and biases of dropped outputs; the constants of dropped inputs move to the bias."""
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
        """The name of an op's new constant: the old name, unless other ops read the old constant too."""
        name = tensor.name
        if only_reader(self._graph, self._readers_of, name) is None:
            name = free_name(self.tensors, f"{node.op.name}_{role}")
        self.tensors[name] = replace(tensor, name=name)
        return name


def _kept(tensor: Tensor, channels: Bools, axis: int) -> Tensor:
    """The tensor reduced to these indices of one axis."""
    return tensor if channels.all() else taken(tensor, np.flatnonzero(channels).tolist(), axis)
