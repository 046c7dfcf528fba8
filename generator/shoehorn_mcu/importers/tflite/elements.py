"""Converters of TFLite's element-wise ops, pools, means and resizes."""

from __future__ import annotations

from collections.abc import Callable

from shoehorn_mcu import ops
from shoehorn_mcu.importers.fault import ImportFault
from shoehorn_mcu.importers.tflite.linear import image, padding
from shoehorn_mcu.importers.tflite.site import Part, Site, clamp, positive
from shoehorn_mcu.ir import DType, Op


def of(kind: type[Op], *roles: str, **fields: str) -> Callable[[Site], Part]:
    """An op of operands in these roles. `fields`: by its field, the option that it has."""

    def convert(site: Site) -> Part:
        inputs = [site.input(place, role) for place, role in enumerate(roles)]
        return site.part(kind, *inputs, **{field: getattr(site.options, name) for field, name in fields.items()})

    return convert


def binary(kind: type[ops.Binary], site: Site) -> Part:
    """ADD, SUB, MUL: any scales; shapes broadcast as in NumPy."""
    a, b = site.input(0, "first input"), site.input(1, "second input")
    return site.part(kind, a, b, clamp=clamp(site.options.activation, site.output))


def quantize(site: Site) -> Part:
    """QUANTIZE: from float32, or from one 8-bit quantisation to another."""
    x = site.input(0, "input")
    kind = ops.Quantize if x.type.dtype is DType.FLOAT32 else ops.Requantize
    return site.part(kind, x)


def pool(kind: type[ops.Pool2d], site: Site) -> Part:
    """AVERAGE_POOL_2D, MAX_POOL_2D: input and output have the same quantisation, because stored values are pooled."""
    options, x = site.options, site.input(0, "input")
    size = image(x.type).shape[1:3]
    kernel, stride = positive(options.kernel, "kernel"), positive(options.stride, "stride")
    rounding = {"halves_up": options.halves_up} if kind is ops.AveragePool2d else {}
    around, bounds = padding(options.scheme, size, kernel, stride), clamp(options.activation, site.output)
    return site.part(kind, x, kernel=kernel, stride=stride, padding=around, clamp=bounds, **rounding)


def mean(site: Site) -> Part:
    """MEAN over constant axes, which may be negative or repeated."""
    x = site.input(0, "input")
    return site.part(ops.Mean, x, axes=site.axes(), keep_dims=site.options.keep_dims)


def resize(kind: type[ops.Resize], site: Site) -> Part:
    """RESIZE_NEAREST_NEIGHBOR, RESIZE_BILINEAR of int8 to a constant size."""
    options, x = site.options, site.input(0, "input")
    corners, half = options.align_corners, options.half_pixel_centers
    return site.part(kind, x, size=resized_to(site), align_corners=corners, half_pixel_centers=half)


def resized_to(site: Site) -> tuple[int, int]:
    """The constant height and width that a resize asks for."""
    size = site.integers(1, "size")
    if len(size) != 2 or min(size) < 1:
        raise ImportFault(f"its size is {size}; a height and a width are needed: convert it again")
    return size[0], size[1]
