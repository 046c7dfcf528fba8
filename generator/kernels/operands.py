"""Conditions on a node's operands, and facts about them, that several contracts share."""

from __future__ import annotations

from shoehorn_mcu.ir import Array, DType, Node, Tensor
from shoehorn_mcu.kernels.base import Value


def data(tensor: Tensor) -> Array:
    """The values of an operand that must be a constant."""
    if tensor.data is None:
        raise ValueError(f"operand '{tensor.name}' is not a constant")
    return tensor.data


def are(dtype: DType, *tensors: Tensor) -> bool:
    """Whether all tensors are of that type."""
    return all(t.type.dtype is dtype for t in tensors)


def all_s8(node: Node) -> bool:
    """Whether all row inputs and the output are int8."""
    return are(DType.INT8, *node.row_inputs, node.output)


def same_dtype(node: Node) -> bool:
    """Whether all row inputs and the output have the same type, whichever it is."""
    return are(node.output.type.dtype, *node.row_inputs)


def element_by_element(node: Node) -> int | None:
    """`in_place` of a kernel that writes element i of a row after it has read elements i, in order of i.

    It is the first operand that is neither broadcast nor constant and whose elements are not smaller than the output's.
    """
    output = node.output.type
    for place, t in enumerate(node.row_inputs):
        if t.data is None and t.type.nhwc == output.nhwc and t.type.dtype.bytes >= output.dtype.bytes:
            return place
    return None


def element_bytes(node: Node) -> int:
    """Size of an output element."""
    return node.output.type.dtype.bytes


def steps(operand: Tensor, output: Tensor) -> tuple[int, int]:
    """Elements that an operand of a broadcasting op advances per column and per channel of the output; 0 repeats."""
    _, _, width, channels = operand.type.nhwc
    _, _, out_width, out_channels = output.type.nhwc
    return channels if width == out_width else 0, 1 if channels == out_channels else 0


def broadcast(node: Node, prefixes: tuple[str, str]) -> dict[str, Value]:
    """width, channels and both operands' steps; one run of width * channels where neither repeats a part of a row."""
    _, _, width, channels = node.output.type.nhwc
    both = [steps(operand, node.output) for operand in node.inputs]
    if all(t.type.nhwc[2:] in ((width, channels), (1, 1)) for t in node.inputs):
        both = [(0, int(t.type.nhwc[2:] == (width, channels))) for t in node.inputs]
        width, channels = 1, width * channels
    named = zip(prefixes, both, strict=True)
    per_operand = {f"{p}_{way}_step": s for p, pair in named for way, s in zip(("width", "channel"), pair, strict=True)}
    return {"width": width, "channels": channels, **per_operand}
