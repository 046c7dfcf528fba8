"""From an order of rows to addresses: which rows are overwritten in place."""

from __future__ import annotations

from row_problems import same

from generator.planner import Goal, OpSpec, Problem, Read, TensorSpec, check, make_plan
from generator.planner.flow import Flow
from generator.planner.place import load, place
from generator.planner.rows import Share, _Layout, lay_out

ROWS, LONG, SHORT = 8, 48, 12


def shrinking() -> Problem:
    """An input whose rows become shorter one by one, in place; every two of these become a row as long as the first."""
    pairs = Read("short", tuple((2 * y, 2 * y + 1) for y in range(ROWS // 2)))
    ops = (
        OpSpec("shrink", (same("x", ROWS),), "short", 1, in_place="x"),
        OpSpec("pair", (pairs,), "long", 1),
        OpSpec("end", (Read("long", (tuple(range(ROWS // 2)),)),), "y", 1),
    )
    sizes = {"x": (ROWS, LONG), "short": (ROWS, SHORT), "long": (ROWS // 2, LONG), "y": (1, 4)}
    return Problem(tuple(TensorSpec(name, *size) for name, size in sizes.items()), ops, ("x",), ("y",))


def test_short_rows_go_over_longer_ones_only_where_there_is_no_other_room():
    problem = shrinking()
    flow = Flow(problem)
    events = flow.events(range(3), 0, 3)
    everywhere = _Layout(flow, events, share=Share.ALL).bundles
    made = lay_out(flow, events)

    assert load(everywhere) == made.load_bytes == made.arena_bytes == ROWS * LONG
    assert place(everywhere, 0)[0] > ROWS * LONG  # 36 bytes stay free beside each short row; none else fits there
    assert load(_Layout(flow, events, share=Share.NONE).bundles) == ROWS * LONG + SHORT


def test_a_plan_with_some_rows_in_place_is_clean_and_proven():
    problem = shrinking()
    plan = make_plan(problem, Goal.SRAM)

    assert check(problem, plan) == []
    assert plan.arena_bytes == plan.outcome.bound_bytes == ROWS * LONG
