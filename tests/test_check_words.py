"""The independent check of plans, sentence by sentence: all that it says of plans that are wrong in one thing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from row_problems import same
from test_check import OTHERS, ROWS, change, in_memories, plan_of, rows_apart, viewed

from shoehorn_mcu.planner import OpSpec, Problem, Read, TensorSpec, check
from shoehorn_mcu.planner.memory_plan import DELIVERY, HANDOUT, Outcome, Placement, Plan, Scratch, Status, Step
from shoehorn_mcu.planner.problem import Operand

_OUTCOME = Outcome(Status.FEASIBLE, 0, 0, 0.0)
END = "an input or an output must be whole, row after row in one place"
APART = "is not placed where"


def changed(plan: Plan, tensor: str, **fields: Any) -> Plan:
    """The plan with another placement of one tensor."""
    return replace(plan, placements=tuple(replace(p, **fields) if p.tensor == tensor else p for p in plan.placements))


def stepped(number: int, plan: Plan | None = None, **fields: Any) -> Plan:
    """The plan with another step of this number."""
    plan = plan or plan_of(b=64)
    steps = [replace(step, **fields) if i == number else step for i, step in enumerate(plan.steps)]
    return replace(plan, steps=tuple(steps))


def in_parts(cores: int, count: int) -> Plan:
    """The plan with `change` on so many cores, by calls of so many rows; `y` lies apart."""
    return changed(stepped(1, cores=cores, rows_per_call=count), "y", address=96)


def of_one_row(cores: int) -> Plan:
    """The step of row 0 of `change` has so many cores."""
    make, change_, copy = plan_of(b=64).steps
    first, rest = replace(change_, rows=(0, 1), cores=cores), replace(change_, rows=(1, ROWS))
    return replace(plan_of(b=64), steps=(make, first, rest, copy))


def of_the_last_rows(cores: int) -> Plan:
    make, change_, copy = plan_of(b=64).steps
    first, rest = replace(change_, rows=(0, 2)), replace(change_, rows=(2, ROWS), cores=cores)
    return replace(plan_of(b=64), steps=(make, first, rest, copy))


def two_editions(tensor: str) -> Plan:
    """The tensor is placed a second time, at the same addresses."""
    plan = plan_of(b=64)
    again = [replace(p, edition=1) for p in plan.placements if p.tensor == tensor]
    return replace(plan, placements=(*plan.placements, *again))


@pytest.mark.parametrize(
    ("plan", "faults"),
    [
        (plan_of(b=64), []),
        (stepped(1, op="chance"), ["step 1: no op is called 'chance'"]),
        (stepped(1, cores=ROWS), []),
        (stepped(1, cores=5), ["step 1 (change): 5 cores for 4 rows"]),
        (of_one_row(1), []),
        (of_one_row(2), ["step 1 (change): 2 cores for 1 rows"]),
        (of_the_last_rows(2), []),
        (of_the_last_rows(3), ["step 2 (change): 3 cores for 2 rows"]),
        (in_parts(1, 2), []),
        (in_parts(1, 4), []),
        (in_parts(2, 2), []),
        (in_parts(2, 1), []),
        (in_parts(3, 1), []),
        (in_parts(1, 0), ["step 1 (change): 0 rows per call do not divide its rows"]),
        (in_parts(1, 3), ["step 1 (change): 3 rows per call do not divide its rows"]),
        (in_parts(3, 2), ["step 1 (change): 2 rows per call do not divide its rows"]),
        (in_parts(2, 4), ["step 1 (change): 4 rows per call do not divide its rows"]),
        (in_parts(0, 1), ["step 1 (change): runs on 0 cores"]),
        (in_parts(0, 2), ["step 1 (change): runs on 0 cores"]),
        (
            stepped(1, of_the_last_rows(1), rows=(1, 4), rows_per_call=2),
            ["step 1 (change): 2 rows per call do not divide its rows"],
        ),
        (stepped(1, editions=(("a", 1),)), ["step 1 (change): 'a' has no placement of this edition"]),
        (stepped(1, editions=(("a", -1),)), ["step 1 (change): 'a' has no placement of this edition"]),
        (stepped(1, editions=(("c", 0),)), ["step 1 (change): 'c' has no placement of this edition"]),
        (changed(plan_of(b=64), "x", slots=(0, 8, 16, 24)), [f"'x': {END}"]),
        (two_editions("y"), [f"'y': {END}"]),
        (two_editions("a"), []),
        (
            changed(plan_of(b=64), "b", edition=1),
            ["tensor 'b' has other editions than 0, 1, 2 and so on, in this order"],
        ),
        (changed(plan_of(b=64), "b", address=-4), ["'b': bytes -4..28 leave the arena of 160"]),
        (changed(plan_of(b=64), "b", address=66), ["'b': address 66 is not a multiple of 4"]),
        (changed(plan_of(b=64), "b", address=128), []),
        (changed(plan_of(b=64), "b", address=132), ["'b': bytes 132..164 leave the arena of 160"]),
        (
            changed(plan_of(b=64), "b", rows=5),
            ["'b': placed as 5 rows of 8 bytes, which is not its shape"],
        ),
        (
            stepped(1, rows=(0, 5)),
            [
                "step 1 (change): rows 0..5 are outside 'b'",
                *(f"step 2 (copy, row {y}): row {y} of 'b' is read, but its bytes hold nothing" for y in range(ROWS)),
            ],
        ),
        (
            replace(plan_of(b=64), placements=plan_of(b=64).placements[:-1]),
            ["tensor 'y' has no placement"],
        ),
        (
            replace(plan_of(b=64), steps=plan_of(b=64).steps[1:]),
            [f"step 0 (change, row {y}): row {y} of 'a' is read, but its bytes hold nothing" for y in range(ROWS)],
        ),
        (
            changed(plan_of(b=64), "a", address=0),
            [f"step 0 (make, row {y}): row {y} of 'x' is read, but its bytes hold row {y} of 'a'" for y in range(ROWS)],
        ),
    ],
)
def test_what_is_said_of_a_plan(plan: Plan, faults: list[str]) -> None:
    assert check(change(), plan) == faults


@pytest.mark.parametrize(
    ("capacity", "faults"), [(160, []), (159, ["the arena needs 160 bytes, 159 are available"]), (None, [])]
)
def test_what_is_said_of_an_arena(capacity: int | None, faults: list[str]) -> None:
    assert check(replace(change(), capacity_bytes=capacity), plan_of(b=64)) == faults


@pytest.mark.parametrize(
    ("needed", "given", "cores", "faults"),
    [
        (6, 6, 1, []),
        (6, 5, 1, ["op 'change' lacks its 6 bytes of scratch"]),
        (6, 16, 2, []),
        (6, 15, 2, ["op 'change' lacks its 16 bytes of scratch"]),
        (9, 24, 2, []),
        (9, 23, 2, ["op 'change' lacks its 24 bytes of scratch"]),
        (8, None, 1, ["op 'change' lacks its 8 bytes of scratch"]),
        (0, None, 1, []),
    ],
)
def test_what_is_said_of_scratch(needed: int, given: int | None, cores: int, faults: list[str]) -> None:
    scratch = () if given is None else (Scratch("change", 96, given),)
    assert check(change(needed), plan_of(b=64, scratch=scratch, cores=cores)) == faults


def test_a_row_that_holds_scratch_or_the_first_row_of_all_is_named() -> None:
    """The scratch of `make` is where its row 1 of `a` will be copied from; `x` is where `b` should be."""
    problem = replace(change(), ops=(change().ops[0], replace(change().ops[1], scratch_bytes=8), change().ops[2]))
    over = plan_of(b=64, scratch=(Scratch("change", 40, 8),))
    said = "step 1 (change, row {}): row 1 of 'a' is read, but its bytes hold scratch"

    assert check(problem, over) == [said.format(1)]

    skipped = changed(plan_of(b=0), "y", address=96)
    skipped = replace(skipped, steps=(skipped.steps[0], skipped.steps[2]))
    assert check(change(), skipped)[0] == (
        "step 1 (copy, row 0): row 0 of 'b' is read, but its bytes hold row 0 of 'x'"
    )


def test_of_many_faults_in_one_place_the_first_20_are_said() -> None:
    """Two inputs of 30 rows at one address: no row of the first one is there."""
    tensors = (TensorSpec("one", 30, 4), TensorSpec("two", 30, 4))
    problem = Problem(tensors, (), ("one", "two"), ())
    plan = Plan((), tuple(Placement(spec.name, 0, 30, 4) for spec in tensors), (), 120, _OUTCOME)

    assert check(problem, plan) == [
        f"before the first step: row {y} of 'one' is read, but its bytes hold row {y} of 'two'" for y in range(20)
    ]


def test_memories_of_rows() -> None:
    """Named rows begin with the memory of the first; two editions of a row are in one memory."""
    problem = replace(change(), others=OTHERS)
    good = rows_apart("tcm", "far", "far", "tcm", slots=(0, 0, 8, 8))
    assert check(problem, good) == []
    assert check(problem, changed(good, "a", memory="far")) == [
        "'a': memories of its rows are named, but not for each row with its address, the first in front"
    ]

    first = changed(in_memories(), "a", slots=(32, 40, 48, 56)).placements[1]
    x, _, b, y = in_memories().placements
    second = replace(first, edition=1, memories=("sram", "sram", "tcm", "far"), slots=(96, 104, 0, 0))
    both = replace(in_memories(), placements=(x, first, second, b, y))
    assert check(problem, both) == ["'a': row 2 is in memory 'sram' and, in another edition, in 'tcm'"]
    assert check(problem, replace(both, placements=(x, first, replace(second, memories=()), b, y))) == []


def test_a_second_edition_of_a_whole_view_is_refused() -> None:
    problem, plan = viewed()
    x, a, flat, y = plan.placements
    twice = replace(plan, placements=(x, a, flat, replace(flat, edition=1), y))

    assert check(problem, twice) == [f"'flat' {APART} 'a' is, whose bytes it shares"]


def written_over(address: int, rows: int = 3) -> list[str]:
    """Rows of `new` are written over the input's, each after its row was read."""
    tensors = (TensorSpec("old", ROWS, 8), TensorSpec("new", rows, 8, over="old"))
    ops = (OpSpec("change", (same("old", rows),), "new", in_place="old"),)
    problem = Problem(tensors, ops, ("old",), ("new",))
    places = (Placement("old", 0, ROWS, 8), Placement("new", address, rows, 8))
    return check(problem, Plan((Step("change", (0, rows)),), places, (), 64, _OUTCOME))


def test_what_is_written_over_an_input_is_at_its_address() -> None:
    assert written_over(0) == []
    assert written_over(32) == ["'new' is not placed where 'old' is, over which it is written"]


def streamed(*rows: tuple[str, int], rows_handed: tuple[int, ...] = ()) -> list[str]:
    """Rows of `in` arrive and are copied to `out`, and handed out where such steps are given."""
    tensors = [TensorSpec("in", 2, 4), TensorSpec("out", 2, 4)]
    ops = [OpSpec(DELIVERY, (), "in"), OpSpec("copy", (same("in", 2),), "out")]
    output = "out"
    if any(op == HANDOUT for op, _ in rows) or rows_handed:
        tensors.append(TensorSpec("away", 2, 0))
        ops.append(OpSpec(HANDOUT, (same("out", 2), Read("away", ((), (0,)))), "away"))
        output = "away"
    problem = Problem(tuple(tensors), tuple(ops), (), (output,))
    places = tuple(Placement(name, at, 2, 4) for name, at in (("in", 0), ("out", 8)))
    steps = tuple(Step(op, (y, y + 1)) for op, y in rows)
    return check(problem, Plan(steps, places, (), 16, _OUTCOME))


ARRIVE = ((DELIVERY, 0), (DELIVERY, 1))
COPY = (("copy", 0), ("copy", 1))
ORDER = "the rows of the streamed {} in another order than 0..1"


@pytest.mark.parametrize(
    ("steps", "faults"),
    [
        ((*ARRIVE, *COPY), []),
        ((ARRIVE[1], ARRIVE[0], *COPY), [ORDER.format("input 'in' arrive")]),
        (
            (COPY[0], *ARRIVE, *COPY),
            ["step 0 (copy) comes before the first row of the streamed input 'in'"],
        ),
        ((), [ORDER.format("input 'in' arrive")]),
        ((*ARRIVE, *COPY, (HANDOUT, 0), (HANDOUT, 1)), []),
        ((*ARRIVE, COPY[0], (HANDOUT, 0), COPY[1], (HANDOUT, 1)), []),
        ((*ARRIVE, *COPY, (HANDOUT, 1), (HANDOUT, 0)), [ORDER.format("output are handed out")]),
        ((*ARRIVE, *COPY, (HANDOUT, 0)), [ORDER.format("output are handed out")]),
    ],
)
def test_rows_that_arrive_and_are_handed_out_do_so_in_order(steps: tuple[tuple[str, int], ...], faults: list[str]):
    assert streamed(*steps) == faults


def test_what_moves_rows_does_so_on_one_core() -> None:
    plan = plan_of(b=64)
    arrival = Step(DELIVERY, (0, ROWS), (), 2)

    assert check(change(), replace(plan, steps=(arrival, *plan.steps))) == [
        "step 0: no op is called ''",
        "step 0: rows arrive, and are handed out, on one core",
    ]


def called(*parts: tuple[tuple[str, int, int], ...], rows: int = ROWS, turns: str = "") -> list[str]:
    """What is said of calls of two rows of `change`, whose operand has these parts."""
    make, change_, copy = change().ops
    rows_of = {name: tuple(tuple(r for n, r, _ in each if n == name) for each in parts) for name in ("a", "x")}
    ops = (
        make,
        replace(
            change_,
            reads=tuple(Read(name, found) for name, found in rows_of.items()),
            operands=(Operand(rows, 8, parts),),
        ),
        copy,
    )
    tensors = tuple(replace(spec, turns=spec.name == turns) for spec in change().tensors)
    return check(replace(change(), tensors=tensors, ops=ops), in_parts(1, 2))


def test_the_rows_of_a_call_are_whole_and_in_order() -> None:
    a = [("a", y, 0) for y in range(ROWS)]
    side = "step 1 (change, rows {}): one call, but these rows of '{}' do not lie side by side"

    assert called(*((part,) for part in a)) == []
    assert called(*((a[3],) for _ in range(ROWS)), rows=1) == []
    assert called((a[3],), (), (a[3],), (a[3],), rows=1) == [side.format("0..2", "a")]
    assert called((), (), (a[3],), (a[3],), rows=1) == [side.format("0..2", "")]
    assert called((a[0],), (a[1],), (a[3],), (a[2],)) == [side.format("2..4", "a")]
    assert called((("a", 1, -8),), (("a", 2, -8),), (a[0],), (a[1],)) == [
        "step 1 (change, rows 0..2): one call takes bytes that are not in row 1 of 'a'",
        "step 1 (change, rows 0..2): one call takes bytes that are not in row 2 of 'a'",
    ]
    ring = "step 1 (change, rows {}): one call, but '{}' is a ring, whose rows are not in order"
    mixed = ((("x", 3, 0),), (a[0],), (a[1],), (a[2],))
    assert called(*mixed) == []
    assert called(*mixed, turns="x") == [ring.format("0..2", "x', 'a")]
    assert called(*mixed, turns="a") == [ring.format("0..2", "x', 'a"), ring.format("2..4", "a")]


def test_a_call_of_which_one_row_may_overwrite_what_it_reads_and_the_other_may_not() -> None:
    """Row 0 of `b` is at row 0 of `a`, which it reads; row 1 of `b` is at row 1 of `a`, and reads row 2."""
    problem = change(in_place="a")
    make, change_, copy = problem.ops
    crossed = replace(change_, reads=(Read("a", ((0,), (2,), (2,), (3,))),))
    plan = changed(in_parts(1, 2), "b", address=32)

    assert check(replace(problem, ops=(make, crossed, copy)), stepped(1, plan, rows_per_call=1)) == []
    assert check(replace(problem, ops=(make, crossed, copy)), plan) == [
        "step 1 (change, rows 0..2): one call, but these rows of 'a' do not lie side by side",
        "step 1 (change, row 0): row 0 of 'a' is read, but its bytes hold row 0 of 'b'",
    ]
