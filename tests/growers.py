"""How each op is put on top of a tensor, at random: a table by op class."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from growth import Growth
from samples import SOFTMAX_QUANT, TABLES, bias, clamp, covering, float32, int8, linear_output, quant, weights, window

from shoehorn_mcu import ops
from shoehorn_mcu.ir import DType, GraphError, Op, Quant, TensorType

MOST_WEIGHTS = 1200  # of an op

Grower = Callable[[Growth, str], str]
"""Puts ops on a tensor and gives the name of the last output; GraphError where they do not fit."""

_Pair = tuple[int, int]  # down, across
_FIXED = {ops.Logistic: SOFTMAX_QUANT, ops.Tanh: Quant((1 / 128,), (0,))}


def _padding(g: Growth, x: str, kernel: _Pair, stride: _Pair, dilation: _Pair = (1, 1)) -> ops.Padding:
    """SAME, VALID, or four numbers of their own, all less than the window."""
    if g.chance(0.5):
        return window(g.rng, g.type(x).nhwc[1:3], kernel, stride, dilation)
    down, across = ((k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True))
    return ops.Padding(*(g.pick(*range(size)) for size in (down, down, across, across)))


def _window(g: Growth, x: str) -> dict[str, object]:
    stride = (g.pick(1, 1, 1, 1, 2, 3), g.pick(1, 1, 1, 2, 3))
    dilation = (g.pick(1, 1, 1, 2, 3), g.pick(1, 1, 1, 2))
    kernel = (g.pick(1, 1, 2, 3, 3, 4, 5), g.pick(1, 1, 2, 3, 3))
    more = {"stride": stride, "dilation": dilation, "padding": _padding(g, x, kernel, stride, dilation)}
    return {"kernel": kernel, **more}


def _linear(
    g: Growth, kind: type[Op], x: str, shape: tuple[int, ...], axis: int, taps: float, **attributes: object
) -> str:
    """A linear op with random weights of that shape."""
    if np.prod(shape) > MOST_WEIGHTS:
        raise GraphError("more weights than needed")
    scale, (w, data) = g.type(x).quantised, weights(g.rng, shape, axis)
    b = bias(g.rng, shape[axis], scale, w.quantised)
    fit = linear_output(g.rng, scale, w.quantised, max(1, int(taps)))
    return g.add(kind, x, g.constant(w, data), g.constant(*b), fit=fit, **attributes)


def _conv(g: Growth, x: str) -> str:
    x = g.as_image(g.as_int8(x))
    more, channels = _window(g, x), g.type(x).shape[3]
    (height, width) = more.pop("kernel")  # type: ignore[misc]
    groups = g.pick(*(n for n in (1, 1, 1, 2, 3) if channels % n == 0))
    shape = (groups * g.pick(1, 2, 3, 5), height, width, channels // groups)
    return _linear(g, ops.Conv2d, x, shape, 0, np.prod(shape[1:]), **more)


def _depthwise(g: Growth, x: str) -> str:
    x = g.as_image(g.as_int8(x))
    more = _window(g, x)
    (height, width) = more.pop("kernel")  # type: ignore[misc]
    shape = (1, height, width, g.type(x).shape[3] * g.pick(1, 1, 1, 2))
    return _linear(g, ops.DepthwiseConv2d, x, shape, 3, height * width, **more)


def _transpose_conv(g: Growth, x: str) -> str:
    x = g.as_image(g.as_int8(x))
    n, *sizes, channels = g.type(x).shape
    stride, kernel = ((g.pick(*some), g.pick(*some)) for some in ((1, 2, 2, 3), (1, 2, 3, 4)))
    before, after = (tuple(g.pick(*range(k)) for k in kernel) for _ in "ab")
    spread = [
        (size - 1) * s + k - b - a + g.pick(0, 0, 1)
        for size, s, k, b, a in zip(sizes, stride, kernel, before, after, strict=True)
    ]
    outputs = g.pick(1, 2, 4)
    padding = ops.Padding(before[0], after[0], before[1], after[1])
    more = {"stride": stride, "padding": padding, "output_shape": (n, *(max(1, s) for s in spread), outputs)}
    taps = channels * np.prod(kernel) / np.prod(stride)
    return _linear(g, ops.TransposeConv2d, x, (outputs, *kernel, channels), 0, taps, **more)


def _dense(g: Growth, x: str) -> str:
    x = g.as_int8(x)
    if not g.type(x).shape:
        raise GraphError("a dense layer takes one dimension at least")
    inputs = g.type(x).shape[-1]
    return _linear(g, ops.Dense, x, (g.pick(1, 2, 3, 7), inputs), 0, inputs)


def _thin(g: Growth, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that is broadcast to `shape`."""
    return tuple(d if g.chance(0.5) else 1 for d in shape)[g.pick(*range(max(1, len(shape)))) :]


def _broadcasts(thin: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    ahead = len(shape) - len(thin)
    return ahead >= 0 and all(t in (1, s) for t, s in zip(thin, shape[ahead:], strict=True))


def _partner(g: Growth, x: str) -> str:
    """An earlier int8 tensor of the same or a thinner shape, x itself included, or a constant."""
    shape = g.type(x).shape
    fits = [n for n in g.live if g.type(n).dtype is DType.INT8 and _broadcasts(g.type(n).shape, shape)]
    same = [n for n in fits if n != x and g.type(n).shape == shape]
    if same and g.chance(0.6):
        return same[g.pick(*range(len(same)))]
    return g.operand(_thin(g, shape), quant(g.rng, 0.01)) if g.chance(0.4) else fits[g.pick(*range(len(fits)))]


def _binary(kind: type[Op]) -> Grower:
    def grow(g: Growth, x: str) -> str:
        x = g.as_int8(x)
        other = _partner(g, x)
        pair = (x, other) if g.chance(0.5) else (other, x)
        a, b = (g.type(n).quantised.scale for n in pair)
        scale = a * b * 60 if kind is ops.Mul else max(a, b)
        return g.add(kind, *pair, fit=Quant((float32(scale),), (g.pick(-128, -5, 0, 60),)))

    return grow


def _extreme(kind: type[Op]) -> Grower:
    """Maximum and minimum, whose operands share one quantisation."""

    def grow(g: Growth, x: str) -> str:
        x = g.as_int8(x)
        other = _partner(g, x)
        common = g.type(x).quantised
        if g.tensors[other].data is not None:
            other = g.operand(g.type(other).shape, common)
        return g.add(kind, x, g.like(other, common))

    return grow


def _prelu(g: Growth, x: str) -> str:
    x = g.as_int8(x)
    if g.chance(0.2):
        return g.add(ops.Prelu, x, _partner(g, x), fit=quant(g.rng))
    return g.add(ops.Prelu, x, g.operand(_thin(g, g.type(x).shape), quant(g.rng, 0.001, 0.01)), fit=quant(g.rng))


def _unary(kind: type[Op], **attributes: float) -> Grower:
    def grow(g: Growth, x: str) -> str:
        x = g.as_int8(x)
        if kind in _FIXED:
            return g.add(kind, x, to=int8((), _FIXED[kind]))
        if kind is ops.Relu6:
            return g.add(kind, x)
        return g.add(kind, x, fit=Quant(g.type(x).quantised.scales, (g.pick(-128, 0, 9),)), **attributes)

    return grow


def _table(g: Growth, x: str) -> str:
    """Any op of samples.TABLES, on a requantised input within its range."""
    kind = list(TABLES)[g.pick(*range(len(TABLES)))]
    domain, values = TABLES[kind]
    x = g.add(ops.Requantize, g.as_int8(x), fit=covering(*domain))
    return g.add(kind, x, to=int8((), covering(*values)))


def _requantize(g: Growth, x: str) -> str:
    """int8 to int8, or there and back by uint8."""
    x = g.as_int8(x)
    if g.chance(0.6):
        return g.add(ops.Requantize, x, fit=quant(g.rng))
    return g.add(ops.Requantize, to_uint8(g, x), fit=quant(g.rng))


def to_uint8(g: Growth, x: str) -> str:
    """int8 x as uint8, each value 128 higher."""
    plain = g.type(x).quantised
    higher = Quant(plain.scales, (plain.zero_point + 128,))
    return g.add(ops.Requantize, x, to=TensorType((), DType.UINT8, higher))


def _float(g: Growth, x: str) -> str:
    """float32 and back."""
    back = g.add(ops.Dequantize, g.as_int8(x), to=TensorType((), DType.FLOAT32))
    return g.add(ops.Quantize, back, fit=quant(g.rng)) if g.chance(0.7) else back


def _pool(kind: type[Op]) -> Grower:
    def grow(g: Growth, x: str) -> str:
        x = g.as_image(g.as_int8(x))
        kernel, stride = (g.pick(1, 2, 3, 4), g.pick(1, 2, 3)), (g.pick(1, 1, 2, 3), g.pick(1, 1, 2, 3))
        more = {"kernel": kernel, "stride": stride, "padding": _padding(g, x, kernel, stride)}
        return g.add(kind, x, **more, clamp=clamp(g.rng, g.type(x).quantised))

    return grow


def _mean(g: Growth, x: str) -> str:
    x = g.as_int8(x)
    rank = len(g.type(x).shape)
    some = tuple(axis for axis in range(rank) if g.chance(0.4))
    axes = (1, 2) if rank == 4 and g.chance(0.5) else some
    if not axes:
        raise GraphError("a mean over nothing")
    return g.add(ops.Mean, x, fit=g.type(x).quantised, axes=axes, keep_dims=g.chance(0.6))


def _softmax(g: Growth, x: str) -> str:
    beta = float32(g.rng.choice([1.0, 1.0, 0.5, 2.3]))
    return g.add(ops.Softmax, g.as_int8(x), to=int8((), SOFTMAX_QUANT), beta=beta)


def _resize(kind: type[Op]) -> Grower:
    def grow(g: Growth, x: str) -> str:
        x = g.as_image(x if kind is ops.ResizeNearest else g.as_int8(x))
        size = tuple(g.pick(*range(1, 2 * d + 2)) for d in g.type(x).shape[1:3])
        align, half = ((False, False), (True, False), (False, True))[g.pick(0, 1, 2)]
        return g.add(kind, x, size=size, align_corners=align, half_pixel_centers=half)

    return grow


def _reshape(g: Growth, x: str) -> str:
    total, parts = g.type(x).elements, []
    for _ in range(g.pick(0, 1, 2, 3)):
        parts.append(g.pick(*(d for d in range(1, total + 1) if total % d == 0)))
        total //= parts[-1]
    return g.add(ops.Reshape, x, shape=(*parts, total))


def _pad(g: Growth, x: str) -> str:
    kind = g.type(x)
    before, after = (tuple(g.pick(0, 0, 1, 2) for _ in kind.shape) for _ in "ab")
    value = g.pick(0, 7) if kind.quant is None else g.pick(kind.quant.zero_point, 5)
    return g.add(ops.Pad, x, before=before, after=after, value=value)


def _concat(g: Growth, x: str) -> str:
    """x with other tensors, with itself, or with constants; all in one quantisation."""
    kind = g.type(x)
    if not kind.shape:
        raise GraphError("a scalar has no axis")
    axis = g.pick(*range(len(kind.shape)))

    def outside(name: str) -> tuple[object, ...]:
        shape = g.type(name).shape
        return g.type(name).dtype, len(shape), shape[:axis], shape[axis + 1 :]

    mates = [n for n in g.live if outside(n) == outside(x) and (n == x or kind.dtype is DType.INT8)]
    parts = [x]
    for _ in range(g.pick(0, 1, 1, 2)):
        if kind.dtype is DType.INT8 and g.chance(0.2):
            other = g.operand((*kind.shape[:axis], g.pick(1, 2, 3), *kind.shape[axis + 1 :]), kind.quantised)
        else:
            other = g.like(mates[g.pick(*range(len(mates)))], kind.quant)
        parts.insert(g.pick(*range(len(parts) + 1)), other)
    return g.add(ops.Concat, *parts, to=kind, axis=axis)


def _slice(g: Growth, x: str) -> str:
    begin, size, step = [], [], []
    for limit in g.type(x).shape:
        stride = g.pick(1, 1, 1, 1, 2, 3, -1, -2)
        first = g.pick(*range(limit)) if g.chance(0.4) else (limit - 1 if stride < 0 else 0)
        most = (first // -stride if stride < 0 else (limit - 1 - first) // stride) + 1
        begin.append(first)
        step.append(stride)
        size.append(g.pick(*range(1, most + 1)) if g.chance(0.3) else most)
    return g.add(ops.Slice, x, begin=tuple(begin), size=tuple(size), step=tuple(step))


def _transpose(g: Growth, x: str) -> str:
    return g.add(ops.Transpose, x, perm=tuple(int(p) for p in g.rng.permutation(len(g.type(x).shape))))


GROWERS: dict[type[Op], Grower] = {
    ops.Conv2d: _conv,
    ops.DepthwiseConv2d: _depthwise,
    ops.TransposeConv2d: _transpose_conv,
    ops.Dense: _dense,
    **{kind: _binary(kind) for kind in (ops.Add, ops.Sub, ops.Mul)},
    **{kind: _extreme(kind) for kind in (ops.Maximum, ops.Minimum)},
    ops.Prelu: _prelu,
    **{kind: _unary(kind) for kind in (ops.Logistic, ops.Tanh, ops.HardSwish, ops.Relu, ops.Relu6)},
    ops.LeakyRelu: _unary(ops.LeakyRelu, alpha=float32(0.3)),
    **dict.fromkeys(TABLES, _table),
    ops.Requantize: _requantize,
    ops.Quantize: _float,
    ops.Dequantize: _float,
    **{kind: _pool(kind) for kind in (ops.AveragePool2d, ops.MaxPool2d)},
    ops.Mean: _mean,
    ops.Softmax: _softmax,
    **{kind: _resize(kind) for kind in (ops.ResizeNearest, ops.ResizeBilinear)},
    ops.Reshape: _reshape,
    ops.Pad: _pad,
    ops.Concat: _concat,
    ops.Slice: _slice,
    ops.Transpose: _transpose,
}
