"""The functions of `shoehorn_mcu` for programs: `plan`, `generate`, `generate_together`, `validate`, `bench`,
`optimize`, `quantize` and `import_torch`.

    import shoehorn_mcu

    made = shoehorn_mcu.generate("kws.tflite", "kws", board="rpi-zero")
    print(made.plan.arena_bytes, shoehorn_mcu.validate(made.folder, emulate=True).mismatched_vectors)

They do what the commands of the same names do (`generate` is `gen firmware` and `gen library`), print nothing, and
raise ShoehornError, whose text is one line for the user and whose `kind` is one word for programs. A wrong combination
of arguments is a ValueError.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Literal

from shoehorn_mcu import importers, passes
from shoehorn_mcu.base.errors import ShoehornError as ShoehornError
from shoehorn_mcu.emit import bundle
from shoehorn_mcu.emit.folder.project import check_cores, libraries_of, library_part
from shoehorn_mcu.firmware import build, several
from shoehorn_mcu.firmware.pipelines import Strides
from shoehorn_mcu.importers import Imported as Imported
from shoehorn_mcu.ir import Graph
from shoehorn_mcu.kernels.tuning import Tuning, load
from shoehorn_mcu.machine import targets
from shoehorn_mcu.passes import PassRecord
from shoehorn_mcu.passes.ends.user_ends import Pixels
from shoehorn_mcu.planner import Goal
from shoehorn_mcu.quantisation import Bits, Method, Quantized, Settings, quantize_model, write
from shoehorn_mcu_host.board.bench import Timing
from shoehorn_mcu_host.board.bench import bench as time_inferences
from shoehorn_mcu_host.board.cores import metered
from shoehorn_mcu_host.board.session import clock_unit, connected, is_emulated
from shoehorn_mcu_host.firmware.build import ensure_built
from shoehorn_mcu_host.folder import vectors
from shoehorn_mcu_host.folder.plan import Plan
from shoehorn_mcu_host.folder.project import Project
from shoehorn_mcu_host.validate import samples
from shoehorn_mcu_host.validate.validate import Told, Validation, precise_of, reference_of
from shoehorn_mcu_host.validate.validate import validate as compare

Place = str | PathLike[str]


Numbers = Sequence[float]


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """The target of a plan, and its limits; `PlanOptions()` is portable C without a limit.

    Give `board` (an id of `gen boards`, or the path of a manifest) or `cpu` (such as "cortex-m4"), or neither.
    """

    board: str | None = None
    cpu: str | None = None
    # Largest arena; "fit": all SRAM that the board has left; None: the same, but a plan with less for little more time.
    # By name: of these memories of the board.
    sram_bytes: int | Literal["fit"] | Mapping[str, int] | None = None
    # The most bytes of weights that start-up copies to RAM, those first that the flash makes the core wait for most.
    weights_in_ram: int | Literal["fit"] | None = None
    flash_bytes: int | None = None  # most flash for constants and code; only without a board, which has its own limit
    # The time within `sram_bytes`, or the arena, or the flash of the kernels and their constants.
    minimize: Literal["time", "sram", "flash"] = "time"
    slower_percent: float | None = None  # the smallest plan that takes at most so much more time than the fastest
    stream_input: bool = False  # the input arrives row by row
    stream_output: bool = False  # the output is handed out row by row, to <model>_on_row
    recompute_percent: float | None = None  # most MACs that may be recomputed; None: as many as `sram_bytes` requires
    disable: Sequence[str] = field(default=())  # optimisation passes to skip
    preserve: Sequence[str] = field(default=())  # tensors that become further outputs
    # Sums of a float32 model: the reference's, or with fused multiply-add, or with float16 storage as well.
    float: Literal["precise", "relaxed", "half"] = "precise"
    tuning: Place | None = None  # JSON file of measured choices of kernels; None: all kernels by predicted time
    cores: int = 1  # that share the rows of each layer
    # Order of the dimensions of inputs and outputs: the kernels', channels last, or that of the model's file.
    io: Literal["kernels", "native"] = "kernels"
    # The input is uint8 pixels: (means, deviations) of (pixel - mean) / deviation, one value or one per channel.
    pixels: tuple[Numbers, Numbers] | None = None
    top: int = 0  # places of the largest scores that become a further output, `top`
    classes: Sequence[str] = ()  # names of the classes that the one output tells apart, for <model>_class()
    # Sizes that the model's file leaves open: of a dimension by its name, or all of an input's by the input's name.
    shapes: Mapping[str, int | Sequence[int]] = field(default_factory=dict)
    states: Mapping[str, str] = field(default_factory=dict)  # by input: the output that it reads in the next inference
    stateless: bool = False  # every inference begins with the first values of the model's states
    # The model that decides by the features which the given one makes of samples; both become one (a pipeline), whose
    # slices begin `stride` samples apart, `slices` new ones in an inference. None: as `gen firmware --pipeline`.
    behind: Place | None = None
    stride: int | None = None
    slices: int | None = None
    sample_hz: int = 16000  # of a pipeline's samples


@dataclass(frozen=True)
class PlanResult:
    """A plan in figures. `report` is the object that `gen plan --json` prints."""

    model: str  # C name of the model: the prefix of the library's functions
    arena_bytes: int
    constant_bytes: int  # of weights, biases and tables, in flash
    predicted_instructions: int  # of one inference
    report: Mapping[str, object]


@dataclass(frozen=True)
class Generated:
    """A written folder."""

    folder: Path
    files: tuple[str, ...]  # paths below `folder`, with forward slashes
    plan: PlanResult


def import_torch(
    module: object,
    example: object = None,
    *,
    name: str | None = None,
    shapes: Mapping[str, int | Sequence[int]] | None = None,
) -> Imported:
    """The model that `plan`, `generate` and `optimize` take, from a PyTorch module in eval mode.

    `module` is a torch.nn.Module, for which `example` has the arguments of a call (a tensor, or a tuple of them), a
    torch.jit.ScriptModule with an example or `shapes`, or a torch.export.ExportedProgram. `shapes` are those of
    `PlanOptions`. `name` becomes the model's name, else the module's class. Needs PyTorch, the extra
    `shoehorn-mcu[torch]`. Raises ShoehornError without it, for a module in training mode, and where PyTorch cannot
    export the module or its ops are unsupported.
    """
    from shoehorn_mcu.importers.torch.importer import import_module

    return import_module(module, example, name, _sizes(shapes or {}))


def plan(model: Place | Imported, options: PlanOptions | None = None) -> PlanResult:
    """Plans the memory of a model and writes nothing.

    `model` is the path of a model, or what `import_torch` made. Raises ShoehornError where the model cannot be read or
    has unsupported ops, where no plan fits, where the board or the core is unknown, and where `options.tuning` is no
    tuning file.
    """
    chosen = options or PlanOptions()
    board, settings = _settings(chosen, caller_arena=False)
    return _result(build.plan_model(_model(model), board, settings))


def generate(
    model: Place | Imported,
    folder: Place,
    options: PlanOptions | None = None,
    *,
    mlperf: str = "auto",
    caller_arena: bool = False,
    library_only: bool = False,
    force: bool = False,
) -> Generated:
    """Plans a model and writes its firmware project; without `options.board`, its library alone.

    `mlperf` is the MLPerf Tiny task of the firmware's text protocol, or "auto". `caller_arena`: the program owns the
    arena and passes it to `<model>_init`. `library_only` refreshes lib/<model> and the files that describe it in an
    existing project and leaves the others alone. `force` replaces files that were changed since they were written.
    Raises ShoehornError as `plan` does, and where the folder cannot be written or must not be replaced; then nothing
    has been changed.
    """
    chosen, place = options or PlanOptions(), Path(folder)
    board, settings = _settings(chosen, caller_arena)
    if board is None:
        if library_only:
            raise ValueError("library_only refreshes the project of a board; without a board, leave it out")
        planned, files = build.alone(_model(model), settings)
    else:
        planned, files = build.firmware(_model(model), board, settings, mlperf)
    name = planned.unit.name
    if library_only:
        check_cores(place, planned.unit.cores)
        files = library_part(files, libraries_of([name]))
        bundle.refresh(files, place, libraries_of([name]), force)
    else:
        bundle.write(files, place, force)
    return Generated(place, tuple(sorted(files)), _result(planned))


@dataclass(frozen=True)
class GeneratedTogether:
    """A written folder with the firmware of several models."""

    folder: Path
    files: tuple[str, ...]  # paths below `folder`, with forward slashes
    plans: tuple[PlanResult, ...]  # in the order of the models
    arena_bytes: int  # that the models share, or with `concurrent` divide
    report: Mapping[str, object]  # the entry `together` of report.json


def generate_together(
    models: Sequence[Place | Imported],
    folder: Place,
    options: PlanOptions,
    *,
    stream: Sequence[str] = (),
    concurrent: bool = False,
    mlperf: str = "auto",
    force: bool = False,
) -> GeneratedTogether:
    """Plans several models and writes one firmware project for `options.board`.

    `models` share kernels, and the arena, as one runs at a time; with `concurrent` each has its own part. `options` are
    those of all; `stream` names models whose inputs arrive row by row. `mlperf` and `force` are those of `generate`,
    the task that of the first model. Raises ShoehornError as `generate` does, and where two models have the same name;
    ValueError for fewer than two models, and without a board.
    """
    if len(models) < 2:
        raise ValueError("generate_together writes two models or more; use generate for one")
    board, settings = _settings(options, caller_arena=True)
    if board is None:
        raise ValueError("generate_together writes a firmware: name a board in the options")
    chosen = several.streamed([*map(_model, models)], settings, _names(stream))
    together, files = several.firmware_of_several(chosen, board, mlperf, concurrent)
    bundle.write(files, Path(folder), force)
    plans = tuple(_result(each) for each in together.models)
    return GeneratedTogether(Path(folder), tuple(sorted(files)), plans, together.arena_bytes, together.json())


@dataclass(frozen=True)
class Optimized:
    """A graph after the passes, and what each pass that ran did, in order."""

    graph: Graph
    passes: tuple[PassRecord, ...]


def optimize(
    model: Place | Imported | Graph,
    *,
    disable: Collection[str] = (),
    preserve: Sequence[str] = (),
    shapes: Mapping[str, int | Sequence[int]] | None = None,
) -> Optimized:
    """The graph that would be planned: every pass keeps the outputs, and the report has the ops before and after.

    `model` is the path of a model, what `import_torch` made, or a graph, such as that of an earlier call. `disable`
    names passes to skip, `preserve` tensors that an op writes and that must be there at the end: they become further
    outputs. `shapes` are those of `PlanOptions`. Raises ShoehornError where the model cannot be read or has unsupported
    ops, and for a pass or a tensor that is not known.
    """
    if isinstance(model, Graph | Imported):
        graph = model if isinstance(model, Graph) else model.graph
    else:
        graph = importers.load(Path(model), _sizes(shapes or {}))
    after, records = passes.run(graph, frozenset(_names(disable)), _names(preserve))
    return Optimized(passes.prove_int32(after), tuple(records))


@dataclass(frozen=True)
class Inputs:
    """Inputs of a model, with what says how to read them."""

    path: Place  # an .npz file with an array for each input, or a folder of images or WAV files by class
    labels: Place | None = None  # their classes, for `Validation.accuracy`; labels beside the inputs are read anyway
    quantize: bool = False  # the .npz file has real values, not stored ones
    pixels: tuple[float, float] | None = None  # the values of black and white in images


def validate(
    folder: Place,
    *,
    emulate: bool = False,
    port: str | None = None,
    count: int = 10,
    seed: int = 0,
    inputs: Place | Inputs | None = None,
    model: str | None = None,
) -> Validation:
    """Compares the board of a written project with the reference, byte by byte and op by op.

    The board is on serial port `port` (a device or a URL; None: the only one there is), or with `emulate` in the
    emulator, for which the project is built first. The board gets `count` random vectors from `seed`, or `inputs`: the
    arrays of an .npz file, with the vectors along the first axis, in names, shapes and types those of the model's file,
    as are the result's `outputs`; or a folder of images or WAV files by class. With labels the result has an
    `accuracy`. `model` names one of several models in the firmware; None is the first.

    Raises ShoehornError where the folder is damaged or does not build, or where the board does not answer or runs
    another model; ValueError for `count` below 1. A mismatch is no error: see `mismatched_vectors` and `first_bad_op`
    of the result.
    """
    _positive(count=count)
    project = _project(folder, model)
    ends, described = Plan.of(project), project.described
    random = vectors.random(described, ends.inputs, count, seed)
    chosen = None if inputs is None else _samples(described, ends, inputs)
    source = chosen.vectors if chosen else random
    reference, precise = reference_of(project, ends), precise_of(project)
    emulated = _prepared(project, port, emulate)
    with connected(project, ends, port, emulated, False) as link:
        told = Told(chosen.labels, chosen.starts) if chosen else Told()
        return compare(link, ends, reference.run, source, lambda _: None, precise, reference.reset, told)


def _samples(described: Path, ends: Plan, inputs: Place | Inputs) -> samples.Samples:
    given = inputs if isinstance(inputs, Inputs) else Inputs(inputs)
    labels = None if given.labels is None else Path(given.labels)
    return samples.load(described, ends, Path(given.path), labels, given.quantize, given.pixels)


def bench(
    folder: Place, *, emulate: bool = False, port: str | None = None, runs: int = 3, model: str | None = None
) -> Timing:
    """Times `runs` inferences of a written project on its board, whole and by op.

    `emulate`, `port` and `model` are those of `validate`. Units are in the result: instructions in QEMU, microseconds
    elsewhere. In QEMU its `cycles` are an estimate, where the board's manifest has a model of its timing.
    Raises ShoehornError as `validate` does; ValueError for `runs` below 1.
    """
    _positive(runs=runs)
    project = _project(folder, model)
    ends = Plan.of(project)
    (vector,) = vectors.random(project.described, ends.inputs, 1, 0)
    emulated = _prepared(project, port, emulate)
    unit = clock_unit(project, emulated)
    with (
        metered(project, emulated, ends.cores) as meter,
        connected(project, ends, port, emulated, True, meter.arguments) as link,
    ):
        return time_inferences(link, ends, vector, unit, runs, lambda _: None, meter)


@dataclass(frozen=True, kw_only=True)
class QuantizeOptions:
    """How a model is quantised; `QuantizeOptions()` gives weights and activations of 8 bits."""

    method: Literal["minmax", "entropy", "percentile", "mse"] = "minmax"  # that finds the ranges of activations
    bits: Literal["8", "16x8", "4w"] = "8"  # "16x8": activations of 16 bits; "4w": weights of 4
    keep_float: Sequence[str] = ()  # ops, or the tensors that they write, that stay in float32
    keep_int16: Sequence[str] = ()  # those, or inputs, whose results have 16 bits
    labels: Place | None = None  # .npy or .npz: the class of each sample, for the accuracy
    shapes: Mapping[str, int | Sequence[int]] = field(default_factory=dict)  # those of PlanOptions


def quantize(model: Place, data: Place, target: Place, options: QuantizeOptions | None = None) -> Quantized:
    """Quantises the float32 `model`, an .onnx, .tflite or file of PyTorch, and writes it to `target`, an .onnx.

    `data` has the samples: an .npz with an array for each input, the samples along the first axis, or a folder of .npy
    files with one sample each. Needs ONNX Runtime, the extra `shoehorn-mcu[quantize]`. Raises ShoehornError without it,
    and where the model, the samples or the labels cannot be used; then nothing has been written.
    """
    chosen = options or QuantizeOptions()
    settings = Settings(
        Method(chosen.method),
        _names(chosen.keep_float),
        Path(chosen.labels) if chosen.labels is not None else None,
        Bits(chosen.bits),
        _names(chosen.keep_int16),
        _sizes(chosen.shapes),
    )
    made = quantize_model(Path(model), Path(data), settings)
    for note in made.notes:
        warnings.warn(note, stacklevel=2)
    write(made.model, Path(target), Path(model))
    return made


def _project(folder: Place, model: str | None) -> Project:
    first = Project.open(Path(folder))
    return first.chosen(model)[0]


def _model(model: Place | Imported) -> build.Model:
    return model if isinstance(model, Imported) else Path(model)


def _settings(options: PlanOptions, caller_arena: bool) -> tuple[targets.Board | None, build.Options]:
    """The board, if there is one, and the options of the build."""
    _positive(cores=options.cores, stride=options.stride or 1, slices=options.slices or 1, sample_hz=options.sample_hz)
    if options.board is not None and (options.cpu is not None or options.flash_bytes is not None):
        raise ValueError("a board has its own core and flash: give board, or cpu and flash_bytes")
    board = targets.board(options.board) if options.board is not None else None
    settings = build.Options(
        sram_bytes=build.Fit(options.sram_bytes) if isinstance(options.sram_bytes, str) else options.sram_bytes,
        weights_in_ram=build.Fit(weights) if isinstance(weights := options.weights_in_ram, str) else weights,
        goal=Goal.SRAM if options.minimize == "sram" else Goal.TIME,
        slower_percent=options.slower_percent,
        smallest_kernels=options.minimize == "flash",
        disabled=frozenset(_names(options.disable)),
        preserve=_names(options.preserve),
        stream_input=options.stream_input,
        stream_output=options.stream_output,
        recompute_percent=options.recompute_percent,
        tuning=load(Path(options.tuning)) if options.tuning is not None else Tuning(),
        caller_arena=caller_arena,
        float_mode=build.FloatMode(options.float),
        cpu=targets.cpu(options.cpu) if options.cpu is not None else None,
        flash_bytes=options.flash_bytes,
        cores=options.cores,
        shapes=_sizes(options.shapes),
        states=options.states,
        stateless=options.stateless,
        native_io=options.io == "native",
        pixels=Pixels(*(tuple(map(float, each)) for each in options.pixels)) if options.pixels else None,
        top=options.top,
        classes=_names(options.classes),
        behind=Path(options.behind) if options.behind is not None else None,
        strides=Strides(options.stride, options.slices),
        sample_hz=options.sample_hz,
    )
    return board, settings


def _names(given: Collection[str]) -> tuple[str, ...]:
    """The names as a tuple; a string is one name, not the collection of its letters."""
    return (given,) if isinstance(given, str) else tuple(given)


def _sizes(shapes: Mapping[str, int | Sequence[int]]) -> Mapping[str, tuple[int, ...]]:
    return {name: (each,) if isinstance(each, int) else tuple(each) for name, each in shapes.items()}


def _result(planned: build.Planned) -> PlanResult:
    for note in planned.notes:
        warnings.warn(note, stacklevel=3)
    figures = planned.report["plan"]
    assert isinstance(figures, Mapping)
    arena, instructions = planned.unit.plan.total_bytes, int(figures["predicted_instructions"])
    return PlanResult(planned.unit.name, arena, planned.constants.bytes, instructions, planned.report)


def _prepared(project: Project, port: str | None, emulate: bool) -> bool:
    """Whether the emulator is used; if so, the project is built first."""
    if port is not None and emulate:
        raise ValueError("port and emulate exclude each other")
    emulated = is_emulated(project, port, emulate)
    if emulated:
        ensure_built(project)
    return emulated


def _positive(**counts: int) -> None:
    for name, value in counts.items():
        if value < 1:
            raise ValueError(f"{name} is {value}; it must be at least 1")
