"""Random graphs: chains, residuals, branches, dead ends, several inputs and outputs; and how to make one smaller.

`random_graph(seed)` is the same graph each time. After a failure, `python tests/random_seed.py SEED` says the graph,
builds it alone, and looks for the smallest part of it that still fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

import numpy as np
from growers import GROWERS, to_uint8
from growth import Growth
from samples import SOFTMAX_QUANT, bias, dims, int8, linear_output, quant, weights

from shoehorn_mcu import ops
from shoehorn_mcu.ir import DType, Graph, GraphError, TensorType, verify
from shoehorn_mcu.passes.drop_dead import drop_dead

MOST_OPS = 14

# The layers of convolutional nets stand there as often as they do in nets, everything else once.
_LAYERS = (ops.Conv2d, ops.DepthwiseConv2d, ops.Conv2d, ops.Add)
_MIX = (*dict.fromkeys(GROWERS.values()), *(GROWERS[kind] for kind in _LAYERS))


def random_graph(seed: int) -> Graph:
    """The graph of that seed; it has one op at least, and each output is written by one or is an input."""
    g = Growth(np.random.default_rng(seed))
    for _ in range(g.pick(1, 1, 1, 2)):
        g.input(_input_type(g))
    ready = list(g.live)
    most = g.pick(*range(2, MOST_OPS + 1))
    while len(g.ops) < most:
        x = ready[-1] if g.chance(0.8) else ready[g.pick(*range(len(ready)))]
        block = _BLOCKS[g.pick(*range(len(_BLOCKS)))] if g.chance(0.15) else _MIX[g.pick(*range(len(_MIX)))]
        with suppress(GraphError):  # it does not fit onto x
            y = block(g, x)
            if g.chance(0.95):  # else a dead end
                ready.append(y)
    return _finished(g, ready, seed)


def _input_type(g: Growth) -> TensorType:
    shape = dims(g.rng, g.pick(1, 2, 3, 4, 4, 4, 4, 4, 4), 12)
    if len(shape) == 4:
        shape = (1 if g.chance(0.85) else 2, *shape[1:3], g.pick(1, 2, 3, 4, 5))
    dtype = (DType.INT8, DType.UINT8, DType.FLOAT32)[g.pick(0, 0, 0, 0, 1, 2)]
    return TensorType(shape, dtype, None if dtype is DType.FLOAT32 else quant(g.rng, 0.01, dtype=dtype))


def _bottleneck(g: Growth, x: str) -> str:
    """Expand, per channel, project, and back onto x where the shapes agree."""
    x = g.as_int8(x)
    y = GROWERS[ops.Conv2d](g, GROWERS[ops.DepthwiseConv2d](g, GROWERS[ops.Conv2d](g, x)))
    return g.add(ops.Add, x, y, fit=g.type(x).quantised) if g.type(x).shape == g.type(y).shape else y


def _branches(g: Growth, x: str) -> str:
    """Two or three different ways from x, joined again where they may be."""
    x = g.as_image(g.as_int8(x))
    kinds = (ops.Relu, ops.LeakyRelu, ops.HardSwish, ops.Tanh, ops.ResizeNearest, ops.Conv2d, ops.MaxPool2d)
    ways = [GROWERS[kinds[g.pick(*range(len(kinds)))]](g, x) for _ in range(g.pick(2, 3))]
    common = g.type(ways[0])
    alike = [y for y in ways if g.type(y).shape[:3] == common.shape[:3]]
    return g.add(ops.Concat, *(g.like(y, common.quant) for y in alike), to=common, axis=3)


def _gate(g: Growth, x: str) -> str:
    """x times what a mean over it says, channel by channel (squeeze and excite)."""
    x = g.as_image(g.as_int8(x))
    mean = g.add(ops.Mean, x, fit=g.type(x).quantised, axes=(1, 2), keep_dims=True)
    gate = g.add(ops.Logistic, mean, to=int8((), SOFTMAX_QUANT))
    return g.add(ops.Mul, x, gate, fit=g.type(x).quantised)


def _across(g: Growth, x: str) -> str:
    """A pool or another op over a row as one channel, as of local response normalisation: views that keep the rows."""
    x = g.as_image(g.as_int8(x))
    n, h, w, c = g.type(x).shape
    flat = g.add(ops.Reshape, x, shape=(n, h, w * c, 1))
    kinds = (ops.AveragePool2d, ops.MaxPool2d, ops.Conv2d, ops.Relu)
    n, h, w, c = g.type(y := GROWERS[kinds[g.pick(*range(len(kinds)))]](g, flat)).shape
    return g.add(ops.Reshape, y, shape=(n, h, 1, w * c))


def _fire(g: Growth, x: str) -> str:
    """Convolutions of one quantisation, or what is computed of them element by element or in windows, and perhaps other
    tensors, joined along channels (SqueezeNet, DARTS) or columns.
    """
    x = g.as_image(g.as_int8(x))
    axis, channels = g.pick(2, 3, 3), g.type(x).shape[3]
    outputs, ways, to = g.pick(1, 2, 4, 5), list[str](), None
    for _ in range(g.pick(1, 2, 2, 3)):
        size = g.pick(1, 1, 3)
        kernel = weights(g.rng, (outputs if axis == 2 else g.pick(1, 2, 4, 5), size, size, channels), 0)
        added = bias(g.rng, kernel[0].shape[0], g.type(x).quantised, kernel[0].quantised)
        side = ops.Padding(*(4 * (size // 2,)))
        taps = int(np.prod(kernel[0].shape[1:]))
        fit = linear_output(g.rng, g.type(x).quantised, kernel[0].quantised, taps) if to is None else None
        ways.append(g.add(ops.Conv2d, x, g.constant(*kernel), g.constant(*added), to=to, fit=fit, padding=side))
        to = int8((), g.type(ways[0]).quantised)
        if g.chance(0.5):
            kind = (ops.Add, ops.Mul, ops.Maximum, ops.Relu, ops.MaxPool2d, ops.AveragePool2d)[g.pick(*range(6))]
            pool = {"kernel": (2, 3), "stride": (1, 1), "padding": ops.Padding(0, 1, 1, 1)}
            operands = (ways[-1], ways[0]) if g.type(ways[0]).shape == g.type(ways[-1]).shape else (ways[-1],) * 2
            binary, pools = issubclass(kind, ops.Binary), issubclass(kind, ops.Pool2d)
            ways[-1] = g.add(kind, *operands[: 1 + binary], to=to, **(pool if pools else {}))
    if (channels == outputs or axis == 3) and g.chance(0.4):
        ways.insert(g.pick(*range(len(ways) + 1)), g.like(x, g.type(ways[0]).quant))
    return g.add(ops.Concat, *ways, to=to, axis=axis)


_BLOCKS = (_bottleneck, _branches, _gate, _across, _fire)


def _finished(g: Growth, ready: list[str], seed: int) -> Graph:
    """The graph with its outputs: the last tensor, often others, each perhaps as uint8 or float32; dead ends stay."""
    written = [op.output for op in g.ops]
    ends = [written[-1] if g.chance(0.1) else next(n for n in reversed(ready) if n in written or n in g.inputs)]
    while g.chance(0.35):
        ends.append(g.live[g.pick(*range(len(g.live)))])
    outputs = []
    for x in dict.fromkeys(ends):
        end = x
        if g.type(x).dtype is DType.INT8 and g.chance(0.15):
            with suppress(GraphError):  # it is too large with elements of four bytes
                end = to_uint8(g, x) if g.chance(0.5) else g.add(ops.Dequantize, x, to=TensorType((), DType.FLOAT32))
        outputs.append(end)
    return verify(Graph(f"seed_{seed}", g.tensors, tuple(g.ops), tuple(g.inputs), tuple(outputs)))


def _cuts(graph: Graph) -> Iterator[Graph]:
    """The graph with one output less, with one that is an earlier tensor, or with an inner tensor as an input."""
    for name in graph.outputs if len(graph.outputs) > 1 else ():
        yield replace(graph, outputs=tuple(n for n in graph.outputs if n != name))
    for op in graph.ops:
        yield replace(graph, outputs=(op.output,))
    for op in reversed(graph.ops):
        yield replace(graph, ops=tuple(o for o in graph.ops if o is not op), inputs=(*graph.inputs, op.output))


def _used(graph: Graph) -> Graph:
    """Without the ops and inputs that no output needs."""
    graph = drop_dead(graph)
    named = {*graph.outputs, *(n for op in graph.ops for n in op.inputs)}
    return replace(graph, inputs=tuple(n for n in graph.inputs if n in named))


def shrunk(graph: Graph, fails: Callable[[Graph], bool]) -> Graph:
    """A graph of few ops that still fails, cut from `graph`, which does."""
    for smaller in map(_used, _cuts(graph)):
        size = len(smaller.ops), len(smaller.outputs)
        if smaller.ops and size < (len(graph.ops), len(graph.outputs)) and fails(smaller):
            return shrunk(smaller, fails)
    return graph
