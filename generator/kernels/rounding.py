"""The roundings of the packed linear kernels: their constants, and the proofs that they are exact.

TensorFlow Lite Micro rounds twice, halves away from zero. Kernels for Armv6 SIMD do the same in four instructions, or,
where outputs below the zero point are clamped anyway, round up in two (see Up).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.ir import Node
from shoehorn_mcu.ops import Conv2d, Dense, DepthwiseConv2d
from shoehorn_mcu.ops.fixed_point import rescale

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
Shifts = NDArray[np.int8]

UP_POINT = 10  # the shift of SH_UP in sh_packed.h
MOST_UP = 8  # of Up.left
_MOST_BY = 24
_MOST_ADDED = 2048
_NEAR = np.arange(-2, 3)  # sums around an estimated threshold


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


def clamp_of(node: Node) -> Clamp:
    """The clamp of a linear op on int8."""
    clamp = cast(Conv2d | DepthwiseConv2d | Dense, node.op).clamp
    return Clamp(node.output.type.quantised.zero_point, int(clamp.low), int(clamp.high))


class Up(NamedTuple):
    """A rounding in one step, per channel: `((sum << left) * multiplier >> 32) + addend >> UP_POINT`, saturated.

    The sum includes `bias`. `left` is from 1 to MOST_UP.
    """

    bias: Int32s
    left: Int64s
    multiplier: Int64s
    addend: Int64s


def up(low: Int64s, high: Int64s, bias: Int32s, multipliers: Int32s, shifts: Shifts, clamp: Clamp) -> Up | None:
    """The constants for sums from `low` to `high`, bias included; None where there are none that are exact.

    The two steps of a sum of at least 0 are one, if `multiplier` keeps all bits, and half a unit of the first step is a
    multiple of a unit of the second. Of negative sums they subtract 1 between them, which does not matter where all
    outputs below the zero point are clamped. Other channels get the offset by which all thresholds have most room.
    """
    arrays = (low, high, bias, multipliers, shifts)
    return _up(*(np.asarray(array, np.int64).tobytes() for array in arrays), clamp=clamp)


@lru_cache(maxsize=1024)
def _up(*arrays: bytes, clamp: Clamp) -> Up | None:
    """As `up`; a layer is asked about several times: when kernels are chosen, counted and packed."""
    low, high, bias, multipliers, shifts = (np.frombuffer(array, np.int64) for array in arrays)
    if ((shifts >= 0) & (multipliers != 0)).any() or clamp.low >= clamp.high:
        return None
    factors, right = (multipliers, shifts), right_shifts(multipliers, shifts)
    left = np.clip(UP_POINT - right + 1, 1, MOST_UP)
    by = right + left - (UP_POINT + 1)  # the multiplier is that of the two steps divided by 2^by
    if ((by < 0) & (multipliers != 0)).any() or (by > _MOST_BY).any():
        return None
    by = np.maximum(by, 0)
    multiplier = np.minimum(multipliers + (1 << by >> 1) >> by, (1 << 31) - 1)
    stairs = staircase(low, high, factors, clamp)
    if stairs is None:
        return None
    first, last, values, reached, risen = stairs
    addend = (2 * clamp.zero + 1 << UP_POINT - 1) + (1 << np.maximum(UP_POINT - right, 0) >> 1)
    more = np.zeros_like(addend)
    exact = right < UP_POINT
    if not exact.all():
        slope = multiplier * 2.0 ** (left - 32)
        room = np.where(reached, (values << UP_POINT) - risen * slope[:, None], np.nan)[~exact]  # offsets, from here on
        more[~exact], addend[~exact] = _offset(room, slope[~exact], addend[~exact])

    def upward(sums: Int64s) -> Int64s:
        constants = (c.reshape(-1, *[1] * (sums.ndim - 1)) for c in (more, left, multiplier, addend))
        bias, shift, factor, offset = constants
        value: Int64s = (((sums + bias) << shift) * factor >> 32) + offset >> UP_POINT
        return np.clip(value, clamp.low, clamp.high)

    largest = np.maximum(np.abs(low), np.abs(high)) + np.abs(more) << left
    if (largest >= 1 << 31).any() or ((largest * multiplier >> 32) + np.abs(addend) + 1 >= 1 << 31).any():
        return None
    if (upward(low) != first).any() or (upward(high) != last).any():
        return None
    rises = (upward(risen) >= values) & (upward(risen - 1) < values)  # both are monotone: equal where they rise
    return Up((bias + more).astype(np.int32), left, multiplier, addend) if (rises | ~reached).all() else None


def _offset(least: NDArray[np.float64], slope: NDArray[np.float64], usual: Int64s) -> tuple[Int64s, Int64s]:
    """What to add to sums, and the addend, whose sum is nearest the middle of all intervals [least, least + slope).

    `least` is [channel][value], NaN where a channel has no such value; without any value it is `usual`.
    """
    bare = np.asarray(np.isnan(least).all(axis=1))
    least = np.where(bare[:, None], usual[:, None], least)
    middle = (np.nanmax(least, axis=1) + np.nanmin(least, axis=1) + slope) / 2
    added = np.arange(-_MOST_ADDED, _MOST_ADDED + 1)
    wanted = middle[:, None] - added * slope[:, None]
    best = np.abs(wanted - np.round(wanted)).argmin(axis=1)
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


def staircase(least: Int64s, most: Int64s, factors: tuple[Int64s, Int64s], clamp: Clamp) -> Staircase | None:
    """The outputs of sums from `least` to `most`, bias included; None where a threshold was not found.

    `factors`: multipliers, and shifts to the left.
    """
    first, last = (output_of(sums, *factors, clamp) for sums in (least, most))
    values = np.arange(clamp.low + 1, clamp.high + 1)
    reached = (first[:, None] < values) & (values <= last[:, None])
    multipliers, shifts = (f[:, None, None] for f in factors)
    slope = np.maximum(factors[0] * 2.0 ** (factors[1] - 31.0), 2.0**-40)[:, None]
    guess = np.ceil((values - clamp.zero - 0.5) / slope)
    inside = np.clip(guess, least[:, None], most[:, None]).astype(np.int64)
    sums = np.clip(inside[..., None] + _NEAR, least[:, None, None], most[:, None, None])
    risen = rescale(sums, multipliers, shifts) + clamp.zero >= values[:, None]
    before, after = risen[..., 0], risen[..., -1]
    if (reached & (before | ~after)).any():
        return None
    found = np.take_along_axis(sums, risen.argmax(axis=-1)[..., None], axis=-1)
    return Staircase(first, last, values, reached, np.asarray(found[..., 0], np.int64))
