"""Peak and work of an order of rows in which rows may be recomputed, counted row by row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from shoehorn_mcu.planner.live_ranges import LiveRanges, OrderFault, Row
from shoehorn_mcu.planner.order.flow import Event, Flow

_REMEMBERED = 8  # orders


@dataclass(frozen=True)
class Replay:
    """Most bytes alive at one event (-1: before the first), the predicted work of all, and the unnecessary events."""

    peak: int
    work: int
    needless: frozenset[int]  # computations that no event reads, of rows that are computed elsewhere too


def replay(flow: Flow, events: Sequence[Event]) -> Replay:
    """Counts one row an event. Raises OrderFault."""
    return _replayed(flow, tuple(events))


@lru_cache(_REMEMBERED)
def _replayed(flow: Flow, events: tuple[Event, ...]) -> Replay:
    """As `replay`, cached: who finds an order and who uses it both ask for its peak."""
    if flow.streamed:
        _arrive(events)
    ranges = flow.live_ranges(events)
    work = sum(flow.problem.ops[event.op].row_cost for event in events if event.op or not flow.streamed)
    return Replay(max(needed(flow, events, ranges)), work, _needless(ranges))


def pruned(flow: Flow, events: Sequence[Event]) -> list[Event]:
    """The order without unnecessary events; its peak is no higher."""
    while needless := replay(flow, events).needless:
        events = [event for time, event in enumerate(events) if time not in needless]
    return list(events)


def _arrive(events: Sequence[Event]) -> None:
    """The rows of a streamed input come in order, the first one before all else."""
    if events and events[0].op != 0:
        raise OrderFault("event 0 comes before the first row of the input")
    for wanted, row in enumerate(event.row for event in events if event.op == 0):
        if row != wanted:
            raise OrderFault(f"row {row} of the input arrives where row {wanted} is next")


def needed(flow: Flow, events: Sequence[Event], ranges: LiveRanges[Row]) -> list[int]:
    """The bytes alive before the first event, and during each."""
    change = [0] * (len(events) + 3)  # place 0: before the first event
    for row, first, last in zip(ranges.values, ranges.first, ranges.last, strict=True):
        change[first + 1] += flow.slot[row.tensor]
        change[last + 2] -= flow.slot[row.tensor]
    held = list(accumulate(change))
    found = [held[0]]
    for time, event in enumerate(events):
        over = flow.saved(event.op) if flow.overwritten(ranges, time, event) is not None else 0
        found.append(held[time + 1] + flow.scratch[event.op] - over)
    return found


def _needless(ranges: LiveRanges[Row]) -> frozenset[int]:
    """The events of copies that no event reads, of rows that are computed elsewhere too."""
    count = Counter(ranges.values)
    found = set()
    for row, first, last in zip(ranges.values, ranges.first, ranges.last, strict=True):
        if first == last and count[row] > 1:
            count[row] -= 1
            found.add(first)
    return frozenset(found)
