"""Whole numbers made small enough for 64-bit sums."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

_ROOM = 1 << 60


def scaled(values: Sequence[int], times: int, upwards: bool = False) -> tuple[list[int], int]:
    """The numbers in a unit in which the sum of `times` of all of them stays below 2^60, and that unit.

    The greatest common divisor as unit loses nothing; a larger one rounds down or up. Sizes rounded up: what fits still
    fits. Sizes and durations rounded down: a lower bound stays one.
    """
    unit = gcd(*values) or 1
    total = sum(values) // unit * times
    unit *= -(-total // _ROOM) or 1
    return [-(-v // unit) if upwards else v // unit for v in values], unit
