"""All stages in order, from a model and a board to a plan and a folder's files. Nothing here prints or writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from shoehorn_mcu.emit import bindings
from shoehorn_mcu.emit.bundle import Bundle
from shoehorn_mcu.emit.folder.app import Models
from shoehorn_mcu.emit.folder.energy import Energy
from shoehorn_mcu.emit.folder.energy import check as check_energy
from shoehorn_mcu.emit.folder.framework import NONE, framework_project
from shoehorn_mcu.emit.folder.library import library
from shoehorn_mcu.emit.folder.mlperf import task_of
from shoehorn_mcu.emit.folder.project import project
from shoehorn_mcu.emit.folder.single_file import single_file
from shoehorn_mcu.emit.model.weights import Constants, constants
from shoehorn_mcu.emit.unit import InRam, Unit
from shoehorn_mcu.estimate import flash, hot_weights
from shoehorn_mcu.estimate.ram import ram
from shoehorn_mcu.firmware import advice
from shoehorn_mcu.firmware.limits import NoBoard
from shoehorn_mcu.firmware.prepare import Model, Prepared, keeping, prepare, window_of
from shoehorn_mcu.firmware.report import Json, report, timeless
from shoehorn_mcu.firmware.settings import Options
from shoehorn_mcu.firmware.sliding import hint
from shoehorn_mcu.firmware.slow import slow_parts
from shoehorn_mcu.ir import Graph
from shoehorn_mcu.kernels import ANY
from shoehorn_mcu.machine import memories
from shoehorn_mcu.machine.targets import Board, Machine
from shoehorn_mcu.passes.float_mode import FloatMode as FloatMode
from shoehorn_mcu.planner import DoesNotFit, Goal
from shoehorn_mcu.schedule import pareto, predict
from shoehorn_mcu.schedule.cuts import Cuts
from shoehorn_mcu.schedule.request import PlanRequest, Scheduled
from shoehorn_mcu.schedule.search import schedule
from shoehorn_mcu.schedule.stage import Stage, kernel_bytes, stages

LEAST_GAIN = 0.6  # of the number of cores: the predicted speed-up below which a note says why


@dataclass(frozen=True, eq=False)
class Planned:
    """A model with its kernels, plan and constants, and the report about it."""

    unit: Unit
    constants: Constants
    report: Json
    uncut: Cuts  # the graph and the stages as they are before blocks are cut into chunks
    notes: tuple[str, ...] = ()  # lines for the user: what was ignored, what a choice costs
    hints: Callable[[], str] = str  # a line on what another option would save, which takes a second to find; or ""

    @property
    def time(self) -> float:
        """The predicted time of one inference."""
        return predict.time(self.unit.plan, self.unit.stages)


def plan_model(
    model: Model, board: Board | None, options: Options, say: Callable[[str], None] = lambda _: None
) -> Planned:
    """Imports and optimises the model, chooses kernels and plans memory.

    Without a board: the kernels of `options.cpu`, and only `options.sram_bytes` and `options.flash_bytes` limit the
    library. `say` is called with a line of progress.
    """
    ready = prepare(model, board, options)
    if ready.sliding is None and ready.wake is None:
        return replace(_planned(ready, board, say), hints=partial(hint, ready.source, options))
    return _by_new_rows(ready, board, say)


def _by_new_rows(ready: Prepared, board: Board | None, say: Callable[[str], None]) -> Planned:
    """The plan of a model, or of a pipeline's second one, that takes new rows: of the choices which tensors keep rows
    that of the fewest MACs which fits, or for the smallest arena that which has it. Of a pipeline the plan of whole
    windows is another choice. Raises DoesNotFit.
    """
    window = ready.wake.sliding if ready.wake else ready.sliding
    assert window is not None
    found: list[Planned] = []
    refusals: list[DoesNotFit] = []
    smallest, most = ready.options.goal is Goal.SRAM, ready.limits.capacity_bytes

    def tried(each: Prepared) -> None:
        try:
            found.append(_planned(each, board, say))
        except DoesNotFit as refusal:
            refusals.append(refusal)

    if ready.wake:
        tried(ready)
    whole = len(found)
    for choice in reversed(window.choices) if smallest else window.choices:  # no arena is smaller than what is kept
        room = min((each.unit.plan.total_bytes for each in found), default=most) if smallest else most
        if room is not None and choice.state_bytes > room and choice is not window.choices[-1]:
            continue
        tried(keeping(ready, choice.less) if choice.less.tensors or ready.wake else ready)
        if not smallest and len(found) > whole:
            break
    if not found:
        raise min(refusals, key=lambda one: one.needed_bytes)
    return min(found, key=lambda one: (one.unit.plan.total_bytes, one.time) if smallest else (one.time, 0))


def _planned(ready: Prepared, board: Board | None, say: Callable[[str], None]) -> Planned:
    """The plan of a prepared model, within the flash that it may use."""
    machine, limit = machine_for([ready], board), ready.limits.flash_bytes
    chosen = stages(ready.graph, machine)
    if limit is not None and chosen:  # before a plan is searched, which may take minutes
        least = least_flash(chosen, application=board is not None)
        if least.surely_exceeds(limit):
            raise advice.flash_refusal(ready.graph, board, None, least, limit)
    made = plan_prepared(ready, board, machine, chosen, say)
    needed = _flash(made.unit, made.constants, machine.cpu, board)
    if limit is not None and needed.surely_exceeds(limit):
        raise advice.flash_refusal(ready.graph, board, made.unit.plan.arena_bytes, needed, limit)
    return made


def plan_prepared(
    ready: Prepared,
    board: Board | None,
    machine: Machine,
    chosen: Sequence[Stage],
    say: Callable[[str], None] = lambda _: None,
) -> Planned:
    """Plans the memory of a model whose kernels were `chosen` for this machine; raises DoesNotFit."""
    options, graph, source = ready.options, ready.graph, ready.source
    notes = [*ready.notes]
    if options.smallest_kernels:
        notes.append(_price_of_smallest(graph, machine, chosen))
    may = ready.limits
    if isinstance(options.sram_bytes, Mapping):
        memories.require_rows(graph, may.memories, board)
    request = PlanRequest(
        options.goal,
        may.capacity_bytes,
        options.stream_input,
        _most_macs(graph, options, may.capacity_bytes),
        weigh_smaller=True,
        prefer_smaller=options.sram_bytes is None,
        cores=options.cores,
        memories=may.memories,
        stream_output=options.stream_output,
    )
    cuts = Cuts(graph, chosen)
    try:
        if options.slower_percent is None:
            made = schedule(cuts, request, say)
        else:
            made = pareto.smallest_within(cuts, request, options.slower_percent, say)
    except DoesNotFit as refusal:
        streaming = None if options.stream_input else ready.streaming
        raise advice.sram_refusal(refusal, graph, board, streaming, least_flash(chosen)) from refusal
    notes += _slow_cores(made, options)
    unit = Unit(
        ready.name,
        made.graph,
        made.stages,
        made.plan,
        ready.origin.sha256,
        options.tuning.digest,
        options.caller_arena,
        options.float_mode.value,
        ready.precise if options.float_mode.flushes else None,
        {n: e for n, e in ready.ends.items() if not options.native_io or n not in (*source.inputs, *source.outputs)},
        classes=options.classes,
        sample_hz=options.sample_hz if options.behind else None,
        origin=ready.origin,
        window=window_of(ready),
    )
    constant = constants(unit)
    unit = replace(unit, in_ram=_in_ram(unit, constant, board, options))
    needed = _flash(unit, constant, machine.cpu, board)
    flash_bytes = (needed.constant_bytes, needed.code_bytes, may.flash_bytes)
    slow = slow_parts(ready.imported, ready.graph, chosen, made.stages)
    said = report(source, board, ready.records, made.plan, made.stages, flash_bytes, options.float_mode.value, slow)
    if unit.window is not None:
        slid = {**unit.window.json(made.graph), **(ready.sliding.json() if ready.sliding else {})}
        said = {**said, "plan": {**_object(said["plan"]), "slide": slid}}
    if options.weights_in_ram is not None:
        own = unit.in_ram
        copied = {"bytes": own.bytes, "arrays": len(own.names), "saved_cycles": own.saved_cycles}
        said = {**said, "weights_in_ram": copied}
    return _with_ram(Planned(unit, constant, said, cuts, tuple(notes)), board, "auto")


def _object(value: object) -> Mapping[str, object]:
    assert isinstance(value, Mapping)
    return value


def _in_ram(unit: Unit, constant: Constants, board: Board | None, options: Options) -> InRam:
    """The constants that are copied to RAM, in what the arena and the buffer of `db load` leave of it."""
    if options.weights_in_ram is None:
        return InRam()
    if board is None:
        raise NoBoard("--weights-in-ram is worth what a board's flash makes its core wait: give one by --board")
    if options.one_memory:
        raise memories.MemoryFault("--weights-in-ram: several models keep their weights in flash; leave the option out")
    app = Models((unit,), ("",), task_of(unit.graph, "auto"), unit.plan.arena_bytes, (0,))
    left = board.arena_limit(unit.cores) - unit.plan.arena_bytes - app.buffer_bytes(board)
    limit = options.weights_in_ram
    return hot_weights.in_ram(unit, constant, board, min(left, limit) if isinstance(limit, int) else left)


def _with_ram(planned: Planned, board: Board | None, task: str) -> Planned:
    """With the predicted RAM of the firmware in the report, null without a board."""
    unit, found = planned.unit, None
    if board is not None:
        app = Models((unit,), ("",), task_of(unit.graph, task), unit.plan.arena_bytes, (0,))
        sizes = unit.plan.arena_bytes, len(unit.stages), app.buffer_bytes(board)
        found = ram(*sizes, unit.cores, board, unit.in_ram.bytes)
    parts = None if found is None else {"predicted_bytes": found.bytes, **vars(found)}
    return replace(planned, report={**planned.report, "ram": parts})


def firmware(
    model: Model,
    board: Board,
    options: Options,
    task: str = "auto",
    say: Callable[[str], None] = lambda _: None,
    framework: str = NONE,
    energy: Energy = Energy.NONE,
) -> tuple[Planned, Bundle]:
    """The plan and every file of the project folder. `task` is one of emit.mlperf.CHOICES.

    With a `framework` (one of emit.framework.CHOICES) the folder is a project of it, without our application.
    """
    check_energy(board, energy)
    planned = _with_ram(plan_model(model, board, options, say), board, task)
    if framework != NONE:
        return planned, framework_project(planned.unit, planned.constants, board, framework)
    return planned, project(planned.unit, planned.constants, board, task, timeless(planned.report), energy)


def alone(
    model: Model,
    options: Options,
    say: Callable[[str], None] = lambda _: None,
    in_one_file: bool = False,
    framework: str = bindings.NONE,
    about: bindings.About | None = None,
) -> tuple[Planned, Bundle]:
    """The plan and every file of the library alone; `in_one_file`: a C file and its header.

    With a `framework` (one of emit.bindings.CHOICES) the files are those that it builds, a package that says `about`.
    """
    planned = plan_model(model, None, options, say)
    if framework != bindings.NONE:
        return planned, bindings.binding(planned.unit, planned.constants, framework, options.cpu, about)
    return planned, (single_file if in_one_file else library)(planned.unit, planned.constants)


def _slow_cores(made: Scheduled, options: Options) -> Iterator[str]:
    """Why several cores gain little, where they do."""
    gain = predict.speedup(made.plan, made.stages)
    if gain < options.cores * LEAST_GAIN:
        why = "layers of one row are not divided, nor those whose rows overwrite others"
        streamed = options.stream_input or options.stream_output
        if options.goal is Goal.SRAM or streamed or isinstance(options.sram_bytes, int):
            why += ", as they do in smaller plans than that of whole tensors"
        yield f"{options.cores} cores are predicted to be {gain:.1f} times as fast as one: {why}"


def machine_for(models: Sequence[Prepared], board: Board | None) -> Machine:
    """The machine that kernels are chosen for: a core, and the flash that the application and plans by rows leave.

    Kernels of several models, which have the same options but for their inputs, are in one firmware.
    """
    options, cpu = models[0].options, models[0].limits.cpu
    machine = replace(
        Machine.of(cpu, options.float_mode.flushes) if cpu else ANY,
        packs="pre-pack-weights" not in options.disabled,
        disabled=options.disabled,
        overwrites="overwrite-inputs" not in options.disabled,
    )
    left = board.spec.flash_bytes - flash.application_bytes(machine.cpu) if board else options.flash_bytes
    if left is not None:
        left -= flash.ERROR_BYTES
        for graph in (each.graph for each in models):
            read_by_rows = {t.name: t for node in graph.nodes() for t in node.row_inputs if t.data is not None}
            left -= sum(t.type.bytes for t in read_by_rows.values())
            rows = sum(node.output.type.rows for node in graph.nodes())
            left -= round(flash.plan_bytes(len(graph.ops), rows, machine.cpu))
    tuned = {key: kernel for each in models for key, kernel in each.options.tuning.kernels.items()}
    return replace(machine, flash_left=0 if options.smallest_kernels else left, tuning=tuned)


def _price_of_smallest(graph: Graph, machine: Machine, chosen: Sequence[Stage]) -> str:
    """What the smallest kernels cost in time, and save in flash."""
    fastest = stages(graph, replace(machine, flash_left=None))
    saved = kernel_bytes(fastest) - kernel_bytes(chosen)
    fast, slow = (sum(s.row_cost * s.node.output.type.rows for s in each) for each in (fastest, chosen))
    percent = 100 * (slow / max(1, fast) - 1)
    return f"smallest kernels: {saved:,} bytes of flash less than with the fastest ones, for {percent:.1f} % more time"


def _most_macs(graph: Graph, options: Options, capacity: int | None) -> int | None:
    """MACs that may be recomputed; None: as many as the capacity requires."""
    if options.recompute_percent is not None:
        return int(graph.macs * options.recompute_percent / 100)
    if options.slower_percent is not None:
        return int(graph.macs * options.slower_percent / 100)
    return 0 if options.goal is Goal.SRAM or capacity is None else None


def _flash(unit: Unit, constant: Constants, cpu: str, board: Board | None) -> flash.Flash:
    """The flash of the firmware, or without a board that of the library alone."""
    code = flash.code_bytes(flash.features(unit), cpu, application=board is not None)
    return flash.Flash(constant.bytes, code)


def least_flash(chosen: Sequence[Stage], application: bool = True) -> flash.Flash:
    """The flash that a firmware of this model needs at least, whatever its plan; or without application the library."""
    code = flash.code_bytes(flash.least(chosen), chosen[0].cpu, application)
    return flash.Flash(sum(stage.weight_bytes for stage in chosen), code)
