"""Kernels of sums and maxima over rows that arrive one after the other, and of their ends."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from shoehorn_mcu.ir import DType, Node
from shoehorn_mcu.kernels.base.contract import Contract, Value, Variant, portable
from shoehorn_mcu.kernels.base.operands import are, bounded, data
from shoehorn_mcu.kernels.base.work import LANES, Work, by_fours, by_lanes
from shoehorn_mcu.machine.targets import Isa
from shoehorn_mcu.ops import Average, RunningMax, SumDense, SumPool

_MOST_COLUMNS = 256  # whose sum fits 16 bits


def columns(node: Node[SumPool | RunningMax]) -> dict[str, Value]:
    """Struct members of windows over a row."""
    op, (_, _, positions, channels) = node.op, node.output.type.nhwc
    return {"positions": positions, "channels": channels, "kernel_width": op.kernel[1], "stride": op.stride[1]}


def _pool(node: Node[SumPool]) -> dict[str, Value]:
    return {**columns(node), "start": node.op.start, "narrow": int(are(DType.INT16, node.output))}


def _most(node: Node[RunningMax]) -> dict[str, Value]:
    return {**columns(node), **bounded(node.op.clamp)}


def columns_work(node: Node[SumPool | RunningMax]) -> Work:
    """Elements of the windows' columns, by fours of channels and one by one."""
    op, (_, _, positions, channels) = node.op, node.output.type.nhwc
    fours, rest = divmod(channels, 4)
    loops = positions * (fours + rest)
    return Work(loops=loops, pixels=positions, outputs=positions * channels) + Work(
        fours=positions * fours * op.kernel[1], rests=positions * rest * op.kernel[1]
    )


def sum_dense(node: Node[SumDense]) -> dict[str, Value]:
    """Struct members of a row of inputs and outputs."""
    return {"inputs": node.x.type.row_elements, "outputs": node.output.type.nhwc[3]}


def by_rows(node: Node[SumDense]) -> dict[str, Value]:
    """Weights in the order [row][output][input of the row]."""
    _, weights, start = node.inputs
    height, outputs = node.x.type.nhwc[1], node.output.type.nhwc[3]
    by_row = data(weights).reshape(outputs, height, -1).transpose(1, 0, 2)
    return {"weights": np.ascontiguousarray(by_row), "start": data(start)}


def sum_dense_work(node: Node[SumDense], sums: Callable[[float, int, int], Work]) -> Work:
    """The products of a row, whose sums for so many outputs at once `sums` counts."""
    inputs, outputs = node.x.type.row_elements, node.output.type.nhwc[3]
    whole, rest = divmod(outputs, LANES)
    return sums(whole, inputs, LANES) + sums(rest, inputs, 1) + Work(outputs=outputs)


def _of_integers(node: Node) -> bool:
    return not are(DType.FLOAT32, node.output)


def _average(node: Node[Average]) -> dict[str, Value]:
    return {
        "elements": node.output.type.row_elements,
        "count": node.op.count,
        **bounded(node.op.clamp),
        "narrow": int(are(DType.INT16, node.x)),
    }


def row_before(node: Node) -> int | None:
    """The sums of the row before, which those of a row may overwrite."""
    return 1


SUM_POOL = Contract("sum_pool_s8", (SumPool,), _pool, accepts=_of_integers)
RUNNING_MAX = Contract("running_max_s8", (RunningMax,), _most)
SUM_DENSE = Contract("sum_dense_s8_s32", (SumDense,), sum_dense, by_rows, accepts=_of_integers, takes_row=True)
AVERAGE = Contract("average_sums_s8", (Average,), _average, accepts=_of_integers)

VARIANTS = (
    portable(SUM_POOL, columns_work, row_before),
    Variant(
        SUM_POOL,
        lambda node, _: columns_work(node),
        suffix="simd32",
        isa=Isa.SIMD32,
        accepts=lambda node: node.output.type.nhwc[3] % 4 == 0 and node.op.kernel[1] <= _MOST_COLUMNS,
        in_place=row_before,
    ),
    portable(RUNNING_MAX, columns_work, row_before),
    Variant(SUM_DENSE, lambda node, _: sum_dense_work(node, by_lanes), in_place=row_before),
    Variant(
        SUM_DENSE,
        lambda node, _: sum_dense_work(node, by_fours),
        suffix="simd32",
        shared=("c",),
        isa=Isa.SIMD32,
        in_place=row_before,
    ),
    portable(AVERAGE, lambda node: Work(outputs=node.output.type.row_elements)),
)
