"""Static allocation as plain data: buffers with lifetimes in, offsets and a proof out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import pairwise

from shoehorn_mcu.base.errors import ShoehornError

MOST_BYTES = 2**31 - 1  # of one buffer; no board has as much
_LINE = 60  # characters of an id in a message


@dataclass(frozen=True)
class Buffer:
    """`size` bytes that are taken from time `lower` up to, not including, time `upper`."""

    id: str
    lower: int
    upper: int
    size: int


@dataclass(frozen=True)
class Peak:
    """The time at which most bytes are taken: [lower, upper), by the buffers `ids`."""

    bytes: int
    lower: int
    upper: int
    ids: tuple[str, ...]


@dataclass(frozen=True)
class Problem:
    """Buffers alive at one time must not overlap. Offsets and the height are multiples of `alignment`.

    `ceiling` has buffers that end at the height, whatever it is; at most one of them is alive at a time.

    ShoehornError: two buffers have one id, a lifetime is empty, or a number is out of range.
    """

    buffers: tuple[Buffer, ...]
    capacity: int | None = None  # bytes; None: as much as it takes
    alignment: int = 1  # bytes
    ceiling: tuple[Buffer, ...] = ()

    def __post_init__(self) -> None:
        if self.alignment < 1:
            raise ShoehornError(f"an alignment of {self.alignment} bytes is none; 1 or more")
        if self.capacity is not None and self.capacity < 0:
            raise ShoehornError(f"a capacity of {self.capacity} bytes is none; 0 or more")
        seen = set()
        for b in (*self.buffers, *self.ceiling):
            name = f"buffer '{b.id[:_LINE]}'"
            if b.id in seen:
                raise ShoehornError(f"{name} is there twice; ids must differ")
            if b.lower >= b.upper:
                raise ShoehornError(f"{name}: lower {b.lower} is not below upper {b.upper}; its lifetime is empty")
            if not 0 <= b.size <= MOST_BYTES:
                raise ShoehornError(f"{name}: size {b.size} is not in 0..{MOST_BYTES} bytes")
            seen.add(b.id)
        for one, after in pairwise(sorted(self.ceiling, key=lambda b: b.lower)):
            if one.upper > after.lower:
                raise ShoehornError(f"ceilings '{one.id[:_LINE]}' and '{after.id[:_LINE]}' are there at one time")

    def aligned(self, size: int) -> int:
        """The size with the padding behind it."""
        return -(-size // self.alignment) * self.alignment

    @cached_property
    def peak(self) -> Peak:
        """No placement is lower than this many bytes; the earliest such time."""
        change: dict[int, int] = {}
        for b in (*self.buffers, *self.ceiling):
            change[b.lower] = change.get(b.lower, 0) + self.aligned(b.size)
            change[b.upper] = change.get(b.upper, 0) - self.aligned(b.size)
        load, most, span = 0, 0, (0, 0)
        for time, after in pairwise(sorted(change)):
            load += change[time]
            if load > most:
                most, span = load, (time, after)
        ids = tuple(b.id for b in (*self.buffers, *self.ceiling) if b.lower <= span[0] < b.upper and b.size)
        return Peak(most, *span, ids)


class Status(Enum):
    """What is proven of a result."""

    OPTIMAL = "optimal"  # its height equals its bound
    FEASIBLE = "feasible"  # within the capacity; a lower one may exist
    INFEASIBLE = "infeasible"  # nothing fits the capacity: proven
    UNKNOWN = "unknown"  # nothing within the capacity was found in the effort given


@dataclass(frozen=True)
class Result:
    """Offsets by id, or none where `status` says so; no placement is lower than `bound` bytes."""

    status: Status
    offsets: Mapping[str, int]
    height: int | None  # bytes, from 0 to the highest end; None: no placement
    bound: int
    seconds: float
    nodes: int  # of the search

    @property
    def found(self) -> bool:
        return self.height is not None


def ids_in_words(ids: Sequence[str]) -> str:
    """The first few ids, for a message."""
    named = ", ".join(f"'{i[:_LINE]}'" for i in ids[:4])
    return named + (f" and {len(ids) - 4} more" if len(ids) > 4 else "")
