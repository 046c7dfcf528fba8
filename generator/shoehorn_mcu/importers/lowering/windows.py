"""Converters of ONNX's windows without weights: pools, also over sequences and volumes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import Any

import numpy as np

from shoehorn_mcu.importers.fault import ImportFault, Unsupported
from shoehorn_mcu.importers.lowering.columns import reduced
from shoehorn_mcu.importers.lowering.geometry import WINDOW_LIMIT
from shoehorn_mcu.importers.lowering.linear import in_windows, pads_of
from shoehorn_mcu.importers.lowering.maps import mapped
from shoehorn_mcu.importers.lowering.movers import padded, shaped, sliced
from shoehorn_mcu.importers.lowering.site import Site, Value, as_plain
from shoehorn_mcu.ir import Array, DType, Tensor
from shoehorn_mcu.ir.orders import channels_last
from shoehorn_mcu.ops import AveragePool2d, Clamp, MaxPool2d, Mean, Padding, RealClamp, functions
from shoehorn_mcu.ops.formula import Term
from shoehorn_mcu.ops.maps import MOST_OPERANDS

Write = Callable[[Term, Term], Term]

TAPS_LIMIT = 256
"""Places of a window that are taken by an op each."""

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Window:
    """A window over some dimensions; each field has a number for each of them."""

    kernel: Sizes
    stride: Sizes
    dilation: Sizes
    before: Sizes  # padding
    after: Sizes  # padding, and what windows hang over the end
    asked: Sizes  # padding after, as the model has it

    @property
    def plain(self) -> bool:
        """Whether its places are neighbours."""
        return all(k == 1 or d == 1 for k, d in zip(self.kernel, self.dilation, strict=True))

    def counts(self, sizes: Sequence[int]) -> Sizes:
        """How many windows there are."""
        each = zip(sizes, self.kernel, self.stride, self.dilation, self.before, self.after, strict=True)
        return tuple((n + b + a - (k - 1) * d - 1) // s + 1 for n, k, s, d, b, a in each)


def window(site: Site, sizes: Sequence[int]) -> Window:
    """The window of a pool over dimensions of these sizes; windows that ceil_mode adds hang over the end."""
    ones = (1,) * len(sizes)
    kernel = _numbers(site, "kernel_shape", None, len(sizes))
    stride, dilation = _numbers(site, "strides", ones, len(sizes)), _numbers(site, "dilations", ones, len(sizes))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    pads = pads_of(site, site.attribute("pads", (0,) * 2 * len(sizes)), sizes, reach, stride)
    before, after = pads[: len(sizes)], pads[len(sizes) :]
    asked = after
    if site.attribute("ceil_mode", 0):
        each = zip(sizes, reach, stride, before, after, strict=True)
        after = tuple(_rounded_up(*one) for one in each)
    return Window(kernel, stride, dilation, before, after, asked)


def _numbers(site: Site, name: str, default: Sizes | None, count: int) -> Sizes:
    found: Any = site.node.attributes.get(name, default)
    if not isinstance(found, tuple) or len(found) != count or not in_windows(found):
        raise Unsupported(f"its attribute '{name}' is {found}, {count} numbers in 1..{WINDOW_LIMIT} are needed")
    return found


def _rounded_up(n: int, k: int, s: int, first: int, last: int) -> int:
    """The padding with which the number of windows is rounded up; the last one begins inside, or before the end."""
    count = -(-(n + first + last - k) // s) + 1
    if (count - 1) * s >= n + first:
        count -= 1
    return max(last, (count - 1) * s + k - n - first)


def pool(op: type[AveragePool2d] | type[MaxPool2d], site: Site) -> Value:
    """A pool of N, C and one to three dimensions."""
    if any(site.node.outputs[1:]):
        raise Unsupported("its indices are used")
    value = site.value(0)
    x = site.last(value)
    sizes = x.type.shape[1:-1]
    if value.rank < 3:
        raise Unsupported(f"its input has {value.rank} dimensions, 3 at least are needed")
    of, counted = window(site, sizes), bool(site.attribute("count_include_pad", 0)) and op is AveragePool2d
    if counted and site.attribute("ceil_mode", 0) and any((*of.before, *of.after)):
        return _by_taps(site, x, of, mean=True, counted=counted)
    real = x.type.dtype is DType.FLOAT32
    if len(sizes) > 2 or not of.plain or (x.type.quant is None and not real):
        return _by_taps(site, x, of, op is AveragePool2d, counted)
    n, *_, c = x.type.shape
    high = (1,) * (2 - len(sizes))
    x, zeros = shaped(site, x, (n, *high, *sizes, c)), (0,) * (2 - len(sizes))
    kernel, stride = high + of.kernel, high + of.stride
    (top, left), (bottom, right) = zeros + of.before, zeros + of.after
    padding = Padding(top, bottom, left, right)
    if counted and padding != Padding():
        x = padded(site, x, (0, top, left, 0), (0, bottom, right, 0), x.type.zero)
        padding = Padding()
    clamp = RealClamp() if x.type.quant is None else Clamp(*x.type.dtype.limits)
    made = site.emit(op, x, kernel=kernel, stride=stride, padding=padding, clamp=clamp)
    return site.imaged(made, value.rank)


def combined_windows(site: Site, x: Tensor, of: Window, outside: float, write: Write) -> Tensor:
    """What each window has, combined: along one dimension after the other. `outside`: what the padding has."""
    counts = of.counts(x.type.shape[1:-1])
    if min(counts) < 1:
        raise ImportFault("its window is larger than its input; export it again")
    if sum(of.kernel) > TAPS_LIMIT:
        raise Unsupported(f"its window is {of.kernel}, {TAPS_LIMIT} elements along all dimensions are supported")
    x = padded(site, x, (0, *of.before, 0), (0, *of.after, 0), outside)
    for axis, (kernel, stride, dilation, count) in enumerate(
        zip(of.kernel, of.stride, of.dilation, counts, strict=True), 1
    ):
        whole = [range(n) for n in x.type.shape]
        places = [range(k * dilation, k * dilation + (count - 1) * stride + 1, stride) for k in range(kernel)]
        x = combined(site, [sliced(site, x, [*whole[:axis], r, *whole[axis + 1 :]]) for r in places], write)
    return x


def combined(site: Site, parts: Sequence[Tensor], write: Write) -> Tensor:
    """The parts combined one after the other, eight at once."""
    total, left = parts[0], list(parts[1:])
    while left:
        some = map(as_plain, (total, *left[: MOST_OPERANDS - 1]))
        total = mapped(site, lambda *terms: reduce(write, terms), *some).tensor
        left = left[MOST_OPERANDS - 1 :]
    return total


def _by_taps(site: Site, x: Tensor, of: Window, mean: bool, counted: bool) -> Value:
    """A pool as a formula of what its windows have at each place."""
    kind, order = x.type.dtype, channels_last(len(x.type.shape))
    if x.type.quant is not None:
        raise Unsupported("it is dilated, or has more than 4 dimensions, and its input is quantised")
    if kind is DType.BOOL:
        raise Unsupported("its input is bool, numbers are supported")
    if not mean:
        least = -np.inf if kind.numpy.kind == "f" else kind.limits[0]
        return Value(combined_windows(site, x, of, least, functions.maximum), order)
    total = combined_windows(site, x, of, 0, lambda a, b: a + b)
    numbers = _elements(of, x.type.shape[1:-1], counted)
    divisor = as_plain(site.weights(numbers.reshape((1, *numbers.shape, 1)).astype(np.float32)))
    return Value(mapped(site, lambda t, d: t / d, as_plain(total), divisor).tensor, order)


def _elements(of: Window, sizes: Sequence[int], counted: bool) -> Array:
    """How many elements each window averages; `counted`: also those of the padding that the model asks for."""
    shape = [n + b + a if counted else n for n, b, a in zip(sizes, of.before, of.asked, strict=True)]
    outer = [(0, a - w) if counted else (b, a) for b, a, w in zip(of.before, of.after, of.asked, strict=True)]
    ones = np.pad(np.ones(shape, np.int64), outer)
    total = np.zeros(of.counts(sizes), np.int64)
    for place in product(*map(range, of.kernel)):
        starts = [p * d for p, d in zip(place, of.dilation, strict=True)]
        ends = [f + (m - 1) * s + 1 for f, m, s in zip(starts, total.shape, of.stride, strict=True)]
        total += ones[tuple(slice(f, e, s) for f, e, s in zip(starts, ends, of.stride, strict=True))]
    return np.maximum(total, 1)


def global_max_pool(site: Site) -> Value:
    """GlobalMaxPool."""
    x = site.value(0)
    return reduced(site, x, range(2, x.rank), functions.maximum)


def lp_pool(site: Site) -> Value:
    """LpPool: the p-th root of the sum of p-th powers of sizes."""
    value, p = site.value(0), site.attribute("p", 2)
    x = site.last(value)
    of = window(site, x.type.shape[1:-1])
    powers = mapped(site, lambda t: _to_power(abs(t), p), as_plain(x)).tensor
    total = combined_windows(site, powers, of, 0, lambda a, b: a + b)
    made = mapped(site, lambda t: _root(t, p), as_plain(total)).tensor
    return Value(made, channels_last(value.rank))


def global_lp_pool(site: Site) -> Value:
    """GlobalLpPool."""
    x, p = site.value(0), site.attribute("p", 2)
    total = reduced(site, mapped(site, lambda t: _to_power(abs(t), p), x), range(2, x.rank), lambda a, b: a + b)
    return mapped(site, lambda t: _root(t, p), total)


def _to_power(t: Term, p: int) -> Term:
    return t.cast(t.dtype) if p == 1 else t * t if p == 2 else functions.power(t, t.constant(float(p)))


def _root(t: Term, p: int) -> Term:
    return t.cast(t.dtype) if p == 1 else t.sqrt() if p == 2 else functions.power(t, t.constant(1.0 / p))


def global_average_pool(site: Site) -> Value:
    """GlobalAveragePool over all dimensions but N and C."""
    value = site.value(0)
    x = site.last(value)
    n, *sizes, c = x.type.shape
    if len(sizes) == 2:
        return Value(site.emit(Mean, x, axes=(1, 2), keep_dims=True), channels_last(4))
    folded = shaped(site, x, (n, 1, int(np.prod(sizes)), c))
    made = site.emit(Mean, folded, axes=(1, 2), keep_dims=True)
    return Value(shaped(site, made, (n, *(1 for _ in sizes), c)), channels_last(value.rank))
