"""Inputs and outputs as states: what an output gives is what an input reads in the next inference (`--state`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from shoehorn_mcu.base.errors import ShoehornError, did_you_mean
from shoehorn_mcu.ir import Ends, FileTensor, Graph, State, TensorType, verify
from shoehorn_mcu.ir.edit import Draft, reading
from shoehorn_mcu.ops.laws import quoted
from shoehorn_mcu.ops.layout import in_order


class StateError(ShoehornError):
    """An input and an output that cannot be one state; the message names both."""

    kind = "bad-state"


def with_states(graph: Graph, ends: Ends, pairs: Mapping[str, str]) -> Graph:
    """The graph with each input of `pairs` as a state, initially zeros, whose next value is the output named for it.

    >   input x, h0; hn, y = f(x, h0)   outputs y, hn
    <   input x;     hn, y = f(x, h0)   output y; state h0, next value hn

    An output stays one where the model has no other. `ends` has inputs and outputs as the model's file has them, and
    their orders of dimensions may differ. Raises StateError.
    """
    taken: dict[str, str] = {}
    for read, write in pairs.items():
        _known(graph, read, graph.inputs, "input")
        if write in taken:
            raise StateError(
                f"{graph.name}: output {quoted(write)} is given as the state of both {quoted(taken[write])} and "
                f"{quoted(read)}; give it once"
            )
        _known(graph, write, graph.outputs, "output")
        taken[write] = read
        mine, next_ = (_in_file(graph, ends, name) for name in (read, write))
        if mine.type != next_.type:
            raise StateError(
                f"{graph.name}: input {quoted(read)} is {_said(mine.type)}, output {quoted(write)} is "
                f"{_said(next_.type)}; a state needs one type"
            )
        graph = _with_state(graph, mine, next_)
    if not graph.inputs:
        raise StateError(f"{graph.name}: all inputs are states; leave one of them out of --state")
    return verify(graph)


def without_states(graph: Graph) -> Graph:
    """The graph whose inferences all begin with the first values of its states, which are constants then."""
    first = {state.read: state.initial for state in graph.states}
    ops = (reading(op, first) for op in graph.ops)
    outputs = {name for name in graph.outputs if name in first}
    if outputs:
        raise StateError(f"{graph.name}: output {quoted(min(outputs))} is a state; leave --stateless out")
    tensors = {name: tensor for name, tensor in graph.tensors.items() if name not in first}
    return verify(replace(graph, ops=tuple(ops), tensors=tensors, states=()))


def _known(graph: Graph, name: str, names: Iterable[str], role: str) -> None:
    there = tuple(names)
    if name not in there:
        cure = did_you_mean(name, there, f"its {role}s are {', '.join(there)}")
        raise StateError(f"{graph.name}: has no {role} called {quoted(name)}; {cure}")


def _in_file(graph: Graph, ends: Ends, name: str) -> FileTensor:
    kind = graph.tensors[name].type
    return ends.get(name, FileTensor.alike(name, kind))


def _said(kind: TensorType) -> str:
    quant = kind.quant
    return f"{kind}" if quant is None else f"{kind} of scale {quant.scale:.6g} and zero point {quant.zero_point}"


def _with_state(graph: Graph, read: FileTensor, write: FileTensor) -> Graph:
    """The graph with one more state; the next value is brought to the order of dimensions of the input."""
    draft, kind, ops, next_ = Draft(graph), graph.tensors[read.name].type, graph.ops, write.name
    if read.order != write.order:
        next_ = draft.tensor(f"{write.name}_next", kind)
        perm = tuple(write.order.index(dimension) for dimension in read.order)
        name = draft.op_name(f"{read.name}_next")
        ops = (*ops, in_order(name, graph.tensors[write.name], next_, perm))
    initial = draft.tensor(f"{read.name}_initial", kind, kind.zeros())
    left = tuple(name for name in graph.outputs if name != write.name)
    return replace(
        graph,
        tensors=draft.tensors,
        ops=ops,
        inputs=tuple(name for name in graph.inputs if name != read.name),
        outputs=left or graph.outputs,
        states=(*graph.states, State(read.name, next_, initial)),
    )
