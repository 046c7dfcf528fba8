"""Resizing along height and width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from shoehorn_mcu.ir import Array, Ints, Node, Op, OpFault, Range, Signature, TensorType
from shoehorn_mcu.ops import laws
from shoehorn_mcu.ops.channels import ByChannels
from shoehorn_mcu.ops.rules import want, want_rank

__all__ = ["Resize", "ResizeBilinear", "ResizeNearest"]


class BilinearTaps(NamedTuple):
    """For every output position of one dimension: (lower * (1024 - weight) + upper * weight) / 1024."""

    lower: Ints
    upper: Ints
    weight: Ints  # in 1/1024; negative or above 1024 only where lower == upper


def nearest_taps(op: Resize, input_size: int, output_size: int) -> Ints:
    """The input position of every output position of one dimension, in single precision as TFLite."""
    scale = np.float32(input_size) / np.float32(output_size)
    if op.align_corners and output_size > 1:
        scale = np.float32(input_size - 1) / np.float32(output_size - 1)
    offset = np.float32(0.5 if op.half_pixel_centers else 0.0)
    places = (np.arange(output_size, dtype=np.float32) + offset) * scale
    # Halves away from zero; places are not negative, and double precision makes the addition exact.
    whole = np.floor(places.astype(np.float64) + (0.5 if op.align_corners else 0.0))
    return np.minimum(whole.astype(np.int64), input_size - 1)


def bilinear_taps(op: Resize, input_size: int, output_size: int) -> BilinearTaps:
    """Both neighbours and the weight of every output position of one dimension, in 10 fraction bits."""
    scale = (1024 * input_size + output_size // 2) // output_size
    if op.align_corners and output_size > 1:
        scale = (1024 * (input_size - 1) + (output_size - 1) // 2) // (output_size - 1)
    place = np.arange(output_size, dtype=np.int64) * scale
    if op.half_pixel_centers:
        place += scale // 2 - 512
    # If the rounded scale leads past the last element, TFLite reads outside the tensor; we stay inside.
    lower = np.clip(place >> 10, 0, input_size - 1)
    upper = np.clip((place + 1023) >> 10, 0, input_size - 1)
    return BilinearTaps(lower, upper, place - 1024 * lower)


@dataclass(frozen=True, kw_only=True, eq=False)
class Resize(ByChannels):
    """To `size` = (height, width)."""

    no_overflow: ClassVar[bool] = True  # weights of two neighbours add up to 1024 * 1024, so sums are below 2^28
    spaced: ClassVar[bool] = True

    size: tuple[int, int]
    align_corners: bool
    half_pixel_centers: bool

    def check(self, node: Node) -> None:
        laws.same_quant(self, node.x, node.output)
        if self.align_corners and self.half_pixel_centers:
            raise OpFault(self, "both align_corners and half_pixel_centers")

    def ranges(self, node: Node, operands: Sequence[Range]) -> Range:
        """The range of the values that are read."""
        (x,) = operands
        return x

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        want(self, inputs, 1)
        want_rank(self, "x", inputs[0].shape, 4)
        if min(self.size) < 1:
            raise OpFault(self, f"cannot resize to {self.size}")
        n, _, _, c = inputs[0].shape
        return n, *self.size, c


class ResizeNearest(Resize):
    """Nearest neighbour."""

    def rows(self, y: int, sig: Signature) -> tuple[tuple[int | None, ...], ...]:
        height = sig.inputs[0].nhwc[1]
        image, out_y = divmod(y, sig.output.nhwc[1])
        return ((image * height + int(nearest_taps(self, height, self.size[0])[out_y]),),)

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        _, height, width, _ = sig.inputs[0].nhwc
        down = nearest_taps(self, height, self.size[0])
        across = nearest_taps(self, width, self.size[1])
        return arrays[0][:, down][:, :, across]


class ResizeBilinear(Resize):
    """Bilinear, in TFLite's 10-bit fixed point. rows(): (lower, upper), perhaps the same row twice."""

    def check(self, node: Node) -> None:
        super().check(node)
        laws.quantised(self, node.x, "input")

    def rows(self, y: int, sig: Signature) -> tuple[tuple[int | None, ...], ...]:
        height = sig.inputs[0].nhwc[1]
        image, out_y = divmod(y, sig.output.nhwc[1])
        lower, upper, _ = bilinear_taps(self, height, self.size[0])
        return ((image * height + int(lower[out_y]), image * height + int(upper[out_y])),)

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        x = arrays[0].astype(np.int64)
        _, height, width, _ = sig.inputs[0].nhwc
        y0, y1, dy = bilinear_taps(self, height, self.size[0])
        x0, x1, dx = bilinear_taps(self, width, self.size[1])
        down, across = dy[:, None, None], dx[:, None]
        upper_row = x[:, y0][:, :, x0] * (1024 - across) + x[:, y0][:, :, x1] * across
        lower_row = x[:, y1][:, :, x0] * (1024 - across) + x[:, y1][:, :, x1] * across
        total = upper_row * (1024 - down) + lower_row * down
        rounded = np.sign(total) * ((np.abs(total) + (1 << 19)) >> 20)
        result: Array = rounded.astype(sig.output.dtype.numpy)
        return result


OPS: tuple[type[Op], ...] = (ResizeNearest, ResizeBilinear)
