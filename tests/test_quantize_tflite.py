"""Float32 models of TensorFlow Lite on their way to int8: their graphs as ONNX, and what comes of real ones."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from conftest import Gen
from evaluate import evaluate
from samples import REAL_OPS, graph_of, random_inputs, real_sample
from shared import MODELS, needs_shared
from tflite_writer import ModelSpec, OpSpec, TensorSpec

from bench import ptq
from shoehorn_mcu import ops
from shoehorn_mcu.importers import load
from shoehorn_mcu.ir import Array, DType, Graph, Op, TensorType
from shoehorn_mcu.quantisation import QuantizeError, quantize_model
from shoehorn_mcu.quantisation.exported import as_onnx

pytestmark = pytest.mark.usefixtures("module_in_one_process")

CLOSE = 1e-5
SEEDS = 12


def assert_same(graph: Graph, inputs: dict[str, Array]) -> None:
    """ONNX Runtime computes what the graph means."""
    wanted = evaluate(graph, inputs)
    session = onnxruntime.InferenceSession(as_onnx(graph).SerializeToString())
    for name, found in zip(graph.outputs, session.run(list(graph.outputs), inputs), strict=True):
        largest = max(1.0, float(np.abs(wanted[name]).max()))
        np.testing.assert_allclose(found, wanted[name], rtol=0, atol=CLOSE * largest)


@pytest.mark.parametrize("op_class", REAL_OPS, ids=lambda c: c.__name__)
def test_an_op_in_onnx_s_form_computes_the_same(op_class: type[Op]) -> None:
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        graph = real_sample(op_class, rng)
        assert_same(graph, random_inputs(graph, rng))


REAL = TensorType((1, 5, 6, 4), DType.FLOAT32)
MOVES = {
    "joined channels": graph_of(ops.Concat, [REAL, REAL], DType.FLOAT32, axis=3),
    "joined rows": graph_of(ops.Concat, [REAL, REAL], DType.FLOAT32, axis=1),
    "padded": graph_of(ops.Pad, [REAL], DType.FLOAT32, before=(0, 1, 2, 0), after=(0, 0, 1, 3), value=0),
    "cut": graph_of(ops.Slice, [REAL], DType.FLOAT32, begin=(0, 1, 0, 2), size=(1, 2, 3, 2), step=(1, 2, 2, 1)),
    "cut with more behind it": graph_of(
        ops.Slice, [REAL], DType.FLOAT32, begin=(0, 0, 1, 0), size=(1, 3, 2, 2), step=(1, 1, 1, 1)
    ),
    "flat": graph_of(ops.Reshape, [REAL], DType.FLOAT32, shape=(1, 120)),
    "mean over rows and columns": graph_of(ops.Mean, [REAL], DType.FLOAT32, axes=(1, 2), keep_dims=False),
}


@pytest.mark.parametrize("name", MOVES)
def test_what_is_moved_keeps_its_place(name: str) -> None:
    rng = np.random.default_rng(0)
    assert_same(MOVES[name], random_inputs(MOVES[name], rng))


def test_bounds_other_than_those_of_relu_are_a_clip() -> None:
    graph = real_sample(ops.Conv2d, np.random.default_rng(0))
    (op,) = graph.ops
    assert isinstance(op, ops.Conv2d)
    bounded = replace(graph, ops=(replace(op, clamp=ops.RealClamp(-0.5, 0.25)),))

    assert [node.op_type for node in as_onnx(bounded).graph.node][-2:] == ["Clip", "Transpose"]
    assert_same(bounded, random_inputs(bounded, np.random.default_rng(1)))


def test_an_op_without_a_quantised_form_is_refused_by_name() -> None:
    graph = graph_of(ops.Map, [REAL], DType.FLOAT32, formula="float32 : bits int32 0 ; bits float32 1")

    with pytest.raises(QuantizeError, match=r"op 'op' \(Map\) has no quantised form from .tflite"):
        as_onnx(graph)


def swish(function: str, shape: tuple[int, ...] = (1, 8)) -> bytes:
    """As Keras writes it: x * sigmoid(x), or with another function, behind a dense layer."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((8, 4)).astype(np.float32)
    names = (("x", (1, 4)), ("w", (8, 4)), ("b", (8,)), ("h", shape), ("s", shape), ("y", shape))
    data = {"w": weights.tobytes(), "b": np.zeros(8, np.float32).tobytes()}
    tensors = [TensorSpec(name, shape, "FLOAT32", data=data.get(name)) for name, shape in names]
    made = [
        OpSpec("FULLY_CONNECTED", (0, 1, 2), (3,)),
        OpSpec(function, (3,), (4,)),
        OpSpec("MUL", (3, 4), (5,)),
    ]
    return ModelSpec(tensors, made, (0,), (5,)).bytes()


@pytest.mark.parametrize(("function", "code"), [("LOGISTIC", "Sigmoid"), ("TANH", "Tanh"), ("HARD_SWISH", "HardSwish")])
def test_keras_s_swish_and_its_like_are_quantised(function: str, code: str, tmp_path: Path) -> None:
    """The function is not refused for being a formula, and all of it is computed in int8."""
    (tmp_path / "swish.tflite").write_bytes(swish(function))
    samples = np.random.default_rng(1).standard_normal((50, 4)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=samples)
    graph = load(tmp_path / "swish.tflite")
    assert [node.op_type for node in as_onnx(graph).graph.node] == ["Gemm", code, "Mul"]
    assert_same(graph, {"x": samples[:1]})

    made = quantize_model(tmp_path / "swish.tflite", tmp_path / "x.npz")

    assert made.float_ops == ()


def test_a_formula_of_several_functions_is_quantised_around_it(gen: Gen, tmp_path: Path) -> None:
    (tmp_path / "elu.tflite").write_bytes(swish("ELU"))
    x = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    done = gen("quantize", tmp_path / "elu.tflite", "--data", tmp_path / "x.npz", "-o", tmp_path / "q.onnx")

    assert done.exit_code == 0, done.output
    assert (tmp_path / "q.onnx").is_file()


FLOAT_TWINS = ("mlperf-ic-resnet8-f32", "mnv1-025-128-f32", "fmnist-nubificus-f32")


@needs_shared
@pytest.mark.parametrize("name", FLOAT_TWINS)
def test_a_real_model_has_two_transposes_at_most(name: str) -> None:
    graph = load(MODELS / f"{name}.tflite")
    made = as_onnx(graph)

    assert sum(node.op_type == "Transpose" for node in made.graph.node) <= 2
    assert_same(graph, random_inputs(graph, np.random.default_rng(2)))


@needs_shared
def test_a_real_model_stays_as_accurate(tmp_path: Path) -> None:
    """400 images, 100 of which calibrate: at most half a point less; the whole set is in bench/ptq.py."""
    images, labels = ptq.task("fmnist").samples()
    np.savez(tmp_path / "some.npz", x=images[:100])
    np.save(tmp_path / "labels.npy", labels[:100])
    made = quantize_model(MODELS / "fmnist-nubificus-f32.tflite", tmp_path / "some.npz")

    source = ptq.float_model(MODELS / "fmnist-nubificus-f32.tflite")
    before = np.count_nonzero(ptq.by_runtime(source, images[:400]) == labels[:400])
    after = np.count_nonzero(ptq.by_reference(made.model, images[:400]) == labels[:400])

    assert made.float_ops == ()
    assert after >= before - 2 > 320


@needs_shared
def test_a_firmware_is_made_of_a_float_model_at_once(gen: Gen, tmp_path: Path) -> None:
    images, _ = ptq.task("fmnist").samples()
    np.savez(tmp_path / "some.npz", x=images[:20])

    options = ("--board", "native", "--quantize", tmp_path / "some.npz", "--out", tmp_path / "made", "--json")
    done = gen("firmware", MODELS / "fmnist-nubificus-f32.tflite", *options)

    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said["model"]["name"] == "fmnist-nubificus-f32"
    assert said["model"]["inputs"][0]["shape"] == [1, 28, 28, 1]
    assert any(op["kernel"].startswith("conv2d_s8") for op in said["ops"])
