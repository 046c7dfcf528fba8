"""Convolutions of one group for Armv6-M: `conv2d_s8_thumb.inc` and `conv2d_s8_thumb_wide.inc`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels.base import steps32
from shoehorn_mcu.kernels.base.contract import Contract, Tile, Value, Variant, all_in_weights
from shoehorn_mcu.kernels.base.operands import behind_pixels
from shoehorn_mcu.kernels.base.packed import Linear, linear
from shoehorn_mcu.kernels.base.rounding import Int32s, clamp_of
from shoehorn_mcu.kernels.base.work import Work
from shoehorn_mcu.kernels.linear.conv import CONV2D, lines_of
from shoehorn_mcu.kernels.linear.offsets import with_offsets
from shoehorn_mcu.kernels.linear.packed_conv import has_one_group
from shoehorn_mcu.machine.targets import Isa
from shoehorn_mcu.ops import Conv2d, LinearOp

TAPS = 64  # most elements of a window; 12 to 20 bytes of stack each
CHUNK = 72  # elements of a window of more that are computed at once: half of 3x3x16
_TOGETHER = 8  # taps that the inner loop computes at once, or the last half of them at first
ABOVE = 128  # added to each weight, which makes it a byte without a sign


def scales(node: Node[LinearOp], contract: Contract) -> Int32s | None:
    """[output][8]: the words of `sh_steps32.h` for a linear op; None where some output has none."""
    of = linear(node, contract)
    return steps32.words_of(of.whole, of.bias, of.multipliers, of.shifts, clamp_of(node))


def less_of(of: Linear) -> Int32s:
    """[output][1]: where the weights have offsets, what a sum of inputs is multiplied with to make up for ABOVE, too;
    [output][0] where they have none, as it is the same for all outputs.
    """
    outputs, has = len(of.weights), int(of.offsets.any())
    return (of.offset(outputs) - ABOVE).astype(np.int32)[:, None][:, :has]


def _elements(node: Node[Conv2d]) -> int:
    """Elements of a window."""
    return int(np.prod(node.weights.type.shape[1:]))


def _accepts(node: Node[Conv2d]) -> bool:
    return has_one_group(node) and _elements(node) <= TAPS and scales(node, CONV2D) is not None


def exactly(node: Node[Conv2d]) -> bool:
    """Whether some output has no such words, so that the kernels that round as the portable one compute it."""
    return has_one_group(node) and scales(node, CONV2D) is None


def with_scales(node: Node[Conv2d], words: Int32s) -> dict[str, Value]:
    """The members of the struct for kernels that round as the portable one: only their weights are packed."""
    return {**CONV2D.plain(node), "weights": words}


def _chunks(elements: int, most: int) -> list[int]:
    """Elements of each chunk of a window."""
    return [min(most, elements - start) for start in range(0, elements, most)]


def _filled(elements: int) -> int:
    """Elements, up to a multiple of four."""
    return -(-elements // 4) * 4


def _turns(elements: int) -> int:
    """Turns of the inner loop; the first may be half of one."""
    return -(-elements // _TOGETHER)


def _words(weights: NDArray[np.signedinteger]) -> Int32s:
    """[output][word]: the weights of a chunk, [output][element], behind four bytes for a half that is left out."""
    outputs, elements = weights.shape
    end = _TOGETHER * _turns(elements)
    found = np.full((outputs, end), ABOVE, np.uint8)
    start = end - _filled(elements)
    found[:, start : start + elements] = weights.astype(np.int16) + ABOVE
    return found.view("<i4")


def _pack(node: Node[Conv2d], tile: Tile) -> dict[str, Value]:
    of, rounding, most = linear(node, CONV2D), scales(node, CONV2D), tile.sizes["taps"]
    parts = np.split(of.weights, range(most, of.weights.shape[1], most), axis=1)
    *chunks, last = (np.concatenate([less_of(of), _words(part)], axis=1) for part in parts)
    behind = () if rounding is None else (rounding,)
    parts = [*(chunk.ravel() for chunk in chunks), np.concatenate([last, *behind], axis=1).ravel()]
    words = np.concatenate(parts).astype(np.int32)
    return with_scales(node, words) if rounding is None else all_in_weights(words)


def _work(node: Node[Conv2d], tile: Tile) -> Work:
    """Counts of the loops over groups of pixels, chunks of their windows, outputs and taps, and of how windows are laid
    side by side: in lines that are inside the input, by taps in others.
    """
    op, pixels = node.op, node.output.type.nhwc[2]
    outputs, height, width, inputs = node.weights.type.shape
    lines = lines_of(node)
    groups = -(-pixels // tile.sizes["pixels"])
    chunks = _chunks(height * width * inputs, tile.sizes["taps"])
    joined = sum(taps == width for taps in lines.taps) if op.dilation[1] == 1 else 0
    inside = lines.inside * sum(lines.taps) * inputs
    return Work(
        groups=groups,
        chunks=groups * len(chunks),
        blocks=groups * outputs,
        kept=groups * outputs * (len(chunks) - 1),
        fours=groups * outputs * sum(_filled(chunk) for chunk in chunks) // 4,
        turns=groups * outputs * sum(map(_turns, chunks)),
        outputs=pixels * outputs,
        pixels=pixels * len(chunks),
        lines=pixels * height,
        taps=(pixels - joined) * lines.inside * width,
        laid=inside,
        outside=pixels * height * width * inputs - inside,
    )


_WHOLE = Variant(
    CONV2D,
    _work,
    suffix="thumb",
    shared=("side_by_side",),
    isa=Isa.THUMB,
    accepts=_accepts,
    tiles=tuple(Tile(pixels=pixels, taps=TAPS) for pixels in (4, 5, 3)),
    pack=_pack,
    behind=lambda node, _: behind_pixels(node),  # the windows are copied
)
_WIDE = replace(
    _WHOLE,
    suffix="thumb_wide",
    accepts=lambda node: has_one_group(node) and _elements(node) > TAPS and scales(node, CONV2D) is not None,
    tiles=tuple(Tile(pixels=pixels, taps=CHUNK) for pixels in (4, 3)),
    # The sums of all outputs of a group of pixels.
    scratch_bytes=lambda node, tile: 4 * node.weights.type.shape[0] * tile.sizes["pixels"],
)
_EXACT = replace(_WIDE, suffix="thumb_exact", body="thumb_wide", accepts=exactly, defines=("SH_EXACT",))

VARIANTS = (_WHOLE, _WIDE, _EXACT, with_offsets(_WHOLE), with_offsets(_WIDE))
