"""Sigmoid and tanh of int16 by a table with linear interpolation, as TFLite computes them.

Facts are from reference/integer_ops/logistic.h and tanh.h, and the table in internal/common.h. The twin in C is
runtime_c/include/sh_sigmoid16.h.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.ir import Ints

_ABOVE = 0x800000000000000000000000000000800011009020440005C0467BAEFA7BD110
"""Bit i: entry i of the published table is one more than the nearest integer."""


def _table() -> NDArray[np.uint16]:
    """2^16 * sigmoid(i / 24) for i in 0..255, as TFLite's table has it."""
    exact = np.floor(65536 / (1 + np.exp(-np.arange(256) / 24)) + 0.5).astype(np.int64)
    above = np.array([_ABOVE >> i & 1 for i in range(256)], np.int64)
    table: NDArray[np.uint16] = np.minimum(exact + above, 65535).astype(np.uint16)
    return table


SIGMOID = _table()


def sigmoid16(x: Ints) -> Ints:
    """sigmoid of Q3.12, as Q0.15."""
    steps = x * 3
    size = np.abs(steps)
    place = np.minimum(size >> 9, 254)
    low, high = SIGMOID[place].astype(np.int64), SIGMOID[place + 1].astype(np.int64)
    value = np.where(size >> 9 >= 255, 0x7FFF << 10, (low << 9) + (size & 0x1FF) * (high - low))
    return np.where(steps >= 0, value + (1 << 9), (1 << 25) - value + (1 << 9) - 1) >> 10


def tanh16(x: Ints, factor: int, shift: int) -> Ints:
    """tanh, as Q0.15, of x * factor / 2^shift in units of 1 / (24 * 256 * 2)."""
    steps = (x * factor + (1 << shift >> 1)) >> shift
    size = np.abs(steps)
    place = np.minimum(size >> 8, 254)
    low, high = SIGMOID[place].astype(np.int64), SIGMOID[place + 1].astype(np.int64)
    value = np.where(size >> 8 >= 255, 0xFFFF << 8, (low << 8) + (size & 0xFF) * (high - low))
    half, rounding = 1 << 23, 1 << 7
    return np.where(steps >= 0, value - half + rounding, half - value + rounding - 1) >> 8
