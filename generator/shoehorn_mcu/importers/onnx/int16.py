"""Ops between DequantizeLinear and QuantizeLinear where activations are int16 with a zero point of 0 (16x8).

Weights are int8. The arithmetic is that of int16.py; convolutions and dense layers, pools and all that only moves
elements have the converters of int8.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from shoehorn_mcu import ops
from shoehorn_mcu.importers.fault import Unsupported
from shoehorn_mcu.importers.forms import FOLDED, Row, converters
from shoehorn_mcu.importers.lowering import columns, elements, int16, maps
from shoehorn_mcu.importers.lowering.site import Site, Value, as_plain
from shoehorn_mcu.importers.onnx import quantised as int8
from shoehorn_mcu.importers.onnx.chain import Chain, bounded
from shoehorn_mcu.ir import DType, Quant

Convert = Callable[[Chain], Value]

_STEPS_OF_8_BITS = 255  # from the least to the greatest


def widened(site: Site, value: Value) -> Value:
    """The same numbers in int16, exactly: int8 values less their zero point; int16 itself."""
    if value.tensor.type.dtype is DType.INT16:
        return value
    own = value.tensor.type.quantised
    return maps.of_stored(
        site, lambda x: (x.cast(DType.INT32) - own.zero_point).cast(DType.INT16), value, quant=_symmetric(own)
    )


def _symmetric(quant: Quant) -> Quant:
    return replace(quant, zero_points=(0,) * len(quant.zero_points))


def wide_target(target: Quant) -> Quant:
    """Steps for all values of an int8 quantisation, to round them before they are rounded to those of int8."""
    return Quant((target.scale * _STEPS_OF_8_BITS / int16.HIGH,), (0,))


def _of_two(write: Callable[[tuple[Quant, Quant], Chain], int16.Binary], of: Chain) -> Value:
    """An op of two operands by their scales."""
    a, b = (_operand(of, place) for place in (0, 1))
    made = write((a.tensor.type.quantised, b.tensor.type.quantised), of)
    return maps.of_stored(of.site, made, a, b, quant=of.target)


def _operand(of: Chain, place: int) -> Value:
    """An operand that is computed, or a quantised constant with one scale."""
    name = of.site.node.inputs[place] if of.site.given(place) else ""
    if name not in of.coded:
        value = of.site.value(place)
        if value.tensor.type.quant is None:
            raise Unsupported("it reads a constant of real numbers")
        return value
    coded = of.coded[name]
    if coded.quant.axis is not None or coded.data.dtype.itemsize > 2:
        raise Unsupported("it reads a constant with a scale per channel")
    return as_plain(of.site.weights(coded.whole.astype(np.int16), _symmetric(coded.quant)))


def _bounded(of: Chain, low: float, high: float) -> Value:
    """A value between bounds, which are real numbers, and those of the chain."""
    x = of.site.value(0)
    bounds = replace(of, low=max(low, of.low), high=min(high, of.high)).clamp()
    write = int16.bounded(x.tensor.type.quantised, of.target, bounds.low, bounds.high)
    return maps.of_stored(of.site, write, x, quant=of.target)


def _curve(write: Callable[[Quant, Quant], int16.Unary], of: Chain) -> Value:
    """A function of one operand whose results are between -1 and 1."""
    x = of.site.value(0)
    made = maps.of_stored(of.site, write(x.tensor.type.quantised, of.target), x, quant=of.target)
    return bounded(of, made)


def _mean(of: Chain, axes: tuple[int, ...] | None) -> Value:
    """The mean along these axes, which keep size 1."""
    x = of.site.value(0)
    if not axes:
        raise Unsupported(f"it is over axes {axes} of {x.rank} dimensions")
    count = math.prod(x.shape[axis] for axis in axes)
    ahead, behind = int16.mean(x.tensor.type.quantised, of.target, count)
    total = columns.reduced(of.site, maps.of_stored(of.site, ahead, x), axes, lambda a, b: a + b)
    return bounded(of, maps.of_stored(of.site, behind, total, quant=of.target))


def _reduce_mean(of: Chain) -> Value:
    axes = columns.axes_of(of.site, of.site.value(0).rank)
    made = _mean(of, axes)
    return made if of.site.attribute("keepdims", 1) else columns.without(of.site, made, axes or ())


def _softmax(of: Chain) -> Value:
    made = elements.softmax(of.site, lambda x: int16.softmax(of.site, x, of.target, 1.0))
    return bounded(of, made)


ROWS: Mapping[str, Row[Convert]] = {
    "AveragePool": Row(int8.CONVERTERS["AveragePool"], (ops.AveragePool2d, ops.Map)),
    "BatchNormalization": Row(int8.CONVERTERS["BatchNormalization"], FOLDED),
    "Concat": Row(int8.CONVERTERS["Concat"], (ops.Concat, ops.Map)),
    "Conv": Row(int8.CONVERTERS["Conv"], (ops.Conv2d, ops.DepthwiseConv2d)),
    "ConvTranspose": Row(int8.CONVERTERS["ConvTranspose"], (ops.TransposeConv2d,)),
    "Gemm": Row(int8.CONVERTERS["Gemm"], (ops.Dense,)),
    "MatMul": Row(int8.CONVERTERS["MatMul"], (ops.Dense,)),
    "Add": Row(partial(_of_two, lambda operands, of: int16.summed(1, operands, of.target, of.clamp()))),
    "Clip": Row(lambda of: _bounded(of, *elements.bounds(of.site))),
    "GlobalAveragePool": Row(lambda of: _mean(of, tuple(range(2, of.site.value(0).rank))), (ops.Map, ops.Reduce)),
    "Mul": Row(partial(_of_two, lambda operands, of: int16.multiplied(operands, of.target, of.clamp()))),
    "ReduceMean": Row(_reduce_mean, (ops.Map, ops.Reduce)),
    "Relu": Row(lambda of: _bounded(of, 0.0, math.inf)),
    "Sigmoid": Row(partial(_curve, int16.logistic)),
    "Softmax": Row(_softmax, (ops.Map, ops.Reduce)),
    "Sub": Row(partial(_of_two, lambda operands, of: int16.summed(-1, operands, of.target, of.clamp()))),
    "Tanh": Row(partial(_curve, int16.tanh)),
}
"""Ops that compute with int16, by ONNX's name; all others are computed in float32 where they can be."""

CONVERTERS = converters(ROWS)
