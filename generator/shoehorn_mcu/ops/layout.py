"""Ops that move elements and compute nothing; their values keep the input's quantisation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from shoehorn_mcu.ir import Array, Bools, Channels, Node, Op, OpFault, Range, Signature, Tensor, TensorType, Tie
from shoehorn_mcu.ops import laws
from shoehorn_mcu.ops.channels import channel_by_channel, monotone
from shoehorn_mcu.ops.rules import ByPixels, as_4d, keeps_rows, want

__all__ = ["Concat", "Pad", "PickChannels", "Reshape", "Sharer", "Slice", "Transpose"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Mover(Op):
    """Moves elements of any type unchanged, so all tensors share one type and quantisation."""

    no_overflow: ClassVar[bool] = True

    def check(self, node: Node) -> None:
        for operand in node.inputs:
            laws.same_quant(self, operand, node.output)
            if not self.view:
                laws.rank_4(self, operand)

    def ranges(self, node: Node, operands: Sequence[Range]) -> Range:
        return monotone(node, operands)


@dataclass(frozen=True, kw_only=True, eq=False)
class Reshape(Mover):
    """The same elements in the same order (RESHAPE, SQUEEZE, EXPAND_DIMS)."""

    view: ClassVar[bool] = True
    shape: tuple[int, ...]

    def channels(self, node: Node) -> Channels | None:
        """Element n is in channel n modulo the channels at either end; both divide the number of elements."""
        x, y = node.x.type.nhwc[3], node.output.type.nhwc[3]
        n = np.arange(math.lcm(x, y))

        def cut(operands: Sequence[Bools], output: Bools) -> Op:
            return replace(self, shape=(*self.shape[:-1], int(output.sum())))

        return Channels((Tie(n % x, n % y),), cut)

    def per_channel(self, node: Node) -> bool:
        return node.output.type.shape[-1:] == node.x.type.shape[-1:] != ()

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        want(self, inputs, 1)
        if math.prod(self.shape) != inputs[0].elements:
            raise OpFault(self, f"shape {self.shape} does not hold the {inputs[0].elements} elements of x {inputs[0]}")
        return self.shape

    def rows(self, y: int, sig: Signature) -> tuple[tuple[int | None, ...], ...]:
        x_row, y_row = sig.inputs[0].row_elements, sig.output.row_elements
        first, last = y * y_row // x_row, ((y + 1) * y_row - 1) // x_row
        # An output row starts at a multiple of gcd within an input row, so it touches this many at most.
        step = math.gcd(x_row, y_row)
        most = (x_row - step + y_row - 1) // x_row + 1
        return (tuple(row if row <= last else None for row in range(first, first + most)),)

    def part(self, rows: range, sig: Signature, apart: int = 1) -> Op | None:
        """Where an output row is some whole rows."""
        whole = sig.output.row_elements % sig.inputs[0].row_elements == 0
        if apart != 1 or not whole or len(self.shape) != 4 or self.shape[0] != 1:
            return None
        return replace(self, shape=(1, len(rows), *self.shape[2:]))

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        return arrays[0].reshape(self.shape)


@dataclass(frozen=True, kw_only=True, eq=False)
class Pad(Mover):
    """`before` and `after` elements of `value` (stored value) per dimension of x's own rank."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    value: float

    def check(self, node: Node) -> None:
        super().check(node)
        dtype = node.x.type.dtype
        if dtype.numpy.kind == "f":
            return
        low, high = dtype.limits if dtype.numpy.kind in "iu" else (0, 1)
        if not low <= self.value <= high:
            raise OpFault(self, f"its value {self.value} is outside {low}..{high}")

    def channels(self, node: Node) -> Channels | None:
        """The channels added by padding are not tied to any input channel."""
        places = np.arange(node.x.type.nhwc[3])
        begin = self.before[-1] if self.before else 0

        def cut(operands: Sequence[Bools], output: Bools) -> Op:
            before, after = int(output[:begin].sum()), int(output[begin + len(places) :].sum())
            return replace(self, before=(*self.before[:-1], before), after=(*self.after[:-1], after))

        return Channels((Tie(places, places + begin),), cut)

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        want(self, inputs, 1)
        shape = inputs[0].shape
        if not len(self.before) == len(self.after) == len(shape) or min(self.before + self.after, default=0) < 0:
            raise OpFault(self, f"before {self.before} and after {self.after} do not fit x {inputs[0]}")
        return tuple(b + size + a for b, size, a in zip(self.before, shape, self.after, strict=True))

    def rows(self, y: int, sig: Signature) -> tuple[tuple[int | None, ...], ...]:
        image, out_y = divmod(y, sig.output.nhwc[1])
        n, h, _, _ = sig.inputs[0].nhwc
        before = as_4d(self.before, 0)
        image, row = image - before[0], out_y - before[1]
        return ((image * h + row if 0 <= image < n and 0 <= row < h else None,),)

    def part(self, rows: range, sig: Signature, apart: int = 1) -> Op | None:
        return self if keeps_rows(sig, apart) and not any(self.before[:2] + self.after[:2]) else None

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        (x,) = arrays
        y = np.full(sig.output.shape, self.value, x.dtype)
        y[tuple(slice(b, b + size) for b, size in zip(self.before, x.shape, strict=True))] = x
        return y


@dataclass(frozen=True, kw_only=True, eq=False)
class Sharer(Mover):
    """A mover whose output may have no bytes of its own: `shared` says that ops read its inputs' rows instead.

    Model files never hold it; the pass share-rows sets it where `row_start` has a value.
    """

    shared: bool = False

    @property
    def shares_rows(self) -> bool:
        return self.shared


@dataclass(frozen=True, kw_only=True, eq=False)
class Concat(Sharer):
    """Inputs one after the other along `axis` (non-negative)."""

    spaced: ClassVar[bool] = True

    axis: int

    def row_start(self, sig: Signature) -> int | None:
        return 0 if self.axis + 4 - len(sig.output.shape) <= 1 else None

    def channels(self, node: Node) -> Channels | None:
        each = channel_by_channel(node)
        if self.axis != len(node.output.type.shape) - 1:
            return each
        sizes = [t.type.nhwc[3] for t in node.inputs]
        starts = np.cumsum([0, *sizes[:-1]])
        ties = (Tie(np.arange(size), start + np.arange(size)) for size, start in zip(sizes, starts, strict=True))
        return replace(each, ties=tuple(ties))

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        if not inputs or not 0 <= self.axis < len(inputs[0].shape):
            raise OpFault(self, f"has no axis {self.axis} to join {len(inputs)} inputs along")
        if len({(len(t.shape), t.shape[: self.axis], t.shape[self.axis + 1 :]) for t in inputs}) > 1:
            raise OpFault(self, f"inputs differ outside axis {self.axis}: {', '.join(map(str, inputs))}")
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

    def part(self, rows: range, sig: Signature, apart: int = 1) -> Op | None:
        return self if keeps_rows(sig, apart) and self.axis > 1 and len(sig.output.shape) == 4 else None

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        return np.concatenate(list(arrays), axis=self.axis)


@dataclass(frozen=True, kw_only=True, eq=False)
class Slice(Sharer):
    """x[begin[d] + i * step[d]] for i < size[d], in every dimension d of x's own rank; steps may be negative."""

    begin: tuple[int, ...]
    size: tuple[int, ...]
    step: tuple[int, ...]

    def row_start(self, sig: Signature) -> int | None:
        """Elements of a row stay side by side: whole pixels that follow each other, or channels of one pixel."""
        _, _, column, channel = as_4d(self.begin, 0)
        _, _, width, count = as_4d(self.size, 1)
        _, _, over, along = as_4d(self.step, 1)
        channels = sig.inputs[0].nhwc[3]
        whole = count == channels and (along == 1 or count == 1) and (over == 1 or width == 1)
        if not whole and not (width == 1 and (along == 1 or count == 1)):
            return None
        return (column * channels + channel) * sig.output.dtype.numpy.itemsize

    def channels(self, node: Node) -> Channels | None:
        """With a channel step above 1 all channels are kept: dropping one would change the steps between the others."""
        if not self.step or abs(self.step[-1]) != 1:
            return None
        places = np.arange(self.size[-1])

        def cut(operands: Sequence[Bools], output: Bools) -> Op:
            """The begin: the first kept channel at or after the old one, in the slice's own direction."""
            begin = int(operands[0][: self.begin[-1]].sum())
            if self.step[-1] < 0:
                begin = int(operands[0][: self.begin[-1] + 1].sum()) - 1
            return replace(self, begin=(*self.begin[:-1], begin), size=(*self.size[:-1], int(output.sum())))

        return Channels((Tie(self.begin[-1] + places * self.step[-1], places),), cut)

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        want(self, inputs, 1)
        shape = inputs[0].shape
        if not len(self.begin) == len(self.size) == len(self.step) == len(shape):
            raise OpFault(self, f"begin, size and step do not have the {len(shape)} dimensions of x {inputs[0]}")
        for begin, size, step, limit in zip(self.begin, self.size, self.step, shape, strict=True):
            last = begin + (size - 1) * step
            if size < 1 or not (0 <= begin < limit and 0 <= last < limit):
                raise OpFault(self, f"{size} elements from {begin} by {step} leave a dimension of {limit}")
        return self.size

    def rows(self, y: int, sig: Signature) -> tuple[tuple[int | None, ...], ...]:
        image, out_y = divmod(y, sig.output.nhwc[1])
        begin, step = as_4d(self.begin, 0), as_4d(self.step, 1)
        return (((begin[0] + image * step[0]) * sig.inputs[0].nhwc[1] + begin[1] + out_y * step[1],),)

    def part(self, rows: range, sig: Signature, apart: int = 1) -> Op | None:
        if len(self.size) != 4 or self.begin[0] or self.size[0] != 1 or self.step[1] < 1 or self.step[1] % apart:
            return None
        begin, size = (0, 0, *self.begin[2:]), (1, len(rows), *self.size[2:])
        return replace(self, begin=begin, size=size, step=(1, self.step[1] // apart, *self.step[2:]))

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        places = (
            begin + step * np.arange(size) for begin, size, step in zip(self.begin, self.size, self.step, strict=True)
        )
        return arrays[0][np.ix_(*places)]


@dataclass(frozen=True, kw_only=True, eq=False)
class Transpose(Mover):
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

    def channels(self, node: Node) -> Channels | None:
        return channel_by_channel(node) if self.perm_4d[3] == 3 else None

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        want(self, inputs, 1)
        shape = inputs[0].shape
        if sorted(self.perm) != list(range(len(shape))):
            raise OpFault(self, f"perm {self.perm} is not an order of the {len(shape)} dimensions of x {inputs[0]}")
        return tuple(shape[p] for p in self.perm)

    def rows(self, y: int, sig: Signature) -> tuple[tuple[int | None, ...], ...]:
        n, h, _, _ = sig.inputs[0].nhwc
        fixed = dict(zip(self.perm_4d[:2], divmod(y, sig.output.nhwc[1]), strict=True))
        images = [fixed[0]] if 0 in fixed else range(n)
        heights = [fixed[1]] if 1 in fixed else range(h)
        return (tuple(image * h + row for image in images for row in heights),)

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        return np.ascontiguousarray(arrays[0].transpose(self.perm))


def in_order(name: str, x: Tensor, output: str, perm: Sequence[int]) -> Reshape | Transpose:
    """The op of this name that writes x in another order of dimensions: a view where no elements move."""
    long = [place for place in perm if x.type.shape[place] > 1]
    if long == sorted(long):
        return Reshape(name=name, inputs=(x.name,), output=output, shape=tuple(x.type.shape[place] for place in perm))
    return Transpose(name=name, inputs=(x.name,), output=output, perm=tuple(perm))


@dataclass(frozen=True, kw_only=True, eq=False)
class PickChannels(ByPixels, Mover):
    """Channel c of each pixel is channel picked[c] of the input: a channel shuffle, or channels in another order.

    Model files never hold this op; the pass fuse-shuffle makes it (ShuffleNet, section 3.1).
    """

    picked: tuple[int, ...]

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        want(self, inputs, 1)
        channels = inputs[0].shape[-1]
        if not self.picked or not all(0 <= c < channels <= MOST_PICKED for c in self.picked):
            raise OpFault(self, f"picks channels {self.picked[:8]} ... of x {inputs[0]}")
        return (*inputs[0].shape[:-1], len(self.picked))

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        return np.ascontiguousarray(arrays[0][..., list(self.picked)])


MOST_PICKED = 1 << 16
"""Channels that a number of 16 bits tells apart."""

OPS: tuple[type[Op], ...] = (Reshape, Pad, Concat, Slice, Transpose)
