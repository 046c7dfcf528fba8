"""Live ranges against their definition."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoehorn_mcu.planner.live_ranges import OrderFault, Row, live_ranges, rows_of_root

Events = list[tuple[list[int], list[int]]]
VALUES = range(6)


@st.composite
def orders(draw: st.DrawFn) -> tuple[Events, list[int], list[int]]:
    """Events that read only what is there; what is there from the start; and what is kept."""
    start = draw(st.lists(st.sampled_from(VALUES), unique=True))
    there, events = set(start), Events()
    for _ in range(draw(st.integers(0, 12))):
        reads = draw(st.lists(st.sampled_from(sorted(there)), max_size=4)) if there else []
        events.append((reads, draw(st.lists(st.sampled_from(VALUES), unique=True, max_size=3))))
        there.update(events[-1][1])
    return events, start, draw(st.lists(st.sampled_from(sorted(there)))) if there else []


def columns(events: Events) -> tuple[list[list[int]], list[list[int]]]:
    return [read for read, _ in events], [written for _, written in events]


def writers(events: Events, start: list[int], value: int) -> list[int]:
    """The events that write a value, in order; -1: before the first."""
    return [-1] * (value in start) + [time for time, (_, written) in enumerate(events) if value in written]


def read_at(events: Events, kept: list[int], value: int) -> list[int]:
    """The events that read a value; behind the last one, what is kept."""
    return [time for time, (read, _) in enumerate(events) if value in read] + [len(events)] * (value in kept)


@given(orders())
def test_a_copy_is_alive_from_its_writer_to_the_last_reader_before_the_next_writer(
    order: tuple[Events, list[int], list[int]],
):
    events, start, kept = order
    expected = set()
    for value in VALUES:
        writes = writers(events, start, value)
        for first, following in pairwise([*writes, len(events)]):
            readers = [time for time in read_at(events, kept, value) if first < time <= following]
            expected.add((value, first, max(readers, default=first)))
    found = live_ranges(*columns(events), start, kept)

    assert set(zip(found.values, found.first, found.last, strict=True)) == expected
    assert len(found.values) == len(expected)
    assert found.first == sorted(found.first)


@given(orders())
def test_each_event_reads_the_latest_copy_and_writes_the_next_ones(order: tuple[Events, list[int], list[int]]):
    events, start, kept = order
    found = live_ranges(*columns(events), start, kept)

    for time, (read, written) in enumerate(events):
        assert [found.values[copy] for copy in found.reads[time]] == read
        assert [found.values[copy] for copy in found.writes[time]] == written
        for copy in found.reads[time]:
            earlier = [c for c, first in enumerate(found.first) if first < time]
            assert copy == max(c for c in earlier if found.values[c] == found.values[copy])
    assert [copy for copies in found.writes for copy in copies] == [*range(len(start), len(found.values))]


def test_what_is_given_or_kept_is_alive_during_the_events_themselves():
    found = live_ranges([["x"], ["y"]], [["y"], ["z"]], ["x", "unread"], ["z"])

    assert found.values == ["x", "unread", "y", "z"]
    assert [found.during(copy) for copy in range(4)] == [(0, 0), (0, 0), (0, 1), (1, 1)]
    assert live_ranges([], [], ["x"], ["x"]).during(0) == (0, 0)


def test_an_order_that_reads_or_keeps_what_is_not_there_is_refused():
    with pytest.raises(OrderFault, match="event 1 reads row 2 of 'x', which is not there"):
        live_ranges([[], [Row("x", 1), Row("x", 2)]], [[Row("x", 1)], []])
    with pytest.raises(OrderFault, match="row 3 of 'y' is kept, but never computed"):
        live_ranges([[]], [[Row("y", 2)]], kept=[Row("y", 3)])


@given(st.integers(1, 12), st.integers(1, 12), st.lists(st.integers(0, 8), unique=True))
def test_the_rows_of_a_root_hold_exactly_the_bytes_of_the_rows_of_its_view(size: int, root: int, rows: list[int]):
    wanted = {byte // root for y in rows for byte in range(y * size, (y + 1) * size)}
    found = rows_of_root(rows, size, root)

    assert set(found) == wanted
    assert len(found) == len(wanted)
