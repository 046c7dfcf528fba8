"""The C part, compiled on first use: one beam search over time, from any time outwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate
from typing import Any

from shoehorn_mcu.planner.effort import SWEEP
from shoehorn_mcu.planner.interruptible import stoppable
from shoehorn_mcu.planner.placement.bundles import Bundle, joined, profile
from shoehorn_mcu_host.base import cbuild

library = cbuild.library(__file__, "shoehorn_sweep", "sweep.h", "beam.c", "fit.c", "sweep.c")
_LEAST_WEIGHT = 1e-6  # of a time, so that each one counts
MOST_HEIGHT = 2**29 - 1  # bytes; C adds three of these in 32 bits


class Start(Enum):
    """Where a run begins."""

    FIRST = "at the first time, forwards"
    LAST = "at the last time, backwards"
    FULLEST = "when most bytes are alive, outwards"


class Front(Enum):
    """Order of the bundles that are alive at the start; the first ones get the two ends of the arena."""

    LARGE = "the large ones"
    EARLY = "those with the earliest first event"
    LATE = "those with the latest last event"
    LONG = "those with the longest live range"
    SMALL = "the small ones"


@dataclass(frozen=True)
class SweepSettings:
    """Parameters of one run."""

    width: int  # of the beam: placements kept
    start: Start
    power: int  # of the live bytes at a time: the weight of fragments then
    front: Front = Front.LARGE
    noise: float = 0.0  # random change of costs, as a share of them
    seed: int = 1


@dataclass(frozen=True)
class _Span:
    """A bundle's size and life, in times from 0 on."""

    bytes: int
    first: int
    last: int


_RANKS: dict[Front, Callable[[_Span], int]] = {
    Front.LARGE: lambda b: -b.bytes,
    Front.EARLY: lambda b: b.first,
    Front.LATE: lambda b: -b.last,
    Front.LONG: lambda b: b.first - b.last,
    Front.SMALL: lambda b: b.bytes,
}


def _outwards(bundles: Sequence[_Span], loads: Sequence[int], pivot: int, front: Front) -> list[int]:
    """What is alive at the pivot; then later and earlier bundles, the side in front that gets fuller.

    `loads`: bytes alive at each time.
    """
    there = [i for i, b in enumerate(bundles) if b.first <= pivot <= b.last]
    later = [i for i, b in enumerate(bundles) if b.first > pivot]
    before = [i for i, b in enumerate(bundles) if b.last < pivot]
    there.sort(key=lambda i: (_RANKS[front](bundles[i]), -bundles[i].bytes, i))
    later.sort(key=lambda i: (-bundles[i].first, bundles[i].bytes, -i))
    before.sort(key=lambda i: (bundles[i].last, bundles[i].bytes, -i))
    until = list(accumulate(loads, max))
    since = list(accumulate(reversed(loads), max))[::-1]
    while later and before:
        forwards = since[bundles[later[-1]].first] >= until[bundles[before[-1]].last]
        there.append((later if forwards else before).pop())
    return [*there, *reversed(later), *reversed(before)]


class Sweep:
    """Places the same bundles repeatedly, with different settings."""

    def __init__(self, bundles: Sequence[Bundle], alignment: int) -> None:
        """There is at least one bundle, and each has bytes."""
        start, end = min(b.first for b in bundles), max(b.last for b in bundles)
        self._order = sorted(range(len(bundles)), key=lambda i: (bundles[i].first, -bundles[i].bytes, i))
        shapes = [joined(bundles[i].pieces) for i in self._order]
        pieces = [p for shape in shapes for p in shape]
        columns = (
            [0, *accumulate(map(len, shapes))],
            [p.offset for p in pieces],
            [p.bytes for p in pieces],
            [p.first - start for p in pieces],
            [p.last - start for p in pieces],
        )
        self._ffi, self._lib = library().ffi, library().lib
        self._keep = [self._ffi.new("int32_t[]", column) for column in columns]
        self._problem: Any = self._ffi.new(
            "sh_sweep_problem *", [len(bundles), end - start + 1, alignment, *self._keep]
        )
        alive = profile(bundles)
        self._loads = [alive.at(time) for time in range(start, end + 1)]
        placed = (bundles[i] for i in self._order)
        self._spans = [_Span(b.bytes, b.first - start, b.last - start) for b in placed]
        self._place = [0] * len(bundles)  # by bundle: its place in C's order
        for place, i in enumerate(self._order):
            self._place[i] = place
        self._orders: dict[tuple[Start, Front], tuple[int, Any]] = {}
        self._widest = max(1, SWEEP.MOST_STEPS // len(bundles))
        self._weights: dict[int, Any] = {}  # by power
        self._known: dict[tuple[int, SweepSettings], tuple[int, list[int] | None]] = {}  # work and bases of runs
        self.work = 0  # spent so far: intervals looked at, whose number per second is steady; of a known run, too

    def fit(self, order: Sequence[int], first_base: int) -> tuple[int, list[int]]:
        """A base for each bundle, each in this order at the lowest that is free, and their height; the first one's base
        is given.
        """
        place = self._place
        order_c, found = self._ffi.new("int32_t[]", [place[i] for i in order]), self._ffi.new("int32_t[]", len(order))
        fit = self._lib.sh_sweep_fit
        brief = self._keep[0][len(order)] <= SWEEP.BRIEF_PIECES
        height = self._beside(lambda stop: fit(self._problem, order_c, first_base, stop, found), brief)
        if height < 0:
            raise MemoryError
        return height, self._by_bundle(found)

    def run(self, height: int, settings: SweepSettings, work: int) -> list[int] | None:
        """A base for each bundle, all within `height` bytes; None where this run finds none with so much work.

        A run that ended by itself is not repeated.
        """
        known = self._known.get((height, settings))
        if known is None or known[0] >= work:
            known = self._searched(height, settings, work)
            if known[0] < work:
                self._known[height, settings] = known
        used, bases = known
        self.work += used
        return None if bases is None else list(bases)

    def _searched(self, height: int, settings: SweepSettings, work: int) -> tuple[int, list[int] | None]:
        """The work of a run, and what it finds."""
        ffi, sweep, n = self._ffi, self._lib.sh_sweep, len(self._order)
        pivot, order = self._from(settings.start, settings.front)
        width = min(settings.width, self._widest)
        weight = self._weight(settings.power)
        run = ffi.new("sh_sweep_run *", [height, width, settings.noise, settings.seed, weight, pivot, order])
        used, found = ffi.new("int64_t *", work), ffi.new("int32_t[]", n)
        brief = work <= SWEEP.BRIEF_WORK
        placed = self._beside(lambda stop: sweep(self._problem, run, stop, used, found), brief)
        if placed < 0:
            raise MemoryError
        return int(used[0]), self._by_bundle(found) if placed == n else None

    def _weight(self, power: int) -> Any:
        """The cost of a fragment at each time."""
        if power not in self._weights:
            most = max(1, *self._loads)
            weights = [(load / most) ** power + _LEAST_WEIGHT for load in self._loads]
            self._weights[power] = self._ffi.new("double[]", weights)
        return self._weights[power]

    def _from(self, start: Start, front: Front) -> tuple[int, Any]:
        """The time where a run begins, and the order of bundles."""
        if (start, front) not in self._orders:
            fullest = self._loads.index(max(self._loads))
            pivot = {Start.FIRST: 0, Start.LAST: len(self._loads) - 1, Start.FULLEST: fullest}[start]
            order = _outwards(self._spans, self._loads, pivot, front)
            self._orders[start, front] = pivot, self._ffi.new("int32_t[]", order)
        return self._orders[start, front]

    def _beside(self, work: Callable[[Any], int], brief: bool) -> int:
        """What C gives, which looks at a flag to stop: so Ctrl-C is heard, after the end where that is soon."""
        stop = self._ffi.new("int32_t *", 0)
        return work(stop) if brief else stoppable(lambda: work(stop), stop)

    def _by_bundle(self, found: Any) -> list[int]:
        """What was found, for each bundle as it was given."""
        bases: list[int] = self._ffi.unpack(found, len(self._order))
        return [bases[place] for place in self._place]
