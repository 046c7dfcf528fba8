"""Kernels of the ops of detectors that no formula expresses."""

from __future__ import annotations

from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels.base.contract import Contract, Value, portable
from shoehorn_mcu.kernels.base.work import Work
from shoehorn_mcu.ops import Suppress


def _suppress(node: Node[Suppress]) -> dict[str, Value]:
    op, (_, boxes) = node.op, node.inputs
    return {"boxes": boxes.type.shape[0], "count": op.count, "overlap": op.overlap, "least": op.least}


def _suppress_work(node: Node[Suppress]) -> Work:
    """Every place looks at all scores; how many overlaps are computed depends on them, at most all with all taken."""
    op, (_, boxes) = node.op, node.inputs
    return Work(loops=op.count, fours=boxes.type.shape[0] * op.count)


SUPPRESS = Contract("suppress_f32", (Suppress,), _suppress)

VARIANTS = (portable(SUPPRESS, _suppress_work),)
