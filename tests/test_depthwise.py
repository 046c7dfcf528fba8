"""Packed weights of the depthwise convolution for Armv6 SIMD: what the words mean, and when a layer may be packed."""

from __future__ import annotations

import numpy as np
import pytest
from matrix import DATA, linear

from shoehorn_mcu import ops
from shoehorn_mcu.kernels import candidates
from shoehorn_mcu.kernels.depthwise import Depthwise, pack, packable
from shoehorn_mcu.kernels.work import whole_windows
from shoehorn_mcu.ops import fixed_point
from shoehorn_mcu.targets import Isa


def layer(taps: int, channels: int, seed: int = 0) -> Depthwise:
    rng = np.random.default_rng(seed)
    return Depthwise(
        rng.integers(-128, 128, (taps, channels), np.int8),
        rng.integers(-30000, 30000, channels, np.int32),
        rng.integers(1 << 30, 1 << 31, channels).astype(np.int32),
        rng.integers(-11, -4, channels).astype(np.int8),
        int(rng.integers(-128, 128)),
        int(rng.integers(-128, 128)),
    )


def plain(of: Depthwise, x: np.ndarray) -> list[int]:
    """One pixel by the definition; x: [tap][channel]."""
    sums = (of.weights.astype(np.int64) * x).sum(axis=0) + of.bias
    return np.clip(fixed_point.rescale(sums, of.multipliers, of.shifts) + of.y_zero, -128, 127).tolist()


def _s32(value: int) -> int:
    """The value modulo 2^32."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def _halves(word: int) -> tuple[int, int]:
    return ((word & 0xFFFF) ^ 0x8000) - 0x8000, word >> 16


def as_the_kernel_does(of: Depthwise, x: np.ndarray) -> list[int]:
    """One pixel from the packed words, instruction by instruction; taps beyond the window are tap 0 again."""
    taps, channels = x.shape
    rounded = next(n for n in range(5, 53, 4) if n >= taps)
    x = np.concatenate([x, np.repeat(x[:1], rounded - taps, axis=0)])
    words = iter(pack(of).tolist())
    found = np.zeros(channels, np.int64)
    for start in range(0, channels, 4):
        four = min(start, channels - 4) + np.arange(4)
        sums = [next(words) for _ in range(4)]
        (a, c), (b, d) = _halves(next(words)), _halves(next(words))
        sums = [_s32(s + w * v) for s, w, v in zip(sums, (a, b, c, d), x[0, four].tolist(), strict=True)]
        for tap in range(1, rounded, 2):
            for j, channel in enumerate(four):
                first, second = _halves(next(words))
                sums[j] = _s32(sums[j] + first * int(x[tap, channel]) + second * int(x[tap + 1, channel]))
        for j, channel in enumerate(four):
            multiplier, addend, shift = (next(words) for _ in range(3))
            scaled = _s32(((addend << 32) + sums[j] * multiplier + (1 << 31)) >> 32) + (sums[j] >> 31)
            found[channel] = min(max(_s32(scaled) >> shift, -128), 127)
    padding = np.array(list(words), np.int32).view(np.int8)
    assert padding.tolist() == [of.x_zero] * (-(-channels // 4) * 4)
    return found.tolist()


@pytest.mark.parametrize("taps", [2, 3, 5, 6, 9, 25, 49])
@pytest.mark.parametrize("channels", [4, 5, 6, 7, 9, 16])
def test_the_packed_words_hold_the_layer(taps: int, channels: int) -> None:
    of = layer(taps, channels, seed=taps * channels)
    rng = np.random.default_rng(1)
    extreme = [np.full((taps, channels), v, np.int8) for v in (-128, 127, 0)]
    opposed = np.where(of.weights > 0, 127, -128).astype(np.int8)

    assert packable(of)
    for x in (*extreme, opposed, ~opposed, *rng.integers(-128, 128, (8, taps, channels), np.int8)):
        assert as_the_kernel_does(of, x) == plain(of, x)


def test_words_take_two_bytes_per_weight_sixteen_per_channel_and_one_of_padding() -> None:
    assert pack(layer(9, 8)).nbytes == 8 * (2 * 9 + 16 + 1)
    assert pack(layer(9, 7)).nbytes == pack(layer(7, 7)).nbytes == 8 * (2 * 9 + 16 + 1)


def test_a_sum_at_a_half_is_rounded_away_from_zero() -> None:
    """A multiplier of 2^30 and a shift of e divide by 2^(e+1): bias -3, -1, 1, 3 is -1.5, -0.5, 0.5, 1.5 for e = 0."""
    for shift in (1, 2, 5):
        biases = np.array([odd << shift for odd in (-5, -3, -1, 1, 3, 5)], np.int32)
        multipliers, shifts = np.full(6, 1 << 30, np.int32), np.full(6, -shift, np.int8)
        of = Depthwise(np.zeros((9, 6), np.int8), biases, multipliers, shifts, 0, 3)
        x = np.zeros((9, 6), np.int8)

        assert as_the_kernel_does(of, x) == plain(of, x)
        assert plain(of, x) == [3 + v for v in (-3, -2, -1, 1, 2, 3)]


def test_a_layer_that_the_kernel_does_not_compute_exactly_is_not_packed() -> None:
    of = layer(9, 4)
    assert packable(of)
    assert not packable(of._replace(bias=np.array([0, 0, 1 << 30, 0], np.int32)))
    assert not packable(of._replace(shifts=np.array([-5, -5, -5, 0], np.int8)))
    assert not packable(of._replace(shifts=np.array([-5, -5, -5, -23], np.int8)))
    assert packable(of._replace(shifts=np.zeros(4, np.int8), multipliers=np.zeros(4, np.int32)))
    assert not packable(of._replace(weights=of.weights[:, :3]))
    assert not packable(of._replace(weights=of.weights[:1]))
    assert not packable(layer(50, 4))


def test_several_outputs_per_input_are_left_to_the_portable_kernel() -> None:
    for outputs, computed in ((8, True), (16, False)):
        graph = linear(ops.DepthwiseConv2d, np.random.default_rng(0), DATA[0], (1, 5, 5, 8), (1, 3, 3, outputs))
        found = candidates(next(graph.nodes()), (Isa.SIMD32, Isa.C))
        assert ("simd32" in [k.variant.suffix for k in found]) == computed


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize(("taps", "dilation"), [(1, 1), (3, 1), (5, 1), (3, 2)])
def test_windows_without_padding_are_counted(stride: int, taps: int, dilation: int) -> None:
    for size, before, outputs in ((s, b, o) for s in range(1, 9) for b in range(4) for o in range(1, 9)):
        starts = [o * stride - before for o in range(outputs)]
        wanted = sum(s >= 0 and s + (taps - 1) * dilation < size for s in starts)
        assert whole_windows(outputs, taps, size, stride, before, dilation) == wanted
