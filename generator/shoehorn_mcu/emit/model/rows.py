"""Finds C expressions for the input rows of an output row: `first + y * step` where that fits, else a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

Column = Sequence[int | None]
"""One element of `x`: the input row read for each output row."""


@dataclass(frozen=True)
class Affine:
    """Row first + y * step; `guarded`: for some y the row is outside the tensor, and the pointer is null."""

    first: int
    step: int
    guarded: bool

    def text(self, y: str = "y") -> str:
        """The row as a C expression of `y`."""
        if self.step == 0:
            return str(self.first)
        scaled = y if self.step == 1 else f"{self.step} * {y}"
        return scaled if self.first == 0 else f"{scaled} {'+' if self.first > 0 else '-'} {abs(self.first)}"


@dataclass(frozen=True)
class Null:
    """Padding for every output row."""


@dataclass(frozen=True)
class Listed:
    """No formula fits: the row is in column `column` of the op's table; -1 means a null pointer."""

    column: int
    guarded: bool


Place = Affine | Null | Listed


def _steps(seen: list[tuple[int, int]]) -> list[int]:
    """Values of `step` that are compatible with the known rows."""
    if len(seen) == 1:
        return [0, 1, 2, 3, 4, -1]
    (y0, r0), (y1, r1) = seen[0], seen[-1]
    step, rest = divmod(r1 - r0, y1 - y0)
    return [] if rest else [step]


def fit(column: Column, height: int) -> Affine | Null | None:
    """The formula for one element of `x`, for an input of `height` rows, or None."""
    seen = [(y, r) for y, r in enumerate(column) if r is not None]
    if not seen:
        return Null()
    for step in _steps(seen):
        first = seen[0][1] - seen[0][0] * step
        rule = [r if 0 <= (r := first + y * step) < height else None for y in range(len(column))]
        if rule == list(column):
            return Affine(first, step, None in rule)
    return None


@dataclass(frozen=True)
class Window:
    """The elements of `x` that belong to one input."""

    places: tuple[Place, ...]

    @property
    def stride(self) -> int | None:
        """The difference between neighbouring rows where it is constant, so that a loop can compute them; else None."""
        first = self.places[0]
        if all(isinstance(p, Listed) for p in self.places):
            return 1
        if not isinstance(first, Affine):
            return None
        rules = [p for p in self.places if isinstance(p, Affine) and (p.step, p.guarded) == (first.step, first.guarded)]
        strides = {b.first - a.first for a, b in pairwise(rules)}
        return strides.pop() if len(rules) == len(self.places) and len(strides) == 1 else None


def windows(
    by_row: Sequence[Sequence[Sequence[int | None]]], heights: Sequence[int]
) -> tuple[tuple[Window, ...], list[list[int]]]:
    """One window per row input, and the table (a line per output row) to which the Listed elements refer.

    `by_row[y][input][element]` is the result of Op.rows(y); `heights` are the rows of each input.
    """
    found: list[Window] = []
    listed: list[Column] = []
    for i, height in enumerate(heights):
        columns = list(zip(*(line[i] for line in by_row), strict=True))
        places: list[Place] = []
        for column in columns:
            rule = fit(column, height)
            places.append(rule or Listed(len(listed), None in column))
            if rule is None:
                listed.append(column)
        found.append(Window(tuple(places)))
    table = [[-1 if r is None else r for r in line] for line in zip(*listed, strict=True)]
    return tuple(found), table
