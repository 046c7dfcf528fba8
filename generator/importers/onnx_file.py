"""Reads an .onnx file: checked, of one opset, with shapes, and with constant parts computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shoehorn_mcu.importers.fault import ImportFault
from shoehorn_mcu.importers.onnx_qlinear import expanded
from shoehorn_mcu.ir import Array

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

OPSET = 18
"""Models of older opsets are converted to this one, so that converters know one form of each op."""
OLDEST = 7
FILE_LIMIT_BYTES = 1 << 31  # protobuf's own
CONSTANT_LIMIT = 1 << 28  # bytes of a constant that is computed here
DOMAINS = ("", "ai.onnx")

Attribute = int | float | str | Array | tuple[int, ...] | tuple[float, ...]

_KEPT = ("QuantizeLinear", "DequantizeLinear")  # of constants too: they carry the quantisation


@dataclass(frozen=True)
class RawNode:
    """One op of the file."""

    index: int
    code: str  # with its domain, if that is not ONNX's own
    inputs: tuple[str, ...]  # "" where one is left out
    outputs: tuple[str, ...]  # "" for one, but not for the first, that nothing reads
    attributes: Mapping[str, Attribute] = field(repr=False)


@dataclass(frozen=True)
class RawInput:
    """An input of the model."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class RawModel:
    """The parts of a model that the import needs; nodes are in an order that runs."""

    inputs: tuple[RawInput, ...]
    outputs: tuple[str, ...]
    nodes: tuple[RawNode, ...]
    constants: Mapping[str, Array]


def read(path: Path) -> RawModel:
    """The model in a file. Raises ImportFault, without the file's name, where it is damaged or not fixed in shape."""
    import onnx
    from google.protobuf.message import DecodeError

    if path.stat().st_size >= FILE_LIMIT_BYTES:
        raise ImportFault(f"larger than {FILE_LIMIT_BYTES} bytes")
    try:
        model = onnx.load_model(str(path), load_external_data=False)
    except DecodeError as error:
        raise ImportFault("no ONNX model, or a damaged one; export it again") from error
    if not model.graph.node:
        raise ImportFault("no ONNX model, or one without ops; export it again")
    _load_external(model, path.parent)
    model = _converted(model)
    try:
        # Values that shapes are computed from are followed through (data_prop).
        model = onnx.shape_inference.infer_shapes(model, strict_mode=False, data_prop=True)
    except (onnx.shape_inference.InferenceError, RuntimeError) as error:
        raise ImportFault(f"its shapes do not fit: {_first_line(error)}; export it again") from error
    constants = _constants(model)
    inputs = tuple(_input(value) for value in model.graph.input if value.name not in constants)
    outputs = tuple(value.name for value in model.graph.output)
    nodes = expanded(_folded(model, constants), constants)
    used = {*outputs, *(name for node in nodes for name in node.inputs)}
    nodes = tuple(replace(n, outputs=(n.outputs[0], *(o if o in used else "" for o in n.outputs[1:]))) for n in nodes)
    if not inputs or not outputs or len(set(outputs)) != len(outputs):
        raise ImportFault("the model has no inputs or no outputs, or one of them twice; export it again")
    return RawModel(inputs, outputs, nodes, constants)


def _load_external(model: ModelProto, folder: Path) -> None:
    """Loads the constants that are in other files of the model's folder."""
    from onnx.checker import ValidationError
    from onnx.external_data_helper import load_external_data_for_model, uses_external_data

    outside = [tensor for tensor in model.graph.initializer if uses_external_data(tensor)]
    for tensor in outside:
        said = {entry.key: entry.value for entry in tensor.external_data}
        place = folder / said.get("location", "")
        if not place.resolve().is_relative_to(folder.resolve()):
            raise ImportFault(f"constant '{tensor.name}' is in {place}, outside the model's folder; move it there")
        if not place.is_file():
            raise ImportFault(f"constant '{tensor.name}' is in '{place.name}', which is not beside the model")
    try:
        load_external_data_for_model(model, str(folder))
    except (OSError, ValueError, ValidationError) as error:
        raise ImportFault(f"its external data cannot be read: {_first_line(error)}") from error


def _converted(model: ModelProto) -> ModelProto:
    """The model in OPSET, or in its own newer one."""
    import onnx

    versions = [entry.version for entry in model.opset_import if entry.domain in DOMAINS]
    newest = onnx.defs.onnx_opset_version()
    version = versions[0] if versions else 0
    if not OLDEST <= version <= newest:
        raise ImportFault(f"it has opset {version}, {OLDEST} to {newest} are known; export it with one of these")
    if version >= OPSET:
        return model
    # The converter keeps ops of other domains as they are, but wants no initializer without an input of its name.
    try:
        converted: ModelProto = onnx.version_converter.convert_version(model, OPSET)
    except (onnx.version_converter.ConvertError, RuntimeError) as error:
        raise ImportFault(
            f"opset {version} cannot be converted to {OPSET}: {_first_line(error)}; export it with opset {OPSET}"
        ) from error
    return converted


def _constants(model: ModelProto) -> dict[str, Array]:
    from onnx import numpy_helper

    found = {}
    for tensor in model.graph.initializer:
        _limited(tensor.name, tuple(tensor.dims))
        try:
            found[tensor.name] = numpy_helper.to_array(tensor)
        except (ValueError, TypeError) as error:
            raise ImportFault(f"constant '{tensor.name}': {_first_line(error)}; export it again") from error
    return found


def _limited(name: str, shape: Sequence[int]) -> None:
    if any(size < 0 for size in shape) or int(np.prod([float(size) for size in shape])) > FILE_LIMIT_BYTES:
        raise ImportFault(f"constant '{name}' is said to have shape {tuple(shape)}; export it again")


def _input(value: Any) -> RawInput:
    from onnx import helper

    kind = value.type.tensor_type
    if not value.type.HasField("tensor_type"):
        raise ImportFault(f"input '{value.name}' is no tensor")
    shape = []
    for place, dimension in enumerate(kind.shape.dim):
        size = dimension.dim_value
        if size < 1 and place == 0:
            size = 1  # a batch of any size
        if size < 1:
            named = dimension.dim_param or "?"
            raise ImportFault(
                f"dimension {place} ('{named}') of input '{value.name}' is not fixed; export it with a fixed shape"
            )
        shape.append(size)
    return RawInput(value.name, tuple(shape), np.dtype(helper.tensor_dtype_to_np_dtype(kind.elem_type)))


def _folded(model: ModelProto, constants: dict[str, Array]) -> tuple[RawNode, ...]:
    """The nodes that depend on the inputs; the values of the others are added to the constants."""
    shapes = _shapes(model)
    known = {value.name for value in model.graph.input} | set(constants)
    nodes = []
    for index, node in enumerate(model.graph.node):
        if missing := [name for name in node.input if name and name not in known]:
            raise ImportFault(f"op {index} {node.op_type} reads '{missing[0]}' before anything writes it (a cycle?)")
        if twice := [name for name in node.output if name and name in known]:
            raise ImportFault(f"op {index} {node.op_type} writes '{twice[0]}', which is written already")
        if not node.output or not node.output[0]:
            raise ImportFault(f"op {index} {node.op_type} has no output; export it again")
        known |= set(node.output)
        if not _computed(node, constants, shapes, model):
            nodes.append(_raw(index, node))
    return tuple(nodes)


def _shapes(model: ModelProto) -> dict[str, tuple[int, ...]]:
    """Shapes without an unknown dimension, but for a batch of any size."""
    found = {}
    for value in (*model.graph.input, *model.graph.value_info, *model.graph.output):
        if value.type.HasField("tensor_type") and value.type.tensor_type.HasField("shape"):
            sizes = [dimension.dim_value for dimension in value.type.tensor_type.shape.dim]
            if sizes and sizes[0] == 0:
                sizes[0] = 1
            if all(sizes):
                found[value.name] = tuple(sizes)
    return found


def _computed(
    node: NodeProto, constants: dict[str, Array], shapes: Mapping[str, tuple[int, ...]], model: ModelProto
) -> bool:
    """Whether the node does not depend on the inputs; its values are then among the constants."""
    from onnx.reference import ReferenceEvaluator

    if node.op_type == "Shape" and node.input[0] in shapes and not node.attribute:
        constants[node.output[0]] = np.array(shapes[node.input[0]], np.int64)
        return True
    if (
        node.op_type in _KEPT
        or node.domain not in DOMAINS
        or any(name and name not in constants for name in node.input)
    ):
        return False
    if node.op_type == "ConstantOfShape":
        _limited(node.output[0], constants[node.input[0]].reshape(-1).tolist())
    given = {name: constants[name] for name in node.input if name}
    if sum(array.nbytes for array in given.values()) > CONSTANT_LIMIT:
        return False
    versions = {entry.domain: entry.version for entry in model.opset_import}
    try:
        values = ReferenceEvaluator(node, opsets=versions).run(None, given)
    except Exception as error:  # whatever the evaluator's ops raise for values that do not fit
        raise ImportFault(f"constant '{node.output[0]}' of {node.op_type}: {_first_line(error)}") from error
    constants.update((name, np.asarray(value)) for name, value in zip(node.output, values, strict=False) if name)
    return True


def _raw(index: int, node: NodeProto) -> RawNode:
    from onnx import helper, numpy_helper

    attributes: dict[str, Attribute] = {}
    for attribute in node.attribute:
        value = helper.get_attribute_value(attribute)
        if attribute.type == attribute.TENSOR:
            attributes[attribute.name] = numpy_helper.to_array(value)
        elif isinstance(value, bytes):
            attributes[attribute.name] = value.decode(errors="replace")
        elif isinstance(value, int | float):
            attributes[attribute.name] = value
        elif attribute.type in (attribute.INTS, attribute.FLOATS):
            attributes[attribute.name] = tuple(value)
    code = node.op_type if node.domain in DOMAINS else f"{node.domain}.{node.op_type}"
    return RawNode(index, code, tuple(node.input), tuple(node.output), attributes)


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return lines[0].strip()[:200]
