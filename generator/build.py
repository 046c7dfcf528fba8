"""The whole road: a model and a board in, a plan and a folder's files out. Nothing here prints or writes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from shoehorn_mcu import importers, passes, targets
from shoehorn_mcu.emit.bundle import Bundle
from shoehorn_mcu.emit.library import library
from shoehorn_mcu.emit.names import library_name
from shoehorn_mcu.emit.project import project
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.emit.weights import Constants, constants
from shoehorn_mcu.ir import Graph
from shoehorn_mcu.kernels import ANY
from shoehorn_mcu.kernels.tuning import Tuning
from shoehorn_mcu.planner import DoesNotFit, Goal
from shoehorn_mcu.report import Json, report, timeless
from shoehorn_mcu.schedule import PlanRequest, Scheduled, schedule
from shoehorn_mcu.stage import stages
from shoehorn_mcu.targets import Board, Machine

# Code without the model's constants, as built for Cortex-M: 13.9 KB with 3 kernels (M3), 21.3 KB with 6 (M0). This is
# an estimate from below, so that nothing is refused that would fit; the linker has the last word.
CODE_BYTES = 11 * 1024
KERNEL_BYTES = 1024


@dataclass(frozen=True)
class Options:
    """What the command line asks for."""

    sram_bytes: int | None = None  # for the arena; None: all that the board has left
    goal: Goal = Goal.TIME
    disabled: frozenset[str] = frozenset()
    preserve: tuple[str, ...] = ()
    stream_input: bool = False  # the input arrives row by row
    # Percent of the model's MACs that may be computed again; None: as many as a limit of the arena takes, and none for
    # the smallest arena or without a limit.
    recompute_percent: float | None = None
    tuning: Tuning = Tuning()
    caller_arena: bool = False  # the library takes its arena from the caller
    cpu: str | None = None  # key of targets.CPUS, without a board; None: portable kernels
    flash_bytes: int | None = None  # for the library's constants and code, without a board


@dataclass(frozen=True, eq=False)
class Planned:
    """A model with its kernels, plan and constants, and the report about it."""

    unit: Unit
    constants: Constants
    report: Json
    uncut: Scheduled  # the plan, with the graph and the stages as they are before blocks are cut into chunks


def plan_model(
    model: Path, board: Board | None, options: Options, say: Callable[[str], None] = lambda _: None
) -> Planned:
    """Import, passes, kernels, problem, plan.

    Without a board: the kernels of `options.cpu`, and only `options.sram_bytes` and `options.flash_bytes` limit the
    library. `say` is called with a line about each thing that is tried.
    """
    source = importers.load(model)
    graph, records = passes.run(source, options.disabled, options.preserve)
    passes.prove_int32(graph)
    if options.stream_input:
        graph = passes.unflatten_input(graph)
    chosen = stages(graph, _machine(graph, board, options))
    capacity = _capacity(board, options)
    request = PlanRequest(options.goal, capacity, options.stream_input, _most_macs(graph, options, capacity))
    try:
        made = schedule(graph, chosen, request, say)
    except DoesNotFit as refusal:
        raise _with_advice(refusal, graph, board, options.stream_input) from refusal
    uncut = Scheduled(graph, chosen, made.plan)
    sha256 = hashlib.sha256(model.read_bytes()).hexdigest()
    unit = Unit(
        library_name(graph.name),
        made.graph,
        made.stages,
        made.plan,
        sha256,
        options.tuning.digest,
        options.caller_arena,
    )
    found = constants(unit)
    _refuse_flash(unit, found, board, options.flash_bytes)
    return Planned(unit, found, report(source, board, records, made.plan, made.stages), uncut)


def firmware(
    model: Path, board: Board, options: Options, task: str = "auto", say: Callable[[str], None] = lambda _: None
) -> tuple[Planned, Bundle]:
    """The plan and every file of the project folder. `task` is one of emit.mlperf.CHOICES."""
    planned = plan_model(model, board, options, say)
    return planned, project(planned.unit, planned.constants, board, task, timeless(planned.report))


def alone(model: Path, options: Options, say: Callable[[str], None] = lambda _: None) -> tuple[Planned, Bundle]:
    """The plan and every file of the library alone."""
    planned = plan_model(model, None, options, say)
    return planned, library(planned.unit, planned.constants)


def _machine(graph: Graph, board: Board | None, options: Options) -> Machine:
    """What kernels are chosen for: a core, and the flash that is left beside the application."""
    cpu = board.spec.cpu if board else options.cpu
    machine = Machine.of(cpu) if cpu else ANY
    flash = board.spec.flash_bytes - CODE_BYTES if board else options.flash_bytes
    if flash is not None:
        read_by_rows = {t.name: t for node in graph.nodes() for t in node.row_inputs if t.data is not None}
        flash -= sum(t.type.bytes for t in read_by_rows.values())
    return replace(machine, flash_left=flash, tuning=options.tuning.kernels)


def _most_macs(graph: Graph, options: Options, capacity: int | None) -> int | None:
    """What may be computed again."""
    if options.recompute_percent is not None:
        return int(graph.macs * options.recompute_percent / 100)
    return 0 if options.goal is Goal.SRAM or capacity is None else None


def _capacity(board: Board | None, options: Options) -> int | None:
    """Bytes that the arena may take: the user's, but never more than the board has left."""
    limits = (board.arena_limit_bytes if board else None, options.sram_bytes)
    return min((n for n in limits if n is not None), default=None)


def _with_advice(refusal: DoesNotFit, graph: Graph, board: Board | None, streamed: bool) -> DoesNotFit:
    """The refusal, with the place before it and what would help after it."""
    where = f"{graph.name} on {board.id}" if board else graph.name
    enough = [b.id for b in targets.boards() if b.arena_limit_bytes >= refusal.needed_bytes]
    cure = f"boards with room for it: {', '.join(enough)}" if enough else "no board of ours has room for it"
    if board is None or (board.id in enough):
        cure = f"--sram {refusal.needed_bytes} would do; {cure}"
    if not streamed and len(graph.inputs) == 1 and graph.tensors[graph.inputs[0]].type.rows > 1:
        cure += "; --stream-input never holds the whole input and may take less"
    message = f"{where}: {refusal}; {cure}; a smaller input makes every map smaller"
    return DoesNotFit(message, refusal.needed_bytes, refusal.available_bytes)


def _refuse_flash(unit: Unit, found: Constants, board: Board | None, limit: int | None) -> None:
    """DoesNotFit where constants and the least that the code needs exceed the board's flash, or the limit."""
    available = board.spec.flash_bytes if board else limit
    code = (CODE_BYTES if board else 0) + KERNEL_BYTES * len({stage.kernel.name for stage in unit.stages})
    needed = found.bytes + code
    if available is None or needed <= available:
        return
    enough = [b.id for b in targets.boards() if b.spec.flash_bytes >= needed]
    where = f"{unit.graph.name} on {board.id}" if board else unit.graph.name
    given = "the board has" if board else "--flash allows"
    raise DoesNotFit(
        f"{where}: needs {found.bytes:,} bytes of flash for constants and about {code:,} for "
        f"code, {given} {available:,}; boards with room: {', '.join(enough) or 'none of ours'}",
        needed,
        available,
    )
