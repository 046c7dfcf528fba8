"""Small graphs of recurrent layers, whose steps cover all that costs tell apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np

from bench.micro_graph import Operand, Rng, graph_of, s8
from shoehorn_mcu import ops
from shoehorn_mcu.importers.lowering.recurrent import cell_formula, lstm
from shoehorn_mcu.ir import DType, Graph, Quant, TensorType
from shoehorn_mcu.ops import functions as f

_REAL = DType.FLOAT32
_SIZES = ((2, 1, 28, 20), (3, 1, 8, 32), (1, 2, 33, 7), (2, 1, 5, 12), (1, 1, 64, 9), (4, 1, 3, 4), (1, 1, 16, 30))


def lstms(rng: Rng) -> Iterator[Graph]:
    """int8 and int16, by steps, batch, inputs and units."""
    for dtype, (steps, batch, inputs, units) in product((DType.INT8, DType.INT16), _SIZES):
        finer = 256 if dtype is DType.INT16 else 1

        def matrix(columns: int, units: int = units) -> Operand:
            kind = TensorType((4, units, columns), DType.INT8, Quant((0.005,) * 4, (0,) * 4, 0))
            return kind, rng.integers(-127, 128, kind.shape, np.int8)

        bias = TensorType((4, units), DType.INT64 if dtype is DType.INT16 else DType.INT32)
        held = (bias, rng.integers(-3000, 3000, bias.shape, bias.dtype.numpy) * finer)
        state = TensorType((1, batch, ops.Lstm.state_size(units, dtype)), dtype, Quant((0.0078 / finer,), (0,)))
        x = TensorType((steps, batch, inputs), dtype, Quant((0.02 / finer,), (0,)))
        operands = [x, state, matrix(inputs), matrix(units), held]
        yield graph_of(ops.Lstm, operands, state, cell_power=-12)


def cells(rng: Rng) -> Iterator[Graph]:
    """float32 cells of an LSTM, and of one without exponentials."""
    for act in ((f.sigmoid, f.tanh, f.tanh), (lambda x: f.clip(x * 0.2 + 0.5, 0.0, 1.0),) * 3):
        text = cell_formula(lstm(), 0, act)
        for steps, batch, _, units in _SIZES:
            constants = [(4, units, units), (4, units), (0, units)]
            yield graph_of(
                ops.Recurrence,
                [
                    TensorType((steps, batch, 4 * units), _REAL),
                    TensorType((1, batch, 2 * units), _REAL),
                    *((TensorType(s, _REAL), rng.normal(0, 0.3, s).astype(np.float32)) for s in constants),
                ],
                _REAL,
                formula=text,
                parts=2,
            )


def memories(rng: Rng) -> Iterator[Graph]:
    """SVDF: its memory and its output, int8 and int16."""
    for dtype in (DType.INT8, DType.INT16):
        for inputs, units, rank, places in ((40, 12, 1, 8), (8, 5, 2, 3), (100, 6, 1, 20), (20, 30, 1, 4)):
            memory = TensorType((1, units * rank * places), dtype, Quant((0.002,), (0,)))
            features = TensorType((units * rank, inputs), DType.INT8, Quant((0.004,), (0,)))
            time = TensorType((units * rank, places), dtype, Quant((0.00001,), (0,)))
            held = [(kind, rng.integers(-100, 101, kind.shape).astype(kind.dtype.numpy)) for kind in (features, time)]
            bias = (TensorType((units,), DType.INT32), rng.integers(-500, 500, units, np.int32))
            yield graph_of(ops.SvdfState, [s8(1, inputs), memory, held[0]], memory)
            yield graph_of(ops.SvdfSum, [memory, held[1], bias], s8(scale=0.05))


FAMILIES: tuple[Callable[[Rng], Iterator[Graph]], ...] = (lstms, cells, memories)
