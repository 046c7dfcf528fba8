"""`gen validate`: reads arguments, calls the host tools, prints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click
from rich.text import Text

from shoehorn_mcu.base.paths import MODELS
from shoehorn_mcu.base.version import __version__
from shoehorn_mcu.cli import device
from shoehorn_mcu.cli.console import emit_json, err, out, output_options, path_option, print_table
from shoehorn_mcu.cli.outside import allowed, print_comparison
from shoehorn_mcu.importers.torch import archive
from shoehorn_mcu_host.base.words import counted
from shoehorn_mcu_host.board import session
from shoehorn_mcu_host.board.bench import bytes_to_move
from shoehorn_mcu_host.board.link import Link
from shoehorn_mcu_host.folder import vectors
from shoehorn_mcu_host.folder.plan import Plan
from shoehorn_mcu_host.folder.project import Project
from shoehorn_mcu_host.validate import outside, samples
from shoehorn_mcu_host.validate.accuracy import Accuracy
from shoehorn_mcu_host.validate.comparison import Comparison, Tolerance
from shoehorn_mcu_host.validate.outside import Outputs, Source
from shoehorn_mcu_host.validate.proving import prove, require_provable, write
from shoehorn_mcu_host.validate.runtimes import RUNTIMES
from shoehorn_mcu_host.validate.validate import Told, Validation, begins, enough, precise_of, reference_of, windows_of
from shoehorn_mcu_host.validate.validate import validate as compare

_COUNT = 10
_MOST_CLASSES = 12  # of a table of confusions, and lines of the most frequent ones


@click.command()
@device.folder_argument
@device.board_options
@device.model_option
@path_option(
    "--inputs",
    metavar="X",
    help="Vectors: an .npz file with an array per model input, a WAV file, or a folder of images or WAV files.",
)
@path_option(
    "--labels",
    metavar="Y",
    help="Classes: one integer per vector, .npz or .npy, or for a folder the names of its classes, one per line.",
)
@click.option(
    "--pixels",
    type=(float, float),
    metavar="BLACK WHITE",
    help="Values that the model takes for black and white pixels. Default: what its quantisation suggests.",
)
@click.option("--quantize", is_flag=True, help="Quantise float arrays of X.npz, which are then real values.")
@click.option(
    "--count",
    type=click.IntRange(min=1),
    help=f"Number of random vectors.  [default: {_COUNT}; those that fill a window of --slide]",
)
@click.option("--seed", type=click.IntRange(min=0), help=f"Seed of the random vectors.  [default: {device.SEED}]")
@path_option("--outputs", metavar="Z.npz", help="Write the board's outputs here.")
@click.option(
    "--against",
    type=click.Choice(tuple(RUNTIMES)),
    help="Also run the model's file in this runtime, on the same vectors, and compare the outputs.",
)
@path_option(
    "--source",
    metavar="FILE",
    help="The model's file, for --against. Default: the file of that name in this folder or beside DIR.",
)
@path_option(
    "--expect",
    metavar="Z.npz",
    help="Compare the outputs with those in this file: an array per output, for the vectors of --inputs.",
)
@click.option(
    "--tolerance",
    callback=allowed,
    metavar="STEPS|PERCENT",
    help="Largest difference that --against and --expect allow: steps, such as 1, or percent of the largest value.",
)
@path_option(
    "--report",
    "report_to",
    metavar="FILE",
    help="Write what was proven to this JSON file, which a board's manifest can cite.",
)
@output_options
@click.pass_context
def validate(
    ctx: click.Context,
    folder: Path,
    port: str | None,
    emulated: bool,
    name: str | None,
    inputs: Path | None,
    labels: Path | None,
    pixels: tuple[float, float] | None,
    quantize: bool,
    count: int | None,
    seed: int | None,
    outputs: Path | None,
    against: str | None,
    source: Path | None,
    expect: Path | None,
    tolerance: Tolerance | None,
    report_to: Path | None,
    as_json: bool,
) -> None:
    """Compares the board with the reference, byte for byte and op by op.

    X.npz and Z.npz have names, shapes and types as the model's file does (NCHW for ONNX), even if the firmware has
    another order. Values are stored values: int8 for an int8 model. Random vectors cover all stored values; random
    float32 inputs are uniform over the real values of the first quantised tensor.

    With labels the command prints how often the board and the reference decide for the right class, and which classes
    are confused. Labels may also be in X.npz, as the array `labels` or `y`; a folder of samples has a folder per class.
    Images are resized to the model's size, which needs Pillow. WAV files are mono with 16 bits, and are padded with
    silence. A model with states takes each file piece by piece, and its last decision counts.

    The reference and the firmware share the importer, so a wrong import would go unnoticed. Run --against once for
    each model to notice it. `tflite` is LiteRT with its reference kernels. `tflite-optimized` is LiteRT with the
    kernels of a phone, whose differences are shown but not judged. The SHA-256 of the model's file must be that of the
    import. The exit code is 1 if an output differs by more than docs/why-numbers-differ.md allows for the runtime, or
    by more than --tolerance.
    """
    if inputs and (count is not None or seed is not None):
        raise click.UsageError("--inputs excludes --count and --seed")
    for option, given in (("--quantize", quantize), ("--labels", labels), ("--pixels", pixels)):
        if given and not inputs:
            raise click.UsageError(f"{option} says how to read --inputs")
    if expect and not inputs:
        raise click.UsageError("--expect belongs to --inputs")
    if source and not against:
        raise click.UsageError("--source says what --against runs")
    if tolerance and not (against or expect):
        raise click.UsageError("--tolerance is for --against and --expect")
    projects = Project.open(folder).chosen(name)
    if len(projects) > 1 and (given := inputs or outputs or source or report_to):
        raise click.UsageError(f"{given}: belongs to one model; name it with --model")
    emulated = device.is_emulated(projects[0], port, emulated)
    if report_to:
        require_provable(port, emulated)
    wish = _Wish(against, source, expect, tolerance)
    jobs = []
    for project in projects:
        plan = Plan.of(project)
        chosen = samples.load(project.described, plan, inputs, labels, quantize, pixels) if inputs else None
        wanted = len(chosen.vectors) if chosen else count or enough(plan, _COUNT)
        given_vectors = (
            chosen.vectors if chosen else vectors.random(project.described, plan.inputs, wanted, seed or device.SEED)
        )
        told = Told(chosen.labels, chosen.starts) if chosen else Told()
        jobs.append(_Job(project, plan, given_vectors, bytes_to_move(plan, wanted), told, wish))
    if emulated:
        device.ensure_image(projects[0])
    found = _validated(jobs, port, emulated, report_to)
    beside = [job.beside(each) for job, each in zip(jobs, found, strict=True)]
    transport, said = "emulator" if emulated else "serial", []
    for project, each, others in zip(projects, found, beside, strict=True):
        if inputs and each.precise:
            validated = {"inputs": inputs.name, "vectors": each.vectors, **asdict(each.precise)}
            project.report_as("float", {**project.report.float.model_dump(), "validated": validated})
        compared = {key: other.json() for key, other in others.items()}
        said.append({**each.json(transport), **compared})
        for key, entry in compared.items():
            project.report_as(key, entry)
        if outputs:
            vectors.to_npz(outputs, each.outputs)
        if not as_json:
            _print_validation(each, project)
            for other in others.values():
                print_comparison(other)
    if as_json:
        emit_json(device.in_turn(projects, said))
    apart = any(not other.is_within for others in beside for other in others.values())
    ctx.exit(1 if apart or any(each.mismatched_vectors for each in found) else 0)


@dataclass(frozen=True)
class _Wish:
    """What the outputs are to be compared with beside the reference."""

    against: str | None
    source: Path | None
    expect: Path | None
    tolerance: Tolerance | None


class _Job:
    """The validation of one model: its vectors, the bytes to move for them, and what is known of their classes."""

    def __init__(
        self, project: Project, plan: Plan, source: Iterable[vectors.Vector], moved: int, told: Told, wish: _Wish
    ) -> None:
        self._wish, self._file = wish, None
        if wish.against:  # before the board computes anything
            self._file = _source(wish.against, project, wish.source)
            source = list(source)
        self.project, self.plan, self.source, self.moved = project, plan, source, moved
        self._reference, self._precise = reference_of(project, plan), precise_of(project)
        self._told = replace(told, windows=windows_of(project, plan))

    def run(self, link: Link, progress: Callable[[int], None]) -> Validation:
        reference, told = self._reference, self._told
        link = session.turn(link, self.project, self.plan)
        return compare(link, self.plan, reference.run, self.source, progress, self._precise, reference.reset, told)

    def beside(self, found: Validation) -> Mapping[str, Comparison]:
        """The comparisons that were wished, by their keys in --json: of the precise outputs, where there are others."""
        wish, known, outputs = self._wish, Outputs.of(self.project), found.exact or found.outputs
        made: dict[str, Comparison] = {}
        if self._file is not None and wish.against:
            starts = begins(self.plan, found.vectors, self._told.starts)
            with err.status(Text(f"running {self._file.path.name}")):
                made["against"] = outside.against(
                    wish.against, self._file, self.plan, known, [*self.source], outputs, starts, wish.tolerance
                )
        if wish.expect:
            made["expected"] = outside.expected(wish.expect, self.plan, known, outputs, wish.tolerance)
        return made


def _source(word: str, project: Project, given: Path | None) -> Source:
    """The model's file, ready for its runtime: PyTorch is given archives that the importer has checked."""
    found = outside.source_of(project, given, MODELS)
    outside.runtime_for(word, found.path)
    return replace(found, data=archive.read(found.path).packed()) if word == "torch" else found


def _validated(jobs: Sequence[_Job], port: str | None, emulated: bool, report_to: Path | None) -> list[Validation]:
    """Runs the jobs on one board, which is not reset between them, and writes the report of the only one."""
    first = jobs[0]
    connection = session.connected(first.project, first.plan, port, emulated, report_to is not None)
    with connection as link, device.progress_bar("validating", sum(job.moved for job in jobs)) as progress:
        found = [job.run(link, progress) for job in jobs]
        if report_to:
            vector = next(vectors.random(first.project.described, first.plan.inputs, 1, device.SEED))
            write(report_to, prove(link, first.project, first.plan, vector, found[0], __version__, emulated))
        return found


def _print_validation(found: Validation, project: Project) -> None:
    where = f"{project.model_name} on {project.board_id}: {counted(found.vectors, 'vector')} in {found.seconds:.1f} s"
    if found.mismatched_vectors == 0:
        out.say(f"{where}, every byte of every op equal to the reference")
    else:
        verb = "differs" if found.mismatched_vectors == 1 else "differ"
        by = f"by up to {found.max_abs_diff}" if found.max_abs_diff else "inside the model, not in the outputs"
        bad = f"{found.mismatched_vectors} {verb} ({by}); first in op {found.first_bad_op}"
        out.say(f"{where}, {bad}")
    if found.whole_windows and not found.mismatched_vectors:
        out.say(f"outputs of all {found.whole_windows} equal to the model's on the whole window, from reset on")
    if (far := found.precise) is not None:
        apart = f"by up to {far.max_abs_diff:.3g} ({far.max_ulp:,} units of the last place)"
        top1 = f"the same largest element in {far.same_top1} of {counted(found.vectors, 'vector')}"
        out.say(f"outputs differ from precise float32 {apart}; {top1}")
    if found.accuracy is not None:
        _print_accuracy(found.accuracy)
    if found.retries:
        err.print(f"note: {counted(found.retries, 'frame')} had to be repeated")


def _print_accuracy(found: Accuracy) -> None:
    """Top-1 beside the reference's, and the confusion: as a table of few classes, of many the most frequent."""
    count = len(found.labels.classes)
    said = [f"reference {_share(found.reference_right, count)}"]
    if found.precise_right is not None:
        said.append(f"precise float32 {_share(found.precise_right, count)}")
    out.say(f"top-1: {_share(found.right, count)}; {'; '.join(said)}")
    classes = range(len(found.confusion))
    if len(classes) <= _MOST_CLASSES:
        head = ("label", *(found.labels.name(number) for number in classes))
        rows = [
            (found.labels.name(number), *(f"{times:,}" if times else "." for times in found.confusion[number]))
            for number in classes
        ]
        print_table(head, rows, title="decisions by label", right=tuple(range(1, len(head))))
        return
    for label, decision, times in found.mistakes[:_MOST_CLASSES]:
        out.say(f"  {label} taken for {decision}: {times}")


def _share(right: int, count: int) -> str:
    return f"{right:,} of {count:,} ({100 * right / count:.1f} %)"
