"""The shortest sequence of a small graph, by search over all states that a sequence can be in.

A state is which nodes have run and which outputs are held (a pebbling of the graph: Sethi, Complete register allocation
problems, 1975). A* takes them in the order of the time spent and of the time that nodes which have not run still need.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

from shoehorn_mcu.planner.remat.graph import Graph
from shoehorn_mcu.planner.remat.memory import pruned


class _State(NamedTuple):
    """Sets of nodes, a bit each."""

    ran: int
    held: int


_START = _State(0, 0)
_Ways = dict[_State, tuple[_State, int | None]]
"""By state: the state before it, and the node that was run from there; None: an output was dropped."""


def shortest(graph: Graph, budget: int) -> tuple[int, ...] | None:
    """The sequence of least duration whose peak is at most `budget` bytes; None: no sequence fits.

    Any order and any number of runs of each node. Takes up to 3^n states: for n of at most MOST_NODES.
    """
    inputs = [sum(1 << u for u in each) for each in graph.inputs]
    every = (1 << len(graph.names)) - 1
    came: _Ways = {}
    queue: list[tuple[int, _State, int, _State, int | None]] = [(sum(graph.durations), _START, 0, _START, None)]
    while queue:
        least, state, memory, before, node = heapq.heappop(queue)
        if state in came:
            continue
        came[state] = before, node
        if state.ran == every:
            return pruned(graph, _sequence(came, state))
        for v, size in enumerate(graph.sizes):
            if state.held >> v & 1:
                dropped = _State(state.ran, state.held ^ 1 << v)
                heapq.heappush(queue, (least, dropped, memory - size, state, None))
            elif inputs[v] & ~state.held == 0 and memory + size <= budget:
                extra = graph.durations[v] if state.ran >> v & 1 else 0
                run = _State(state.ran | 1 << v, state.held | 1 << v)
                heapq.heappush(queue, (least + extra, run, memory + size, state, v))
    return None


def _sequence(came: _Ways, state: _State) -> list[int]:
    """The nodes run on the way to a state."""
    sequence: list[int] = []
    while state != _START:
        state, node = came[state]
        sequence += [] if node is None else [node]
    return sequence[::-1]
