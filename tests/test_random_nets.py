"""Random float and quantised ONNX networks beside ONNX Runtime, and some of them as generated C.

`python -m bench.random_nets` prints what the whole sweep finds; a failure names the network's seed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from emitted import compile_library, run, unit_of
from evaluate import evaluate, random_arrays

from bench.random_nets import results
from shoehorn_mcu import passes
from shoehorn_mcu.importers.onnx.importer import import_model
from tests.random_nets import Result
from tests.random_onnx import GROWERS, random_model
from tests.random_qdq import random_options, random_quantised

pytestmark = pytest.mark.usefixtures("module_in_one_process")

FLOAT, QUANTISED = 40, 20
"""Networks in every run of the suite."""
MOST_STEPS_OF_AN_OP = 2
"""Of an op with ONNX Runtime's operands: an average in another scale is rounded twice, a softmax of int16 by tables."""


def _is_right(found: Result) -> None:
    assert found.state in ("equal", "none"), f"seed {found.seed}: {found.cause}"
    worst = max((off for _, off in found.ops), default=0)
    assert worst <= MOST_STEPS_OF_AN_OP, f"seed {found.seed}: {found.ops}"
    assert found.why_more != "unexplained", f"seed {found.seed}"


@pytest.mark.parametrize("first", range(0, FLOAT, 20))
def test_a_random_network_computes_what_onnx_runtime_does(first: int) -> None:
    for found in results("float", first, 20):
        _is_right(found)


@pytest.mark.parametrize("first", range(0, QUANTISED, 10))
def test_a_random_quantised_network_computes_what_onnx_runtime_does(first: int) -> None:
    for found in results("qdq", first, 10):
        _is_right(found)


@pytest.mark.long
@pytest.mark.parametrize(("kind", "count"), [("float", 5000), ("qdq", 2000)])
def test_all_random_networks_compute_what_onnx_runtime_does(kind: str, count: int) -> None:
    refused = 0
    for found in results(kind, 0, count):
        if found.state == "refused":
            refused += 1
        else:
            _is_right(found)
    assert refused < count / 100


def _compiled(made: onnx.ModelProto, folder: Path) -> None:
    """The generated library computes what the ops' references do."""
    graph = passes.prove_int32(passes.run(import_model(made, "net").graph)[0])
    unit = unit_of(graph)
    inputs = random_arrays(graph, 1)
    (found,) = run(unit, compile_library(unit, folder), [inputs])
    wanted = inputs | evaluate(graph, inputs)
    for name in graph.outputs:
        np.testing.assert_array_equal(found[name], wanted[name], strict=True)


@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 60))])
def test_the_library_of_a_random_network_computes_what_its_ops_mean(seed: int, tmp_path: Path) -> None:
    _compiled(random_model(seed), tmp_path)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 40))])
def test_the_library_of_a_random_quantised_network_computes_what_its_ops_mean(seed: int, tmp_path: Path) -> None:
    _compiled(random_quantised(seed)[0], tmp_path)


def test_a_seed_gives_the_same_network_each_time() -> None:
    assert random_model(7) == random_model(7)
    assert random_quantised(7) == random_quantised(7)


def test_the_networks_hold_all_that_is_asked_for() -> None:
    models = [random_model(seed) for seed in range(300)]
    held = {node.op_type for made in models for node in made.graph.node}

    assert held >= {"Conv", "ConvTranspose", "MaxPool", "AveragePool", "BatchNormalization", "LayerNormalization"}
    assert held >= {"InstanceNormalization", "Resize", "Concat", "Slice", "Transpose", "Softmax", "MatMul", "Gemm"}
    assert held >= {"ReduceMean", "ReduceSum", "ReduceMax", "Gather", "Split", "Pad", "ArgMax", "TopK", "Einsum"}
    assert len(held) > len(set(GROWERS)) + 40
    assert {entry.version for made in models for entry in made.opset_import} == {13, 17, 18, 19, 21}
    assert {len(made.graph.input) for made in models} == {1, 2}
    assert max(len(made.graph.output) for made in models) > 3
    axes = {(len(dims), _axis(node) % len(dims)) for made in models for node, dims in _concats(made)}
    assert axes >= {(4, axis) for axis in range(4)} | {(3, axis) for axis in range(3)} | {(2, 0), (2, 1)}
    options = [random_options(seed) for seed in range(300)]
    assert len({(each.activations, each.weights) for each in options}) == 6
    assert {each.clips for each in options} == {each.per_channel for each in options} == {False, True}


def _concats(made: onnx.ModelProto) -> list[tuple[onnx.NodeProto, list[int]]]:
    """Each Concat whose result is an output, and the shape of that."""
    shapes = {end.name: [d.dim_value for d in end.type.tensor_type.shape.dim] for end in made.graph.output}
    return [(n, shapes[n.output[0]]) for n in made.graph.node if n.op_type == "Concat" and n.output[0] in shapes]


def _axis(node: onnx.NodeProto) -> int:
    return next(int(attribute.i) for attribute in node.attribute if attribute.name == "axis")
