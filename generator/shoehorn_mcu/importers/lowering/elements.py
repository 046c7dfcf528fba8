"""Converters of ONNX's ops on elements, windows without weights, and layout."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from shoehorn_mcu.importers.fault import Unsupported
from shoehorn_mcu.importers.lowering import maps
from shoehorn_mcu.importers.lowering.geometry import axis_of
from shoehorn_mcu.importers.lowering.linear import affine
from shoehorn_mcu.importers.lowering.movers import shaped
from shoehorn_mcu.importers.lowering.site import MOST_DIMENSIONS, Site, Value, as_plain
from shoehorn_mcu.ir import DType, Tensor
from shoehorn_mcu.ir.orders import channels_last
from shoehorn_mcu.ops import Add, RealClamp, Softmax, Sub
from shoehorn_mcu.ops import functions as f

NONE = RealClamp()


def same(site: Site) -> Value:
    """Identity."""
    return site.value(0)


def dropout(site: Site) -> tuple[Value, ...]:
    """Dropout in inference: its input, and a mask that is true everywhere."""
    if site.given(2) and site.constant(2, "training mode").any():
        raise Unsupported("it is in training mode")
    x = site.value(0)
    if not any(site.node.outputs[1:]):
        return (x,)
    return x, as_plain(site.weights(np.ones(x.shape, np.bool_)))


def relu(site: Site) -> Value:
    """Relu."""
    if _by_channels(site.value(0)):
        return _clamped(site, 0.0, NONE.high)
    return maps.mapped(site, lambda x: f.maximum(x, x.constant(0)), site.value(0))


def clip(site: Site) -> Value:
    """Clip; with constant bounds, it is the clamp of an op."""
    known = all(site.is_constant(place) for place in (1, 2) if site.given(place))
    if not known or not _by_channels(site.value(0)):
        return maps.clip(site)
    low, high = bounds(site)
    return _clamped(site, low, high) if low <= high else maps.clip(site)


def _by_channels(x: Value) -> bool:
    """Whether a factor and an addend per channel are a convolution of one tap without a Transpose."""
    return x.tensor.type.dtype is DType.FLOAT32 and x.rank > 1 and x.order == channels_last(x.rank)


def bounds(site: Site) -> tuple[float, float]:
    """The bounds of a Clip."""
    low, high = (
        float(site.real(place, role).reshape(-1)[0]) if site.given(place) else bound
        for place, role, bound in ((1, "lower bound", NONE.low), (2, "upper bound", NONE.high))
    )
    return low, high


def _clamped(site: Site, low: float, high: float) -> Value:
    """x times 1 plus 0, clamped: the pass fold-affine moves the bounds into the op before where it can."""
    return affine(site, site.value(0), np.ones(1, np.float32), np.zeros(1, np.float32), RealClamp(low, high))


def binary(op: type[Add] | type[Sub], site: Site) -> Value:
    """Add or Sub; with one value per channel, it may become part of the op before."""
    sign = 1 if op is Add else -1
    write = (lambda x, y: x + y) if op is Add else (lambda x, y: x - y)
    if site.is_constant(1) and (per_channel := _per_channel(site, 0, 1)) is not None:
        return affine(site, site.value(0), np.ones(1), sign * per_channel)
    if site.is_constant(0) and (per_channel := _per_channel(site, 1, 0)) is not None:
        return affine(site, site.value(1), np.full(1, sign), per_channel)
    a, b = site.value(0), site.value(1)
    finite = not {a.tensor.name, b.tensor.name} & site.builder.infinite  # the kernels clamp to finite numbers
    real = {DType.FLOAT32} == {a.tensor.type.dtype, b.tensor.type.dtype}
    if a.rank != b.rank or not 0 < a.rank <= MOST_DIMENSIONS or not real or not finite:
        return maps.mapped(site, write, a, b)
    left, right, order = site.in_one_order(a, b)
    return Value(site.emit(op, left, right, clamp=NONE), order)


def mul(site: Site) -> Value:
    """Mul; with a constant per channel, it may become part of the op before."""
    for x, constant in ((0, 1), (1, 0)):
        if site.is_constant(constant) and (factor := _per_channel(site, x, constant)) is not None:
            return affine(site, site.value(x), factor, np.zeros(1))
    return maps.mapped(site, lambda x, y: x * y, site.value(0), site.value(1))


def _per_channel(site: Site, x: int, constant: int) -> np.ndarray | None:
    """A constant operand that has one value, or one for each of x's channels in dimension 1; None for any other."""
    if site.is_constant(x) or not _by_channels(site.value(x)):
        return None
    found, shape = site.real(constant, "constant"), site.value(x).shape
    if found.ndim > len(shape):
        return None
    if found.size == 1:
        return found.reshape(1)
    wide = (1,) * (len(shape) - found.ndim) + found.shape
    return found.reshape(-1) if wide == tuple(size if place == 1 else 1 for place, size in enumerate(shape)) else None


def softmax(site: Site, along_last: Callable[[Tensor], Tensor] | None = None) -> Value:
    """Softmax along any axis, which is brought to the end. `along_last` computes it there, by default on float32."""
    x = site.value(0)
    axis = axis_of(site.attribute("axis", -1), x.rank)
    order = x.order if x.order[-1] == axis else (*(d for d in x.order if d != axis), axis)
    tensor = site.ordered(x, order)
    *ahead, size = tensor.type.shape
    folded = tensor if x.rank <= MOST_DIMENSIONS else shaped(site, tensor, (prod(ahead), size))
    made = along_last(folded) if along_last is not None else site.emit(Softmax, folded, beta=1.0)
    return Value(shaped(site, made, tensor.type.shape), order)
