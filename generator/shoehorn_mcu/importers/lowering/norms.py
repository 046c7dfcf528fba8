"""Converters of ONNX's normalisations that are computed in inference.

ONNX defines some of them by other ops, by the mean of the squares less the square of the mean; where the mean is large
against the deviation, nothing of the variance is left so in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt, prod
from operator import add

from shoehorn_mcu.importers.fault import ImportFault, Unsupported
from shoehorn_mcu.importers.lowering import columns
from shoehorn_mcu.importers.lowering.geometry import WINDOW_LIMIT, axis_of
from shoehorn_mcu.importers.lowering.maps import mapped
from shoehorn_mcu.importers.lowering.movers import padded, shaped, sliced
from shoehorn_mcu.importers.lowering.site import Site, Value, as_plain
from shoehorn_mcu.ir import DType
from shoehorn_mcu.ir.orders import channels_last
from shoehorn_mcu.ops import AveragePool2d, Padding, RealClamp, functions
from shoehorn_mcu.ops.formula import Term


def lp_normalization(site: Site) -> Value:
    """LpNormalization: divided by the sum of sizes, or the root of the sum of squares."""
    x, p = site.value(0), site.attribute("p", 2)
    axis = axis_of(site.attribute("axis", -1), x.rank)
    if p not in (1, 2):
        raise Unsupported(f"its norm is {p}, 1 and 2 are supported")
    sizes = mapped(site, lambda t: abs(t) if p == 1 else t * t, x)
    total = columns.reduced(site, sizes, (axis,), add)

    def write(t: Term, s: Term) -> Term:
        norm = s if p == 1 else s.sqrt()
        return norm.equals(0.0).select(t.constant(0.0), t / norm)

    return mapped(site, write, x, total)


_MANY = 1 << 12  # elements, above which a float32 sum has errors of several steps


@dataclass(frozen=True)
class _Centred:
    """A value less its mean along axes, which is taken off in two parts."""

    apart: Value  # less an estimate of the mean
    first: Value  # the estimate
    rest: Value  # the mean of what is apart

    def variance(self, site: Site, axes: Sequence[int]) -> Value:
        """The mean of the squares."""
        return _mean(site, mapped(site, lambda t, m: (t - m) * (t - m), self.apart, self.rest), axes)


def _centred(site: Site, x: Value, axes: Sequence[int]) -> _Centred:
    """A mean of float32 sums has an error in proportion to the mean, and the variance that of its square; so the mean
    of what is left is taken off as well. Most differences from the estimate have no rounding error.
    """
    if x.tensor.type.dtype is not DType.FLOAT32:
        raise Unsupported(f"its input is {x.tensor.type.dtype.value}, float32 is supported")
    first = _mean(site, x, axes)
    apart = mapped(site, lambda t, m: t - m, x, first)
    return _Centred(apart, first, _mean(site, apart, axes))


def _mean(site: Site, x: Value, axes: Sequence[int]) -> Value:
    """The mean along axes, which keep size 1: of many elements as that of means of blocks, for less rounding error."""
    places, shape = sorted(x.order.index(axis) for axis in axes), x.tensor.type.shape
    count = prod(shape[place] for place in places)
    block = next((n for n in range(isqrt(count), 1, -1) if count % n == 0), 1)
    if count <= _MANY or block == 1 or places != list(range(places[0], places[-1] + 1)):
        return columns.mean_of(site, x, axes)
    ends = prod(shape[: places[0]]), prod(shape[places[-1] + 1 :])
    parts = as_plain(shaped(site, x.tensor, (ends[0], count // block, block, ends[1])))
    mean = columns.mean_of(site, columns.mean_of(site, parts, (2,)), (1,))
    sizes = [1 if place in places else size for place, size in enumerate(shape)]
    return Value(shaped(site, mean.tensor, sizes), x.order)


def _scaled(site: Site, of: _Centred, factor: Value, *more: Value) -> Value:
    """The centred value times a factor, and, where they are given, times a scale and plus an offset."""

    def write(t: Term, m: Term, f: Term, *ends: Term) -> Term:
        y = (t - m) * f
        y = y * ends[0] if ends else y
        return y + ends[1] if len(ends) > 1 else y

    return mapped(site, write, of.apart, of.rest, factor, *more)


def _inverse(site: Site, variance: Value, epsilon: float) -> Value:
    """1 by the deviation, once for all elements that share it."""
    return mapped(site, lambda s: 1.0 / (s + epsilon).sqrt(), variance)


def layer_normalization(site: Site) -> tuple[Value, ...]:
    """LayerNormalization over the dimensions from an axis on; the results are also the mean and 1 by the deviation."""
    x = site.value(0)
    axes = range(axis_of(site.attribute("axis", -1), x.rank), x.rank)
    of = _centred(site, x, axes)
    factor = _inverse(site, of.variance(site, axes), site.attribute("epsilon", 1e-5))
    y = _scaled(site, of, factor, *(site.value(place) for place in (1, 2) if site.given(place)))
    if not any(site.node.outputs[1:]):
        return (y,)
    return y, mapped(site, lambda a, b: a + b, of.first, of.rest), factor


def rms_normalization(site: Site) -> tuple[Value, ...]:
    """RMSNormalization: divided by the root of the mean of the squares; that of Microsoft gives 1 by it, too."""
    x = site.value(0)
    axes = range(axis_of(site.attribute("axis", -1), x.rank), x.rank)
    squares = _mean(site, mapped(site, lambda t: t * t, x), axes)
    factor = _inverse(site, squares, site.attribute("epsilon", 1e-5))
    return mapped(site, lambda t, f, s: t * f * s, x, factor, site.value(1)), factor


def mean_variance_normalization(site: Site) -> Value:
    """MeanVarianceNormalization: less the mean, divided by the deviation."""
    x = site.value(0)
    axes = tuple(sorted({axis_of(axis, x.rank) for axis in site.attribute("axes", (0, 2, 3))}))
    of = _centred(site, x, axes)
    return _scaled(site, of, mapped(site, lambda s: 1.0 / (s.sqrt() + 1e-9), of.variance(site, axes)))


def instance_normalization(site: Site) -> Value:
    """InstanceNormalization: each channel of each image less its mean, divided by its deviation; scale and offset."""
    x = site.value(0)
    axes = tuple(range(2, x.rank))
    ends = [as_plain(shaped(site, site.plain(site.value(place)), (x.shape[1], *(1 for _ in axes)))) for place in (1, 2)]
    of = _centred(site, x, axes)
    return _scaled(site, of, _inverse(site, of.variance(site, axes), site.attribute("epsilon", 1e-5)), *ends)


def group_normalization(site: Site) -> Value:
    """GroupNormalization, with a scale and an offset per group (opset 18) or per channel (21)."""
    x, groups = site.value(0), site.attribute("num_groups", 0)
    if x.rank < 2 or groups < 1 or x.shape[1] % groups:
        raise ImportFault(f"it has {groups} groups for an input of shape {x.shape}; export it again")
    last = site.last(x)
    n, *pixels, channels = last.type.shape
    parts = as_plain(shaped(site, last, (n, prod(pixels), groups, channels // groups)))
    ends = []
    for place in (1, 2):
        end = site.value(place)
        if end.tensor.type.elements not in (groups, channels):
            raise ImportFault(f"its scale or bias has shape {end.shape} for {channels} channels; export it again")
        ends.append(as_plain(shaped(site, site.plain(end), (groups, end.tensor.type.elements // groups))))
    of = _centred(site, parts, (1, 3))
    y = _scaled(site, of, _inverse(site, of.variance(site, (1, 3)), site.attribute("epsilon", 1e-5)), *ends)
    return Value(shaped(site, y.tensor, last.type.shape), channels_last(x.rank))


def lrn(site: Site) -> Value:
    """LRN: x / (bias + alpha * mean of the squares of neighbouring channels) ^ beta.

    The mean is a pool of windows over the channels of all pixels of a row one after the other, with zeros between
    the pixels; what windows over two pixels give is left out.
    """
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
