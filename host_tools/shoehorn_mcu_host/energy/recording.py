"""A recording of an instrument: current and voltage of each sample, and the level of the marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu_host.base.errors import HostError

Floats = NDArray[np.float64]
Levels = NDArray[np.bool_]

MARK = "mark"  # the name of the column that has the board's pin
_GAP = 1.5  # sample periods between two samples, above which some are missing


class RecordingError(HostError):
    """A recording that does not say what was asked of it."""

    kind = "recording"


@dataclass(frozen=True)
class Interval:
    """Samples from `start` to before `stop`, during which a mark is high."""

    start: int
    stop: int

    @property
    def samples(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, eq=False)
class Recording:
    """Samples in the order of time. `name` says in messages where they are from."""

    name: str
    seconds: Floats
    amps: Floats
    volts: Floats  # as many as samples, or one for all of them
    marks: Mapping[str, Levels]

    @cached_property
    def period(self) -> float:
        """Seconds from a sample to the next one: the median."""
        if len(self.seconds) < 2:
            raise RecordingError(f"{self.name}: {len(self.seconds)} samples are too few; record while the board runs")
        return float(np.median(np.diff(self.seconds)))

    @property
    def rate(self) -> float:
        """Samples per second."""
        return 1 / self.period

    @cached_property
    def _joules(self) -> Floats:
        """The energy of each sample, which stands for the time up to the next one."""
        return self.amps * self.volts * self._spans

    @cached_property
    def _spans(self) -> Floats:
        return np.append(np.diff(self.seconds), self.period)

    def energy(self, interval: Interval) -> float:
        """Joules of an interval, by the rectangle rule."""
        return float(self._joules[interval.start : interval.stop].sum())

    def duration(self, interval: Interval) -> float:
        """Seconds of an interval."""
        return float(self._spans[interval.start : interval.stop].sum())

    def intervals(self, column: str = MARK) -> tuple[Interval, ...]:
        """The intervals of a mark; RecordingError where one is cut off or has lost samples."""
        level = self.marks[column].astype(np.int8)
        _ = self.period  # refuses a recording of no samples
        if len(level) and (level[0] or level[-1]):
            where = "begins" if level[0] else "ends"
            raise RecordingError(
                f"{self.name}: the recording {where} while '{column}' is high; record from before the first mark to "
                "after the last one"
            )
        edges = np.flatnonzero(np.diff(level)) + 1
        found = tuple(Interval(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True))
        for each in found:
            self._check_whole(each)
        return found

    def _check_whole(self, interval: Interval) -> None:
        spans = self._spans[interval.start : interval.stop]
        if len(spans) and spans.max() > _GAP * self.period:
            at = self.seconds[interval.start + int(spans.argmax())]
            lost = round(float(spans.max()) / self.period) - 1
            raise RecordingError(
                f"{self.name}: {lost} samples were lost at {at:.6f} s, during a mark; measure again, on a USB port of "
                "its own"
            )

    def idle_watts(self, within: Interval, guard: int = 5) -> tuple[float, int]:
        """The median power while no mark is high, of the samples of an interval, and how many samples say so.

        Samples nearer than `guard` to a mark are left out.
        """
        busy = np.zeros(len(self.seconds), np.int64)
        for level in self.marks.values():
            busy |= level
        near = np.convolve(busy, np.ones(2 * guard + 1, np.int64), "same") > 0
        watts = (self.amps * self.volts)[within.start : within.stop][~near[within.start : within.stop]]
        if not len(watts):
            raise RecordingError(f"{self.name}: no sample without a mark; the idle power is unknown")
        return float(np.median(watts)), len(watts)

    def csv(self) -> str:
        """As a file that `--energy csv` reads."""
        volts = np.broadcast_to(self.volts, self.seconds.shape)
        names = [*self.marks]
        lines = [",".join(["time_s", "current_a", "voltage_v", *names])]
        columns = [self.seconds, self.amps, volts, *(self.marks[name].astype(int) for name in names)]
        lines += [",".join(f"{value:.9g}" for value in row) for row in zip(*columns, strict=True)]
        return "\n".join(lines) + "\n"


def joined(name: str, pieces: Sequence[tuple[Floats, Floats, Levels]], volts: float) -> Recording:
    """A recording of pieces of it: seconds, amperes and levels of the mark."""
    if not pieces:
        raise RecordingError(f"{name}: no sample has arrived; is it connected?")
    seconds, amps, levels = (np.concatenate(each) for each in zip(*pieces, strict=True))
    return Recording(name, seconds, amps, np.array([volts]), {MARK: levels.astype(np.bool_)})
