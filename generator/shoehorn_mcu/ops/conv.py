"""Convolutions and dense layers: linear maps with a bias, requantised and clamped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar, Self, TypeVar, cast

import numpy as np

from shoehorn_mcu.ir import Array, Bools, DType, Floats, Ints, Node, Op, OpFault, Signature, TensorType, Weighted
from shoehorn_mcu.ops import laws, real
from shoehorn_mcu.ops.linear import LinearOp, LinearView
from shoehorn_mcu.ops.linear import folded_bias as folded_bias
from shoehorn_mcu.ops.real import Reals
from shoehorn_mcu.ops.rules import ByPixels, want, want_rank, window_count, window_part, window_rows

T = TypeVar("T", Floats, Ints, Reals)

__all__ = ["Conv2d", "Dense", "DepthwiseConv2d", "Padding", "TransposeConv2d"]


@dataclass(frozen=True)
class Padding:
    """Elements of padding at each side (the importer resolves SAME and VALID)."""

    top: int = 0
    bottom: int = 0
    left: int = 0
    right: int = 0


Pair = tuple[int, int]
"""Down and across."""


def positions(op: Op, x: TensorType, kernel: Pair, stride: Pair, pad: Padding, dilation: Pair = (1, 1)) -> Pair:
    """Height and width of the output of a window over NHWC x; raises GraphError where the kernel does not fit."""
    (_, height, width, _), (kh, kw) = x.nhwc, kernel
    h = window_count(height, pad.top, pad.bottom, kh, stride[0], dilation[0])
    w = window_count(width, pad.left, pad.right, kw, stride[1], dilation[1])
    if h < 1 or w < 1:
        raise OpFault(op, f"a kernel of {kh}x{kw} does not fit into {height}x{width}")
    return h, w


def taps(
    x: T, y: TensorType, kernel: Pair, stride: Pair, pad: Padding, outside: float, dilation: Pair = (1, 1)
) -> list[tuple[int, int, T]]:
    """(ky, kx, the elements of NHWC x, with `outside` around it, under that tap for every position of the output y)."""
    padded = np.pad(x, ((0, 0), (pad.top, pad.bottom), (pad.left, pad.right), (0, 0)), constant_values=outside)
    _, h, w, _ = y.nhwc
    (down, across), (dil_y, dil_x) = stride, dilation
    places = product(range(kernel[0]), range(kernel[1]))
    return [(ky, kx, padded[:, ky * dil_y :: down, kx * dil_x :: across][:, :h, :w]) for ky, kx in places]


def _centred(x: Array, sig: Signature) -> Floats:
    """x - x_zero; float64 products and sums of int8 values are exact, and fast in BLAS."""
    return x.astype(np.float64) - sig.inputs[0].quantised.zero_point


def _wide(node: Node[LinearOp]) -> Floats:
    """The constant weights, integers in float64."""
    weights = node.weights.data
    assert weights is not None
    return cast(Floats, weights) if weights.dtype.kind == "f" else weights.astype(np.float64)


@dataclass(frozen=True, kw_only=True, eq=False)
class Window(Weighted):
    """A kernel that slides over rows and columns; inputs x and, not always in second place, weights.

    `weights` may be [O, kh, kw, I] or [1, kh, kw, O].
    """

    row_inputs: ClassVar[int | None] = 1
    stride: tuple[int, int] = (1, 1)  # down, across
    dilation: tuple[int, int] = (1, 1)
    padding: Padding = Padding()

    def weights(self, sig: Signature) -> TensorType:
        """The type of the weights."""
        return sig.inputs[self.weights_place]

    def positions(self, x: TensorType, weights: TensorType) -> Pair:
        """Height and width of the output; raises GraphError where the kernel does not fit."""
        _, kh, kw, _ = weights.shape
        return positions(self, x, (kh, kw), self.stride, self.padding, self.dilation)

    def rows(self, y: int, sig: Signature) -> tuple[tuple[int | None, ...], ...]:
        return window_rows(y, sig, self.padding.top, self.weights(sig).shape[1], self.stride[0], self.dilation[0])

    def pixelwise(self, sig: Signature) -> bool:
        return self.weights(sig).shape[1:3] == self.stride == (1, 1) and self.padding == Padding()

    def taps(self, x: T, sig: Signature, outside: float = 0.0) -> list[tuple[int, int, T]]:
        """(ky, kx, the elements of x under that tap for every output position), with `outside` around x."""
        _, kh, kw, _ = self.weights(sig).shape
        return taps(x, sig.output, (kh, kw), self.stride, self.padding, outside, self.dilation)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Convolution(Window, LinearOp):
    """What Conv2d and DepthwiseConv2d share: inputs (x, weights, bias)."""

    fused: bool = False  # float32 only: see real.products_summed

    def _channels(self, x: TensorType, weights: TensorType) -> int:
        """Number of output channels; raises GraphError where x and weights do not fit."""
        raise NotImplementedError

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        want(self, inputs, 3)
        x, weights, bias = inputs
        want_rank(self, "x", x.shape, 4)
        want_rank(self, "weights", weights.shape, 4)
        channels = self._channels(x, weights)
        if bias.shape != (channels,):
            raise OpFault(self, f"bias has shape {bias.shape}, ({channels},) is needed")
        return x.shape[0], *self.positions(x, weights), channels

    def part(self, rows: range, sig: Signature, apart: int = 1) -> Op | None:
        window = self.padding.top, self.weights(sig).shape[1], self.stride[0], self.dilation[0]
        found = window_part(rows, sig.inputs[0].nhwc[1], window, apart)
        if found is None:
            return None
        top, bottom, stride, dilation = found
        padding = replace(self.padding, top=top, bottom=bottom)
        over, along = self.stride[1], self.dilation[1]
        return replace(self, padding=padding, stride=(stride, over), dilation=(dilation, along))

    def _cases(self, node: Node[Self]) -> tuple[Bools, Bools]:
        """LinearView's `down` and `across`."""
        x, weights, y = node.x.type, node.weights.type, node.output.type
        inside = []
        for axis, before in enumerate((self.padding.top, self.padding.left)):
            first = np.arange(y.nhwc[1 + axis])[:, None] * self.stride[axis] - before
            place = first + np.arange(weights.shape[1 + axis]) * self.dilation[axis]
            cases = map(tuple, ((place >= 0) & (place < x.nhwc[1 + axis])).tolist())
            inside.append(np.array(list(dict.fromkeys(cases))))
        down, across = inside
        return down, across


@dataclass(frozen=True, kw_only=True, eq=False)
class Conv2d(_Convolution):
    """inputs (x NHWC, weights OHWI, bias int32 [O]); groups follow from C / I."""

    spaced: ClassVar[bool] = True

    def _channels(self, x: TensorType, weights: TensorType) -> int:
        groups, rest = divmod(x.shape[3], weights.shape[3])
        if rest or weights.shape[0] % max(groups, 1):
            raise OpFault(self, f"weights {weights} do not divide the channels of x {x} into groups")
        return weights.shape[0]

    def linear_view(self, node: Node[Self]) -> LinearView:
        weights = _wide(node)
        groups = node.x.type.shape[3] // weights.shape[3]
        return LinearView(weights.reshape(groups, -1, *weights.shape[1:]), *self._cases(node))

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        x, weights, bias = arrays
        if sig.output.dtype in real.STORED:
            return real.stored(self._real(arrays, sig), sig.output.dtype)
        acc = np.zeros(sig.output.shape)
        per_group = weights.shape[3]
        groups = x.shape[3] // per_group
        outputs = weights.shape[0] // groups
        for ky, kx, below in self.taps(_centred(x, sig), sig):
            w = weights[:, ky, kx].astype(np.float64)
            for g in range(groups):
                out = slice(g * outputs, (g + 1) * outputs)
                acc[..., out] += below[..., g * per_group : (g + 1) * per_group] @ w[out].T
        return self.finished(acc, bias, sig)

    def _real(self, arrays: Sequence[Array], sig: Signature) -> Array:
        """The sums by line, column and input channel of the window, in this order."""
        x, weights, bias = real.reals(arrays)
        per_group = weights.shape[3]
        groups = x.shape[3] // per_group
        split = [(ky, kx, below.reshape(*below.shape[:3], groups, per_group)) for ky, kx, below in self.taps(x, sig)]
        kernels = weights.reshape(groups, -1, *weights.shape[1:])
        pairs = [(below[..., i, None], kernels[:, :, ky, kx, i]) for ky, kx, below in split for i in range(per_group)]
        shape = (*sig.output.shape[:3], groups, kernels.shape[1])
        total = real.products_summed(pairs, shape, bias.reshape(groups, -1), self.fused)
        return real.clamped(total.reshape(sig.output.shape), self.clamp)


@dataclass(frozen=True, kw_only=True, eq=False)
class DepthwiseConv2d(_Convolution):
    """inputs (x NHWC, weights [1, kh, kw, C * multiplier], bias int32).

    Output channel c reads input channel c // multiplier.
    """

    channel_axis: ClassVar[int] = 3

    def _channels(self, x: TensorType, weights: TensorType) -> int:
        if weights.shape[0] != 1 or weights.shape[3] % x.shape[3]:
            raise OpFault(self, f"weights {weights} do not fit x {x}: 1 x height x width x a multiple of C is needed")
        return weights.shape[3]

    def linear_view(self, node: Node[Self]) -> LinearView:
        weights = _wide(node)
        by_output = np.moveaxis(weights[0], 2, 0)
        by_input = by_output.reshape(node.x.type.shape[3], -1, *weights.shape[1:3], 1)
        return LinearView(by_input, *self._cases(node))

    def per_channel(self, node: Node) -> bool:
        return True

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        x, weights, bias = arrays
        if sig.output.dtype in real.STORED:
            return real.stored(self._real(arrays, sig), sig.output.dtype)
        acc = np.zeros(sig.output.shape)
        centred = np.repeat(_centred(x, sig), weights.shape[3] // x.shape[3], axis=3)
        for ky, kx, below in self.taps(centred, sig):
            acc += below * weights[0, ky, kx]
        return self.finished(acc, bias, sig)

    def _real(self, arrays: Sequence[Array], sig: Signature) -> Array:
        """The sums by line and column of the window, in this order."""
        x, weights, bias = real.reals(arrays)
        repeated = np.repeat(x, weights.shape[3] // x.shape[3], axis=3)
        pairs = [(below, weights[0, ky, kx]) for ky, kx, below in self.taps(repeated, sig)]
        return real.clamped(real.products_summed(pairs, sig.output.shape, bias, self.fused), self.clamp)


@dataclass(frozen=True, kw_only=True, eq=False)
class TransposeConv2d(LinearOp):
    """inputs (x NHWC, weights OHWI, bias [O]), int8 or int16; out[y * stride + ky - top] += x[y] * w[ky].

    `output_shape` is NHWC. rows(): one place per kernel row ky, the input row that tap ky of output row y reads.
    """

    spaced: ClassVar[bool] = True

    output_shape: tuple[int, ...]
    stride: tuple[int, int] = (1, 1)
    padding: Padding = Padding()

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        want(self, inputs, 3)
        x, weights, bias = inputs
        want_rank(self, "x", x.shape, 4)
        want_rank(self, "weights", weights.shape, 4)
        want_rank(self, "output", self.output_shape, 4)
        if weights.shape[3] != x.shape[3]:
            raise OpFault(self, f"weights {weights} do not fit the {x.shape[3]} channels of x {x}")
        if bias.shape != weights.shape[:1]:
            raise OpFault(self, f"bias has shape {bias.shape}, {weights.shape[:1]} is needed")
        if (self.output_shape[0], self.output_shape[3]) != (x.shape[0], weights.shape[0]):
            raise OpFault(self, f"output shape {self.output_shape} does not fit x {x} and weights {weights}")
        return self.output_shape

    def check(self, node: Node[Self]) -> None:
        if node.x.type.dtype is not DType.INT16:
            laws.quantised(self, node.x, "input")
        laws.dtype(self, node.weights, "weights", DType.INT8)
        super().check(node)

    def linear_view(self, node: Node[Self]) -> LinearView:
        weights, x, y = _wide(node), node.x.type, node.output.type
        inside = []
        for axis, before in enumerate((self.padding.top, self.padding.left)):
            size, out, kernel, stride = x.nhwc[1 + axis], y.nhwc[1 + axis], weights.shape[1 + axis], self.stride[axis]
            place, rest = np.divmod(np.arange(out)[:, None] + before - np.arange(kernel), stride)
            inside.append(np.unique((rest == 0) & (place >= 0) & (place < size), axis=0))
        return LinearView(weights[None], *inside)

    def cut(self, output: Bools) -> Op:
        return replace(self, output_shape=(*self.output_shape[:3], int(output.sum())))

    def rows(self, y: int, sig: Signature) -> tuple[tuple[int | None, ...], ...]:
        image, out_y = divmod(y, sig.output.nhwc[1])
        height, kernel = sig.inputs[0].nhwc[1], sig.inputs[1].shape[1]
        places = (divmod(out_y + self.padding.top - ky, self.stride[0]) for ky in range(kernel))
        return (tuple(image * height + row if not rest and 0 <= row < height else None for row, rest in places),)

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        x, weights, bias = arrays
        centred, (down, across), pad = _centred(x, sig), self.stride, self.padding
        n, h, w, _ = x.shape
        _, out_h, out_w, outputs = sig.output.nhwc
        _, kh, kw, _ = weights.shape
        canvas = np.zeros((n, max(h * down + kh, pad.top + out_h), max(w * across + kw, pad.left + out_w), outputs))
        for ky in range(kh):
            for kx in range(kw):
                part = centred @ weights[:, ky, kx].astype(np.float64).T
                canvas[:, ky : ky + h * down : down, kx : kx + w * across : across] += part
        acc = canvas[:, pad.top : pad.top + out_h, pad.left : pad.left + out_w]
        return self.finished(acc, bias, sig)

    def macs(self, sig: Signature) -> int:
        outputs, kh, kw, _ = sig.inputs[1].shape
        return sig.inputs[0].elements * kh * kw * outputs


@dataclass(frozen=True, kw_only=True, eq=False)
class Dense(ByPixels, LinearOp):
    """inputs (x [..., I], weights [O, I], bias int32 [O]); output [..., O]."""

    fused: bool = False  # float32 only: see real.products_summed

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        want(self, inputs, 3)
        x, weights, bias = inputs
        want_rank(self, "weights", weights.shape, 2)
        if x.shape[-1:] != weights.shape[1:]:
            raise OpFault(self, f"weights {weights} do not fit the last dimension of x {x}")
        if bias.shape != weights.shape[:1]:
            raise OpFault(self, f"bias has shape {bias.shape}, {weights.shape[:1]} is needed")
        return (*x.shape[:-1], weights.shape[0])

    def linear_view(self, node: Node[Self]) -> LinearView:
        always = np.ones((1, 1), np.bool_)
        return LinearView(_wide(node)[None, :, None, None, :], always, always)

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        x, weights, bias = arrays
        if sig.output.dtype in real.STORED:
            return real.stored(self._real(arrays, sig), sig.output.dtype)
        acc = _centred(x, sig) @ weights.astype(np.float64).T
        return self.finished(acc, bias, sig)

    def _real(self, arrays: Sequence[Array], sig: Signature) -> Array:
        """The sums in the order of the inputs."""
        x, weights, bias = real.reals(arrays)
        pairs = [(x[..., i, None], weights[:, i]) for i in range(weights.shape[1])]
        return real.clamped(real.products_summed(pairs, sig.output.shape, bias, self.fused), self.clamp)


OPS: tuple[type[Op], ...] = (Conv2d, DepthwiseConv2d, TransposeConv2d, Dense)
