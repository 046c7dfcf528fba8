"""Replays a sequence by the words of the contract. Shares no code with what finds or measures sequences."""

from __future__ import annotations

from collections.abc import Sequence

from shoehorn_mcu.planner.remat.graph import Graph


def check(graph: Graph, sequence: Sequence[int], budget: int, peak: int, duration: int) -> list[str]:
    """What is wrong with a claim, in sentences: nodes missing, inputs not there, memory or duration not as claimed."""
    faults = [f"node {graph.names[v]!r} is never run" for v in graph.nodes if v not in set(sequence)]
    readers: list[list[int]] = [[] for _ in sequence]  # per step: the steps that read its output
    for step, node in enumerate(sequence):
        for wanted in graph.inputs[node]:
            copy = step - 1
            while copy >= 0 and sequence[copy] != wanted:
                copy -= 1
            if copy < 0:
                faults.append(f"step {step} ({graph.names[node]!r}) reads {graph.names[wanted]!r} before it is run")
            else:
                readers[copy].append(step)
    held = 0  # bytes that earlier steps left and somebody still wants
    highest = 0
    leaving: dict[int, int] = {}  # step -> bytes whose last reader it is
    for step, node in enumerate(sequence):
        size = graph.sizes[node]
        highest = max(highest, held + size)
        held -= leaving.pop(step, 0)
        if readers[step]:
            held += size
            final = max(readers[step])
            leaving[final] = leaving.get(final, 0) + size
    if highest > budget:
        faults.append(f"the peak is {highest}, the budget {budget}")
    if highest != peak:
        faults.append(f"the peak is {highest}, not {peak}")
    total = sum(graph.durations[node] for node in sequence)
    if total != duration:
        faults.append(f"the duration is {total}, not {duration}")
    return faults
