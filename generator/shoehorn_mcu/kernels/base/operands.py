"""Conditions on a node's operands, and facts about them, that several contracts share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.ir import Array, DType, Node, Tensor
from shoehorn_mcu.kernels.base.contract import Tile, Value
from shoehorn_mcu.ops.clamp import Bounds
from shoehorn_mcu.ops.conv import Window
from shoehorn_mcu.ops.linear import LinearOp

OFFSETS: Final = "offsets"
"""The kind (`Contract.kind`) of linear ops whose weights have zero points: an offset of all weights of a channel."""

ALIGNMENT: Final = 4  # bytes, of the addresses of rows: distances are rounded up to it


def data(tensor: Tensor) -> Array:
    """The values of an operand that must be a constant."""
    if tensor.data is None:
        raise ValueError(f"operand '{tensor.name}' is not a constant")
    return tensor.data


def bounded(clamp: Bounds) -> dict[str, Value]:
    """Struct members for the bounds of the outputs."""
    return {"y_min": clamp.low, "y_max": clamp.high}


def are(dtype: DType, *tensors: Tensor) -> bool:
    """Whether all tensors are of that type."""
    return all(t.type.dtype is dtype for t in tensors)


def all_s8(node: Node) -> bool:
    """Whether all row inputs and the output are int8."""
    return are(DType.INT8, *node.row_inputs, node.output)


def offsets_of(node: Node[LinearOp]) -> NDArray[np.int32]:
    """Per output channel: what its stored weights lack, the negated zero point; one number where all are equal."""
    return -np.array(node.weights.type.quantised.zero_points, np.int32)


def kind_of_weights(node: Node[LinearOp]) -> str:
    """OFFSETS where the weights have zero points."""
    return OFFSETS if any(node.weights.type.quantised.zero_points) else ""


def whole_weights(node: Node[LinearOp]) -> Array:
    """The weights with what the stored ones lack."""
    stored, offsets, axis = data(node.weights), offsets_of(node), node.op.channel_axis
    return np.moveaxis(np.add(np.moveaxis(stored, axis, -1), offsets), -1, axis) if offsets.any() else stored


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


def behind_pixels(node: Node[Window], unread: int = 0) -> int | None:
    """`behind` of a convolution that computes pixels from left to right, all channels of some before those after them.

    `unread` is how many pixels' outputs may be written before the last of their inputs is read. When p + unread pixels
    are written, p * stride - padding is the first one that is still to be read. There is no limit to what an output
    pixel longer than the inputs that a stride passes would need.
    """
    op, x, (width, outputs) = node.op, node.x, node.output.type.nhwc[2:]
    inputs, (stride, padding) = x.type.nhwc[3], (op.stride[1], op.padding.left)
    if x.data is not None or not are(node.output.type.dtype, x) or outputs > stride * inputs:
        return None
    behind = ((p + unread) * outputs - max(0, p * stride - padding) * inputs for p in range(width))
    return max(0, *behind) * x.type.dtype.bytes


def behind_channels(node: Node[Window], block: int = 1) -> int | None:
    """`behind` of a depthwise convolution that computes `block` channels of a pixel at once, one pixel after the other.

    A channel of the output is written behind the same channel of what is still to be read. Where the last block
    overlaps the one before, that one must not yet have overwritten it.
    """
    channels = node.output.type.nhwc[3]
    if channels != node.x.type.nhwc[3]:
        return None
    return behind_pixels(node, int(channels % block > 0))


def behind_whole_rows(node: Node[Window], pixels: int, block: int) -> int | None:
    """`behind` of a depthwise convolution that computes `pixels` of `block` channels from all that they read, then of
    other channels, and then the pixels after them.

    What it writes may only replace the same channels of other pixels, so the distance must be one of whole pixels, and
    no block of channels may overlap another one.
    """
    channels = node.output.type.nhwc[3]
    if channels % block or (node.output.type.nhwc[2] > pixels and channels % ALIGNMENT):
        return None
    behind = behind_channels(node)
    return behind if behind is None or node.output.type.nhwc[2] > pixels else 0


HELD: Final = tuple(Tile(held=size) for size in (128, 512, 1024))
"""The rings of `sh_held.h`."""


def holds(node: Node[Window], tile: Tile) -> bool:
    """Whether this is the smallest ring for the pixels of a depthwise convolution that wait for the windows to pass."""
    padding, channels = node.op.padding.left, node.output.type.nhwc[3]
    needed, single = (padding + 1) * channels, channels == node.x.type.nhwc[3]
    least = next((ring.sizes["held"] for ring in HELD if needed <= ring.sizes["held"]), None)
    return padding > 0 and single and tile.sizes["held"] == least


def behind_held(node: Node[Window], tile: Tile) -> int | None:
    """`behind` of a depthwise convolution whose pixels wait until the windows have passed them."""
    return None if behind_channels(node) is None else 0


def element_bytes(node: Node) -> int:
    """Size of an output element."""
    return node.output.type.dtype.bytes


def byte_step(node: Node, step: int) -> dict[str, Value]:
    """`Contract.spaced` of kernels whose struct counts in bytes."""
    return {"y_step": step * element_bytes(node)}


def _steps(operand: Tensor, output: Tensor) -> tuple[int, int]:
    """Elements that an operand of a broadcasting op advances per column and per channel of the output; 0 repeats."""
    _, _, width, channels = operand.type.nhwc
    _, _, out_width, out_channels = output.type.nhwc
    return channels if width == out_width else 0, 1 if channels == out_channels else 0


@dataclass(frozen=True)
class Runs:
    """The loops of an element-wise kernel over a row: `width` runs of so many `channels`."""

    width: int
    channels: int
    y_step: int  # from a run of the output to the next
    steps: tuple[tuple[int, int], ...]  # of each operand, per column and per channel; 0 repeats

    @property
    def members(self) -> dict[str, Value]:
        """Struct members but for the operands' steps."""
        return {"width": self.width, "channels": self.channels, "y_step": self.y_step}


def runs(node: Node, y_step: int | None = None) -> Runs:
    """One run where no operand repeats a part of a row, else one per pixel, and so where these are `y_step` apart."""
    _, _, width, channels = node.output.type.nhwc
    own = [t.type.nhwc[2:] for t in node.inputs]
    if y_step is None and all(of in ((width, channels), (1, 1)) for of in own):
        length = width * channels
        return Runs(1, length, length, tuple((0, int(of == (width, channels))) for of in own))
    each = tuple(_steps(operand, node.output) for operand in node.inputs)
    return Runs(width, channels, channels if y_step is None else y_step, each)


def in_runs(node: Node, y_step: int | None = None) -> dict[str, Value]:
    """Struct members of the ops of one operand, and with a step `Contract.spaced` of them."""
    return runs(node, y_step).members


def broadcast(node: Node, prefixes: tuple[str, str], y_step: int | None = None) -> dict[str, Value]:
    """Struct members of the ops of two operands, by the starts of these operands' names."""
    of = runs(node, y_step)
    named = zip(prefixes, of.steps, strict=True)
    per_operand = {f"{p}_{way}_step": s for p, pair in named for way, s in zip(("width", "channel"), pair, strict=True)}
    return {**of.members, **per_operand}
