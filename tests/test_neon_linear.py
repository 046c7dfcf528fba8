"""Packed weights of the linear kernels for NEON: what the words mean, and which layers they compute."""

from __future__ import annotations

import numpy as np
import pytest
from matrix import DATA, linear
from packed import NONE, ONE, conv, conv_layer, conv_output, halves, hard_inputs, rounded

from shoehorn_mcu import ops
from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels.base.contract import Instance, array_of
from shoehorn_mcu.kernels.base.packed import Linear
from shoehorn_mcu.kernels.choice import candidates
from shoehorn_mcu.kernels.linear.conv import DENSE, constants
from shoehorn_mcu.kernels.linear.neon import pack, packable, steps_of
from shoehorn_mcu.machine.targets import Isa


def as_the_kernel_does(of: Linear, run: int, x: np.ndarray) -> list[int]:
    """One pixel from the packed words."""
    outputs, inputs = of.weights.shape
    packed = pack(of, run).astype("<i4").tobytes()
    at = 0

    def taken(count: int, dtype: str) -> np.ndarray:
        nonlocal at
        read = np.frombuffer(packed, dtype, count, at)
        at += read.nbytes
        return read.astype(np.int64)

    found: list[int] = []
    for _ in range(0, outputs, 4):
        sums = taken(4, "<i4")
        for start in range(0, inputs, run):
            for first, size, _ in steps_of(run):
                products = taken(4 * size, "i1").reshape(4, size) * x[start + first : start + first + size]
                if size == 16:
                    products = products[:, :8] + products[:, 8:]
                assert (products == products.astype(np.int16)).all()
                sums += products.sum(axis=1)
        multipliers, shifts = taken(4, "<i4"), taken(4, "<i4")
        kept = range(min(4, outputs - len(found)))  # of missing outputs nothing is stored
        found += [rounded(int(sums[j]), int(multipliers[j]), int(shifts[j]), of.y_zero) for j in kept]
    assert at == len(packed)
    return found


@pytest.mark.parametrize("outputs", [1, 3, 4, 5, 8, 11])
@pytest.mark.parametrize(("run", "runs"), [(8, 1), (9, 2), (15, 1), (16, 3), (17, 1), (24, 2), (25, 1), (31, 2)])
def test_the_packed_words_hold_the_layer(outputs: int, run: int, runs: int) -> None:
    of = conv_layer(outputs, run * runs, seed=outputs * run)

    assert packable(of, run)
    for x in hard_inputs(of.weights):
        assert as_the_kernel_does(of, run, x) == conv_output(of, x)


@pytest.mark.parametrize("run", range(8, 50))
def test_steps_read_each_element_of_a_run_and_nothing_beyond_it(run: int) -> None:
    read = [first + i for first, size, fresh in steps_of(run) for i in range(size - fresh, size)]

    assert read == list(range(run))
    assert all(first >= 0 and first + size <= run for first, size, _ in steps_of(run))


def test_words_take_a_byte_per_weight_that_is_loaded_and_twelve_per_output() -> None:
    assert pack(conv_layer(8, 64), 64).nbytes == 8 * 64 + 8 * 12
    assert pack(conv_layer(7, 60), 60).nbytes == 8 * 64 + 8 * 12
    assert pack(conv_layer(4, 36), 18).nbytes == 4 * 48 + 4 * 12


def test_a_sum_at_a_half_is_rounded_away_from_zero() -> None:
    x = np.zeros(8, np.int8)
    for shift in (1, 2, 5):
        of = Linear(np.zeros((6, 8), np.int8), *halves(shift), 3)

        assert as_the_kernel_does(of, 8, x) == conv_output(of, x) == [3 + v for v in (-3, -2, -1, 1, 2, 3)]


def test_two_products_must_fit_sixteen_bits() -> None:
    """Of the elements 3 and 11 of a run of 16 one weight may be -128, and so may both of a step by 8."""
    for run, place, other, fits in (
        *((16, 3, 11, False), (16, 3, 10, True), (40, 19, 27, False), (40, 8, 16, True), (8, 3, 11, True)),
        *((24, 19, 43, True), (24, 24 + 3, 24 + 11, False), (32, 15, 7, False), (48, 36, 44, False)),
    ):
        of = conv_layer(4, -(-48 // run) * run)
        weights = of.weights.copy()
        weights[1, place] = -128
        assert packable(of._replace(weights=weights), run)
        weights[1, other] = -128
        assert packable(of._replace(weights=weights), run) is fits


def of_inputs(node: Node) -> list[Instance]:
    """The kernels that have inputs in vectors; neon_lanes has outputs there."""
    return [kernel for kernel in candidates(node, (Isa.NEON,)) if kernel.variant.suffix != "neon_lanes"]


def kernels(node: Node) -> set[str]:
    return {kernel.variant.suffix for kernel in of_inputs(node)}


def test_a_window_is_computed_where_it_is_small_or_has_few_taps_of_eight_channels() -> None:
    assert kernels(conv(8, 1, 1)) == kernels(conv(64, 1, 1)) == {"neon_1x1"}
    assert kernels(conv(1, 1, 1)) == kernels(conv(7, 1, 1)) == kernels(conv(8, 1, 1, ONE)) == {"neon"}
    assert kernels(conv(3, 3, 3)) == kernels(conv(64, 3, 3)) == kernels(conv(64, 7, 7)) == {"neon"}
    assert kernels(conv(3, 8, 8)) == kernels(conv(2, 9, 9)) == {"neon"}  # 192 and 162 elements
    assert kernels(conv(5, 7, 7)) == kernels(conv(16, 8, 7)) == set()
    assert kernels(conv(8, 3, 3, NONE, groups=2)) == set()


def test_dense_layers_are_packed_like_convolutions() -> None:
    graph = linear(ops.Dense, np.random.default_rng(0), DATA[0], (2, 21), (6, 21))
    node = next(graph.nodes())
    (kernel,) = candidates(node, (Isa.NEON,))
    weights = array_of(kernel.params(node)["weights"])
    assert weights is not None
    of = Linear(*(array_of(v) for v in DENSE.plain(node).values()), node.output.type.quantised.zero_point)
    assert weights.tolist() == pack(of, 21).tolist()
    few = linear(ops.Dense, np.random.default_rng(0), DATA[0], (2, 7), (6, 7))
    assert kernels(next(few.nodes())) == set()


def test_a_layer_that_the_rounding_does_not_fit_is_left_to_other_kernels() -> None:
    assert kernels(conv(8, 1, 1, weight_scale=4.0)) == {"neon_1x1"}
    assert kernels(conv(8, 1, 1, weight_scale=10.0)) == set()  # a shift to the left
    assert kernels(conv(4, 3, 3, weight_scale=10.0)) == set()


def test_where_taps_are_read_in_place_the_weights_begin_with_a_tap_of_the_input_s_zero() -> None:
    for inputs, copied in ((64, False), (63, False), (23, False), (16, False), (22, True), (3, True)):
        node = conv(inputs, 3, 3)
        (kernel,) = of_inputs(node)
        weights = array_of(kernel.params(node)["weights"])
        assert weights is not None
        of = Linear(*(array_of(v) for v in constants(node).values()), 0)
        of = of._replace(weights=of.weights.reshape(4, -1))
        beyond = -of.weights.shape[1] % 8 if copied else 0
        of = of._replace(weights=np.pad(of.weights, ((0, 0), (0, beyond))))
        packed = pack(of, of.weights.shape[1] if copied else inputs)
        padding = weights[: len(weights) - len(packed)]
        assert weights[len(padding) :].tolist() == packed.tolist()
        assert padding.view(np.int8).tolist() == ([] if copied else [-7] * (-(-inputs // 16) * 16))
