"""The bytes that a finished plan leaves free while an op runs."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.base.grouped import by_key
from shoehorn_mcu.planner.memory_plan import SRAM, Plan
from shoehorn_mcu.planner.order.flow import Flow, single_events
from shoehorn_mcu.planner.problem import ALIGNMENT, Problem

_Held = tuple[int, int, int, int]
"""Address and end, exclusive, of a row's bytes, and the events from which and to which they are alive, inclusive."""


class Spare:
    """A plan whose kernels may be given scratch. `problem` has the ops of the plan's steps."""

    def __init__(self, problem: Problem, plan: Plan) -> None:
        by_event = [(step, y) for step in plan.steps for y in range(*step.rows)]
        times = by_key((step.op, time) for time, (step, _) in enumerate(by_event))
        self._times = {op: np.array(each) for op, each in times.items()}  # the events that compute its rows
        ranges = Flow(problem).live_ranges(single_events(problem, plan.steps))
        placements = {(p.tensor, p.edition): p for p in plan.placements}
        held: dict[str, list[_Held]] = defaultdict(list)
        for copy, row in enumerate(ranges.values):
            written = ranges.first[copy]
            if ranges.last[copy] < 0 or not problem.by_name[row.tensor].bytes:
                continue  # a row of an input that no op reads, or one of no bytes
            edition = by_event[written][0].edition(row.tensor) if written >= 0 else 0
            placed = placements[row.tensor, edition]
            address = placed.at(row.y)
            held[placed.memory_of(row.y)].append((address, address + placed.row_bytes, *ranges.during(copy)))
        self._held: dict[str, NDArray[np.int64]] = {name: np.array(sorted(each)) for name, each in held.items()}

    def address(self, op: str, size: int, memory: str = SRAM) -> int:
        """The lowest address at which `size` bytes are free in all steps of an op; it may be the arena's end."""
        lowest, times = 0, self._times.get(op)
        if times is None or memory not in self._held:
            return lowest
        addresses, ends, first, last = self._held[memory].T
        at = np.searchsorted(times, first)
        beside = (at < len(times)) & (times[np.minimum(at, len(times) - 1)] <= last)
        for address, end in zip(addresses[beside].tolist(), ends[beside].tolist(), strict=True):
            if address >= lowest + size:
                break
            lowest = max(lowest, -(-end // ALIGNMENT) * ALIGNMENT)
        return lowest
