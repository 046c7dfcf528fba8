"""Kernels of the ops that are given by a formula, and of those with computed indices."""

from __future__ import annotations

from collections import Counter

import numpy as np

from shoehorn_mcu.ir import Array, DType, Node
from shoehorn_mcu.kernels.base.contract import Contract, Tile, Value, Variant
from shoehorn_mcu.kernels.base.formula_c import macros
from shoehorn_mcu.kernels.base.operands import element_by_element, element_bytes, runs
from shoehorn_mcu.kernels.base.work import Work
from shoehorn_mcu.ops import Formulaic, Gather, Map, MatMul, Reduce, Scan, Scatter, TopIndices
from shoehorn_mcu.ops.formula import ARITY, Formula, Step

_DTYPES = (
    *(DType.FLOAT32, DType.FLOAT16, DType.BOOL, DType.INT8, DType.UINT8, DType.INT16, DType.UINT16, DType.INT32),
    *(DType.UINT32, DType.INT64, DType.UINT64),
)
_STEPS = tuple(ARITY)
_STEP_NUMBERS = 5
_INTEGER_LIMIT = 1 << 32

# What a step costs, by its name; arithmetic on integers is counted alike.
_FLOAT_WORK = {
    **dict.fromkeys(("abs", "neg", "add", "sub", "less", "equal"), "float_sums"),
    "mul": "float_products",
    "div": "float_quotients",
    "sqrt": "float_roots",
}


def table(made: Formula) -> Array:
    """The formula as sh_formula_ref.h reads it: int32."""
    numbers = [len(made.operands), len(made.steps), *(_DTYPES.index(dtype) for dtype in made.operands)]
    behind = len(numbers) + _STEP_NUMBERS * len(made.steps)  # the tables
    entries: list[int] = []
    for step in made.steps:
        rest: tuple[int, ...] = _constant_words(step) if step.name == "constant" else step.reads
        if step.name == "table":
            rest = (*rest, behind + len(entries), len(step.entries))
            entries += step.entries
        numbers += [_STEPS.index(step.name), _DTYPES.index(step.dtype), *rest, *(0,) * (3 - len(rest))]
    numbers += entries
    return np.array(numbers, np.int64).astype(np.uint32).view(np.int32)


def _constant_words(step: Step) -> tuple[int, int]:
    """The low and the high word of a constant's bits."""
    if step.dtype is DType.FLOAT32:
        return int(np.float32(step.number).view(np.uint32)), 0
    high, low = divmod(int(step.number) % (1 << 64), _INTEGER_LIMIT)
    return low, high


def _plain(node: Node[Formulaic]) -> dict[str, Value]:
    return {"formula": table(node.op.parsed)}


def _compiled(node: Node, tile: Tile) -> dict[str, Value]:
    return {"formula": None}


def _written(node: Node[Formulaic]) -> tuple[str, ...]:
    return macros(node.op.formula)


def per_evaluation(made: Formula) -> Work:
    """The steps of one evaluation."""
    dtypes, counts = made.dtypes, Counter[str]()
    for step in made.steps:
        on = dtypes[step.reads[0]] if step.reads else step.dtype
        if step.name == "cast":
            counts["conversions"] += 1
        elif step.name == "select":
            counts["choices"] += 1
        elif step.name != "constant":
            counts[_FLOAT_WORK.get(step.name, "integers") if on is DType.FLOAT32 else "integers"] += 1
    return Work(**counts)


def times(count: float, work: Work) -> Work:
    """The work, so many times."""
    return Work(**{name: count * each for name, each in work.items()})


def _evaluated(node: Node[Formulaic], count: float) -> Work:
    """So many evaluations of the op's formula."""
    return times(count, per_evaluation(node.op.parsed))


def _map(node: Node[Map], step: int | None = None) -> dict[str, Value]:
    of = runs(node, step)
    return {**of.members, "strides": np.array(of.steps, np.int32).ravel()}


def _map_work(node: Node[Map], tile: Tile) -> Work:
    elements = node.output.type.row_elements
    return Work(loops=runs(node).width, outputs=elements) + _evaluated(node, elements)


def _in_place(node: Node[Map]) -> int | None:
    """As `element_by_element`, for an operand of the output's element type: C forbids two types in one place."""
    place = element_by_element(node)
    return place if place is not None and node.inputs[place].type.dtype is node.output.type.dtype else None


def _columns(node: Node) -> dict[str, Value]:
    _, _, width, channels = node.x.type.nhwc
    return {"width": width, "channels": channels}


def _columns_work(node: Node[Formulaic], tile: Tile) -> Work:
    _, _, width, channels = node.x.type.nhwc
    return Work(loops=channels, outputs=width * channels) + _evaluated(node, (width - 1) * channels)


def _reduce(node: Node[Reduce]) -> dict[str, Value]:
    _, _, width, channels = node.x.type.nhwc
    op = node.op
    along = op.along_channels
    return {
        "positions": width if along else 1,
        "width": channels if along else width,
        "channels": 1 if along else channels,
        "begun": int(op.initial is not None),
        "initial": op.initial or 0,
    }


def _reduce_work(node: Node[Reduce], tile: Tile) -> Work:
    x, y = (tensor.type.row_elements for tensor in (node.x, node.output))
    combined = x if _reduce(node)["begun"] else x - y
    return Work(loops=y, outputs=x) + _evaluated(node, combined)


def _scan(node: Node[Scan]) -> dict[str, Value]:
    op = node.op
    return {**_columns(node), "exclusive": int(op.exclusive), "reverse": int(op.reverse), "initial": op.initial}


def _top(node: Node[TopIndices]) -> dict[str, Value]:
    return {**_columns(node), "count": node.op.count, "last": int(node.op.last)}


def _top_work(node: Node[TopIndices], tile: Tile) -> Work:
    count = node.op.count
    compared = node.x.type.row_elements * count
    return Work(loops=compared, outputs=compared * (count + 1) / 2) + _evaluated(node, compared)


def _matmul(node: Node[MatMul]) -> dict[str, Value]:
    return {"inputs": node.a.type.shape[-1], "outputs": node.output.type.shape[-1]}


def _matmul_work(node: Node[MatMul], tile: Tile) -> Work:
    inputs, outputs = node.a.type.shape[-1], node.output.type.shape[-1]
    fours, rest = divmod(outputs, 4)
    return Work(tiles=fours, rests=rest, loops=inputs * fours, outputs=outputs) + _evaluated(node, inputs * outputs)


def _indexed(node: Node[Gather | Scatter]) -> dict[str, Value]:
    """Struct members of ops with indices, from those of `steps`, along columns."""
    x, indices = (tensor.type for tensor in node.inputs[:2])
    return {
        "width": x.nhwc[2],
        "channels": x.nhwc[3],
        "index_width_step": indices.shape[-1],
        "index_channel_step": int(indices.shape[-1] > 1),
        "wide": int(indices.dtype is DType.INT64),
    }


def _gather(node: Node[Gather]) -> dict[str, Value]:
    return {**_indexed(node), "outputs": node.output.type.nhwc[2], "element_bytes": element_bytes(node)}


def _gather_work(node: Node[Gather], tile: Tile) -> Work:
    _, indices = node.inputs
    return Work(copies=indices.type.row_elements, loose_bytes=node.output.type.row_bytes)


def _scatter(node: Node[Scatter]) -> dict[str, Value]:
    _, _, updates = node.inputs
    return {**_indexed(node), "updates": updates.type.nhwc[2]}


def _scatter_work(node: Node[Scatter], tile: Tile) -> Work:
    _, _, updates = node.inputs
    count = updates.type.row_elements
    return Work(copies=1, word_bytes=node.output.type.row_bytes, outputs=count) + _evaluated(node, count)


MAP = Contract("map", (Map,), _map, _plain, spaced=_map, in_runs=True)
REDUCE = Contract("reduce", (Reduce,), _reduce, _plain)
SCAN = Contract("scan", (Scan,), _scan, _plain)
TOP = Contract("top_indices", (TopIndices,), _top, _plain)
MATMUL = Contract("matmul", (MatMul,), _matmul, _plain)
GATHER = Contract("gather", (Gather,), _gather)
SCATTER = Contract("scatter", (Scatter,), _scatter, _plain)

VARIANTS = (
    Variant(MAP, _map_work, written=_written, pack=_compiled, in_place=_in_place),
    Variant(REDUCE, _reduce_work, fixes=("begun",), written=_written, pack=_compiled),
    Variant(SCAN, _columns_work, written=_written, pack=_compiled),
    Variant(TOP, _top_work, written=_written, pack=_compiled),
    Variant(MATMUL, _matmul_work, written=_written, pack=_compiled),
    Variant(GATHER, _gather_work),
    Variant(SCATTER, _scatter_work, written=_written, pack=_compiled),
)
