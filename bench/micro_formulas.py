"""Small graphs of the ops with formulas and with computed indices, whose steps cover all that costs tell apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from bench.micro_graph import Rng, graph_of
from shoehorn_mcu import ops
from shoehorn_mcu.importers.lowering import int16
from shoehorn_mcu.ir import DType, Graph, Quant, TensorType
from shoehorn_mcu.ops import functions as f
from shoehorn_mcu.ops.clamp import Clamp
from shoehorn_mcu.ops.formula import Term, formula

_REAL, _WHOLE = DType.FLOAT32, DType.INT32
_SHAPES = ((1, 4, 6, 8), (1, 2, 1, 40), (1, 1, 1, 200), (1, 3, 10, 3), (1, 3, 5, 17))

_UNARY: tuple[Callable[[Term], Term], ...] = (
    lambda x: x + 1.5,
    lambda x: x * x * x,
    lambda x: 1.0 / (abs(x) + 1.0),
    lambda x: abs(x).sqrt(),
    lambda x: (x < 0.0).select(x * 0.1, x),
    lambda x: x.cast(_WHOLE).cast(_REAL),
    lambda x: ((x.bits() & 0xFFFF) + 7).bits(),
    lambda x: (x.cast(_WHOLE) * 3 + 5 ^ 9).cast(_REAL),
    f.exp,
    f.sigmoid,
    f.tanh,
    f.log,
    f.floor,
    f.sin,
    lambda x: f.clip(x * 0.2 + 0.5, 0.0, 1.0),
)


def maps(rng: Rng) -> Iterator[Graph]:
    """Formulas of one operand, and of two, one of which is repeated in some."""
    del rng
    for number, write in enumerate(_UNARY):
        read = formula(write, _REAL)
        for shape in (_SHAPES[number % 5], _SHAPES[(number + 2) % 5]):
            yield graph_of(ops.Map, [TensorType(shape, _REAL)], _REAL, formula=read.text)
    for shape in _SHAPES:
        read = formula(lambda a, b: a * b + 1.0, _REAL, _REAL)
        for other in (shape, (1, 1, 1, shape[3]), (*shape[:3], 1)):
            yield graph_of(ops.Map, [TensorType(shape, _REAL), TensorType(other, _REAL)], _REAL, formula=read.text)


def _combinations() -> Iterator[str]:
    for write in (lambda a, b: a + b, lambda a, b: a * b + a, lambda a, b: (a < b).select(b, a), lambda a, b: a / b):
        yield formula(write, _REAL, _REAL).text


def integers(rng: Rng) -> Iterator[Graph]:
    """Formulas of integers alone, as of int16 and of audio front ends. Only the size of their code is measured."""
    del rng
    half, whole, wide = DType.INT16, DType.INT32, DType.INT64
    quant = Quant((0.01,), (0,))
    added = int16.summed(1, (quant, Quant((0.02,), (0,))), quant, Clamp(-30000, 30000))
    for dtypes, write in (
        ((half,), lambda x: f.clip(x.cast(whole) * 3, -32768, 32767).cast(half)),
        ((half,), int16.bounded(quant, Quant((0.013,), (0,)))),
        ((half,), lambda x: x.cast(whole)),
        ((whole,), lambda x: (x >> 3).cast(half)),
        ((whole,), lambda x: 15 - (x.cast(DType.UINT32) | 1).width().cast(whole)),
        ((half, half), lambda x, y: f.clip(x.cast(whole) * y.cast(whole) >> 12, -32768, 32767).cast(half)),
        ((half, half), added),
        ((whole, whole), lambda x, y: ((x.cast(wide) * y.cast(wide) + (1 << 14)) >> 15).cast(whole)),
        ((whole,), lambda x: (x.cast(wide) * 981 + (x < 0).select(x.cast(wide), 7) >> 10).cast(whole).cast(half)),
        ((whole,), lambda x: (x & 31).cast(DType.UINT8).entry([i * i for i in range(32)], whole)),
    ):
        operands = [TensorType((1, 4, 6, 8), dtype) for dtype in dtypes]
        read = formula(write, *dtypes)
        yield graph_of(ops.Map, operands, read.result, formula=read.text)
    for write in (lambda most, x: (most < x).select(x, most), lambda total, x: total + x):
        read = formula(write, whole, whole)
        yield graph_of(ops.Reduce, [TensorType((1, 2, 30, 4), whole)], whole, formula=read.text)


def columns(rng: Rng) -> Iterator[Graph]:
    """Reductions, running results and first places."""
    del rng
    before = formula(lambda a, b: a > b, _REAL, _REAL).text
    for number, shape in enumerate(((1, 2, 30, 4), (1, 1, 100, 1), (1, 4, 3, 30), (1, 2, 9, 11))):
        for text in _combinations():
            yield graph_of(ops.Reduce, [TensorType(shape, _REAL)], _REAL, formula=text)
            yield graph_of(ops.Scan, [TensorType(shape, _REAL)], _REAL, formula=text, exclusive=number % 2 == 0)
        for count in (1, 3):
            yield graph_of(ops.TopIndices, [TensorType(shape, _REAL)], DType.INT64, formula=before, count=count)


def products(rng: Rng) -> Iterator[Graph]:
    """Products of matrices, of floats and of integers, whose loops would not be seen beside floats in software."""
    del rng
    for total, each, write in (
        (_REAL, _REAL, lambda t, a, b: t + a * b),
        (_REAL, _REAL, lambda t, a, b: t + abs(a - b)),
        (_WHOLE, DType.UINT8, lambda t, a, b: t + a.cast(_WHOLE) * b.cast(_WHOLE)),
    ):
        text = formula(write, total, each, each).text
        for rows, inputs, outputs in ((2, 16, 12), (1, 40, 7), (3, 5, 33), (4, 64, 4), (2, 3, 3)):
            operands = [TensorType((rows, 1, inputs), each), TensorType((inputs, outputs), each)]
            yield graph_of(ops.MatMul, operands, total, formula=text)


def indexed(rng: Rng) -> Iterator[Graph]:
    """Elements picked and changed at constant indices."""
    adds = formula(lambda a, b: a + b, _REAL, _REAL).text
    for shape, count, each in (((2, 20, 8), 6, 1), ((1, 50, 1), 30, 1), ((2, 9, 12), 5, 12), ((1, 4, 40), 12, 1)):
        kind = TensorType((shape[0], count, each), DType.INT64)
        places = (kind, rng.integers(0, shape[1], kind.shape, np.int64))
        yield graph_of(ops.Gather, [TensorType(shape, _REAL), places], _REAL)
        operands = [TensorType(shape, _REAL), places, TensorType((shape[0], count, shape[2]), _REAL)]
        yield graph_of(ops.Scatter, operands, _REAL, formula=adds)


FAMILIES: tuple[Callable[[Rng], Iterator[Graph]], ...] = (maps, columns, products, indexed)
