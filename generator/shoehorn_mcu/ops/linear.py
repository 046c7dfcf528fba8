"""What all linear ops share: sums of weights times x plus a bias, requantised per output channel and clamped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.ir import (
    Array,
    Biased,
    Bools,
    Channels,
    DType,
    Floats,
    Ints,
    Node,
    Op,
    OpFault,
    Range,
    Signature,
    Tie,
)
from shoehorn_mcu.ops import laws, real
from shoehorn_mcu.ops.arithmetic import LIMIT, rescaled
from shoehorn_mcu.ops.clamp import Clamped
from shoehorn_mcu.ops.fixed_point import quantize_multipliers, rescale, rescale_64

Scales = tuple[NDArray[np.int32], NDArray[np.int8]]
"""Multipliers and shifts, one of each per output channel."""

WIDE_LIMIT = (1 << 47) - 1  # of sums with an int64 bias, as TFLite's rescaling has it
BIAS_TOLERANCE = 0.02  # tolerance of a bias's scale against x scale * weight scale, in output steps, as in TFLite


def scaled_sums(sums: Ints, bias: DType, scales: Scales) -> Ints:
    """Whole sums, bias included, in steps of the output; rounded by `rescale_64` where the bias is int64."""
    return (rescale_64 if bias is DType.INT64 else rescale)(sums, *scales)


def overflow_64(largest: Ints, scales: Scales, what: str) -> str | None:
    """Which of the sums up to `largest`, each of a `what`, can leave 48 bits or, rescaled by `rescale_64`, int32."""
    multipliers, shifts = scales
    if (worst := int(largest.max())) > WIDE_LIMIT:
        return f"the accumulator of {what} {int(largest.argmax())} can reach {worst}, above 48 bits"
    if (worst := int(shifts.max())) > 7:  # it shifts to the right by more than 7
        return f"rescaling by 2^{worst} overflows int32"
    moved = rescale_64(largest, multipliers, shifts)
    at = int(moved.argmax())
    return f"{what} {at}: sums up to {largest[at]}, rescaled, overflow int32" if moved[at] > LIMIT else None


def folded_bias(weights: Array, bias: Array, x_zero: int, channel_axis: int = 0) -> NDArray[np.int32]:
    """bias[o] - x_zero * sum(w[o]): the sum over stored x is then the sum over x - x_zero.

    `channel_axis` is the output channel's axis in `weights`: 0 for Conv2d, TransposeConv2d and Dense,
    3 for DepthwiseConv2d. A tap on padding must read x_zero.
    """
    others = tuple(axis for axis in range(weights.ndim) if axis != channel_axis)
    sums = weights.astype(np.int64).sum(axis=others)
    folded: NDArray[np.int32] = (bias.astype(np.int64) - x_zero * sums).astype(np.int32)
    return folded


def _exact(least: Ints, greatest: Ints, scales: Scales) -> Bools:
    """Per output channel: whether finished sums between these and their left shift stay within int32."""
    shifts = np.clip(scales[1].astype(np.int64), 0, 31)
    largest = np.maximum(np.abs(least), np.abs(greatest)) << shifts
    within: Bools = (least >= -(1 << 31)) & (greatest < 1 << 31) & ((largest <= LIMIT) | (shifts == 0))
    return within & (scales[1] <= 30)


def _products(sig: Signature) -> Floats:
    """x scale * weight scale, per output channel."""
    weight_scales = np.full(sig.output.nhwc[3], np.array(sig.inputs[1].quantised.scales, np.float64))
    return sig.inputs[0].quantised.scale * weight_scales


@dataclass(frozen=True, eq=False)
class LinearView:
    """The sums of one linear op; group g's outputs read group g's inputs, both in order of the tensor's channels.

    `weights` is [groups, outputs of a group, kernel height, kernel width, inputs of a group] as float64, in which
    sums of int8 products are exact. A *tap* is a position of the kernel. At the borders some taps are in the padding,
    where they add nothing to the sum over x - x_zero. Only few output rows and columns differ in which taps are inside;
    each distinct *case* is listed once: `down` is [cases, kernel height], `across` is [cases, kernel width],
    and every pair of a row case and a column case occurs.
    """

    weights: Floats
    down: Bools
    across: Bools

    @property
    def groups(self) -> int:
        return len(self.weights)

    @property
    def used(self) -> Bools:
        """[kernel height, kernel width]: the taps that are inside the image somewhere."""
        return np.outer(self.down.any(axis=0), self.across.any(axis=0))

    def by_case(self, taps: Floats) -> Floats:
        """[..., row cases, column cases]: the sums over the taps inside, of values [..., kernel height, width]."""
        rows = np.einsum("...kl,rk->...rl", taps, self.down.astype(np.float64))
        sums: Floats = np.einsum("...rl,cl->...rc", rows, self.across.astype(np.float64))
        return sums

    def bounds(self, low: Ints, high: Ints) -> tuple[Ints, Ints]:
        """The least and the greatest sum per output channel, for x - x_zero in `low`..`high` (per input channel).

        Each tap adds the lesser or the greater of weight * low and weight * high, over the extreme case of padding.
        """
        low, high = low.reshape(self.groups, -1), high.reshape(self.groups, -1)
        positive, negative = np.maximum(self.weights, 0), np.minimum(self.weights, 0)

        def sums(at_positive: Ints, at_negative: Ints) -> Floats:
            taps = _dot(positive, at_positive) + _dot(negative, at_negative)
            outputs = self.groups * self.weights.shape[1]
            return self.by_case(taps).reshape(outputs, -1)

        least, greatest = sums(low, high).min(axis=1), sums(high, low).max(axis=1)
        return least.astype(np.int64), greatest.astype(np.int64)

    def tie(self) -> Tie:
        """Every input of a group with the first output of it, and every output with the first input."""
        groups, outputs, _, _, inputs = self.weights.shape
        x, y = np.arange(groups * inputs), np.arange(groups * outputs)
        return Tie(
            np.concatenate([x, y // outputs * inputs]),
            np.concatenate([x // inputs * outputs, y]),
        )


def _dot(weights: Floats, x: Ints) -> Floats:
    """[groups, outputs, kernel height, kernel width]: weights times x [groups, inputs], summed over inputs."""
    groups, outputs, kh, kw, inputs = weights.shape
    flat = weights.reshape(groups, -1, inputs) @ x.astype(np.float64)[:, :, None]
    return flat.reshape(groups, outputs, kh, kw)


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearOp(Clamped, Biased):
    """Constant weights and bias, and one of these kinds of element types:

    int8     x and output int8, weights int8, bias int32; weights that need 9 bits less their zero point are int16
    int16    x and output int16 with zero points of 0, weights int8, bias int32 or int64
    float32  all of them, or but for the bias float16
    """

    row_inputs: ClassVar[int | None] = 1
    channel_axis: ClassVar[int] = 0  # the output channel's axis in the weights

    def linear_view(self, node: Node[Self]) -> LinearView:
        """The sums as groups of kernels over taps."""
        raise NotImplementedError

    def macs(self, sig: Signature) -> int:
        """Of a sum for each output element, which has as many products as a channel has weights."""
        weights = sig.inputs[1]
        return sig.output.elements * weights.elements // weights.shape[self.channel_axis]

    def scales(self, sig: Signature) -> Scales:
        """Multipliers and shifts per output channel, x scale * weight scale / y scale in double precision.

        A per-tensor weight scale is repeated. Both arrays have one element per output channel. TFLite scales
        convolutions so in PopulateConvolutionQuantizationParams. Published sources of FULLY_CONNECTED multiply x scale
        and weight scale in single precision where there is one weight scale. The tflite_micro package does not: sums
        next to a half (tests/test_ops_oracle.py) tell the two apart.
        """
        return quantize_multipliers(_products(sig) / sig.output.quantised.scale)

    def requantise(self, sums: Ints, sig: Signature) -> Ints:
        """The stored outputs for whole sums, bias included, with the channel in the last axis."""
        moved = scaled_sums(sums, sig.inputs[2].dtype, self.scales(sig)) + sig.output.quantised.zero_point
        return np.clip(moved, self.clamp.low, self.clamp.high)

    def finished(self, sums: Floats, bias: Array, sig: Signature) -> Array:
        """The stored outputs for whole sums without their bias."""
        return self.requantise(sums.astype(np.int64) + bias.astype(np.int64), sig).astype(sig.output.dtype.numpy)

    def check(self, node: Node[Self]) -> None:
        x, weights, bias = node.inputs
        if real.check(node, "input", "weights", "bias"):
            real.check_constant(node, 1, "weights")
            real.check_constant(node, 2, "bias")
            return
        laws.weights(self, weights, self.channel_axis)
        laws.constant(self, bias, "bias")
        if x.type.dtype is DType.INT16:
            laws.dtype(self, weights, "weights", DType.INT8)
            laws.dtype(self, bias, "bias", DType.INT32, DType.INT64)
            for tensor, role in ((x, "input"), (node.output, "output")):
                laws.symmetric_16(self, tensor, role)
        else:
            laws.dtype(self, bias, "bias", DType.INT32)
            laws.quantised(self, x, "input")
            laws.quantised(self, node.output, "output")
        if (quant := bias.type.quant) is not None:
            off = np.abs(_products(node.sig) - np.array(quant.scales))
            if any(quant.zero_points) or (off > BIAS_TOLERANCE * node.output.type.quantised.scale).any():
                raise OpFault(self, f"its bias {laws.quoted(bias.name)} has scales other than input times weights")

    def sum_bounds(self, node: Node[Self], x: Range) -> tuple[Ints, Ints]:
        """Least and greatest finished sum per output channel, bias included, for stored inputs within `x`."""
        zero, bias = node.x.type.quantised.zero_point, node.bias.data
        assert bias is not None
        least, greatest = self.linear_view(node).bounds(x.low - zero, x.high - zero)
        return bias.astype(np.int64) + least, bias.astype(np.int64) + greatest

    def accumulators(self, node: Node[Self]) -> Ints:
        """The largest magnitude per output channel that a sum can have while it is added up, whatever the input.

        Kernels begin with the folded bias, the sum at stored zeros under all taps, and add products of stored values
        of x's type (the zero point in the padding), so every partial sum is within that of all extreme products.
        """
        x, weights, bias = node.x.type, node.weights.data, node.bias.data
        assert weights is not None and bias is not None
        by_channel = np.moveaxis(weights, self.channel_axis, 0).reshape(len(bias), -1)
        positive = np.maximum(by_channel, 0).sum(axis=1, dtype=np.int64)
        negative = np.minimum(by_channel, 0).sum(axis=1, dtype=np.int64)
        low, high = (limit - x.quantised.zero_point for limit in x.dtype.limits)
        start = bias.astype(np.int64)
        least, greatest = positive * low + negative * high, positive * high + negative * low
        largest: Ints = np.maximum(np.abs(start + least), np.abs(start + greatest))
        return largest

    def overflow(self, node: Node[Self]) -> str | None:
        largest = self.accumulators(node)
        if node.bias.type.dtype is DType.INT64:
            return overflow_64(largest, self.scales(node.sig), "channel")
        if (worst := int(largest.max())) > LIMIT:
            return f"the accumulator of channel {int(largest.argmax())} can reach {worst}, above int32"
        factors = _products(node.sig) / node.output.type.quantised.scale
        shifting = np.flatnonzero(factors >= 0.5)  # the others shift to the right
        faults = (rescaled(float(largest[c]), float(factors[c])) for c in shifting)
        return next((f"channel {c}: {why}" for c, why in zip(shifting, faults, strict=True) if why), None)

    def ranges(self, node: Node[Self], operands: Sequence[Range]) -> Range:
        """Ranges per channel; a channel whose sums may overflow has none, unless its multiplier is 0.

        Those of int16 are the clamp.
        """
        if node.output.type.dtype is DType.INT16:
            channels = node.output.type.nhwc[3]
            return Range(*(np.full(channels, bound, np.int64) for bound in (self.clamp.low, self.clamp.high)))
        (least, greatest), scales = self.sum_bounds(node, operands[0]), self.scales(node.sig)
        known = _exact(least, greatest, scales) | (scales[0] == 0)
        low = self.requantise(np.where(known, least, 0), node.sig)
        high = self.requantise(np.where(known, greatest, 0), node.sig)
        return Range(np.where(known, low, self.clamp.low), np.where(known, high, self.clamp.high))

    def channels(self, node: Node[Self]) -> Channels | None:
        """Ties within groups. The pass cuts weights and bias itself, along `channel_axis`."""
        return Channels((self.linear_view(node).tie(),), lambda operands, output: self.cut(output))

    def cut(self, output: Bools) -> Op:
        """The op with its attributes reduced to these output channels."""
        return self
