"""CP-SAT, deterministic: one worker, one seed, a limit in CP-SAT's own count of work. Ctrl-C ends it at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from time import monotonic

from ortools.sat.python import cp_model

from shoehorn_mcu.planner.interruptible import interruptible


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
class Answer:
    """The solution of CP-SAT. `bound`: lower bound on a minimised objective, rounded up; None if not proven."""

    bound: int | None
    has_answer: bool
    proven: bool  # the answer is optimal
    infeasible: bool
    value: Callable[[cp_model.IntVar], int]


def solve(model: cp_model.CpModel, limit: Limit, presolve: bool = True) -> Answer:
    """Solves within the limit and subtracts the time used. KeyboardInterrupt ends the search and is re-raised.

    Without `presolve`, the model is searched as it is.
    """
    if limit.reached:
        return Answer(None, False, False, False, lambda _: 0)
    engine = cp_model.CpSolver()
    engine.parameters.num_workers = 1
    engine.parameters.random_seed = 1
    engine.parameters.linearization_level = 2
    engine.parameters.cp_model_presolve = presolve
    engine.parameters.max_deterministic_time = limit.deterministic
    engine.parameters.max_time_in_seconds = limit.seconds
    engine.parameters.catch_sigint_signal = False
    status = interruptible(lambda: engine.solve(model), engine.stop_search)
    limit.deterministic -= engine.response_proto.deterministic_time
    found = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    infeasible = status == cp_model.INFEASIBLE
    bound = None if infeasible or status == cp_model.MODEL_INVALID else ceil(engine.best_objective_bound - 1e-6)
    return Answer(bound, found, status == cp_model.OPTIMAL, infeasible, engine.value)
