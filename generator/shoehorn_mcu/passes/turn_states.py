"""The pass `turn-states`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from shoehorn_mcu.ir import Graph, Op, State
from shoehorn_mcu.ir.edit import Draft, readers, with_ops
from shoehorn_mcu.ops import Concat, Slice
from shoehorn_mcu.ops.rules import as_4d

ROWS = 1  # the dimension of NHWC


def turn_states(graph: Graph) -> Graph:
    """Makes ring buffers of states that are windows over a stream of rows: only the new rows are written.

    >   c = Concat(state: 1x22x1x64, x: 1x1x1x64, axis=1); next = Slice(c, rows 1..22)    state's next value: next
    <   c = Concat(state, x); new = Slice(c, row 22)       state's next value: its rows 1..21, then new

    A state stays as it is where a reshape views it, for the rows of a ring are not in order, or where anything else
    uses its next value.
    """
    written, readers_of = {op.output: op for op in graph.ops}, readers(graph)
    turned = {state: op for state in graph.states if (op := _new_rows(graph, state, written, readers_of)) is not None}
    if not turned:
        return graph
    old = {state.write for state in turned}
    ops, states = [op for op in graph.ops if op.output not in old], []
    draft = Draft(graph)
    for state in graph.states:
        if state in turned:
            op = turned[state]
            new = draft.tensor(f"{state.write}_new", replace(graph.tensors[state.write].type, shape=op.size))
            ops.append(replace(op, output=new))
            state = replace(state, write=new)
        states.append(state)
    return with_ops(replace(graph, tensors=draft.tensors, states=tuple(states)), ops)


def _new_rows(
    graph: Graph, state: State, written: Mapping[str, Op], readers_of: Mapping[str, tuple[Op, ...]]
) -> Slice | None:
    """The slice that gives the rows which the state's next value has and the state has not; None if it is no window."""
    op, kind = written[state.write], graph.tensors[state.read].type
    if not isinstance(op, Slice) or readers_of.get(state.write) or len(kind.shape) != 4 or kind.shape[0] != 1:
        return None
    join = written.get(op.inputs[0])
    by_rows = isinstance(join, Concat) and join.axis == ROWS and join.inputs[0] == state.read
    ends = {*graph.outputs, *(other.write for other in graph.states if other is not state)}
    viewed = any(other.view for other in readers_of.get(state.read, ()))
    if not by_rows or viewed or not ends.isdisjoint((state.read, state.write)):
        return None
    rows, (_, new, column, channel) = kind.rows, as_4d(op.begin, 0)
    if not 0 < new < rows or (column, channel) != (0, 0) or op.step != (1, 1, 1, 1):
        return None
    shape = kind.shape
    return replace(op, begin=(0, rows, 0, 0), size=(shape[0], new, *shape[2:]))
