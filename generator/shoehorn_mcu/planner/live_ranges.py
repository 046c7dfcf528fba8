"""The live ranges of values in a sequence of events that write and read them.

A value (a row of a tensor, say) may be written several times; each time makes a new copy of it. A read refers to the
latest copy. A copy is alive from the event that writes it to the last one that reads it, both inclusive.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, NamedTuple, TypeVar

from shoehorn_mcu.base.errors import ShoehornError


class OrderFault(ShoehornError):
    """An order reads a row that is not in memory, or an input row arrives out of order: a defect of the planner."""


class Row(NamedTuple):
    """Row `y` of a tensor that is no view."""

    tensor: str
    y: int

    def __str__(self) -> str:
        return f"row {self.y} of '{self.tensor}'"


Value = TypeVar("Value", bound=Hashable)


@dataclass(frozen=True)
class LiveRanges(Generic[Value]):
    """Copies are numbered in the order in which they are written; those of given values come first."""

    values: list[Value]  # by copy: what it is a copy of
    first: list[int]  # by copy: the event that writes it; -1: it is in memory from the start
    last: list[int]  # by copy: the last event that reads it, or `first`; len(reads): it is kept to the end
    reads: list[list[int]]  # by event: the copies that it reads

    @cached_property
    def writes(self) -> list[range]:
        """By event: the copies that it writes."""
        times = range(len(self.reads))
        return [range(bisect_left(self.first, time), bisect_right(self.first, time)) for time in times]

    def during(self, copy: int) -> tuple[int, int]:
        """The first and the last event at which a copy is alive; given values from event 0, kept ones to the last."""
        return max(0, self.first[copy]), max(0, min(self.last[copy], len(self.reads) - 1))


def live_ranges(
    reads: Iterable[Iterable[Value]],
    writes: Iterable[Iterable[Value]],
    given: Iterable[Value] = (),
    kept: Iterable[Value] = (),
) -> LiveRanges[Value]:
    """By event the values that it reads and those that it then writes; an event may name a value repeatedly.

    `given` values (each once) are in memory before the first event; `kept` ones are read after the last. Raises
    OrderFault.
    """
    values = list(given)
    latest = {value: copy for copy, value in enumerate(values)}
    first, last = [-1] * len(values), [-1] * len(values)
    found: list[list[int]] = []
    for time, (read, written) in enumerate(zip(reads, writes, strict=True)):
        try:
            copies = [latest[value] for value in read]
        except KeyError as missing:
            raise OrderFault(f"event {time} reads {missing.args[0]}, which is not there") from None
        found.append(copies)
        for copy in copies:
            last[copy] = time
        for value in written:
            latest[value] = len(values)
            values.append(value)
            first.append(time)
            last.append(time)
    for value in kept:
        if value not in latest:
            raise OrderFault(f"{value} is kept, but never computed")
        last[latest[value]] = len(found)
    return LiveRanges(values, first, last, found)


def rows_of_root(rows: Iterable[int], row_bytes: int, root_row_bytes: int) -> tuple[int, ...]:
    """The rows of a view's root that hold the bytes of these rows of the view, each once."""
    if row_bytes == root_row_bytes:
        return tuple(rows)
    spans = (range(y * row_bytes // root_row_bytes, -(-(y + 1) * row_bytes // root_row_bytes)) for y in rows)
    return tuple(dict.fromkeys(row for span in spans for row in span))
