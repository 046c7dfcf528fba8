"""Windows without weights: pools, means, resizes and softmax."""

from __future__ import annotations

from dataclasses import dataclass

from generator.ir import Op
from generator.ops.conv import Clamp, Padding


@dataclass(frozen=True, kw_only=True, eq=False)
class Pool2d(Op):
    """A window of kernel = (height, width); padding does not count."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: Padding = Padding()
    clamp: Clamp = Clamp()


class AveragePool2d(Pool2d):
    """Mean over the elements of the window that lie inside, rounded half away from zero."""


class MaxPool2d(Pool2d):
    """Largest element of the window."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Mean(Op):
    """Mean over `axes` (non-negative, of x's own rank, ascending)."""

    axes: tuple[int, ...]
    keep_dims: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class Softmax(Op):
    """exp(beta * x) over its sum along the last axis."""

    beta: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Resize(Op):
    """To `size` = (height, width)."""

    size: tuple[int, int]
    align_corners: bool
    half_pixel_centers: bool


class ResizeNearest(Resize):
    """Nearest neighbour."""


class ResizeBilinear(Resize):
    """Bilinear, in TFLite's 10-bit fixed point."""
