"""The planner finds addresses that the independent check accepts, and the check finds what is planted."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_plans import few_tries

from shoehorn_mcu.planner import (
    DELIVERY,
    DoesNotFit,
    Goal,
    OpSpec,
    Problem,
    Read,
    TensorSpec,
    Weighing,
    check,
    make_plan,
)
from shoehorn_mcu.planner.memory_plan import ANY_ORDER, BY_ROWS, Plan, Status
from shoehorn_mcu.planner.whole_tensors import solve


@pytest.fixture(autouse=True)
def _few_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests ask whether plans are right; how small they are is the matter of others."""
    few_tries(monkeypatch)


def _window(tensor: str, out_rows: int, in_rows: int, height: int = 1) -> Read:
    """Output row y reads rows y .. y + height - 1, as far as they are there."""
    return Read(tensor, tuple(tuple(r for r in range(y, y + height) if r < in_rows) for y in range(out_rows)))


def _chain(capacity: int | None = None) -> Problem:
    """A 3-row window, a pointwise op with scratch, and an add of both."""
    return Problem(
        tensors=(TensorSpec("x", 8, 16), TensorSpec("a", 6, 33), TensorSpec("b", 6, 33), TensorSpec("y", 6, 33)),
        ops=(
            OpSpec("conv", (_window("x", 6, 8, 3),), "a"),
            OpSpec("dw", (_window("a", 6, 6),), "b", scratch_bytes=50),
            OpSpec("add", (_window("a", 6, 6), _window("b", 6, 6)), "y"),
        ),
        inputs=("x",),
        outputs=("y",),
        capacity_bytes=capacity,
    )


def _viewed() -> Problem:
    """The view `flat` of `a` outlives `a` itself."""
    return Problem(
        tensors=(
            TensorSpec("x", 4, 8),
            TensorSpec("a", 4, 8),
            TensorSpec("flat", 1, 32, view_of="a"),
            TensorSpec("b", 4, 8),
            TensorSpec("y", 1, 5),
        ),
        ops=(
            OpSpec("one", (_window("x", 4, 4),), "a"),
            OpSpec("two", (_window("x", 4, 4),), "b"),
            OpSpec("dense", (Read("flat", ((0,),)), Read("b", ((0, 1, 2, 3),))), "y"),
        ),
        inputs=("x",),
        outputs=("y", "flat"),
    )


def _move(plan: Plan, tensor: str, by: int) -> Plan:
    """The same plan with one tensor elsewhere."""
    placements = tuple(replace(r, address=r.address + by) if r.tensor == tensor else r for r in plan.placements)
    return replace(plan, placements=placements)


def test_a_plan_for_time_has_whole_tensors_and_is_not_called_proven_where_rows_take_less():
    plan, least = make_plan(_chain()), make_plan(_chain(), Goal.SRAM)

    assert check(_chain(), plan) == []
    assert plan.arena_bytes == 200 + 200 + 200  # a, b, y in the last step
    assert plan.outcome.status is Status.FEASIBLE
    assert (plan.outcome.bound_of, least.outcome.bound_of) == (BY_ROWS, ANY_ORDER)
    assert least.outcome.bound_bytes <= plan.outcome.bound_bytes <= least.arena_bytes < plan.arena_bytes


@pytest.mark.parametrize(("percent", "taken"), [(0.0, True), (1.49, True), (1.51, False), (30.0, False)])
def test_a_smaller_plan_is_taken_where_it_costs_next_to_nothing_and_else_named(percent: float, taken: bool):
    def price(plan: Plan) -> float:
        return 1000.0 if plan.arena_bytes == 600 else 1000.0 * (1 + percent / 100)

    fast = make_plan(_chain(), weighing=Weighing(price))
    preferred = make_plan(_chain(), weighing=Weighing(price, prefer_smaller=True))

    assert fast.arena_bytes == 600
    assert fast.outcome.smaller is not None
    assert fast.outcome.smaller.arena_bytes < 600
    assert fast.outcome.smaller.extra_percent == pytest.approx(percent)
    assert f"bytes costs {percent:.2f} % more time" in fast.outcome.reason
    assert (preferred.arena_bytes == fast.outcome.smaller.arena_bytes) is taken
    assert ("bytes less than the fastest plan" in preferred.outcome.reason) is taken
    assert make_plan(_chain()).outcome.smaller is None


def test_a_view_lies_in_the_bytes_of_its_tensor_and_prolongs_it():
    plan = make_plan(_viewed())

    assert plan.placement("flat").address == plan.placement("a").address
    assert check(_viewed(), plan) == []


def test_what_does_not_fit_names_the_peak_and_who_is_alive_there():
    least = make_plan(_chain(), Goal.SRAM).arena_bytes
    with pytest.raises(DoesNotFit) as refused:
        make_plan(_chain(capacity=least - 1))

    assert refused.value.needed_bytes == least < 600
    for part in (
        f"{least} bytes",
        f"{least - 1} are",
        "the peak is step 14 ('dw')",
        "'y' 132",
        "'a' 72",
        "'scratch' 50",
        "'b' 36",
    ):
        assert part in str(refused.value)
    assert make_plan(_chain(capacity=600)).arena_bytes == 600


@pytest.mark.parametrize("goal", Goal)
def test_an_output_that_is_an_input_and_a_graph_without_ops_are_planned(goal: Goal):
    problem = Problem((TensorSpec("x", 2, 3),), (), ("x",), ("x",))

    plan = make_plan(problem, goal)

    assert plan.arena_bytes == {Goal.TIME: 8, Goal.SRAM: 6}[goal]
    assert check(problem, plan) == []


@pytest.mark.parametrize("tensor", ["a", "b", "y"])
@pytest.mark.parametrize("by", [-4, 4])
def test_the_check_sees_a_tensor_that_is_one_word_off(tensor: str, by: int):
    assert check(_chain(), _move(make_plan(_chain()), tensor, by)) != []


@pytest.mark.parametrize(("by", "word"), [(1, "multiple of 4"), (-4000, "leave the arena"), (4000, "leave the arena")])
def test_the_check_sees_addresses_that_are_unaligned_or_outside(by: int, word: str):
    assert any(word in fault for fault in check(_chain(), _move(make_plan(_chain()), "a", by)))


@pytest.mark.parametrize(("slots", "clean"), [(6, True), (4, True), (3, True), (2, False), (1, False)])
def test_the_check_sees_fewer_places_than_the_window_has_rows(slots: int, clean: bool):
    plan = _interleaved()
    first = plan.arena_bytes  # beyond all else
    placements = tuple(
        replace(p, slots=tuple(first + 36 * (y % slots) for y in range(6))) if p.tensor == "a" else p
        for p in plan.placements
    )

    assert (check(_streamed(), replace(plan, placements=placements, arena_bytes=1000)) == []) is clean


def _streamed() -> Problem:
    """conv feeds a three-row window, so places for three rows of `a` are just enough."""
    return Problem(
        tensors=(TensorSpec("x", 8, 16), TensorSpec("a", 6, 33), TensorSpec("b", 4, 33), TensorSpec("y", 4, 33)),
        ops=(
            OpSpec("conv", (_window("x", 6, 8, 3),), "a"),
            OpSpec("dw", (_window("a", 4, 6, 3),), "b", scratch_bytes=50),
            OpSpec("add", (_window("b", 4, 4),), "y"),
        ),
        inputs=("x",),
        outputs=("y", "x"),  # x stays whole, so that interleaved steps may read it late
    )


def _interleaved() -> Plan:
    """Rows of conv and dw by turns: a plan of the kind that streams, by hand."""
    whole = make_plan(_streamed())
    conv, dw, add = whole.steps
    steps = [replace(conv, rows=(0, 2))]
    for y in range(4):
        steps += [replace(conv, rows=(y + 2, y + 3)), replace(dw, rows=(y, y + 1))]
    return replace(whole, steps=(*steps, add))


def test_the_check_sees_steps_out_of_order_missing_or_short():
    problem = _chain()
    plan = make_plan(problem)
    conv, dw, add = plan.steps

    for steps in ((dw, conv, add), (conv, add, dw), (conv, add), (conv, dw), (conv, dw, replace(add, rows=(0, 5)))):
        assert check(problem, replace(plan, steps=steps)) != [], steps
    assert "no op is called" in check(problem, replace(plan, steps=(replace(conv, op="zap"),)))[0]
    assert "outside" in check(problem, replace(plan, steps=(replace(conv, rows=(0, 7)), dw, add)))[0]


def test_the_check_sees_scratch_on_top_of_what_is_alive():
    problem = _chain()
    plan = make_plan(problem)

    for tensor in ("a", "b"):
        on_top = replace(plan.scratch[0], address=plan.placement(tensor).address)
        assert check(problem, replace(plan, scratch=(on_top,))) != []
    assert "lacks its 50 bytes" in check(problem, replace(plan, scratch=()))[0]


def test_the_check_sees_a_view_that_lies_elsewhere_and_placements_that_are_missing_or_misshapen():
    plan = make_plan(_viewed())
    for wrong, word in (
        (_move(plan, "flat", 4), "is not placed where"),
        (replace(plan, placements=plan.placements[1:]), "has no placement"),
        (replace(plan, placements=(replace(plan.placements[0], row_bytes=7), *plan.placements[1:])), "not its shape"),
        (replace(plan, placements=(replace(plan.placements[0], rows=5), *plan.placements[1:])), "not its shape"),
        (replace(plan, placements=(*plan.placements, plan.placements[0])), "other editions"),
    ):
        assert any(word in fault for fault in check(_viewed(), wrong)), word


@st.composite
def _problems(draw: st.DrawFn) -> Problem:
    """Random graphs whose ops read any earlier tensors, some of them views, some with scratch."""
    tensors = [TensorSpec("t0", draw(st.integers(1, 4)), draw(st.integers(1, 40)))]
    ops: list[OpSpec] = []
    for i in range(draw(st.integers(1, 9))):
        name = f"t{i + 1}"
        rows, row_bytes = draw(st.integers(1, 4)), draw(st.integers(1, 40))
        if draw(st.integers(0, 4)) == 0:
            base = draw(st.sampled_from(tensors))
            rows = draw(st.sampled_from([1, base.rows]))
            tensors.append(TensorSpec(name, rows, base.bytes // rows, view_of=base.name))
            continue
        sources = draw(st.lists(st.sampled_from(tensors), min_size=1, max_size=3, unique_by=lambda t: t.name))
        reads = tuple(
            Read(s.name, tuple(tuple(sorted(draw(st.sets(st.integers(0, s.rows - 1))))) for _ in range(rows)))
            for s in sources
        )
        tensors.append(TensorSpec(name, rows, row_bytes))
        ops.append(OpSpec(f"op{i}", reads, name, draw(st.sampled_from([0, 0, 7]))))
    outputs = draw(st.lists(st.sampled_from(tensors), min_size=1, max_size=2, unique_by=lambda t: t.name))
    return Problem(tuple(tensors), tuple(ops), ("t0",), tuple(t.name for t in outputs))


@settings(max_examples=60, deadline=None)
@given(_problems())
def test_every_plan_passes_the_check_and_is_no_lower_than_its_bound(problem: Problem):
    plan = make_plan(problem)  # raises PlanFault where the check refuses it

    assert plan.outcome.bound_bytes <= plan.arena_bytes
    assert (plan.outcome.status is Status.OPTIMAL) == (plan.outcome.bound_bytes == plan.arena_bytes)


@settings(max_examples=60, deadline=None)
@given(_problems())
def test_equal_problems_give_equal_plans(problem: Problem):
    first, second = make_plan(problem), make_plan(problem)

    assert (first.steps, first.placements, first.scratch) == (second.steps, second.placements, second.scratch)


@st.composite
def _nets(draw: st.DrawFn) -> Problem:
    """Chains of windows (any stride) and pointwise ops, with residuals to any tensor of the same height."""
    rows = draw(st.integers(1, 9))
    tensors = [TensorSpec("t0", rows, draw(st.integers(1, 9)))]
    ops: list[OpSpec] = []
    for i in range(1, draw(st.integers(2, 8))):
        source = draw(st.sampled_from(tensors[-2:]))
        kernel, stride = draw(st.integers(1, 3)), draw(st.integers(1, 2))
        height = -(-source.rows // stride)
        reads = [
            Read(
                source.name,
                tuple(
                    tuple(
                        r for r in range(y * stride - kernel // 2, y * stride + kernel // 2 + 1) if 0 <= r < source.rows
                    )
                    for y in range(height)
                ),
            )
        ]
        mates = [t for t in tensors if t.rows == height and t is not source]
        if mates and draw(st.booleans()):
            reads.append(Read(draw(st.sampled_from(mates)).name, tuple((y,) for y in range(height))))
        tensors.append(TensorSpec(f"t{i}", height, draw(st.integers(1, 9))))
        ops.append(OpSpec(f"op{i}", tuple(reads), f"t{i}", draw(st.sampled_from((0, 0, 5)))))
    read = {r.tensor for op in ops for r in op.reads}
    outputs = tuple(t.name for t in tensors[1:] if t.name not in read)
    return Problem(tuple(tensors), tuple(ops), ("t0",), outputs)


@settings(max_examples=75, deadline=None)
@given(problem=_nets())
def test_plans_by_rows_pass_the_check_and_compute_each_row_once(problem: Problem):
    whole, rows = make_plan(problem), make_plan(problem, Goal.SRAM)

    assert check(problem, rows) == []
    assert rows.outcome.bound_bytes <= rows.arena_bytes <= whole.arena_bytes
    done = sorted((s.op, y) for s in rows.steps for y in range(*s.rows))
    assert done == sorted((op.name, y) for op in problem.ops for y in range(problem.by_name[op.writes].rows))


def _by_push(problem: Problem) -> Problem:
    """The same with input t0 streamed: its rows come as an op that reads nothing."""
    rows = OpSpec(DELIVERY, (), "t0")
    return replace(problem, inputs=(), ops=(rows, *problem.ops))


@settings(max_examples=60, deadline=None)
@given(problem=st.one_of(_nets(), _problems()), goal=st.sampled_from(Goal), room=st.sampled_from((None, 1.0, 1.5, 4.0)))
def test_plans_with_streamed_input_pass_the_check_and_begin_with_its_first_row(
    problem: Problem, goal: Goal, room: float | None
):
    streamed = _by_push(problem)
    least = make_plan(streamed, Goal.SRAM)
    capacity = None if room is None else int(least.arena_bytes * room)
    plan = make_plan(replace(streamed, capacity_bytes=capacity), goal)

    assert plan.steps[0].delivers
    assert plan.streamed
    assert check(streamed, plan) == []
    assert least.outcome.bound_bytes <= min(least.arena_bytes, plan.arena_bytes)  # few tries may miss the least
    assert capacity is None or plan.arena_bytes <= capacity
    assert (capacity, goal) != (None, Goal.SRAM) or plan.arena_bytes == least.arena_bytes


def test_a_streamed_input_takes_the_rows_of_its_window_alone():
    """Three rows of x feed each row of a, whole tensors would hold all eight."""
    problem = replace(_chain(), inputs=(), ops=(OpSpec(DELIVERY, (), "x"), *_chain().ops))
    for capacity in (10_000, None):
        roomy = make_plan(replace(problem, capacity_bytes=capacity), Goal.TIME)
        assert len(set(roomy.placement("x").slots)) == 3
        assert [s.op for s in roomy.steps[-2:]] == ["dw", "add"]  # the rest op by op: time is the goal
    assert make_plan(problem, Goal.SRAM).arena_bytes < make_plan(_chain(), Goal.SRAM).arena_bytes


def test_the_check_sees_rows_of_the_input_that_come_late_twice_or_in_disorder():
    problem = replace(_chain(), inputs=(), ops=(OpSpec(DELIVERY, (), "x"), *_chain().ops))
    plan = make_plan(problem, Goal.SRAM)
    first, *others = plan.steps
    late = next(i for i, s in enumerate(others) if not s.delivers)
    disorder = "the rows of the streamed input 'x' arrive in another order than 0..7"
    for steps, word in (
        ((*others, first), disorder),
        ((first, *plan.steps), disorder),
        ((others[late], *plan.steps), f"step 0 ({others[late].op}) comes before the first row"),
        (tuple(others), disorder),
    ):
        assert any(word in fault for fault in check(problem, replace(plan, steps=steps))), word


@settings(max_examples=60, deadline=None)
@given(problem=_nets(), seed=st.integers(0, 2**31))
def test_the_check_sees_rows_that_lie_one_word_off_or_steps_that_are_missing(problem: Problem, seed: int):
    plan = make_plan(problem, Goal.SRAM)
    chance = random.Random(seed)
    scattered = [r for r in plan.placements if len(set(r.slots)) > 1]
    if scattered:
        ring = chance.choice(scattered)
        y = chance.randrange(len(ring.slots))
        slots = (*ring.slots[:y], (ring.slots[y] + 2), *ring.slots[y + 1 :])
        moved = replace(plan, placements=tuple(replace(r, slots=slots) if r is ring else r for r in plan.placements))
        assert check(problem, moved) != []
    writers = {op.name for op in problem.ops if op.writes in problem.outputs}
    left_out = chance.choice([i for i, s in enumerate(plan.steps) if s.op in writers])
    assert check(problem, replace(plan, steps=(*plan.steps[:left_out], *plan.steps[left_out + 1 :]))) != []


def test_sums_over_rows_take_one_row_where_tensors_are_whole() -> None:
    rows = 5
    earlier = Read("s", ((), *((y,) for y in range(rows - 1))))
    sums = OpSpec("sum", (_window("x", rows, rows), earlier), "s", in_place="s")
    last, every = OpSpec("end", (Read("s", ((rows - 1,),)),), "y"), OpSpec("all", (_window("s", rows, rows),), "z")
    x, s, y, z = (TensorSpec(n, r, b) for n, r, b in (("x", rows, 8), ("s", rows, 16), ("y", 1, 4), ("z", rows, 4)))

    few = Problem((x, s, y), (sums, last), ("x",), ("y",))
    many = Problem((x, s, y, z), (sums, last, every), ("x",), ("y", "z"))

    for problem, held in ((few, 16), (many, rows * 16)):
        plan = solve(problem)
        assert plan.arena_bytes == rows * 8 + held
        assert check(problem, plan) == []
