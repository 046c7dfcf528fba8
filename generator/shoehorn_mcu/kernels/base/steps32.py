"""Requantisation in 32 bits, for cores without a long multiplication: constants found and proven channel by channel.

An output value is a staircase over the sum: TensorFlow Lite Micro's double rounding is monotone, so the sums at which
it rises to v, its thresholds, define it entirely. Between the two clamps the kernels compute

    y_min + ((offset - b * high - (b * low >> shift) - (bend if b > turn else 0)) >> POINT),    b = most - (sum + bias),

whose slope is that of the rounding and which is monotone too: if it is exact at each threshold and just below it, it is
exact for every sum. Sums whose output is a clamp are replaced by the nearest of those between: b is from 0 to `most`.
The line has a bend where the sum is 0, as halves are rounded away from zero.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.kernels.base.packed import totals_of
from shoehorn_mcu.kernels.base.rounding import (
    Clamp,
    Constants,
    Int32s,
    Int64s,
    Shifts,
    by_channel,
    output_of,
    staircase,
)

POINT = 23  # the shift of sh_steps32.h
_LEAST = -(1 << 40)


class Scales(NamedTuple):
    """Constants per channel. b = most - max(0, sum + bias), or 0 where that is negative."""

    bias: Int64s  # added to the sum of products, bias of the layer included
    most: Int64s
    turn: Int64s  # from there on the sum with the layer's bias is negative, and `bend` is subtracted from the line
    bend: Int64s
    high: Int64s
    low: Int64s
    shift: Int64s
    offset: Int64s


def words_of(
    weights: NDArray[np.signedinteger], bias: Int32s, multipliers: Int32s, shifts: Shifts, clamp: Clamp
) -> Int32s | None:
    """[channel][8]: the words for a layer with these [channel][element] weights; None where a channel has none."""
    found = scales_of(*totals_of(weights, bias), bias, multipliers, shifts, clamp)
    return None if found is None else words(found, clamp)


def words(of: Scales, clamp: Clamp) -> Int32s:
    """[channel][8]: what the kernels read, as `sh_steps32.h` describes it. The offset includes the least value."""
    members = of._replace(offset=of.offset + (clamp.low << POINT))
    return (np.stack(members, axis=1) & 0xFFFFFFFF).astype(np.uint32).view(np.int32)


def scales_of(
    least: Int64s, most: Int64s, bias: Int32s, multipliers: Int32s, shifts: Shifts, clamp: Clamp
) -> Scales | None:
    """The constants for sums from `least` to `most`, bias included; None where there are none.

    All arrays are per channel; `shifts` are to the left.
    """
    if (most - least >= 1 << 31).any() or (shifts > 8).any() or clamp.low >= clamp.high:
        return None
    found = by_channel(_scales, (least, most, bias, multipliers, shifts), clamp)
    return None if found is None else Scales(*found)


def _scales(arrays: Constants, clamp: Clamp) -> tuple[Constants, NDArray[np.bool_]]:
    """The constants, and for which channels they are exact."""
    least, most, bias, multipliers, shifts = arrays
    factors = multipliers, shifts
    first, last, values, reached, risen, found = staircase(least, most, factors, clamp)
    # From the greatest sum whose output is the least value, to the least whose output is the greatest.
    start = np.where(first > clamp.low, least, np.where(reached[:, 0], risen[:, 0] - 1, most))
    end = np.where(last < clamp.high, most, np.where(reached[:, -1], risen[:, -1], least))
    span = np.asarray(end - start, np.int64)
    high, low, shift = _slope(*factors, span + 1)

    def line(a: Int64s) -> Int64s:
        by = [c.reshape(-1, *[1] * (a.ndim - 1)) for c in (high, low, shift, span)]
        b = by[3] - a
        return -(b * by[0] + (b * by[1] >> by[2]))

    def level(a: Int64s) -> Int64s:
        return output_of(start + a, *factors, clamp) - clamp.low

    rise = np.where(reached, risen - start[:, None], 0)
    size = span + 1
    within = (rise > 0) & (rise < size[:, None])
    steps = values - clamp.low << POINT

    def offset_of(first: Int64s, end: Int64s) -> tuple[Int64s, NDArray[np.bool_]]:
        """The offset for sums a from `first` to before `end`, and whether there is one (or no such sum)."""
        at, before = (within & (first[:, None] <= a) & (a < end[:, None]) for a in (rise, rise - 1))
        floor = np.maximum(np.where(at, steps - line(rise), _LEAST).max(axis=1), (level(first) << POINT) - line(first))
        top = np.where(before, steps - 1 - line(rise - 1), -_LEAST).min(axis=1)
        top = np.minimum(top, (level(end - 1) + 1 << POINT) - 1 - line(end - 1))
        return floor + (top - floor) // 2, (first >= end) | (floor <= top)

    turn = np.clip(-start, 0, size)
    nothing = np.zeros_like(size)
    (below, one), (above, other) = offset_of(nothing, turn), offset_of(turn, size)
    below, above = np.where(turn > 0, below, 0), np.where(turn < size, above, 0)
    offset = np.where(turn < size, above, below)
    bend = np.where(turn > 0, offset - below, 0)
    return Scales(bias - start, span, span - turn, bend, high, low, shift, offset), found & one & other


def _slope(multipliers: Int64s, shifts: Int64s, size: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """The slope in units of 2^-POINT: its whole part, and its fraction with as many bits as 32 can hold."""
    by = 31 - POINT - shifts  # the slope is multiplier / 2^by
    whole, fraction = multipliers >> by, multipliers & (1 << by) - 1
    bits = np.clip(32 - np.frexp(np.maximum(size, 1).astype(np.float64))[1], 0, 31).astype(np.int64)
    low = fraction << bits >> by
    return whole, low, bits
