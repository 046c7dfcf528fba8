"""Kernels of SVDF layers: the memory after an input, and the sums over it."""

from __future__ import annotations

import numpy as np

from shoehorn_mcu.ir import DType, Node
from shoehorn_mcu.kernels.base.contract import Contract, Value, portable
from shoehorn_mcu.kernels.base.operands import data
from shoehorn_mcu.kernels.base.work import Work, elements
from shoehorn_mcu.ops import SvdfState, SvdfSum
from shoehorn_mcu.ops.fixed_point import quantize_multiplier, wrap32


def _state(node: Node[SvdfState]) -> dict[str, Value]:
    x, memory, weights = (tensor.type for tensor in node.inputs)
    return {
        "batch": x.shape[0],
        "inputs": x.shape[1],
        "filters": weights.shape[0],
        "memory": memory.shape[1] // weights.shape[0],
        "wide": int(memory.dtype is DType.INT16),
        "zero": memory.quantised.zero_point,
        **quantize_multiplier(node.op.factor(node.sig))._asdict(),
    }


def _filters(node: Node[SvdfState]) -> dict[str, Value]:
    weights = data(node.weights)
    offsets = -node.x.type.quantised.zero_point * weights.astype(np.int64).sum(axis=1)
    return {"weights": weights, "bias": offsets.astype(np.int32)}


def _state_work(node: Node[SvdfState]) -> Work:
    facts = _state(node)
    times = node.x.type.shape[0] * node.weights.type.shape[0]
    moved = node.output.type.elements
    assert isinstance(facts["inputs"], int)
    return elements(times, facts["inputs"]) + Work(outputs=times, loops=times, divided=0, by4=moved)


def _in_memory(node: Node[SvdfState]) -> int | None:
    """The memory before, each value of which is read before the next place is written."""
    _, memory, _ = node.inputs
    return 1 if memory.data is None else None


def _sum(node: Node[SvdfSum]) -> dict[str, Value]:
    memory, weights, bias = (tensor.type for tensor in node.inputs)
    return {
        "batch": memory.shape[0],
        "units": bias.shape[0],
        "values": weights.elements // bias.shape[0],
        "wide": int(memory.dtype is DType.INT16),
        "y_zero": node.output.type.quantised.zero_point,
        **quantize_multiplier(node.op.factor(node.sig))._asdict(),
    }


def _time(node: Node[SvdfSum]) -> dict[str, Value]:
    """The weights as int16, and the memory's zero point folded into the bias."""
    weights, bias = data(node.weights).astype(np.int16), data(node.bias).astype(np.int64)
    sums = weights.astype(np.int64).reshape(len(bias), -1).sum(axis=1)
    folded = bias - node.x.type.quantised.zero_point * sums
    return {"weights": weights, "bias": wrap32(folded).astype(np.int32)}


def _sum_work(node: Node[SvdfSum]) -> Work:
    batch, units = node.output.type.shape
    return elements(batch * units, node.weights.type.elements // units) + Work(outputs=batch * units)


STATE = Contract("svdf_state", (SvdfState,), _state, _filters)
SUM = Contract("svdf_sum", (SvdfSum,), _sum, _time)

VARIANTS = (portable(STATE, _state_work, _in_memory), portable(SUM, _sum_work))
