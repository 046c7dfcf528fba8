"""Packed weights of the depthwise convolution for Helium: what the words mean, and when a layer may be packed."""

from __future__ import annotations

import numpy as np
import pytest
from matrix import DATA, linear
from packed import depthwise_layer, depthwise_output, halves, hard_windows, rounded

from shoehorn_mcu import ops
from shoehorn_mcu.kernels import candidates
from shoehorn_mcu.kernels.depthwise.mve import pack, pack_3x3
from shoehorn_mcu.kernels.depthwise.simd32 import Depthwise, packable_by_pairs
from shoehorn_mcu.machine.targets import Isa

ORDER = [0, 4, 8, 12, 2, 6, 10, 14, 1, 5, 9, 13, 3, 7, 11, 15]


def as_the_kernel_does(of: Depthwise, x: np.ndarray) -> list[int]:
    """One pixel from the packed words; a tap beyond an odd number is tap 0 again."""
    taps, count = x.shape
    x = np.concatenate([x, x[: taps % 2]]).astype(np.int64)
    words = pack(of)
    found = []
    for start in range(0, count, 16):
        kept = min(16, count - start)
        bias, weights, scales, words = np.split(words, np.cumsum([16, 4 * len(x), 32]))
        inputs = np.zeros((len(x), 16), np.int64)
        inputs[:, :kept] = x[:, start : start + kept]
        products = weights.view(np.int8).reshape(len(x), 16) * inputs
        pairs = products[0::2] + products[1::2]
        assert (pairs == pairs.astype(np.int16)).all()
        made = {}
        for place, channel in enumerate(ORDER):
            total = int(pairs[:, channel].sum() + bias[place])
            multipliers, shifts = scales.reshape(4, 2, 4)[place // 4].tolist()
            if channel < kept:
                made[channel] = rounded(total, multipliers[place % 4], shifts[place % 4], of.y_zero)
        found += [made[channel] for channel in range(kept)]
    assert words.view(np.int8).tolist() == [of.x_zero] * (-(-count // 4) * 4)
    return found


def as_the_kernel_for_3x3_does(of: Depthwise, x: np.ndarray) -> list[int]:
    """One pixel from the packed words."""
    words, found = pack_3x3(of), []
    for start in range(0, x.shape[1], 16):
        kept = min(16, x.shape[1] - start)
        weights, scales, words = np.split(words, np.cumsum([36, 48]))
        inputs = np.zeros((9, 16), np.int64)
        inputs[:, :kept] = x[:, start : start + kept]
        sums = (weights.view(np.int8).reshape(9, 16) * inputs).sum(axis=0)
        made = {}
        for place, channel in enumerate(ORDER):
            bias, multipliers, shifts = scales.reshape(4, 3, 4)[place // 4, :, place % 4].tolist()
            made[channel] = rounded(int(sums[channel]) + bias, multipliers, shifts, of.y_zero)
        found += [made[channel] for channel in range(kept)]
    assert words.view(np.int8).tolist() == [of.x_zero] * (-(-x.shape[1] // 4) * 4)
    return found


@pytest.mark.parametrize("count", [1, 3, 4, 15, 16, 17, 40])
def test_the_packed_words_for_3x3_windows_hold_the_layer(count: int) -> None:
    of = depthwise_layer(9, count, seed=count, least=-127)

    for x in hard_windows(of.weights):
        assert as_the_kernel_for_3x3_does(of, x) == depthwise_output(of, x)


@pytest.mark.parametrize("taps", [1, 2, 3, 9, 25, 49])
@pytest.mark.parametrize("count", [1, 3, 4, 15, 16, 17, 40])
def test_the_packed_words_hold_the_layer(taps: int, count: int) -> None:
    of = depthwise_layer(taps, count, seed=taps * count, least=-127)

    assert packable_by_pairs(of)
    for x in hard_windows(of.weights):
        assert as_the_kernel_does(of, x) == depthwise_output(of, x)


def test_words_take_a_byte_per_weight_twelve_per_channel_and_one_of_padding() -> None:
    assert pack(depthwise_layer(9, 16)).nbytes == 16 * (10 + 12 + 1)
    assert pack(depthwise_layer(10, 14)).nbytes == 16 * (10 + 12 + 1)
    assert pack_3x3(depthwise_layer(9, 14)).nbytes == 16 * (9 + 12 + 1)


def test_a_sum_at_a_half_is_rounded_away_from_zero() -> None:
    x = np.zeros((9, 6), np.int8)
    for shift in (1, 2, 5):
        of = Depthwise(np.zeros((9, 6), np.int8), *halves(shift), 0, 3)

        assert as_the_kernel_does(of, x) == depthwise_output(of, x) == [3 + v for v in (-3, -2, -1, 1, 2, 3)]


def test_few_channels_are_repeated_for_adjacent_pixels() -> None:
    of = depthwise_layer(9, 8, least=-127)
    twice = Depthwise(*(np.tile(each, 2) for each in of[:4]), of.x_zero, of.y_zero)
    assert pack(of)[:-2].tolist() == pack(twice)[:-4].tolist()


def test_two_taps_must_fit_sixteen_bits() -> None:
    of = depthwise_layer(4, 3)
    for pair, fits in (((-127, 127), True), ((-128, 127), True), ((-128, -128), False), ((0, -128), True)):
        weights = np.zeros((4, 3), np.int8)
        weights[2:, 1] = pair
        assert packable_by_pairs(of._replace(weights=weights)) is fits


def test_a_layer_that_the_kernel_does_not_compute_exactly_is_not_packed() -> None:
    of = depthwise_layer(9, 4, least=-127)
    assert packable_by_pairs(of)
    assert not packable_by_pairs(of._replace(bias=np.array([0, 0, 1 << 30, 0], np.int32)))
    assert not packable_by_pairs(of._replace(shifts=np.array([-5, -5, -5, 0], np.int8)))
    assert not packable_by_pairs(depthwise_layer(50, 4, least=-127))


def test_several_outputs_per_input_are_left_to_the_portable_kernel() -> None:
    for outputs, computed in ((8, {"mve", "mve_3x3"}), (16, set())):
        graph = linear(ops.DepthwiseConv2d, np.random.default_rng(0), DATA[0], (1, 5, 5, 8), (1, 3, 3, outputs))
        found = candidates(next(graph.nodes()), (Isa.MVE,))
        assert {kernel.variant.suffix for kernel in found} == computed


def test_windows_of_another_shape_are_left_to_the_kernel_for_any() -> None:
    for shape in ((1, 3), (3, 1), (3, 4), (5, 5)):
        graph = linear(ops.DepthwiseConv2d, np.random.default_rng(0), DATA[0], (1, 5, 5, 8), (1, *shape, 8))
        assert [k.variant.suffix for k in candidates(next(graph.nodes()), (Isa.MVE,))] == ["mve"]
