"""Small graphs, mostly of one op each, whose shapes cover all features of each kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from bench.micro_graph import NONE, SAME, Rng, graph_of, s8
from bench.micro_linear import convs, dense, depthwise, partials, ragged_convs, transpose_convs
from shoehorn_mcu import ops
from shoehorn_mcu.ir import DType, Graph, Op, Quant, TensorType

SHAPES = ((1, 4, 6, 8), (1, 3, 3, 32), (1, 6, 1, 5), (1, 1, 1, 100), (1, 2, 10, 3), (1, 5, 4, 17))


def _binary(op_class: type[Op], scales: tuple[float, ...] = (0.02, 0.05, 0.2, 4.0)) -> Iterator[Graph]:
    for i, shape in enumerate(SHAPES):
        other = shape if i % 3 else (1, 1, 1, shape[3])
        second = (0.05, 0.02, 0.3)[i // 2]  # of unequal scales one operand is shifted
        y = s8(scale=scales[i % len(scales)])
        yield graph_of(op_class, [s8(*shape), s8(*other, scale=0.05 if len(scales) == 1 else second)], y)


def binary(rng: Rng) -> Iterator[Graph]:
    """Two operands, one of them repeated in some, or a constant of one value per channel."""
    for op_class in (ops.Add, ops.Mul):
        yield from _binary(op_class)
        for shape in SHAPES:
            one = s8(1, 1, 1, shape[3], scale=0.02)
            constant = one, rng.integers(-127, 127, one.shape, np.int8)
            yield graph_of(op_class, [s8(*shape), constant], s8(scale=0.05))
    for op_class in (ops.Maximum, ops.Minimum):
        yield from _binary(op_class, (0.05,))


def prelu(rng: Rng) -> Iterator[Graph]:
    """PReLU with constant slopes."""
    for shape in SHAPES:
        alpha = TensorType((1, 1, shape[3]), DType.INT8, Quant((0.01,), (0,)))
        slopes = rng.integers(-127, 127, alpha.shape, np.int8)
        yield graph_of(ops.Prelu, [s8(*shape), (alpha, slopes)], s8(scale=0.06))


def unary(rng: Rng) -> Iterator[Graph]:
    """Table ops, and conversions from and to float32."""
    del rng
    for shape in SHAPES:
        yield graph_of(ops.Tanh, [s8(*shape)], TensorType((), DType.INT8, Quant((1 / 128,), (0,))))
        yield graph_of(ops.Quantize, [TensorType(shape, DType.FLOAT32)], s8(scale=0.05))
        yield graph_of(ops.Dequantize, [s8(*shape)], DType.FLOAT32)


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
    (4, 8, 4, 2, 2, NONE),
    (4, 5, 12, 3, 1, SAME),
    (2, 6, 20, 2, 1, NONE),
)


def pools(rng: Rng) -> Iterator[Graph]:
    """Average and maximum."""
    del rng
    for h, w, c, k, stride, pad in POOLS:
        for op_class in (ops.AveragePool2d, ops.MaxPool2d):
            yield graph_of(op_class, [s8(1, h, w, c)], s8(), kernel=(k, k), stride=(stride, stride), padding=pad)


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
        yield graph_of(ops.Mean, [s8(*shape)], s8(scale=0.04), axes=axes, keep_dims=False)


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
        yield graph_of(ops.Softmax, [s8(*shape, scale=scale)], to, beta=1.0)


def resizes(rng: Rng) -> Iterator[Graph]:
    """Both kinds."""
    del rng
    for h, w, c, size in (
        (3, 3, 8, (6, 6)),
        (2, 5, 16, (4, 10)),
        (4, 4, 3, (8, 8)),
        (3, 2, 50, (6, 4)),
        (1, 1, 20, (3, 3)),
        (1, 20, 8, (2, 40)),
        (1, 10, 16, (3, 20)),
        (2, 12, 4, (4, 24)),
        (1, 5, 32, (2, 10)),
    ):
        for op_class in (ops.ResizeNearest, ops.ResizeBilinear):
            yield graph_of(op_class, [s8(1, h, w, c)], s8(), size=size, align_corners=False, half_pixel_centers=False)


def layouts(rng: Rng) -> Iterator[Graph]:
    """Ops that only move elements."""
    del rng
    for c in (1, 4, 7, 16, 45):
        x, other = s8(1, 4, 5, c), s8(1, 4, 5, c + 4)
        yield graph_of(ops.Pad, [x], s8(), before=(0, 1, 1, 0), after=(0, 1, 2, 0), value=3)
        yield graph_of(ops.Pad, [x], s8(), before=(0, 0, 0, 0), after=(0, 0, 0, 4), value=3)
        yield graph_of(ops.Concat, [x, other], s8(), axis=3)
        yield graph_of(ops.Concat, [x, x], s8(), axis=1)
        yield graph_of(ops.Concat, [x, x, x], s8(), axis=2)
        yield graph_of(ops.Slice, [x], s8(), begin=(0, 1, 1, 0), size=(1, 2, 3, c), step=(1, 1, 1, 1))
        yield graph_of(ops.Slice, [other], s8(), begin=(0, 0, 0, 1), size=(1, 4, 5, c), step=(1, 1, 1, 1))
        yield graph_of(ops.Transpose, [x], s8(), perm=(0, 2, 1, 3))
        yield graph_of(ops.Transpose, [x], s8(), perm=(0, 3, 1, 2))


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
    ragged_convs,
)
