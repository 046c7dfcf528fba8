"""The rounding that the packed linear kernels for Armv6 SIMD share: its constants, and the proof that it is exact."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
Shifts = NDArray[np.int8]


def rounds_exactly(low: Int64s, high: Int64s, multipliers: Int32s, shifts: Shifts) -> bool:
    """Whether the kernels scale every sum between `low` and `high`, bias included, exactly; all arrays are per channel.

    Each channel is shifted to the right (`shifts` are to the left) or has a multiplier of 0, and twice the sum, and the
    scaled sum with its addend, fit 32 bits.
    """
    if not ((shifts < 0) | (multipliers == 0)).all():
        return False
    largest, right = np.maximum(np.abs(low), np.abs(high)), right_shifts(multipliers, shifts)
    scaled = (largest * multipliers.astype(np.int64) >> 31) + 2
    return bool((largest < 1 << 30).all() and (right < 23).all() and (scaled + (129 << right) < 1 << 31).all())


def right_shifts(multipliers: Int32s, shifts: Shifts) -> Int64s:
    """The shifts to the right. A multiplier of 0 may have any shift; the kernels need 1 or more."""
    return np.where(multipliers == 0, 1, -shifts.astype(np.int64))


def addends(right: Int64s, y_zero: int) -> Int64s:
    """Half an output step and the output's zero point, before the shift to the right."""
    return (1 << (right - 1)) + (y_zero << right)
