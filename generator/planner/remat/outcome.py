"""What a planner of sequences answers, and how much it may try."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from shoehorn_mcu.errors import ShoehornError


class Status(Enum):
    """How far an answer is proven."""

    OPTIMAL = "optimal"  # no sequence within the budget takes less time
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"  # no sequence fits the budget
    UNKNOWN = "unknown"  # none was found in time


@dataclass(frozen=True)
class Effort:
    """How much to try: `seconds` of a slow machine. The answer depends on it alone, not on the machine at hand.

    Unless that one is slower still: after `stop` seconds by the clock, what there is is the answer. None: `seconds`.
    """

    seconds: float = 60.0
    stop: float | None = None

    @property
    def patience(self) -> float:
        """Seconds by the clock, after which what there is is the answer."""
        return self.seconds if self.stop is None else self.stop


@dataclass(frozen=True)
class Outcome:
    """A checked sequence and how good it is."""

    status: Status
    sequence: tuple[int, ...]  # nodes by number, repeats are recomputations; empty: none
    budget: int
    peak: int
    duration: int
    base_duration: int  # every node once
    bound: int  # no sequence within the budget takes less, in any order, with any number of recomputations
    reason: str  # why it stopped, in words

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
