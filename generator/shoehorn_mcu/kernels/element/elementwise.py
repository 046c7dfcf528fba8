"""Kernels of the ops of two operands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.ir import Node, OpT
from shoehorn_mcu.kernels.base.contract import Contract, Tile, Value, Values, Variant, portable
from shoehorn_mcu.kernels.base.operands import all_s8, bounded, broadcast, element_by_element, runs
from shoehorn_mcu.kernels.base.packed import clamped
from shoehorn_mcu.kernels.base.rounding import rounds_exactly
from shoehorn_mcu.kernels.base.work import Work
from shoehorn_mcu.kernels.element import channel_tables, lines, plane, sum_steps
from shoehorn_mcu.machine.targets import Isa
from shoehorn_mcu.ops import Add, Binary, Maximum, Minimum, Mul, Prelu, Sub
from shoehorn_mcu.ops.elementwise import Addition, add_params, mul_scale, prelu_scales
from shoehorn_mcu.ops.fixed_point import Scale


def binary(node: Node[Binary]) -> dict[str, Value]:
    """Struct members common to all binary ops."""
    return {**broadcast(node, ("a", "b")), **bounded(node.op.clamp)}


def binary_apart(node: Node, step: int) -> Values:
    """`Contract.spaced` of the binary ops."""
    return broadcast(node, ("a", "b"), step)


def _zeros(node: Node, *operands: str) -> dict[str, Value]:
    named = zip((*operands, "y"), (*node.inputs, node.output), strict=True)
    return {f"{name}_zero": tensor.type.quantised.zero_point for name, tensor in named}


def _scaled(**scales: Scale) -> dict[str, Value]:
    return {f"{of}_{name}": value for of, scale in scales.items() for name, value in scale._asdict().items()}


def _add(node: Node[Addition]) -> dict[str, Value]:
    left_shift, a, b, y = add_params(node.sig)
    return {
        **binary(node),
        **_zeros(node, "a", "b"),
        "b_sign": node.op.sign,
        "left_shift": left_shift,
        **_scaled(a=a, b=b, y=y),
    }


def _no_tables(node: Node) -> dict[str, Value]:
    return {"tables": None}


def _terms(node: Node[Addition]) -> NDArray[np.int64]:
    """Twice the term of each byte: [operand][byte + 128], b's with its sign."""
    return 2 * sum_steps.terms(node)


def _summed_exactly(node: Node[Addition]) -> bool:
    """Whether the sum by tables and its rounding stay within 32 bits for all operands, and it is shifted right."""
    multiplier, shift = add_params(node.sig).y
    if shift >= 0:
        return False
    largest = int(np.abs(_terms(node)).max(axis=1).sum())
    scaled = (largest * multiplier >> 32) + 1
    return largest < 1 << 31 and scaled + (129 << -shift) < 1 << 31


def _tables(node: Node[Addition], tile: Tile) -> dict[str, Value]:
    return {"tables": _terms(node).astype(np.int32).ravel()}


def side_by_side(node: Node) -> bool:
    """Whether neither operand repeats within a run."""
    return all(per_channel == 1 for _, per_channel in runs(node).steps)


def _summed_by_vectors(node: Node[Addition]) -> bool:
    return side_by_side(node) and _summed_exactly(node)


def _scaled_by_vectors(node: Node[Addition]) -> bool:
    """Whether neither operand repeats within a run, and no scale is shifted to the left.

    A term has at most 29 bits then: 9 of the byte, and left_shift.
    """
    left_shift, *scales = add_params(node.sig)
    return left_shift <= 20 and all(scale.shift <= 0 for scale in scales) and side_by_side(node)


def _summed_by_steps(node: Node[Addition]) -> bool:
    return side_by_side(node) and sum_steps.is_exact(node)


def _summed_as_plane(node: Node[Addition]) -> bool:
    return side_by_side(node) and plane.is_exact(node)


def _by_steps(node: Node[Addition], tile: Tile) -> Work:
    """Runs, and elements."""
    return Work(pixels=runs(node).width, outputs=node.output.type.row_elements)


def _unsigned_tables(node: Node[Addition], tile: Tile) -> dict[str, Value]:
    return {"tables": np.roll(_terms(node), 128, axis=1).astype(np.int32).ravel()}


def _fours(node: Node, tile: Tile) -> Work:
    """Runs, those with groups of four elements, these groups, elements that are left."""
    of = runs(node)
    fours, left = divmod(of.channels, 4)
    return Work(
        pixels=of.width,
        loops4=of.width * (fours > 0),
        fours=of.width * fours,
        rests=of.width * (left > 0),
        outputs=of.width * left,
    )


def _unrolled(node: Node[Binary], tile: Tile) -> Work:
    """The same, and rows that are clamped with their elements."""
    limited = clamped(node)
    return _fours(node, tile) + Work(clampings=limited > 0, clamped=limited)


def _vectors(size: int) -> Callable[[Node, Tile], Work]:
    """Runs, and vectors of so many elements in them, the last of them partly."""

    def work(node: Node, tile: Tile) -> Work:
        of = runs(node)
        return Work(pixels=of.width, vectors=of.width * -(-of.channels // size))

    return work


def _channels(count: int) -> Callable[[Node, Tile], Work]:
    """Groups of `count` channels, and the columns in them; a group of fewer, and the columns in it."""

    def work(node: Node, tile: Tile) -> Work:
        of = runs(node)
        groups, rest = divmod(of.channels, count)
        return Work(blocks=groups, pixels=groups * of.width, rests=rest > 0, outputs=(rest > 0) * of.width)

    return work


def _sixteens(node: Node, tile: Tile) -> Work:
    """Runs, and vectors of sixteen elements in them, the last of which may overlap the one before it; of shorter runs
    the elements, which are copied.
    """
    of = runs(node)
    short = of.channels < 16
    return Work(
        pixels=of.width,
        vectors=of.width * -(-of.channels // 16),
        rests=of.width * short,
        outputs=of.width * short * of.channels,
    )


def eights(node: Node, tile: Tile) -> Work:
    """Runs, two vectors of four elements in them, and elements that are left."""
    of = runs(node)
    pairs, left = divmod(of.channels, 8)
    return Work(pixels=of.width, vectors=of.width * pairs, outputs=of.width * left)


def _mul(node: Node[Mul]) -> dict[str, Value]:
    return {**binary(node), **_zeros(node, "a", "b"), **mul_scale(node.sig)._asdict()}


def _multiplied_by_vectors(node: Node[Mul]) -> bool:
    """Whether neither operand repeats within a run, and the kernel for Armv6 SIMD rounds every product exactly."""
    factors = [np.array([-128, 127]) - tensor.type.quantised.zero_point for tensor in node.inputs]
    products = np.multiply.outer(*factors)
    multiplier, shift = mul_scale(node.sig)
    least, most = (np.array([each]) for each in (products.min(), products.max()))
    return side_by_side(node) and rounds_exactly(least, most, np.array([multiplier]), np.array([shift]))


def _multiplied_by_sixteens(node: Node[Mul]) -> bool:
    """Whether neither operand repeats within a run, and the scale is not shifted to the left."""
    return side_by_side(node) and mul_scale(node.sig).shift <= 0


def _prelu_runs(node: Node[Prelu], step: int | None = None) -> dict[str, Value]:
    # x has the shape of y, so only alpha's steps matter.
    placed = broadcast(node, ("x", "alpha"), step)
    return {member: value for member, value in placed.items() if not member.startswith("x_")}


def _prelu(node: Node[Prelu]) -> dict[str, Value]:
    positive, negative = prelu_scales(node.sig)
    return {
        **_prelu_runs(node),
        **_zeros(node, "x", "alpha"),
        **_scaled(positive=positive, negative=negative),
    }


def binary_work(node: Node) -> Work:
    """Elements, and the inner loops that they are in."""
    return Work(pixels=runs(node).width, outputs=node.output.type.row_elements)


def _add_work(node: Node[Addition]) -> Work:
    _, *scales = add_params(node.sig)
    shifted = sum(scale.shift < 0 for scale in scales)
    return binary_work(node) + Work(right_shifts=shifted * node.output.type.row_elements)


def _mul_work(node: Node[Mul]) -> Work:
    return binary_work(node) + Work(right_shifts=(mul_scale(node.sig).shift < 0) * node.output.type.row_elements)


def _prelu_work(node: Node[Prelu]) -> Work:
    # The sign of each element decides which of the two scales is used; half of each is assumed.
    shifted = sum(scale.shift < 0 for scale in prelu_scales(node.sig)) / 2
    return binary_work(node) + Work(right_shifts=shifted * node.output.type.row_elements)


ADD = Contract("add_s8", (Add, Sub), _add, _no_tables, accepts=all_s8, spaced=binary_apart, in_runs=True)
MUL = Contract("mul_s8", (Mul,), _mul, _no_tables, accepts=all_s8, spaced=binary_apart, in_runs=True)
MAXIMUM = Contract("maximum_s8", (Maximum,), binary, accepts=all_s8, spaced=binary_apart, in_runs=True)
MINIMUM = Contract("minimum_s8", (Minimum,), binary, accepts=all_s8, spaced=binary_apart, in_runs=True)
PRELU = Contract("prelu_s8", (Prelu,), _prelu, _no_tables, accepts=all_s8, spaced=_prelu_runs, in_runs=True)


def _by_channel(contract: Contract[OpT]) -> tuple[Variant[OpT], Variant[OpT]]:
    fits, pack = channel_tables.fits, channel_tables.pack
    return (
        Variant(contract, _fours, suffix="channels", accepts=fits, pack=pack),
        Variant(contract, _vectors(8), suffix="channels_mve", isa=Isa.MVE, accepts=fits, pack=pack),
    )


VARIANTS = tuple(
    replace(variant, in_place=element_by_element)
    for variant in (
        portable(ADD, _add_work),
        Variant(ADD, lambda node, _: binary_work(node), suffix="tables", accepts=_summed_exactly, pack=_tables),
        Variant(ADD, _by_steps, suffix="thumb", isa=Isa.THUMB, accepts=_summed_by_steps, pack=sum_steps.pack),
        Variant(ADD, _unrolled, suffix="simd32", isa=Isa.SIMD32, accepts=_summed_by_vectors, pack=_tables),
        Variant(ADD, _vectors(4), suffix="mve", isa=Isa.MVE, accepts=_summed_by_vectors, pack=_unsigned_tables),
        Variant(ADD, _sixteens, suffix="neon", isa=Isa.NEON, accepts=_scaled_by_vectors),
        Variant(ADD, lambda node, _: binary_work(node), suffix="plane", accepts=_summed_as_plane, pack=plane.pack),
        Variant(ADD, _unrolled, suffix="plane_simd32", isa=Isa.SIMD32, accepts=_summed_as_plane, pack=plane.pack),
        Variant(ADD, _vectors(4), suffix="plane_mve", isa=Isa.MVE, accepts=_summed_as_plane, pack=plane.pack),
        Variant(ADD, _sixteens, suffix="plane_neon", isa=Isa.NEON, accepts=_summed_as_plane, pack=plane.pack),
        Variant(ADD, _channels(1), suffix="lines", accepts=lines.are_exact, pack=lines.pack),
        Variant(
            ADD,
            _channels(lines.LANES),
            suffix="lines_mve",
            isa=Isa.MVE,
            accepts=lines.are_exact,
            pack=lines.pack_lanes,
        ),
        portable(MUL, _mul_work),
        Variant(MUL, _unrolled, suffix="simd32", isa=Isa.SIMD32, accepts=_multiplied_by_vectors),
        Variant(MUL, _sixteens, suffix="neon", isa=Isa.NEON, accepts=_multiplied_by_sixteens),
        Variant(MUL, _vectors(4), suffix="mve", isa=Isa.MVE, accepts=_multiplied_by_vectors),
        portable(MAXIMUM, binary_work),
        portable(MINIMUM, binary_work),
        Variant(MAXIMUM, _vectors(16), suffix="mve", isa=Isa.MVE, accepts=side_by_side),
        Variant(MINIMUM, _vectors(16), suffix="mve", isa=Isa.MVE, accepts=side_by_side),
        Variant(MAXIMUM, _sixteens, suffix="neon", isa=Isa.NEON, accepts=side_by_side),
        Variant(MINIMUM, _sixteens, suffix="neon", isa=Isa.NEON, accepts=side_by_side),
        Variant(MAXIMUM, _unrolled, suffix="simd32", isa=Isa.SIMD32, accepts=side_by_side),
        Variant(MINIMUM, _unrolled, suffix="simd32", isa=Isa.SIMD32, accepts=side_by_side),
        portable(PRELU, _prelu_work),
        *_by_channel(ADD),
        *_by_channel(MUL),
        *_by_channel(PRELU),
    )
)
