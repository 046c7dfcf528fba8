"""What ops say about themselves, as plain data: value ranges per channel, and which channels belong together.

A channel is a place of a tensor's last axis, over all other axes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoehorn_mcu.ir.types import Bools, DType, Ints, TensorType


@dataclass(frozen=True, eq=False)
class Range:
    """Inclusive bounds of the stored values, one of each per channel."""

    low: Ints
    high: Ints

    @property
    def constant(self) -> Bools:
        """Which channels hold one value everywhere, always."""
        same: Bools = self.low == self.high
        return same

    @staticmethod
    def of_type(kind: TensorType) -> Range:
        """All that the type can hold, as far as int64 does. Others than integers get the bounds of int32, which no
        pass reads.
        """
        low, high = (kind.dtype if kind.dtype.numpy.kind in "iu" else DType.INT32).limits
        high = min(high, np.iinfo(np.int64).max)
        channels = kind.nhwc[3]
        return Range(np.full(channels, low, np.int64), np.full(channels, high, np.int64))


@dataclass(frozen=True, eq=False)
class Tie:
    """Channel `operand[k]` of one operand and channel `output[k]` of the output are kept or dropped together."""

    operand: Ints
    output: Ints
