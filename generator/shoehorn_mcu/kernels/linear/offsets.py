"""Weights that need nine bits, because they have a zero point, as bytes with an offset for each output channel.

    sum((w + offset) * x) = sum(w * x) + offset * sum(x)

A node with int16 weights (`linear_s8_w16`) whose weights of each channel span at most a byte is the same sum with int8
weights, whose zero points are the offsets, negated (`narrowed`). The kernels on int8 compute it: those without a zero
point where all offsets are 0, else their twins (`with_offsets`), which sum the inputs of a pixel once for all channels.
A uint8 file has one zero point for a whole tensor, and the least and the greatest weight of it mostly belong to
different channels: of the layers of MobileNet all channels but one to four have an offset of 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from shoehorn_mcu.ir import DType, Node, OpT, Quant, Tensor, is_a
from shoehorn_mcu.kernels.base import operands
from shoehorn_mcu.kernels.base.contract import Tile, Variant
from shoehorn_mcu.kernels.base.known import known
from shoehorn_mcu.kernels.base.operands import OFFSETS
from shoehorn_mcu.kernels.base.rounding import Int64s
from shoehorn_mcu.kernels.base.work import Work
from shoehorn_mcu.ops import Conv2d, Dense, DepthwiseConv2d, LinearOp

_LOW, _HIGH = -127, 127  # two products of such weights fit 16 bits


def narrow(node: Node) -> Node:
    """The form with int8 weights; the node itself where it has none."""
    return narrowed(node) or node


@known
def narrowed(node: Node) -> Node | None:
    """The node with int8 weights, which have zero points where they must; None where a channel spans more."""
    if not is_a(node, LinearOp) or not isinstance(node.op, Conv2d | DepthwiseConv2d | Dense):
        return None
    x, weights, bias = node.inputs
    constant = weights.data is not None and bias.data is not None
    if not constant or not operands.are(DType.INT16, weights) or not operands.all_s8(node):
        return None
    values, axis = operands.data(weights), node.op.channel_axis
    offsets = _offsets(np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1).astype(np.int64))
    if offsets is None:
        return None
    shape = [1] * values.ndim
    shape[axis] = -1
    made = Tensor(
        weights.name,
        replace(weights.type, dtype=DType.INT8, quant=_quant(weights.type.quantised, offsets, axis)),
        np.subtract(values, offsets.reshape(shape)).astype(np.int8),
    )
    return Node(replace(node.op), (x, made, bias), node.output)  # a copy of the op: this is remembered with the node


def _offsets(rows: Int64s) -> Int64s | None:
    """What to subtract from each row of weights to have bytes, the least that is enough; None where nothing is."""
    least, most = rows.min(axis=1), rows.max(axis=1)
    offsets = np.where(most > _HIGH, most - _HIGH, np.minimum(least - _LOW, 0))
    full = most - least > _HIGH - _LOW  # 255 apart: the least is -128
    offsets = np.maximum(np.where(full, most - _HIGH, offsets), _LOW)  # a byte itself, and so is what negates it
    return None if (least - offsets < _LOW - 1).any() else offsets


def _quant(of: Quant, offsets: Int64s, axis: int) -> Quant:
    if not offsets.any():
        return replace(of, zero_points=(0,) * len(of.zero_points))
    count = len(offsets)
    scales = of.scales if of.axis is not None else of.scales * count
    return Quant(scales, tuple((-offsets).tolist()), axis)


def with_offsets(variant: Variant[OpT], *fewer: Tile, sums: bool = True) -> Variant[OpT]:
    """The twin that computes nodes whose weights have zero points: its body is compiled with SH_OFFSETS.

    It has the tiles of the variant without `fewer`. `sums`: whether it sums inputs, which its work counts then.
    """

    def work(node: Node[OpT], tile: Tile) -> Mapping[str, float]:
        pixels, outputs = node.output.type.nhwc[2:]
        return Work(summed=pixels * node.inputs[1].type.elements // outputs) + variant.work(node, tile)

    return replace(
        variant,
        work=work if sums else variant.work,
        suffix=f"{variant.suffix}_{OFFSETS}",
        body=variant.body or variant.suffix,
        kinds=(OFFSETS,),
        tiles=tuple(tile for tile in variant.tiles if tile not in fewer),
        defines=(*variant.defines, "SH_OFFSETS"),
    )


def with_twin(
    variant: Variant[OpT], is_twins: Callable[[Node[OpT]], bool], *fewer: Tile, sums: bool = True
) -> tuple[Variant[OpT], Variant[OpT]]:
    """The variant for the nodes whose weights fit its packed form, and its twin `with_offsets` for all others.

    `is_twins` tells whether a node is one of the others: each whose weights have offsets is, and some of the rest are.
    """
    accepts = variant.accepts
    plain = replace(variant, accepts=lambda node: not is_twins(node) and accepts(node))
    other = replace(variant, accepts=lambda node: is_twins(node) and accepts(node))
    return plain, replace(with_offsets(other, *fewer, sums=sums), kinds=("", OFFSETS))
