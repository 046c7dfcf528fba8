"""What a plan and a firmware may use: the core, bytes of memories and flash, computed once from board and options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.firmware.settings import Fit, Options
from shoehorn_mcu.machine import memories
from shoehorn_mcu.machine.targets import Board
from shoehorn_mcu.planner.memory_plan import Memory


class NoBoard(ShoehornError):
    """A budget that only a board has was asked for without one."""

    kind = "no-board"


class TooManyCores(ShoehornError):
    """The board has fewer cores than were asked for."""

    kind = "too-many-cores"


@dataclass(frozen=True)
class Limits:
    """Of a board, or without one those that the user gives."""

    cpu: str | None  # key of targets.CPUS; None: portable kernels
    capacity_bytes: int | None  # of all arenas: the user's limit, but never more than the board has left
    memories: tuple[Memory, ...]  # for tensors, where there are several or one that is not the main one
    flash_bytes: int | None  # for the firmware, or without a board for the library's constants and code


def limits(board: Board | None, options: Options) -> Limits:
    """The limits of these options on this board.

    Raises TooManyCores, NoBoard for a budget that only a board has, and MemoryFault where the user names a memory that
    the board does not have, or several where one arena is needed.
    """
    if board is not None and options.cores > board.spec.cores:
        there = "one core; leave --cores out" if board.spec.cores == 1 else f"{board.spec.cores} cores; give no more"
        raise TooManyCores(f"--cores {options.cores}: {board.id} has {there}")
    if isinstance(options.sram_bytes, Fit) and board is None:
        raise NoBoard("--sram fit is all that a board has left: give one by --board, or a size")
    several = _memories(board, options)
    if several:
        capacity: int | None = sum(memory.bytes for memory in several)
    else:
        each = (board.arena_limit(options.cores) if board else None, options.sram_bytes)
        capacity = min((n for n in each if isinstance(n, int)), default=None)
    if board is None:
        return Limits(options.cpu, capacity, several, options.flash_bytes)
    return Limits(board.spec.cpu, capacity, several, board.spec.flash_bytes)


def _memories(board: Board | None, options: Options) -> tuple[Memory, ...]:
    alone = options.one_memory or options.slower_percent is not None
    if isinstance(options.sram_bytes, Mapping):
        if alone:
            what = "several models have one arena" if options.one_memory else "--slower compares plans for one arena"
            raise memories.MemoryFault(f"--sram NAME=SIZE: {what}; give one size")
        return memories.named(options.sram_bytes, board, options.cores)
    if alone or isinstance(options.sram_bytes, int) or board is None:
        return ()
    found = memories.of_board(board, options.cores)
    return found if len(found) > 1 or found[0].cycles else ()
