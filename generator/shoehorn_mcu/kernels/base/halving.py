"""Searches by halving, many at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def first_true(holds: Callable[[Ints], NDArray[np.bool_]], low: Ints, high: Ints) -> Ints:
    """Of each search the least number from `low` on for which it holds; `high` where it holds for none before.

    `holds` says it for one number of each search. What holds for a number holds for all greater ones.
    """
    while (low < high).any():
        middle = (low + high) // 2
        true = holds(middle) | (low == high)
        low, high = np.where(true, low, middle + 1), np.where(true, middle, high)
    return high
