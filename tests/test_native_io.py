"""`--io native`: inputs and outputs in the order of the model's file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from conftest import Gen
from evaluate import evaluate
from onnx import TensorProto, helper, numpy_helper

from shoehorn_mcu import importers, passes
from shoehorn_mcu.importers.source import Imported
from shoehorn_mcu.ir import Array, FileTensor, Graph, Tensor, TensorType
from shoehorn_mcu.passes.ends.native_io import native_io

RNG = np.random.default_rng(21)


def saved(folder: Path, constants: Mapping[str, Array], nodes: list[tuple[str, list[str], str]], y: int) -> Path:
    """A model of these nodes from x, float32 1x3x6x5, to y, of element type `y`."""
    graph = helper.make_graph(
        [helper.make_node(code, inputs, [output]) for code, inputs, output in nodes],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, 6, 5))],
        [helper.make_tensor_value_info("y", y, (1, 4, 6, 5))],
        [numpy_helper.from_array(data, name) for name, data in constants.items()],
    )
    path = folder / "small.onnx"
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    path.write_bytes(made.SerializeToString())
    return path


def float_model(folder: Path) -> Path:
    w = RNG.standard_normal((4, 3, 1, 1)).astype(np.float32)
    return saved(folder, {"w": w}, [("Conv", ["x", "w"], "y")], TensorProto.FLOAT)


def quantised_model(folder: Path) -> Path:
    """Its output is uint8."""
    held: Mapping[str, Array] = {
        "scale": np.array(0.05, np.float32),
        "zero": np.array(120, np.uint8),
        "w": RNG.integers(-127, 128, (4, 3, 1, 1)).astype(np.int8),
        "w_scale": np.array(0.01, np.float32),
        "w_zero": np.array(0, np.int8),
    }
    nodes = [
        ("QuantizeLinear", ["x", "scale", "zero"], "xq"),
        ("DequantizeLinear", ["xq", "scale", "zero"], "xr"),
        ("DequantizeLinear", ["w", "w_scale", "w_zero"], "wr"),
        ("Conv", ["xr", "wr"], "yr"),
        ("QuantizeLinear", ["yr", "scale", "zero"], "y"),
    ]
    return saved(folder, held, nodes, TensorProto.UINT8)


def native(found: Imported) -> Graph:
    after, _ = passes.run(native_io(found.graph, found.ends))
    return passes.prove_int32(after)


@pytest.mark.parametrize(("make", "apart"), [(float_model, 1e-5), (quantised_model, 1)])
def test_the_graph_takes_and_gives_what_onnx_runtime_does(make, apart: float, tmp_path: Path):  # type: ignore[no-untyped-def]
    path = make(tmp_path)
    graph = native(importers.imported(path, {}))
    x = RNG.standard_normal((1, 3, 6, 5)).astype(np.float32)
    (want,) = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    got = evaluate(graph, {"x": x})["y"]

    assert (graph.inputs, graph.outputs) == (("x",), ("y",))
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    assert np.abs(got.astype(np.float64) - want).max() <= apart


def test_elements_only_move(tmp_path: Path):
    found = importers.imported(quantised_model(tmp_path), {})
    plain, _ = passes.run(found.graph)
    x = RNG.standard_normal((1, 3, 6, 5)).astype(np.float32)
    inside = evaluate(plain, {"x": x.transpose(0, 2, 3, 1)})["y"]

    assert np.array_equal(evaluate(native(found), {"x": x})["y"], inside.transpose(0, 3, 1, 2))


def test_ends_that_are_the_same_in_the_file_stay(tmp_path: Path):
    kind = TensorType((1, 4), importers.load(float_model(tmp_path)).tensors["x"].type.dtype)
    graph = Graph("echo", {"x": Tensor("x", kind)}, (), ("x",), ())

    assert native_io(graph, {"x": FileTensor("x", kind, (0, 1))}).ops == ()


def test_the_firmware_has_the_files_layout(gen: Gen, tmp_path: Path):
    path = quantised_model(tmp_path)
    assert gen("firmware", path, "--board", "native", "--io", "native", "--out", tmp_path / "f").exit_code == 0
    plan = json.loads((tmp_path / "f" / "plan.json").read_text())
    (x,), (y,) = plan["inputs"], plan["outputs"]

    assert (x["shape"], x["source"]["order"], y["shape"], y["dtype"]) == (
        [1, 3, 6, 5],
        [0, 1, 2, 3],
        [1, 4, 6, 5],
        "uint8",
    )
