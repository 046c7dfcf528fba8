"""The JSON files of a written folder as strict models: a file that breaks its schema is refused in one line.

docs/folder-format.md has plan.json; validate/reference.py has graph.json.
"""

from __future__ import annotations

from math import prod
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal, TypeVar, get_args

import numpy as np
import pydantic
from pydantic import Field

from shoehorn_mcu_host.base.errors import FolderDamaged, HostError, InputError
from shoehorn_mcu_host.base.files import JSON_BYTES, read_bytes
from shoehorn_mcu_host.base.manifest import Shoehorn, faults

MAIN = "sram"  # the name of the board's main memory in plan.json
CURE = "write the folder again with gen firmware"
Count = Annotated[int, Field(ge=0, lt=2**31)]
Positive = Annotated[int, Field(gt=0, lt=2**31)]
ZeroPoint = Annotated[int, Field(ge=-(2**31), lt=2**31)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Name = Annotated[str, Field(max_length=10_000)]
Rows = tuple[Count, Count]  # the first row, and the row after the last one
DType = Literal["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "bool"]
_BYTES: dict[str, int] = {name: np.dtype(name).itemsize for name in get_args(DType)}


class _Document(pydantic.BaseModel):
    """Unknown keys are allowed; the keys that are read must have these types."""

    model_config = pydantic.ConfigDict(frozen=True, strict=True)


class SourceEnd(_Document):
    """An input or output as the model's file has it; its dimensions are in memory in this order."""

    name: Name
    shape: tuple[Positive, ...]
    dtype: DType
    scale: Finite
    zero_point: ZeroPoint
    order: tuple[Count, ...]

    @pydantic.model_validator(mode="after")
    def _is_an_order(self) -> SourceEnd:
        if sorted(self.order) != list(range(len(self.shape))):
            raise ValueError(f"order {list(self.order)} is none of {len(self.shape)} dimensions")
        return self


class End(_Document):
    """An input or output of the firmware."""

    name: Name
    shape: tuple[Positive, ...]
    dtype: DType
    bytes: Positive
    scale: Finite
    zero_point: ZeroPoint
    source: SourceEnd | None = None  # None: in folders of older versions

    @pydantic.model_validator(mode="after")
    def _has_its_bytes(self) -> End:
        if prod(self.shape) * _BYTES[self.dtype] != self.bytes:
            raise ValueError(f"shape {list(self.shape)} of {self.dtype} has not {self.bytes} bytes")
        if self.source and prod(self.shape) != prod(self.source.shape):
            raise ValueError(f"the file's shape {list(self.source.shape)} has another size than {list(self.shape)}")
        return self


class PlannedOp(_Document):
    """An op that has steps."""

    name: Name
    kernel: Name
    output: Name


class Step(_Document):
    """Rows that an op computes, that arrive as a streamed input, or that are handed out as a streamed output."""

    rows: Rows
    op: Count | None = None
    input: Count | None = None
    output: Count | None = None
    editions: dict[Name, Count] = {}
    cores: Positive = 1

    @pydantic.model_validator(mode="after")
    def _is_one_of_three(self) -> Step:
        if sum(each is not None for each in (self.op, self.input, self.output)) != 1:
            raise ValueError("a step has either an op or an input or an output")
        if self.rows[0] >= self.rows[1]:
            raise ValueError(f"rows {list(self.rows)} are none")
        return self


class Placement(_Document):
    """The addresses of a tensor's rows in the arena."""

    tensor: Name
    address: Count
    rows: Positive
    row_bytes: Positive
    slots: tuple[Count, ...] = ()
    edition: Count = 0
    memory: Name = MAIN  # that of row 0
    memories: tuple[Name, ...] = ()  # of each row, where they are in several

    @pydantic.model_validator(mode="after")
    def _has_a_slot_per_row(self) -> Placement:
        if self.slots and len(self.slots) != self.rows:
            raise ValueError(f"{len(self.slots)} slots for {self.rows} rows")
        if self.memories and not len(self.memories) == len(self.slots) == self.rows:
            raise ValueError(f"{len(self.memories)} memories for {len(self.slots)} slots and {self.rows} rows")
        return self

    def at(self, y: int) -> int:
        """The address of row `y`."""
        return self.slots[y] if self.slots else self.address + y * self.row_bytes

    def memory_of(self, y: int) -> str:
        """The memory that row `y` is in."""
        return self.memories[y] if self.memories else self.memory

    @property
    def ends(self) -> dict[str, int]:
        """The address after the last byte in each memory."""
        found: dict[str, int] = {}
        for y in range(self.rows) if self.slots else (self.rows - 1,):
            memory = self.memory_of(y)
            found[memory] = max(self.at(y) + self.row_bytes, found.get(memory, 0))
        return found


class Slide(_Document):
    """The window that inferences move along by new rows."""

    window_rows: Positive
    hop_rows: Positive
    seconds: Annotated[float, Field(gt=0)] | None = None  # that the new rows last

    @pydantic.model_validator(mode="after")
    def _moves_within_the_window(self) -> Slide:
        if self.hop_rows > self.window_rows:
            raise ValueError(f"a window of {self.window_rows} rows takes {self.hop_rows} new ones")
        return self


class PlanDocument(_Document):
    """plan.json."""

    model: Name
    identity: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    arena_bytes: Count
    other_arenas: dict[Name, Count] = {}
    states: tuple[Name, ...] = ()
    classes: tuple[str, ...] = ()
    sample_hz: Positive | None = None
    slide: Slide | None = None
    inputs: Annotated[tuple[End, ...], Field(min_length=1)]
    outputs: Annotated[tuple[End, ...], Field(min_length=1)]
    ops: tuple[PlannedOp, ...]
    steps: tuple[Step, ...]
    placements: tuple[Placement, ...]

    @property
    def arenas(self) -> dict[str, int]:
        """The bytes of the arena in each memory, the board's main one first."""
        return {MAIN: self.arena_bytes, **self.other_arenas}

    @pydantic.model_validator(mode="after")
    def _agrees_with_itself(self) -> PlanDocument:
        placements = {(placed.tensor, placed.edition): placed for placed in self.placements}
        for placed in self.placements:
            for memory, end in placed.ends.items():
                if end > self.arenas.get(memory, 0):
                    raise ValueError(f"'{placed.tensor}' leaves the arena of {self.arenas.get(memory, 0)} bytes")
        for number, step in enumerate(self.steps):
            if step.output is not None:
                self._hands_out(number, step.output, step.rows)
                continue
            places, names = (self.ops, "ops") if step.op is not None else (self.inputs, "inputs")
            place = step.op if step.op is not None else step.input or 0
            if place >= len(places):
                raise ValueError(f"step {number} names number {place} of {len(places)} {names}")
            tensor = self.ops[place].output if step.op is not None else self.inputs[place].name
            written = placements.get((tensor, step.editions.get(tensor, 0)))
            if written is None or step.rows[1] > written.rows:
                raise ValueError(f"step {number} writes rows of '{tensor}' that have no address")
        return self

    def _hands_out(self, number: int, place: int, rows: tuple[int, int]) -> None:
        """Raises ValueError where the step hands out rows that the output has not.

        They need not have addresses of their own: rows may be parts of other tensors' rows.
        """
        if place >= len(self.outputs):
            raise ValueError(f"step {number} names number {place} of {len(self.outputs)} outputs")
        end = self.outputs[place]
        if rows[1] > prod(end.shape[:-2]):  # a row has the last two dimensions, columns and channels
            raise ValueError(f"step {number} hands out rows of '{end.name}' that it has not")


class Tensor(_Document):
    """A tensor of graph.json."""

    shape: tuple[Positive, ...]
    dtype: DType
    rows: Positive
    row_bytes: Positive
    scales: tuple[Finite, ...] | None
    zero_points: tuple[int, ...] | None
    const: Count | None

    @property
    def bytes(self) -> int:
        return self.rows * self.row_bytes

    @pydantic.model_validator(mode="after")
    def _has_its_bytes(self) -> Tensor:
        if prod(self.shape) * _BYTES[self.dtype] != self.bytes:
            raise ValueError(f"shape {list(self.shape)} of {self.dtype} has not {self.bytes} bytes")
        if len(self.scales or ()) != len(self.zero_points or ()):
            raise ValueError("as many scales as zero points are needed")
        return self


class Reads(_Document):
    """The rows of one tensor that an op reads, for each of its output rows; -1 is a row of padding."""

    tensor: Name
    rows: tuple[tuple[Annotated[int, Field(ge=-1, lt=2**31)], ...], ...]

    @pydantic.model_validator(mode="after")
    def _is_a_table(self) -> Reads:
        if len({len(row) for row in self.rows}) > 1:
            raise ValueError("the kernel reads the same number of rows for each output row")
        return self


class Pointer(_Document):
    """A parameter that points to a constant."""

    const: Count


class GraphOp(_Document):
    """An op with a kernel, or (`view`) one whose output has its input's bytes."""

    name: Name
    type: Name
    output: Name
    view: Name | None = None
    function: Name = ""
    struct: Name = ""
    takes_row: bool = False
    scratch_bytes: Count | None = None
    params: dict[Name, int | Finite | Pointer | None] = {}
    inputs: tuple[Reads, ...] = ()
    start: Count = 0
    onto: Name | None = None


class Constant(_Document):
    """The place of a constant in constants.bin."""

    offset: Count
    dtype: DType
    count: Count

    @property
    def end(self) -> int:
        """The offset after its last byte."""
        return self.offset + self.count * _BYTES[self.dtype]


class KeptState(_Document):
    """A tensor that keeps its value: `write` becomes `read` behind an inference; the number of its first value."""

    read: Name
    write: Name
    initial: Count


class GraphDocument(_Document):
    """reference/graph.json."""

    format: Literal[1]
    name: Name
    flush: bool = False
    inputs: tuple[Name, ...]
    outputs: tuple[Name, ...]
    states: tuple[KeptState, ...] = ()
    tensors: dict[Name, Tensor]
    ops: tuple[GraphOp, ...]
    constants: tuple[Constant, ...]

    @pydantic.model_validator(mode="after")
    def _agrees_with_itself(self) -> GraphDocument:
        used = {*self.inputs, *self.outputs, *(op.output for op in self.ops)}
        used |= {op.view for op in self.ops if op.view is not None}
        used |= {name for state in self.states for name in (state.read, state.write)}
        used |= {reads.tensor for op in self.ops for reads in op.inputs}
        if unknown := sorted(used - self.tensors.keys()):
            raise ValueError(f"'{unknown[0]}' is no tensor")
        for op in self.ops:
            for reads in op.inputs:
                if len(reads.rows) != self.tensors[op.output].rows:
                    raise ValueError(f"op '{op.name}': {len(reads.rows)} entries for the rows of '{op.output}'")
        return self


class PixelsDocument(_Document):
    """What makes the model's input of pixels: (pixel - mean) / deviation, for all channels or for each."""

    means: Annotated[tuple[Finite, ...], Field(min_length=1)]
    deviations: Annotated[tuple[Finite, ...], Field(min_length=1)]


class SourceDocument(_Document):
    """reference/source.json: the file that a model is from, with its inputs and outputs in the file's order."""

    file: Name  # "" where no single file is the model
    sha256: Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")]
    others: dict[Name, Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]] = {}  # files beside it with constants
    why: Name  # there is no file
    inputs: tuple[SourceEnd, ...]
    outputs: tuple[SourceEnd, ...]
    states: dict[Name, Name]  # inputs that are fed with an output of the inference before
    pixels: PixelsDocument | None
    stateless: bool

    @pydantic.model_validator(mode="after")
    def _agrees_with_itself(self) -> SourceDocument:
        inputs, outputs = ({end.name for end in ends} for ends in (self.inputs, self.outputs))
        if unknown := sorted(self.states.keys() - inputs) + sorted(set(self.states.values()) - outputs):
            raise ValueError(f"'{unknown[0]}' is no end that could be a state")
        for name in self.others:
            if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts or "\\" in name or "\0" in name:
                raise ValueError(f"'{name}' is no file beside the model")
        return self


class _Model(_Document):
    name: Name


class _BoardId(_Document):
    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$", max_length=200)]


class _PlanFigures(_Document):
    arena_bytes: Count = 0
    macs: Annotated[int, Field(ge=0)] = 0
    predicted_instructions: Annotated[int, Field(ge=0)] = 0


class _WeightsInRam(_Document):
    bytes: Count = 0


class _Float(_Document):
    mode: Name = "precise"  # a value of the generator's FloatMode
    fused: bool = False


_FolderName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=200)]


class TogetherDocument(_Document):
    """What report.json says of the firmware as a whole, where it has several models."""

    models: Annotated[tuple[_FolderName, ...], Field(min_length=2)]
    arena_bytes: Count


class ReportDocument(_Document):
    """The part of report.json that the host tools read."""

    model: _Model
    together: TogetherDocument | None = None  # None: one model
    board: _BoardId
    plan: _PlanFigures = _PlanFigures()
    weights_in_ram: _WeightsInRam = _WeightsInRam()
    float: _Float = _Float()
    energy_mode: Literal["none", "marks", "mlperf"] = "none"


class ManifestDocument(_Document):
    """The part of boards/<id>.json that the host tools read."""

    shoehorn: Shoehorn


_Address = Annotated[int, Field(ge=0, lt=2**32)]


class _StubUart(_Document):
    status: _Address
    receive: _Address
    transmit: _Address
    idle: _Address
    received: _Address
    receive_pointer: _Address | None = None
    transmit_pointer: _Address | None = None


class StubDocument(_Document):
    """stub.json: what stands for the chip where only its core is emulated (`Stub` in the generator's families.py)."""

    uart: _StubUart
    registers: tuple[tuple[_Address, _Address], ...]
    values: tuple[tuple[_Address, _Address], ...]
    csrs: tuple[_Address, ...] = ()


class WrittenDocument(_Document):
    """.shoehorn.json: the SHA-256 of each file as it was written."""

    files: dict[Name, str]


_Read = TypeVar("_Read", bound=_Document)


def read(path: Path, folder: Path, model: type[_Read]) -> _Read:
    """One of a folder's JSON files; HostError where the folder has none, FolderDamaged where it breaks the schema."""
    try:
        return model.model_validate_json(read_bytes(path, JSON_BYTES))
    except OSError as error:
        absent = f"no {path.relative_to(folder).as_posix()} ({error.strerror})"
        raise HostError(f"{folder}: not a Shoehorn folder: {absent}; write one with gen firmware") from error
    except InputError as error:
        raise FolderDamaged(f"{error}; {CURE}") from error
    except pydantic.ValidationError as error:
        raise FolderDamaged(f"{path}: damaged: {faults(error)}; {CURE}") from error
