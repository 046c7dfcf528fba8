"""Static allocation: offsets for buffers with lifetimes, as low as can be proven."""

from __future__ import annotations

from shoehorn_mcu.planner.placement.allocate.check import check
from shoehorn_mcu.planner.placement.allocate.problem import Buffer, Peak, Problem, Result, Status, ids_in_words
from shoehorn_mcu.planner.placement.allocate.solve import allocate

__all__ = ["Buffer", "Peak", "Problem", "Result", "Status", "allocate", "check", "ids_in_words"]
