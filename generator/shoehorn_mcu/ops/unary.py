"""Ops of one operand, element by element: tables of 256 results, and the ends of a model in float32."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from shoehorn_mcu.ir import (
    Array,
    DType,
    Floats,
    Ints,
    Node,
    Op,
    OpFault,
    Quant,
    Range,
    Signature,
    TensorType,
)
from shoehorn_mcu.ops import fixed_point, laws, real
from shoehorn_mcu.ops.arithmetic import SPAN, ratio, rescaled
from shoehorn_mcu.ops.channels import ByChannels
from shoehorn_mcu.ops.fixed_point import Scale, divide_by_pot, input_radius, quantize_multiplier, rescale
from shoehorn_mcu.ops.rules import ByPixels, want

__all__ = [
    "Dequantize",
    "HardSwish",
    "LeakyRelu",
    "Logistic",
    "Quantize",
    "Relu",
    "Relu6",
    "Requantize",
    "Table",
    "Tanh",
    "Unary",
]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Elementwise(ByPixels, ByChannels):
    """One input, an output of the same shape, row for row."""

    any_shape: ClassVar[bool] = True
    spaced: ClassVar[bool] = True

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        want(self, inputs, 1)
        return inputs[0].shape


@dataclass(frozen=True, kw_only=True, eq=False)
class Unary(_Elementwise):
    """A map of int8 to int8: `table(sig)` gives all 256 results, in order of the stored input.

    A subclass that computes results with int32 rescaling reports in `overflow` when that can leave int32.
    """

    def check(self, node: Node) -> None:
        laws.quantised(self, node.x, "input")
        laws.quantised(self, node.output, "output")

    def ranges(self, node: Node, operands: Sequence[Range]) -> Range:
        """The extremes of the table over each channel's input range; the table need not be monotone."""
        table = np.asarray(self.table(node.sig)).astype(np.int64)
        stored = np.arange(len(table)) + node.x.type.dtype.limits[0]
        inside = (operands[0].low[:, None] <= stored) & (stored <= operands[0].high[:, None])
        return Range(
            np.where(inside, table, table.max()).min(axis=1),
            np.where(inside, table, table.min()).max(axis=1),
        )

    def per_channel(self, node: Node) -> bool:
        return True

    def table(self, sig: Signature) -> Array:
        """256 results of the output's type; entry i is that of stored value i + lowest value of the input's type.

        For int8 input the entry of x is table[x + 128], for uint8 input table[x].
        """
        low, high = sig.inputs[0].dtype.limits
        y = self._map(np.arange(low, high + 1, dtype=np.int64), sig)
        return np.clip(y, *sig.output.dtype.limits).astype(sig.output.dtype.numpy)

    def _map(self, stored: Ints, sig: Signature) -> Ints:
        """The stored results before saturation, for stored inputs."""
        raise NotImplementedError

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        (x,) = arrays
        low, _ = sig.inputs[0].dtype.limits
        return self.table(sig)[x.astype(np.int64) - low]


class Rescaled(Unary):
    """A table whose entries are (x - x_zero) rescaled by x scale / y scale, or nearer to 0."""

    def overflow(self, node: Node) -> str | None:
        return rescaled(SPAN, ratio(node))


class _Curve(Unary):
    """A curve between two bounds, which are the extremes of int8."""

    no_overflow: ClassVar[bool] = True  # inputs beyond the radius of Q4.27 are saturated first
    quant: ClassVar[Quant]  # of the output

    def check(self, node: Node) -> None:
        super().check(node)
        laws.fixed_output(self, node, self.quant)

    def _map(self, stored: Ints, sig: Signature) -> Ints:
        quant = sig.inputs[0].quantised
        multiplier, shift = quantize_multiplier(quant.scale * (1 << 27))
        centred = stored - quant.zero_point
        radius = input_radius(4, shift)
        y = self._curve(rescale(np.clip(centred, -radius, radius), multiplier, shift))
        return np.where(centred <= -radius, -128, np.where(centred >= radius, 127, y))

    def _curve(self, x: Ints) -> Ints:
        """The stored results for x in Q4.27."""
        raise NotImplementedError


class Logistic(_Curve):
    """1 / (1 + exp(-x)), int8 with scale 1/256 and zero point -128."""

    quant: ClassVar[Quant] = Quant((1 / 256,), (-128,))

    def _curve(self, x: Ints) -> Ints:
        return divide_by_pot(fixed_point.logistic(x, 4), 31 - 8) - 128


class Tanh(_Curve):
    """tanh(x), int8 with scale 1/128 and zero point 0."""

    quant: ClassVar[Quant] = Quant((1 / 128,), (0,))

    def _curve(self, x: Ints) -> Ints:
        return divide_by_pot(fixed_point.tanh(x, 4), 31 - 7)


class HardSwish(Unary):
    """x * relu6(x + 3) / 6, in TFLite's 16-bit fixed point.

    Its scales are quotients in double precision, as the tflite_micro package computes them; published sources
    show single precision, which gives other bytes where the 16-bit multiplier is next to a half.
    """

    no_overflow: ClassVar[bool] = True  # 16-bit arithmetic that saturates

    def _map(self, stored: Ints, sig: Signature) -> Ints:
        x_quant, y_quant = sig.inputs[0].quantised, sig.output.quantised
        hires_scale = x_quant.scale / 128.0
        output = quantize_multiplier(hires_scale / y_quant.scale)
        relu = quantize_multiplier(hires_scale / (3.0 / 32768.0))
        hires = (stored - x_quant.zero_point) << 7
        on_output_scale = fixed_point.high_mul16(hires, fixed_point.multiplier16(output.multiplier))
        gate = (_relu_ish(hires, relu) + (1 << 15)) >> 1  # relu6(x + 3) / 6 in Q0.15
        y = divide_by_pot(fixed_point.high_mul16_to_zero(gate, on_output_scale), -output.shift)
        return y + y_quant.zero_point


def _relu_ish(hires: Ints, scale: Scale) -> Ints:
    """x / 3 saturated to [-1, 1) in Q0.15; the last bit of a left shift comes after the product."""
    multiplier = fixed_point.multiplier16(scale.multiplier)
    if scale.shift > 0:
        shifted = fixed_point.saturate16(hires << (scale.shift - 1))
        return fixed_point.saturate16(fixed_point.high_mul16(shifted, multiplier) << 1)
    return divide_by_pot(fixed_point.high_mul16(hires, multiplier), -scale.shift)


@dataclass(frozen=True, kw_only=True, eq=False)
class Table(Unary):
    """256 stored results, that of the lowest stored value first, for int8 or uint8 at either end.

    Files of TensorFlow Lite never hold this op; the ONNX importer and the pass fuse-tables make it.
    """

    SIZE: ClassVar[int] = 256
    no_overflow: ClassVar[bool] = True  # nothing is computed
    values: tuple[int, ...]

    def check(self, node: Node) -> None:
        for tensor, role in ((node.x, "input"), (node.output, "output")):
            laws.dtype(self, tensor, role, *laws.EIGHT_BITS)
        low, high = node.output.type.dtype.limits
        if len(self.values) != self.SIZE or not all(low <= value <= high for value in self.values):
            raise OpFault(self, f"its table has {len(self.values)} values, 256 from {low} to {high} are needed")

    def table(self, sig: Signature) -> Array:
        return np.array(self.values, sig.output.dtype.numpy)


class Relu(Rescaled):
    """max(x, 0), rescaled to the output's quantisation."""

    def _map(self, stored: Ints, sig: Signature) -> Ints:
        x, y = sig.inputs[0].quantised, sig.output.quantised
        scaled = rescale(stored - x.zero_point, *quantize_multiplier(x.scale / y.scale))
        return np.maximum(scaled + y.zero_point, y.zero_point)


class Relu6(Unary):
    """min(max(x, 0), 6), clamped in stored values.

    As TFLite Micro it does not rescale: if the two quantisations differ, the stored values pass unchanged, clamped to
    the bounds in the input's quantisation.
    """

    no_overflow: ClassVar[bool] = True  # stored values are compared

    def _map(self, stored: Ints, sig: Signature) -> Ints:
        quant = sig.inputs[0].quantised
        six = int(round_away(np.float32(6.0) / np.float32(quant.scale))) + quant.zero_point
        return np.clip(stored, quant.zero_point, min(six, 127))


@dataclass(frozen=True, kw_only=True, eq=False)
class LeakyRelu(Unary):
    """x where x >= 0, alpha * x elsewhere.

    `alpha` is a float32 value. Both scales are computed in double precision, as the tflite_micro package does.
    """

    alpha: float

    def check(self, node: Node) -> None:
        super().check(node)
        if self.alpha < 0:
            raise OpFault(self, f"alpha is {self.alpha}, below 0")

    def overflow(self, node: Node) -> str | None:
        return rescaled(SPAN, ratio(node) * max(1.0, self.alpha))

    def _map(self, stored: Ints, sig: Signature) -> Ints:
        x, y = sig.inputs[0].quantised, sig.output.quantised
        identity = quantize_multiplier(x.scale / y.scale)
        alpha = quantize_multiplier(x.scale * float(np.float32(self.alpha)) / y.scale)
        centred = stored - x.zero_point
        return np.where(centred >= 0, rescale(centred, *identity), rescale(centred, *alpha)) + y.zero_point


class Requantize(Rescaled):
    """QUANTIZE from one 8-bit type to another (int8 or uint8 at either end)."""

    def check(self, node: Node) -> None:
        laws.quantised(self, node.x, "input", *laws.EIGHT_BITS)
        laws.quantised(self, node.output, "output", *laws.EIGHT_BITS)

    def _map(self, stored: Ints, sig: Signature) -> Ints:
        x, y = sig.inputs[0].quantised, sig.output.quantised
        return rescale(stored - x.zero_point, *quantize_multiplier(x.scale / y.scale)) + y.zero_point


@dataclass(frozen=True, kw_only=True, eq=False)
class Quantize(_Elementwise):
    """float32 to int8, uint8 or float16.

    float16: to the nearest, to even between two; infinite from 65520 on. Else:
    x / scale in single precision, rounded half away from zero, plus the zero point, saturated.
    NaN gives the lowest value. TFLite Micro converts to int32 before it saturates, which C leaves undefined for
    quotients beyond int32 and for NaN (it has given 127 for -1e12); only there do the two differ.
    """

    no_overflow: ClassVar[bool] = True  # saturates in floating point

    def check(self, node: Node) -> None:
        laws.dtype(self, node.x, "input", DType.FLOAT32)
        if node.output.type.dtype is not DType.FLOAT16:
            laws.quantised(self, node.output, "output", *laws.EIGHT_BITS)

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        (x,) = arrays
        if sig.output.dtype is DType.FLOAT16:
            return real.stored(x, DType.FLOAT16)
        quant, (low, high) = sig.output.quantised, sig.output.dtype.limits
        with np.errstate(over="ignore"):
            quotient = x.astype(np.float32) / np.float32(quant.scale)
        moved = np.nan_to_num(round_away(quotient), nan=-np.inf) + quant.zero_point
        return np.clip(moved, low, high).astype(sig.output.dtype.numpy)


@dataclass(frozen=True, kw_only=True, eq=False)
class Dequantize(_Elementwise):
    """int8 or uint8 to float32: scale * (x - zero point) in single precision; or float16, whose values stay."""

    no_overflow: ClassVar[bool] = True  # float32

    def check(self, node: Node) -> None:
        if node.x.type.dtype is not DType.FLOAT16:
            laws.quantised(self, node.x, "input", *laws.EIGHT_BITS)
        laws.dtype(self, node.output, "output", DType.FLOAT32)

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        (x,) = arrays
        if sig.inputs[0].dtype is DType.FLOAT16:
            return x.astype(np.float32)
        quant = sig.inputs[0].quantised
        centred = (x.astype(np.int32) - quant.zero_point).astype(np.float32)
        return centred * np.float32(quant.scale)


def round_away(x: Array | np.float32) -> Floats:
    """Nearest integer, halves away from zero; in double precision, where adding the half is exact."""
    wide = np.asarray(x, np.float64)
    return np.trunc(wide + np.copysign(0.5, wide))


OPS: tuple[type[Op], ...] = (Logistic, Tanh, HardSwish, Relu, Relu6, LeakyRelu, Requantize, Quantize, Dequantize)
