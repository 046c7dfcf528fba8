"""A 1x1 convolution in front of a larger one gives fewer channels.

    > y = conv_3x3(conv_1x1(x, 32 channels))
    < y = conv_3x3(conv_1x1(x, 16 channels))

The channels that the larger convolution listens to most stay: those with the largest sum of its weights' magnitudes
times the norm of their own weights (DeepRebirth, section 3.2, halves reducers; Li et al. 2017 rank by magnitude).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from shoehorn_mcu.ir import Graph, Node
from shoehorn_mcu.ir.edit import only_reader, readers
from shoehorn_mcu.ops import Conv2d
from shoehorn_mcu.slim.layers import Weights, constants, fewer, is_dense_convolution, kernel, rewritten, weights_of
from shoehorn_mcu.slim.moved import Born, Moved, Part
from shoehorn_mcu.slim.sites import label

_LEAST = 8  # channels of a reducer that is worth reducing


def reduce(graph: Graph, factor: float = 0.5) -> Iterator[Moved | None]:
    """Each reducer, with its channels times `factor`, rounded down to a multiple of 4 but not below 4."""
    written, read_by = {node.output.name: node for node in graph.nodes()}, readers(graph)
    for larger in graph.nodes():
        if not is_dense_convolution(larger) or kernel(larger) == (1, 1):
            continue
        node = written.get(larger.x.name)
        if node is None or not is_dense_convolution(node) or kernel(node) != (1, 1):
            continue
        channels = node.output.type.shape[3]
        left = fewer(channels, factor)
        if channels >= _LEAST and left < channels and only_reader(graph, read_by, node.output.name) is larger.op:
            yield _moved(graph, node, larger, left)


def _moved(graph: Graph, node: Node[Conv2d], larger: Node[Conv2d], channels: int) -> Moved | None:
    before, behind = weights_of(node), weights_of(larger)
    heard = np.abs(behind.kernel).sum(axis=(0, 1, 2)) * np.sqrt((before.kernel**2).sum(axis=(1, 2, 3)))
    kept = np.sort(np.argsort(-heard, kind="stable")[:channels])
    weights = {
        node.op.name: Weights(before.kernel[kept], before.bias[kept]),
        larger.op.name: Weights(behind.kernel[..., kept], behind.bias),
    }
    added = [replace(each.op, inputs=(each.x.name, *constants(each.op.name))) for each in (node, larger)]
    part = Part(behind.bias.size, larger.output.name, 0, (larger.op.name,))
    born = (Born(node.op.name, (Part(channels),)), Born(larger.op.name, (part,)))
    site = f"{label(node)} from {before.bias.size} to {channels} channels"
    made = rewritten(graph, (), added, weights)
    return Moved.of(graph, made, "reduce", site, born)
