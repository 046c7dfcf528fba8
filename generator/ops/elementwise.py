"""Ops of two operands, element by element with broadcasting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from shoehorn_mcu.ir import Array, Op, Signature, TensorType
from shoehorn_mcu.ops.conv import Clamp
from shoehorn_mcu.ops.fixed_point import Ints, Scale, quantize_multiplier, rescale
from shoehorn_mcu.ops.rules import broadcast_rows, broadcast_shape, refuse, want


class AddParams(NamedTuple):
    """rescale(rescale((a - a_zero) << left_shift, a) +- rescale((b - b_zero) << left_shift, b), y) + y_zero."""

    left_shift: int
    a: Scale
    b: Scale
    y: Scale


def add_params(sig: Signature) -> AddParams:
    """The three scales of Add, from quotients in double precision; all are below one."""
    a, b = (t.quantised.scale for t in sig.inputs)
    twice = 2.0 * max(a, b)
    return AddParams(
        left_shift=_LEFT_SHIFT,
        a=quantize_multiplier(a / twice),
        b=quantize_multiplier(b / twice),
        y=quantize_multiplier(twice / ((1 << _LEFT_SHIFT) * sig.output.quantised.scale)),
    )


def sub_params(sig: Signature) -> AddParams:
    """The three scales of Sub; as `add_params`."""
    return add_params(sig)


_LEFT_SHIFT = 20


def mul_scale(sig: Signature) -> Scale:
    """The scale of Mul: a scale * b scale / y scale in double precision."""
    a, b = (t.quantised.scale for t in sig.inputs)
    return quantize_multiplier(a * b / sig.output.quantised.scale)


def prelu_scales(sig: Signature) -> tuple[Scale, Scale]:
    """The scales of Prelu: (for x >= 0, for the product x * alpha where x < 0)."""
    x, alpha = (t.quantised.scale for t in sig.inputs)
    y = sig.output.quantised.scale
    return quantize_multiplier(x / y), quantize_multiplier(x * alpha / y)


def _centred(arrays: Sequence[Array], sig: Signature) -> tuple[Ints, Ints]:
    a, b = (array.astype(np.int64) - kind.quantised.zero_point for array, kind in zip(arrays, sig.inputs, strict=True))
    return a, b


def _finish(y: Ints, clamp: Clamp, output: TensorType) -> Array:
    """y moved to the output's zero point and clamped."""
    return np.clip(y + output.quantised.zero_point, clamp.low, clamp.high).astype(output.dtype.numpy)


@dataclass(frozen=True, kw_only=True, eq=False)
class Binary(Op):
    """inputs (a, b), NumPy broadcasting up to four dimensions.

    Either may be a constant, which is then read by rows from flash.
    """

    clamp: Clamp = Clamp()

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        want(self, inputs, 2)
        return broadcast_shape(self, inputs)

    def rows(self, y: int, sig: Signature) -> tuple[tuple[int | None, ...], ...]:
        return broadcast_rows(y, sig)


def _add(arrays: Sequence[Array], sig: Signature, params: AddParams, sign: int) -> Ints:
    a, b = _centred(arrays, sig)
    scaled_a = rescale(a << params.left_shift, *params.a)
    scaled_b = rescale(b << params.left_shift, *params.b)
    return rescale(scaled_a + sign * scaled_b, *params.y)


class Add(Binary):
    """a + b, requantised as TFLite's integer ADD (left shift 20)."""

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        return _finish(_add(arrays, sig, add_params(sig), 1), self.clamp, sig.output)


class Sub(Binary):
    """a - b, requantised as TFLite's integer SUB."""

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        return _finish(_add(arrays, sig, sub_params(sig), -1), self.clamp, sig.output)


class Mul(Binary):
    """a * b, requantised."""

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        a, b = _centred(arrays, sig)
        return _finish(rescale(a * b, *mul_scale(sig)), self.clamp, sig.output)


class Maximum(Binary):
    """The larger of a and b, which share one quantisation with the output; stored values are compared."""

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        return np.clip(np.maximum(*arrays), self.clamp.low, self.clamp.high).astype(sig.output.dtype.numpy)


class Minimum(Binary):
    """The smaller of a and b, which share one quantisation with the output; stored values are compared."""

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        return np.clip(np.minimum(*arrays), self.clamp.low, self.clamp.high).astype(sig.output.dtype.numpy)


@dataclass(frozen=True, kw_only=True, eq=False)
class Prelu(Op):
    """inputs (x, alpha); x where x >= 0, alpha * x elsewhere; alpha is broadcast."""

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        want(self, inputs, 2)
        x, alpha = inputs
        if (shape := broadcast_shape(self, inputs)) != x.shape:
            raise refuse(self, f"alpha {alpha} does not broadcast to x {x}")
        return shape

    def rows(self, y: int, sig: Signature) -> tuple[tuple[int | None, ...], ...]:
        return broadcast_rows(y, sig)

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        x, alpha = _centred(arrays, sig)
        identity, product = prelu_scales(sig)
        y = np.where(x >= 0, rescale(x, *identity), rescale(x * alpha, *product))
        return _finish(y, Clamp(), sig.output)
