"""Converters of ONNX's ops that are linear along an axis, with numbers that are known: Resize and DFT.

A row of a Resize has one element of the input (nearest), two or four (linear, cubic), which are taken by their places,
or more (antialias), which are a product with a matrix.
"""

from __future__ import annotations

from dataclasses import fields
from functools import reduce
from operator import add, mul
from typing import Any

import numpy as np

from shoehorn_mcu.importers.fault import Unsupported
from shoehorn_mcu.importers.lowering.columns import along, product
from shoehorn_mcu.importers.lowering.geometry import axis_of
from shoehorn_mcu.importers.lowering.layout import FEW_RUNS, picked, runs_of
from shoehorn_mcu.importers.lowering.maps import mapped
from shoehorn_mcu.importers.lowering.movers import shaped
from shoehorn_mcu.importers.lowering.places import Dimension, Rule, Taps, resized, taps
from shoehorn_mcu.importers.lowering.site import Site, Value, as_plain
from shoehorn_mcu.ir import Array, DType, Tensor
from shoehorn_mcu.ops import Gather

MOST_TAPS = 4  # elements that a row of the matrix takes one by one
_SIZE_LIMIT = 1 << 13  # of a dimension, so that a matrix stays small

_ATTRIBUTES: dict[str, Any] = {each.name: each.default for each in fields(Rule)}


def resize(site: Site) -> Value:
    """Resize to constant sizes or by constant scales, of any dimensions, one after another."""
    x = site.value(0)
    axes = [axis_of(axis, x.rank) for axis in site.attribute("axes", tuple(range(x.rank)))]
    rule = Rule(**{name: site.attribute(name, default) for name, default in _ATTRIBUTES.items()})
    if rule.mode != "nearest" and x.tensor.type.dtype is not DType.FLOAT32:
        raise Unsupported(f"its input is {x.tensor.type.dtype.value}, and it is not of the mode nearest")
    tensor = x.tensor
    for axis, dimension in zip(axes, _dimensions(site, rule, [x.shape[axis] for axis in axes]), strict=True):
        if dimension != Dimension(dimension.before, dimension.before, np.float32(1)):
            tensor = _taken(site, tensor, x.order.index(axis), taps(rule, dimension))
    return Value(tensor, x.order)


def _dimensions(site: Site, rule: Rule, have: list[int]) -> list[Dimension]:
    """The dimensions that change."""
    scales = site.real(2, "scales").tolist() if site.given(2) and site.constant(2, "scales").size else None
    sizes = site.integers(3, "sizes") if scales is None else ()
    found = resized(have, scales, sizes, site.attribute("keep_aspect_ratio_policy", "stretch"))
    after = [size for _, size in found]
    if len(found) != len(have) or not all(0 < n <= _SIZE_LIMIT for n in (*after, *have)):
        raise Unsupported(f"it changes the sizes {have} to {after}, 1 to {_SIZE_LIMIT} are supported")
    region = np.zeros(0, np.float32)
    if rule.coordinate_transformation_mode == "tf_crop_and_resize" and site.given(1):
        region = site.real(1, "region").reshape(-1)
    ends = [(np.float32(0), np.float32(1))] * len(have)
    if region.size == 2 * len(have):
        ends = [(region[i], region[i + len(have)]) for i in range(len(have))]
    return [Dimension(n, size, s, part) for n, (s, size), part in zip(have, found, ends, strict=True)]


def _taken(site: Site, x: Tensor, place: int, of: Taps) -> Tensor:
    """The taps of a dimension in memory."""
    size, count = of.places.shape
    shape = (*x.type.shape[:place], size, *x.type.shape[place + 1 :])
    wide = [size if i == place else 1 for i in range(len(shape))]
    if count == 1 and (of.weights == 1).all():
        return taken(site, x, place, of.places[:, 0])
    if count > MOST_TAPS:
        matrix = np.zeros((size, x.type.shape[place]), np.float32)
        np.add.at(matrix, (np.arange(size)[:, None], of.places), of.weights)
        columns = as_plain(along(site, x, place))
        made = product(site, as_plain(site.weights(matrix)), columns, lambda t, a, b: t + a * b)
        found = as_plain(shaped(site, made.tensor, shape))
    else:
        parts = [as_plain(taken(site, x, place, of.places[:, i])) for i in range(count)]
        held = [as_plain(site.weights(of.weights[:, i].reshape(wide))) for i in range(count)]
        found = mapped(site, lambda *terms: reduce(add, map(mul, terms[:count], terms[count:])), *parts, *held)
    if of.addend.any():
        found = mapped(site, lambda t, a: t + a, found, as_plain(site.weights(of.addend.reshape(wide))))
    return found.tensor


def taken(site: Site, x: Tensor, place: int, indices: Array) -> Tensor:
    """Elements of a dimension in memory at constant places: as slices where they are few, else by their indices."""
    if runs_of(indices) <= FEW_RUNS:
        return picked(site, x, place, indices.tolist())
    held = site.weights(indices.astype(np.int32).reshape(1, -1, 1))
    shape = (*x.type.shape[:place], len(indices), *x.type.shape[place + 1 :])
    return shaped(site, site.emit(Gather, along(site, x, place), held), shape)


def dft(site: Site) -> Value:
    """DFT along a constant axis, as a product with a constant matrix; numbers are pairs along the last dimension."""
    x = site.value(0)
    asked = site.constant(2, "axis").reshape(-1)[0] if site.given(2) else site.attribute("axis", -2)
    axis, inverse = axis_of(int(asked), x.rank), bool(site.attribute("inverse", 0))
    length = int(site.constant(1, "length").reshape(-1)[0]) if site.given(1) else 0
    onesided = bool(site.attribute("onesided", 0))
    complex_in, n = x.shape[-1], x.shape[axis]
    whole = 2 * (n - 1) if inverse and onesided and complex_in == 2 else n
    size = length or whole
    if not 0 < size <= _SIZE_LIMIT or axis == x.rank - 1 or complex_in not in (1, 2):
        raise Unsupported(f"it transforms {n} elements of {x.shape} to {size}")
    basis = np.zeros((n, complex_in, size), np.complex128)
    for i in range(complex_in):
        basis[:, i] = _transformed(np.eye(n) * (1j if i else 1), size, inverse, onesided and inverse)
    if onesided and not inverse:
        basis = basis[..., : size // 2 + 1]
    ends = [basis.real] if onesided and inverse else [basis.real, basis.imag]
    # (n, pair in, places, pair out) as a matrix of rows of pairs
    matrix = np.stack(ends, axis=-1).reshape(n * complex_in, -1).astype(np.float32)
    ahead = [d for d in range(x.rank - 1) if d != axis]
    rows = site.ordered(x, (*ahead, axis, x.rank - 1))
    shape = tuple(x.shape[d] for d in ahead)
    flat = as_plain(shaped(site, rows, (int(np.prod(shape)), n * complex_in)))
    made = product(site, flat, as_plain(site.weights(matrix)), lambda t, a, b: t + a * b)
    tensor = shaped(site, made.tensor, (*shape, basis.shape[-1], len(ends)))
    return Value(tensor, (*ahead, axis, x.rank - 1))


def _transformed(rows: Array, size: int, inverse: bool, real: bool) -> Array:
    if real:
        return np.fft.irfft(rows, n=size, axis=-1).astype(np.complex128)
    return np.fft.ifft(rows, n=size, axis=-1) if inverse else np.fft.fft(rows, n=size, axis=-1)
