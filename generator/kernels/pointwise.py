"""The 1x1 convolution for Armv6 SIMD (`conv2d_s8_simd32_1x1.inc`): its packed weights, and the proofs of exactness.

Two int8 weights a, b of one input share a halfword a + 256 * b, so one SMLAD sums A + 256 * B for two output channels.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels.base import Tile, Value, Variant, array_of
from shoehorn_mcu.kernels.conv import CONV2D, conv2d_constants
from shoehorn_mcu.kernels.rounding import Int32s, Int64s, addends, right_shifts, rounds_exactly
from shoehorn_mcu.kernels.work import Work
from shoehorn_mcu.ops import Conv2d
from shoehorn_mcu.ops.conv import Padding
from shoehorn_mcu.targets import Isa

OUTPUTS = 4  # output channels that are computed at once
INPUTS = 4  # input channels that are loaded at once, and the fewest there may be
_PAIRS = ((0, 2), (1, 3))  # which of four inputs SXTB16 extends together
_X_LOW, _X_HIGH = -128, 127


class Linear(NamedTuple):
    """A 1x1 convolution: `sum(x * weights) + bias`, scaled by `multipliers * 2^(shifts - 31)`, plus `y_zero`."""

    weights: NDArray[np.int8]  # [output][input]
    bias: Int32s  # per output, the input's zero point folded in
    multipliers: Int32s
    shifts: NDArray[np.int8]  # to the left
    y_zero: int


def packable(of: Linear) -> bool:
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


def _scaled_exactly(of: Linear) -> bool:
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


def _overlapped(weights: NDArray[np.int8]) -> NDArray[np.int8]:
    """Weights with inputs up to a multiple of four: the last group is the layer's last four inputs, with weights 0 for
    those that an earlier group already has.
    """
    inputs = weights.shape[1]
    whole, rest = inputs - inputs % INPUTS, inputs % INPUTS
    if not rest:
        return weights
    overlap = np.zeros((len(weights), INPUTS - rest), np.int8)
    return np.concatenate([weights[:, :whole], overlap, weights[:, whole:]], axis=1)


def pack(of: Linear) -> Int32s:
    """The words that the kernel reads, for every four outputs: their weights, then four words to scale each."""
    first, second = _halves(_overlapped(of.weights))
    halves = (first + 256 * second).astype(np.int16)  # [pair of outputs][input]
    blocks, fours = len(halves) // 2, halves.shape[1] // INPUTS
    by_four = halves.reshape(blocks, 2, fours, INPUTS)[..., _PAIRS]  # [block][pair][four][step][2]
    words = np.ascontiguousarray(by_four.transpose(0, 2, 3, 1, 4)).astype("<i2").view("<i4")
    return np.concatenate([words.reshape(blocks, -1), _scales(of, blocks)], axis=1).astype(np.int32).ravel()


def _scales(of: Linear, blocks: int) -> Int64s:
    """Per output: 2 * bias, 2^(e-1) + (y_zero << e), the multiplier and e, the shift to the right."""
    shifts = right_shifts(of.multipliers, of.shifts)
    rows = np.stack([2 * of.bias.astype(np.int64), addends(shifts, of.y_zero), of.multipliers, shifts], axis=1)
    return _filled(rows, blocks * OUTPUTS).reshape(blocks, -1)


def _linear(node: Node) -> Linear:
    """The layer of a Conv2d with a 1x1 window."""
    constants = {name: array_of(value) for name, value in conv2d_constants(node).items()}
    weights = cast(NDArray[np.int8], constants["weights"])
    return Linear(
        weights.reshape(weights.shape[0], -1),
        cast(Int32s, constants["bias"]),
        cast(Int32s, constants["multipliers"]),
        cast(NDArray[np.int8], constants["shifts"]),
        node.output.type.quantised.zero_point,
    )


def _accepts(node: Node) -> bool:
    """One group, a 1x1 window, no padding, and exact."""
    op = cast(Conv2d, node.op)
    inputs = node.inputs[0].type.nhwc[3]
    plain = node.inputs[1].type.shape[1:] == (1, 1, inputs) and op.padding == Padding()
    return plain and packable(_linear(node))


def _pack(node: Node, tile: Tile) -> dict[str, Value]:
    return {"weights": pack(_linear(node)), "bias": None, "multipliers": None, "shifts": None}


def _work(node: Node, tile: Tile) -> Work:
    """Counts of the loops over pixels, blocks of four outputs and groups of four inputs, for two pixels and for one."""
    pixels, outputs = node.output.type.nhwc[2:]
    clamp, inputs = cast(Conv2d, node.op).clamp, node.inputs[0].type.nhwc[3]
    pairs, singles = divmod(pixels, 2) if tile.sizes["pixels"] == 2 else (0, pixels)
    blocks, whole, overlaps = -(-outputs // OUTPUTS), inputs // INPUTS, inputs % INPUTS > 0
    fours, turns = whole + overlaps, (whole + 1) // 2 + overlaps  # two groups of four per iteration
    return Work(
        pairs=pairs,
        singles=singles,
        pair_blocks=pairs * blocks,
        single_blocks=singles * blocks,
        pair_fours=pairs * blocks * fours,
        single_fours=singles * blocks * fours,
        turns=(pairs + singles) * blocks * turns,
        overlaps=(pairs + singles) * blocks * overlaps,
        clamped=pixels * outputs * ((clamp.low, clamp.high) != (_X_LOW, _X_HIGH)),
    )


VARIANTS = (
    Variant(
        CONV2D,
        _work,
        suffix="simd32_1x1",
        isa=Isa.SIMD32,
        accepts=_accepts,
        tiles=(Tile(outputs=OUTPUTS, pixels=2), Tile(outputs=OUTPUTS, pixels=1)),
        pack=_pack,
    ),
)
