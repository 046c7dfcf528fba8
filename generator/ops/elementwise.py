"""Ops on single elements: binary with broadcasting, and unary maps."""

from __future__ import annotations

from dataclasses import dataclass

from generator.ir import Op
from generator.ops.conv import Clamp


@dataclass(frozen=True, kw_only=True, eq=False)
class Binary(Op):
    """inputs (a, b), NumPy broadcasting up to four dimensions.

    Either may be a constant, which is then read by rows from flash.
    """

    clamp: Clamp = Clamp()


class Add(Binary):
    """a + b, requantised as TFLite's integer ADD (left shift 20)."""


class Sub(Binary):
    """a - b, requantised as TFLite's integer SUB."""


class Mul(Binary):
    """a * b, requantised."""


class Maximum(Binary):
    """The larger of a and b, which share one quantisation."""


class Minimum(Binary):
    """The smaller of a and b, which share one quantisation."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Prelu(Op):
    """inputs (x, alpha); x where x >= 0, alpha * x elsewhere; alpha is broadcast."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Unary(Op):
    """A map of 8-bit values to 8-bit values: `table(sig)` gives all 256 results, in order of the stored input."""


class Logistic(Unary):
    """1 / (1 + exp(-x))."""


class Tanh(Unary):
    """tanh(x)."""


class HardSwish(Unary):
    """x * relu6(x + 3) / 6."""


class Relu(Unary):
    """max(x, 0), rescaled to the output's quantisation."""


class Relu6(Unary):
    """min(max(x, 0), 6)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LeakyRelu(Unary):
    """x where x >= 0, alpha * x elsewhere."""

    alpha: float


class Requantize(Unary):
    """QUANTIZE from one 8-bit type to another (int8 or uint8 at either end)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Quantize(Op):
    """float32 to int8 or uint8."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Dequantize(Op):
    """int8 or uint8 to float32."""
