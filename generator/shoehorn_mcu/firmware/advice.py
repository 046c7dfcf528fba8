"""Error messages for models that do not fit: the model and board first, then the reason, then cures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shoehorn_mcu.estimate.flash import Flash
from shoehorn_mcu.ir import Graph
from shoehorn_mcu.machine import targets
from shoehorn_mcu.machine.targets import Board
from shoehorn_mcu.planner import DoesNotFit

_NAMED = 5  # boards that a message names; `gen boards` lists all


def _place(graph: Graph, board: Board | None) -> str:
    return f"{graph.name} on {board.id}" if board else graph.name


def with_room(arena_bytes: int, flash: Flash) -> Sequence[str]:
    """The boards whose SRAM and flash both suffice, those with the least SRAM first."""
    return [
        board.id
        for board in sorted(targets.boards(), key=lambda board: board.arena_limit_bytes)
        if board.arena_limit_bytes >= arena_bytes and not flash.surely_exceeds(board.spec.flash_bytes)
    ]


def _boards(names: Sequence[str], what: str = "room") -> str:
    if not names:
        return f"no board of ours has {what} for it"
    rest = len(names) - _NAMED
    more = f" and {rest} more" if rest > 0 else ""
    return f"boards with {what} for it: {', '.join(names[:_NAMED])}{more}"


def sram_refusal(
    refusal: DoesNotFit, graph: Graph, board: Board | None, streaming: str | None, flash: Flash
) -> DoesNotFit:
    """The planner's refusal with model, board and cures; `flash` is the least flash that the model needs.

    `streaming` is the option that streams the input, None where it is streamed already.
    """
    has_room = board is not None and board.arena_limit_bytes >= refusal.needed_bytes
    cures = [f"--sram {refusal.needed_bytes} is enough"] if board is None or has_room else []
    cures += [] if has_room else [_boards(with_room(refusal.needed_bytes, flash))]
    if streaming and len(graph.inputs) == 1 and graph.tensors[graph.inputs[0]].type.rows > 1:
        cures.append(f"{streaming} never holds the whole input and may need less")
    cures.append("a smaller input makes every tensor smaller")
    need = f"{_place(graph, board)}: {refusal.need}"
    return DoesNotFit(need, refusal.needed_bytes, refusal.available_bytes, peak=refusal.peak, cures=cures)


def flash_refusal(
    graph: Graph, board: Board | None, arena_bytes: int | None, flash: Flash, available: int
) -> DoesNotFit:
    """The refusal of a model whose constants and code exceed the flash; `arena_bytes`: None before it is planned."""
    given = "the board has" if board else "--flash allows"
    need = (
        f"{_place(graph, board)}: needs about {flash.bytes:,} bytes of flash ({flash.constant_bytes:,} for constants, "
        f"about {flash.code_bytes:,} for code), {given} {available:,}"
    )
    enough = _boards(with_room(arena_bytes or 0, flash), "room" if arena_bytes else "flash")
    return DoesNotFit(need, flash.bytes, available, cures=(enough, "a model with fewer weights needs less"))


def sram_refusal_of_several(arenas: Mapping[str, int], board: Board, available: int) -> DoesNotFit:
    """The refusal of models whose smallest arenas, in bytes by name, exceed the SRAM together."""
    total = sum(arenas.values())
    need = (
        f"{_models(arenas)} on {board.id}: need at least {total:,} bytes of SRAM at the same time ({_listed(arenas)}), "
        f"{available:,} are left"
    )
    return DoesNotFit(need, total, available, cures=("without --concurrent they need as much as the largest",))


def flash_refusal_of_several(constants: Mapping[str, int], board: Board, arena_bytes: int, flash: Flash) -> DoesNotFit:
    """The refusal of planned models whose constants, in bytes by name, and code exceed the flash together."""
    need = (
        f"{_models(constants)} on {board.id}: need about {flash.bytes:,} bytes of flash ({flash.constant_bytes:,} for "
        f"constants: {_listed(constants)}; about {flash.code_bytes:,} for code), the board has "
        f"{board.spec.flash_bytes:,}"
    )
    cures = (_boards(with_room(arena_bytes, flash)), "--minimize flash needs less")
    return DoesNotFit(need, flash.bytes, board.spec.flash_bytes, cures=cures)


def _models(sizes: Mapping[str, int]) -> str:
    *others, last = sizes
    return f"{', '.join(others)} and {last}"


def _listed(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {size:,}" for name, size in sizes.items())
