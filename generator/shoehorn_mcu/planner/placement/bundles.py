"""Bundles of pieces: what is placed, as plain data."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate


@dataclass(frozen=True)
class Piece:
    """`bytes` at `offset` of a bundle, alive from time `first` to time `last`, both inclusive."""

    offset: int
    bytes: int
    first: int
    last: int


@dataclass(frozen=True)
class Bundle:
    """Pieces that keep their distances; no two of one problem have equal names. `sinks`: it may be put at the top of
    the arena at once.
    """

    name: Hashable
    pieces: tuple[Piece, ...]
    sinks: bool = False

    @cached_property
    def bytes(self) -> int:
        return max(p.offset + p.bytes for p in self.pieces)

    @cached_property
    def first(self) -> int:
        return min(p.first for p in self.pieces)

    @cached_property
    def last(self) -> int:
        return max(p.last for p in self.pieces)


def joined(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    """Pieces that follow each other at the same bytes as one; the same bytes at the same times."""
    found: list[Piece] = []
    for piece in sorted(pieces, key=lambda p: (p.offset, p.bytes, p.first)):
        last = found[-1] if found else None
        if last and (last.offset, last.bytes) == (piece.offset, piece.bytes) and piece.first <= last.last + 1:
            found[-1] = Piece(last.offset, last.bytes, last.first, max(last.last, piece.last))
        else:
            found.append(piece)
    return tuple(found)


@dataclass(frozen=True)
class Profile:
    """`alive[i]` bytes are alive from time `moments[i]` up to the next moment."""

    moments: tuple[int, ...]
    alive: tuple[int, ...]

    def at(self, time: int) -> int:
        place = bisect_right(self.moments, time)
        return self.alive[place - 1] if place else 0

    def most(self, first: int, last: int) -> int:
        """The most bytes alive at one time from `first` to `last`, both of which begin or end a live range."""
        return max(self.alive[bisect_left(self.moments, first) : bisect_right(self.moments, last)])


def profile(bundles: Sequence[Bundle]) -> Profile:
    """How many bytes are alive when."""
    changes: dict[int, int] = {}
    for piece in (p for b in bundles for p in b.pieces):
        changes[piece.first] = changes.get(piece.first, 0) + piece.bytes
        changes[piece.last + 1] = changes.get(piece.last + 1, 0) - piece.bytes
    moments = sorted(changes)
    return Profile(tuple(moments), tuple(accumulate(changes[moment] for moment in moments)))


def load(bundles: Sequence[Bundle]) -> int:
    """Most bytes alive at one time: no placement is lower."""
    return max(profile(bundles).alive, default=0)
