"""Memory and duration of a sequence: a step reads the latest copy of each input; a copy is kept to its last reader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import add
from typing import NamedTuple

from shoehorn_mcu.planner.live_ranges import live_ranges
from shoehorn_mcu.planner.remat.graph import Graph
from shoehorn_mcu.planner.remat.units import scaled


@dataclass(frozen=True)
class Terms:
    """Limits and memory of nodes beyond the graph; an empty tuple means none."""

    most: tuple[int, ...] = ()  # copies of each node
    extra: tuple[int, ...] = ()  # memory that a node needs during its own step only
    reuse: tuple[int, ...] = ()  # the input that a node overwrites in place if it is its last reader; -1: none
    behind: tuple[int, ...] = ()  # bytes by which its output then begins before that input

    def taken_over(self, graph: Graph, node: int) -> int:
        """The memory of the input that a node overwrites in place, as far as its output lies over it."""
        if not self.reuse or self.reuse[node] < 0:
            return 0
        both = min(graph.sizes[self.reuse[node]], graph.sizes[node])
        return max(0, both - self.behind[node]) if self.behind else both


PLAIN = Terms()


class InUnits(NamedTuple):
    """Memory by node, in units of `unit` bytes; what a sequence needs is never less than in bytes."""

    sizes: list[int]
    extra: list[int]
    taken: list[int]  # of Terms.taken_over
    unit: int


def in_units(graph: Graph, terms: Terms, times: int) -> InUnits:
    """The memory of a graph's nodes in a unit in which `times` all of it stays below 2^60."""
    n, taken = len(graph.names), [terms.taken_over(graph, v) for v in graph.nodes]
    scale, unit = scaled((*graph.sizes, *(terms.extra or (0,) * n), *taken), times, upwards=True)
    return InUnits(scale[:n], scale[n : 2 * n], [each // unit for each in taken], unit)


def runs(graph: Graph, sequence: Sequence[int]) -> bool:
    """Whether every step's inputs were computed by earlier steps."""
    there: set[int] = set()
    for v in sequence:
        if not there.issuperset(graph.inputs[v]):
            return False
        there.add(v)
    return True


def last_readers(graph: Graph, sequence: Sequence[int]) -> list[int]:
    """For each step of an executable sequence: the last step that reads its output, or itself if there is none."""
    return live_ranges(map(graph.inputs.__getitem__, sequence), zip(sequence, strict=True)).last


def profile(graph: Graph, sequence: Sequence[int], terms: Terms = PLAIN) -> list[int]:
    """The memory at each step: earlier outputs that this or a later step still reads, the step's own output and extra
    memory, less the input bytes that it overwrites in place.
    """
    change = [0] * (len(sequence) + 1)
    own = [terms.extra[v] for v in sequence] if terms.extra else [0] * len(sequence)
    for step, last in enumerate(last_readers(graph, sequence)):
        node, reader = sequence[step], sequence[last]
        change[step] += graph.sizes[node]
        change[last + 1] -= graph.sizes[node]
        if terms.reuse and terms.reuse[reader] == node:
            own[last] -= terms.taken_over(graph, reader)
    return list(map(add, accumulate(change[:-1]), own))


def peak(graph: Graph, sequence: Sequence[int], terms: Terms = PLAIN) -> int:
    """The most memory that any step needs."""
    return max(profile(graph, sequence, terms))


def duration(graph: Graph, sequence: Sequence[int]) -> int:
    """The sum of the durations of all steps."""
    return sum(map(graph.durations.__getitem__, sequence))


def working_set(graph: Graph, node: int) -> int:
    """The memory that a node's step needs in any sequence: its inputs and its output."""
    return graph.sizes[node] + sum(graph.sizes[u] for u in graph.inputs[node])


def pruned(graph: Graph, sequence: Sequence[int]) -> tuple[int, ...]:
    """The sequence without repeats that no step reads; its peak is no higher."""
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
