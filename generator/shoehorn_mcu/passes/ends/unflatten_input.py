"""A rewrite for streamed inputs, which is no pass of PIPELINE because it changes the shape of the model's input."""

from __future__ import annotations

from dataclasses import replace

from shoehorn_mcu.ir import Graph
from shoehorn_mcu.ir.edit import only_reader, readers, reading, with_ops


def unflatten_input(graph: Graph) -> Graph:
    """Gives an input of few rows the shape of the only view that reads it, so that it can arrive row by row.

    >   input x: 1x490; a = Reshape(x) shape=(1, 49, 10, 1); y = Conv2d(a, w, b)
    <   input x: 1x49x10x1;                                  y = Conv2d(x, w, b)

    The bytes of the input are the same, in the same order.
    """
    readers_of = readers(graph)
    for name in graph.inputs:
        view = only_reader(graph, readers_of, name)
        if view is None or not view.view or view.output in graph.results:
            continue
        source, shaped = graph.tensors[name], graph.tensors[view.output]
        if shaped.type.rows > source.type.rows:
            tensors = {**graph.tensors, name: replace(source, type=shaped.type)}
            ops = (reading(op, {view.output: name}) for op in graph.ops if op is not view)
            graph = with_ops(replace(graph, tensors=tensors), ops)
            readers_of = readers(graph)
    return graph
