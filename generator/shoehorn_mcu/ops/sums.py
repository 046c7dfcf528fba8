"""Sums and maxima over rows that arrive one after the other: each output row is those so far, made from the row before.

A pool or a dense layer that reads many rows then holds one row of sums instead of all of them, and one more op
computes its result from the last sums. Integer sums do not depend on their order, and sums of float32 keep that of
TFLite's reference kernels, row by row, so the bytes stay the same. Model files never hold these ops; the pass
`sum-rows` makes them. They need what an op that carries needs: rows in order, each computed once (README.md,
Recurrent layers).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from shoehorn_mcu.ir import Array, DType, Ints, Node, Op, OpFault, Signature, TensorType, Weighted
from shoehorn_mcu.ops import laws, real
from shoehorn_mcu.ops.arithmetic import LIMIT
from shoehorn_mcu.ops.clamp import Clamped
from shoehorn_mcu.ops.rules import last_rows, want, want_rank

__all__ = ["Average", "RunningMax", "SumDense", "SumPool"]

_LARGEST = 128  # magnitude of a stored int8


@dataclass(frozen=True, kw_only=True, eq=False)
class _Sums(Op):
    """Sums over the first row of a window, its first two rows, and so on: `height` rows for each window."""

    row_inputs: ClassVar[int | None] = 1
    carries: ClassVar[bool] = True
    sum_types: ClassVar[tuple[DType, ...]] = (DType.INT32,)

    def check(self, node: Node) -> None:
        laws.dtype(self, node.x, "input", DType.INT8)
        laws.dtype(self, node.output, "sums", *self.sum_types)
        for tensor in node.inputs[1:]:
            laws.constant(self, tensor, "weights or start")


@dataclass(frozen=True, kw_only=True, eq=False)
class _Windows(_Sums):
    """Windows of x (N, H, W, C) without padding, that do not overlap downwards.

    The output is (N, windows down * kernel height, windows across, C). Its row i * kernel[0] + j has, for each window
    of the i-th line of windows, the result of its first j + 1 rows.
    """

    kernel: tuple[int, int]
    stride: tuple[int, int]

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        want(self, inputs, 1)
        want_rank(self, "x", inputs[0].shape, 4)
        n, height, width, channels = inputs[0].shape
        counts = [(size - k) // s + 1 for size, k, s in zip((height, width), self.kernel, self.stride, strict=True)]
        if min(*self.kernel, *self.stride, *counts) < 1 or (counts[0] > 1 and self.stride[0] < self.kernel[0]):
            raise OpFault(self, f"windows of {self.kernel} by {self.stride} do not lie side by side in x {inputs[0]}")
        return n, counts[0] * self.kernel[0], counts[1], channels

    def rows(self, y: int, sig: Signature) -> tuple[tuple[int | None, ...], ...]:
        image, line = divmod(y, sig.output.nhwc[1])
        window, row = divmod(line, self.kernel[0])
        x = image * sig.inputs[0].nhwc[1] + window * self.stride[0] + row
        return (x,), (y - 1 if row else None,)

    def _accumulated(self, join: np.ufunc, x: Array, sig: Signature) -> Array:
        """The elements of each window's row joined, and these row by row."""
        (high, wide), (down, right) = self.kernel, self.stride
        _, lines, across, _ = sig.output.shape
        columns = np.stack([join.reduce(x[:, :, at * right :][:, :, :wide], axis=2) for at in range(across)], axis=2)
        found = [join.accumulate(columns[:, at * down :][:, :high], axis=1) for at in range(lines // high)]
        joined: Array = np.concatenate(found, axis=1)
        return joined


@dataclass(frozen=True, kw_only=True, eq=False)
class SumPool(_Windows):
    """Sums of x's stored values, int8: int32, or int16 where every one fits. They begin with `start`.

    x may be float32 or float16, and its sums are float32.
    """

    sum_types: ClassVar[tuple[DType, ...]] = (DType.INT32, DType.INT16)
    start: int = 0  # 0 for float32

    def check(self, node: Node) -> None:
        if node.x.type.dtype in real.STORED:
            laws.dtype(self, node.output, "sums", DType.FLOAT32)
        else:
            super().check(node)

    def overflow(self, node: Node) -> str | None:
        dtype = node.output.type.dtype
        if dtype is DType.FLOAT32:
            return None
        limit = (1 << (8 * dtype.bytes - 1)) - 1
        return None if self.reach <= limit else f"a sum can reach {self.reach}, above {dtype.value}"

    @property
    def reach(self) -> int:
        """The largest magnitude of a sum."""
        return abs(self.start) + self.kernel[0] * self.kernel[1] * _LARGEST

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        if sig.output.dtype is DType.FLOAT32:
            return self._real(arrays, sig)
        sums = self._accumulated(np.add, arrays[0].astype(np.int64), sig) + self.start
        return sums.astype(sig.output.dtype.numpy)

    def _real(self, arrays: Sequence[Array], sig: Signature) -> Array:
        """The sums of float32, from 0, element by element of a window's row and row by row."""
        (x,) = real.reals(arrays)
        sums = np.zeros(sig.output.shape, np.float32)
        for y in range(sig.output.shape[1]):
            window, row = divmod(y, self.kernel[0])
            line = x[:, window * self.stride[0] + row]
            total = sums[:, y - 1] if row else sums[:, y]
            for at in range(self.kernel[1]):
                total = total + line[:, at :: self.stride[1]][:, : sig.output.shape[2]]
            sums[:, y] = total
        return sums


@dataclass(frozen=True, kw_only=True, eq=False)
class RunningMax(_Windows, Clamped):
    """The largest elements of x's windows, int8, clamped; x and y share one quantisation."""

    no_overflow: ClassVar[bool] = True

    def check(self, node: Node) -> None:
        laws.quantised(self, node.x, "input")
        laws.same_quant(self, node.x, node.output)

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        most = self._accumulated(np.maximum, arrays[0], sig)
        return np.clip(most, self.clamp.low, self.clamp.high).astype(np.int8)


@dataclass(frozen=True, kw_only=True, eq=False)
class SumDense(_Sums, Weighted):
    """inputs (x (1, H, W, C) int8, weights int8 (O, H * W * C), start int32 (O)); sums int32 (1, H, 1, O).

    Row y: `start` and the products of x's first y + 1 rows with their weights. A dense layer of a flattened map: its
    bias, with the input's zero point folded in, is the start. x and weights may be float32 or float16, start and sums
    are float32 then; with `fused` a product and its addition are rounded once.
    """

    fused: bool = False

    def check(self, node: Node) -> None:
        x, weights, start = node.inputs
        if x.type.dtype not in real.STORED:
            super().check(node)
            return
        laws.dtype(self, weights, "weights", x.type.dtype)
        laws.dtype(self, start, "start", DType.FLOAT32)
        laws.dtype(self, node.output, "sums", DType.FLOAT32)
        real.check_constant(node, 1, "weights")
        real.check_constant(node, 2, "start")

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        want(self, inputs, 3)
        x, weights, start = inputs
        want_rank(self, "x", x.shape, 4)
        if x.shape[0] != 1 or weights.shape != (weights.shape[0], x.elements) or start.shape != weights.shape[:1]:
            raise OpFault(self, f"weights {weights} and start {start} do not fit x {x}")
        return 1, x.shape[1], 1, weights.shape[0]

    def rows(self, y: int, sig: Signature) -> tuple[tuple[int | None, ...], ...]:
        return (y,), (y - 1 if y else None,)

    def overflow(self, node: Node) -> str | None:
        _, weights, start = node.inputs
        if node.output.type.dtype is DType.FLOAT32:
            return None
        assert weights.data is not None and start.data is not None
        reach = np.abs(start.data.astype(np.int64)) + _LARGEST * np.abs(weights.data.astype(np.int64)).sum(axis=1)
        return None if reach.max() <= LIMIT else f"a sum can reach {reach.max()}, above int32"

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        if sig.output.dtype is DType.FLOAT32:
            return self._real(arrays, sig)
        x, weights, start = (array.astype(np.int64) for array in arrays)
        rows: Ints = x.reshape(x.shape[1], 1, -1) * weights.reshape(len(weights), x.shape[1], -1).transpose(1, 0, 2)
        sums: Array = (rows.sum(axis=2).cumsum(axis=0) + start).astype(np.int32).reshape(sig.output.shape)
        return sums

    def _real(self, arrays: Sequence[Array], sig: Signature) -> Array:
        """The sums of float32, product by product in the order of x's elements."""
        x, weights, total = real.reals(arrays)
        taps, columns = x.reshape(-1), weights.T
        rows, size = [], taps.size // sig.output.nhwc[1]
        for at, tap in enumerate(taps):
            if self.fused:
                total = real.fused_multiply_add(np.broadcast_to(tap, total.shape), columns[at], total)
            else:
                total = total + tap * columns[at]
            if (at + 1) % size == 0:
                rows.append(total)
        return np.stack(rows).reshape(sig.output.shape)

    def macs(self, sig: Signature) -> int:
        return sig.inputs[1].elements


@dataclass(frozen=True, kw_only=True, eq=False)
class Average(Clamped):
    """x (N, H, W, C) int32 or int16 sums, of which every `window`-th row is read; (N, H / window, W, C) int8.

    y = clamp(x / count), rounded half away from zero: the end of an average pool. Sums of float32 give float32, and
    may have a bias (W * C), float32, that is added then: the end of a dense layer.
    """

    no_overflow: ClassVar[bool] = True  # sums of at most count elements, and half of count, as SumPool proves
    row_inputs: ClassVar[int | None] = 1

    window: int
    count: int

    def check(self, node: Node) -> None:
        if len(node.inputs) == 2:
            laws.dtype(self, node.x, "sums", DType.FLOAT32)
            real.check_constant(node, 1, "bias")
        if not real.check(node, *("sums", "bias")[: len(node.inputs)]):
            laws.dtype(self, node.x, "sums", DType.INT32, DType.INT16)
            laws.quantised(self, node.output, "output")
        if self.count < 1:
            raise OpFault(self, f"it divides by {self.count}")

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        if len(inputs) != 2:
            want(self, inputs, 1)
        elif inputs[1].shape != (inputs[0].row_elements,):
            raise OpFault(self, f"its bias {inputs[1]} does not fit {inputs[0]}")
        return last_rows(self, inputs[0], self.window)

    def rows(self, y: int, sig: Signature) -> tuple[tuple[int | None, ...], ...]:
        return ((y * self.window + self.window - 1,),)

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        last = arrays[0][:, self.window - 1 :: self.window]
        if sig.output.dtype is DType.FLOAT32:
            quotients = last.astype(np.float32) / np.float32(self.count)
            bias = arrays[1].astype(np.float32).reshape(quotients.shape[2:]) if len(arrays) == 2 else None
            return real.clamped(quotients if bias is None else quotients + bias, self.clamp)
        total = last.astype(np.int64)
        means: Ints = np.sign(total) * ((np.abs(total) + self.count // 2) // self.count)
        return np.clip(means, self.clamp.low, self.clamp.high).astype(sig.output.dtype.numpy)


OPS: tuple[type[Op], ...] = (SumPool, RunningMax, SumDense, Average)
