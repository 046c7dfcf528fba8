"""What the steps of a formula compute, in numpy, which rounds as the kernels do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.ir import DType

_Numbers = NDArray[Any]


def _cast(to: DType, x: _Numbers) -> _Numbers:
    """The conversions of the kernels; those between integers wrap around."""
    if to is DType.BOOL:
        return np.asarray(x != np.zeros((), x.dtype))
    if x.dtype.kind != "f" or to.numpy.kind == "f":
        return x.astype(to.numpy)
    low, high = to.limits
    wide = np.trunc(x.astype(np.float64))
    wide = np.where(np.isnan(wide), 0.0, wide)
    inside = (wide > low) & (wide < high)
    cut = np.where(inside, wide, 0).astype(to.numpy)
    return np.where(inside, cut, np.where(wide <= low, low, high).astype(to.numpy))


def _divided(to: DType, a: _Numbers, b: _Numbers) -> _Numbers:
    if to.numpy.kind == "f":
        return a / b
    safe = np.where(b == 0, b.dtype.type(1), b)
    whole: _Numbers = a // safe
    remainder = a - whole * safe
    cut: _Numbers = whole + ((remainder != 0) & ((a < 0) != (safe < 0))).astype(to.numpy)
    return np.where(b == 0, b.dtype.type(0), cut).astype(to.numpy)


def _shifted(to: DType, a: _Numbers, by: _Numbers, left: bool) -> _Numbers:
    width = to.bytes * 8
    if by.ndim == 0 and 0 <= by < width:  # a constant, as nearly always
        return np.left_shift(a, by) if left else np.right_shift(a, by)
    outside = (by < 0) | (by >= width)
    safe = np.where(outside, 0, by).astype(to.numpy)
    beyond = np.zeros_like(a) if left else np.where(a < 0, -1, 0).astype(to.numpy)
    return np.where(outside, beyond, np.left_shift(a, safe) if left else np.right_shift(a, safe)).astype(to.numpy)


def _root(to: DType, x: _Numbers) -> _Numbers:
    """The square root; of an integer cut to one, from the root of float64, which is off by one at most."""
    if to.numpy.kind == "f":
        return np.asarray(np.sqrt(x))
    wide = x.astype(np.uint64)
    most = np.uint64(0xFFFFFFFF)
    root = np.minimum(np.sqrt(wide.astype(np.float64)).astype(np.uint64), most)
    root = np.where(root * root > wide, root - np.uint64(1), root)
    above = root + np.uint64(1)
    root = np.where((root < most) & (above * above <= wide), above, root)
    return root.astype(to.numpy)


def _width(to: DType, x: _Numbers) -> _Numbers:
    bits = np.arange(to.bytes * 8, dtype=np.uint64)
    return np.asarray((np.right_shift(x.astype(np.uint64)[..., None], bits) != 0).sum(-1).astype(to.numpy))


NUMPY: dict[str, Callable[..., Any]] = {
    "abs": lambda to, a: np.abs(a),
    "neg": lambda to, a: np.negative(a),
    "not": lambda to, a: np.logical_not(a) if to is DType.BOOL else np.invert(a),
    "sqrt": _root,
    "width": _width,
    "bits": lambda to, a: np.ascontiguousarray(a).view(to.numpy).reshape(a.shape),
    "cast": _cast,
    "add": lambda to, a, b: np.add(a, b),
    "sub": lambda to, a, b: np.subtract(a, b),
    "mul": lambda to, a, b: np.multiply(a, b),
    "div": _divided,
    "and": lambda to, a, b: np.bitwise_and(a, b),
    "or": lambda to, a, b: np.bitwise_or(a, b),
    "xor": lambda to, a, b: np.bitwise_xor(a, b),
    "left": lambda to, a, b: _shifted(to, a, b, left=True),
    "right": lambda to, a, b: _shifted(to, a, b, left=False),
    "less": lambda to, a, b: np.less(a, b),
    "equal": lambda to, a, b: np.equal(a, b),
    "select": lambda to, chosen, a, b: np.where(chosen, a, b),
}
"""By the name of a step that is neither a constant nor a table: the result's type and the values to the result."""
