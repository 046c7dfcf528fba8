"""Small graphs of sums over rows, of their ends, and of channels that are picked."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from bench.micro_graph import Rng, graph_of, s8
from shoehorn_mcu import ops
from shoehorn_mcu.ir import DType, Graph, TensorType

# height, width, channels, kernel, stride
POOLS = (
    (6, 6, 8, (6, 6), (6, 6)),
    (5, 5, 16, (5, 5), (5, 5)),
    (4, 12, 40, (2, 3), (2, 3)),
    (3, 3, 100, (3, 3), (3, 3)),
    (6, 6, 3, (3, 2), (3, 2)),
    (8, 4, 17, (8, 1), (8, 1)),
    (7, 7, 64, (7, 7), (7, 7)),
    (4, 20, 4, (4, 20), (4, 20)),
)


def row_sums(rng: Rng) -> Iterator[Graph]:
    """Pools and dense layers by rows."""
    for height, width, channels, kernel, stride in POOLS:
        x = s8(1, height, width, channels)
        for dtype in (DType.INT32, DType.INT16):
            yield graph_of(ops.SumPool, [x], dtype, kernel=kernel, stride=stride)
        yield graph_of(ops.RunningMax, [x], s8(), kernel=kernel, stride=stride)
        outputs = (1, 4, 10, 12, 33)[(height + width) % 5]
        shape = (outputs, x.elements)
        weights = (TensorType(shape, DType.INT8), rng.integers(-127, 128, shape).astype(np.int8))
        start = (TensorType((outputs,), DType.INT32), rng.integers(-999, 999, outputs).astype(np.int32))
        yield graph_of(ops.SumDense, [x, weights, start], DType.INT32)


def averages(rng: Rng) -> Iterator[Graph]:
    """The end of a pool."""
    del rng
    for elements in (1, 4, 10, 64, 100, 257):
        sums = TensorType((1, 6, 1, elements), DType.INT32)
        yield graph_of(ops.Average, [sums], s8(), window=3, count=49)


def picks(rng: Rng) -> Iterator[Graph]:
    """Channels in another order."""
    for dtype in (DType.INT8, DType.FLOAT32, DType.INT64):
        for width, channels in ((1, 4), (5, 7), (3, 32), (10, 16), (2, 100)):
            kind = s8(1, 3, width, channels) if dtype is DType.INT8 else TensorType((1, 3, width, channels), dtype)
            picked = tuple(int(c) for c in rng.permutation(channels))
            yield graph_of(ops.PickChannels, [kind], s8() if dtype is DType.INT8 else dtype, picked=picked)


FAMILIES: tuple[Callable[[Rng], Iterator[Graph]], ...] = (row_sums, averages, picks)
