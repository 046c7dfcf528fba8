"""The result of a search for sequences, its effort and its limits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from time import monotonic

from shoehorn_mcu.base.errors import ShoehornError


class Status(Enum):
    """How far an answer is proven."""

    OPTIMAL = "optimal"  # no sequence within the budget has a shorter duration
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"  # no sequence fits the budget
    UNKNOWN = "unknown"  # none was found in time


@dataclass(frozen=True)
class Effort:
    """The search effort: `seconds` of a slow reference machine, counted as work, so that all machines answer equally.

    Only on a still slower machine the clock decides: the search ends after `stop` wall-clock seconds (None: `seconds`).
    """

    seconds: float = 60.0
    stop: float | None = None

    @property
    def patience(self) -> float:
        """Wall-clock seconds after which the search ends with the best sequence so far."""
        return self.seconds if self.stop is None else self.stop


@dataclass
class Limit:
    """The remaining limit: CP-SAT's deterministic time, which normally decides, and wall-clock time as last stop."""

    deterministic: float
    end: float  # of time.monotonic()

    @property
    def seconds(self) -> float:
        return self.end - monotonic()

    @property
    def reached(self) -> bool:
        return self.deterministic <= 0 or self.seconds <= 0

    @contextmanager
    def part(self, most: float) -> Iterator[Limit]:
        """A part of the remaining limit, at most `most`; the unused rest is given back."""
        part = Limit(min(most, self.deterministic), self.end)
        self.deterministic -= part.deterministic
        yield part
        self.deterministic += max(0.0, part.deterministic)


@dataclass(frozen=True)
class Outcome:
    """A checked sequence and how good it is."""

    status: Status
    sequence: tuple[int, ...]  # nodes by number, repeats are recomputations; empty: none
    budget: int
    peak: int
    duration: int
    base_duration: int  # every node once
    bound: int  # lower bound on the duration within the budget, for any order and any number of recomputations
    reason: str  # why the search ended, for the user

    @property
    def increase_percent(self) -> float:
        return _percent(self.duration, self.base_duration)

    @property
    def bound_percent(self) -> float:
        return _percent(self.bound, self.base_duration)


def _percent(value: int, base: int) -> float:
    return 100 * (value - base) / base if base else 0.0


class SequenceFault(ShoehornError):
    """The independent check found a fault in a sequence: a defect of the planner, never of the graph."""

    kind = "defect"
