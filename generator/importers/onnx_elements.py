"""Converters of ONNX's ops on elements, windows without weights, and layout."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from shoehorn_mcu.importers import onnx_maps as maps
from shoehorn_mcu.importers.fault import Unsupported
from shoehorn_mcu.importers.geometry import axis_of
from shoehorn_mcu.importers.onnx_linear import affine
from shoehorn_mcu.importers.onnx_site import MOST_DIMENSIONS, Site, Value
from shoehorn_mcu.ir import DType
from shoehorn_mcu.ops import Add, RealClamp, Softmax, Sub
from shoehorn_mcu.ops import functions as f

NONE = RealClamp()


def same(site: Site) -> Value:
    """Identity, and Dropout in inference."""
    if any(site.node.outputs[1:]):
        raise Unsupported("its mask is used")
    return site.value(0)


def relu(site: Site) -> Value:
    """Relu."""
    site.known()
    if _is_real(site, 0):
        return _clamped(site, 0.0, NONE.high)
    return maps.mapped(site, lambda x: f.maximum(x, x.constant(0)), site.value(0))


def clip(site: Site) -> Value:
    """Clip; with constant bounds, it is the clamp of an op."""
    known = all(site.is_constant(place) for place in (1, 2) if site.given(place))
    return _clamped(site, *bounds(site)) if known and _is_real(site, 0) else maps.clip(site)


def _is_real(site: Site, *places: int) -> bool:
    """Whether these operands are of real numbers, in at least two dimensions."""
    return all(site.value(i).tensor.type.dtype is DType.FLOAT32 and site.value(i).rank > 1 for i in places)


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
    """Add or Sub; with one value per channel, it may become part of the op before."""

    def convert(site: Site) -> Value:
        site.known()
        sign = 1 if op is Add else -1
        write = (lambda x, y: x + y) if op is Add else (lambda x, y: x - y)
        if site.is_constant(1) and (per_channel := _per_channel(site, 0, 1)) is not None:
            return affine(site, site.value(0), np.ones(1), sign * per_channel)
        if site.is_constant(0) and (per_channel := _per_channel(site, 1, 0)) is not None:
            return affine(site, site.value(1), np.full(1, sign), per_channel)
        a, b = site.value(0), site.value(1)
        if a.rank != b.rank or a.rank > MOST_DIMENSIONS or not _is_real(site, 0, 1):
            return maps.mapped(site, write, a, b)
        return Value(site.emit(op, a.tensor, site.ordered(b, a.order), clamp=NONE), a.order)

    return convert


def mul(site: Site) -> Value:
    """Mul; with a constant per channel, it may become part of the op before."""
    site.known()
    for x, constant in ((0, 1), (1, 0)):
        if site.is_constant(constant) and (factor := _per_channel(site, x, constant)) is not None:
            return affine(site, site.value(x), factor, np.zeros(1))
    return maps.mapped(site, lambda x, y: x * y, site.value(0), site.value(1))


def _per_channel(site: Site, x: int, constant: int) -> np.ndarray | None:
    """A constant operand that has one value, or one for each of x's channels in dimension 1; None for any other."""
    if site.is_constant(x) or not _is_real(site, x):
        return None
    found, shape = site.real(constant, "constant"), site.value(x).shape
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
