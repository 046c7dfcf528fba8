"""Graphs for the passes that reason about single channels: in few words, or at random."""

from __future__ import annotations

from contextlib import suppress
from math import prod

import numpy as np
from hypothesis import strategies as st

from shoehorn_mcu import ops
from shoehorn_mcu.ir import Array, DType, Graph, GraphError, Op, Quant, Tensor, TensorType, verify
from shoehorn_mcu.passes.drop_dead import drop_dead

FIXED = {
    ops.Softmax: Quant((1 / 256,), (-128,)),
    ops.Logistic: Quant((1 / 256,), (-128,)),
    ops.Tanh: Quant((1 / 128,), (0,)),
}


class Net:
    """Graphs in few words: every method adds an op on top of a tensor and gives the name of its output."""

    def __init__(self, *shape: int, zero: int = -5, seed: int = 3) -> None:
        self.tensors = {"x": Tensor("x", TensorType(shape or (1, 5, 5, 4), DType.INT8, Quant((0.0625,), (zero,))))}
        self.ops: list[Op] = []
        self.rng = np.random.default_rng(seed)
        self.bias = 2**9  # largest, per weight; no channel is constant by this alone

    def type(self, name: str) -> TensorType:
        return self.tensors[name].type

    def channels(self, name: str) -> int:
        return self.type(name).nhwc[3]

    def add(self, kind: type[Op], *inputs: str, quant: Quant | None = None, **attributes: object) -> str:
        """The output has `quant`, or else the one that the op asks for, or that of the first input."""
        quant = quant or FIXED.get(kind)
        name = f"t{len(self.ops)}"
        op = kind(name=f"op{len(self.ops)}", inputs=inputs, output=name, **attributes)  # type: ignore[arg-type]
        shape = op.infer(tuple(self.type(n) for n in inputs))
        self.tensors[name] = Tensor(name, TensorType(shape, DType.INT8, quant or self.type(inputs[0]).quant))
        self.ops.append(op)
        return name

    def constant(self, data: Array, quant: Quant | None = None) -> str:
        name = f"c{len(self.tensors)}"
        self.tensors[name] = Tensor(name, TensorType(data.shape, DType(data.dtype.name), quant), data)
        return name

    def weights(self, shape: tuple[int, ...], axis: int, zero: tuple[int, ...] = ()) -> tuple[str, str]:
        """Weights whose output channels `zero` are zero, and a bias; a scale for each channel."""
        data = self.rng.integers(-127, 127, shape, np.int8, endpoint=True)
        np.moveaxis(data, axis, 0)[list(zero)] = 0
        scales = tuple(float(np.float32(s)) for s in self.rng.uniform(0.5, 1.5, shape[axis]) * 0.02 / prod(shape))
        bias = self.rng.integers(-self.bias, self.bias, shape[axis], np.int32) * prod(shape)
        return (
            self.constant(data, Quant(scales, (0,) * len(scales), axis)),
            self.constant(bias),  # its scales are those of x times weights
        )

    def conv(self, x: str, outputs: int, size: int = 1, zero: tuple[int, ...] = (), **attributes: object) -> str:
        shape = (outputs, size, size, self.channels(x))
        return self.add(ops.Conv2d, x, *self.weights(shape, 0, zero), **attributes)

    def depthwise(self, x: str, size: int = 3, times: int = 1, zero: tuple[int, ...] = (), **attributes: object) -> str:
        shape = (1, size, size, self.channels(x) * times)
        return self.add(ops.DepthwiseConv2d, x, *self.weights(shape, 3, zero), **attributes)

    def dense(self, x: str, outputs: int) -> str:
        return self.add(ops.Dense, x, *self.weights((outputs, self.type(x).shape[-1]), 0))

    def row(self, channels: int) -> str:
        """A constant of one value per channel."""
        return self.constant(self.rng.integers(-128, 127, channels, np.int8, endpoint=True), Quant((0.01,), (3,)))

    def graph(self, *outputs: str) -> Graph:
        return drop_dead(verify(Graph("built", self.tensors, tuple(self.ops), ("x",), outputs)))


QUANTS = st.builds(
    lambda scale, zero: Quant((float(np.float32(scale)),), (zero,)),
    st.floats(0.03, 0.1),
    st.sampled_from((-128, -5, 0, 20, 127)),
)
CLAMPS = st.sampled_from((ops.Clamp(), ops.Clamp(-20, 60), ops.Clamp(0, 127), ops.Clamp(-128, -128)))


class Draw:
    """Random ops on top of a net: `draw` chooses, the net's generator fills the constants."""

    def __init__(self, data: st.DataObject, net: Net) -> None:
        self.data, self.net = data, net

    def pick(self, *choices: int) -> int:
        return self.data.draw(st.sampled_from(choices))

    def quant(self) -> Quant:
        return self.data.draw(QUANTS)

    def clamp(self) -> ops.Clamp:
        return self.data.draw(CLAMPS)

    def zero(self, channels: int) -> tuple[int, ...]:
        """Which channels get no weights: none, half or nearly all."""
        share = (0.0, 0.5, 0.9)[self.pick(1, 0, 2)]
        return tuple(int(c) for c in np.flatnonzero(self.net.rng.random(channels) < share))

    def padding(self, kernel: int) -> ops.Padding:
        return ops.Padding(*(self.pick(*range(kernel)) for _ in range(4)))

    def partner(self, x: str) -> str:
        """An earlier tensor of the same shape, or a constant that is broadcast."""
        shape = self.net.type(x).shape
        alike = [n for n, t in self.net.tensors.items() if t.type.shape == shape and t.data is None]
        constant = self.pick(0, 1, 2)
        return self.data.draw(st.sampled_from(alike)) if constant else self.net.row(self.pick(1, shape[-1]))


def _conv(d: Draw, x: str) -> str:
    channels, kernel, outputs = d.net.channels(x), d.pick(1, 2, 3), d.pick(2, 4, 6)
    groups = d.pick(1, 2) if channels % 2 == 0 else 1
    weights = d.net.weights((outputs, kernel, kernel, channels // groups), 0, d.zero(outputs))
    more = {"padding": d.padding(kernel), "stride": (d.pick(1, 2), d.pick(1, 2)), "dilation": (d.pick(1, 2), 1)}
    return d.net.add(ops.Conv2d, x, *weights, quant=d.quant(), clamp=d.clamp(), **more)


def _depthwise(d: Draw, x: str) -> str:
    channels, times, kernel = d.net.channels(x), d.pick(1, 1, 2), d.pick(1, 3)
    more = {"padding": d.padding(kernel), "quant": d.quant(), "clamp": d.clamp()}
    return d.net.depthwise(x, kernel, times, d.zero(channels * times), **more)


def _transposed(d: Draw, x: str) -> str:
    n, h, w, c = d.net.type(x).nhwc
    kernel, stride, outputs = d.pick(1, 2, 3), (d.pick(1, 2), d.pick(1, 2)), d.pick(2, 4)
    top, left = d.pick(*range(kernel)), d.pick(*range(kernel))
    shape = (n, max(1, (h - 1) * stride[0] + kernel - top), max(1, (w - 1) * stride[1] + kernel - left), outputs)
    weights = d.net.weights((outputs, kernel, kernel, c), 0, d.zero(outputs))
    more = {"output_shape": shape, "stride": stride, "padding": ops.Padding(top=top, left=left)}
    return d.net.add(ops.TransposeConv2d, x, *weights, quant=d.quant(), clamp=d.clamp(), **more)


def _unary(d: Draw, x: str) -> str:
    kind, quant, more = d.data.draw(
        st.sampled_from(
            (
                (ops.Relu6, None, {}),
                (ops.Relu, d.quant(), {}),
                (ops.HardSwish, d.quant(), {}),
                (ops.Requantize, d.quant(), {}),
                (ops.LeakyRelu, d.quant(), {"alpha": 0.25}),
                (ops.Logistic, Quant((1 / 256,), (-128,)), {}),
            )
        )
    )
    return d.net.add(kind, x, quant=quant, **more)


def _binary(d: Draw, x: str) -> str:
    kind = d.data.draw(st.sampled_from((ops.Add, ops.Sub, ops.Mul, ops.Maximum, ops.Minimum, ops.Prelu)))
    other, quant = d.partner(x), d.quant()
    if kind in (ops.Maximum, ops.Minimum):  # all three share one quantisation
        quant = d.net.type(other).quantised
        x = d.net.add(ops.Requantize, x, quant=quant)
    pair = (x, other) if d.pick(0, 1) or kind is ops.Prelu else (other, x)
    more = {} if kind is ops.Prelu else {"clamp": d.clamp()}
    return d.net.add(kind, *pair, quant=quant, **more)


def _pool(d: Draw, x: str) -> str:
    kind, kernel = (ops.MaxPool2d, ops.AveragePool2d)[d.pick(0, 1)], d.pick(1, 2)
    return d.net.add(
        kind, x, kernel=(kernel, kernel), stride=(1, d.pick(1, 2)), padding=d.padding(kernel), clamp=d.clamp()
    )


def _resize(d: Draw, x: str) -> str:
    kind = (ops.ResizeNearest, ops.ResizeBilinear)[d.pick(0, 1)]
    return d.net.add(
        kind, x, size=(d.pick(3, 6), d.pick(2, 5)), align_corners=False, half_pixel_centers=bool(d.pick(0, 1))
    )


def _pad(d: Draw, x: str) -> str:
    before, after = (tuple(d.pick(*most) for most in ((0,), (0, 1), (0, 1), (0, 1, 2))) for _ in "ab")
    return d.net.add(ops.Pad, x, before=before, after=after, value=d.pick(d.net.type(x).quantised.zero_point, 0, 99))


def _concat(d: Draw, x: str) -> str:
    axis = d.pick(1, 3, 3)
    shapes = {n: list(t.type.shape) for n, t in d.net.tensors.items() if t.data is None}
    for shape in shapes.values():
        shape[axis if len(shape) == 4 else 0] = 0
    alike = [n for n, shape in shapes.items() if shape == shapes[x]]
    other = d.data.draw(st.sampled_from(alike))
    if d.net.type(other).quant != d.net.type(x).quant:
        other = d.net.add(ops.Requantize, other, quant=d.net.type(x).quantised)
    return d.net.add(ops.Concat, other, x, axis=axis)


def _slice(d: Draw, x: str) -> str:
    step, channels = d.pick(1, 1, -1, 2), d.net.channels(x)
    size = d.pick(*range(1, 1 + (channels + abs(step) - 1) // abs(step)))
    span = (size - 1) * abs(step)
    begin = d.pick(*range(channels - span)) + (span if step < 0 else 0)
    n, h, w, _ = d.net.type(x).nhwc
    top = d.pick(*range(min(h, 2)))
    return d.net.add(ops.Slice, x, begin=(0, top, 0, begin), size=(n, h - top, w, size), step=(1, 1, 1, step))


def _moved(d: Draw, x: str) -> str:
    n, h, w, c = d.net.type(x).nhwc
    if d.pick(0, 1):
        return d.net.add(ops.Transpose, x, perm=(0, 2, 1, 3) if d.pick(0, 0, 1) == 0 else (0, 3, 1, 2))
    shapes = ((n, 1, h * w, c), (n, h, 1, w * c), (n, 1, 1, h * w * c), (n, w, c, h))
    return d.net.add(ops.Reshape, x, shape=d.data.draw(st.sampled_from(shapes)))


def _mean(d: Draw, x: str) -> str:
    return d.net.add(
        ops.Mean, x, quant=d.quant(), axes=((1, 2), (1,), (1, 2), (3,))[d.pick(0, 1, 2, 3)], keep_dims=True
    )


def _dense(d: Draw, x: str) -> str:
    return d.net.dense(x, d.pick(2, 5))


STEPS = (
    *(_conv,) * 4,
    *(_depthwise,) * 3,
    _transposed,
    _unary,
    *(_binary,) * 3,
    _pool,
    _resize,
    _pad,
    _concat,
    _slice,
    _moved,
    _mean,
    _dense,
)
LARGEST = 1500  # elements of a tensor that another op is put on


@st.composite
def nets(draw: st.DrawFn) -> Graph:
    """Graphs of up to nine ops with zero channels planted everywhere; the last tensors are outputs, behind a conv."""
    data = st.data()
    net = Net(
        1, draw(st.integers(2, 5)), draw(st.integers(2, 5)), draw(st.integers(1, 4)), zero=draw(QUANTS).zero_point
    )
    net.bias = 2**12
    net.rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    d = Draw(draw(data), net)
    names = ["x"]
    for _ in range(draw(st.integers(2, 9))):
        x = names[-1 - draw(st.integers(0, min(2, len(names) - 1)))]
        if net.type(x).elements <= LARGEST:
            with suppress(GraphError):  # a kernel that does not fit into the map
                names.append(draw(st.sampled_from(STEPS))(d, x))
    outputs = [net.conv(names[-1], 2)]
    if draw(st.integers(0, 3)) == 0 and names[-1] != "x":
        outputs.append(draw(st.sampled_from([n for n in names if n != "x"])))
    return net.graph(*outputs)
