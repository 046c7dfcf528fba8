"""A rewrite for streamed outputs, which is no pass of PIPELINE because it changes the shape of the model's output."""

from __future__ import annotations

from dataclasses import replace

from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.ir import Ends, FileTensor, Graph
from shoehorn_mcu.ir.edit import with_ops
from shoehorn_mcu.ops.laws import quoted
from shoehorn_mcu.passes.ends.pieces import read_in_pieces


class StreamError(ShoehornError):
    """The model has no output that could be handed out row by row."""

    kind = "bad-stream"


def streamable_output(graph: Graph, ends: Ends) -> tuple[Graph, Ends]:
    """The graph whose one output can be handed out row by row, and its ends in the file.

    >   a = Conv2d(x): 1x16x16x3; y = Reshape(a) shape=(1, 768)      output y
    <   y = Conv2d(x): 1x16x16x3                                     output y

    An output that is a view gets the shape of what it shows; its bytes are the same, in the same order. A vector that a
    dense layer writes is made in pieces (pieces.py). Raises
    StreamError for several outputs, one that is kept as the next value of a state, and one of a single row.
    """
    name = _one_output(graph)
    kind = graph.tensors[name].type
    graph = _unviewed(graph, name)
    if graph.tensors[name].type.rows == 1:
        graph, ends = read_in_pieces(graph, ends)
    if graph.tensors[name].type.rows == 1:
        raise StreamError(
            f"{graph.name}: --stream-output hands out rows, the output {quoted(name)} {kind} is a single one; "
            "leave the option out"
        )
    if graph.tensors[name].type.shape == kind.shape or name in ends:
        return graph, ends
    return graph, {**ends, name: FileTensor.alike(name, kind)}


def _one_output(graph: Graph) -> str:
    """The name of the output."""
    if len(graph.outputs) != 1:
        raise StreamError(
            f"{graph.name}: --stream-output takes models with one output, this one has {len(graph.outputs)} "
            f"({', '.join(graph.outputs)}); leave the option out"
        )
    (name,) = graph.outputs
    kept = {*graph.inputs, *(each for state in graph.states for each in (state.read, state.write))}
    if name in kept:
        raise StreamError(
            f"{graph.name}: the output {quoted(name)} is an input or a state too, whose bytes are kept; "
            "leave --stream-output out"
        )
    return name


def _unviewed(graph: Graph, name: str) -> Graph:
    """The graph whose output has the shape of what it is a view of, if no op reads the view."""
    while True:
        view = next((op for op in graph.ops if op.view and op.output == name), None)
        if view is None or any(name in op.inputs for op in graph.ops):
            return graph
        source = graph.tensors[view.inputs[0]]
        if source.data is not None or source.name in (*graph.sources, *graph.results):
            return graph

        def renamed(each: str, old: str = source.name) -> str:
            return name if each == old else each

        tensors = {**graph.tensors, name: replace(source, name=name)}
        ops = (
            replace(op, inputs=tuple(map(renamed, op.inputs)), output=renamed(op.output))
            for op in graph.ops
            if op is not view
        )
        graph = with_ops(replace(graph, tensors=tensors), ops)
