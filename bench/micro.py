"""Graphs that hold many small ops: the measurements that costs are fitted to."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from bench.micro_formulas import FAMILIES as FORMULAS
from bench.micro_linear import (
    COPIED_WINDOWS,
    DEPTHWISE_BY_TWO,
    FEW_COLUMNS,
    LARGE_WINDOWS,
    LATER_WINDOWS,
    LONG_WINDOWS,
    NARROW_DEPTHWISE,
    PACKED_DEPTHWISE,
    SINGLE_TAPS,
    SMALL_IMAGES,
    STRIDED_COLUMNS,
    THREE_COLUMNS,
    WIDE_DEPTHWISE,
    WIDE_TRANSPOSES,
    WINDOWS,
    coarse_columns,
    columns,
    packed_dense,
    packed_depthwise,
    pointwise,
    transpose_convs,
    windows,
)
from bench.micro_ops import FAMILIES
from bench.micro_random import singles
from bench.micro_recurrent import FAMILIES as RECURRENT
from bench.micro_sums import FAMILIES as SUMS
from bench.micro_wide import FAMILIES as WIDE
from shoehorn_mcu.ir import Graph, Quant, verify
from shoehorn_mcu.ops import Clamp, Softmax, SumDense, SumPool
from shoehorn_mcu.ops.linear import LinearOp
from shoehorn_mcu.passes.float_mode import FloatMode, in_float16, with_float_mode
from tests.samples import REAL_OPS, REAL_SUMS, as_float32, with_offset_weights


def merged(name: str, graphs: Sequence[Graph]) -> Graph:
    """One graph of all the others side by side; no op of it reads another's output."""
    tensors, found = {}, []
    inputs, outputs = [], []
    for i, graph in enumerate(graphs):
        at = {old: f"{old}_{i}" for old in graph.tensors}
        tensors |= {at[t.name]: replace(t, name=at[t.name]) for t in graph.tensors.values()}
        for op in graph.ops:
            found.append(
                replace(op, name=f"{op.name}_{i}", inputs=tuple(at[n] for n in op.inputs), output=at[op.output])
            )
        inputs += [at[n] for n in graph.inputs]
        outputs += [at[n] for n in graph.outputs]
    return verify(Graph(name, tensors, tuple(found), tuple(inputs), tuple(outputs)))


def graphs(rows: int) -> Iterator[Graph]:
    """All the graphs that costs are fitted to; `rows`: the height of the inputs of those for packed kernels."""
    rng = np.random.default_rng(0)
    for family in FAMILIES:
        yield from family(rng)
    yield from pointwise(rng, rows)
    yield from packed_depthwise(rng, rows)
    yield from windows(rng, rows)
    yield from packed_dense(rng, rows)
    yield from reals(rng)
    # Added later: in their own order, so that the measurements of the others still hold.
    yield from packed_depthwise(rng, rows, WIDE_DEPTHWISE)
    yield from windows(rng, rows, LATER_WINDOWS)
    for family in (*FORMULAS, *RECURRENT, *SUMS, *WIDE):
        yield from family(rng)
    yield from real_sums(rng)
    yield from windows(rng, rows, LARGE_WINDOWS)
    yield from packed_depthwise(rng, rows, DEPTHWISE_BY_TWO)
    yield from windows(rng, rows, COPIED_WINDOWS)
    yield from singles()
    yield from offsets(rows)
    yield from windows(rng, rows, THREE_COLUMNS)
    yield from coarse(rows)
    yield from packed_depthwise(rng, rows, NARROW_DEPTHWISE)
    yield from packed_depthwise(rng, rows, SINGLE_TAPS)
    yield from windows(rng, rows, LONG_WINDOWS)
    yield from columns(rng, rows)
    yield from coarse_columns(rng, rows)
    yield from transpose_convs(rng, WIDE_TRANSPOSES)
    yield from windows(rng, rows, FEW_COLUMNS)
    yield from windows(rng, rows, STRIDED_COLUMNS)
    yield from windows(rng, rows, SMALL_IMAGES)


def coarse(rows: int) -> Iterator[Graph]:
    """Windows with so many sums for an output step that no line in 32 bits has its thresholds (sh_steps32.h)."""
    rng = np.random.default_rng(22)
    for graph in (*windows(rng, rows, THREE_COLUMNS), *windows(rng, rows, WINDOWS)):
        y, (_, *window) = graph.tensors["y"], graph.tensors["x1"].type.shape
        kind = replace(y.type, quant=Quant((200 / 144 * math.prod(window),), (3,)))
        (op,) = graph.ops
        wide = replace(op, clamp=Clamp())
        yield replace(graph, tensors={**graph.tensors, "y": replace(y, type=kind)}, ops=(wide,))


def offsets(rows: int) -> Iterator[Graph]:
    """The graphs for packed kernels, with weights of 16 bits that are bytes with an offset for each channel."""
    rng = np.random.default_rng(21)
    every = (
        *(*pointwise(rng, rows), *windows(rng, rows), *packed_dense(rng, rows)),
        *(*windows(rng, rows, LATER_WINDOWS), *windows(rng, rows, LARGE_WINDOWS), *windows(rng, rows, COPIED_WINDOWS)),
    )
    yield from (with_offset_weights(graph, rng) for graph in every[::2])
    for shapes in (PACKED_DEPTHWISE, WIDE_DEPTHWISE, DEPTHWISE_BY_TWO):
        yield from (with_offset_weights(graph, rng, 127) for graph in packed_depthwise(rng, rows, shapes))


def real_sums(rng: np.random.Generator) -> Iterator[Graph]:
    """The graphs of sums over rows in float32, and of rows in float16."""
    for family in SUMS:
        for graph in family(rng):
            if type(graph.ops[0]) in REAL_SUMS:
                yield (real := as_float32(graph, rng))
                if isinstance(real.ops[0], SumDense):
                    yield with_float_mode(real, FloatMode.RELAXED)
                if isinstance(real.ops[0], SumDense | SumPool):
                    yield in_float16(real)


def reals(rng: np.random.Generator) -> Iterator[Graph]:
    """The graphs of ops that compute in float32 too, in float32, and then in each of its modes."""
    linear = []
    for family in FAMILIES:
        for graph in family(rng):
            if type(graph.ops[0]) in REAL_OPS:
                yield (real := as_float32(graph, rng))
                if isinstance(real.ops[0], LinearOp):
                    linear.append(real)
                elif not isinstance(real.ops[0], Softmax):
                    yield in_float16(real)
    # All in one of the two: with fewer shapes, features of the portable bodies would have no cost.
    for mode, every in ((FloatMode.RELAXED, 2), (FloatMode.HALF, 1)):
        yield from (with_float_mode(graph, mode) for graph in linear[::every])


def packed(limit_bytes: int, graphs: Iterable[Graph], most_inputs: int = 60) -> Iterator[Graph]:
    """Merges graphs into few, each with at most `limit_bytes` of inputs and outputs; larger ones are left out."""
    batch: list[Graph] = []
    held = number = 0
    for graph in graphs:
        # A graph's own bytes, each tensor aligned.
        size = sum(-(-t.type.bytes // 4) * 4 for t in graph.tensors.values() if t.data is None)
        inputs = sum(len(g.inputs) for g in batch)
        if batch and (held + size > limit_bytes or inputs + len(graph.inputs) > most_inputs):
            yield merged(f"micro_{number}", batch)
            batch, held, number = [], 0, number + 1
        if size <= limit_bytes:
            batch.append(graph)
            held += size
    yield merged(f"micro_{number}", batch)
