"""Ops of a row and a constant of one value per channel as a table for each channel (`sh_channel_tables.h`).

What such an op makes of a byte depends on the byte and on its channel alone, so 256 bytes for each channel hold all of
it: two loads and a store in place of long products, for much flash.
"""

from __future__ import annotations

import numpy as np

from shoehorn_mcu.ir import Array, Node
from shoehorn_mcu.kernels.base.contract import Tile, Value
from shoehorn_mcu.kernels.base.operands import data
from shoehorn_mcu.ops import Prelu

BYTES = np.arange(-128, 128)


def moving(node: Node) -> int | None:
    """Which operand is not the constant; None where the other one is no constant of one value per channel.

    None also for rows of one pixel, where the steps of both operands are the same and tell a kernel nothing.
    """
    _, _, width, channels = node.output.type.nhwc
    for place, (x, other) in enumerate(zip(node.inputs, node.inputs[::-1], strict=True)):
        per_channel = other.data is not None and other.type.nhwc == (1, 1, 1, channels)
        if per_channel and x.type.nhwc == node.output.type.nhwc and min(width, channels) > 1:
            return place
    return None


def by_channel(node: Node, place: int) -> Array:
    """What the op makes of each byte of the operand at `place`: [channel][byte + 128], int8."""
    constant = data(node.inputs[1 - place]).reshape(-1, 1)
    operands = [constant, constant]
    operands[place] = np.broadcast_to(BYTES.astype(constant.dtype), (len(constant), len(BYTES)))
    return node.op.reference(operands, node.sig)


def fits(node: Node) -> bool:
    """Whether one operand is a constant of one value per channel; of a PReLU it must be alpha."""
    return moving(node) in ((0,) if isinstance(node.op, Prelu) else (0, 1))


def pack(node: Node, tile: Tile) -> dict[str, Value]:
    """The tables, [channel][stored byte as unsigned]."""
    place = moving(node)
    assert place is not None
    return {"tables": np.roll(by_channel(node, place), len(BYTES) // 2, axis=1).view(np.uint8).ravel()}
