"""A model before its plan: imported, joined to a pipeline, with the ends that are asked for, and after the passes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from shoehorn_mcu import importers, passes
from shoehorn_mcu.emit.folder.graph_file import graph_bytes
from shoehorn_mcu.emit.names import library_name
from shoehorn_mcu.emit.unit import Window
from shoehorn_mcu.firmware.limits import Limits, limits
from shoehorn_mcu.firmware.pipelines import PipelineError, Strides, pipeline
from shoehorn_mcu.firmware.settings import Hop, Options
from shoehorn_mcu.firmware.sliding import PASS, Sliding, finished, keeping_less, sliding, wake_sliding
from shoehorn_mcu.firmware.sliding import check as check_slide
from shoehorn_mcu.importers import Imported
from shoehorn_mcu.ir import Ends, FileTensor, Graph, Origin
from shoehorn_mcu.machine.targets import CPUS, Board, Fusing, Isa
from shoehorn_mcu.passes import PassRecord
from shoehorn_mcu.passes.ends.ends import AFTER, BEFORE, Asked, with_ends
from shoehorn_mcu.passes.ends.native_io import native_io
from shoehorn_mcu.passes.ends.shifted_rows import Less
from shoehorn_mcu.passes.ends.slide_check import check_slid
from shoehorn_mcu.passes.ends.slide_check import note as compared
from shoehorn_mcu.passes.float_mode import FloatMode, FloatModeError, with_float_mode

Model = Path | Imported
"""A model's file, or a model that was imported."""


@dataclass(frozen=True, eq=False)
class Wake:
    """A pipeline whose second model can compute new rows only."""

    front: Graph
    sliding: Sliding
    whole: Graph  # the pipeline of whole windows, after the passes


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
    sliding: Sliding | None = None  # where the model, or the second one of a pipeline, computes new rows of its window
    wake: Wake | None = None  # of a pipeline of whole windows whose second model could
    streaming: str = "--stream-input"  # the option by which the user streams its input

    @property
    def name(self) -> str:
        """The model's C name."""
        return library_name(self.graph.name)


def prepare(model: Model, board: Board | None, options: Options) -> Prepared:
    """Imports and optimises the model."""
    check_slide(options)
    may = limits(board, options)
    found, origin, joined, parts = _imported(model, options)
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
    precise, graph = _in_modes(graph, options.float_mode, may)
    _require_float_mode(board, may.cpu, options.float_mode)
    tuning, note = options.tuning.fitting(origin.sha256, board.id if board else None, may.cpu or "")
    said = (options.stand_in, note, compared(window.slid) if window else "")
    notes = (*joined, *(each for each in said if each))
    options = replace(options, tuning=tuning)
    made = Prepared(options, may, source, graph, precise, records, ends, origin, notes, found, window)
    return replace(made, wake=_wake(made, *parts)) if parts else made


def _wake(ready: Prepared, front: Graph, behind: Graph) -> Wake | None:
    """How the second model of a pipeline computes new rows only, if that saves it work."""
    (features,) = (front.tensors[name].type.elements for name in front.outputs)
    options, hz = ready.options, ready.options.sample_hz
    seconds = ready.source.tensors[ready.source.inputs[0]].type.elements / hz
    found = wake_sliding(behind, features, Hop(options.strides.slices or 1, seconds), options.disabled)
    return None if found is None else Wake(front, found, ready.graph)


def keeping(ready: Prepared, less: Less) -> Prepared:
    """The model, or the pipeline, by new rows with less that is kept, which each step computes then."""
    options = ready.options
    if ready.wake is None:
        assert ready.sliding is not None
        window, notes = keeping_less(ready.sliding, less), ready.notes
        graph, records = finished(window, options)
        check_slid(window.slid, graph)
    else:
        window = keeping_less(ready.wake.sliding, less)
        check_slid(window.slid, passes.run(window.slid.graph, which=passes.BY_ROWS)[0])
        strides = Strides(options.strides.samples)
        made = pipeline(ready.wake.front, window.slid.graph, strides, window.windows.rows)
        graph, records = passes.run(made.graph, options.disabled, options.preserve)
        before, after = ready.source, made.graph
        records = [PassRecord(PASS, len(before.ops), len(after.ops), before.macs, after.macs), *records]
        notes = (*made.notes, *ready.notes[len(made.notes) :])
    graph, ends = with_ends(passes.prove_int32(graph), ready.ends, _asked(options), AFTER)
    precise, graph = _in_modes(graph, options.float_mode, ready.limits)
    records = [*ready.records[:1], *records]
    return replace(ready, graph=graph, precise=precise, records=records, ends=ends, sliding=window, notes=notes)


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


def window_of(ready: Prepared) -> Window | None:
    """The windows that the model's steps compute, for a model that takes new rows."""
    if ready.sliding is None:
        return None
    whole, hop = ready.sliding.windows, ready.sliding.hop
    graph = ready.wake.whole if ready.wake else _in_modes(whole.graph, ready.options.float_mode, ready.limits)[1]
    return Window(graph, whole.rows, whole.hop, hop.seconds)


def _imported(model: Model, options: Options) -> tuple[Imported, Origin, Sequence[str], Sequence[Graph]]:
    """The model, or the pipeline that it is the front end of; where it is from; lines for the user; both parts."""
    if isinstance(model, Path):
        found, content = importers.imported(model, options.shapes), model.read_bytes()
    else:
        found, content = model, graph_bytes(model.graph)
    if options.behind is None:
        return found, _origin(found, model, hashlib.sha256(content).hexdigest(), options), (), ()
    wake = importers.imported(options.behind, {})
    if options.native_io:
        raise PipelineError("--io native: a pipeline's input is in no file; leave the option out")
    front, behind = (native_io(each.graph, each.ends) for each in (found, wake))
    made = pipeline(front, behind, options.strides)
    sha256 = hashlib.sha256(content + options.behind.read_bytes()).hexdigest()
    in_float, linear = (*found.in_float, *wake.in_float), found.quantised_linear + wake.quantised_linear
    others = (*found.others_in_float, *wake.others_in_float)
    whole = Imported(made.graph, {}, found.folded + wake.folded, in_float, linear, others)
    origin = Origin(sha256=sha256, why="it is a pipeline, which is in no file of its own")
    return whole, origin, made.notes, (front, behind)


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
        found.others,
        inputs=inputs,
        outputs=outputs,
        states=dict(options.states),
        pixels=(pixels.means, pixels.deviations) if pixels else None,
        stateless=options.stateless,
    )


def _in_modes(graph: Graph, mode: FloatMode, may: Limits) -> tuple[Graph, Graph]:
    """The graph in FloatMode.PRECISE and in this mode, as the core computes it."""
    fusing = CPUS[may.cpu].fusing if may.cpu else Fusing.NEVER
    precise = with_float_mode(graph, FloatMode.PRECISE, fusing)
    return precise, precise if mode is FloatMode.PRECISE else with_float_mode(graph, mode, fusing)


def _require_float_mode(board: Board | None, core: str | None, mode: FloatMode) -> None:
    """FloatModeError unless the core has the instructions for the mode."""
    if not mode.flushes or (core and Isa.FPU in CPUS[core].isas):
        return
    who = f"{board.id} ({core})" if board else core or "portable C"
    able = ", ".join(name for name, cpu in CPUS.items() if Isa.FPU in cpu.isas)
    cure = "choose" if core else "name a core by --cpu or --board:"
    raise FloatModeError(
        f"{who} has no fused multiply-add and no float16, which --float {mode.value} needs; {cure} {able}"
    )
