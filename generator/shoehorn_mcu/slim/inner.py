"""Channels between two dense convolutions that nothing else reads, and the graph with fewer of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from typing_extensions import TypeIs

from shoehorn_mcu.ir import Graph, Node, is_a
from shoehorn_mcu.ir.edit import only_reader, readers
from shoehorn_mcu.ops import Conv2d, DepthwiseConv2d
from shoehorn_mcu.ops.pool import Pool2d
from shoehorn_mcu.slim.layers import (
    Weights,
    constants,
    fewer,
    is_convolution,
    is_dense_convolution,
    kernel,
    rewritten,
    weights_of,
)
from shoehorn_mcu.slim.moved import Born, Moved, Part
from shoehorn_mcu.slim.sites import label

_LEAST = 8  # channels of which some are worth leaving out


@dataclass(frozen=True)
class Inner:
    """The channels that `writer` writes and `reader` reads, and the depthwise convolutions between the two."""

    writer: Node[Conv2d]
    depthwise: Sequence[Node[DepthwiseConv2d]]
    reader: Node[Conv2d]

    @property
    def is_reducer(self) -> bool:
        """Whether the writer is a 1x1 convolution that makes channels for a larger one, with nothing between."""
        direct = self.reader.x.name == self.writer.output.name
        return direct and kernel(self.writer) == (1, 1) != kernel(self.reader)

    def fewer(self, graph: Graph, kind: str, factor: float) -> Moved | None:
        """The move that leaves so many times the channels, a multiple of 4 but not below 4; None where none goes.

        The channels stay that the reader listens to most: those with the largest sum of the magnitudes of its weights
        times the norms of the filters that make the channel (Li et al. 2017 rank by magnitude; DeepRebirth, section
        3.2, halves reducers). The reader is fitted to its old sums then, as by He et al. (2017, section 3.1).
        """
        filters = [weights_of(self.writer), *map(weights_of, self.depthwise)]
        behind = weights_of(self.reader)
        before = filters[0].bias.size
        left = fewer(before, factor)
        if before < _LEAST or left >= before:
            return None
        heard = np.abs(behind.kernel).sum(axis=(0, 1, 2)) * np.sqrt((filters[0].kernel ** 2).sum(axis=(1, 2, 3)))
        for each in filters[1:]:
            heard = heard * np.sqrt((each.kernel**2).sum(axis=(0, 1, 2)))
        kept = np.sort(np.argsort(-heard, kind="stable")[:left])
        held = [Weights(filters[0].kernel[kept], filters[0].bias[kept])]
        held += [Weights(each.kernel[..., kept], each.bias[kept]) for each in filters[1:]]
        held.append(Weights(behind.kernel[..., kept], behind.bias))
        layers = (self.writer, *self.depthwise, self.reader)
        added = [replace(each.op, inputs=(each.x.name, *constants(each.op.name))) for each in layers]
        fitted = Part(behind.bias.size, self.reader.output.name, 0, (self.reader.op.name,))
        born = (*(Born(each.op.name, (Part(left),)) for each in layers[:-1]), Born(self.reader.op.name, (fitted,)))
        weights = {each.op.name: made for each, made in zip(layers, held, strict=True)}
        site = f"{label(self.writer)} from {before} to {left} channels"
        return Moved.of(graph, rewritten(graph, (), added, weights), kind, site, born)


def inners(graph: Graph) -> Iterator[Inner]:
    """The inner channels of a graph, in the order of the convolutions that write them.

    Depthwise convolutions with one output per channel and pools may lie between.
    """
    nodes, read_by = {node.op.name: node for node in graph.nodes()}, readers(graph)
    for writer in graph.nodes():
        if not is_dense_convolution(writer):
            continue
        depthwise, tensor = list[Node[DepthwiseConv2d]](), writer.output.name
        while (op := only_reader(graph, read_by, tensor)) is not None:
            node = nodes[op.name]
            if is_dense_convolution(node) and node.x.name == tensor:
                yield Inner(writer, depthwise, node)
                break
            if _is_depthwise(node) and node.x.name == tensor:
                depthwise.append(node)
            elif not isinstance(op, Pool2d):
                break
            tensor = op.output


def _is_depthwise(node: Node) -> TypeIs[Node[DepthwiseConv2d]]:
    """Whether each channel of the result is made of the channel of the operand that has its place."""
    return is_convolution(node) and is_a(node, DepthwiseConv2d) and node.x.type.shape[3] == node.output.type.shape[3]
