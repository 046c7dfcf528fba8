"""Convolutions in parts: sums over some of the input channels in int32, and their requantisation to int8.

A block [A linear, N per channel, B linear] over hidden channels is a sum over chunks of them, B(N(A(x))) = sum of
B_i(N_i(A_i(x))), so only one chunk has to be in memory at a time (MobileNetV2, section 5.1). Integer sums do not
depend on their order, so the bytes stay the same. Model files never hold these ops; `schedule/split.py` makes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from shoehorn_mcu.ir import Array, DType, Floats, Node, Op, OpFault, Signature, TensorType
from shoehorn_mcu.ops import laws
from shoehorn_mcu.ops.clamp import Clamped
from shoehorn_mcu.ops.conv import Window
from shoehorn_mcu.ops.fixed_point import rescale
from shoehorn_mcu.ops.rules import last_rows, want, want_rank

__all__ = ["FirstPartial", "NextPartial", "Partial", "Rescale"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Partial(Window):
    """A sum of tap * weight over some input channels; x of any rank up to four, read as NHWC, and y of the same rank.

    Taps are stored values, and x's zero point in the padding. No constant is folded into the sum of a chunk: the
    constant part (bias - x_zero * sum of all weights of all chunks) is added once, at the start.
    """

    no_overflow: ClassVar[bool] = True  # schedule/split.py makes them only where no sum can leave int32 in any order
    start_place: ClassVar[int] = 2  # of the operand that the sums begin with
    goes_on: ClassVar[bool] = False  # whether that operand is the sums so far, not a constant

    def check(self, node: Node) -> None:
        laws.quantised(self, node.x, "input")
        laws.dtype(self, node.output, "output", DType.INT32)
        for tensor in node.inputs[len(node.row_inputs) :]:
            laws.constant(self, tensor, "weights or start")

    def _sum_shape(self, x: TensorType, weights: TensorType) -> tuple[int, ...]:
        want_rank(self, "weights", weights.shape, 4)
        if weights.shape[3] != x.nhwc[3]:
            raise OpFault(self, f"weights {weights} do not fit the {x.nhwc[3]} channels of x {x}")
        shape = (x.nhwc[0], *self.positions(x, weights), weights.shape[0])
        beyond = 4 - len(x.shape)
        if any(size != 1 for size in shape[:beyond]):
            raise OpFault(self, f"gives {shape}, which has no {len(x.shape)} dimensions like x {x}")
        return shape[beyond:]

    def _taps_times_weights(self, x: Array, weights: Array, sig: Signature) -> Floats:
        """[N, H, W, O]; float64 products and sums of int8 values are exact, and fast in BLAS."""
        total = np.zeros(sig.output.nhwc)
        stored = x.reshape(sig.inputs[0].nhwc).astype(np.float64)
        for ky, kx, below in self.taps(stored, sig, sig.inputs[0].quantised.zero_point):
            total += below @ weights[:, ky, kx].astype(np.float64).T
        return total

    def macs(self, sig: Signature) -> int:
        _, kh, kw, i = self.weights(sig).shape
        return sig.output.elements * kh * kw * i


@dataclass(frozen=True, kw_only=True, eq=False)
class FirstPartial(Partial):
    """inputs (x, weights OHWI, start int32 [O]); y = start + sum of tap * weight, int32."""

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        want(self, inputs, 3)
        x, weights, start = inputs
        if start.shape != weights.shape[:1]:
            raise OpFault(self, f"start has shape {start.shape}, {weights.shape[:1]} is needed")
        return self._sum_shape(x, weights)

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        x, weights, start = arrays
        return _int32(self._taps_times_weights(x, weights, sig) + start.astype(np.float64), sig)


@dataclass(frozen=True, kw_only=True, eq=False)
class NextPartial(Partial):
    """inputs (x, sum int32 as y, weights OHWI); y = sum + sum of tap * weight, int32."""

    row_inputs: ClassVar[int | None] = 2
    weights_place: ClassVar[int] = 2
    start_place: ClassVar[int] = 1
    goes_on: ClassVar[bool] = True

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        want(self, inputs, 3)
        x, before, weights = inputs
        shape = self._sum_shape(x, weights)
        if (before.shape, before.dtype) != (shape, DType.INT32):
            raise OpFault(self, f"adds to {before}, int32 of shape {shape} is needed")
        return shape

    def rows(self, y: int, sig: Signature) -> tuple[tuple[int | None, ...], ...]:
        return (*super().rows(y, sig), (y,))

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        x, before, weights = arrays
        return _int32(
            self._taps_times_weights(x, weights, sig) + before.reshape(sig.output.nhwc).astype(np.float64), sig
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Rescale(Clamped):
    """inputs (sum int32 or int16 [..., O], multipliers int32 [O], shifts int8 [O]); y int8.

    y = clamp(y_zero + rescale(sum)). One multiplier and one shift may be for all channels. Of a `window` above 1 the
    sums are [N, H, W, O], of which every `window`-th row is read, y [N, H / window, W, O].
    """

    no_overflow: ClassVar[bool] = True  # its sums are those of the op that schedule/split.py divides, which was proven
    window: int = 1
    row_inputs: ClassVar[int | None] = 1

    def check(self, node: Node) -> None:
        laws.dtype(self, node.x, "sum", DType.INT32, DType.INT16)
        laws.quantised(self, node.output, "output")
        for tensor in node.inputs[1:]:
            laws.constant(self, tensor, "multipliers or shifts")

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        want(self, inputs, 3)
        total, *scales = inputs
        if len({each.shape for each in scales} - {(1,)}) > 1 or scales[0].shape not in ((1,), total.shape[-1:]):
            raise OpFault(self, f"multipliers and shifts need one value, or one per channel, of {total}")
        return total.shape if self.window == 1 else last_rows(self, total, self.window)

    def rows(self, y: int, sig: Signature) -> tuple[tuple[int | None, ...], ...]:
        return ((y * self.window + self.window - 1,),)

    def pixelwise(self, sig: Signature) -> bool:
        return self.window == 1

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        total, *scales = arrays
        if self.window > 1:
            total = total[:, self.window - 1 :: self.window]
        moved = rescale(total, *scales) + sig.output.quantised.zero_point
        return np.clip(moved, self.clamp.low, self.clamp.high).astype(sig.output.dtype.numpy)


def _int32(total: Floats, sig: Signature) -> Array:
    """The whole sums in the output's shape."""
    return total.astype(np.int64).astype(np.int32).reshape(sig.output.shape)


OPS: tuple[type[Op], ...] = (FirstPartial, NextPartial, Rescale)
