"""Sums with a constant per channel as straight lines (`sh_plane.h`).

In each channel such a sum is a function of one byte that rises by nearly the same amount from byte to byte. A line in
fixed point whose floor is the op's value for all 256 bytes takes one product, one sum and one shift, in place of three
long products or two tables. Products have no such line: halves are rounded away from zero, so those of either sign
would need lines of their own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels.base.contract import Tile, Value
from shoehorn_mcu.kernels.base.known import known
from shoehorn_mcu.kernels.element.channel_tables import BYTES, by_channel, moving
from shoehorn_mcu.kernels.element.plane import BITS, WORDS, bounds
from shoehorn_mcu.ops.elementwise import Addition

LANES = 4
"""Channels that the kernel for Helium computes at once."""

_TRIES = 30  # slopes of a channel


class Lines(NamedTuple):
    """By channel: y = clamp((x * slope + start) >> BITS)."""

    slopes: NDArray[np.int64]
    starts: NDArray[np.int64]


@known
def lines(node: Node[Addition]) -> Lines | None:
    """The line of each channel; None where there is no such constant, or a channel has no line within 32 bits."""
    place = moving(node)
    if place is None:
        return None
    least, most = bounds(node, by_channel(node, place))
    x, y = node.inputs[place].type.quantised, node.output.type.quantised
    slope = round((node.op.sign if place == 1 else 1) * x.scale / y.scale * (1 << BITS))
    found = _through(least, most, np.full(len(least), slope))
    return found if found is not None and np.abs(found.slopes * BYTES[0]).max() <= WORDS[1] else None


def _through(least: NDArray[np.int64], most: NDArray[np.int64], slopes: NDArray[np.int64]) -> Lines | None:
    """Lines between these bounds, [channel][byte + 128], with slopes near these; None where a channel has none.

    Where no start serves a slope, the bounds of two bytes are at odds, and they say how much steeper or flatter the
    line must be. A channel has no line when it would have to be both.
    """
    each = np.arange(len(slopes))
    low, high = (np.full(len(slopes), end) for end in WORDS)  # of the slopes
    for _ in range(_TRIES):
        from_below, from_above = least - slopes[:, None] * BYTES, most - slopes[:, None] * BYTES
        first, last = from_below.argmax(axis=1), from_above.argmin(axis=1)
        gap = from_above[each, last] - from_below[each, first]
        if (gap >= 0).all():
            return Lines(slopes, from_below[each, first] + gap // 2)
        way, lack = first - last, least[each, first] - most[each, last]
        needed = np.where(way > 0, -(-lack // np.maximum(way, 1)), -lack // np.maximum(-way, 1))
        low, high = (
            np.where((gap < 0) & (way > 0), needed, low),
            np.where((gap < 0) & (way < 0), needed, high),
        )
        if ((gap < 0) & ((way == 0) | (low > high))).any():
            return None
        slopes = np.where(gap < 0, needed, slopes)
    return None


def are_exact(node: Node[Addition]) -> bool:
    """Whether each channel has a line."""
    return lines(node) is not None


def pack(node: Node[Addition], tile: Tile) -> dict[str, Value]:
    """Slope and start of each channel."""
    found = lines(node)
    assert found is not None
    return {"tables": np.stack(found, axis=-1).astype(np.int32).ravel()}


def pack_lanes(node: Node[Addition], tile: Tile) -> dict[str, Value]:
    """The slopes of LANES channels, and then their starts; zeros behind the last channel."""
    found = lines(node)
    assert found is not None
    behind = -len(found.slopes) % LANES
    lanes = [np.pad(each, (0, behind)).reshape(-1, LANES) for each in found]
    return {"tables": np.stack(lanes, axis=1).astype(np.int32).ravel()}
