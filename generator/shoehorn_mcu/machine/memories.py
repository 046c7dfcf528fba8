"""The memories that a model's tensors may be in: those of the board, or those that the user names with their sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from shoehorn_mcu.base.errors import ShoehornError, did_you_mean, one_line
from shoehorn_mcu.ir import Graph
from shoehorn_mcu.machine.targets import Board
from shoehorn_mcu.planner.memory_plan import SRAM, Memory


class MemoryFault(ShoehornError):
    """A memory that the user names is none, or holds no row of the model."""

    kind = "bad-memory"


def of_board(board: Board, cores: int) -> tuple[Memory, ...]:
    """The board's memories, its main one first, whose name is SRAM here."""
    main = Memory(SRAM, max(0, board.arena_limit(cores)))
    if (found := board.spec.main_memory) is not None:
        main = replace(main, read_cycles=found.read_cycles, write_cycles=found.write_cycles)
    others = (Memory(m.name, m.bytes, m.read_cycles, m.write_cycles) for m in board.spec.other_memories)
    return (main, *others)


def named(sizes: Mapping[str, int], board: Board | None, cores: int) -> tuple[Memory, ...]:
    """The memories with these names, each with so many bytes or with what the board has left of it.

    Without a board the names are the user's, the first one that of the main memory, and none has waits. MemoryFault
    names a memory that the board does not have.
    """
    for number, name in enumerate(sizes):
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,23}", name) or (board is None and number and name == SRAM):
            rule = f"lower-case letters, digits and _ ({SRAM} means the first)"
            raise MemoryFault(f"--sram {one_line(name)}={sizes[name]}: no name of a memory; write {rule}")
    if board is None:
        first, *others = sizes
        return (Memory(SRAM, sizes[first]), *(Memory(name, sizes[name]) for name in others))
    known = {memory.name: memory for memory in of_board(board, cores)}
    names = {name_of(memory, board): memory for memory in known}
    for name in sizes:
        if name not in names and name != SRAM:
            cure = did_you_mean(name, names, f"it has {', '.join(names)}")
            raise MemoryFault(f"--sram {name}={sizes[name]}: {board.id} has no memory of this name; {cure}")
    by_name = {names.get(name, SRAM): size for name, size in sizes.items()}
    if len(by_name) < len(sizes):
        raise MemoryFault(f"--sram: {name_of(SRAM, board)} and {SRAM} are one memory of {board.id}; give it once")
    return tuple(replace(known[n], bytes=min(known[n].bytes, by_name[n])) for n in known if n in by_name)


def name_of(memory: str, board: Board | None) -> str:
    """The user's name of a memory of a plan."""
    main = board.spec.main_memory if board else None
    return main.name if memory == SRAM and main is not None else memory


def require_rows(graph: Graph, memories: tuple[Memory, ...], board: Board | None) -> None:
    """Raises MemoryFault where a memory is smaller than every row of the model."""
    tensors = (graph.tensors[name] for op in graph.ops for name in (*op.inputs, op.output) if name in graph.tensors)
    least = min((tensor.type.row_bytes for tensor in tensors if tensor.data is None), default=0)
    for memory in memories:
        if memory.bytes < least:
            name = name_of(memory.name, board)
            raise MemoryFault(
                f"--sram {name}={memory.bytes}: no row of {graph.name} fits, the smallest has {least} bytes; "
                f"give more, or leave {name} out"
            )
