"""Scales integers so that their sums fit 64 bits."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

_ROOM = 1 << 60


def scaled(values: Sequence[int], times: int, upwards: bool = False) -> tuple[list[int], int]:
    """The numbers in a unit in which `times` the sum of all of them stays below 2^60, and that unit.

    The greatest common divisor as unit is exact; a larger unit rounds down or up. With sizes rounded up, a sequence
    that fits really fits. With sizes and durations rounded down, a lower bound remains valid.
    """
    unit = gcd(*values) or 1
    total = sum(values) // unit * times
    unit *= -(-total // _ROOM) or 1
    return [-(-v // unit) if upwards else v // unit for v in values], unit
