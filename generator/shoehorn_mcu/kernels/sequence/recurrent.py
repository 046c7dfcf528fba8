"""Kernels of recurrent layers: one time step, one row of states."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from shoehorn_mcu.ir import DType, Node
from shoehorn_mcu.kernels.base.contract import Contract, Tile, Value, Variant, portable
from shoehorn_mcu.kernels.base.formula_c import macros
from shoehorn_mcu.kernels.base.operands import are, data
from shoehorn_mcu.kernels.base.work import LANES, Work, by_fours, by_lanes
from shoehorn_mcu.kernels.element.formulas import per_evaluation, table, times
from shoehorn_mcu.kernels.linear.wide import on_int16, short_sums
from shoehorn_mcu.machine.targets import Isa
from shoehorn_mcu.ops import Lstm, Recurrence
from shoehorn_mcu.ops.fixed_point import quantize_multipliers
from shoehorn_mcu.ops.sigmoid16 import SIGMOID

_NO_CLIP = 1 << 15  # beyond every int16


def _lstm(node: Node[Lstm]) -> dict[str, Value]:
    op, (_, batch, inputs) = node.op, node.x.type.shape
    factor, shift = op.tanh_scale
    return {
        "batch": batch,
        "inputs": inputs,
        "units": node.bias.type.shape[1],
        "cell_clip": op.cell_clip if op.cell_clip > 0 else _NO_CLIP,
        "tanh_factor": factor,
        "tanh_shift": shift,
    }


def _lstm_s8(node: Node[Lstm]) -> dict[str, Value]:
    return {**_lstm(node), "h_zero": node.output.type.quantised.zero_point}


def _tables(node: Node[Lstm]) -> dict[str, Value]:
    factors = np.concatenate([node.op.gate_factors(node.sig).ravel(), node.op.product_factors(node.sig)])
    multipliers, shifts = quantize_multipliers(factors)
    return {"multipliers": multipliers, "shifts": shifts, "sigmoid": SIGMOID}


def _constants(node: Node[Lstm]) -> dict[str, Value]:
    x, h = node.x.type.quantised, node.output.type.quantised
    weights, recurrent, bias = (data(tensor) for tensor in node.inputs[2:])
    offsets = (-h.zero_point * recurrent.astype(np.int64).sum(axis=2)).astype(np.int32)
    return {
        "weights": weights,
        "recurrent": recurrent,
        "bias": (bias.astype(np.int64) - x.zero_point * weights.astype(np.int64).sum(axis=2)).astype(np.int32),
        "offsets": offsets if offsets.any() else None,
        **_tables(node),
    }


def _constants_16(node: Node[Lstm]) -> dict[str, Value]:
    """The weights with those of the four gates side by side."""
    weights, recurrent = (np.ascontiguousarray(np.moveaxis(data(tensor), 0, -1)) for tensor in node.inputs[2:4])
    return {"weights": weights, "recurrent": recurrent, "bias": data(node.bias), **_tables(node)}


def _has_short_sums(node: Node[Lstm]) -> bool:
    return all(short_sums(data(tensor).reshape(-1, tensor.type.shape[2])) for tensor in node.inputs[2:4])


def _lstm_work(node: Node[Lstm], sums: Callable[[float, int, int], Work] = by_lanes) -> Work:
    _, batch, inputs = node.x.type.shape
    units = node.bias.type.shape[1]
    cells = batch * units
    return sums(cells, inputs, LANES) + sums(cells, units, LANES) + Work(pixels=batch, outputs=cells)


def _recurrence(node: Node[Recurrence]) -> dict[str, Value]:
    *_, factors = node.inputs
    op, (gates, units) = node.op, node.bias.type.shape
    return {
        "batch": node.output.type.shape[1],
        "units": units,
        "gates": gates,
        "late": op.late,
        "parts": op.parts,
        "factors": factors.type.shape[0],
    }


def _matrices(node: Node[Recurrence]) -> dict[str, Value]:
    names = ("weights", "bias", "unit_factors")
    return {name: data(tensor) for name, tensor in zip(names, node.inputs[2:], strict=True)}


def _with_table(node: Node[Recurrence]) -> dict[str, Value]:
    return {**_matrices(node), "formula": table(node.op.parsed)}


def _written(node: Node[Recurrence]) -> tuple[str, ...]:
    """The formula, and the sizes that the kernel is compiled for."""
    facts = _recurrence(node)
    sizes = (f"SH_{name.upper()} {facts[name]}" for name in ("gates", "late", "parts", "factors"))
    return (*macros(node.op.formula), *sizes)


def _recurrence_work(node: Node[Recurrence], tile: Tile) -> Work:
    op, (gates, units) = node.op, node.bias.type.shape
    cells = node.output.type.shape[1] * units
    products = Work(float_sums=gates * units, float_products=gates * units, loops=1)
    return Work(outputs=cells) + times(cells, products) + times(cells * op.parts, per_evaluation(op.parsed))


RECURRENCE = Contract("recurrence", (Recurrence,), _recurrence, _with_table)
LSTM = Contract("lstm_s8", (Lstm,), _lstm_s8, _constants, lambda node: are(DType.INT8, node.x))
LSTM_S16 = Contract("lstm_s16", (Lstm,), _lstm, _constants_16, lambda node: are(DType.INT16, node.x))

VARIANTS = (
    portable(LSTM, _lstm_work),
    Variant(RECURRENCE, _recurrence_work, written=_written, pack=lambda node, _: {**_matrices(node), "formula": None}),
    Variant(LSTM, lambda node, _: _lstm_work(node, by_fours), suffix="simd32", shared=("c",), isa=Isa.SIMD32),
    *on_int16(LSTM_S16, _lstm_work, _has_short_sums),
)
