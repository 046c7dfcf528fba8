"""Kernels of the resizes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from shoehorn_mcu.ir import Array, Node
from shoehorn_mcu.kernels.base.contract import Contract, Tile, Value, Variant, array_of, portable, y_step
from shoehorn_mcu.kernels.base.operands import all_s8, byte_step, element_bytes, same_dtype
from shoehorn_mcu.kernels.base.work import Work, moved
from shoehorn_mcu.machine.targets import Isa
from shoehorn_mcu.ops import ResizeBilinear, ResizeNearest
from shoehorn_mcu.ops.resize import BilinearTaps, bilinear_taps, nearest_taps

CHANNELS, VECTOR = 4, 8
"""Channels that kernels compute at once, the fewest that they compute: for Armv6 SIMD, a word, and for NEON."""

COARSE = 8
"""The product of two weights that are multiples of this many 1024ths fits 16 bits, as a multiple of 2^-14."""


def _nearest(node: Node[ResizeNearest]) -> dict[str, Value]:
    _, _, in_width, channels = node.x.type.nhwc
    out_width, size = node.output.type.nhwc[2], channels * element_bytes(node)
    return {
        "out_width": out_width,
        "pixel_bytes": size,
        "y_step": size,
        "columns": nearest_taps(node.op, in_width, out_width).astype(np.int16),
    }


def _weights(taps: BilinearTaps) -> Array:
    """The weight of the upper neighbour; 0 if both are one element, where it has no effect and may not fit 16 bits."""
    return np.where(taps.lower == taps.upper, 0, taps.weight).astype(np.int16)


def _bilinear(node: Node[ResizeBilinear]) -> dict[str, Value]:
    _, in_height, in_width, channels = node.x.type.nhwc
    _, out_height, out_width, _ = node.output.type.nhwc
    down = bilinear_taps(node.op, in_height, out_height)
    across = bilinear_taps(node.op, in_width, out_width)
    return {
        "channels": channels,
        "out_height": out_height,
        "out_width": out_width,
        "y_step": channels,
        "row_weights": _weights(down),
        "column_weights": _weights(across),
        "left": across.lower.astype(np.int16),
        "right": across.upper.astype(np.int16),
    }


def _nearest_work(node: Node[ResizeNearest]) -> Work:
    op, x, y = node.op, node.x.type, node.output.type
    width, size = y.nhwc[2], y.nhwc[3] * element_bytes(node)
    rows = np.array([op.rows(row, node.sig)[0][0] for row in range(y.rows)], np.int64)
    source = nearest_taps(op, x.nhwc[2], width).astype(np.int64) * size + rows[:, None] * x.row_bytes
    to = np.arange(width) * size + np.arange(y.rows)[:, None] * y.row_bytes
    return Work(pixels=width) + moved(to, source, size, y.rows)


def _is_coarse(node: Node[ResizeBilinear]) -> bool:
    """Whether all weights are multiples of COARSE."""
    found = _bilinear(node)
    weights = [array_of(found[f"{name}_weights"]) for name in ("row", "column")]
    return all(each is not None and not (each.astype(np.int64) % COARSE).any() for each in weights)


def _has_channels(least: int) -> Callable[[Node[ResizeBilinear]], bool]:
    return lambda node: node.output.type.nhwc[3] >= least and _is_coarse(node)


def _at_once(groups: str, channels: int) -> Callable[[Node[ResizeBilinear], Tile], Work]:
    """Pixels, and `groups` of so many channels."""

    def work(node: Node[ResizeBilinear], tile: Tile) -> Work:
        pixels = node.output.type.nhwc[2]
        return Work(**{"pixels": pixels, groups: pixels * -(-node.output.type.nhwc[3] // channels)})

    return work


NEAREST = Contract("resize_nearest", (ResizeNearest,), _nearest, accepts=same_dtype, spaced=byte_step)
BILINEAR = Contract("resize_bilinear_s8", (ResizeBilinear,), _bilinear, accepts=all_s8, takes_row=True, spaced=y_step)

VARIANTS = (
    portable(NEAREST, _nearest_work),
    portable(BILINEAR, lambda node: Work(pixels=node.output.type.nhwc[2], outputs=node.output.type.row_elements)),
    Variant(BILINEAR, _at_once("fours", CHANNELS), suffix="simd32", isa=Isa.SIMD32, accepts=_has_channels(CHANNELS)),
    Variant(BILINEAR, _at_once("eights", VECTOR), suffix="neon", isa=Isa.NEON, accepts=_has_channels(VECTOR)),
    Variant(BILINEAR, _at_once("fours", CHANNELS), suffix="mve", isa=Isa.MVE, accepts=_is_coarse),
)
