"""Reads .onnx files in a process that is locked in: what the package `onnx` does in C++ with a foreign file.

Protobuf, shape inference, version converter, inliner and evaluator run there (`onnx/file.py`, `onnx/fold.py`). Here
only plain data arrives. Files beside the model are read here, so that the process needs none of the user's files.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import astuple, replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoehorn_mcu.importers import plain
from shoehorn_mcu.importers.content import FILE_LIMIT_BYTES, content
from shoehorn_mcu.importers.declared import Declared
from shoehorn_mcu.importers.fault import CONTRADICTION, ImportFault
from shoehorn_mcu.importers.lowering.node import RawNode
from shoehorn_mcu.importers.onnx import file
from shoehorn_mcu.importers.onnx import shapes as onnx_shapes
from shoehorn_mcu.importers.onnx.external import Piece, elements, piece_of, places, put, tensors
from shoehorn_mcu.importers.onnx.file import RawInput, RawModel
from shoehorn_mcu.importers.onnx.fold import dtype_of
from shoehorn_mcu.importers.source import Shapes, Source, SourceOp, SourceTensor
from shoehorn_mcu.ops.laws import quoted
from shoehorn_mcu_host.base import sandbox
from shoehorn_mcu_host.base.errors import printable

if TYPE_CHECKING:
    from onnx import ModelProto

_MOST_SEEN = 100_000  # nodes of a model that cannot be imported


def read(path: Path, runs: Collection[str], shapes: Shapes) -> RawModel:
    """The model in a file, with the dimensions in `shapes` set.

    Raises ImportFault, without the file's name, where it is damaged or not fixed in shape, and OSError.
    `runs`: ops that have a converter; others become the ops that ONNX defines them by.
    """
    data = content(path)
    asked = {"runs": sorted(runs), "shapes": shapes}
    told, made = _asked("raw", asked, data)
    if "external" not in told:
        return _raw(told, made)
    held, digests = elements([Piece(*each) for each in told["external"]], path.parent)
    told, made = _asked("raw", asked | {"sizes": [len(each) for each in held]}, b"".join((data, *held)))
    return replace(_raw(told, made), others=digests)


def seen(path: Path) -> Source:
    """The nodes of the main graph; dimensions that the file leaves open have their names. Raises as `read`."""
    told, made = _asked("seen", None, content(path))
    found: Source = plain.unpacked(told["source"], made, (Source, SourceTensor, SourceOp))
    return found


def parsed(model: ModelProto, runs: Collection[str]) -> RawModel:
    """As `read`, for a model in memory whose constants are all in it."""
    return parsed_bytes(_bytes(model), runs, {})


def parsed_bytes(data: bytes | bytearray, runs: Collection[str], shapes: Shapes) -> RawModel:
    """As `parsed`, for a model as a file holds it."""
    told, made = _asked("raw", {"runs": sorted(runs), "shapes": shapes}, data)
    if "external" in told:
        name = Piece(*told["external"][0]).tensor
        raise ImportFault(f"constant {quoted(name)} is in another file; load it with the model")
    return _raw(told, made)


def other_files(path: Path) -> tuple[Path, ...]:
    """The other files that hold constants of a model.

    Raises ImportFault where it is damaged, or names a file that may not be read, and OSError.
    """
    names = _asked("external", None, content(path))[0]["files"]
    return places([Piece(name, name, 0, None) for name in names], path.parent)


def in_opset(model: ModelProto) -> ModelProto:
    """The model in `onnx_file.OPSET`, or in its own newer one, without calls of its own functions.

    Raises ImportFault where it is damaged.
    """
    return file.proto_of(_asked("opset", None, _bytes(model))[1])


def _bytes(model: ModelProto) -> bytes:
    from google.protobuf.message import EncodeError

    try:
        data: bytes = model.SerializeToString()
        return data
    except (EncodeError, ValueError) as error:
        raise ImportFault(f"larger than {FILE_LIMIT_BYTES - 1} bytes") from error


def _asked(name: str, asked: object, data: bytes | bytearray) -> tuple[Any, bytearray]:
    try:
        told, made = sandbox.answer(f"{__name__}:answer_{name}", asked, data)
    except sandbox.Ended as ended:
        cure = f"export it again, with opset {file.OPSET} or newer if it is older"
        raise ImportFault(f"the process that reads it with the package onnx {ended}; {cure}") from None
    except sandbox.Failed as failed:
        raise ImportFault(
            f"an op of it has operands or attributes that do not fit ({failed}); {CONTRADICTION}"
        ) from failed
    if "fault" in told:
        raise ImportFault(told["fault"])
    return told, made


def _raw(told: Any, made: bytearray) -> RawModel:
    model: RawModel = plain.unpacked(told["model"], made, (RawModel, RawInput, RawNode, Declared))
    return model


# What follows runs in the process that is locked in.


def prepare() -> None:
    """Imports what the package `onnx` would import for each request."""
    from onnx import checker, inliner, reference, shape_inference, version_converter  # noqa: F401
    from onnx.reference.ops import load_op

    load_op("", "Add", file.OPSET)


def answer_raw(asked: Any, data: bytes) -> sandbox.Answer:
    """The parts of a model, or which other files hold constants of it; these follow in the second request."""
    try:
        sizes = asked.get("sizes")
        model = file.proto_of(memoryview(data)[: len(data) - sum(sizes or ())])
        outside = [*tensors(model)]
        if outside and sizes is None:
            return {"external": [astuple(piece_of(each)) for each in outside]}, ()
        ends = [*accumulate(sizes or (), initial=len(data) - sum(sizes or ()))]
        for tensor, start, stop in zip(outside, ends, ends[1:], strict=False):
            put(tensor, data[start:stop])
        onnx_shapes.fix(model, {name: tuple(shape) for name, shape in asked["shapes"].items()})
        made, pieces = plain.packed(file.parsed(model, asked["runs"]))
    except ImportFault as fault:
        return {"fault": str(fault)}, ()
    return {"model": made}, pieces


def answer_external(asked: Any, data: bytes) -> sandbox.Answer:
    """The names of other files that hold constants of a model."""
    try:
        return {"files": sorted({piece_of(each).location for each in tensors(file.proto_of(data))})}, ()
    except ImportFault as fault:
        return {"fault": str(fault)}, ()


def answer_opset(asked: Any, data: bytes) -> sandbox.Answer:
    """The model in another opset."""
    try:
        return {}, [file.in_opset(file.proto_of(data)).SerializeToString()]
    except ImportFault as fault:
        return {"fault": str(fault)}, ()


def answer_seen(asked: Any, data: bytes) -> sandbox.Answer:
    """What a model holds, as far as it can be read; the import says what is wrong with it."""
    import onnx

    model = onnx.load_model_from_string(data)
    graph = model.graph
    with suppress(Exception):
        graph = onnx.shape_inference.infer_shapes(model).graph
    kinds = {value.name: _seen_tensor(value) for value in (*graph.value_info, *graph.input, *graph.output)}
    constants = {each.name: _seen_bytes(each) for each in graph.initializer}
    ops = []
    for index, node in enumerate(graph.node[:_MOST_SEEN]):
        reads = tuple(printable(name) for name in node.input if name and name not in constants)
        writes = tuple(kinds.get(name, SourceTensor(printable(name), None, "")) for name in node.output if name)
        weight_bytes = sum(constants.get(name, 0) for name in node.input)
        ops.append(SourceOp(index, printable(node.op_type), reads, writes, weight_bytes))
    inputs = tuple(kinds[each.name] for each in graph.input if each.name not in constants)
    told, pieces = plain.packed(Source(inputs, tuple(printable(each.name) for each in graph.output), tuple(ops)))
    return {"source": told}, pieces


def _seen_tensor(value: Any) -> SourceTensor:
    kind, dtype = value.type.tensor_type, dtype_of(value.type)
    shape = tuple(each.dim_value if each.HasField("dim_value") else printable(each.dim_param) or "?"
                  for each in kind.shape.dim) if kind.HasField("shape") else None  # fmt: skip
    return SourceTensor(printable(value.name), shape, "" if dtype is None else dtype.name)


def _seen_bytes(tensor: Any) -> int:
    """Of a constant: as stored in the file, or as it says of external data."""
    if tensor.raw_data:
        return len(tensor.raw_data)
    said = {entry.key: entry.value for entry in tensor.external_data}
    length = said.get("length", "")
    return int(length) if length.isascii() and length.isdigit() and len(length) < 16 else tensor.ByteSize()
