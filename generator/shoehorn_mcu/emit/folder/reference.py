"""Writes the input of the reference runtime, `graph.json` and `constants.bin`, and `model.json` for `gen tune`.

`shoehorn_mcu_host.validate.reference` reads and documents the format of the first, `graph_file.py` that of
`model.json`; both share `constants.bin`. The kernels are the portable ones, whatever the board: the reference computes
each op whole, the board computes it by its plan, and the bytes must agree.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import numpy as np

from shoehorn_mcu.emit.folder import graph_file
from shoehorn_mcu.ir import Array, Graph, Node, Tensor
from shoehorn_mcu.kernels import Value, oracle
from shoehorn_mcu.kernels.base.contract import Packed, array_of

FORMAT = 1
_ALIGNMENT = 16  # of each constant in constants.bin, bytes


@dataclass
class _Constants:
    """Arrays one after the other, little endian; equal arrays are stored once."""

    blob: bytearray = field(default_factory=bytearray)
    entries: list[dict[str, object]] = field(default_factory=list)
    places: dict[tuple[str, bytes], int] = field(default_factory=dict)

    def place(self, array: Array) -> int:
        """The number of the constant that holds this array."""
        key = (array.dtype.name, array.astype(array.dtype.newbyteorder("<")).tobytes())
        if key not in self.places:
            self.blob += bytes(-len(self.blob) % _ALIGNMENT)
            self.places[key] = len(self.entries)
            self.entries.append({"offset": len(self.blob), "dtype": key[0], "count": array.size})
            self.blob += key[1]
        return self.places[key]


def reference_files(graph: Graph, name: str, sha256: str = "", flush: bool = False) -> dict[str, bytes | str]:
    """The files of the folder `reference/` except `runtime/`, by path in it.

    `name` is the model's, `sha256` that of its file. `flush`: numbers below 2^-126 are 0.
    """
    constants = _Constants()
    used = {operand.name: operand for node in graph.nodes() for operand in (*node.row_inputs, node.output)}
    for end in (*graph.sources, *graph.results):
        used.setdefault(end, graph.tensors[end])
    tensors = {tensor.name: _tensor(tensor, constants) for tensor in used.values()}
    ops = [_view(node) if node.op.view else _op(node, constants) for node in graph.nodes()]
    kept = [
        {"read": state.read, "write": state.write, "initial": constants.place(graph.initial(state))}
        for state in graph.states
    ]
    sections = {
        "format": FORMAT,
        "name": name,
        **({"flush": True} if flush else {}),
        "inputs": list(graph.inputs),
        "outputs": list(graph.outputs),
        **({"states": kept} if kept else {}),
        "tensors": tensors,
        "ops": ops,
        "constants": list(constants.entries),
    }
    model = graph_file.sections(graph, sha256, constants.place)
    return {
        "graph.json": _text(sections),
        "model.json": _text({**model, "constants": constants.entries}),
        "constants.bin": bytes(constants.blob),
    }


def _tensor(tensor: Tensor, constants: _Constants) -> dict[str, object]:
    kind, quant = tensor.type, tensor.type.quant
    return {
        "shape": list(kind.shape),
        "dtype": kind.dtype.value,
        "rows": kind.rows,
        "row_bytes": kind.row_bytes,
        "scales": list(quant.scales) if quant else None,
        "zero_points": list(quant.zero_points) if quant else None,
        "const": None if tensor.data is None else constants.place(tensor.data),
    }


def _view(node: Node) -> dict[str, object]:
    return {
        "name": node.op.name,
        "type": type(node.op).__name__,
        "view": node.x.name,
        "output": node.output.name,
    }


def _op(node: Node, constants: _Constants) -> dict[str, object]:
    kernel = oracle(node)
    contract = kernel.contract
    by_row = [node.op.rows(y, node.sig) for y in range(node.output.type.rows)]
    return {
        "name": node.op.name,
        "type": type(node.op).__name__,
        "function": kernel.function,
        "struct": contract.struct,
        "takes_row": contract.takes_row,
        "scratch_bytes": 0 if contract.takes_scratch else None,
        "params": {member: _param(value, constants) for member, value in kernel.params(node).items()},
        "inputs": [
            {"tensor": tensor.name, "rows": [[-1 if r is None else r for r in rows[i]] for rows in by_row]}
            for i, tensor in enumerate(node.row_operands)
        ],
        "output": node.output.name,
        **_part(node),
    }


def _part(node: Node) -> dict[str, object]:
    """Where an op writes a part of its output's rows."""
    part = node.row_part
    if part is None:
        return {}
    start = part.start * node.output.type.dtype.bytes
    return {"start": start, **({} if part.onto is None else {"onto": node.inputs[part.onto].name})}


def _param(value: Value, constants: _Constants) -> object:
    data = array_of(value)
    if data is not None:
        return {"const": constants.place(data)}
    return None if isinstance(value, np.ndarray | Packed) else value


def _text(sections: dict[str, object]) -> str:
    """JSON with a line for each op, tensor and constant, so that it can be read and compared by line."""
    return "{\n" + ",\n".join(f"{json.dumps(key)}: {_section(value)}" for key, value in sections.items()) + "\n}\n"


def _section(value: object) -> str:
    if isinstance(value, dict):
        return "{\n" + ",\n".join(f" {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items()) + "\n}"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join(f" {json.dumps(item)}" for item in value) + "\n]"
    return json.dumps(value)
