"""Packed weights of the depthwise convolution for NEON: what the words mean, and when a layer may be packed."""

from __future__ import annotations

import numpy as np
import pytest
from matrix import DATA, linear
from packed import depthwise_layer, depthwise_output, halves, hard_windows, rounded

from shoehorn_mcu import ops
from shoehorn_mcu.kernels import candidates
from shoehorn_mcu.kernels.depthwise.neon import pack
from shoehorn_mcu.kernels.depthwise.simd32 import Depthwise, packable_by_pairs
from shoehorn_mcu.machine.targets import Isa


def as_the_kernel_does(of: Depthwise, x: np.ndarray) -> list[int]:
    """One pixel from the packed words."""
    taps, count = x.shape
    size = 16 if count >= 16 else 8
    words = pack(of)
    found = [0] * count
    for start in range(0, count, size):
        channels = np.arange(size) + min(start, count - size)
        bias, weights, multipliers, shifts, words = np.split(words, np.cumsum([16, 4 * taps, 16, 16]))
        products = weights.view(np.int8).reshape(taps, 16)[:, :size].astype(np.int64) * x[:, channels]
        pairs = np.add.reduceat(products, range(0, taps, 2), axis=0)
        assert (pairs == pairs.astype(np.int16)).all()
        sums = (pairs.sum(axis=0) + bias[:size]).tolist()
        for channel, *each in zip(channels, sums, multipliers.tolist(), shifts.tolist(), strict=False):
            found[channel] = rounded(*each, of.y_zero)
    assert words.view(np.int8).tolist() == [of.x_zero] * (-(-count // 4) * 4)
    return found


@pytest.mark.parametrize("taps", [1, 2, 3, 9, 25, 49])
@pytest.mark.parametrize("count", [8, 9, 15, 16, 17, 40])
def test_the_packed_words_hold_the_layer(taps: int, count: int) -> None:
    of = depthwise_layer(taps, count, seed=taps * count, least=-127)

    assert packable_by_pairs(of)
    for x in hard_windows(of.weights):
        assert as_the_kernel_does(of, x) == depthwise_output(of, x)


def test_words_take_a_byte_per_weight_twelve_per_channel_and_one_of_padding() -> None:
    assert pack(depthwise_layer(9, 32)).nbytes == 32 * (9 + 12 + 1)
    assert pack(depthwise_layer(10, 20)).nbytes == 32 * (10 + 12) + 20


def test_a_sum_at_a_half_is_rounded_away_from_zero() -> None:
    x = np.zeros((9, 8), np.int8)
    for shift in (1, 2, 5):
        scales = (np.concatenate([each, each[:2]]) for each in halves(shift))
        of = Depthwise(np.zeros((9, 8), np.int8), *scales, 0, 3)

        assert as_the_kernel_does(of, x) == depthwise_output(of, x) == [3 + v for v in (-3, -2, -1, 1, 2, 3, -3, -2)]


def test_few_channels_and_several_outputs_per_input_are_left_to_the_portable_kernel() -> None:
    for inputs, outputs, computed in ((8, 8, True), (16, 16, True), (8, 16, False), (7, 7, False)):
        graph = linear(ops.DepthwiseConv2d, np.random.default_rng(0), DATA[0], (1, 5, 5, inputs), (1, 3, 3, outputs))
        found = candidates(next(graph.nodes()), (Isa.NEON, Isa.C))
        assert ("neon" in [k.variant.suffix for k in found]) == computed
