"""Where the elements of a Resize come from along one dimension, and how much of each: in float32, as ONNX Runtime
computes it.

ONNX's own evaluator computes in float64, where a place such as (4 + 0.5) / 0.6 - 0.5 falls beside the integer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.importers.fault import ImportFault
from shoehorn_mcu.importers.lowering.node import BY_SCALE

Reals = NDArray[np.float32]
Whole = NDArray[np.int64]

ONE, HALF = np.float32(1), np.float32(0.5)


@dataclass(frozen=True)
class Taps:
    """What each element of the result is: elements of the input by their places, times weights, and a number."""

    places: Whole  # (size, taps), within the input
    weights: Reals  # (size, taps)
    addend: Reals  # (size,)


@dataclass(frozen=True)
class Rule:
    """The attributes of a Resize, with ONNX's defaults."""

    mode: str = "nearest"
    coordinate_transformation_mode: str = "half_pixel"
    nearest_mode: str = "round_prefer_floor"
    cubic_coeff_a: float = -0.75
    exclude_outside: int = 0
    extrapolation_value: float = 0.0
    antialias: int = 0


@dataclass(frozen=True)
class Dimension:
    """One dimension before and after, the scale between them, and the part of it that `tf_crop_and_resize` takes."""

    before: int
    after: int
    scale: np.float32
    region: tuple[np.float32, np.float32] = (np.float32(0), np.float32(1))


def resized(
    before: Sequence[int], scales: Sequence[float] | None, sizes: Sequence[int], policy: str
) -> list[tuple[np.float32, int]]:
    """The scale and the new size of each dimension, by scales, or by sizes where there are none.

    A size by a scale is rounded down from the product in float32: 10 rows by 1.3 are 13, as in ONNX Runtime and where
    the scale is 1.3 in Python; ONNX's own inference has 12, from the product of 10 and the float32 next to 1.3.
    """
    if scales is not None:
        held = [np.float32(scale) for scale in scales]
        return [(s, int(np.float32(n) * s) if np.isfinite(s) else 0) for n, s in zip(before, held, strict=False)]
    held = [np.float32(size) / np.float32(max(n, 1)) for size, n in zip(sizes, before, strict=False)]
    if policy == "stretch" or not held:
        return list(zip(held, sizes, strict=False))
    one = min(held) if policy == "not_larger" else max(held)
    return [(one, int(np.floor(float(one * np.float32(n)) + 0.5))) for n in before]


def taps(rule: Rule, of: Dimension) -> Taps:
    """The taps of a dimension. Raises ImportFault for options that ONNX does not have."""
    placed = rule.coordinate_transformation_mode
    if placed not in _PLACES:
        raise ImportFault(f"its coordinate_transformation_mode is '{placed}'; export it again")
    x = np.arange(of.after, dtype=np.float32)
    crops = placed == "tf_crop_and_resize"
    at = x if of.scale == 1 and not crops else _PLACES[placed](x, of).astype(np.float32)
    outside = ((at < 0) | (at > of.before - 1)) & crops
    if rule.mode == "nearest":
        places, weights = _nearest(at, rule, of)
    elif rule.antialias:
        places, weights = _filtered(at, rule, of)
    elif rule.mode == "linear":
        places, weights = _linear(at, of)
    elif rule.mode == "cubic":
        places, weights = _cubic(at, rule, of)
    else:
        raise ImportFault(f"its mode is '{rule.mode}'; export it again")
    places, weights = _merged(np.clip(places, 0, of.before - 1), np.where(outside[:, None], np.float32(0), weights))
    return Taps(places, weights, np.where(outside, np.float32(rule.extrapolation_value), np.float32(0)))


def _half_pixel(x: Reals, of: Dimension) -> Reals:
    return (x + HALF) / of.scale - HALF


def _symmetric(x: Reals, of: Dimension) -> NDArray[np.float64]:
    """Half pixels around the middle, where the size is rounded; the sum is in float64."""
    adjustment = np.float32(of.after) / (of.scale * np.float32(of.before))
    offset = np.float32(of.before) / np.float32(2) * (ONE - adjustment)
    return np.float64(offset) + (x.astype(np.float64) + 0.5) / np.float64(of.scale) - 0.5


def _cropped(x: Reals, of: Dimension) -> Reals:
    begin, end = of.region
    last = np.float32(of.before - 1)
    if len(x) > 1:
        return begin * last + x * (end - begin) * last / np.float32(len(x) - 1)
    return np.full(1, 0.5 * np.float64((begin + end) * last), np.float32)


_PLACES: Mapping[str, Callable[[Reals, Dimension], NDArray[np.floating]]] = {
    "align_corners": lambda x, of: x * np.float32(of.before - 1) / np.float32(max(len(x) - 1, 1)),
    "asymmetric": lambda x, of: x / of.scale,
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _symmetric,
    "pytorch_half_pixel": lambda x, of: _half_pixel(x, of) if len(x) > 1 else 0 * x,
    "tf_crop_and_resize": _cropped,
    "tf_half_pixel_for_nn": lambda x, of: (x + HALF) / of.scale,
}
"""Where elements of the result are in the input, by coordinate_transformation_mode."""


def _rounded(x: Reals) -> Reals:
    return np.floor(x.astype(np.float64) + 0.5).astype(np.float32)


def _is_tie(x: Reals) -> NDArray[np.bool_]:
    """Whether a place is in the middle of two elements, or as near as its rounding errors may leave it."""
    found: NDArray[np.bool_] = np.abs(x - np.floor(x).astype(np.float64) - 0.5) <= _TIE
    return found


_TIE = 1e-6

_ROUNDED: Mapping[str, Callable[[Reals], Reals]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_floor": lambda x: np.where(_is_tie(x), np.floor(x), _rounded(x)),
    "round_prefer_ceil": lambda x: np.where(_is_tie(x), np.floor(x) + ONE, _rounded(x)),
}


def _nearest(at: Reals, rule: Rule, of: Dimension) -> tuple[Whole, Reals]:
    mode = rule.nearest_mode
    if mode == BY_SCALE:
        mode = "ceil" if of.scale < 1 else "floor"
    if mode not in _ROUNDED:
        raise ImportFault(f"its nearest_mode is '{mode}'; export it again")
    return _ROUNDED[mode](at).astype(np.int64)[:, None], np.ones((of.after, 1), np.float32)


def _linear(at: Reals, of: Dimension) -> tuple[Whole, Reals]:
    inside = np.clip(at, np.float32(0), np.float32(of.before - 1))
    first = inside.astype(np.int64)
    places = np.stack([first, np.minimum(first + 1, of.before - 1)], axis=1)
    weights = np.abs(inside[:, None] - places[:, ::-1].astype(np.float32))
    return places, np.where((places[:, :1] == places[:, 1:]), HALF, weights)


def _cubic(at: Reals, rule: Rule, of: Dimension) -> tuple[Whole, Reals]:
    places = np.floor(at).astype(np.int64)[:, None] + np.arange(-1, 3)
    weights = _cubic_at(np.abs(at[:, None] - places.astype(np.float32)), np.float32(rule.cubic_coeff_a))
    if rule.exclude_outside:
        weights = np.where((places >= 0) & (places < of.before), weights, np.float32(0))
        weights = _shares(weights)
    return places, weights


def _cubic_at(x: Reals, a: np.float32) -> Reals:
    """The weight of an element at this distance."""
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, np.float32(0)))


def _filtered(at: Reals, rule: Rule, of: Dimension) -> tuple[Whole, Reals]:
    """A filter over as many elements of the input as become one of the result (antialias)."""
    inverse = ONE / of.scale
    stretched = max(inverse, ONE)
    support = np.float32(1 if rule.mode == "linear" else 2) * stretched
    center = at + HALF
    first = np.floor(center - support + HALF).astype(np.int64)
    count = np.floor(center + support + HALF).astype(np.int64) - first
    steps = np.arange(max(1, int(count.max(initial=1))))
    places = first[:, None] + steps
    distance = np.abs((places.astype(np.float32) - center[:, None] + HALF) * (ONE / stretched))
    if rule.mode == "linear":
        weights = np.maximum(ONE - distance, np.float32(0))
    else:
        weights = _cubic_at(distance, np.float32(rule.cubic_coeff_a))
    known = steps < count[:, None]
    if rule.exclude_outside:
        known &= (places >= 0) & (places < of.before)
    weights = np.where(known, weights, np.float32(0))
    return places, _shares(weights)


def _shares(weights: Reals) -> Reals:
    """The weights with the sum 1 in each row."""
    total = weights.sum(axis=1, keepdims=True)
    return (weights / np.where(total == 0, ONE, total)).astype(np.float32)


def _merged(places: Whole, weights: Reals) -> tuple[Whole, Reals]:
    """Each place once in a row, those without weight last, and no more taps than a row has."""
    held = weights.copy()
    for place in range(1, places.shape[1]):  # those outside have become the border's, side by side
        same = places[:, place] == places[:, place - 1]
        held[:, place] += np.where(same, held[:, place - 1], np.float32(0))
        held[:, place - 1] = np.where(same, np.float32(0), held[:, place - 1])
    count = max(1, int((held != 0).sum(axis=1).max(initial=1)))
    order = np.argsort(held == 0, axis=1, kind="stable")[:, :count]
    return np.take_along_axis(places, order, axis=1), np.take_along_axis(held, order, axis=1)
