"""Compares a board with the reference, byte for byte, and finds the first op that differs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from shoehorn_mcu_host.base.errors import FolderDamaged
from shoehorn_mcu_host.board.link import Inference, Link, Mode, Progress
from shoehorn_mcu_host.folder.documents import CURE, Slide
from shoehorn_mcu_host.folder.plan import Array, End, Plan, alike
from shoehorn_mcu_host.folder.project import Project
from shoehorn_mcu_host.folder.vectors import Vector
from shoehorn_mcu_host.validate.accuracy import Accuracy, Labels, accuracy
from shoehorn_mcu_host.validate.reference import Reference

SEQUENCE = 4
"""Vectors that a model with states gets before it is reset for the first time; each later sequence is twice as long."""

Run = Callable[[Vector], Mapping[str, Array]]  # the reference: all tensors by name


def reference_of(project: Project, plan: Plan) -> Reference:
    """The folder's reference, ready to run; FolderDamaged where it was changed or does not match the plan."""
    reference = _load(project)
    try:
        plan.agree({name: (info.shape, np.dtype(info.dtype)) for name, info in reference.tensors.items()})
    except ValueError as error:
        raise FolderDamaged(f"{project.folder}: plan.json is damaged: {error}; {CURE}") from error
    return reference


def precise_of(project: Project) -> Reference | None:
    """The folder's reference in precise float32, ready to run; None where the firmware itself is precise."""
    if not (project.described / "reference" / "precise").is_dir():
        return None
    return _load(project, "precise")


def windows_of(project: Project, plan: Plan) -> Windows | None:
    """The folder's model of whole windows, ready to run; None where the firmware takes its whole input.

    FolderDamaged where it was changed or does not match the plan.
    """
    if plan.slide is None:
        return None
    whole = _load(project, "window")
    if not _are_windows(whole, plan, plan.slide):
        raise FolderDamaged(f"{project.folder}: reference/window is no model of plan.json's windows; {CURE}")
    return Windows(whole, plan.slide.hop_rows)


def _are_windows(whole: Reference, plan: Plan, slide: Slide) -> bool:
    """Whether a model has the plan's outputs, and its inputs are windows of the plan's, or for a pipeline the same."""
    kinds = {name: (kind.shape, np.dtype(kind.dtype)) for name, kind in whole.tensors.items()}
    outputs = {name: kinds[name] for name in whole.outputs}
    if len(whole.inputs) != len(plan.inputs) or any(outputs.get(e.name) != (e.shape, e.dtype) for e in plan.outputs):
        return False
    for name, end in zip(whole.inputs, plan.inputs, strict=True):
        window = (*end.shape[:1], slide.window_rows, *end.shape[2:])
        moves = len(end.shape) == 4 and end.shape[:2] == (1, slide.hop_rows)
        if kinds[name] != (end.shape, end.dtype) and not (moves and kinds[name] == (window, end.dtype)):
            return False
    return True


def _load(project: Project, part: str = "") -> Reference:
    """A reference of the folder; FolderDamaged where it was changed. The models of a firmware have the C in common."""
    place = PurePosixPath("reference", part)
    project.check_intact(f"{place}/graph.json", f"{place}/constants.bin")
    return Reference.load(project.described, part, project.folder / "reference" / "runtime")


class Windows:
    """The model of whole windows, which gets the rows that a model of new rows gets."""

    def __init__(self, whole: Reference, hop: int) -> None:
        """`hop`: the rows of each inference."""
        self._whole, self._hop = whole, hop
        self.reset()

    def reset(self) -> None:
        """All windows are at rest: their rows are the stored value of 0."""
        self._whole.reset()
        kinds = (self._whole.tensors[name] for name in self._whole.inputs)
        self._rows = [np.full(kind.shape, (kind.zero_points or (0,))[0], np.dtype(kind.dtype)) for kind in kinds]

    def run(self, rows: Vector) -> Mapping[str, Array]:
        """The outputs of the windows that end with these rows; a pipeline keeps its windows itself."""
        pairs = list(zip(self._rows, rows, strict=True))
        if any(window.shape != new.shape for window, new in pairs):
            self._rows = [np.concatenate([window[:, self._hop :], new], axis=1) for window, new in pairs]
        else:
            self._rows = list(rows)
        found = self._whole.run(self._rows)
        return {name: found[name] for name in self._whole.outputs}


@dataclass(frozen=True)
class Deviation:
    """How far a board's outputs are from those in precise float32."""

    max_abs_diff: float
    max_ulp: int  # in units of the last place: float32 numbers between the two
    same_top1: int  # vectors whose first output has its largest element at the same place


@dataclass(frozen=True)
class Validation:
    """The result of a validation. A vector is mismatched when any byte of an output or an op differs, but for NaN."""

    vectors: int
    mismatched_vectors: int
    max_abs_diff: int | float  # over the outputs; in stored units for integer outputs
    first_bad_op: str | None  # in the first mismatched vector
    seconds: float
    retries: int  # of frames
    outputs: Mapping[str, Array]  # the board's outputs as the model's file has them, first axis = vectors
    precise: Deviation | None = None  # None: the firmware itself is precise
    accuracy: Accuracy | None = None  # None: there were no labels
    exact: Mapping[str, Array] | None = None  # the outputs in precise float32, where the firmware is not precise
    whole_windows: int | None = None  # vectors that were also compared with whole windows; None: it has none

    def json(self, transport: str) -> dict[str, Any]:
        """The object that `gen validate --json` prints."""
        return {
            "vectors": self.vectors,
            "mismatched_vectors": self.mismatched_vectors,
            "max_abs_diff": self.max_abs_diff,
            "first_bad_op": self.first_bad_op,
            "transport": transport,
            "seconds": round(self.seconds, 3),
            **({"precise": asdict(self.precise)} if self.precise else {}),
            **({"accuracy": self.accuracy.json()} if self.accuracy else {}),
            **({"whole_windows": self.whole_windows} if self.whole_windows is not None else {}),
        }


def begins(plan: Plan, count: int, starts: Sequence[int] = ()) -> Sequence[int]:
    """The vectors with which sequences begin: `starts` where they are given, else 0, 4, 12, 28, 60, ...

    A model without states has none but the first.
    """
    if not plan.states:
        return (0,)
    return starts or [number for number in range(count) if _begins(number)]


def enough(plan: Plan, few: int) -> int:
    """How many vectors show what a model does: a `few`, or where its window fills, as many as the sequences up to the
    first one that fills it have.
    """
    count = length = SEQUENCE
    while length < plan.window_steps + 1:
        length *= 2
        count += length
    return max(few, count) if plan.slide else few


def _begins(number: int) -> bool:
    before, rest = divmod(number, SEQUENCE)
    return rest == 0 and before & (before + 1) == 0


@dataclass(frozen=True)
class Told:
    """What is known of vectors besides their values."""

    labels: Labels | None = None  # one for each vector, or with `starts` for the last one of each sequence
    starts: Sequence[int] = ()  # the vectors with which sequences begin; none: see SEQUENCE
    windows: Windows | None = None  # whose new rows the vectors are, where the firmware takes new rows


def validate(
    link: Link,
    plan: Plan,
    reference: Run,
    vectors: Iterable[Vector],
    progress: Progress,
    precise: Reference | None = None,
    reset: Callable[[], None] = lambda: None,
    told: Told = Told(),
) -> Validation:
    """Runs every vector on the board and in the reference, and in `precise` to say how far the board is from it.

    A model with states computes sequences: before each of them they are reset, on the board and, by `reset`, in the
    reference. Outputs of a model that takes new rows are compared with those of the whole windows, too. With labels it
    counts how often each of them is right. The link's board must run this plan (HostError).
    """
    link.expect(plan)
    begun, before = time.monotonic(), link.retries
    is_first = frozenset(told.starts).__contains__ if told.starts else _begins
    sizes = [end.bytes for end in plan.outputs]
    seen = _Seen(plan)
    for number, vector in enumerate(vectors):
        if plan.states and is_first(number):
            link.reset()
            reset()
            for other in (precise, told.windows):
                if other is not None:
                    other.reset()
        data = [array.tobytes() for array in vector]
        found = link.infer(data, sizes, Mode.CRC, progress, plan.streamed_row_bytes, plan.handed_out)
        whole = told.windows.run(vector) if told.windows else {}
        seen.add(found, reference(vector), precise.run(vector) if precise else {}, whole)
    made = seen.validation(time.monotonic() - begun, link.retries - before, precise is not None, told)
    return replace(made, whole_windows=made.vectors) if told.windows else made


class _Seen:
    """The results of the vectors so far."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._outputs: dict[str, list[Array]] = {end.name: [] for end in plan.outputs}
        self._exact: dict[str, list[Array]] = {end.name: [] for end in plan.outputs}  # in precise float32
        self._said: list[Array] = []  # the reference's first output
        self._mismatched = 0
        self._first_bad: str | None = None  # in the first mismatched vector
        self._largest: int | float = 0

    def add(
        self, found: Inference, wanted: Mapping[str, Array], precise: Mapping[str, Array], whole: Mapping[str, Array]
    ) -> None:
        """The board's results for a vector, all tensors of the references, and the outputs of the whole window."""
        arrays = _arrays(self._plan, found)
        bad = _first_bad_op(self._plan, found, wanted)
        bad = bad or _first_other(self._plan, arrays, wanted) or _first_other(self._plan, arrays, whole)
        self._first_bad = self._first_bad if self._mismatched else bad
        self._mismatched += bad is not None
        self._said.append(wanted[self._plan.outputs[0].name])
        for name, array in arrays.items():
            self._largest = max(self._largest, _distance(array, wanted[name]))
            self._outputs[name].append(array)
        for name, exact in self._exact.items():
            if name in precise:
                exact.append(precise[name])

    def validation(self, seconds: float, retries: int, has_precise: bool, told: Told) -> Validation:
        """The result of all vectors."""
        ends, first = self._plan.outputs, self._plan.outputs[0].name
        count = len(self._outputs[first])
        last = [place - 1 for place in (*told.starts[1:], count)] if told.starts else range(count)
        decisions = (self._outputs[first], self._said, self._exact[first])
        decided = ([each[i] for i in last] if each else each for each in decisions)
        return Validation(
            vectors=count,
            mismatched_vectors=self._mismatched,
            max_abs_diff=self._largest,
            first_bad_op=self._first_bad,
            seconds=seconds,
            retries=retries,
            outputs={end.outside.name: _stack(end, self._outputs[end.name]) for end in ends},
            precise=_deviation(self._outputs, self._exact) if has_precise else None,
            accuracy=accuracy(told.labels, ends[0], *decided) if told.labels else None,
            exact={end.outside.name: _stack(end, self._exact[end.name]) for end in ends} if has_precise else None,
        )


def _deviation(found: Mapping[str, list[Array]], wanted: Mapping[str, list[Array]]) -> Deviation:
    """Over all outputs and vectors."""
    pairs = [pair for name in found for pair in zip(found[name], wanted[name], strict=True)]
    first = next(iter(found))
    same = sum(int(a.argmax() == b.argmax()) for a, b in zip(found[first], wanted[first], strict=True))
    return Deviation(max(float(_distance(a, b)) for a, b in pairs), max(_ulps(a, b) for a, b in pairs), same)


def _ulps(a: Array, b: Array) -> int:
    """The most float32 numbers from an element of `a` to that of `b`; 0 for outputs of another type."""
    if a.dtype != np.float32:
        return 0
    a, b = alike(a), alike(b)
    places = [np.where((i := x.view(np.int32).astype(np.int64)) < 0, -(i & 0x7FFFFFFF), i) for x in (a, b)]
    return int(np.abs(places[0] - places[1]).max(initial=0))


def _arrays(plan: Plan, found: Inference) -> dict[str, Array]:
    ends = zip(plan.outputs, found.outputs, strict=True)
    return {end.name: np.frombuffer(data, end.dtype).reshape(end.shape) for end, data in ends}


def _first_bad_op(plan: Plan, found: Inference, wanted: Mapping[str, Array]) -> str | None:
    """The first op whose CRC differs."""
    for op, board, host in zip(plan.ops, found.trace, plan.op_crcs(wanted), strict=True):
        if board != host:
            return op.name
    return None


def _first_other(plan: Plan, arrays: Mapping[str, Array], wanted: Mapping[str, Array]) -> str | None:
    """The op that writes the first output which is another than is wanted of it, if anything is."""
    writers = {op.output: op.name for op in plan.ops}
    for name, array in arrays.items():
        if name in wanted and alike(array).tobytes() != alike(wanted[name]).tobytes():
            return writers.get(name, name)
    return None


def _distance(a: Array, b: Array) -> int | float:
    """The largest difference; NaN in both (or equal infinity) counts as equal."""
    if a.dtype.kind != "f":
        return int(np.abs(a.astype(np.int64) - b.astype(np.int64)).max(initial=0))
    with np.errstate(invalid="ignore"):
        difference = np.abs(a.astype(np.float64) - b.astype(np.float64))
    return float(difference[np.isfinite(difference)].max(initial=0.0))


def _stack(end: End, arrays: list[Array]) -> Array:
    """Vectors as the model's file has them, along the first axis, which replaces the model's batch axis of one."""
    shape = end.outside.shape
    tail = shape[1:] if len(shape) > 1 and shape[0] == 1 else shape
    return end.given(np.stack(arrays)).reshape(len(arrays), *tail)
