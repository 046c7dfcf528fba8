"""The reference runtime: a written folder's graph run op by op, every tensor whole, with the portable kernels.

It knows nothing of plans and boards, and shares the kernels' sources with the firmware and nothing else; what a
board computes must equal this byte for byte. It reads `DIR/reference/`:

runtime/        files of `runtime_c`: kernels/<name>/<name>_ref.c of the kernels in use, and what these include
constants.bin   arrays, little endian
graph.json      {
  "format": 1,
  "name":       the model's name,
  "flush":      true: float32 numbers below 2^-126 are read and written as 0; left out otherwise
  "inputs":     [tensor names], "outputs": [tensor names],
  "states":     [{"read": tensor, "write": the tensor whose value it takes behind an inference, "initial": number of
                the constant that it begins with}]; left out where there are none. If "write" is shorter, it is put
                behind the state, whose first bytes are dropped
  "tensors":    {name: {"shape": [..], "dtype": numpy's name, "rows": N*H, "row_bytes": bytes of a row,
                        "scales": [..] or null, "zero_points": [..] or null, "const": number of its constant or null}}
                the inputs, and all that an op reads by rows or writes
  "ops":        in order; an op with a kernel is
                {"name", "type": the op's class, "function": C function, "struct": its parameters' C type,
                 "takes_row": bool, "scratch_bytes": bytes or null,
                 "params": {member: number, null or {"const": number of a constant}}, every member of the struct
                 "inputs": [{"tensor": name, "rows": for each output row the rows it reads, -1: a null pointer}],
                 "output": tensor,
                 "start": the byte of a row of the output at which the function writes, left out for 0,
                 "onto": the tensor whose row the row is a copy of before that, left out for none}
                and a view, whose output shares its input's bytes, is {"name", "type", "view": tensor, "output": tensor}
  "constants":  [{"offset": bytes into constants.bin, "dtype", "count"}]
}
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cffi
import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu_host.base.errors import FolderDamaged, HostError
from shoehorn_mcu_host.base.files import read_bytes
from shoehorn_mcu_host.folder import documents
from shoehorn_mcu_host.folder.documents import CURE, GraphDocument, GraphOp, Pointer, Tensor
from shoehorn_mcu_host.validate.reference_build import Kernels, build
from shoehorn_mcu_host.validate.subnormals import flushed

Array = NDArray[np.generic]
Bytes = NDArray[np.uint8]

_ALIGNMENT = 16  # of every tensor and of constants.bin, bytes
_FAULTS = (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, cffi.CDefError, cffi.FFIError)
_LARGEST_CONSTANTS = _LARGEST_TENSORS = 1 << 30


@dataclass(frozen=True)
class _Call:
    """A call for one output row: C function and arguments; keeps the memory of the arguments alive."""

    function: Any
    arguments: tuple[Any, ...]


class Reference:
    """A model that is ready to run on this machine. Not thread-safe."""

    def __init__(self, graph: GraphDocument, constants: bytes, kernels: Kernels) -> None:
        self.name: str = graph.name
        self.inputs: tuple[str, ...] = graph.inputs
        self.outputs: tuple[str, ...] = graph.outputs
        self.tensors: dict[str, Tensor] = graph.tensors
        self._kernels = kernels
        self._flush = graph.flush
        self._constants = _aligned(len(constants))
        self._constants[:] = np.frombuffer(constants, np.uint8)
        self._places = graph.constants
        self._buffers = self._allocate(graph.ops)
        self._calls = [call for op in graph.ops if op.view is None for call in self._prepare(op)]
        self._states = graph.states
        self.reset()

    @classmethod
    def load(cls, folder: Path, part: str = "", runtime: Path | None = None) -> Reference:
        """The reference of a written folder; HostError where it is missing, damaged or cannot be compiled here.

        `part`: a folder in `reference/` with another graph and constants. `runtime`: the folder of the C, where it is
        not in `reference/`.
        """
        place = folder / "reference" / part
        graph = documents.read(place / "graph.json", folder, GraphDocument)
        try:
            constants = read_bytes(place / "constants.bin", _LARGEST_CONSTANTS)
        except OSError as error:
            raise HostError(
                f"{place}: no constants.bin ({error.strerror}); write the folder with gen firmware"
            ) from error
        called = any(op.view is None for op in graph.ops)
        kernels = build(runtime or folder / "reference" / "runtime") if called else Kernels({})
        try:
            return cls(graph, constants, kernels)
        except (*_FAULTS, *kernels.errors) as error:
            words = f"{type(error).__name__}: {error}"
            raise FolderDamaged(f"{place / 'graph.json'}: damaged ({words}); {CURE}") from error

    def run(self, inputs: Sequence[Array]) -> dict[str, Array]:
        """Every tensor that is not constant, by name, for one array per model input (its shape and type).

        HostError: another number of inputs, or an input of another shape or type.
        """
        if len(inputs) != len(self.inputs):
            raise HostError(f"{self.name}: has {len(self.inputs)} inputs, not {len(inputs)}")
        for name, array in zip(self.inputs, inputs, strict=True):
            info = self.tensors[name]
            given = f"{array.dtype}{list(array.shape)}"
            if array.shape != info.shape or array.dtype != np.dtype(info.dtype):
                raise HostError(f"{self.name}: input '{name}' is {info.dtype}{list(info.shape)}, not {given}")
            self._buffers[name][:] = np.frombuffer(array.tobytes(), np.uint8)
        with flushed(self._flush):
            for call in self._calls:
                call.function(*call.arguments)
        results = ((name, info) for name, info in self.tensors.items() if info.const is None)
        found = {name: self._buffers[name].view(info.dtype).reshape(info.shape).copy() for name, info in results}
        for state in self._states:
            kept, new = self._buffers[state.read], self._buffers[state.write]
            left = kept.size - new.size  # of a ring: its first rows make room for new ones
            kept[:left] = kept[new.size :].copy()
            kept[left:] = new
        return found

    @property
    def states(self) -> tuple[str, ...]:
        """The tensors that keep their values between runs."""
        return tuple(state.read for state in self._states)

    def reset(self) -> None:
        """Gives the states their first values."""
        for state in self._states:
            self._buffers[state.read][:] = self._constant(state.initial)
            _require(0 < self._buffers[state.write].size <= self._buffers[state.read].size, "a state has another size")

    def _allocate(self, ops: Sequence[GraphOp]) -> dict[str, Bytes]:
        """Memory for every tensor; views share their input's, constants are used where they are."""
        views = {op.output: op.view for op in ops if op.view is not None}
        if sum(info.bytes for info in self.tensors.values()) > _LARGEST_TENSORS:
            raise ValueError(f"the tensors have more than {_LARGEST_TENSORS:,} bytes")
        buffers: dict[str, Bytes] = {}
        for name, info in self.tensors.items():
            if info.const is not None:
                buffers[name] = self._constant(info.const)
                _require(buffers[name].size == info.bytes, f"the constant of '{name}' has another size")
            elif name not in views:
                buffers[name] = _aligned(info.bytes)
        for name, source in views.items():  # in the graph's order, so a view of a view finds its source
            buffers[name] = buffers[source]
            _require(buffers[name].size == self.tensors[name].bytes, f"the view '{name}' has another size")
        return buffers

    def _constant(self, number: int) -> Bytes:
        place = self._places[number]
        if place.end > self._constants.size:
            raise ValueError(f"constant {number} is not in constants.bin")
        return self._constants[place.offset : place.end]

    def _prepare(self, op: GraphOp) -> Iterator[_Call]:
        """The calls that compute an op, row by row."""
        library, output = self._kernels.library(op.function), self.tensors[op.output]
        ffi, function, struct = library.ffi, getattr(library.lib, op.function), self._struct(library.ffi, op)
        scratch = ffi.new("int8_t[]", op.scratch_bytes) if op.scratch_bytes is not None else None
        for row in range(output.rows):
            pointers = [self._row(ffi, reads.tensor, r) for reads in op.inputs for r in reads.rows[row]]
            x = ffi.new("int8_t *[]", pointers)
            y = self._row(ffi, op.output, row)
            if op.onto is not None:
                yield _Call(ffi.memmove, (y, self._row(ffi, op.onto, row), output.row_bytes))
            extra = ([row] if op.takes_row else []) + ([scratch] if scratch is not None else [])
            yield _Call(function, (struct, x, y + op.start, *extra))

    def _struct(self, ffi: Any, op: GraphOp) -> Any:
        """The op's parameters, every member from graph.json."""
        struct = ffi.new(f"{op.struct} *")
        members = dict(ffi.typeof(struct).item.fields)
        if members.keys() != op.params.keys():
            raise ValueError(f"op '{op.name}': members {sorted(members.keys() ^ op.params.keys())} do not agree")
        for member, value in op.params.items():
            if isinstance(value, Pointer):
                setattr(struct, member, ffi.cast(members[member].type, self._constant(value.const).ctypes.data))
            else:
                setattr(struct, member, ffi.NULL if value is None else value)
        return struct

    def _row(self, ffi: Any, tensor: str, row: int) -> Any:
        """The address of a row; null for row -1."""
        info = self.tensors[tensor]
        if not -1 <= row < info.rows:
            raise ValueError(f"'{tensor}' has no row {row}")
        base = self._buffers[tensor].ctypes.data
        return ffi.cast("int8_t *", 0 if row < 0 else base + row * info.row_bytes)


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)


def _aligned(size: int) -> Bytes:
    """`size` bytes of zeros at a multiple of the alignment."""
    room = np.zeros(size + _ALIGNMENT, np.uint8)
    first = -room.ctypes.data % _ALIGNMENT
    return room[first : first + size]
