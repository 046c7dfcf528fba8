"""Groups with composites against every partition and every composite of small problems; and plans as a whole."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from brute_modes import Brute
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from row_problems import Net, problems, random_problem, same
from test_cascade import alone, bottleneck
from test_place import few_tries

from shoehorn_mcu.planner import (
    DELIVERY,
    Block,
    Cut,
    DoesNotFit,
    Goal,
    OpSpec,
    Problem,
    Read,
    TensorSpec,
    check,
    make_plan,
)
from shoehorn_mcu.planner.blocks import composites as banded
from shoehorn_mcu.planner.blocks.cascade import Composite, Pattern, applied
from shoehorn_mcu.planner.blocks.chains import chains
from shoehorn_mcu.planner.memory_plan import AGAIN, Plan, Status
from shoehorn_mcu.planner.order.flow import Flow
from shoehorn_mcu.planner.partition import bounds
from shoehorn_mcu.planner.partition.search import Partition, PartitionSearch
from shoehorn_mcu.planner.partition.space import NEVER, Group
from shoehorn_mcu.planner.recompute.search import least


def with_chains(problem: Problem) -> Problem:
    """With the two chains as blocks that save most for their extra work."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shoehorn_mcu.planner.effort.CHAIN.MOST", 2)
        blocks = (*problem.blocks, *chains(problem))
    return replace(problem, blocks=tuple(sorted(blocks, key=lambda block: (block.first, block.last))))


SMALL = st.one_of(problems(most_ops=8, most_blocks=2), problems(most_ops=8, most_blocks=1).map(with_chains))
FACTORS = st.sampled_from((0.0, 0.3, 0.7, 1.0))
MACS = st.sampled_from((None, 0, 60, 180, 600))
MOMENTS = 5  # of an interrupted search, from its first call to its last


@pytest.fixture(autouse=True)
def _few_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Orders and addresses of their own are other tests' matter."""
    few_tries(monkeypatch)
    monkeypatch.setattr("shoehorn_mcu.planner.effort.BUDGET.LEAST_SECONDS", 0.01)


def limits(brute: Brute) -> list[int]:
    """Between the least peak there is and a little more than the least without composites."""
    low, high = brute.least_peak(), brute.least_peak(plain=True)
    return sorted({low - 1, low, (low + high) // 2, high - 1, high, high + 8})


@settings(max_examples=80, deadline=None)
@given(SMALL)
def test_the_bound_is_no_higher_than_any_partition_and_exact_where_choices_are_few(problem: Problem):
    found = PartitionSearch(problem, None)
    brute = Brute(found)
    least, plain = brute.least_peak(), brute.least_peak(plain=True)

    assert found.minimax().peak == plain
    assert found.bounds.peak()[0] <= least <= plain
    if not found.bounds.sparing:
        assert found.bounds.peak()[0] == least


@settings(max_examples=80, deadline=None)
@given(SMALL)
def test_the_bound_of_many_choices_is_no_higher_than_any_partition(problem: Problem):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds.GROUP, "FEW", 0)
        found = PartitionSearch(problem, None)
        bound, _ = found.bounds.peak()

    assert bound <= Brute(found).least_peak()
    assert bound > 0 or found.bounds.sparing or found.bounds.unread


@pytest.mark.parametrize("read", [(0,), (0, 1)])
def test_the_bound_of_many_choices_holds_where_no_op_reads_a_row(read: tuple[int, ...]):
    """Of t3. The relaxed flow alone said 17 bytes where a partition needs 14."""
    by_row, one = ((0,), (1,)), ((0,),)
    ops = (
        OpSpec("", (), "t0"),
        OpSpec("op0", (Read("t0", by_row),), "t1"),
        OpSpec("op1", (Read("t0", ((0, 1),)),), "t2"),
        OpSpec("op2", (Read("t0", by_row), Read("t2", ((0,), (0,)))), "t3"),
        OpSpec("op3", (Read("t3", (read,)),), "t4"),
        OpSpec("op4", (Read("t4", one),), "t5"),
        OpSpec("op5", (Read("t5", one),), "t6"),
    )
    sizes = ((2, 1), (2, 5), (1, 1), (2, 1), (1, 4), (1, 4), (1, 1))
    tensors = tuple(TensorSpec(f"t{i}", *size) for i, size in enumerate(sizes))
    block = Block("op1..op2", 2, 3, (Cut(1, tensors[2:3], ops[2:4]),))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds.GROUP, "FEW", 0)
        found = PartitionSearch(Problem(tensors, ops, (), ("t1", "t6", "t0"), None, (block,)), None)
        bound, _ = found.bounds.peak()

    assert found.bounds.unread == (read == (0,))
    assert bound <= Brute(found).least_peak()


@settings(max_examples=55, deadline=None)
@given(SMALL, MACS)
def test_the_lowest_peak_keeps_to_the_allowance_and_is_not_below_the_least(problem: Problem, most_macs: int | None):
    search = PartitionSearch(problem, most_macs)
    found, floor = search.lowest()

    assert [each.peak for each in found] == sorted(each.peak for each in found)
    assert all(most_macs is None or each.extra_macs <= most_macs for each in found)
    assert floor <= Brute(search).lowest(most_macs) <= found[0].peak <= search.minimax().peak
    assert search.bounds.sparing or floor == found[0].peak
    for each in found:
        assert_sums(search, each)


def assert_sums(search: PartitionSearch, found: Partition) -> None:
    """What is found covers the ops once and says its own peak, cost and multiplications."""
    brute = Brute(search)
    assert [g.start for g in found.groups] == [0, *(g.end for g in found.groups[:-1])]
    assert found.groups[-1].end == brute.count
    options = [o for g in found.groups for o in brute.options[g.start, g.end] if same_group(o.groups[0], g)]
    assert len(options) == len(found.groups)
    assert found.peak == max(o.peak for o in options)
    assert found.extra_cost == sum(o.cost for o in options)
    assert found.extra_macs == sum(o.macs for o in options)


def same_group(one: Group, other: Group) -> bool:
    return (one.start, one.end, sorted(one.composites)) == (other.start, other.end, sorted(other.composites))


@settings(max_examples=55, deadline=None)
@given(SMALL)
def test_the_cheapest_keeps_to_the_limit_and_the_fewest_shared_rows_are_the_fewest(problem: Problem):
    search = PartitionSearch(problem, None)
    brute = Brute(search)
    for limit in limits(brute):
        cheapest, fewest = search.cheapest(limit), search.fewest(limit)
        least, shared = brute.least_cost(limit), brute.least_shared(limit)

        assert (fewest is None) == (shared is None)
        if fewest is not None:
            assert sum(search._shared(g.start, g.end) for g in fewest.groups) == shared
            assert fewest.peak <= limit
            assert not any(g.composites for g in fewest.groups)
        assert cheapest is None or least is not None
        if not search.bounds.sparing and least is not None:
            assert cheapest is not None
            assert cheapest.extra_cost <= max(0, least)
        if cheapest is not None and least is not None:
            assert cheapest.peak <= limit
            assert cheapest.extra_cost >= least
            assert_sums(search, cheapest)


@settings(max_examples=80, deadline=None)
@given(SMALL)
def test_no_partition_below_a_peak_takes_less_work_than_the_bound(problem: Problem):
    search = PartitionSearch(problem, None)
    brute = Brute(search)
    for limit in limits(brute):
        bound, least = search.least_cost(limit), brute.least_cost(limit)
        assert least is None or bound <= least
        assert bound < NEVER or search.cheapest(limit) is None


def test_a_block_of_more_rows_and_smaller_sums_counts_where_its_rows_are_kept_anyway():
    """The input is an output too, so that a band of two rows that reads more of it takes nothing more; two chunks take
    less inside than one does, though such a band is the larger one by itself.
    """
    window = Read("t2", ((0, 1, 2), (1, 2, 3), (2, 3, 4)))
    ops = (
        OpSpec("op0", (same("t0", 5),), "t1"),
        OpSpec("op1", (same("t1", 5),), "t2", row_macs=60, in_place="t1"),
        OpSpec("op2", (window,), "t3"),
    )
    tensors = {n: TensorSpec(n, rows, size) for n, rows, size in (("t1", 5, 21), ("t2", 5, 21), ("t3", 3, 4))}
    cuts = (Cut(1, (tensors["t1"], tensors["t2"]), ops), Net(Random(0), tensors=tensors)._chunked(ops, 2))
    arriving = OpSpec(DELIVERY, (), "t0")
    everything = (TensorSpec("t0", 5, 12), *tensors.values())
    problem = Problem(everything, (arriving, *ops), (), ("t3", "t0"), None, (Block("op0", 1, 3, cuts),))
    search = PartitionSearch(problem, None)
    brute = Brute(search)

    assert [(c.cut.chunks, c.band) for c in search.space.composites] == [(2, 1), (1, 1), (2, 2)]
    assert search.least_cost(136) == brute.least_cost(136) == search.space.extra[2][0]
    assert search.least_cost(135) == NEVER


def test_all_rows_may_arrive_first():
    for seed in range(60):
        problem = random_problem(Random(seed), 8)
        if not problem.streamed:
            continue
        (arrived,) = problem.streamed
        search = PartitionSearch(problem, 0)
        first = search.delivered_first()
        events = search.space.events(first.groups)
        height = problem.by_name[arrived].rows

        assert [(e.op, e.row) for e in events[:height]] == [(0, y) for y in range(height)]
        assert max(search.space.peak(group) for group in first.groups) == first.peak >= search.minimax().peak


def test_the_search_misses_little():
    """Heuristics: of a hundred problems with composites, how often each is as good as trying everything."""
    lowest = cheapest = none = asked = tried = 0
    for seed in range(150):
        problem = random_problem(Random(seed), 8, 2)
        search = PartitionSearch(problem, None)
        if not search.space.composites:
            continue
        brute = Brute(search)
        tried += 1
        lowest += search.lowest()[0][0].peak == brute.least_peak()
        for limit in limits(brute)[1:]:
            found, least = search.cheapest(limit), brute.least_cost(limit)
            asked += 1
            none += found is None
            cheapest += found is not None and least is not None and found.extra_cost <= max(0, least)

    assert tried > 80
    assert lowest > 0.97 * tried
    assert none < 0.02 * asked
    assert cheapest > 0.9 * asked


def test_a_composite_that_is_smaller_and_cheaper_than_another_leaves_it_no_place():
    block = bottleneck(10, 4)
    search = PartitionSearch(alone(block), None)
    sizes = [banded.size(search.space.problem, c) for c in search.space.composites]
    taken = [(c.cost, c.macs) for c in search.space.composites]

    assert sizes == sorted(sizes)
    for place, (cost, macs) in enumerate(taken):
        assert all(cost < other[0] or macs < other[1] for other in taken[:place])


# --- Plans


def assert_sound(problem: Problem, plan: Plan, most_macs: int | None) -> None:
    """What make_plan promises of any plan."""
    names = {c.block.name for c in PartitionSearch(problem, None).space.composites}
    assert {cascade.block for cascade in plan.cascades} <= names | {chain.name for chain in chains(problem)}
    outcome = plan.outcome
    assert outcome.bound_bytes <= plan.arena_bytes
    assert (outcome.status is Status.OPTIMAL) == (outcome.bound_bytes == plan.arena_bytes)
    assert extra_macs(problem, plan) <= (most_macs if most_macs is not None else 1 << 60)
    again, extra = plan.outcome.again, extra_macs(problem, plan)
    in_chunks = any(cascade.chunks > 1 for cascade in plan.cascades)
    sparing = {block.name for block in problem.blocks if banded.left_out(problem, block)}
    spares = any(cascade.block in sparing for cascade in plan.cascades)
    assert (again is None) == (in_chunks or spares or not (most_macs or extra))
    if again is not None:
        assert again.most_macs == (extra if most_macs is None else max(most_macs, extra))
        assert again.bound_bytes <= plan.arena_bytes
        assert (plan.outcome.bound_of == again.of) <= (plan.outcome.bound_bytes == again.bound_bytes)
    assert in_chunks or plan.outcome.bound_of != AGAIN
    assert check(in_place_of_blocks(problem, plan), plan) == []


def in_place_of_blocks(problem: Problem, plan: Plan) -> Problem:
    """The problem that a plan solves, from what it says of its cascades."""
    chosen = []
    for cascade in plan.cascades:
        block = next(b for b in (*problem.blocks, *chains(problem)) if b.name == cascade.block)
        cut = next(w for w in block.cuts if w.chunks == cascade.chunks)
        assert tuple(op.name for op in cut.ops) == cascade.ops
        chosen.append(Composite(Pattern(problem, block, cascade.band), cut))
    return applied(problem, chosen)


def extra_macs(problem: Problem, plan: Plan) -> int:
    """Multiplications of the steps, beyond those of each op once."""
    ops = {op.name: op for op in in_place_of_blocks(problem, plan).ops}
    once = sum(op.row_macs * problem.by_name[op.writes].rows for op in problem.ops)
    return sum(ops[s.op].row_macs * (s.rows[1] - s.rows[0]) for s in plan.steps) - once


@settings(max_examples=3, deadline=None)
@given(problem=SMALL, goal=st.sampled_from(Goal), most_macs=MACS, room=FACTORS)
def test_plans_keep_their_promises_and_a_refusal_says_what_is_needed(
    problem: Problem, goal: Goal, most_macs: int | None, room: float
):
    smallest = make_plan(problem, Goal.SRAM, most_macs)
    whole = smallest.outcome.whole_tensor_bytes
    capacity = int(smallest.arena_bytes + room * max(0, whole - smallest.arena_bytes))
    assert_sound(problem, smallest, most_macs)
    assert_sound(problem, make_plan(replace(problem, capacity_bytes=capacity), Goal.SRAM, most_macs), most_macs)

    assert_sound(problem, make_plan(problem, goal, most_macs), most_macs)
    try:
        plan = make_plan(replace(problem, capacity_bytes=capacity), goal, most_macs)
    except DoesNotFit as refused:
        pytest.fail(f"{smallest.arena_bytes} bytes do, but of {capacity}: {refused}")
    assert plan.arena_bytes <= capacity
    assert_sound(problem, plan, most_macs)
    below = (
        min(PartitionSearch(problem, most_macs).bounds.peak()[0], least(Flow(problem)), smallest.outcome.bound_bytes)
        - 1
    )
    with pytest.raises(DoesNotFit, match=r"^needs an arena of .* bytes") as refusal:
        make_plan(replace(problem, capacity_bytes=below), goal, most_macs)
    assert refusal.value.needed_bytes > below
    assert "the peak is " in str(refusal.value)


def test_a_block_that_leaves_out_rows_has_no_bound_of_orders_that_compute_them() -> None:
    """The last op of the block reads every third row: in a band the others are not computed, which saves more
    multiplications than the plan computes again.
    """
    net = Net(Random(1))
    x = net.tensor(9, 23)
    each = tuple((y,) for y in range(9))
    wide = net.op([Read(x, each)], 10)
    wide = net.op([Read(wide, each)], 8, wide)
    narrow = net.op([Read(wide, ((0,), (3,), (6,)))], 15)
    narrow = net.op([Read(narrow, ((0,), (2,)))], 14)
    y = net.op([Read(narrow, ((0, 1), (0, 1)))], 14)
    tensors, ops = tuple(net.tensors.values()), tuple(replace(op, scratch_bytes=0, row_macs=60) for op in net.ops)
    block = Block("op0", 0, 2, (Cut(1, tensors[1:3], ops[:3]),))
    problem = Problem(tensors, ops, (x,), (y,), None, (block,))
    plan = make_plan(problem, Goal.SRAM, None)
    assert [cascade.block for cascade in plan.cascades] == ["op0"] and extra_macs(problem, plan) < 0
    assert_sound(problem, plan, None)
    assert plan.outcome.again is None


@settings(max_examples=3, deadline=None)
@given(problem=SMALL, most_macs=MACS)
def test_equal_problems_with_blocks_give_equal_plans(problem: Problem, most_macs: int | None):
    first, second = (make_plan(problem, Goal.SRAM, most_macs) for _ in range(2))

    def timeless(plan: Plan) -> Plan:
        return replace(plan, outcome=replace(plan.outcome, solve_seconds=0.0))

    assert timeless(first) == timeless(second)


class Interrupter:
    """Hears what is tried, and is Ctrl-C at the given call."""

    def __init__(self, at: int) -> None:
        self.at, self.calls = at, 0

    def __call__(self, said: str) -> None:
        self.calls += 1
        if self.calls == self.at:
            raise KeyboardInterrupt


@settings(max_examples=3, deadline=None)
@given(problem=SMALL, goal=st.sampled_from(Goal), part=st.sampled_from((None, 0.5, 1.0, 1.2)))
def test_ctrl_c_at_any_time_gives_a_checked_plan_or_a_refusal(problem: Problem, goal: Goal, part: float | None):
    least = make_plan(problem, Goal.SRAM, None).arena_bytes
    tried = replace(problem, capacity_bytes=None if part is None else int(part * least))
    listener = Interrupter(-1)
    try:
        make_plan(tried, goal, None, listener)
    except DoesNotFit:
        assert part is not None
    assume(listener.calls)
    for at in sorted({max(1, listener.calls * moment // MOMENTS) for moment in range(MOMENTS + 1)}):
        try:
            plan = make_plan(tried, goal, None, Interrupter(at))
        except DoesNotFit as refused:
            assert refused.needed_bytes > (tried.capacity_bytes or 0)
        except KeyboardInterrupt:
            assert problem.streamed or part is not None  # nothing that fits was found yet, and whole tensors do not
        else:
            assert plan.outcome.reason == "interrupted: the best plan so far"
            assert tried.capacity_bytes is None or plan.arena_bytes <= tried.capacity_bytes
            assert check(in_place_of_blocks(problem, plan), plan) == []


def test_a_block_in_bands_goes_below_rows_alone_and_within_the_allowance():
    """x and h whole would be 80 + 120; a band of a chunk needs a few rows of h."""
    problem = alone(bottleneck(10, 4))
    free, none = make_plan(problem, Goal.SRAM, None), make_plan(problem, Goal.SRAM, 0)

    assert extra_macs(problem, none) == 0
    assert extra_macs(problem, free) > 0
    assert free.arena_bytes < none.arena_bytes < make_plan(problem).arena_bytes
