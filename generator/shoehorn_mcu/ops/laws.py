"""Laws about element types and quantisations that several ops share; each raises OpFault with a one-line reason."""

from __future__ import annotations

from shoehorn_mcu.ir import DType, Node, Op, OpFault, Quant, Tensor

NAME_SHOWN = 80
EIGHT_BITS = (DType.INT8, DType.UINT8)


def quoted(name: str) -> str:
    """A tensor's name for a message; converters chain names of fused ops to hundreds of characters."""
    return f"'{name}'" if len(name) <= NAME_SHOWN else f"'{name[: NAME_SHOWN - 3]}...'"


def dtype(op: Op, tensor: Tensor, role: str, *allowed: DType) -> None:
    """Checks that the tensor has one of these element types."""
    if tensor.type.dtype not in allowed:
        names, verb = " or ".join(d.value for d in allowed), "are" if role == "weights" else "is"
        raise OpFault(op, f"its {role} {quoted(tensor.name)} {verb} {tensor.type.dtype.value}, {names} is needed")


def quantised(op: Op, tensor: Tensor, role: str, *allowed: DType) -> Quant:
    """Checks that the tensor has one of these element types (default int8) and a single scale."""
    dtype(op, tensor, role, *(allowed or (DType.INT8,)))
    quant = tensor.type.quant
    if quant is None:
        raise OpFault(op, f"its {role} {quoted(tensor.name)} has no scale")
    if quant.axis is not None or len(quant.scales) != 1 or len(quant.zero_points) != 1:
        raise OpFault(op, f"its {role} {quoted(tensor.name)} has a scale per channel, one scale is needed")
    low, high = tensor.type.dtype.limits
    if not low <= quant.zero_point <= high:
        raise OpFault(op, f"its {role} {quoted(tensor.name)} has zero point {quant.zero_point}, outside {low}..{high}")
    return quant


def symmetric_16(op: Op, tensor: Tensor, role: str) -> None:
    """Checks for int16 with a single scale and a zero point of 0."""
    if (zero := quantised(op, tensor, role, DType.INT16).zero_point) != 0:
        raise OpFault(op, f"its {role} {quoted(tensor.name)} is int16 with zero point {zero}, 0 is needed")


def same_quant(op: Op, a: Tensor, b: Tensor) -> None:
    """Checks that both tensors have one type and quantisation, since the op moves or compares stored values."""
    if a.type.dtype is not b.type.dtype:
        raise OpFault(op, f"{quoted(a.name)} is {a.type.dtype.value}, {quoted(b.name)} is {b.type.dtype.value}")
    if a.type.quant != b.type.quant:
        raise OpFault(op, f"{quoted(a.name)} and {quoted(b.name)} have different scales, equal ones are needed")


def fixed_output(op: Op, node: Node, quant: Quant) -> None:
    """Checks that the output has the only quantisation that the op's arithmetic supports."""
    found = node.output.type.quant
    if found != quant:
        said = "none" if found is None else f"scale {found.scale} and zero point {found.zero_point}"
        raise OpFault(op, f"its output has {said}, it must have scale {quant.scale} and zero point {quant.zero_point}")


def rank_4(op: Op, tensor: Tensor) -> None:
    """Checks that the tensor has at most four dimensions, for ops that treat single dimensions differently."""
    if (rank := len(tensor.type.shape)) > 4:
        raise OpFault(op, f"{quoted(tensor.name)} has {rank} dimensions, this op supports at most 4")


def same_images(op: Op, node: Node) -> None:
    """Checks broadcasting above rank four: leading dimensions are folded into N, so an operand has all of N or none."""
    n = node.output.type.nhwc[0]
    for tensor in node.inputs:
        if len(node.output.type.shape) > 4 and tensor.type.nhwc[0] not in (1, n):
            raise OpFault(op, f"{quoted(tensor.name)} is broadcast along a dimension ahead of the last 4")


def constant(op: Op, tensor: Tensor, role: str) -> None:
    """Checks that the tensor is a constant."""
    if tensor.data is None:
        verb, pronoun = ("are", "they") if role == "weights" else ("is", "it")
        raise OpFault(op, f"its {role} {quoted(tensor.name)} {verb} computed, {pronoun} must be constant")


def weights(op: Op, tensor: Tensor, channel_axis: int) -> None:
    """Checks for constant int8 weights with zero point 0, and one scale or one per output channel.

    int16 is allowed for those of 8 bits that, less their zero point, need 9.
    """
    constant(op, tensor, "weights")
    if tensor.type.dtype is not DType.INT16:
        dtype(op, tensor, "weights", DType.INT8)
    quant = tensor.type.quant
    if quant is None or any(quant.zero_points):
        raise OpFault(op, f"its weights {quoted(tensor.name)} need a scale and a zero point of 0")
    if quant.axis not in (None, channel_axis):
        raise OpFault(
            op, f"its weights {quoted(tensor.name)} have a scale per index of axis {quant.axis}, not {channel_axis}"
        )
    if len(quant.scales) not in (1, tensor.type.shape[channel_axis]):
        raise OpFault(op, f"its weights {quoted(tensor.name)} have {len(quant.scales)} scales for {tensor.type}")
