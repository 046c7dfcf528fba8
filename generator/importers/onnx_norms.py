"""Converters of ONNX's normalisations that are computed in inference, and that ONNX does not define by other ops."""

from __future__ import annotations

from math import prod

from shoehorn_mcu.importers.fault import Unsupported
from shoehorn_mcu.importers.geometry import WINDOW_LIMIT, axis_of
from shoehorn_mcu.importers.onnx_columns import reduced
from shoehorn_mcu.importers.onnx_maps import mapped
from shoehorn_mcu.importers.onnx_movers import padded, shaped, sliced
from shoehorn_mcu.importers.onnx_site import Site, Value, as_plain
from shoehorn_mcu.ir import DType
from shoehorn_mcu.ops import AveragePool2d, Padding, RealClamp, functions
from shoehorn_mcu.ops.formula import Term


def lp_normalization(site: Site) -> Value:
    """LpNormalization: divided by the sum of sizes, or the root of the sum of squares."""
    site.known("axis", "p")
    x, p = site.value(0), site.attribute("p", 2)
    axis = axis_of(site.attribute("axis", -1), x.rank)
    if p not in (1, 2):
        raise Unsupported(f"its norm is {p}, 1 and 2 are supported")
    sizes = mapped(site, lambda t: abs(t) if p == 1 else t * t, x)
    total = reduced(site, sizes, (axis,), _sum)

    def write(t: Term, s: Term) -> Term:
        norm = s if p == 1 else s.sqrt()
        return norm.equals(0.0).select(t.constant(0.0), t / norm)

    return mapped(site, write, x, total)


def instance_normalization(site: Site) -> Value:
    """InstanceNormalization: each channel of each image less its mean, divided by its deviation; scale and offset."""
    site.known("epsilon")
    x, epsilon = site.value(0), site.attribute("epsilon", 1e-5)
    axes = tuple(range(2, x.rank))
    count = prod(x.shape[axis] for axis in axes)
    scale, offset = (site.value(place) for place in (1, 2))
    wide = [as_plain(shaped(site, site.plain(value), (x.shape[1], *(1 for _ in axes)))) for value in (scale, offset)]
    total = reduced(site, x, axes, _sum)
    centred = mapped(site, lambda t, s: t - s / float(count), x, total)
    squares = reduced(site, mapped(site, lambda t: t * t, centred), axes, _sum)

    def write(t: Term, s: Term, factor: Term, addend: Term) -> Term:
        return t / (s / float(count) + epsilon).sqrt() * factor + addend

    return mapped(site, write, centred, squares, *wide)


def _sum(a: Term, b: Term) -> Term:
    return a + b


def lrn(site: Site) -> Value:
    """LRN: x / (bias + alpha * mean of the squares of neighbouring channels) ^ beta.

    The mean is a pool of windows over the channels of all pixels of a row one after the other, with zeros between
    the pixels; what windows over two pixels give is left out.
    """
    site.known("alpha", "beta", "bias", "size")
    value, size = site.value(0), site.attribute("size", 1)
    alpha, beta, bias = site.attribute("alpha", 1e-4), site.attribute("beta", 0.75), site.attribute("bias", 1.0)
    x = site.image(value)
    n, h, w, c = x.type.shape
    if not 0 < size <= WINDOW_LIMIT or x.type.dtype is not DType.FLOAT32:
        raise Unsupported(f"its size is {size}, or its input {x.type.dtype.value}")
    before, after = (size - 1) // 2, size // 2
    squares = mapped(site, lambda t: t * t, as_plain(x)).tensor
    wide = padded(site, squares, (0, 0, 0, before), (0, 0, 0, after), 0)
    row = shaped(site, wide, (n, h, w * (c + size - 1), 1))
    padding = Padding(0, 0, 0, size - 1)
    means = site.emit(AveragePool2d, row, kernel=(1, size), stride=(1, 1), padding=padding, clamp=RealClamp())
    apart = shaped(site, means, (n, h, w, c + size - 1))
    mean = sliced(site, apart, [range(n), range(h), range(w), range(c)])

    def write(t: Term, m: Term) -> Term:
        base = m * alpha + bias
        if beta == 0.75:
            return t / (base.sqrt() * base.sqrt().sqrt())
        return t / (base if beta == 1.0 else base.sqrt() if beta == 0.5 else functions.power(base, t.constant(beta)))

    return site.imaged(mapped(site, write, as_plain(x), as_plain(mean)).tensor, value.rank)
