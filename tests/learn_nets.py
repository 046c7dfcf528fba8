"""Small float32 networks and samples of the tests of training; no test data of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu import ops
from shoehorn_mcu.ir import Array, DType, Graph, GraphError, Op, Tensor, TensorType, verify
from shoehorn_mcu.ops import functions as f
from shoehorn_mcu.ops.formula import Term, formula
from shoehorn_mcu.slim.learner import Samples, Schedule, Trained, Watch

Reals = NDArray[np.float32]
RELU, PLAIN = ops.RealClamp(0.0), ops.RealClamp()


@dataclass
class Net:
    """A graph under construction; each method gives the name of the tensor that it adds."""

    rng: np.random.Generator
    tensors: dict[str, Tensor] = field(default_factory=dict)
    made: list[Op] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    numbers: count[int] = field(default_factory=count)

    def shape(self, name: str) -> tuple[int, ...]:
        return self.tensors[name].type.shape

    def tensor(self, shape: Sequence[int], data: Array | None = None, name: str = "") -> str:
        name = name or f"{'t' if data is None else 'c'}{next(self.numbers)}"
        self.tensors[name] = Tensor(
            name, TensorType(tuple(shape), DType(data.dtype.name) if data is not None else DType.FLOAT32), data
        )
        return name

    def input(self, *shape: int) -> str:
        self.inputs.append(self.tensor(shape, name="x" if not self.inputs else ""))
        return self.inputs[-1]

    def constant(self, *shape: int, scale: float = 1.0) -> str:
        return self.tensor(shape, (self.rng.standard_normal(shape) * scale).astype(np.float32))

    def add(self, kind: type[Op], *inputs: str, name: str = "", **more: object) -> str:
        """An op. Raises GraphError where it does not fit."""
        op = kind(name=name or f"op{next(self.numbers)}", inputs=inputs, output="?", **more)  # type: ignore[arg-type]
        shape = op.infer(tuple(self.tensors[each].type for each in inputs))
        output = self.tensor(shape)
        self.made.append(kind(name=op.name, inputs=inputs, output=output, **more))  # type: ignore[arg-type]
        return output

    def conv(
        self, x: str, channels: int, size: int = 3, clamp: ops.RealClamp = RELU, groups: int = 1, **more: object
    ) -> str:
        inputs = self.shape(x)[3] // groups
        weights = self.constant(channels, size, size, inputs, scale=(2 / (size * size * inputs)) ** 0.5)
        more.setdefault("padding", same(size))
        return self.add(ops.Conv2d, x, weights, self.constant(channels, scale=0.2), clamp=clamp, **more)

    def depthwise(self, x: str, size: int = 3, multiplier: int = 1, clamp: ops.RealClamp = RELU, **more: object) -> str:
        channels = self.shape(x)[3] * multiplier
        weights = self.constant(1, size, size, channels, scale=2**0.5 / size)
        more.setdefault("padding", same(size))
        return self.add(ops.DepthwiseConv2d, x, weights, self.constant(channels, scale=0.2), clamp=clamp, **more)

    def dense(self, x: str, outputs: int, clamp: ops.RealClamp = PLAIN) -> str:
        inputs = self.shape(x)[-1]
        weights = self.constant(outputs, inputs, scale=inputs**-0.5)
        return self.add(ops.Dense, x, weights, self.constant(outputs, scale=0.2), clamp=clamp)

    def pool(self, x: str, kind: type[Op] = ops.MaxPool2d, size: int = 3, stride: int = 2, **more: object) -> str:
        more.setdefault("padding", same(size))
        return self.add(kind, x, kernel=(size, size), stride=(stride, stride), clamp=PLAIN, **more)

    def map(self, write: Callable[..., Term], *values: str) -> str:
        text = formula(write, *[DType.FLOAT32] * len(values)).text
        return self.add(ops.Map, *values, formula=text)

    def plus(self, a: str, b: str, clamp: ops.RealClamp = PLAIN) -> str:
        return self.add(ops.Add, a, b, clamp=clamp)

    def lrn(self, x: str, size: int = 3, alpha: float = 0.5, beta: float = 0.75) -> str:
        """Local response normalisation over channels, from ops on elements."""
        _, h, w, c = self.shape(x)
        square = self.map(lambda a: a * a, x)
        wide = self.add(ops.Pad, square, before=(0, 0, 0, size // 2), after=(0, 0, 0, size // 2), value=0.0)
        parts = [
            self.add(ops.Slice, wide, begin=(0, 0, 0, i), size=(1, h, w, c), step=(1, 1, 1, 1)) for i in range(size)
        ]
        total = parts[0]
        for part in parts[1:]:
            total = self.map(lambda a, b: a + b, total, part)
        scaled = self.map(lambda a: f.power(a * (alpha / size) + 1.0, a.constant(beta)), total)
        return self.map(lambda a, b: a / b, x, scaled)

    def classes(self, x: str, outputs: int = 10) -> str:
        return self.dense(self.add(ops.Mean, x, axes=(1, 2), keep_dims=False), outputs)

    def graph(self, *outputs: str, name: str = "net") -> Graph:
        return verify(Graph(name, self.tensors, tuple(self.made), tuple(self.inputs), outputs))


def same(size: int) -> ops.Padding:
    return ops.Padding(*[size // 2] * 4)


def computed(graph: Graph, x: Reals, name: str | None = None) -> Reals:
    """The first output, or a tensor, for each of some samples, as the ops' own references compute it."""
    found = []
    for each in x:
        values = {n: t.data for n, t in graph.tensors.items() if t.data is not None}
        values[graph.inputs[0]] = each.reshape(graph.tensors[graph.inputs[0]].type.shape)
        for node in graph.nodes():
            values[node.op.output] = node.op.reference([values[n] for n in node.op.inputs], node.sig)
        found.append(values[name or graph.outputs[0]])
    return np.stack(found)


def apart(a: Array, b: Array) -> float:
    """The largest difference relative to the largest magnitude of b."""
    return float(np.abs(a.reshape(b.shape) - b).max() / max(float(np.abs(b).max()), 1e-6))


def constants(graph: Graph) -> bytes:
    """The bytes of all constants."""
    held = sorted((n, t.data.tobytes()) for n, t in graph.tensors.items() if t.data is not None)
    return b"".join(data for _, data in held)


def images(count: int, seed: int = 0, size: int = 8, classes: int = 10, noise: float = 0.3) -> Samples:
    """Images of classes that differ by their bars and blobs, drawn over with noise and moved by a pixel at most."""
    patterns = np.random.default_rng(99).normal(0, 1, (classes, size + 2, size + 2))
    patterns = sum(np.roll(patterns, (i, j), (1, 2)) for i in (0, 1) for j in (0, 1)) / 2
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, count)
    down, across = rng.integers(0, 3, (2, count))
    x = np.stack([patterns[c, i : i + size, j : j + size] for c, i, j in zip(y, down, across, strict=True)])
    x = x + noise * rng.normal(0, 1, x.shape)
    return Samples(x[..., None].astype(np.float32), y.astype(np.int64))


def plain_net(seed: int = 0, channels: int = 8) -> Graph:
    """Two convolutions and a dense layer for 8x8 images."""
    net = Net(np.random.default_rng(seed))
    x = net.conv(net.input(1, 8, 8, 1), channels, stride=(2, 2))
    return net.graph(net.classes(net.conv(x, 2 * channels)))


def block_net(seed: int = 0) -> Graph:
    """Two convolutions with an inverted residual between them."""
    net = Net(np.random.default_rng(seed))
    x = net.conv(net.input(1, 8, 8, 1), 12, stride=(2, 2))
    y = net.conv(net.depthwise(net.conv(x, 36, 1)), 12, 1, clamp=PLAIN)
    return net.graph(net.classes(net.conv(net.plus(y, x), 32)))


def rich_net(seed: int = 0) -> Graph:
    """A convolution with pool and LRN behind it, an inception module, an inverted residual: something for each move."""
    net = Net(np.random.default_rng(seed))
    x = net.lrn(net.pool(net.conv(net.input(1, 8, 8, 1), 12)))
    pooled = net.conv(net.pool(x, stride=1), 4, 1)
    ways = [net.conv(x, 4, 1), net.conv(net.conv(x, 8, 1), 8), net.conv(net.conv(x, 4, 1), 4, 5), pooled]
    x = net.add(ops.Concat, *ways, axis=3)
    y = net.conv(net.depthwise(net.conv(x, 40, 1)), 20, 1, clamp=PLAIN)
    return net.graph(net.classes(net.plus(y, x)))


SHORT = Schedule(
    epochs=2, rate=4e-3, batch=32, augment=("shift", "flip", "mix"), distil=0.5, seed=3, new_rate=2.0, patience=2
)


def short_training(watch: Watch, every: float = 1e9, seed: int = 3) -> Trained:
    """A training of 12 batches with all that draws random numbers, a born layer, a teacher and patience."""
    from shoehorn_mcu.learn.by_torch import Torch

    net, teacher = plain_net(), plain_net(seed=1, channels=4)
    train, validation = images(200), images(100, seed=1)
    return Torch(every=every).train(
        net, (net.ops[1].name,), teacher, train, validation, replace(SHORT, seed=seed), watch
    )


def random_net(seed: int) -> Graph:
    """A graph of random ops that gradients pass; a dense layer is its last one."""
    net = Net(np.random.default_rng(seed))
    rng = net.rng
    live = [net.input(1, int(rng.integers(4, 9)), int(rng.integers(4, 9)), int(rng.integers(1, 5)))]
    for _ in range(int(rng.integers(2, 9))):
        x = live[-1] if rng.random() < 0.8 else live[int(rng.integers(len(live)))]
        grow = _GROWERS[int(rng.integers(len(_GROWERS)))]
        with suppress(GraphError):  # it does not fit onto x
            live.append(grow(net, x, live))
    x = live[-1]
    flat = net.add(ops.Reshape, x, shape=(1, int(np.prod(net.shape(x)))))
    y = net.dense(flat, 5)
    output = net.add(ops.Softmax, y, beta=1.5) if rng.random() < 0.3 else y
    return _without_dead(net.graph(output))


def _without_dead(graph: Graph) -> Graph:
    from shoehorn_mcu.passes.drop_dead import drop_dead

    return drop_dead(graph)


def _image(net: Net, x: str) -> str:
    shape = net.shape(x)
    return x if len(shape) == 4 and shape[0] == 1 else net.add(ops.Reshape, x, shape=(1, 1, *_halved(shape)))


def _halved(shape: Sequence[int]) -> tuple[int, int]:
    size = int(np.prod(shape))
    return (size // 2, 2) if size % 2 == 0 else (size, 1)


def _window(net: Net) -> dict[str, object]:
    rng = net.rng
    return {
        "stride": tuple(int(n) for n in rng.integers(1, 3, 2)),
        "padding": ops.Padding(*(int(n) for n in rng.integers(0, 3, 4))),
    }


def _clamp(net: Net) -> ops.RealClamp:
    return (PLAIN, RELU, ops.RealClamp(0.0, 1.5), ops.RealClamp(-0.5, 0.5))[int(net.rng.integers(4))]


def _conv(net: Net, x: str, live: Sequence[str]) -> str:
    x, groups = _image(net, x), 1
    channels = net.shape(x)[3]
    if channels % 2 == 0 and net.rng.random() < 0.3:
        groups = 2
    dilation = (1, 1) if net.rng.random() < 0.8 else (2, 1)
    size = int(net.rng.integers(1, 4))
    return net.conv(x, 4, size, _clamp(net), groups, dilation=dilation, **_window(net))


def _depthwise(net: Net, x: str, live: Sequence[str]) -> str:
    x = _image(net, x)
    if net.shape(x)[3] > 8:
        raise GraphError("wide enough")
    return net.depthwise(x, int(net.rng.integers(1, 4)), int(net.rng.integers(1, 3)), _clamp(net), **_window(net))


def _pool(net: Net, x: str, live: Sequence[str]) -> str:
    kind = (ops.MaxPool2d, ops.AveragePool2d)[int(net.rng.integers(2))]
    size = int(net.rng.integers(2, 4))
    pad = ops.Padding(*(int(n) for n in net.rng.integers(0, size, 4)))
    stride = tuple(int(n) for n in net.rng.integers(1, 3, 2))
    return net.add(kind, _image(net, x), kernel=(size, size), stride=stride, padding=pad, clamp=_clamp(net))


def _binary(net: Net, x: str, live: Sequence[str]) -> str:
    alike = [each for each in live if net.shape(each) == net.shape(x)]
    other = alike[int(net.rng.integers(len(alike)))]
    if net.rng.random() < 0.3:
        other = net.constant(*net.shape(x)[-1:])
    return net.add((ops.Add, ops.Sub)[int(net.rng.integers(2))], x, other, clamp=_clamp(net))


def _concat(net: Net, x: str, live: Sequence[str]) -> str:
    rank = len(net.shape(x))
    axis = int(net.rng.integers(rank))
    around = [s for at, s in enumerate(net.shape(x)) if at != axis]
    fits = [
        n for n in live if len(net.shape(n)) == rank and [*net.shape(n)][:axis] + [*net.shape(n)][axis + 1 :] == around
    ]
    return net.add(ops.Concat, x, *fits[-2:], axis=axis)


def _map(net: Net, x: str, live: Sequence[str]) -> str:
    writes: Sequence[Callable[[Term], Term]] = (
        f.sigmoid,
        f.tanh,
        lambda a: a * f.sigmoid(a * 1.7),
        lambda a: (a < 0.0).select(0.5 * (f.exp(a) - 1.0), a),
        lambda a: f.power(abs(a) + 0.5, a.constant(0.75)),
        lambda a: a * f.clip(a * (1.0 / 6.0) + 0.5, 0.0, 1.0),
        lambda a: 0.5 * a * (1.0 + f.erf(a * 0.707106781)),
        f.softplus,
    )
    return net.map(writes[int(net.rng.integers(len(writes)))], x)


def _product(net: Net, x: str, live: Sequence[str]) -> str:
    return net.map(lambda a, b: a * b, x, net.constant(*net.shape(x)[-2:]))


def _pad(net: Net, x: str, live: Sequence[str]) -> str:
    before, after = (tuple(int(n) for n in net.rng.integers(0, 2, len(net.shape(x)))) for _ in range(2))
    return net.add(ops.Pad, x, before=before, after=after, value=0.5)


def _slice(net: Net, x: str, live: Sequence[str]) -> str:
    shape = net.shape(x)
    steps = tuple(int(n) for n in net.rng.choice([1, 2, -1, -2], len(shape)))
    sizes = tuple(max(1, (size - 1) // abs(step)) for size, step in zip(shape, steps, strict=True))
    begin = tuple(0 if step > 0 else size - 1 for size, step in zip(shape, steps, strict=True))
    return net.add(ops.Slice, x, begin=begin, size=sizes, step=steps)


def _transpose(net: Net, x: str, live: Sequence[str]) -> str:
    return net.add(ops.Transpose, x, perm=tuple(int(n) for n in net.rng.permutation(len(net.shape(x)))))


def _reshape(net: Net, x: str, live: Sequence[str]) -> str:
    return net.add(
        ops.Reshape, x, shape=(*_halved(net.shape(x)), 1) if net.rng.random() < 0.5 else _halved(net.shape(x))
    )


def _mean(net: Net, x: str, live: Sequence[str]) -> str:
    rank = len(net.shape(x))
    axes = tuple(sorted({int(n) for n in net.rng.integers(0, rank, 2)}))
    return net.add(ops.Mean, x, axes=axes, keep_dims=bool(net.rng.random() < 0.5) or len(axes) == rank)


def _softmax(net: Net, x: str, live: Sequence[str]) -> str:
    return net.add(ops.Softmax, x, beta=0.7)


def _nearest(net: Net, x: str, live: Sequence[str]) -> str:
    return net.add(ops.ResizeNearest, _image(net, x), size=(5, 3), align_corners=False, half_pixel_centers=True)


def _gather(net: Net, x: str, live: Sequence[str]) -> str:
    x = _image(net, x)
    shape = net.shape(x)
    channels = shape[-1] if net.rng.random() < 0.5 else 1
    places = net.rng.integers(-shape[-2], shape[-2], (*[1] * (len(shape) - 2), 3, channels))
    return net.add(ops.Gather, x, net.tensor(places.shape, places.astype(np.int64)))


def _reduce(net: Net, x: str, live: Sequence[str]) -> str:
    write = (lambda a, b: a + b, f.maximum, f.minimum, lambda a, b: a * 0.5 + b)[int(net.rng.integers(4))]
    text = formula(write, DType.FLOAT32, DType.FLOAT32).text
    return net.add(ops.Reduce, x, formula=text, along_channels=bool(net.rng.random() < 0.5))


def _matmul(net: Net, x: str, live: Sequence[str]) -> str:
    text = formula(lambda t, a, b: t + a * b, *[DType.FLOAT32] * 3).text
    rows, inputs = _halved(net.shape(x))
    a = net.add(ops.Reshape, x, shape=(rows, 1, inputs))
    ahead = 1 if net.rng.random() < 0.5 else rows
    return net.add(ops.MatMul, a, net.constant(ahead, inputs, 3), formula=text)


def _pick(net: Net, x: str, live: Sequence[str]) -> str:
    return net.add(ops.PickChannels, x, picked=tuple(int(n) for n in net.rng.integers(0, net.shape(x)[-1], 3)))


_GROWERS = (
    *(_conv, _conv, _conv, _depthwise, _depthwise, _pool, _pool, _binary, _concat, _map, _map, _product, _pad, _slice),
    *(_transpose, _reshape, _mean, _softmax, _nearest, _gather, _reduce, _matmul, _pick),
)
