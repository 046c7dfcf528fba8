"""Inputs and outputs in the order of the model's file (`--io native`)."""

from __future__ import annotations

from dataclasses import replace

from shoehorn_mcu.ir import Ends, Graph, Op, Tensor, verify
from shoehorn_mcu.ir.edit import Draft
from shoehorn_mcu.ops.layout import in_order


def native_io(graph: Graph, ends: Ends) -> Graph:
    """The graph with the file's order of dimensions in inputs and outputs, and ops that move their elements.

    >   y = Conv2d(x: 1x32x32x3)                                                    x is 1x3x32x32 in the file
    <   x_inside = Transpose(x: 1x3x32x32) perm=(0, 2, 3, 1); y_inside = Conv2d(x_inside);
        y = Transpose(y_inside) perm=(0, 3, 1, 2)

    `ends`: by name in the graph, those that differ in the file. Names stay.
    """
    draft = Draft(graph)
    inside: dict[str, str] = {}
    first: list[Op] = []
    last: list[Op] = []
    for number, name in enumerate((*graph.inputs, *graph.outputs)):
        end = ends.get(name)
        if end is None or end.order == tuple(range(len(end.order))):
            continue
        inside[name] = draft.tensor(f"{name}_inside", graph.tensors[name].type)
        draft.tensors[name] = Tensor(name, end.type)
        op_name = draft.op_name(f"Transpose_end_{number}")
        if number < len(graph.inputs):
            first.append(in_order(op_name, draft.tensors[name], inside[name], end.order))
        else:
            last.append(in_order(op_name, draft.tensors[inside[name]], name, end.back))
    kept = (
        replace(op, inputs=tuple(inside.get(n, n) for n in op.inputs), output=inside.get(op.output, op.output))
        for op in graph.ops
    )
    return verify(replace(graph, tensors=draft.tensors, ops=(*first, *kept, *last)))
