"""A written folder's plan for the host tools: inputs and outputs, ops in trace order, steps."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu_host.base.errors import FolderDamaged
from shoehorn_mcu_host.folder import documents
from shoehorn_mcu_host.folder.documents import PlanDocument, PlannedOp
from shoehorn_mcu_host.folder.project import Project

Array = NDArray[np.generic]


@dataclass(frozen=True)
class Stored:
    """How a tensor is stored. real = scale * (stored - zero_point); scale 0 where nothing is quantised."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    scale: float = 0.0
    zero_point: int = 0


@dataclass(frozen=True)
class End:
    """An input or output of the firmware, and of the model's file, whose dimensions are in memory in this `order`."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    bytes: int
    scale: float = 0.0
    zero_point: int = 0
    source: Stored | None = None  # None: as in the firmware
    order: tuple[int, ...] = ()

    @property
    def inside(self) -> Stored:
        """As in the firmware."""
        return Stored(self.name, self.shape, self.dtype, self.scale, self.zero_point)

    @property
    def outside(self) -> Stored:
        """As in the model's file."""
        return self.source or self.inside

    @property
    def moved(self) -> bool:
        """Whether elements are in another order in the model's file."""
        long = [place for place in self.order if self.outside.shape[place] > 1]
        return long != sorted(long)

    def taken(self, vectors: Array) -> Array:
        """Vectors of the model's file, first axis vectors, as the firmware takes them."""
        given = vectors.reshape(len(vectors), *self.outside.shape)
        given = given.transpose(0, *(place + 1 for place in self.order or range(given.ndim - 1)))
        return _stored_as(given, self.outside, self.inside).reshape(len(vectors), *self.shape)

    def given(self, vectors: Array) -> Array:
        """Vectors of the firmware, first axis vectors, as the model's file has them."""
        shape = self.outside.shape
        order = self.order or tuple(range(len(shape)))
        moved = vectors.reshape(len(vectors), *(shape[place] for place in order))
        back = (order.index(place) + 1 for place in range(len(order)))
        return _stored_as(moved.transpose(0, *back), self.inside, self.outside)


@dataclass(frozen=True)
class Plan:
    """The plan of a firmware. `steps` are (index in ops, first row, row after the last) of those that compute rows."""

    model: str
    identity: str  # 16 hexadecimal digits
    inputs: tuple[End, ...]
    outputs: tuple[End, ...]
    ops: tuple[PlannedOp, ...]  # an op's index here is its number in traces
    steps: tuple[tuple[int, int, int], ...]
    row_bytes: Mapping[str, int]  # of each tensor that has a placement
    streamed: bool = False  # whether the one input goes to the board row by row
    handed_out: bool = False  # whether the one output comes from the board row by row
    cores: int = 1  # that share an inference
    states: tuple[str, ...] = ()  # tensors that keep their values between inferences
    classes: tuple[str, ...] = ()  # names of the classes that the first output tells apart, where they are known
    sample_hz: int | None = None  # samples per second of the one input, where they are known
    slide: documents.Slide | None = None  # the window that inferences move along by new rows, where they do
    overlapping: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Step number -> addresses of its rows, for steps that write some bytes twice: see `op_crcs`."""

    @property
    def streamed_row_bytes(self) -> int:
        """The size of a streamed input's rows, else 0."""
        return self.row_bytes[self.inputs[0].name] if self.streamed else 0

    @property
    def signal_seconds(self) -> float | None:
        """The time that the new rows or samples of an inference last, where it is known."""
        if self.slide is not None:
            return self.slide.seconds
        return int(np.prod(self.inputs[0].shape)) / self.sample_hz if self.sample_hz and self.states else None

    @property
    def window_steps(self) -> int:
        """Inferences until the window is full of rows that were given; 0 where there is no window."""
        return -(-self.slide.window_rows // self.slide.hop_rows) if self.slide else 0

    @property
    def pushes(self) -> int:
        """The parts of an inference that the board times: one, or one per row of a streamed input."""
        row = self.streamed_row_bytes
        return self.inputs[0].bytes // row if row else 1

    @property
    def traced_bytes(self) -> int:
        """Bytes of all rows that one inference computes."""
        return sum((end - first) * self.row_bytes[self.ops[op].output] for op, first, end in self.steps)

    @classmethod
    def of(cls, project: Project) -> Plan:
        """The plan of a written folder; FolderDamaged where it breaks the schema."""
        plan = documents.read(project.described / "plan.json", project.folder, PlanDocument)
        if plan.arena_bytes > project.spec["sram_bytes"]:
            raise FolderDamaged(f"{project.folder}: plan.json has an arena larger than the board's SRAM")
        room = {memory["name"]: memory["bytes"] for memory in project.spec["memory"]}
        for name, size in plan.other_arenas.items():
            if size > room.get(name, 0):
                raise FolderDamaged(f"{project.folder}: plan.json has an arena larger than the board's memory '{name}'")
        computing = [(step.op, step) for step in plan.steps if step.op is not None]
        return cls(
            plan.model,
            plan.identity,
            tuple(map(_end, plan.inputs)),
            tuple(map(_end, plan.outputs)),
            plan.ops,
            tuple((op, *step.rows) for op, step in computing),
            {placed.tensor: placed.row_bytes for placed in plan.placements},
            any(step.input is not None for step in plan.steps),
            any(step.output is not None for step in plan.steps),
            max((step.cores for _, step in computing), default=1),
            plan.states,
            plan.classes,
            plan.sample_hz,
            plan.slide,
            _overlapping(plan, computing),
        )

    def op_crcs(self, tensors: Mapping[str, Array]) -> list[int]:
        """CRC-32 of every op, chained over its steps as on the board, from the whole tensors by name.

        The board computes the CRC of a step's rows after the step. Rows that no op reads may share addresses with
        later rows of the same step; the CRC then covers the later row's bytes, on the board and here. Every NaN counts
        as the same one (`alike`).
        """
        crcs = [0] * len(self.ops)
        for number, (op, first, end) in enumerate(self.steps):
            name = self.ops[op].output
            size = self.row_bytes[name]
            data = alike(tensors[name]).tobytes()[first * size : end * size]
            if number in self.overlapping:
                data = _as_left(data, size, self.overlapping[number])
            crcs[op] = zlib.crc32(data, crcs[op])
        return crcs

    def agree(self, tensors: Mapping[str, tuple[tuple[int, ...], np.dtype[np.generic]]]) -> None:
        """ValueError unless the tensors that the plan names have the shapes and types of the reference's."""
        for end in (*self.inputs, *self.outputs):
            if tensors.get(end.name) != (end.shape, end.dtype):
                raise ValueError(f"'{end.name}' differs from the reference's tensor or is missing there")
        for op, _, last in self.steps:
            name = self.ops[op].output
            shape, dtype = tensors.get(name, ((), np.dtype(np.int8)))
            if last * self.row_bytes[name] > int(np.prod(shape, dtype=np.int64)) * dtype.itemsize:
                raise ValueError(f"'{name}' has fewer rows in the reference or is missing there")


def alike(array: Array) -> Array:
    """The array with every NaN as the positive quiet one: sign and payload differ between machines that compute alike.

    x86 makes a negative NaN of infinity minus infinity, Arm and soft float a positive one.
    """
    return np.where(np.isnan(array), array.dtype.type(np.nan), array) if array.dtype.kind == "f" else array


def _end(end: documents.End) -> End:
    own = (end.name, end.shape, np.dtype(end.dtype), end.bytes, end.scale, end.zero_point)
    if (source := end.source) is None:
        return End(*own)
    stored = Stored(source.name, source.shape, np.dtype(source.dtype), source.scale, source.zero_point)
    return End(*own, stored, source.order)


def _stored_as(array: Array, there: Stored, here: Stored) -> Array:
    """Values stored in another integer type of the same scale; other values as they are."""
    if there.dtype == here.dtype or "f" in there.dtype.kind + here.dtype.kind:
        return array
    moved = array.astype(np.int64) - there.zero_point + here.zero_point
    return moved.astype(here.dtype)


def _overlapping(plan: PlanDocument, computing: list[tuple[int, documents.Step]]) -> dict[int, tuple[int, ...]]:
    """For each step that writes some bytes twice: step number -> addresses of its rows, as if the arenas were one."""
    starts = dict(zip(plan.arenas, accumulate(plan.arenas.values(), initial=0), strict=False))
    placements = {(placed.tensor, placed.edition): placed for placed in plan.placements}
    found = {}
    for number, (op, step) in enumerate(computing):
        tensor = plan.ops[op].output
        placed = placements[tensor, step.editions.get(tensor, 0)]
        at = tuple(starts[placed.memory_of(y)] + placed.at(y) for y in range(*step.rows))
        if any(b < a + placed.row_bytes for a, b in pairwise(sorted(at))):
            found[number] = at
    return found


def _as_left(rows: bytes, size: int, addresses: tuple[int, ...]) -> bytes:
    """The bytes at each row's address, concatenated, after all `rows` have been written in order."""
    arena = bytearray(max(addresses) + size)
    for i, at in enumerate(addresses):
        arena[at : at + size] = rows[i * size : (i + 1) * size]
    return b"".join(arena[at : at + size] for at in addresses)
