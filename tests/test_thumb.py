"""The packed words of the kernels for Armv6-M, and their rounding in 32 bits against TensorFlow Lite Micro's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matrix import DATA, linear

from shoehorn_mcu import ops
from shoehorn_mcu.ir import Array, Node
from shoehorn_mcu.kernels import Instance, candidates
from shoehorn_mcu.kernels.base.rounding import Clamp
from shoehorn_mcu.kernels.base.steps32 import POINT, scales_of, words
from shoehorn_mcu.machine.targets import Isa
from shoehorn_mcu.ops.fixed_point import rescale

CHANNELS = 8


def computed(scales: Array, sums: Array) -> Array:
    """The outputs as the kernels compute them from [channel][8], [sum][channel]; checks that products fit 32 bits."""
    bias, most, turn, bend, high, low, shift, offset = scales.astype(np.int64).T
    most, bend, high, low, offset = (v & 0xFFFFFFFF for v in (most, bend, high, low, offset))
    a = sums + bias
    b = np.maximum(most - np.maximum(a, 0), 0)
    whole, fraction = b * high, b * low
    line = offset - whole - (fraction >> shift) - np.where(b > (turn & 0xFFFFFFFF), bend, 0)

    assert (np.abs(a) < 1 << 31).all() and (most - a < 1 << 31).all()
    assert (whole < 1 << 32).all() and (fraction < 1 << 32).all()
    return ((line & 0xFFFFFFFF) >> POINT & 0xFF).astype(np.uint8).view(np.int8)


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
    assert (computed(words(scales, clamp), sums - bias) == expected(sums, multipliers, shifts, clamp)).all()


def test_ties_of_both_signs_go_away_from_zero():
    clamp = Clamp(1, -128, 127)
    bias, scale = np.zeros(1, np.int32), (np.array([1 << 30], np.int32), np.array([-3], np.int8))
    least, most = np.array([-900]), np.array([900])
    scales = scales_of(least, most, bias, *scale, clamp)

    assert scales is not None and scales.bend[0] > 0
    sums = np.arange(-900, 901)[:, None]
    assert (computed(words(scales, clamp), sums) == expected(sums, *scale, clamp)).all()


@pytest.mark.parametrize(("shift", "ends"), [(9, (-128, 127)), (0, (5, 5))])
def test_what_has_no_line_is_refused(shift: int, ends: tuple[int, int]):
    one = np.array([1 << 30], np.int32)
    sums = np.array([-5]), np.array([5])

    assert scales_of(*sums, np.zeros(1, np.int32), one, np.array([shift], np.int8), Clamp(0, *ends)) is None


def _node(op_class: type[ops.Conv2d | ops.DepthwiseConv2d | ops.Dense], x: tuple[int, ...], w: tuple[int, ...]) -> Node:
    return next(linear(op_class, np.random.default_rng(0), DATA[0], x, w).nodes())


def _thumb(node: Node) -> list[Instance]:
    return [
        kernel
        for kernel in candidates(node, (Isa.THUMB, Isa.C))
        if kernel.variant.isa is Isa.THUMB and not kernel.variant.choice
    ]


@pytest.mark.parametrize("window", [(3, 3), (5, 5), (1, 2), (7, 7)])
def test_depthwise_words_hold_each_channel_by_columns(window: tuple[int, int]):
    height, width = window
    node = _node(ops.DepthwiseConv2d, (1, 8, 8, 5), (1, height, width, 5))
    (kernel,) = _thumb(node)
    packed = np.asarray(kernel.params(node)["weights"]).reshape(5, -1)
    filled = -(-height * width // 9) * 9
    weights = packed[:, 8:].copy().view(np.int8)

    assert weights.shape == (5, -(-filled // 4) * 4) and not weights[:, height * width :].any()
    by_columns = np.asarray(node.inputs[1].data)[0].transpose(2, 1, 0).reshape(5, -1)
    assert (weights[:, : height * width] == by_columns).all()


def test_depthwise_windows_that_the_copies_cannot_hold_are_left_to_the_portable_kernel():
    assert not _thumb(_node(ops.DepthwiseConv2d, (1, 12, 12, 4), (1, 5, 11, 4)))
    assert not _thumb(_node(ops.DepthwiseConv2d, (1, 8, 8, 4), (1, 3, 3, 8)))
    graph = linear(ops.DepthwiseConv2d, np.random.default_rng(0), DATA[0], (1, 9, 40, 4), (1, 1, 9, 4), dilation=(1, 2))
    assert not _thumb(next(graph.nodes()))


def test_words_of_a_convolution_are_its_weights_plus_128_and_eight_more():
    """The last turn of the loop is whole: with 7 fours of elements, four unused bytes are before them."""
    node = _node(ops.Conv2d, (1, 4, 9, 3), (5, 3, 3, 3))
    kernel, *_ = _thumb(node)
    packed = np.asarray(kernel.params(node)["weights"]).reshape(5, -1)
    weights = packed[:, 1:-8].copy().view(np.uint8).astype(np.int64) - 128

    assert packed.shape == (5, 1 + 7 + 8) and not weights[:, 27:].any()
    assert (weights[:, :27] == np.asarray(node.inputs[1].data).reshape(5, -1)).all()


def test_words_of_wide_windows_are_chunks_of_72_elements_of_all_outputs():
    node = _node(ops.Conv2d, (1, 4, 9, 17), (5, 3, 3, 17))
    kernel, *_ = _thumb(node)
    packed = np.asarray(kernel.params(node)["weights"])
    chunks, last = packed[: 5 * 2 * 18].reshape(2, 5, 18), packed[5 * 2 * 18 :].reshape(5, 1 + 3 + 8)[:, 1:4]
    weights = np.concatenate([*chunks, last], axis=1).view(np.uint8).astype(np.int64) - 128

    assert [k.scratch_bytes(node) for k in _thumb(node)] == [80, 60]
    assert (weights[:, :153] == np.asarray(node.inputs[1].data).reshape(5, -1)).all() and not weights[:, 153:].any()


def test_words_of_a_dense_layer_hold_four_outputs_side_by_side():
    node = _node(ops.Dense, (1, 1, 2, 13), (6, 13))
    (kernel,) = _thumb(node)
    packed = np.asarray(kernel.params(node)["weights"])
    first, rest = packed[: 13 + 4 * 8], packed[13 + 4 * 8 :]
    blocks = [words[:13].copy().view(np.uint8).reshape(13, 4).T.astype(np.int64) - 128 for words in (first, rest)]
    weights = np.concatenate(blocks)

    assert rest.size == 13 + 2 * 8  # no roundings of the two outputs that fill the block
    assert (weights[:6] == np.asarray(node.inputs[1].data)).all() and not weights[6:].any()
