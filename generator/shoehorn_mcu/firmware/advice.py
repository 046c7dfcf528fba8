"""Error messages for models that do not fit: the model and board first, then the reason, then cures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shoehorn_mcu.estimate.flash import Flash
from shoehorn_mcu.ir import Graph
from shoehorn_mcu.machine import targets
from shoehorn_mcu.machine.targets import Board
from shoehorn_mcu.planner import DoesNotFit


def _place(graph: Graph, board: Board | None) -> str:
    return f"{graph.name} on {board.id}" if board else graph.name


def with_room(arena_bytes: int, flash: Flash) -> Sequence[str]:
    """The boards whose SRAM and flash both suffice."""
    return [
        board.id
        for board in targets.boards()
        if board.arena_limit_bytes >= arena_bytes and not flash.surely_exceeds(board.spec.flash_bytes)
    ]


def _boards(names: Sequence[str], what: str = "room") -> str:
    return f"boards with {what} for it: {', '.join(names)}" if names else f"no board of ours has {what} for it"


def sram_refusal(
    refusal: DoesNotFit, graph: Graph, board: Board | None, streaming: str | None, flash: Flash
) -> DoesNotFit:
    """The planner's refusal with model, board and cures; `flash` is the least flash that the model needs.

    `streaming` is the option that streams the input, None where it is streamed already.
    """
    enough = with_room(refusal.needed_bytes, flash)
    cure = _boards(enough)
    if board is None or board.arena_limit_bytes >= refusal.needed_bytes:
        cure = f"--sram {refusal.needed_bytes} is enough; {cure}"
    if streaming and len(graph.inputs) == 1 and graph.tensors[graph.inputs[0]].type.rows > 1:
        cure += f"; {streaming} never holds the whole input and may need less"
    message = f"{_place(graph, board)}: {refusal}; {cure}; a smaller input makes every tensor smaller"
    return DoesNotFit(message, refusal.needed_bytes, refusal.available_bytes)


def flash_refusal(
    graph: Graph, board: Board | None, arena_bytes: int | None, flash: Flash, available: int
) -> DoesNotFit:
    """The refusal of a model whose constants and code exceed the flash; `arena_bytes`: None before it is planned."""
    enough = _boards(with_room(arena_bytes or 0, flash), "room" if arena_bytes else "flash")
    given = "the board has" if board else "--flash allows"
    message = (
        f"{_place(graph, board)}: needs about {flash.bytes:,} bytes of flash ({flash.constant_bytes:,} for constants, "
        f"about {flash.code_bytes:,} for code), {given} {available:,}; {enough}; "
        f"a model with fewer weights needs less"
    )
    return DoesNotFit(message, flash.bytes, available)


def sram_refusal_of_several(arenas: Mapping[str, int], board: Board, available: int) -> DoesNotFit:
    """The refusal of models whose smallest arenas, in bytes by name, exceed the SRAM together."""
    total = sum(arenas.values())
    message = (
        f"{_models(arenas)} on {board.id}: need at least {total:,} bytes of SRAM at the same time ({_listed(arenas)}), "
        f"{available:,} are left; without --concurrent they need as much as the largest"
    )
    return DoesNotFit(message, total, available)


def flash_refusal_of_several(constants: Mapping[str, int], board: Board, arena_bytes: int, flash: Flash) -> DoesNotFit:
    """The refusal of planned models whose constants, in bytes by name, and code exceed the flash together."""
    message = (
        f"{_models(constants)} on {board.id}: need about {flash.bytes:,} bytes of flash ({flash.constant_bytes:,} for "
        f"constants: {_listed(constants)}; about {flash.code_bytes:,} for code), the board has "
        f"{board.spec.flash_bytes:,}; {_boards(with_room(arena_bytes, flash))}; --minimize flash needs less"
    )
    return DoesNotFit(message, flash.bytes, board.spec.flash_bytes)


def _models(sizes: Mapping[str, int]) -> str:
    *others, last = sizes
    return f"{', '.join(others)} and {last}"


def _listed(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {size:,}" for name, size in sizes.items())
