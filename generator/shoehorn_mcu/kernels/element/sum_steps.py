"""Sums of two int8 operands without a long product, for cores that have none (`add_s8_thumb.inc`).

Both a value of the output and a guess from a short product grow with the sum of the two terms. So it is enough to look
at the first and at the last sum of each value: where the guess is the value there or one less, it is for all sums, and
a comparison with the least sum of the next value decides.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels.base.contract import Tile, Value
from shoehorn_mcu.kernels.base.halving import first_true
from shoehorn_mcu.kernels.base.known import known
from shoehorn_mcu.ops.elementwise import Addition, add_params
from shoehorn_mcu.ops.fixed_point import Scale, rescale

_NONE = np.iinfo(np.int32).max
_WIDE, _HALF = 31, 16  # bits of a sum in the tables, without its sign; bits that the guess drops, twice
_BYTES = range(-128, 128)


class Steps(NamedTuple):
    """The value of a sum is guessed as ((scaled >> 16) * factor) >> 16, where scaled = (sum << more) + addend."""

    more: int
    addend: int
    factor: int
    next: NDArray[np.int64]  # by value + 128: the least scaled sum of a greater one; _NONE where there is none

    def scaled(self, sums: NDArray[np.int64]) -> NDArray[np.int64]:
        return (sums << self.more) + self.addend

    def guess(self, sums: NDArray[np.int64]) -> NDArray[np.int64]:
        guessed: NDArray[np.int64] = ((self.scaled(sums) >> _HALF) * self.factor) >> _HALF
        return guessed.clip(_BYTES.start, _BYTES.stop - 1)


def terms(node: Node[Addition]) -> NDArray[np.int64]:
    """The term of each byte: [operand][byte + 128], b's with its sign."""
    left_shift, *scales, _ = add_params(node.sig)
    bytes_ = np.array(_BYTES, np.int64)
    zeros = [tensor.type.quantised.zero_point for tensor in node.inputs]
    rows = zip(zeros, scales, (1, node.op.sign), strict=True)
    return np.stack([sign * rescale((bytes_ - zero) << left_shift, *scale) for zero, scale, sign in rows])


@known
def steps(node: Node[Addition]) -> Steps | None:
    """How the kernel finds each value; None where it does not find every one, or values are clamped."""
    if (node.op.clamp.low, node.op.clamp.high) != (_BYTES.start, _BYTES.stop - 1):
        return None
    each = terms(node)
    least, most = int(each.min(axis=1).sum()), int(each.max(axis=1).sum())
    scale, zero = add_params(node.sig).y, node.output.type.quantised.zero_point
    per_sum = scale.multiplier / 2**31 * 2.0**scale.shift
    if per_sum == 0:  # every sum is less than any step of the output
        return None
    addend = round(zero / per_sum)
    more = _WIDE - max(abs(least) + abs(addend), abs(most) + abs(addend)).bit_length()
    if more < 0:
        return None
    first = _first(np.array(_BYTES, np.int64) - zero, least, most, scale)
    last = np.append(first[1:], most + 1) - 1
    found = Steps(more, addend << more, round(per_sum * 2 ** (2 * _HALF - more)), np.full(len(_BYTES), _NONE))
    found.next[:-1] = np.where(first[1:] > most, _NONE, found.scaled(first[1:]))
    occurs, values = first <= last, np.array(_BYTES)
    near = (found.guess(first) >= values - 1) & (found.guess(last) <= values)
    return found if near[occurs].all() and found.factor < 1 << (_HALF - 1) else None


def _first(values: NDArray[np.int64], least: int, most: int, scale: Scale) -> NDArray[np.int64]:
    """The least sum that is scaled to each of these or more; most + 1 where there is none.

    All sums are at least the first value, to which they are clamped.
    """
    high = np.full(len(values), most + 1)
    high[0] = least
    return first_true(lambda sums: rescale(sums, *scale) >= values, np.full(len(values), least), high)


def is_exact(node: Node[Addition]) -> bool:
    """Whether the kernel finds every value."""
    return steps(node) is not None


def pack(node: Node[Addition], tile: Tile) -> dict[str, Value]:
    """The factor, the scaled terms of both operands by unsigned byte, and the steps."""
    found = steps(node)
    assert found is not None
    a, b = np.roll(terms(node), 128, axis=1)
    parts = [found.factor], found.scaled(a), b << found.more, found.next
    return {"tables": np.concatenate(parts).astype(np.int32)}
