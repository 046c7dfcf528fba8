"""All stages in order, from a model and a board to a plan and a folder's files. Nothing here prints or writes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from shoehorn_mcu import importers, passes
from shoehorn_mcu.emit import bindings
from shoehorn_mcu.emit.bundle import Bundle
from shoehorn_mcu.emit.folder.app import Models
from shoehorn_mcu.emit.folder.energy import Energy
from shoehorn_mcu.emit.folder.energy import check as check_energy
from shoehorn_mcu.emit.folder.framework import NONE, framework_project
from shoehorn_mcu.emit.folder.graph_file import graph_bytes
from shoehorn_mcu.emit.folder.library import library
from shoehorn_mcu.emit.folder.mlperf import task_of
from shoehorn_mcu.emit.folder.project import project
from shoehorn_mcu.emit.folder.single_file import single_file
from shoehorn_mcu.emit.model.weights import Constants, constants
from shoehorn_mcu.emit.names import library_name
from shoehorn_mcu.emit.unit import InRam, Unit, Window
from shoehorn_mcu.estimate import flash, hot_weights
from shoehorn_mcu.estimate.ram import ram
from shoehorn_mcu.firmware import advice
from shoehorn_mcu.firmware.limits import Limits, NoBoard, limits
from shoehorn_mcu.firmware.pipelines import PipelineError, pipeline
from shoehorn_mcu.firmware.report import Json, report, timeless
from shoehorn_mcu.firmware.settings import Options
from shoehorn_mcu.firmware.sliding import Sliding, finished, hint, keeping_less, sliding
from shoehorn_mcu.firmware.sliding import check as check_slide
from shoehorn_mcu.firmware.slow import slow_parts
from shoehorn_mcu.importers import Imported
from shoehorn_mcu.ir import Ends, FileTensor, Graph, Origin
from shoehorn_mcu.kernels import ANY
from shoehorn_mcu.machine import memories
from shoehorn_mcu.machine.targets import CPUS, Board, Isa, Machine
from shoehorn_mcu.passes import PassRecord
from shoehorn_mcu.passes.ends.ends import AFTER, BEFORE, Asked, with_ends
from shoehorn_mcu.passes.ends.native_io import native_io
from shoehorn_mcu.passes.ends.slide_check import check_slid
from shoehorn_mcu.passes.float_mode import FloatMode as FloatMode
from shoehorn_mcu.passes.float_mode import FloatModeError, with_float_mode
from shoehorn_mcu.planner import DoesNotFit, Goal
from shoehorn_mcu.schedule import pareto, predict
from shoehorn_mcu.schedule.cuts import Cuts
from shoehorn_mcu.schedule.request import PlanRequest, Scheduled
from shoehorn_mcu.schedule.search import schedule
from shoehorn_mcu.schedule.stage import Stage, kernel_bytes, stages

Model = Path | Imported
"""A model's file, or a model that was imported."""
LEAST_GAIN = 0.6  # of the number of cores: the predicted speed-up below which a note says why


@dataclass(frozen=True, eq=False)
class Planned:
    """A model with its kernels, plan and constants, and the report about it."""

    unit: Unit
    constants: Constants
    report: Json
    uncut: Cuts  # the graph and the stages as they are before blocks are cut into chunks
    notes: tuple[str, ...] = ()  # lines for the user: what was ignored, what a choice costs
    hint: str = ""  # what another option would save

    @property
    def time(self) -> float:
        """The predicted time of one inference."""
        return predict.time(self.unit.plan, self.unit.stages)


@dataclass(frozen=True, eq=False)
class Prepared:
    """A model after the passes, and everything else that its plan depends on beside board, kernels and limits."""

    options: Options  # with the tuning that is for this model
    limits: Limits
    source: Graph
    graph: Graph
    precise: Graph  # in FloatMode.PRECISE
    records: Sequence[PassRecord]
    ends: Ends
    origin: Origin
    notes: tuple[str, ...]
    imported: Imported
    sliding: Sliding | None = None  # where the model takes new rows of its window
    streaming: str = "--stream-input"  # the option by which the user streams its input

    @property
    def name(self) -> str:
        """The model's C name."""
        return library_name(self.graph.name)


def plan_model(
    model: Model, board: Board | None, options: Options, say: Callable[[str], None] = lambda _: None
) -> Planned:
    """Imports and optimises the model, chooses kernels and plans memory.

    Without a board: the kernels of `options.cpu`, and only `options.sram_bytes` and `options.flash_bytes` limit the
    library. `say` is called with a line of progress.
    """
    ready = prepare(model, board, options)
    if ready.sliding is None:
        return replace(_planned(ready, board, say), hint=hint(ready.source, options))
    return _by_new_rows(ready, ready.sliding, board, say)


def _by_new_rows(ready: Prepared, window: Sliding, board: Board | None, say: Callable[[str], None]) -> Planned:
    """The plan of a model that takes new rows: of the choices which tensors keep rows that with the fewest MACs which
    fits, or for the smallest arena that which has it; raises DoesNotFit.
    """
    best: Planned | None = None
    refusal: DoesNotFit | None = None
    smallest, most = ready.options.goal is Goal.SRAM, ready.limits.capacity_bytes
    for choice in window.choices:
        most_state = best.unit.plan.total_bytes if best else most
        if most_state is not None and choice.state_bytes > most_state and choice is not window.choices[-1]:
            continue
        each = _keeping(ready, window, choice.recomputed) if choice.recomputed else ready
        try:
            made = _planned(each, board, say)
        except DoesNotFit as error:
            refusal = min(refusal or error, error, key=lambda one: one.needed_bytes)
            continue
        best = min(best or made, made, key=lambda one: (one.unit.plan.total_bytes, one.time))
        if not smallest:
            break
    if best is None:
        assert refusal is not None
        raise refusal
    return best


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


def prepare(model: Model, board: Board | None, options: Options) -> Prepared:
    """Imports and optimises the model."""
    check_slide(options)
    may = limits(board, options)
    found, origin, joined = _imported(model, options)
    asked, window = _asked(options), None
    source, ends = with_ends(found.graph, found.ends, asked, BEFORE)
    if options.hop is None:
        graph, records = passes.run(source, options.disabled, options.preserve)
    else:
        window = sliding(source, options, options.hop)
        graph, records = finished(window, options)
        check_slid(window.slid, graph)
        ends = {name: end for name, end in ends.items() if name not in graph.inputs}
        origin = Origin(sha256=origin.sha256, why="--slide: its file takes whole windows, and the firmware new rows")
    records = [passes.folding(source, found.folded), *records]
    passes.prove_int32(graph)
    graph, ends = with_ends(graph, ends, asked, AFTER)
    precise, graph = graph, with_float_mode(graph, options.float_mode)
    _require_float_mode(board, may.cpu, options.float_mode)
    tuning, note = options.tuning.fitting(origin.sha256, board.id if board else None, may.cpu or "")
    notes = (*joined, *(each for each in (options.stand_in, note) if each))
    options = replace(options, tuning=tuning)
    return Prepared(options, may, source, graph, precise, records, ends, origin, notes, found, window)


def _keeping(ready: Prepared, window: Sliding, recomputed: Collection[str]) -> Prepared:
    """The model by new rows, without rows of these tensors, which each step computes."""
    window = keeping_less(window, recomputed)
    graph, records = finished(window, ready.options)
    check_slid(window.slid, passes.prove_int32(graph))
    graph, ends = with_ends(graph, ready.ends, _asked(ready.options), AFTER)
    mode = with_float_mode(graph, ready.options.float_mode)
    records = [*ready.records[:1], *records]
    return replace(ready, graph=mode, precise=graph, records=records, ends=ends, sliding=window)


def _asked(options: Options) -> Asked:
    """What the options ask of the model's ends."""
    return Asked(
        stateless=options.stateless,
        states=options.states,
        pixels=options.pixels,
        native_io=options.native_io,
        classes=options.classes,
        top=options.top,
        stream_input=options.stream_input,
        stream_output=options.stream_output,
        sums="sum-rows" not in options.disabled,
    )


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
        None if graph is ready.precise else ready.precise,
        {n: e for n, e in ready.ends.items() if not options.native_io or n not in (*source.inputs, *source.outputs)},
        classes=options.classes,
        sample_hz=options.sample_hz if options.behind else None,
        origin=ready.origin,
        window=_window(ready),
    )
    constant = constants(unit)
    unit = replace(unit, in_ram=_in_ram(unit, constant, board, options))
    needed = _flash(unit, constant, machine.cpu, board)
    flash_bytes = (needed.constant_bytes, needed.code_bytes, may.flash_bytes)
    slow = slow_parts(ready.imported, ready.graph, chosen)
    said = report(source, board, ready.records, made.plan, made.stages, flash_bytes, options.float_mode.value, slow)
    if unit.window is not None:
        slid = {**unit.window.json(made.graph), **(ready.sliding.json() if ready.sliding else {})}
        said = {**said, "plan": {**_object(said["plan"]), "slide": slid}}
    if options.weights_in_ram is not None:
        own = unit.in_ram
        copied = {"bytes": own.bytes, "arrays": len(own.names), "saved_cycles": own.saved_cycles}
        said = {**said, "weights_in_ram": copied}
    return _with_ram(Planned(unit, constant, said, cuts, tuple(notes)), board, "auto")


def _window(ready: Prepared) -> Window | None:
    """The windows that the model's steps compute, for a model that takes new rows."""
    if ready.sliding is None:
        return None
    whole, hop = ready.sliding.windows, ready.sliding.hop
    graph = with_float_mode(whole.graph, ready.options.float_mode)
    return Window(graph, whole.rows, whole.hop, hop.seconds)


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


def _imported(model: Model, options: Options) -> tuple[Imported, Origin, Sequence[str]]:
    """The model, or the pipeline that it is the front end of; where it is from; lines for the user."""
    if isinstance(model, Path):
        found, content = importers.imported(model, options.shapes), model.read_bytes()
    else:
        found, content = model, graph_bytes(model.graph)
    if options.behind is None:
        return found, _origin(found, model, hashlib.sha256(content).hexdigest(), options), ()
    wake = importers.imported(options.behind, {})
    if options.native_io:
        raise PipelineError("--io native: a pipeline's input is in no file; leave the option out")
    front, behind = (native_io(each.graph, each.ends) for each in (found, wake))
    made = pipeline(front, behind, options.strides)
    sha256 = hashlib.sha256(content + options.behind.read_bytes()).hexdigest()
    in_float, linear = (*found.in_float, *wake.in_float), found.quantised_linear + wake.quantised_linear
    others = (*found.others_in_float, *wake.others_in_float)
    whole = Imported(made.graph, {}, found.folded + wake.folded, in_float, linear, others)
    return whole, Origin(sha256=sha256, why="it is a pipeline, which is in no file of its own"), made.notes


def _origin(found: Imported, model: Model, sha256: str, options: Options) -> Origin:
    """What a comparison with the model's own runtime needs to know of its file."""
    if not isinstance(model, Path):
        return Origin(sha256=sha256, why="its model was given in memory, not as a file")
    graph, pixels = found.graph, options.pixels
    inputs, outputs = (
        tuple(found.ends.get(n) or FileTensor.alike(n, graph.tensors[n].type) for n in names)
        for names in (graph.inputs, graph.outputs)
    )
    return Origin(
        model.name,
        sha256,
        inputs=inputs,
        outputs=outputs,
        states=dict(options.states),
        pixels=(pixels.means, pixels.deviations) if pixels else None,
        stateless=options.stateless,
    )


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


def _require_float_mode(board: Board | None, core: str | None, mode: FloatMode) -> None:
    """FloatModeError unless the core has the instructions for the mode."""
    if mode is FloatMode.PRECISE or (core and Isa.FPU in CPUS[core].isas):
        return
    who = f"{board.id} ({core})" if board else core or "portable C"
    able = ", ".join(name for name, cpu in CPUS.items() if Isa.FPU in cpu.isas)
    cure = "choose" if core else "name a core by --cpu or --board:"
    raise FloatModeError(
        f"{who} has no fused multiply-add and no float16, which --float {mode.value} needs; {cure} {able}"
    )


def machine_for(models: Sequence[Prepared], board: Board | None) -> Machine:
    """The machine that kernels are chosen for: a core, and the flash that the application and plans by rows leave.

    Kernels of several models, which have the same options but for their inputs, are in one firmware.
    """
    options, cpu = models[0].options, models[0].limits.cpu
    machine = replace(
        Machine.of(cpu) if cpu else ANY,
        packs="pre-pack-weights" not in options.disabled,
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
