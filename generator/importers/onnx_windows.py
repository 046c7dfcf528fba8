"""Converters of ONNX's windows without weights: pools, also over sequences and volumes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shoehorn_mcu.importers.fault import ImportFault, Unsupported
from shoehorn_mcu.importers.geometry import WINDOW_LIMIT, same_padding
from shoehorn_mcu.importers.onnx_movers import padded, shaped
from shoehorn_mcu.importers.onnx_site import Site, Value, channels_last
from shoehorn_mcu.ir import Tensor
from shoehorn_mcu.ops import AveragePool2d, Clamp, MaxPool2d, Mean, Padding, RealClamp

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
    after: Sizes

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
    auto, pads = site.attribute("auto_pad", "NOTSET"), site.attribute("pads", (0,) * 2 * len(sizes))
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        sides = [same_padding(n, k, s) for n, k, s in zip(sizes, reach, stride, strict=True)]
        first, last = zip(*(side if auto == "SAME_UPPER" else side[::-1] for side in sides), strict=True)
        pads = (*first, *last)
    elif auto == "VALID":
        pads = (0,) * 2 * len(sizes)
    elif auto != "NOTSET":
        raise ImportFault(f"its auto_pad is '{auto}'; export it again")
    if len(pads) != 2 * len(sizes) or not all(isinstance(v, int) and 0 <= v <= WINDOW_LIMIT for v in pads):
        raise Unsupported(f"its pads are {pads}, {2 * len(sizes)} numbers in 0..{WINDOW_LIMIT} are needed")
    before, after = pads[: len(sizes)], pads[len(sizes) :]
    if site.attribute("ceil_mode", 0):
        each = zip(sizes, reach, stride, before, after, strict=True)
        after = tuple(_rounded_up(*one) for one in each)
    return Window(kernel, stride, dilation, before, after)


def _numbers(site: Site, name: str, default: Sizes | None, count: int) -> Sizes:
    found: Any = site.node.attributes.get(name, default)
    if not isinstance(found, tuple) or len(found) != count:
        raise Unsupported(f"its attribute '{name}' is {found}, {count} numbers in 1..{WINDOW_LIMIT} are needed")
    if not all(isinstance(v, int) and 1 <= v <= WINDOW_LIMIT for v in found):
        raise Unsupported(f"its attribute '{name}' is {found}, {count} numbers in 1..{WINDOW_LIMIT} are needed")
    return found


def _rounded_up(n: int, k: int, s: int, first: int, last: int) -> int:
    """The padding with which the number of windows is rounded up; the last one begins inside, or before the end."""
    count = -(-(n + first + last - k) // s) + 1
    if (count - 1) * s >= n + first:
        count -= 1
    return max(last, (count - 1) * s + k - n - first)


def pool(op: type[AveragePool2d] | type[MaxPool2d]) -> Callable[[Site], Value]:
    """A pool of N, C and one to three dimensions."""

    def convert(site: Site) -> Value:
        names = ("auto_pad", "ceil_mode", "count_include_pad", "dilations", "kernel_shape", "pads", "strides")
        site.known(*names, "storage_order")
        if any(site.node.outputs[1:]):
            raise Unsupported("its indices are used")
        value = site.value(0)
        x = site.last(value)
        sizes = x.type.shape[1:-1]
        if value.rank < 3:
            raise Unsupported(f"its input has {value.rank} dimensions, 3 at least are needed")
        of, counted = window(site, sizes), bool(site.attribute("count_include_pad", 0)) and op is AveragePool2d
        if counted and site.attribute("ceil_mode", 0) and any((*of.before, *of.after)):
            raise Unsupported("ceil_mode and count_include_pad together")
        if len(sizes) > 2 or not of.plain:
            raise Unsupported(f"its input has {value.rank} dimensions, 3 and 4 are supported; or it is dilated")
        n, *_, c = x.type.shape
        high = (1,) * (2 - len(sizes))
        x, zeros = shaped(site, x, (n, *high, *sizes, c)), (0,) * (2 - len(sizes))
        kernel, stride = high + of.kernel, high + of.stride
        (top, left), (bottom, right) = zeros + of.before, zeros + of.after
        padding = Padding(top, bottom, left, right)
        if counted and padding != Padding():
            x = padded(site, x, (0, top, left, 0), (0, bottom, right, 0), zero_of(x))
            padding = Padding()
        clamp = RealClamp() if x.type.quant is None else Clamp()
        made = site.emit(op, x, kernel=kernel, stride=stride, padding=padding, clamp=clamp)
        return site.imaged(made, value.rank)

    return convert


def zero_of(x: Tensor) -> int:
    """The stored value of 0."""
    return 0 if x.type.quant is None else x.type.quant.zero_point


def global_average_pool(site: Site) -> Value:
    """GlobalAveragePool over all dimensions but N and C."""
    site.known()
    value = site.value(0)
    x = site.last(value)
    n, *sizes, c = x.type.shape
    if len(sizes) == 2:
        return Value(site.emit(Mean, x, axes=(1, 2), keep_dims=True), channels_last(4))
    folded = shaped(site, x, (n, 1, int(np.prod(sizes)), c))
    made = site.emit(Mean, folded, axes=(1, 2), keep_dims=True)
    return Value(shaped(site, made, (n, *(1 for _ in sizes), c)), channels_last(value.rank))
