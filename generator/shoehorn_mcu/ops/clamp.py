"""Bounds that an op applies last to its results, such as a fused activation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoehorn_mcu.ir import Op

LARGEST_FLOAT32 = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Bounds:
    """Inclusive bounds; those of a subclass say what they bound."""

    low: float
    high: float


@dataclass(frozen=True)
class Clamp(Bounds):
    """Bounds on stored (quantised) values."""

    low: int = -128
    high: int = 127


@dataclass(frozen=True)
class RealClamp(Bounds):
    """Bounds of an op on float32. Without an activation TFLite still bounds infinities to finite numbers."""

    low: float = -LARGEST_FLOAT32
    high: float = LARGEST_FLOAT32


@dataclass(frozen=True, kw_only=True, eq=False)
class Clamped(Op):
    """An op that clamps its result last, so a bound behind it can be fused into it.

    `clamp` is a Clamp, or a RealClamp where the op computes in float32.
    """

    clamp: Bounds = Clamp()
