"""Orders in which rows are computed again: replayed here from the problem alone, and by the search's own sums."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_graphs import random_graph
from row_problems import same

from shoehorn_mcu.planner import DELIVERY, OpSpec, Problem, Read, TensorSpec
from shoehorn_mcu.planner.effort import RECOMPUTE
from shoehorn_mcu.planner.live_ranges import OrderFault
from shoehorn_mcu.planner.order.flow import Event, Flow, slot_bytes
from shoehorn_mcu.planner.order.flow import rigid as rigid_tensors
from shoehorn_mcu.planner.order.replay import pruned, replay
from shoehorn_mcu.planner.recompute.bands import step_graph
from shoehorn_mcu.planner.recompute.clones import lowest
from shoehorn_mcu.planner.recompute.coarsening import level_of
from shoehorn_mcu.planner.recompute.search import Order, _Ask, between, least, recomputed, reordered
from shoehorn_mcu.planner.remat.graph import Graph
from shoehorn_mcu.planner.remat.memory import Terms, runs
from shoehorn_mcu.planner.remat.outcome import Effort
from shoehorn_mcu.planner.remat.search import QUICK, Search
from shoehorn_mcu.schedule.lower import lower
from shoehorn_mcu.schedule.stage import stages

EFFORT = Effort(0.3, stop=60)


def again(problem: Problem, start: Sequence[Event], budget: int, effort: Effort | None = None) -> list[Event] | None:
    """The rows of `recomputed`."""
    order = recomputed(problem, start, budget, effort)
    return None if order is None else order.events


def op_by_op(problem: Problem) -> list[Event]:
    """Every row once, an op after the other."""
    height = {t.name: t.rows for t in problem.tensors}
    return [Event(i, y) for i, op in enumerate(problem.ops) for y in range(height[op.writes])]


# --- A replay that knows the problem and the events only


def counted(problem: Problem, events: Sequence[Event]) -> tuple[int, int]:
    """Peak and work of an order, event by event: what is wanted later is looked up in the rest of the order."""
    stiff = rigid_tensors(problem)
    flow = Flow(problem)
    arrived = [e.row for e in events if problem.ops[e.op].name == DELIVERY]
    assert arrived == list(range(len(arrived)))
    held: set[tuple[str, int]] = set()
    for name in map(problem.root, problem.inputs):
        held |= {(name, y) for y in range(problem.by_name[name].rows)}
    peak = sum(slot_bytes(problem, name, stiff) for name, _ in held)
    held = {row for row in held if wanted(flow, events, 0, row)}
    for i, event in enumerate(events):
        op = problem.ops[event.op]
        reads = read_by(flow, event)
        own = (op.writes, event.row)
        assert reads <= held, f"event {i}"
        assert held or not problem.streamed or op.name == DELIVERY or i > 0
        before = held - {own}  # an earlier copy that is still wanted would be wanted by this event
        during = sum(slot_bytes(problem, name, stiff) for name, _ in before | {own}) + op.scratch_bytes
        held = {row for row in before | {own} if wanted(flow, events, i + 1, row)}
        tap = flow.in_place[event.op]
        reads = flow.taps[event.op][tap].reads if tap is not None else ()
        if tap is not None and reads[event.row]:
            low = min(reads[event.row])
            over = (flow.taps[event.op][tap].tensor, low)
            if over not in held and not any(low in rows for rows in reads[event.row + 1 :]):
                slot = min(slot_bytes(problem, name, stiff) for name in (over[0], op.writes))
                during -= max(0, slot - (op.behind or 0))
        peak = max(peak, during)
    outputs = {problem.root(name) for name in problem.outputs}
    assert {(name, y) for name in outputs for y in range(problem.by_name[name].rows)} <= held
    return peak, sum(problem.ops[e.op].row_cost for e in events if problem.ops[e.op].name != DELIVERY)


def read_by(flow: Flow, event: Event) -> set[tuple[str, int]]:
    return {(tap.tensor, row) for tap in flow.taps[event.op] for row in tap.reads[event.row]}


def wanted(flow: Flow, events: Sequence[Event], start: int, row: tuple[str, int]) -> bool:
    """Whether somebody reads this row from event `start` on, before it is computed again."""
    for event in events[start:]:
        if row in read_by(flow, event):
            return True
        if (flow.writes[event.op], event.row) == row:
            return False
    return row[0] in {flow.problem.root(name) for name in flow.problem.outputs}


# --- Problems


def _whole(tensor: str, rows: int = 16) -> Read:
    return Read(tensor, (tuple(range(rows)),))


def u_net(rows: int = 16, wide: int = 40) -> Problem:
    """A cheap wide row-by-row op whose output waits until the end, with narrow 3-row windows between."""

    def window(tensor: str) -> Read:
        return Read(tensor, tuple(tuple(r for r in range(y - 1, y + 2) if 0 <= r < rows) for y in range(rows)))

    def same(tensor: str) -> Read:
        return Read(tensor, tuple((y,) for y in range(rows)))

    tensors = [("x", rows, 4), ("skip", rows, wide), ("a", rows, 8), ("b", rows, 8), ("g", 1, 8), ("y", rows, 4)]
    gate = Read("g", ((0,),) * rows)
    return Problem(
        tensors=tuple(TensorSpec(*t) for t in tensors),
        ops=(
            OpSpec("expand", (same("x"),), "skip", row_cost=10),
            OpSpec("down", (window("skip"),), "a", row_cost=100),
            OpSpec("conv", (window("a"),), "b", row_cost=100),
            OpSpec("mean", (_whole("b", rows),), "g", row_cost=5),
            OpSpec("up", (same("skip"), same("b"), gate), "y", row_cost=50),
        ),
        inputs=("x",),
        outputs=("y",),
    )


def squeeze() -> Problem:
    """A wide tensor that goes row by row as a narrow one comes, then its sum."""
    problem = u_net()
    return replace(problem, ops=(*problem.ops[:2], replace(problem.ops[3], reads=(_whole("a"),))), outputs=("g",))


def problem_of(seed: int, streamed: bool) -> Problem:
    graph = random_graph(seed)
    streamed = streamed and len(graph.inputs) == 1
    problem = lower(graph, stages(graph), None, streamed)
    rng = random.Random(seed)
    return replace(problem, ops=tuple(replace(op, row_cost=rng.randrange(1, 50)) for op in problem.ops))


# --- Tests


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 10**6), st.booleans(), st.floats(0.2, 1.0))
def test_what_is_answered_fits_and_costs_what_is_said_on_random_graphs(seed: int, streamed: bool, part: float):
    problem = problem_of(seed, streamed)
    flow, start = Flow(problem), op_by_op(problem)
    first = replay(flow, start)
    assert (first.peak, first.work) == counted(problem, start)
    low = least(flow)
    assert low <= first.peak
    budget = low + int(part * (first.peak - low))
    found = again(problem, start, budget, EFFORT)
    if found is None:
        assert first.peak > budget
        return
    said = replay(flow, found)
    assert (said.peak, said.work) == counted(problem, found)
    assert said.peak <= budget
    assert Counter({(e.op, e.row) for e in found}) == Counter((e.op, e.row) for e in start)


def test_a_few_bytes_end_too():
    """Steps of five percent would be none."""
    names = {"a": "x", "e": "x", "g": "x", "b": "a", "c": "b"}
    ops = [OpSpec(name, (Read(read, ((0,),)),), name) for name, read in names.items()]
    ops += [OpSpec(y, (Read(u, ((0,),)), Read(v, ((0,),))), y) for y, u, v in ("yce", "zyg")]
    tensors = tuple(TensorSpec(name, 1, 4) for name in ("x", *(op.writes for op in ops)))
    problem = Problem(tensors, tuple(ops), inputs=("x",), outputs=("z",))
    flow, start = Flow(problem), op_by_op(problem)

    assert least(flow) < replay(flow, start).peak < 20
    for budget in range(least(flow), replay(flow, start).peak):
        found = again(problem, start, budget, Effort(0.1))
        assert found is None or replay(flow, found).peak <= budget


@settings(max_examples=26, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 10**6), st.booleans())
def test_orders_with_clones_run_and_are_no_higher(seed: int, streamed: bool):
    problem = problem_of(seed, streamed)
    flow, start = Flow(problem), op_by_op(problem)
    found = lowest(problem, start, least(flow), 12)
    said = replay(flow, found)

    assert (said.peak, said.work) == counted(problem, found)
    assert said.peak <= replay(flow, start).peak


@settings(max_examples=18, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 10**6), st.booleans())
def test_a_free_order_runs_each_row_once_and_is_no_higher(seed: int, streamed: bool):
    problem = problem_of(seed, streamed)
    start = op_by_op(problem)
    found = reordered(problem, start, EFFORT)

    assert Counter(found) == Counter(start)
    assert counted(problem, found)[0] <= counted(problem, start)[0]


def test_a_search_above_its_limit_ends_with_a_lower_order():
    problem = squeeze()
    flow, start = Flow(problem), op_by_op(problem)
    level = level_of(flow, start, least(flow) // 2, RECOMPUTE.NODES[0], EFFORT, 1)
    found = level.steps.events(level.reorder())

    assert level.search.best is None
    assert Counter(found) == Counter(start)
    assert replay(flow, found).peak < replay(flow, start).peak


def test_a_skip_is_computed_again_where_keeping_it_does_not_fit():
    problem = u_net()
    start = op_by_op(problem)
    flow = Flow(problem)
    budget = 16 * 4 + 16 * 8 + 16 * 4 + 8 * 40  # half of the skip
    found = again(problem, start, budget, Effort(0.6, stop=60))

    assert replay(flow, start).peak > 16 * 40  # the mean needs all of b, and all of the skip waits for it
    assert found is not None
    peak, work = counted(problem, found)
    assert peak <= budget
    repeats = Counter((e.op, e.row) for e in found)
    assert {op for (op, _), n in repeats.items() if n > 1} == {0}
    assert work == counted(problem, start)[1] + 10 * sum(n - 1 for n in repeats.values())


def test_no_row_is_computed_again_where_an_order_alone_fits():
    problem = squeeze()
    start = op_by_op(problem)
    budget = 16 * 4 + 16 * 8 + 3 * 40  # `a` may come as `skip` goes
    found = again(problem, start, budget, Effort(1, stop=60))

    assert found is not None
    assert len(found) == len(start)
    assert counted(problem, found)[0] <= budget


def test_a_budget_below_what_one_row_takes_is_refused_at_once():
    problem = u_net()

    assert again(problem, op_by_op(problem), least(Flow(problem)) - 1, Effort(1000)) is None


def test_an_order_that_fits_is_the_answer():
    problem = u_net()
    start = op_by_op(problem)

    assert again(problem, start, replay(Flow(problem), start).peak, EFFORT) == start


def test_an_order_that_bands_of_rows_cannot_follow_stays_as_it_is(monkeypatch: pytest.MonkeyPatch):
    """Row by row a window begins long before a band of its rows is there."""
    windows = Read("a", tuple(tuple(range(max(0, y - 1), min(16, y + 2))) for y in range(16)))
    ops = (OpSpec("a", (same("x", 16),), "a", 0, 10), OpSpec("y", (windows,), "y", 0, 10))
    problem = Problem(tuple(TensorSpec(name, 16, 8) for name in "xay"), ops, ("x",), ("y",))
    flow = Flow(problem)
    order = [Event(0, 0), *(event for y in range(15) for event in (Event(0, y + 1), Event(1, y))), Event(1, 15)]
    monkeypatch.setattr(RECOMPUTE, "NODES", (12,))
    bands = step_graph(flow, 12)
    found = _Ask(flow, order, replay(flow, order).peak, EFFORT, most_rows=1)._windowed(order)

    assert not runs(bands.graph, bands.repeated(order))
    assert runs(bands.graph, bands.sequence(order))
    assert (found.events, found.work) == (order, found.once)


def test_between_two_orders_less_is_computed_again_than_in_the_lower_one():
    flow = Flow(u_net())
    below = recomputed(flow.problem, op_by_op(flow.problem), 500, EFFORT)
    above = recomputed(flow.problem, op_by_op(flow.problem), 700, EFFORT)
    assert above is not None
    assert below is not None
    found = between(flow, above, below, 624, EFFORT)

    assert counted(flow.problem, found.events) == (found.peak, found.work)
    assert found.peak <= 624 < above.peak
    assert above.work < found.work < below.work


def test_equal_calls_give_equal_orders():
    problem = u_net(12)
    budget = int(0.7 * replay(Flow(problem), op_by_op(problem)).peak)
    first, second = (again(problem, op_by_op(problem), budget, Effort(0.2, stop=60)) for _ in range(2))

    assert first is not None
    assert first == second


def test_an_order_that_reads_what_is_not_there_is_refused():
    problem = u_net()
    with pytest.raises(OrderFault, match="reads row 0 of 'skip', which is not there"):
        replay(Flow(problem), op_by_op(problem)[16:])
    with pytest.raises(OrderFault, match="row 15 of 'y' is kept, but never computed"):
        replay(Flow(problem), op_by_op(problem)[:-1])


def test_a_copy_that_nobody_reads_is_pruned():
    problem = u_net()
    start = op_by_op(problem)
    longer = [*start[:40], Event(0, 3), Event(0, 3), *start[40:], Event(0, 5)]

    assert pruned(Flow(problem), longer) == [*start[:40], Event(0, 3), *start[40:]]  # `up` reads that one
    assert counted(problem, pruned(Flow(problem), longer)) <= counted(problem, longer)


@pytest.mark.parametrize("most", [4, 20, 1000])
def test_bands_hold_every_row_once_and_count_no_less_than_rows(most: int):
    problem = u_net()
    flow = Flow(problem)
    steps = step_graph(flow, most)
    order = steps.sequence(op_by_op(problem))
    events = steps.events(order)

    assert sorted((e.op, e.row) for e in events) == sorted((e.op, e.row) for e in op_by_op(problem))
    assert replay(flow, events).peak <= budget_of(steps.graph, steps.terms, order)
    assert sum(steps.graph.durations) == replay(flow, events).work


# --- The search's terms


def budget_of(graph: Graph, terms: Terms, sequence: Sequence[int]) -> int:
    return max(memory(graph, terms, sequence))


def memory(graph: Graph, terms: Terms, sequence: Sequence[int]) -> list[int]:
    """Memory of each step by the words of the contract."""
    readers: list[set[int]] = [set() for _ in sequence]
    for i, v in enumerate(sequence):
        for u in graph.inputs[v]:
            readers[max(k for k in range(i) if sequence[k] == u)].add(i)
    taken = []
    for i, v in enumerate(sequence):
        alive = [k for k in range(i) if max(readers[k], default=k) >= i]
        over = [k for k in alive if sequence[k] == terms.reuse[v] and max(readers[k]) == i]
        shared = sum(max(0, min(graph.sizes[sequence[k]], graph.sizes[v]) - terms.behind[v]) for k in over)
        taken.append(sum(graph.sizes[sequence[k]] for k in alive) + graph.sizes[v] + terms.extra[v] - shared)
    return taken


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**6))
def test_the_search_keeps_its_sums_and_honours_the_terms_of_nodes(seed: int):
    rng = random.Random(seed)
    n = rng.randrange(3, 14)
    inputs = tuple(tuple(u for u in range(v) if rng.random() < 0.35) for v in range(n))
    sizes = (1, *(rng.randrange(12) for _ in range(n - 1)))  # the search counts in what divides them all
    graph = Graph(tuple(range(n)), sizes, tuple(rng.randrange(6) for _ in range(n)), inputs, tuple(range(n)))
    terms = Terms(
        most=tuple(rng.choice((1, 2, 8)) for _ in range(n)),
        extra=tuple(rng.choice((0, 0, 5)) for _ in range(n)),
        reuse=tuple(rng.choice((-1, *reads)) for reads in inputs),
        behind=tuple(rng.choice((0, 0, 3)) for _ in range(n)),
    )
    highest = max(memory(graph, terms, graph.order))
    budget = rng.randrange(highest // 2, highest + 1)
    search = Search(graph, budget, 300_000, lambda: True, terms)
    search.run(QUICK, -1)
    for walker in search._walkers:
        now = walker.now()
        assert walker.over == sum(max(0, m - budget) for m in memory(graph, terms, now))
        assert all(count <= terms.most[v] for v, count in Counter(now).items())
    if search.best is not None:
        assert max(memory(graph, terms, search.best)) <= budget


def test_an_order_says_its_extra_work_and_the_proven_lower_bound():
    known = "10.00 % more work, the least found"

    assert Order([], 0, 100, 100).reason == ""
    assert Order([], 0, 110, 100).reason == Order([], 0, 110, 100, 100).reason == known
    assert Order([], 0, 110, 100, 105).reason.startswith(f"{known}; lower bound 5.00 %")
    assert Order([], 0, 110, 100, 105).reason.endswith("recompute positions tried")
