"""Convolutions of one group and dense layers for RISC-V (`sh_blocked.h`): packed weights, and what they compute."""

from __future__ import annotations

from collections import Counter
from functools import partial

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels.base.contract import Tile, Value, Variant, all_in_weights
from shoehorn_mcu.kernels.base.operands import behind_pixels
from shoehorn_mcu.kernels.base.packed import Linear, filled, linear, scaled_exactly
from shoehorn_mcu.kernels.base.rounding import Int32s, Int64s, addends, right_shifts
from shoehorn_mcu.kernels.base.work import Work
from shoehorn_mcu.kernels.linear import packed_conv
from shoehorn_mcu.kernels.linear.conv import CONV2D, DENSE
from shoehorn_mcu.kernels.linear.offsets import with_offsets
from shoehorn_mcu.machine.targets import Isa
from shoehorn_mcu.ops import Conv2d, Dense

OUTPUTS, PIXELS = 4, 3  # output channels and pixels that are computed at once
TURN = 4  # inputs in a turn of the inner loop; the rest is computed one by one
TAPS = 49  # most taps of a window that is not copied; 4 * TAPS elements of one that is
_PASSES = ("single", "pair", "triple")  # passes over so many pixels


def scales(multipliers: Int32s, shifts: NDArray[np.int8], y_zero: int) -> Int64s:
    """[channel][3]: the words of an `sh_scale`."""
    right = right_shifts(multipliers, shifts)
    return np.stack([addends(right, y_zero), multipliers, right], axis=1)


def pack(of: Linear) -> Int32s:
    """The words that the kernels read, for every four outputs: biases, the offsets of the weights if there are any, the
    weights by inputs, and scales.
    """
    rows = -(-len(of.weights) // OUTPUTS) * OUTPUTS
    weights = filled(of.weights, rows).astype(np.int8).reshape(rows // OUTPUTS, OUTPUTS, -1)
    by_input = np.ascontiguousarray(weights.transpose(0, 2, 1)).reshape(len(weights), -1).view("<i4")
    bias = filled(of.bias, rows).reshape(-1, OUTPUTS)
    if of.offsets.any():
        bias = np.concatenate([bias, of.offset(rows).reshape(-1, OUTPUTS)], axis=1)
    scaled = filled(scales(of.multipliers, of.shifts, of.y_zero), rows).reshape(len(weights), -1)
    return np.concatenate([bias, by_input, scaled], axis=1).astype(np.int32).ravel()


_is_copied = partial(packed_conv.is_copied, most_taps=TAPS)


def _is_exact(node: Node[Conv2d]) -> bool:
    return packed_conv.has_one_group(node) and scaled_exactly(linear(node, CONV2D))


def _accepts_pointwise(node: Node[Conv2d]) -> bool:
    return packed_conv.is_pointwise(node) and _is_exact(node)


def _accepts_windows(node: Node[Conv2d]) -> bool:
    """One group, a window that is small or has no more than TAPS taps, and exact."""
    _, height, width, _ = node.weights.type.shape
    fits = _is_copied(node) or height * width <= TAPS
    return fits and not packed_conv.is_pointwise(node) and _is_exact(node)


def _pack(node: Node[Conv2d], tile: Tile) -> dict[str, Value]:
    words = pack(linear(node, CONV2D))
    if "taps" in tile.sizes and not _is_copied(node):
        words = np.concatenate([packed_conv.padding_tap(node), words])
    return all_in_weights(words)


def _passes(counts: Counter[int], outputs: int, runs: float, length: float) -> Work:
    """Counts of passes, by their number of pixels, of blocks of four outputs in them, and of turns and single inputs
    of so many runs of this length; of outputs.
    """
    total = Work()
    blocks = -(-outputs // OUTPUTS)
    for pixels, times in counts.items():
        name = _PASSES[pixels - 1]
        total += Work(
            **{
                f"{name}s": times,
                f"{name}_blocks": times * blocks,
                f"{name}_turns": times * blocks * runs * (length // TURN),
                f"{name}_ones": times * blocks * runs * (length % TURN),
            },
            runs=times * blocks * runs,
            rests=times * blocks * runs * (length % TURN > 0),
            outputs=times * pixels * outputs,
        )
    return total


def _sizes(pixels: int) -> Counter[int]:
    """The passes over a row, by their pixels."""
    return Counter(min(PIXELS, pixels - first) for first in range(0, pixels, PIXELS))


def _work(node: Node[Conv2d], tile: Tile) -> Work:
    """Counts of passes, of what they loop over, and of how runs are found, or windows copied."""
    pixels, outputs = node.output.type.nhwc[2:]
    _, height, width, inputs = node.weights.type.shape
    windows = "taps" in tile.sizes
    if not windows or _is_copied(node):
        made = _passes(_sizes(pixels), outputs, 1, height * width * inputs)
        return made + packed_conv.copies(node) if windows else made
    joined = packed_conv.unpadded_rows(node) if node.op.dilation[1] == 1 and inputs % TURN == 0 else 0.0
    total = Work()
    for (size, inside), times in packed_conv.groups(node, PIXELS):
        by_line = joined * inside * (size == PIXELS)
        total += _passes(Counter({size: times}), outputs, by_line * height, width * inputs)
        taps = _passes(Counter({size: times}), outputs, (1 - by_line) * height * width, inputs)
        total += {name: count for name, count in taps.items() if name.endswith(("_turns", "_ones", "runs", "rests"))}
        total += Work(found=times * size * (1 - by_line) * height * width, line_runs=times * by_line * height)
    return total


def _accepts_dense(node: Node[Dense]) -> bool:
    return scaled_exactly(linear(node, DENSE))


def _pack_dense(node: Node[Dense], tile: Tile) -> dict[str, Value]:
    return all_in_weights(pack(linear(node, DENSE)))


def _dense_work(node: Node[Dense], tile: Tile) -> Work:
    """Counts of passes, and of what they loop over."""
    outputs, inputs = node.weights.type.shape
    return _passes(_sizes(node.output.type.nhwc[2]), outputs, 1, inputs)


def _tile(**sizes: int) -> tuple[Tile, ...]:
    return (Tile(pixels=PIXELS, **sizes),)


# The windows of a pass are read for each few of its outputs.
_conv2d = partial(Variant, CONV2D, _work, isa=Isa.RISCV, pack=_pack, behind=lambda node, _: behind_pixels(node, PIXELS))

_VARIANTS = (
    _conv2d(suffix="riscv_1x1", body="riscv", accepts=_accepts_pointwise, tiles=_tile()),
    _conv2d(suffix="riscv", shared=("windows",), accepts=_accepts_windows, tiles=_tile(taps=TAPS)),
    Variant(DENSE, _dense_work, suffix="riscv", isa=Isa.RISCV, accepts=_accepts_dense, tiles=_tile(), pack=_pack_dense),
)

VARIANTS = (*_VARIANTS, *(with_offsets(variant) for variant in _VARIANTS))
