"""Convolutions of one group for Armv6-M: `conv2d_s8_thumb.inc`."""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels import steps32
from shoehorn_mcu.kernels.base import Tile, Value, Variant
from shoehorn_mcu.kernels.conv import CONV2D, lines_of
from shoehorn_mcu.kernels.packed import Linear, linear, sums_of
from shoehorn_mcu.kernels.packed_conv import has_one_group
from shoehorn_mcu.kernels.work import Work
from shoehorn_mcu.ops import Conv2d
from shoehorn_mcu.targets import Isa

TAPS = 64  # most elements of a window; 16 or 20 bytes of stack each
_TOGETHER = 4  # taps that the inner loop reads at once
_ABOVE = 128  # added to each weight, which makes it a byte without a sign


def _scales(of: Linear, node: Node) -> steps32.Scales | None:
    op = cast(Conv2d, node.op)
    least, most = (s + of.bias for s in sums_of(of.weights.astype(np.int64)))
    clamp = steps32.Clamp(of.y_zero, op.clamp.low, op.clamp.high)
    return steps32.scales_of(least, most, of.bias, of.multipliers, of.shifts, clamp)


def _accepts(node: Node) -> bool:
    if not has_one_group(node) or np.prod(node.inputs[1].type.shape[1:]) > TAPS:
        return False
    return _scales(linear(node, CONV2D), node) is not None


def _taps(node: Node) -> int:
    """Elements of a window, filled up to a multiple of four."""
    elements = int(np.prod(node.inputs[1].type.shape[1:]))
    return -(-elements // _TOGETHER) * _TOGETHER


def _pack(node: Node, tile: Tile) -> dict[str, Value]:
    layer = linear(node, CONV2D)
    scales = _scales(layer, node)
    assert scales is not None  # the node was accepted
    weights = np.full((len(layer.weights), _taps(node)), _ABOVE, np.uint8)
    weights[:, : layer.weights.shape[1]] = layer.weights.astype(np.int16) + _ABOVE
    members = (scales.range, scales.high, scales.low, scales.offset, scales.turn, scales.bend)
    return {
        "weights": weights.view(np.int8).ravel(),
        "bias": _words(scales.bias),
        "multipliers": _words(np.stack(members, axis=1).ravel()),
        "shifts": scales.shift.astype(np.int8),
    }


def _words(values: NDArray[np.int64]) -> NDArray[np.int32]:
    """The low 32 bits."""
    return (values & 0xFFFFFFFF).astype(np.uint32).view(np.int32)


def _work(node: Node, tile: Tile) -> Work:
    """Counts of the loops over groups of pixels, outputs and taps, and of how windows are laid side by side."""
    op, pixels = cast(Conv2d, node.op), node.output.type.nhwc[2]
    outputs, height, width, inputs = node.inputs[1].type.shape
    lines = lines_of(op, node)
    groups = -(-pixels // tile.sizes["pixels"])
    return Work(
        groups=groups,
        blocks=groups * outputs,
        fours=groups * outputs * _taps(node) // _TOGETHER,
        outputs=pixels * outputs,
        pixels=pixels,
        lines=pixels * height,
        taps=pixels * height * width,
        laid=pixels * height * width * inputs,
        outside=height * width * pixels - lines.inside * sum(lines.taps),
    )


VARIANTS = (
    Variant(
        CONV2D,
        _work,
        suffix="thumb",
        isa=Isa.THUMB,
        accepts=_accepts,
        tiles=tuple(Tile(pixels=pixels, taps=TAPS) for pixels in (4, 5, 3)),
        pack=_pack,
    ),
)
