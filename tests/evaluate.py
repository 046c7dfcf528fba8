"""A graph's tensors by the numpy references, op by op."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from shoehorn_mcu.ir import Array, Graph


def evaluate(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Every tensor that is no constant, for these inputs by name."""
    constants = {n: t.data for n, t in graph.tensors.items() if t.data is not None}
    values = dict(inputs)
    for node in graph.nodes():
        arrays = [constants[n] if n in constants else values[n] for n in node.op.inputs]
        values[node.op.output] = node.op.reference(arrays, node.sig)
    return values


def random_arrays(graph: Graph, seed: int) -> dict[str, Array]:
    """An array for every input: any stored value, or float32 between -2 and 2."""
    rng = np.random.default_rng(seed)
    arrays: dict[str, Array] = {}
    for name in graph.inputs:
        kind = graph.tensors[name].type
        if kind.dtype.numpy.kind == "f":
            arrays[name] = rng.uniform(-2, 2, kind.shape).astype(np.float32)
        else:
            info = np.iinfo(kind.dtype.value)
            arrays[name] = rng.integers(info.min, info.max, kind.shape, kind.dtype.numpy, endpoint=True)
    return arrays
