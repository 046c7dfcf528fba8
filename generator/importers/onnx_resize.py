"""Converters of ONNX's ops that are linear along an axis, with numbers that are known: Resize and DFT.

An axis of Resize is a matrix, which ONNX's reference evaluator gives for the columns of the identity. Its rows have one
element (nearest), two or four (linear, cubic), which are taken by their places, or more (antialias).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.importers.fault import ImportFault, Unsupported
from shoehorn_mcu.importers.geometry import axis_of
from shoehorn_mcu.importers.onnx_columns import along, product
from shoehorn_mcu.importers.onnx_layout import FEW_RUNS, picked, runs_of
from shoehorn_mcu.importers.onnx_maps import mapped
from shoehorn_mcu.importers.onnx_movers import shaped
from shoehorn_mcu.importers.onnx_node import BY_SCALE, first_line
from shoehorn_mcu.importers.onnx_site import Site, Value, as_plain
from shoehorn_mcu.ir import Array, DType, Tensor
from shoehorn_mcu.ops import Gather
from shoehorn_mcu.ops.formula import Term

Reals = NDArray[np.float64]

MOST_TAPS = 4  # elements that a row of the matrix takes one by one
_SIZE_LIMIT = 1 << 13  # of a dimension, so that a matrix stays small
_OPSET = 19

_ATTRIBUTES = {
    "antialias": 0,
    "coordinate_transformation_mode": "half_pixel",
    "cubic_coeff_a": -0.75,
    "exclude_outside": 0,
    "extrapolation_value": 0.0,
    "mode": "nearest",
    "nearest_mode": "round_prefer_floor",
}


def resize(site: Site) -> Value:
    """Resize to constant sizes or by constant scales, of any dimensions, one after another."""
    site.known(*_ATTRIBUTES, "axes", "keep_aspect_ratio_policy")
    x = site.value(0)
    axes = [axis_of(axis, x.rank) for axis in site.attribute("axes", tuple(range(x.rank)))]
    scales, sizes = _scales(site, [x.shape[axis] for axis in axes])
    region = site.real(1, "region").tolist() if site.given(1) and site.constant(1, "region").size else []
    options = {name: site.attribute(name, default) for name, default in _ATTRIBUTES.items()}
    if options["mode"] != "nearest" and x.tensor.type.dtype is not DType.FLOAT32:
        raise Unsupported(f"its input is {x.tensor.type.dtype.value}, and it is not of the mode nearest")
    tensor = x.tensor
    for number, axis in enumerate(axes):
        part = [region[number], region[number + len(axes)]] if len(region) == 2 * len(axes) else [0.0, 1.0]
        if scales[number] == 1.0 and sizes[number] == x.shape[axis] and part == [0.0, 1.0]:
            continue
        matrix, offset = _matrix(x.shape[axis], scales[number], sizes[number], part, options)
        tensor = _times(site, tensor, x.order.index(axis), matrix, offset)
    return Value(tensor, x.order)


def _scales(site: Site, have: list[int]) -> tuple[list[float], list[int]]:
    """The scale of each dimension and its new size."""
    policy = site.attribute("keep_aspect_ratio_policy", "stretch")
    if site.given(2) and site.constant(2, "scales").size:
        scales = [float(v) for v in site.real(2, "scales").tolist()]
        sizes = [int(np.floor(n * np.float32(s))) for n, s in zip(have, scales, strict=False)]
    else:
        sizes = list(site.integers(3, "sizes"))
        scales = [size / n for size, n in zip(sizes, have, strict=False)]
        if policy != "stretch" and scales:
            one = min(scales) if policy == "not_larger" else max(scales)
            scales, sizes = [one] * len(scales), [int(n * one + 0.5) for n in have]
    if len(scales) != len(have) or not all(0 < n <= _SIZE_LIMIT for n in (*sizes, *have)):
        raise Unsupported(f"it changes the sizes {have} to {sizes}, 1 to {_SIZE_LIMIT} are supported")
    return scales, sizes


def _matrix(n: int, scale: float, size: int, region: list[float], options: Mapping[str, Any]) -> tuple[Reals, Reals]:
    """The matrix (size, n) of one dimension, and what is added."""
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    placed = options["coordinate_transformation_mode"]
    if options["mode"] == "nearest" and placed in _PLACES and not options["antialias"]:
        return np.eye(n)[_nearest(n, scale, size, options)], np.zeros(size)
    # Places of align_corners depend on both sizes alone; the evaluator has a size that is not rounded of a scale.
    by_scale = int(np.floor(n * np.float32(scale))) == size and placed != "align_corners"
    names = ["x", "region", "scales" if by_scale else "", "" if by_scale else "sizes"]
    node = helper.make_node("Resize", names, ["y"], **options)
    given = {
        "x": np.vstack([np.eye(n), np.zeros((1, n))]).astype(np.float32),
        "region": np.array([0, region[0], 1, region[1]], np.float32),
        "scales": np.array([1, scale], np.float32),
        "sizes": np.array([n + 1, size], np.int64),
    }
    try:
        (found,) = ReferenceEvaluator(node, opsets={"": _OPSET}).run(None, {k: given[k] for k in names if k})
    except Exception as error:  # whatever the evaluator raises for options that it does not know
        raise ImportFault(f"its options cannot be computed: {first_line(error)}; export it again") from error
    columns = np.asarray(found, np.float64)
    return (columns[:-1] - columns[-1:]).T, columns[-1]


Float32s = NDArray[np.float32]

_PLACES: Mapping[str, Callable[[Float32s, np.float32, int], Float32s]] = {
    "asymmetric": lambda x, scale, n: x / scale,
    "half_pixel": lambda x, scale, n: (x + np.float32(0.5)) / scale - np.float32(0.5),
    "pytorch_half_pixel": lambda x, scale, n: (x + np.float32(0.5)) / scale - np.float32(0.5) if len(x) > 1 else 0 * x,
    "align_corners": lambda x, scale, n: x * np.float32(n - 1) / np.float32(max(len(x) - 1, 1)),
}
"""Where elements of the output are in an input of n elements, by coordinate_transformation_mode."""

_ROUNDED: Mapping[str, Callable[[Float32s], Float32s]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_floor": lambda x: np.ceil(x - np.float32(0.5)),
    "round_prefer_ceil": lambda x: np.floor(x + np.float32(0.5)),
}


def _nearest(n: int, scale: float, size: int, options: Mapping[str, Any]) -> NDArray[np.int64]:
    """The element of the input that each of the output is, in float32 as ONNX Runtime computes it.

    The evaluator computes in float64, in which a place such as (4 + 0.5) / 0.6 - 0.5 falls beside the integer.
    """
    mode = options["nearest_mode"]
    if mode == BY_SCALE:
        mode = "ceil" if scale < 1 else "floor"
    if mode not in _ROUNDED:
        raise ImportFault(f"its nearest_mode is '{mode}'; export it again")
    places = _PLACES[options["coordinate_transformation_mode"]](np.arange(size, dtype=np.float32), np.float32(scale), n)
    return np.clip(_ROUNDED[mode](places).astype(np.int64), 0, n - 1)


def _times(site: Site, x: Tensor, place: int, matrix: Reals, offset: Reals) -> Tensor:
    """The matrix times x along a dimension in memory."""
    count = int((matrix != 0).sum(axis=1).max(initial=1))
    shape = (*x.type.shape[:place], len(matrix), *x.type.shape[place + 1 :])
    exact = not offset.any() and set(np.unique(matrix).tolist()) <= {0.0, 1.0}
    if count == 1 and exact and (matrix.sum(axis=1) == 1).all():
        return taken(site, x, place, matrix.argmax(axis=1))
    if count > MOST_TAPS:
        columns = as_plain(along(site, x, place))
        made = product(site, as_plain(site.weights(matrix.astype(np.float32))), columns, lambda t, a, b: t + a * b)
        return shaped(site, made.tensor, shape)
    places = np.sort(np.argsort(-np.abs(matrix), axis=1, kind="stable")[:, :count], axis=1)
    weights = np.take_along_axis(matrix, places, axis=1).astype(np.float32)
    wide = [1] * len(shape)
    wide[place] = len(matrix)
    parts = [as_plain(taken(site, x, place, places[:, i])) for i in range(count)]
    held = [as_plain(site.weights(weights[:, i].reshape(wide))) for i in range(count)]
    more = [as_plain(site.weights(offset.reshape(wide).astype(np.float32)))] if offset.any() and count < 4 else []
    if offset.any() and not more:
        raise Unsupported("it has a value outside its input in this mode")

    def write(*terms: Term) -> Term:
        total = terms[0] * terms[count]
        for i in range(1, count):
            total = total + terms[i] * terms[count + i]
        return total + terms[2 * count] if more else total

    return mapped(site, write, *parts, *held, *more).tensor


def taken(site: Site, x: Tensor, place: int, indices: Array) -> Tensor:
    """Elements of a dimension in memory at constant places: as slices where they are few, else by their indices."""
    if runs_of(indices) <= FEW_RUNS:
        return picked(site, x, place, indices.tolist())
    held = site.weights(indices.astype(np.int32).reshape(1, -1, 1))
    shape = (*x.type.shape[:place], len(indices), *x.type.shape[place + 1 :])
    return shaped(site, site.emit(Gather, along(site, x, place), held), shape)


def dft(site: Site) -> Value:
    """DFT along a constant axis, as a product with a constant matrix; numbers are pairs along the last dimension."""
    site.known("axis", "inverse", "onesided")
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
    found: Array = np.fft.ifft(rows, n=size, axis=-1) if inverse else np.fft.fft(rows, n=size, axis=-1)
    return found
