"""Energy, power and time of inferences and ops, from the marks of a recording."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shoehorn_mcu_host.energy.recording import MARK, Interval, Recording, RecordingError
from shoehorn_mcu_host.energy.schedule import Phase, Schedule, groups, steps_of
from shoehorn_mcu_host.folder.plan import Plan

LEAST_SAMPLES = 10  # of a mark, whose ends are known to a sample: 10 % at worst


@dataclass(frozen=True)
class Part:
    """What was measured of the whole inference, or of one op in it, by run and for one execution."""

    seconds: tuple[float, ...]
    joules: tuple[float, ...]  # all that the supply gave
    repeats: int
    marks: int  # in each run
    samples: int  # of the shortest run's marks

    def net(self, idle_watts: float) -> tuple[float, ...]:
        """Joules beyond those of an idle board in the same time."""
        return tuple(joules - idle_watts * time for joules, time in zip(self.joules, self.seconds, strict=True))

    def json(self, idle_watts: float) -> dict[str, Any]:
        """The figures: microjoules beyond idle, with those of the whole supply, times and powers beside them."""
        return {
            **_spread([1e6 * each for each in self.net(idle_watts)]),
            "gross": _spread([1e6 * each for each in self.joules]),
            "ms": _spread([1e3 * each for each in self.seconds]),
            "mw": _short(1e3 * sum(self.joules) / sum(self.seconds)),
            "repeats": self.repeats,
            "samples": self.samples,
            "uncertain_percent": _short(100 * self.marks / self.samples),
        }


@dataclass(frozen=True)
class Measured:
    """The energy of a model's inferences. `ops` are (name, kernel, figures)."""

    instrument: str
    rate: float
    volts: float
    idle_watts: float
    idle_samples: int
    whole: Part
    ops: tuple[tuple[str, str, Part], ...]

    def json(self) -> dict[str, Any]:
        """The object `energy` of `gen bench --json`."""
        whole = self.whole.json(self.idle_watts)
        return {
            "unit": "uJ",
            "total": {key: whole.pop(key) for key in ("min", "median", "max")},
            **whole,
            "ops": [{"name": name, "kernel": kernel, **part.json(self.idle_watts)} for name, kernel, part in self.ops],
            "runs": len(self.whole.joules),
            "source": "measured",
            "instrument": self.instrument,
            "samples_per_second": _short(self.rate),
            "volts": self.volts,
            "baseline": {"mw": _short(1e3 * self.idle_watts), "samples": self.idle_samples},
            "rule": "rectangle",
        }


_Found = tuple[Part, Sequence[tuple[int, Part]], Interval]
"""The whole, the ops by number, and the samples among which the board is idle where no mark is high."""


def measured(
    recording: Recording, plan: Plan, schedule: Schedule | None, instrument: str, subtract: bool = True
) -> Measured:
    """What a recording says. Without a schedule each mark is an inference, and marks of ops have columns of their own.

    `subtract`: the power between the marks is subtracted; else nothing is. RecordingError where marks are missing.
    """
    whole, ops, between = _by_schedule(recording, plan, schedule) if schedule else _by_columns(recording, plan)
    idle, count = recording.idle_watts(between) if subtract else (0.0, 0)
    named = tuple((plan.ops[op].name, plan.ops[op].kernel, part) for op, part in ops)
    volts = _short(float(recording.volts.mean()))
    return Measured(instrument, recording.rate, volts, idle, count, whole, named)


def _by_schedule(recording: Recording, plan: Plan, schedule: Schedule) -> _Found:
    """The whole, the ops, and from the first mark of a whole inference to that of an op: low means idle only there."""
    if MARK not in recording.marks:
        raise RecordingError(f"{recording.name}: no column is called {MARK}, the board's pin")
    found, expected = recording.intervals(), sum(phase.expected for phase in schedule.phases)
    if len(found) != expected:
        cure = "is the pin connected?" if not found else "each must last some samples; was all of it recorded?"
        raise RecordingError(f"{recording.name}: {len(found)} marks, but the board made {expected}; {cure}")
    whole, ops, idle = None, [], Interval(0, 0)
    for phase, first, end in groups(schedule.phases):
        part = _part(recording, found[first:end], phase, _name(plan, phase.op))
        if phase.op is None:
            after = found[end].start if end < len(found) else len(recording.seconds)
            whole, idle = part, Interval(found[first].start, after)
        else:
            ops.append((phase.op, part))
    if whole is None:
        raise RecordingError(f"{recording.name}: the marks are of ops only; whole inferences are needed too")
    return whole, ops, idle


def _by_columns(recording: Recording, plan: Plan) -> _Found:
    """The same, where each column is about one thing."""
    if MARK not in recording.marks:
        raise RecordingError(f"{recording.name}: no column is called {MARK}, which is high during inferences")
    steps, parts = steps_of(plan), []
    for op, planned in [(None, None), *enumerate(plan.ops)]:
        column = MARK if planned is None else planned.name
        if column not in recording.marks:
            continue
        found, marks = recording.intervals(column), plan.pushes if op is None else steps.get(op, 1)
        if not found or len(found) % marks:
            each = f"{marks} for each inference" if marks > 1 else "one for each inference"
            raise RecordingError(f"{recording.name}: '{column}' has {len(found)} marks, but must have {each}")
        phase = Phase(op=op, repeats=1, runs=len(found) // marks, marks=marks)
        parts.append((op, _part(recording, found, phase, _name(plan, op))))
    (_, whole), *ops = parts
    return whole, [(op, part) for op, part in ops if op is not None], Interval(0, len(recording.seconds))


def _name(plan: Plan, op: int | None) -> str:
    return "the whole inference" if op is None else plan.ops[op].name


def _part(recording: Recording, found: Sequence[Interval], phase: Phase, name: str) -> Part:
    """The figures of a phase, from its marks."""
    shortest = min(each.samples for each in found)
    if shortest < LEAST_SAMPLES:
        raise RecordingError(
            f"{recording.name}: a mark of {name} has {shortest} samples at {recording.rate:,.0f} a second, too short "
            f"for {LEAST_SAMPLES}; sample faster, or let the board repeat it (gen firmware --energy marks)"
        )
    runs = [found[at : at + phase.marks] for at in range(0, len(found), phase.marks)]
    return Part(
        tuple(sum(map(recording.duration, run)) / phase.repeats for run in runs),
        tuple(sum(map(recording.energy, run)) / phase.repeats for run in runs),
        phase.repeats,
        phase.marks,
        min(sum(each.samples for each in run) for run in runs),
    )


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"min": _short(min(values)), "median": _short(statistics.median(values)), "max": _short(max(values))}


def _short(value: float) -> float:
    """Nine digits, which is more than any instrument has."""
    return float(f"{value:.9g}")
