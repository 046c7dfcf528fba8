"""Small random graphs of one op each, for every op in OPS.

Those of MODEL_OPS can be said as a .tflite (see oracle.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from shoehorn_mcu import ops
from shoehorn_mcu.ir import Array, DType, Graph, Op, Quant, Tensor, TensorType, verify
from shoehorn_mcu.ops import functions
from shoehorn_mcu.ops.fixed_point import quantize_multipliers
from shoehorn_mcu.ops.formula import Term, formula
from shoehorn_mcu.ops.insert import own_rows

Rng = np.random.Generator

SOFTMAX_QUANT = Quant((1 / 256,), (-128,))


def sample(op_class: type[Op], rng: Rng) -> Graph:
    """A graph of one op of that class, with random shapes, attributes, quantisation and constants."""
    return verify(_MAKERS[op_class](rng))


REAL_OPS: tuple[type[Op], ...] = (
    ops.Conv2d,
    ops.DepthwiseConv2d,
    ops.Dense,
    ops.Add,
    ops.Sub,
    ops.AveragePool2d,
    ops.MaxPool2d,
    ops.Mean,
    ops.Softmax,
)
"""Ops of models that compute in float32 too."""
REAL_SUMS: tuple[type[Op], ...] = (ops.SumPool, ops.SumDense, ops.Average)
"""Those that a pass makes."""


def real_sample(op_class: type[Op], rng: Rng) -> Graph:
    """As `sample`, with float32 in place of all other types, for one of REAL_OPS or REAL_SUMS."""
    return as_float32(sample(op_class, rng), rng)


def as_float32(graph: Graph, rng: Rng) -> Graph:
    """A graph of one op with float32 in place of all other types; constants get values of all magnitudes around 1."""
    tensors = {}
    for tensor in graph.tensors.values():
        kind = TensorType(tensor.type.shape, DType.FLOAT32)
        data = None if tensor.data is None else rng.normal(0, 1, kind.shape).astype(np.float32)
        tensors[tensor.name] = Tensor(tensor.name, kind, data)
    (op,) = graph.ops
    if isinstance(op, ops.Clamped):
        op = replace(op, clamp=(ops.RealClamp(), ops.RealClamp(0.0), ops.RealClamp(0.0, 6.0))[pick(rng, 0, 1, 2)])
    if isinstance(op, ops.SumPool):
        op = replace(op, start=0)
    return verify(replace(graph, tensors=tensors, ops=(op,)))


LINEAR_OPS: tuple[type[Op], ...] = (ops.Conv2d, ops.DepthwiseConv2d, ops.Dense)
"""Ops that compute with weights of 16 bits and with int16 too."""
INT16_OPS: tuple[type[Op], ...] = (*LINEAR_OPS, ops.TransposeConv2d)
"""Linear ops that compute with int16."""


def with_wide_weights(graph: Graph, rng: Rng) -> Graph:
    """A linear op with weights of nine bits in place of its own, as those of 8 bits less their zero point are."""
    old = graph.tensors["x1"]
    data = rng.choice(np.array([-255, 255, *rng.integers(-255, 256, 6)], np.int16), old.type.shape)
    new = Tensor("x1", replace(old.type, dtype=DType.INT16), data)
    return verify(replace(graph, tensors={**graph.tensors, "x1": new}))


def with_offset_weights(graph: Graph, rng: Rng, most: int = 128) -> Graph:
    """A linear op with weights of nine bits of which those of each channel span a byte at most, at some zero point.

    `most`: the largest offset.
    """
    old, axis = graph.tensors["x1"], 3 if isinstance(graph.ops[0], ops.DepthwiseConv2d) else 0
    stored = rng.integers(-127, 128, old.type.shape, np.int16)
    stored[rng.random(old.type.shape) < 0.3] = rng.choice(np.array([-127, 127], np.int16))
    offsets = rng.choice(np.array([0, 1, -1, most, -127, *rng.integers(-120, 120, 3)], np.int16), old.type.shape[axis])
    shape = [1] * stored.ndim
    shape[axis] = -1
    new = Tensor("x1", replace(old.type, dtype=DType.INT16), stored + offsets.reshape(shape))
    return verify(replace(graph, tensors={**graph.tensors, "x1": new}))


def with_narrow_weights(graph: Graph, rng: Rng) -> Graph:
    """A linear op with weights of 4 bits in place of its own."""
    old = graph.tensors["x1"]
    new = replace(old, data=rng.integers(-8, 8, old.type.shape, np.int8))
    return verify(replace(graph, tensors={**graph.tensors, "x1": new}))


def as_int16(graph: Graph, rng: Rng, bias_type: DType = DType.INT64) -> Graph:
    """A linear op on int16 in place of int8, with zero points of 0."""
    tensors = dict(graph.tensors)
    for name in ("x0", "y"):
        old = tensors[name].type
        kind = replace(old, dtype=DType.INT16, quant=Quant(old.quantised.scales, (0,)))
        data = tensors[name].data
        wide = None if data is None else data.astype(np.int16) * 256 + rng.integers(0, 256, data.shape, np.int16)
        tensors[name] = Tensor(name, kind, wide)
    most = 1 << (20 if bias_type is DType.INT32 else 34)
    count = tensors["x2"].type.elements
    bias = rng.integers(-most, most, count) >> np.arange(count) % 7 * 3  # small ones leave outputs unsaturated
    tensors["x2"] = Tensor("x2", TensorType((count,), bias_type), bias.astype(bias_type.numpy))
    (op,) = graph.ops
    assert isinstance(op, ops.Clamped)
    bounds = (ops.Clamp(-(1 << 15), (1 << 15) - 1), ops.Clamp(0, (1 << 15) - 1), ops.Clamp(0, 3000))[pick(rng, 0, 1, 2)]
    return verify(replace(graph, tensors=tensors, ops=(replace(op, clamp=bounds),)))


def random_inputs(graph: Graph, rng: Rng) -> dict[str, Array]:
    """An array for every input of the graph: any stored value, float32 a little beyond the quantised range.

    Where the output is not quantised, float32 has values of all magnitudes around 1.
    """
    return {name: _values(graph.tensors[name].type, rng, graph) for name in graph.inputs}


def _values(kind: TensorType, rng: Rng, graph: Graph) -> Array:
    if kind.dtype is DType.INT32:  # sums that have room for more
        return rng.integers(-(2**30), 2**30, kind.shape, np.int32)
    if kind.dtype is DType.BOOL:
        return rng.random(kind.shape) < 0.5
    if kind.dtype is DType.FLOAT16:
        return rng.normal(0, 3, kind.shape).astype(np.float16)
    if kind.dtype is not DType.FLOAT32:
        info = np.iinfo(kind.dtype.value)
        return rng.integers(info.min, info.max, kind.shape, kind.dtype.numpy, endpoint=True)
    output = graph.tensors[graph.outputs[0]].type.quant
    if output is None:
        return rng.normal(0, 3, kind.shape).astype(np.float32)
    # Multiples of a quarter step hit the halves that rounding is about.
    return (rng.integers(-900, 900, kind.shape) * np.float32(output.scale / 4)).astype(np.float32)


def graph_of(
    op_class: type[Op],
    inputs: Sequence[TensorType | tuple[TensorType, Array]],
    output: DType | TensorType,
    **attributes: object,
) -> Graph:
    """A graph of one op; inputs with an array are constants, the shape of the output is inferred."""
    tensors = []
    for index, item in enumerate(inputs):
        kind, data = item if isinstance(item, tuple) else (item, None)
        tensors.append(Tensor(f"x{index}", kind, data))
    names = tuple(t.name for t in tensors)
    op = op_class(name="op", inputs=names, output="y", **attributes)  # type: ignore[arg-type]
    if isinstance(output, DType):
        output = TensorType((), output)
    shape = op.infer(tuple(t.type for t in tensors))
    tensors.append(Tensor("y", TensorType(shape, output.dtype, output.quant)))
    variables = tuple(t.name for t in tensors[:-1] if t.data is None)
    return Graph("sample", {t.name: t for t in tensors}, (op,), variables, ("y",))


def float32(x: float) -> float:
    """x as TFLite stores it."""
    return float(np.float32(x))


def quant(rng: Rng, low: float = 0.002, high: float = 0.5, dtype: DType = DType.INT8) -> Quant:
    """A per-tensor quantisation with a log-uniform scale and any zero point, the extremes often."""
    info = np.iinfo(dtype.value)
    zero = int(rng.choice([info.min, info.max, *rng.integers(info.min, info.max, 4)]))
    return Quant((float32(math.exp(rng.uniform(math.log(low), math.log(high)))),), (zero,))


def int8(shape: tuple[int, ...], quantisation: Quant) -> TensorType:
    return TensorType(shape, DType.INT8, quantisation)


def dims(rng: Rng, rank: int, most: int = 7) -> tuple[int, ...]:
    """A shape of that rank; the first of four dimensions is a batch of 1 or 2."""
    shape = [int(d) for d in rng.integers(1, most, rank, endpoint=True)]
    if rank == 4:
        shape[0] = int(rng.integers(1, 2, endpoint=True))
    return tuple(shape)


def pick(rng: Rng, *choices: int) -> int:
    return int(rng.choice(choices))


def clamp(rng: Rng, output: Quant) -> ops.Clamp:
    """No activation, ReLU or ReLU6 as stored bounds."""
    zero, six = output.zero_point, math.floor(np.float32(6) / np.float32(output.scale) + 0.5)
    return (ops.Clamp(), ops.Clamp(max(-128, zero), 127), ops.Clamp(max(-128, zero), min(127, zero + six)))[
        pick(rng, 0, 1, 2)
    ]


def same_padding(size: int, kernel: int, stride: int, dilation: int = 1) -> tuple[int, int]:
    """TFLite's SAME padding of one dimension: (before, after)."""
    total = max((math.ceil(size / stride) - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
    return total // 2, total - total // 2


def window(
    rng: Rng,
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int] = (1, 1),
) -> ops.Padding:
    """SAME or, where the kernel fits, VALID padding."""
    fits = all((k - 1) * d < s for s, k, d in zip(size, kernel, dilation, strict=True))
    if fits and rng.random() < 0.5:
        return ops.Padding()
    top, bottom = same_padding(size[0], kernel[0], stride[0], dilation[0])
    left, right = same_padding(size[1], kernel[1], stride[1], dilation[1])
    return ops.Padding(top, bottom, left, right)


def weights(rng: Rng, shape: tuple[int, ...], axis: int, dtype_bits: int = 8) -> tuple[TensorType, Array]:
    """int8 weights with a scale per tensor or along `axis`, zero points 0."""
    per_channel = rng.random() < 0.5
    count = shape[axis] if per_channel else 1
    scales = tuple(float32(s) for s in np.exp(rng.uniform(math.log(0.002), math.log(0.05), count)))
    quantisation = Quant(scales, (0,) * count, axis if count > 1 else None)
    data = rng.integers(-127, 127, shape, np.int8, endpoint=True)
    return TensorType(shape, DType.INT8, quantisation), data


def bias(rng: Rng, count: int, x: Quant, w: Quant) -> tuple[TensorType, Array]:
    """int32 bias with the scales x scale * weight scale."""
    scales = tuple(float32(np.float32(x.scale) * np.float32(s)) for s in w.scales)
    kind = TensorType((count,), DType.INT32, Quant(scales, (0,) * len(scales), 0 if len(scales) > 1 else None))
    return kind, rng.integers(-20000, 20000, count, np.int32)


def linear_output(rng: Rng, x: Quant, w: Quant, taps: int) -> Quant:
    """An output scale under which most results are not saturated."""
    scale = x.scale * float(np.mean(w.scales)) * math.sqrt(taps) * 73 * 73 * rng.uniform(0.005, 0.05)
    return Quant((float32(scale),), (int(rng.integers(-128, 127, endpoint=True)),))


def _conv(op_class: type[Op], rng: Rng) -> Graph:
    groups = pick(rng, 1, 1, 1, 2, 3) if op_class is ops.Conv2d else 1
    inputs = groups * pick(rng, 1, 2, 3, 4, 5, 8, 17)
    n, h, w, _ = dims(rng, 4, 9)
    kernel = (pick(rng, 1, 1, 2, 3, 3, 5), pick(rng, 1, 1, 2, 3, 3, 5))
    if op_class is ops.Conv2d:
        outputs = groups * pick(rng, 1, 2, 3, 4, 9)
        shape, axis = (outputs, *kernel, inputs // groups), 0
    else:
        outputs = inputs * pick(rng, 1, 1, 2, 3)
        shape, axis = (1, *kernel, outputs), 3
    stride = (pick(rng, 1, 1, 2, 3), pick(rng, 1, 1, 2, 3))
    dilation = (pick(rng, 1, 1, 2), pick(rng, 1, 1, 2))
    x, weight = quant(rng), weights(rng, shape, axis)
    scale = weight[0].quantised
    y = linear_output(rng, x, scale, math.prod(shape) // outputs)
    return graph_of(
        op_class,
        [int8((n, h, w, inputs), x), weight, bias(rng, outputs, x, scale)],
        int8((), y),
        stride=stride,
        dilation=dilation,
        padding=window(rng, (h, w), kernel, stride, dilation),
        clamp=clamp(rng, y),
    )


def _transpose_conv(rng: Rng) -> Graph:
    n, h, w, inputs = dims(rng, 4, 5)
    outputs, stride = pick(rng, 1, 2, 5), (pick(rng, 1, 2, 3), pick(rng, 1, 2, 3))
    kernel = (pick(rng, 1, 2, 3, 4), pick(rng, 1, 2, 3, 4))
    padding, size = ops.Padding(), ((h - 1) * stride[0] + kernel[0], (w - 1) * stride[1] + kernel[1])
    if rng.random() < 0.5:  # SAME: the padding of the convolution that goes the other way
        size = (h * stride[0], w * stride[1])
        (top, bottom), (left, right) = (same_padding(size[i], kernel[i], stride[i]) for i in (0, 1))
        padding = ops.Padding(top, bottom, left, right)
    x, weight = quant(rng), weights(rng, (outputs, *kernel, inputs), 0)
    scale = weight[0].quantised
    y = linear_output(rng, x, scale, max(1, math.prod(kernel) * inputs // math.prod(stride)))
    return graph_of(
        ops.TransposeConv2d,
        [int8((n, h, w, inputs), x), weight, bias(rng, outputs, x, scale)],
        int8((), y),
        output_shape=(n, *size, outputs),
        stride=stride,
        padding=padding,
        clamp=clamp(rng, y),
    )


def _partial(op_class: type[Op], rng: Rng) -> Graph:
    """Half of them over vectors instead of maps: a part of a dense layer."""
    x, w, outputs = dims(rng, 4, 9), (1, 1), pick(rng, 1, 2, 3, 8, 9)
    attributes: dict[str, object] = {}
    if rng.random() < 0.5:
        x = x[4 - pick(rng, 1, 2) :]
    else:
        w, stride, dilation = (pick(rng, 1, 1, 2, 3), pick(rng, 1, 1, 2, 3)), (pick(rng, 1, 2), pick(rng, 1, 2)), (2, 1)
        padding = window(rng, x[1:3], w, stride, dilation)
        attributes = {"stride": stride, "dilation": dilation, "padding": padding}
    kind, shape = int8(x, quant(rng)), (outputs, *w, x[-1])
    weight = (TensorType(shape, DType.INT8), rng.integers(-127, 127, shape, np.int8, endpoint=True))
    start = (TensorType((outputs,), DType.INT32), rng.integers(-(2**30), 2**30, outputs, np.int32))
    first = graph_of(ops.FirstPartial, [kind, weight, start], DType.INT32, **attributes)
    if op_class is ops.FirstPartial:
        return first
    return graph_of(op_class, [kind, first.tensors["y"].type, weight], DType.INT32, **attributes)


def _sum_type(rng: Rng) -> DType:
    return (DType.INT32, DType.INT16)[pick(rng, 0, 1)]


def _rescale(rng: Rng) -> Graph:
    window = pick(rng, 1, 1, 2, 3)
    shape, y = dims(rng, 4 if window > 1 else pick(rng, 1, 2, 4)), quant(rng)
    if window > 1:
        shape = (shape[0], shape[1] * window, *shape[2:])
    kind, channels = TensorType(shape, _sum_type(rng)), pick(rng, 1, shape[-1])
    # Random sums fill their type; what they are multiplied with makes a few hundred steps of them.
    most = -(8 * kind.dtype.bytes - 6)
    scales = quantize_multipliers(np.exp(rng.uniform(math.log(2.0**most), math.log(2.0 ** (most + 4)), channels)))
    constants = [(TensorType((channels,), DType(each.dtype.name)), each) for each in scales]
    return graph_of(ops.Rescale, [kind, *constants], int8((), y), clamp=clamp(rng, y), window=window)


def _sum_pool(rng: Rng) -> Graph:
    n, h, w, c = dims(rng, 4, 9)
    kernel = pick(rng, *range(1, h + 1)), pick(rng, *range(1, w + 1))
    stride = kernel[0] + pick(rng, 0, 1), pick(rng, 1, 2, 3)
    dtype = _sum_type(rng)
    most = 2**20 if dtype is DType.INT32 else 2**14
    x, start = int8((n, h, w, c), quant(rng)), int(rng.integers(-most, most))
    return graph_of(ops.SumPool, [x], dtype, kernel=kernel, stride=stride, start=start)


def _running_max(rng: Rng) -> Graph:
    pool, kind = _sum_pool(rng), quant(rng)
    (op,), x = pool.ops, pool.tensors["x0"].type
    assert isinstance(op, ops.SumPool)
    output = int8((), kind)
    return graph_of(
        ops.RunningMax, [int8(x.shape, kind)], output, kernel=op.kernel, stride=op.stride, clamp=clamp(rng, kind)
    )


def _sum_dense(rng: Rng) -> Graph:
    _, h, w, c = dims(rng, 4, 9)
    outputs = pick(rng, 1, 2, 3, 4, 5, 8, 9)
    shape = outputs, h * w * c
    weight = (TensorType(shape, DType.INT8), rng.integers(-127, 127, shape, np.int8, endpoint=True))
    start = (TensorType((outputs,), DType.INT32), rng.integers(-(2**28), 2**28, outputs, np.int32))
    return graph_of(ops.SumDense, [int8((1, h, w, c), quant(rng)), weight, start], DType.INT32)


def _average(rng: Rng) -> Graph:
    n, h, w, c = dims(rng, 4)
    window, count, y = pick(rng, 1, 2, 3), pick(rng, 1, 2, 7, 49, 2**20), quant(rng)
    kind = TensorType((n, h * window, w, c), _sum_type(rng))
    return graph_of(ops.Average, [kind], int8((), y), window=window, count=count, clamp=clamp(rng, y))


def _dense(rng: Rng) -> Graph:
    inputs, outputs = pick(rng, 1, 3, 8, 17, 64), pick(rng, 1, 2, 7, 10)
    x, weight = quant(rng), weights(rng, (outputs, inputs), 0)
    scale = weight[0].quantised
    y = linear_output(rng, x, scale, inputs)
    shape = (*dims(rng, pick(rng, 1, 1, 2, 3)), inputs)
    return graph_of(ops.Dense, [int8(shape, x), weight, bias(rng, outputs, x, scale)], int8((), y), clamp=clamp(rng, y))


def _broadcast_pair(rng: Rng) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes that broadcast: equal, or dimensions of 1 and lower ranks in either."""
    shape = dims(rng, pick(rng, 1, 2, 3, 4, 4))
    if rng.random() < 0.3:
        return shape, shape
    thin = tuple(d if rng.random() < 0.6 else 1 for d in shape)[pick(rng, 0, 0, len(shape) - 1) :]
    return (shape, thin) if rng.random() < 0.5 else (thin, shape)


def _binary(op_class: type[Op], rng: Rng) -> Graph:
    shapes = _broadcast_pair(rng)
    a, b, y = quant(rng, 0.01), quant(rng, 0.01), quant(rng, 0.01)
    if op_class is ops.Mul:
        y = Quant((float32(a.scale * b.scale * rng.uniform(20, 200)),), y.zero_points)
    if op_class in (ops.Maximum, ops.Minimum):
        a = b = y
    operands: list[TensorType | tuple[TensorType, Array]] = [int8(shapes[0], a), int8(shapes[1], b)]
    constant = pick(rng, 0, 1, 2, 2)
    if constant < 2:
        kind = int8(shapes[constant], (a, b)[constant])
        operands[constant] = (kind, rng.integers(-128, 127, kind.shape, np.int8, endpoint=True))
    fused = op_class not in (ops.Maximum, ops.Minimum)
    return graph_of(op_class, operands, int8((), y), clamp=clamp(rng, y) if fused else ops.Clamp())


def _prelu(rng: Rng) -> Graph:
    shape, a = dims(rng, 4), quant(rng)
    thin = tuple(d if rng.random() < 0.5 else 1 for d in shape)[pick(rng, 0, 1, 3) :]
    alpha = int8(thin, quant(rng, 0.001, 0.01))
    data = rng.integers(-128, 127, thin, np.int8, endpoint=True)
    return graph_of(ops.Prelu, [int8(shape, a), (alpha, data)], int8((), quant(rng)))


_FIXED_OUTPUTS = {ops.Logistic: SOFTMAX_QUANT, ops.Tanh: Quant((1 / 128,), (0,))}


def _unary(op_class: type[Op], rng: Rng) -> Graph:
    x = quant(rng, 0.001, 0.3)
    y = _FIXED_OUTPUTS.get(op_class) or quant(rng, x.scale / 3, x.scale * 3)
    if op_class is ops.Relu6:
        x = quant(rng, 0.02, 0.06)
        y = x if rng.random() < 0.5 else y  # tflite_micro does not rescale either
    attributes = {"alpha": float32(rng.uniform(0.01, 1.5))} if op_class is ops.LeakyRelu else {}
    # 256 columns, so that random inputs cover most of the table
    shape = (*dims(rng, pick(rng, 1, 2)), 256)
    return graph_of(op_class, [int8(shape, x)], int8((), y), **attributes)


# Tables of a real function: the range of x, and of y, that samples cover.
TABLES: dict[type[Op], tuple[tuple[float, float], tuple[float, float]]] = {
    ops.Abs: ((-4, 4), (0, 4)),
    ops.Neg: ((-4, 3), (-3, 4)),
    ops.Square: ((-3, 3), (0, 9)),
    ops.Sqrt: ((0, 9), (0, 3)),
    ops.Rsqrt: ((0, 9), (0, 3)),
    ops.Log: ((0, 9), (-3, 3)),
    ops.Sin: ((-4, 4), (-1, 1)),
    ops.Cos: ((-4, 4), (-1, 1)),
    ops.Exp: ((-4, 2), (0, 8)),
    ops.Elu: ((-4, 4), (-1, 4)),
    ops.Gelu: ((-4, 4), (-0.2, 4)),
}


def _gelu(x: float) -> float:
    return 0.5 * x * math.erfc(-x * math.sqrt(0.5))


# Ops that tflite_micro does not run for int8, as real functions: their tables are TFLite's LUTPopulate of these.
FUNCTIONS: dict[type[Op], Callable[[float], float]] = {
    ops.Neg: lambda x: -x,
    ops.Square: lambda x: x * x,
    ops.Sqrt: math.sqrt,
    ops.Log: math.log,
    ops.Sin: math.sin,
    ops.Cos: math.cos,
    ops.Exp: math.exp,
    ops.Gelu: _gelu,
}


def covering(low: float, high: float) -> Quant:
    """The int8 quantisation that just holds these values."""
    scale = float32((high - low) / 255)
    return Quant((scale,), (min(max(round(-128 - low / scale), -128), 127),))


def _table(op_class: type[Op], rng: Rng) -> Graph:
    (low, high), (least, most) = TABLES[op_class]
    size, more = rng.uniform(0.5, 1.5), rng.uniform(0.5, 1.5)
    x, y = covering(low * size, high * size), covering(least * more, most * more)
    return graph_of(op_class, [int8((*dims(rng, pick(rng, 1, 2)), 256), x)], int8((), y))


def _any_table(rng: Rng) -> Graph:
    values = tuple(int(value) for value in rng.integers(-128, 128, 256))
    x, y = quant(rng), quant(rng)
    return graph_of(ops.Table, [int8((*dims(rng, pick(rng, 1, 2)), 256), x)], int8((), y), values=values)


def _requantize(rng: Rng) -> Graph:
    source, target = (
        (DType.INT8, DType.INT8),
        (DType.INT8, DType.UINT8),
        (DType.UINT8, DType.INT8),
    )[pick(rng, 0, 1, 2)]
    x = quant(rng, dtype=source)
    y = quant(rng, x.scale / 3, x.scale * 3, target)
    if rng.random() < 0.3:  # the common case: the same scale, the zero point 128 away
        y = Quant(x.scales, (x.zero_point + np.iinfo(target.value).min - np.iinfo(source.value).min,))
    return graph_of(ops.Requantize, [TensorType((2, 1, 256), source, x)], TensorType((), target, y))


def _quantize(rng: Rng) -> Graph:
    shape = (*dims(rng, pick(rng, 1, 2, 3)), 16)
    return graph_of(ops.Quantize, [TensorType(shape, DType.FLOAT32)], int8((), quant(rng)))


def _dequantize(rng: Rng) -> Graph:
    dtype = (DType.INT8, DType.UINT8)[pick(rng, 0, 1)]
    x = TensorType((*dims(rng, pick(rng, 1, 2, 3)), 16), dtype, quant(rng, dtype=dtype))
    return graph_of(ops.Dequantize, [x], DType.FLOAT32)


def _pool(op_class: type[Op], rng: Rng) -> Graph:
    n, h, w, c = dims(rng, 4, 9)
    kernel, stride = (pick(rng, 1, 2, 3, 5), pick(rng, 1, 2, 3, 5)), (pick(rng, 1, 2, 3), pick(rng, 1, 2, 3))
    x = quant(rng)
    return graph_of(
        op_class,
        [int8((n, h, w, c), x)],
        int8((), x),
        kernel=kernel,
        stride=stride,
        padding=window(rng, (h, w), kernel, stride),
        clamp=clamp(rng, x),
    )


def _mean(rng: Rng) -> Graph:
    shape, x = dims(rng, pick(rng, 2, 3, 4, 4)), quant(rng)
    scale = float32(x.scale * rng.uniform(0.3, 1))
    # Random stored inputs have a mean near 0: the zero point keeps their means near 0 too, not saturated.
    zero = round(x.zero_point * x.scale / scale) + int(rng.integers(-20, 20))
    y = x if rng.random() < 0.3 else Quant((scale,), (min(max(zero, -128), 127),))
    count = pick(rng, 1, 2)
    axes = tuple(sorted(int(a) for a in rng.choice(len(shape), count, replace=False)))
    if len(shape) == 4 and rng.random() < 0.5:
        axes = (1, 2)
    return graph_of(ops.Mean, [int8(shape, x)], int8((), y), axes=axes, keep_dims=bool(rng.random() < 0.5))


def _softmax(rng: Rng) -> Graph:
    x = int8((*dims(rng, pick(rng, 0, 1, 2, 3), 4), pick(rng, 1, 2, 10, 100)), quant(rng))
    return graph_of(ops.Softmax, [x], int8((), SOFTMAX_QUANT), beta=float32(rng.choice([1.0, 1.0, 0.5, 2.3])))


def _resize(op_class: type[Op], rng: Rng) -> Graph:
    x = quant(rng)
    align, half = ((False, False), (True, False), (False, True))[pick(rng, 0, 1, 2)]
    return graph_of(
        op_class,
        [int8(dims(rng, 4), x)],
        int8((), x),
        size=(pick(rng, *range(1, 15)), pick(rng, *range(1, 15))),
        align_corners=align,
        half_pixel_centers=half,
    )


def _reshape(rng: Rng) -> Graph:
    shape, x = dims(rng, pick(rng, 1, 2, 3, 4)), quant(rng)
    total, parts = math.prod(shape), []
    for _ in range(pick(rng, 0, 1, 2, 3)):
        parts.append(pick(rng, *(d for d in range(1, total + 1) if total % d == 0)))
        total //= parts[-1]
    return graph_of(ops.Reshape, [int8(shape, x)], int8((), x), shape=(*parts, total))


def _pad(rng: Rng) -> Graph:
    shape, x = dims(rng, pick(rng, 1, 2, 3, 4, 4)), quant(rng)
    before, after = (tuple(int(v) for v in rng.integers(0, 2, len(shape), endpoint=True)) for _ in "ab")
    value = x.zero_point if rng.random() < 0.7 else int(rng.integers(-128, 127))
    return graph_of(ops.Pad, [int8(shape, x)], int8((), x), before=before, after=after, value=value)


def _concat(rng: Rng) -> Graph:
    shape, x = dims(rng, pick(rng, 1, 2, 3, 4, 4)), quant(rng)
    axis = pick(rng, *range(len(shape)))
    sizes = [pick(rng, 1, 2, 5) for _ in range(pick(rng, 1, 2, 3))]
    parts = [int8((*shape[:axis], size, *shape[axis + 1 :]), x) for size in sizes]
    return graph_of(ops.Concat, parts, int8((), x), axis=axis)


def _point(rng: Rng) -> Graph:
    """A convolution that computes pixel by pixel."""
    while True:
        graph = _conv(ops.Conv2d, rng)
        (node,) = graph.nodes()
        if node.op.pixelwise(node.sig):
            return graph


def inserted(graph: Graph, axis: int, before: int, after: int, onto: bool) -> Graph:
    """The op of a graph as one that writes into rows that are longer by so many elements along `axis`."""
    (op,) = graph.ops
    y = graph.tensors[op.output].type
    rows = own_rows(op)
    size = before + y.shape[axis] + after
    kind = replace(y, shape=(*y.shape[:axis], size, *y.shape[axis + 1 :]))
    inputs = (*op.inputs[:rows], *(("onto",) if onto else ()), *op.inputs[rows:])
    made = ops.InsertSlice(
        name=op.name,
        inputs=inputs,
        output=op.output,
        op=replace(op, output="part"),
        axis=axis,
        first=before,
        count=y.shape[axis],
        size=size,
        join="join",
    )
    tensors = {**graph.tensors, op.output: Tensor(op.output, kind), **({"onto": Tensor("onto", kind)} if onto else {})}
    ends = (*graph.inputs, *(("onto",) if onto else ()))
    return verify(replace(graph, tensors=tensors, ops=(made,), inputs=ends))


def _insert(rng: Rng) -> Graph:
    """Channels of a convolution or of copies, or columns of any op."""
    before, after, onto = pick(rng, 0, 1, 4, 5), pick(rng, 0, 1, 4), rng.random() < 0.7
    kind = pick(rng, *range(5))
    if kind < 2:
        return inserted(_conv(ops.Conv2d, rng), 3, before, after, onto)
    if kind == 2:
        return inserted(_point(rng), 3, before, after, onto)
    if kind == 3:
        shape, x = dims(rng, 4), quant(rng)
        parts = [int8((*shape[:3], size), x) for size in (pick(rng, 1, 4, 5), pick(rng, 2, 8))]
        return inserted(graph_of(ops.Concat, parts, int8((), x), axis=3), 3, before, after, onto)
    return inserted(_conv(ops.DepthwiseConv2d, rng), 2, before, after, onto)


def _slice(rng: Rng) -> Graph:
    shape, x = dims(rng, pick(rng, 1, 2, 3, 4, 4)), quant(rng)
    begin, size, step = [], [], []
    for limit in shape:
        stride, first = pick(rng, 1, 1, 1, 2, 3, -1, -2), pick(rng, *range(limit))
        most = (first // -stride if stride < 0 else (limit - 1 - first) // stride) + 1
        begin.append(first)
        step.append(stride)
        size.append(pick(rng, *range(1, most + 1)))
    return graph_of(ops.Slice, [int8(shape, x)], int8((), x), begin=tuple(begin), size=tuple(size), step=tuple(step))


def _transpose(rng: Rng) -> Graph:
    shape, x = dims(rng, pick(rng, 2, 3, 4, 4)), quant(rng)
    perm = tuple(int(p) for p in rng.permutation(len(shape)))
    return graph_of(ops.Transpose, [int8(shape, x)], int8((), x), perm=perm)


def _lstm(rng: Rng, wide: bool = False) -> Graph:
    """Gates around 1 and cell states up to some 8; the state before is any stored bytes. A `wide` one is int16."""
    steps, batch, inputs, units = (int(n) for n in rng.integers(1, (5, 3, 9, 9), endpoint=True))
    x, h = quant(rng, 0.005, 0.02), quant(rng, 0.005, 0.01)

    def matrix(columns: int, scale: float) -> tuple[TensorType, Array]:
        scales = tuple(float32(s) for s in 0.02 / scale / 100 / columns**0.5 * rng.uniform(0.3, 2, 4))
        kind = TensorType((4, units, columns), DType.INT8, Quant(scales, (0,) * 4, 0))
        return kind, rng.integers(-127, 127, kind.shape, np.int8, endpoint=True)

    if wide:
        x, h = (Quant((float32(each.scale / 256),), (0,)) for each in (x, h))
    dtype, bias = DType.INT16 if wide else DType.INT8, TensorType((4, units), DType.INT64 if wide else DType.INT32)
    state = (1, batch, ops.Lstm.state_size(units, dtype))
    return graph_of(
        ops.Lstm,
        [
            TensorType((steps, batch, inputs), dtype, x),
            TensorType(state, dtype, h),
            matrix(inputs, x.scale * (256 if wide else 1)),
            matrix(units, h.scale * (256 if wide else 1)),
            (bias, rng.integers(-4000, 4000, bias.shape, bias.dtype.numpy) * (256 * pick(rng, 1, 40) if wide else 1)),
        ],
        TensorType((), dtype, h),
        cell_power=-pick(rng, 11, 12, 13, 15),
        cell_clip=pick(rng, 0, 0, 5000),
    )


def lstm_16(rng: Rng) -> Graph:
    """An LSTM of int16; the sums over x of half of them saturate."""
    return _lstm(rng, wide=True)


def _pick_channels(rng: Rng) -> Graph:
    """Half of them shuffles, elements of 1, 2, 4 or 8 bytes."""
    shape, x = dims(rng, pick(rng, 1, 2, 4, 4)), quant(rng)
    channels = shape[-1]
    shuffles = rng.random() < 0.5
    picked = rng.permutation(channels) if shuffles else rng.integers(0, channels, pick(rng, 1, 3, 8))
    attributes = {"picked": tuple(int(c) for c in picked)}
    dtype = (DType.INT8, DType.INT16, DType.FLOAT32, DType.INT64)[pick(rng, 0, 1, 2, 3)]
    if dtype is DType.INT8:
        return graph_of(ops.PickChannels, [int8(shape, x)], int8((), x), **attributes)
    return graph_of(ops.PickChannels, [TensorType(shape, dtype)], TensorType((), dtype), **attributes)


def _svdf(op_class: type[Op], rng: Rng) -> Graph:
    batch, inputs, units, rank, places = (int(n) for n in rng.integers(1, (3, 9, 4, 3, 6), endpoint=True))
    dtype, x = (DType.INT8, DType.INT16)[pick(rng, 0, 1)], quant(rng, 0.01, 0.05)
    zero = pick(rng, 0, 5, -9) if dtype is DType.INT8 else 0
    scale = 0.02 if dtype is DType.INT8 else 0.0002
    memory = TensorType((batch, units * rank * places), dtype, Quant((float32(scale),), (zero,)))

    def matrix(columns: int, kind: DType, size: float) -> tuple[TensorType, Array]:
        most = kind.limits[1]
        made = TensorType((units * rank, columns), kind, Quant((float32(size / most),), (0,)))
        return made, rng.integers(-most, most, made.shape, kind.numpy, endpoint=True)

    if op_class is ops.SvdfState:
        return graph_of(op_class, [int8((batch, inputs), x), memory, matrix(inputs, DType.INT8, 0.5)], memory)
    bias = TensorType((units,), DType.INT32)
    held = (bias, rng.integers(-2000, 2000, bias.shape, np.int32))
    y = quant(rng, 0.02, 0.1)
    return graph_of(op_class, [memory, matrix(places, dtype, 0.3), held], int8((), y))


def _recurrence(rng: Rng) -> Graph:
    """Cells of one to three parts, of which some gates may read the second one after the step."""
    steps, batch, units = (int(n) for n in rng.integers(1, (5, 3, 7), endpoint=True))
    gates, parts, count = pick(rng, 1, 2, 3), pick(rng, 1, 2, 3), pick(rng, 0, 1, 2)
    late = pick(rng, *range(gates + 1)) if parts > 1 else 0

    def write(which: Term, *of: Term) -> Term:
        total = functions.sigmoid(of[0] + of[gates])
        for number, term in enumerate(of[1:], 1):
            total = total + term / (abs(term) + 1.5) if number % 2 else total * 0.5 - term * 0.25
        return which.equals(0.0).select(total, functions.tanh(total + which))

    read = formula(write, *[DType.FLOAT32] * (1 + 2 * gates + 2 * parts + count))

    def constant(*shape: int) -> tuple[TensorType, Array]:
        return TensorType(shape, DType.FLOAT32), rng.normal(0, 0.5, shape).astype(np.float32)

    return graph_of(
        ops.Recurrence,
        [
            TensorType((steps, batch, gates * units), DType.FLOAT32),
            TensorType((1, batch, parts * units), DType.FLOAT32),
            constant(gates, units, units),
            constant(gates, units),
            constant(count, units),
        ],
        DType.FLOAT32,
        formula=read.text,
        parts=parts,
        late=late,
    )


def _of(maker: Callable[[type[Op], Rng], Graph], op_class: type[Op]) -> Callable[[Rng], Graph]:
    return lambda rng: maker(op_class, rng)


def _map(rng: Rng) -> Graph:
    """Formulas of float32 and integers; none gives NaN, whose bits differ between cores."""
    a, b = _broadcast_pair(rng)
    dtype, write = (
        (DType.FLOAT32, lambda a, b: functions.sigmoid(a) * b + (abs(a) + 1.0).sqrt()),
        (DType.FLOAT32, lambda a, b: (a < b).select(functions.tanh(a), a / (abs(b) + 0.5))),
        (DType.FLOAT32, lambda a, b: (a < b).cast(DType.INT8) + (a * 9.0).cast(DType.INT8)),
        (DType.INT32, lambda a, b: (a * 3 + b) ^ (a >> 5)),
        (DType.INT8, lambda a, b: functions.remainder_to_floor(a, b).cast(DType.INT16) * 7),
        (DType.UINT8, lambda a, b: (a < b).select(a / b, b - a).cast(DType.FLOAT32) * 0.37),
    )[pick(rng, 0, 1, 2, 3, 4, 5)]
    read = formula(write, dtype, dtype)
    return graph_of(ops.Map, [TensorType(a, dtype), TensorType(b, dtype)], read.result, formula=read.text)


def _along_columns(op_class: type[Op], rng: Rng) -> Graph:
    shape, dtype = (
        dims(rng, pick(rng, 2, 3, 4)),
        (DType.FLOAT32, DType.INT32, DType.INT8, DType.UINT8)[pick(rng, *range(4))],
    )
    if op_class is ops.TopIndices:
        read = formula(lambda a, b: a > b, dtype, dtype)
        count = int(rng.integers(1, shape[-2], endpoint=True))
        last = bool(rng.integers(2))
        return graph_of(op_class, [TensorType(shape, dtype)], DType.INT64, formula=read.text, count=count, last=last)
    write = (lambda a, b: a + b, lambda a, b: (a < b).select(b, a))[pick(rng, 0, 1)]
    read = formula(write, dtype, dtype)
    rest: dict[str, object] = {}
    if op_class is ops.Reduce:
        rest = {"along_channels": bool(rng.integers(2))}
        if dtype is not DType.FLOAT32 and rng.integers(2):
            rest["initial"] = 3
    if op_class is ops.Scan:
        rest = {"exclusive": bool(rng.integers(2)), "reverse": bool(rng.integers(2)), "initial": pick(rng, 0, 1)}
    return graph_of(op_class, [TensorType(shape, dtype)], dtype, formula=read.text, **rest)


def _matmul(rng: Rng) -> Graph:
    rows, inputs, outputs = (int(n) for n in rng.integers(1, 9, 3))
    ahead = ((2,), (), (1,))[pick(rng, 0, 1, 2)]
    total, dtype = ((DType.FLOAT32, DType.FLOAT32), (DType.INT32, DType.INT8), (DType.INT32, DType.UINT8))[
        pick(rng, 0, 1, 2)
    ]
    read = formula(lambda t, a, b: t + a.cast(total) * b.cast(total), total, dtype, dtype)
    a = TensorType((*ahead, rows, 1, inputs), dtype)
    b = TensorType((*((*ahead, 1) if ahead else ()), inputs, outputs), dtype)
    return graph_of(ops.MatMul, [a, b], total, formula=read.text)


def _indexed(op_class: type[Op], rng: Rng) -> Graph:
    """Some indices are outside."""
    shape, count = dims(rng, pick(rng, 2, 3, 4)), int(rng.integers(1, 6))
    ahead = shape[:-2] if rng.random() < 0.7 else (1,) * (len(shape) - 2)
    dtype = (DType.INT32, DType.INT64)[pick(rng, 0, 1)]
    kind = TensorType((*ahead, count, (1, shape[-1])[pick(rng, 0, 1)]), dtype)
    data = rng.integers(-shape[-2] - 2, shape[-2] + 2, kind.shape, dtype.numpy)
    elements = (DType.FLOAT32, DType.INT8, DType.INT32)[pick(rng, 0, 1, 2)]
    if op_class is ops.Gather:
        return graph_of(op_class, [TensorType(shape, elements), (kind, data)], elements)
    write = (lambda a, b: b.cast(elements), lambda a, b: a + b, lambda a, b: (a < b).select(b, a))[pick(rng, 0, 1, 2)]
    updates = TensorType((*shape[:-2], count, shape[-1]), elements)
    read = formula(write, elements, elements)
    return graph_of(op_class, [TensorType(shape, elements), (kind, data), updates], elements, formula=read.text)


def _rfft(rng: Rng) -> Graph:
    length = 1 << int(rng.integers(3, 10))
    samples = int(rng.integers(1, length, endpoint=True))
    return graph_of(ops.Rfft, [TensorType((samples,), DType.INT16)], DType.INT16, length=length)


def _filter_bank(rng: Rng) -> Graph:
    bins, bands = int(rng.integers(4, 40)), int(rng.integers(2, 9))
    widths = rng.integers(0, 5, bands)
    starts, places = rng.integers(0, bins - 4, bands, endpoint=True), np.cumsum(widths) - widths
    weights = rng.integers(0, 2**15, (2, max(1, widths.sum())))
    constants = [each.astype(np.int16) for each in (*weights, starts, places, widths)]
    kinds = [(TensorType(each.shape, DType.INT16), each) for each in constants]
    return graph_of(ops.FilterBank, [TensorType((bins,), DType.UINT32), *kinds], DType.UINT64)


def _suppress(rng: Rng) -> Graph:
    classes, boxes = pick(rng, 1, 2, 5), int(rng.integers(1, 40))
    kinds = [TensorType((classes, 1, boxes), DType.FLOAT32), TensorType((boxes, 4), DType.FLOAT32)]
    least, overlap = float32(rng.uniform(-2, 1)), float32(rng.uniform(0.01, 0.6))
    count = int(rng.integers(1, 12))
    return graph_of(ops.Suppress, kinds, DType.INT32, count=count, overlap=overlap, least=least)


def _slide(rng: Rng) -> Graph:
    dtype = (DType.INT8, DType.INT16, DType.FLOAT32)[pick(rng, 0, 1, 2)]
    window = int(rng.integers(2, 30))
    new = int(rng.integers(1, window))
    return graph_of(ops.Slide, [TensorType((1, window), dtype), TensorType((1, new), dtype)], dtype)


def _relabel(rng: Rng) -> Graph:
    kind = TensorType(dims(rng, 3), DType.INT8)
    return graph_of(ops.Relabel, [kind], TensorType((), DType.INT8, Quant((0.5,), (3,))))


_MAKERS: dict[type[Op], Callable[[Rng], Graph]] = {
    **{c: _of(_conv, c) for c in (ops.Conv2d, ops.DepthwiseConv2d)},
    ops.TransposeConv2d: _transpose_conv,
    ops.Dense: _dense,
    **{c: _of(_binary, c) for c in (ops.Add, ops.Sub, ops.Mul, ops.Maximum, ops.Minimum)},
    ops.Prelu: _prelu,
    **{c: _of(_unary, c) for c in (ops.Logistic, ops.Tanh, ops.HardSwish, ops.Relu, ops.Relu6, ops.LeakyRelu)},
    **{c: _of(_table, c) for c in TABLES},
    ops.Table: _any_table,
    ops.Requantize: _requantize,
    ops.Quantize: _quantize,
    ops.Dequantize: _dequantize,
    **{c: _of(_pool, c) for c in (ops.AveragePool2d, ops.MaxPool2d)},
    ops.Mean: _mean,
    ops.Softmax: _softmax,
    **{c: _of(_resize, c) for c in (ops.ResizeNearest, ops.ResizeBilinear)},
    ops.Reshape: _reshape,
    ops.Pad: _pad,
    ops.Concat: _concat,
    ops.InsertSlice: _insert,
    ops.Slice: _slice,
    ops.Transpose: _transpose,
    ops.PickChannels: _pick_channels,
    **{c: _of(_partial, c) for c in (ops.FirstPartial, ops.NextPartial)},
    ops.Rescale: _rescale,
    ops.SumPool: _sum_pool,
    ops.RunningMax: _running_max,
    ops.SumDense: _sum_dense,
    ops.Average: _average,
    ops.Map: _map,
    **{c: _of(_along_columns, c) for c in (ops.Reduce, ops.Scan, ops.TopIndices)},
    ops.MatMul: _matmul,
    ops.Lstm: _lstm,
    ops.Recurrence: _recurrence,
    **{c: _of(_svdf, c) for c in (ops.SvdfState, ops.SvdfSum)},
    ops.Rfft: _rfft,
    ops.FilterBank: _filter_bank,
    ops.Suppress: _suppress,
    ops.Slide: _slide,
    ops.Relabel: _relabel,
    **{c: _of(_indexed, c) for c in (ops.Gather, ops.Scatter)},
}
