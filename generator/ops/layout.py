"""Ops that move elements and compute nothing; their values keep the input's quantisation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shoehorn_mcu.ir import Array, Op, Signature, TensorType
from shoehorn_mcu.ops.rules import as_4d, refuse, want


@dataclass(frozen=True, kw_only=True, eq=False)
class Reshape(Op):
    """The same elements in the same order (RESHAPE, SQUEEZE, EXPAND_DIMS)."""

    shape: tuple[int, ...]

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        want(self, inputs, 1)
        if math.prod(self.shape) != inputs[0].elements:
            raise refuse(self, f"shape {self.shape} does not hold the {inputs[0].elements} elements of x {inputs[0]}")
        return self.shape

    def rows(self, y: int, sig: Signature) -> tuple[tuple[int | None, ...], ...]:
        x_row, y_row = sig.inputs[0].row_elements, sig.output.row_elements
        first, last = y * y_row // x_row, ((y + 1) * y_row - 1) // x_row
        # An output row starts at a multiple of gcd within an input row, so it touches this many at most.
        step = math.gcd(x_row, y_row)
        most = (x_row - step + y_row - 1) // x_row + 1
        return (tuple(row if row <= last else None for row in range(first, first + most)),)

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        return arrays[0].reshape(self.shape)


@dataclass(frozen=True, kw_only=True, eq=False)
class Pad(Op):
    """`before` and `after` elements of `value` (stored value) per dimension of x's own rank."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    value: int

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        want(self, inputs, 1)
        shape = inputs[0].shape
        if not len(self.before) == len(self.after) == len(shape) or min(self.before + self.after, default=0) < 0:
            raise refuse(self, f"before {self.before} and after {self.after} do not fit x {inputs[0]}")
        return tuple(b + size + a for b, size, a in zip(self.before, shape, self.after, strict=True))

    def rows(self, y: int, sig: Signature) -> tuple[tuple[int | None, ...], ...]:
        image, out_y = divmod(y, sig.output.nhwc[1])
        n, h, _, _ = sig.inputs[0].nhwc
        before = as_4d(self.before, 0)
        image, row = image - before[0], out_y - before[1]
        return ((image * h + row if 0 <= image < n and 0 <= row < h else None,),)

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        (x,) = arrays
        y = np.full(sig.output.shape, self.value, x.dtype)
        y[tuple(slice(b, b + size) for b, size in zip(self.before, x.shape, strict=True))] = x
        return y


@dataclass(frozen=True, kw_only=True, eq=False)
class Concat(Op):
    """Inputs one after the other along `axis` (non-negative)."""

    axis: int

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        if not inputs or not 0 <= self.axis < len(inputs[0].shape):
            raise refuse(self, f"has no axis {self.axis} to join {len(inputs)} inputs along")
        if len({(len(t.shape), t.shape[: self.axis], t.shape[self.axis + 1 :]) for t in inputs}) > 1:
            raise refuse(self, f"inputs differ outside axis {self.axis}: {', '.join(map(str, inputs))}")
        shape = inputs[0].shape
        return (*shape[: self.axis], sum(t.shape[self.axis] for t in inputs), *shape[self.axis + 1 :])

    def rows(self, y: int, sig: Signature) -> tuple[tuple[int | None, ...], ...]:
        axis = self.axis + 4 - len(sig.output.shape)
        if axis > 1:
            return ((y,),) * len(sig.inputs)
        place = list(divmod(y, sig.output.nhwc[1]))
        found: list[tuple[int | None, ...]] = []
        for kind in sig.inputs:
            inside = 0 <= place[axis] < kind.nhwc[axis]
            found.append((place[0] * kind.nhwc[1] + place[1] if inside else None,))
            place[axis] -= kind.nhwc[axis]
        return tuple(found)

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        return np.concatenate(list(arrays), axis=self.axis)


@dataclass(frozen=True, kw_only=True, eq=False)
class Slice(Op):
    """x[begin[d] + i * step[d]] for i < size[d], in every dimension d of x's own rank; steps may be negative."""

    begin: tuple[int, ...]
    size: tuple[int, ...]
    step: tuple[int, ...]

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        want(self, inputs, 1)
        shape = inputs[0].shape
        if not len(self.begin) == len(self.size) == len(self.step) == len(shape):
            raise refuse(self, f"begin, size and step do not have the {len(shape)} dimensions of x {inputs[0]}")
        for begin, size, step, limit in zip(self.begin, self.size, self.step, shape, strict=True):
            last = begin + (size - 1) * step
            if size < 1 or not (0 <= begin < limit and 0 <= last < limit):
                raise refuse(self, f"{size} elements from {begin} by {step} leave a dimension of {limit}")
        return self.size

    def rows(self, y: int, sig: Signature) -> tuple[tuple[int | None, ...], ...]:
        image, out_y = divmod(y, sig.output.nhwc[1])
        begin, step = as_4d(self.begin, 0), as_4d(self.step, 1)
        return (((begin[0] + image * step[0]) * sig.inputs[0].nhwc[1] + begin[1] + out_y * step[1],),)

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        places = (
            begin + step * np.arange(size) for begin, size, step in zip(self.begin, self.size, self.step, strict=True)
        )
        result: Array = arrays[0][np.ix_(*places)]
        return result


@dataclass(frozen=True, kw_only=True, eq=False)
class Transpose(Op):
    """Output dimension d is input dimension perm[d].

    rows(): the input rows that hold some of the row's elements, in ascending order: one row where only W and C
    (or only N and H) change places, all H rows of the image where H becomes part of a row.
    """

    perm: tuple[int, ...]

    @property
    def perm_4d(self) -> tuple[int, int, int, int]:
        """`perm` over the four dimensions of NHWC."""
        ahead = 4 - len(self.perm)
        n, h, w, c = tuple(range(ahead)) + tuple(p + ahead for p in self.perm)
        return n, h, w, c

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        want(self, inputs, 1)
        shape = inputs[0].shape
        if sorted(self.perm) != list(range(len(shape))):
            raise refuse(self, f"perm {self.perm} is not an order of the {len(shape)} dimensions of x {inputs[0]}")
        return tuple(shape[p] for p in self.perm)

    def rows(self, y: int, sig: Signature) -> tuple[tuple[int | None, ...], ...]:
        n, h, _, _ = sig.inputs[0].nhwc
        fixed = dict(zip(self.perm_4d[:2], divmod(y, sig.output.nhwc[1]), strict=True))
        images = [fixed[0]] if 0 in fixed else range(n)
        heights = [fixed[1]] if 1 in fixed else range(h)
        return (tuple(image * h + row for image in images for row in heights),)

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        return np.ascontiguousarray(arrays[0].transpose(self.perm))
