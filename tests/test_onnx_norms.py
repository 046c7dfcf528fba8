"""ONNX's normalisations where the mean is large against the deviation, against their definition in float64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from shoehorn_mcu import passes
from shoehorn_mcu.importers.onnx.importer import import_model
from shoehorn_mcu.ir import Array
from tests.runtime import run_reference

pytestmark = pytest.mark.usefixtures("module_in_one_process")

RNG = np.random.default_rng(0)
CLOSE = 2e-5
"""Of the largest value."""

Reals = NDArray[np.float64]


def centred(x: Reals, axes: tuple[int, ...], epsilon: float = 1e-5) -> Reals:
    apart = x - x.mean(axes, keepdims=True)
    return np.asarray(apart / np.sqrt((apart * apart).mean(axes, keepdims=True) + epsilon))


def layer(x: Reals, s: Reals, b: Reals) -> Reals:
    return centred(x, tuple(range(x.ndim - s.ndim, x.ndim))) * s + b


def instance(x: Reals, s: Reals, b: Reals) -> Reals:
    wide = (-1, *(1 for _ in x.shape[2:]))
    return centred(x, tuple(range(2, x.ndim))) * s.reshape(wide) + b.reshape(wide)


def group(x: Reals, s: Reals, b: Reals, groups: int = 2) -> Reals:
    each, wide = x.shape[1] // groups, (-1, *(1 for _ in x.shape[2:]))
    parts = centred(x.reshape(x.shape[0], groups, -1), (2,)).reshape(x.shape)
    s, b = (v if v.size == x.shape[1] else v.repeat(each) for v in (s, b))
    return parts * s.reshape(wide) + b.reshape(wide)


def rms(x: Reals, s: Reals) -> Reals:
    return np.asarray(x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * s)


def near_one(*shape: int) -> Array:
    return (1 + 0.1 * RNG.standard_normal(shape)).astype(np.float32)


IMAGE = (2, 6, 5, 7)
CASES: dict[str, tuple[str, tuple[int, ...], Sequence[Array], Any, int, Mapping[str, Any]]] = {
    "layer": ("LayerNormalization", (1, 4, 64), (near_one(64), near_one(64)), layer, 17, {}),
    "layer of an image": ("LayerNormalization", IMAGE, (near_one(6, 5, 7), near_one(6, 5, 7)), layer, 17, {"axis": 1}),
    "layer of many": ("LayerNormalization", (1, 1 << 16), (near_one(1 << 16), near_one(1 << 16)), layer, 17, {}),
    "image": ("MeanVarianceNormalization", IMAGE, (), lambda x: centred(x, (0, 2, 3), 0), 13, {}),
    "image along axes": (
        "MeanVarianceNormalization",
        IMAGE,
        (),
        lambda x: centred(x, (1, 2), 0),
        13,
        {"axes": [1, -2]},
    ),
    "instance": ("InstanceNormalization", IMAGE, (near_one(6), near_one(6)), instance, 18, {}),
    "instance of many": ("InstanceNormalization", (1, 2, 256, 256), (near_one(2), near_one(2)), instance, 18, {}),
    "instance of a sequence": ("InstanceNormalization", (1, 6, 50), (near_one(6), near_one(6)), instance, 18, {}),
    "group, scale per group": ("GroupNormalization", IMAGE, (near_one(2), near_one(2)), group, 18, {"num_groups": 2}),
    "group": ("GroupNormalization", IMAGE, (near_one(6), near_one(6)), group, 21, {"num_groups": 2}),
    "mean of squares": ("RMSNormalization", (1, 4, 64), (near_one(64),), rms, 23, {}),
    "mean of many squares": ("RMSNormalization", (1, 1 << 16), (near_one(1 << 16),), rms, 23, {}),
}


def network(
    code: str,
    shape: Sequence[int],
    held: Sequence[Array],
    opset: int,
    outputs: Sequence[str] = ("y",),
    **attributes: Any,
) -> onnx.ModelProto:
    names = [f"c{i}" for i in range(len(held))]
    node = helper.make_node(code, ["x", *names], outputs, **attributes)
    ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs if name]
    constants = [numpy_helper.from_array(array, name) for array, name in zip(held, names, strict=True)]
    graph = helper.make_graph([node], "g", ends, results, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def computed(made: onnx.ModelProto, x: Array) -> dict[str, Array]:
    """Our results, in the model's order of dimensions."""
    imported = import_model(made, "m")
    graph, _ = passes.run(imported.graph)
    found = run_reference(graph, [np.ascontiguousarray(x.transpose(imported.ends["x"].order))])
    return {name: found[name].transpose(np.argsort(imported.ends[name].order)) for name in graph.outputs}


@pytest.mark.parametrize(("mean", "deviation"), [(0, 1), (1000, 1), (100, 0.1)], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_a_large_mean_costs_no_digits(name: str, mean: float, deviation: float) -> None:
    code, shape, held, define, opset, attributes = CASES[name]
    x = (mean + deviation * RNG.standard_normal(shape)).astype(np.float32)

    found = computed(network(code, shape, held, opset, **attributes), x)["y"]

    wanted = define(x.astype(np.float64), *(array.astype(np.float64) for array in held))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=CLOSE * np.abs(wanted).max())


@pytest.mark.parametrize(
    "held",
    [(near_one(8),), (near_one(1), near_one(6, 1)), (near_one(6, 8), near_one(8))],
    ids=["plain", "thin", "wide"],
)
def test_all_results_of_a_layer_are_those_of_onnx_runtime(held: Sequence[Array]) -> None:
    """With and without a bias, and with ones that broadcast."""
    made = network("LayerNormalization", (2, 6, 8), held, 17, ("y", "mean", "inverse"), axis=-1, epsilon=1e-3)
    x = RNG.standard_normal((2, 6, 8)).astype(np.float32)
    run = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = dict(zip(("y", "mean", "inverse"), run.run(None, {"x": x}), strict=True))

    found = computed(made, x)

    assert found.keys() == wanted.keys()
    for name, values in wanted.items():
        np.testing.assert_allclose(found[name], values, rtol=0, atol=1e-5)
