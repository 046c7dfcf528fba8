"""A node of an .onnx file as plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from shoehorn_mcu.ir import Array

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto

DOMAINS = ("", "ai.onnx")
"""ONNX's own."""

BY_SCALE = "by scale"
"""The `nearest_mode` of Resize before opset 11, which has no name in ONNX: floor, but ceil where a size shrinks."""

Attribute = int | float | str | Array | tuple[int, ...] | tuple[float, ...] | tuple[str, ...]


@dataclass(frozen=True)
class RawNode:
    """One op of the file, or of a function that stands for one."""

    index: int
    code: str  # with its domain, if that is not ONNX's own
    inputs: tuple[str, ...]  # "" where one is left out
    outputs: tuple[str, ...]  # "" for one, but not for the first, that nothing reads
    attributes: Mapping[str, Attribute] = field(repr=False)
    within: tuple[str, ...] = ()  # the ops of the file that it is a part of, outermost first

    @property
    def title(self) -> str:
        """The code for messages: `LayerNormalization/Sqrt` for a part of a function."""
        return "/".join((*self.within[:1], self.code))


def code_of(node: NodeProto) -> str:
    """The op's name, with its domain, if that is not ONNX's own."""
    return node.op_type if node.domain in DOMAINS else f"{node.domain}.{node.op_type}"


def raw_node(index: int, node: NodeProto, within: tuple[str, ...]) -> RawNode:
    """The node, without attributes that are graphs."""
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
        elif attribute.type == attribute.STRINGS:
            attributes[attribute.name] = tuple(text.decode(errors="replace") for text in value)
    return RawNode(index, code_of(node), tuple(node.input), tuple(node.output), attributes, within)


def array_of(tensor: TensorProto) -> Array:
    """The values of a constant; those of 4 bits as int8. ValueError where it has not as many as its shape says."""
    from onnx import numpy_helper

    try:
        found: Array = numpy_helper.to_array(tensor)
    except ValueError as error:
        raise ValueError(misfit(tensor) or str(error)) from error
    return found.astype(np.int8) if tensor.data_type in (tensor.INT4, tensor.UINT4) else found


def misfit(tensor: TensorProto) -> str:
    """What a constant is said to be and what there is of it, in words; empty where the two agree."""
    from onnx import helper

    try:
        dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    except KeyError:
        return ""
    count, size = math.prod(tensor.dims), dtype.itemsize
    field = "raw_data" if tensor.HasField("raw_data") else helper.tensor_dtype_to_field(tensor.data_type)
    wanted, held = (count * size if field == "raw_data" else count), len(getattr(tensor, field))
    if wanted == held:
        return ""
    said = f"{dtype}[{'x'.join(map(str, tensor.dims))}] has {count:,} elements, {count * size:,} bytes"
    if held == 0:
        return f"{said}, and none of them are in the file"
    return f"{said}, and the file has {held:,} {'bytes' if field == 'raw_data' else 'elements'}"
