"""Shortens live ranges: moves each computation to where the fewest bytes are held, so that the order packs better.

Below the peak, a search for the least work is indifferent to when a row is computed, and may hold bytes for longer than
needed; they fragment the free memory. A row that is larger than the rows whose last reader it is moves towards its own
first reader, a smaller one towards the rows that it reads.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.planner.effort import SHORTEN
from shoehorn_mcu.planner.live_ranges import Row
from shoehorn_mcu.planner.order.flow import Event, Flow
from shoehorn_mcu.planner.order.replay import replay
from shoehorn_mcu_host.base import cbuild

_library = cbuild.library(__file__, "shoehorn_shorten", "shorten.h", "shorten.c")
_Bytes = NDArray[np.int64]


def shortened(flow: Flow, events: Sequence[Event]) -> list[Event]:
    """The same computations, one row each, in an order with a peak no higher; `events` runs."""
    most = replay(flow, events).peak
    shortening = _Shortening(_Links(flow, events), most)
    for each in range(SHORTEN.PASSES):
        order = shortening.order
        shortening.move(order if each % 2 else order[::-1])
    shorter = [events[i] for i in shortening.order]
    return shorter if replay(flow, shorter).peak <= most else list(events)


def _behind(before: Sequence[Collection[int]]) -> list[list[int]]:
    """By event: those that it is before."""
    found: list[list[int]] = [[] for _ in before]
    for i, others in enumerate(before):
        for other in others:
            found[other].append(i)
    return found


class _Links:
    """Computations, numbered in their first order, and the copies that they read; rows of inputs have later numbers.

    Each computation keeps reading the same copy of each row. So it stays after the computations that it reads and
    before those that read it, after the readers of the previous copy of its row, and where it overwrites a row in
    place, after the other readers of that row.
    """

    def __init__(self, flow: Flow, events: Sequence[Event]) -> None:
        self.count = len(events)
        ranges = flow.live_ranges(events)
        self._given = len(ranges.values) - self.count
        made = ranges.values[self._given :]
        self.slots = [flow.slot[row.tensor] for row in (*made, *ranges.values[: self._given])]
        self.reads = [list(dict.fromkeys(map(self._number, read))) for read in ranges.reads]
        self.readers: list[list[int]] = [[] for _ in self.slots]
        for i, read in enumerate(self.reads):
            for copy in read:
                self.readers[copy].append(i)
        self.kept = {self._number(copy) for copy, last in enumerate(ranges.last) if last == self.count}
        self.extra = [flow.scratch[event.op] for event in events]  # bytes during the event alone
        self.before = [{copy for copy in read if copy < self.count} for read in self.reads]
        latest: dict[Row, int] = {}
        for i, event in enumerate(events):
            if (old := latest.get(made[i])) is not None:
                self.before[i] |= {old, *self.readers[old]}
            latest[made[i]] = i
            if (below := flow.overwritten(ranges, i, event)) is not None:  # it stays the last to read that row
                self.before[i] |= {*self.readers[self._number(below)]} - {i}
                self.extra[i] -= flow.saved(event.op)
        if flow.streamed:
            self._arrive([i for i, event in enumerate(events) if event.op == 0])
        self.behind = _behind(self.before)

    def _number(self, copy: int) -> int:
        """The number here of a copy, whose live range counts the inputs' rows first."""
        return (copy - self._given) % len(self.slots)

    def _arrive(self, arriving: Sequence[int]) -> None:
        """Rows of a streamed input arrive in order, the first one before all other events."""
        for i in range(self.count):
            self.before[i] |= {arriving[0]} - {i}
        for before, i in pairwise(arriving):
            self.before[i].add(before)


class _Shortening:
    """An order that changes, and how many bytes are alive during and after each event."""

    def __init__(self, links: _Links, most: int) -> None:
        self._links = links
        self._order, self._place = (np.arange(links.count, dtype=np.int32) for _ in range(2))
        self._profile()
        library = _library()
        ffi, lists = library.ffi, (links.reads, links.readers, links.before, links.behind)
        self._move, self._events = library.lib.sh_shorten, ffi.new("int32_t[]", max(1, links.count))
        parts = (part for each in lists for part in cbuild.parts(each))
        kept = [int(copy in links.kept) for copy in range(len(links.slots))]
        farthest = max(1, min(links.count, SHORTEN.FARTHEST))
        self._keep = [
            *(ffi.new("int64_t[]", column) for column in (links.slots, links.extra)),
            *(ffi.new("int32_t[]", column) for column in (kept, *parts)),
        ]
        self._links_c = ffi.new("sh_shorten_links *", [links.count, most, self._start, farthest, *self._keep])
        arrays = [ffi.from_buffer("int32_t[]", array) for array in (self._order, self._place)]
        arrays += [ffi.from_buffer("int64_t[]", array) for array in (self._held, self._after)]
        self._memory = [*arrays, *(ffi.new("int64_t[]", farthest) for _ in range(4))]
        self._order_c = ffi.new("sh_shorten_order *", self._memory)

    def _profile(self) -> None:
        links, n, place = self._links, self._links.count, self._place.tolist()
        during, after = (np.zeros(n + 2, dtype=np.int64) for _ in range(2))
        self._start = 0  # bytes alive before the first event
        for copy, size in enumerate(links.slots):
            first, last = (place[copy] if copy < n else -1), self._last(copy, place)
            during[max(first, 0)] += size
            during[min(last, n) + 1] -= size
            after[max(first, 0)] += size
            after[max(0, min(last, n))] -= size
            self._start += size if first < 0 <= last else 0
        extra = np.array([links.extra[i] for i in self.order], dtype=np.int64)
        self._held: _Bytes = np.cumsum(during)[:n] + extra
        self._after: _Bytes = np.cumsum(after)[:n]

    def _last(self, copy: int, place: Sequence[int]) -> int:
        """Where a copy is touched last; an input's own place is -1."""
        links = self._links
        if copy in links.kept:
            return links.count
        readers = (place[reader] for reader in links.readers[copy])
        return max(readers, default=place[copy] if copy < links.count else -1)

    @property
    def order(self) -> list[int]:
        return self._order.tolist()

    def move(self, events: Sequence[int]) -> None:
        """Moves each of these events, one after the other, to where the fewest bytes wait."""
        self._events[0 : len(events)] = events
        self._move(self._links_c, self._order_c, self._events, len(events))
