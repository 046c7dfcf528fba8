"""What a network costs on a board: its int8 form with made-up weights, planned as `gen firmware` would plan it."""

from __future__ import annotations

from dataclasses import dataclass

from shoehorn_mcu import passes
from shoehorn_mcu.firmware import build
from shoehorn_mcu.firmware.limits import limits
from shoehorn_mcu.firmware.settings import Options
from shoehorn_mcu.importers import Imported
from shoehorn_mcu.ir import Graph, Origin
from shoehorn_mcu.machine.targets import Board
from shoehorn_mcu.ops import Conv2d, Dense, DepthwiseConv2d, TransposeConv2d
from shoehorn_mcu.planner import Goal
from shoehorn_mcu.schedule import predict
from shoehorn_mcu.schedule.cuts import Cuts
from shoehorn_mcu.schedule.request import PlanRequest
from shoehorn_mcu.schedule.search import schedule
from shoehorn_mcu.schedule.stage import stages
from shoehorn_mcu.slim.goal import Minimized
from shoehorn_mcu.slim.made_up import as_int8

LOOKING_AT_WEIGHTS = frozenset({"zero-constant-channels", "fold-constant-channels"})
"""Passes that made-up weights would mislead."""


@dataclass(frozen=True)
class OpPrice:
    """One op of the plan."""

    name: str
    weighted: bool
    time: int  # in the unit of Price.time


@dataclass(frozen=True)
class Price:
    """Predicted cost of one inference."""

    instructions: int
    cycles: int | None  # None: the core has no model of cycles
    sram: int  # bytes of the arena
    flash: int  # bytes of constants
    macs: int
    ops: tuple[OpPrice, ...]

    @property
    def time(self) -> int:
        """Cycles where they are known, else instructions."""
        return self.instructions if self.cycles is None else self.cycles

    def of(self, what: Minimized) -> int:
        """The figure that is to become less."""
        return {Minimized.INSTRUCTIONS: self.time, Minimized.SRAM: self.sram, Minimized.FLASH: self.flash}[what]

    @property
    def weightless_share(self) -> float:
        """The share of the time in ops without weights (the first table of DeepRebirth)."""
        return sum(op.time for op in self.ops if not op.weighted) / max(1, self.time)


WEIGHTED = (Conv2d, DepthwiseConv2d, Dense, TransposeConv2d)
"""The ops with weights; all others are what DeepRebirth calls non-tensor layers."""


def price(graph: Graph, board: Board, *, smallest: bool = False) -> Price:
    """The price of the fastest plan of a float32 graph that fits the board; `smallest`: of the smallest plan.

    Raises DoesNotFit where no plan fits.
    """
    return priced(as_int8(graph), board, smallest=smallest)


def priced(graph: Graph, board: Board, *, smallest: bool = False) -> Price:
    """The price of an int8 graph.

    The road is that of `firmware.build.plan_model` without what only a report needs, such as the next smaller plan.
    """
    options = Options(disabled=LOOKING_AT_WEIGHTS)
    may = limits(board, options)
    after, records = passes.run(graph, options.disabled)
    ready = build.Prepared(options, may, graph, after, after, records, {}, Origin(), (), Imported(graph, {}))
    chosen = stages(after, build.machine_for([ready], board))
    capacity, memories = may.capacity_bytes, may.memories
    request = PlanRequest(
        Goal.SRAM if smallest else Goal.TIME, capacity, False, 0 if smallest else None, memories=memories
    )
    made = schedule(Cuts(after, chosen), request)
    by_op = predict.by_op(made.plan, made.stages, predict.unit_of(made.stages))
    return Price(
        predict.instructions(made.plan, made.stages),
        predict.cycles(made.plan, made.stages),
        made.plan.arena_bytes,
        sum(stage.weight_bytes for stage in made.stages),
        graph.macs,
        tuple(
            OpPrice(stage.name, isinstance(stage.node.computed.op, WEIGHTED), round(cost))
            for stage, cost in zip(made.stages, by_op, strict=True)
        ),
    )
