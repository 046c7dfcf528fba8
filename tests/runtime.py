"""Runs a graph through the reference runtime without the rest of the written folder."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from shoehorn_mcu.emit.reference import reference_files
from shoehorn_mcu.host_tools.reference import Reference
from shoehorn_mcu.ir import Array, Graph
from shoehorn_mcu.paths import RUNTIME_C


def write_reference(graph: Graph, folder: Path) -> Path:
    """`folder` with a `reference/` of the graph; its runtime/ is a link to ours."""
    place = folder / "reference"
    place.mkdir(parents=True)
    for name, content in reference_files(graph, graph.name).items():
        (place / name).write_bytes(content.encode() if isinstance(content, str) else content)
    (place / "runtime").symlink_to(RUNTIME_C)
    return folder


def load_reference(graph: Graph) -> Reference:
    """The graph, ready to run."""
    with tempfile.TemporaryDirectory() as folder:
        return Reference.load(write_reference(graph, Path(folder)))


def run_reference(graph: Graph, inputs: Sequence[Array]) -> dict[str, Array]:
    """Every tensor that is not constant, by name, for one array per graph input."""
    return load_reference(graph).run(inputs)
