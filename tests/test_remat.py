"""Rematerialisation on bare graphs: against exhaustive search, the independent check, and published instances."""

from __future__ import annotations

import dataclasses
import heapq
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shared import DATA, needs_shared

from shoehorn_mcu.cli.group import main
from shoehorn_mcu.planner.effort import REMAT
from shoehorn_mcu.planner.remat import lasting, retention, solver
from shoehorn_mcu.planner.remat.check import check
from shoehorn_mcu.planner.remat.graph import Graph, GraphError, parse, read
from shoehorn_mcu.planner.remat.memory import duration, peak, profile, pruned, working_set
from shoehorn_mcu.planner.remat.milestones import Milestones
from shoehorn_mcu.planner.remat.outcome import Effort, Limit, Status
from shoehorn_mcu.planner.remat.rematerialise import rematerialise
from shoehorn_mcu.planner.remat.search import ORDER, QUICK, Search

KEYS = [
    "status",
    "seconds",
    "budget",
    "peak",
    "duration",
    "base_duration",
    "increase_percent",
    "bound_percent",
    "sequence",
]
MOCCASIN = DATA / "planning" / "moccasin"


def graph_of(sizes: list[int], durations: list[int], edges: list[tuple[int, int]]) -> Graph:
    """A graph whose nodes stand in an order that runs."""
    inputs = tuple(tuple(sorted({u for u, w in edges if w == v})) for v in range(len(sizes)))
    nodes = range(len(sizes))
    return Graph(tuple(nodes), tuple(sizes), tuple(durations), inputs, tuple(nodes))


@st.composite
def graphs(draw: Any, largest: int = 7, least: int = 0) -> Graph:
    n = draw(st.integers(2, largest))
    pairs = [(u, v) for v in range(n) for u in range(v)]
    edges = [pair for pair in pairs if draw(st.integers(0, 9)) < 5]
    sizes = draw(st.lists(st.integers(0, 9), min_size=n, max_size=n))
    durations = draw(st.lists(st.integers(least, 5), min_size=n, max_size=n))
    return graph_of(sizes, durations, edges)


def budget_of(graph: Graph, part: float) -> int:
    """Between the least that any sequence needs and the peak of the given order."""
    low, high = max(working_set(graph, v) for v in graph.nodes), peak(graph, graph.order)
    return low + int(part * (high - low))


State = tuple[Any, ...]


def shortest(
    start: State, moves: Callable[[State], Iterator[tuple[int, State]]], done: Callable[[State], bool]
) -> int | None:
    """Dijkstra: the least cost to a state that is done; None: there is no way."""
    queue, seen = [(0, start)], set()
    while queue:
        cost, state = heapq.heappop(queue)
        if state in seen:
            continue
        seen.add(state)
        if done(state):
            return cost
        for extra, to in moves(state):
            heapq.heappush(queue, (cost + extra, to))
    return None


def optimum(graph: Graph, budget: int, copies: int | None = None) -> int | None:
    """The least duration of all sequences, by search over (runs of each node, outputs held)."""
    n = len(graph.names)

    def moves(state: State) -> Iterator[tuple[int, State]]:
        runs, held = state
        for v in graph.nodes:
            if held >> v & 1:
                yield 0, (runs, held & ~(1 << v))
                continue
            memory = graph.sizes[v] + sum(graph.sizes[u] for u in graph.nodes if held >> u & 1)
            if memory > budget or any(not held >> u & 1 for u in graph.inputs[v]) or runs[v] == copies:
                continue
            counted = runs[v] + 1 if copies else 1
            yield graph.durations[v], ((*runs[:v], counted, *runs[v + 1 :]), held | 1 << v)

    return shortest(((0,) * n, 0), moves, lambda state: all(state[0]))


def limit(deterministic: float = 20.0) -> Limit:
    return Limit(deterministic, monotonic() + 1e6)  # the clock never decides


# --- Against exhaustive search


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs(), st.floats(0, 1))
def test_small_graphs_get_the_optimum(graph: Graph, part: float):
    budget = budget_of(graph, part)
    least = optimum(graph, budget)
    outcome = rematerialise(graph, budget)

    if least is None:
        assert outcome.status is Status.INFEASIBLE
        return
    assert outcome.status is Status.OPTIMAL
    assert outcome.duration == outcome.bound == least
    assert check(graph, outcome.sequence, budget, outcome.peak, outcome.duration) == []


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs(least=1), st.floats(0, 1))
def test_the_search_of_larger_graphs_finds_true_bounds_and_sequences(graph: Graph, part: float):
    budget = budget_of(graph, part)
    least = optimum(graph, budget)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("shoehorn_mcu.planner.effort.STATES.MOST_NODES", 0)
        outcome = rematerialise(graph, budget, Effort(0.2, stop=60))

    if outcome.status is Status.UNKNOWN:
        return
    if least is None:
        assert outcome.status is Status.INFEASIBLE
        return
    assert outcome.bound <= least <= outcome.duration
    assert (outcome.status is Status.OPTIMAL) == (outcome.bound == outcome.duration)
    assert check(graph, outcome.sequence, budget, outcome.peak, outcome.duration) == []


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs(), st.floats(0, 1))
def test_every_milestone_gives_a_true_bound(graph: Graph, part: float):
    budget = budget_of(graph, part)
    least = optimum(graph, budget)
    milestones = Milestones(graph, budget)
    while (step := milestones.tighten(limit())) is not None:
        assert least is None or step.bound <= least
        assert step.sequence is None or peak(graph, step.sequence) <= budget


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs(largest=4), st.floats(0, 1), st.integers(1, 2))
def test_retention_intervals_are_exact_in_any_order(graph: Graph, part: float, copies: int):
    budget = budget_of(graph, part)
    found = retention.solve(graph, budget, retention.Options((copies,) * len(graph.names)), limit())

    assert found.proven
    assert (found.sequence and duration(graph, found.sequence)) == optimum(graph, budget, copies)


def test_the_model_s_first_phase_counts_where_the_second_finds_nothing(monkeypatch: pytest.MonkeyPatch):
    graph, budget = skip_net(4), int(0.8 * peak(skip_net(4), skip_net(4).order))
    answers = iter([solver.solve, lambda *_: solver.Answer(None, False, False, False, lambda _: 0)])
    monkeypatch.setattr(solver, "solve", lambda *arguments: next(answers)(*arguments))
    found = retention.solve(graph, budget, retention.Options((2,) * len(graph.names)), limit())

    assert found.sequence is not None and not found.proven
    assert check(graph, found.sequence, budget, peak(graph, found.sequence), duration(graph, found.sequence)) == []


def test_recomputing_pays_where_a_skip_is_long():
    # 0 is large and read at the end; between, 1..4 are a chain.
    graph = graph_of([8, 4, 4, 4, 1], [1, 2, 2, 2, 2], [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)])
    outcome = rematerialise(graph, 15, Effort(1, stop=60))

    assert peak(graph, graph.order) == 16
    assert outcome.sequence == (0, 1, 2, 3, 0, 4) or outcome.sequence == (0, 1, 2, 0, 3, 4)
    assert (outcome.status, outcome.duration, outcome.bound) == (Status.OPTIMAL, 10, 10)


# --- Laws


@settings(max_examples=100, deadline=None)
@given(graphs(largest=9), st.randoms(use_true_random=False))
def test_the_check_agrees_with_the_measure_and_pruning_lowers_nothing_but_costs(graph: Graph, rng: random.Random):
    sequence = with_repeats(graph, rng)
    lean = pruned(graph, sequence)

    assert check(graph, sequence, peak(graph, sequence), peak(graph, sequence), duration(graph, sequence)) == []
    assert peak(graph, lean) <= peak(graph, sequence)
    assert duration(graph, lean) <= duration(graph, sequence)
    assert set(lean) == set(graph.nodes)


def with_repeats(graph: Graph, rng: random.Random) -> list[int]:
    """The given order with nodes put in again at random."""
    sequence = list(graph.order)
    for _ in range(rng.randrange(8)):
        at = rng.randrange(1, len(sequence) + 1)
        sequence.insert(at, rng.choice(sequence[:at]))
    return sequence


def skip_net(levels: int, size: int = 100) -> Graph:
    """An hour-glass: down `levels` nodes, up again, each level's output read on both ways."""
    n = 2 * levels + 1
    edges = [(v, v + 1) for v in range(n - 1)] + [(levels - k, levels + k) for k in range(1, levels + 1)]
    rng = random.Random(levels)
    return graph_of([size + rng.randrange(size) for _ in range(n)], [1 + rng.randrange(50) for _ in range(n)], edges)


@pytest.mark.parametrize("part", [0.9, 0.7, 0.5])
def test_equal_calls_give_equal_answers_within_the_budget(part: float):
    graph = skip_net(12)
    budget = int(part * peak(graph, graph.order))
    first, second = (rematerialise(graph, budget, Effort(2, stop=60)) for _ in range(2))

    assert first == second
    assert first.sequence and first.peak <= budget


@pytest.mark.parametrize("found", ["none", "above the budget"])
def test_of_many_nodes_what_exceeds_the_budget_is_no_answer(found: str, monkeypatch: pytest.MonkeyPatch):
    graph = skip_net(12)
    budget = int(0.7 * peak(graph, graph.order))
    monkeypatch.setattr(REMAT, "MANY_NODES", 1)
    monkeypatch.setattr(lasting, "relieved", lambda *_: None if found == "none" else graph.order)
    outcome = rematerialise(graph, budget, Effort(1, stop=60))

    assert outcome.sequence and outcome.peak <= budget


@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize("part", [0.6, 0.95])
def test_memory_above_the_budget_is_summed_exactly_with_and_without_blocks(blocks: bool, part: float):
    graph = skip_net(60)  # 121 nodes in 427 slots, the last block of which is not full
    budget = int(part * peak(graph, graph.order))
    search = Search(graph, budget, 3_000_000, lambda: True, blocks=blocks)
    for phase in (ORDER, QUICK):
        search.run(phase, 0)
        above = [sum(max(0, memory - budget) for memory in profile(graph, each)) for each in search.last]

        assert search.over == min(above)
    assert search.best is None or peak(graph, search.best) <= budget


def test_temperatures_are_lower_for_more_nodes():
    assert QUICK.of(1000) == QUICK.of(10) == QUICK
    assert QUICK.of(4000).hot == QUICK.hot / 4 and QUICK.of(4000).cold == QUICK.cold / 4


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda s: s[:-1], "never run"),
        (lambda s: (*s[1:], s[0]), "before it is run"),
        (lambda s: (*s, s[-1]), "the duration is"),
    ],
)
def test_a_harmed_sequence_is_caught(harm: Callable[[tuple[int, ...]], tuple[int, ...]], said: str):
    graph = skip_net(6)
    outcome = rematerialise(graph, int(0.8 * peak(graph, graph.order)), Effort(1, stop=60))
    faults = check(graph, harm(outcome.sequence), outcome.budget, outcome.peak, outcome.duration)

    assert any(said in fault for fault in faults)


def test_false_claims_are_caught():
    graph = skip_net(6)
    highest, total = peak(graph, graph.order), duration(graph, graph.order)

    assert check(graph, graph.order, highest, highest, total) == []
    assert check(graph, graph.order, highest - 1, highest, total) == [
        f"the peak is {highest}, the budget {highest - 1}"
    ]
    assert check(graph, graph.order, highest, highest - 1, total) == [f"the peak is {highest}, not {highest - 1}"]
    assert check(graph, graph.order, highest, highest, total - 1) == [f"the duration is {total}, not {total - 1}"]


def test_a_recomputation_that_is_left_out_is_caught():
    graph = skip_net(8)
    outcome = rematerialise(graph, int(0.6 * peak(graph, graph.order)), Effort(1, stop=60))
    repeats = [i for i, v in enumerate(outcome.sequence) if v in outcome.sequence[:i]]
    assert repeats
    for i in repeats:
        shorter = outcome.sequence[:i] + outcome.sequence[i + 1 :]

        assert check(graph, shorter, outcome.budget, outcome.peak, duration(graph, shorter)), i


def test_huge_numbers_fit():
    small = skip_net(8)
    unit = (1 << 61) // sum(small.sizes)
    huge = dataclasses.replace(
        small, sizes=tuple(unit * s for s in small.sizes), durations=tuple(unit * d for d in small.durations)
    )
    budget = int(0.7 * peak(small, small.order))
    want, found = (
        rematerialise(small, budget, Effort(1, stop=60)),
        rematerialise(huge, unit * budget, Effort(1, stop=60)),
    )

    assert (found.peak, found.duration, found.bound) == (unit * want.peak, unit * want.duration, unit * want.bound)


def test_ctrl_c_gives_the_best_so_far(monkeypatch: pytest.MonkeyPatch):
    graph = skip_net(12)
    budget = int(0.6 * peak(graph, graph.order))
    run = Search.run

    def interrupted(self: Search, *arguments: Any) -> None:
        run(self, *arguments)
        if self.best is not None:
            raise KeyboardInterrupt

    monkeypatch.setattr(Search, "run", interrupted)
    monkeypatch.setattr(Milestones, "tighten", lambda *_: None)
    outcome = rematerialise(graph, budget, Effort(2, stop=60))

    assert (outcome.status, outcome.reason) == (Status.FEASIBLE, "interrupted")
    assert outcome.peak <= budget


# --- Bad input


def node_link(**changes: Any) -> dict[str, Any]:
    nodes = [{"id": i, "size": 4, "duration": 1} for i in range(3)]
    return {
        "directed": True,
        "nodes": nodes,
        "links": [{"source": 0, "target": 1}, {"source": 1, "target": 2}],
        **changes,
    }


def test_a_graph_is_read_by_any_of_its_names():
    old = {
        "nodes": [{"name": "a", "out_cost": 5, "duration": 0}, {"name": "b", "cost_ram": 1 << 40, "cost_cpu": 2}],
        "links": [{"0": "b", "1": "a"}, {"0": "b", "1": "a"}],
    }

    assert parse(old) == Graph(("a", "b"), (5, 1 << 40), (0, 2), ((1,), ()), (1, 0))
    assert parse(node_link(graph={"order": [0, 1, 2]})).order == (0, 1, 2)
    assert parse({**node_link(links=None), "links": [], "edges": None}).edges == []


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([], "node-link object"),
        (node_link(directed=False), "undirected"),
        ({"links": []}, "`nodes` is missing"),
        ({"nodes": [{"id": 0, "size": 1, "duration": 1}]}, "`edges` is missing"),
        (node_link(nodes=[]), "no nodes"),
        (node_link(nodes=[{"size": 1, "duration": 1}]), "node 0 has no `id`"),
        (node_link(nodes=[{"id": 0, "size": 1, "duration": 1}] * 2), "two nodes are called 0"),
        (node_link(nodes=[{"id": 7, "duration": 1}], links=[]), "node 7 has none of `size`"),
        (node_link(nodes=[{"id": 7, "size": 1}], links=[]), "node 7 has none of `duration`"),
        (node_link(nodes=[{"id": 7, "size": -1, "duration": 1}], links=[]), "node 7: `size` is -1"),
        (node_link(nodes=[{"id": 7, "size": 1, "duration": -3}], links=[]), "node 7: `duration` is -3"),
        (node_link(nodes=[{"id": 7, "size": 1.5, "duration": 1}], links=[]), "`size` is 1.5"),
        (node_link(nodes=[{"id": 7, "size": True, "duration": 1}], links=[]), "`size` is True"),
        (node_link(nodes=[{"id": 7, "size": 1 << 62, "duration": 1}], links=[]), "below 2^62"),
        (node_link(nodes=[{"id": 7, "size": float("nan"), "duration": 1}], links=[]), "`size` is nan"),
        (node_link(nodes=[{"id": "x" * 10**6, "size": 1}], links=[]), "xxx... has none of `duration`"),
        (node_link(nodes=[{"id": 7, "size": [1] * 10**5, "duration": 1}], links=[]), "1, 1,...; a whole number"),
        (node_link(nodes=[[7]], links=[]), "node 0 has no `id`"),
        (node_link(links=[{"source": [0], "target": 1}]), "link 0: its source [0] is no node"),
        (node_link(links=[{"source": 0, "target": 9}]), "link 0: its target 9 is no node"),
        (node_link(links=[{"source": 0}]), "link 0 has no `target`"),
        (node_link(links=[{"source": 0, "target": 0}]), "cycle: 0 -> 0"),
        (node_link(links=[{"source": 0, "target": 1}, {"source": 1, "target": 0}]), "cycle: "),
        (node_link(graph={"order": [1, 0, 2]}), "runs 1 before its input 0"),
        (node_link(graph={"order": [0, 1]}), "`order` holds 2 of 3 nodes"),
        (node_link(graph={"order": [0, 1, 5]}), "no list of the nodes' ids"),
    ],
)
def test_a_bad_graph_is_refused_by_name(data: Any, said: str):
    with pytest.raises(GraphError, match=r".") as refusal:
        parse(data)

    assert said in str(refusal.value) and "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 200


def gen(*arguments: str | Path) -> Result:
    """`gen` as a user calls it; a traceback fails the test."""
    done = CliRunner().invoke(main, [str(each) for each in arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


@pytest.fixture
def hour_glass(tmp_path: Path) -> Path:
    graph = skip_net(6)
    nodes = [{"id": v, "size": graph.sizes[v], "duration": graph.durations[v]} for v in graph.nodes]
    links = [{"source": u, "target": v} for u, v in graph.edges]
    path = tmp_path / "glass.json"
    path.write_text(json.dumps({"directed": True, "nodes": nodes, "links": links}))
    return path


def test_json_says_all_and_a_sequence_of_ids(hour_glass: Path):
    graph = read(hour_glass)
    budget = int(0.7 * peak(graph, graph.order))
    said = json.loads(gen("remat", hour_glass, "--budget", str(budget), "--seconds", "1", "--json").stdout)

    assert list(said) == KEYS
    assert check(graph, said["sequence"], budget, said["peak"], said["duration"]) == []
    assert said["increase_percent"] == pytest.approx(100 * (said["duration"] / said["base_duration"] - 1))
    assert 0 <= said["bound_percent"] <= said["increase_percent"]
    assert (said["status"] == "optimal") == (said["bound_percent"] == said["increase_percent"])


def test_in_fixed_order_first_runs_keep_the_order_and_no_node_runs_thrice(hour_glass: Path):
    graph = read(hour_glass)
    budget = int(0.7 * peak(graph, graph.order))
    arguments = ("remat", hour_glass, "--budget", str(budget), "--seconds", "5", "--json")
    said, free_order = (json.loads(gen(*arguments, *more).stdout) for more in (["--fixed-order"], []))

    assert list(said) == KEYS
    assert check(graph, said["sequence"], budget, said["peak"], said["duration"]) == []
    assert list(dict.fromkeys(said["sequence"])) == list(graph.order)
    assert max(map(said["sequence"].count, graph.nodes)) == 2
    assert said["status"] == "optimal"
    assert said["duration"] >= free_order["duration"]


def test_in_fixed_order_what_does_not_fit_is_refused(hour_glass: Path):
    graph = read(hour_glass)
    least = max(working_set(graph, v) for v in graph.nodes)
    done = gen("remat", hour_glass, "--budget", str(least), "--seconds", "5", "--fixed-order", "--json")

    assert done.exit_code == 1
    assert "no sequence found in this order: tried in full" in done.stderr
    assert json.loads(done.stdout)["status"] == "infeasible"


def test_a_budget_below_one_step_is_refused_with_the_step(hour_glass: Path):
    graph = read(hour_glass)
    node = max(graph.nodes, key=lambda v: working_set(graph, v))
    done = gen("remat", hour_glass, "--budget", str(working_set(graph, node) - 1), "--json")

    assert done.exit_code == 1
    assert f"node {node} needs {working_set(graph, node):,}" in done.stderr
    assert json.loads(done.stdout)["status"] == "infeasible"


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 100_000, b"\xff\xfe", b'"text"', b"[" + b"9" * 5000 + b"]"])
def test_unreadable_files_are_refused_in_one_line(content: bytes, tmp_path: Path):
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    done = gen("remat", path, "--budget", "5")

    assert (done.exit_code, done.stdout) == (1, "")
    assert "bad.json" in done.stderr.splitlines()[-1] and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["remat"],
        ["plan", "--graph", "x"],
        ["plan", "m.tflite", "--graph", "x", "--budget", "1"],
        ["plan", "m.tflite", "--budget", "1"],
        ["plan", "m.tflite", "--fixed-order"],
        ["remat", "x"],
        ["remat", "x", "--budget", "-1"],
    ],
)
def test_wrong_usage_exits_with_2(arguments: list[str]):
    assert gen(*arguments).exit_code == 2


# --- Published instances


@needs_shared
@pytest.mark.parametrize(
    ("name", "percent", "increase"),
    [
        ("RLG1", 90, 0.0),
        ("RLG1", 80, 0.0),
        ("RLG2", 90, 0.0),
        ("RLG2", 80, 0.0),
        ("CM1_fcn8_train", 90, 0.029363),
        ("CM1_fcn8_train", 80, 0.136111),
        ("CM2_resnet50_train", 90, 0.108463),
    ],
)
def test_published_instances_are_solved_and_proven(name: str, percent: int, increase: float):
    graph = read(MOCCASIN / f"{name}.json")
    outcome = rematerialise(graph, -(-peak(graph, graph.order) * percent // 100), Effort(60, stop=300))

    assert outcome.status is Status.OPTIMAL
    assert outcome.increase_percent == pytest.approx(increase, abs=1e-5)


# --- Many nodes


def test_outputs_kept_long_are_run_again_only_where_the_order_exceeds_the_budget():
    # u (100 bytes, cheap) and w (100 bytes, dear) are read first and last; the middle is above the budget with both.
    n = 300
    chain = [(v, v + 1) for v in range(2, n - 1)]
    edges = [(0, 1), (0, 2), (1, 2), (0, n - 1), (1, n - 1), *chain]
    sizes, durations = [100, 100] + [10] * (n - 2), [3, 50] + [1] * (n - 2)
    sizes[150] = 40
    graph = graph_of(sizes, durations, edges)
    assert peak(graph, graph.order) == 250
    found = lasting.relieved(graph, graph.order, 249, limit())
    assert found == (*range(n - 1), 0, n - 1)
    assert lasting.relieved(graph, graph.order, 250, limit()) == graph.order
    assert lasting.relieved(graph, graph.order, 149, limit()) is None  # 0 alone, while 1 and the end need it
