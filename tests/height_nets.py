"""Random small networks whose rows are moved: joined, cut, split and padded along the height, between other ops.

`height_net(seed)` is the same network each time. After the passes most ops in it read rows of several tensors as one.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np
from growers import GROWERS
from growth import Growth
from samples import bias, int8, linear_output, quant, weights

from shoehorn_mcu import ops
from shoehorn_mcu.ir import Graph, GraphError, verify

HEIGHT = 1  # the axis
MOST_OPS = 8


def height_net(seed: int) -> Graph:
    """The network of that seed: one or two inputs of equal width and channels, one output."""
    g = Growth(np.random.default_rng(seed))
    width, channels = g.pick(1, 2, 4, 5), g.pick(1, 2, 4, 6)
    kind = quant(g.rng, 0.01)
    for _ in range(g.pick(1, 1, 2)):
        g.input(int8((1, g.pick(2, 4, 6, 8), width, channels), kind))
    x = g.inputs[0]
    if g.chance(0.7):
        with suppress(GraphError):  # the parts have other channels
            x = _pixel_by_pixel(g, _join(g, x))
    most = g.pick(*range(2, MOST_OPS + 1))
    while len(g.ops) < most:
        with suppress(GraphError):  # it does not fit onto x
            x = _LAYERS[g.pick(*range(len(_LAYERS)))](g, x if g.chance(0.75) else g.live[g.pick(*range(len(g.live)))])
    written = {op.output for op in g.ops}
    ends = [n for n in g.live if n in written and g.type(n).shape[2:] == g.type(x).shape[2:] and n != x]
    if ends and g.chance(0.4):
        with suppress(GraphError):  # it is too large
            x = g.add(ops.Concat, g.like(ends[-1], g.type(x).quant), x, axis=HEIGHT)
    return verify(Graph(f"height_{seed}", g.tensors, tuple(g.ops), tuple(g.inputs), (x,)))


def _join(g: Growth, x: str) -> str:
    """x and one or two others, or a copy of it, below each other."""
    mates = [n for n in g.live if g.type(n).shape[2:] == g.type(x).shape[2:]]
    others = [g.like(mates[g.pick(*range(len(mates)))], g.type(x).quant) for _ in range(g.pick(1, 1, 2))]
    parts = [x, *others] if g.chance(0.5) else [*others, x]
    if g.chance(0.4):
        parts = [g.like(_pixel_by_pixel(g, part), g.type(x).quant) for part in parts]
    return g.add(ops.Concat, *parts, axis=HEIGHT)


def _cut(g: Growth, x: str) -> str:
    """Some rows of x, and sometimes not all of its pixels."""
    shape = g.type(x).shape
    first, step = g.pick(0, 0, 1, 2), g.pick(1, 1, 1, 2)
    begin, size = [0, first, 0, 0], [*shape]
    size[HEIGHT] = -(-(shape[HEIGHT] - first) // step) - g.pick(0, 0, 1)
    if shape[2] > 2 and g.chance(0.3):
        begin[2], size[2] = 1, shape[2] - 1
    if min(size) < 1:
        raise GraphError("no row is left")
    return g.add(ops.Slice, x, begin=tuple(begin), size=tuple(size), step=(1, step, 1, 1))


def _split(g: Growth, x: str) -> str:
    """x in two parts, one of which is changed, below each other again."""
    shape = g.type(x).shape
    if shape[HEIGHT] < 2:
        raise GraphError("one row has no parts")
    at = g.pick(*range(1, shape[HEIGHT]))
    parts = []
    for first, end in ((0, at), (at, shape[HEIGHT])):
        size = (shape[0], end - first, *shape[2:])
        parts.append(g.add(ops.Slice, x, begin=(0, first, 0, 0), size=size, step=(1, 1, 1, 1)))
    parts[0] = g.like(_pixel_by_pixel(g, parts[0]), g.type(x).quant)
    if g.type(parts[0]).shape[2:] != shape[2:]:
        raise GraphError("the parts have other channels")
    return g.add(ops.Concat, *(parts if g.chance(0.5) else parts[::-1]), axis=HEIGHT)


def _pad(g: Growth, x: str) -> str:
    before, after = (0, g.pick(0, 1, 2), 0, 0), (0, g.pick(1, 2), 0, 0)
    return g.add(ops.Pad, x, before=before, after=after, value=g.type(x).quantised.zero_point)


def _pixel_by_pixel(g: Growth, x: str) -> str:
    """An op whose calls may compute several rows."""
    kind = g.pick(0, 1, 2, 3, 4)
    if kind == 0:
        return _pointwise(g, x, g.pick(g.type(x).shape[3], 3))
    if kind == 1:
        mates = [n for n in g.live if g.type(n).shape == g.type(x).shape]
        return g.add(ops.Add, x, mates[g.pick(*range(len(mates)))], fit=g.type(x).quantised)
    if kind == 2:
        row = g.add(ops.Slice, x, begin=(0, g.type(x).shape[HEIGHT] - 1, 0, 0), size=_pixel(g, x), step=(1, 1, 1, 1))
        return g.add(ops.Mul, x, row, fit=g.type(x).quantised)
    return GROWERS[(ops.Relu, ops.Tanh)[kind - 3]](g, x)


def _pixel(g: Growth, x: str) -> tuple[int, ...]:
    """The shape of one pixel of x."""
    return (1, 1, 1, g.type(x).shape[3])


def _pointwise(g: Growth, x: str, outputs: int) -> str:
    kernel = weights(g.rng, (outputs, 1, 1, g.type(x).shape[3]), 0)
    added = bias(g.rng, outputs, g.type(x).quantised, kernel[0].quantised)
    fit = linear_output(g.rng, g.type(x).quantised, kernel[0].quantised, g.type(x).shape[3])
    return g.add(ops.Conv2d, x, g.constant(*kernel), g.constant(*added), fit=fit)


def _window(g: Growth, x: str) -> str:
    return g.add(ops.MaxPool2d, x, kernel=(2, 1), stride=(1, 1), padding=ops.Padding(g.pick(0, 1), 0, 0, 0))


def _beside(g: Growth, x: str) -> str:
    """Two results of x, channel beside channel."""
    first = _pointwise(g, x, g.pick(1, 2, 4))
    second = g.like(_pixel_by_pixel(g, x), g.type(first).quant)
    return g.add(ops.Concat, first, second, axis=3)


_LAYERS = (_join, _join, _cut, _split, _pad, _pixel_by_pixel, _pixel_by_pixel, _window, _beside)
