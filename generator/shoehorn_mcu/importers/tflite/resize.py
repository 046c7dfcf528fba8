"""Converter of TFLite's RESIZE_BILINEAR: an op of its own on int8, a formula of four elements on float32 and uint8."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import add, mul
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.importers.fault import Unsupported
from shoehorn_mcu.importers.lowering import maps
from shoehorn_mcu.importers.lowering import site as onnx
from shoehorn_mcu.importers.lowering.resize import taken
from shoehorn_mcu.importers.lowering.site import Value, as_plain
from shoehorn_mcu.importers.tflite import by_onnx
from shoehorn_mcu.importers.tflite.elements import resize, resized_to
from shoehorn_mcu.importers.tflite.linear import image
from shoehorn_mcu.importers.tflite.options import Options
from shoehorn_mcu.importers.tflite.site import Part, Site
from shoehorn_mcu.ir import DType, Tensor
from shoehorn_mcu.ops import ResizeBilinear
from shoehorn_mcu.ops import functions as f
from shoehorn_mcu.ops.formula import Term

Float32s = NDArray[np.float32]

_HEIGHT, _WIDTH = 1, 2


class Neighbours(NamedTuple):
    """For every output position of one dimension: lower + (upper - lower) * fraction, in single precision."""

    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    fraction: Float32s  # below 0 only where both are element 0

    @property
    def one(self) -> bool:
        """Whether every output is one element of the input."""
        return not self.fraction.any()


def bilinear(site: Site) -> Part:
    """RESIZE_BILINEAR to a constant size."""
    if site.input(0, "input").type.dtype is DType.FLOAT32:
        return by_onnx.converter(_in_float)(site)
    if site.options.in_float:
        return replace(by_onnx.converter(_in_float)(site), in_float="TensorFlow Lite interpolates uint8 in float32")
    return resize(ResizeBilinear, site)


def neighbours(size: int, wanted: int, options: Options) -> Neighbours:
    """Places and weights, as ComputeInterpolationValues in reference/resize_bilinear.h."""
    scale = np.float32(size) / np.float32(wanted)
    if options.align_corners and wanted > 1:
        scale = np.float32(size - 1) / np.float32(wanted - 1)
    half = np.float32(0.5 if options.half_pixel_centers else 0.0)
    places: Float32s = (np.arange(wanted, dtype=np.float32) + half) * scale - half
    lower = np.clip(np.floor(places).astype(np.int64), 0, size - 1)
    upper = np.minimum(np.ceil(places).astype(np.int64), size - 1)
    return Neighbours(lower, upper, places - lower.astype(np.float32))


def _in_float(site: Site, there: onnx.Site) -> Value:
    """Four products added up in the order of the reference; of uint8, which is held as int8, rounded half up."""
    options, x = site.options, there.value(0).tensor
    if options.align_corners and options.half_pixel_centers:
        raise Unsupported("it has both align_corners and half_pixel_centers")
    shape, size = image(x.type).shape, resized_to(site)
    down, across = (neighbours(shape[1 + d], size[d], options) for d in (0, 1))

    def rows(of: Tensor, by: Neighbours, place: int) -> list[Tensor]:
        ends = [by.lower] if by.one else [by.lower, by.upper]
        same = np.arange(of.type.shape[place])
        return [of if np.array_equal(end, same) else taken(there, of, place, end) for end in ends]

    parts = [as_plain(corner) for row in rows(x, down, _HEIGHT) for corner in rows(row, across, _WIDTH)]
    shaped = ((down, (1, -1, 1, 1)), (across, (1, 1, -1, 1)))
    held = [as_plain(there.weights(by.fraction.reshape(like))) for by, like in shaped if not by.one]

    def write(*terms: Term) -> Term:
        fractions = iter(terms[len(parts) :])
        heights, widths = ([()] if by.one else _both(next(fractions)) for by in (down, across))
        products = []
        for x, width in enumerate(widths):
            for y, height in enumerate(heights):
                corner = terms[y * len(widths) + x]
                product = (corner.cast(DType.INT32) + 128).cast(DType.FLOAT32) if options.in_float else corner
                products.append(reduce(mul, (*height, *width), product))
        total = reduce(add, products)
        if not options.in_float:
            return total
        return f.clip((total + 0.5).cast(DType.INT32) - 128, -128, 127).cast(DType.INT8)

    if options.in_float:
        return maps.of_stored(there, write, *parts, *held, quant=site.output.type.quant)
    return maps.mapped(there, write, *parts, *held)


def _both(fraction: Term) -> list[tuple[Term, ...]]:
    """The weights of the lower neighbour and of the upper one."""
    return [(1.0 - fraction,), (fraction,)]
