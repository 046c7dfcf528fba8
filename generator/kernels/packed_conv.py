"""Convolutions of one group for Armv6 SIMD (`conv2d_s8_simd32.inc`): packed weights, and the proofs of exactness.

Two int8 weights a, b of one input share a halfword a + 256 * b, so one SMLAD sums A + 256 * B for two output channels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels.base import Tile, Value, Variant, array_of
from shoehorn_mcu.kernels.conv import CONV2D, conv2d_constants, lines_of
from shoehorn_mcu.kernels.rounding import Int32s, Int64s, addends, right_shifts, rounds_exactly
from shoehorn_mcu.kernels.work import Work, whole_windows
from shoehorn_mcu.ops import Conv2d
from shoehorn_mcu.ops.conv import Padding
from shoehorn_mcu.targets import Isa

OUTPUTS = 4  # output channels that are computed at once
INPUTS = 4  # inputs that are loaded at once, and the fewest that a run may have
TAPS = 25  # most taps of a window that is not copied
_PAIRS = ((0, 2), (1, 3))  # which of four inputs SXTB16 extends together
_X_LOW, _X_HIGH = -128, 127


class Convolution(NamedTuple):
    """A convolution's pixel: `sum(x * weights) + bias`, scaled by `multipliers * 2^(shifts - 31)`, plus `y_zero`."""

    weights: NDArray[np.int8]  # [output][input of the window]
    bias: Int32s  # per output, the input's zero point folded in
    multipliers: Int32s
    shifts: NDArray[np.int8]  # to the left
    y_zero: int


def packable(of: Convolution) -> bool:
    """Whether the kernel computes exactly this layer, for all int8 inputs."""
    inputs = of.weights.shape[1]
    if inputs < INPUTS:
        return False
    first, second = _halves(of.weights)
    low, high = _sums(second)
    recovered = low.min() >= -(1 << 23) and high.max() < 1 << 23  # B of W - A = 256 * B, modulo 2^32
    joined = first + 256 * second
    return bool(recovered and joined.min() >= -(1 << 15) and joined.max() < 1 << 15 and _scaled_exactly(of))


def _sums(weights: Int64s) -> tuple[Int64s, Int64s]:
    """The least and the greatest sum over inputs of x * weight, per output channel."""
    one, other = weights * _X_LOW, weights * _X_HIGH
    return np.minimum(one, other).sum(axis=1), np.maximum(one, other).sum(axis=1)


def _scaled_exactly(of: Convolution) -> bool:
    low, high = (s + of.bias for s in _sums(of.weights.astype(np.int64)))
    return rounds_exactly(low, high, of.multipliers, of.shifts)


def _filled(values: NDArray[np.generic], count: int) -> Int64s:
    """`values` with rows of zeros appended, up to `count` rows."""
    rows = np.zeros((count, *values.shape[1:]), np.int64)
    rows[: len(values)] = values
    return rows


def _halves(weights: NDArray[np.int8]) -> tuple[Int64s, Int64s]:
    """The outputs whose weights are the low bytes of halfwords, and those whose weights are the high bytes."""
    rows = _filled(weights, -(-len(weights) // OUTPUTS) * OUTPUTS)
    return rows[0::2], rows[1::2]


def _overlapped(weights: NDArray[np.int8], run: int) -> NDArray[np.int8]:
    """Weights with runs up to a multiple of four: the last group is the run's last four inputs, with weights 0 for
    those that an earlier group already has.
    """
    whole, rest = run - run % INPUTS, run % INPUTS
    if not rest:
        return weights
    runs = weights.reshape(len(weights), -1, run)
    overlap = np.zeros((*runs.shape[:2], INPUTS - rest), np.int8)
    return np.concatenate([runs[..., :whole], overlap, runs[..., whole:]], axis=2).reshape(len(weights), -1)


def pack(of: Convolution, run: int) -> Int32s:
    """The words that the kernel reads, for every four outputs: their weights, then four words to scale each.

    The inputs are read in runs of this length.
    """
    first, second = _halves(_overlapped(of.weights, run))
    halves = (first + 256 * second).astype(np.int16)  # [pair of outputs][input]
    blocks, fours = len(halves) // 2, halves.shape[1] // INPUTS
    by_four = halves.reshape(blocks, 2, fours, INPUTS)[..., _PAIRS]  # [block][pair][four][step][2]
    words = np.ascontiguousarray(by_four.transpose(0, 2, 3, 1, 4)).astype("<i2").view("<i4")
    return np.concatenate([words.reshape(blocks, -1), _scales(of, blocks)], axis=1).astype(np.int32).ravel()


def _scales(of: Convolution, blocks: int) -> Int64s:
    """Per output: 2 * bias, 2^(e-1) + (y_zero << e), the multiplier and e, the shift to the right."""
    shifts = right_shifts(of.multipliers, of.shifts)
    rows = np.stack([2 * of.bias.astype(np.int64), addends(shifts, of.y_zero), of.multipliers, shifts], axis=1)
    return _filled(rows, blocks * OUTPUTS).reshape(blocks, -1)


def _layer(node: Node) -> Convolution:
    """The layer of a Conv2d of one group."""
    constants = {name: array_of(value) for name, value in conv2d_constants(node).items()}
    weights = cast(NDArray[np.int8], constants["weights"])
    return Convolution(
        weights.reshape(weights.shape[0], -1),
        cast(Int32s, constants["bias"]),
        cast(Int32s, constants["multipliers"]),
        cast(NDArray[np.int8], constants["shifts"]),
        node.output.type.quantised.zero_point,
    )


def _is_pointwise(node: Node) -> bool:
    """Whether the window is 1x1, without padding."""
    return node.inputs[1].type.shape[1:3] == (1, 1) and cast(Conv2d, node.op).padding == Padding()


def _is_copied(node: Node) -> bool:
    """Whether the kernel copies each window: a single run."""
    _, height, width, inputs = node.inputs[1].type.shape
    return height * width * inputs <= INPUTS * TAPS and inputs % INPUTS > 0


def _run(node: Node) -> int:
    """Inputs that lie side by side in every window: all of a copied one, else those of a tap."""
    _, height, width, inputs = node.inputs[1].type.shape
    return height * width * inputs if _is_copied(node) else inputs


def _accepts_pointwise(node: Node) -> bool:
    return _is_pointwise(node) and _one_group(node) and packable(_layer(node))


def _accepts_windows(node: Node) -> bool:
    """One group, a window that is small or has no more than TAPS taps, and exact."""
    _, height, width, _ = node.inputs[1].type.shape
    fits = _is_copied(node) or height * width <= TAPS
    return fits and not _is_pointwise(node) and _run(node) >= INPUTS and _one_group(node) and packable(_layer(node))


def _one_group(node: Node) -> bool:
    return node.inputs[1].type.shape[3] == node.inputs[0].type.nhwc[3]


def _pack(node: Node, tile: Tile) -> dict[str, Value]:
    words = pack(_layer(node), _run(node))
    if "taps" in tile.sizes and not _is_copied(node):
        words = np.concatenate([_padding(node), words])
    return {"weights": words, "bias": None, "multipliers": None, "shifts": None}


def _padding(node: Node) -> Int32s:
    """A tap in the padding: x_zero for each input channel, in whole words."""
    x = node.inputs[0].type
    count = -(-x.nhwc[3] // INPUTS) * INPUTS
    return np.full(count, x.quantised.zero_point, np.int8).view("<i4").astype(np.int32)


def _work(node: Node, tile: Tile) -> Work:
    """Counts of the loops over pixels, blocks of four outputs, runs and groups of four inputs, for two pixels and for
    one; and of how runs are found, or windows copied.
    """
    op = cast(Conv2d, node.op)
    pixels, outputs = node.output.type.nhwc[2:]
    _, height, width, _ = node.inputs[1].type.shape
    windows = "taps" in tile.sizes  # else the window is 1x1, and read where it is
    blocks, copied, run = -(-outputs // OUTPUTS), windows and _is_copied(node), _run(node)
    count = 1 if copied else height * width
    within = [taps == width for taps in lines_of(op, node).taps]
    joined = _unpadded_rows(op, node) if op.dilation[1] == 1 and run % INPUTS == 0 and not copied else 0.0
    total = Work(clamped=pixels * outputs * ((op.clamp.low, op.clamp.high) != (_X_LOW, _X_HIGH)))
    size = tile.sizes["pixels"]
    for (length, inside), times in Counter(
        (len(p), all(p)) for p in (within[i : i + size] for i in range(0, pixels, size))
    ).items():
        by_line = joined * inside
        runs = by_line * height + (1 - by_line) * count if count > 1 else 1
        turns = by_line * height * _turns(run * width) + (1 - by_line) * count * _turns(run)
        name = "pair" if length == 2 else "single"
        total += Work(
            **{
                f"{name}s": times,
                f"{name}_blocks": times * blocks,
                f"{name}_fours": times * blocks * count * -(-run // INPUTS),
            },
            turns=times * blocks * turns,
            overlaps=times * blocks * count * (run % INPUTS > 0),
            switches=times * blocks * (runs - 1),
            found=times * length * runs * (windows and not copied),
        )
    return total + _copies(op, node) if copied else total


def _turns(run: int) -> int:
    """Turns of the inner loop for a run: two groups of four inputs, or one at the start, or the overlapping one."""
    return (run // INPUTS + 1) // 2 + (run % INPUTS > 0)


def _unpadded_rows(op: Conv2d, node: Node) -> float:
    """The part of the output rows whose windows have no line in the padding."""
    rows, lines, taps = (t.shape[1] for t in (node.output.type, node.inputs[0].type, node.inputs[1].type))
    return whole_windows(rows, taps, lines, op.stride[0], op.padding.top, op.dilation[0]) / rows


def _copies(op: Conv2d, node: Node) -> Work:
    """Of the windows of a row: a line at a time where all of it is inside the row, else a tap at a time."""
    _, height, width, inputs = node.inputs[1].type.shape
    lines = lines_of(op, node)
    pixels = len(lines.taps)
    by_line = lines.inside * sum(op.dilation[1] == 1 and taps == width for taps in lines.taps)
    taps = pixels * height * width - by_line * width
    copied_taps = lines.inside * sum(lines.taps) - by_line * width
    return Work(
        lines=pixels * height,
        taps=taps,
        copies=by_line + copied_taps,
        copied_words=by_line * (width * inputs // 4) + copied_taps * (inputs // 4),
        copied_bytes=by_line * (width * inputs % 4) + copied_taps * (inputs % 4),
        filled=(taps - copied_taps) * inputs,
    )


def _variant(suffix: str, accepts: Callable[[Node], bool], **sizes: int) -> Variant:
    return Variant(
        CONV2D,
        _work,
        suffix=suffix,
        body="simd32",
        isa=Isa.SIMD32,
        accepts=accepts,
        tiles=(Tile(outputs=OUTPUTS, pixels=2, **sizes), Tile(outputs=OUTPUTS, pixels=1, **sizes)),
        pack=_pack,
    )


VARIANTS = (_variant("simd32_1x1", _accepts_pointwise), _variant("simd32", _accepts_windows, taps=TAPS))
