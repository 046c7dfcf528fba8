"""Lower bounds for orders that compute rows again: against the lowest peak of all such orders of small problems."""

from __future__ import annotations

import heapq
from functools import cache
from random import Random

import pytest
from row_problems import random_problem, same
from test_cli_project import DIGITS

from shoehorn_mcu import importers, passes
from shoehorn_mcu.emit.page import parts
from shoehorn_mcu.planner import Goal, OpSpec, Problem, Read, TensorSpec, least_computing_again, lowest_peak
from shoehorn_mcu.planner.memory_plan import ANY_ORDER, Again
from shoehorn_mcu.planner.order.again import bound_again
from shoehorn_mcu.planner.order.flow import Event, Flow
from shoehorn_mcu.planner.order.lowest import row_graph
from shoehorn_mcu.planner.order.replay import replay
from shoehorn_mcu.schedule import search
from shoehorn_mcu.schedule.cuts import Cuts
from shoehorn_mcu.schedule.request import PlanRequest
from shoehorn_mcu.schedule.search import schedule
from shoehorn_mcu.schedule.stage import stages

MOST_ROWS = 7  # that are computed: all states of memory are tried
PLENTY = 1 << 40


class Memory:
    """All that can be in memory while a problem is computed, row by row, each as often as it is wanted.

    It asks the problem itself what is read, and shares no code with the bounds. Rows are bits.
    """

    def __init__(self, flow: Flow) -> None:
        problem = flow.problem
        self.events = [(op, y) for op in range(len(problem.ops)) for y in range(flow.rows[flow.writes[op]])]
        given = [(name, y) for name, born in flow.born.items() if born < 0 for y in range(flow.rows[name])]
        rows = [*((flow.writes[op], y) for op, y in self.events), *given]
        bit = {row: 1 << i for i, row in enumerate(rows)}
        self.bytes = [flow.slot[name] for name, _ in rows]
        self.reads = [sum({bit[t.tensor, r] for t in flow.taps[op] for r in t.reads[y]}) for op, y in self.events]
        self.given = sum(bit[row] for row in given)
        self.all = (1 << len(self.events)) - 1
        outputs = {problem.root(name) for name in problem.kept}
        self.kept = sum(bit[row] for row in rows if row[0] in outputs)
        self.scratch = [flow.scratch[op] for op, _ in self.events]
        self.macs = [problem.ops[op].row_macs for op, _ in self.events]
        self.fixed = sum(1 << i for i, (op, _) in enumerate(self.events) if op in flow.once)
        self.before = [0] * len(self.events)
        for i, (op, y) in enumerate(self.events if problem.streamed else []):
            self.before[i] = ((1 << (i - 1)) if y else 0) if op == 0 else 1
        self.over: list[tuple[int, int]] = []  # the row below, and the bytes that it saves
        for op, y in self.events:
            below, place = flow.row_below(op, y), flow.in_place[op]
            there = below is not None and place is not None
            self.over.append((bit[flow.taps[op][place].tensor, below], flow.saved(op)) if there else (0, 0))

    def held(self, rows: int) -> int:
        return sum(size for i, size in enumerate(self.bytes) if rows >> i & 1)

    def least_macs(self, most_bytes: int) -> int | None:
        """The fewest that are computed again by an order within so many bytes; None: there is no such order."""
        start = (0, self.given)
        if self.held(self.given) > most_bytes:
            return None
        best, queue = {start: 0}, [(0, start)]
        while queue:
            spent, state = heapq.heappop(queue)
            done, held = state
            if best[state] < spent:
                continue
            if done == self.all and not self.kept & ~held:
                return spent
            for other, more in self.moves(done, held, most_bytes):
                if spent + more < best.get(other, PLENTY):
                    best[other] = spent + more
                    heapq.heappush(queue, (spent + more, other))
        return None

    def moves(self, done: int, held: int, most_bytes: int) -> list[tuple[tuple[int, int], int]]:
        """What comes next: a row is forgotten, or one is computed, over the row below it or not."""
        found = [((done, held & ~(1 << i)), 0) for i in range(len(self.bytes)) if held >> i & 1]
        for i in range(len(self.events)):
            again, row = done >> i & 1, 1 << i
            if held & row or self.reads[i] & ~held or self.before[i] & ~done or (again and self.fixed & row):
                continue
            during = self.held(held) + self.bytes[i] + self.scratch[i]
            below, saved = self.over[i]
            if during <= most_bytes:
                found.append(((done | row, held | row), self.macs[i] if again else 0))
            if below and during - saved <= most_bytes:
                found.append(((done | row, (held | row) & ~below), self.macs[i] if again else 0))
        return found


def small_problem(seed: int, most_rows: int = MOST_ROWS) -> Flow:
    chance = Random(seed)
    while True:
        flow = Flow(random_problem(chance, chance.randint(2, 6), most_rows=4))
        rows = sum(flow.rows.values())
        if 3 < sum(flow.rows[name] for name in flow.writes) <= most_rows and rows <= most_rows + 3:
            return flow


def by_op(flow: Flow) -> list[Event]:
    return [Event(op, y) for op, name in enumerate(flow.writes) for y in range(flow.rows[name])]


def compare(seed: int) -> tuple[int, int]:
    """Compares the bounds for several allowances with the lowest peaks; how many there are, and how many are met."""
    flow = small_problem(seed)
    memory, order = Memory(flow), by_op(flow)
    once, known = sum(memory.macs), replay(flow, order).peak
    met, before, allowances = 0, PLENTY, [0, once // 10, once // 3, once * 3]
    unit = row_graph(flow).unit
    for most in allowances:
        bound = bound_again(flow, most, (), PLENTY)
        with_known = bound_again(flow, most, order, PLENTY)
        assert min(bound, known) <= with_known <= bound, "a known order spares what cannot raise the bound above it"
        spent = memory.least_macs(bound - 1)
        assert spent is None or spent > most, f"seed {seed}: {bound} bytes at {most} MACs, {spent} suffice for less"
        within = memory.least_macs(bound)
        met += within is not None and within <= most
        assert bound % unit == 0
        assert bound <= before, "who may compute more again needs no more bytes"
        before = bound
    return len(allowances), met


def test_no_bound_is_above_the_lowest_peak_of_all_orders_that_compute_as_much_again():
    said = [compare(seed) for seed in range(50)]
    tried, met = (sum(each) for each in zip(*said, strict=True))
    assert (tried, met >= 90) == (200, True)


def test_a_skip_over_cheap_rows_is_bounded_by_what_may_be_computed_again():
    """x, three rows of 40 bytes, is read at the end, behind a narrow place: with few MACs all of it is alive there,
    with more of them a row less for each, and with all of them nothing is.
    """
    tensors = (*(TensorSpec(n, 3, b) for n, b in (("in", 4), ("x", 40), ("y", 4), ("out", 4))), TensorSpec("mid", 1, 4))
    rows, all_rows = same("in", 3), Read("y", ((0, 1, 2),))
    spread = Read("mid", ((0,),) * 3)
    made = (
        OpSpec("widen", (rows,), "x", row_macs=10),
        OpSpec("narrow", (same("x", 3),), "y", row_macs=1),
        OpSpec("gather", (all_rows,), "mid", row_macs=1),
        OpSpec("join", (same("x", 3), spread), "out", row_macs=1),
    )
    flow = Flow(Problem(tensors, made, ("in",), ("out",)))
    bounds = {most: bound_again(flow, most, (), PLENTY) for most in (0, 9, 10, 20, 30)}

    narrow = 3 * 4 + 4  # y and mid
    assert bounds[0] == bounds[9] == 3 * 40 + narrow
    # Of each row of x that is made again, the row of the input is held.
    assert [bounds[most] for most in (10, 20)] == [(3 - each) * 40 + each * 4 + narrow for each in (1, 2)]
    assert bounds[30] < bounds[20]
    assert [Memory(flow).least_macs(bounds[most]) for most in (0, 10, 20)] == [0, 10, 20]


@pytest.mark.long
def test_no_bound_of_many_problems_is_above_the_lowest_peak_of_all_orders_that_compute_as_much_again():
    for seed in range(1000, 3000):
        compare(seed)


@pytest.mark.parametrize(
    ("found", "wanted"),
    [(None, 950), (Again(900, 500, 1.0), 900), (Again(900, 499, 1.0), 950), (Again(1100, 500, 1.0), 1000)],
)
def test_the_bound_of_a_plan_is_the_least_of_all_forms_of_its_graph(
    monkeypatch: pytest.MonkeyPatch, found: Again | None, wanted: int
) -> None:
    """That of a form for fewer MACs does not hold for as many, and is found anew."""
    asked = []

    def other(problem: Problem, most_macs: int) -> int:
        asked.append(most_macs)
        assert 0 < least_computing_again(problem, most_macs) <= lowest_peak(problem)
        return 950

    cuts, request = digits(), PlanRequest(Goal.SRAM)
    best = schedule(cuts, request).with_outcome(again=Again(1000, 500, 1.0))
    monkeypatch.setattr(search, "least_computing_again", other)
    made = search._Search(cuts, request, (), lambda _: None)._bounded_again(best, {cuts: found})

    assert made.plan.outcome.again == Again(wanted, 500, 1.0)
    assert asked == ([500] if wanted == 950 else [])


def test_the_page_names_both_bounds_of_a_plan_and_one_that_is_the_plan_s_own_once() -> None:
    again = Again(80, 5, 4.9994)
    said = {"proven_optimal": True, "arena_bytes": 100, "arena_bound_bytes": 100, "arena_bound_of": ANY_ORDER}
    known = {"again": {"bound_bytes": 80, "of": again.of}}
    own = {**said, "proven_optimal": False, "arena_bound_bytes": 80, "arena_bound_of": again.of}

    assert again.of == "plans by rows in any order, at most 5 % of the MACs computed again"
    assert parts._bound(said) == f"100 bytes are proven minimal among {ANY_ORDER}"
    assert parts._bound({**said, **known}) == f"100 bytes are proven minimal among {ANY_ORDER}; 80 of {again.of}"
    assert parts._bound({**own, **known}) == f"lower bound 80 of {again.of}"


@cache
def digits() -> Cuts:
    graph, _ = passes.run(importers.load(DIGITS))
    return Cuts(graph, stages(graph))
