"""Small graphs, mostly of one op each, whose shapes span what each kernel does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from generator import ops
from generator.ir import Array, DType, Graph, Op, Quant, Tensor, TensorType, verify

Rng = np.random.Generator
Operand = TensorType | tuple[TensorType, Array]
ONE = Quant((0.05,), (3,))
NONE, SAME = ops.Padding(), ops.Padding(1, 1, 1, 1)


def s8(*shape: int, scale: float = 0.05) -> TensorType:
    """int8 with a zero point that is not 0."""
    return TensorType(shape, DType.INT8, Quant((scale,), (3,)))


def _linear(rng: Rng, x: TensorType, shape: tuple[int, ...], outputs: int, finer: bool = False) -> list[Operand]:
    """x, weights and bias; `finer`: an output scale so small that roundings shift to the left."""
    scale = 9.0 if finer else 0.01
    weights = TensorType(shape, DType.INT8, Quant((scale,), (0,)))
    bias = TensorType((outputs,), DType.INT32, Quant((scale * 0.05,), (0,)))
    return [
        x,
        (weights, rng.integers(-127, 127, shape, np.int8, endpoint=True)),
        (bias, rng.integers(-900, 900, outputs, np.int32)),
    ]


def _graph(op_class: type[Op], operands: Sequence[Operand], output: TensorType | DType, **attributes: object) -> Graph:
    tensors = [
        Tensor(f"x{i}", each[0], each[1]) if isinstance(each, tuple) else Tensor(f"x{i}", each)
        for i, each in enumerate(operands)
    ]
    op = op_class(name="op", inputs=tuple(t.name for t in tensors), output="y", **attributes)  # type: ignore[arg-type]
    kind = output if isinstance(output, TensorType) else TensorType((), output)
    y = Tensor("y", replace(kind, shape=op.infer(tuple(t.type for t in tensors))))
    variables = tuple(t.name for t in tensors if t.data is None)
    return verify(Graph("micro", {t.name: t for t in (*tensors, y)}, (op,), variables, ("y",)))


# height, width, channels in, out, kernel, stride, padding, dilation, groups
CONVS = (
    (5, 5, 3, 8, 3, 1, SAME, 1, 1),
    (6, 6, 8, 16, 3, 2, SAME, 1, 1),
    (4, 4, 16, 8, 1, 1, NONE, 1, 1),
    (3, 3, 64, 24, 1, 1, NONE, 1, 1),
    (2, 3, 33, 5, 1, 1, NONE, 1, 1),
    (1, 1, 100, 40, 1, 1, NONE, 1, 1),
    (4, 4, 7, 4, 3, 1, SAME, 1, 1),
    (3, 9, 12, 4, 3, 1, NONE, 1, 1),
    (7, 7, 2, 6, 5, 2, ops.Padding(2, 2, 2, 2), 1, 1),
    (6, 6, 4, 4, 3, 1, ops.Padding(2, 2, 2, 2), 2, 1),
    (4, 4, 16, 16, 3, 1, SAME, 1, 4),
    (4, 4, 12, 12, 1, 1, NONE, 1, 3),
    (12, 3, 1, 8, 8, 2, ops.Padding(3, 3, 0, 0), 1, 1),
    (2, 2, 1, 30, 1, 1, NONE, 1, 1),
    (3, 3, 40, 9, 3, 1, SAME, 1, 1),
    (1, 20, 40, 16, 1, 1, NONE, 1, 1),
)


def convs(rng: Rng) -> Iterator[Graph]:
    """Conv2d."""
    for i, (h, w, c, o, k, stride, pad, dilation, groups) in enumerate(CONVS):
        across = min(k, w + pad.left + pad.right)
        yield _graph(
            ops.Conv2d,
            _linear(rng, s8(1, h, w, c), (o, k, across, c // groups), o, finer=i in (3, 6)),
            s8(scale=0.5),
            stride=(stride, stride),
            dilation=(dilation, dilation),
            padding=pad,
        )


# height, width, channels, multiplier, kernel, stride, padding
DEPTHWISE = (
    (5, 5, 8, 1, 3, 1, SAME),
    (6, 6, 16, 1, 3, 2, SAME),
    (4, 4, 24, 1, 3, 1, NONE),
    (5, 5, 40, 1, 3, 1, SAME),
    (3, 3, 67, 1, 3, 1, SAME),
    (6, 6, 3, 1, 5, 1, ops.Padding(2, 2, 2, 2)),
    (7, 7, 20, 1, 5, 2, ops.Padding(2, 2, 2, 2)),
    (4, 4, 1, 8, 3, 1, SAME),
    (4, 4, 5, 4, 3, 2, SAME),
    (8, 3, 32, 1, 7, 1, ops.Padding(0, 0, 3, 3)),
    (3, 12, 17, 1, 1, 1, NONE),
    (2, 2, 100, 1, 2, 1, NONE),
    (10, 4, 1, 12, 8, 2, ops.Padding(3, 4, 1, 2)),
)


def depthwise(rng: Rng) -> Iterator[Graph]:
    """DepthwiseConv2d."""
    for i, (h, w, c, m, k, stride, pad) in enumerate(DEPTHWISE):
        across = min(k, w + pad.left + pad.right)
        yield _graph(
            ops.DepthwiseConv2d,
            _linear(rng, s8(1, h, w, c), (1, k, across, c * m), c * m, finer=i in (2, 10)),
            s8(scale=0.5),
            stride=(stride, stride),
            padding=pad,
        )


# height, width, channels in, out, kernel, stride, before
TRANSPOSES = (
    (3, 3, 8, 4, 2, 2, 0),
    (3, 4, 16, 8, 3, 2, 0),
    (2, 2, 5, 7, 3, 1, 1),
    (4, 2, 33, 3, 4, 2, 1),
    (2, 3, 3, 12, 3, 3, 0),
    (3, 3, 21, 2, 5, 2, 2),
)


def transpose_convs(rng: Rng) -> Iterator[Graph]:
    """TransposeConv2d."""
    for h, w, c, o, k, stride, before in TRANSPOSES:
        size = [(n - 1) * stride + k - 2 * before for n in (h, w)]
        yield _graph(
            ops.TransposeConv2d,
            _linear(rng, s8(1, h, w, c), (o, k, k, c), o),
            s8(scale=0.5),
            stride=(stride, stride),
            padding=ops.Padding(before, before, before, before),
            output_shape=(1, *size, o),
        )


def dense(rng: Rng) -> Iterator[Graph]:
    """Dense, one vector and several in a row."""
    for shape, outputs in (
        ((1, 8), 10),
        ((1, 64), 12),
        ((1, 250), 3),
        ((1, 37), 20),
        ((1, 3), 30),
        ((1, 128), 16),
        ((6, 12), 9),
        ((1, 1, 5, 20), 6),
        ((1, 14), 11),
    ):
        yield _graph(ops.Dense, _linear(rng, s8(*shape), (outputs, shape[-1]), outputs), s8(scale=0.5))


SHAPES = ((1, 4, 6, 8), (1, 3, 3, 32), (1, 6, 1, 5), (1, 1, 1, 100), (1, 2, 10, 3), (1, 5, 4, 17))


def _binary(op_class: type[Op], scales: tuple[float, ...] = (0.02, 0.05, 0.2, 4.0)) -> Iterator[Graph]:
    for i, shape in enumerate(SHAPES):
        other = shape if i % 3 else (1, 1, 1, shape[3])
        second = (0.05, 0.02, 0.3)[i // 2]  # of unequal scales one operand is shifted
        y = s8(scale=scales[i % len(scales)])
        yield _graph(op_class, [s8(*shape), s8(*other, scale=0.05 if len(scales) == 1 else second)], y)


def binary(rng: Rng) -> Iterator[Graph]:
    """Two operands, one of them repeated in some."""
    del rng
    for op_class in (ops.Add, ops.Mul):
        yield from _binary(op_class)
    for op_class in (ops.Maximum, ops.Minimum):
        yield from _binary(op_class, (0.05,))


def prelu(rng: Rng) -> Iterator[Graph]:
    """PReLU with constant slopes."""
    for shape in SHAPES:
        alpha = TensorType((1, 1, shape[3]), DType.INT8, Quant((0.01,), (0,)))
        slopes = rng.integers(-127, 127, alpha.shape, np.int8)
        yield _graph(ops.Prelu, [s8(*shape), (alpha, slopes)], s8(scale=0.06))


def unary(rng: Rng) -> Iterator[Graph]:
    """Tables, and float32 at the ends."""
    del rng
    for shape in SHAPES:
        yield _graph(ops.Tanh, [s8(*shape)], TensorType((), DType.INT8, Quant((1 / 128,), (0,))))
        yield _graph(ops.Quantize, [TensorType(shape, DType.FLOAT32)], s8(scale=0.05))
        yield _graph(ops.Dequantize, [s8(*shape)], DType.FLOAT32)


# height, width, channels, kernel, stride, padding
POOLS = (
    (6, 6, 8, 2, 2, NONE),
    (5, 5, 16, 3, 1, SAME),
    (4, 4, 40, 3, 2, SAME),
    (3, 3, 100, 3, 1, NONE),
    (6, 6, 3, 3, 2, SAME),
    (8, 4, 17, 2, 2, NONE),
    (7, 7, 32, 5, 2, ops.Padding(2, 2, 2, 2)),
    (4, 4, 60, 4, 1, NONE),
)


def pools(rng: Rng) -> Iterator[Graph]:
    """Average and maximum."""
    del rng
    for h, w, c, k, stride, pad in POOLS:
        for op_class in (ops.AveragePool2d, ops.MaxPool2d):
            yield _graph(op_class, [s8(1, h, w, c)], s8(), kernel=(k, k), stride=(stride, stride), padding=pad)


def means(rng: Rng) -> Iterator[Graph]:
    """Means over height and width, and over others."""
    del rng
    for shape, axes in (
        ((1, 4, 4, 32), (1, 2)),
        ((1, 7, 7, 10), (1, 2)),
        ((1, 3, 5, 64), (1, 2)),
        ((1, 6, 4, 9), (3,)),
        ((1, 4, 8, 5), (2,)),
        ((1, 2, 2, 100), (1, 2)),
        ((1, 9, 1, 20), (1, 2)),
        ((4, 40), (1,)),
    ):
        yield _graph(ops.Mean, [s8(*shape)], s8(scale=0.04), axes=axes, keep_dims=False)


def softmaxes(rng: Rng) -> Iterator[Graph]:
    """Vectors, at scales that let few or all elements count."""
    del rng
    to = TensorType((), DType.INT8, Quant((1 / 256,), (-128,)))
    for shape, scale in (
        ((1, 10), 0.1),
        ((1, 2), 0.05),
        ((1, 100), 0.02),
        ((4, 12), 0.3),
        ((1, 35), 0.15),
        ((3, 3), 1),
    ):
        yield _graph(ops.Softmax, [s8(*shape, scale=scale)], to, beta=1.0)


def resizes(rng: Rng) -> Iterator[Graph]:
    """Both kinds."""
    del rng
    for h, w, c, size in (
        (3, 3, 8, (6, 6)),
        (2, 5, 16, (4, 10)),
        (4, 4, 3, (8, 8)),
        (3, 2, 50, (6, 4)),
        (1, 1, 20, (3, 3)),
    ):
        for op_class in (ops.ResizeNearest, ops.ResizeBilinear):
            yield _graph(op_class, [s8(1, h, w, c)], s8(), size=size, align_corners=False, half_pixel_centers=False)


def layouts(rng: Rng) -> Iterator[Graph]:
    """What only moves elements."""
    del rng
    for c in (1, 4, 7, 16, 45):
        x, other = s8(1, 4, 5, c), s8(1, 4, 5, c + 4)
        yield _graph(ops.Pad, [x], s8(), before=(0, 1, 1, 0), after=(0, 1, 2, 0), value=3)
        yield _graph(ops.Pad, [x], s8(), before=(0, 0, 0, 0), after=(0, 0, 0, 4), value=3)
        yield _graph(ops.Concat, [x, other], s8(), axis=3)
        yield _graph(ops.Concat, [x, x], s8(), axis=1)
        yield _graph(ops.Concat, [x, x, x], s8(), axis=2)
        yield _graph(ops.Slice, [x], s8(), begin=(0, 1, 1, 0), size=(1, 2, 3, c), step=(1, 1, 1, 1))
        yield _graph(ops.Slice, [other], s8(), begin=(0, 0, 0, 1), size=(1, 4, 5, c), step=(1, 1, 1, 1))
        yield _graph(ops.Transpose, [x], s8(), perm=(0, 2, 1, 3))
        yield _graph(ops.Transpose, [x], s8(), perm=(0, 3, 1, 2))


def partials(rng: Rng) -> Iterator[Graph]:
    """Sums in two parts, and their rescale."""
    for h, w, c, o, k, pad in (
        (3, 3, 8, 12, 1, NONE),
        (2, 4, 32, 5, 1, NONE),
        (4, 4, 5, 8, 3, SAME),
        (1, 1, 70, 30, 1, NONE),
        (3, 3, 16, 7, 3, SAME),
        (2, 2, 3, 40, 1, NONE),
    ):
        yield _in_parts(rng, s8(1, h, w, c), (o, k, k, c), pad)


def _in_parts(rng: Rng, x: TensorType, shape: tuple[int, ...], pad: ops.Padding) -> Graph:
    outputs = shape[0]
    scales = rng.integers(1 << 30, 1 << 31, outputs).astype(np.int32), np.full(outputs, -9, np.int8)
    constants: dict[str, Array] = {
        "start": rng.integers(-900, 900, outputs, np.int32),
        "multipliers": scales[0],
        "shifts": scales[1],
    }
    tensors = {n: Tensor(n, TensorType((outputs,), DType(v.dtype.name)), v) for n, v in constants.items()}
    for name in ("first", "next"):
        kind = TensorType(shape, DType.INT8, Quant((0.01,), (0,)))
        tensors[f"{name}_weights"] = Tensor(
            f"{name}_weights", kind, rng.integers(-127, 127, shape, np.int8, endpoint=True)
        )
    chain = (
        ops.FirstPartial(name="first", inputs=("x", "first_weights", "start"), output="a", padding=pad),
        ops.NextPartial(name="next", inputs=("x", "a", "next_weights"), output="b", padding=pad),
        ops.Rescale(name="rescale", inputs=("b", "multipliers", "shifts"), output="y"),
    )
    tensors["x"] = Tensor("x", x)
    for op in chain:
        made = op.infer(tuple(tensors[n].type for n in op.inputs))
        kind = TensorType(made, DType.INT32) if op.output != "y" else s8(*made, scale=0.5)
        tensors[op.output] = Tensor(op.output, kind)
    return verify(Graph("micro", tensors, chain, ("x",), ("y",)))


FAMILIES: tuple[Callable[[Rng], Iterator[Graph]], ...] = (
    convs,
    depthwise,
    transpose_convs,
    dense,
    binary,
    prelu,
    unary,
    pools,
    means,
    softmaxes,
    resizes,
    layouts,
    partials,
)
