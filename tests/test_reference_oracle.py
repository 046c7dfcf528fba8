"""The reference runtime and its numpy twin against PyPI's tflite_micro on whole models: every tensor, byte for byte."""

from __future__ import annotations

import numpy as np
import pytest
from evaluate import evaluate
from runtime import load_reference
from samples import random_inputs
from shared import MODELS, ROAD, needs_shared
from tflite_micro.python.tflite_micro import runtime

from shoehorn_mcu.base.paths import MODELS as SHIPPED
from shoehorn_mcu.importers import load
from shoehorn_mcu.importers.tflite.file import read
from shoehorn_mcu.importers.tflite.tensors import unique_names
from shoehorn_mcu.ir import Array, Graph

LARGE_MACS = 50_000_000
ARENA_BYTES = 256 << 20


class Oracle:
    """A model in tflite_micro that keeps every tensor; used for many inputs."""

    def __init__(self, model: bytes, graph: Graph) -> None:
        written = {op.output for op in graph.ops}
        names = unique_names(t.name for t in read(model).tensors)
        self._numbers = {name: i for i, name in enumerate(names) if name in written}
        self._interpreter = runtime.Interpreter.from_bytes(
            model, arena_size=ARENA_BYTES, intrepreter_config=runtime.InterpreterConfig.kPreserveAllTensors
        )

    def run(self, inputs: list[Array]) -> dict[str, Array]:
        for index, array in enumerate(inputs):
            self._interpreter.set_input(array, index)
        self._interpreter.invoke()
        return {n: np.array(self._interpreter.GetTensor(i, 0)["tensor_data"]) for n, i in self._numbers.items()}


def assert_same_on(graph: Graph, model: bytes, vectors: int) -> None:
    reference, oracle, rng = load_reference(graph), Oracle(model, graph), np.random.default_rng(5)
    for vector in range(vectors):
        named = random_inputs(graph, rng)
        inputs = list(named.values())
        want = oracle.run(inputs)

        assert set(graph.outputs) <= want.keys()
        for twin, found in (("C", reference.run(inputs)), ("numpy", evaluate(graph, named))):
            differing = [
                op.name for op in graph.ops if op.output in want and _differ(found[op.output], want[op.output])
            ]
            assert not differing, f"vector {vector} in {twin}: first op that differs: {differing[0]}"


def _differ(a: Array, b: Array) -> bool:
    return a.dtype != b.dtype or a.tobytes() != b.tobytes()


def test_the_shipped_model_gives_the_bytes_of_tflite_micro_in_every_tensor() -> None:
    path = SHIPPED / "digits.tflite"

    assert_same_on(load(path), path.read_bytes(), vectors=100)


@needs_shared
@pytest.mark.parametrize("model", ["mlperf-kws-dscnn-int8", "mltk-fingerprint", "facemesh-192-fullint"])
def test_a_road_model_gives_the_bytes_of_tflite_micro_in_every_tensor(model: str) -> None:
    path = MODELS / f"{model}.tflite"

    assert_same_on(load(path), path.read_bytes(), vectors=2)


@needs_shared
@pytest.mark.long
@pytest.mark.parametrize("model", ROAD)
def test_every_road_model_gives_the_bytes_of_tflite_micro_in_every_tensor(model: str) -> None:
    path = MODELS / f"{model}.tflite"
    graph = load(path)

    assert_same_on(graph, path.read_bytes(), vectors=5 if graph.macs > LARGE_MACS else 100)
