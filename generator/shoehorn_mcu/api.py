"""The functions of `shoehorn_mcu` for programs: `plan`, `generate`, `generate_for_linux`, `generate_together`,
`validate`, `bench`, `optimize`, `quantize`, `import_torch` and `slim`.

    import shoehorn_mcu

    made = shoehorn_mcu.generate("kws.tflite", "kws", board="rpi-zero")
    print(made.plan.arena_bytes, shoehorn_mcu.validate(made.folder, emulate=True).mismatched_vectors)

They do what the commands of the same names do (`generate` is `gen firmware` and `gen library`), print nothing, and
raise ShoehornError, whose text is one line for the user and whose `kind` is one word for programs. A wrong combination
of arguments is a ValueError.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from shoehorn_mcu import importers, passes
from shoehorn_mcu.base.errors import ShoehornError as ShoehornError
from shoehorn_mcu.emit import bundle
from shoehorn_mcu.emit.folder.project import refresh_models
from shoehorn_mcu.firmware import build, linux, several
from shoehorn_mcu.firmware.options import Place, names, resolved, sizes
from shoehorn_mcu.firmware.options import PlanOptions as PlanOptions
from shoehorn_mcu.firmware.prepare import Model
from shoehorn_mcu.firmware.settings import Options
from shoehorn_mcu.importers import Imported as Imported
from shoehorn_mcu.ir import Graph
from shoehorn_mcu.machine import targets
from shoehorn_mcu.passes import PassRecord
from shoehorn_mcu.quantisation import Bits, Method, Quantized, Settings, quantize_model, write
from shoehorn_mcu.slim import run as slim_run
from shoehorn_mcu.slim.learner import Schedule
from shoehorn_mcu.slim.recipe import Recipe, read_recipe
from shoehorn_mcu.slim.run import Asked, Slimmed
from shoehorn_mcu_host.board.bench import Timing
from shoehorn_mcu_host.board.bench import bench as time_inferences
from shoehorn_mcu_host.board.cores import metered
from shoehorn_mcu_host.board.session import clock_unit, connected, is_emulated
from shoehorn_mcu_host.firmware.build import ensure_built
from shoehorn_mcu_host.folder import vectors
from shoehorn_mcu_host.folder.plan import Plan
from shoehorn_mcu_host.folder.project import Project
from shoehorn_mcu_host.linux.pack import packed
from shoehorn_mcu_host.linux.targets import target
from shoehorn_mcu_host.validate import samples
from shoehorn_mcu_host.validate.decoders import pixels
from shoehorn_mcu_host.validate.validate import Told, Validation, precise_of, reference_of, windows_of
from shoehorn_mcu_host.validate.validate import validate as compare


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

    return import_module(module, example, name, sizes(shapes or {}))


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
    single_file: bool = False,
    force: bool = False,
) -> Generated:
    """Plans a model and writes its firmware project; without `options.board`, its library alone.

    `mlperf` is the MLPerf Tiny task of the firmware's text protocol, or "auto". `caller_arena`: the program owns the
    arena and passes it to `<model>_init`. `library_only` refreshes lib/<model> and the files that describe it in an
    existing project and leaves the others alone. `single_file` writes `<model>.c` and `<model>.h`, the whole library
    without a board, into a folder that may have other files. `force` replaces files that were changed since they were
    written. Raises ShoehornError as `plan` does, and where the folder cannot be written or must not be replaced; then
    nothing has been changed.
    """
    chosen, place = options or PlanOptions(), Path(folder)
    board, settings = _settings(chosen, caller_arena)
    if board is None:
        if library_only:
            raise ValueError("library_only refreshes the project of a board; without a board, leave it out")
        planned, files = build.alone(_model(model), settings, in_one_file=single_file)
    elif single_file:
        raise ValueError("single_file writes a library without a board; leave one of them out")
    else:
        planned, files = build.firmware(_model(model), board, settings, mlperf)
    if library_only:
        files = refresh_models(files, place, [planned.unit.name], planned.unit.cores, force)
    else:
        (bundle.write_beside if single_file else bundle.write)(files, place, force)
    return Generated(place, tuple(sorted(files)), _result(planned))


@dataclass(frozen=True)
class GeneratedForLinux(Generated):
    """A written folder with a shared library and a wheel."""

    library: Path
    wheel: Path


def generate_for_linux(
    model: Place | Imported, folder: Place, options: PlanOptions, *, force: bool = False
) -> GeneratedForLinux:
    """Plans a model and writes its library, with a shared library and a Python wheel for `options.cpu` (docs/linux.md).

    `options.cpu` is a core with Linux, or "host". `options.cores` is the number of threads. `force` is that of
    `generate`. Raises ShoehornError as `generate` does, for other cores, for options that a shared library has not, and
    where zig, which compiles it, is not installed; ValueError with a board.
    """
    board, settings = _settings(options, caller_arena=False)
    if board is not None:
        raise ValueError("a shared library is for a core with Linux: give cpu, not board")
    machine, place = target(options.cpu), Path(folder)
    planned, package = linux.alone(_model(model), settings)
    made = packed(package.files, package.about, machine)
    bundle.write(made.files, place, force)
    files = tuple(sorted(made.files))
    return GeneratedForLinux(place, files, _result(planned), place / made.library, place / made.wheel)


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
    chosen = several.streamed([*map(_model, models)], settings, names(stream))
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
        graph = importers.load(Path(model), sizes(shapes or {}))
    after, records = passes.run(graph, frozenset(names(disable)), names(preserve))
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
    reference, precise, whole = reference_of(project, ends), precise_of(project), windows_of(project, ends)
    emulated = _prepared(project, port, emulate)
    with connected(project, ends, port, emulated, False) as link:
        told = Told(chosen.labels, chosen.starts, whole) if chosen else Told(windows=whole)
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
        names(chosen.keep_float),
        Path(chosen.labels) if chosen.labels is not None else None,
        Bits(chosen.bits),
        names(chosen.keep_int16),
        sizes(chosen.shapes),
    )
    made = quantize_model(Path(model), Path(data), settings)
    for note in made.notes:
        warnings.warn(note, stacklevel=2)
    write(made.model, Path(target), Path(model))
    return made


def slim(
    model: Place | Imported,
    data: str,
    folder: Place,
    recipe: Recipe | Place,
    *,
    retrain: Callable[[Any, Schedule], None] | None = None,
    asked: Asked | None = None,
) -> Slimmed:
    """Slims a trained float32 `model` for the board that the recipe names, and writes `folder` (docs/slim.md).

    `model` is a path, "file.py:function" or what `import_torch` made. `data` is X.npz, a folder of images per class, or
    file.py:function. `recipe` is a TOML file, or what `read_recipe` of shoehorn_mcu.slim.recipe gives.
    `retrain(module, schedule)` is a loop of your own, in place of ours: it trains a torch.nn.Module, the network's
    twin, in place. Needs the extra `shoehorn-mcu[slim]`. Raises ShoehornError without it, and where model, samples or
    recipe cannot be used.

    `shoehorn_mcu.slim` is a package, so this function is imported from `shoehorn_mcu.api`.
    """
    from shoehorn_mcu.learn import learner

    teacher = learner()
    if retrain is not None:
        from shoehorn_mcu.learn.by_torch import trained_by

        teacher = trained_by(retrain, teacher)
    chosen = recipe if isinstance(recipe, Recipe) else read_recipe(Path(recipe))
    source = model if isinstance(model, Imported) else str(model)
    return slim_run.slim(source, data, chosen, Path(folder), teacher, asked or Asked(pixels=pixels))


def _project(folder: Place, model: str | None) -> Project:
    first = Project.open(Path(folder))
    return first.chosen(model)[0]


def _model(model: Place | Imported) -> Model:
    return model if isinstance(model, Imported) else Path(model)


def _settings(options: PlanOptions, caller_arena: bool) -> tuple[targets.Board | None, Options]:
    """The board, if there is one, and the options of the build."""
    _positive(cores=options.cores, stride=options.stride or 1, slices=options.slices or 1, sample_hz=options.sample_hz)
    if options.board is not None and (options.cpu is not None or options.flash_bytes is not None):
        raise ValueError("a board has its own core and flash: give board, or cpu and flash_bytes")
    return resolved(options, caller_arena)


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
