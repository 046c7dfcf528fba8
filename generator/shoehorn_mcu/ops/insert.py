"""Ops that write into a part of each row of a larger tensor: a concatenation whose pieces are not copied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from shoehorn_mcu.ir import Array, Node, Op, OpFault, RowPart, Signature, Tensor, TensorType

__all__ = ["InsertSlice"]

T = TypeVar("T")

COLUMNS, CHANNELS = 2, 3
"""The dimensions of NHWC whose elements are in one row."""


def own_rows(op: Op) -> int:
    """How many inputs of an op are read by rows."""
    return len(op.inputs) if op.by_rows is None else op.by_rows


@dataclass(frozen=True, kw_only=True, eq=False)
class InsertSlice(Op):
    """`onto` with what `op` computes in place of elements [first, first + count) of dimension `axis` (2 or 3 of NHWC).

    Inputs are those of `op`, and behind its row inputs `onto`, of the output's type. Without `onto` the other elements
    are unspecified (0 in the reference), and a later op must replace them. The kernel is that of `op`; where a row of
    the output is over the row of `onto`, nothing is copied. Compilers call this the destination-passing style (MLIR's
    tensor.insert_slice).

    Model files never hold this op; the pass insert-slices makes it. `op.output` names no tensor of the graph.
    """

    op: Op
    axis: int
    first: int
    count: int
    size: int  # of the output along `axis`
    join: str  # name of the concatenation that it is a part of

    @property
    def has_onto(self) -> bool:
        """Whether the other elements come from a tensor."""
        return len(self.inputs) > len(self.op.inputs)

    @property
    def onto(self) -> int | None:
        """The place of `onto` among the inputs."""
        return self._own_rows if self.has_onto else None

    @property
    def by_rows(self) -> int:
        return self._own_rows + self.has_onto

    @property
    def _own_rows(self) -> int:
        return own_rows(self.op)

    def computed(self, node: Node) -> Node:
        own = self._own_sig(node.sig).output
        known = _WRITTEN.setdefault(self.op, {})
        if own not in known:
            known[own] = Tensor(self.op.output, own)
        return Node(self.op, self._of_op(node.inputs), known[own])

    def _of_op(self, operands: Sequence[T]) -> tuple[T, ...]:
        rows = self._own_rows
        return (*operands[:rows], *operands[rows + self.has_onto :])

    def _own_sig(self, sig: Signature) -> Signature:
        shape = tuple(self.count if d == self.axis else size for d, size in enumerate(sig.output.shape))
        return Signature(self._of_op(sig.inputs), replace(sig.output, shape=shape))

    def row_part(self, output: TensorType) -> RowPart:
        _, _, columns, channels = output.nhwc
        step = channels if self.axis == CHANNELS and columns > 1 else None
        return RowPart(self.first * (channels if self.axis == COLUMNS else 1), step, self.onto)

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        shape = self.op.infer(self._of_op(inputs))
        if len(shape) != 4 or self.axis not in (COLUMNS, CHANNELS) or shape[self.axis] != self.count:
            raise OpFault(self, f"its op gives {shape}, not {self.count} elements along dimension {self.axis} of 4")
        if not 0 <= self.first <= self.size - self.count:
            raise OpFault(self, f"{self.count} elements from {self.first} leave a dimension of {self.size}")
        found = (*shape[: self.axis], self.size, *shape[self.axis + 1 :])
        if self.has_onto and inputs[self._own_rows].shape != found:
            raise OpFault(self, f"writes {found} onto {inputs[self._own_rows]}")
        return found

    def check(self, node: Node) -> None:
        if self.op.view or self.op.shares_rows or self.op.carries or isinstance(self.op, InsertSlice):
            raise OpFault(self, f"no kernel computes '{self.op.name}' ({type(self.op).__name__}) into a part of a row")
        if self.has_onto and node.inputs[self._own_rows].type != node.output.type:
            raise OpFault(self, f"writes {node.output.type} onto {node.inputs[self._own_rows].type}")
        self.op.check(self.computed(node))

    def rows(self, y: int, sig: Signature) -> tuple[tuple[int | None, ...], ...]:
        return (*self.op.rows(y, self._own_sig(sig)), *(((y,),) if self.has_onto else ()))

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        y = np.zeros(sig.output.shape, sig.output.dtype.numpy)
        if self.has_onto:
            y[:] = arrays[self._own_rows]
        place = [slice(None)] * len(y.shape)
        place[self.axis] = slice(self.first, self.first + self.count)
        y[tuple(place)] = self.op.reference(self._of_op(arrays), self._own_sig(sig))
        return y

    def macs(self, sig: Signature) -> int:
        return self.op.macs(self._own_sig(sig))

    def overflow(self, node: Node) -> str | None:
        return self.op.overflow(self.computed(node))

    def pixelwise(self, sig: Signature) -> bool:
        return self.axis == CHANNELS and self.op.pixelwise(self._own_sig(sig))


_WRITTEN: WeakKeyDictionary[Op, dict[TensorType, Tensor]] = WeakKeyDictionary()
"""By op: the output tensor of the op alone. It is the same object each time, so memos about the op find it again."""

OPS: tuple[type[Op], ...] = (InsertSlice,)
