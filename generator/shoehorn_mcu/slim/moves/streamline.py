"""A convolution takes over the work of the layers without weights behind it.

    > a = conv(x, stride 1), b = max_pool(a, stride 2), c = lrn(b)
    < c = conv(x, stride 2)

    > a = concat(conv_1(x), conv_2(x)), b = max_pool(a, stride 2)
    < b = concat(conv_1(x, stride 2), conv_2(x, stride 2))

The new stride is the product of the strides (DeepRebirth, section 3.1, streamline slimming). The kernel stays, or
covers as much of x as the pools did.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from shoehorn_mcu.ir import Graph, Node, Op, is_a
from shoehorn_mcu.ir.edit import only_reader, readers
from shoehorn_mcu.ops import Clamped, Concat, Map
from shoehorn_mcu.ops.clamp import Bounds
from shoehorn_mcu.slim.layers import (
    RECTIFIED,
    Convolution,
    Weights,
    constants,
    grown,
    is_convolution,
    is_rectified,
    is_weightless,
    kernel,
    placed,
    rewritten,
    seen_through,
    weights_of,
)
from shoehorn_mcu.slim.moved import Born, Moved, Part
from shoehorn_mcu.slim.regions import Region, grid, regions
from shoehorn_mcu.slim.sites import label, labels


def streamline(graph: Graph) -> Iterator[Moved | None]:
    """Each convolution, or concatenation of convolutions, with all the layers without weights behind it."""
    for node in graph.nodes():
        heads = [node] if is_convolution(node) else _joined(graph, node) if is_a(node, Concat) else []
        region = _merged(graph, node) if heads else None
        if region is None:
            continue
        for larger in (False, True):
            yield _moved(graph, node, heads, region, larger)


def _joined(graph: Graph, join: Node[Concat]) -> list[Node[Convolution]]:
    """The writers of a concatenation along the channels, if all are convolutions that nothing else reads."""
    written, read_by = {node.output.name: node for node in graph.nodes()}, readers(graph)
    alone = [only_reader(graph, read_by, tensor.name) is join.op for tensor in join.inputs]
    heads = [written[tensor.name] for tensor in join.inputs if tensor.name in written]
    found = [head for head in heads if is_convolution(head)]
    fits = join.op.axis == len(join.output.type.shape) - 1 and all(alone) and len(found) == len(join.inputs)
    return found if fits else []


def _merged(graph: Graph, node: Node) -> Region | None:
    """The longest run of layers without weights behind a node that keeps its channels and shrinks it evenly."""
    before, found = node.output.type.shape, None
    for region in regions(graph, node.output.name, is_weightless):
        after = graph.tensors[region.exit].type.shape
        over = grid(region)
        if len(before) == len(after) == 4 and before[3] == after[3]:
            sizes = [(before[1 + i], after[1 + i], over.stride[i], over.window[i]) for i in (0, 1)]
            if all((size - window) // stride < left <= -(-size // stride) for size, left, stride, window in sizes):
                found = region
    return found


def _moved(graph: Graph, node: Node, heads: Sequence[Node[Convolution]], region: Region, larger: bool) -> Moved | None:
    """The graph in which the heads compute the region's result; with `larger` kernels, None where that is the same."""
    over, after = grid(region), graph.tensors[region.exit].type
    if larger and over.window == (1, 1):
        return None
    joins = isinstance(node.op, Concat)
    added: list[Op] = [replace(node.op, output=region.exit)] if joins else []
    weights, born, first = {}, [], 0
    for head in heads:
        op, channels, behind = head.op, head.output.type.shape[3], seen_through(head, over)
        window = behind.window if larger else kernel(head)
        padding = placed(head.x.type, (after.shape[1], after.shape[2]), window, behind.stride, behind.first)
        if padding is None:
            return None
        layer = replace(op, inputs=(head.x.name, *constants(op.name)), stride=behind.stride, padding=padding)
        added.append(replace(layer, output=op.output if joins else region.exit, clamp=_bounds(head, region)))
        old = weights_of(head)
        weights[op.name] = Weights(grown(old.kernel, window), old.bias)
        free = (op.name, *([node.op.name] if joins else []), *region.names)
        born.append(Born(op.name, (Part(channels, region.exit, first, free),)))
        first += channels if joins else 0
    replaced = (*([node.op.name] if joins else []), *(head.op.name for head in heads))
    made = rewritten(graph, (*region.names, *replaced), added, weights)
    size = f" by {window[0]}x{window[1]}" if larger else ""
    site = " + ".join([label(node), *labels(region.nodes)]) + size
    return Moved.of(graph, made, "streamline", site, tuple(born))


def _bounds(head: Node[Convolution], region: Region) -> Bounds:
    """Those of the first activation of the head and the layers behind it."""
    clamps = [node.op.clamp for node in (head, *region.nodes) if isinstance(node.op, Clamped)]
    activations = [clamp for clamp in clamps if is_rectified(clamp)]
    activates = any(isinstance(node.op, Map) for node in region.nodes)
    return activations[0] if activations else RECTIFIED if activates else head.op.clamp
