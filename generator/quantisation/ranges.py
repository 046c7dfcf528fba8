"""The range of real values that the 256 steps of an int8 tensor cover."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

STEPS = 255  # between the least and the greatest stored value
_SHRINKS = np.linspace(0.2, 1.0, 81)  # tried: parts of the whole range


class Range(NamedTuple):
    """The least and the greatest real value."""

    low: float
    high: float


def least_squares(counts: NDArray[np.int64], edges: NDArray[np.floating], low: float, high: float) -> Range:
    """The part of low..high whose int8 quantisation of a histogram's values has the least squared error.

    `counts`: values in each bin; `edges`: one more than bins. Both ends shrink alike; 0 stays inside.
    """
    whole = Range(min(0.0, float(low)), max(0.0, float(high)))
    used = np.flatnonzero(counts)
    if whole.low == whole.high or not used.size:
        return whole
    weights, values = counts[used].astype(np.float64), ((edges[1:] + edges[:-1]) / 2)[used].astype(np.float64)
    values = np.clip(values, *whole)
    errors = []
    for part in _SHRINKS:
        step = part * (whole.high - whole.low) / STEPS
        zero = np.rint(-part * whole.low / step)
        stored = np.clip(np.rint(values / step) + zero, 0, STEPS)
        errors.append(float(weights @ ((stored - zero) * step - values) ** 2))
    # The widest of equal ones.
    best = float(_SHRINKS[len(errors) - 1 - int(np.argmin(errors[::-1]))])
    return Range(best * whole.low, best * whole.high)
