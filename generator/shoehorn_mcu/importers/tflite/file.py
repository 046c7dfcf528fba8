"""The bytes of a .tflite file as plain values: the only module that touches the flatbuffer.

The schema package does not check offsets, so a damaged file makes it raise any Python error (struct.error, ValueError,
...). All of these become ImportFault here. Lengths are compared with the file's before anything is copied, so that no
file makes the reader allocate much more than its own size.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shoehorn_mcu.importers.declared import Declared
from shoehorn_mcu.importers.fault import ImportFault
from shoehorn_mcu.importers.tflite.options import CUSTOM, TABLES, Options, custom_options

_DAMAGE = (struct.error, ValueError, TypeError, IndexError, KeyError, OverflowError, AssertionError)
"""What the schema package raises on offsets, lengths and enum values that make no sense."""

IDENTIFIER = b"TFL3"
SHARING = 8  # how often a file may point to the same bytes; converters share little


@dataclass(frozen=True)
class RawTensor:
    """A tensor as the file has it; it is only checked that its data is inside the file."""

    name: str
    shape: tuple[int, ...]
    dtype: str  # the schema's name, such as INT8
    data: memoryview | None  # constants only
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int
    variable: bool
    sparse: bool
    signature: tuple[int, ...] = ()  # the shape with -1 for each open dimension; empty where the file has none
    ranked: bool = True  # whether an empty shape means a scalar

    @property
    def open(self) -> bool:
        """Whether the shape has placeholders: the true sizes follow from those of the model's inputs."""
        return -1 in self.signature or self._unranked

    @property
    def _unranked(self) -> bool:
        """Whether not even the number of dimensions is known; older files do not tell that from a scalar."""
        return not self.shape and not self.ranked and self.data is None

    @property
    def declared(self) -> Declared:
        """What the file says of the tensor, whatever is computed."""
        sizes = tuple(None if size == -1 else size for size in self.signature or self.shape)
        return Declared(None if self._unranked else sizes, self.dtype.lower())


@dataclass(frozen=True)
class RawOp:
    """An operator as the file has it; operands are tensor numbers, -1 for an omitted one."""

    code: str  # the schema's name, such as CONV_2D
    custom: str  # the name of a CUSTOM op, else empty
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Options


@dataclass(frozen=True)
class RawModel:
    """The first subgraph of a file, and the others."""

    tensors: tuple[RawTensor, ...]
    ops: tuple[RawOp, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    others: tuple[RawModel, ...] = ()


def read(data: bytes) -> RawModel:
    """The model in a file's bytes. Raises ImportFault if they are no flatbuffer or a damaged one."""
    if data[4:8] != IDENTIFIER:
        raise ImportFault("not a TFLite model: the mark TFL3 is not at byte 4")
    reader = _Reader(data)
    try:
        return reader.model()
    except _DAMAGE as error:
        detail = " ".join(str(error).split()) or type(error).__name__
        raise ImportFault(f"damaged: {reader.place} cannot be read ({detail}); copy or convert it again") from error


def _names(enum: type) -> dict[int, str]:
    """The names of one of the schema's enums, by number."""
    return {value: name for name, value in vars(enum).items() if isinstance(value, int)}


class _Reader:
    """Reads the tables; `place` names the part being read, for errors."""

    def __init__(self, data: bytes) -> None:
        import tflite

        self.data = data
        self.place = "the root table"
        self._schema: Any = tflite
        self._budget = SHARING * len(data)
        self._codes = _names(tflite.BuiltinOperator)
        self._dtypes = _names(tflite.TensorType)
        self._option_tables = _names(tflite.BuiltinOptions)

    def model(self) -> RawModel:
        model = self._schema.Model.GetRootAs(self.data, 0)
        subgraphs = model.SubgraphsLength()
        if not subgraphs:
            raise ImportFault("damaged: there is no subgraph; convert it again")
        codes = [self._code(c) for c in self._each(model, "OperatorCodes", "operator code")]
        buffers = [self._buffer(b) for b in self._each(model, "Buffers", "buffer")]
        first, *others = (self._subgraph(model.Subgraphs(i), codes, buffers) for i in range(subgraphs))
        return replace(first, others=tuple(others))

    def _subgraph(self, graph: Any, codes: Sequence[tuple[str, str]], buffers: Sequence[memoryview | None]) -> RawModel:
        tensors = tuple(self._tensor(t, buffers) for t in self._each(graph, "Tensors", "tensor"))
        ops = tuple(self._op(o, codes) for o in self._each(graph, "Operators", "op"))
        self.place = "the list of inputs and outputs"
        return RawModel(tensors, ops, self._ints(graph, "Inputs"), self._ints(graph, "Outputs"))

    def _each(self, table: Any, field: str, what: str) -> Iterator[Any]:
        """The tables of a vector; an entry beyond the file's end raises when it is read."""
        self.place = f"the list of {what}s"
        count: int = getattr(table, f"{field}Length")()
        self._spend(4 * count)
        for index in range(count):
            self.place = f"{what} {index}"
            yield getattr(table, field)(index)

    def _spend(self, count_bytes: int) -> None:
        """Limits the bytes that are copied; a file with overlapping vectors could otherwise demand any amount."""
        self._budget -= count_bytes
        if self._budget < 0:
            raise ValueError("lists longer than the file")

    def _vector(self, table: Any, field: str, item_bytes: int) -> Sequence[Any]:
        count: int = getattr(table, f"{field}Length")()
        if not count:
            return ()
        self._spend(count * item_bytes)
        values: Sequence[Any] = getattr(table, f"{field}AsNumpy")().tolist()
        return values

    def _ints(self, table: Any, field: str, item_bytes: int = 4) -> tuple[int, ...]:
        return tuple(self._vector(table, field, item_bytes))

    def _text(self, raw: bytes | None) -> str:
        """A name, with characters that do not print on one line replaced."""
        raw = raw or b""
        self._spend(len(raw))
        return "".join(c if c.isprintable() else "?" for c in raw.decode("utf-8", "replace"))

    def _code(self, table: Any) -> tuple[str, str]:
        # Files written before 2020 only have the 8-bit field, newer ones put 127 there for larger codes.
        number = max(table.BuiltinCode(), table.DeprecatedBuiltinCode())
        return self._codes.get(number, f"BUILTIN_{number}"), self._text(table.CustomCode())

    def _buffer(self, table: Any) -> memoryview | None:
        if table.Offset() > 1 or table.Size() > 1:
            raise ImportFault(f"{self.place} is outside the flatbuffer, which is not supported; convert it without")
        if not table.DataLength():
            return None
        return memoryview(table.DataAsNumpy()).cast("B")

    def _tensor(self, table: Any, buffers: Sequence[memoryview | None]) -> RawTensor:
        quant = table.Quantization()
        number = table.Buffer()
        if number >= len(buffers):
            raise ImportFault(f"damaged: {self.place} is in buffer {number} of {len(buffers)}; convert it again")
        shape, signature = self._ints(table, "Shape"), self._ints(table, "ShapeSignature")
        if -1 in shape or len(signature) != len(shape):
            signature = shape if -1 in shape else ()
        return RawTensor(
            name=self._text(table.Name()),
            shape=tuple(max(1, n) if said == -1 else n for n, said in zip(shape, signature or shape, strict=True)),
            dtype=self._dtypes.get(table.Type(), f"type {table.Type()}"),
            data=buffers[number],
            scales=tuple(self._vector(quant, "Scale", 4)) if quant else (),
            zero_points=self._ints(quant, "ZeroPoint", 8) if quant else (),
            axis=quant.QuantizedDimension() if quant else 0,
            variable=bool(table.IsVariable()),
            sparse=table.Sparsity() is not None,
            signature=signature,
            ranked=bool(table.HasRank()),
        )

    def _op(self, table: Any, codes: Sequence[tuple[str, str]]) -> RawOp:
        number = table.OpcodeIndex()
        if number >= len(codes):
            raise ImportFault(f"damaged: {self.place} is of kind {number} of {len(codes)}; convert it again")
        code, custom = codes[number]
        inputs, outputs = self._ints(table, "Inputs"), self._ints(table, "Outputs")
        options = self._options(table, code, custom)
        return RawOp(code, custom if code == "CUSTOM" else "", inputs, outputs, options)

    def _options(self, table: Any, code: str, custom: str) -> Options:
        """The options of an op, if we read any; the schema's defaults if the table is absent."""
        if code == "CUSTOM" and custom in CUSTOM:
            return custom_options(custom, bytes(self._vector(table, "CustomOptions", 1)))
        if code not in TABLES:
            return Options()
        found = self._option_tables.get(table.BuiltinOptionsType(), "unknown options")
        union = table.BuiltinOptions()
        if found == "NONE" or union is None:
            return Options()
        if found != TABLES[code].title:
            raise ValueError(f"{code} with {found}")
        options = getattr(self._schema, found)()
        options.Init(union.Bytes, union.Pos)
        return TABLES[code].read(options)
