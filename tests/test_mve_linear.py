"""Packed weights of the linear kernels for Helium: what the words mean, and which layers they compute."""

from __future__ import annotations

import numpy as np
import pytest
from matrix import DATA, linear
from packed import NONE, ONE, conv, conv_layer, conv_output, halves, hard_inputs, rounded

from shoehorn_mcu import ops
from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels.base.contract import array_of
from shoehorn_mcu.kernels.base.packed import Linear, scaled_exactly
from shoehorn_mcu.kernels.choice import candidates
from shoehorn_mcu.kernels.linear.conv import DENSE, constants
from shoehorn_mcu.kernels.linear.mve import pack
from shoehorn_mcu.machine.targets import Isa


def as_the_kernel_does(of: Linear, x: np.ndarray, run: int = 0) -> list[int]:
    """One pixel from the packed words; with `run` in runs of this length, whose weights are whole vectors."""
    outputs, inputs = of.weights.shape
    packed = pack(of, run).astype("<i4").tobytes()
    at = 0

    def words(count: int) -> list[int]:
        nonlocal at
        at += 4 * count
        return np.frombuffer(packed, "<i4", count, at - 4 * count).tolist()

    found: list[int] = []
    for _ in range(0, outputs, 4):
        sums = words(4)
        for start in range(0, inputs, run or inputs):
            end = start + (run or inputs)
            for first in range(start, end, 16):
                count = min(16, end - first)
                for channel in range(4):
                    weights = np.frombuffer(packed, np.int8, count, at)
                    sums[channel] += int(weights.astype(np.int64) @ x[first : first + count])
                    at += 16 if run else count
        multipliers, shifts = words(4), words(4)
        kept = range(min(4, outputs - len(found)))  # of missing outputs nothing is stored
        found += [rounded(sums[j], multipliers[j], shifts[j], of.y_zero) for j in kept]
    assert at == len(packed)
    return found


@pytest.mark.parametrize("outputs", [1, 2, 3, 4, 5, 8, 11])
@pytest.mark.parametrize("inputs", [1, 2, 3, 4, 15, 16, 17, 64])
def test_the_packed_words_hold_the_layer(outputs: int, inputs: int) -> None:
    of = conv_layer(outputs, inputs, seed=outputs * inputs)

    assert scaled_exactly(of)
    for x in hard_inputs(of.weights):
        assert as_the_kernel_does(of, x) == conv_output(of, x)


@pytest.mark.parametrize("run", [1, 5, 16, 30])
def test_the_packed_words_hold_runs(run: int) -> None:
    of = conv_layer(6, 3 * run, seed=run)

    for x in hard_inputs(of.weights):
        assert as_the_kernel_does(of, x, run) == conv_output(of, x)


def test_words_take_a_byte_per_weight_and_twelve_per_output() -> None:
    assert pack(conv_layer(8, 64)).nbytes == 8 * 64 + 8 * 12
    assert pack(conv_layer(7, 61)).nbytes == 8 * 61 + 8 * 12


def test_runs_of_windows_take_whole_vectors() -> None:
    assert pack(conv_layer(8, 60), 20).nbytes == 8 * 3 * 32 + 8 * 12


def test_a_sum_at_a_half_is_rounded_away_from_zero() -> None:
    x = np.zeros(4, np.int8)
    for shift in (1, 2, 5):
        of = Linear(np.zeros((6, 4), np.int8), *halves(shift), 3)

        assert as_the_kernel_does(of, x) == conv_output(of, x) == [3 + v for v in (-3, -2, -1, 1, 2, 3)]


def kernels(node: Node) -> set[str]:
    return {kernel.variant.suffix for kernel in candidates(node, tuple(Isa)) if kernel.variant.isa is Isa.MVE}


def test_a_window_is_computed_where_it_is_small_or_has_few_taps() -> None:
    assert kernels(conv(1, 1, 1)) == kernels(conv(4, 1, 1)) == {"mve_1x1"}
    assert kernels(conv(4, 1, 1, ONE)) == kernels(conv(1, 1, 1, ONE)) == {"mve"}
    assert kernels(conv(3, 3, 3)) == kernels(conv(64, 3, 3)) == kernels(conv(64, 7, 7)) == {"mve"}
    assert kernels(conv(3, 8, 8)) == kernels(conv(2, 9, 9)) == {"mve"}  # 192 and 162 elements
    assert kernels(conv(4, 8, 7)) == set()
    assert kernels(conv(8, 3, 3, NONE, groups=2)) == set()


def test_dense_layers_are_packed_like_convolutions() -> None:
    graph = linear(ops.Dense, np.random.default_rng(0), DATA[0], (2, 21), (6, 21))
    node = next(graph.nodes())
    (kernel,) = candidates(node, (Isa.MVE,))
    weights = array_of(kernel.params(node)["weights"])
    assert weights is not None
    of = Linear(*(array_of(v) for v in DENSE.plain(node).values()), node.output.type.quantised.zero_point)
    assert weights.tolist() == pack(of).tolist()


def test_a_layer_that_the_rounding_does_not_fit_is_left_to_other_kernels() -> None:
    assert kernels(conv(4, 1, 1, weight_scale=4.0)) == {"mve_1x1"}
    assert kernels(conv(4, 1, 1, weight_scale=10.0)) == set()  # a shift to the left
    assert kernels(conv(4, 3, 3, weight_scale=10.0)) == set()


def test_where_taps_are_read_in_place_the_weights_begin_with_a_tap_of_the_input_s_zero() -> None:
    for inputs, copied in ((64, False), (63, False), (22, False), (21, True), (16, False), (3, True)):
        node = conv(inputs, 3, 3)
        (kernel,) = (k for k in candidates(node, (Isa.MVE,)) if k.variant.suffix == "mve")
        weights = array_of(kernel.params(node)["weights"])
        assert weights is not None
        of = Linear(*(array_of(v) for v in constants(node).values()), 0)
        packed = pack(of._replace(weights=of.weights.reshape(4, -1)), 9 * inputs if copied else inputs)
        padding = weights[: len(weights) - len(packed)]
        assert weights[len(padding) :].tolist() == packed.tolist()
        assert padding.view(np.int8).tolist() == ([] if copied else [-7] * (-(-inputs // 4) * 4))
