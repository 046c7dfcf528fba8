"""What a quantised model costs on a board: its arena and the predicted time of an inference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.firmware import build
from shoehorn_mcu.firmware.settings import Options
from shoehorn_mcu.importers import Imported
from shoehorn_mcu.importers.onnx.importer import import_model
from shoehorn_mcu.machine.targets import Board
from shoehorn_mcu.quantisation import Gain, Quantized


@dataclass(frozen=True)
class Cost:
    """Of the fastest plan that fits the board, or `refused`: why there is none, with figures of 0."""

    arena_bytes: int
    instructions: int
    cycles: int | None  # None: the core has no model of cycles
    refused: str = ""


def cost(model: Imported, board: Board) -> Cost:
    """Plans the model for the board, as `gen plan --board` does."""
    try:
        planned = build.plan_model(model, board, Options())
    except ShoehornError as refusal:
        return Cost(0, 0, None, str(refusal))
    figures = planned.report["plan"]
    assert isinstance(figures, dict)
    return Cost(planned.unit.plan.arena_bytes, figures["predicted_instructions"], figures["predicted_cycles"])


@dataclass(frozen=True)
class Costs:
    """Of a quantised model, and of it with each op in more bits that is worth that."""

    board: str
    own: Cost
    gains: tuple[tuple[Gain, Cost], ...]


def costs(made: Quantized, board: Board, say: Callable[[str], None] = lambda _: None) -> Costs:
    """Plans the quantised model and those with each gain."""
    say(f"planning for {board.id}")
    own = cost(import_model(made.model, "quantized"), board)
    gains = []
    for gain in made.gains:
        say(f"planning {gain.op} in {gain.kept.value}")
        gains.append((gain, cost(import_model(gain.model, "quantized"), board)))
    return Costs(board.id, own, tuple(gains))
