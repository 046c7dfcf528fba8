"""The independent check of plans: cores, memories, scratch, rows in place and views, each with its fault planted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from row_problems import same

from shoehorn_mcu.planner import OpSpec, Problem, Read, TensorSpec, check
from shoehorn_mcu.planner.memory_plan import DELIVERY, Outcome, Placement, Plan, Scratch, Status, Step

ROWS = 4
_OUTCOME = Outcome(Status.FEASIBLE, 0, 0, 0.0)


def change(scratch_bytes: int = 0, in_place: str | None = None, reads: int = 1) -> Problem:
    """Four rows of 8 bytes: `a` is made of `x`, changed to `b` (each row reads its own one), and copied to `y`."""
    read = Read("a", tuple((y,) for y in range(ROWS)))
    names = ("x", "a", "b", "y")
    ops = (
        OpSpec("make", (same("x", ROWS),), "a"),
        OpSpec("change", (read,) * reads, "b", scratch_bytes, in_place=in_place),
        OpSpec("copy", (same("b", ROWS),), "y"),
    )
    return Problem(tuple(TensorSpec(name, ROWS, 8) for name in names), ops, ("x",), ("y",))


def plan_of(b: int, scratch: tuple[Scratch, ...] = (), cores: int = 1) -> Plan:
    """Whole tensors: `x` and then `y` at 0, `a` at 32, `b` at this address."""
    at = {"x": 0, "a": 32, "b": b, "y": 0}
    steps = (Step("make", (0, ROWS)), Step("change", (0, ROWS), (), cores), Step("copy", (0, ROWS)))
    return Plan(steps, tuple(Placement(name, at[name], ROWS, 8) for name in at), scratch, 160, _OUTCOME)


def test_a_row_may_overlap_one_of_those_it_reads_where_it_stays_behind_it() -> None:
    """Three rows of b from windows of two rows of a, each below the first row of its window."""

    def faults(*slots: int, behind: int = 4) -> list[str]:
        read = Read("a", tuple((y, y + 1) for y in range(3)))
        ops = (OpSpec("change", (read,), "b", in_place="a", behind=behind), OpSpec("end", (same("b", 3),), "c"))
        tensors = (TensorSpec("a", 4, 8), TensorSpec("b", 3, 8), TensorSpec("c", 3, 4))
        problem = Problem(tensors, ops, ("a",), ("c",))
        places = (Placement("a", 4, 4, 8), Placement("b", slots[0], 3, 8, slots), Placement("c", 64, 3, 4))
        steps = (Step("change", (0, 3)), Step("end", (0, 3)))
        return check(problem, Plan(steps, places, (), 80, Outcome(Status.FEASIBLE, 0, 80, 0.0)))

    assert faults(0, 8, 16) == []
    assert faults(40, 48, 56) == []  # apart from a
    assert any("row 0 of 'a' is read" in fault for fault in faults(4, 8, 16))
    assert any("row 1 of 'a' is read" in fault for fault in faults(8, 48, 56))
    assert faults(0, 8, 16, behind=0) != []
    assert faults(4, 12, 20, behind=0) == []


def test_a_row_may_overwrite_the_one_that_it_reads_once_and_not_one_that_it_reads_twice():
    assert check(change(in_place="a"), plan_of(b=32)) == []
    assert any("is read" in fault for fault in check(change(), plan_of(b=32)))
    assert any("is read" in fault for fault in check(change(in_place="a", reads=2), plan_of(b=32)))


@pytest.mark.parametrize("at", [64, 72, 88])
def test_an_op_that_writes_over_its_own_scratch_is_reported(at: int):
    faults = check(change(scratch_bytes=8), plan_of(b=64, scratch=(Scratch("change", at, 8),)))

    assert any("writes 'b' over its own scratch" in fault for fault in faults)
    assert check(change(scratch_bytes=8), plan_of(b=64, scratch=(Scratch("change", 96, 8),))) == []


@pytest.mark.parametrize("cores", [2, 4])
def test_on_several_cores_all_rows_are_written_before_any_read_is_released(cores: int):
    """Row y of `b` is written over row y - 1 of `a`, which one core after the other no longer needs."""
    assert check(change(), plan_of(b=24)) == []
    said = check(change(), plan_of(b=24, cores=cores))
    assert "step 1 (change, rows 0..4): row 1 of 'a' is read, but its bytes hold row 2 of 'b'" in said
    assert check(change(), plan_of(b=64, cores=cores)) == []


def test_on_several_cores_no_row_may_overwrite_one_that_it_reads():
    assert any("is read" in fault for fault in check(change(in_place="a"), plan_of(b=32, cores=2)))


def test_on_several_cores_rows_of_one_step_have_places_of_their_own():
    """Each row of `b` is copied at once, so that one place is enough for one core."""
    one = plan_of(b=64)
    (make, changed, copied) = one.steps
    by_turns = [replace(step, rows=(y, y + 1)) for y in range(ROWS) for step in (changed, copied)]
    shared = tuple(replace(p, slots=(64,) * ROWS) if p.tensor == "b" else p for p in one.placements)
    pairs = [replace(step, rows=(y, y + 2)) for y in (0, 2) for step in (changed, copied)]
    together = tuple(replace(step, cores=2) for step in pairs)

    assert check(change(), replace(one, steps=(make, *by_turns), placements=shared)) == []
    assert check(change(), replace(one, steps=(make, *together))) == []
    assert check(change(), replace(one, steps=(make, *together), placements=shared)) != []


def test_every_core_of_a_step_has_scratch_of_its_own():
    def faults(size: int, cores: int) -> list[str]:
        return check(change(scratch_bytes=8), plan_of(b=64, scratch=(Scratch("change", 96, size),), cores=cores))

    assert faults(8, 1) == faults(16, 2) == []
    assert any("lacks its 16 bytes of scratch" in fault for fault in faults(8, 2))
    assert any("runs on 0 cores" in fault for fault in faults(8, 0))


def test_a_step_may_name_the_first_edition():
    plan = plan_of(b=64)
    named = tuple(replace(step, editions=(("a", 0),)) for step in plan.steps)

    assert check(change(), replace(plan, steps=named)) == []


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (replace(plan_of(b=64), arena_bytes=168), "the arena needs 168 bytes, 160 are available"),
        (
            replace(plan_of(b=64), placements=(*plan_of(b=64).placements[:-1], Placement("y", 0, ROWS, 8, (0, 8)))),
            "'y': 2 row addresses for 4 rows",
        ),
        (plan_of(b=64, scratch=(Scratch("change", 96, 8), Scratch("change", 104, 8))), "an op has two scratch"),
    ],
)
def test_sizes_that_do_not_fit_are_reported(plan: Plan, said: str):
    problem = replace(change(scratch_bytes=8 if plan.scratch else 0), capacity_bytes=160)

    assert any(said in fault for fault in check(problem, plan))


def test_rows_that_arrive_do_so_on_one_core():
    steps = (Step(DELIVERY, (0, ROWS), (), 2), *plan_of(b=64).steps)

    assert any("on one core" in fault for fault in check(change(), replace(plan_of(b=64), steps=steps)))


def test_of_many_faults_the_first_20_are_reported():
    plan = plan_of(b=64)

    assert len(check(change(), replace(plan, steps=(Step("change", (0, ROWS + 1)),) * 30))) == 20
    assert len(check(change(), replace(plan, steps=plan.steps[1:2] * 30))) == 20


OTHERS = (("tcm", 40), ("far", 24))


def in_memories(**memory: str) -> Plan:
    """The plan with tensors in other memories: each at address 0 there."""
    plan = plan_of(b=64)
    placements = [replace(p, address=0, memory=memory[p.tensor]) if p.tensor in memory else p for p in plan.placements]
    return replace(plan, placements=tuple(placements), other_arenas=(("tcm", 32), ("far", 24)))


def test_equal_addresses_in_two_memories_are_two_places():
    assert check(replace(change(), others=OTHERS), in_memories(a="tcm")) == []
    assert in_memories().arenas == {"sram": 160, "tcm": 32, "far": 24}


@pytest.mark.parametrize(
    ("plan", "word"),
    [
        (in_memories(a="far"), "'a': bytes 0..32 leave the arena of 24"),
        (in_memories(a="flash"), "'a': there is no arena in memory 'flash'"),
        (in_memories(a="tcm", b="tcm"), "is read"),
        (replace(in_memories(), other_arenas=(("tcm", 48),)), "memory 'tcm' needs 48 bytes, 40 are available"),
        (replace(in_memories(), other_arenas=(("ccm", 8),)), "8 bytes in 'ccm', which is no memory of the problem"),
    ],
)
def test_a_place_outside_of_its_memory_and_two_tensors_in_one_place_are_reported(plan: Plan, word: str):
    assert any(word in fault for fault in check(replace(change(), others=OTHERS), plan))


def test_a_row_beyond_the_end_of_its_memory_is_reported_though_another_memory_follows():
    """Row 3 of `a` would begin in `tcm` and end in the memory behind it."""
    crossing = tuple(
        replace(p, slots=(0, 8, 16, 28)) if p.tensor == "a" else p for p in in_memories(a="tcm").placements
    )
    faults = check(replace(change(), others=OTHERS), replace(in_memories(a="tcm"), placements=crossing))

    assert faults == ["'a': bytes 28..36 leave the arena of 32"]


def test_a_row_is_in_one_memory_in_all_editions():
    plan = in_memories(a="tcm")
    second = replace(plan.placements[1], edition=1, memory="sram", address=96, slots=(96, 104, 112, 120))
    x, a, b, y = plan.placements
    faults = check(replace(change(), others=OTHERS), replace(plan, placements=(x, in_slots(a), second, b, y)))

    assert "'a': row 0 is in memory 'tcm' and, in another edition, in 'sram'" in faults


def rows_apart(*names: str, slots: tuple[int, ...] = (0, 8, 0, 8)) -> Plan:
    """The plan with each row of `a` in one of these memories."""
    plan = in_memories(a=names[0])
    apart = (replace(p, slots=slots, memories=names) if p.tensor == "a" else p for p in plan.placements)
    return replace(plan, placements=tuple(apart))


def test_rows_of_a_tensor_may_be_in_several_memories():
    assert check(replace(change(), others=OTHERS), rows_apart("tcm", "tcm", "far", "far")) == []


@pytest.mark.parametrize(
    ("plan", "word"),
    [
        (rows_apart("tcm", "tcm", "tcm", "far"), "row 0 of 'a' is read, but its bytes hold row 2 of 'a'"),
        (rows_apart("tcm", "tcm", "far", "far", slots=(0, 24, 0, 20)), "'a': bytes 20..28 leave the arena of 24"),
        (rows_apart("tcm", "tcm", "far", "flash"), "'a': there is no arena in memory 'flash'"),
        (rows_apart("tcm", "far", "far"), "'a': memories of its rows are named, but not for each row"),
        (rows_apart("tcm", "far", "far", "far", slots=()), "'a': memories of its rows are named, but not for each row"),
    ],
)
def test_a_row_in_the_wrong_memory_is_reported(plan: Plan, word: str):
    assert any(word in fault for fault in check(replace(change(), others=OTHERS), plan))


def viewed() -> tuple[Problem, Plan]:
    """`flat` shows `a` as one row."""
    tensors = (
        TensorSpec("x", ROWS, 8),
        TensorSpec("a", ROWS, 8),
        TensorSpec("flat", 1, 32, view_of="a"),
        TensorSpec("y", 1, 8),
    )
    ops = (OpSpec("make", (same("x", ROWS),), "a"), OpSpec("end", (Read("flat", ((0,),)),), "y"))
    placements = (
        Placement("x", 0, ROWS, 8),
        Placement("a", 32, ROWS, 8),
        Placement("flat", 32, 1, 32),
        Placement("y", 64, 1, 8),
    )
    plan = Plan((Step("make", (0, ROWS)), Step("end", (0, 1))), placements, (), 72, _OUTCOME)
    return Problem(tensors, ops, ("x",), ("y",)), plan


def test_the_tensor_of_a_view_must_be_whole_and_in_its_memory():
    problem, plan = viewed()
    x, a, flat, y = plan.placements
    problem, moved = replace(problem, others=(("tcm", 72),)), replace(plan, other_arenas=(("tcm", 72),))

    assert check(problem, plan) == []
    assert any("is not placed where" in f for f in check(problem, replace(plan, placements=(x, in_slots(a), flat, y))))
    assert any("is not placed where" in f for f in check(problem, replace(plan, placements=(x, a, in_slots(flat), y))))
    away = replace(a, memory="tcm")
    assert any("is not placed where" in f for f in check(problem, replace(moved, placements=(x, away, flat, y))))
    assert check(problem, replace(moved, placements=(x, away, replace(flat, memory="tcm"), y))) == []


def test_the_tensor_of_a_whole_view_has_one_placement():
    """With none, and with two editions of which the view is at the first one, the view shows bytes that may not be."""
    problem, plan = viewed()
    x, a, flat, y = plan.placements

    assert any(
        "'flat' is not placed where 'a' is" in fault for fault in check(problem, replace(plan, placements=(x, flat, y)))
    )
    twice = (x, a, replace(a, edition=1), flat, y)
    assert any("'flat' is not placed where 'a' is" in f for f in check(problem, replace(plan, placements=twice)))


def test_a_view_with_the_rows_of_its_tensor_has_their_addresses_in_each_edition():
    """Op `end` reads the rows of `a` by its view; row 0 is computed a second time, to another address."""
    tensors = (TensorSpec("x", 2, 8), TensorSpec("a", 2, 8), TensorSpec("same", 2, 8, view_of="a"))
    tensors += (TensorSpec("y", 2, 8),)
    ops = (OpSpec("make", (same("x", 2),), "a"), OpSpec("end", (same("same", 2),), "y"))
    problem = Problem(tensors, ops, ("x",), ("y",))
    first, second = (32, 40), (48, 40)
    placements = [Placement("x", 0, 2, 8)]
    placements += [Placement(n, s[0], 2, 8, s, i) for n in ("a", "same") for i, s in enumerate((first, second))]
    placements += [Placement("y", 16, 2, 8)]
    later = (("a", 1), ("same", 1))
    steps = (Step("make", (0, 2)), Step("end", (1, 2)), Step("make", (0, 1), later), Step("end", (0, 1), later))
    plan = Plan(steps, tuple(placements), (), 56, _OUTCOME)

    def faults(number: int, **changes: object) -> str:
        changed = replace(placements[number], **changes)  # type: ignore[arg-type]
        return "\n".join(
            check(problem, replace(plan, placements=(*placements[:number], changed, *placements[number + 1 :])))
        )

    assert check(problem, plan) == []
    assert "'same' is not placed where 'a' is" in faults(4, address=52, slots=(52, 40))
    assert "'same' is not placed where 'a' is" in faults(4, slots=())
    assert "'same' is not placed where 'a' is" in faults(3, address=48, slots=second)
    early = replace(plan, steps=(*steps[:3], Step("end", (0, 1), (("a", 1),))))
    assert check(problem, early) == []  # the row's earlier address still has its bytes
    moved = replace(early, steps=(Step("make", (1, 2)), Step("end", (1, 2)), *early.steps[2:]))
    assert any("step 3 (end, row 0)" in fault for fault in check(problem, moved))


def in_slots(placement: Placement) -> Placement:
    """The same addresses, as a table."""
    return replace(placement, slots=tuple(placement.at(y) for y in range(placement.rows)))
