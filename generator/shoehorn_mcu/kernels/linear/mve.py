"""Convolutions of one group and dense layers for Helium (`sh_helium_sums.h`): packed weights, and what they compute.

Sums of four output channels and two pixels by VMLADAVA. CMSIS-NN's `arm_nn_mat_mult_nt_t_s8` for Helium has four
channels of one pixel: its loop needs 10 instructions for 64 products, this one 8.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels.base.contract import Tile, Value, Variant, all_in_weights
from shoehorn_mcu.kernels.base.packed import Linear, filled, linear, scaled_exactly
from shoehorn_mcu.kernels.base.rounding import Int32s, right_shifts
from shoehorn_mcu.kernels.base.work import Work
from shoehorn_mcu.kernels.linear.conv import CONV2D, DENSE, lines_of
from shoehorn_mcu.kernels.linear.offsets import with_offsets
from shoehorn_mcu.kernels.linear.packed_conv import (
    groups,
    has_one_group,
    is_copied,
    is_pointwise,
    padding_tap,
    unpadded_rows,
)
from shoehorn_mcu.machine.targets import Isa
from shoehorn_mcu.ops import Conv2d, Dense

OUTPUTS = 4  # output channels that are computed at once
PIXELS = 2
VECTOR = 16  # inputs that are loaded at once
TAPS = 49  # most taps of a window that is not copied


def pack(of: Linear, run: int = 0) -> Int32s:
    """The words that the kernel reads, for every four outputs: biases, weights by vectors, multipliers and shifts.

    Behind the biases are the offsets of the weights, if there are any.
    The inputs are one run, or runs of this length, whose weights are filled up with zeros to whole vectors.
    """
    blocks = -(-len(of.weights) // OUTPUTS)
    weights = filled(of.weights, blocks * OUTPUTS).astype(np.int8)
    weights = weights.reshape(blocks, OUTPUTS, -1, run or weights.shape[1])
    if run:
        weights = np.pad(weights, ((0, 0), (0, 0), (0, 0), (0, -run % VECTOR)))
    whole = weights.shape[3] - weights.shape[3] % VECTOR
    vectors = weights[..., :whole].reshape(blocks, OUTPUTS, -1, VECTOR).transpose(0, 2, 1, 3)
    words = np.concatenate([vectors.reshape(blocks, -1), weights[..., whole:].reshape(blocks, -1)], axis=1)
    scales = (of.bias, of.multipliers, -right_shifts(of.multipliers, of.shifts))
    bias, *others = (filled(each, blocks * OUTPUTS).reshape(blocks, OUTPUTS) for each in scales)
    if of.offsets.any():
        bias = np.concatenate([bias, of.offset(blocks * OUTPUTS).reshape(blocks, OUTPUTS)], axis=1)
    return np.concatenate([bias, np.ascontiguousarray(words).view("<i4"), *others], axis=1).astype(np.int32).ravel()


_is_copied = partial(is_copied, most_taps=TAPS, together=VECTOR)


def _accepts_pointwise(node: Node[Conv2d]) -> bool:
    return is_pointwise(node) and has_one_group(node) and scaled_exactly(linear(node, CONV2D))


def _accepts_windows(node: Node[Conv2d]) -> bool:
    """One group, a window that is small or has no more than TAPS taps, and exact."""
    return not is_pointwise(node) and has_one_group(node) and computes_windows(node)


def computes_windows(node: Node[Conv2d]) -> bool:
    """Whether the kernel for windows computes exactly this convolution of one group, of 1x1 windows, too."""
    _, height, width, _ = node.weights.type.shape
    fits = _is_copied(node) or height * width <= TAPS
    return fits and scaled_exactly(linear(node, CONV2D))


def _pack(node: Node[Conv2d], tile: Tile) -> dict[str, Value]:
    layer, inputs = linear(node, CONV2D), node.weights.type.shape[3]
    if "taps" not in tile.sizes:
        return all_in_weights(pack(layer))
    if _is_copied(node):
        return all_in_weights(pack(layer, layer.weights.shape[1]))
    return all_in_weights(np.concatenate([padding_tap(node), pack(layer, inputs)]))


def _work(node: Node[Conv2d], tile: Tile) -> Work:
    """Counts of the loops over pixels, blocks of four outputs, runs and vectors of inputs, for two pixels and for one;
    and of how runs are found, or windows copied.
    """
    outputs = node.output.type.nhwc[3]
    _, height, width, inputs = node.weights.type.shape
    blocks, copied = -(-outputs // OUTPUTS), "taps" in tile.sizes and _is_copied(node)
    joined = unpadded_rows(node) if node.op.dilation[1] == 1 and inputs % VECTOR == 0 else 0.0
    total = Work()
    for (length, inside), times in groups(node, PIXELS):
        by_line = joined * inside
        ways = ((by_line, height, width), (1 - by_line, height * width, 1))  # a part of the rows, runs, taps of each
        runs = 1.0 if copied else sum(part * count for part, count, _ in ways)
        vectors = sum(part * count * -(-taps * inputs // VECTOR) for part, count, taps in ways)
        if copied:
            vectors = -(-height * width * inputs // VECTOR)
        name = "pair" if length == PIXELS else "single"
        total += Work(
            **{
                f"{name}s": times,
                f"{name}_blocks": times * blocks,
                f"{name}_runs": times * blocks * runs,
                f"{name}_vectors": times * blocks * vectors,
            },
        )
        if "taps" in tile.sizes and not copied:
            tapped = times * (1 - by_line)
            total += Work(found=tapped * PIXELS * height * width, tapped=tapped, line_runs=times * by_line * height)
    return total + _copies(node) if copied else total


def _copies(node: Node[Conv2d]) -> Work:
    """Of the windows of a row: of two pixels together where no part of them is padding, else one by one. Of these, a
    line at a time where all of it is inside the row, else a tap at a time.
    """
    lines, (_, height, width, inputs) = lines_of(node), node.weights.type.shape
    by_line, of_tap = -(-width * inputs // VECTOR), -(-inputs // VECTOR)
    rows = unpadded_rows(node) if node.op.dilation[1] == 1 else 0.0
    total = Work()
    for first in range(0, len(lines.taps), PIXELS):
        pixels = lines.taps[first : first + PIXELS]
        together = rows * all(taps == width for taps in pixels)
        total += Work(together=together, together_vectors=together * by_line, both_lines=together * by_line * height)
        count, inside = height * (1 - together), lines.inside - height * together
        for taps in pixels:
            whole = inside * (taps == width and node.op.dilation[1] == 1)
            found = inside * taps - whole * width
            padded = width * (count - whole) - found
            total += Work(
                windows=1 - together,
                lines=count,
                line_vectors=whole * by_line,
                taps=width * (count - whole),
                tap_vectors=found * of_tap,
                padded=padded,
                filled=padded * inputs,
            )
    return total


def _accepts_dense(node: Node[Dense]) -> bool:
    return scaled_exactly(linear(node, DENSE))


def _pack_dense(node: Node[Dense], tile: Tile) -> dict[str, Value]:
    return all_in_weights(pack(linear(node, DENSE)))


def _dense_work(node: Node[Dense], tile: Tile) -> Work:
    """Counts of the loops over vectors, blocks of four outputs and vectors of inputs, for two pixels and for one."""
    outputs, inputs = node.weights.type.shape
    blocks, vectors = -(-outputs // OUTPUTS), -(-inputs // VECTOR)
    total = Work()
    for name, times in zip(("pair", "single"), divmod(node.output.type.nhwc[2], PIXELS), strict=True):
        counts = {"s": times, "_blocks": times * blocks, "_vectors": times * blocks * vectors}
        total += Work(**{name + feature: count for feature, count in counts.items()})
    return total


def _tile(**sizes: int) -> tuple[Tile, ...]:
    return (Tile(outputs=OUTPUTS, pixels=PIXELS, **sizes),)


_conv2d = partial(Variant, CONV2D, _work, isa=Isa.MVE, pack=_pack)

_VARIANTS = (
    _conv2d(suffix="mve_1x1", body="mve", shared=("mve_row",), accepts=_accepts_pointwise, tiles=_tile()),
    _conv2d(suffix="mve", shared=("mve_row", "windows"), accepts=_accepts_windows, tiles=_tile(taps=TAPS)),
    Variant(DENSE, _dense_work, suffix="mve", isa=Isa.MVE, accepts=_accepts_dense, pack=_pack_dense),
)

WINDOWS = _VARIANTS[1]

VARIANTS = (*_VARIANTS, *(with_offsets(variant) for variant in _VARIANTS))
