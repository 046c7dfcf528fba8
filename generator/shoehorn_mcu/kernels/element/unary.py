"""Kernels of the ops of one operand, element by element: tables, and float32 at the model's ends."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.ir import DType, Node
from shoehorn_mcu.kernels.base.contract import Contract, Tile, Value, Variant, portable
from shoehorn_mcu.kernels.base.halving import first_true
from shoehorn_mcu.kernels.base.operands import are, element_by_element, in_runs
from shoehorn_mcu.kernels.base.work import Work, elements
from shoehorn_mcu.machine.targets import Isa
from shoehorn_mcu.ops import Dequantize, Quantize, Unary

_LEAST = 2.0**-100
"""Scales between this and its inverse have an inverse that is a normal number of float32."""

_UNSURE = 2.0**-14
"""Of numbers up to 256, a product with the inverse of a scale is less than so far from the quotient.

Inverse, product and quotient are each rounded once, by at most 2^-24 of their value; 3 * 2^-24 * 256 is less than this.
"""

_INFINITE = 0xFF800000
"""Where infinity is among all numbers of float32, from -NaN on."""

_EIGHT_BITS = (DType.INT8, DType.UINT8)


def _maps_8(node: Node[Unary]) -> bool:
    return all(t.type.dtype in _EIGHT_BITS for t in (*node.inputs, node.output))


def _lut_8(node: Node[Unary]) -> dict[str, Value]:
    table = node.op.table(node.sig)
    low, _ = node.x.type.dtype.limits
    # The table starts at the lowest stored value; the kernel's index is the stored byte, read as unsigned.
    by_byte = np.roll(table.view(np.uint8), low)
    return {**in_runs(node), "table": by_byte}


def _quantizes(node: Node[Quantize]) -> bool:
    return are(DType.FLOAT32, *node.inputs) and node.output.type.dtype in _EIGHT_BITS


def _quantize(node: Node[Quantize]) -> dict[str, Value]:
    quant = node.output.type.quantised
    low, high = node.output.type.dtype.limits
    return {
        **in_runs(node),
        "scale": quant.scale,
        "inverse": float(np.float32(1) / np.float32(quant.scale)),
        "unsure": _UNSURE if _LEAST < quant.scale < 1 / _LEAST else 1.0,
        "zero": quant.zero_point,
        "y_min": low,
        "y_max": high,
    }


def _no_steps(node: Node[Quantize]) -> dict[str, Value]:
    return {"steps": None}


def _steps(node: Node[Quantize], tile: Tile) -> dict[str, Value]:
    """By value of y, from the second on, the least float32 that becomes it or more, by its place among all numbers.

    They are searched from -infinity to infinity, which becomes the greatest value.
    """
    least, most = node.output.type.dtype.limits
    values = np.arange(least, most + 1)
    ends = (np.full(len(values), place) for place in (2**32 - 1 - _INFINITE, _INFINITE))

    def reached(places: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.greater_equal(node.op.reference([_number_at(places)], node.sig), values)

    return {"steps": first_true(reached, *ends).astype(np.uint32)}


def _number_at(places: NDArray[np.int64]) -> NDArray[np.float32]:
    """The numbers at these places in the order of float32, of which -NaN are the first ones."""
    below = places < 2**31
    bits = np.where(below, 2**32 - 1 - places, places - 2**31)
    return bits.astype(np.uint32).view(np.float32)


def _dequantizes(node: Node[Dequantize]) -> bool:
    return node.x.type.dtype in _EIGHT_BITS and are(DType.FLOAT32, node.output)


def _dequantize(node: Node[Dequantize]) -> dict[str, Value]:
    x = node.x.type
    low, _ = x.dtype.limits
    return {
        **in_runs(node),
        "scale": x.quantised.scale,
        "zero": x.quantised.zero_point - low,
        "flip": -low,
    }


def _narrows(node: Node[Quantize]) -> bool:
    return are(DType.FLOAT32, *node.inputs) and are(DType.FLOAT16, node.output)


def _widens(node: Node[Dequantize]) -> bool:
    return are(DType.FLOAT16, *node.inputs) and are(DType.FLOAT32, node.output)


def _work(node: Node) -> Work:
    return elements(1, node.output.type.row_elements)


def _each(node: Node, tile: Tile) -> Work:
    """The run, and its elements."""
    return Work(pixels=1, outputs=node.output.type.row_elements)


def _sixteens(node: Node, tile: Tile) -> Work:
    """Vectors of sixteen elements, and elements that are left."""
    vectors, left = divmod(node.output.type.row_elements, 16)
    return Work(vectors=vectors, outputs=left)


def _eights(node: Node, tile: Tile) -> Work:
    """The run, vectors of eight elements in it, and elements that are left."""
    vectors, left = divmod(node.output.type.row_elements, 8)
    return Work(pixels=1, vectors=vectors, outputs=left)


def _fours(node: Node, tile: Tile) -> Work:
    """The run, groups of four elements in it, and elements that are left."""
    fours, left = divmod(node.output.type.row_elements, 4)
    return Work(pixels=1, fours=fours, rests=left > 0, outputs=left)


def _vectors(node: Node, size: int) -> Work:
    """The run, and vectors of so many elements in it, the last of them partly."""
    return Work(pixels=1, vectors=-(-node.output.type.row_elements // size))


LUT = Contract("lut_8", (Unary,), _lut_8, accepts=_maps_8, spaced=in_runs, in_runs=True)
QUANTIZE = Contract(
    "quantize_f32_8", (Quantize,), _quantize, _no_steps, accepts=_quantizes, spaced=in_runs, in_runs=True
)
DEQUANTIZE = Contract(
    "dequantize_8_f32", (Dequantize,), _dequantize, accepts=_dequantizes, spaced=in_runs, in_runs=True
)
NARROW = Contract("quantize_f32_f16", (Quantize,), in_runs, accepts=_narrows, spaced=in_runs, in_runs=True)
WIDEN = Contract("dequantize_f16_f32", (Dequantize,), in_runs, accepts=_widens, spaced=in_runs, in_runs=True)

VARIANTS = (
    portable(LUT, _work, element_by_element),
    Variant(LUT, _fours, suffix="unrolled", in_place=element_by_element),
    Variant(LUT, _sixteens, suffix="neon", isa=Isa.NEON, in_place=element_by_element),
    Variant(LUT, lambda node, _: _vectors(node, 16), suffix="mve", isa=Isa.MVE, in_place=element_by_element),
    portable(QUANTIZE, _work, element_by_element),
    Variant(QUANTIZE, _each, suffix="steps", pack=_steps, in_place=element_by_element),
    Variant(QUANTIZE, _eights, suffix="neon", isa=Isa.VECTORS, in_place=element_by_element),
    Variant(QUANTIZE, lambda node, _: _vectors(node, 4), suffix="mve", isa=Isa.MVE, in_place=element_by_element),
    portable(DEQUANTIZE, _work),
    portable(NARROW, _work, element_by_element),
    portable(WIDEN, _work),
)
