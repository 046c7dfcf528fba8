"""Bounds that an op applies last to its stored values, such as a fused activation."""

from __future__ import annotations

from dataclasses import dataclass

from shoehorn_mcu.ir import Op


@dataclass(frozen=True)
class Clamp:
    """Inclusive bounds on stored (quantised) values."""

    low: int = -128
    high: int = 127


@dataclass(frozen=True, kw_only=True, eq=False)
class Clamped(Op):
    """An op that clamps its result last, so a bound behind it can be fused into it."""

    clamp: Clamp = Clamp()
