"""Inputs and outputs in the order of the model's file (`--io native`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from shoehorn_mcu.ir import Ends, Graph, Op, Tensor, verify
from shoehorn_mcu.ir.edit import free_name
from shoehorn_mcu.ops import Reshape, Transpose


def native_io(graph: Graph, ends: Ends) -> Graph:
    """The graph with the file's order of dimensions in inputs and outputs, and ops that move their elements.

    >   y = Conv2d(x: 1x32x32x3)                                                    x is 1x3x32x32 in the file
    <   x_inside = Transpose(x: 1x3x32x32) perm=(0, 2, 3, 1); y_inside = Conv2d(x_inside);
        y = Transpose(y_inside) perm=(0, 3, 1, 2)

    `ends`: by name in the graph, those that differ in the file. Names stay.
    """
    tensors, names = dict(graph.tensors), {op.name for op in graph.ops}
    inside: dict[str, str] = {}
    first: list[Op] = []
    last: list[Op] = []
    for number, name in enumerate((*graph.inputs, *graph.outputs)):
        end = ends.get(name)
        if end is None or end.order == tuple(range(len(end.order))):
            continue
        inside[name] = free_name(tensors, f"{name}_inside")
        tensors[inside[name]] = Tensor(inside[name], graph.tensors[name].type)
        tensors[name] = Tensor(name, end.type)
        op_name = free_name(names, f"Transpose_end_{number}")
        names.add(op_name)
        if number < len(graph.inputs):
            first.append(moved(op_name, tensors, name, inside[name], end.order))
        else:
            back = tuple(end.order.index(dimension) for dimension in range(len(end.order)))
            last.append(moved(op_name, tensors, inside[name], name, back))
    kept = (
        replace(op, inputs=tuple(inside.get(n, n) for n in op.inputs), output=inside.get(op.output, op.output))
        for op in graph.ops
    )
    return verify(replace(graph, tensors=tensors, ops=(*first, *kept, *last)))


def moved(name: str, tensors: Mapping[str, Tensor], source: str, output: str, perm: Sequence[int]) -> Op:
    """The op that writes `source` in another order of dimensions: a view where no elements move."""
    long = [place for place in perm if tensors[source].type.shape[place] > 1]
    if long == sorted(long):
        return Reshape(name=name, inputs=(source,), output=output, shape=tensors[output].type.shape)
    return Transpose(name=name, inputs=(source,), output=output, perm=tuple(perm))
