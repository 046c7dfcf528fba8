"""What a sequence costs: a step reads the latest earlier copy of each input; a copy lives until its last reader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import add

from shoehorn_mcu.planner.remat.graph import Graph


@dataclass(frozen=True)
class Terms:
    """What a graph does not say of its nodes; without entries there are none."""

    most: tuple[int, ...] = ()  # copies of each node
    extra: tuple[int, ...] = ()  # memory that only the node's own step takes
    reuse: tuple[int, ...] = ()  # the input whose bytes a node takes over where it is the last to read it; -1: none


PLAIN = Terms()


def runs(graph: Graph, sequence: Sequence[int]) -> bool:
    """Whether every step has its inputs from earlier ones."""
    there: set[int] = set()
    for v in sequence:
        if not there.issuperset(graph.inputs[v]):
            return False
        there.add(v)
    return True


def last_readers(graph: Graph, sequence: Sequence[int]) -> list[int]:
    """For each step the last step that reads its output, or itself. The sequence runs."""
    last = list(range(len(sequence)))
    latest: dict[int, int] = {}
    for step, v in enumerate(sequence):
        for u in graph.inputs[v]:
            last[latest[u]] = step
        latest[v] = step
    return last


def profile(graph: Graph, sequence: Sequence[int], terms: Terms = PLAIN) -> list[int]:
    """The memory at each step: earlier outputs that this or a later step still reads, the step's own output and extra
    memory, less what it takes over.
    """
    change = [0] * (len(sequence) + 1)
    own = [terms.extra[v] for v in sequence] if terms.extra else [0] * len(sequence)
    for step, last in enumerate(last_readers(graph, sequence)):
        node, reader = sequence[step], sequence[last]
        change[step] += graph.sizes[node]
        change[last + 1] -= graph.sizes[node]
        if terms.reuse and terms.reuse[reader] == node:
            own[last] -= min(graph.sizes[node], graph.sizes[reader])
    return list(map(add, accumulate(change[:-1]), own))


def peak(graph: Graph, sequence: Sequence[int], terms: Terms = PLAIN) -> int:
    """The most memory that any step takes."""
    return max(profile(graph, sequence, terms))


def duration(graph: Graph, sequence: Sequence[int]) -> int:
    """The sum over all steps."""
    return sum(graph.durations[v] for v in sequence)


def working_set(graph: Graph, node: int) -> int:
    """What a node's step takes in any sequence: its inputs and its output."""
    return graph.sizes[node] + sum(graph.sizes[u] for u in graph.inputs[node])


def pruned(graph: Graph, sequence: Sequence[int]) -> tuple[int, ...]:
    """The sequence without the repeats that nobody reads; its peak is no higher."""
    while True:
        last, seen, kept = last_readers(graph, sequence), Counter(sequence), []
        for step, v in enumerate(sequence):
            if last[step] == step and seen[v] > 1:
                seen[v] -= 1
            else:
                kept.append(v)
        if len(kept) == len(sequence):
            return tuple(kept)
        sequence = kept
