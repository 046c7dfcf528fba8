"""A convolution becomes three: fewer channels, the window on these, and all channels again.

    > y = conv_3x3(x, 64 -> 64 channels)
    < y = conv_1x1(conv_3x3(conv_1x1(x, 64 -> 32), 32 -> 32), 32 -> 64)

A Tucker-2 decomposition of the weights by two singular value decompositions (Kim et al., ICLR 2016, section 3.1), which
DeepRebirth adds in its last step as Slim-Tucker.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from shoehorn_mcu.ir import Graph, Node, Tensor
from shoehorn_mcu.ops import Conv2d, Padding, RealClamp
from shoehorn_mcu.slim.layers import (
    Reals,
    Weights,
    constants,
    convolution,
    fewer,
    is_dense_convolution,
    kernel,
    rewritten,
    weights_of,
)
from shoehorn_mcu.slim.moved import Born, Moved, Part
from shoehorn_mcu.slim.sites import label

_LEAST = 16  # channels on either side of a convolution that is worth decomposing


def tucker(graph: Graph, factor: float = 0.5) -> Iterator[Moved | None]:
    """Each convolution with a window and enough channels, with both ranks `factor` times the channels."""
    for node in graph.nodes():
        if is_dense_convolution(node) and kernel(node) != (1, 1):
            outputs, _, _, inputs = node.weights.type.shape
            if min(outputs, inputs) >= _LEAST:
                yield _moved(graph, node, fewer(inputs, factor), fewer(outputs, factor))


def _moved(graph: Graph, node: Node[Conv2d], inner: int, outer: int) -> Moved | None:
    op, held = node.op, weights_of(node)
    outputs, _, _, inputs = held.kernel.shape
    into = _leading(np.moveaxis(held.kernel, 3, 0).reshape(inputs, -1), inner)  # [inputs, inner]
    out = _leading(held.kernel.reshape(outputs, -1), outer)  # [outputs, outer]
    core = np.einsum("ohwi,ij,op->phwj", held.kernel, into, out, optimize=True).astype(np.float32)
    before, behind = f"{op.name}/tucker/in", f"{op.name}/tucker/out"
    narrow, wide_name = f"{node.output.name}/tucker/in", f"{node.output.name}/tucker/middle"
    made = [
        convolution(before, node.x.name, narrow, (1, 1), Padding(), RealClamp()),
        replace(op, inputs=(narrow, *constants(op.name)), output=wide_name, clamp=RealClamp()),
        convolution(behind, wide_name, node.output.name, (1, 1), Padding(), op.clamp),
    ]
    weights = {
        before: Weights(into.T.reshape(inner, 1, 1, inputs), np.zeros(inner, np.float32)),
        op.name: Weights(core, np.zeros(outer, np.float32)),
        behind: Weights(out.reshape(outputs, 1, 1, outer), held.bias),
    }
    n, h, w, _ = node.output.type.shape
    kind = node.output.type
    inner_types = {
        narrow: replace(kind, shape=(n, *node.x.type.shape[1:3], inner)),
        wide_name: replace(kind, shape=(n, h, w, outer)),
    }
    tensors = {**graph.tensors, **{name: Tensor(name, each) for name, each in inner_types.items()}}
    place = graph.ops.index(op)
    there = replace(graph, tensors=tensors, ops=(*graph.ops[:place], *made[:-1], *graph.ops[place:]))
    born = tuple(Born(each.name, (Part(weights[each.name].bias.size),)) for each in made)
    site = f"{label(node)} to ranks {inner} and {outer}"
    graph_made = rewritten(there, (), made, weights)
    return Moved.of(graph, graph_made, "tucker", site, born)


def _leading(unfolded: Reals, rank: int) -> Reals:
    """The left singular vectors of the largest singular values."""
    return np.linalg.svd(unfolded, full_matrices=False)[0][:, :rank].astype(np.float32)
