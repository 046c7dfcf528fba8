"""The pass `fold-transpose`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from shoehorn_mcu.ir import Graph, Op
from shoehorn_mcu.ir.edit import Draft
from shoehorn_mcu.ops import Dense, Reshape, Transpose
from shoehorn_mcu.passes.drop_dead import drop_dead


def fold_transpose(graph: Graph) -> Graph:
    """Lets a dense layer read a map as it is in memory: its weights are transposed instead, once.

    >   a = Transpose(x: 1x4x4x8) perm=(0, 3, 1, 2); b = Reshape(a): 1x128; y = Dense(b, w, c)
    <   b = Reshape(x): 1x128; y = Dense(b, w', c)         columns of w' in the order of x

    Channels-first frameworks flatten so. Integers are added in another order, with the same sum; sums of float32 round
    differently, as with fold-affine.
    """
    written = {op.output: op for op in graph.ops}
    draft, ops = Draft(graph), list[Op]()
    for op in graph.ops:
        found = _source(graph, op, written) if isinstance(op, Dense) else None
        if found is None:
            ops.append(op)
            continue
        source, order = found
        x, weights = graph.tensors[op.inputs[0]], graph.tensors[op.inputs[1]]
        assert weights.data is not None
        data = np.empty_like(weights.data)
        data[:, order] = weights.data
        flat = draft.tensor(f"{x.name}_in_order", x.type)
        moved = draft.tensor(f"{weights.name}_in_order", weights.type, data)
        name = draft.op_name(f"{op.name}_in_order")
        ops.append(Reshape(name=name, inputs=(source,), output=flat, shape=x.type.shape))
        ops.append(replace(op, inputs=(flat, moved, *op.inputs[2:])))
    return graph if len(ops) == len(graph.ops) else drop_dead(draft.with_ops(ops))


def _source(graph: Graph, dense: Dense, written: Mapping[str, Op]) -> tuple[str, np.ndarray] | None:
    """The tensor whose elements a dense layer reads transposed, and its element for each of the layer's inputs; None
    where it reads none so, or its weights are not constant.
    """
    x, weights = (graph.tensors[name] for name in dense.inputs[:2])
    op = written.get(dense.inputs[0])
    while isinstance(op, Reshape):
        op = written.get(op.inputs[0])
    if weights.data is None or not isinstance(op, Transpose):
        return None
    shape, inputs = graph.tensors[op.inputs[0]].type.shape, x.type.shape[-1]
    ahead = next(
        (k for k in range(len(shape)) if math.prod(shape[k:]) == inputs and op.perm[:k] == tuple(range(k))), None
    )
    if ahead is None or op.perm == tuple(range(len(shape))):
        return None
    places = np.arange(inputs).reshape(shape[ahead:])
    return op.inputs[0], places.transpose([place - ahead for place in op.perm[ahead:]]).reshape(-1)
