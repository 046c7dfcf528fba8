"""Transpose convolutions as convolutions: `transpose_conv2d_s8_neon.inc` and `_mve.inc`.

The outputs of a phase, `stride` apart along rows and columns, read the same taps of the kernel, so they are a
convolution with a stride of 1 whose kernel has every `stride`-th tap, in reverse order (Dumoulin and Visin, A guide to
convolution arithmetic for deep learning, section 4.6).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels.base.contract import Packed, Tile, Value, Variant, all_in_weights, array_of
from shoehorn_mcu.kernels.base.known import known
from shoehorn_mcu.kernels.base.operands import data
from shoehorn_mcu.kernels.base.work import Work
from shoehorn_mcu.kernels.linear import mve, neon
from shoehorn_mcu.kernels.linear.conv import TRANSPOSE
from shoehorn_mcu.ops import Conv2d, TransposeConv2d
from shoehorn_mcu.ops.conv import Padding

MOST_LINES = 16  # of a kernel, for the rows of each phase
_VECTOR = 16  # bytes, to which the packed weights of each phase are aligned

Accepts = Callable[[Node[Conv2d]], bool]


@known
def phases(node: Node[TransposeConv2d]) -> tuple[Node[Conv2d], ...] | None:
    """The convolutions of all phases, row phase by row phase; None where a phase is no convolution.

    Strides are the same along both dimensions, and each phase has taps and outputs.
    """
    op, (stride, across) = node.op, node.op.stride
    (_, kernel_height, kernel_width, _), (_, out_height, out_width, _) = node.weights.type.shape, node.output.type.nhwc
    least = min(kernel_height, kernel_width, out_height, out_width)
    if stride != across or stride > least or kernel_height > MOST_LINES:
        return None
    found = []
    for phase in range(stride):
        row = (phase - op.padding.top) % stride  # the first of the phase
        for column in range(stride):
            made = _phase(node, phase, row, column)
            if made is None:
                return None
            found.append(made)
    return tuple(found)


def _phase(node: Node[TransposeConv2d], phase: int, row: int, column: int) -> Node[Conv2d] | None:
    """The convolution of the rows of a phase, from `row` on, and of every `stride`-th column from this one on."""
    op, stride = node.op, node.op.stride[0]
    x, weights, bias = node.inputs
    n, height, width, _ = x.type.nhwc
    _, out_height, out_width, outputs = node.output.type.nhwc
    lasts = (row + op.padding.top - phase) // stride, (column + op.padding.left) // stride
    first = (column + op.padding.left) % stride
    part = data(weights)[:, phase::stride, first::stride][:, :, ::-1]
    taps = part.shape[1:3]
    before = [size - 1 - last for size, last in zip(taps, lasts, strict=True)]
    if min(before) < 0:
        return None  # the first window begins behind the first input
    sizes = (-(-(out_height - row) // stride), -(-(out_width - column) // stride))
    behind = [
        out + tap - 1 - size - left for out, tap, size, left in zip(sizes, taps, (height, width), before, strict=True)
    ]
    padding = Padding(before[0], behind[0], before[1], behind[1])
    conv = Conv2d(
        name=op.name,
        inputs=op.inputs,
        output=op.output,
        clamp=op.clamp,
        stride=(1, 1),
        dilation=(1, 1),
        padding=padding,
    )
    # The lines of the kernel keep their order, as the body looks up the input row of each line.
    held = replace(weights, type=replace(weights.type, shape=part.shape), data=np.ascontiguousarray(part))
    y = replace(node.output, type=replace(node.output.type, shape=(n, *sizes, outputs)))
    return Node(conv, (x, held, bias), y)


def _accepts(node: Node[TransposeConv2d], accepts: Accepts) -> bool:
    found = phases(node)
    return found is not None and all(map(accepts, found))


def _pack(node: Node[TransposeConv2d], tile: Tile, of: Variant[Conv2d]) -> dict[str, Value]:
    """The weights of all phases behind the words that say where they begin."""
    found = phases(node)
    assert found is not None and of.pack is not None  # the node was accepted
    packed = [array_of(of.pack(each, tile)["weights"]) for each in found]
    parts = [np.frombuffer(each.tobytes(), np.uint8) for each in packed if each is not None]
    filled = [np.pad(part, (0, -len(part) % _VECTOR)) for part in parts]
    head = -(-4 * len(filled) // _VECTOR) * _VECTOR
    begins = head + np.cumsum([0, *(len(part) for part in filled[:-1])])
    words = np.zeros(head // 4, np.int32)
    words[: len(begins)] = begins
    return all_in_weights(Packed(np.concatenate([words.view(np.uint8), *filled]).view("<i4"), _VECTOR))


def _work(node: Node[TransposeConv2d], tile: Tile, of: Variant[Conv2d]) -> Work:
    """The counts of the convolutions of a row, of the mean row; and of these convolutions."""
    found = phases(node)
    assert found is not None  # the node was accepted
    stride, total = node.op.stride[0], Work()
    for each in found:
        total += {name: count / stride for name, count in of.work(each, tile).items()}
    return total + {"phases": stride}


def _phased(of: Variant[Conv2d], accepts: Accepts, suffix: str) -> Variant[TransposeConv2d]:
    """The twin of a kernel for windows of any size."""
    return Variant(
        TRANSPOSE,
        lambda node, tile: _work(node, tile, of),
        suffix=suffix,
        shared=("phases",),
        isa=of.isa,
        accepts=lambda node: _accepts(node, accepts),
        tiles=of.tiles,
        pack=lambda node, tile: _pack(node, tile, of),
    )


VARIANTS = (
    _phased(neon.WINDOWS, neon.computes_windows, "neon"),
    _phased(mve.WINDOWS, mve.computes_windows, "mve"),
)
