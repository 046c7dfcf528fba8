"""The options of TFLite's ops as plain values, and how each is read from its table in the file."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Activation(Enum):
    """A fused activation, by the schema's number."""

    NONE = 0
    RELU = 1
    RELU_N1_TO_1 = 2
    RELU6 = 3
    TANH = 4
    SIGN_BIT = 5


class Scheme(Enum):
    """A padding scheme, by the schema's number."""

    SAME = 0
    VALID = 1


@dataclass(frozen=True)
class Options:
    """Base, and the options of ops that have none; field defaults are the schema's (an absent table means these)."""


@dataclass(frozen=True)
class WindowOptions(Options):
    """Convolutions and pools; pairs are (down, across)."""

    scheme: Scheme = Scheme.SAME
    stride: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    kernel: tuple[int, int] = (0, 0)  # pools only
    multiplier: int = 0  # depthwise only
    activation: Activation = Activation.NONE


@dataclass(frozen=True)
class ActivationOptions(Options):
    """ADD, SUB, MUL."""

    activation: Activation = Activation.NONE


@dataclass(frozen=True)
class DenseOptions(Options):
    """FULLY_CONNECTED."""

    activation: Activation = Activation.NONE
    shuffled: bool = False


@dataclass(frozen=True)
class ConcatOptions(Options):
    """CONCATENATION."""

    axis: int = 0
    activation: Activation = Activation.NONE


@dataclass(frozen=True)
class FactorOptions(Options):
    """SOFTMAX (beta) and LEAKY_RELU (alpha)."""

    factor: float = 0.0


@dataclass(frozen=True)
class GeluOptions(Options):
    """GELU."""

    approximate: bool = False


@dataclass(frozen=True)
class ReduceOptions(Options):
    """MEAN."""

    keep_dims: bool = False


@dataclass(frozen=True)
class ResizeOptions(Options):
    """RESIZE_NEAREST_NEIGHBOR and RESIZE_BILINEAR."""

    align_corners: bool = False
    half_pixel_centers: bool = False


@dataclass(frozen=True)
class StridedSliceOptions(Options):
    """STRIDED_SLICE: masks have bit i for place i of begin, end and strides."""

    begin_mask: int = 0
    end_mask: int = 0
    ellipsis_mask: int = 0
    new_axis_mask: int = 0
    shrink_axis_mask: int = 0
    offset: bool = False  # `end` is counted from `begin`


@dataclass(frozen=True)
class SplitOptions(Options):
    """SPLIT."""

    parts: int = 0


def _activation(table: Any) -> Activation:
    return Activation(table.FusedActivationFunction())


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("not a finite number")
    return float(value)


def _conv(table: Any) -> Options:
    return WindowOptions(
        scheme=Scheme(table.Padding()),
        stride=(table.StrideH(), table.StrideW()),
        dilation=(table.DilationHFactor(), table.DilationWFactor()),
        activation=_activation(table),
    )


def _depthwise(table: Any) -> Options:
    return WindowOptions(
        scheme=Scheme(table.Padding()),
        stride=(table.StrideH(), table.StrideW()),
        dilation=(table.DilationHFactor(), table.DilationWFactor()),
        multiplier=table.DepthMultiplier(),
        activation=_activation(table),
    )


def _transpose_conv(table: Any) -> Options:
    return WindowOptions(
        scheme=Scheme(table.Padding()),
        stride=(table.StrideH(), table.StrideW()),
        activation=_activation(table),
    )


def _pool(table: Any) -> Options:
    return WindowOptions(
        scheme=Scheme(table.Padding()),
        stride=(table.StrideH(), table.StrideW()),
        kernel=(table.FilterHeight(), table.FilterWidth()),
        activation=_activation(table),
    )


def _strided_slice(table: Any) -> Options:
    return StridedSliceOptions(
        table.BeginMask(),
        table.EndMask(),
        table.EllipsisMask(),
        table.NewAxisMask(),
        table.ShrinkAxisMask(),
        bool(table.Offset()),
    )


def _fused(table: Any) -> Options:
    return ActivationOptions(_activation(table))


def _resize(table: Any) -> Options:
    return ResizeOptions(bool(table.AlignCorners()), bool(table.HalfPixelCenters()))


READERS: dict[str, tuple[str, Options, Callable[[Any], Options]]] = {
    "CONV_2D": ("Conv2DOptions", WindowOptions(), _conv),
    "DEPTHWISE_CONV_2D": ("DepthwiseConv2DOptions", WindowOptions(), _depthwise),
    "TRANSPOSE_CONV": ("TransposeConvOptions", WindowOptions(), _transpose_conv),
    "AVERAGE_POOL_2D": ("Pool2DOptions", WindowOptions(), _pool),
    "MAX_POOL_2D": ("Pool2DOptions", WindowOptions(), _pool),
    "FULLY_CONNECTED": (
        "FullyConnectedOptions",
        DenseOptions(),
        lambda t: DenseOptions(_activation(t), t.WeightsFormat() != 0),
    ),
    "ADD": ("AddOptions", ActivationOptions(), _fused),
    "SUB": ("SubOptions", ActivationOptions(), _fused),
    "MUL": ("MulOptions", ActivationOptions(), _fused),
    "CONCATENATION": (
        "ConcatenationOptions",
        ConcatOptions(),
        lambda t: ConcatOptions(t.Axis(), _activation(t)),
    ),
    "SOFTMAX": ("SoftmaxOptions", FactorOptions(), lambda t: FactorOptions(_finite(t.Beta()))),
    "LEAKY_RELU": ("LeakyReluOptions", FactorOptions(), lambda t: FactorOptions(_finite(t.Alpha()))),
    "GELU": ("GeluOptions", GeluOptions(), lambda t: GeluOptions(bool(t.Approximate()))),
    "MEAN": ("ReducerOptions", ReduceOptions(), lambda t: ReduceOptions(bool(t.KeepDims()))),
    "REDUCE_MAX": ("ReducerOptions", ReduceOptions(), lambda t: ReduceOptions(bool(t.KeepDims()))),
    "RESIZE_NEAREST_NEIGHBOR": ("ResizeNearestNeighborOptions", ResizeOptions(), _resize),
    "RESIZE_BILINEAR": ("ResizeBilinearOptions", ResizeOptions(), _resize),
    "STRIDED_SLICE": ("StridedSliceOptions", StridedSliceOptions(), _strided_slice),
    "SPLIT": ("SplitOptions", SplitOptions(), lambda t: SplitOptions(t.NumSplits())),
}
"""By op: the name of its table in the schema, what holds where the table is absent, and how it is read."""
