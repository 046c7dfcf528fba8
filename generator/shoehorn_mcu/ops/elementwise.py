"""Ops of two operands, element by element with broadcasting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import ClassVar, NamedTuple, Self

import numpy as np

from shoehorn_mcu.ir import Array, Ints, Node, Op, OpFault, Pairwise, Range, Signature, TensorType
from shoehorn_mcu.ops import laws, real
from shoehorn_mcu.ops.arithmetic import SPAN, ratio, rescaled, scales
from shoehorn_mcu.ops.channels import ByChannels, over_channels
from shoehorn_mcu.ops.clamp import Bounds, Clamp, Clamped
from shoehorn_mcu.ops.fixed_point import Scale, quantize_multiplier, rescale
from shoehorn_mcu.ops.rules import broadcast_by_pixels, broadcast_rows, broadcast_shape, keeps_rows, want

__all__ = [
    "Add",
    "Addition",
    "Binary",
    "Maximum",
    "Minimum",
    "Mul",
    "Prelu",
    "Sub",
]


class AddParams(NamedTuple):
    """rescale(rescale((a - a_zero) << left_shift, a) +- rescale((b - b_zero) << left_shift, b), y) + y_zero."""

    left_shift: int
    a: Scale
    b: Scale
    y: Scale


def add_params(sig: Signature) -> AddParams:
    """The three scales of Add and Sub, from quotients in double precision; all are below one."""
    a, b = (t.quantised.scale for t in sig.inputs)
    twice = 2.0 * max(a, b)
    return AddParams(
        left_shift=_LEFT_SHIFT,
        a=quantize_multiplier(a / twice),
        b=quantize_multiplier(b / twice),
        y=quantize_multiplier(twice / ((1 << _LEFT_SHIFT) * sig.output.quantised.scale)),
    )


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


def _finish(y: Ints, clamp: Bounds, output: TensorType) -> Array:
    """y moved to the output's zero point and clamped."""
    return np.clip(y + output.quantised.zero_point, clamp.low, clamp.high).astype(output.dtype.numpy)


def _corners(node: Node, of_a: Sequence[Ints], of_b: Sequence[Ints]) -> Range:
    """The extremes, at these values, of an op that rises or falls in each operand while the other is constant."""
    corners = [
        np.broadcast_to(node.op.reference(pair, node.sig), node.output.type.nhwc[3:]) for pair in product(of_a, of_b)
    ]
    return over_channels(corners, node.output.type.nhwc[3])


def product_overflow(node: Node) -> str | None:
    """For ops that rescale a product of two centred int8 values."""
    return rescaled(SPAN * SPAN, math.prod(scales(node)) / node.output.type.quantised.scale)


class Broadcast(ByChannels):
    """An op of two operands, element by element with NumPy broadcasting up to four dimensions."""

    spaced: ClassVar[bool] = True

    def rows(self, y: int, sig: Signature) -> tuple[tuple[int | None, ...], ...]:
        return broadcast_rows(y, sig)

    def pixelwise(self, sig: Signature) -> bool:
        return broadcast_by_pixels(sig)

    def part(self, rows: range, sig: Signature, apart: int = 1) -> Op | None:
        return self if keeps_rows(sig, apart) else None


@dataclass(frozen=True, kw_only=True, eq=False)
class Binary(Broadcast, Clamped, Pairwise):
    """inputs (a, b), int8.

    Either may be a constant, which is then read by rows from flash. Subclasses are monotone in each operand.
    """

    def check(self, node: Node[Self]) -> None:
        laws.quantised(self, node.a, "first input")
        laws.quantised(self, node.b, "second input")
        laws.quantised(self, node.output, "output")
        laws.same_images(self, node)

    def ranges(self, node: Node, operands: Sequence[Range]) -> Range:
        a, b = operands
        return _corners(node, (a.low, a.high), (b.low, b.high))

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        want(self, inputs, 2)
        return broadcast_shape(self, inputs)


class Addition(Binary):
    """a plus `sign` times b, int8 or float32.

    int8: both operands are scaled to 2^-20 of twice the larger scale; TFLite requires a factor below 1 after that.
    """

    sign: ClassVar[int]

    def check(self, node: Node[Self]) -> None:
        if real.check(node, "first input", "second input"):
            laws.same_images(self, node)
        else:
            super().check(node)

    def overflow(self, node: Node) -> str | None:
        factor = 2 * max(scales(node)) / (2.0**20 * node.output.type.quantised.scale)
        return None if factor < 1 else f"its output's scale is {factor * 2**20:g} times too small for its inputs'"

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        if sig.output.dtype in real.STORED:
            a, b = real.reals(arrays)
            return real.stored(real.clamped(a + np.float32(self.sign) * b, self.clamp), sig.output.dtype)
        first, second = _centred(arrays, sig)
        left_shift, a_scale, b_scale, y_scale = add_params(sig)
        total = rescale(first << left_shift, *a_scale) + self.sign * rescale(second << left_shift, *b_scale)
        return _finish(rescale(total, *y_scale), self.clamp, sig.output)


class _Extremum(Binary):
    """Compares stored values, so all three tensors share one quantisation."""

    no_overflow: ClassVar[bool] = True

    def check(self, node: Node[Self]) -> None:
        super().check(node)
        for operand in node.inputs:
            laws.same_quant(self, operand, node.output)


class Add(Addition):
    """a + b; int8 is requantised as TFLite's integer ADD (left shift 20)."""

    sign: ClassVar[int] = 1


class Sub(Addition):
    """a - b; int8 is requantised as TFLite's integer SUB."""

    sign: ClassVar[int] = -1


class Mul(Binary):
    """a * b, requantised."""

    def overflow(self, node: Node) -> str | None:
        return product_overflow(node)

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        a, b = _centred(arrays, sig)
        return _finish(rescale(a * b, *mul_scale(sig)), self.clamp, sig.output)


class Maximum(_Extremum):
    """The larger of a and b, which share one quantisation with the output; stored values are compared."""

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        return np.clip(np.maximum(*arrays), self.clamp.low, self.clamp.high).astype(sig.output.dtype.numpy)


class Minimum(_Extremum):
    """The smaller of a and b, which share one quantisation with the output; stored values are compared."""

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        return np.clip(np.minimum(*arrays), self.clamp.low, self.clamp.high).astype(sig.output.dtype.numpy)


@dataclass(frozen=True, kw_only=True, eq=False)
class Prelu(Broadcast):
    """inputs (x, alpha); x where x >= 0, alpha * x elsewhere; alpha is broadcast."""

    def check(self, node: Node) -> None:
        x, alpha = node.inputs
        laws.quantised(self, x, "input")
        laws.quantised(self, alpha, "alpha")
        laws.quantised(self, node.output, "output")
        laws.same_images(self, node)

    def overflow(self, node: Node) -> str | None:
        return rescaled(SPAN, ratio(node)) or product_overflow(node)

    def ranges(self, node: Node, operands: Sequence[Range]) -> Range:
        """Monotone on either side of x = 0, where it is 0, so the extremes are at the ends of the range or at 0."""
        x, alpha = operands
        bend = np.clip(node.x.type.quantised.zero_point, x.low, x.high)
        return _corners(node, (x.low, x.high, bend), (alpha.low, alpha.high))

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        want(self, inputs, 2)
        x, alpha = inputs
        if (shape := broadcast_shape(self, inputs)) != x.shape:
            raise OpFault(self, f"alpha {alpha} does not broadcast to x {x}")
        return shape

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        x, alpha = _centred(arrays, sig)
        identity, product = prelu_scales(sig)
        y = np.where(x >= 0, rescale(x, *identity), rescale(x * alpha, *product))
        return _finish(y, Clamp(), sig.output)


OPS: tuple[type[Op], ...] = (Add, Sub, Mul, Maximum, Minimum, Prelu)
