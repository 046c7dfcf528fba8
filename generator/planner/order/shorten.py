"""Shortens live ranges: moves each computation to where the fewest bytes are held, so that the order packs better.

Below the peak, a search for the least work is indifferent to when a row is computed, and may hold bytes for longer than
needed; they fragment the free memory. A row that is larger than the rows whose last reader it is moves towards its own
first reader, a smaller one towards the rows that it reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.live_ranges import Row
from shoehorn_mcu.planner.order.flow import Event, Flow
from shoehorn_mcu.planner.order.replay import replay

_PASSES = 2
_FARTHEST = 2000  # places that a computation moves at one time
_Bytes = NDArray[np.int64]


def shortened(flow: Flow, events: Sequence[Event]) -> list[Event]:
    """The same computations, one row each, in an order with a peak no higher; `events` runs."""
    most = replay(flow, events).peak
    shortening = _Shortening(_Links(flow, events), most)
    for each in range(_PASSES):
        order = list(shortening.order)
        for event in order if each % 2 else reversed(order):
            shortening.move(event)
    shorter = [events[i] for i in shortening.order]
    return shorter if replay(flow, shorter).peak <= most else list(events)


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
        self.behind: list[list[int]] = [[] for _ in events]
        for i, before in enumerate(self.before):
            for other in before:
                self.behind[other].append(i)

    def _number(self, copy: int) -> int:
        """The number here of a copy, whose live range counts the inputs' rows first."""
        return (copy - self._given) % len(self.slots)

    def _arrive(self, arriving: Sequence[int]) -> None:
        """Rows of a streamed input arrive in order, the first one before all other events."""
        for i in range(self.count):
            self.before[i] |= {arriving[0]} - {i}
        for before, i in pairwise(arriving):
            self.before[i].add(before)


@dataclass(frozen=True)
class _Move:
    """A computation moves to place `to`: bytes times places saved, and the change of live bytes it makes."""

    saved: int
    to: int
    step: int  # bytes alive during it
    change: _Bytes  # by place that it passes, nearest first: of the bytes alive during that
    after: _Bytes  # the same: of those alive behind it


class _Shortening:
    """An order that changes, and how many bytes are alive during and after each event."""

    def __init__(self, links: _Links, most: int) -> None:
        self._links, self._most = links, most
        self.order = list(range(links.count))
        self._place = list(range(links.count))
        self._profile()

    def _profile(self) -> None:
        links, n = self._links, self._links.count
        during, after = (np.zeros(n + 2, dtype=np.int64) for _ in range(2))
        self._start = 0  # bytes alive before the first event
        for copy, size in enumerate(links.slots):
            first, last = (self._place[copy] if copy < n else -1), self._last(copy)
            during[max(first, 0)] += size
            during[min(last, n) + 1] -= size
            after[max(first, 0)] += size
            after[max(0, min(last, n))] -= size
            self._start += size if first < 0 <= last else 0
        self._held: _Bytes = np.cumsum(during)[:n] + np.array([links.extra[i] for i in self.order], dtype=np.int64)
        self._after: _Bytes = np.cumsum(after)[:n]

    def _last(self, copy: int, but: int = -1) -> int:
        """Where a copy is touched last, by others than `but`; an input's own place is -1."""
        links = self._links
        if copy in links.kept:
            return links.count
        readers = (self._place[reader] for reader in links.readers[copy] if reader != but)
        return max(readers, default=self._place[copy] if copy < links.count else -1)

    def move(self, event: int) -> None:
        """Moves an event to where the fewest bytes wait."""
        moves = [move for move in (self._later(event), self._earlier(event)) if move is not None]
        if moves:
            self._go(event, max(moves, key=lambda move: move.saved))

    def _alone(self, event: int) -> tuple[int, int]:
        """Bytes that an event adds to those alive after it, and further bytes alive only during it."""
        links = self._links
        lives = bool(links.readers[event]) or event in links.kept
        own = links.slots[event] if lives else 0
        return own, links.slots[event] - own + links.extra[event]

    def _later(self, event: int) -> _Move | None:
        """The best move to a later place."""
        links, at = self._links, self._place[event]
        end = min((self._place[b] for b in links.behind[event]), default=links.count)
        first, end = at + 1, min(end, at + 1 + _FARTHEST)
        if first >= end:
            return None
        own, alone = self._alone(event)
        change, after = (np.full(end - first, -own, dtype=np.int64) for _ in range(2))
        for copy in links.reads[event]:
            last = self._last(copy, event)
            change[max(0, last + 1 - first) :] += links.slots[copy]  # at places behind the last
            after[max(0, last - first) :] += links.slots[copy]
        step = self._after[first:end] + after + own + alone
        return self._best(range(first, end), self._held[first:end], change, after, step)

    def _earlier(self, event: int) -> _Move | None:
        """The best move to an earlier place."""
        links, at = self._links, self._place[event]
        end = max((self._place[b] for b in links.before[event]), default=-1)
        end = max(end, at - 1 - _FARTHEST) + 1  # the last place
        if end >= at:
            return None
        own, alone = self._alone(event)
        change, after = (np.full(at - end, own, dtype=np.int64) for _ in range(2))
        for copy in links.reads[event]:
            last = self._last(copy, event)
            change[: max(0, at - 1 - last)] -= links.slots[copy]  # at places behind the last
            after[: max(0, at - last)] -= links.slots[copy]
        before = np.empty(at - end, dtype=np.int64)
        before[:-1] = self._after[end : at - 1][::-1]
        before[-1] = self._after[end - 1] if end else self._start
        places, held = range(at - 1, end - 1, -1), self._held[end:at][::-1]
        return self._best(places, held, change, after, before + own + alone)

    def _best(self, places: range, held: _Bytes, change: _Bytes, after: _Bytes, step: _Bytes) -> _Move | None:
        """The move that saves most, of those that raise no place above the peak; `held`: bytes alive at each place.

        None where none saves anything.
        """
        passable = np.logical_and.accumulate(held + change <= np.maximum(self._most, held))
        saved = np.where(passable & (step <= self._most), np.cumsum(-change), -1)
        i = int(saved.argmax())
        if saved[i] <= 0:
            return None
        return _Move(int(saved[i]), places[i], int(step[i]), change[: i + 1], after[: i + 1])

    def _go(self, event: int, move: _Move) -> None:
        at, to = self._place[event], move.to
        held, after = self._held, self._after
        if to > at:
            held[at:to] = held[at + 1 : to + 1] + move.change
            after[at:to] = after[at + 1 : to + 1] + move.after
        else:
            start = after[to - 1] if to else self._start
            held[to + 1 : at + 1] = held[to:at] + move.change[::-1]
            behind = after[to:at] + move.after[::-1]
            after[to] = start + self._alone(event)[0] - self._freed(event, to)
            after[to + 1 : at + 1] = behind
        held[to] = move.step
        self.order.insert(to, self.order.pop(at))
        for place in range(min(at, to), max(at, to) + 1):
            self._place[self.order[place]] = place

    def _freed(self, event: int, to: int) -> int:
        """Bytes of the event's inputs that no event reads later if it is at this place."""
        return sum(self._links.slots[copy] for copy in self._links.reads[event] if self._last(copy, event) < to)
