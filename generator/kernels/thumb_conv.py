"""Convolutions of one group for Armv6-M: `conv2d_s8_thumb.inc` and `conv2d_s8_thumb_wide.inc`."""

from __future__ import annotations

from typing import cast

import numpy as np

from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels import steps32
from shoehorn_mcu.kernels.base import Tile, Value, Variant, all_in_weights
from shoehorn_mcu.kernels.conv import CONV2D, lines_of
from shoehorn_mcu.kernels.packed import linear
from shoehorn_mcu.kernels.packed_conv import has_one_group
from shoehorn_mcu.kernels.rounding import Int32s
from shoehorn_mcu.kernels.work import Work
from shoehorn_mcu.ops import Conv2d
from shoehorn_mcu.targets import Isa

TAPS = 64  # most elements of a window, or of a chunk of it; 12 to 20 bytes of stack each
_TOGETHER = 4  # taps that the inner loop reads at once
_ABOVE = 128  # added to each weight, which makes it a byte without a sign


def _scales(node: Node) -> Int32s | None:
    """[output][8]: the words of `sh_steps32.h`; None where some output has none."""
    of, op = linear(node, CONV2D), cast(Conv2d, node.op)
    clamp = steps32.Clamp(of.y_zero, int(op.clamp.low), int(op.clamp.high))
    return steps32.words_of(of.weights, of.bias, of.multipliers, of.shifts, clamp)


def _elements(node: Node) -> int:
    """Elements of a window."""
    return int(np.prod(node.inputs[1].type.shape[1:]))


def _accepts(node: Node) -> bool:
    return has_one_group(node) and _elements(node) <= TAPS and _scales(node) is not None


def _accepts_wide(node: Node) -> bool:
    return has_one_group(node) and _elements(node) > TAPS and _scales(node) is not None


def _chunks(elements: int) -> list[int]:
    """Elements of each chunk of a window."""
    return [min(TAPS, elements - start) for start in range(0, elements, TAPS)]


def _filled(elements: int) -> int:
    """Elements, up to a multiple of four."""
    return -(-elements // _TOGETHER) * _TOGETHER


def _pack(node: Node, tile: Tile) -> dict[str, Value]:
    layer, scales = linear(node, CONV2D), _scales(node)
    assert scales is not None  # the node was accepted
    outputs, elements = layer.weights.shape
    weights = np.full((outputs, _filled(elements)), _ABOVE, np.uint8)
    weights[:, :elements] = layer.weights.astype(np.int16) + _ABOVE
    *chunks, last = np.split(weights.view("<i4"), range(TAPS // 4, _filled(elements) // 4, TAPS // 4), axis=1)
    words = [*(chunk.ravel() for chunk in chunks), np.concatenate([last, scales], axis=1).ravel()]
    return all_in_weights(np.concatenate(words).astype(np.int32))


def _work(node: Node, tile: Tile) -> Work:
    """Counts of the loops over groups of pixels, chunks of their windows, outputs and taps, and of how windows are laid
    side by side: in lines that are inside the input, by taps in others.
    """
    op, pixels = cast(Conv2d, node.op), node.output.type.nhwc[2]
    outputs, height, width, inputs = node.inputs[1].type.shape
    lines = lines_of(op, node)
    groups = -(-pixels // tile.sizes["pixels"])
    chunks = _chunks(height * width * inputs)
    joined = sum(taps == width for taps in lines.taps) if op.dilation[1] == 1 else 0
    inside = lines.inside * sum(lines.taps) * inputs
    return Work(
        groups=groups,
        chunks=groups * len(chunks),
        blocks=groups * outputs,
        kept=groups * outputs * (len(chunks) - 1),
        fours=groups * outputs * sum(_filled(chunk) for chunk in chunks) // _TOGETHER,
        outputs=pixels * outputs,
        pixels=pixels * len(chunks),
        lines=pixels * height,
        taps=(pixels - joined) * lines.inside * width,
        laid=inside,
        outside=pixels * height * width * inputs - inside,
    )


def _scratch_bytes(node: Node, tile: Tile) -> int:
    """The sums of all outputs of a group of pixels."""
    return 4 * node.inputs[1].type.shape[0] * tile.sizes["pixels"]


VARIANTS = (
    Variant(
        CONV2D,
        _work,
        suffix="thumb",
        shared="side_by_side",
        isa=Isa.THUMB,
        accepts=_accepts,
        tiles=tuple(Tile(pixels=pixels, taps=TAPS) for pixels in (4, 5, 3)),
        pack=_pack,
    ),
    Variant(
        CONV2D,
        _work,
        suffix="thumb_wide",
        shared="side_by_side",
        isa=Isa.THUMB,
        accepts=_accepts_wide,
        tiles=tuple(Tile(pixels=pixels, taps=TAPS) for pixels in (4, 3)),
        pack=_pack,
        scratch_bytes=_scratch_bytes,
    ),
)
