"""Dense layers for Armv6-M: `dense_s8_thumb.inc`."""

from __future__ import annotations

import numpy as np

from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels.base.contract import Tile, Value, Variant, all_in_weights
from shoehorn_mcu.kernels.base.packed import filled, linear
from shoehorn_mcu.kernels.base.work import Work
from shoehorn_mcu.kernels.linear.conv import DENSE
from shoehorn_mcu.kernels.linear.offsets import with_offsets
from shoehorn_mcu.kernels.linear.thumb_conv import ABOVE, less_of, scales
from shoehorn_mcu.machine.targets import Isa
from shoehorn_mcu.ops import Dense

OUTPUTS = 4  # outputs that are computed at once
TOGETHER = 8  # inputs in a turn of the inner loop; the rest is computed one by one


def _accepts(node: Node[Dense]) -> bool:
    return scales(node, DENSE) is not None


def _pack(node: Node[Dense], tile: Tile) -> dict[str, Value]:
    of, rounding = linear(node, DENSE), scales(node, DENSE)
    assert rounding is not None  # the node was accepted
    outputs, inputs = of.weights.shape
    blocks = -(-outputs // OUTPUTS)
    less = filled(less_of(of), blocks * OUTPUTS).reshape(blocks, -1)
    above = np.full((blocks * OUTPUTS, inputs), ABOVE, np.uint8)
    above[:outputs] = of.weights.astype(np.int16) + ABOVE
    products = above.reshape(blocks, OUTPUTS, inputs).transpose(0, 2, 1).reshape(blocks, -1).copy().view("<i4")
    products = np.concatenate([less, products], axis=1)
    ends = range(OUTPUTS, outputs, OUTPUTS)
    words = [part for block in zip(products, np.split(rounding, ends), strict=True) for part in block]
    return all_in_weights(np.concatenate([part.ravel() for part in words]).astype(np.int32))


def _work(node: Node[Dense], tile: Tile) -> Work:
    """Counts of the loops over vectors, blocks of four outputs and inputs by eights, and of what remains of each."""
    positions = node.output.type.nhwc[2]
    outputs, inputs = node.weights.type.shape
    blocks = positions * -(-outputs // OUTPUTS)
    return Work(
        vectors=positions,
        inputs=positions * inputs,
        blocks=blocks,
        eights=blocks * (inputs // TOGETHER),
        ones=blocks * (inputs % TOGETHER),
        outputs=positions * outputs,
    )


_THUMB = Variant(DENSE, _work, suffix="thumb", isa=Isa.THUMB, accepts=_accepts, pack=_pack)

VARIANTS = (_THUMB, with_offsets(_THUMB))
