"""Kernels of convolutions in parts: sums in int32, and their requantisation to int8."""

from __future__ import annotations

import numpy as np

from shoehorn_mcu.ir import DType, Node, Tensor
from shoehorn_mcu.kernels.base.contract import Contract, Tile, Value, Variant, portable
from shoehorn_mcu.kernels.base.operands import are, bounded, data
from shoehorn_mcu.kernels.base.work import Work, by_fours
from shoehorn_mcu.kernels.linear.conv import window_work
from shoehorn_mcu.machine.targets import Isa
from shoehorn_mcu.ops import FirstPartial, NextPartial, Partial, Rescale


def _start(node: Node[Partial]) -> Tensor:
    """The operand that the sums begin with."""
    return node.inputs[node.op.start_place]


def _adds_up(node: Node[Partial]) -> bool:
    start = _start(node)
    constant = node.weights.data is not None and (start.data is not None or node.op.goes_on)
    return constant and are(DType.INT8, node.x, node.weights) and are(DType.INT32, start, node.output)


def _partial(node: Node[Partial]) -> dict[str, Value]:
    op, x = node.op, node.x
    out_channels, kernel_height, kernel_width, in_channels = node.weights.type.shape
    return {
        "in_width": x.type.nhwc[2],
        "in_channels": in_channels,
        "out_width": node.output.type.nhwc[2],
        "out_channels": out_channels,
        "kernel_height": kernel_height,
        "kernel_width": kernel_width,
        "stride": op.stride[1],
        "dilation": op.dilation[1],
        "pad_left": op.padding.left,
        "x_zero": x.type.quantised.zero_point,
    }


def _constants(node: Node[Partial]) -> dict[str, Value]:
    return {"weights": data(node.weights), "start": None if node.op.goes_on else data(_start(node))}


def _partial_by_fours(node: Node[Partial], tile: Tile) -> Work:
    return window_work(node, sums=by_fours)


def _in_sums(node: Node[Partial]) -> int | None:
    """The operand with the sums so far, which the next sums may overwrite."""
    return node.op.start_place if node.op.goes_on else None


def _rescales(node: Node[Rescale]) -> bool:
    total, multipliers, shifts = node.inputs
    summed = are(DType.INT32, total) or are(DType.INT16, total)
    typed = summed and are(DType.INT32, multipliers) and are(DType.INT8, shifts, node.output)
    return typed and multipliers.data is not None and shifts.data is not None


def _rescale(node: Node[Rescale]) -> dict[str, Value]:
    op, (total, multipliers, _) = node.op, node.inputs
    _, _, positions, channels = node.output.type.nhwc
    return {
        "positions": positions,
        "channels": channels,
        "y_zero": node.output.type.quantised.zero_point,
        **bounded(op.clamp),
        "scale_step": int(multipliers.type.elements > 1),
        "narrow": int(are(DType.INT16, total)),
    }


def _scales(node: Node[Rescale]) -> dict[str, Value]:
    _, multipliers, shifts = node.inputs
    return {"multipliers": data(multipliers), "shifts": data(shifts)}


def _total(node: Node[Rescale]) -> int | None:
    """The sums, of which a row is read element by element, before the shorter output is written."""
    total = node.x
    return 0 if total.data is None and total.type.row_elements == node.output.type.row_elements else None


def _rescale_work(node: Node[Rescale]) -> Work:
    _, _, shifts = node.inputs
    outputs = node.output.type.row_elements
    shifted = float((data(shifts).astype(np.int64) < 0).mean())
    return Work(pixels=node.output.type.nhwc[2], outputs=outputs, right_shifts=outputs * shifted)


SUMS = Contract("partial_conv2d_s8_s32", (FirstPartial, NextPartial), _partial, _constants, _adds_up)
RESCALE = Contract("rescale_sums_s8", (Rescale,), _rescale, _scales, _rescales)

VARIANTS = (
    portable(SUMS, lambda node: window_work(node), _in_sums),
    Variant(SUMS, _partial_by_fours, suffix="simd32", shared=("c",), isa=Isa.SIMD32, in_place=_in_sums),
    portable(RESCALE, _rescale_work, _total),
)
