"""From an order of rows to addresses: rows overwritten in place, and rows that lie elsewhere when computed again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from row_problems import same

from shoehorn_mcu.planner import Goal, OpSpec, Problem, Read, TensorSpec, check, make_plan
from shoehorn_mcu.planner.memory_plan import Editions, Outcome, Plan, Status
from shoehorn_mcu.planner.order.flow import Event, Flow
from shoehorn_mcu.planner.placement.editions import editions
from shoehorn_mcu.planner.placement.layout import RowOrder, Share, _Layout, lay_out
from shoehorn_mcu.planner.placement.place import load, place

ROWS, LONG, SHORT = 8, 48, 12


def shrinking() -> Problem:
    """An input whose rows become shorter one by one, in place; every two of these become a row as long as the first."""
    pairs = Read("short", tuple((2 * y, 2 * y + 1) for y in range(ROWS // 2)))
    ops = (
        OpSpec("shrink", (same("x", ROWS),), "short", in_place="x"),
        OpSpec("pair", (pairs,), "long"),
        OpSpec("end", (Read("long", (tuple(range(ROWS // 2)),)),), "y"),
    )
    sizes = {"x": (ROWS, LONG), "short": (ROWS, SHORT), "long": (ROWS // 2, LONG), "y": (1, 4)}
    return Problem(tuple(TensorSpec(name, *size) for name, size in sizes.items()), ops, ("x",), ("y",))


def test_short_rows_go_over_longer_ones_only_where_there_is_no_other_room():
    problem = shrinking()
    flow = Flow(problem)
    events = flow.events(range(3), 0, 3)
    everywhere = _Layout(RowOrder(flow, events), share=Share.ALL).bundles
    made = lay_out(flow, events)

    assert load(everywhere) == made.arena_bytes == ROWS * LONG
    assert place(everywhere, 0)[0] > ROWS * LONG  # 36 bytes stay free beside each short row; none else fits there
    assert load(_Layout(RowOrder(flow, events), share=Share.NONE).bundles) == ROWS * LONG + SHORT


def test_a_plan_with_some_rows_in_place_is_clean_and_proven():
    problem = shrinking()
    plan = make_plan(problem, Goal.SRAM)

    assert check(problem, plan) == []
    assert plan.arena_bytes == plan.outcome.bound_bytes == ROWS * LONG


def moving() -> tuple[Problem, Plan]:
    """`a` (8 bytes) runs, its reader and the reader of that (8 each), then `a` once more, for `end`; `x` is 4 bytes.

    Beside `x` two of the three fit: what comes third lies where `a` lay, so `a` must lie elsewhere then.
    """
    ops = (
        OpSpec("make", (same("x", 1),), "a"),
        OpSpec("second", (same("a", 1),), "b"),
        OpSpec("third", (same("b", 1),), "c"),
        OpSpec("end", (same("c", 1), same("a", 1)), "y"),
    )
    sizes = {"x": 4, "a": 8, "b": 8, "c": 8, "y": 4}
    problem = Problem(tuple(TensorSpec(name, 1, size) for name, size in sizes.items()), ops, ("x",), ("y",))
    made = lay_out(Flow(problem), [Event(op, 0) for op in (0, 1, 2, 0, 3)])
    outcome = Outcome(Status.FEASIBLE, 0, 0, 0.0)
    return problem, Plan(made.steps, made.placements, made.scratch, made.arena_bytes, outcome)


def test_a_row_that_is_computed_again_lies_where_there_is_room_then():
    problem, plan = moving()

    assert plan.arena_bytes == 4 + 8 + 8
    assert check(problem, plan) == []
    assert (
        plan.placement("a", 1).at(0)
        == plan.placement("b").at(0)
        != plan.placement("a").at(0)
        == plan.placement("c").at(0)
    )
    assert [step.editions for step in plan.steps] == [(), (), (), (("a", 1),), (("a", 1),)]


@pytest.mark.parametrize(
    ("step", "means", "fault"),
    [
        (4, (), "row 0 of 'a' is read, but its bytes hold row 0 of 'c'"),
        (3, (), "row 0 of 'c' is read, but its bytes hold row 0 of 'a'"),
        (1, (("a", 1),), "row 0 of 'a' is read, but its bytes hold row 0 of 'b'"),
        (4, (("a", 2),), "'a' has no placement of this edition"),
        (4, (("a", -1),), "'a' has no placement of this edition"),
        (4, (("nobody", 0),), "'nobody' has no placement of this edition"),
    ],
)
def test_the_check_sees_a_step_that_means_another_edition(step: int, means: Editions, fault: str):
    problem, plan = moving()
    steps = [replace(s, editions=means) if i == step else s for i, s in enumerate(plan.steps)]

    assert fault in check(problem, replace(plan, steps=tuple(steps)))[0]


def test_the_check_sees_editions_that_are_missing_and_outputs_that_lie_scattered():
    problem, plan = moving()
    later = tuple(ring for ring in plan.placements if (ring.tensor, ring.edition) != ("a", 0))
    apart = tuple(replace(r, slots=(r.address,)) if r.tensor == "y" else r for r in plan.placements)

    assert any("'a' has other editions" in fault for fault in check(problem, replace(plan, placements=later)))
    assert "'y': an input or an output must be whole" in check(problem, replace(plan, placements=apart))[0]


def test_steps_share_an_edition_as_far_as_they_agree():
    ops = (OpSpec("make", (same("x", 3),), "a"), OpSpec("read", (same("a", 3),), "y"))
    problem = Problem(tuple(TensorSpec(name, 3, 4) for name in "xay"), ops, ("x",), ("y",))
    order = [(0, 0), (0, 1), (1, 0), (0, 0), (1, 1), (0, 2), (1, 0), (1, 2), (0, 0), (1, 0)]
    events = [Event(*event) for event in order]
    steps = [range(i, i + 1) for i in range(len(events))]
    ranges = Flow(problem).live_ranges(events)
    copies = [copy for copy, row in enumerate(ranges.values) if row.tensor == "a"]
    tables, named = editions(ranges, steps, dict(zip(copies, [0, 8, 40, 16, 0], strict=True)))

    assert tables == {"a": [(0, 8, 16), (40, 8, 16)]}
    assert [dict(each).get("a", 0) for each in named] == [0, 0, 0, 1, 0, 0, 1, 0, 0, 0]
