"""Retention intervals with the terms of step graphs: against exhaustive search, and on rows of small problems."""

from __future__ import annotations

from time import monotonic
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_again import counted, op_by_op, u_net
from test_remat import graph_of

from shoehorn_mcu.planner.order.flow import Flow
from shoehorn_mcu.planner.order.replay import replay
from shoehorn_mcu.planner.recompute.search import recomputed
from shoehorn_mcu.planner.remat import retention, slots
from shoehorn_mcu.planner.remat.graph import LIMIT, Graph
from shoehorn_mcu.planner.remat.memory import Terms, duration, last_readers, peak
from shoehorn_mcu.planner.remat.neighbourhood import retained, windowed
from shoehorn_mcu.planner.remat.outcome import Effort, Limit

Problem = tuple[Graph, Terms]


def limit() -> Limit:
    return Limit(20.0, monotonic() + 1e6)  # the clock never decides


@st.composite
def problems(draw: Any) -> Problem:
    """Up to five nodes, some with memory of their own, some that take an input over, some that may run once only."""
    n, word = draw(st.integers(2, 5)), draw(st.sampled_from((1, 4)))
    edges = [(u, v) for v in range(n) for u in range(v) if draw(st.integers(0, 9)) < 6]
    sizes = [word * size for size in draw(st.lists(st.integers(0, 6), min_size=n, max_size=n))]
    durations = draw(st.lists(st.integers(1, 5), min_size=n, max_size=n))
    graph = graph_of(sizes, durations, edges)
    most = tuple(draw(st.sampled_from((1, 2, 2))) for _ in range(n))
    extra = tuple(word * draw(st.sampled_from((0, 0, 3))) for _ in range(n))
    reuse = tuple(draw(st.sampled_from((-1, *reads))) for reads in graph.inputs)
    return graph, Terms(most, extra, reuse, tuple(word * draw(st.sampled_from((0, 0, 3))) for _ in reuse))


def every(graph: Graph, terms: Terms) -> list[tuple[int, ...]]:
    """All sequences that run each node between once and as often as it may, each after its inputs."""
    found, edge = [], [()]
    while edge:
        edge = [
            (*s, v)
            for s in edge
            for v in graph.nodes
            if s.count(v) < terms.most[v] and set(graph.inputs[v]) <= set(s) and s[-1:] != (v,)
        ]
        found += [s for s in edge if len(set(s)) == len(graph.nodes)]
    return found


def memory(graph: Graph, terms: Terms, sequence: tuple[int, ...]) -> int:
    """The peak by the words of the contract, step by step."""
    last = last_readers(graph, sequence)
    highest = 0
    for step, v in enumerate(sequence):
        alive = [k for k in range(step) if last[k] >= step]
        over = [k for k in alive if sequence[k] == terms.reuse[v] and last[k] == step]
        taken = sum(max(0, min(graph.sizes[sequence[k]], graph.sizes[v]) - terms.behind[v]) for k in over)
        highest = max(highest, sum(graph.sizes[sequence[k]] for k in alive) + graph.sizes[v] + terms.extra[v] - taken)
    return highest


def below(problem: Problem, part: float) -> int:
    """A budget at or below the peak of the given order."""
    graph, terms = problem
    return int((0.5 + part / 2) * memory(graph, terms, graph.order))


@settings(max_examples=18, deadline=None, suppress_health_check=list(HealthCheck))
@given(problems(), st.floats(0, 1))
def test_the_model_reaches_the_least_of_all_sequences(problem: Problem, part: float):
    graph, terms = problem
    budget = below(problem, part)
    best = min((duration(graph, s) for s in every(graph, terms) if memory(graph, terms, s) <= budget), default=None)
    found = retention.solve(graph, budget, retention.Options(terms.most, terms), limit())

    assert found.proven
    if best is None:
        assert (found.sequence, found.bound) == (None, LIMIT)
        return
    assert found.sequence is not None
    assert duration(graph, found.sequence) == found.bound == best
    assert memory(graph, terms, found.sequence) <= budget


@settings(max_examples=24, deadline=None, suppress_health_check=list(HealthCheck))
@given(problems(), st.floats(0, 1), st.integers(0, 3))
def test_slots_give_the_least_of_all_choices_of_them(problem: Problem, part: float, far: int):
    graph, terms = problem
    budget = below(problem, part)
    places, steps = slots.offered(graph, terms, graph.order, far, 1)
    assert [places[t] for t in steps] == list(graph.order)
    assert all(places.count(v) <= terms.most[v] for v in graph.nodes)
    found = slots.solve(graph, places, budget, limit(), terms)

    best = min(
        (duration(graph, s) for c in _choices(graph, places) if memory(graph, terms, s := _at(places, c)) <= budget),
        default=None,
    )
    assert found.proven
    assert found.bound == (LIMIT if best is None else best)
    assert (found.sequence and memory(graph, terms, found.sequence) <= budget) == (None if best is None else True)


def _choices(graph: Graph, places: list[int]) -> list[tuple[int, ...]]:
    """All choices of slots that run every node, each after its inputs."""
    found = []
    for bits in range(1 << len(places)):
        slots_run = tuple(t for t in range(len(places)) if bits >> t & 1)
        chosen = _at(places, slots_run)
        ready = all(set(graph.inputs[v]) <= set(chosen[:t]) for t, v in enumerate(chosen))
        if ready and len(set(chosen)) == len(graph.nodes):
            found.append(slots_run)
    return found


def _at(places: list[int], slots_run: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(places[t] for t in slots_run)


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(problems(), st.floats(0, 1), st.integers(0, 3), st.data())
def test_outside_of_what_is_free_the_hint_is_the_choice(problem: Problem, part: float, far: int, data: Any):
    graph, terms = problem
    places, _ = slots.offered(graph, terms, graph.order, far, 1)
    fitting = [c for c in _choices(graph, places) if memory(graph, terms, _at(places, c)) <= below(problem, part)]
    if not fitting:
        return
    hint = data.draw(st.sampled_from(fitting))
    first = data.draw(st.integers(0, len(places) - 1))
    free = range(first, data.draw(st.integers(first, len(places))))
    found = slots.solve(graph, places, below(problem, part), limit(), terms, hint, free=free)

    fixed = set(hint) - set(free)
    same = [c for c in fitting if set(c) - set(free) == fixed]
    assert found.sequence is not None
    assert duration(graph, found.sequence) == min(duration(graph, _at(places, c)) for c in same)


def test_a_window_keeps_what_was_run_again_for_nothing():
    graph = graph_of([5, 2, 6, 2, 1], [3, 1, 1, 1, 1], [(0, 1), (1, 2), (2, 3), (0, 4), (3, 4)])
    terms = Terms((2,) * 5, (0,) * 5, (-1,) * 5)
    longer = (0, 1, 2, 3, 0, 4)

    assert windowed(graph, terms, longer, 13, limit()) == tuple(graph.order)
    assert windowed(graph, terms, longer, 9, limit()) == longer


def test_an_improvement_starts_the_offers_again_from_the_nearest(monkeypatch: pytest.MonkeyPatch):
    graph = graph_of([5, 2, 6, 2, 1], [3, 1, 1, 1, 1], [(0, 1), (1, 2), (2, 3), (0, 4), (3, 4)])
    terms = Terms((2,) * 5, (0,) * 5, (-1,) * 5)
    real, distances = slots.offered, list[int]()

    def offered(graph: Graph, terms: Terms, sequence: tuple[int, ...], far: int, more: int) -> Any:
        distances.append(far)
        return real(graph, terms, sequence, far, more)

    monkeypatch.setattr(slots, "offered", offered)
    found = retained(graph, terms, (0, 1, 2, 3, 0, 4), 13, limit())

    assert (found.sequence, found.least) == (tuple(graph.order), 7)
    assert distances == [8, 8, 30]


def test_a_skip_that_does_not_fit_is_run_again_and_never_for_more_than_before():
    # 0 is read by 1 and, past a peak at 2 and 3, by 4
    graph = graph_of([5, 2, 6, 2, 1], [3, 1, 1, 1, 1], [(0, 1), (1, 2), (2, 3), (0, 4), (3, 4)])
    terms = Terms((2,) * 5, (0,) * 5, (-1,) * 5)
    places, steps = slots.offered(graph, terms, graph.order, 1, 1)
    found = slots.solve(graph, places, 9, limit(), terms)

    assert peak(graph, graph.order) == 13
    assert found.sequence == (0, 1, 2, 3, 0, 4)
    assert found.proven
    longer = (0, 1, 2, 3, 0, 4)
    assert retained(graph, terms, longer, 13, limit()).sequence == tuple(graph.order)
    assert retained(graph, terms, longer, 9, limit()).sequence == longer
    assert len(steps) == 5


def test_rows_computed_again_are_those_of_the_least_work_offered():
    problem = u_net(8)
    start = op_by_op(problem)
    budget = 8 * 4 + 8 * 8 + 8 * 4 + 4 * 40
    first, second = (recomputed(problem, start, budget, Effort(1, stop=100)) for _ in range(2))

    assert first is not None
    assert first == second
    assert counted(problem, first.events) == (replay(Flow(problem), first.events).peak, first.work)
    assert first.once < first.work
    assert first.least_work is not None
    assert first.once <= first.least_work <= first.work
    assert "for the recompute positions tried" in first.reason
