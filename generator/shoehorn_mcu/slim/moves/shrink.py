"""A block of convolutions becomes one convolution; its skip connection goes into the middle of the window.

    > y = conv_1x1(depthwise_3x3(conv_1x1(x, 6 times the channels))) + x
    < y = conv_3x3(x)

    > y = relu(conv_3x3(conv_3x3(x)) + x)
    < y = relu(conv_3x3(x))

Not in DeepRebirth: DepthShrinker (Fu et al., ICML 2022) merges the layers of an inverted residual after a training has
taken the activations out; here the merged layer is fitted to what the block computes. Two such layers in a row would
be a single linear map, so a block beside such a layer has a form with an activation, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from shoehorn_mcu.ir import Graph, Node
from shoehorn_mcu.ops import Clamped, Conv2d, DepthwiseConv2d
from shoehorn_mcu.ops.elementwise import Addition
from shoehorn_mcu.slim.layers import (
    RECTIFIED,
    Convolution,
    Reals,
    Weights,
    convolution,
    is_convolution,
    is_rectified,
    is_weightless,
    kernel,
    placed,
    random,
    rewritten,
    seen_through,
)
from shoehorn_mcu.slim.moved import Born, Moved, Part
from shoehorn_mcu.slim.regions import Grid, Region, regions
from shoehorn_mcu.slim.sites import label

_MOST = 3  # convolutions in a row


def shrink(graph: Graph) -> Iterator[Moved | None]:
    """Each block of two convolutions, or of three around a depthwise one, with what is added to it."""
    for entry in dict.fromkeys((*graph.inputs, *(op.output for op in graph.ops))):
        found: dict[int, Region] = {}
        for region in regions(graph, entry, lambda node: is_convolution(node) or is_weightless(node)):
            run = _run(region)
            if len(run) > _MOST:
                break
            if _is_block(region, run) and isinstance(region.nodes[-1].op, Conv2d | DepthwiseConv2d | Addition):
                found[len(run)] = region  # with all that is added behind the last convolution
        for region in found.values():
            for activates in (False, True) if _lies_in_a_row(graph, region) else (False,):
                yield _moved(graph, region, activates)


def _lies_in_a_row(graph: Graph, region: Region) -> bool:
    """Whether the layer before the block, or one behind it, is a convolution of a window without an activation."""
    return any(
        is_convolution(node) and kernel(node) != (1, 1) and not is_rectified(node.op.clamp)
        for node in graph.nodes()
        if node.output.name == region.entry or region.exit in node.op.inputs
    )


def _run(region: Region) -> Sequence[Node[Convolution]]:
    """The convolutions on the longest way through the region; others may be on the way of the skip connection."""
    runs: dict[str, tuple[Node[Convolution], ...]] = {region.entry: ()}
    for node in region.nodes:
        before = max((runs[tensor.name] for tensor in node.inputs if tensor.name in runs), key=len)
        runs[node.output.name] = (*before, node) if is_convolution(node) else before
    return runs[region.exit]


def _is_block(region: Region, run: Sequence[Node[Convolution]]) -> bool:
    """Whether the run has nothing between its convolutions, and is one that is known to be worth merging."""
    reads = [region.entry, *(node.output.name for node in run[:-1])]
    kinds = [type(node.op) for node in run]
    inverted = kinds == [Conv2d, DepthwiseConv2d, Conv2d] and kernel(run[0]) == kernel(run[2]) == (1, 1)
    return [node.x.name for node in run] == reads and (inverted or len(run) == 2)


def _moved(graph: Graph, region: Region, activates: bool) -> Moved | None:
    x, y, run = graph.tensors[region.entry].type, graph.tensors[region.exit].type, _run(region)
    last = region.nodes[-1].op
    clamp = last.clamp if isinstance(last, Clamped) else None
    fits = len(x.shape) == len(y.shape) == 4 and x.shape[0] == y.shape[0]
    if not run or clamp is None or not fits or (activates and is_rectified(clamp)):
        return None
    over = Grid()
    for node in reversed(run):
        over = seen_through(node, over)
    window = max(map(kernel, run))
    padding = placed(x, (y.shape[1], y.shape[2]), window, over.stride, over.first)
    if padding is None:
        return None
    name = run[-1].op.name
    bounds = RECTIFIED if activates else clamp
    layer = convolution(name, region.entry, region.exit, over.stride, padding, bounds)
    skips = any(not is_convolution(node) for node in region.nodes)
    weights = Weights(_first_guess(name, window, x.shape[3], y.shape[3], skips), np.zeros(y.shape[3], np.float32))
    made = rewritten(graph, region.names, [layer], {name: weights})
    part = Part(y.shape[3], region.exit, 0, region.names[-1:] if is_rectified(clamp) else ())
    site = f"{label(region.nodes[0])} to {label(region.nodes[-1])}" + (" with an activation" if activates else "")
    return Moved.of(graph, made, "shrink", site, (Born(name, (part,)),))


def _first_guess(name: str, window: tuple[int, int], inputs: int, outputs: int, skips: bool) -> Reals:
    """Random weights, and the skip connection in the middle of the window."""
    weights = random(name, (outputs, *window, inputs), window[0] * window[1] * inputs)
    if skips:
        same = np.arange(min(inputs, outputs))
        weights[same, window[0] // 2, window[1] // 2, same] += 1
    return weights
