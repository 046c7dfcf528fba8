"""Where bytes lie: bundles of pieces, each with its own lifetime, put at addresses so that none overlap while alive.

A bundle is what must keep its shape: one row with a place of its own, a tensor whose rows lie one after the other (each
still dies by itself, so others may move in behind it), or the scratch of an op (alive again and again at one address).
Where every bundle is a plain rectangle of time and bytes, or as good as one, allocate's exact search finds the places.
Otherwise every bundle goes to the lowest address that is free; the order of placing is improved by moving those that
ended too high to the front (squeaky wheel optimisation, Joslin and Clements, JAIR 1999), with a fixed seed and effort.
"""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from generator.planner.allocate import Buffer, allocate
from generator.planner.problem import ALIGNMENT

_EFFORT = 120_000  # pieces placed from each first order; a few seconds
_ROUNDS = 120
_SEARCH = 20.0  # effort of allocate's search, about seconds


@dataclass(frozen=True)
class Piece:
    """`bytes` at `offset` of a bundle, alive from time `first` to time `last`, both inclusive."""

    offset: int
    bytes: int
    first: int
    last: int


@dataclass(frozen=True)
class Bundle:
    """Pieces that keep their distances. `sinks`: it may be put at the top of the arena at once."""

    name: str
    pieces: tuple[Piece, ...]
    sinks: bool = False

    @property
    def bytes(self) -> int:
        return max(p.offset + p.bytes for p in self.pieces)

    @property
    def first(self) -> int:
        return min(p.first for p in self.pieces)

    @property
    def last(self) -> int:
        return max(p.last for p in self.pieces)


def _profile(bundles: Sequence[Bundle]) -> tuple[list[int], list[int]]:
    """Moments at which something is born or dies, and the bytes alive from each to the next."""
    changes: dict[int, int] = {}
    for piece in (p for b in bundles for p in b.pieces):
        changes[piece.first] = changes.get(piece.first, 0) + piece.bytes
        changes[piece.last + 1] = changes.get(piece.last + 1, 0) - piece.bytes
    moments = sorted(changes)
    return moments, list(accumulate(changes[moment] for moment in moments))


def load(bundles: Sequence[Bundle]) -> int:
    """Most bytes alive at one time: no placement is lower."""
    return max(_profile(bundles)[1], default=0)


def _crowds(bundles: Sequence[Bundle]) -> dict[str, int]:
    """For each bundle the most bytes alive at a time at which it is alive itself."""
    moments, alive = _profile(bundles)

    def crowd(piece: Piece) -> int:
        return max(alive[bisect_left(moments, piece.first) : bisect_right(moments, piece.last)])

    return {b.name: max(map(crowd, b.pieces)) for b in bundles}


class _Arena:
    """What has been placed so far, as arrays over all pieces; slots not in use have no lifetime."""

    def __init__(self, pieces: int) -> None:
        self._first: NDArray[np.int64] = np.full(pieces, 1, np.int64)
        self._last: NDArray[np.int64] = np.zeros(pieces, np.int64)
        self._low: NDArray[np.int64] = np.zeros(pieces, np.int64)
        self._high: NDArray[np.int64] = np.zeros(pieces, np.int64)
        self._used = 0
        self.height = 0

    def put(self, bundle: Bundle, base: int) -> None:
        for piece in bundle.pieces:
            i = self._used
            self._first[i], self._last[i] = piece.first, piece.last
            self._low[i], self._high[i] = base + piece.offset, base + piece.offset + piece.bytes
            self._used += 1
        self.height = max(self.height, base + bundle.bytes)

    def lowest(self, bundle: Bundle) -> int:
        """The lowest base, a multiple of ALIGNMENT, at which the bundle hits nothing that is alive with it."""
        used = slice(0, self._used)
        starts, ends = [], []
        for piece in bundle.pieces:
            near = (self._first[used] <= piece.last) & (self._last[used] >= piece.first)
            starts.append(self._low[used][near] - piece.offset - piece.bytes)
            ends.append(self._high[used][near] - piece.offset)
        start, end = np.concatenate(starts), np.concatenate(ends)  # bases strictly between are forbidden
        if not start.size:
            return 0
        order = np.argsort(start, kind="stable")
        start, end = start[order], -(-np.maximum.accumulate(end[order]) // ALIGNMENT) * ALIGNMENT
        base = np.maximum(np.concatenate((np.zeros(1, np.int64), end)), 0)
        free = np.nonzero(base[:-1] <= start)[0]
        return int(base[free[0]]) if free.size else int(base[-1])


def _place(order: Sequence[Bundle], target: int, pieces: int) -> tuple[int, dict[str, int]]:
    """Height and base of each bundle, placed in order; a sinking bundle goes to the top of `target` bytes."""
    arena = _Arena(pieces)
    bases: dict[str, int] = {}
    for bundle in order:
        top = (target - bundle.bytes) // ALIGNMENT * ALIGNMENT
        bases[bundle.name] = top if bundle.sinks and top >= 0 and not bases else arena.lowest(bundle)
        arena.put(bundle, bases[bundle.name])
    return arena.height, bases


def _orders(bundles: Sequence[Bundle]) -> Iterator[list[Bundle]]:
    """Orders to begin with; the first to be placed is what may sink to the top."""
    crowds = _crowds(bundles)
    keys: tuple[Callable[[Bundle], tuple[int, ...]], ...] = (
        lambda b: (-b.bytes, b.first),
        lambda b: (b.first, -b.bytes),
        lambda b: (-crowds[b.name], -b.bytes, b.first),
        lambda b: (-b.bytes * (b.last - b.first + 1), b.first),
    )
    for key in keys:
        yield sorted(bundles, key=lambda b: (not b.sinks, key(b), b.name))


def _boxed(bundle: Bundle) -> Bundle:
    """The bundle as one piece that holds all of its pieces."""
    return Bundle(bundle.name, (Piece(0, bundle.bytes, bundle.first, bundle.last),))


def _exact(bundles: Sequence[Bundle], _: int) -> tuple[int, dict[str, int]] | None:
    """Places by exact search, as far as that comes; None where boxes would take more bytes at one time than pieces."""
    boxes = list(map(_boxed, bundles))
    if load(boxes) > load(bundles):
        return None
    start = min((b.first for b in boxes), default=0)
    buffers = (Buffer(b.name, b.first - start, b.last - start + 1, b.bytes) for b in boxes)
    found = allocate(buffers, alignment=ALIGNMENT, effort=_SEARCH)
    return max((found.offsets[b.name] + b.bytes for b in boxes), default=0), dict(found.offsets)


def place(bundles: Sequence[Bundle], enough: int) -> tuple[int, dict[str, int]]:
    """The lowest height found and the base of each bundle, by name; stops at `enough` bytes."""
    ways = (_exact, _squeaked) if not any(b.sinks for b in bundles) else (_squeaked, _exact)
    best: tuple[int, dict[str, int]] | None = None
    for way in ways:
        found = way(bundles, enough)
        if found is not None and (best is None or found[0] < best[0]):
            best = found
        if best is not None and best[0] <= enough:
            break
    assert best is not None
    return best


def _squeaked(bundles: Sequence[Bundle], enough: int) -> tuple[int, dict[str, int]] | None:
    """Places by first fit in many orders."""
    pieces = sum(len(b.pieces) for b in bundles)
    rounds = max(2, min(_ROUNDS, _EFFORT // max(1, pieces)))
    best: tuple[int, dict[str, int]] | None = None
    for order in _orders(bundles):
        chance = random.Random(0)
        for _ in range(rounds):
            found = _place(order, enough, pieces)
            if best is None or found[0] < best[0]:
                best = found
            if best[0] <= enough:
                return best
            order = _squeak(order, found[1], enough, chance)
    assert best is not None
    return best


def _squeak(order: Sequence[Bundle], bases: dict[str, int], enough: int, chance: random.Random) -> list[Bundle]:
    """The order with the bundles that ended above `enough` moved towards the front."""
    rank = {
        b.name: (chance.uniform(0.3, 0.9) * i - 1 if bases[b.name] + b.bytes > enough else i)
        for i, b in enumerate(order)
    }
    return sorted(order, key=lambda b: (not b.sinks, rank[b.name]))
