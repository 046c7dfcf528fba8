"""Orders of rows in which rows wait no longer than they have to."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_again import problem_of

from shoehorn_mcu.planner.order.flow import Event, Flow
from shoehorn_mcu.planner.order.replay import replay
from shoehorn_mcu.planner.order.shorten import _Links, _Shortening, shortened
from shoehorn_mcu.planner.partition.search import PartitionSearch
from shoehorn_mcu.planner.problem import OpSpec, Problem, Read, TensorSpec
from shoehorn_mcu.planner.recompute.search import least, recomputed
from shoehorn_mcu.planner.remat.outcome import Effort


def orders(problem: Problem) -> list[list[Event]]:
    """One by groups; one with rows computed again, where the quick search finds it."""
    flow, modes = Flow(problem), PartitionSearch(problem, None)
    by_groups = modes.space.events(modes.minimax().groups)
    once = [Event(event.op, row) for event in by_groups for row in range(event.row, event.row + event.rows)]
    budget = max(least(flow), int(replay(flow, once).peak * 0.8))
    again = recomputed(problem, once, budget, Effort(0.2, 5), most_rows=0)
    return [once] if again is None else [once, again.events]


@settings(max_examples=18, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 10**6), st.booleans())
def test_the_same_rows_are_computed_and_the_peak_is_no_higher(seed: int, streamed: bool):
    problem = replace(problem_of(seed, streamed), blocks=())
    flow = Flow(problem)
    for events in orders(problem):
        found = shortened(flow, events)
        assert Counter(found) == Counter(events)
        assert replay(flow, found).peak <= replay(flow, events).peak


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 10**6), st.booleans())
def test_what_is_alive_is_known_after_each_move(seed: int, streamed: bool):
    problem = replace(problem_of(seed, streamed), blocks=())
    flow = Flow(problem)
    events = orders(problem)[-1]
    shortening = _Shortening(_Links(flow, events), replay(flow, events).peak)
    for event in random.Random(seed).sample(shortening.order, len(shortening.order)):
        shortening.move([event])
    held, after = shortening._held.copy(), shortening._after.copy()
    shortening._profile()
    assert held.tolist() == shortening._held.tolist()
    assert after.tolist() == shortening._after.tolist()


def wide_and_narrow(rows: int = 8) -> Problem:
    """Two ops read the input row by row, one makes wide rows, one narrow ones; a third reads both."""
    same = tuple((y,) for y in range(rows))
    tensors = [("x", rows, 8), ("wide", rows, 64), ("narrow", rows, 4), ("y", rows, 4)]
    return Problem(
        tensors=tuple(TensorSpec(*t) for t in tensors),
        ops=(
            OpSpec("widen", (Read("x", same),), "wide", row_cost=1),
            OpSpec("narrow", (Read("x", same),), "narrow", row_cost=1),
            OpSpec("join", (Read("wide", same), Read("narrow", same)), "y", row_cost=1),
        ),
        inputs=("x",),
        outputs=("y",),
    )


def test_a_wide_row_is_computed_right_before_its_reader():
    flow = Flow(wide_and_narrow())
    rows = range(8)
    events = [*(Event(0, y) for y in rows), *(Event(1, y) for y in rows), *(Event(2, y) for y in rows)]
    found = shortened(flow, events)
    assert all(found.index(Event(2, y)) == found.index(Event(0, y)) + 1 for y in rows)
