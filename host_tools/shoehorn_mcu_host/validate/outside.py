"""Compares outputs with those of the source model in its own runtime, or with given ones: an oracle from outside.

The reference of a folder shares the importer with the firmware, so neither notices an import that is wrong. What is
compared here shares nothing with Shoehorn but the model's file, whose SHA-256 must be that of the import.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from shoehorn_mcu_host.base import sandbox
from shoehorn_mcu_host.base.arrays import read_npz
from shoehorn_mcu_host.base.errors import HostError, InputError, printable
from shoehorn_mcu_host.base.files import read_bytes
from shoehorn_mcu_host.folder import documents
from shoehorn_mcu_host.folder.documents import GraphDocument, SourceDocument, SourceEnd
from shoehorn_mcu_host.folder.plan import Array, Plan, Stored
from shoehorn_mcu_host.folder.project import Project
from shoehorn_mcu_host.folder.vectors import Vector, quantised
from shoehorn_mcu_host.validate.comparison import OTHER_ORDER, Comparison, Tolerance, compare
from shoehorn_mcu_host.validate.runtimes import RUNTIMES, Runtime

_LARGEST_MODEL = 1 << 31  # bytes
_LINE = 300  # characters of a runtime's words
_LIMITS = sandbox.Limits(seconds=3600)  # of all vectors together
_REAL_DECIBELS = 30.0  # or such noise: values may be small beside those that they are differences of
_SAME_ORDER = 1e-5  # sums in the same order; functions such as exp may differ in their last bits
_FEW_STEPS = 2  # of a quantised model whose runtime rounds elsewhere: the least difference that is looked at,
_DECIBELS = 10.0  # and the noise that roundings in other places make; public models have 14 to 35 dB, a wrong one has 0
_DENSE = ("Dense", "SumDense")
_DENSE_ROUNDED = (
    "LiteRT rounds dense layers once, TensorFlow Lite Micro and Shoehorn twice; "
    "--against tflite-micro wants equal values"
)
_DIGITS = 12  # of a SHA-256 in a message


@dataclass(frozen=True)
class Source:
    """The model's file, found and checked, and what the folder says of it."""

    path: Path
    data: bytes
    others: Mapping[str, bytes]  # files beside it that hold constants of it, by the names that it has for them
    said: SourceDocument


def source_of(project: Project, given: Path | None, *folders: Path) -> Source:
    """The file that a folder's model is from: `given`, or of its name in the current folder, beside the folder, or in
    one of `folders`.

    Raises HostError where there is none, or another one.
    """
    said = documents.read(project.described / "reference" / "source.json", project.folder, SourceDocument)
    if not said.file:
        cure = "compare the model of each file, as the file has it, in a folder of its own"
        raise HostError(f"{project.folder}: has no model file to compare with: {said.why}; {cure}")
    beside = [folder / said.file for folder in (Path(), project.folder.parent, *folders)]
    places = [given] if given else [path for path in beside if Path(said.file).name == said.file and path.is_file()]
    if not places:
        raise HostError(f"{project.folder}: '{printable(said.file)}', its model, is not here; name it by --source FILE")
    found = [(path, _content(path)) for path in places]
    fitting = [each for each in found if hashlib.sha256(each[1]).hexdigest() == said.sha256]
    if not fitting:
        path, data = found[0]
        other = f"its SHA-256 begins with {hashlib.sha256(data).hexdigest()[:_DIGITS]}, not {said.sha256[:_DIGITS]}"
        cure = "give that model by --source FILE (with --quantize, it is what `gen quantize` writes)"
        raise HostError(f"{path}: is not the model that {project.folder} was made from: {other}; {cure}")
    path, data = fitting[0]
    return Source(path, data, {name: _other(path, name, digest) for name, digest in said.others.items()}, said)


def _other(model: Path, name: str, digest: str) -> bytes:
    """A file beside a model. Raises InputError where it cannot be read, HostError where it is another one."""
    place = model.parent / name
    data = _content(place) if place.is_file() or not place.exists() else b""  # a pipe is not waited for
    if hashlib.sha256(data).hexdigest() != digest:
        raise HostError(f"{place}: is not the file that the firmware's weights are from; write it again")
    return data


def _content(path: Path) -> bytes:
    try:
        return read_bytes(path, _LARGEST_MODEL)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error


def runtime_for(word: str, path: Path) -> Runtime:
    """The runtime of this word; HostError where it is not installed or does not run such files."""
    runtime = RUNTIMES[word]
    suffix = path.suffix.lower()
    if suffix not in runtime.suffixes:
        able = " or ".join(other for other, each in RUNTIMES.items() if suffix in each.suffixes and each.judged)
        cure = f"choose --against {able}" if able else "leave --against out"
        raise HostError(f"{path}: {runtime.title} runs {', '.join(runtime.suffixes)} alone; {cure}")
    if importlib.util.find_spec(runtime.package) is None:
        raise HostError(f'--against {word} needs {runtime.title}: pip install "{runtime.install}"')
    return runtime


def run(word: str, source: Source, inputs: Sequence[Array | None], starts: Sequence[int]) -> tuple[str, list[Array]]:
    """The runtime in words, and the outputs of a model in its own runtime, as its file has them, first axis vectors.

    `inputs`: those of the file in its order, first axis vectors; None for one that is a state. The model begins anew
    at the vectors `starts`. Raises HostError.
    """
    runtime = runtime_for(word, source.path)
    said = source.said
    places = {end.name: number for number, end in enumerate(said.outputs)}
    count = next(len(each) for each in inputs if each is not None)
    ends = [
        {
            "shape": list(end.shape),
            "dtype": end.dtype,
            "zero": end.zero_point,
            "state": places[said.states[end.name]] if array is None else None,
        }
        for end, array in zip(said.inputs, inputs, strict=True)
    ]
    request = {
        "runtime": word,
        "model_bytes": len(source.data),
        "others": [[name, len(data)] for name, data in source.others.items()],
        "count": count,
        "starts": list(starts),
        "inputs": ends,
    }
    arrays = (np.ascontiguousarray(each).tobytes() for each in inputs if each is not None)
    parts = [source.data, *source.others.values(), *arrays]
    head, data = _answer(runtime, source.path, request, b"".join(parts))
    return _title(runtime, head), _outputs(runtime, said, head, data, count)


def _title(runtime: Runtime, head: Mapping[str, Any]) -> str:
    name, comma, rest = runtime.title.partition(",")
    return f"{name} {printable(str(head.get('version', '')))[:40]}".strip() + comma + rest


def _answer(runtime: Runtime, path: Path, request: object, given: bytes) -> tuple[Mapping[str, Any], bytearray]:
    """What the process of a runtime answers. Raises HostError where it cannot run the model."""
    try:
        head, data = sandbox.answer(f"{runtime.process}:answer_run", request, given, _LIMITS)
    except sandbox.Ended as ended:
        why = f"its process {ended}"
    except sandbox.Failed as failed:
        why = str(failed)
    else:
        if isinstance(head, dict) and "fault" not in head:
            return head, data
        why = str(head["fault"]) if isinstance(head, dict) else "it says nothing"
    cure = "choose another runtime, or leave --against out"
    raise HostError(f"{path}: {runtime.title} cannot run it ({printable(why)[:_LINE]}); {cure}")


def _outputs(
    runtime: Runtime, said: SourceDocument, head: Mapping[str, Any], data: bytearray, count: int
) -> list[Array]:
    """The arrays of an answer, each of the type and size that the import found. Raises HostError otherwise."""
    given = head.get("outputs")
    if not isinstance(given, list) or len(given) != len(said.outputs):
        raise HostError(f"{runtime.title}: gives other outputs than the {len(said.outputs)} that were imported")
    found, at = [], 0
    for end, each in zip(said.outputs, given, strict=True):
        theirs = f"{each['dtype']}{each['shape']}"
        if each["dtype"] != end.dtype or prod(each["shape"]) != prod(end.shape):
            ours = f"{end.dtype}{list(end.shape)}"
            raise HostError(f"{runtime.title}: output '{printable(end.name)}' is {theirs}, imported was {ours}")
        size = prod(end.shape) * count
        found.append(np.frombuffer(data, end.dtype, size, at).reshape(count, *end.shape))
        at += found[-1].nbytes
    return found


def inputs_of(said: SourceDocument, plan: Plan, vectors: Sequence[Vector]) -> list[Array | None]:
    """The vectors of the firmware as inputs of the model's file, in its order; None for a state. Raises HostError."""
    found: list[Array | None] = []
    numbers = {end.outside.name: number for number, end in enumerate(plan.inputs)}
    for end in said.inputs:
        if end.name in said.states:
            found.append(None)
            continue
        if end.name not in numbers:
            raise HostError(f"{plan.model}: the firmware has no input '{printable(end.name)}', which its model has")
        own = plan.inputs[numbers[end.name]]
        array = own.given(np.stack([vector[numbers[end.name]] for vector in vectors]))
        array = array.reshape(len(vectors), *end.shape)
        found.append(_normalised(array, end, said.pixels) if said.pixels else array)
    return found


def _normalised(pixels: Array, end: SourceEnd, given: documents.PixelsDocument) -> Array:
    """What the model takes for these pixels, in single precision; channels are the last dimension in memory."""
    means, deviations = (
        np.array(values, np.float32).reshape([-1 if place == end.order[-1] else 1 for place in range(len(end.shape))])
        for values in (given.means, given.deviations)
    )
    real: Array = (pixels.astype(np.float32) - means) / deviations
    stored = Stored(end.name, end.shape, np.dtype(end.dtype), end.scale, end.zero_point)
    return real.astype(end.dtype) if stored.dtype.kind == "f" else quantised(real, stored)


@dataclass(frozen=True)
class Outputs:
    """What graph.json tells of a model's outputs."""

    steps: Mapping[str, float] = field(default_factory=dict)  # of those that are dequantised last: what a step is worth
    is_quantised: bool = False  # any tensor of the model
    has_dense: bool = False  # a dense layer of integers

    @classmethod
    def of(cls, project: Project) -> Outputs:
        place = project.described / "reference" / "graph.json"
        return cls.of_graph(documents.read(place, project.folder, GraphDocument))

    @classmethod
    def of_graph(cls, graph: GraphDocument) -> Outputs:
        writers = {op.output: op for op in graph.ops}
        steps = {}
        for name in graph.outputs:
            op = writers.get(name)
            while op is not None and op.view is not None:
                op = writers.get(op.view)
            scales = (graph.tensors[op.inputs[0].tensor].scales or ()) if op and op.type == "Dequantize" else ()
            if len(scales) == 1:
                steps[name] = scales[0]
        computed = [tensor for tensor in graph.tensors.values() if tensor.const is None]
        dense = any(op.type in _DENSE and graph.tensors[op.output].dtype != "float32" for op in graph.ops)
        return cls(steps, any(tensor.scales for tensor in computed), dense)

    def rounded_once(self, word: str) -> bool:
        """Whether the runtime rounds dense layers of the model in another way, as LiteRT alone does."""
        return word == "tflite" and self.has_dense

    def tolerance(self, word: str) -> Tolerance:
        """That of a runtime, by its word.

        TensorFlow Lite's reference kernels give the same integers, but for dense layers, which LiteRT rounds once, and
        TensorFlow Lite Micro and Shoehorn twice. Sums of real numbers in another order differ a little. A quantised
        model whose runtime computes in real numbers between its roundings differs by steps at ties, and then by what
        follows from them.
        """
        runtime = RUNTIMES[word]
        if not runtime.judged:
            return Tolerance()
        if not (runtime.exact or self.is_quantised):
            return Tolerance(0, OTHER_ORDER, _REAL_DECIBELS)
        real = _SAME_ORDER if runtime.exact else OTHER_ORDER
        rounds_alike = runtime.exact and not self.rounded_once(word)
        return Tolerance(0, real) if rounds_alike else Tolerance(_FEW_STEPS, real, _DECIBELS)


def against(
    word: str,
    source: Source,
    plan: Plan,
    outputs: Outputs,
    vectors: Sequence[Vector],
    found: Mapping[str, Array],
    starts: Sequence[int],
    tolerance: Tolerance | None = None,
) -> Comparison:
    """The outputs that were `found` for these vectors beside those of the source model in a runtime. Raises HostError.

    `found`: by their names in the model's file, first axis vectors. `starts`: vectors at which a model with states
    begins anew.
    """
    begins = range(len(vectors)) if source.said.stateless else starts
    title, theirs = run(word, source, inputs_of(source.said, plan, vectors), begins)
    wanted = {end.name: array for end, array in zip(source.said.outputs, theirs, strict=True)}
    allowed = outputs.tolerance(word).unless(tolerance)
    made = Comparison(word, title, source.path.name, note=_DENSE_ROUNDED if outputs.rounded_once(word) else "")
    return compare(plan.outputs, outputs.steps, found, wanted, allowed, made)


def expected(
    path: Path, plan: Plan, outputs: Outputs, found: Mapping[str, Array], tolerance: Tolerance | None = None
) -> Comparison:
    """The outputs that were `found` beside those of Z.npz: by the names in the model's file, or all in order.

    Integers are stored values, and are to be equal. Floats for an output of integers are real values, which say nothing
    of how far a quantised model may be from them: they are judged by a given tolerance alone. Raises InputError.
    """
    count = len(next(iter(found.values())))
    given = read_npz(path)
    ends = {end.outside.name: end for end in plan.outputs}
    if not given.keys() <= ends.keys():
        if len(given) != len(ends):
            own = f"the model has {len(ends)} outputs: {', '.join(map(printable, ends))}"
            raise InputError(f"{path}: holds {len(given)} arrays, {own}; name them so")
        given = dict(zip(ends, given.values(), strict=True))
    real = False
    for name, array in given.items():
        outside = ends[name].outside
        if array.ndim == 0 or len(array) != count or array.size != count * prod(outside.shape):
            shape = f"{count} vectors of {outside.shape}"
            raise InputError(f"{path}: '{printable(name)}' has shape {array.shape}; wanted are {shape}")
        if array.dtype.kind not in "iufb" or (
            array.dtype.kind == "f" and outside.dtype.kind != "f" and not outside.scale
        ):
            raise InputError(f"{path}: '{printable(name)}' is {array.dtype}; the model's output is {outside.dtype}")
        real |= array.dtype.kind == "f" and (outside.dtype.kind != "f" or outputs.is_quantised)
    default = Tolerance() if real else Tolerance(0, OTHER_ORDER)
    made = Comparison("expected", "the expected outputs", path.name)
    return compare(plan.outputs, outputs.steps, found, given, default.unless(tolerance), made)
