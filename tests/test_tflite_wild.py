"""Models as Keras and its converter write them, tensor by tensor against the runtimes that have their ops.

Their open batch is 1: the runtimes get the models with the sizes of the graph in place of the file's placeholders.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flatbuffers
import litert
import numpy as np
import oracle
import pytest
from shared import SHARED
from tflite_micro.python.tflite_micro.runtime import schema_fb

from shoehorn_mcu.importers.tflite.importer import import_tflite
from shoehorn_mcu.ir import Array, DType, Graph

WILD = SHARED / "wild-cases"

CASES = {
    "tcn960_int8": (oracle.run, None),
    "tcn960_f32": (oracle.run, None),
    "seg_argmax_int8": (oracle.run, None),
    "ae_score_int8": (oracle.run, None),
    "attn_b1_int8": (oracle.run, 43),  # it has no GELU
    "yoloseg113_int8": (litert.run, 60),  # its dense layers are not those of tflite_micro, which has no TILE
    "gru907_unroll_int8": (litert.run, 27),
}
"""By file: a runtime that has its ops, and how many of them it computes as we do; None: all."""


def settled(data: bytes, graph: Graph, count: int | None) -> Any:
    """The model with the graph's shapes, and its first ops alone."""
    model = schema_fb.ModelT.InitFromObj(schema_fb.Model.GetRootAsModel(data, 0))
    part = model.subgraphs[0]
    for tensor in part.tensors:
        if (known := graph.tensors.get(tensor.name.decode())) is not None:
            tensor.shape, tensor.shapeSignature = list(known.type.shape), None
    for code in model.operatorCodes:
        if code.builtinCode == schema_fb.BuiltinOperator.TILE:
            code.version = 1  # LiteRT's reference kernel runs int8, but is not registered for it
    if count is not None:
        part.operators = part.operators[:count]
        part.outputs = list(part.operators[-1].outputs)
    return model


def values_of(graph: Graph, inputs: list[Array]) -> dict[str, Array]:
    values = {name: tensor.data for name, tensor in graph.tensors.items() if tensor.data is not None}
    values |= dict(zip(graph.inputs, inputs, strict=True))
    for node in graph.nodes():
        values[node.op.output] = node.op.reference([values[n] for n in node.op.inputs], node.sig)
    return values


@pytest.mark.parametrize("name", CASES)
@pytest.mark.skipif(not WILD.is_dir(), reason="the cases beside the checkout are not there")
def test_a_model_as_keras_writes_it(name: str) -> None:
    run: Callable[[bytes, list[Array]], Any]
    run, count = CASES[name]
    data = (WILD / f"{name}.tflite").read_bytes()
    graph = import_tflite(data, name)
    model = settled(data, graph, count)
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    rng = np.random.default_rng(0)
    kinds = [graph.tensors[each].type for each in graph.inputs]
    inputs = [
        rng.normal(0, 1, kind.shape).astype(np.float32)
        if kind.dtype is DType.FLOAT32
        else rng.integers(-128, 128, kind.shape, np.int8)
        for kind in kinds
    ]

    ours, theirs = values_of(graph, inputs), run(bytes(builder.Output()), inputs)

    part = model.subgraphs[0]
    names = {place: part.tensors[place].name.decode() for op in part.operators for place in op.outputs}
    compared = [place for place, each in names.items() if each in ours]
    assert len(compared) > len(names) // 2
    for place in compared:
        found, wanted = ours[names[place]], np.asarray(theirs[place]).reshape(ours[names[place]].shape)
        if found.dtype == np.float32 and DType.INT8 not in {kind.dtype for kind in kinds}:
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
        else:
            assert np.array_equal(found, wanted), names[place]
