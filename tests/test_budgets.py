"""Which budgets are tried for rows that are computed again; what is found within each is made up here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from random_graphs import random_graph
from random_plans import few_tries
from test_again import op_by_op, u_net

from shoehorn_mcu import PlanOptions, plan
from shoehorn_mcu.firmware.build import _most_macs
from shoehorn_mcu.firmware.settings import Options
from shoehorn_mcu.planner import DoesNotFit, Goal
from shoehorn_mcu.planner.memory_plan import ANY_ORDER, Status
from shoehorn_mcu.planner.order.flow import Event, Flow
from shoehorn_mcu.planner.order.replay import replay
from shoehorn_mcu.planner.recompute import budgets
from shoehorn_mcu.planner.recompute.search import Order
from shoehorn_mcu.schedule import search
from shoehorn_mcu.schedule.cuts import Cuts
from shoehorn_mcu.schedule.predict import time
from shoehorn_mcu.schedule.request import PlanRequest
from shoehorn_mcu.schedule.search import schedule
from shoehorn_mcu.schedule.stage import stages
from tests.shared import SHARED, needs_shared


class Tried:
    """Budgets that are asked for: an order is found within each from `floor` on, and takes more work the lower it is.

    It packs into `fragments` times its peak.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, floor: int, fragments: float = 1.0) -> None:
        self.asked: list[int] = []
        self._floor, self._fragments, self._last = floor, fragments, 0
        self.steps: list[int] = []  # budgets of the orders whose work was not lowered
        self.quick: list[int] = []  # peaks of the orders that were packed quickly
        monkeypatch.setattr(budgets, "nearer", self._nearer)
        monkeypatch.setattr(budgets, "between", lambda flow, above, below, budget, effort: self._order(budget) or below)
        flow = Flow(u_net())
        self.budgets = budgets.Budgets(flow, op_by_op(flow.problem), None, lambda _: None, self._placed)

    def _nearer(self, flow: Flow, start: Sequence[Event], budget: int, effort: Any, most_rows: int) -> Order | None:
        if most_rows == 0:
            self.steps.append(budget)
        return self._order(budget)

    def _order(self, budget: int) -> Order | None:
        self.asked.append(budget)
        if budget < self._floor:
            return None
        self._last = budget
        return Order([], budget, 10_000_000 - budget, 0)

    def _placed(self, events: Sequence[Event], enough: int, reason: str, thorough: bool) -> Any:
        if not thorough:
            self.quick.append(self._last)
        return SimpleNamespace(arena_bytes=int(self._last * self._fragments))


Try = Callable[..., Tried]


@pytest.fixture(name="tried")
def _tried(monkeypatch: pytest.MonkeyPatch) -> Try:
    return lambda floor, fragments=1.0: Tried(monkeypatch, floor, fragments)


def test_budgets_go_down_until_an_order_packs_then_halfway_to_the_last_that_did_not(tried: Try):
    each = tried(100, 1.05)
    arenas = [plan.arena_bytes for plan in each.budgets.for_capacity(10_000)]
    assert each.asked == [10_000, 9_700, 9_400, 9_550, 9_475]
    assert [arena <= 10_000 for arena in arenas] == [False, False, True, False, True]


def test_where_the_first_order_packs_two_lower_ones_are_tried(tried: Try):
    each = tried(100)
    assert len(list(each.budgets.for_capacity(10_000))) == 1  # the lower ones take more work
    assert each.asked == [10_000, 9_700, 9_400]


def test_where_no_order_packs_there_is_an_end(tried: Try):
    each = tried(100, 2.0)
    assert len(list(each.budgets.for_capacity(10_000))) == len(each.asked) == 5


@pytest.mark.parametrize(("part", "times"), [(0.7, 3), (0.5, 1)])
def test_far_below_the_peak_one_failure_is_the_end(part: float, times: int, tried: Try):
    """The first step on the way to each of these budgets is nearly the same."""
    each = tried(10**9)
    peak = replay(each.budgets._flow, each.budgets._start).peak
    assert list(each.budgets.for_capacity(int(peak * part))) == []
    assert len(each.asked) == times


@pytest.mark.parametrize(("few", "steps"), [(1000, []), (1, [9_000, 7_650])])
def test_above_the_bytes_wanted_orders_of_many_rows_are_steps(few: int, steps: list[int], tried: Try, monkeypatch: Any):
    monkeypatch.setattr(budgets.REMAT, "MOST_NODES", few)
    each = tried(5_000)
    list(each.budgets.descending([], 10_000, 7_000))
    assert each.asked[:2] == [9_000, 7_650]
    assert min(each.asked) < 7_000
    assert each.steps == each.quick == steps


def test_the_smallest_arena_has_no_steps(tried: Try, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(budgets.REMAT, "MOST_NODES", 1)
    each = tried(5_000)
    list(each.budgets.descending([], 10_000))
    assert (each.steps, each.quick) == ([], [])


def test_the_smallest_arena_is_looked_for_by_growing_steps_then_between_what_fails_and_what_does_not(tried: Try):
    each = tried(5_000)
    found = [plan.arena_bytes for plan in each.budgets.descending([], 10_000)]
    assert found == sorted(found, reverse=True)
    low = max(budget for budget in each.asked if budget < 5_000)
    after = each.asked[each.asked.index(low) + 1 :]
    assert all(low < budget for budget in after)
    assert found[-1] < 5_600


def test_nothing_below_what_one_row_takes_is_asked_for(tried: Try):
    each = tried(0)
    least = budgets.least(each.budgets._flow)
    list(each.budgets.descending([], least + 8))
    assert min(each.asked) >= least


def test_five_failures_in_a_row_are_the_end(tried: Try):
    each = tried(10_000)
    assert list(each.budgets.descending([], 10_000)) == []
    assert each.asked == [9_000, 9_500, 9_750, 9_875, 9_937]


@needs_shared
@pytest.mark.parametrize(
    ("name", "options", "most_instructions"),
    [
        # 38.5 M by blocks in bands alone
        pytest.param("s5006", PlanOptions(sram_bytes=14945), 26_000_000, marks=pytest.mark.long),
        # refused where one budget is tried
        pytest.param("s5002", PlanOptions(sram_bytes=1389, stream_input=True), 1_750_000, marks=pytest.mark.long),
    ],
)
def test_rows_and_blocks_that_are_recomputed_compete(name: str, options: PlanOptions, most_instructions: int) -> None:
    made = plan(SHARED / "sram-cases" / f"{name}.tflite", options)

    assert made.arena_bytes <= options.sram_bytes
    assert made.predicted_instructions < most_instructions


def test_more_memory_never_costs_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Budgets between the smallest arena and whole tensors, for random graphs; the search is short."""
    few_tries(monkeypatch)
    compared = 0
    for seed in range(12):
        graph = random_graph(seed)
        cuts = Cuts(graph, stages(graph))
        low = schedule(cuts, PlanRequest(Goal.SRAM, most_macs=None)).plan
        before = None
        for part in range(5):
            room = low.outcome.whole_tensor_bytes - low.arena_bytes
            request = PlanRequest(Goal.TIME, low.arena_bytes + room * part // 4, most_macs=None)
            made = schedule(cuts, request)
            now = time(made.plan, made.stages)
            assert made.plan.arena_bytes <= request.capacity_bytes
            assert before is None or now <= before * 1.01, f"seed {seed}, {request.capacity_bytes} bytes"
            compared += before is not None
            before = now
    assert compared > 40


@pytest.mark.parametrize(("most", "found"), [(None, ""), (100, "badc"), (20, "bac"), (19, "bc"), (9, "c")])
def test_other_forms_are_tried_from_the_lowest_peak_on(most: int | None, found: str, monkeypatch: Any) -> None:
    """Of equal peaks the first one first; a form that copies or samples pixels is tried whatever its peak by rows."""
    peaks = {"a": 20, "b": 10, "c": 101, "d": 21}
    monkeypatch.setattr(search, "uncut", lambda cuts, request: cuts)
    monkeypatch.setattr(search, "lowest_peak", lambda cuts: peaks[cuts.name])
    forms = [SimpleNamespace(name=name) for name in "abcd"]
    cuts: Any = SimpleNamespace(smaller=forms, copying=forms[2], sampling=None)
    made = search._Search(cuts, PlanRequest(Goal.TIME), (), lambda _: None)._others_within(most)

    assert "".join(each.name for each in made) == found  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("needed", "searched", "found"),
    [(133, True, "ac"), (134, True, "a"), (134, False, "ac")],  # c copies, and its peak is above the 100 bytes
)
def test_no_form_is_searched_where_far_more_is_needed(needed: int, searched: bool, found: str, monkeypatch: Any):
    peaks = {"a": 100, "b": 134, "c": 134}
    monkeypatch.setattr(search, "uncut", lambda cuts, request: cuts)
    monkeypatch.setattr(search, "lowest_peak", lambda cuts: peaks[cuts.name])
    forms = [SimpleNamespace(name=name) for name in "abc"]
    rows = SimpleNamespace(node=SimpleNamespace(output=SimpleNamespace(type=SimpleNamespace(rows=1001))))
    cuts: Any = SimpleNamespace(smaller=forms, copying=forms[2], sampling=None, stages=[rows])
    refusal = DoesNotFit("", needed, 100)
    refusal.searched = searched
    tried = []

    def refused(self: Any, form: Any) -> None:
        tried.append(form.name)
        raise DoesNotFit("", needed + 1, 100)

    monkeypatch.setattr(search._Search, "_made", refused)
    with pytest.raises(DoesNotFit) as raised:
        search._Search(cuts, PlanRequest(Goal.TIME), (), lambda _: None)._other_that_fits(refusal)
    assert "".join(tried) == found
    assert raised.value is refusal


class _Form(SimpleNamespace):
    __hash__ = object.__hash__


@pytest.mark.parametrize(
    ("bound_of", "interrupted", "least", "bound"),
    [(ANY_ORDER, False, 80, 80), (ANY_ORDER, False, 95, 90), (ANY_ORDER, True, 80, 90), ("groups", False, 80, 90)],
)
def test_a_form_that_is_not_planned_may_lower_the_bound(
    bound_of: str, interrupted: bool, least: int, bound: int, monkeypatch: Any
) -> None:
    """The graph is planned, within 100 bytes and at least 90; its other form's peak is so high that it is not."""
    outcome = SimpleNamespace(
        bound_bytes=90,
        bound_of=bound_of,
        interrupted=interrupted,
        status=Status.OPTIMAL,
        reason="as low as can be",
        again=None,
    )
    made: Any = SimpleNamespace(plan=SimpleNamespace(outcome=outcome, total_bytes=100), time=1.0)
    made.with_outcome = lambda **changes: changes
    other = _Form(peak=200)
    cuts: Any = _Form(peak=100, smaller=[other], copying=None, sampling=None)
    monkeypatch.setattr(search, "uncut", lambda each, request: each)
    monkeypatch.setattr(search, "lowest_peak", lambda each: each.peak)
    monkeypatch.setattr(search, "least_in_any_order", lambda each, wanted: least if each is other else wanted)
    monkeypatch.setattr(search._Search, "_made", lambda self, each, known=None: made)
    found: Any = search._Search(cuts, PlanRequest(Goal.SRAM), (), lambda _: None)._smallest()

    reason = f"as low as can be; another form of the graph has the bound {bound}, this one 90"
    lowered = {"bound_bytes": bound, "status": Status.FEASIBLE, "reason": reason}
    assert found == (lowered if bound < 90 else made)


@pytest.mark.parametrize(
    ("options", "capacity", "most"),
    [
        (Options(recompute_percent=5.0), None, 50_000),
        (Options(slower_percent=50.0), None, 500_000),
        (Options(recompute_percent=5.0, slower_percent=50.0), 1000, 50_000),
        (Options(goal=Goal.SRAM), 1000, 0),
        (Options(), None, 0),
        (Options(), 1000, None),
    ],
)
def test_so_many_macs_may_be_computed_again_as_the_options_say(
    options: Options, capacity: int | None, most: int | None
) -> None:
    assert _most_macs(SimpleNamespace(macs=1_000_000), options, capacity) == most  # type: ignore[arg-type]
