"""The pass `fuse-shuffle`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from shoehorn_mcu.ir import Array, Graph, Op
from shoehorn_mcu.ir.edit import only_reader, readers, with_ops
from shoehorn_mcu.ops import PickChannels, Reshape, Slice, Transpose

MOST_ELEMENTS = 1 << 22  # of a tensor whose elements are followed


def fuse_shuffle(graph: Graph) -> Graph:
    """Makes one op of reshapes, transposes and slices in a row that only choose or reorder the channels of each pixel.

    >   a = Reshape(x: 1x8x8x12): 64x3x4; b = Transpose(a): 64x4x3; y = Reshape(b): 1x8x8x12
    <   y = PickChannels(x) picked=(0, 4, 8, 1, 5, 9, ...)                  a shuffle of 3 groups, row by row

    >   b = PickChannels(x) picked=(0, 4, 1, 5, ...); y = Slice(b, channels 0..3); z = Slice(b, channels 4..7)
    <   y = PickChannels(x) picked=(0, 4, 1, 5); z = PickChannels(x) picked=(2, 6, 3, 7)

    The elements are followed through the ops, so it does not matter how a framework writes a channel shuffle
    (ShuffleNet, section 3.1). Nothing else reads a tensor between them.
    """
    readers_of = readers(graph)
    kept = {op.output: op for op in graph.ops}
    for op in graph.ops:
        computed = graph.tensors[op.inputs[0]].data is None
        if op.output in kept and computed and isinstance(op, Reshape | Transpose | Slice):
            chain = _movers(graph, readers_of, op)
            length, picked = _picked(graph, chain)
            if length:
                last = chain[length - 1]
                name, inputs, output = last.name, op.inputs, last.output
                if picked == tuple(range(graph.tensors[inputs[0]].type.shape[-1])):
                    shape = graph.tensors[output].type.shape
                    kept[output] = Reshape(name=name, inputs=inputs, output=output, shape=shape)
                else:
                    kept[output] = PickChannels(name=name, inputs=inputs, output=output, picked=picked)
                for each in chain[: length - 1]:
                    del kept[each.output]
    return _picked_by_parts(with_ops(graph, kept.values()))


def _picked_by_parts(graph: Graph) -> Graph:
    """The graph in which slices of picked channels pick their own, where nothing else reads what was picked."""
    readers_of, kept = readers(graph), {op.output: op for op in graph.ops}
    for op in graph.ops:
        parts = readers_of.get(op.output, ())
        if not isinstance(op, PickChannels) or not parts or op.output in graph.results:
            continue
        places = [_channels(graph, part) for part in parts]
        if any(place is None for place in places):
            continue
        del kept[op.output]
        for part, place in zip(parts, places, strict=True):
            picked = tuple(op.picked[channel] for channel in place or ())
            kept[part.output] = PickChannels(name=part.name, inputs=op.inputs, output=part.output, picked=picked)
    return with_ops(graph, kept.values())


def _channels(graph: Graph, op: Op) -> range | None:
    """The channels of each pixel that a slice takes of all pixels; None where the op is none of that kind."""
    if not isinstance(op, Slice) or op.size[:-1] != graph.tensors[op.inputs[0]].type.shape[:-1] or min(op.step) < 0:
        return None
    return range(op.begin[-1], op.begin[-1] + op.size[-1] * op.step[-1], op.step[-1])


def _movers(graph: Graph, readers_of: Mapping[str, tuple[Op, ...]], first: Op) -> Sequence[Op]:
    """The op and those behind it that only move elements, each the only reader of the one before."""
    found = [first]
    while isinstance(after := only_reader(graph, readers_of, found[-1].output), Reshape | Transpose | Slice):
        found.append(after)
    return found


def _picked(graph: Graph, chain: Sequence[Op]) -> tuple[int, tuple[int, ...]]:
    """How many of the ops, as many as possible, choose channels alike in each pixel, and which; 0 where none do."""
    x = graph.tensors[chain[0].inputs[0]].type
    transposes = [isinstance(op, Transpose) for op in chain]
    found: tuple[int, tuple[int, ...]] = (0, ())
    if not any(transposes) or len(x.shape) > 4 or x.elements > MOST_ELEMENTS:
        return found
    channels = x.shape[-1]
    places: Array = np.arange(x.elements, dtype=np.int32).reshape(x.shape)
    for length, op in enumerate(chain, 1):
        places = op.reference([places], graph.node(op).sig)
        if any(transposes[:length]) and places.shape[:-1] == x.shape[:-1]:
            first = channels * np.arange(x.elements // channels, dtype=np.int64)
            pixels = places.reshape(-1, places.shape[-1]).astype(np.int64) - first[:, None]
            if (pixels == pixels[0]).all() and pixels[0].min() >= 0 and pixels[0].max() < channels:
                found = length, tuple(int(c) for c in pixels[0])
    return found
