"""Non-maximum suppression: of boxes that overlap, the one with the highest score stays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.ir import Array, DType, Node, Op, OpFault, Signature, TensorType
from shoehorn_mcu.ops import laws
from shoehorn_mcu.ops.rules import want

__all__ = ["Suppress"]

Singles = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, eq=False)
class Suppress(Op):
    """inputs (scores (K, 1, N), boxes (N, 4)): float32 gives the places of at most `count` boxes, int32 (K, 1, count).

    For each of K classes by itself the box with the highest score that is at least `least` is taken, the first of
    equal ones, and then the next that overlaps no box taken by more than `overlap`; behind the last one places are -1.
    Boxes are (low y, low x, high y, high x). Overlap is the area that two share, divided by the area that they cover;
    it is 0 where one has none. As TensorFlow Lite's detection_postprocess.cc, NonMaxSuppressionSingleClassHelper.
    """

    no_overflow: ClassVar[bool] = True  # no integer is computed
    count: int
    overlap: float
    least: float

    def check(self, node: Node) -> None:
        for role, tensor in zip(("scores", "boxes"), node.inputs, strict=True):
            laws.dtype(self, tensor, role, DType.FLOAT32)
        laws.dtype(self, node.output, "output", DType.INT32)
        if not 0 < self.overlap <= 1:
            raise OpFault(self, f"its overlap is {self.overlap}; above 0 and at most 1 is needed")

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        want(self, inputs, 2)
        scores, boxes = inputs
        if len(scores.shape) != 3 or scores.shape[1] != 1 or boxes.shape != (scores.shape[2], 4):
            raise OpFault(self, f"scores {scores} and boxes {boxes} do not belong together")
        if self.count < 1:
            raise OpFault(self, f"it takes {self.count} boxes")
        return (scores.shape[0], 1, self.count)

    def rows(self, y: int, sig: Signature) -> tuple[tuple[int | None, ...], ...]:
        return ((y,), (0,))

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        scores, boxes = (array.astype(np.float32) for array in arrays)
        places = np.full(sig.output.shape, -1, np.int32)
        for own, found in zip(scores, places, strict=True):
            left = np.flatnonzero(own[0] >= np.float32(self.least))
            left = left[np.argsort(-own[0][left], kind="stable")]
            for number in range(self.count):
                if not left.size:
                    break
                found[0, number] = left[0]
                shared = _overlaps(boxes[left[0]], boxes[left[1:]])
                left = left[1:][~(shared > np.float32(self.overlap))]
        return places


def _overlaps(box: Singles, others: Singles) -> Singles:
    """The overlap of a box with each of the others, in single precision."""

    def area(of: Singles) -> Singles:
        return (of[..., 2] - of[..., 0]) * (of[..., 3] - of[..., 1])

    own, each = area(box), area(others)
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    sides = np.maximum(sides, np.float32(0))
    shared = sides[:, 0] * sides[:, 1]
    with np.errstate(all="ignore"):
        found: Singles = np.where((own <= 0) | (each <= 0), np.float32(0), shared / (own + each - shared))
    return found


OPS: tuple[type[Op], ...] = (Suppress,)
