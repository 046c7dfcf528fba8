"""Converters of ONNX's ops on elements, windows without weights, and layout."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from shoehorn_mcu.importers.fault import Unsupported
from shoehorn_mcu.importers.geometry import axis_of
from shoehorn_mcu.importers.onnx_linear import affine
from shoehorn_mcu.importers.onnx_site import Site, Value
from shoehorn_mcu.ops import (
    Add,
    RealClamp,
    Softmax,
    Sub,
)

NONE = RealClamp()


def same(site: Site) -> Value:
    """Identity, and Dropout in inference."""
    if any(site.node.outputs[1:]):
        raise Unsupported("its mask is used")
    return site.value(0)


def relu(site: Site) -> Value:
    """Relu."""
    site.known()
    return _clamped(site, 0.0, NONE.high)


def clip(site: Site) -> Value:
    """Clip with constant bounds."""
    return _clamped(site, *bounds(site))


def bounds(site: Site) -> tuple[float, float]:
    """Those of a Clip."""
    low, high = (
        float(site.real(place, role).reshape(-1)[0]) if site.given(place) else bound
        for place, role, bound in ((1, "lower bound", NONE.low), (2, "upper bound", NONE.high))
    )
    if not low <= high:
        raise Unsupported(f"its bounds are {low} and {high}")
    return low, high


def _clamped(site: Site, low: float, high: float) -> Value:
    """x times 1 plus 0, clamped: the pass fold-affine moves the bounds into the op before where it can."""
    return affine(site, site.value(0), np.ones(1, np.float32), np.zeros(1, np.float32), RealClamp(low, high))


def binary(op: type[Add] | type[Sub]) -> Callable[[Site], Value]:
    """Add or Sub of two values of one shape, or with one value per channel."""

    def convert(site: Site) -> Value:
        site.known()
        sign = 1 if op is Add else -1
        if site.is_constant(1) and (per_channel := _per_channel(site, 0, 1)) is not None:
            return affine(site, site.value(0), np.ones(1), sign * per_channel)
        if site.is_constant(0) and (per_channel := _per_channel(site, 1, 0)) is not None:
            return affine(site, site.value(1), np.full(1, sign), per_channel)
        a, b = site.value(0), site.value(1)
        if a.rank != b.rank:
            raise Unsupported(f"its operands have shapes {a.shape} and {b.shape}")
        return Value(site.emit(op, a.tensor, site.ordered(b, a.order), clamp=NONE), a.order)

    return convert


def mul(site: Site) -> Value:
    """Mul with a constant per channel."""
    site.known()
    for x, constant in ((0, 1), (1, 0)):
        if site.is_constant(constant) and (factor := _per_channel(site, x, constant)) is not None:
            return affine(site, site.value(x), factor, np.zeros(1))
    raise Unsupported("neither of its operands is a constant per channel")


def _per_channel(site: Site, x: int, constant: int) -> np.ndarray | None:
    """A constant operand that has one value, or one for each of x's channels in dimension 1; None for any other."""
    found, shape = site.real(constant, "constant"), site.value(x).shape
    if len(shape) < 2:
        return None
    if found.size == 1:
        return found.reshape(1)
    wide = (1,) * (len(shape) - found.ndim) + found.shape
    return found.reshape(-1) if wide == tuple(size if place == 1 else 1 for place, size in enumerate(shape)) else None


def softmax(site: Site) -> Value:
    """Softmax along any axis, which is brought to the end."""
    site.known("axis")
    x = site.value(0)
    axis = axis_of(site.attribute("axis", -1), x.rank)
    order = x.order if x.order[-1] == axis else (*(d for d in x.order if d != axis), axis)
    return Value(site.emit(Softmax, site.ordered(x, order), beta=1.0), order)
