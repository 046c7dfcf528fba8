"""Ops on elements at computed indices. Negative indices count from the end; those outside become the nearest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from shoehorn_mcu.ir import Array, DType, Ints, Node, Op, OpFault, Signature, TensorType
from shoehorn_mcu.ops import laws
from shoehorn_mcu.ops.maps import Formulaic, broadcast_row
from shoehorn_mcu.ops.rules import want

__all__ = ["Gather", "Scatter"]

INDICES = (DType.INT32, DType.INT64)


def _places(indices: Array, size: int) -> Ints:
    """Indices from 0 to size - 1."""
    found = indices.astype(np.int64)
    return np.clip(np.where(found < 0, found + size, found), 0, size - 1)


def _check_shapes(op: Op, x: TensorType, indices: TensorType) -> None:
    """Raises OpFault unless the indices are (..., I, C) or (..., I, 1), their leading dimensions x's or 1."""
    rank = len(x.shape)
    fits = len(indices.shape) == rank >= 2 and indices.shape[-1] in (1, x.shape[-1])
    if not fits or any(own not in (1, size) for own, size in zip(indices.shape[:-2], x.shape[:-2], strict=True)):
        raise OpFault(op, f"indices {indices} do not fit x {x}")


@dataclass(frozen=True, kw_only=True, eq=False)
class Gather(Op):
    """inputs (x, indices): (..., W, C) and (..., I, C) or (..., I, 1) give (..., I, C), elements of any type.

    y[i, c] = x[indices[i, c], c], or x[indices[i, 0], c]; leading dimensions of the indices may be 1.
    """

    no_overflow: ClassVar[bool] = True

    def check(self, node: Node) -> None:
        x, indices = node.inputs
        laws.same_quant(self, x, node.output)
        laws.dtype(self, indices, "indices", *INDICES)

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        want(self, inputs, 2)
        x, indices = inputs
        _check_shapes(self, x, indices)
        return (*x.shape[:-2], indices.shape[-2], x.shape[-1])

    def rows(self, y: int, sig: Signature) -> tuple[tuple[int | None, ...], ...]:
        return (y,), (broadcast_row(y, sig.output, sig.inputs[1]),)

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        x, indices = arrays
        places = np.broadcast_to(_places(indices, x.shape[-2]), sig.output.shape)
        return np.take_along_axis(x, places, axis=-2)


@dataclass(frozen=True, kw_only=True, eq=False)
class Scatter(Formulaic):
    """inputs (x, indices, updates): x (..., W, C) with elements changed at indices by updates (..., I, C).

    For i = 0, 1, ...: y[indices[i, c], c] = f(y[indices[i, c], c], updates[i, c]), y being x at first.
    """

    def check(self, node: Node) -> None:
        dtype = self.combined()
        x, indices, updates = node.inputs
        laws.dtype(self, indices, "indices", *INDICES)
        for tensor in (x, updates, node.output):
            laws.dtype(self, tensor, "elements", dtype)

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        want(self, inputs, 3)
        x, indices, updates = inputs
        _check_shapes(self, x, indices)
        if updates.shape != (*x.shape[:-2], indices.shape[-2], x.shape[-1]):
            raise OpFault(self, f"updates {updates} do not fit x {x} and indices {indices}")
        return x.shape

    def rows(self, y: int, sig: Signature) -> tuple[tuple[int | None, ...], ...]:
        return (y,), (broadcast_row(y, sig.output, sig.inputs[1]),), (y,)

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        x, indices, updates = arrays
        y = x.copy()
        places = np.broadcast_to(_places(indices, x.shape[-2]), updates.shape)
        for i in range(updates.shape[-2]):
            at, change = places[..., i : i + 1, :], updates[..., i : i + 1, :]
            np.put_along_axis(y, at, self.parsed(np.take_along_axis(y, at, axis=-2), change), axis=-2)
        return y


OPS: tuple[type[Op], ...] = (Gather, Scatter)
