"""The bytes that a finished plan leaves free while an op runs."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from shoehorn_mcu.planner.memory_plan import SRAM, Plan
from shoehorn_mcu.planner.order.flow import Flow, single_events
from shoehorn_mcu.planner.problem import ALIGNMENT, Problem


class _Held(NamedTuple):
    """Bytes [address, end) of a row, alive from event `first` to event `last`, both inclusive."""

    first: int
    last: int
    address: int
    end: int
    memory: str


class Spare:
    """A plan whose kernels may be given scratch. `problem` has the ops of the plan's steps."""

    def __init__(self, problem: Problem, plan: Plan) -> None:
        by_event = [(step, y) for step in plan.steps for y in range(*step.rows)]
        self._times: dict[str, list[int]] = defaultdict(list)  # by op: the events that compute its rows
        for time, (step, _) in enumerate(by_event):
            self._times[step.op].append(time)
        ranges = Flow(problem).live_ranges(single_events(problem, plan.steps))
        placements = {(p.tensor, p.edition): p for p in plan.placements}
        self._held: list[_Held] = []
        for copy, row in enumerate(ranges.values):
            written = ranges.first[copy]
            if ranges.last[copy] < 0 or not problem.by_name[row.tensor].bytes:
                continue  # a row of an input that no op reads, or one of no bytes
            edition = by_event[written][0].edition(row.tensor) if written >= 0 else 0
            placed = placements[row.tensor, edition]
            address, memory = placed.at(row.y), placed.memory_of(row.y)
            self._held.append(_Held(*ranges.during(copy), address, address + placed.row_bytes, memory))

    def address(self, op: str, size: int, memory: str = SRAM) -> int:
        """The lowest address at which `size` bytes are free in all steps of an op; it may be the arena's end."""
        lowest = 0
        for held in sorted(self._beside(op, memory), key=lambda held: held.address):
            if held.address >= lowest + size:
                break
            lowest = max(lowest, -(-held.end // ALIGNMENT) * ALIGNMENT)
        return lowest

    def _beside(self, op: str, memory: str) -> Iterator[_Held]:
        """What is alive in a memory while the op runs."""
        times = self._times[op]
        for held in (held for held in self._held if held.memory == memory):
            at = bisect_left(times, held.first)
            if at < len(times) and times[at] <= held.last:
                yield held
