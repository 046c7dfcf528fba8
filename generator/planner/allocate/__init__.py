"""Static allocation: offsets for buffers with lifetimes, as low as can be proven."""

from __future__ import annotations

from generator.planner.allocate.check import check
from generator.planner.allocate.problem import Buffer, Peak, Problem, Result, Status, ids_in_words
from generator.planner.allocate.solve import allocate

__all__ = ["Buffer", "Peak", "Problem", "Result", "Status", "allocate", "check", "ids_in_words"]
