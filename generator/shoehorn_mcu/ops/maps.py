"""Ops that are given by a formula (formula.py): element by element, along one axis, and products of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, zip_longest
from typing import ClassVar

import numpy as np

from shoehorn_mcu.ir import Array, DType, Node, Op, OpFault, Pairwise, Signature, TensorType
from shoehorn_mcu.ops import laws
from shoehorn_mcu.ops.formula import Formula, parse
from shoehorn_mcu.ops.rules import broadcast_by_pixels, keeps_rows, want

__all__ = ["Formulaic", "Map", "MatMul", "Reduce", "Scan", "TopIndices"]

MOST_OPERANDS = 8


def broadcast(op: Op, inputs: Sequence[TensorType]) -> tuple[int, ...]:
    """The shape that the inputs broadcast to, as NumPy does it, in any number of dimensions."""
    try:
        return np.broadcast_shapes(*(t.shape for t in inputs))
    except ValueError:
        raise OpFault(op, f"shapes {', '.join(str(t.shape) for t in inputs)} do not broadcast") from None


def broadcast_row(y: int, output: TensorType, operand: TensorType) -> int:
    """The row of a broadcast operand that output row y reads; rows are counted over all dimensions but the last two."""
    row, factor = 0, 1
    pairs = zip_longest(reversed(output.shape[:-2]), reversed(operand.shape[:-2]), fillvalue=1)
    for size, own in pairs:
        y, place = divmod(y, size)
        row += factor * (place if own > 1 else 0)
        factor *= own
    return row


@dataclass(frozen=True, kw_only=True, eq=False)
class Formulaic(Op):
    """An op with a formula, given as text; element types are those of the formula.

    Quantised tensors are taken as `stored`, which importers that write formulas of stored values have to say.
    """

    no_overflow: ClassVar[bool] = True  # integers wrap around
    formula: str
    stored: bool = False

    @property
    def parsed(self) -> Formula:
        """The formula itself."""
        return parse(self.formula)

    def combined(self) -> DType:
        """The type of two elements that the formula combines to one. Raises OpFault unless it does."""
        read = self.parsed
        if len(read.operands) != 2 or len({*read.operands, read.result}) > 1:
            raise OpFault(self, f"its formula {self.formula!r} does not combine two elements of one type")
        return read.result

    def _check(self, tensors: Sequence[tuple[str, DType]], node: Node) -> None:
        """Raises OpFault unless the inputs, then the output, have these roles and element types."""
        for tensor, (role, dtype) in zip((*node.inputs, node.output), tensors, strict=True):
            laws.dtype(self, tensor, role, dtype)
            if tensor.type.quant is not None and not self.stored:
                raise OpFault(self, f"its {role} {laws.quoted(tensor.name)} is quantised")


@dataclass(frozen=True, kw_only=True, eq=False)
class Map(Formulaic):
    """The formula of one to eight inputs, element by element, NumPy broadcasting."""

    any_shape: ClassVar[bool] = True
    spaced: ClassVar[bool] = True

    def check(self, node: Node) -> None:
        read = self.parsed
        self._check([*((f"input {i}", dtype) for i, dtype in enumerate(read.operands)), ("output", read.result)], node)

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        want(self, inputs, len(self.parsed.operands))
        if not 0 < len(inputs) <= MOST_OPERANDS:
            raise OpFault(self, f"has {len(inputs)} inputs, 1 to {MOST_OPERANDS} are possible")
        return broadcast(self, inputs)

    def rows(self, y: int, sig: Signature) -> tuple[tuple[int | None, ...], ...]:
        return tuple((broadcast_row(y, sig.output, kind),) for kind in sig.inputs)

    def pixelwise(self, sig: Signature) -> bool:
        return len(sig.output.shape) <= 4 and broadcast_by_pixels(sig)

    def part(self, rows: range, sig: Signature, apart: int = 1) -> Op | None:
        return self if keeps_rows(sig, apart) else None

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        found = np.broadcast_to(self.parsed(*arrays), sig.output.shape)
        return np.ascontiguousarray(found).reshape(sig.output.shape)  # which makes a number a list of one


@dataclass(frozen=True, kw_only=True, eq=False)
class _AlongColumns(Formulaic):
    """One input (..., W, C), computed along W for each of C alone; row for row."""

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        want(self, inputs, 1)
        if len(inputs[0].shape) < 2:
            raise OpFault(self, f"x is {inputs[0]}, two dimensions at least are needed")
        return (*inputs[0].shape[:-2], self._width(inputs[0].shape[-2]), inputs[0].shape[-1])

    def _width(self, width: int) -> int:
        return width

    def rows(self, y: int, sig: Signature) -> tuple[tuple[int | None, ...], ...]:
        return ((y,),)

    def part(self, rows: range, sig: Signature, apart: int = 1) -> Op | None:
        return self if keeps_rows(sig, apart) else None

    def _check_combination(self, node: Node) -> None:
        dtype = self.combined()
        self._check([("input", dtype), ("output", dtype)], node)


@dataclass(frozen=True, kw_only=True, eq=False)
class Reduce(_AlongColumns):
    """The elements of each column of (..., W, C) combined to one, (..., 1, C): f(f(x0, x1), x2) and so on.

    The formula is of the result so far and the next element. `along_channels`: along C, to (..., W, 1). With `initial`
    the first result is f(initial, x0), and elements may have another type than results.
    """

    along_channels: bool = False
    initial: int | None = None

    def check(self, node: Node) -> None:
        if self.initial is None:
            return self._check_combination(node)
        read = self.parsed
        if len(read.operands) != 2 or read.operands[0] is not read.result:
            raise OpFault(self, f"its formula {self.formula!r} does not combine a result with an element")
        low, high = read.result.limits if read.result.numpy.kind in "iu" else (0, 0)
        if not max(low, -(2**31)) <= self.initial <= min(high, 2**31 - 1):
            raise OpFault(self, f"it begins with {self.initial}, which {read.result.value} does not have")
        return self._check([("input", read.operands[1]), ("output", read.result)], node)

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        *ahead, width, channels = super().infer(inputs)
        return (*ahead, width, 1) if self.along_channels else (*ahead, 1, channels)

    def pixelwise(self, sig: Signature) -> bool:
        return self.along_channels and len(sig.inputs[0].shape) <= 4

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        x = np.moveaxis(arrays[0], -1 if self.along_channels else -2, 0)
        begun = self.initial is not None
        total: Array = np.full_like(x[0], self.initial, self.parsed.result.numpy) if begun else x[0]
        for element in x if begun else x[1:]:
            total = self.parsed(total, element)
        return np.ascontiguousarray(total).reshape(sig.output.shape)


@dataclass(frozen=True, kw_only=True, eq=False)
class Scan(_AlongColumns):
    """The results of Reduce after each element of a column, in order, or from the last one on (`reverse`).

    `exclusive`: after the elements before that one; `initial` where there is none.
    """

    exclusive: bool = False
    reverse: bool = False
    initial: int = 0

    def check(self, node: Node) -> None:
        self._check_combination(node)

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        (x,) = arrays
        along = x[..., ::-1, :] if self.reverse else x
        found: list[Array] = [*accumulate(np.moveaxis(along, -2, 0), self.parsed)]
        if self.exclusive:
            found = [np.full_like(found[0], self.initial), *found[:-1]]
        y = np.stack(found, axis=-2)
        return np.ascontiguousarray(y[..., ::-1, :] if self.reverse else y)


@dataclass(frozen=True, kw_only=True, eq=False)
class TopIndices(_AlongColumns):
    """The places, int64, of the `count` first elements of each column, in the order that the formula says.

    The formula is whether one element comes before another. Of equal ones the lower place is first; with `last` the
    higher one.
    """

    count: int = 1
    last: bool = False

    def _width(self, width: int) -> int:
        if not 0 < self.count <= width:
            raise OpFault(self, f"takes {self.count} of {width} elements")
        return self.count

    def check(self, node: Node) -> None:
        read = self.parsed
        if len(read.operands) != 2 or read.operands[0] is not read.operands[1] or read.result is not DType.BOOL:
            raise OpFault(self, f"its formula {self.formula!r} does not compare two elements of one type")
        self._check([("input", read.operands[0]), ("output", DType.INT64)], node)

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        (x,) = arrays
        width = x.shape[-2]
        order = range(width - 1, -1, -1) if self.last else range(width)
        left = np.ones(x.shape, np.bool_)
        found = []
        for _ in range(self.count):
            best: Array = np.zeros(x[..., 0, :].shape, x.dtype)
            place = np.full(best.shape, -1, np.int64)
            for w in order:
                first = (place < 0) | self.parsed(x[..., w, :], best).astype(np.bool_)
                ahead = left[..., w, :] & first
                best, place = np.where(ahead, x[..., w, :], best), np.where(ahead, w, place)
            np.put_along_axis(left, place[..., None, :], False, axis=-2)
            found.append(place)
        return np.stack(found, axis=-2)


@dataclass(frozen=True, kw_only=True, eq=False)
class MatMul(Formulaic, Pairwise):
    """inputs (a, b): (..., 1, K) and (..., K, N) give (..., 1, N), leading dimensions broadcast.

    y[n] = f(... f(f(0, a[0], b[0, n]), a[1], b[1, n]) ...), in this order; f is the formula of the sum so far, an
    element of a and one of b. A matrix (M, K) is given as (M, 1, K), so that its rows are rows of the plan.
    """

    def check(self, node: Node) -> None:
        read = self.parsed
        if len(read.operands) != 3 or read.operands[0] is not read.result:
            raise OpFault(self, f"its formula {self.formula!r} does not add a product of two elements")
        _, a, b = read.operands
        self._check([("first input", a), ("second input", b), ("output", read.result)], node)

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        want(self, inputs, 2)
        a, b = inputs
        if len(a.shape) < 2 or len(b.shape) < 2 or a.shape[-2] != 1 or a.shape[-1] != b.shape[-2]:
            raise OpFault(self, f"a is {a}, b is {b}; (..., 1, K) and (..., K, N) are needed")
        try:
            ahead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        except ValueError:
            raise OpFault(self, f"the leading dimensions of {a} and {b} do not broadcast") from None
        return (*ahead, 1, b.shape[-1])

    def macs(self, sig: Signature) -> int:
        return sig.output.elements * sig.inputs[0].shape[-1]

    def rows(self, y: int, sig: Signature) -> tuple[tuple[int | None, ...], ...]:
        return tuple((broadcast_row(y, sig.output, kind),) for kind in sig.inputs)

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        a, b = arrays
        total = np.zeros(sig.output.shape, sig.output.dtype.numpy)
        for k in range(a.shape[-1]):
            total = self.parsed(total, a[..., k : k + 1], b[..., k : k + 1, :])
        return np.ascontiguousarray(np.broadcast_to(total, sig.output.shape))


OPS: tuple[type[Op], ...] = (Map, Reduce, Scan, TopIndices, MatMul)
