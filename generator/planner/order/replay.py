"""Peak and work of an order of rows in which rows may be recomputed, counted row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from shoehorn_mcu.errors import ShoehornError
from shoehorn_mcu.planner.order.flow import Event, Flow


class OrderFault(ShoehornError):
    """An order reads a row that is not in memory, or an input row arrives out of order: a defect of the planner."""


@dataclass
class _Copy:
    """One computation of a row, and the events that write and last read it, both inclusive."""

    tensor: str
    first: int
    last: int


@dataclass(frozen=True)
class Replay:
    """Most bytes alive at one event (-1: before the first), the predicted work of all, and the unnecessary events."""

    peak: int
    work: int
    needless: frozenset[int]  # computations that no event reads, of rows that are computed elsewhere too


def replay(flow: Flow, events: Sequence[Event]) -> Replay:
    """Counts one row an event. Raises OrderFault."""
    latest, copies = _inputs(flow)
    written: list[_Copy] = []
    reused: list[tuple[int, _Copy]] = []  # events and the rows that they may overwrite
    arrived = 0
    for time, event in enumerate(events):
        if event.op == 0 and flow.streamed:
            arrived = _arrive(event, arrived)
        elif flow.streamed and not arrived:
            raise OrderFault(f"event {time} comes before the first row of the input")
        for place, tap in enumerate(flow.taps[event.op]):
            for row in tap.reads[event.row]:
                copy = latest.get((tap.tensor, row))
                if copy is None:
                    raise OrderFault(f"event {time} reads row {row} of '{tap.tensor}', which is not there")
                copy.last = time
                if flow.in_place[event.op] == place:
                    reused.append((time, copy))
        written.append(_Copy(flow.writes[event.op], time, time))
        latest[written[-1].tensor, event.row] = written[-1]
    _keep_outputs(flow, latest, len(events))
    shared = {time: flow.slot[copy.tensor] for time, copy in reused if copy.last == time}
    peak = _peak(flow, events, [*copies, *written], shared)
    work = sum(flow.problem.ops[event.op].row_cost for event in events if not _delivers(flow, event))
    return Replay(peak, work, _needless(events, written))


def pruned(flow: Flow, events: Sequence[Event]) -> list[Event]:
    """The order without unnecessary events; its peak is no higher."""
    while needless := replay(flow, events).needless:
        events = [event for time, event in enumerate(events) if time not in needless]
    return list(events)


def _delivers(flow: Flow, event: Event) -> bool:
    return event.op == 0 and flow.streamed


def _inputs(flow: Flow) -> tuple[dict[tuple[str, int], _Copy], list[_Copy]]:
    there = {
        (name, row): _Copy(name, -1, -1) for name, b in flow.born.items() if b < 0 for row in range(flow.rows[name])
    }
    return there, list(there.values())


def _arrive(event: Event, arrived: int) -> int:
    if event.row != arrived:
        raise OrderFault(f"row {event.row} of the input arrives where row {arrived} is next")
    return arrived + 1


def _keep_outputs(flow: Flow, latest: dict[tuple[str, int], _Copy], events: int) -> None:
    for name in flow.problem.outputs:
        root = flow.problem.root(name)
        for row in range(flow.rows[root]):
            if (root, row) not in latest:
                raise OrderFault(f"row {row} of the output '{root}' is never computed")
            latest[root, row].last = events


def _peak(flow: Flow, events: Sequence[Event], copies: Sequence[_Copy], shared: dict[int, int]) -> int:
    change = [0] * (len(events) + 3)  # place 0: before the first event
    for copy in copies:
        change[copy.first + 1] += flow.slot[copy.tensor]
        change[copy.last + 2] -= flow.slot[copy.tensor]
    held = list(accumulate(change))
    peak = held[0]
    for time, event in enumerate(events):
        reuse = min(shared.get(time, 0), flow.slot[flow.writes[event.op]])
        peak = max(peak, held[time + 1] + flow.scratch[event.op] - reuse)
    return peak


def _needless(events: Sequence[Event], written: Sequence[_Copy]) -> frozenset[int]:
    """The events of copies that no event reads, of rows that are computed elsewhere too."""
    count: dict[tuple[int, int], int] = {}
    for event in events:
        count[event.op, event.row] = count.get((event.op, event.row), 0) + 1
    found = set()
    for time, (event, copy) in enumerate(zip(events, written, strict=True)):
        if copy.last == copy.first and count[event.op, event.row] > 1:
            count[event.op, event.row] -= 1
            found.add(time)
    return frozenset(found)
