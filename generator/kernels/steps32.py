"""Requantisation in 32 bits, for cores without a long multiplication: constants found and proven channel by channel.

An output value is a staircase over the sum: TensorFlow Lite Micro's double rounding is monotone, so the sums at which
it rises to v, its thresholds, define it entirely. Between the two clamps the kernels compute

    y_min + ((a * high + (a * low >> shift) + offset - (bend if a < turn else 0)) >> POINT),    a = sum + bias,

whose slope is that of the rounding and which is monotone too: if it is exact at each threshold and just below it, it is
exact for every sum. The line has a bend where the sum is 0, as halves are rounded away from zero.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.kernels.packed import sums_of
from shoehorn_mcu.kernels.rounding import Int32s, Int64s, Shifts
from shoehorn_mcu.ops.fixed_point import rescale

POINT = 23  # the shift of sh_steps32.h
_LEAST = -(1 << 40)
_NEAR = np.arange(-2, 3)  # sums around an estimated threshold


class Clamp(NamedTuple):
    """The zero point of the output, its least and its greatest value."""

    zero: int
    low: int
    high: int


class Scales(NamedTuple):
    """Constants per channel. An output is the least value where a < 0, and the greatest from a = `range` on."""

    bias: Int64s  # added to the sum of products, bias of the layer included
    range: Int64s
    high: Int64s
    low: Int64s
    offset: Int64s
    shift: Int64s
    turn: Int64s  # where the sum with its bias is 0: below, `bend` is subtracted from the line
    bend: Int64s


def words_of(
    weights: NDArray[np.int8], bias: Int32s, multipliers: Int32s, shifts: Shifts, clamp: Clamp
) -> Int32s | None:
    """[channel][8]: the words for a layer with these [channel][element] weights; None where a channel has none."""
    least, most = (s + bias for s in sums_of(weights.astype(np.int64)))
    found = scales_of(least, most, bias, multipliers, shifts, clamp)
    return None if found is None else words(found, clamp)


def words(of: Scales, clamp: Clamp) -> Int32s:
    """[channel][8]: what the kernels read, as `sh_steps32.h` describes it. The offset includes the least value."""
    ends = ((clamp.high & 0xFF) << 8) + ((clamp.low & 0xFF) << 16)
    offset = of.offset + (clamp.low << POINT)
    members = (of.bias, of.range, of.high, of.low, of.shift + ends, offset, of.turn, of.bend)
    return (np.stack(members, axis=1) & 0xFFFFFFFF).astype(np.uint32).view(np.int32)


def scales_of(
    least: Int64s, most: Int64s, bias: Int32s, multipliers: Int32s, shifts: Shifts, clamp: Clamp
) -> Scales | None:
    """The constants for sums from `least` to `most`, bias included; None where there are none.

    All arrays are per channel; `shifts` are to the left.
    """
    if (most - least >= 1 << 31).any() or (shifts > 8).any() or clamp.low >= clamp.high:
        return None
    factors = multipliers.astype(np.int64), shifts.astype(np.int64)
    first, last = (_output(sums, *factors, clamp) for sums in (least, most))
    values = np.arange(clamp.low + 1, clamp.high + 1)  # [value]
    reached = (first[:, None] < values) & (values <= last[:, None])
    risen = _thresholds(values, reached, least, most, factors, clamp)
    if risen is None:
        return None
    start = np.where(first > clamp.low, least, np.where(reached[:, 0], risen[:, 0], most + 1))
    size = np.where(reached[:, -1], risen[:, -1] - start, most - start + 1)
    size = np.where(first == clamp.high, 0, size)
    high, low, shift = _slope(*factors, size)

    def line(a: Int64s) -> Int64s:
        by = [c.reshape(-1, *[1] * (a.ndim - 1)) for c in (high, low, shift)]
        return a * by[0] + (a * by[1] >> by[2])

    def level(a: Int64s) -> Int64s:
        return _output(start + a, *factors, clamp) - clamp.low

    rise = np.where(reached, risen - start[:, None], 0)
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
    if not (one & other).all():
        return None
    below, above = np.where(turn > 0, below, 0), np.where(turn < size, above, 0)
    offset = np.where(turn < size, above, below)
    bend = np.where(turn > 0, offset - below, 0)
    return Scales(bias.astype(np.int64) - start, size, high, low, offset, shift, turn, bend)


def _output(sums: Int64s, multipliers: Int64s, shifts: Int64s, clamp: Clamp) -> Int64s:
    return np.clip(rescale(sums, multipliers, shifts) + clamp.zero, clamp.low, clamp.high)


def _thresholds(
    values: Int64s,
    reached: NDArray[np.bool_],
    least: Int64s,
    most: Int64s,
    factors: tuple[Int64s, Int64s],
    clamp: Clamp,
) -> Int64s | None:
    """[channel][value]: the least sum whose output is at least that value, where `reached`; None if one is missing."""
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
    return np.asarray(found[..., 0], np.int64)


def _slope(multipliers: Int64s, shifts: Int64s, size: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """The slope in units of 2^-POINT: its whole part, and its fraction with as many bits as 32 can hold."""
    by = 31 - POINT - shifts  # the slope is multiplier / 2^by
    whole, fraction = multipliers >> by, multipliers & (1 << by) - 1
    bits = np.clip(32 - np.frexp(np.maximum(size, 1).astype(np.float64))[1], 0, 31).astype(np.int64)
    low = fraction << bits >> by
    return whole, low, bits
