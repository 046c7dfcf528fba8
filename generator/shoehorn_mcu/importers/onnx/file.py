"""Reads an .onnx file: checked, of one opset, and without what does not depend on the inputs (`onnx/fold.py`)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shoehorn_mcu.base.errors import first_line
from shoehorn_mcu.importers.content import content
from shoehorn_mcu.importers.declared import Declared
from shoehorn_mcu.importers.fault import ImportFault
from shoehorn_mcu.importers.lowering.node import BY_SCALE, DOMAINS, RawNode, array_of
from shoehorn_mcu.importers.onnx import shapes as onnx_shapes
from shoehorn_mcu.importers.onnx.calls import check_calls, every_node
from shoehorn_mcu.importers.onnx.external import elements, piece_of, put, tensors
from shoehorn_mcu.importers.onnx.fold import dtype_of, fixed_shape, folded, limited, type_of, unknown_operand
from shoehorn_mcu.ir import Array
from shoehorn_mcu.ops.laws import quoted

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

OPSET = 18
"""Models of older opsets are converted to this one, so that converters know one form of each op."""
OLDEST = 1

_OPSET_OF_RESIZE = 11  # the first whose Resize says how it places elements
_OPSET_OF_16_BITS = 21  # the first whose conversions know int16
_CONVERSIONS = ("QuantizeLinear", "DequantizeLinear")
_IR_OF_CONSTANTS = 4
_MICROSOFT = "com.microsoft"
_ONNX_RUNTIMES = {"LayerNormalization": 17, "SimplifiedLayerNormalization": 1 << 16}
"""Ops that ONNX Runtime has in ONNX's domain in every opset, and the opset since which ONNX has them."""


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
    dtypes: Mapping[str, np.dtype[Any]]  # of all values whose element type is known
    shapes: Mapping[str, tuple[int, ...]]  # of all values whose shape is known or declared
    declared: Mapping[str, Declared]  # what the file declares of its values
    folded: int  # nodes of the file whose results are among the constants
    others: Mapping[str, str] = field(default_factory=dict)  # the SHA-256 of other files that hold constants


def load_proto(path: Path) -> ModelProto:
    """The model in a file with all its constants. Raises ImportFault, without the file's name, where it is damaged."""
    model = proto_of(content(path))
    outside = [*tensors(model)]
    for tensor, data in zip(outside, elements([*map(piece_of, outside)], path.parent)[0], strict=True):
        put(tensor, data)
    return model


def proto_of(data: bytes | bytearray | memoryview) -> ModelProto:
    """The model in these bytes; tensors may be in other files. Raises ImportFault where it is damaged."""
    from google.protobuf.message import DecodeError
    from onnx import ModelProto

    try:
        model: ModelProto = ModelProto.FromString(bytes(data))
    except DecodeError as error:
        raise ImportFault("no ONNX model, or a damaged one; export it again") from error
    if not model.graph.node:
        raise ImportFault("no ONNX model, or one without ops; export it again")
    return model


def in_opset(model: ModelProto) -> ModelProto:
    """The model in OPSET, or in its own newer one, without calls of its own functions."""
    from onnx import defs

    model = _inlined(model)
    _check_reads(model.graph)
    model = _converted(_standard(_apart(_with_constants(model))))
    for node in _named(model.graph, _MICROSOFT, _ONNX_RUNTIMES):
        node.domain = "" if defs.has(node.op_type) else _MICROSOFT
    return model


def _named(graph: GraphProto, domain: str, names: Collection[str]) -> Iterator[NodeProto]:
    """The nodes of a domain with one of these names, those of subgraphs too."""
    domains = DOMAINS if domain == "" else (domain,)
    return (node for node in every_node(graph.node) if node.domain in domains and node.op_type in names)


def _with_constants(model: ModelProto) -> ModelProto:
    """The model in an IR whose constants need not be inputs too, where they are not: ONNX Runtime writes such files
    in older ones, which ONNX's converter refuses.
    """
    inputs = {value.name for value in model.graph.input}
    if model.ir_version >= _IR_OF_CONSTANTS or all(each.name in inputs for each in model.graph.initializer):
        return model
    made = deepcopy(model)
    made.ir_version = _IR_OF_CONSTANTS
    return made


def _apart(model: ModelProto) -> ModelProto:
    """The model with the ops in Microsoft's domain that ONNX Runtime has in ONNX's, also in opsets without them."""
    version = next((entry.version for entry in model.opset_import if entry.domain in DOMAINS), 0)
    names = [name for name, since in _ONNX_RUNTIMES.items() if version < since]
    if not any(True for _ in _named(model.graph, "", names)):
        return model
    made = deepcopy(model)
    for node in _named(made.graph, "", names):
        node.domain = _MICROSOFT
    if all(entry.domain != _MICROSOFT for entry in made.opset_import):
        made.opset_import.add(domain=_MICROSOFT, version=1)
    return made


def parsed(model: ModelProto, runs: Collection[str]) -> RawModel:
    """The parts of a model in memory. Raises ImportFault where it is damaged or not fixed in shape."""
    try:
        return _parsed(model, runs)
    except UnicodeDecodeError as error:
        raise ImportFault("names in it are no text; export it again") from error


def _check_names(graph: GraphProto) -> None:
    """Raises ImportFault where a name is not text: protobuf gives the bytes of damaged ones."""
    names: list[Any] = [each.name for each in (*graph.input, *graph.output, *graph.initializer, *graph.value_info)]
    for node in graph.node:
        names += [*node.input, *node.output, node.op_type, node.domain]
        for attribute in node.attribute:
            names.append(attribute.name)
            if attribute.HasField("g"):
                _check_names(attribute.g)
    if not all(isinstance(name, str) and name.isprintable() for name in names):
        raise ImportFault("names in it are no text; export it again")


def _check_reads(graph: GraphProto) -> None:
    """Raises ImportFault where a node reads what nothing gives; ONNX's converter would say it less clearly."""
    known = {*(each.name for each in (*graph.input, *graph.initializer)), ""}
    known |= {each.values.name for each in graph.sparse_initializer}
    written = {name for node in graph.node for name in node.output}
    for index, node in enumerate(graph.node):
        if missing := [name for name in node.input if name not in known]:
            raise unknown_operand(index, node, missing[0], later=missing[0] in written)
        known |= set(node.output)


def _parsed(model: ModelProto, runs: Collection[str]) -> RawModel:
    _check_names(model.graph)
    said = (*model.graph.value_info, *model.graph.input, *model.graph.output)
    declared = {value.name: _declared(value.type) for value in said if value.type.HasField("tensor_type")}
    model = in_opset(model)
    constants = _constants(model)
    inputs = tuple(_input(value) for value in model.graph.input if value.name not in constants)
    outputs = tuple(value.name for value in model.graph.output)
    left = folded(model, {each.name: type_of(each.dtype, each.shape) for each in inputs}, constants, runs)
    used = {*outputs, *(name for node in left.nodes for name in node.inputs)}
    nodes = tuple(
        replace(n, outputs=(n.outputs[0], *(o if o in used else "" for o in n.outputs[1:]))) for n in left.nodes
    )
    if not inputs or not outputs or len(set(outputs)) != len(outputs):
        raise ImportFault("the model has no inputs or no outputs, or one of them twice; export it again")
    kinds = {value.name: value.type for value in (*model.graph.value_info, *model.graph.output)}
    shapes = {name: shape for name, kind in kinds.items() if (shape := fixed_shape(kind)) is not None}
    shapes.update(left.shapes)
    return RawModel(inputs, outputs, nodes, constants, left.dtypes, shapes, declared, left.computed)


_HELD = {"float16": "float32", "bfloat16": "float32", "float64": "float32", "int4": "int8", "uint4": "int8"}


def held(dtype: np.dtype[Any]) -> str:
    """The element type that the import has in place of this one."""
    return _HELD.get(dtype.name, dtype.name)


def _declared(kind: Any) -> Declared:
    """A type as far as it is known; a size below 1 is what some exporters write for one that they do not know."""
    dtype = dtype_of(kind)
    sizes = tuple(
        each.dim_value if each.dim_value > 0 else each.dim_param or None for each in kind.tensor_type.shape.dim
    )
    known = kind.tensor_type.HasField("shape")
    return Declared(sizes if known else None, "" if dtype is None or dtype.kind in "OSU" else held(dtype))


def _inlined(model: ModelProto) -> ModelProto:
    """The model without calls of its own functions."""
    from onnx import checker, inliner

    if not model.functions:
        return model
    check_calls(model)
    try:
        return inliner.inline_local_functions(model)
    except (RuntimeError, checker.ValidationError) as error:
        raise ImportFault(f"its functions cannot be expanded: {first_line(error)}; export it again") from error


def _standard(model: ModelProto) -> ModelProto:
    """The model with ONNX's conversions in place of Microsoft's of the same names, which ONNX had later in 16 bits."""
    own = [node for node in model.graph.node if node.domain == _MICROSOFT and node.op_type in _CONVERSIONS]
    if not own:
        return model
    model = _converted(model, _OPSET_OF_16_BITS)
    for node in model.graph.node:
        if node.domain == _MICROSOFT and node.op_type in _CONVERSIONS:
            node.domain = ""
    return model


def _converted(model: ModelProto, opset: int = OPSET) -> ModelProto:
    """The model in this opset, or in its own newer one."""
    import onnx

    versions = [entry.version for entry in model.opset_import if entry.domain in DOMAINS]
    newest = onnx.defs.onnx_opset_version()
    version = versions[0] if versions else 0
    if not OLDEST <= version <= newest:
        raise ImportFault(f"it has opset {version}, {OLDEST} to {newest} are known; export it with one of these")
    if version >= opset:
        return model
    for index, node in enumerate(model.graph.node):
        if node.domain in DOMAINS and not onnx.defs.has(node.op_type):  # the converter does not say which one
            raise ImportFault(
                f"op {index} {quoted(node.op_type)}: ONNX has no op of this name; export the model with ops of ONNX, "
                "or with this one as a function"
            )
    # The converter keeps ops of other domains as they are, but wants no initializer without an input of its name.
    faults = (
        onnx.version_converter.ConvertError,
        onnx.shape_inference.InferenceError,
        RuntimeError,
        ValueError,  # of a size that the converter's C++ cannot hold, or of a text that is not UTF-8
        MemoryError,  # as above, of a smaller size
    )
    try:
        converted = onnx.version_converter.convert_version(model, opset)
    except faults as error:
        said, cure = _of_converter(first_line(error)), f"export it with opset {opset} or newer"
        why = f" ({said})" if said else ""
        raise ImportFault(f"opset {version} cannot be converted to {opset} by the package onnx{why}; {cure}") from error
    before, after = (
        {end.name: len(end.type.tensor_type.shape.dim) for end in m.graph.input} for m in (model, converted)
    )
    if any(after.get(name, rank) != rank for name, rank in before.items()):  # a Scan of opset 8 loses its batch
        raise ImportFault(f"converting opset {version} to {opset} changes its inputs; export it with opset {opset}")
    if version < _OPSET_OF_RESIZE:
        _place_as_before(converted.graph)
    return converted


def _place_as_before(graph: GraphProto) -> None:
    """Writes into what were Upsample and Resize of opset 10 how these place elements, which the converter leaves out.

    They had no attributes for it. ONNX Runtime computes `asymmetric`, and rounds towards the larger of both sizes.
    """
    from onnx import helper

    for node in _named(graph, "", ("Resize",)):
        said = {attribute.name for attribute in node.attribute}
        asked = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": BY_SCALE}
        node.attribute.extend(helper.make_attribute(k, v) for k, v in asked.items() if k not in said)


_CLASS = re.compile(r"^(\w+\.)*\w+(Error|Exception): ")
_ASSERTION = re.compile(r"^\S+\.(h|cc|cpp):\d+: .*?`.*?` failed(: )?")


def _of_converter(line: str) -> str:
    """What ONNX's converter says, without the class of the error and the place in its C++."""
    return _ASSERTION.sub("", _CLASS.sub("", line)).strip(" .")


def _constants(model: ModelProto) -> dict[str, Array]:
    found = {}
    for tensor in model.graph.initializer:
        limited(tensor.name, tuple(tensor.dims))
        try:
            found[tensor.name] = array_of(tensor)
        except (ValueError, TypeError, KeyError) as error:
            raise ImportFault(f"constant '{tensor.name}': {first_line(error)}; export it again") from error
    return found


def _input(value: Any) -> RawInput:
    kind = value.type.tensor_type
    if not value.type.HasField("tensor_type"):
        raise ImportFault(f"input '{value.name}' is no tensor")
    shape = []
    for place, dimension in enumerate(kind.shape.dim):
        size = dimension.dim_value
        if size < 1 and place == 0:
            size = 1  # a batch of any size
        if dimension.HasField("dim_value") and size == 0:
            raise ImportFault(
                f"dimension {place} of input '{value.name}' is 0 in the file, so it has no elements; "
                f"export it with a size of 1 or more, or give {onnx_shapes.cure(value, place)}"
            )
        if size < 1:
            named = dimension.dim_param or "?"
            raise ImportFault(
                f"dimension {place} ('{named}') of input '{value.name}' is not fixed; "
                f"give {onnx_shapes.cure(value, place)}"
            )
        shape.append(size)
    dtype = dtype_of(value.type)
    if dtype is None:
        raise ImportFault(f"input '{value.name}' has no element type that is known; export it again")
    return RawInput(value.name, tuple(shape), dtype)
