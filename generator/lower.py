"""Graph and stages -> the planner's problem: ops become reads and writes of rows, Reshapes become views."""

from __future__ import annotations

from collections.abc import Sequence

from generator.errors import ShoehornError
from generator.ir import Graph
from generator.ops import Reshape
from generator.planner import DELIVERY, OpSpec, Problem, Read, TensorSpec
from generator.stage import Stage


def _read(stage: Stage, place: int) -> Read:
    """The rows of one row input, without padding and repeats."""
    rows = (dict.fromkeys(r for r in by_input[place] if r is not None) for by_input in stage.rows)
    return Read(stage.row_inputs[place].name, tuple(map(tuple, rows)))


def _op(stage: Stage) -> OpSpec:
    output = stage.node.output
    return OpSpec(
        name=stage.name,
        reads=tuple(_read(stage, i) for i, t in enumerate(stage.row_inputs) if t.data is None),
        writes=output.name,
        channels=output.type.nhwc[3],
        scratch_bytes=stage.scratch_bytes,
    )


def _delivery(graph: Graph) -> OpSpec:
    """The rows of the one input, as they arrive."""
    if len(graph.inputs) != 1:
        raise ShoehornError(
            f"{graph.name}: --stream-input takes models with one input, this one has {len(graph.inputs)} "
            f"({', '.join(graph.inputs)}); leave the option out"
        )
    (name,) = graph.inputs
    return OpSpec(DELIVERY, (), name, graph.tensors[name].type.nhwc[3])


def lower(graph: Graph, stages: Sequence[Stage], capacity_bytes: int | None, stream_input: bool = False) -> Problem:
    """The problem of placing everything that an inference writes; constants stay in flash and take no part.

    With `stream_input` the input arrives by rows. Raises ShoehornError where there are several inputs.
    """
    views = {op.output: op.inputs[0] for op in graph.ops if isinstance(op, Reshape)}
    deliveries = (_delivery(graph),) if stream_input else ()
    ops = (*deliveries, *map(_op, stages))
    live = [*graph.inputs, *(name for op in graph.ops for name in (*op.inputs[:1], op.output))]
    live = [name for name in live if graph.tensors[name].data is None]
    live += [read.tensor for op in ops for read in op.reads]
    for name in (*views.values(), *graph.outputs):
        if graph.tensors[name].data is not None:
            raise ShoehornError(
                f"{graph.name}: '{name}' is a constant that is reshaped or given out; nothing is computed there"
            )
    specs = {name: graph.tensors[name].type for name in dict.fromkeys(live)}
    return Problem(
        tensors=tuple(TensorSpec(n, t.rows, t.row_bytes, views.get(n)) for n, t in specs.items()),
        ops=ops,
        inputs=() if stream_input else graph.inputs,
        outputs=tuple(dict.fromkeys(graph.outputs)),
        capacity_bytes=capacity_bytes,
    )
