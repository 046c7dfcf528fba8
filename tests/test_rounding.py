"""Where outputs rise over their sums, beside the rounding that TensorFlow Lite Micro does step by step."""

from __future__ import annotations

import numpy as np
import pytest

from shoehorn_mcu.kernels.base.rounding import Clamp, output_of, staircase

LARGEST = (1 << 31) - 1


@pytest.mark.parametrize("seed", range(60))
def test_outputs_rise_at_the_thresholds_and_nowhere_else(seed: int):
    """Shifts to the right alone, and with one to the left the search for each threshold."""
    chance = np.random.default_rng(seed)
    channels, most_right = 16, (8, 31)[seed % 2]
    shifts = -chance.integers(0, most_right + 1, channels)
    shifts[0] = seed % 3 == 0
    multipliers = chance.integers(1 << 30, 1 << 31, channels)
    multipliers[1:4] = 0, 1 << 30, LARGEST
    span = np.clip(300 * 2.0 ** (31 - shifts) / np.maximum(multipliers, 1 << 29), 1, LARGEST // 2).astype(np.int64)
    least, most = (chance.integers(-span, span + 1) for _ in range(2))
    least, most = np.minimum(least, most), np.maximum(least, most)
    clamp = Clamp(int(chance.integers(-128, 128)), -128, int(chance.integers(0, 128)))
    found = staircase(least, most, (multipliers, shifts), clamp)

    assert found.found.all()
    below, at = (output_of(found.risen - back, multipliers[:, None], shifts[:, None], clamp) for back in (1, 0))
    assert ((below < found.values) & (at >= found.values))[found.reached].all()
    ends = [output_of(sums, multipliers, shifts, clamp)[:, None] for sums in (least, most)]
    assert (found.reached == ((ends[0] < found.values) & (found.values <= ends[1]))).all()
