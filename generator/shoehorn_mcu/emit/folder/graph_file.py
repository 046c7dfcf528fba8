"""A graph as JSON, with its constants in a file beside it: reference/model.json of a written folder.

`gen tune` reads it, so that it needs no model file. The object is
{"format", "generator": version of Shoehorn, "sha256" of the model file ("" where there was none), "name", "inputs",
 "outputs", "states": [{"read", "write", "initial"}], left out where there are none,
 "tensors": {name: {"shape", "dtype", "quant": null or {"scales", "zero_points", "axis"}, "const": null or the number
 of its constant}}, "ops": [{"type": the op's class, and its fields, records such as a padding and ops in it alike}],
 "constants": [{"offset": bytes into constants.bin, "dtype", "count"}]}, arrays little endian.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from shoehorn_mcu import ops
from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.base.version import __version__
from shoehorn_mcu.ir import Array, DType, Graph, Op, Quant, State, Tensor, TensorType, verify
from shoehorn_mcu.ops.clamp import Bounds, Clamp, RealClamp
from shoehorn_mcu.ops.conv import Padding
from shoehorn_mcu_host.base.files import read_bytes, read_json

FORMAT = 1
NAME = "reference/model.json"
CONSTANTS = "reference/constants.bin"
_LARGEST_CONSTANTS = 1 << 30  # bytes
_Record = Op | Bounds | Padding
_LATER = {"fused": False}  # fields that are left out where they have this value
_OPS: Mapping[str, type[Op]] = {each.__name__: each for each in ops.OPS}
_RECORDS: Mapping[str, type[Bounds | Padding]] = {each.__name__: each for each in (Clamp, RealClamp, Padding)}


class GraphFileError(ShoehornError):
    """A folder without the graph, or with one that this version cannot read."""

    kind = "damaged-folder"


@dataclass(frozen=True, eq=False)
class GraphFile:
    """What a folder was made from: its graph after all passes, and the SHA-256 of the model file."""

    graph: Graph
    sha256: str


def sections(graph: Graph, sha256: str, place: Callable[[Array], int | str]) -> dict[str, object]:
    """The object without "constants"; `place` stores an array and returns its number."""
    used = {name for op in graph.ops for name in (*op.inputs, op.output)} | {*graph.sources, *graph.results}
    used |= {state.initial for state in graph.states}
    kept = (tensor for name, tensor in graph.tensors.items() if name in used)
    return {
        "format": FORMAT,
        "generator": __version__,
        "sha256": sha256,
        "name": graph.name,
        "inputs": list(graph.inputs),
        "outputs": list(graph.outputs),
        **({"states": [asdict(state) for state in graph.states]} if graph.states else {}),
        "tensors": {tensor.name: _tensor(tensor, place) for tensor in kept},
        "ops": [_record(op) for op in graph.ops],
    }


def graph_bytes(graph: Graph) -> bytes:
    """What stands for the file of a graph that has none: its text, with hashes of its constants."""
    made = sections(graph, "", lambda data: hashlib.sha256(np.ascontiguousarray(data).tobytes()).hexdigest())
    return json.dumps(made, default=float).encode()


def _record(value: _Record) -> dict[str, object]:
    """An op or a record in it: its class and its fields."""
    own = {each.name: getattr(value, each.name) for each in fields(value)}
    own = {name: each for name, each in own.items() if name not in _LATER or each != _LATER[name]}
    inner = {name: _record(each) if isinstance(each, _Record) else each for name, each in own.items()}
    return {"type": type(value).__name__, **inner}


def _tensor(tensor: Tensor, place: Callable[[Array], int | str]) -> dict[str, object]:
    kind = tensor.type
    return {
        "shape": list(kind.shape),
        "dtype": kind.dtype.value,
        "quant": asdict(kind.quant) if kind.quant else None,
        "const": None if tensor.data is None else place(tensor.data),
    }


def load(folder: Path) -> GraphFile:
    """The graph of a written folder.

    The caller has checked that the files are as they were written. GraphFileError: another version wrote them.
    """
    path = folder / NAME
    cure = "write the folder again with gen firmware"
    try:
        found = read_json(path)
        blob = read_bytes(folder / CONSTANTS, _LARGEST_CONSTANTS)
        if (found["format"], found["generator"]) != (FORMAT, __version__):
            raise GraphFileError(f"{path}: of Shoehorn {found['generator']}, this is {__version__}; {cure}")
        return GraphFile(_graph(found, blob), str(found["sha256"]))
    except OSError as error:
        raise GraphFileError(f"{path}: cannot be read: {error.strerror}; {cure}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise GraphFileError(f"{path}: damaged ({type(error).__name__}: {error}); {cure}") from error


def _graph(found: Mapping[str, Any], blob: bytes) -> Graph:
    places = found["constants"]
    tensors = {name: _read_tensor(name, each, places, blob) for name, each in found["tensors"].items()}
    read = tuple(map(_read_op, found["ops"]))
    states = tuple(State(**each) for each in found.get("states", ()))
    return verify(Graph(found["name"], tensors, read, tuple(found["inputs"]), tuple(found["outputs"]), states))


def _read_tensor(name: str, found: Mapping[str, Any], places: list[Mapping[str, Any]], blob: bytes) -> Tensor:
    quant = found["quant"]
    made = Quant(tuple(quant["scales"]), tuple(quant["zero_points"]), quant["axis"]) if quant else None
    kind = TensorType(tuple(found["shape"]), DType(found["dtype"]), made)
    if found["const"] is None:
        return Tensor(name, kind)
    place = places[found["const"]]
    stored = np.dtype(place["dtype"]).newbyteorder("<")
    data = np.frombuffer(blob, stored, place["count"], place["offset"])
    return Tensor(name, kind, data.astype(place["dtype"]).reshape(kind.shape))


def _read_op(found: Mapping[str, Any]) -> Op:
    of = _OPS[found["type"]]
    return of(**{each.name: _read_field({**_LATER, **found}[each.name]) for each in fields(of)})


def _read_field(value: Any) -> Any:
    """A field of an op: JSON has no tuples, no records and no ops."""
    if isinstance(value, dict):
        of = _RECORDS.get(value["type"])
        return _read_op(value) if of is None else of(**{each.name: value[each.name] for each in fields(of)})
    return tuple(value) if isinstance(value, list) else value
