"""Replays of orders of rows in C: their bytes, needless events and recomputed rows are those counted by live ranges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate
from random import Random

import pytest
from hypothesis import given, settings
from row_problems import chances, problems

from shoehorn_mcu.planner import Problem
from shoehorn_mcu.planner.live_ranges import LiveRanges, OrderFault, Row
from shoehorn_mcu.planner.order.flow import Event, Flow
from shoehorn_mcu.planner.order.replay import RowOrder, needed, recomputing, replay


def plain(flow: Flow, start: int, end: int) -> list[Event]:
    return [Event(e.op, row) for e in flow.events(range(start, end), start, end) for row in range(e.row, e.end)]


def counted(flow: Flow, events: Sequence[Event], ranges: LiveRanges[Row]) -> list[int]:
    """The bytes alive before the first event and during each."""
    change = [0] * (len(events) + 3)  # place 0: before the first event
    for row, first, last in zip(ranges.values, ranges.first, ranges.last, strict=True):
        change[first + 1] += flow.slot[row.tensor]
        change[last + 2] -= flow.slot[row.tensor]
    held = list(accumulate(change))
    over = [0 if flow.overwritten(ranges, t, e) is None else flow.saved(e.op) for t, e in enumerate(events)]
    return [held[0], *(held[t + 1] + flow.scratch[e.op] - over[t] for t, e in enumerate(events))]


def unread(ranges: LiveRanges[Row]) -> set[int]:
    """The events of copies that no event reads, of rows that are computed elsewhere too."""
    count, found = Counter(ranges.values), set[int]()
    for row, first, last in zip(ranges.values, ranges.first, ranges.last, strict=True):
        if first == last and count[row] > 1:
            count[row] -= 1
            found.add(first)
    return found


def left_out(flow: Flow, events: Sequence[Event], halos: Mapping[int, int]) -> list[Event]:
    """The order in which each reader leaves only the newest `halos[op]` rows of these ops."""
    found: list[Event] = []
    there: dict[int, set[int]] = {op: set() for op in halos}

    def compute(op: int, row: int) -> None:
        read = [(writer, tap) for tap in flow.taps[op] if (writer := flow.born[tap.tensor]) in halos and writer != op]
        for writer, tap in read:
            for other in tap.reads[row]:
                if other not in there[writer]:
                    compute(writer, other)
        found.append(Event(op, row))
        if op in halos:
            there[op].add(row)
        for writer, _ in read:
            there[writer] = set(sorted(there[writer])[max(0, len(there[writer]) - halos[writer]) :])

    for event in events:
        compute(event.op, event.row)
    return found


def chosen(flow: Flow, chance: Random) -> dict[int, int]:
    """Halos of some ops."""
    return {op: chance.randint(0, 3) for op in range(flow.count) if op not in flow.once and chance.random() < 0.5}


@settings(max_examples=300, deadline=None)
@given(problem=problems(most_ops=9), chance=chances())
def test_bytes_and_needless_events_are_those_of_live_ranges(problem: Problem, chance: Random):
    flow = Flow(problem)
    events = left_out(flow, plain(flow, 0, flow.count), chosen(flow, chance))
    ranges = flow.live_ranges(events)

    assert needed(flow, RowOrder.of(events)).tolist() == counted(flow, events, ranges)
    assert replay(flow, events).needless == unread(ranges)
    assert replay(flow, events).peak == max(counted(flow, events, ranges))


@settings(max_examples=300, deadline=None)
@given(problem=problems(most_ops=9), chance=chances())
def test_the_bytes_of_a_group_are_those_of_its_live_ranges(problem: Problem, chance: Random):
    flow = Flow(problem)
    start = chance.choice((0, chance.randint(0, flow.count - 1)))
    end = chance.randint(start + 1, flow.count)
    events = plain(flow, start, end)

    held = needed(flow, RowOrder.of(events), start, end).tolist()
    assert held == counted(flow, events, flow.live_ranges(events, start, end))
    assert max(held) + flow.passing(start, end) == flow.peak(range(start, end), start, end)


@settings(max_examples=300, deadline=None)
@given(problem=problems(most_ops=9), chance=chances())
def test_what_a_reader_does_not_leave_is_recomputed(problem: Problem, chance: Random):
    flow = Flow(problem)
    once, halos = plain(flow, 0, flow.count), chosen(flow, chance)

    assert recomputing(flow, RowOrder.of(once), halos).events() == left_out(flow, once, halos)


@settings(max_examples=200, deadline=None)
@given(problem=problems(most_ops=9), chance=chances())
def test_an_order_that_cannot_be_executed_is_refused_as_by_live_ranges(problem: Problem, chance: Random):
    flow = Flow(problem)
    events = plain(flow, 0, flow.count)
    del events[chance.randrange(len(events))]
    try:
        flow.live_ranges(events)
    except OrderFault as fault:
        with pytest.raises(OrderFault) as caught:
            needed(flow, RowOrder.of(events))
        assert str(caught.value) == str(fault)
    else:
        assert len(needed(flow, RowOrder.of(events))) == len(events) + 1
