"""Convolutions and dense layers: linear maps with a bias, requantised and clamped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from generator.ir import Op


@dataclass(frozen=True)
class Padding:
    """Elements of padding at each side, explicit (SAME and VALID are resolved by the importer)."""

    top: int = 0
    bottom: int = 0
    left: int = 0
    right: int = 0


@dataclass(frozen=True)
class Clamp:
    """Inclusive bounds on stored (quantised) values."""

    low: int = -128
    high: int = 127


@dataclass(frozen=True, kw_only=True, eq=False)
class Conv2d(Op):
    """inputs (x NHWC, weights OHWI, bias int32 [O]); groups follow from C / I."""

    row_inputs: ClassVar[int | None] = 1
    stride: tuple[int, int] = (1, 1)  # down, across
    dilation: tuple[int, int] = (1, 1)
    padding: Padding = Padding()
    clamp: Clamp = Clamp()


@dataclass(frozen=True, kw_only=True, eq=False)
class DepthwiseConv2d(Op):
    """inputs (x NHWC, weights [1, kh, kw, C * multiplier], bias int32).

    Output channel c reads input channel c // multiplier.
    """

    row_inputs: ClassVar[int | None] = 1
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: Padding = Padding()
    clamp: Clamp = Clamp()


@dataclass(frozen=True, kw_only=True, eq=False)
class TransposeConv2d(Op):
    """inputs (x NHWC, weights OHWI, bias int32 [O]); out[y * stride + ky - top] += x[y] * w[ky].

    `output_shape` is NHWC. rows(): one place per kernel row ky, the input row that tap ky of output row y reads.
    """

    row_inputs: ClassVar[int | None] = 1
    output_shape: tuple[int, ...]
    stride: tuple[int, int] = (1, 1)
    padding: Padding = Padding()
    clamp: Clamp = Clamp()


@dataclass(frozen=True, kw_only=True, eq=False)
class Dense(Op):
    """inputs (x [..., I], weights [O, I], bias int32 [O]); output [..., O]."""

    row_inputs: ClassVar[int | None] = 1
    clamp: Clamp = Clamp()
