"""Packed weights of the convolutions for Armv6 SIMD: what the words mean, and which layers they compute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from packed import ONE, conv, conv_layer, conv_output, halves, hard_inputs, s32, scaled, scaled_up

from shoehorn_mcu import ops
from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels.base.contract import Instance, array_of
from shoehorn_mcu.kernels.base.packed import Linear, pack, packable, raised, rounded_up
from shoehorn_mcu.kernels.base.rounding import Clamp, Up
from shoehorn_mcu.kernels.choice import candidates
from shoehorn_mcu.kernels.linear.conv import constants
from shoehorn_mcu.kernels.linear.row_conv import words_of
from shoehorn_mcu.machine.targets import Isa


def _s16(value: int) -> int:
    return (value + (1 << 15)) % (1 << 16) - (1 << 15)


def _s8(value: int) -> int:
    return (value + (1 << 7)) % (1 << 8) - (1 << 7)


def _smlad(pair: tuple[int, int], word: int, total: int) -> int:
    return s32(total + pair[0] * _s16(word) + pair[1] * _s16(word >> 16))


def _sxtb16(word: int) -> int:
    return (_s8(word >> 16) & 0xFFFF) << 16 | _s8(word) & 0xFFFF


def _uxtb16(word: int) -> int:
    return word & 0x00FF00FF


def as_the_kernel_does(of: Linear, x: np.ndarray, runs: int = 1, up: Up | None = None) -> list[int]:
    """One pixel from the packed words, instruction by instruction; by the twin for offsets where the layer has some."""
    outputs, inputs = of.weights.shape
    run = inputs // runs
    words = iter(pack(of, run, up).tolist())
    ends = [*range(4, run + 1, 4), *([run] if run % 4 else [])]
    starts = [first + end - 4 for first in range(0, inputs, run) for end in ends]
    found: list[int] = []
    extended = _uxtb16 if of.raised else _sxtb16
    read = sum(int(x[start : start + 4].sum()) for start in starts)
    for _ in range(0, outputs, 4):
        sums = [next(words) for _ in range(4)]
        if of.raised:
            sums = [s32(each + read * next(words)) for each in sums]
        for start in starts:
            four = x[start : start + 4].tolist()
            for pair in ((four[0], four[2]), (four[1], four[3])):
                for low in (0, 2):
                    word = next(words)
                    sums[low + 1] = _smlad(pair, word, sums[low + 1])
                    sums[low] = _smlad(pair, extended(word), sums[low])
        for channel in range(4):
            total = sums[channel] if channel % 2 == 0 else s32(sums[channel] - sums[channel - 1])
            constants = [next(words) for _ in range(3)]
            found.append((_rounded if up is None else _rounded_up)(total, channel % 2 == 1, *constants))
    assert next(words, None) is None
    return found[:outputs]


def _rounded(total: int, second: bool, addend: int, multiplier: int, shift: int) -> int:
    """`total` has 2^8 of the sum of the second channel of a pair."""
    return scaled(total >> 7 if second else s32(total << 1), multiplier, addend, shift)


def _rounded_up(total: int, second: bool, shift: int, multiplier: int, addend: int) -> int:
    """As _rounded, by SMMLA and SSAT."""
    return scaled_up(total >> shift if second else s32(total << shift), multiplier, addend)


@pytest.mark.parametrize("outputs", [1, 2, 3, 4, 5, 8, 11])
@pytest.mark.parametrize("inputs", [4, 5, 6, 7, 8, 9, 15, 64])
def test_the_packed_words_hold_the_layer(outputs: int, inputs: int) -> None:
    of = conv_layer(outputs, inputs, seed=outputs * inputs)

    assert packable(of)
    for x in hard_inputs(of.weights):
        assert as_the_kernel_does(of, x) == conv_output(of, x)


@pytest.mark.parametrize(("runs", "run"), [(2, 4), (3, 5), (9, 6), (4, 7), (2, 12)])
def test_each_run_of_a_window_is_filled_up_to_fours(runs: int, run: int) -> None:
    of = conv_layer(3, runs * run, seed=run)
    for x in np.random.default_rng(run).integers(-128, 128, (8, runs * run), np.int8):
        assert as_the_kernel_does(of, x, runs) == conv_output(of, x)


@pytest.mark.parametrize("outputs", [1, 2, 3, 4, 5, 11])
@pytest.mark.parametrize(("runs", "run"), [(1, 4), (1, 7), (1, 64), (2, 4), (9, 6), (4, 7)])
@pytest.mark.parametrize("offset", [0, 127, 128])
def test_the_packed_words_hold_every_layer_of_bytes_once_it_is_raised(
    outputs: int, runs: int, run: int, offset: int
) -> None:
    """With all weights that a byte has, many of them -128, and offsets up to `offset` of either sign, or all of 128."""
    rng = np.random.default_rng(outputs * run)
    of = conv_layer(outputs, runs * run, seed=outputs * run)
    weights = rng.choice(np.array([-128, -127, -1, 0, 127, *rng.integers(-128, 128, 5)], np.int8), of.weights.shape)
    offsets = rng.integers(-offset, offset + 1, outputs, np.int32) if offset < 128 else np.full(outputs, 128, np.int32)
    before = of._replace(weights=weights, offsets=offsets)
    made = raised(before)
    up = rounded_up(made, Clamp(of.y_zero, of.y_zero, 127))

    assert packable(made)
    assert made.whole.tolist() == before.whole.tolist()
    for x in hard_inputs(before.whole):
        plain = of._replace(weights=before.whole)
        assert as_the_kernel_does(made, x, runs) == conv_output(plain, x)
        if up is not None:
            found = np.clip(as_the_kernel_does(made, x, runs, up), of.y_zero, 127).tolist()
            assert found == conv_output(plain, x, of.y_zero, 127)


def _changed(node: Node, weights: Mapping[tuple[int, int], int]) -> Node:
    """The node with these weights, by output and place in the window."""
    data = np.array(node.weights.data)
    for (output, place), value in weights.items():
        data[output].reshape(-1)[place] = value
    (x, before, *rest) = node.inputs
    return replace(node, inputs=(x, replace(before, data=data), *rest))


@pytest.mark.parametrize("size", [1, 3])
def test_layers_with_pairs_that_are_no_halfword_have_kernels_for_offsets_and_no_others(size: int) -> None:
    """A pair with the second weight -128 is no halfword if the first weight is negative."""
    node = conv(8, size, size)
    fits, not_ = (_changed(node, {(2, 5): first, (3, 5): -128}) for first in (0, -1))

    assert kernels(fits) == kernels(node)
    assert kernels(not_) and all(name.endswith("_offsets") for name in kernels(not_))
    others = ("1x1", "wide_1x1") if size == 1 else ("", "wide")
    assert {f"simd32_{name}_offsets".replace("__", "_") for name in others} <= kernels(not_)
    assert not any(is_of_rows(kernel) for kernel in candidates(not_, (Isa.SIMD32,)))


@pytest.mark.parametrize("outputs", [1, 2, 3, 4, 5, 11])
@pytest.mark.parametrize("inputs", [4, 7, 64])
def test_the_packed_words_of_a_layer_that_is_rounded_up_hold_it(outputs: int, inputs: int) -> None:
    of = conv_layer(outputs, inputs, seed=outputs * inputs)._replace(y_zero=-40)
    for low, high in ((-40, 127), (-39, 50)):
        up = rounded_up(of, Clamp(of.y_zero, low, high))
        assert up is not None
        for x in hard_inputs(of.weights):
            assert np.clip(as_the_kernel_does(of, x, 1, up), low, high).tolist() == conv_output(of, x, low, high)


def test_words_take_a_byte_per_weight_and_sixteen_per_output() -> None:
    assert pack(conv_layer(8, 64), 64).nbytes == 8 * 64 + 8 * 16
    assert pack(conv_layer(7, 61), 61).nbytes == 8 * 64 + 8 * 16
    assert pack(conv_layer(8, 9 * 6), 6).nbytes == 8 * 9 * 8 + 8 * 16


def packed_kernels(node: Node) -> list[Instance]:
    """Those that read packed words of whole windows or taps."""
    found = candidates(node, (Isa.SIMD32,))
    packed = [kernel for kernel in found if kernel.variant.isa is Isa.SIMD32 and kernel.variant.pack is not None]
    return [kernel for kernel in packed if not kernel.variant.choice and not is_of_rows(kernel)]


def is_of_rows(kernel: Instance) -> bool:
    """Whether it reads the lines of windows."""
    return kernel.variant.suffix.startswith("simd32_row")


def kernels(node: Node) -> set[str]:
    return {kernel.variant.suffix for kernel in packed_kernels(node)}


def test_a_window_is_computed_where_it_is_small_or_has_few_taps() -> None:
    assert kernels(conv(4, 1, 1)) == {"simd32_1x1", "simd32_wide_1x1"}
    assert kernels(conv(4, 1, 1, clamp=ops.Clamp(0, 127))) == {"simd32_1x1", "simd32_wide_1x1", "simd32_wide_up_1x1"}
    assert kernels(conv(4, 3, 3, clamp=ops.Clamp(0, 127))) == {"simd32", "simd32_wide", "simd32_wide_up"}
    both = {"simd32", "simd32_wide"}
    assert kernels(conv(4, 1, 1, ONE)) == both
    assert kernels(conv(3, 1, 1, ONE)) == set()  # fewer than four inputs
    assert kernels(conv(3, 3, 3)) == kernels(conv(32, 3, 3)) == kernels(conv(5, 5, 5)) == both
    assert kernels(conv(1, 9, 9)) == kernels(conv(2, 7, 7)) == both  # 98 elements
    assert kernels(conv(3, 6, 6)) == kernels(conv(4, 6, 5)) == set()
    assert kernels(conv(8, 3, 3, groups=2)) == set()


def rows(node: Node) -> dict[str, int]:
    """The kernels that read lines and round twice, each with its scratch."""
    found = [kernel for kernel in candidates(node, (Isa.SIMD32,)) if is_of_rows(kernel)]
    return {k.key.removeprefix("conv2d_s8_"): k.scratch_bytes(node) for k in found if "up" not in k.tile.sizes}


def test_windows_of_lines_of_four_elements_are_read_by_lines() -> None:
    assert rows(conv(4, 1, 1)) == {"simd32_row_1x1_o4_p2_e144": 0}
    assert rows(conv(4, 1, 1, ONE)) == rows(conv(3, 3, 3)) == rows(conv(1, 9, 9)) == {"simd32_row_o4_p2_t16_e144": 0}
    assert rows(conv(3, 1, 1)) == rows(conv(3, 9, 1)) == rows(conv(8, 3, 3, groups=2)) == {}


def test_what_lines_are_extended_to_is_on_the_stack_or_in_scratch() -> None:
    assert rows(conv(144, 1, 1)) == {"simd32_row_1x1_o4_p2_e144": 0}
    assert rows(conv(145, 1, 1)) == {"simd32_row_1x1_o4_p2_e288": 0}
    assert rows(conv(289, 1, 1)) == {"simd32_row_1x1_o4_p2": 8 * 145}  # 144 words of fours, and one of the last
    assert rows(conv(65, 3, 3)) == {"simd32_row_o4_p2_t16": 8 * 3 * 98 + 3 * 4 * 65}  # and the frame of a pair


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (4, [(0, 2), (1, 3)]),
        (5, [(0, 2), (1, 3), (-1, 4)]),
        (6, [(0, 2), (1, 3), (4, 5)]),
        (7, [(0, 2), (1, 3), (-1, 5), (4, 6)]),
        (8, [(0, 2), (1, 3), (4, 6), (5, 7)]),
    ],
)
def test_every_element_of_a_line_is_in_one_word(run: int, words: list[tuple[int, int]]) -> None:
    assert words_of(run) == words


@pytest.mark.parametrize(
    ("node", "tiles"),
    [
        (conv(96, 1, 1), {"o4_p2_e144": 0, "o4_p3_e144": 0}),
        (conv(97, 1, 1), {"o4_p2_e144": 0, "o4_p3_e288": 0}),
        (conv(144, 1, 1), {"o4_p2_e144": 0, "o4_p3_e288": 0}),
        (conv(145, 1, 1), {"o4_p2_e288": 0, "o4_p3_e288": 0}),
        (conv(192, 1, 1), {"o4_p2_e288": 0, "o4_p3_e288": 0}),
        (conv(193, 1, 1), {"o4_p2_e288": 0}),
        (conv(144, 1, 1, row=1), {"o4_p2_e144": 0}),
        (conv(288, 1, 1), {"o4_p2_e288": 0}),
        (conv(289, 1, 1), {"o4_p2": 4 * 292, "o4_p1_e288": 0}),
        (conv(576, 1, 1), {"o4_p2": 4 * 576, "o4_p1_e288": 0}),
        (conv(577, 1, 1), {"o4_p2": 4 * 580}),
        (conv(5, 4, 4), {"o4_p2_t25_e144": 0}),  # a copied window
        (conv(6, 5, 5), {"o4_p2_t25_e288": 0}),  # 25 runs of 6, filled up to 8
        (conv(65, 3, 3), {"o4_p2_t25": 4 * 9 * 68}),
    ],
)
def test_large_windows_are_extended_in_scratch_or_one_at_a_time(node: Node, tiles: dict[str, int]) -> None:
    wide = [k for k in candidates(node, (Isa.SIMD32,)) if k.variant.suffix.startswith("simd32_wide")]

    assert {k.tile.name: k.scratch_bytes(node) for k in wide} == tiles


@pytest.mark.parametrize(
    ("pixels", "pairs", "threes"), [(2, 1, 0), (3, 0, 1), (4, 2, 0), (5, 1, 1), (6, 3, 0), (7, 2, 1)]
)
def test_three_pixels_at_the_end_of_an_odd_row_are_computed_together(pixels: int, pairs: int, threes: int) -> None:
    node = conv(32, 1, 1, row=pixels)
    (two, three) = (k.work(node) for k in candidates(node, (Isa.SIMD32,)) if k.variant.suffix == "simd32_wide_1x1")

    assert (three.get("pairs", 0), three.get("threes", 0)) == (pairs, threes)
    assert (two.get("pairs", 0), two.get("singles", 0)) == (pairs + threes, threes)
    assert three.get("three_fours", 0) == threes * 2 * 8  # twice two outputs, 32 inputs
    assert "singles" not in three
    assert dict(two) == dict(three) or threes


@pytest.mark.parametrize(
    ("node", "fits"),
    [
        (conv(32, 3, 3), False),  # 288 elements: the stack holds two windows
        (conv(33, 3, 3), True),
        (conv(104, 3, 3), True),  # 8 sums and 312 elements
        (conv(105, 3, 3), False),  # 3 * 108 elements
        (conv(320, 1, 1), False),  # one line
        (conv(80, 2, 2), True),
        (conv(9, 6, 6), False),  # more than 25 taps
    ],
)
def test_windows_with_small_lines_are_extended_line_by_line(node: Node, fits: bool) -> None:
    lines = [k for k in candidates(node, (Isa.SIMD32,)) if k.variant.body == "simd32_lines"]

    assert bool(lines) is fits
    assert not any(k.scratch_bytes(node) for k in lines)


def test_only_windows_with_taps_are_copied() -> None:
    for node, copied in (
        (conv(5, 1, 1), False),
        (conv(5, 1, 1, ONE), True),
        (conv(3, 3, 3), True),
        (conv(8, 3, 3), False),
    ):
        (kernel, *_) = packed_kernels(node)
        assert ("copies" in kernel.work(node)) == copied


def test_where_taps_are_read_in_place_the_weights_begin_with_a_tap_of_the_input_s_zero() -> None:
    for inputs, copied in ((64, False), (63, False), (8, False), (7, True), (3, True)):
        node = conv(inputs, 3, 3)
        (kernel, *_) = (k for k in candidates(node, (Isa.SIMD32,)) if k.variant.suffix == "simd32")
        weights = array_of(kernel.params(node)["weights"])
        assert weights is not None
        of = Linear(*(array_of(v) for v in constants(node).values()), 0)
        packed = pack(of._replace(weights=of.weights.reshape(4, -1)), 9 * inputs if copied else inputs)
        padding = weights[: len(weights) - len(packed)]
        assert weights[len(padding) :].tolist() == packed.tolist()
        assert padding.view(np.int8).tolist() == ([] if copied else [-7] * (-(-inputs // 4) * 4))


def test_a_sum_at_a_half_is_rounded_away_from_zero() -> None:
    x = np.zeros(4, np.int8)
    for shift in (1, 2, 5):
        of = Linear(np.zeros((6, 4), np.int8), *halves(shift), 3)

        assert as_the_kernel_does(of, x) == conv_output(of, x) == [3 + v for v in (-3, -2, -1, 1, 2, 3)]


def test_sums_of_the_second_channel_of_a_pair_must_stay_below_two_to_the_23rd() -> None:
    """516 weights of 127 times -128 are -2^23 + 512: one more is too much, but only in a pair's second channel."""
    for inputs, weight, fits in ((516, 127, True), (517, 127, False)):
        for place in (0, 1):
            weights = np.zeros((2, inputs), np.int8)
            weights[place] = weight
            of = conv_layer(2, inputs)._replace(weights=weights, bias=np.zeros(2, np.int32))
            assert packable(of) is (fits or place == 0)


def test_a_layer_that_the_rounding_does_not_fit_is_not_packed() -> None:
    of = conv_layer(4, 8)
    assert packable(of)
    assert not packable(of._replace(bias=np.array([0, 0, 1 << 30, 0], np.int32)))
    assert not packable(of._replace(shifts=np.array([-5, -5, -5, 0], np.int8)))
    assert not packable(of._replace(shifts=np.array([-5, -5, -5, -23], np.int8)))
    assert packable(of._replace(shifts=np.zeros(4, np.int8), multipliers=np.zeros(4, np.int32)))
    assert not packable(of._replace(weights=of.weights[:, :3]))


def test_a_weight_of_minus_128_is_packed_where_the_halfword_holds_it() -> None:
    of = conv_layer(2, 4)
    for first, second, fits in ((-1, -128, False), (0, -128, True), (-128, -127, True)):
        weights = np.zeros((2, 4), np.int8)
        weights[:, 0] = first, second
        changed = of._replace(weights=weights)
        assert packable(changed) is fits
        if fits:
            x = np.array([-128, 1, 2, 3], np.int8)
            assert as_the_kernel_does(changed, x) == conv_output(changed, x)


@pytest.mark.parametrize(("inputs", "size"), [(4, 1), (6, 1), (8, 1), (4, 3), (5, 3), (6, 3), (8, 3)])
def test_runs_end_with_fewer_than_four_inputs_where_these_are_no_multiple(inputs: int, size: int) -> None:
    node = conv(inputs, size, size)
    wide = [dict(kernel.work(node)) for kernel in packed_kernels(node) if "wide" in kernel.variant.suffix]

    assert wide
    for counts in wide:
        assert counts["runs"] > 0 and counts.get("rests", 0) == (counts["runs"] if inputs % 4 else 0)
