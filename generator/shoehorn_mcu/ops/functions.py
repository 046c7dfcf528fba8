"""Functions of float32 as formulas: from sums, products, quotients, roots and bits alone, so equal on every core.

Polynomials are Chebyshev interpolants computed in float64 and rounded; arguments are reduced as in Cody and Waite
(1980), Software Manual for the Elementary Functions. `tests/test_formula.py` bounds each one's error; where no other
bound is named it is 4 units of the last place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from shoehorn_mcu.ir import DType
from shoehorn_mcu.ops.formula import Term

_INTEGRAL = 2.0**23  # from here on every float32 is an integer
_INFINITY = math.inf


def polynomial(x: Term, factors: Sequence[float]) -> Term:
    """The sum of factors[i] * x^(n - 1 - i), by Horner's scheme."""
    total = x.constant(factors[0])
    for factor in factors[1:]:
        total = total * x + factor
    return total


def minimum(a: Term, b: Term | float) -> Term:
    """The smaller; a where a is NaN."""
    return (a > b).select(b, a)


def maximum(a: Term, b: Term | float) -> Term:
    """The larger; a where a is NaN."""
    return (a < b).select(b, a)


def clip(x: Term, low: Term | float, high: Term | float) -> Term:
    """x within low..high; NaN stays."""
    return minimum(maximum(x, low), high)


def is_nan(x: Term) -> Term:
    """Whether x is not a number."""
    return ~x.equals(x)


def copy_sign(x: Term, sign: Term) -> Term:
    """|x| with the sign of `sign`, which may be that of a zero."""
    return ((x.bits() & 0x7FFFFFFF) | (sign.bits() & -0x80000000)).bits()


def truncate(x: Term) -> Term:
    """The integer next to x towards zero."""
    inside = abs(x) < _INTEGRAL
    return inside.select(copy_sign(x.cast(DType.INT32).cast(DType.FLOAT32), x), x)


def floor(x: Term) -> Term:
    """The largest integer that is not above x."""
    whole = truncate(x)
    return (x < whole).select(whole - 1.0, whole)


def ceil(x: Term) -> Term:
    """The smallest integer that is not below x."""
    return -floor(-x)


def round_even(x: Term) -> Term:
    """The nearest integer, the even one between two."""
    size = abs(x)
    whole = (size + _INTEGRAL) - _INTEGRAL
    return (size < _INTEGRAL).select(copy_sign(whole, x), x)


def sign(x: Term) -> Term:
    """-1, 0 or 1; of floats and integers."""
    one, zero = x.constant(1), x.constant(0)
    positive = (x > zero).select(one, zero)
    return positive if x.dtype.numpy.kind == "u" else (x < zero).select(-one, positive)


def exp(x: Term) -> Term:
    """e^x; 0 below -104."""
    near = clip(x, -104.0, 89.0)
    times = near * 1.44269504
    whole = (times + 12582912.0) - 12582912.0  # 1.5 * 2^23: rounds to the nearest integer
    r = (near - whole * 0.693145751953125) - whole * 1.42860677e-06
    series = polynomial(r, (1.9894913e-04, 1.3937182e-03, 8.3333077e-03, 4.1666433e-02, 1.6666667e-01, 0.5))
    value = (series * (r * r) + r) + 1.0
    power = whole.cast(DType.INT32)
    half = power >> 1
    return value * _power_of_two(half) * _power_of_two(power - half)


def _power_of_two(n: Term) -> Term:
    """2^n for -126 <= n <= 127, of an int32."""
    return ((n + 127) << 23).bits()


def log(x: Term) -> Term:
    """The natural logarithm: -infinity of 0, NaN of negative numbers."""
    tiny = x < 2.0**-126
    bits = tiny.select(x * 2.0**23, x).bits()
    # x = 2^power * m with sqrt(1/2) <= m < sqrt(2)
    power = (bits - 0x3F3504F3) >> 23
    m = (bits - (power << 23)).bits()
    whole = power.cast(DType.FLOAT32) - tiny.select(x.constant(23.0), x.constant(0.0))
    t = m - 1.0
    square = t * t
    series = polynomial(
        t,
        (
            *(-6.2015489e-02, 1.0530894e-01, -1.0646185e-01, 1.1037777e-01, -1.2450743e-01, 1.4286526e-01),
            *(-1.6668001e-01, 2.0000011e-01, -2.4999990e-01, 3.3333334e-01),
        ),
    )
    low = (t * square * series + whole * 1.42860677e-06) - square * 0.5
    value = (low + t) + whole * 0.693145751953125
    value = (x < _INFINITY).select(value, x)  # infinity and NaN
    zero = x.equals(0.0)
    return (x < 0.0).select(x.constant(math.nan), zero.select(x.constant(-_INFINITY), value))


def log1p(x: Term) -> Term:
    """log(1 + x), also for small x (Kahan's quotient)."""
    u = x + 1.0
    near = u - 1.0
    plain = log(u)
    quotient = plain * (x / near)
    corrected = near.equals(0.0).select(x, quotient)
    return (u < _INFINITY).select(corrected, plain)


def _quadrant(x: Term) -> tuple[Term, Term]:
    """The number of quarter turns of pi/2 nearest to x, as an int32, and the rest; for |x| up to some 10,000."""
    times = x * 0.636619772
    whole = (times + 12582912.0) - 12582912.0
    r = ((x - whole * 1.5703125) - whole * 4.837512969970703e-4) - whole * 7.549789948768648e-8
    return whole.cast(DType.INT32), r


def _sine(r: Term) -> Term:
    square = r * r
    return polynomial(square, (2.7242092e-06, -1.9840026e-04, 8.3333319e-03, -1.6666667e-01)) * (square * r) + r


def _cosine(r: Term) -> Term:
    square = r * r
    series = polynomial(square, (-2.7294260e-07, 2.4800547e-05, -1.3888888e-03, 4.1666668e-02))
    return (series * (square * square) - square * 0.5) + 1.0


def _turned(quarters: Term, r: Term) -> Term:
    """The sine of r plus this many quarter turns."""
    odd = (quarters & 1).equals(1)
    value = odd.select(_cosine(r), _sine(r))
    return (quarters & 2).equals(2).select(-value, value)


def sin(x: Term) -> Term:
    """The sine of x, off by 2^-23 at most where |x| is up to some 10,000."""
    quarters, r = _quadrant(x)
    return _turned(quarters, r)


def cos(x: Term) -> Term:
    """The cosine of x, off by 2^-23 at most where |x| is up to some 10,000."""
    quarters, r = _quadrant(x)
    return _turned(quarters + 1, r)


def tan(x: Term) -> Term:
    """The tangent of x."""
    return sin(x) / cos(x)


def atan(x: Term) -> Term:
    """The inverse tangent, -pi/2 to pi/2."""
    size = abs(x)
    far, middle = size > 2.41421356, size > 0.414213562
    near = far.select(-1.0 / size, middle.select((size - 1.0) / (size + 1.0), size))
    base = far.select(x.constant(1.57079633), middle.select(x.constant(0.785398163), x.constant(0.0)))
    square = near * near
    series = polynomial(square, (-6.4397417e-02, 1.0740044e-01, -1.4263614e-01, 1.9999531e-01, -3.3333331e-01))
    value = base + (series * (square * near) + near)
    return is_nan(x).select(x, copy_sign(value, x))


def asin(x: Term) -> Term:
    """The inverse sine, -pi/2 to pi/2; NaN beyond -1..1."""
    far, near = _asin_parts(abs(x))
    return copy_sign(far.select(1.57079633 - (near + near), near), x) + _outside(abs(x))


def acos(x: Term) -> Term:
    """The inverse cosine, 0 to pi; NaN beyond -1..1."""
    far, near = _asin_parts(abs(x))
    twice = near + near
    beyond = (x < 0.0).select(3.14159265 - twice, twice)
    return far.select(beyond, 1.57079633 - copy_sign(near, x)) + _outside(abs(x))


def _asin_parts(size: Term) -> tuple[Term, Term]:
    """Whether size > 0.5; and the inverse sine of size, or then of the root of half of what size lacks to 1."""
    far = size > 0.5
    square = far.select((1.0 - size) * 0.5, size * size)
    root = far.select(square.sqrt(), size)
    factors = (3.3690847e-02, 1.7149238e-02, 3.1100662e-02, 4.4599403e-02, 7.5000942e-02, 1.6666666e-01)
    return far, polynomial(square, factors) * (square * root) + root


def _outside(size: Term) -> Term:
    """NaN where size > 1, else 0."""
    return (size > 1.0).select(size.constant(math.nan), size.constant(0.0))


def sinh(x: Term) -> Term:
    """The hyperbolic sine; infinite from 88.7 on."""
    size = abs(x)
    square = x * x
    near = polynomial(square, (2.5456750e-08, 2.7553770e-06, 1.9841283e-04, 8.3333338e-03, 1.6666667e-01))
    power = exp(size)
    far = copy_sign((power - 1.0 / power) * 0.5, x)
    return (size < 1.0).select(near * (square * x) + x, far)


def cosh(x: Term) -> Term:
    """The hyperbolic cosine; infinite from 88.7 on."""
    power = exp(abs(x))
    return (power + 1.0 / power) * 0.5


def tanh(x: Term) -> Term:
    """The hyperbolic tangent."""
    size = abs(x)
    square = x * x
    factors = (2.2149028e-03, -8.2724569e-03, 2.1746187e-02, -5.3956348e-02, 1.3333291e-01, -3.3333334e-01)
    near = polynomial(square, factors) * (square * x) + x
    power = exp(size + size)
    far = copy_sign(1.0 - 2.0 / (power + 1.0), x)
    return (size < 0.65).select(near, is_nan(x).select(x, far))


def asinh(x: Term) -> Term:
    """The inverse hyperbolic sine."""
    size = abs(x)
    square = minimum(size, 1e18) * size  # no infinite square
    value = log1p(size + square / ((square + 1.0).sqrt() + 1.0))
    return is_nan(x).select(x, copy_sign((size < 1e18).select(value, log(size) + 0.693147181), x))


def acosh(x: Term) -> Term:
    """The inverse hyperbolic cosine; NaN below 1."""
    over = x - 1.0
    return (x < 1e18).select(log1p(over + (over * (over + 2.0)).sqrt()), log(x) + 0.693147181)


def atanh(x: Term) -> Term:
    """The inverse hyperbolic tangent; NaN beyond -1..1."""
    size = abs(x)
    value = log1p((size + size) / (1.0 - size)) * 0.5
    return copy_sign((size > 1.0).select(x.constant(math.nan), value), x)


def erf(x: Term) -> Term:
    """The error function."""
    size = abs(x)
    square = x * x
    near = x * polynomial(
        square,
        (
            *(1.0589143e-06, -1.3909244e-05, 1.1956547e-04, -8.5426366e-04, 5.2237832e-03, -2.6866132e-02),
            *(1.1283791e-01, -3.7612638e-01, 1.1283792),
        ),
    )
    t = 2.0 / (minimum(size, 4.0) + 2.0)
    scaled = t * polynomial(
        t,
        (
            *(-8.0366783e-02, 3.7441894e-01, -6.4909232e-01, 4.4049186e-01, -1.2569618e-01, 2.4026279e-01),
            *(2.3445155e-01, 2.8348210e-01, 2.8202605e-01),
        ),
    )
    far = copy_sign(1.0 - scaled * exp(-square), x)
    return (size < 1.0).select(near, is_nan(x).select(x, far))


def sigmoid(x: Term) -> Term:
    """1 / (1 + e^-x)."""
    return 1.0 / (1.0 + exp(-x))


def softplus(x: Term) -> Term:
    """log(1 + e^x)."""
    return maximum(x, 0.0) + log1p(exp(-abs(x)))


def power(x: Term, y: Term) -> Term:
    """x^y, with a relative error of some |y log x| units of the last place; NaN for a negative x and a broken y.

    Where y is 0 the result is 1, as in C.
    """
    size = abs(x)
    value = exp(log(size) * y)
    whole = truncate(y).equals(y)
    half = y * 0.5
    odd = whole & ~truncate(half).equals(half)
    signed = odd.select(copy_sign(value, x), value)
    broken = (x < 0.0) & ~whole
    value = broken.select(x.constant(math.nan), signed)
    return (y.equals(0.0) | x.equals(1.0)).select(x.constant(1.0), value)


def remainder_to_zero(a: Term, b: Term) -> Term:
    """What the quotient cut towards zero leaves: the sign of a, as C's fmod and the % of C's integers."""
    if a.dtype.numpy.kind != "f":
        return a - a / b * b
    whole = truncate(a / b)
    return whole.equals(0.0).select(a, copy_sign(a - whole * b, a))


def remainder_to_floor(a: Term, b: Term) -> Term:
    """What the quotient rounded down leaves: the sign of b, as Python's %."""
    left = remainder_to_zero(a, b)
    if a.dtype.numpy.kind == "u":
        return left
    zero = a.constant(0)
    other = ((left < zero) & (b > zero)) | ((left > zero) & (b < zero))
    moved = other.select(left + b, left)
    return left.equals(zero).select(copy_sign(left, b), moved) if a.dtype.numpy.kind == "f" else moved
