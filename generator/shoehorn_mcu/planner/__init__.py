"""Steps and addresses for a problem; knows bytes, rows and steps, not ops or C."""

from __future__ import annotations

from shoehorn_mcu.planner.any_order import least_computing_again, least_in_any_order
from shoehorn_mcu.planner.check import check
from shoehorn_mcu.planner.cores import divided
from shoehorn_mcu.planner.make_plan import (
    DoesNotFit,
    Goal,
    PlanFault,
    Scope,
    Weighing,
    arena_refused,
    checked,
    make_plan,
)
from shoehorn_mcu.planner.memory_plan import DELIVERY, HANDOUT
from shoehorn_mcu.planner.order.flow import rigid
from shoehorn_mcu.planner.partition.search import lowest_peak
from shoehorn_mcu.planner.problem import Block, Cut, Operand, OpSpec, Problem, Read, TensorSpec
from shoehorn_mcu.planner.spread.spread import spread
