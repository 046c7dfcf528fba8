"""Packed kernels for Armv6 SIMD with their twins, for layers whose weights have offsets or no pairs in a halfword."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from shoehorn_mcu.kernels.base.contract import Tile, Variant
from shoehorn_mcu.kernels.base.operands import OFFSETS
from shoehorn_mcu.kernels.base.packed import is_raised
from shoehorn_mcu.kernels.linear.offsets import with_offsets
from shoehorn_mcu.ops import Conv2d, Dense

LayerT = TypeVar("LayerT", Conv2d, Dense)


def with_raised(variant: Variant[LayerT], *fewer: Tile) -> tuple[Variant[LayerT], Variant[LayerT]]:
    """The variant, for layers that are packed as they are, and its twin, for those that are `raised` (base/packed.py).

    The twin has the tiles of the variant without `fewer`.
    """
    contract, accepts = variant.contract, variant.accepts
    plain = replace(variant, accepts=lambda node: not is_raised(node, contract) and accepts(node))
    other = replace(variant, accepts=lambda node: is_raised(node, contract) and accepts(node))
    return plain, replace(with_offsets(other, *fewer), kinds=("", OFFSETS))
