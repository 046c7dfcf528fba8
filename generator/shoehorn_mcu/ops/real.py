"""Ops on float32, in numpy: the order of every sum is that of TensorFlow Lite's reference kernels.

A float32 sum depends on its order, and each product and sum here is rounded by itself. Padding taps are left out of
sums there and are zeros here, which is the same for finite weights: a sum that begins with +0 never becomes -0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.ir import Array, DType, Node, OpFault
from shoehorn_mcu.ops import laws
from shoehorn_mcu.ops.clamp import Bounds, Clamped, RealClamp

Reals = NDArray[np.float32]

STORED = (DType.FLOAT32, DType.FLOAT16)
"""Element types of tensors whose ops compute in float32; the results are rounded to them."""

EXP_LEAST = np.float32(-64.0)
"""exp is 0 below: what is smaller than 1.6e-28 adds nothing to a sum of at least 1."""

_LOG2_E = np.float32(1.44269504)
_LN2_HIGH = np.float32(0.693145751953125)  # 15 bits, so that products with numbers up to 93 are exact
_LN2_LOW = np.float32(1.42860677e-06)
EXP_FACTORS = tuple(map(np.float32, (0.00139505393, 0.00836891774, 0.0416662060, 0.166665182, 0.5)))
"""exp(r) = 1 + r + r^2 * (these by falling powers of r), for |r| <= ln 2 / 2."""


def check(node: Node, *roles: str) -> bool:
    """Whether the op computes in float32, as its first input says; then raises OpFault unless all its tensors agree.

    All are stored in float32, or all but a bias in float16.
    `roles` are the names of the inputs, in order, for messages.
    """
    op, first = node.op, node.x
    stored = first.type.dtype
    if stored not in STORED:
        return False
    for tensor, role in zip((*node.inputs, node.output), (*roles, "output"), strict=True):
        laws.dtype(op, tensor, role, DType.FLOAT32 if role == "bias" else stored)
    if isinstance(op, Clamped) and not isinstance(op.clamp, RealClamp):
        raise OpFault(op, f"its bounds {op.clamp.low}..{op.clamp.high} are stored values, real ones are needed")
    return True


def check_constant(node: Node, place: int, role: str) -> None:
    """Raises OpFault unless the operand is constant and finite: padding counts as a product with 0."""
    tensor = node.inputs[place]
    laws.constant(node.op, tensor, role)
    assert tensor.data is not None
    if not np.isfinite(tensor.data.astype(np.float32, copy=False)).all():
        raise OpFault(node.op, f"its {role} {laws.quoted(tensor.name)} hold values that are not finite")


def reals(arrays: Sequence[Array]) -> list[Reals]:
    """The arrays, which hold float32 or float16, in float32."""
    return [array.astype(np.float32, copy=False) for array in arrays]


def stored(y: Array, dtype: DType) -> Array:
    """y in float32 or float16, rounded to the nearest, to even between two; what is too large is infinite."""
    with np.errstate(over="ignore"):
        return y.astype(dtype.numpy, copy=False)


def clamped(y: Reals, bounds: Bounds) -> Reals:
    """y within the bounds, as std::min(std::max(y, low), high): NaN stays."""
    low, high = np.float32(bounds.low), np.float32(bounds.high)
    y = np.where(y < low, low, y)
    return np.where(y > high, high, y)


def products_summed(pairs: Sequence[tuple[Reals, Reals]], shape: tuple[int, ...], bias: Reals, fused: bool) -> Reals:
    """The products of these pairs summed up in their order, plus `bias`; each broadcasts to `shape`.

    The sum begins with +0 and the bias is added last. `fused`: it begins with the bias, and each product and its
    addition are rounded once.
    """
    if fused:
        total = np.broadcast_to(bias, shape)
        for a, b in pairs:
            total = fused_multiply_add(a, b, total)
        return total
    total = np.zeros(shape, np.float32)
    for a, b in pairs:
        total += a * b
    return total + bias


def fused_multiply_add(a: Reals, b: Reals, c: Reals) -> Reals:
    """a * b + c, rounded once.

    The product is exact in float64. The sum is rounded to odd there: the last bit is set where bits were lost, so that
    rounding it to float32 is as rounding the exact sum.
    """
    product, addend = a.astype(np.float64) * b, c.astype(np.float64)
    with np.errstate(invalid="ignore"):
        total = product + addend
        back = total - product
        lost = (product - (total - back)) + (addend - back)
    even = (total.view(np.int64) & 1) == 0
    inexact = np.isfinite(total) & np.isfinite(lost) & (lost != 0) & even
    moved = np.where(inexact, np.nextafter(total, np.where(lost > 0, np.inf, -np.inf)), total)
    with np.errstate(over="ignore"):
        result: Reals = moved.astype(np.float32)
    return result


def in_order(terms: Reals) -> Reals:
    """The sums along the first axis, from +0, in order."""
    total = np.zeros(terms.shape[1:], np.float32)
    for term in terms:
        total = total + term
    return total


def largest(terms: Sequence[Reals]) -> Reals:
    """The largest of these arrays, element by element, from the lowest number; NaN is never larger."""
    most = np.full_like(terms[0], np.finfo(np.float32).min)
    for term in terms:
        most = np.where(most < term, term, most)
    return most


def exp_negative(x: Reals) -> Reals:
    """exp(x) for x <= 0, in the arithmetic of sh_exp.h: within 1.02 units of the last place down to EXP_LEAST."""
    near = x >= EXP_LEAST
    of = np.where(near, x, np.float32(0)).astype(np.float32)
    whole = np.trunc(of * _LOG2_E - np.float32(0.5))
    rest = of - whole * _LN2_HIGH
    rest = rest - whole * _LN2_LOW
    series = np.full_like(of, EXP_FACTORS[0])
    for factor in EXP_FACTORS[1:]:
        series = series * rest + factor
    value = series * (rest * rest) + rest + np.float32(1.0)
    power = ((whole.astype(np.int32) + 127) << 23).view(np.float32)
    return np.where(near, value * power, np.float32(0))


def softmax(x: Reals, beta: float) -> Reals:
    """Softmax along the last axis, as TFLite's reference but for its exponential."""
    most = largest(list(np.moveaxis(x, -1, 0)))[..., None]
    exps = exp_negative((x - most) * np.float32(beta))
    return exps / in_order(np.moveaxis(exps, -1, 0))[..., None]
