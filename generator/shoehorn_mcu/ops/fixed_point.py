"""The one rounding rule: gemmlowp double rounding as TFLite Micro's reference kernels compute it.

Every function takes and gives int64 arrays whose values are those of the int32 (or int16) C arithmetic.
`rescale` is the twin of `sh_rescale` in runtime_c/include/sh_quant.h. Formats: Qm.n holds real * 2^n, m + n = 31.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shoehorn_mcu.ir import Floats, Ints

_ONE = (1 << 31) - 1  # 1.0 in Q0.31, as near as it gets


class Scale(NamedTuple):
    """A real factor as multiplier * 2^(shift - 31); the multiplier is 0 or in [2^30, 2^31)."""

    multiplier: int
    shift: int  # positive: to the left


def quantize_multiplier(real: float) -> Scale:
    """The Scale nearest to a factor `real` >= 0; factors below 2^-32 become 0 (TFLite's QuantizeMultiplier)."""
    (multiplier,), (shift,) = quantize_multipliers(np.array([real]))
    return Scale(int(multiplier), int(shift))


def quantize_multipliers(reals: Floats) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
    """`quantize_multiplier` of each factor: multipliers and shifts as arrays of the same length."""
    fractions, exponents = np.frexp(np.asarray(reals, np.float64))
    rounded = np.floor(fractions * (1 << 31) + 0.5).astype(np.int64)
    multipliers = np.where(rounded == 1 << 31, 1 << 30, rounded)
    shifts = np.minimum(exponents + (rounded == 1 << 31), 127)  # factors that nothing holds do not become small ones
    known = (shifts >= -31) & (rounded > 0)
    return np.where(known, multipliers, 0).astype(np.int32), np.where(known, shifts, 0).astype(np.int8)


def wrap32(x: ArrayLike) -> Ints:
    """The values modulo 2^32, as int32 arithmetic on every target leaves them."""
    return (np.asarray(x, np.int64) & 0xFFFFFFFF).astype(np.uint32).view(np.int32).astype(np.int64)


def high_mul(a: ArrayLike, b: ArrayLike) -> Ints:
    """round(a * b / 2^31), halves towards +infinity; -2^31 * -2^31 saturates (SaturatingRoundingDoublingHighMul)."""
    product = np.asarray(a, np.int64) * np.asarray(b, np.int64)
    nudged = product + np.where(product >= 0, 1 << 30, 1 - (1 << 30))
    return np.minimum(_divide_to_zero(nudged, 31), _ONE)


def divide_by_pot(x: ArrayLike, exponent: ArrayLike) -> Ints:
    """round(x / 2^exponent), halves away from zero (RoundingDivideByPOT); 0 <= exponent <= 31."""
    value, by = np.asarray(x, np.int64), np.asarray(exponent, np.int64)
    mask = (np.int64(1) << by) - 1
    threshold = (mask >> 1) + (value < 0)
    return (value >> by) + ((value & mask) > threshold)


def rescale(acc: ArrayLike, multiplier: ArrayLike, shift: ArrayLike) -> Ints:
    """acc * multiplier * 2^(shift - 31), rounded twice (MultiplyByQuantizedMultiplier).

    The three broadcast against each other, so per-channel scales match a last axis of channels.
    A left shift wraps modulo 2^32, as TFLite Micro's int32 arithmetic does.
    """
    left = np.maximum(np.asarray(shift, np.int64), 0)
    right = np.maximum(-np.asarray(shift, np.int64), 0)
    return divide_by_pot(high_mul(wrap32(np.asarray(acc, np.int64) << left), multiplier), right)


def rescale_64(acc: ArrayLike, multiplier: ArrayLike, shift: ArrayLike) -> Ints:
    """acc * multiplier * 2^(shift - 31) for sums of up to 48 bits, rounded once, halves up.

    Of the multiplier 16 bits count. The int64 overload of MultiplyByQuantizedMultiplier, which TFLite Micro's int16
    kernels with an int64 bias use (tensorflow/lite/kernels/internal/common.cc); shift is below 8. It is the twin of
    `sh_rescale_64`.
    """
    by, wide = np.asarray(multiplier, np.int64), 15 - np.asarray(shift, np.int64)
    short = np.where(by < 0x7FFF0000, (by + (1 << 15)) >> 16, 0x7FFF)
    return (np.asarray(acc, np.int64) * short + (np.int64(1) << (wide - 1))) >> wide


def input_radius(integer_bits: int, left_shift: int) -> int:
    """Largest input magnitude that a rescale by 2^left_shift keeps within Q(integer_bits) (CalculateInputRadius)."""
    return math.floor(((1 << integer_bits) - 1) * (1 << (31 - integer_bits)) / 2.0**left_shift)


def exp_on_negative_values(x: ArrayLike, integer_bits: int) -> Ints:
    """exp(x) for x <= 0 in Q(integer_bits), as Q0.31; integer_bits <= 5 (gemmlowp)."""
    value = np.asarray(x, np.int64)
    fraction_bits = 31 - integer_bits
    quarter = 1 << (fraction_bits - 2)
    below = (value & (quarter - 1)) - quarter  # x mod 1/4, less 1/4
    result = _exp_near_zero(below << integer_bits)
    left = below - value
    for exponent, factor in _EXP_FACTORS:
        if exponent < integer_bits:
            bit = 1 << (fraction_bits + exponent)
            result = np.where(left & bit, high_mul(result, factor), result)
    return np.where(value == 0, _ONE, result)


# exp(-2^exponent) in Q0.31, the factors of the bits of x above 1/4
_EXP_FACTORS = (
    (-2, 1672461947),
    (-1, 1302514674),
    (0, 790015084),
    (1, 290630308),
    (2, 39332535),
    (3, 720401),
    (4, 242),
)


def reciprocal_of_one_plus(x: ArrayLike) -> Ints:
    """1 / (1 + x) for x in [0, 1), Q0.31 in and out (one_over_one_plus_x_for_x_in_0_1)."""
    return saturate32(_newton_reciprocal(x) << 1)


def logistic(x: ArrayLike, integer_bits: int) -> Ints:
    """1 / (1 + exp(-x)) for x in Q(integer_bits), as Q0.31."""
    value = np.asarray(x, np.int64)
    positive = reciprocal_of_one_plus(exp_on_negative_values(-np.abs(value), integer_bits))
    return np.where(value == 0, 1 << 30, np.where(value > 0, positive, _ONE - positive))


def tanh(x: ArrayLike, integer_bits: int) -> Ints:
    """tanh(x) for x in Q(integer_bits), integer_bits <= 4, as Q0.31."""
    value = np.asarray(x, np.int64)
    # The raw bits of x read with one integer bit more are 2x.
    exp = exp_on_negative_values(-np.abs(value), integer_bits + 1)
    magnitude = saturate32((_newton_reciprocal(exp) - (1 << 29)) << 2)  # 2 / (1 + exp) - 1, Q2.29 to Q0.31
    return np.where(value == 0, 0, np.where(value < 0, -magnitude, magnitude))


def saturate32(x: ArrayLike) -> Ints:
    """The nearest int32 values."""
    return np.clip(np.asarray(x, np.int64), -(1 << 31), _ONE)


def saturate16(x: ArrayLike) -> Ints:
    """The nearest int16 values."""
    return np.clip(np.asarray(x, np.int64), -(1 << 15), (1 << 15) - 1)


def high_mul16(a: ArrayLike, b: ArrayLike) -> Ints:
    """round(a * b / 2^15) on int16 values, rounding and saturating as `high_mul`."""
    product = np.asarray(a, np.int64) * np.asarray(b, np.int64)
    nudged = product + np.where(product >= 0, 1 << 14, 1 - (1 << 14))
    return saturate16(_divide_to_zero(nudged, 15))


def high_mul16_to_zero(a: ArrayLike, b: ArrayLike) -> Ints:
    """a * b / 2^15 on int16 values, cut towards zero."""
    return saturate16(_divide_to_zero(np.asarray(a, np.int64) * np.asarray(b, np.int64), 15))


def multiplier16(multiplier: int) -> int:
    """A Scale's multiplier rounded to 16 bits (DownScaleInt32ToInt16Multiplier)."""
    return min((multiplier + (1 << 15)) >> 16, (1 << 15) - 1)


def _divide_to_zero(x: Ints, exponent: int) -> Ints:
    """x / 2^exponent cut towards zero, as C divides."""
    return (x + np.where(x < 0, (1 << exponent) - 1, 0)) >> exponent


def _exp_near_zero(a: Ints) -> Ints:
    """exp(a) for a in [-1/4, 0), Q0.31: Taylor expansion around -1/8."""
    exp_of_minus_eighth, third = 1895147668, 715827883
    x = a + (1 << 28)
    x2 = high_mul(x, x)
    x3 = high_mul(x2, x)
    x4 = high_mul(x2, x2)
    higher = divide_by_pot(high_mul(divide_by_pot(x4, 2) + x3, third) + x2, 1)
    return exp_of_minus_eighth + high_mul(exp_of_minus_eighth, x + higher)


def _newton_reciprocal(x: ArrayLike) -> Ints:
    """2 / (1 + x) for x in [0, 1) in Q0.31, as Q2.29: three Newton-Raphson steps from 48/17 - 32/17 d."""
    half = (np.asarray(x, np.int64) + _ONE + 1) // 2  # d = (1 + x) / 2, rounded
    guess = 1515870810 + high_mul(half, -1010580540)
    for _ in range(3):
        error = (1 << 29) - high_mul(half, guess)
        guess = guess + saturate32(high_mul(guess, error) << 2)
    return guess
