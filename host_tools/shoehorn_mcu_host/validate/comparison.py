"""Compares the outputs of a firmware with those of another runtime, and judges whether a difference is a fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import log10, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu_host.folder.plan import Array, End, Stored

OTHER_ORDER = 1e-3  # of an output's largest value: sums of real numbers in another order
_BARS = 5  # of a histogram: 0, 1, 2, 3, and 4 steps or more
_HALF = 2.0**-8  # sums of float16 in the same order, four times the worth of its last place
_MOST_DECIBELS = 200.0


@dataclass(frozen=True)
class Tolerance:
    """What is no fault of an output: one of these is enough. All None: any difference is none."""

    steps: int | None = None  # the largest difference of an output that has steps
    relative: float | None = None  # that of another, to its largest value; without `steps`, of any output
    decibels: float | None = None  # the least ratio of what the output's values are apart to what the sides are apart

    @property
    def judges(self) -> bool:
        return any(each is not None for each in (self.steps, self.relative, self.decibels))

    def unless(self, given: Tolerance | None) -> Tolerance:
        """This one, or the user's; given steps say nothing of outputs that have none."""
        if given is None:
            return self
        return given if given.steps is None else replace(given, relative=self.relative or OTHER_ORDER)

    def allows(self, found: Compared) -> bool:
        if not self.judges:
            return True
        if found.unlike:
            return False
        if self.steps is not None and found.most_steps is not None and found.most_steps <= self.steps:
            return True
        by_relative = self.relative is not None and (found.most_steps is None or self.steps is None)
        if by_relative and found.relative <= max(self.relative or 0.0, _HALF if found.is_half else 0.0):
            return True
        return self.decibels is not None and found.decibels is not None and found.decibels >= self.decibels

    def words(self, found: Sequence[Compared]) -> str:
        """What of it is about these outputs."""
        stepped = self.steps is not None and any(each.most_steps is not None for each in found)
        real = self.relative is not None and (self.steps is None or any(each.most_steps is None for each in found))
        said = [f"{self.steps} step{'s' * (self.steps != 1)}"] if stepped else []
        said += [f"{self.relative:g} of its largest value"] if real else []
        said += [f"noise of {self.decibels:g} dB"] if self.decibels is not None else []
        return " or ".join(said)


@dataclass(frozen=True)
class Compared:
    """How far one output is from the other side's, over all vectors."""

    name: str
    values: int
    largest: float  # difference, as real values
    relative: float  # the same to the largest value of the other side
    unlike: int  # values of which one side alone is no finite number, or another infinity
    step: float | None  # what a difference of one stored value is worth; None: the output has no steps
    most_steps: int | None
    histogram: tuple[int, ...] | None  # values that differ by 0, 1, 2, 3, and 4 or more steps
    decibels: float | None  # variance of the other side's values to the mean square of the differences; None: no noise
    same_top1: int | None  # vectors whose largest element is at the same place; None: the output is no vector of scores
    is_half: bool = False  # float16
    within: bool = True  # of the tolerance

    def json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "values": self.values,
            "max_abs_diff": self.largest,
            "max_relative_diff": self.relative,
            "unlike": self.unlike,
            "step": self.step,
            "max_steps": self.most_steps,
            "steps": None if self.histogram is None else list(self.histogram),
            "decibels": self.decibels,
            "same_top1": self.same_top1,
            "within": self.within,
        }


@dataclass(frozen=True)
class Comparison:
    """All outputs of a firmware beside those of another side."""

    with_what: str  # the key of a runtime, or "expected"
    title: str  # in words
    file: str
    vectors: int = 0
    outputs: tuple[Compared, ...] = ()
    tolerance: Tolerance = Tolerance()
    left: tuple[str, ...] = ()  # outputs of the firmware that the other side does not have
    note: str = ""  # why its roundings are known to be others

    @property
    def is_within(self) -> bool:
        return all(each.within for each in self.outputs)

    def json(self) -> dict[str, Any]:
        """The entry `against` or `expected` of `gen validate --json` and of report.json."""
        return {
            "with": self.with_what,
            "title": self.title,
            "file": self.file,
            "vectors": self.vectors,
            "outputs": [each.json() for each in self.outputs],
            "tolerance": asdict(self.tolerance),
            "left_out": list(self.left),
            "within": self.is_within if self.tolerance.judges else None,
        }


def compare(
    ends: Sequence[End],
    steps: Mapping[str, float],
    found: Mapping[str, Array],
    wanted: Mapping[str, Array],
    tolerance: Tolerance,
    made: Comparison,
) -> Comparison:
    """`made`, with each output that is on both sides compared.

    `steps`: of outputs that are dequantised last, what a step is worth.
    """
    both = [end for end in ends if end.outside.name in wanted]
    each = []
    for end in both:
        name = end.outside.name
        one = _compared(end.outside, steps.get(end.name), found[name], wanted[name])
        each.append(replace(one, within=tolerance.allows(one)))
    left = tuple(end.outside.name for end in ends if end not in both)
    count = len(next(iter(found.values())))
    return replace(made, vectors=count, outputs=tuple(each), tolerance=tolerance, left=left)


def _compared(end: Stored, step: float | None, found: Array, wanted: Array) -> Compared:
    """One output; `step` is that of a float output that is dequantised last."""
    count = len(found)
    a, b = found.reshape(count, -1), wanted.reshape(count, -1)
    top = int((a.argmax(1) == b.argmax(1)).sum()) if prod(end.shape) == (end.shape or (1,))[-1] > 1 else None
    if end.dtype.kind != "f":
        step = end.scale or 1.0
    half, integers = end.dtype == np.float16, "f" not in (a.dtype.kind, b.dtype.kind)
    a, b = _real(a, end), _real(b, end)
    with np.errstate(invalid="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        apart = np.where(same, 0.0, np.abs(a - b))
    odd = ~np.isfinite(apart)
    apart[odd] = 0.0
    largest = float(apart.max(initial=0.0))
    finite = b[np.isfinite(b)]
    most = float(np.abs(finite).max(initial=0.0))
    noise = float(np.square(apart).mean()) if apart.size else 0.0
    ratio = float(np.var(finite)) / noise if noise and finite.size else None
    bars = None
    if step is not None:
        steps = np.rint(apart / step).astype(np.int64)
        bars = tuple(int(n) for n in np.bincount(np.minimum(steps, _BARS - 1).reshape(-1), minlength=_BARS))
        if integers and not end.scale:
            largest = float(steps.max(initial=0))
    return Compared(
        end.name,
        a.size,
        largest,
        largest / most if most else float(largest > 0),
        int(odd.sum()),
        step,
        None if step is None else int(steps.max(initial=0)),
        bars,
        None if ratio is None else round(10 * log10(ratio), 1) if ratio else -_MOST_DECIBELS,
        top,
        half,
    )


def _real(array: Array, end: Stored) -> NDArray[np.float64]:
    """As real values; stored ones of an output without a scale stay as they are."""
    if array.dtype.kind == "f" or not end.scale:
        return array.astype(np.float64)
    return (array.astype(np.float64) - end.zero_point) * end.scale
