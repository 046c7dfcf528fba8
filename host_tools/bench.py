"""Measures the time of inferences on a board, whole and per op."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from shoehorn_mcu.host_tools.link import Link, Mode, Progress
from shoehorn_mcu.host_tools.plan import Plan
from shoehorn_mcu.host_tools.vectors import Vector

Number = int | float


@dataclass(frozen=True)
class Unit:
    """The unit in which board ticks are reported."""

    name: str
    convert: Callable[[int, int], Number]  # ticks, ticks per second


# QEMU counts one virtual nanosecond per instruction (-icount shift=0), so a timer of any rate counts them.
INSTRUCTIONS = Unit("instructions", lambda ticks, hz: round(ticks * 1_000_000_000 / hz))
MICROSECONDS = Unit("us", lambda ticks, hz: round(ticks * 1_000_000 / hz, 3))


@dataclass(frozen=True)
class Timing:
    """Times of `runs` inferences; the same input is loaded before each."""

    tick_hz: int
    unit: str
    totals: tuple[Number, ...]
    ops: tuple[tuple[str, str, Number], ...]  # name, kernel, median; timed in inferences of their own
    stack_used_bytes: int
    stack_bytes: int

    def json(self, board: str, transport: str, clock_name: str) -> dict[str, Any]:
        """The object that `gen bench --json` prints."""
        return {
            "board": board,
            "transport": transport,
            "clock": {"name": clock_name, "hz": self.tick_hz},
            "unit": self.unit,
            "runs": len(self.totals),
            "total": {
                "min": min(self.totals),
                "median": _median(self.totals),
                "max": max(self.totals),
            },
            "ops": [{"name": name, "kernel": kernel, "median": median} for name, kernel, median in self.ops],
            "stack": {"used_bytes": self.stack_used_bytes, "reserved_bytes": self.stack_bytes},
        }


def bench(link: Link, plan: Plan, vector: Vector, unit: Unit, runs: int, progress: Progress) -> Timing:
    """Times `runs` whole inferences without hooks, then as many op by op. The board must run this plan (HostError)."""
    link.expect(plan)
    inputs = [array.tobytes() for array in vector]
    sizes = [end.bytes for end in plan.outputs]
    hz = link.hello.tick_hz
    row = plan.streamed_row_bytes
    plain = [link.infer(inputs, sizes, Mode.PLAIN, progress, row).ticks for _ in range(runs)]
    traced = [link.infer(inputs, sizes, Mode.TIME, progress, row).trace for _ in range(runs)]
    medians = [_median(times) for times in zip(*traced, strict=True)]
    used, size = link.stack()
    return Timing(
        hz,
        unit.name,
        tuple(unit.convert(ticks, hz) for ticks in plain),
        tuple(
            (op.name, op.kernel, unit.convert(round(ticks), hz)) for op, ticks in zip(plan.ops, medians, strict=True)
        ),
        used,
        size,
    )


def _median(values: Sequence[Number]) -> Number:
    """The median, as an int where it is whole."""
    middle = statistics.median(values)
    return int(middle) if middle == int(middle) else middle


def bytes_to_move(plan: Plan, inferences: int) -> int:
    """Tensor bytes that `bench` sends and receives, for the progress bar."""
    ends: Sequence[int] = [end.bytes for end in (*plan.inputs, *plan.outputs)]
    return inferences * sum(ends)
