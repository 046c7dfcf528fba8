"""Graphs of many nodes: nothing on the way to an answer grows with the square of their number."""

from __future__ import annotations

import random
from collections import Counter
from math import inf

from shoehorn_mcu.planner.remat.check import check
from shoehorn_mcu.planner.remat.graph import Graph
from shoehorn_mcu.planner.remat.memory import duration, peak, pruned
from shoehorn_mcu.planner.remat.milestones import Milestones
from shoehorn_mcu.planner.remat.outcome import Limit

NODES = 20_000


def chain() -> Graph:
    """A chain with skips of up to 200 nodes."""
    pick = random.Random(1)
    inputs: list[set[int]] = [set() if v == 0 else {v - 1} for v in range(NODES)]
    for u in range(0, NODES - 200, 5):
        inputs[u + pick.randint(2, 200)].add(u)
    sizes = tuple(pick.randint(1, 100) for _ in inputs)
    names = tuple(map(str, range(NODES)))
    return Graph(names, sizes, sizes, tuple(tuple(sorted(reads)) for reads in inputs), tuple(range(NODES)))


def test_a_chain_of_many_nodes_is_measured_pruned_and_checked():
    """In some tenths of a second: what grows with the square of the nodes would take half a minute."""
    graph = chain()
    kept = pruned(graph, (*graph.order, *range(100)))
    highest, total = peak(graph, kept), duration(graph, kept)

    assert check(graph, kept, highest, highest, total) == []
    assert Counter(kept) == Counter(graph.order)


def test_no_milestone_is_modelled_that_would_take_longer_to_build_than_it_may_run():
    graph = chain()
    budget = peak(graph, graph.order) - 1

    assert Milestones(graph, budget).tighten(Limit(0.15, inf)) is None
