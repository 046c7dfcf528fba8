"""Sums of two int8 operands as a plane in fixed point (`sh_plane.h`).

    y = clamp((start + ((a * a_slope) >> 8) + ((b * b_slope) >> 8)) >> BITS)

Two products of 32 and 16 bits, and one instruction that shifts and saturates, in place of two tables and a product of
64 bits. A plane is near to the op, which rounds three times, twice in steps of 2^-20 of twice the larger scale. It is
the op where none of the 65,536 sums falls to the other side of a half: all of them are tried.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

from shoehorn_mcu.ir import Array, Ints, Node
from shoehorn_mcu.kernels.base.contract import Tile, Value
from shoehorn_mcu.kernels.base.known import known
from shoehorn_mcu.kernels.element.channel_tables import BYTES
from shoehorn_mcu.ops.elementwise import Addition

BITS = 20
"""Fraction bits of a sum, `SH_PLANE_BITS`: values below 2,048, before they are clamped, fit 32 bits with them."""

WORDS = -(1 << 31), (1 << 31) - 1

_DROPPED = 8  # fraction bits of a product that are dropped
_NEAR = 0, 90, -90, 210, -210, 400, -400  # of the exact slopes, which are tried


class Plane(NamedTuple):
    """The constants of the kernels; both slopes are even."""

    a_slope: int
    b_slope: int
    start: int


def bounds(node: Node[Addition], values: Array) -> tuple[Ints, Ints]:
    """The least and the largest sum, with BITS fraction bits, for each value of the op's output.

    At a bound of the clamp the sum may be any further.
    """
    wide = values.astype(np.int64)
    least = np.where(wide > node.op.clamp.low, wide << BITS, WORDS[0])
    return least, np.where(wide < node.op.clamp.high, (wide + 1 << BITS) - 1, WORDS[1])


@known
def plane(node: Node[Addition]) -> Plane | None:
    """The op as a plane; None where none was found that gives every sum within 32 bits.

    So do the start and either term on it, which are the sums of zeros, and of a byte and a zero.
    """
    y = node.output.type.quantised
    kinds = [tensor.type.quantised for tensor in node.inputs]
    slopes = [sign * kind.scale / y.scale for kind, sign in zip(kinds, (1, node.op.sign), strict=True)]
    exact = [2 * round(slope * (1 << (BITS + _DROPPED - 1))) for slope in slopes]
    if max(map(abs, exact)) + max(_NEAR) > WORDS[1]:
        return None
    least, most = bounds(node, node.op.reference((BYTES[:, None], BYTES[None, :]), node.sig))
    for near in product(_NEAR, repeat=2):
        a_slope, b_slope = (slope + each for slope, each in zip(exact, near, strict=True))
        moved = (BYTES * a_slope >> _DROPPED)[:, None] + (BYTES * b_slope >> _DROPPED)[None, :]
        first, last = int((least - moved).max()), int((most - moved).min())
        if first <= last:
            return Plane(a_slope, b_slope, (first + last) // 2)
    return None


def is_exact(node: Node[Addition]) -> bool:
    """Whether a plane gives every sum."""
    return plane(node) is not None


def pack(node: Node[Addition], tile: Tile) -> dict[str, Value]:
    """Both slopes, and the start."""
    found = plane(node)
    assert found is not None
    return {"tables": np.array(found, np.int32)}
