"""Measures the time of inferences on a board, whole and per op."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from shoehorn_mcu_host.base.emulators import EMULATORS, Counts
from shoehorn_mcu_host.board import cores
from shoehorn_mcu_host.board.cycles import UNMETERED, Count, Mark, Meter, NoMeter
from shoehorn_mcu_host.board.cycles import by_op as cycles_by_op
from shoehorn_mcu_host.board.cycles import whole as cycles_of
from shoehorn_mcu_host.board.link import Inference, Link, Mode, Progress
from shoehorn_mcu_host.folder.plan import Plan
from shoehorn_mcu_host.folder.vectors import Vector

Number = int | float
_Marks = TypeVar("_Marks", covariant=True)


class _Meter(Protocol[_Marks]):
    """What records the marks of inferences: a Meter, a CoreMeter, or a NoMeter without any."""

    def take(self) -> _Marks: ...


@dataclass(frozen=True)
class Unit:
    """The unit in which board ticks are reported."""

    name: str
    convert: Callable[[int, int], Number]  # ticks, ticks per second
    hz: int | None = None  # of the board's clock, where the unit is its cycles


# QEMU counts one virtual nanosecond per instruction (-icount shift=0), so a timer of any rate counts them.
_NANOSECOND_HZ = 1_000_000_000
INSTRUCTIONS = Unit("instructions", lambda ticks, hz: round(ticks * _NANOSECOND_HZ / hz))
MICROSECONDS = Unit("us", lambda ticks, hz: round(ticks * 1_000_000 / hz, 3))


def unit_of(emulator: Mapping[str, Any], spec: Mapping[str, Any]) -> Unit:
    """The unit of an emulator's clock, by the blocks `emulator` and `shoehorn` of a board's manifest.

    The emulator's timer counts at `emulator.tick_hz`, which is not the board's rate where it emulates a sister chip.
    """
    row = EMULATORS[emulator["program"]]
    if row.counts is Counts.TIME:
        return MICROSECONDS
    if row.ticks_are_counts:
        return Unit(row.counts, lambda ticks, _: ticks)
    rate = (spec["core_hz"] or spec["tick_hz"]) if row.counts is Counts.CYCLES else _NANOSECOND_HZ
    tick_hz = emulator["tick_hz"] or spec["tick_hz"]
    hz = rate if row.counts is Counts.CYCLES else None
    return Unit(row.counts, lambda ticks, _: round(ticks * rate / tick_hz), hz)


@dataclass(frozen=True)
class Cycles:
    """Estimated cycles of the same inferences in the emulator; `model` is the core whose timing was used."""

    model: str
    hz: int | None  # the core's clock on the board
    totals: tuple[Count, ...]
    ops: tuple[Number, ...]  # medians

    def json(self) -> dict[str, Any]:
        """The object `cycles` of `gen bench --json`."""
        spread = _spread([count.cycles for count in self.totals])
        ms = round(spread["median"] * 1000 / self.hz, 3) if self.hz else None
        return {"model": self.model, **spread, "hz": self.hz, "ms": ms}


@dataclass(frozen=True)
class Cores:
    """The cores that share an inference; in the emulator with the instructions of each (medians), without waiting."""

    count: int = 1
    instructions: tuple[Number, ...] | None = None

    def json(self) -> dict[str, Any]:
        """The object `cores` of `gen bench --json`."""
        return {"count": self.count, "instructions": None if self.instructions is None else [*self.instructions]}


@dataclass(frozen=True)
class Timing:
    """Times of `runs` inferences; the same input is loaded before each.

    Those of several cores in the emulator are the instructions of the slowest core in each step (cores.py), where
    `cores.instructions` are known; else its clock counts the instructions of all cores.
    """

    tick_hz: int
    unit: str
    totals: tuple[Number, ...]
    ops: tuple[tuple[str, str, Number], ...]  # name, kernel, median; timed in inferences of their own
    stack_used_bytes: int
    stack_bytes: int
    cycles: Cycles | None = None
    no_cycles: str = ""  # why there are none, where the board has a model of its timing or several cores
    cores: Cores = Cores()
    signal_seconds: float | None = None  # that the rows or samples of an inference last, where it is known
    unit_hz: int | None = None  # of the board's clock, where the unit is its cycles

    @property
    def signal(self) -> dict[str, Any] | None:
        """The object `signal` of `gen bench --json`: how much of the time that its input lasts an inference takes, and
        cycles per second of it, where cycles are known.
        """
        if self.signal_seconds is None:
            return None
        median, cycles, hz = _median(self.totals), None, self.unit_hz
        seconds = median / 1e6 if self.unit == MICROSECONDS.name else None
        if self.cycles is not None:
            cycles, hz = _median([count.cycles for count in self.cycles.totals]), self.cycles.hz
        elif hz is not None:
            cycles = median
        if cycles is not None and hz:
            seconds = cycles / hz
        load = None if seconds is None else round(100 * seconds / self.signal_seconds, 3)
        each = None if cycles is None else round(cycles / self.signal_seconds)
        return {"seconds": self.signal_seconds, "cycles_per_second": each, "load_percent": load}

    def json(self, board: str, transport: str, clock_name: str) -> dict[str, Any]:
        """The object that `gen bench --json` prints."""
        by_op = self.cycles.ops if self.cycles else [None] * len(self.ops)
        return {
            "board": board,
            "transport": transport,
            "clock": {"name": clock_name, "hz": self.tick_hz},
            "unit": self.unit,
            "runs": len(self.totals),
            "total": _spread(self.totals),
            "cores": self.cores.json(),
            "cycles": self.cycles.json() if self.cycles else None,
            **({"signal": self.signal} if self.signal else {}),
            "ops": [
                {"name": name, "kernel": kernel, "median": median, "cycles": cycles}
                for (name, kernel, median), cycles in zip(self.ops, by_op, strict=True)
            ],
            "stack": {"used_bytes": self.stack_used_bytes, "reserved_bytes": self.stack_bytes},
        }


def bench(
    link: Link,
    plan: Plan,
    vector: Vector,
    unit: Unit,
    runs: int,
    progress: Progress,
    meter: Meter | cores.CoreMeter | NoMeter = UNMETERED,
) -> Timing:
    """Times `runs` whole inferences without hooks, then as many op by op. The board must run this plan (HostError).

    `meter` is that of the emulator behind the link.
    """
    link.expect(plan)
    inputs = [array.tobytes() for array in vector]
    hz = link.hello.tick_hz
    cycles, shared, modes = None, Cores(plan.cores), (Mode.PLAIN, Mode.TIME)
    if isinstance(meter, cores.CoreMeter):
        alone, by_op = (_inferences(link, plan, inputs, mode, runs, progress, meter) for mode in modes)
        steps, parts = [op for op, *_ in plan.steps], plan.pushes
        totals: list[Number] = [cores.slowest(marks, parts) for _, marks in alone]
        medians = _medians([cores.slowest_by_op(marks, steps, len(plan.ops)) for _, marks in by_op])
        shared = Cores(plan.cores, tuple(_medians([cores.by_core(marks, parts) for _, marks in alone])))
    else:
        plain, traced = (_inferences(link, plan, inputs, mode, runs, progress, meter) for mode in modes)
        totals = [unit.convert(found.ticks, hz) for found, _ in plain]
        medians = [unit.convert(round(ticks), hz) for ticks in _medians([found.trace for found, _ in traced])]
        cycles = _cycles(meter, plan, [marks for _, marks in plain], [marks for _, marks in traced])
    used, size = link.stack()
    return Timing(
        hz,
        unit.name,
        tuple(totals),
        tuple((op.name, op.kernel, median) for op, median in zip(plan.ops, medians, strict=True)),
        used,
        size,
        cycles,
        meter.reason,
        shared,
        plan.signal_seconds,
        unit.hz,
    )


def _inferences(
    link: Link, plan: Plan, inputs: Sequence[bytes], mode: Mode, runs: int, progress: Progress, meter: _Meter[_Marks]
) -> list[tuple[Inference, _Marks]]:
    """Inferences, each with the meter's marks."""
    sizes, row = read_sizes(plan), plan.streamed_row_bytes
    return [(link.infer(inputs, sizes, mode, progress, row, plan.handed_out), meter.take()) for _ in range(runs)]


def read_sizes(plan: Plan) -> list[int]:
    """The sizes of the outputs that are read: not of a streamed one, whose rows would be sent in the timed part."""
    return [] if plan.handed_out else [end.bytes for end in plan.outputs]


def time_ops(link: Link, plan: Plan, unit: Unit, runs: int, meter: Meter | NoMeter = UNMETERED) -> Mapping[str, Number]:
    """The median time of each op by name, on inputs of zeros: in cycles where the meter counts them, else in `unit`."""
    link.expect(plan)
    inputs = [bytes(end.bytes) for end in plan.inputs]
    meter.take()
    traced = _inferences(link, plan, inputs, Mode.TIME, runs, lambda _: None, meter)
    if isinstance(meter, Meter):
        steps = [op for op, *_ in plan.steps]
        counts = (cycles_by_op(marks, steps, len(plan.ops)) for _, marks in traced)
        medians = _medians([[count.cycles for count in by_op] for by_op in counts])
    else:
        ticks = _medians([found.trace for found, _ in traced])
        medians = [unit.convert(round(each), link.hello.tick_hz) for each in ticks]
    return {op.name: median for op, median in zip(plan.ops, medians, strict=True)}


def _cycles(
    meter: Meter | NoMeter, plan: Plan, plain: Sequence[Sequence[Mark]], traced: Sequence[Sequence[Mark]]
) -> Cycles | None:
    """The cycles of inferences by the marks of each, or None where there is no meter."""
    if isinstance(meter, NoMeter):
        return None
    steps = [op for op, *_ in plan.steps]
    by_op = [cycles_by_op(marks, steps, len(plan.ops)) for marks in traced]
    return Cycles(
        meter.model,
        meter.hz,
        tuple(cycles_of(marks, plan.pushes) for marks in plain),
        tuple(_medians([[count.cycles for count in counts] for counts in by_op])),
    )


def _spread(values: Sequence[Number]) -> dict[str, Number]:
    return {"min": min(values), "median": _median(values), "max": max(values)}


def _medians(runs: Sequence[Sequence[Number]]) -> list[Number]:
    """The median of each figure over the runs."""
    return [_median(values) for values in zip(*runs, strict=True)]


def _median(values: Sequence[Number]) -> Number:
    """The median, as an int where it is whole."""
    middle = statistics.median(values)
    return int(middle) if middle == int(middle) else middle


def bytes_to_move(plan: Plan, inferences: int) -> int:
    """Tensor bytes that `bench` sends and receives, for the progress bar."""
    return inferences * (sum(end.bytes for end in plan.inputs) + sum(read_sizes(plan)))
