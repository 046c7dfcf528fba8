"""Random graphs with blocks to split: linear, per channel, linear, with something before, behind and beside them."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import strategies as st
from nets import Draw, Net

from generator import ops
from generator.ir import Graph, GraphError


def _window(d: Draw, kernel: int) -> dict[str, object]:
    return {
        "padding": d.padding(kernel),
        "stride": (d.pick(1, 1, 2), d.pick(1, 1, 2)),
        "dilation": (d.pick(1, 1, 2), d.pick(1, 1, 2)),
        "quant": d.quant(),
        "clamp": d.clamp(),
    }


def _linear(d: Draw, x: str, outputs: int) -> str:
    """A convolution of one group, or a dense layer, which takes a tensor of any rank."""
    if len(d.net.type(x).shape) < 4 or d.pick(0, 0, 1):
        return d.net.dense(x, outputs)
    kernel = d.pick(1, 1, 2, 3)
    weights = d.net.weights((outputs, kernel, kernel, d.net.channels(x)), 0)
    return d.net.add(ops.Conv2d, x, *weights, **_window(d, kernel))


def _depthwise(d: Draw, x: str) -> str:
    kernel, times = d.pick(1, 2, 3), d.pick(1, 1, 2, 3)
    return d.net.depthwise(x, kernel, times, **_window(d, kernel))


def _pool(d: Draw, x: str) -> str:
    kind, kernel = (ops.MaxPool2d, ops.AveragePool2d)[d.pick(0, 1)], d.pick(1, 2, 3)
    more = {"kernel": (kernel, kernel), "stride": (1, d.pick(1, 2)), "padding": d.padding(kernel)}
    return d.net.add(kind, x, clamp=d.clamp(), **more)


def _mean(d: Draw, x: str) -> str:
    axes = ((1, 2), (1,), (2,))[d.pick(0, 0, 1, 2)]
    return d.net.add(ops.Mean, x, quant=d.quant(), axes=axes, keep_dims=bool(d.pick(0, 1)))


def _unary(d: Draw, x: str) -> str:
    kind = d.data.draw(st.sampled_from((ops.Relu, ops.HardSwish, ops.Requantize)))
    return d.net.add(kind, x, quant=d.quant())


def _view(d: Draw, x: str) -> str:
    n, h, w, c = d.net.type(x).nhwc
    return d.net.add(ops.Reshape, x, shape=((n, 1, h * w, c), (n * h * w, c), (n, w, h, c))[d.pick(0, 1, 2)])


_OF_MAPS = (_depthwise, _depthwise, _pool, _mean, _unary, _view)
_OF_VECTORS = (_unary, _view)


@st.composite
def split_nets(draw: st.DrawFn) -> Graph:
    """At least one block, perhaps two in a row; perhaps ops around them and other readers of what is around."""
    net = Net(draw(st.integers(1, 2)), draw(st.integers(3, 6)), draw(st.integers(3, 6)), draw(st.integers(1, 5)))
    d = Draw(draw(st.data()), net)
    x = "x"
    for _ in range(draw(st.integers(1, 2))):
        with suppress(GraphError):  # a kernel that does not fit into the map
            x = _linear(d, x, draw(st.integers(4, 23)))
            for _ in range(draw(st.integers(1, 3))):
                steps = _OF_MAPS if len(net.type(x).shape) == 4 else _OF_VECTORS
                x = draw(st.sampled_from(steps))(d, x)
            x = _linear(d, x, draw(st.integers(1, 7)))
    beside = net.dense("x", 2)
    return net.graph(net.add(ops.Relu, x, quant=d.quant()), beside)
