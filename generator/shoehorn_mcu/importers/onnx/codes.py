"""QuantizeLinear and DequantizeLinear as formulas: any integers, computed scales, a scale per channel or per block.

Where a scale is known and alone, `onnx.py` keeps the integers as a quantised tensor instead, for ops on int8.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shoehorn_mcu.importers.fault import Unsupported
from shoehorn_mcu.importers.lowering.geometry import axis_of
from shoehorn_mcu.importers.lowering.maps import element_type, mapped
from shoehorn_mcu.importers.lowering.movers import shaped
from shoehorn_mcu.importers.lowering.resize import taken
from shoehorn_mcu.importers.lowering.site import Site, Value, as_plain
from shoehorn_mcu.ir import DType, Quant
from shoehorn_mcu.ops import functions
from shoehorn_mcu.ops.formula import Term


def dequantize(site: Site) -> Value:
    """scale * (x - zero point), in float32."""
    x = site.value(0)
    if x.tensor.type.dtype.numpy.kind not in "iu":
        raise Unsupported(f"its input is {x.tensor.type.dtype.value}, an integer type is needed")
    scale, *zero = _along(site, x.shape)

    def write(t: Term, s: Term, *z: Term) -> Term:
        whole = t.cast(DType.INT32)
        return (whole - z[0].cast(DType.INT32) if z else whole).cast(DType.FLOAT32) * s

    return mapped(site, write, x, scale, *zero)


def quantize(site: Site) -> Value:
    """x / scale, rounded to the nearest, to even between two, plus the zero point, saturated."""
    x = site.value(0)
    if x.tensor.type.dtype is not DType.FLOAT32:
        raise Unsupported(f"its input is {x.tensor.type.dtype.value}, float32 is supported")
    scale, *zero = _along(site, x.shape)
    asked = site.attribute("output_dtype", 0)
    to = zero[0].tensor.type.dtype if zero else element_type(asked) if asked else DType.UINT8
    if to not in (DType.INT8, DType.UINT8, DType.INT16, DType.UINT16):
        raise Unsupported(f"it quantises to {to.value}, integers of 8 and 16 bits are supported")
    low, high = map(float, to.limits)

    def write(t: Term, s: Term, *z: Term) -> Term:
        whole = functions.round_even(t / s)
        moved = whole + z[0].cast(DType.FLOAT32) if z else whole
        return functions.clip(moved, low, high).cast(to)

    return mapped(site, write, x, scale, *zero)


def quantized(site: Site, x: Value, quant: Quant, dtype: np.dtype[Any]) -> Value:
    """x as integers of this type; `quant` is that of int8, for which those of uint8 are 128 less."""
    to = DType(dtype.name)
    low, high = map(float, to.limits)
    moved = float(quant.zero_point + (128 if to is DType.UINT8 else 0))

    def write(t: Term) -> Term:
        return functions.clip(functions.round_even(t / quant.scale) + moved, low, high).cast(to)

    return mapped(site, write, x)


def _along(site: Site, shape: Sequence[int]) -> list[Value]:
    """Scale and zero point, of shapes that broadcast to that of the values."""
    values = [site.value(place) for place in (1, 2) if site.given(place)]
    if all(value.tensor.type.elements == 1 for value in values):
        return [as_plain(shaped(site, value.tensor, ())) for value in values]
    axis = axis_of(site.attribute("axis", 1), len(shape)) if len(shape) > 1 else 0
    block = site.attribute("block_size", 0)
    found = []
    for value in values:
        if value.rank == 1 and not block:
            wide = [size if place == axis else 1 for place, size in enumerate(shape)]
            found.append(as_plain(shaped(site, value.tensor, wide)))
        else:
            x = site.plain(value)
            found.append(as_plain(taken(site, x, axis, np.arange(shape[axis]) // max(1, block))))
    return found
