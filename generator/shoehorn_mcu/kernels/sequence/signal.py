"""Kernels of the ops of audio front ends that no formula expresses, and of windows over a stream."""

from __future__ import annotations

import numpy as np

from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels.base.contract import Contract, Value, portable
from shoehorn_mcu.kernels.base.operands import data
from shoehorn_mcu.kernels.base.work import Work, copied
from shoehorn_mcu.ops import FilterBank, Rfft, Slide
from shoehorn_mcu.ops.signal import split_twiddles, twiddles


def _points(node: Node[Rfft]) -> int:
    return node.op.length // 2


def _rfft(node: Node[Rfft]) -> dict[str, Value]:
    return {"samples": node.x.type.elements, "points": _points(node)}


def _rfft_constants(node: Node[Rfft]) -> dict[str, Value]:
    pairs = {"twiddles": twiddles(_points(node)), "split": split_twiddles(_points(node))}
    return {name: each.astype(np.int16).ravel() for name, each in pairs.items()}


def _rfft_work(node: Node[Rfft]) -> Work:
    points = _points(node)
    stages = (points.bit_length() - 1) // 2 - 1 + (points.bit_length() - 1) % 2
    return Work(loops=points // 4 * stages, outputs=points, fours=points / 4 * stages)


def _filter_bank(node: Node[FilterBank]) -> dict[str, Value]:
    return {"channels": node.output.type.elements}


def _filter_bank_constants(node: Node[FilterBank]) -> dict[str, Value]:
    members = ("weights", "unweights", "starts", "places", "widths")
    return {name: tensor.data for name, tensor in zip(members, node.inputs[1:], strict=True)}


def _filter_bank_work(node: Node[FilterBank]) -> Work:
    *_, widths = node.inputs
    return Work(loops=widths.type.elements, products=float(data(widths).sum()))


def _slide(node: Node[Slide]) -> dict[str, Value]:
    window, new = (tensor.type.bytes for tensor in node.inputs)
    return {"kept_bytes": window - new, "new_bytes": new}


def _slide_work(node: Node[Slide]) -> Work:
    window, new = (tensor.type.bytes for tensor in node.inputs)
    pieces, rest = divmod(window, new)
    return copied(pieces, new, new % 4 == 0) + (copied(1, rest, new % 4 == 0) if rest else Work())


RFFT = Contract("rfft_s16", (Rfft,), _rfft, _rfft_constants)
FILTER_BANK = Contract("filter_bank", (FilterBank,), _filter_bank, _filter_bank_constants)
SLIDE = Contract("slide", (Slide,), _slide)

VARIANTS = (
    portable(RFFT, _rfft_work),
    portable(FILTER_BANK, _filter_bank_work),
    portable(SLIDE, _slide_work, in_place=lambda node: 0),
)
