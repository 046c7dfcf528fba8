"""The C part, compiled on first use: one run over time, forwards or backwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

from generator.planner.bundles import Bundle, profile
from host_tools import cbuild

_HERE = Path(__file__).parent
_MOST_STEPS = 8_000_000  # bundles times placements side by side; 8 bytes each
_LEAST_WEIGHT = 1e-6  # of a time, so that each one counts
MOST_HEIGHT = 2**29 - 1  # bytes; C adds three of these in 32 bits


@dataclass(frozen=True)
class Manner:
    """How one run goes about it."""

    width: int  # placements kept side by side
    backwards: bool  # from the last time to the first
    power: int  # of the load of each moment, which says how much fragments cost then
    noise: float = 0.0  # share by which costs move at random
    seed: int = 1


@cache
def library() -> cbuild.Library:
    """The compiled C. HostError: no compiler here can compile it."""
    return cbuild.load("shoehorn_sweep", _HERE / "sweep.h", [_HERE / name for name in ("beam.c", "fit.c", "sweep.c")])


class _Side:
    """The bundles as C sees them, in one direction of time."""

    def __init__(self, bundles: Sequence[Bundle], alignment: int, backwards: bool) -> None:
        start, end = min(b.first for b in bundles), max(b.last for b in bundles)
        born = [end - b.last if backwards else b.first - start for b in bundles]
        self.order = sorted(range(len(bundles)), key=lambda i: (born[i], -bundles[i].bytes, i))
        pieces = [p for i in self.order for p in bundles[i].pieces]
        first, last = [p.first - start for p in pieces], [p.last - start for p in pieces]
        if backwards:
            first, last = [end - p.last for p in pieces], [end - p.first for p in pieces]
        self._ffi = library().ffi
        rows = (
            [0, *accumulate(len(bundles[i].pieces) for i in self.order)],
            [p.offset for p in pieces],
            [p.bytes for p in pieces],
            first,
            last,
        )
        self._keep = [self._ffi.new("int32_t[]", row) for row in rows]
        self.problem: Any = self._ffi.new("sh_sweep_problem *", [len(bundles), end - start + 1, alignment, *self._keep])
        alive = profile(bundles)
        most = max(1, *alive.alive)
        self._share = [alive.at(time) / most for time in range(start, end + 1)]
        if backwards:
            self._share.reverse()

    def weight(self, power: int) -> Any:
        """What a fragment costs at each time."""
        return self._ffi.new("double[]", [max(share, 0.0) ** power + _LEAST_WEIGHT for share in self._share])


class Sweep:
    """Bundles that are placed again and again, each time in another manner."""

    def __init__(self, bundles: Sequence[Bundle], alignment: int) -> None:
        """There is at least one bundle, and each has bytes."""
        self._sides = [_Side(bundles, alignment, backwards) for backwards in (False, True)]
        self._widest = max(1, _MOST_STEPS // len(bundles))
        self.work = 0  # spent so far: intervals looked at, whose number per second is steady

    def fit(self, order: Sequence[int], first_base: int) -> list[int]:
        """A base for each bundle, each in this order at the lowest that is free; the first one's is given."""
        ffi, side = library().ffi, self._sides[False]
        place = {bundle: i for i, bundle in enumerate(side.order)}
        order_c, found = ffi.new("int32_t[]", [place[i] for i in order]), ffi.new("int32_t[]", len(order))
        if library().lib.sh_sweep_fit(side.problem, order_c, first_base, found) < 0:
            raise MemoryError
        return _by_bundle(side.order, found)

    def run(self, height: int, manner: Manner, work: int) -> list[int] | None:
        """A base for each bundle, all within `height` bytes; None where this run finds none with so much work."""
        ffi, lib = library().ffi, library().lib
        side = self._sides[manner.backwards]
        n = len(side.order)
        weight = side.weight(manner.power)
        width = min(manner.width, self._widest)
        run = ffi.new("sh_sweep_run *", [height, width, manner.noise, manner.seed, weight])
        used, found = ffi.new("int64_t *", work), ffi.new("int32_t[]", n)
        placed = lib.sh_sweep(side.problem, run, used, found)
        if placed < 0:
            raise MemoryError
        self.work += used[0]
        if placed < n:
            return None
        return _by_bundle(side.order, found)


def _by_bundle(order: Sequence[int], found: Sequence[int]) -> list[int]:
    """What was found in this order, for each bundle."""
    bases = [0] * len(order)
    for bundle, base in zip(order, found, strict=True):
        bases[bundle] = base
    return bases
