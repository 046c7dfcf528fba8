"""Packed weights of the convolutions of few inputs for NEON, and which layers they compute."""

from __future__ import annotations

import numpy as np
import pytest
from packed import NONE, ONE, conv, conv_layer, conv_output, hard_inputs, rounded

from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels.base.packed import Linear
from shoehorn_mcu.kernels.choice import candidates
from shoehorn_mcu.kernels.linear.neon_lanes import OUTPUTS, pack
from shoehorn_mcu.machine.targets import Isa


def as_the_kernel_does(of: Linear, x: np.ndarray) -> list[int]:
    """One pixel from the packed words."""
    outputs, inputs = of.weights.shape
    found: list[int] = []
    for block in pack(of).astype("<i4").reshape(-(-outputs // OUTPUTS), -1):
        bias, weights, scales = np.split(block, [OUTPUTS, OUTPUTS + inputs * OUTPUTS // 2])
        taps = weights.view("<i2").reshape(inputs, OUTPUTS).astype(np.int64)
        sums = bias + (taps * x[:, None]).sum(axis=0)
        kept = range(min(OUTPUTS, outputs - len(found)))  # of missing outputs nothing is stored
        found += [rounded(int(sums[j]), int(scales[j]), int(scales[OUTPUTS + j]), of.y_zero) for j in kept]
    return found


@pytest.mark.parametrize("outputs", [1, 7, 8, 9, 17])
@pytest.mark.parametrize("inputs", [1, 3, 8, 27])
def test_the_packed_words_hold_the_layer(outputs: int, inputs: int) -> None:
    of = conv_layer(outputs, inputs, seed=outputs * inputs)

    for x in hard_inputs(of.weights):
        assert as_the_kernel_does(of, x) == conv_output(of, x)


def test_a_weight_has_its_offset() -> None:
    of = conv_layer(3, 4, seed=1)
    offsets = np.array([0, 100, -90])
    of = of._replace(offsets=offsets.astype(np.int32))
    taps = pack(of)[OUTPUTS : OUTPUTS + 4 * OUTPUTS // 2].astype("<i4").view("<i2").reshape(4, OUTPUTS)

    assert taps[:, :3].T.tolist() == (of.weights.astype(int) + offsets[:, None]).tolist()
    assert not taps[:, 3:].any()


def is_computed(node: Node) -> bool:
    return "neon_lanes" in {kernel.variant.suffix for kernel in candidates(node, (Isa.NEON,))}


def test_a_window_of_few_elements_is_computed() -> None:
    assert is_computed(conv(1, 1, 1)) and is_computed(conv(192, 1, 1)) and is_computed(conv(8, 1, 1, ONE))
    assert is_computed(conv(3, 3, 3)) and is_computed(conv(3, 8, 8))
    assert not is_computed(conv(193, 1, 1))
    assert not is_computed(conv(8, 3, 3, NONE, groups=2))
    assert not is_computed(conv(8, 1, 1, weight_scale=10.0))  # a shift to the left
