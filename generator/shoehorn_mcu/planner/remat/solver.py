"""CP-SAT, deterministic: one worker, one seed, a limit in CP-SAT's own count of work. Ctrl-C ends it at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

from ortools.sat.python import cp_model

from shoehorn_mcu.planner.interruptible import interruptible
from shoehorn_mcu.planner.remat.outcome import Limit


@dataclass(frozen=True)
class Answer:
    """The solution of CP-SAT. `bound`: lower bound on a minimised objective, rounded up; None if not proven."""

    bound: int | None
    has_answer: bool
    proven: bool  # the answer is optimal
    infeasible: bool
    value: Callable[[cp_model.IntVar], int]


def solve(model: cp_model.CpModel, limit: Limit, presolve: bool = True, gap: float = 0.0) -> Answer:
    """Solves within the limit and subtracts the time used. KeyboardInterrupt ends the search and is re-raised.

    Without `presolve`, the model is searched as it is. An answer within `gap` of the bound, as a share, ends the
    search.
    """
    if limit.reached:
        return Answer(None, False, False, False, lambda _: 0)
    engine = cp_model.CpSolver()
    engine.parameters.num_workers = 1
    engine.parameters.random_seed = 1
    engine.parameters.linearization_level = 2
    engine.parameters.cp_model_presolve = presolve
    engine.parameters.relative_gap_limit = gap
    engine.parameters.max_deterministic_time = limit.deterministic
    engine.parameters.max_time_in_seconds = limit.seconds
    engine.parameters.catch_sigint_signal = False
    status = interruptible(lambda: engine.solve(model), engine.stop_search)
    limit.deterministic -= engine.response_proto.deterministic_time
    found = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    infeasible = status == cp_model.INFEASIBLE
    bound = None if infeasible or status == cp_model.MODEL_INVALID else ceil(engine.best_objective_bound - 1e-6)
    return Answer(bound, found, status == cp_model.OPTIMAL, infeasible, engine.value)
