"""Looks at a placement with nothing but its definition; shares no code with what makes placements."""

from __future__ import annotations

from collections.abc import Mapping

from shoehorn_mcu.planner.placement.allocate.problem import Buffer, Problem

_MOST_FAULTS = 20


def check(problem: Problem, offsets: Mapping[str, int]) -> list[str]:
    """Sentences, one per fault; empty when every buffer has a place and none alive at one time share a byte."""
    ids = {b.id for b in problem.buffers}
    faults = [f"buffer '{i}' is not in the problem" for i in sorted(set(offsets) - ids)]
    faults += [f"buffer '{b.id}' has no place" for b in problem.buffers if b.id not in offsets]
    placed = sorted((b for b in problem.buffers if b.id in offsets), key=lambda b: b.lower)
    for b in placed:
        end = offsets[b.id] + b.size
        if offsets[b.id] < 0 or (problem.capacity is not None and end > problem.capacity):
            faults.append(f"buffer '{b.id}': bytes {offsets[b.id]}..{end} leave the capacity of {problem.capacity}")
        if offsets[b.id] % problem.alignment:
            faults.append(f"buffer '{b.id}': offset {offsets[b.id]} is not a multiple of {problem.alignment}")
    faults += _overlaps(placed, offsets)
    return faults[:_MOST_FAULTS]


def _overlaps(placed: list[Buffer], offsets: Mapping[str, int]) -> list[str]:
    """Every two buffers that share a byte at some time. `placed` is sorted by `lower`."""
    faults = []
    open_until: list[Buffer] = []
    for b in placed:
        open_until = [other for other in open_until if other.upper > b.lower]
        for other in open_until:
            low = max(offsets[b.id], offsets[other.id])
            high = min(offsets[b.id] + b.size, offsets[other.id] + other.size)
            if low < high:
                faults.append(f"buffers '{other.id}' and '{b.id}' share bytes {low}..{high} at time {b.lower}")
                if len(faults) == _MOST_FAULTS:
                    return faults
        open_until.append(b)
    return faults
