"""Random graphs with blocks to split: linear, per channel, linear, one or two in a row and with an op beside them."""

from __future__ import annotations

from contextlib import suppress
from math import prod, sqrt

import numpy as np
from hypothesis import strategies as st
from nets import Draw, Net

from shoehorn_mcu import ops
from shoehorn_mcu.ir import Graph, GraphError, Op, Quant

CLAMPS = st.sampled_from((ops.Clamp(), ops.Clamp(), ops.Clamp(-60, 90), ops.Clamp(0, 127)))


def _quant(d: Draw, scale: float) -> Quant:
    return Quant((float(np.float32(scale)),), (d.pick(-128, -40, -5, 0, 20, 127),))


def _weighted(d: Draw, kind: type[Op], x: str, shape: tuple[int, ...], axis: int, **attributes: object) -> str:
    """A linear op whose results use the range of int8: some tens of steps each way."""
    weights, _ = d.net.weights(shape, axis)
    taps = prod(shape) // shape[axis]
    steps = d.net.type(x).quantised.scale * float(np.mean(d.net.type(weights).quantised.scales)) * 73 * sqrt(taps)
    data = d.net.rng.integers(-3000, 3000, shape[axis], np.int32)
    bias = d.net.constant(data)
    quant = _quant(d, steps * (0.3, 1.0)[d.pick(0, 1)])
    return d.net.add(kind, x, weights, bias, quant=quant, clamp=d.data.draw(CLAMPS), **attributes)


def _window(d: Draw, kernel: int) -> dict[str, object]:
    return {
        "padding": d.padding(kernel),
        "stride": (d.pick(1, 1, 2), d.pick(1, 1, 2)),
        "dilation": (d.pick(1, 1, 2), d.pick(1, 1, 2)),
    }


def _linear(d: Draw, x: str, outputs: int) -> str:
    """A convolution of one group, or a dense layer, which takes a tensor of any rank."""
    shape = d.net.type(x).shape
    if len(shape) < 4 or d.pick(0, 0, 0, 1):
        return _weighted(d, ops.Dense, x, (outputs, shape[-1]), 0)
    kernel = d.pick(1, 2, 3)
    return _weighted(d, ops.Conv2d, x, (outputs, kernel, kernel, shape[-1]), 0, **_window(d, kernel))


def _depthwise(d: Draw, x: str) -> str:
    kernel, times = d.pick(1, 2, 3), d.pick(1, 1, 2, 3)
    return _weighted(d, ops.DepthwiseConv2d, x, (1, kernel, kernel, d.net.channels(x) * times), 3, **_window(d, kernel))


def _pool(d: Draw, x: str) -> str:
    kind, kernel = (ops.MaxPool2d, ops.AveragePool2d)[d.pick(0, 1)], d.pick(1, 2, 3)
    more = {"kernel": (kernel, kernel), "stride": (1, d.pick(1, 2)), "padding": d.padding(kernel)}
    return d.net.add(kind, x, clamp=d.data.draw(CLAMPS), **more)


def _mean(d: Draw, x: str) -> str:
    axes = ((1, 2), (1,), (2,))[d.pick(0, 0, 1, 2)]
    quant = _quant(d, d.net.type(x).quantised.scale / 2)
    return d.net.add(ops.Mean, x, quant=quant, axes=axes, keep_dims=bool(d.pick(0, 1)))


def _unary(d: Draw, x: str) -> str:
    kind, scale = d.data.draw(st.sampled_from((ops.Relu, ops.HardSwish, ops.Requantize))), d.net.type(x).quantised.scale
    return d.net.add(kind, x, quant=_quant(d, scale * (0.7, 1.4)[d.pick(0, 1)]))


def _view(d: Draw, x: str) -> str:
    n, h, w, c = d.net.type(x).nhwc
    return d.net.add(ops.Reshape, x, shape=((n, 1, h * w, c), (n * h * w, c), (n, w, h, c))[d.pick(0, 1, 2)])


_OF_MAPS = (_depthwise, _depthwise, _pool, _mean, _unary, _view)
_OF_VECTORS = (_unary, _view)


@st.composite
def split_nets(draw: st.DrawFn) -> Graph:
    """Without a block only where no kernel fitted into its map."""
    net = Net(draw(st.integers(1, 2)), draw(st.integers(3, 7)), draw(st.integers(3, 7)), draw(st.integers(1, 5)))
    net.rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    d = Draw(draw(st.data()), net)
    x = "x"
    for _ in range(draw(st.integers(1, 2))):
        with suppress(GraphError):
            x = _linear(d, x, draw(st.integers(4, 23)))
            for _ in range(draw(st.integers(1, 3))):
                steps = _OF_MAPS if len(net.type(x).shape) == 4 else _OF_VECTORS
                x = draw(st.sampled_from(steps))(d, x)
            x = _linear(d, x, draw(st.integers(1, 7)))
    beside = net.dense("x", 2)
    return net.graph(net.add(ops.Requantize, x, quant=_quant(d, net.type(x).quantised.scale)), beside)
