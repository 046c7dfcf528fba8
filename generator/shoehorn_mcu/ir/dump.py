"""A graph as text, one line an op: human-readable, for tests and diffs."""

from __future__ import annotations

import dataclasses

from shoehorn_mcu.ir.graph import Graph, Op

_OPERANDS = {field.name for field in dataclasses.fields(Op)}


def dump(graph: Graph) -> str:
    """One line per input, state, op and output; constants by type only."""
    lines = [f"graph {graph.name}"]
    lines += [f"input {name}: {graph.tensors[name].type}" for name in graph.inputs]
    lines += [
        f"state {s.read}: {graph.tensors[s.read].type} next {s.write} initially {s.initial}" for s in graph.states
    ]
    for op in graph.ops:
        attributes = {f.name: getattr(op, f.name) for f in dataclasses.fields(op) if f.name not in _OPERANDS}
        shown = "".join(f" {key}={value}" for key, value in attributes.items())
        operands = ", ".join(
            n if graph.tensors[n].data is None else f"const {graph.tensors[n].type}" for n in op.inputs
        )
        lines.append(f"{op.output}: {graph.tensors[op.output].type} = {type(op).__name__}({operands}){shown}")
    lines += [f"output {name}" for name in graph.outputs]
    return "\n".join(lines) + "\n"
