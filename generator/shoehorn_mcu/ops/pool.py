"""Windows without weights: pools, means and softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.ir import Array, Channels, DType, Ints, Node, Op, OpFault, Quant, Range, Signature, TensorType
from shoehorn_mcu.ops import fixed_point, laws, real
from shoehorn_mcu.ops.arithmetic import LIMIT, SPAN, ratio, rescaled, scales
from shoehorn_mcu.ops.channels import ByChannels, channel_by_channel, monotone
from shoehorn_mcu.ops.clamp import LARGEST_FLOAT32, Clamped
from shoehorn_mcu.ops.conv import Padding, positions, taps
from shoehorn_mcu.ops.fixed_point import Scale, divide_by_pot, quantize_multiplier, rescale
from shoehorn_mcu.ops.real import Reals
from shoehorn_mcu.ops.rules import ByPixels, as_4d, keeps_rows, want, want_rank, window_part, window_rows

T = TypeVar("T", Ints, Reals)

SOFTMAX_LIMIT = 1 << 12  # addends of at most 1.0 that fit into TFLite's sum, which has 12 integer bits
SOFTMAX_QUANT = Quant((1 / 256,), (-128,))

__all__ = ["AveragePool2d", "MaxPool2d", "Mean", "Pool2d", "Softmax"]


class SoftmaxParams(NamedTuple):
    """exp is taken of rescale(d, scale) in Q5.26, for differences d = x - maximum of the row, d >= diff_min."""

    scale: Scale
    diff_min: int


def softmax_params(op: Softmax, sig: Signature) -> SoftmaxParams:
    """The scale of the differences and the smallest difference that counts (PreprocessSoftmaxScaling)."""
    real = min(float(np.float32(op.beta)) * sig.inputs[0].quantised.scale * (1 << 26), (1 << 31) - 1.0)
    scale = quantize_multiplier(real)
    return SoftmaxParams(scale, -fixed_point.input_radius(5, scale.shift))


def softmax_exps(op: Softmax, sig: Signature) -> NDArray[np.int32]:
    """256 values of exp(beta * scale * -d) in Q0.31 for d = 0..255, d = maximum of the row - x; 0 below diff_min.

    A zero adds nothing to the sum and gives the lowest output, as TFLite Micro gives where it skips a difference.
    """
    (multiplier, shift), diff_min = softmax_params(op, sig)
    diff = -np.arange(256, dtype=np.int64)
    x = rescale(np.maximum(diff, diff_min), multiplier, shift)
    return np.where(diff >= diff_min, fixed_point.exp_on_negative_values(x, 5), 0).astype(np.int32)


class MeanParams(NamedTuple):
    """y = rescale(sum(x) - elements * x_zero, scale) + y_zero; the scale holds 1 / elements."""

    elements: int  # elements per mean
    scale: Scale


def mean_params(op: Mean, sig: Signature) -> MeanParams:
    """The scale of Mean: that of x scale / y scale, its multiplier divided by the number of elements and cut."""
    x = sig.inputs[0]
    count = math.prod(x.shape[axis] for axis in op.axes)
    return MeanParams(count, mean_scale(x.quantised.scale / sig.output.quantised.scale, count))


def mean_scale(factor: float, count: int) -> Scale:
    """The scale of a factor divided by a number of elements."""
    multiplier, shift = quantize_multiplier(factor)
    more = min(count.bit_length() - 1, 32, 31 + shift)
    return Scale((multiplier << more) // count, shift - more)


@dataclass(frozen=True, kw_only=True, eq=False)
class Pool2d(ByChannels, Clamped):
    """A window of kernel = (height, width) over int8, int16 or float32; padding does not count.

    Quantised x and y share one quantisation.
    """

    spaced: ClassVar[bool] = True

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: Padding = Padding()

    def check(self, node: Node) -> None:
        if not real.check(node, "input"):
            wide = (DType.INT16,) if node.x.type.dtype is DType.INT16 else ()
            laws.quantised(self, node.x, "input", *wide)
            laws.same_quant(self, node.x, node.output)

    def ranges(self, node: Node, operands: Sequence[Range]) -> Range:
        """The range of the values that are read, clamped."""
        (x,) = operands
        low, high = self.clamp.low, self.clamp.high
        return Range(np.clip(x.low, low, high), np.clip(x.high, low, high))

    def per_channel(self, node: Node) -> bool:
        return True

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        want(self, inputs, 1)
        (x,) = inputs
        want_rank(self, "x", x.shape, 4)
        n, _, _, c = x.shape
        return n, *positions(self, x, self.kernel, self.stride, self.padding), c

    def rows(self, y: int, sig: Signature) -> tuple[tuple[int | None, ...], ...]:
        return window_rows(y, sig, self.padding.top, self.kernel[0], self.stride[0])

    def part(self, rows: range, sig: Signature, apart: int = 1) -> Op | None:
        window = self.padding.top, self.kernel[0], self.stride[0], 1
        found = window_part(rows, sig.inputs[0].nhwc[1], window, apart)
        if found is None:
            return None
        top, bottom, stride, _ = found
        padding = replace(self.padding, top=top, bottom=bottom)
        return replace(self, padding=padding, stride=(stride, self.stride[1]))

    def _taps(self, x: T, outside: float, sig: Signature) -> list[T]:
        """For each position of the kernel, the element that each output reads there; `outside` in the padding."""
        return [below for _, _, below in taps(x, sig.output, self.kernel, self.stride, self.padding, outside)]

    def _clamped(self, y: Ints, sig: Signature) -> Array:
        return np.clip(y, self.clamp.low, self.clamp.high).astype(sig.output.dtype.numpy)


@dataclass(frozen=True, kw_only=True, eq=False)
class AveragePool2d(Pool2d):
    """Mean over the elements of the window that are inside; int8 is rounded half away from 0, or half up.

    `halves_up` is TFLite's rounding of uint8, whose stored values are all positive; they are held as int8, 128 less.
    """

    halves_up: bool = False

    def overflow(self, node: Node) -> str | None:
        count = math.prod(self.kernel)
        span = SPAN if node.output.type.dtype is DType.INT8 else -node.output.type.dtype.limits[0]
        return None if count * span <= LIMIT else f"a sum of {count} elements can leave int32"

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        if sig.output.dtype in real.STORED:
            (real_x,) = real.reals(arrays)
            inside = np.sum(self._taps(np.ones_like(real_x), 0, sig), axis=0, dtype=np.float32)
            means = real.in_order(np.stack(self._taps(real_x, 0, sig))) / inside
            return real.stored(real.clamped(means, self.clamp), sig.output.dtype)
        x = arrays[0].astype(np.int64)
        total: Ints = np.sum(self._taps(x, 0, sig), axis=0, dtype=np.int64)
        count: Ints = np.sum(self._taps(np.ones_like(x), 0, sig), axis=0, dtype=np.int64)
        away = np.sign(total) * ((np.abs(total) + count // 2) // count)
        y = (2 * total + count) // (2 * count) if self.halves_up else away
        return self._clamped(y, sig)


class MaxPool2d(Pool2d):
    """Largest element of the window."""

    no_overflow: ClassVar[bool] = True

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        if sig.output.dtype in real.STORED:
            (real_x,) = real.reals(arrays)
            most = real.largest(self._taps(real_x, -LARGEST_FLOAT32, sig))
            return real.stored(real.clamped(most, self.clamp), sig.output.dtype)
        least = sig.output.dtype.limits[0]
        return self._clamped(np.max(self._taps(arrays[0].astype(np.int64), least, sig), axis=0), sig)


@dataclass(frozen=True, kw_only=True, eq=False)
class Mean(Op):
    """Mean over `axes` (non-negative, of x's own rank, ascending), int8 or float32.

    rows(): where every output row is a row of the kept dimensions, the input rows of its mean (all H rows of its
    image if H is reduced, else one). If dropped dimensions move elements to other rows, all rows.
    """

    axes: tuple[int, ...]
    keep_dims: bool

    def check(self, node: Node) -> None:
        if not real.check(node, "input"):
            laws.quantised(self, node.x, "input")
            laws.quantised(self, node.output, "output")
        laws.rank_4(self, node.x)
        if not self.axes:
            raise OpFault(self, "it has no axes")

    def overflow(self, node: Node) -> str | None:
        """The division by the count is part of the factor."""
        count = node.x.type.elements // node.output.type.elements
        if count * SPAN > LIMIT:
            return f"a sum of {count} elements can leave int32"
        return rescaled(count * SPAN, ratio(node) / count)

    def ranges(self, node: Node, operands: Sequence[Range]) -> Range:
        return monotone(node, operands)

    def channels(self, node: Node) -> Channels | None:
        return channel_by_channel(node) if self.per_channel(node) else None

    def per_channel(self, node: Node) -> bool:
        return len(node.x.type.shape) - 1 not in self.axes

    def kept(self, x: TensorType) -> tuple[int, int, int, int]:
        """x's NHWC with every reduced dimension 1."""
        shape = tuple(1 if axis in self.axes else size for axis, size in enumerate(x.shape))
        return as_4d(shape, 1)

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        want(self, inputs, 1)
        rank = len(inputs[0].shape)
        if list(self.axes) != sorted(set(self.axes) & set(range(rank))):
            raise OpFault(self, f"axes {self.axes} are not ascending axes of x {inputs[0]}")
        if self.keep_dims:
            return tuple(1 if axis in self.axes else size for axis, size in enumerate(inputs[0].shape))
        return tuple(size for axis, size in enumerate(inputs[0].shape) if axis not in self.axes)

    def rows(self, y: int, sig: Signature) -> tuple[tuple[int | None, ...], ...]:
        x = sig.inputs[0]
        n, h, _, _ = x.nhwc
        kept_n, kept_h, kept_w, kept_c = self.kept(x)
        if (kept_n * kept_h, kept_w * kept_c) != (sig.output.rows, sig.output.row_elements):
            return (tuple(range(x.rows)),)
        image, row = divmod(y, kept_h)
        images = range(n) if kept_n < n else [image]
        heights = range(h) if kept_h < h else [row]
        return (tuple(i * h + j for i in images for j in heights),)

    def part(self, rows: range, sig: Signature, apart: int = 1) -> Op | None:
        return self if keeps_rows(sig, apart) and not {0, 1} & set(self.axes) else None

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        if sig.output.dtype in real.STORED:
            return real.stored(self._real(arrays, sig), sig.output.dtype)
        total = arrays[0].astype(np.int64).sum(axis=self.axes, keepdims=self.keep_dims)
        count, scale = mean_params(self, sig)
        y = rescale(total - count * sig.inputs[0].quantised.zero_point, *scale)
        return np.clip(y + sig.output.quantised.zero_point, -128, 127).astype(sig.output.dtype.numpy)

    def _real(self, arrays: Sequence[Array], sig: Signature) -> Array:
        """The sums in the order of the elements of x, divided by their number."""
        (x,) = real.reals(arrays)
        moved = np.moveaxis(x, self.axes, range(len(self.axes)))
        kept = moved.shape[len(self.axes) :]
        total = real.in_order(moved.reshape(-1, *kept))
        return (total / np.float32(x.size // total.size)).reshape(sig.output.shape)


@dataclass(frozen=True, kw_only=True, eq=False)
class Softmax(ByPixels):
    """exp(beta * x) over its sum along the last axis; float32, or int8 with scale 1/256 and zero point -128."""

    beta: float

    def check(self, node: Node) -> None:
        if real.check(node, "input"):
            laws.dtype(self, node.output, "output", DType.FLOAT32)
        else:
            laws.quantised(self, node.x, "input")
            laws.dtype(self, node.output, "output", DType.INT8)
            laws.fixed_output(self, node, SOFTMAX_QUANT)
        if self.beta <= 0:
            raise OpFault(self, f"beta is {self.beta}, not above 0")

    def overflow(self, node: Node) -> str | None:
        """TFLite's sum of exponentials holds 12 integer bits, and its scale must be more than 2^-26."""
        depth, step = node.x.type.shape[-1], self.beta * scales(node)[0]
        if depth >= SOFTMAX_LIMIT:
            return f"a sum of {depth} exponentials can leave int32; at most {SOFTMAX_LIMIT - 1} fit"
        return None if step * 2**26 > 1 else f"beta times scale is {step:g}, too small for TFLite's arithmetic"

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        want(self, inputs, 1)
        if not inputs[0].shape:
            raise OpFault(self, "its input is a scalar")
        return inputs[0].shape

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        if sig.output.dtype is DType.FLOAT32:
            (real_x,) = real.reals(arrays)
            return real.softmax(real_x, self.beta)
        x = arrays[0].astype(np.int64)
        exps = softmax_exps(self, sig).astype(np.int64)[x.max(axis=-1, keepdims=True) - x]
        total = divide_by_pot(exps, 12).sum(axis=-1, keepdims=True)  # Q12.19
        headroom = 32 - np.frexp(total.astype(np.float64))[1].astype(np.int64)  # leading zeros of 32 bits
        reciprocal = fixed_point.reciprocal_of_one_plus((total << headroom) - (1 << 31))
        y = divide_by_pot(fixed_point.high_mul(reciprocal, exps), 12 - headroom + 31 - 8) - 128
        return np.clip(y, -128, 127).astype(sig.output.dtype.numpy)


OPS: tuple[type[Op], ...] = (AveragePool2d, MaxPool2d, Mean, Softmax)
