"""Convolutions of few inputs for NEON, with eight output channels in a vector (`conv2d_s8_neon_lanes.inc`).

The kernels of neon.py have eight or sixteen inputs in a vector, and sum its lanes at the end: where a window has few
inputs, most of their time goes to copies of windows and to these sums. Here an input is multiplied with the weights of
eight output channels, in 16 bits, which also hold a weight with its zero point.
"""

from __future__ import annotations

import numpy as np

from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels.base.contract import Packed, Tile, Variant, all_in_weights
from shoehorn_mcu.kernels.base.operands import OFFSETS
from shoehorn_mcu.kernels.base.packed import Linear, filled, linear, scaled_exactly
from shoehorn_mcu.kernels.base.rounding import Int32s, right_shifts
from shoehorn_mcu.kernels.base.work import Work
from shoehorn_mcu.kernels.linear import packed_conv
from shoehorn_mcu.kernels.linear.conv import CONV2D
from shoehorn_mcu.machine.targets import Isa
from shoehorn_mcu.ops import Conv2d

OUTPUTS, PIXELS = 8, 4  # that are computed at once
INPUTS = 8  # that are loaded at once
TAPS = 50  # a window has at most 4 * TAPS - INPUTS elements
LINES = 16  # and so many lines
_VECTOR = 16  # bytes
_COPIED = (16, 8)  # bytes of a window that are copied at once


def _accepts(node: Node[Conv2d]) -> bool:
    _, height, width, inputs = node.weights.type.shape
    fits = height <= LINES and height * width * inputs <= 4 * TAPS - INPUTS
    return fits and packed_conv.has_one_group(node) and scaled_exactly(linear(node, CONV2D))


def pack(of: Linear) -> Int32s:
    """The words that the kernel reads, for each OUTPUTS: biases, weights by inputs, multipliers and shifts."""
    blocks = -(-len(of.weights) // OUTPUTS)
    weights = filled(of.whole, blocks * OUTPUTS).reshape(blocks, OUTPUTS, -1).transpose(0, 2, 1)
    words = np.ascontiguousarray(weights.astype("<i2")).reshape(blocks, -1).view("<i4")
    scales = (of.bias, of.multipliers, -right_shifts(of.multipliers, of.shifts))
    bias, *others = (filled(each, blocks * OUTPUTS).reshape(blocks, OUTPUTS) for each in scales)
    return np.concatenate([bias, words, *others], axis=1).astype(np.int32).ravel()


def _read(node: Node[Conv2d]) -> list[bool]:
    """Of each pixel of a row whether its window is read where it is, if no line of it is in the padding."""
    _, _, width, inputs = node.weights.type.shape
    columns, run = node.x.type.nhwc[2] * inputs, -(-width * inputs // INPUTS) * INPUTS
    starts = (x * node.op.stride[1] - node.op.padding.left for x in range(node.output.type.nhwc[2]))
    return [node.op.dilation[1] == 1 and x >= 0 and x * inputs + run <= columns for x in starts]


def _work(node: Node[Conv2d], tile: Tile) -> Work:
    """Counts of passes over four pixels and over one, of what they loop over, and of windows that are copied."""
    _, height, width, inputs = node.weights.type.shape
    pixels, outputs = node.output.type.nhwc[2:]
    blocks, run = -(-outputs // OUTPUTS), width * inputs
    total = Work()
    for name, passes in (("fours", pixels // PIXELS), ("ones", pixels % PIXELS)):
        total += Work(
            **{
                name: passes,
                f"{name}_blocks": passes * blocks,
                f"{name}_lines": passes * blocks * height,
                f"{name}_vectors": passes * blocks * height * -(-run // INPUTS),
                f"{name}_taps": passes * blocks * height * run,
            }
        )
    read, rows = _read(node), packed_conv.unpadded_rows(node)
    fours = rows * sum(all(read[x : x + PIXELS]) for x in range(0, pixels - PIXELS + 1, PIXELS))
    found, part = pixels - fours * PIXELS, rows * sum(read) / max(1, pixels)
    copied = {f"copy_{name}": count * (1 - part) for name, count in packed_conv.copies(node, _COPIED).items()}
    few = pixels * (outputs % OUTPUTS > 0)
    lines = {"found": found, "found_lines": found * height, "fours_found": fours * height}
    return total + Work(**copied, **lines, few=few)


VARIANTS = (
    Variant(
        CONV2D,
        _work,
        suffix="neon_lanes",
        shared=("windows",),
        isa=Isa.NEON,
        accepts=_accepts,
        kinds=("", OFFSETS),
        tiles=(Tile(outputs=OUTPUTS, pixels=PIXELS, taps=TAPS),),
        pack=lambda node, _: all_in_weights(Packed(pack(linear(node, CONV2D)), _VECTOR)),
    ),
)
