"""Converters of ONNX's ops on elements, windows without weights, and layout."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np

from shoehorn_mcu.importers.fault import ImportFault, Unsupported
from shoehorn_mcu.importers.geometry import axis_of
from shoehorn_mcu.importers.onnx_linear import affine, paddings, pair
from shoehorn_mcu.importers.onnx_site import Site, Value, as_image, as_plain
from shoehorn_mcu.ir import Tensor
from shoehorn_mcu.ops import (
    Add,
    AveragePool2d,
    Clamp,
    Concat,
    MaxPool2d,
    Mean,
    Pad,
    Padding,
    RealClamp,
    Reshape,
    Slice,
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
    if len(shape) not in (2, 4):
        return None
    if found.size == 1:
        return found.reshape(1)
    wide = (1,) * (len(shape) - found.ndim) + found.shape
    return found.reshape(-1) if wide == tuple(size if place == 1 else 1 for place, size in enumerate(shape)) else None


def pool(op: type[AveragePool2d] | type[MaxPool2d]) -> Callable[[Site], Value]:
    """A pool over images. Windows that ceil_mode adds hang over the end, where padding does not count."""

    def convert(site: Site) -> Value:
        site.known(
            "auto_pad",
            "ceil_mode",
            "count_include_pad",
            "dilations",
            "kernel_shape",
            "pads",
            "storage_order",
            "strides",
        )
        if any(site.node.outputs[1:]) or pair(site, "dilations") != (1, 1):
            raise Unsupported("it is dilated, or its indices are used")
        x, kernel, stride = site.image(site.value(0)), pair(site, "kernel_shape"), pair(site, "strides")
        size = cast(tuple[int, int], x.type.shape[1:3])
        padding = paddings(site, size, kernel)
        counted = site.attribute("count_include_pad", 0) and op is AveragePool2d and padding != Padding()
        if site.attribute("ceil_mode", 0):
            if counted:
                raise Unsupported("ceil_mode and count_include_pad together")
            padding = _hanging_over(padding, size, kernel, stride)
        if counted:
            before, after = (0, padding.top, padding.left, 0), (0, padding.bottom, padding.right, 0)
            x, padding = site.emit(Pad, x, before=before, after=after, value=_zero(x)), Padding()
        clamp = NONE if x.type.quant is None else Clamp()
        return as_image(site.emit(op, x, kernel=kernel, stride=stride, padding=padding, clamp=clamp))

    return convert


def _hanging_over(of: Padding, size: tuple[int, int], kernel: tuple[int, int], stride: tuple[int, int]) -> Padding:
    """The padding with which the number of windows is rounded up; the last one begins inside, or before the end."""
    after = []
    for n, k, s, first, last in zip(size, kernel, stride, (of.top, of.left), (of.bottom, of.right), strict=True):
        count = -(-(n + first + last - k) // s) + 1
        if (count - 1) * s >= n + first:
            count -= 1
        after.append(max(last, (count - 1) * s + k - n - first))
    return Padding(of.top, after[0], of.left, after[1])


def global_average_pool(site: Site) -> Value:
    """GlobalAveragePool of images."""
    site.known()
    return as_image(site.emit(Mean, site.image(site.value(0)), axes=(1, 2), keep_dims=True))


def softmax(site: Site) -> Value:
    """Softmax along any axis, which is brought to the end."""
    site.known("axis")
    x = site.value(0)
    axis = axis_of(site.attribute("axis", -1), x.rank)
    order = x.order if x.order[-1] == axis else (*(d for d in x.order if d != axis), axis)
    return Value(site.emit(Softmax, site.ordered(x, order), beta=1.0), order)


def concat(site: Site) -> Value:
    """Concat along any axis, in the first operand's order of dimensions."""
    site.known("axis")
    values = [site.value(place) for place in range(len(site.node.inputs))]
    order = values[0].order
    axis = axis_of(site.attribute("axis", 0), len(order))
    tensors = [site.ordered(value, order) for value in values]
    return Value(site.emit(Concat, *tensors, axis=order.index(axis)), order)


def transpose(site: Site) -> Value:
    """No elements move: the same tensor, whose dimensions now have other numbers in the model."""
    site.known("perm")
    x = site.value(0)
    perm = site.attribute("perm", tuple(reversed(range(x.rank))))
    if sorted(perm) != list(range(x.rank)):
        raise ImportFault(f"its perm {perm} is no order of {x.rank} dimensions; export it again")
    return Value(x.tensor, tuple(perm.index(dimension) for dimension in x.order))


def reshape(site: Site) -> Value:
    """Reshape to a constant shape; 0 keeps a size, -1 is the size that is left over."""
    site.known("allowzero")
    x, asked = site.value(0), site.integers(1, "shape")
    shape = [
        x.shape[i] if n == 0 and i < x.rank and not site.attribute("allowzero", 0) else n for i, n in enumerate(asked)
    ]
    if shape.count(-1) == 1:
        known = int(np.prod([n for n in shape if n != -1]))
        shape[shape.index(-1)] = x.tensor.type.elements // known if known > 0 else 0
    return _reshaped(site, x, tuple(shape))


def flatten(site: Site) -> Value:
    """Flatten to two dimensions."""
    site.known("axis")
    x = site.value(0)
    axis = site.attribute("axis", 1)
    axis = axis if axis == x.rank else axis_of(axis, x.rank)
    return _reshaped(site, x, (int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis:]))))


def squeeze(site: Site) -> Value:
    """Squeeze of the given axes, or of all of size 1."""
    site.known()
    x = site.value(0)
    axes = {axis_of(a, x.rank) for a in site.integers(1, "axes")} if site.given(1) else set(range(x.rank))
    if site.given(1) and any(x.shape[axis] != 1 for axis in axes):
        raise ImportFault(f"it squeezes axes {sorted(axes)} of {x.shape}; export it again")
    return _reshaped(site, x, tuple(n for i, n in enumerate(x.shape) if i not in axes or n != 1))


def unsqueeze(site: Site) -> Value:
    """Unsqueeze: new dimensions of size 1 at these places of the result."""
    site.known()
    x, asked = site.value(0), site.integers(1, "axes")
    rank = x.rank + len(asked)
    axes, sizes = {axis_of(a, rank) for a in asked}, iter(x.shape)
    return _reshaped(site, x, tuple(1 if place in axes else next(sizes, 1) for place in range(rank)))


def _reshaped(site: Site, x: Value, shape: tuple[int, ...]) -> Value:
    return as_plain(site.emit(Reshape, site.plain(x), shape=shape))


def slice_(site: Site) -> Value:
    """Slice with constant bounds, which are cut to the dimension as numpy does it."""
    site.known()
    x = site.value(0)
    starts, ends = site.integers(1, "starts"), site.integers(2, "ends")
    axes = site.integers(3, "axes") if site.given(3) else tuple(range(len(starts)))
    steps = site.integers(4, "steps") if site.given(4) else (1,) * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise ImportFault("its starts, ends, axes and steps do not fit each other; export it again")
    taken = [range(n) for n in x.shape]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        place = axis_of(axis, x.rank)
        taken[place] = range(x.shape[place])[start:end:step]
    if not all(taken):
        raise Unsupported("its result is empty")
    inside = [taken[dimension] for dimension in x.order]
    made = site.emit(
        Slice,
        x.tensor,
        begin=tuple(r[0] for r in inside),
        size=tuple(map(len, inside)),
        step=tuple(r.step if len(r) > 1 else 1 for r in inside),
    )
    return Value(made, x.order)


def pad(site: Site) -> Value:
    """Pad with a constant 0 around a value."""
    site.known("mode")
    if site.attribute("mode", "constant") != "constant":
        raise Unsupported(f"it pads in mode {site.attribute('mode', '')}, only constant is supported")
    x, pads = site.value(0), site.integers(1, "pads")
    axes = site.integers(3, "axes") if site.given(3) else tuple(range(x.rank))
    if site.given(2) and site.real(2, "value").any():
        raise Unsupported("it pads with another value than 0")
    if len(pads) != 2 * len(axes):
        raise ImportFault(f"its {len(pads)} pads do not fit {len(axes)} axes; export it again")
    if min(pads, default=0) < 0:
        raise Unsupported("it pads by negative numbers")
    places = [axis_of(axis, x.rank) for axis in axes]
    first = dict(zip(places, pads[: len(axes)], strict=True))
    last = dict(zip(places, pads[len(axes) :], strict=True))
    before, after = (tuple(side.get(dimension, 0) for dimension in x.order) for side in (first, last))
    return Value(site.emit(Pad, x.tensor, before=before, after=after, value=_zero(x.tensor)), x.order)


def _zero(x: Tensor) -> int:
    """The stored value of 0."""
    return 0 if x.type.quant is None else x.type.quant.zero_point
