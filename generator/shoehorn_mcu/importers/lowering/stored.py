"""Arithmetic on stored values of 8 and 16 bits as formulas: that of TFLite's reference kernels, named by file.

A function gives what computes an element of the result from those of the operands; all of them are exact in int32 but
where a kernel itself goes on with int64.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from shoehorn_mcu.importers.fault import Unsupported
from shoehorn_mcu.importers.lowering.int16 import (
    LOW,
    Binary,
    Unary,
    below_one,
    high_product,
    looked_up,
    reciprocal_of_one_plus,
    rescaled,
    saturated,
    shifted_right,
    table,
)
from shoehorn_mcu.ir import DType, Quant
from shoehorn_mcu.ops import functions as f
from shoehorn_mcu.ops.clamp import Bounds
from shoehorn_mcu.ops.fixed_point import (
    Scale,
    divide_by_pot,
    exp_on_negative_values,
    input_radius,
    quantize_multiplier,
    rescale,
)
from shoehorn_mcu.ops.formula import Term
from shoehorn_mcu.ops.real import Reals

_SUM_SHIFT = 20  # to the left, ahead of a sum of int8
_COMPARED_SHIFT = 8
_DIFFERENCE_SHIFT = {DType.INT8: 7, DType.INT16: 0}
_ONE = (1 << 31) - 1


def fitted(x: Term, dtype: DType, zero: int = 0, bounds: Bounds | None = None) -> Term:
    """x, int32, and a zero point, within the bounds or else what the type holds."""
    low, high = dtype.limits if bounds is None else (bounds.low, bounds.high)
    return f.clip(x + zero if zero else x, low, high).cast(dtype)


def _centred(x: Term, of: Quant) -> Term:
    whole = x.cast(DType.INT32)
    return whole - of.zero_point if of.zero_point else whole


def compared(write: Binary, operands: tuple[Quant, Quant]) -> Binary:
    """Two values at a common scale, rounded, then compared: comparisons.cc."""
    scales = [quantize_multiplier(quant.scale) for quant in operands]
    if any(scale.shift > 14 for scale in scales):
        raise Unsupported("its scales overflow int32")

    def compare(*terms: Term) -> Term:
        of = zip(terms, operands, scales, strict=True)
        return write(*(rescaled(_centred(x, quant) << _COMPARED_SHIFT, scale) for x, quant, scale in of))

    return compare


def squared_difference(operands: tuple[Quant, Quant], to: Quant, dtype: DType) -> Binary:
    """(a - b)^2: squared_difference.cc of tflite-micro."""
    shift = _DIFFERENCE_SHIFT[dtype]
    twice = 2 * max(quant.scale for quant in operands)
    scales = [below_one(quant.scale / twice) for quant in operands]
    scale = quantize_multiplier(twice * twice / ((1 << 2 * shift) * to.scale))

    def write(a: Term, b: Term) -> Term:
        first, second = (
            rescaled(_centred(x, quant) << shift, own) for x, quant, own in zip((a, b), operands, scales, strict=True)
        )
        difference = first - second
        return fitted(rescaled(difference * difference, scale), dtype, to.zero_point)

    return write


def added(of: Quant, to: Quant, dtype: DType) -> tuple[Unary, Unary]:
    """What each of many int8 addends of one scale is before they are summed up, and their sum as the result.

    reference/add_n.h and cumsum.h, whose sums begin with the stored value 0 in place of the number 0.
    """
    begin = -of.zero_point << (_SUM_SHIFT - 1)
    scale = below_one(2 * of.scale / ((1 << _SUM_SHIFT) * to.scale))
    return (
        lambda x: rescaled(_centred(x, of) << _SUM_SHIFT, below_one(0.5)),
        lambda total: fitted(rescaled(total + begin, scale), dtype, to.zero_point),
    )


def summed(of: Quant, to: Quant, count: int, dtype: DType) -> Unary:
    """The sum of `count` stored values, int32, as the result: reference/reduce.h, QuantizedMeanOrSum."""
    scale = quantize_multiplier(of.scale / to.scale)
    return lambda total: fitted(rescaled(total - of.zero_point * count, scale), dtype, to.zero_point)


def _rescaled_64(x: Term, scale: Scale) -> Term:
    """x, int64, times the scale, rounded once, as int32: the int64 overload of MultiplyByQuantizedMultiplier."""
    short = (scale.multiplier + (1 << 15)) >> 16 if scale.multiplier < 0x7FFF0000 else 0x7FFF
    return ((x * short + (1 << (14 - scale.shift))) >> (15 - scale.shift)).cast(DType.INT32)


def product(of: Quant, to: Quant, count: int, dtype: DType) -> tuple[Unary, Binary, Unary]:
    """What each of `count` elements is ahead, the product so far and another one, and the whole as the result.

    reference/reduce.h, QuantizedReduceProd.
    """
    scale = quantize_multiplier(of.scale / to.scale ** (1.0 / count))
    if scale.shift > 7:
        raise Unsupported("its scales differ too much: products overflow int32")
    return (
        lambda x: _centred(x, of),
        lambda total, x: _rescaled_64(total.cast(DType.INT64) * x.cast(DType.INT64), scale),
        lambda total: fitted(_rescaled_64(total.cast(DType.INT64), scale), dtype, to.zero_point),
    )


def matrix_product(
    operands: tuple[Quant, Quant], to: Quant, dtype: DType
) -> tuple[DType, Callable[[Term, Term, Term], Term], Unary]:
    """The type of sums, the sum so far and a product of two elements, and the sum as the result: batch_matmul.cc."""
    a, b = operands
    scale = quantize_multiplier(float(np.float32(a.scale) * np.float32(b.scale)) / to.scale)
    if dtype is DType.INT16:
        if scale.shift > 7:
            raise Unsupported("its scales differ too much: sums overflow int32")

        def longer(total: Term, x: Term, y: Term) -> Term:
            return total + (x.cast(DType.INT32) * y.cast(DType.INT32)).cast(DType.INT64)

        return DType.INT64, longer, lambda total: fitted(_rescaled_64(total, scale), dtype)

    def write(total: Term, x: Term, y: Term) -> Term:
        return total + _centred(x, a) * _centred(y, b)

    return DType.INT32, write, lambda total: fitted(rescaled(total, scale), dtype, to.zero_point)


def _leading_zeros(x: Term) -> Term:
    """Of an int32 that is not below 0, as an int32."""
    return 32 - x.cast(DType.UINT32).width().cast(DType.INT32)


def divided(operands: tuple[Quant, Quant], to: Quant, dtype: DType, bounds: Bounds) -> Binary:
    """a / b: reference/div.h. What it computes of a divisor of 0 is unspecified."""
    a, b = operands
    with np.errstate(over="ignore", divide="ignore"):
        factor = float(np.float32(a.scale) / (np.float32(b.scale) * np.float32(to.scale)))
    if not np.isfinite(factor):
        raise Unsupported("its scales differ too much")
    scale = quantize_multiplier(factor)

    def write(x: Term, y: Term) -> Term:
        top, bottom = _centred(x, a), _centred(y, b)
        below = bottom < 0
        top, bottom = below.select(-top, top), below.select(-bottom, bottom)
        zeros = _leading_zeros(bottom)
        ahead = ((bottom.cast(DType.UINT32) << zeros.cast(DType.UINT32)) & 0x7FFFFFFF).cast(DType.INT32)
        headroom = _leading_zeros((top < 0).select(~top, top)) - 1
        quotient = high_product(top << headroom, reciprocal_of_one_plus(ahead))
        right = (31 - zeros) + headroom - scale.shift
        result = shifted_right(high_product(quotient, scale.multiplier), f.clip(right, 0, 31))
        return fitted(result, dtype, to.zero_point, bounds)

    return write


def _inverse_root(total: Term) -> tuple[Term, Term]:
    """The multiplier and the shift to the right of 1 / sqrt(total): GetInvSqrtQuantizedMultiplierExp."""
    half_root = 1518500250  # of 2, Q0.31
    value, shift = f.maximum(total, 2), total.constant(11)
    for _ in range(2):
        large = value >= (1 << 29)
        value, shift = large.select(value >> 2, value), large.select(shift + 1, shift)
    pairs = ((_leading_zeros(value) - 1) >> 1) - 1
    value, shift = value << (pairs << 1), shift - pairs
    half = shifted_right(value >> 1, 1)
    x = value.constant(1 << 28)  # 1 in Q3.28
    for _ in range(5):
        cube = saturated(high_product(high_product(x, x), x).cast(DType.INT64) << 6)  # from Q9.22 to Q3.28
        x = saturated((high_product(x, 3 << 27) - high_product(half, cube)).cast(DType.INT64) << 3)  # from Q6.25
    x = high_product(x, half_root)
    below = shift < 0
    x, shift = below.select(x << -shift, x), below.select(shift.constant(0), shift)
    small = total <= 1
    return small.select(x.constant(_ONE), x), small.select(shift.constant(0), shift)


def squares(of: Quant) -> Unary:
    """The square of an element."""
    return lambda x: _centred(x, of) * _centred(x, of)


def normalised(of: Quant, dtype: DType, shifted: bool, x: Term, total: Term) -> Term:
    """An element by the root of the sum of all squares, at the scale 1/128: integer_ops/l2normalization.h.

    `shifted`: the element is multiplied by 128 ahead, not as far as the whole shift asks for: l2normalization.h.
    """
    multiplier, right = _inverse_root(total)
    left = right.constant(7) if shifted else f.maximum(7 - right, 0)
    ahead = _centred(x, of) << left
    behind = right if shifted else f.maximum(right - 7, 0)
    return fitted(shifted_right(high_product(ahead, multiplier), behind), dtype)


def bounded(of: Quant, to: Quant, low: int, high: int, dtype: DType) -> Unary:
    """x in another scale, between stored values: activations.cc, QuantizedReluX."""
    with np.errstate(over="ignore"):
        factor = float(np.float32(of.scale) / np.float32(to.scale))
    scale = quantize_multiplier(factor if np.isfinite(factor) else 0.0)
    if not np.isfinite(factor) or scale.shift > 14:
        raise Unsupported("its scales differ too much: sums overflow int32")
    return lambda x: f.clip(rescaled(_centred(x, of), scale) + to.zero_point, low, high).cast(dtype)


_LOG_BITS = 12, 5
"""Integer bits of the sums of powers, and of their logarithms."""


def _log(total: Term) -> Term:
    """The natural logarithm of a number from 1 on, Q12.19 to Q5.26: log_x_for_x_greater_than_or_equal_to_1."""
    root_half, fourth_root = 1518500250, 1805811301  # of 1/2, Q0.31
    more, quarter = 31 - (_LOG_BITS[1] + 1), 1 << 23  # fraction bits of powers of two, and 1/4 in them
    zeros = _leading_zeros(total)
    near = saturated(high_product(total << (zeros - 1), root_half).cast(DType.INT64) << 1)
    power = ((_LOG_BITS[0] - zeros) << more) + quarter
    headroom = _leading_zeros(high_product(total, root_half)) - 1
    other = saturated(total.cast(DType.INT64) << headroom.cast(DType.INT64))
    other_power = ((_LOG_BITS[0] - headroom) << more) - quarter
    r, power = f.minimum(near, other), f.maximum(power, other_power)
    p = ((r.cast(DType.INT64) + (fourth_root + 1)) >> 1).cast(DType.INT32)
    q = r - fourth_root
    q = q + q
    square = high_product(q, q)
    top = high_product(q, r) + high_product(high_product(q, square), 117049297)
    inside = q + 1057819769 + high_product(square, 127690142)
    bottom = high_product(p, inside) + high_product(q, 638450708)
    fraction = high_product(shifted_right(top, _LOG_BITS[1] + 1), reciprocal_of_one_plus(bottom))
    return saturated((high_product(power, 1488522236) + fraction).cast(DType.INT64) << 1)


def log_softmax(of: Quant, dtype: DType) -> tuple[Binary, Unary, Callable[[Term, Term, Term], Term]]:
    """The power of an element and the largest one, the logarithm of the sum of all powers, and the result of these two
    elements and the logarithm: reference/log_softmax.h, LogSoftmaxQuantized.

    Results have the scale 1/16 and the highest zero point.
    """
    bits = _LOG_BITS[1]
    scale = quantize_multiplier(min(of.scale * 2.0 ** (31 - bits), 2.0**31 - 1))
    back = quantize_multiplier(2.0 ** (31 - scale.shift) / scale.multiplier)
    least = -input_radius(bits, scale.shift)
    differences = np.arange(-255, 1)
    wide = rescale(differences, *scale)
    powers = divide_by_pot(exp_on_negative_values(np.where(differences >= least, wide, 0), bits), _LOG_BITS[0])
    powers = np.where(differences >= least, powers, 0)
    tables = tuple(tuple(int(v) for v in np.where(differences >= least, each, 0)) for each in (wide, powers))
    low, high = dtype.limits

    def place(x: Term, most: Term) -> Term:
        return x.cast(DType.INT32) - most.cast(DType.INT32) + 255

    def result(x: Term, most: Term, log: Term) -> Term:
        at = place(x, most)
        limit = f.maximum(rescaled(log + -(1 << 31), back), log.constant(least - 1))
        steps = shifted_right(at.entry(tables[0], DType.INT32) - log, 31 - bits - 4)
        return (at - 255 > limit).select(f.clip(steps + high, low, high), at.constant(low)).cast(dtype)

    return lambda x, most: place(x, most).entry(tables[1], DType.INT32), _log, result


def magnitude(of: Quant, to: Quant, dtype: DType) -> Unary:
    """|x|: elementwise.cc, AbsEvalQuantized."""
    scale = quantize_multiplier(_quotient(np.float32(of.scale), np.float32(to.scale)))
    same = of.scale == to.scale
    return lambda x: fitted(abs(_centred(x, of)) if same else rescaled(abs(_centred(x, of)), scale), dtype)


def _quotient(a: np.float32, b: np.float32) -> float:
    """a / b in single precision; raises Unsupported where products with it overflow int32."""
    with np.errstate(over="ignore", divide="ignore"):
        found = float(a / b)
    if not found < 1 << 14:
        raise Unsupported(f"its scales differ by a factor of {found:g}, which overflows int32")
    return found


_ROOT_SHIFT = 20


def inverse_root(of: Quant, to: Quant, dtype: DType) -> Unary:
    """1 / sqrt(x), the largest value for 0: elementwise.cc of tflite-micro, RsqrtEvalQuantized."""
    scale = quantize_multiplier(1.0 / float(np.sqrt(np.float32(of.scale)) * np.float32(to.scale)))

    def write(x: Term) -> Term:
        value = _centred(x, of)
        multiplier, right = _inverse_root(value)
        left = _ROOT_SHIFT - right
        one = value.constant(1) << f.maximum(left, 0)
        data = shifted_right(high_product(one, multiplier), f.maximum(-left, 0))
        result = rescaled(data, Scale(scale.multiplier, scale.shift - _ROOT_SHIFT))
        return value.equals(0).select(value.constant(dtype.limits[1]).cast(dtype), fitted(result, dtype, to.zero_point))

    return write


def root(of: Quant, to: Quant, dtype: DType) -> Unary:
    """sqrt(x) in single precision, cut to an integer: elementwise.cc of LiteRT, SqrtEvalQuantized."""

    def write(x: Term) -> Term:
        real = (_centred(x, of).cast(DType.FLOAT32) * of.scale).sqrt() / to.scale
        return fitted(real.cast(DType.INT32), dtype, to.zero_point)

    return write


def prelu(operands: tuple[Quant, Quant], to: Quant, dtype: DType) -> Binary:
    """x, or x times a slope where it is below 0: reference/prelu.h."""
    of, slopes = operands
    scale, with_slope = (
        quantize_multiplier(_quotient(np.float32(each), np.float32(to.scale)))
        for each in (of.scale, np.float32(of.scale) * np.float32(slopes.scale))
    )

    def write(x: Term, slope: Term) -> Term:
        value = _centred(x, of)
        below = rescaled(value * _centred(slope, slopes), with_slope)
        return fitted((value < 0).select(below, rescaled(value, scale)), dtype, to.zero_point)

    return write


def of_table(function: Callable[[Reals], Reals], of: Quant, to: Quant) -> Unary:
    """A function of int16 by TFLite's table of 513 results: internal/common.h, LUTPopulateInt16."""
    entries = table(function, of.scale, of.zero_point, to.scale)
    return lambda x: looked_up(x.cast(DType.INT32), entries).cast(DType.INT16)


def logarithm(to: Quant) -> Callable[[Reals], Reals]:
    """The natural logarithm, rounded once; the least number of the scale where there is none."""
    least = np.float32(LOW) * np.float32(to.scale)

    def write(v: Reals) -> Reals:
        with np.errstate(all="ignore"):
            found: Reals = np.where(v > 0, np.log(v.astype(np.float64)), least).astype(np.float32)
        return found

    return write
