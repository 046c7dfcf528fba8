"""Runs a graph through the reference runtime without the rest of the written folder."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from instances import PREFIX, portable_instance, write_kernels, write_variants

from shoehorn_mcu.base.paths import RUNTIME_C
from shoehorn_mcu.emit.folder.reference import reference_files
from shoehorn_mcu.ir import Array, Graph
from shoehorn_mcu.ops import Formulaic
from shoehorn_mcu_host.folder.documents import GraphDocument
from shoehorn_mcu_host.validate.reference import Reference
from shoehorn_mcu_host.validate.reference_build import Kernels, build


def write_reference(graph: Graph, folder: Path) -> Path:
    """`folder` with a `reference/` of the graph; its runtime/ is a link to ours."""
    place = folder / "reference"
    place.mkdir(parents=True)
    for name, content in reference_files(graph, graph.name).items():
        (place / name).write_bytes(content.encode() if isinstance(content, str) else content)
    (place / "runtime").symlink_to(RUNTIME_C)
    return folder


@cache
def _oracles() -> Kernels:
    return build(RUNTIME_C)


@cache
def _variants() -> Kernels:
    with tempfile.TemporaryDirectory() as folder:
        write_variants(Path(folder) / "runtime")
        return build(Path(folder) / "runtime")


def _loaded(graph: Graph, kernels: Kernels, functions: Mapping[str, str], suffix: str) -> Reference:
    """`functions`: those of ops by their names; that of any other op has the contract's name and `suffix`."""
    files = reference_files(graph, graph.name)
    written = json.loads(files["graph.json"])
    for op in written["ops"]:
        if "function" in op:
            own = op["function"].removesuffix("_ref") + suffix
            op["function"] = functions.get(op["name"], own)
    document = GraphDocument.model_validate_json(json.dumps(written))
    return Reference(document, bytes(files["constants.bin"]), kernels)


def load_reference(graph: Graph) -> Reference:
    """The graph, ready to run, from a folder as a user has it."""
    with tempfile.TemporaryDirectory() as folder:
        return Reference.load(write_reference(graph, Path(folder)))


def run_reference(graph: Graph, inputs: Sequence[Array]) -> dict[str, Array]:
    """Every tensor that is not constant, by name, for one array per graph input."""
    return _loaded(graph, _oracles(), {}, "_ref").run(inputs)


def load_portable(graph: Graph) -> Reference:
    """The graph, ready to run with the portable variants, which boards run, in place of the oracles."""
    if not any(isinstance(op, Formulaic) for op in graph.ops):
        return _loaded(graph, _variants(), {}, "_c")
    kernels = {node.op.name: portable_instance(node) for node in graph.nodes() if not node.op.view}
    with tempfile.TemporaryDirectory() as folder:
        write_kernels(Path(folder) / "runtime", kernels.values())
        built = build(Path(folder) / "runtime")
    return _loaded(graph, built, {name: kernel.symbol(PREFIX) for name, kernel in kernels.items()}, "_c")


def run_portable(graph: Graph, inputs: Sequence[Array]) -> dict[str, Array]:
    """Every tensor that is not constant, by name, as the portable variants compute it."""
    return load_portable(graph).run(inputs)
