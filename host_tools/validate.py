"""Compares a board with the reference, byte for byte, and finds the first op that differs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from shoehorn_mcu.host_tools.documents import CURE
from shoehorn_mcu.host_tools.errors import FolderDamaged
from shoehorn_mcu.host_tools.link import Inference, Link, Mode, Progress
from shoehorn_mcu.host_tools.plan import Array, Plan
from shoehorn_mcu.host_tools.project import Project
from shoehorn_mcu.host_tools.reference import Reference
from shoehorn_mcu.host_tools.vectors import Vector

Run = Callable[[Vector], Mapping[str, Array]]  # the reference: all tensors by name


def reference_of(project: Project, plan: Plan) -> Reference:
    """The folder's reference, ready to run; FolderDamaged where it was changed or does not match the plan."""
    project.check_intact("reference/graph.json", "reference/constants.bin")
    reference = Reference.load(project.folder)
    try:
        plan.agree({name: (info.shape, info.dtype) for name, info in reference.tensors.items()})
    except ValueError as error:
        raise FolderDamaged(f"{project.folder}: plan.json is damaged: {error}; {CURE}") from error
    return reference


@dataclass(frozen=True)
class Validation:
    """The result of a validation. A vector is mismatched when any output or any op differs in any byte."""

    vectors: int
    mismatched_vectors: int
    max_abs_diff: int | float  # over the outputs; in stored units for integer outputs
    first_bad_op: str | None  # in the first mismatched vector
    seconds: float
    retries: int  # of frames
    outputs: Mapping[str, Array]  # the board's outputs, first axis = vectors

    def json(self, transport: str) -> dict[str, Any]:
        """The object that `gen validate --json` prints."""
        return {
            "vectors": self.vectors,
            "mismatched_vectors": self.mismatched_vectors,
            "max_abs_diff": self.max_abs_diff,
            "first_bad_op": self.first_bad_op,
            "transport": transport,
            "seconds": round(self.seconds, 3),
        }


def validate(link: Link, plan: Plan, reference: Run, vectors: Iterable[Vector], progress: Progress) -> Validation:
    """Runs every vector on the board and in the reference. The link's board must run this plan (HostError)."""
    link.expect(plan)
    begun = time.monotonic()
    sizes = [end.bytes for end in plan.outputs]
    outputs: dict[str, list[Array]] = {end.name: [] for end in plan.outputs}
    mismatched, first_bad = 0, None
    largest: int | float = 0
    for vector in vectors:
        data = [array.tobytes() for array in vector]
        found = link.infer(data, sizes, Mode.CRC, progress, plan.streamed_row_bytes)
        wanted = reference(vector)
        arrays = _arrays(plan, found)
        bad = _first_bad_op(plan, found, arrays, wanted)
        first_bad = first_bad if mismatched else bad
        mismatched += bad is not None
        for name, array in arrays.items():
            largest = max(largest, _distance(array, wanted[name]))
            outputs[name].append(array)
    stacked = {end.name: _stack(outputs[end.name], end.shape) for end in plan.outputs}
    count = len(next(iter(outputs.values())))
    return Validation(count, mismatched, largest, first_bad, time.monotonic() - begun, link.retries, stacked)


def _arrays(plan: Plan, found: Inference) -> dict[str, Array]:
    ends = zip(plan.outputs, found.outputs, strict=True)
    return {end.name: np.frombuffer(data, end.dtype).reshape(end.shape) for end, data in ends}


def _first_bad_op(plan: Plan, found: Inference, arrays: Mapping[str, Array], wanted: Mapping[str, Array]) -> str | None:
    """The first op whose CRC differs; if none does, the op that writes the differing output."""
    for op, board, host in zip(plan.ops, found.trace, plan.op_crcs(wanted), strict=True):
        if board != host:
            return op.name
    writers = {op.output: op.name for op in plan.ops}
    for name, array in arrays.items():
        if array.tobytes() != wanted[name].tobytes():
            return writers.get(name, name)
    return None


def _distance(a: Array, b: Array) -> int | float:
    """The largest difference; NaN in both (or equal infinity) counts as equal."""
    if a.dtype.kind != "f":
        return int(np.abs(a.astype(np.int64) - b.astype(np.int64)).max(initial=0))
    with np.errstate(invalid="ignore"):
        difference = np.abs(a.astype(np.float64) - b.astype(np.float64))
    return float(difference[np.isfinite(difference)].max(initial=0.0))


def _stack(arrays: list[Array], shape: tuple[int, ...]) -> Array:
    """Stacks vectors along the first axis, which replaces the model's batch axis of one."""
    tail = shape[1:] if len(shape) > 1 and shape[0] == 1 else shape
    return np.stack(arrays).reshape(len(arrays), *tail)
