"""Replays a sequence by the definition of its memory and duration; shares no code with the search or its measures."""

from __future__ import annotations

from collections.abc import Sequence

from shoehorn_mcu.planner.remat.graph import Graph


def check(graph: Graph, sequence: Sequence[int], budget: int, peak: int, duration: int) -> list[str]:
    """One sentence per fault: nodes missing, inputs not available, memory or duration not as claimed."""
    run = set(sequence)
    faults = [f"node {graph.names[v]!r} is never run" for v in graph.nodes if v not in run]
    readers: list[list[int]] = [[] for _ in sequence]  # per step: the steps that read its output
    copies: dict[int, int] = {}  # node -> its latest step so far
    for step, node in enumerate(sequence):
        for wanted in graph.inputs[node]:
            if wanted in copies:
                readers[copies[wanted]].append(step)
            else:
                faults.append(f"step {step} ({graph.names[node]!r}) reads {graph.names[wanted]!r} before it is run")
        copies[node] = step
    held = 0  # bytes of earlier outputs that are still to be read
    highest = 0
    leaving: dict[int, int] = {}  # step -> bytes that it is the last to read
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
