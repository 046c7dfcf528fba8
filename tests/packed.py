"""What the tests of the packed kernels share: random channels, and their scaling, by definition and by instructions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoehorn_mcu.ops import fixed_point

Ints = np.ndarray


class Channels(NamedTuple):
    """The numbers that scale each output channel's sum."""

    bias: Ints
    multipliers: Ints
    shifts: Ints  # to the left


def channels(rng: np.random.Generator, count: int) -> Channels:
    """Random numbers that the kernels scale with exactly."""
    return Channels(
        rng.integers(-30000, 30000, count, np.int32),
        rng.integers(1 << 30, 1 << 31, count).astype(np.int32),
        rng.integers(-11, -4, count).astype(np.int8),
    )


def halves(shift: int) -> Channels:
    """Six channels whose biases alone, divided by 2^(shift+1), are -2.5, -1.5, -0.5, 0.5, 1.5 and 2.5."""
    biases = np.array([odd << shift for odd in (-5, -3, -1, 1, 3, 5)], np.int32)
    return Channels(biases, np.full(6, 1 << 30, np.int32), np.full(6, -shift, np.int8))


def requantised(sums: Ints, multipliers: Ints, shifts: Ints, y_zero: int) -> list[int]:
    """The outputs of sums with their biases, by the definition."""
    return np.clip(fixed_point.rescale(sums, multipliers, shifts) + y_zero, -128, 127).tolist()


def s32(value: int) -> int:
    """The value modulo 2^32."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def scaled(twice: int, multiplier: int, addend: int, shift: int) -> int:
    """The output of twice a sum with its bias, by the kernels' SMMLAR, ADD, ASR and SSAT."""
    high = s32((addend << 32) + twice * multiplier + (1 << 31) >> 32)
    return min(max(s32(high + (twice >> 31)) >> shift, -128), 127)
