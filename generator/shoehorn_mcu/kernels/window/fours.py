"""The depthwise convolution of float32 by vectors of four channels (`depthwise_conv2d_f32_neon.inc`)."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from functools import lru_cache

from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels.base.work import Work
from shoehorn_mcu.ops import DepthwiseConv2d

_FOUR = 4  # channels of a vector, the fewest there may be
_MOST_TAPS = 49
_KNOWN = {9: "nine", 6: "six"}  # numbers of taps whose weights stay in registers

_Axis = tuple[int, int, int, int, int, int]  # outputs, taps, inputs, stride, padding before, dilation


def depthwise_by_fours(node: Node[DepthwiseConv2d]) -> bool:
    """Whether there is an output channel per input channel, of these at least four, and a table holds all taps."""
    _, *window, outputs = node.weights.type.shape
    return node.x.type.nhwc[3] == outputs >= _FOUR and math.prod(window) <= _MOST_TAPS


def depthwise_fours_work(node: Node[DepthwiseConv2d]) -> Work:
    """Tables of taps, their taps, and by the number of taps: vectors of a table, and of each of its pixels."""
    op, (_, kernel_height, kernel_width, channels) = node.op, node.weights.type.shape
    _, height, width, _ = node.x.type.nhwc
    _, out_height, out_width, _ = node.output.type.nhwc
    down = _lines((out_height, kernel_height, height, op.stride[0], op.padding.top, op.dilation[0]))
    across = _runs((out_width, kernel_width, width, op.stride[1], op.padding.left, op.dilation[1]))
    blocks = -(-channels // _FOUR)
    found: defaultdict[str, float] = defaultdict(float)
    for lines, times in down.items():
        share = times / out_height
        for (columns, pixels), runs in across.items():
            taps, name = lines * columns, _KNOWN.get(lines * columns, "any")
            found["tables"] += share * runs
            found["table_taps"] += share * runs * taps
            found["table_rows"] += share * runs * lines
            found[f"{name}_set"] += share * runs * blocks
            found[name] += share * runs * blocks * pixels
            if name == "any":
                found["any_taps"] += share * runs * blocks * pixels * taps
    return Work(**found)


def _inside(axis: _Axis, at: int) -> int:
    """How many taps of the window at this output are inside."""
    _, taps, size, stride, before, dilation = axis
    return sum(0 <= at * stride - before + tap * dilation < size for tap in range(taps))


@lru_cache(maxsize=256)
def _lines(axis: _Axis) -> Counter[int]:
    """How many rows have windows with so many lines inside; or pixels, with so many columns."""
    return Counter(_inside(axis, at) for at in range(axis[0]))


@lru_cache(maxsize=256)
def _runs(axis: _Axis) -> Counter[tuple[int, int]]:
    """How many runs of pixels with one table have so many columns inside and so many pixels."""
    pixels = Counter(_lines(axis))  # by columns inside
    inner = pixels.pop(axis[1], 0)
    found = Counter({(columns, 1): count for columns, count in pixels.items()})
    if inner:
        found[axis[1], inner] += 1
    return found
