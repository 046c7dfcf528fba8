"""Arithmetic on int16 as formulas of stored values: that of tflite-micro's reference kernels, named by file.

All zero points of int16 are 0, but for a softmax of int8 and what converts its results.
A function gives what computes an element of the result from those of the operands.
Convolutions and dense layers, pools and all that only moves elements are ops of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from shoehorn_mcu.importers.fault import Unsupported
from shoehorn_mcu.importers.lowering import maps
from shoehorn_mcu.importers.lowering.movers import shaped
from shoehorn_mcu.importers.lowering.site import Site, as_plain
from shoehorn_mcu.ir import DType, Quant, Signature, Tensor
from shoehorn_mcu.ops import Reduce, Softmax
from shoehorn_mcu.ops import functions as f
from shoehorn_mcu.ops.clamp import Bounds
from shoehorn_mcu.ops.fixed_point import Scale, quantize_multiplier
from shoehorn_mcu.ops.formula import Term, formula
from shoehorn_mcu.ops.pool import mean_scale, softmax_exps
from shoehorn_mcu.ops.real import Reals
from shoehorn_mcu.ops.sigmoid16 import SIGMOID

Unary = Callable[[Term], Term]
Binary = Callable[[Term, Term], Term]

LOW, HIGH = -(1 << 15), (1 << 15) - 1
UNIT = 2.0**-15
"""The scale of results between -1 and 1."""
_ADD_SHIFT = 15  # to the left, ahead of a sum
_TWO = np.float32(2) / np.float32(65535)  # the scale of a range of 2
_STEPS = 512  # of TFLite's tables for int16
_SUM_BITS = 12  # integer bits of a sum of exponentials of int8
HIGH_31 = (1 << 31) - 1


def high_product(x: Term, multiplier: Term | int) -> Term:
    """round(x * multiplier / 2^31), halves up: `sh_mul_high` of sh_quant.h."""
    by = multiplier.cast(DType.INT64) if isinstance(multiplier, Term) else multiplier
    return ((x.cast(DType.INT64) * by + (1 << 30)) >> 31).cast(DType.INT32)


def shifted_right(x: Term, exponent: Term | int) -> Term:
    """round(x / 2^exponent), halves away from zero: `sh_shift_right` of sh_quant.h."""
    if isinstance(exponent, Term):
        one = x.constant(1)
        ones = (one << exponent) - 1
        return (x >> exponent) + ((x & ones) > (ones >> 1) + (x < 0).cast(DType.INT32)).cast(DType.INT32)
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


def below_one(real_scale: float) -> Scale:
    """The scale of a factor that TFLite wants to be below 1 (QuantizeMultiplierSmallerThanOneExp)."""
    scale = quantize_multiplier(real_scale)
    if scale.shift > 0:
        raise Unsupported(f"its scales differ by a factor of {real_scale:g}, below 1 is needed")
    return scale


def summed(sign: int, operands: tuple[Quant, Quant], to: Quant, bounds: Bounds) -> Binary:
    """a + sign * b: add_common.cc, sub_common.cc."""
    a, b = (quant.scale for quant in operands)
    twice = 2 * max(a, b)
    a_scale, b_scale = below_one(a / twice), below_one(b / twice)
    y_scale = below_one(twice / ((1 << _ADD_SHIFT) * to.scale))

    def write(x: Term, z: Term) -> Term:
        first = rescaled(_wide(x) << _ADD_SHIFT, a_scale)
        second = rescaled(_wide(z) << _ADD_SHIFT, b_scale)
        total = first + second if sign > 0 else first - second
        return _fitted(rescaled(total, y_scale), bounds.low, bounds.high)

    return write


def multiplied(operands: tuple[Quant, Quant], to: Quant, bounds: Bounds) -> Binary:
    """a * b: mul_common.cc."""
    a, b = (quant.scale for quant in operands)
    scale = quantize_multiplier(a * b / to.scale)
    if scale.shift > 0:
        raise Unsupported(f"its products are scaled by {a * b / to.scale:g}, which overflows int32")
    return lambda x, z: _fitted(rescaled(_wide(x) * _wide(z), scale), bounds.low, bounds.high)


def bounded(of: Quant, to: Quant, low: float = LOW, high: float = HIGH) -> Unary:
    """x in another scale, between bounds that are stored values: activations_common.cc, ReluQuantized."""
    scale = quantize_multiplier(of.scale / to.scale)
    if scale.shift > 15:
        raise Unsupported("its scales differ too much: sums overflow int32")
    return lambda x: _fitted(rescaled(_wide(x), scale), low, high)


def leaky_relu(of: Quant, to: Quant, alpha: float) -> Unary:
    """x in another scale, and below 0 times alpha: reference/leaky_relu.h. Scales are those of int8's `LeakyRelu`."""
    above = quantize_multiplier(of.scale / to.scale)
    if alpha < 0:
        raise Unsupported(f"its alpha is {alpha}, below 0")
    below = quantize_multiplier(of.scale * float(np.float32(alpha)) / to.scale)
    if max(above.shift, below.shift) > 15:
        raise Unsupported("its scales differ too much: sums overflow int32")
    return lambda x: _fitted((x >= 0).select(rescaled(_wide(x), above), rescaled(_wide(x), below)))


def clipped(low: float, high: float) -> Unary:
    """x between bounds that are stored values: activations_common.cc, Relu6Quantized."""
    return lambda x: _fitted(_wide(x), low, high)


def _table_steps(of: Quant, to: Quant, shifts: Sequence[int]) -> tuple[int, int]:
    """The factor and the shift that bring x to the steps of the table of sigmoids: logistic_common.cc and tanh.cc.

    `shifts`: exponents for which a scale of 2^(exponent - 12) is exact.
    """
    if to.scale != UNIT:
        raise Unsupported(f"its output has scale {to.scale}, 2^-15 is needed")
    fraction, exponent = math.frexp(of.scale)
    if fraction == 0.5 and exponent - 1 + 12 in shifts:
        return 3 << (exponent - 1 + 12), 0
    multiplier, shift = of.scale * 4096.0 * 3.0, 0
    while multiplier <= 32767.0 / 2.0 and shift <= 30:
        multiplier, shift = multiplier * 2, shift + 1
    if multiplier > HIGH:
        raise Unsupported(f"its input has scale {of.scale}, at most {HIGH / 12288:g} is possible")
    return int(multiplier), shift


def _steps(x: Term, factor: int, shift: int) -> Term:
    return (_wide(x) * factor + (1 << shift >> 1)) >> shift


def _between(size: Term, bits: int) -> tuple[Term, Term]:
    """The table of sigmoids at `size`, which has so many fraction bits, as they shift it; and the entry's place."""
    place = size >> bits
    entries = [int(v) for v in SIGMOID]
    at = f.minimum(place, 254)
    low = at.entry(entries, DType.UINT16).cast(DType.INT32)
    high = (at + 1).entry(entries, DType.UINT16).cast(DType.INT32)
    return (low << bits) + (size & ((1 << bits) - 1)) * (high - low), place


def logistic(of: Quant, to: Quant) -> Unary:
    """1 / (1 + e^-x): reference/integer_ops/logistic.h."""
    factor, shift = _table_steps(of, to, (0,))

    def write(x: Term) -> Term:
        steps = _steps(x, factor, shift)
        inside, place = _between(abs(steps), 9)
        value = (place >= 255).select(inside.constant(0x7FFF << 10), inside)
        signed = (steps >= 0).select(value + (1 << 9), ((1 << 25) + (1 << 9) - 1) - value)
        return (signed >> 10).cast(DType.INT16)

    return write


def tanh(of: Quant, to: Quant) -> Unary:
    """Hyperbolic tangent: reference/integer_ops/tanh.h."""
    factor, shift = _table_steps(of, to, (0, 1))

    def write(x: Term) -> Term:
        steps = _steps(x, factor, shift)
        inside, place = _between(abs(steps), 8)
        value = (place >= 255).select(inside.constant(0xFFFF << 8), inside) - (1 << 23)
        signed = (steps >= 0).select(value + (1 << 7), ((1 << 7) - 1) - value)
        return (signed >> 8).cast(DType.INT16)

    return write


def quantised(to: Quant, dtype: DType = DType.INT16) -> Unary:
    """float32 to integers, halves away from zero: reference/quantize.h."""
    if to.zero_point:
        raise Unsupported("it quantises to another type than int16 with zero point 0")
    low, high = dtype.limits

    def write(real_x: Term) -> Term:
        steps = real_x / to.scale
        whole = f.truncate(steps)
        away = (abs(steps - whole) >= 0.5).select(f.copy_sign(steps.constant(1.0), steps), 0.0)
        return f.clip(whole + away, low, high).cast(dtype)

    return write


def requantised(of: Quant, to: Quant, source: DType, dtype: DType) -> Unary:
    """Integers of the type `source` in another scale, as those of `dtype`: reference/requantize.h."""
    scale, (low, high) = quantize_multiplier(of.scale / to.scale), dtype.limits
    wide = source is DType.INT32
    if scale.shift > (-1 if wide and to.zero_point else 0 if wide else 14) or (wide and of.zero_point):
        raise Unsupported(f"it quantises to {dtype.value} by {of.scale / to.scale:g}, which overflows int32")
    if dtype is DType.INT32 and to.zero_point:
        raise Unsupported(f"it quantises to int32 with zero point {to.zero_point}, 0 is needed")
    return lambda v: f.clip(rescaled(_wide(v) - of.zero_point, scale) + to.zero_point, low, high).cast(dtype)


def dequantised(of: Quant) -> Unary:
    """float32: reference/dequantize.h."""
    return lambda x: (_wide(x) - of.zero_point).cast(DType.FLOAT32) * of.scale


def mean(of: Quant, to: Quant, count: int) -> tuple[Unary, Unary]:
    """What each of `count` elements is before they are summed up, and their sum as the mean.

    reference/reduce.h, QuantizedMeanOrSum.
    """
    scale = mean_scale(of.scale / to.scale, count)
    if count > 1 << 15 or scale.shift > 0:
        raise Unsupported(f"its sums of {count} elements overflow int32")
    return _wide, lambda v: _fitted(rescaled(v, scale))


def table(
    function: Callable[[Reals], Reals], scale: float, zero: int, to: float | np.float32 = _TWO
) -> tuple[int, ...]:
    """TFLite's table of a function of int16 (internal/common.h, LUTPopulateInt16), in single precision.

    `to`: the scale of outputs.
    """
    ends = np.array([LOW - zero, HIGH - zero], np.float32) * np.float32(scale)
    bounds = np.array([LOW, HIGH], np.float32) * np.float32(to)
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
    return np.copysign(np.floor(np.abs(v.astype(np.float64)) + 0.5), v).astype(np.float32)


def power_of_e(v: Reals) -> Reals:
    """exp, rounded to single precision once."""
    return np.exp(v.astype(np.float64)).astype(np.float32)


def looked_up(x: Term, table: tuple[int, ...]) -> Term:
    """The table at x, an int32 within int16, with linear interpolation (LUTLookup)."""
    place, offset = (x >> 7) + 256, x & 0x7F
    base, after = (p.entry(table, DType.INT16).cast(DType.INT32) for p in (place, place + 1))
    return base + (((after - base) * offset + 64) >> 7)


def softmax(site: Site, x: Tensor, to: Quant, beta: float) -> Tensor:
    """Softmax along the last axis of x, int16, of the same shape: reference/softmax.h, SoftmaxInt16."""
    if abs(to.scale - UNIT) > 0.001 * UNIT:
        raise Unsupported(f"its output has scale {to.scale}, 2^-15 is needed")
    own = x.type.quantised.scale
    scale = quantize_multiplier(own * float(np.float32(beta)) / (10.0 / 65535.0))
    if scale.shift > 14:
        raise Unsupported(f"its input has scale {own}, which overflows int32")
    exps = table(power_of_e, float(np.float32(10) / np.float32(65535)), HIGH)
    inverses = table(lambda v: np.float32(1) / (np.float32(1) + v), float(np.float32(1) / np.float32(65535)), LOW)

    def exponential(v: Term, top: Term) -> Term:
        steps = rescaled(_wide(v) - _wide(top), scale) + HIGH
        return looked_up(f.clip(steps, LOW, HIGH), exps).cast(DType.INT16)

    def inverse(v: Term) -> Term:
        headroom = 31 - v.cast(DType.UINT32).width().cast(DType.INT32)
        near = (((v.cast(DType.INT64) << headroom.cast(DType.INT64)) + (1 << 13)) >> 14).cast(DType.INT32)
        return looked_up(f.clip(near - ((1 << 15) + (1 << 16)), LOW, HIGH), inverses)

    def scaled(e: Term, by: Term, v: Term) -> Term:
        right = v.cast(DType.UINT32).width().cast(DType.INT32) - 1
        return _fitted((_wide(e) * by + (right.constant(1) << (right - 1))) >> right, 0)

    return _shares(site, x, to, exponential, _wide, inverse, scaled)


def _shares(
    site: Site, x: Tensor, to: Quant, exponential: Binary, addend: Unary, inverse: Unary, scaled: Callable[..., Term]
) -> Tensor:
    """The parts of a softmax along the last axis, one after the other.

    `exponential` is of an element and the largest one, `addend` what the sum has of an exponential, `inverse` of the
    sum, and `scaled` the result from an exponential, the inverse and the sum.
    """
    shape = x.type.shape
    rows = as_plain(shaped(site, x, (1, *shape) if len(shape) < 2 else shape))
    dtype = x.type.dtype
    larger = formula(lambda a, b: f.maximum(a, b), dtype, dtype)
    most = site.emit(Reduce, rows.tensor, dtype=dtype, formula=larger.text, along_channels=True, stored=True)
    exp = maps.of_stored(site, exponential, rows, as_plain(most))
    total_of = formula(lambda total, e: total + addend(e), DType.INT32, exp.tensor.type.dtype)
    total = site.emit(Reduce, exp.tensor, dtype=DType.INT32, formula=total_of.text, along_channels=True, initial=0)
    by = maps.mapped(site, inverse, as_plain(total))
    one = (*shape[:-1], 1)
    parts = zip((exp.tensor, by.tensor, total), (shape, one, one), strict=True)
    values = [as_plain(shaped(site, tensor, like)) for tensor, like in parts]
    return maps.of_stored(site, scaled, *values, quant=to).tensor


def softmax_of_int8(site: Site, x: Tensor, to: Quant, op: Softmax) -> Tensor:
    """Softmax along the last axis of x, int8, as int16 with the zero point -32768: reference/softmax.h, Softmax."""
    if to.zero_point != LOW or abs(to.scale - UNIT / 2) > 0.001 * UNIT / 2:
        raise Unsupported(f"its output has scale {to.scale} and zero point {to.zero_point}, 2^-16 and {LOW} are needed")
    if (size := x.type.shape[-1]) >= 1 << _SUM_BITS:
        raise Unsupported(f"its rows have {size} elements, {(1 << _SUM_BITS) - 1} at most are supported")
    exps = [int(e) for e in softmax_exps(op, Signature((x.type,), x.type))]

    def exponential(v: Term, top: Term) -> Term:
        return (_wide(top) - _wide(v)).entry(exps, DType.INT32)

    def inverse(v: Term) -> Term:
        above_one = (v.cast(DType.UINT32) << (32 - v.cast(DType.UINT32).width())) & HIGH_31
        return reciprocal_of_one_plus(above_one.cast(DType.INT32))

    def scaled(e: Term, by: Term, v: Term) -> Term:
        exponent = v.cast(DType.UINT32).width().cast(DType.INT32) + (_SUM_BITS - 32 + 31 - 16)
        mask = (v.constant(1) << exponent) - 1
        product = high_product(by, e)
        level = (product >> exponent) + ((product & mask) > (mask >> 1)).select(v.constant(1), 0)
        return _fitted(level + LOW)

    return _shares(site, x, to, exponential, lambda e: shifted_right(e, _SUM_BITS), inverse, scaled)


def reciprocal_of_one_plus(x: Term) -> Term:
    """1 / (1 + x) for x in [0, 1), Q0.31 in and out: the twin of `fixed_point.reciprocal_of_one_plus`."""
    half = ((x.cast(DType.INT64) + (1 << 31)) >> 1).cast(DType.INT32)
    guess = high_product(half, -1010580540) + 1515870810
    for _ in range(3):
        left = high_product(guess, (1 << 29) - high_product(half, guess))
        guess = guess + saturated(left.cast(DType.INT64) << 2)
    return saturated(guess.cast(DType.INT64) << 1)


def saturated(x: Term) -> Term:
    """The nearest int32 of an int64."""
    return f.clip(x, -(1 << 31), HIGH_31).cast(DType.INT32)
