"""GridSample: pixels at computed places, by indices that are formulas of the grid, and weights between neighbours."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from math import prod

from shoehorn_mcu.importers.fault import ImportFault, Unsupported
from shoehorn_mcu.importers.lowering.maps import mapped
from shoehorn_mcu.importers.lowering.movers import shaped, sliced
from shoehorn_mcu.importers.lowering.site import Site, Value, as_plain
from shoehorn_mcu.ir import DType
from shoehorn_mcu.ir.orders import channels_last
from shoehorn_mcu.ops import Gather
from shoehorn_mcu.ops import functions as f
from shoehorn_mcu.ops.formula import Term

_CUBIC = -0.75  # Keys' parameter, as ONNX has it
_MODES = {"nearest": 1, "bilinear": 2, "linear": 2, "bicubic": 4, "cubic": 4}  # pixels along a dimension


def grid_sample(site: Site) -> Value:
    """GridSample of N, C and two or three dimensions."""
    value, grid = site.value(0), site.value(1)
    mode, padding = site.attribute("mode", "linear"), site.attribute("padding_mode", "zeros")
    aligned, x = bool(site.attribute("align_corners", 0)), site.last(value)
    n, *sizes, c = x.type.shape
    if mode not in _MODES or padding not in ("zeros", "border", "reflection") or x.type.dtype is not DType.FLOAT32:
        raise Unsupported(f"it is of mode '{mode}' and padding '{padding}', its input {x.type.dtype.value}")
    if not sizes or grid.rank != value.rank or grid.shape[0] != n or grid.shape[-1] != len(sizes):
        raise ImportFault(f"its grid {grid.shape} does not fit its input {value.shape}; export it again")
    points = shaped(site, site.plain(grid), (n, prod(grid.shape[1:-1]), len(sizes)))
    whole = [range(size) for size in points.type.shape]
    places = []
    for d, size in enumerate(sizes):  # the grid names the last dimension first
        part = as_plain(sliced(site, points, [*whole[:2], range(len(sizes) - 1 - d, len(sizes) - d)]))
        places.append(mapped(site, _place(size, aligned), part))
    pixels, count = shaped(site, x, (n, prod(sizes), c)), _MODES[mode]
    sums: list[Value] = []
    for near in product(range(count), repeat=len(sizes)):
        index = mapped(site, partial(_index, near, sizes, count, padding, aligned), *places)
        taken = as_plain(site.emit(Gather, pixels, index.tensor))
        one = mapped(site, partial(_weighted, near, sizes, count, padding), taken, *places)
        sums.append(mapped(site, lambda a, b: a + b, sums[-1], one) if sums else one)
    return Value(shaped(site, sums[-1].tensor, (n, *grid.shape[1:-1], c)), channels_last(value.rank))


def _place(size: int, aligned: bool) -> Callable[[Term], Term]:
    """The place in pixels of a coordinate from -1 to 1."""
    if aligned:
        return lambda g: (g + 1.0) * 0.5 * float(size - 1)
    return lambda g: ((g + 1.0) * float(size) - 1.0) * 0.5


def _first(place: Term, count: int) -> Term:
    """The first of the pixels along a dimension that are read, as a float32."""
    return f.round_even(place) if count == 1 else f.floor(place) - float(count // 2 - 1)


def _index(near: tuple[int, ...], sizes: list[int], count: int, padding: str, aligned: bool, *places: Term) -> Term:
    """The index of one of the pixels around a place; one that is outside is moved inside."""
    total = places[0].constant(0, DType.INT32)
    for place, offset, size in zip(places, near, sizes, strict=True):
        at = _first(place, count) + float(offset)
        if padding == "reflection":
            low, high = (0.0, size - 1.0) if aligned else (-0.5, size - 0.5)
            at = _reflected(at, low, high)
        total = total * size + f.clip(at, 0.0, size - 1.0).cast(DType.INT32)
    return total


def _reflected(x: Term, low: float, high: float) -> Term:
    """x mirrored at the borders until it is between them."""
    span = high - low
    if span <= 0.0:
        return x * 0.0
    away = f.remainder_to_floor(x - low, x.constant(2.0 * span))
    return f.truncate((away > span).select(2.0 * span - away, away) + low)


def _weighted(near: tuple[int, ...], sizes: list[int], count: int, padding: str, pixel: Term, *places: Term) -> Term:
    """A pixel times its weight, which is 0 outside with a padding of zeros."""
    weight = pixel.constant(1.0)
    for place, offset, size in zip(places, near, sizes, strict=True):
        first = _first(place, count)
        at = first + float(offset)
        weight = weight * _weight(place - at, count)
        if padding == "zeros":
            weight = ((at > -0.5) & (at < size - 0.5)).select(weight, 0.0)
    return pixel * weight


def _weight(distance: Term, count: int) -> Term:
    """The weight of a pixel at this distance."""
    if count == 1:
        return distance.constant(1.0)
    x = abs(distance)
    if count == 2:
        return 1.0 - x
    near = ((x * (_CUBIC + 2.0)) - (_CUBIC + 3.0)) * x * x + 1.0
    far = ((x * _CUBIC - 5.0 * _CUBIC) * x + 8.0 * _CUBIC) * x - 4.0 * _CUBIC
    return (x > 1.0).select(far, near)
