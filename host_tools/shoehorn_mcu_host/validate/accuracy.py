"""How often a model decides as its labels say: top-1 and the confusion of classes, of the board and of references."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shoehorn_mcu_host.base.errors import InputError
from shoehorn_mcu_host.folder.plan import Array, End, Stored

_HALF = 0.5  # the likelihood from which a single output says yes


@dataclass(frozen=True)
class Labels:
    """The class of each vector, 0 to classes - 1, and the names of classes where they have some."""

    classes: tuple[int, ...]
    names: tuple[str, ...] = ()

    def name(self, number: int) -> str:
        return self.names[number] if number < len(self.names) else str(number)


@dataclass(frozen=True)
class Accuracy:
    """`confusion[label][decision]` counts the board's decisions."""

    labels: Labels
    right: int  # decisions of the board
    reference_right: int
    precise_right: int | None  # of the reference in precise float32; None: the firmware itself is precise
    confusion: tuple[tuple[int, ...], ...]

    def json(self) -> dict[str, Any]:
        """The entry `accuracy` of `gen validate --json`."""
        count = len(self.labels.classes)
        return {
            "labelled": count,
            "right": self.right,
            "top1": round(self.right / count, 6),
            "reference_right": self.reference_right,
            "reference_top1": round(self.reference_right / count, 6),
            **({} if self.precise_right is None else {"precise_right": self.precise_right}),
            "classes": list(self.labels.names),
            "confusion": [list(row) for row in self.confusion],
        }

    @property
    def mistakes(self) -> Sequence[tuple[str, str, int]]:
        """(label, decision, how often) of all wrong decisions, the most frequent first."""
        found = Counter(
            {
                (label, decision): count
                for label, row in enumerate(self.confusion)
                for decision, count in enumerate(row)
                if count and label != decision
            }
        )
        return [(self.labels.name(a), self.labels.name(b), count) for (a, b), count in found.most_common()]


def classes_of(end: End) -> int:
    """The number of classes that an output tells apart: two for a single element, which is a likelihood."""
    count = int(np.prod(end.shape, dtype=np.int64))
    return 2 if count == 1 else count


def checked(labels: Array, names: Sequence[str], count: int, end: End, place: str) -> Labels:
    """Labels for `count` vectors of a model whose first output is `end`; InputError, begun with `place`, otherwise."""
    flat = labels.reshape(-1)
    if labels.ndim == 0 or flat.size != len(labels) or flat.dtype.kind not in "iu":
        raise InputError(
            f"{place}: the labels are {labels.dtype}{list(labels.shape)}; wanted is one integer per vector"
        )
    if flat.size != count:
        raise InputError(f"{place}: holds {flat.size} labels for {count} vectors")
    classes = classes_of(end)
    numbers = [int(label) for label in flat.tolist()]
    if outside := sorted(label for label in numbers if not 0 <= label < classes):
        said = f"'{end.outside.name}' tells {classes} classes apart, 0 to {classes - 1}"
        raise InputError(f"{place}: holds label {outside[0]}; output {said}")
    return Labels(tuple(numbers), tuple(names))


def decisions(outputs: Sequence[Array], end: End) -> list[int]:
    """The class that each output is for: that of its largest element, or of a single one whether it is above 0.5."""
    if classes_of(end) != 2 or outputs[0].size != 1:
        return [int(output.argmax()) for output in outputs]
    return [int(_real(output, end.inside) > _HALF) for output in outputs]


def _real(output: Array, stored: Stored) -> float:
    value = float(output.reshape(-1)[0])
    return stored.scale * (value - stored.zero_point) if stored.scale else value


def accuracy(
    labels: Labels, end: End, board: Sequence[Array], reference: Sequence[Array], precise: Sequence[Array]
) -> Accuracy:
    """From the first output, `end`, of each vector; `precise` is empty where the firmware itself is precise."""
    confusion = np.zeros((classes_of(end),) * 2, np.int64)
    for label, decision in zip(labels.classes, decisions(board, end), strict=True):
        confusion[label, decision] += 1
    reference_right, precise_right = (
        sum(a == b for a, b in zip(labels.classes, decisions(each, end), strict=True)) if each else None
        for each in (reference, precise)
    )
    rows = tuple(tuple(row) for row in confusion.tolist())
    return Accuracy(labels, int(np.trace(confusion)), reference_right or 0, precise_right, rows)
