"""Requantisation in 32 bits for Armv6-M: its constants against TensorFlow Lite Micro's rounding."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoehorn_mcu.ir import Array
from shoehorn_mcu.kernels.steps32 import POINT, Clamp, Scales, scales_of
from shoehorn_mcu.ops.fixed_point import rescale

CHANNELS = 8


def computed(scales: Scales, sums: Array, bias: Array, clamp: Clamp) -> Array:
    """The outputs as the kernel computes them, [sum][channel]; checks that every product fits 32 bits."""
    a = sums - bias + scales.bias
    between = (a >= 0) & (a < scales.range)
    whole, fraction = np.where(between, a * scales.high, 0), np.where(between, a * scales.low, 0)
    line = whole + (fraction >> scales.shift) + scales.offset - np.where(a < scales.turn, scales.bend, 0)

    assert (np.abs(a) < 1 << 31).all() and (whole < 1 << 32).all() and (fraction < 1 << 32).all()
    assert ((line >= 0) & (line < 1 << 32) | ~between).all()
    return np.where(a < 0, clamp.low, np.where(between, clamp.low + (line >> POINT), clamp.high))


def expected(sums: Array, multipliers: Array, shifts: Array, clamp: Clamp) -> Array:
    return np.clip(rescale(sums, multipliers, shifts) + clamp.zero, clamp.low, clamp.high)


@settings(max_examples=30)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(-128, 127),
    st.sampled_from([(-128, 127), (-128, 100), (-20, 127), (-3, 4), (7, 8)]),
    st.integers(1, 6),
    st.integers(-9, 0),
)
def test_every_sum_is_rounded_as_the_reference_rounds_it(
    seed: int, zero: int, ends: tuple[int, int], digits: int, shift: int
):
    rng, clamp = np.random.default_rng(seed), Clamp(zero, *ends)
    multipliers = rng.choice([1 << 30, (1 << 31) - 1, 0, *rng.integers(1 << 30, 1 << 31, 9)], CHANNELS).astype(np.int32)
    shifts = np.full(CHANNELS, shift, np.int8)
    least, most = -rng.integers(0, 10**digits, CHANNELS), rng.integers(0, 10**digits, CHANNELS)
    bias = rng.integers(-(10**digits), 10**digits, CHANNELS, np.int32)
    least, most = least + bias, most + bias
    scales = scales_of(least, most, bias, multipliers, shifts, clamp)

    assert scales is not None
    near = np.arange(-2000, 2000)[:, None] + np.zeros(CHANNELS, np.int64)
    sums = np.clip(np.concatenate([near, rng.integers(least, most + 1, (4000, CHANNELS)), [least, most]]), least, most)
    assert (computed(scales, sums, bias, clamp) == expected(sums, multipliers, shifts, clamp)).all()


def test_ties_of_both_signs_go_away_from_zero():
    clamp = Clamp(1, -128, 127)
    bias, scale = np.zeros(1, np.int32), (np.array([1 << 30], np.int32), np.array([-3], np.int8))
    least, most = np.array([-900]), np.array([900])
    scales = scales_of(least, most, bias, *scale, clamp)

    assert scales is not None and scales.bend[0] > 0
    sums = np.arange(-900, 901)[:, None]
    assert (computed(scales, sums, bias, clamp) == expected(sums, *scale, clamp)).all()


@pytest.mark.parametrize(("shift", "ends"), [(9, (-128, 127)), (0, (5, 5))])
def test_what_has_no_line_is_refused(shift: int, ends: tuple[int, int]):
    one = np.array([1 << 30], np.int32)
    sums = np.array([-5]), np.array([5])

    assert scales_of(*sums, np.zeros(1, np.int32), one, np.array([shift], np.int8), Clamp(0, *ends)) is None
