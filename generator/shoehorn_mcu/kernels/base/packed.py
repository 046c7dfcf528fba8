"""Packed weights of the linear kernels for Armv6 SIMD, and the proofs that those kernels are exact.

Two int8 weights a, b of one input share a halfword a + 256 * b, so one SMLAD sums A + 256 * B for two output channels.
That is no halfword where b is -128 and a negative. Such layers, and those whose weights have offsets, are `raised`.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels.base.contract import Contract, array_of
from shoehorn_mcu.kernels.base.known import known
from shoehorn_mcu.kernels.base.operands import offsets_of
from shoehorn_mcu.kernels.base.rounding import (
    Clamp,
    Find,
    Int32s,
    Int64s,
    Up,
    addends,
    right_shifts,
    rounds_exactly,
    up,
)
from shoehorn_mcu.ops import Binary, LinearOp, Pool2d
from shoehorn_mcu.ops.fixed_point import rescale

OUTPUTS = 4  # output channels that are computed at once
INPUTS = 4  # inputs that are loaded at once, and the fewest that a run may have
X_LOW, X_HIGH = -128, 127
_PAIRS = ((0, 2), (1, 3))  # which of four inputs SXTB16 extends together
NONE = np.zeros(1, np.int32)
"""The offsets of weights that have none."""


class Linear(NamedTuple):
    """A linear layer: `sum(x * weights) + bias`, scaled by `multipliers * 2^(shifts - 31)`, plus `y_zero`."""

    weights: NDArray[np.signedinteger]  # int8, or int16 where they are `raised`, [output][input of the window]
    bias: Int32s  # per output, the input's zero point folded in
    multipliers: Int32s
    shifts: NDArray[np.int8]  # to the left
    y_zero: int
    offsets: Int32s = NONE  # per output: what all of its weights lack; one number where all are equal
    raised: bool = False  # see the function of that name: the kernel reads offsets, also where all are 0

    @property
    def whole(self) -> Int64s:
        """The weights with their offsets."""
        return self.weights.astype(np.int64) + self.offsets[:, None]

    @property
    def totals(self) -> tuple[Int64s, Int64s]:
        """The least and the greatest total of all int8 inputs, bias included, per output."""
        return totals_of(self.whole, self.bias)

    def offset(self, count: int) -> Int64s:
        """The offsets of each output, with zeros up to so many."""
        return filled(np.broadcast_to(self.offsets, len(self.weights)), count)


def packable(of: Linear) -> bool:
    """Whether the kernel computes exactly this layer, for all int8 inputs.

    Pairs of weights, and of what stands for those that are read twice (`_overlapped`), are halfwords.
    """
    return _joins(of) and _recovers(*of.totals) and scaled_exactly(of)


def raised(of: Linear) -> Linear:
    """The layer with the weights a of every pair as bytes without a sign: 128 more, and their offsets 128 less.

    The weights of any pair are a halfword then, and so is what stands for those that are read twice.
    """
    more = np.where(np.arange(len(of.weights)) % 2, 0, 128)
    weights = (of.weights + more[:, None]).astype(np.int16)
    return of._replace(weights=weights, offsets=(of.offset(len(of.weights)) - more).astype(np.int32), raised=True)


def packable_by_lines(of: Linear, lines: int) -> bool:
    """The same for a kernel that recovers the sums of each of so many lines of the window."""
    if of.weights.shape[1] % lines or of.weights.shape[1] // lines < INPUTS:
        return False
    by_line = of.whole.reshape(len(of.weights), lines, -1).swapaxes(0, 1)
    return _joins(of) and all(_recovers(*sums_of(line)) for line in by_line) and scaled_exactly(of)


def _joins(of: Linear) -> bool:
    """Whether all pairs of weights are halfwords."""
    if of.weights.shape[1] < INPUTS:
        return False
    first, second = _halves(np.concatenate([of.weights, -of.offset(len(of.weights))[:, None]], axis=1))
    joined = first + 256 * second
    return bool(joined.min() >= -(1 << 15) and joined.max() < 1 << 15)


def _recovers(least: Int64s, most: Int64s) -> bool:
    """Whether B of every pair is known from W - A = 256 * B, modulo 2^32, for such sums per output."""
    low, high = (_in_blocks(sums)[1::2] for sums in (least, most))
    return bool(low.min() >= -(1 << 23) and high.max() < 1 << 23)


def sums_of(weights: Int64s) -> tuple[Int64s, Int64s]:
    """The least and the greatest sum over inputs of x * weight, per output channel."""
    one, other = weights * X_LOW, weights * X_HIGH
    return np.minimum(one, other).sum(axis=1), np.maximum(one, other).sum(axis=1)


def totals_of(weights: NDArray[np.signedinteger], bias: Int32s) -> tuple[Int64s, Int64s]:
    """The least and the greatest total of all int8 inputs, bias included, per channel of [channel][input]."""
    least, most = sums_of(weights.astype(np.int64))
    return least + bias, most + bias


def scaled_exactly(of: Linear) -> bool:
    """Whether the kernels scale the sums of all int8 inputs exactly."""
    return rounds_exactly(*of.totals, of.multipliers, of.shifts)


def rounded_up(of: Linear, clamp: Clamp, find: Find | None = None) -> Up | None:
    """The constants that round the outputs in one step, as `up` finds them; None where they would not be exact."""
    found = up(*of.totals, of.bias, of.multipliers, of.shifts, clamp, find)
    return found if found is not None and packable(of._replace(bias=found.bias)) else None


def filled(values: NDArray[np.generic], count: int) -> Int64s:
    """`values` with rows of zeros appended, up to `count` rows."""
    rows = np.zeros((count, *values.shape[1:]), np.int64)
    rows[: len(values)] = values
    return rows


def _in_blocks(rows: NDArray[np.generic]) -> Int64s:
    """Rows, one per output, with zeros for those that fill the last block."""
    return filled(rows, -(-len(rows) // OUTPUTS) * OUTPUTS)


def _halves(weights: NDArray[np.signedinteger]) -> tuple[Int64s, Int64s]:
    """The outputs whose weights are the low bytes of halfwords, and those whose weights are the high bytes."""
    rows = _in_blocks(weights)
    return rows[0::2], rows[1::2]


def _overlapped(of: Linear, run: int) -> NDArray[np.signedinteger]:
    """Weights with runs up to a multiple of four: the last group is the run's last four inputs, with weights 0 for
    those that an earlier group already has, less the offset with which the sum of the inputs counts them.
    """
    weights, whole, rest = of.weights, run - run % INPUTS, run % INPUTS
    if not rest:
        return weights
    runs = weights.reshape(len(weights), -1, run)
    overlap = np.zeros((*runs.shape[:2], INPUTS - rest), weights.dtype)
    overlap -= of.offsets.astype(weights.dtype)[:, None, None]
    return np.concatenate([runs[..., :whole], overlap, runs[..., whole:]], axis=2).reshape(len(weights), -1)


def pack(of: Linear, run: int, up: Up | None = None, lines: int | None = None, apart: bool = False) -> Int32s:
    """The words that the kernel reads, for every four outputs: biases, weights, and three words to scale each.

    Behind the biases of a layer that is raised are the offsets of the weights, of the same form.
    The inputs are read in runs of this length. With `up` the kernel rounds that way. For a kernel that computes so many
    `lines` one after the other: the biases of all outputs, then line by line the weights, the scales with the last.
    `apart`: the sums of the outputs of a pair are apart between lines.
    """
    first, second = _halves(_overlapped(of, run))
    halves = (first + 256 * second).astype(np.int16)  # [pair of outputs][input]
    blocks, fours = len(halves) // 2, halves.shape[1] // INPUTS
    by_four = halves.reshape(blocks, 2, fours, INPUTS)[..., _PAIRS]  # [block][pair][four][step][2]
    words = np.ascontiguousarray(by_four.transpose(0, 2, 3, 1, 4)).astype("<i2").view("<i4")
    biases = (of if up is None else up).bias
    sums = _in_blocks(biases) if apart else _joined(biases)
    if of.raised:
        offsets = _joined(of.offsets)
        sums = np.concatenate([sums.reshape(blocks, -1), offsets.reshape(blocks, -1)], axis=1)
    scales = _scales(of) if up is None else _scales_up(up)
    if lines is None:
        return words_by_block(blocks, sums, words, scales)
    *before, last = np.split(words, lines, axis=1)
    return np.concatenate([words_by_block(blocks, *part) for part in ((sums,), *zip(before), (last, scales))])


def pack_words(of: Linear, order: Int64s, up: Up | None = None) -> Int32s:
    """The same where each word has the inputs `order`, [word][2], or -1 for none, in lower and upper half.

    With `up`, one of UP_BYTE, two words scale an output: multiplier and addend.
    """
    first, second = _halves(of.weights)
    halves = np.pad(first + 256 * second, ((0, 0), (0, 1)))[:, order]  # -1: the zero at the end
    words = np.ascontiguousarray(halves.reshape(-1, 2, *order.shape).swapaxes(1, 2)).astype("<i2").view("<i4")
    sums = _joined((of if up is None else up).bias)
    scales = _scales(of) if up is None else _in_blocks(np.stack([up.multiplier, up.addend], axis=1))
    return words_by_block(len(words), sums, words, scales)


def _joined(of: NDArray[np.generic]) -> Int64s:
    """A and W = A + 256 * B of each pair of outputs."""
    pairs = _in_blocks(of).reshape(-1, 2)
    return np.stack([pairs[:, 0], pairs[:, 0] + 256 * pairs[:, 1]], axis=1)


def words_by_block(blocks: int, *parts: NDArray[np.signedinteger]) -> Int32s:
    """For each block its words of every part."""
    return np.concatenate([part.reshape(blocks, -1) for part in parts], axis=1).astype(np.int32).ravel()


def _scales(of: Linear) -> Int64s:
    """Per output: 2^(e-1) + (y_zero << e), the multiplier and e, the shift to the right."""
    shifts = right_shifts(of.multipliers, of.shifts)
    return _in_blocks(np.stack([addends(shifts, of.y_zero), of.multipliers, shifts], axis=1))


def _scales_up(of: Up) -> Int64s:
    """Per output: the shift of its sum, to the right for the second of a pair, which has 2^8 of it."""
    second = np.arange(len(of.left)) % 2
    return _in_blocks(np.stack([np.where(second, 8 - of.left, of.left), of.multiplier, of.addend], axis=1))


def constants_of(contract: Contract, node: Node) -> tuple[NDArray[np.int8], Int32s, Int32s, NDArray[np.int8]]:
    """The weights, biases, multipliers and shifts of a linear op on int8."""
    constants = {name: array_of(value) for name, value in contract.plain(node).items()}
    return (
        cast(NDArray[np.int8], constants["weights"]),
        cast(Int32s, constants["bias"]),
        cast(Int32s, constants["multipliers"]),
        cast(NDArray[np.int8], constants["shifts"]),
    )


@known
def linear(node: Node[LinearOp], contract: Contract) -> Linear:
    """The layer of a convolution of one group, or of a dense layer."""
    weights, bias, multipliers, shifts = constants_of(contract, node)
    rows, offsets = weights.reshape(weights.shape[0], -1), offsets_of(node)
    scales = constant_channels(rows + offsets[:, None], bias, multipliers, shifts)
    return Linear(rows, *scales, node.output.type.quantised.zero_point, offsets)


def constant_channels(
    weights: Int32s, bias: Int32s, multipliers: Int32s, shifts: NDArray[np.int8]
) -> tuple[Int32s, Int32s, NDArray[np.int8]]:
    """The bias, multipliers and shifts of [channel][input], those without weights replaced by some for all kernels.

    The output of such a channel is always the same, but its scale may be one that no kernel's rounding covers.
    """
    constant = (weights == 0).all(axis=1)
    values = np.clip(rescale(bias.astype(np.int64), multipliers.astype(np.int64), shifts.astype(np.int64)), -512, 511)
    return (  # 4 * value * 2^30 >> 31 >> 1
        np.where(constant, 4 * values, bias).astype(np.int32),
        np.where(constant, 1 << 30, multipliers).astype(np.int32),
        np.where(constant, -1, shifts).astype(np.int8),
    )


@known
def is_raised(node: Node[LinearOp], contract: Contract) -> bool:
    """Whether the kernels for weights with offsets compute the layer, and not those for weights as they are."""
    of = linear(node, contract)
    return bool(of.offsets.any()) or not _joins(of)


@known
def packed_form(node: Node[LinearOp], contract: Contract) -> Linear:
    """The layer of a convolution of one group, or a dense layer, as the kernels have it that compute it."""
    of = linear(node, contract)
    return raised(of) if is_raised(node, contract) else of


@known
def is_packable(node: Node[LinearOp], contract: Contract) -> bool:
    """Whether one of these kernels computes exactly this convolution of one group, or dense layer."""
    return packable(packed_form(node, contract))


def turns_of(run: int) -> int:
    """Turns of the inner loop for a run: two groups of four inputs, or one at the start, or the overlapping one."""
    return (run // INPUTS + 1) // 2 + (run % INPUTS > 0)


def clamped(node: Node[LinearOp | Binary | Pool2d]) -> int:
    """The outputs of a row that the kernel clamps in a loop of their own."""
    clamp = node.op.clamp
    return node.output.type.row_elements * ((clamp.low, clamp.high) != (X_LOW, X_HIGH))
