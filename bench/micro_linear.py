"""Small graphs of one linear op each, or of one in parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from bench.micro_graph import NONE, SAME, Operand, Rng, graph_of, s8
from shoehorn_mcu import ops
from shoehorn_mcu.ir import Array, DType, Graph, Quant, Tensor, TensorType, verify


def linear(rng: Rng, x: TensorType, shape: tuple[int, ...], outputs: int, finer: bool = False) -> list[Operand]:
    """x, weights and bias; `finer`: an output scale so small that roundings shift to the left."""
    scale = 9.0 if finer else 0.01
    weights = TensorType(shape, DType.INT8, Quant((scale,), (0,)))
    bias = TensorType((outputs,), DType.INT32, Quant((scale * 0.05,), (0,)))
    return [
        x,
        (weights, rng.integers(-127, 127, shape, np.int8, endpoint=True)),
        (bias, rng.integers(-900, 900, outputs, np.int32)),
    ]


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
    (1, 14, 16, 24, 1, 1, NONE, 1, 1),
    (2, 4, 20, 14, 1, 1, NONE, 1, 1),
    (1, 6, 160, 8, 1, 1, NONE, 1, 1),
    (4, 6, 4, 8, 3, 2, ops.Padding(0, 1, 0, 1), 1, 1),
    (9, 10, 1, 16, 4, 2, ops.Padding(1, 1, 1, 1), 1, 1),
    (6, 7, 1, 8, 3, 1, SAME, 1, 1),
    (1, 20, 4, 1, 1, 1, NONE, 1, 1),
    (1, 11, 8, 2, 1, 1, NONE, 1, 1),
    (2, 9, 20, 3, 1, 1, NONE, 1, 1),
    (3, 5, 6, 7, 3, 1, SAME, 1, 1),
    (3, 6, 9, 2, 3, 1, SAME, 1, 1),
    (2, 8, 24, 1, 1, 1, NONE, 1, 1),
)


RAGGED_CONVS = (  # whose inner loops are no multiples of 4, nor of a vector
    (6, 6, 3, 8, 5, 1, ops.Padding(2, 2, 2, 2), 1, 1),
    (4, 7, 5, 4, 3, 1, SAME, 1, 1),
    (1, 6, 11, 8, 1, 1, NONE, 1, 1),
    (1, 6, 14, 4, 1, 1, NONE, 1, 1),
    (1, 5, 15, 12, 1, 1, NONE, 1, 1),
    (1, 5, 22, 8, 1, 1, NONE, 1, 1),
    (1, 5, 29, 4, 1, 1, NONE, 1, 1),
)


# inputs, outputs and positions of dense layers for packed kernels
VECTORS = (
    *((640, 8, 1), (128, 128, 1), (8, 128, 1), (64, 10, 1), (128, 9, 1), (256, 2, 1)),
    *((4, 4, 3), (5, 4, 4), (6, 5, 1), (7, 3, 2), (13, 16, 1), (20, 12, 2), (90, 1, 1), (150, 2, 1), (250, 3, 1)),
)


def packed_dense(rng: Rng, rows: int) -> Iterator[Graph]:
    """Dense layers over the positions of so many rows."""
    for number, (inputs, outputs, positions) in enumerate(VECTORS):
        clamp = ops.Clamp(-128, 100) if number % 4 == 3 else ops.Clamp()
        operands = linear(rng, s8(1, rows, positions, inputs), (outputs, inputs), outputs)
        yield graph_of(ops.Dense, operands, s8(scale=0.5), clamp=clamp)


# channels in, out, and width, of 1x1 convolutions: those of models, then what tells the features apart
POINTWISE = (
    *((8, 16, 24), (16, 32, 24), (32, 32, 12), (64, 64, 5), (64, 64, 12), (60, 64, 12), (128, 128, 3), (96, 24, 14)),
    *(
        (8, 16, 23),
        (4, 4, 1),
        (4, 4, 9),
        (5, 4, 8),
        (6, 5, 7),
        (7, 3, 6),
        (9, 1, 5),
        (12, 2, 4),
        (13, 8, 3),
        (16, 8, 1),
    ),
    *((17, 9, 2), (33, 12, 9), (20, 20, 10), (24, 7, 2), (40, 4, 15), (10, 6, 1), (256, 8, 2), (255, 8, 3), (4, 64, 1)),
    *((320, 8, 5), (301, 4, 2), (48, 20, 7), (160, 12, 7), (24, 24, 3), (92, 6, 5)),
)


def one_sided(number: int) -> tuple[TensorType, ops.Clamp]:
    """Outputs without values below their zero point, for kernels that round upwards; every fourth with a clamp."""
    return (s8(scale=0.5, zero=-20), ops.Clamp(-20, 90)) if number % 4 == 3 else (s8(scale=0.5, zero=-128), ops.Clamp())


def pointwise(rng: Rng, rows: int) -> Iterator[Graph]:
    """1x1 Conv2d of so many rows, for variants that compute no others."""
    for number, (c, o, w) in enumerate(POINTWISE):
        made = linear(rng, s8(1, rows, w, c), (o, 1, 1, c), o)
        y, clamp = one_sided(number)
        yield graph_of(ops.Conv2d, made, y, stride=(1, 1), dilation=(1, 1), padding=NONE, clamp=clamp)


# channels in, out, width, kernel's height and width, stride, dilation
WindowShape = tuple[int, int, int, int, int, int, int]

WINDOWS = (
    *((3, 8, 24, 3, 3, 2, 1), (3, 16, 17, 3, 3, 1, 1), (1, 64, 10, 10, 4, 2, 1), (16, 16, 16, 3, 3, 1, 1)),
    *((16, 32, 9, 3, 3, 2, 1), (32, 32, 8, 3, 3, 1, 1), (64, 16, 7, 3, 3, 1, 1), (4, 8, 9, 3, 3, 1, 1)),
    *((8, 8, 12, 3, 3, 1, 1), (12, 5, 5, 3, 3, 1, 1), (20, 4, 6, 2, 2, 1, 1), (6, 20, 7, 5, 5, 1, 1)),
    *((13, 9, 6, 3, 3, 1, 1), (8, 12, 5, 5, 5, 1, 1), (24, 4, 11, 1, 3, 1, 1), (7, 4, 10, 3, 1, 1, 1)),
    *((2, 6, 9, 5, 5, 1, 1), (1, 12, 20, 3, 3, 1, 1), (1, 3, 20, 8, 8, 2, 1), (5, 24, 6, 3, 3, 1, 2)),
    *((16, 8, 1, 3, 3, 1, 1), (3, 4, 1, 3, 3, 1, 1), (40, 8, 3, 3, 3, 1, 1), (4, 16, 30, 1, 5, 1, 1)),
    *((9, 2, 25, 3, 3, 2, 1), (2, 1, 12, 7, 3, 1, 1), (20, 7, 8, 3, 3, 1, 3), (17, 4, 3, 5, 5, 1, 1)),
)
LATER_WINDOWS = (
    *((1, 8, 40, 5, 8, 2, 1), (1, 16, 28, 5, 5, 1, 1), (3, 12, 20, 5, 5, 2, 1), (2, 8, 30, 3, 5, 1, 1)),
    *((10, 10, 14, 3, 3, 1, 1), (32, 12, 6, 3, 3, 1, 1), (5, 8, 16, 3, 3, 2, 1)),
)
LARGE_WINDOWS = (
    *((64, 64, 8, 3, 3, 1, 1), (64, 8, 5, 3, 3, 2, 1), (36, 40, 9, 3, 3, 1, 1), (33, 12, 5, 3, 3, 1, 1)),
    *((16, 16, 6, 5, 5, 1, 1), (48, 4, 7, 3, 3, 2, 1), (80, 20, 4, 2, 2, 1, 1), (40, 1, 12, 3, 3, 1, 2)),
    *((20, 32, 1, 5, 3, 1, 1), (62, 3, 9, 3, 3, 1, 1), (100, 16, 10, 3, 1, 1, 1), (300, 4, 6, 2, 1, 1, 1)),
)
# Sums that need more than 24 bits
LONG_WINDOWS = (
    *((60, 76, 4, 10, 4, 1, 1), (60, 8, 5, 10, 4, 1, 1), (129, 12, 6, 3, 3, 1, 1), (48, 16, 3, 7, 7, 1, 1)),
    *((160, 4, 8, 5, 2, 2, 1), (100, 40, 5, 4, 3, 1, 1), (110, 6, 12, 4, 3, 1, 1), (240, 24, 2, 6, 1, 1, 1)),
)
# Windows of three columns and a stride of 1: those of models, then what tells the features of Toom-Cook's kernels apart
THREE_COLUMNS = (
    *((16, 16, 32, 3, 3, 1, 1), (32, 32, 16, 3, 3, 1, 1), (64, 64, 8, 3, 3, 1, 1), (16, 32, 24, 3, 3, 1, 1)),
    *((8, 4, 8, 3, 3, 1, 1), (8, 16, 40, 3, 3, 1, 1), (4, 8, 33, 3, 3, 1, 1), (5, 12, 23, 3, 3, 1, 1)),
    *((24, 8, 16, 1, 3, 1, 1), (20, 6, 13, 5, 3, 1, 1), (12, 40, 10, 3, 3, 1, 1), (40, 5, 7, 3, 3, 1, 1)),
    *((16, 9, 9, 2, 3, 1, 1), (48, 20, 15, 1, 3, 1, 1), (4, 64, 12, 1, 3, 1, 1), (96, 4, 4, 3, 3, 1, 1)),
    *((10, 24, 31, 1, 3, 1, 1), (28, 12, 19, 3, 3, 1, 1), (7, 7, 48, 2, 3, 1, 1), (33, 16, 6, 3, 3, 1, 1)),
)
# The same on maps of a few columns, which models have in front of their last pool
FEW_COLUMNS = (
    *((36, 36, 4, 3, 3, 1, 1), (24, 16, 4, 3, 3, 1, 1), (16, 32, 4, 3, 3, 1, 1), (48, 12, 3, 3, 3, 1, 1)),
    *((28, 28, 8, 3, 3, 1, 1), (64, 24, 4, 3, 3, 1, 1), (12, 20, 5, 3, 3, 1, 1), (8, 48, 2, 3, 3, 1, 1)),
)
# Windows of three columns and a stride of 2, for the kernels that save products there
STRIDED_COLUMNS = (
    *((16, 32, 32, 3, 3, 2, 1), (32, 64, 16, 3, 3, 2, 1), (64, 32, 8, 3, 3, 2, 1), (8, 4, 15, 3, 3, 2, 1)),
    *((4, 8, 33, 3, 3, 2, 1), (5, 12, 23, 3, 3, 2, 1), (24, 8, 16, 1, 3, 2, 1), (20, 6, 13, 5, 3, 2, 1)),
    *((12, 40, 10, 3, 3, 2, 1), (40, 5, 7, 3, 3, 2, 1), (48, 20, 31, 1, 3, 2, 1), (4, 64, 24, 3, 3, 2, 1)),
    *((28, 12, 19, 3, 3, 2, 1), (7, 7, 48, 2, 3, 2, 1), (33, 16, 6, 3, 3, 2, 1), (8, 48, 40, 3, 3, 2, 1)),
    *((16, 9, 9, 3, 3, 2, 1), (96, 4, 4, 3, 3, 2, 1), (10, 24, 31, 3, 3, 2, 1), (12, 16, 3, 3, 3, 2, 1)),
)
# Small images, most of whose windows reach into the padding
SMALL_IMAGES = (
    *((1, 8, 8, 5, 5, 2, 1), (1, 16, 8, 3, 3, 1, 1), (1, 4, 10, 5, 5, 1, 1), (2, 8, 8, 5, 5, 2, 1)),
    *((1, 12, 12, 7, 5, 1, 1), (3, 4, 6, 3, 3, 1, 1), (4, 8, 5, 3, 3, 2, 1), (8, 4, 8, 3, 3, 2, 1)),
)
# Windows of few channels, most of whose work is their copies
COPIED_WINDOWS = (
    *((1, 8, 36, 9, 8, 2, 1), (1, 4, 30, 11, 6, 1, 1), (1, 12, 25, 4, 12, 3, 1), (2, 4, 24, 9, 7, 2, 1)),
    *((1, 8, 17, 8, 3, 1, 1), (4, 8, 20, 5, 6, 2, 1), (2, 4, 33, 1, 16, 1, 1), (1, 4, 48, 3, 20, 2, 1)),
)


def windows(rng: Rng, rows: int, shapes: Iterable[WindowShape] = WINDOWS) -> Iterator[Graph]:
    """Conv2d of so many rows, for variants that compute no 1x1."""
    for number, (c, o, w, height, width, stride, dilation) in enumerate(shapes):
        made = linear(rng, s8(1, rows, w, c), (o, height, width, c), o)
        up, left = (height - 1) * dilation // 2, (width - 1) * dilation // 2
        y, clamp = one_sided(number)
        yield graph_of(
            ops.Conv2d,
            made,
            y,
            stride=(stride, stride),
            dilation=(dilation, dilation),
            padding=ops.Padding(up, (height - 1) * dilation - up, left, (width - 1) * dilation - left),
            clamp=clamp,
        )


def convs(rng: Rng) -> Iterator[Graph]:
    """Conv2d."""
    yield from _convs(rng, CONVS)


def ragged_convs(rng: Rng) -> Iterator[Graph]:
    """Conv2d with inner loops of odd lengths."""
    yield from _convs(rng, RAGGED_CONVS)


def _convs(rng: Rng, shapes: Sequence[tuple[int, int, int, int, int, int, ops.Padding, int, int]]) -> Iterator[Graph]:
    for i, (h, w, c, o, k, stride, pad, dilation, groups) in enumerate(shapes):
        across = min(k, w + pad.left + pad.right)
        yield graph_of(
            ops.Conv2d,
            linear(rng, s8(1, h, w, c), (o, k, across, c // groups), o, finer=i in (3, 6)),
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
    (5, 6, 12, 1, 3, 1, SAME),
    (4, 9, 4, 1, 3, 2, SAME),
    (3, 5, 64, 1, 3, 1, NONE),
    (3, 4, 30, 1, 5, 1, ops.Padding(2, 2, 2, 2)),
    (8, 9, 1, 8, 8, 2, ops.Padding(3, 4, 3, 4)),
    (4, 7, 2, 3, 5, 1, ops.Padding(2, 2, 2, 2)),
    (4, 8, 3, 1, 3, 1, SAME),
    (3, 9, 2, 1, 1, 1, NONE),
    (16, 20, 1, 4, 8, 2, ops.Padding(3, 4, 3, 4)),
    (10, 10, 1, 6, 7, 1, NONE),
    (4, 80, 3, 1, 3, 1, SAME),
    (3, 50, 2, 1, 3, 1, SAME),
    (3, 60, 3, 1, 3, 2, SAME),
    (5, 30, 3, 1, 5, 1, ops.Padding(2, 2, 2, 2)),
)


def depthwise(rng: Rng) -> Iterator[Graph]:
    """DepthwiseConv2d."""
    for i, (h, w, c, m, k, stride, pad) in enumerate(DEPTHWISE):
        across = min(k, w + pad.left + pad.right)
        yield graph_of(
            ops.DepthwiseConv2d,
            linear(rng, s8(1, h, w, c), (1, k, across, c * m), c * m, finer=i in (2, 10)),
            s8(scale=0.5),
            stride=(stride, stride),
            padding=pad,
        )


DepthwiseShape = tuple[int, int, int, int, ops.Padding]  # width, channels, kernel, stride, padding

# Those of models, then what tells the features apart
PACKED_DEPTHWISE = (
    *((48, 8, 3, 1, SAME), (48, 16, 3, 2, ops.Padding(0, 1, 0, 1)), (24, 32, 3, 1, SAME), (12, 64, 3, 1, SAME)),
    *((6, 128, 3, 1, SAME), (6, 61, 3, 1, SAME), (5, 64, 3, 1, SAME), (3, 96, 3, 1, SAME), (14, 24, 5, 1, NONE)),
    *((1, 4, 3, 1, SAME), (9, 5, 3, 2, NONE), (20, 7, 2, 1, NONE), (7, 12, 7, 1, ops.Padding(3, 3, 3, 3))),
    *((16, 4, 3, 1, NONE), (8, 20, 5, 2, ops.Padding(2, 2, 2, 2)), (2, 40, 3, 1, SAME), (11, 9, 4, 1, NONE)),
)
WIDE_DEPTHWISE = ((64, 4, 3, 1, SAME), (56, 8, 3, 1, SAME), (27, 12, 3, 1, NONE), (8, 24, 3, 1, SAME))
NARROW_DEPTHWISE = (
    *((4, 16, 3, 1, SAME), (7, 36, 3, 1, SAME), (5, 8, 3, 1, SAME), (3, 21, 3, 1, SAME), (8, 6, 3, 1, SAME)),
    *((4, 40, 3, 1, SAME), (7, 8, 3, 1, SAME), (5, 30, 3, 1, SAME)),
)
# Rows of a single pixel: height of the window, channels
COLUMNS = ((9, 120), (3, 40), (1, 64), (5, 16), (2, 8), (7, 33), (4, 5), (9, 12))
SINGLE_TAPS = tuple((width, channels, 1, 1, NONE) for width, channels in ((32, 8), (16, 20), (8, 64), (5, 13), (1, 40)))
DEPTHWISE_BY_TWO = ((64, 4, 3, 2, SAME), (48, 8, 3, 2, NONE), (23, 12, 3, 2, NONE), (12, 24, 3, 2, SAME))


def columns(rng: Rng, rows: int) -> Iterator[Graph]:
    """DepthwiseConv2d and Conv2d of so many rows of one pixel."""
    for number, (k, c) in enumerate(COLUMNS):
        y, clamp = one_sided(number)
        x, outputs = s8(1, rows, 1, c), (4, 40, 7, 24)[number % 4]
        shared = {"padding": ops.Padding(k // 2, k // 2, 0, 0), "clamp": clamp}
        yield graph_of(ops.DepthwiseConv2d, linear(rng, x, (1, k, 1, c), c), y, stride=(1, 1), **shared)
        stride = (1 + (k == 1), 1)  # else a dense layer computes it
        yield graph_of(ops.Conv2d, linear(rng, x, (outputs, k, 1, c), outputs), y, stride=stride, **shared)


def coarse_columns(rng: Rng, rows: int) -> Iterator[Graph]:
    """Conv2d of rows of one pixel, with so many sums for an output step that no line in 32 bits has its thresholds."""
    for number, (k, c) in enumerate(COLUMNS):
        outputs, y = (4, 40, 7, 24)[number % 4], s8(scale=200 / 144 * k * c)
        made = linear(rng, s8(1, rows, 1, c), (outputs, k, 1, c), outputs)
        yield graph_of(ops.Conv2d, made, y, stride=(1, 1), padding=ops.Padding(k // 2, k // 2, 0, 0))


def packed_depthwise(rng: Rng, rows: int, shapes: Iterable[DepthwiseShape] = PACKED_DEPTHWISE) -> Iterator[Graph]:
    """DepthwiseConv2d of about so many rows, for variants that compute no others."""
    for number, (w, c, k, stride, pad) in enumerate(shapes):
        made = linear(rng, s8(1, rows, w, c), (1, k, min(k, w + pad.left + pad.right), c), c)
        y, clamp = one_sided(number)
        yield graph_of(ops.DepthwiseConv2d, made, y, stride=(stride, stride), padding=pad, clamp=clamp)


# height, width, channels in, out, kernel, stride, before
TRANSPOSES = (
    (3, 3, 8, 4, 2, 2, 0),
    (3, 4, 16, 8, 3, 2, 0),
    (2, 2, 5, 7, 3, 1, 1),
    (4, 2, 33, 3, 4, 2, 1),
    (2, 3, 3, 12, 3, 3, 0),
    (3, 3, 21, 2, 5, 2, 2),
)


WIDE_TRANSPOSES = (
    *((3, 16, 32, 8, 3, 2, 0), (3, 8, 64, 16, 3, 2, 0), (3, 32, 16, 8, 2, 2, 0), (3, 5, 128, 24, 2, 2, 0)),
    *((4, 12, 48, 4, 4, 2, 1), (4, 7, 24, 12, 3, 1, 1), (3, 20, 9, 6, 3, 2, 0), (3, 6, 100, 5, 5, 2, 2)),
    *((3, 10, 16, 32, 4, 4, 0), (2, 48, 8, 4, 2, 2, 0), (3, 3, 33, 40, 3, 3, 0), (4, 9, 80, 3, 3, 1, 1)),
)


def transpose_convs(
    rng: Rng, shapes: Iterable[tuple[int, int, int, int, int, int, int]] = TRANSPOSES
) -> Iterator[Graph]:
    """TransposeConv2d."""
    for h, w, c, o, k, stride, before in shapes:
        size = [(n - 1) * stride + k - 2 * before for n in (h, w)]
        yield graph_of(
            ops.TransposeConv2d,
            linear(rng, s8(1, h, w, c), (o, k, k, c), o),
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
        ((1, 512), 8),
        ((1, 90), 1),
        ((1, 150), 2),
        ((3, 40), 7),
        ((4, 24), 2),
    ):
        yield graph_of(ops.Dense, linear(rng, s8(*shape), (outputs, shape[-1]), outputs), s8(scale=0.5))


def partials(rng: Rng) -> Iterator[Graph]:
    """Sums in two parts, and their rescale."""
    for h, w, c, o, k, pad in (
        (3, 3, 8, 12, 1, NONE),
        (2, 4, 32, 5, 1, NONE),
        (4, 4, 5, 8, 3, SAME),
        (1, 1, 70, 30, 1, NONE),
        (3, 3, 16, 7, 3, SAME),
        (2, 2, 3, 40, 1, NONE),
        (1, 20, 8, 24, 1, NONE),
        (2, 9, 16, 24, 1, NONE),
        (1, 6, 48, 32, 1, NONE),
        (2, 7, 24, 10, 1, NONE),
        (1, 5, 12, 64, 1, NONE),
        (1, 3, 100, 9, 1, NONE),
        (1, 12, 39, 4, 1, NONE),
        (4, 5, 4, 6, 3, SAME),
        (3, 6, 20, 5, 3, NONE),
        (2, 3, 64, 4, 3, SAME),
    ):
        yield in_parts(rng, s8(1, h, w, c), (o, k, k, c), pad)


def in_parts(rng: Rng, x: TensorType, shape: tuple[int, ...], pad: ops.Padding) -> Graph:
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
