"""A model's file as the float32 graph that moves rewrite: batch normalisations and activations are in their layers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from shoehorn_mcu import importers, passes
from shoehorn_mcu.importers import Imported, Shapes
from shoehorn_mcu.ir import DType, Graph, verify
from shoehorn_mcu.slim.fault import SlimError
from shoehorn_mcu.slim.users import called, function_of

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
    "join-siblings",
    "sink-views",
)
"""The passes before moves. Those that look at values of weights are left out, for a training changes these."""


def read(where: str | Path, shapes: Shapes | None = None) -> Imported:
    """The model of a file, or the one that `file.py:function` returns: a torch.nn.Module and an example of its input.

    Raises ImportFault, or SlimError where it cannot be slimmed.
    """
    users = function_of(str(where))
    found = importers.imported(Path(where), shapes or {}) if users is None else _built(*users, shapes or {})
    return of(found, Path(where).name)


def _built(path: Path, function: str, shapes: Shapes) -> Imported:
    """The network that a function of the user's own file returns, in the mode in which it is used."""
    from shoehorn_mcu.importers.torch.importer import import_module

    made = called(path, function)
    module, example = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not hasattr(module, "eval") or example is None:
        said = "a torch.nn.Module and an example of its input, such as (net, torch.zeros(1, 3, 32, 32))"
        raise SlimError(f"{path}:{function}: returns {type(made).__name__}; wanted is {said}")
    return import_module(module.eval(), example, None, shapes)


def of(found: Imported, where: str) -> Imported:
    """An imported model with a graph that moves know. Raises SlimError where it is not in float32."""
    graph = exact(found.graph)
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
