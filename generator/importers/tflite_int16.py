"""Converters of TFLite's ops on int16: formulas of stored values.

Convolutions and dense layers, pools and all that only moves elements have the converters of int8.

The arithmetic is that of tflite-micro's reference kernels, named by file; all zero points are 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from shoehorn_mcu.importers import onnx_maps as maps
from shoehorn_mcu.importers import onnx_site as onnx
from shoehorn_mcu.importers import tflite_real as real
from shoehorn_mcu.importers.fault import Unsupported
from shoehorn_mcu.importers.onnx_movers import shaped
from shoehorn_mcu.importers.onnx_site import Value, as_plain
from shoehorn_mcu.importers.tflite_options import ActivationOptions, FactorOptions
from shoehorn_mcu.importers.tflite_site import Part, Site, clamp, stored
from shoehorn_mcu.importers.tflite_tensors import quoted
from shoehorn_mcu.ir import DType, Quant, Tensor
from shoehorn_mcu.ops import Map, Reduce
from shoehorn_mcu.ops import functions as f
from shoehorn_mcu.ops.fixed_point import Scale, quantize_multiplier
from shoehorn_mcu.ops.formula import Term, formula
from shoehorn_mcu.ops.pool import mean_scale
from shoehorn_mcu.ops.real import Reals
from shoehorn_mcu.ops.sigmoid16 import SIGMOID

LOW, HIGH = -(1 << 15), (1 << 15) - 1
_ADD_SHIFT = 15  # to the left, ahead of a sum
_STEPS = 512  # of TFLite's tables for int16


def applies(site: Site) -> bool:
    """Whether the op is one of CONVERTERS on int16, or between int16 and another type."""
    ends = [tensor for tensor in (*site.inputs[:1], *site.outputs) if tensor is not None]
    return site.code in CONVERTERS and any(t.type.dtype is DType.INT16 and t.type.quant is not None for t in ends)


def _quant(tensor: Tensor) -> Quant:
    """The one scale of a quantised operand; of int16 with the zero point 0."""
    quant = tensor.type.quant
    if quant is None or quant.axis is not None:
        raise Unsupported(f"{quoted(tensor.name)} is {tensor.type} without the one scale that is needed")
    if tensor.type.dtype is DType.INT16 and quant.zero_point:
        raise Unsupported(f"{quoted(tensor.name)} is int16 with zero point {quant.zero_point}, 0 is needed")
    return quant


def high_product(x: Term, multiplier: int) -> Term:
    """round(x * multiplier / 2^31), halves up: `sh_mul_high` of sh_quant.h."""
    return ((x.cast(DType.INT64) * multiplier + (1 << 30)) >> 31).cast(DType.INT32)


def shifted_right(x: Term, exponent: int) -> Term:
    """round(x / 2^exponent), halves away from zero: `sh_shift_right` of sh_quant.h."""
    if exponent == 0:
        return x
    mask = (1 << exponent) - 1
    threshold = (x < 0).select(x.constant((mask >> 1) + 1), mask >> 1)
    return (x >> exponent) + ((x & mask) > threshold).select(x.constant(1), 0)


def rescaled(x: Term, scale: Scale) -> Term:
    """x, int32, times the scale, rounded twice: `sh_rescale` of sh_quant.h."""
    ahead = x << scale.shift if scale.shift > 0 else x
    return shifted_right(high_product(ahead, scale.multiplier), max(0, -scale.shift))


def _fitted(x: Term, low: float = LOW, high: float = HIGH) -> Term:
    return f.clip(x, low, high).cast(DType.INT16)


def _wide(x: Term) -> Term:
    return x.cast(DType.INT32)


def converter(convert: Callable[[Site, onnx.Site], Value]) -> Callable[[Site], Part]:
    """A converter whose formulas are of stored values."""

    def converted(site: Site) -> Part:
        for tensor in (*site.inputs[:2], *site.outputs):
            if tensor is not None and tensor.type.dtype is DType.INT16:
                _quant(tensor)
        part = real.converter(convert)(site)
        return replace(
            part, ops=tuple(replace(op, stored=True) if isinstance(op, Map | Reduce) else op for op in part.ops)
        )

    return converted


def _below_one(real_scale: float) -> Scale:
    """The scale of a factor that TFLite wants to be below 1 (QuantizeMultiplierSmallerThanOneExp)."""
    scale = quantize_multiplier(real_scale)
    if scale.shift > 0:
        raise Unsupported(f"its scales differ by a factor of {real_scale:g}, below 1 is needed")
    return scale


def added(sign: int) -> Callable[[Site], Part]:
    """ADD and SUB: add_common.cc, sub_common.cc."""

    def convert(site: Site, there: onnx.Site) -> Value:
        a, b = (_quant(site.input(place, "operand")).scale for place in (0, 1))
        bounds = clamp(site.want(ActivationOptions).activation, site.output)
        twice = 2 * max(a, b)
        a_scale, b_scale = _below_one(a / twice), _below_one(b / twice)
        y_scale = _below_one(twice / ((1 << _ADD_SHIFT) * _quant(site.output).scale))

        def write(x: Term, z: Term) -> Term:
            first = rescaled(_wide(x) << _ADD_SHIFT, a_scale)
            second = rescaled(_wide(z) << _ADD_SHIFT, b_scale)
            total = first + second if sign > 0 else first - second
            return _fitted(rescaled(total, y_scale), bounds.low, bounds.high)

        return maps.mapped(there, write, there.value(0), there.value(1))

    return converter(convert)


def _multiplied(site: Site, there: onnx.Site) -> Value:
    """MUL: mul_common.cc."""
    a, b, y = (_quant(t).scale for t in (site.input(0, "operand"), site.input(1, "operand"), site.output))
    bounds, scale = clamp(site.want(ActivationOptions).activation, site.output), quantize_multiplier(a * b / y)
    if scale.shift > 0:
        raise Unsupported(f"its products are scaled by {a * b / y:g}, which overflows int32")
    return maps.mapped(
        there,
        lambda x, z: _fitted(rescaled(_wide(x) * _wide(z), scale), bounds.low, bounds.high),
        there.value(0),
        there.value(1),
    )


def _relu(site: Site, there: onnx.Site) -> Value:
    """RELU: activations_common.cc, ReluQuantized."""
    scale = quantize_multiplier(_quant(site.input(0, "input")).scale / _quant(site.output).scale)
    if scale.shift > 15:
        raise Unsupported("its scales differ too much: sums overflow int32")
    return maps.mapped(there, lambda x: _fitted(rescaled(_wide(x), scale), 0), there.value(0))


def _relu6(site: Site, there: onnx.Site) -> Value:
    """RELU6: activations_common.cc; stored values are clamped, and not rescaled."""
    six = min(HIGH, stored(6.0, _quant(site.input(0, "input"))))
    return maps.mapped(there, lambda x: _fitted(_wide(x), 0, six), there.value(0))


def _sigmoid_steps(site: Site, shifts: tuple[int, ...]) -> tuple[int, int]:
    """The factor and the shift that bring x to the table's steps: logistic_common.cc and tanh.cc.

    `shifts`: exponents for which a scale of 2^(exponent - 12) is exact.
    """
    scale, out = _quant(site.input(0, "input")).scale, _quant(site.output).scale
    if out != 2.0**-15:
        raise Unsupported(f"its output has scale {out}, 2^-15 is needed")
    fraction, exponent = math.frexp(scale)
    if fraction == 0.5 and exponent - 1 + 12 in shifts:
        return 3 << (exponent - 1 + 12), 0
    multiplier, shift = scale * 4096.0 * 3.0, 0
    while multiplier <= 32767.0 / 2.0 and shift <= 30:
        multiplier, shift = multiplier * 2, shift + 1
    if multiplier > HIGH:
        raise Unsupported(f"its input has scale {scale}, at most {HIGH / 12288:g} is possible")
    return int(multiplier), shift


def _steps(x: Term, factor: int, shift: int) -> Term:
    return (_wide(x) * factor + (1 << shift >> 1)) >> shift


def _between(size: Term, bits: int) -> tuple[Term, Term]:
    """The table of sigmoids at `size`, which has so many fraction bits, as they shift it; and the entry's place."""
    place = size >> bits
    entries = [int(v) for v in SIGMOID]
    low, high = (
        f.minimum(place, 254).entry(entries, DType.UINT16).cast(DType.INT32),
        (f.minimum(place, 254) + 1).entry(entries, DType.UINT16).cast(DType.INT32),
    )
    return (low << bits) + (size & ((1 << bits) - 1)) * (high - low), place


def _logistic(site: Site, there: onnx.Site) -> Value:
    """LOGISTIC: reference/integer_ops/logistic.h."""
    factor, shift = _sigmoid_steps(site, (0,))

    def write(x: Term) -> Term:
        steps = _steps(x, factor, shift)
        inside, place = _between(abs(steps), 9)
        value = (place >= 255).select(inside.constant(0x7FFF << 10), inside)
        signed = (steps >= 0).select(value + (1 << 9), ((1 << 25) + (1 << 9) - 1) - value)
        return (signed >> 10).cast(DType.INT16)

    return maps.mapped(there, write, there.value(0))


def _tanh(site: Site, there: onnx.Site) -> Value:
    """TANH: reference/integer_ops/tanh.h."""
    factor, shift = _sigmoid_steps(site, (0, 1))

    def write(x: Term) -> Term:
        steps = _steps(x, factor, shift)
        inside, place = _between(abs(steps), 8)
        value = (place >= 255).select(inside.constant(0xFFFF << 8), inside) - (1 << 23)
        signed = (steps >= 0).select(value + (1 << 7), ((1 << 7) - 1) - value)
        return (signed >> 8).cast(DType.INT16)

    return maps.mapped(there, write, there.value(0))


def _quantize(site: Site, there: onnx.Site) -> Value:
    """QUANTIZE: from float32, reference/quantize.h, or between int8 and int16, reference/requantize.h."""
    x, y = site.input(0, "input"), site.output
    to = _quant(y)
    low, high = y.type.dtype.limits
    if x.type.dtype is DType.FLOAT32:

        def write(real_x: Term) -> Term:
            steps = real_x / to.scale
            whole = f.truncate(steps)
            away = (abs(steps - whole) >= 0.5).select(f.copy_sign(steps.constant(1.0), steps), 0.0)
            return f.clip(whole + away, low, high).cast(y.type.dtype)

        if to.zero_point:
            raise Unsupported("it quantises to another type than int16 with zero point 0")
        return maps.mapped(there, write, there.value(0))
    of, scale = _quant(x), quantize_multiplier(_quant(x).scale / to.scale)
    if {x.type.dtype, y.type.dtype} - {DType.INT8, DType.INT16} or scale.shift > 14:
        raise Unsupported(f"it quantises {x.type.dtype.value} to {y.type.dtype.value} by {of.scale / to.scale:g}")
    return maps.mapped(
        there,
        lambda v: f.clip(rescaled(_wide(v) - of.zero_point, scale) + to.zero_point, low, high).cast(y.type.dtype),
        there.value(0),
    )


def _dequantize(site: Site, there: onnx.Site) -> Value:
    """DEQUANTIZE: reference/dequantize.h."""
    scale = _quant(site.input(0, "input")).scale
    return maps.mapped(there, lambda x: x.cast(DType.FLOAT32) * scale, there.value(0))


def _mean(site: Site, there: onnx.Site) -> Value:
    """MEAN: reference/reduce.h, QuantizedMeanOrSum."""
    x = site.input(0, "input")
    count = x.type.elements // site.output.type.elements
    scale = mean_scale(_quant(x).scale / _quant(site.output).scale, count)
    if count > 1 << 15 or scale.shift > 0:
        raise Unsupported(f"its sums of {count} elements overflow int32")
    wide = maps.mapped(there, _wide, there.value(0))
    total = real.reduction("ReduceSum")(site, replace(there, values={**there.values, there.node.inputs[0]: wide}))
    assert isinstance(total, Value)
    return maps.mapped(there, lambda v: _fitted(rescaled(v, scale)), total)


def _table(function: Callable[[Reals], Reals], scale: float, zero: int) -> tuple[int, ...]:
    """TFLite's table of a function of int16 (internal/common.h, LUTPopulateInt16), in single precision.

    Outputs have scale 2 / 65535.
    """
    ends = np.array([LOW - zero, HIGH - zero], np.float32) * np.float32(scale)
    bounds = np.array([LOW, HIGH], np.float32) * (np.float32(2) / np.float32(65535))
    step: Reals = (np.diff(ends) / np.float32(_STEPS)).astype(np.float32)
    inverse: Reals = (np.float32(65536) / np.diff(bounds)).astype(np.float32)
    here = ends[0] + np.arange(_STEPS, dtype=np.float32) * step
    following = ends[0] + np.arange(1, _STEPS + 1).astype(np.float32) * step
    sample = _nearest(function(here) * inverse)
    middle = _nearest(function(here + step / np.float32(2)) * inverse)
    between = _nearest((function(following) * inverse + sample) / np.float32(2))
    bias = _nearest((between - middle) / np.float32(2))
    entries = np.append(sample - bias, _nearest(function(ends[1:]) * inverse))
    return tuple(int(v) for v in np.clip(entries, LOW, HIGH))


def _nearest(v: Reals) -> Reals:
    """The nearest whole numbers, halves away from zero."""
    away: Reals = np.copysign(np.floor(np.abs(v.astype(np.float64)) + 0.5), v).astype(np.float32)
    return away


def _exp(v: Reals) -> Reals:
    """exp, rounded to single precision once."""
    exact: Reals = np.exp(v.astype(np.float64)).astype(np.float32)
    return exact


def _inverse_above_one(v: Reals) -> Reals:
    inverse: Reals = np.float32(1) / (np.float32(1) + v)
    return inverse


def _looked_up(x: Term, table: tuple[int, ...]) -> Term:
    """The table at x, an int32 within int16, with linear interpolation (LUTLookup)."""
    place, offset = (x >> 7) + 256, x & 0x7F
    base, after = (p.entry(table, DType.INT16).cast(DType.INT32) for p in (place, place + 1))
    return base + (((after - base) * offset + 64) >> 7)


def _softmax(site: Site, there: onnx.Site) -> Value:
    """SOFTMAX along the last axis: reference/softmax.h, SoftmaxInt16."""
    x, beta = site.input(0, "input"), site.want(FactorOptions).factor
    if abs(_quant(site.output).scale - 2.0**-15) > 0.001 * 2.0**-15:
        raise Unsupported(f"its output has scale {_quant(site.output).scale}, 2^-15 is needed")
    scale = quantize_multiplier(_quant(x).scale * float(np.float32(beta)) / (10.0 / 65535.0))
    if scale.shift > 14:
        raise Unsupported(f"its input has scale {_quant(x).scale}, which overflows int32")
    exps = _table(_exp, float(np.float32(10) / np.float32(65535)), HIGH)
    inverses = _table(_inverse_above_one, float(np.float32(1) / np.float32(65535)), LOW)
    shape = x.type.shape
    rows = as_plain(shaped(there, x, (1, *shape) if len(shape) < 2 else shape))
    larger = formula(lambda a, b: f.maximum(a, b), DType.INT16, DType.INT16)
    most = there.emit(Reduce, rows.tensor, dtype=DType.INT16, formula=larger.text, along_channels=True)

    def exponential(v: Term, top: Term) -> Term:
        steps = rescaled(_wide(v) - _wide(top), scale) + HIGH
        return _looked_up(f.clip(steps, LOW, HIGH), exps).cast(DType.INT16)

    exp = maps.mapped(there, exponential, rows, as_plain(most))
    summed = formula(lambda total, e: total + _wide(e), DType.INT32, DType.INT16)
    total = there.emit(Reduce, exp.tensor, dtype=DType.INT32, formula=summed.text, along_channels=True, initial=0)

    def inverse(v: Term) -> Term:
        headroom = 31 - v.cast(DType.UINT32).width().cast(DType.INT32)
        near = (((v.cast(DType.INT64) << headroom.cast(DType.INT64)) + (1 << 13)) >> 14).cast(DType.INT32)
        return _looked_up(f.clip(near - ((1 << 15) + (1 << 16)), LOW, HIGH), inverses)

    def scaled(e: Term, by: Term, v: Term) -> Term:
        right = v.cast(DType.UINT32).width().cast(DType.INT32) - 1
        return _fitted((_wide(e) * by + (right.constant(1) << (right - 1))) >> right, 0)

    by = maps.mapped(there, inverse, as_plain(total))
    one = (*shape[:-1], 1)
    parts = zip((exp.tensor, by.tensor, total), (shape, one, one), strict=True)
    return maps.mapped(there, scaled, *(as_plain(shaped(there, tensor, like)) for tensor, like in parts))


CONVERTERS: dict[str, Callable[[Site], Part]] = {
    "ADD": added(1),
    "SUB": added(-1),
    "MUL": converter(_multiplied),
    "RELU": converter(_relu),
    "RELU6": converter(_relu6),
    "LOGISTIC": converter(_logistic),
    "TANH": converter(_tanh),
    "QUANTIZE": converter(_quantize),
    "DEQUANTIZE": converter(_dequantize),
    "MEAN": converter(_mean),
    "SOFTMAX": converter(_softmax),
}
