"""Ops that join models into pipelines (firmware/pipelines.py): a window over a stream, and values read anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from shoehorn_mcu.ir import Array, Node, Op, OpFault, Range, Signature, TensorType
from shoehorn_mcu.ops import laws
from shoehorn_mcu.ops.layout import Mover
from shoehorn_mcu.ops.rules import want

__all__ = ["Relabel", "Slide"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Slide(Mover):
    """inputs (window, new): (1, N) and (1, K), K < N, give (1, N): the last N - K elements of the window, then the new.

    With the window as a state it is a window over a stream, which a kernel moves in place.
    """

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        want(self, inputs, 2)
        window, new = (kind.shape for kind in inputs)
        if (len(window), len(new), *window[:1], *new[:1]) != (2, 2, 1, 1) or not 0 < new[1] < window[1]:
            raise OpFault(self, f"a window {inputs[0]} does not take {inputs[1]}; (1, N) and fewer (1, K) are needed")
        return window

    def rows(self, y: int, sig: Signature) -> tuple[tuple[int | None, ...], ...]:
        return (0,), (0,)

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        window, new = arrays
        return np.concatenate([window[:, new.shape[1] :], new], axis=1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Relabel(Op):
    """The same stored values with another quantisation, or with one at all; a view."""

    no_overflow: ClassVar[bool] = True
    view: ClassVar[bool] = True

    def check(self, node: Node) -> None:
        laws.dtype(self, node.output, "output", node.x.type.dtype)

    def ranges(self, node: Node, operands: Sequence[Range]) -> Range:
        return Range.of_type(node.output.type)

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        want(self, inputs, 1)
        return inputs[0].shape

    def rows(self, y: int, sig: Signature) -> tuple[tuple[int | None, ...], ...]:
        return ((y,),)

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        return arrays[0]


OPS: tuple[type[Op], ...] = (Slide, Relabel)
