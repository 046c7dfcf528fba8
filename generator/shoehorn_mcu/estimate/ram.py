"""Predicted RAM of a firmware before it is built: what each part of it takes.

`ram.json` has the statics of the application and the drivers of each chip family beside the parts that are counted
here, measured on real builds by `python -m bench.ram --write`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from shoehorn_mcu.machine.targets import Board

DATA = Path(__file__).with_name("ram.json")
_OP_BYTES = 4  # of the application per op: its time
_WORD = 8  # bytes to which linkers round the sections


@dataclass(frozen=True)
class Ram:
    """Bytes of a board's RAM."""

    arena_bytes: int
    stack_bytes: int  # reserved, of all cores
    load_bytes: int  # the buffer of `db load`, where it does not write into the arena
    link_bytes: int  # the largest frame of the serial link
    application_bytes: int  # other statics: those of the application, the drivers and the library
    board_bytes: int
    weights_bytes: int = 0  # constants that start-up copies there

    @property
    def bytes(self) -> int:
        """Predicted, of the firmware."""
        parts = self.arena_bytes + self.stack_bytes + self.load_bytes + self.link_bytes + self.application_bytes
        return parts + self.weights_bytes


def ram(arena_bytes: int, ops: int, load_bytes: int, cores: int, board: Board, weights_bytes: int = 0) -> Ram | None:
    """The parts for an arena and so many ops; None for a board whose system provides stacks and statics."""
    spec, known = board.spec, _statics()
    if spec.family not in known:
        return None
    own = known[spec.family] + _OP_BYTES * ops
    arena = -(-arena_bytes // _WORD) * _WORD
    return Ram(arena, cores * spec.stack_bytes, load_bytes, spec.frame_bytes, own, spec.sram_bytes, weights_bytes)


@cache
def _statics() -> Mapping[str, int]:
    """Bytes by chip family."""
    found: Mapping[str, int] = json.loads(DATA.read_text())
    return found
