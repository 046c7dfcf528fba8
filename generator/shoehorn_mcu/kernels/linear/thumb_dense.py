"""Dense layers for Armv6-M, and convolutions whose rows are a single pixel: `dense_s8_thumb.inc` and
`conv2d_s8_thumb_column.inc`.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels.base.contract import Contract, Tile, Value, Variant, all_in_weights
from shoehorn_mcu.kernels.base.operands import behind_pixels
from shoehorn_mcu.kernels.base.packed import Linear, filled, linear
from shoehorn_mcu.kernels.base.rounding import Int32s
from shoehorn_mcu.kernels.base.work import Work
from shoehorn_mcu.kernels.linear.conv import CONV2D, DENSE
from shoehorn_mcu.kernels.linear.offsets import with_offsets
from shoehorn_mcu.kernels.linear.packed_conv import has_one_group
from shoehorn_mcu.kernels.linear.thumb_conv import ABOVE, exactly, less_of, scales, with_scales
from shoehorn_mcu.machine.targets import Isa
from shoehorn_mcu.ops import Conv2d, LinearOp

OUTPUTS = 4  # outputs that are computed at once
TOGETHER = 8  # inputs in a turn of the inner loop; the rest is computed one by one
ELEMENTS = 512  # most of a window that is copied


def _is_column(node: Node[Conv2d]) -> bool:
    """One group, rows of one pixel, and a window that the copy holds."""
    elements = math.prod(node.weights.type.shape[1:])
    return node.output.type.nhwc[2] == 1 and elements <= ELEMENTS and has_one_group(node)


def _products(of: Linear) -> Int32s:
    """[block of four outputs][words]: the weights, behind the factors of the sum of the inputs where these differ."""
    outputs, inputs = of.weights.shape
    blocks = -(-outputs // OUTPUTS)
    less = filled(less_of(of), blocks * OUTPUTS).reshape(blocks, -1)
    above = np.full((blocks * OUTPUTS, inputs), ABOVE, np.uint8)
    above[:outputs] = of.weights.astype(np.int16) + ABOVE
    products = above.reshape(blocks, OUTPUTS, inputs).transpose(0, 2, 1).reshape(blocks, -1).copy().view("<i4")
    return np.concatenate([less, products], axis=1).astype(np.int32)


def _pack(contract: Contract, node: Node[LinearOp]) -> dict[str, Value]:
    of, rounding = linear(node, contract), scales(node, contract)
    assert rounding is not None  # the node was accepted
    ends = range(OUTPUTS, len(of.weights), OUTPUTS)
    words = [part for block in zip(_products(of), np.split(rounding, ends), strict=True) for part in block]
    return all_in_weights(np.concatenate([part.ravel() for part in words]).astype(np.int32))


def _vectors(positions: int, outputs: int, inputs: int) -> Work:
    """Counts of the loops over vectors, blocks of four outputs and inputs by eights, and of what remains of each."""
    blocks = positions * -(-outputs // OUTPUTS)
    return Work(
        vectors=positions,
        inputs=positions * inputs,
        blocks=blocks,
        eights=blocks * (inputs // TOGETHER),
        ones=blocks * (inputs % TOGETHER),
        outputs=positions * outputs,
    )


def _column_work(node: Node[Conv2d], tile: Tile) -> Work:
    """Counts of one vector, and of the taps that are copied into it."""
    outputs, height, width, inputs = node.weights.type.shape
    return _vectors(1, outputs, height * width * inputs) + Work(taps=height * width)


_THUMB = Variant(
    DENSE,
    lambda node, _: _vectors(node.output.type.nhwc[2], *node.weights.type.shape),
    suffix="thumb",
    isa=Isa.THUMB,
    accepts=lambda node: scales(node, DENSE) is not None,
    pack=lambda node, _: _pack(DENSE, node),
)
_COLUMN = Variant(
    CONV2D,
    _column_work,
    suffix="thumb_column",
    isa=Isa.THUMB,
    accepts=lambda node: _is_column(node) and scales(node, CONV2D) is not None,
    tiles=(Tile(taps=ELEMENTS),),
    pack=lambda node, _: _pack(CONV2D, node),
    behind=lambda node, _: behind_pixels(node),  # reads a copy of the window
)
_EXACT = replace(
    _COLUMN,
    suffix="thumb_column_exact",
    body="thumb_column",
    accepts=lambda node: _is_column(node) and exactly(node),
    pack=lambda node, _: with_scales(node, _products(linear(node, CONV2D)).ravel()),
    scratch_bytes=lambda node, _: 4 * node.weights.type.shape[0],
    defines=("SH_EXACT",),
)

VARIANTS = (_THUMB, with_offsets(_THUMB), _COLUMN, _EXACT)
