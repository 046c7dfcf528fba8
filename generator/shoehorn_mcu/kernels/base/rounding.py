"""The roundings of the packed linear kernels: their constants, and the proofs that they are exact.

TensorFlow Lite Micro rounds twice, halves away from zero. Kernels for Armv6 SIMD do the same in four instructions, or,
where outputs below the zero point are clamped anyway, round up in two (see Up).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.ir import Node
from shoehorn_mcu.ops import LinearOp
from shoehorn_mcu.ops.fixed_point import rescale

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
Shifts = NDArray[np.int8]

UP_POINT = 10  # the shift of SH_UP in sh_packed.h
MOST_UP = 8  # of Up.left
_MOST_BY = 24
_MOST_ADDED = 2048
_MOST_KNOWN = 1 << 17  # channels whose constants are remembered
_AT_ONCE = 64  # channels that are computed at once: what numpy keeps of each of their outputs stays in the cache
_NEAR = np.arange(-2, 3)  # sums around an estimated threshold
_AT = slice(1, 3)  # of these the one before it and the threshold: mostly those where the output rises


def rounds_exactly(low: Int64s, high: Int64s, multipliers: Int32s, shifts: Shifts) -> bool:
    """Whether the kernels scale every sum between `low` and `high`, bias included, exactly; all arrays are per channel.

    Each channel is shifted to the right (`shifts` are to the left) or has a multiplier of 0, and twice the sum, and the
    scaled sum with its addend, fit 32 bits.
    """
    if not ((shifts < 0) | (multipliers == 0)).all():
        return False
    largest, right = np.maximum(np.abs(low), np.abs(high)), right_shifts(multipliers, shifts)
    scaled = (largest * multipliers.astype(np.int64) >> 31) + 2
    return bool((largest < 1 << 30).all() and (right < 23).all() and (scaled + (129 << right) < 1 << 31).all())


def right_shifts(multipliers: Int32s | Int64s, shifts: Shifts | Int64s) -> Int64s:
    """The shifts to the right. A multiplier of 0 may have any shift; the kernels need 1 or more."""
    return np.where(multipliers == 0, 1, -shifts.astype(np.int64))


def addends(right: Int64s, y_zero: int) -> Int64s:
    """Half an output step and the output's zero point, before the shift to the right."""
    return (1 << (right - 1)) + (y_zero << right)


class Clamp(NamedTuple):
    """The zero point of the output, its least and its greatest value."""

    zero: int
    low: int
    high: int


def clamp_of(node: Node[LinearOp]) -> Clamp:
    """The clamp of a linear op on int8."""
    clamp = node.op.clamp
    return Clamp(node.output.type.quantised.zero_point, int(clamp.low), int(clamp.high))


class Up(NamedTuple):
    """A rounding in one step, per channel: `((sum << left) * multiplier >> 32) + addend >> UP_POINT`, saturated.

    The sum includes `bias`. `left` is from 1 to MOST_UP.
    """

    bias: Int32s
    left: Int64s
    multiplier: Int64s
    addend: Int64s


def up(
    low: Int64s,
    high: Int64s,
    bias: Int32s,
    multipliers: Int32s,
    shifts: Shifts,
    clamp: Clamp,
    find: Find | None = None,
) -> Up | None:
    """The constants for sums from `low` to `high`, bias included; None where there are none that are exact.

    `find`: UP_SCALED for a kernel that has so many times the sums, bias included; UP_BYTE for one whose `left` is
    always 8.

    The two steps of a sum of at least 0 are one, if `multiplier` keeps all bits, and half a unit of the first step is a
    multiple of a unit of the second. Of negative sums they subtract 1 between them, which does not matter where all
    outputs below the zero point are clamped. Other channels get the offset by which all thresholds have most room.
    """
    found = by_channel(find or _up, (low, high, bias, multipliers, shifts), clamp)
    if found is None:
        return None
    added, left, multiplier, addend = found
    return Up(added.astype(np.int32), left, multiplier, addend)


Constants = tuple[Int64s, ...]
"""Of some kernel: each array is per channel."""

Find = Callable[[Constants, Clamp], tuple[Constants, NDArray[np.bool_]]]
"""The constants of channels, computed from arrays of theirs, and for which channels they are exact."""


def by_channel(find: Find, arrays: Sequence[Int32s | Int64s | Shifts], clamp: Clamp) -> Constants | None:
    """What `find` returns for the channels of these arrays; None where one is not exact.

    Channels are remembered: a layer is asked about when kernels are chosen, counted and packed, and so are the layers
    of its chunks (split.py), which have the same channels.
    """
    values = [np.asarray(array, np.int64) for array in arrays]
    channels = list(zip(*(array.tolist() for array in values), strict=True))
    known = _known(find, clamp)
    if len(known) > _MOST_KNOWN:
        known.clear()
    missing = [i for i, channel in enumerate(channels) if channel not in known]
    for first in range(0, len(missing), _AT_ONCE):
        some = missing[first : first + _AT_ONCE]
        made, exact = find(tuple(array[some] for array in values), clamp)
        constants = zip(*(array.tolist() for array in made), strict=True)
        for i, found, is_exact in zip(some, constants, exact.tolist(), strict=True):
            known[channels[i]] = found if is_exact else None
    each = [of for channel in channels if (of := known[channel]) is not None]
    return tuple(np.array(each, np.int64).T) if len(each) == len(channels) else None


@lru_cache(maxsize=128)
def _known(find: Find, clamp: Clamp) -> dict[tuple[int, ...], tuple[int, ...] | None]:
    """The constants of the channels that were asked about; None where they are not exact."""
    del find, clamp
    return {}


def _up(
    arrays: Constants, clamp: Clamp, scale: int = 1, least_left: int | None = None
) -> tuple[Constants, NDArray[np.bool_]]:
    """The members of Up, and for which channels they are exact; those of other channels may be out of range.

    The kernel has `scale` times the sums: the multiplier has that much less. `left` is as small as keeps most bits of
    the multiplier, but at least `least_left`.
    """
    if least_left is None:
        least_left = int(scale == 1)
    spare = scale.bit_length() - 1  # bits that the larger sums leave to `left`
    low, high, bias, multipliers, shifts = arrays
    factors, right = (multipliers, shifts), right_shifts(multipliers, shifts)
    left = np.clip(UP_POINT - right + 1 - spare, least_left, MOST_UP)
    by = right + left - (UP_POINT + 1) + spare  # the multiplier is that of the two steps divided by 2^(by - spare)
    good = ((shifts < 0) & (by >= 0) | (multipliers == 0)) & (by <= _MOST_BY) & (clamp.low < clamp.high)
    by = np.clip(by, 0, _MOST_BY)
    multiplier = np.minimum(((multipliers << spare) + (scale << by >> 1)) // (scale << by), (1 << 31) - 1)
    first, last, values, reached, risen, found = staircase(low, high, factors, clamp)
    addend = (2 * clamp.zero + 1 << UP_POINT - 1) + (1 << np.maximum(UP_POINT - right, 0) >> 1)
    more = np.zeros_like(addend)
    inexact = good & ((right >= UP_POINT) | (scale > 1) | (least_left > 1))
    if inexact.any():
        slope = scale * multiplier * 2.0 ** (left - 32)
        offsets = np.where(reached, (values << UP_POINT) - risen * slope[:, None], np.nan)  # from here on
        more[inexact], addend[inexact] = _offset(offsets[inexact], slope[inexact], addend[inexact])

    def upward(sums: Int64s) -> Int64s:
        constants = (c.reshape(-1, *[1] * (sums.ndim - 1)) for c in (more, left, multiplier, addend))
        bias, shift, factor, offset = constants
        value: Int64s = ((scale * (sums + bias) << shift) * factor >> 32) + offset >> UP_POINT
        return np.clip(value, clamp.low, clamp.high)

    largest = scale * (np.maximum(np.abs(low), np.abs(high)) + np.abs(more)) << left
    good &= found & (largest < 1 << 31) & ((largest * multiplier >> 32) + np.abs(addend) + 1 < 1 << 31)
    good &= (upward(low) == first) & (upward(high) == last)
    rises = (upward(risen) >= values) & (upward(risen - 1) < values)  # both are monotone: equal where they rise
    return (bias + more, left, multiplier, addend), good & (rises | ~reached).all(axis=1)


UP_SCALED: Mapping[int, Find] = {scale: partial(_up, scale=scale) for scale in (4, 24, 48)}
UP_BYTE: Find = partial(_up, least_left=MOST_UP)
"""For `up`."""


def _offset(least: NDArray[np.float64], slope: NDArray[np.float64], usual: Int64s) -> tuple[Int64s, Int64s]:
    """What to add to sums, and the addend, whose sum is nearest the middle of all intervals [least, least + slope).

    `least` is [channel][value], NaN where a channel has no such value; without any value it is `usual`.
    """
    bare = np.asarray(np.isnan(least).all(axis=1))
    least = np.where(bare[:, None], usual[:, None], least)
    middle = (np.nanmax(least, axis=1) + np.nanmin(least, axis=1) + slope) / 2
    added = np.arange(-_MOST_ADDED, _MOST_ADDED + 1)
    wanted = middle[:, None] - added * slope[:, None]
    apart = np.rint(wanted)
    np.abs(np.subtract(wanted, apart, out=apart), out=apart)
    best = apart.argmin(axis=1)
    return added[best], np.round(np.take_along_axis(wanted, best[:, None], axis=1)[:, 0]).astype(np.int64)


def output_of(sums: Int64s, multipliers: Int64s, shifts: Int64s, clamp: Clamp) -> Int64s:
    """What TensorFlow Lite Micro computes of sums with their bias; `shifts` are to the left."""
    return np.clip(rescale(sums, multipliers, shifts) + clamp.zero, clamp.low, clamp.high)


class Staircase(NamedTuple):
    """An output over its sum: TensorFlow Lite Micro's rounding is monotone, so it is known by where it rises."""

    first: Int64s  # [channel]: the output of the least sum
    last: Int64s  # and of the greatest one
    values: Int64s  # [value]: all that an output may rise to
    reached: NDArray[np.bool_]  # [channel][value]: above `first`, up to `last`
    risen: Int64s  # [channel][value]: the least sum whose output is at least that value, where it is reached
    found: NDArray[np.bool_]  # [channel]: whether that is so for all values


def staircase(least: Int64s, most: Int64s, factors: tuple[Int64s, Int64s], clamp: Clamp) -> Staircase:
    """The outputs of sums from `least` to `most`, bias included.

    `factors`: multipliers, and shifts to the left.
    """
    first, last = (output_of(sums, *factors, clamp) for sums in (least, most))
    values = np.arange(clamp.low + 1, clamp.high + 1)
    reached = (first[:, None] < values) & (values <= last[:, None])
    if (factors[1] <= 0).all() and max(np.abs(least).max(), np.abs(most).max()) < 1 << 31:
        sums = _thresholds(values - clamp.zero, *factors)
        sums = np.clip(sums, least[:, None], most[:, None])
        return Staircase(first, last, values, reached, sums, np.ones(len(least), bool))
    multipliers, shifts = (f[:, None, None] for f in factors)
    slope = np.maximum(factors[0] * 2.0 ** (factors[1] - 31.0), 2.0**-40)[:, None]
    guess = np.ceil((values - clamp.zero - 0.5) / slope)
    inside = np.clip(guess, least[:, None], most[:, None]).astype(np.int64)
    near = np.clip(inside[..., None] + _NEAR[_AT], least[:, None, None], most[:, None, None])
    risen = rescale(near, multipliers, shifts) + clamp.zero >= values[:, None]
    threshold, found = near[..., 1], ~risen[..., 0] & risen[..., 1]
    channel, value = (reached & ~found).nonzero()
    if channel.size:
        sums = np.clip(inside[channel, value, None] + _NEAR, least[channel, None], most[channel, None])
        more = rescale(sums, *(f[channel, None] for f in factors)) + clamp.zero >= values[value, None]
        threshold[channel, value] = np.take_along_axis(sums, more.argmax(axis=-1)[:, None], axis=-1)[:, 0]
        found[channel, value] = ~more[:, 0] & more[:, -1]
    return Staircase(first, last, values, reached, threshold, np.asarray((~reached | found).all(axis=1)))


def _thresholds(outputs: Int64s, multipliers: Int64s, shifts: Int64s) -> Int64s:
    """[channel][output]: the least sum that `rescale` makes at least that output, for shifts to the right.

    Of outputs that no sum in 32 bits reaches, and where the multiplier is 0, it is any number.
    """
    right = -shifts[:, None]
    # The second rounding is away from zero, the first one up.
    products = (outputs << right) - (1 << right >> 1) + ((outputs <= 0) & (right > 0))
    products = np.clip(products, -(1 << 31), 1 << 31)
    sums: Int64s = -(((1 << 30) - (products << 31)) // np.maximum(multipliers, 1)[:, None])
    return sums
