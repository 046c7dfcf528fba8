"""Packed weights of the 1x1 convolution for Armv6 SIMD: what the words mean, and when a layer may be packed."""

from __future__ import annotations

import numpy as np
import pytest

from shoehorn_mcu.kernels.pointwise import Linear, pack, packable
from shoehorn_mcu.ops import fixed_point


def layer(outputs: int, inputs: int, seed: int = 0) -> Linear:
    rng = np.random.default_rng(seed)
    return Linear(
        rng.integers(-127, 128, (outputs, inputs), np.int8),
        rng.integers(-30000, 30000, outputs, np.int32),
        rng.integers(1 << 30, 1 << 31, outputs).astype(np.int32),
        rng.integers(-11, -4, outputs).astype(np.int8),
        int(rng.integers(-128, 128)),
    )


def plain(of: Linear, x: np.ndarray) -> list[int]:
    """One pixel by the definition."""
    sums = of.weights.astype(np.int64) @ x.astype(np.int64) + of.bias
    scaled = fixed_point.rescale(sums, of.multipliers, of.shifts) + of.y_zero
    return np.clip(scaled, -128, 127).tolist()


def _s32(value: int) -> int:
    """The value modulo 2^32."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def _s16(value: int) -> int:
    return (value + (1 << 15)) % (1 << 16) - (1 << 15)


def _s8(value: int) -> int:
    return (value + (1 << 7)) % (1 << 8) - (1 << 7)


def _smlad(pair: tuple[int, int], word: int, total: int) -> int:
    return _s32(total + pair[0] * _s16(word) + pair[1] * _s16(word >> 16))


def _sxtb16(word: int) -> int:
    return (_s8(word >> 16) & 0xFFFF) << 16 | _s8(word) & 0xFFFF


def as_the_kernel_does(of: Linear, x: np.ndarray) -> list[int]:
    """One pixel from the packed words, instruction by instruction."""
    outputs, inputs = of.weights.shape
    words = iter(pack(of).tolist())
    starts = [*range(0, inputs - 3, 4), *([inputs - 4] if inputs % 4 else [])]
    found: list[int] = []
    for _ in range(0, outputs, 4):
        sums = [0, 0, 0, 0]
        for start in starts:
            four = x[start : start + 4].tolist()
            for pair in ((four[0], four[2]), (four[1], four[3])):
                for low in (0, 2):
                    word = next(words)
                    sums[low + 1] = _smlad(pair, word, sums[low + 1])
                    sums[low] = _smlad(pair, _sxtb16(word), sums[low])
        sums = [sums[0], _s32(sums[1] - sums[0]) >> 8, sums[2], _s32(sums[3] - sums[2]) >> 8]
        for total in sums:
            bias, addend, multiplier, shift = (next(words) for _ in range(4))
            twice = _s32(2 * total + bias)
            scaled = _s32((addend << 32) + twice * multiplier + (1 << 31) >> 32) + (twice >> 31)
            found.append(min(max(_s32(scaled) >> shift, -128), 127))
    assert next(words, None) is None
    return found[:outputs]


@pytest.mark.parametrize("outputs", [1, 2, 3, 4, 5, 8, 11])
@pytest.mark.parametrize("inputs", [4, 5, 6, 7, 8, 9, 15, 64])
def test_the_packed_words_hold_the_layer(outputs: int, inputs: int) -> None:
    of = layer(outputs, inputs, seed=outputs * inputs)
    rng = np.random.default_rng(1)
    extreme = [np.full(inputs, v, np.int8) for v in (-128, 127, 0)]
    opposed = [np.where(of.weights[o] > 0, 127, -128).astype(np.int8) for o in range(outputs)]

    assert packable(of)
    for x in (*extreme, *opposed, *rng.integers(-128, 128, (8, inputs), np.int8)):
        assert as_the_kernel_does(of, x) == plain(of, x)


def test_words_take_a_byte_per_weight_and_sixteen_per_output() -> None:
    assert pack(layer(8, 64)).nbytes == 8 * 64 + 8 * 16
    assert pack(layer(7, 61)).nbytes == 8 * 64 + 8 * 16


def test_a_sum_at_a_half_is_rounded_away_from_zero() -> None:
    """A multiplier of 2^30 and a shift of e divide by 2^(e+1): bias -3, -1, 1, 3 is -1.5, -0.5, 0.5, 1.5 for e = 0."""
    for shift in (1, 2, 5):
        biases = np.array([odd << shift for odd in (-5, -3, -1, 1, 3, 5)], np.int32)
        multipliers, shifts = np.full(6, 1 << 30, np.int32), np.full(6, -shift, np.int8)
        of = Linear(np.zeros((6, 4), np.int8), biases, multipliers, shifts, 3)

        assert as_the_kernel_does(of, np.zeros(4, np.int8)) == plain(of, np.zeros(4, np.int8))
        assert plain(of, np.zeros(4, np.int8)) == [3 + v for v in (-3, -2, -1, 1, 2, 3)]


def test_sums_of_the_second_channel_of_a_pair_must_stay_below_two_to_the_23rd() -> None:
    """516 weights of 127 times -128 are -2^23 + 512: one more is too much, but only in a pair's second channel."""
    for inputs, weight, fits in ((516, 127, True), (517, 127, False)):
        for place in (0, 1):
            weights = np.zeros((2, inputs), np.int8)
            weights[place] = weight
            of = layer(2, inputs)._replace(weights=weights, bias=np.zeros(2, np.int32))
            assert packable(of) is (fits or place == 0)


def test_a_layer_that_the_rounding_does_not_fit_is_not_packed() -> None:
    of = layer(4, 8)
    assert packable(of)
    assert not packable(of._replace(bias=np.array([0, 0, 1 << 30, 0], np.int32)))
    assert not packable(of._replace(shifts=np.array([-5, -5, -5, 0], np.int8)))
    assert not packable(of._replace(shifts=np.array([-5, -5, -5, -23], np.int8)))
    assert packable(of._replace(shifts=np.zeros(4, np.int8), multipliers=np.zeros(4, np.int32)))
    assert not packable(of._replace(weights=of.weights[:, :3]))


def test_a_weight_of_minus_128_is_packed_where_the_halfword_holds_it() -> None:
    of = layer(2, 4)
    for first, second, fits in ((-1, -128, False), (0, -128, True), (-128, -127, True)):
        weights = np.zeros((2, 4), np.int8)
        weights[:, 0] = first, second
        changed = of._replace(weights=weights)
        assert packable(changed) is fits
        if fits:
            x = np.array([-128, 1, 2, 3], np.int8)
            assert as_the_kernel_does(changed, x) == plain(changed, x)
