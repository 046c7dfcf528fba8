"""Groups of ops that recompute the rows at the edge of a window."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random

import pytest
from conftest import Gen
from hypothesis import given, settings
from hypothesis import strategies as st
from row_problems import chances, problems, same, window
from shared import MODELS, needs_shared

from shoehorn_mcu.planner import DELIVERY, OpSpec, Problem, TensorSpec
from shoehorn_mcu.planner.order.flow import Event, Flow
from shoehorn_mcu.planner.order.replay import RowOrder, recomputing, replay
from shoehorn_mcu.planner.partition.search import lowest_peak
from shoehorn_mcu.planner.recompute.halos import banded
from shoehorn_mcu.planner.recompute.search import nearer
from shoehorn_mcu.planner.remat.outcome import Effort

ROWS = 24


def single(events: Sequence[Event]) -> list[Event]:
    return [Event(each.op, row) for each in events for row in range(each.row, each.end)]


def widening() -> Problem:
    """A streamed input, rows of 8 bytes that an op makes 80, a window of 3 over those, and an op with much scratch."""
    sizes = {"x": 8, "wide": 80, "smooth": 40, "y": 4}
    tensors = [TensorSpec(name, ROWS, size) for name, size in sizes.items()]
    ops = (
        OpSpec(DELIVERY, (), "x", row_cost=0),
        OpSpec("widen", (same("x", ROWS),), "wide", row_cost=10, row_macs=80),
        OpSpec("filter", (window("wide", ROWS, 3, before=1),), "smooth", row_cost=90, row_macs=720),
        OpSpec("end", (same("smooth", ROWS),), "y", scratch_bytes=400, row_cost=5),
    )
    return Problem(tuple(tensors), ops, (), ("y",))


def once(problem: Problem) -> int:
    return sum(op.row_cost * ROWS for op in problem.ops)


@settings(max_examples=200, deadline=None)
@given(problem=problems(most_ops=9), chance=chances(), left=st.integers(0, 2))
def test_readers_leave_so_many_rows_and_nothing_else_changes(problem: Problem, chance: Random, left: int):
    flow = Flow(problem)
    plain = single(flow.events(range(flow.count), 0, flow.count))
    readers: dict[str, list[int]] = {name: [] for name in flow.rows}
    for op in range(flow.count):
        for tap in flow.taps[op]:
            readers[tap.tensor].append(op)
    single_reader = [op for op in range(flow.count) if len(readers[flow.writes[op]]) == 1 and op not in flow.once]
    alone = [op for op in single_reader if flow.writes[op] not in map(problem.root, problem.kept)]
    halos = {op: left for op in alone if chance.random() < 0.5}
    order = RowOrder.of(plain)
    events = recomputing(flow, order, halos).events()

    assert recomputing(flow, order, {}).events() == plain
    assert set(events) == set(plain)
    assert replay(flow, events).work >= replay(flow, plain).work  # every read row is there, else OrderFault
    ranges = flow.live_ranges(events)
    for op in halos:
        for time, event in enumerate(events):
            if event.op == readers[flow.writes[op]][0]:
                copies = zip(ranges.values, ranges.first, ranges.last, strict=True)
                over = [row for row, first, last in copies if row.tensor == flow.writes[op] and first < time < last]
                assert len(over) <= left


def test_a_halo_is_recomputed_where_rows_of_its_op_are_short():
    problem = widening()
    flow = Flow(problem)
    lowest = lowest_peak(problem)
    budget = lowest - 100
    events = banded(flow, budget, 100_000)

    assert events is not None
    assert replay(flow, events).peak <= budget * 1.1
    assert replay(flow, events).work > once(problem)


def test_without_rows_to_replay_no_halo_is_tried():
    problem = widening()
    assert banded(Flow(problem), lowest_peak(problem) - 100, 0) is None


def test_what_fits_recomputes_nothing():
    problem = widening()
    flow = Flow(problem)
    events = banded(flow, lowest_peak(problem), 100_000)

    assert events is not None
    assert replay(flow, events).work == once(problem)


def test_the_search_from_there_keeps_to_the_budget():
    problem = widening()
    flow = Flow(problem)
    lowest = lowest_peak(problem)
    found = nearer(flow, single(flow.events(range(4), 0, 4)), lowest - 60, Effort(0.5, 60.0))

    assert found is not None
    assert found.peak <= lowest - 60
    assert found.work > found.once


@needs_shared
@pytest.mark.long
def test_a_streamed_camera_model_takes_less_for_some_work(gen: Gen):
    model = MODELS / "mlperf-vww96-int8.tflite"
    words = ("--stream-input", "--minimize", "sram", "--recompute", "20", "--json")
    plan = json.loads(gen("plan", model, *words).stdout)["plan"]

    assert plan["arena_bytes"] <= 9_500
    assert 0 < plan["recomputed_macs"] <= 0.2 * (plan["macs"] - plan["recomputed_macs"])
