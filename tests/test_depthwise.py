"""Packed weights of the depthwise convolution for Armv6 SIMD: what the words mean, and when a layer may be packed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from matrix import DATA, ONE_SIDED, linear
from packed import depthwise_layer, depthwise_output, halves, hard_windows, s32, scaled, scaled_up

from shoehorn_mcu import ops
from shoehorn_mcu.kernels import candidates
from shoehorn_mcu.kernels.base.rounding import Clamp, Up
from shoehorn_mcu.kernels.base.work import whole_windows
from shoehorn_mcu.kernels.depthwise.simd32 import Depthwise, pack, pack_strip, packable, rounded_up
from shoehorn_mcu.machine.targets import Isa


def _pair(word: int) -> tuple[int, int]:
    return ((word & 0xFFFF) ^ 0x8000) - 0x8000, word >> 16


def as_the_kernel_does(of: Depthwise, x: np.ndarray, up: Up | None = None) -> list[int]:
    """One pixel from the packed words, instruction by instruction; taps beyond the window are tap 0 again."""
    taps, count = x.shape
    rounded = next(n for n in range(5, 53, 4) if n >= taps)
    x = np.concatenate([x, np.repeat(x[:1], rounded - taps, axis=0)])
    words = iter(pack(of, up).tolist())
    found = np.zeros(count, np.int64)
    for start in range(0, count, 4):
        four = min(start, count - 4) + np.arange(4)
        sums = [next(words) for _ in range(4)]
        (a, c), (b, d) = _pair(next(words)), _pair(next(words))
        sums = [s32(s + w * v) for s, w, v in zip(sums, (a, b, c, d), x[0, four].tolist(), strict=True)]
        for tap in range(1, rounded, 2):
            for j, channel in enumerate(four):
                first, second = _pair(next(words))
                sums[j] = s32(sums[j] + first * int(x[tap, channel]) + second * int(x[tap + 1, channel]))
        for j, channel in enumerate(four):
            scale, constants = (scaled, 3) if up is None else (scaled_up, 2)
            found[channel] = scale(sums[j], *(next(words) for _ in range(constants)))
    padding = np.array(list(words), np.int32).view(np.int8)
    assert padding.tolist() == [of.x_zero] * (-(-count // 4) * 4)
    return found.tolist()


@pytest.mark.parametrize("taps", [2, 3, 5, 6, 9, 25, 49])
@pytest.mark.parametrize("count", [4, 5, 6, 7, 9, 16])
def test_the_packed_words_hold_the_layer(taps: int, count: int) -> None:
    of = depthwise_layer(taps, count, seed=taps * count)

    assert packable(of)
    for x in hard_windows(of.weights):
        assert as_the_kernel_does(of, x) == depthwise_output(of, x)


@pytest.mark.parametrize(("taps", "count"), [(2, 4), (9, 7), (9, 16), (49, 5)])
def test_the_packed_words_of_a_layer_that_is_rounded_up_hold_it(taps: int, count: int) -> None:
    of = depthwise_layer(taps, count, seed=taps * count)._replace(y_zero=-40)
    for low, high in ((-40, 127), (-39, 50)):
        up = rounded_up(of, Clamp(of.y_zero, low, high))
        assert up is not None
        for x in hard_windows(of.weights):
            assert np.clip(as_the_kernel_does(of, x, up), low, high).tolist() == depthwise_output(of, x, low, high)


@pytest.mark.parametrize("count", [4, 5, 8, 11])
def test_the_words_for_a_strip_hold_a_layer_of_three_lines(count: int) -> None:
    of = depthwise_layer(9, count, seed=count)._replace(y_zero=-40)
    for low, high in ((-40, 127), (-39, 50)):
        up = rounded_up(of, Clamp(of.y_zero, low, high))
        assert up is not None
        words = pack_strip(of, up)
        blocks = -(-count // 4)
        assert words[32 * blocks :].view(np.int8).tolist() == [of.x_zero] * (4 * blocks)
        constants = words[: 32 * blocks].reshape(blocks, 4, 8).tolist()
        for x in hard_windows(of.weights):
            found = np.zeros(count, np.int64)
            for number, block in enumerate(constants):
                for j, channel in enumerate(min(4 * number, count - 4) + np.arange(4)):
                    found[channel] = _of_a_strip(x[:, channel].reshape(3, 3).tolist(), block[j])
            assert np.clip(found, low, high).tolist() == depthwise_output(of, x, low, high)


def _of_a_strip(x: list[list[int]], words: list[int]) -> int:
    """An output as the kernel computes it: `x` is [line][column], `words` the constants of its channel."""
    *weights, multiplier, total, addend = words
    inputs = ((x[0][0], x[1][0]), (x[0][1], x[1][1]), (x[0][2], x[1][2]), (x[2][0], x[2][1]), (0, x[2][2]))
    for word, (a, b) in zip(weights, inputs, strict=True):
        low, high = _pair(word)
        total = s32(total + low * a + high * b)
    return scaled_up(total, multiplier, addend)


def test_rows_that_a_strip_computes_have_windows_of_three_by_three_and_no_outputs_below_the_zero_point() -> None:
    def found(window: tuple[int, int], low: int = -30, **rest: tuple[int, int]) -> bool:
        data, shared = replace(ONE_SIDED, clamp=ops.Clamp(low, 90)), {"stride": (1, 1), "dilation": (1, 1), **rest}
        rng = np.random.default_rng(0)
        graph = linear(ops.DepthwiseConv2d, rng, data, (1, 9, 9, 8), (1, *window, 8), padding=ops.Padding(), **shared)
        kernels = candidates(next(graph.nodes()), (Isa.SIMD32, Isa.C))
        return "simd32_strip" in [k.variant.suffix for k in kernels]

    assert found((3, 3)) and found((3, 3), stride=(2, 2)) and found((3, 3), dilation=(2, 1))
    assert not found((2, 3)) and not found((3, 3), low=-128)
    assert not found((3, 3), stride=(1, 3)) and not found((3, 3), dilation=(1, 2))


def test_rows_with_code_of_their_width_have_three_to_eight_columns_and_one_of_padding_on_either_side() -> None:
    def found(width: int, left: int = 1, right: int = 1, stride: int = 1) -> list[str]:
        data, shared = replace(ONE_SIDED, clamp=ops.Clamp(-30, 90)), {"stride": (1, stride), "dilation": (1, 1)}
        padding = ops.Padding(1, 1, left, right)
        rng = np.random.default_rng(0)
        graph = linear(ops.DepthwiseConv2d, rng, data, (1, 4, width, 8), (1, 3, 3, 8), padding=padding, **shared)
        kernels = candidates(next(graph.nodes()), (Isa.SIMD32, Isa.C))
        return [k.tile.name for k in kernels if k.variant.suffix == "simd32_narrow"]

    assert [found(width) for width in (2, 3, 5, 8, 9)] == [[], ["u10_p3"], ["u10_p5"], ["u10_p8"], []]
    assert found(5, left=0, right=2) == found(5, left=2, right=0) == found(5, right=0) == found(5, stride=2) == []


def test_words_take_two_bytes_per_weight_sixteen_per_channel_and_one_of_padding() -> None:
    assert pack(depthwise_layer(9, 8)).nbytes == 8 * (2 * 9 + 16 + 1)
    assert pack(depthwise_layer(9, 7)).nbytes == pack(depthwise_layer(7, 7)).nbytes == 8 * (2 * 9 + 16 + 1)


def test_a_sum_at_a_half_is_rounded_away_from_zero() -> None:
    x = np.zeros((9, 6), np.int8)
    for shift in (1, 2, 5):
        of = Depthwise(np.zeros((9, 6), np.int8), *halves(shift), 0, 3)

        assert as_the_kernel_does(of, x) == depthwise_output(of, x) == [3 + v for v in (-3, -2, -1, 1, 2, 3)]


def test_a_layer_that_the_kernel_does_not_compute_exactly_is_not_packed() -> None:
    of = depthwise_layer(9, 4)
    assert packable(of)
    assert not packable(of._replace(bias=np.array([0, 0, 1 << 30, 0], np.int32)))
    assert not packable(of._replace(shifts=np.array([-5, -5, -5, 0], np.int8)))
    assert not packable(of._replace(shifts=np.array([-5, -5, -5, -23], np.int8)))
    assert packable(of._replace(shifts=np.zeros(4, np.int8), multipliers=np.zeros(4, np.int32)))
    assert not packable(of._replace(weights=of.weights[:, :3]))
    assert not packable(of._replace(weights=of.weights[:1]))
    assert not packable(depthwise_layer(50, 4))


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
