"""Small graphs of linear ops and pools with weights of 4 or 16 bits, and on int16; and of an audio front end."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from bench.micro_graph import NONE, SAME, Rng, graph_of
from bench.micro_linear import convs, dense, depthwise, transpose_convs
from shoehorn_mcu import ops
from shoehorn_mcu.ir import DType, Graph, Quant, TensorType
from tests.samples import as_int16, with_narrow_weights, with_wide_weights


def narrow(rng: Rng) -> Iterator[Graph]:
    """Weights of 4 bits."""
    for graph in (*convs(rng), *dense(rng)):
        yield with_narrow_weights(graph, rng)


def wide(rng: Rng) -> Iterator[Graph]:
    """Weights of 16 bits; int16 with either type of bias."""
    for graph in (*convs(rng), *depthwise(rng), *dense(rng)):
        if graph.tensors["x0"].type.dtype is DType.INT8:
            yield with_wide_weights(graph, rng)
            yield from (as_int16(graph, rng, bias) for bias in (DType.INT32, DType.INT64))
    yield from (as_int16(graph, rng) for graph in transpose_convs(rng))


def pools(rng: Rng) -> Iterator[Graph]:
    """Pools of int16."""
    del rng
    for height, width, channels, side, pad in (
        *((6, 6, 8, 2, NONE), (5, 5, 16, 3, SAME), (4, 12, 40, 2, NONE), (3, 3, 100, 3, NONE), (6, 6, 3, 3, SAME)),
        *((8, 4, 17, 2, SAME), (2, 30, 4, 2, NONE), (4, 4, 7, 3, SAME)),
    ):
        x = TensorType((1, height, width, channels), DType.INT16, Quant((0.01,), (0,)))
        for op_class in (ops.MaxPool2d, ops.AveragePool2d):
            shared = {"kernel": (side, side), "stride": (side - 1, side - 1), "padding": pad}
            yield graph_of(op_class, [x], x, clamp=ops.Clamp(-(1 << 15), (1 << 15) - 1), **shared)


def spectra(rng: Rng) -> Iterator[Graph]:
    """Transforms of real numbers, and sums over bands of their squares."""
    for power in range(3, 10):
        for samples in (1 << power, (1 << power) * 3 // 4):
            yield graph_of(ops.Rfft, [TensorType((samples,), DType.INT16)], DType.INT16, length=1 << power)
    for bands, most in ((2, 3), (10, 5), (30, 12), (40, 8), (20, 30), (7, 1)):
        widths = rng.integers(0, most + 1, bands)
        bins = int(widths.sum()) + most
        places = np.cumsum(widths) - widths
        weights = rng.integers(0, 1 << 15, (2, max(1, int(widths.sum()))))
        constants = [each.astype(np.int16) for each in (*weights, places, places, widths)]
        held = [(TensorType(each.shape, DType.INT16), each) for each in constants]
        yield graph_of(ops.FilterBank, [TensorType((bins,), DType.UINT32), *held], DType.UINT64)


def slides(rng: Rng) -> Iterator[Graph]:
    """Windows over a stream; of bytes in fours and not."""
    del rng
    for dtype in (DType.INT8, DType.INT16):
        for window, new in ((40, 20), (480, 160), (100, 1), (1960, 40), (37, 9), (130, 65)):
            yield graph_of(ops.Slide, [TensorType((1, window), dtype), TensorType((1, new), dtype)], dtype)


def suppressions(rng: Rng) -> Iterator[Graph]:
    """Boxes that overlap, of one class and of several."""
    del rng
    for classes, boxes, count in ((1, 50, 4), (1, 200, 10), (3, 80, 5), (1, 600, 20), (8, 30, 8)):
        kinds = [TensorType((classes, 1, boxes), DType.FLOAT32), TensorType((boxes, 4), DType.FLOAT32)]
        yield graph_of(ops.Suppress, kinds, DType.INT32, count=count, overlap=0.5, least=0.0)


FAMILIES: tuple[Callable[[Rng], Iterator[Graph]], ...] = (narrow, wide, pools, spectra, slides, suppressions)
