"""Which constants are copied to RAM at start-up, because the flash makes the core wait for them.

A linear op reads its constants in order, once for each group of pixels that its kernel computes at a time. From a flash
of W wait states that is read in lines of L bytes, each byte costs W / L cycles every time, unless the few lines that
the flash keeps for data hold them all. Constants of other ops, such as tables that are read here and there, stay.
"""

from __future__ import annotations

from collections import defaultdict

from shoehorn_mcu.emit.model.weights import Constants
from shoehorn_mcu.emit.unit import InRam, Unit
from shoehorn_mcu.machine.targets import Board
from shoehorn_mcu.ops.linear import LinearOp
from shoehorn_mcu.schedule.predict import longest_rows
from shoehorn_mcu.schedule.stage import Stage

LEAST_PERCENT = 1.0  # of the cycles saved by all: what an array must save for being copied


def byte_waits(board: Board) -> float:
    """Cycles that the core waits for a byte that it reads in order from the board's flash; 0 where none are known."""
    cycles = board.spec.cycles
    return cycles.wait_states / cycles.line_bytes if cycles is not None else 0.0


def in_ram(unit: Unit, constants: Constants, board: Board, room_bytes: int) -> InRam:
    """The arrays that save most cycles per byte, as many as have room; none where the flash makes no core wait."""
    saved = defaultdict[str, float](float)
    rows, waits = longest_rows(unit.plan), byte_waits(board)
    kept = board.spec.cycles.line_bytes * board.spec.cycles.data_lines if board.spec.cycles else 0
    for (index, _), name in constants.names.items():
        stage = unit.stages[index]
        if isinstance(stage.computed.op, LinearOp) and stage.packed_bytes > kept:
            saved[name] += constants.arrays[name].nbytes * passes(stage, rows[stage.name]) * waits
    sizes = {name: _aligned(constants.arrays[name].nbytes, constants.alignments[name]) for name in saved}
    least, left = LEAST_PERCENT / 100 * sum(saved.values()), room_bytes
    chosen: dict[str, int] = {}
    for name in sorted(saved, key=lambda name: (-saved[name] / sizes[name], name)):
        if saved[name] > least and sizes[name] <= left:
            chosen[name] = sizes[name]
            left -= sizes[name]
    return InRam(frozenset(chosen), sum(chosen.values()), round(sum(saved[name] for name in chosen)))


def passes(stage: Stage, rows: int) -> int:
    """How often a linear op reads its constants in so many rows."""
    _, _, width, _ = stage.node.output.type.nhwc
    pixels = width * stage.rows_per_call
    return rows // stage.rows_per_call * -(-pixels // stage.kernel.pixels_at_once(stage.node))


def _aligned(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment
