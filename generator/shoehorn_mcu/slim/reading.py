"""A model's file as the float32 graph that moves rewrite: batch normalisations and activations are in their layers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from shoehorn_mcu import importers, passes
from shoehorn_mcu.importers import Imported, Shapes
from shoehorn_mcu.ir import DType, Graph, verify
from shoehorn_mcu.slim.fault import SlimError

EXACT = (
    "drop-dead",
    "lift-transposes",
    "merge-transposes",
    "fold-transpose",
    "fuse-shuffle",
    "fold-shuffle",
    "sink-transposes",
    "drop-views",
    "merge-equal",
    "fold-affine",
    "fold-pad",
    "fuse-clamp",
    "sink-views",
)
"""The passes before moves. Those that look at values of weights are left out, for a training changes these."""


def read(path: Path, shapes: Shapes | None = None) -> Imported:
    """The model with a graph that moves know. Raises ImportFault, or SlimError where it is not in float32."""
    found = importers.imported(path, shapes or {})
    graph = exact(found.graph)
    where = path.name
    if any(tensor.type.quant is not None for tensor in graph.tensors.values()):
        raise SlimError(f"{where}: is quantised already; give the float32 model that it was made from")
    if graph.states:
        raise SlimError(f"{where}: keeps states between inferences; only models without states can be retrained here")
    if other := [n for n in (*graph.inputs, *graph.outputs) if graph.tensors[n].type.dtype is not DType.FLOAT32]:
        kind = graph.tensors[other[0]].type.dtype.value
        raise SlimError(f"{where}: '{other[0]}' is {kind}; export the model with float32 inputs and outputs")
    if not any(tensor.data is not None for tensor in graph.tensors.values()):
        raise SlimError(f"{where}: has no weights; there is nothing to retrain")
    return replace(found, graph=graph)


def exact(graph: Graph) -> Graph:
    """The graph after the passes that change no value and do not look at weights."""
    for each in passes.PIPELINE:
        if each.name in EXACT:
            graph = verify(each.rewrite(graph))
    return graph
