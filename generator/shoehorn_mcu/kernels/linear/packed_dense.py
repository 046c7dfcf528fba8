"""Dense layers for Armv6 SIMD: `dense_s8_simd32.inc`."""

from __future__ import annotations

from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels.base.contract import Tile, Value, Variant, all_in_weights
from shoehorn_mcu.kernels.base.packed import (
    INPUTS,
    OUTPUTS,
    clamped,
    is_packable,
    is_raised,
    pack,
    packed_form,
    turns_of,
)
from shoehorn_mcu.kernels.base.work import Work
from shoehorn_mcu.kernels.linear.conv import DENSE
from shoehorn_mcu.kernels.linear.offsets import with_twin
from shoehorn_mcu.machine.targets import Isa
from shoehorn_mcu.ops import Dense


def _accepts(node: Node[Dense]) -> bool:
    return is_packable(node, DENSE)


def _pack(node: Node[Dense], tile: Tile) -> dict[str, Value]:
    return all_in_weights(pack(packed_form(node, DENSE), node.weights.type.shape[1]))


def _work(node: Node[Dense], tile: Tile) -> Work:
    """Counts of the loops over vectors, blocks of four outputs and groups of four inputs."""
    positions = node.output.type.nhwc[2]
    outputs, inputs = node.weights.type.shape
    blocks = positions * -(-outputs // OUTPUTS)
    return Work(
        singles=positions,
        single_blocks=blocks,
        single_fours=blocks * -(-inputs // INPUTS),
        turns=blocks * turns_of(inputs),
        overlaps=blocks * (inputs % INPUTS > 0),
        clamped=clamped(node),
    )


_SIMD32 = Variant(DENSE, _work, suffix="simd32", isa=Isa.SIMD32, accepts=_accepts, pack=_pack)

VARIANTS = with_twin(_SIMD32, lambda node: is_raised(node, DENSE))
