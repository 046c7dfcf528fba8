"""What a sequence costs: a step reads the latest earlier copy of each input; a copy lives until its last reader."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from generator.planner.remat.graph import Graph


def last_readers(graph: Graph, sequence: Sequence[int]) -> list[int]:
    """For each step the last step that reads its output, or itself."""
    last = list(range(len(sequence)))
    latest: dict[int, int] = {}
    for step, v in enumerate(sequence):
        for u in graph.inputs[v]:
            last[latest[u]] = step
        latest[v] = step
    return last


def profile(graph: Graph, sequence: Sequence[int]) -> list[int]:
    """The memory at each step: earlier outputs that this or a later step still reads, and the step's own output."""
    change = [0] * (len(sequence) + 1)
    for step, last in enumerate(last_readers(graph, sequence)):
        change[step] += graph.sizes[sequence[step]]
        change[last + 1] -= graph.sizes[sequence[step]]
    return list(accumulate(change[:-1]))


def peak(graph: Graph, sequence: Sequence[int]) -> int:
    """The most memory that any step takes."""
    return max(profile(graph, sequence))


def duration(graph: Graph, sequence: Sequence[int]) -> int:
    """The sum over all steps."""
    return sum(graph.durations[v] for v in sequence)


def working_set(graph: Graph, node: int) -> int:
    """What a node's step takes in any sequence: its inputs and its output."""
    return graph.sizes[node] + sum(graph.sizes[u] for u in graph.inputs[node])


def pruned(graph: Graph, sequence: Sequence[int]) -> tuple[int, ...]:
    """The sequence without the repeats that nobody reads; its peak is no higher."""
    while True:
        last, seen, kept = last_readers(graph, sequence), {v: sequence.count(v) for v in graph.nodes}, []
        for step, v in enumerate(sequence):
            if last[step] == step and seen[v] > 1:
                seen[v] -= 1
            else:
                kept.append(v)
        if len(kept) == len(sequence):
            return tuple(kept)
        sequence = kept
