"""Runs random samples through kernels that were compiled with sanitizers, every row and constant in a block of its own.

    LD_PRELOAD=libasan.so python sanitized.py LIBRARY SEEDS [--overrun]

A kernel that reads or writes one byte beyond a row, or does what C leaves undefined, ends the process. `--overrun` asks
a kernel for one element too many, so that a test can see that this is noticed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import cffi
import numpy as np
from instances import PREFIX, formula_instances, portable_instance
from samples import random_inputs, sample

from shoehorn_mcu.base.paths import RUNTIME_C
from shoehorn_mcu.emit.folder.reference import reference_files
from shoehorn_mcu.ir import Array, Graph
from shoehorn_mcu.ops import OPS, Relu
from shoehorn_mcu_host.validate.reference_build import declarations


class Heap:
    """Blocks of exactly the size asked for, from the C library's malloc, which the sanitizer watches."""

    def __init__(self, ffi: Any) -> None:
        self._ffi = ffi
        self._libc = ffi.dlopen(None)
        self._blocks: list[Any] = []

    def block(self, content: bytes) -> Any:
        place = self._ffi.cast("int8_t *", self._libc.malloc(len(content)))
        self._ffi.memmove(place, content, len(content))
        self._blocks.append(place)
        return place

    def free(self) -> None:
        for place in self._blocks:
            self._libc.free(place)
        self._blocks.clear()


def _function(graph: Graph) -> str:
    """The portable kernel of a one-op graph."""
    (node,) = graph.nodes()
    return portable_instance(node).symbol(PREFIX)


class Runner:
    """The kernels of a shared library."""

    def __init__(self, library: str) -> None:
        headers, sources = (sorted(RUNTIME_C.glob(f"kernels/*/*{end}")) for end in (".h", ".inc"))
        self.ffi = cffi.FFI()
        self.ffi.cdef(declarations(headers, sources) + "void *malloc(size_t); void free(void *);")
        for name, contract in {k.symbol(PREFIX): k.contract.name for k in formula_instances()}.items():
            self.ffi.cdef(f"sh_{contract}_fn {name};")
        self.lib = self.ffi.dlopen(library)
        self.heap = Heap(self.ffi)

    def run(self, graph: Graph, inputs: dict[str, Array], **changes: int) -> bytes:
        """The output of a one-op graph, row after row; `changes` replace parameters."""
        files = reference_files(graph, graph.name)
        written, constants = json.loads(files["graph.json"]), bytes(files["constants.bin"])
        (op,) = written["ops"]
        struct = self._struct(written, op, constants, changes)
        made: list[Any] = []  # output rows, which an op that carries reads as well
        rows = {
            i["tensor"]: self._rows(graph, i["tensor"], inputs) for i in op["inputs"] if i["tensor"] != op["output"]
        }
        rows[op["output"]] = made
        output = graph.tensors[op["output"]].type
        result = b""
        for y in range(output.rows):
            x = [rows[i["tensor"]][r] if r >= 0 else self.ffi.NULL for i in op["inputs"] for r in i["rows"][y]]
            size = output.row_bytes
            onto = bytes(self.ffi.buffer(rows[op["onto"]][y], size)) if "onto" in op else bytes(size)
            place = self.heap.block(onto)
            more = ([y] if op["takes_row"] else []) + ([self.ffi.NULL] if op["scratch_bytes"] is not None else [])
            arguments = [struct, self.ffi.new("int8_t *[]", x), place + op.get("start", 0), *more]
            getattr(self.lib, _function(graph))(*arguments)
            result += bytes(self.ffi.buffer(place, output.row_bytes))
            made.append(place)
        self.heap.free()
        return result

    def _struct(self, written: dict[str, Any], op: dict[str, Any], constants: bytes, changes: dict[str, int]) -> Any:
        struct = self.ffi.new(f"{op['struct']} *")
        members = dict(self.ffi.typeof(struct).item.fields)
        for member, value in {**op["params"], **changes}.items():
            if isinstance(value, dict):
                place = written["constants"][value["const"]]
                end = place["offset"] + place["count"] * np.dtype(place["dtype"]).itemsize
                value = self.ffi.cast(members[member].type, self.heap.block(constants[place["offset"] : end]))
            setattr(struct, member, self.ffi.NULL if value is None else value)
        return struct

    def _rows(self, graph: Graph, name: str, inputs: dict[str, Array]) -> list[Any]:
        tensor = graph.tensors[name]
        data = (inputs[name] if tensor.data is None else tensor.data).tobytes()
        size = tensor.type.row_bytes
        return [self.heap.block(data[r * size : (r + 1) * size]) for r in range(tensor.type.rows)]


def main(library: str, seeds: int, overrun: bool) -> None:
    runner = Runner(library)
    if overrun:
        graph = sample(Relu, np.random.default_rng(0))
        elements = graph.tensors["y"].type.row_elements + 1
        runner.run(graph, random_inputs(graph, np.random.default_rng(0)), channels=elements)
    for op_class in (c for c in OPS if not c.view):
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            graph = sample(op_class, rng)
            inputs = random_inputs(graph, rng)
            (node,) = graph.nodes()
            want = node.op.reference([inputs.get(t.name, t.data) for t in node.inputs], node.sig)
            if runner.run(graph, inputs) != want.tobytes():
                sys.exit(f"{op_class.__name__}, seed {seed}: wrong bytes")
    print("all samples agree")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    main(sys.argv[1], int(sys.argv[2]), "--overrun" in sys.argv)
