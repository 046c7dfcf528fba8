"""Functions of one int8 operand as tables of 256 results.

ABS, ELU and RSQRT are byte-equal to the tflite_micro package, which runs them for int8. It does not run the others for
int8; these follow TFLite's reference arithmetic for tables (LUTPopulate): single precision, rounded half away from 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.ir import Ints, Node, Op, Signature
from shoehorn_mcu.ops.arithmetic import rescaled
from shoehorn_mcu.ops.fixed_point import Scale, high_mul, quantize_multiplier, rescale, saturate32
from shoehorn_mcu.ops.unary import Rescaled, Unary, round_away

__all__ = ["Abs", "Cos", "Elu", "Exp", "FloatTable", "Gelu", "Log", "Neg", "Rsqrt", "Sin", "Sqrt", "Square"]

Singles = NDArray[np.float32]


class FloatTable(Unary):
    """A real function of dequantised values. Infinity saturates; NaN gives the lowest value."""

    no_overflow: ClassVar[bool] = True  # floating point, saturated before it becomes an integer

    def real(self, x: Singles) -> Singles:
        """The function, in single precision."""
        raise NotImplementedError

    def _map(self, stored: Ints, sig: Signature) -> Ints:
        x_quant, y_quant = sig.inputs[0].quantised, sig.output.quantised
        x = np.float32(x_quant.scale) * (stored - x_quant.zero_point).astype(np.float32)
        with np.errstate(all="ignore"):
            steps = self.real(x) * (np.float32(1.0) / np.float32(y_quant.scale))
        whole = round_away(np.nan_to_num(steps, nan=-np.inf, posinf=np.inf, neginf=-np.inf))
        return np.clip(whole + y_quant.zero_point, -(2**31), 2**31 - 1).astype(np.int64)


def _single(y: NDArray[np.float64]) -> Singles:
    """Rounded to single precision."""
    return y.astype(np.float32)


class Abs(Rescaled):
    """|x|, rescaled to the output's quantisation."""

    def _map(self, stored: Ints, sig: Signature) -> Ints:
        x, y = sig.inputs[0].quantised, sig.output.quantised
        return rescale(np.abs(stored - x.zero_point), *quantize_multiplier(x.scale / y.scale)) + y.zero_point


class Neg(FloatTable):
    """-x."""

    def real(self, x: Singles) -> Singles:
        return -x


class Square(FloatTable):
    """x * x."""

    def real(self, x: Singles) -> Singles:
        return x * x


class Sqrt(FloatTable):
    """The square root; the lowest value for negative x."""

    def real(self, x: Singles) -> Singles:
        return np.sqrt(x)


class Rsqrt(Unary):
    """1 / sqrt(x), in TFLite's fixed point; the highest value for 0.

    TFLite Micro stops where it meets a negative x; here that gives the highest value too.
    """

    def overflow(self, node: Node) -> str | None:
        return rescaled(1 << _RSQRT_BITS, _rsqrt_factor(node.sig) / (1 << _RSQRT_BITS))

    def _map(self, stored: Ints, sig: Signature) -> Ints:
        x, y = sig.inputs[0].quantised, sig.output.quantised
        multiplier, shift = quantize_multiplier(_rsqrt_factor(sig))
        values = stored - x.zero_point
        inverses = np.array([_inverse_sqrt(max(1, value)) for value in values.tolist()], np.int64)
        roots = rescale(1, inverses[:, 0], inverses[:, 1] + _RSQRT_BITS)
        scaled = rescale(roots, multiplier, shift - _RSQRT_BITS) + y.zero_point
        return np.where(values <= 0, 127, scaled)


_RSQRT_BITS = 20  # fraction bits between the two rescalings


def _rsqrt_factor(sig: Signature) -> float:
    """1 / (sqrt(x scale) * y scale), the product in single precision."""
    root = np.sqrt(np.float32(sig.inputs[0].quantised.scale))
    return 1.0 / float(root * np.float32(sig.output.quantised.scale))


@cache  # at most 510 values
def _inverse_sqrt(value: int) -> Scale:
    """1 / sqrt(value) for value >= 1: five Newton-Raphson steps in Q3.28 (GetInvSqrtQuantizedMultiplierExp)."""
    if value <= 1:
        return Scale((1 << 31) - 1, 0)
    pairs = (32 - value.bit_length() - 1) // 2 - 1  # the value is scaled by 4^pairs into [2^27, 2^29)
    right = 11 - pairs
    half = (value << 2 * pairs) >> 1
    quarter = (half + 1) >> 1
    x = 1 << 28  # 1.0
    for _ in range(5):
        cube = int(saturate32(int(high_mul(high_mul(x, x), x)) << 6))
        x = int(saturate32((int(high_mul((1 << 28) + (1 << 27), x)) - int(high_mul(quarter, cube))) << 3))
    x = int(high_mul(x, 1518500250))  # sqrt(2) / 2
    if right < 0:
        x, right = x << -right, 0
    return Scale(x, -right)


class Log(FloatTable):
    """The natural logarithm; the lowest value for x <= 0."""

    def real(self, x: Singles) -> Singles:
        return _single(np.log(x.astype(np.float64)))


class Sin(FloatTable):
    """sin(x), x in radians."""

    def real(self, x: Singles) -> Singles:
        return _single(np.sin(x.astype(np.float64)))


class Cos(FloatTable):
    """cos(x), x in radians."""

    def real(self, x: Singles) -> Singles:
        return _single(np.cos(x.astype(np.float64)))


class Exp(FloatTable):
    """e to the power of x."""

    def real(self, x: Singles) -> Singles:
        return _single(np.exp(x.astype(np.float64)))


class Elu(FloatTable):
    """x for x >= 0, exp(x) - 1 elsewhere."""

    def real(self, x: Singles) -> Singles:
        return np.where(x < 0, _single(np.exp(x.astype(np.float64))) - np.float32(1), x)


@dataclass(frozen=True, kw_only=True, eq=False)
class Gelu(FloatTable):
    """x times the normal distribution's probability of values below x; `approximate`: by tanh."""

    approximate: bool = False

    def real(self, x: Singles) -> Singles:
        half = np.float32(0.5) * x
        if self.approximate:
            inner = np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x * x * x)
            return half * (np.float32(1) + _single(np.tanh(inner.astype(np.float64))))
        scaled = x * np.float32(-math.sqrt(0.5))
        return half * np.array([math.erfc(v) for v in scaled.tolist()], np.float32)


OPS: tuple[type[Op], ...] = (Abs, Neg, Square, Sqrt, Rsqrt, Log, Sin, Cos, Exp, Elu, Gelu)
