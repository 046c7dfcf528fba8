"""`gen quantize`: int8 models from float32 ones, measured against ONNX Runtime, and what is refused in one line."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from conftest import Gen
from onnx import TensorProto, helper, numpy_helper
from shared import MODELS, needs_shared

import shoehorn_mcu
from bench import ptq
from shoehorn_mcu.base.paths import MODELS as SHIPPED
from shoehorn_mcu.importers import load
from shoehorn_mcu.importers.onnx.chain import Coded
from shoehorn_mcu.importers.onnx.importer import import_model
from shoehorn_mcu.ir import Array, DType, Node, Quant
from shoehorn_mcu.ops import AveragePool2d, DepthwiseConv2d, Dequantize, LinearOp, Mean, Quantize, Requantize
from shoehorn_mcu.passes import run
from shoehorn_mcu.planner.effort import BUDGET
from shoehorn_mcu.quantisation import Bits, Method, Settings, quantize_model, quantized, steps
from shoehorn_mcu.quantisation import samples as quantisation_samples
from shoehorn_mcu.quantisation.measure import accuracy, output_sqnr
from shoehorn_mcu.quantisation.ranges import Range, least_squares, of_joins
from shoehorn_mcu.quantisation.rewrite import Edit, Linear, bias_corrections, equalised, in_four_bits, prepared
from shoehorn_mcu.quantisation.runtime import Runner
from shoehorn_mcu.quantisation.samples import Samples
from shoehorn_mcu.quantisation.steps import _in_float
from shoehorn_mcu.quantisation.wide_steps import with_finer_steps

pytestmark = pytest.mark.usefixtures("module_in_one_process")

RNG = np.random.default_rng(1)
IMAGE = (1, 3, 12, 12)
CLASSES = 5


@pytest.fixture(autouse=True)
def seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test draws the same numbers whatever ran before it."""
    monkeypatch.setattr(sys.modules[__name__], "RNG", np.random.default_rng(1))


def reals(*shape: int, scale: float = 1.0) -> Array:
    return (scale * RNG.standard_normal(shape)).astype(np.float32)


def model(nodes: Sequence[onnx.NodeProto], constants: Mapping[str, Array], shape: Sequence[int] = IMAGE) -> Any:
    held = [numpy_helper.from_array(np.asarray(data), name) for name, data in constants.items()]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, size) for name, size in (("x", shape), ("y", None))]
    graph = helper.make_graph(list(nodes), "small", ends[:1], ends[1:], held)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    return onnx.shape_inference.infer_shapes(made)


def classifier() -> Any:
    """Normalisation of the input, convolutions with channels of very different ranges, a residual sum, a softmax."""
    uneven = np.exp2(np.arange(8) % 4 * 2 - 3).astype(np.float32)
    constants = {
        "mean": reals(1, 3, 1, 1),
        "w1": reals(8, 3, 3, 3, scale=0.3) * uneven[:, None, None, None],
        "s": np.abs(reals(8)) + 1,
        "o": reals(8) * uneven,
        "m": reals(8, scale=0.1),
        "v": np.abs(reals(8)) + 1,
        "w2": reals(8, 1, 3, 3, scale=0.4),
        "w3": reals(8, 8, 1, 1, scale=0.4) / uneven[None, :, None, None],
        "b3": reals(8),
        "w4": reals(CLASSES, 8),
        "b4": reals(CLASSES),
    }
    nodes = [
        helper.make_node("Sub", ["x", "mean"], ["n"]),
        helper.make_node("Conv", ["n", "w1"], ["c1"], pads=[1] * 4),
        helper.make_node("BatchNormalization", ["c1", "s", "o", "m", "v"], ["b1"]),
        helper.make_node("Relu", ["b1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], group=8, pads=[1] * 4),
        helper.make_node("Relu", ["c2"], ["r2"]),
        helper.make_node("Conv", ["r2", "w3", "b3"], ["c3"], name="last"),
        helper.make_node("Add", ["c3", "r1"], ["a"]),
        helper.make_node("Relu", ["a"], ["r3"]),
        helper.make_node("MaxPool", ["r3"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["p"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "w4", "b4"], ["l"], transB=1),
        helper.make_node("Softmax", ["l"], ["y"], axis=1),
    ]
    return model(nodes, constants)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, samples for it as .npz and as a folder, and its own answers as labels."""
    place = tmp_path_factory.mktemp("quantize")
    made, samples = classifier(), reals(20, *IMAGE[1:])
    (place / "small.onnx").write_bytes(made.SerializeToString())
    np.savez(place / "x.npz", x=samples)
    (place / "samples").mkdir()
    for number, sample in enumerate(samples):
        np.save(place / "samples" / f"{number:02}.npy", sample)
    answers = Runner(made)
    np.save(place / "labels.npy", np.array([answers({"x": sample[None]})["y"].argmax() for sample in samples]))
    return place


def attention(length: int = 64, heads: int = 2, size: int = 4) -> Any:
    """Attention over a sequence, with its scores scaled by a number."""
    width = heads * size
    constants = {
        "wq": reals(width, width),
        "wk": reals(width, width),
        "wv": reals(width, width),
        "parts": np.array([1, length, heads, size]),
        "whole": np.array([1, length, width]),
        "factor": np.array(size**-0.5, np.float32),
    }
    nodes = []
    for part, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        nodes += [
            helper.make_node("MatMul", ["x", f"w{part}"], [f"{part}0"]),
            helper.make_node("Reshape", [f"{part}0", "parts"], [f"{part}1"]),
            helper.make_node("Transpose", [f"{part}1"], [part], perm=perm),
        ]
    nodes += [
        helper.make_node("MatMul", ["q", "k"], ["s"]),
        helper.make_node("Mul", ["s", "factor"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "v"], ["o"]),
        helper.make_node("Transpose", ["o"], ["o1"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["o1", "whole"], ["y"]),
    ]
    return model(nodes, constants, (1, length, width))


@pytest.mark.usefixtures("quick_placement")
def test_the_scores_of_int8_attention_are_never_whole(
    tmp_path: Path, gen: Gen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row of them at a time, as in float32: the factor is a table, and no convolution with channels first."""
    monkeypatch.setattr(BUDGET, "MOST_SECONDS", 0.3)
    (tmp_path / "float.onnx").write_bytes(attention().SerializeToString())
    np.savez(tmp_path / "x.npz", x=reals(8, 64, 8))
    made = gen("quantize", tmp_path / "float.onnx", "--data", tmp_path / "x.npz", "-o", tmp_path / "int8.onnx")
    assert made.exit_code == 0, made.output

    least = [
        json.loads(gen("plan", tmp_path / f"{name}.onnx", "--minimize", "sram", "--json").stdout)["plan"]["arena_bytes"]
        for name in ("float", "int8")
    ]
    assert least[1] < least[0] <= 2 * 64 * 64  # bytes of int8 scores


@pytest.mark.parametrize("method", [method.value for method in Method])
def test_a_model_becomes_int8_and_follows_the_original(method: str, folder: Path, tmp_path: Path, gen: Gen) -> None:
    target = tmp_path / "out.onnx"
    options = ["--data", folder / "x.npz", "--labels", folder / "labels.npy", "--method", method]
    done = gen("quantize", folder / "small.onnx", *options, "-o", target, "--json")
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)

    assert said["sqnr_db"] > (12 if method == "entropy" else 25)
    assert said["accuracy"]["before"] == said["accuracy"]["samples"] == 20
    assert said["accuracy"]["after"] >= 19
    assert said["float_ops"] == []
    ratios = [tensor["sqnr_db"] for tensor in said["tensors"]]
    assert ratios == sorted(ratios) and len(ratios) >= 8
    graph, _ = run(load(target))
    inside = [node for node in graph.nodes() if not isinstance(node.op, Quantize | Dequantize)]
    sums = {DType.INT16, DType.INT32}
    assert inside and {node.output.type.dtype for node in inside} <= {DType.INT8, *sums}


def test_the_report_is_a_table_with_the_worst_tensor_first(folder: Path, tmp_path: Path, gen: Gen) -> None:
    options = ["--data", folder / "samples", "--labels", folder / "labels.npy", "-o", tmp_path / "out.onnx"]
    lines = gen("quantize", folder / "small.onnx", *options).stdout.splitlines()

    assert lines[0].split() == ["tensor", "op", "SQNR,", "dB", "own,", "dB"]
    first, second = (float(line.split()[-2]) for line in lines[1:3])
    assert first <= second
    assert any(line.startswith("int8 from 20 samples (minmax)") for line in lines)
    assert any(line.startswith("top-1 of 20 samples: 100.0 % in float32") for line in lines)
    assert lines[-1].startswith(f"wrote {tmp_path / 'out.onnx'}; next: gen plan")


@pytest.fixture(scope="module")
def int8(folder: Path) -> Path:
    """The model quantised with the default options."""
    shoehorn_mcu.quantize(folder / "small.onnx", folder / "x.npz", folder / "int8.onnx")
    return folder / "int8.onnx"


def test_equal_calls_write_equal_bytes(folder: Path, int8: Path, tmp_path: Path) -> None:
    shoehorn_mcu.quantize(folder / "small.onnx", folder / "samples", tmp_path / "other.onnx")

    assert (tmp_path / "other.onnx").read_bytes() == int8.read_bytes()


def test_an_op_can_stay_in_float32(folder: Path, tmp_path: Path) -> None:
    options = shoehorn_mcu.QuantizeOptions(keep_float=["last"])
    made = shoehorn_mcu.quantize(folder / "small.onnx", folder / "x.npz", tmp_path / "o.onnx", options)
    imported = load(tmp_path / "o.onnx")

    assert made.kept_float == ("last",)
    assert any("Conv" in name for name in made.float_ops)
    assert any(node.output.name == "c3" and node.output.type.dtype is DType.FLOAT32 for node in imported.nodes())


def _answers(made: Any, samples: Array) -> list[Array]:
    each = Runner(made)
    return [each({"x": sample[None]})["y"] for sample in samples]


def test_the_rewrites_keep_what_the_model_computes() -> None:
    """Normalisation as a convolution up to rounding, equalisation by powers of two exactly."""
    made, samples = classifier(), reals(3, *IMAGE[1:])
    plain = onnx.shape_inference.infer_shapes(prepared(made))
    assert {node.op_type for node in plain.graph.node}.isdisjoint({"Sub", "BatchNormalization"})
    for wanted, found in zip(_answers(made, samples), _answers(plain, samples), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)

    # r2, between two convolutions, has channels of these ranges.
    even, pairs = equalised(plain, {"r2": np.exp2(np.arange(8) - 4.0)})
    assert pairs == 1
    changed = [t.name for t, o in zip(even.graph.initializer, plain.graph.initializer, strict=False) if t != o]
    assert {"w2", "w3"} <= set(changed)
    assert equalised(plain, {})[1] == equalised(plain, {"r2": np.exp2(np.arange(7) - 4.0)})[1] == 0
    assert equalised(plain, {"r2": np.eye(8)[3]})[1] == 0  # one channel alone has no other to be made even with
    for wanted, found in zip(_answers(plain, samples), _answers(even, samples), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div"])
@pytest.mark.parametrize("shape", [(), (1,), (1, 3, 1, 1), (3, 1, 1)])
def test_a_constant_of_an_image_or_of_its_channels_becomes_a_convolution(op: str, shape: tuple[int, ...]) -> None:
    nodes = [
        helper.make_node(op, ["x", "c"], ["scaled"]),
        helper.make_node("AveragePool", ["scaled"], ["y"], kernel_shape=(8, 8)),
    ]
    made = model(nodes, {"c": reals(*shape) + np.float32(2)}, (1, 3, 8, 8))
    found = prepared(made)

    assert op not in {node.op_type for node in found.graph.node}
    assert "Conv" in {node.op_type for node in found.graph.node}


@pytest.mark.parametrize("groups", [1, 3])
def test_a_transposed_convolution_by_groups_stays_in_float32(groups: int, tmp_path: Path) -> None:
    """ONNX Runtime's quantiser fails for its bias."""
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["c"]),
        helper.make_node("ConvTranspose", ["c", "w", "b"], ["y"], group=groups, strides=[2, 2]),
    ]
    held = {"v": reals(6, 3, 1, 1), "w": reals(6, 6 // groups, 2, 2), "b": reals(6)}
    onnx.save(model(nodes, held, (1, 3, 5, 5)), tmp_path / "up.onnx")
    np.savez(tmp_path / "x.npz", x=reals(20, 3, 5, 5))

    made = quantize_model(tmp_path / "up.onnx", tmp_path / "x.npz")

    assert made.sqnr_db > 20
    assert bool(made.float_ops) == (groups > 1)


@pytest.mark.parametrize(("kernel", "width", "own"), [((8, 8), 3, True), ((4, 8), 15, False)])
def test_an_average_of_the_whole_image_has_a_range_of_its_own(
    kernel: tuple[int, int], width: int, own: bool, tmp_path: Path
) -> None:
    """Single pixels have sixteen times the range of their mean. A part of the image keeps the scale of the pixels."""
    samples = RNG.uniform(-16, 16, (20, 3, 8, 8)).astype(np.float32)
    nodes = [
        helper.make_node("AveragePool", ["x"], ["mean"], kernel_shape=kernel),
        helper.make_node("Flatten", ["mean"], ["flat"]),
        helper.make_node("Gemm", ["flat", "w"], ["y"], transB=1),
    ]
    onnx.save(model(nodes, {"w": reals(4, width)}, (1, 3, 8, 8)), tmp_path / "mean.onnx")
    np.savez(tmp_path / "x.npz", x=samples)
    made = quantize_model(tmp_path / "mean.onnx", tmp_path / "x.npz", Settings(Method.MINMAX))
    graph = import_model(made.model, "made").graph

    node = next(node for node in graph.nodes() if isinstance(node.op, AveragePool2d | Mean))
    ratio = node.output.type.quantised.scale / node.inputs[0].type.quantised.scale
    assert ratio < 0.3 if own else ratio == 1


def test_a_corrected_bias_takes_the_mean_error_of_rounded_weights_away() -> None:
    weights = reals(4, 6, 1, 1)
    made = model([helper.make_node("Conv", ["x", "w"], ["y"])], {"w": weights}, (1, 6, 5, 5))
    mean = np.arange(6.0)
    scale = np.abs(weights).max(axis=(1, 2, 3), keepdims=True) / 127
    rounded = np.rint(weights / scale) * scale

    plain = prepared(made)
    (bias,) = bias_corrections(plain, {"x": mean}).values()

    shift = (rounded - weights).reshape(4, 6).astype(np.float64) @ mean
    assert np.abs(shift).max() > 1e-3
    np.testing.assert_allclose(bias, -shift, rtol=0, atol=1e-6)


def test_the_range_of_least_squares_leaves_a_single_far_value_out() -> None:
    values = np.concatenate([RNG.standard_normal(1_000_000), [40.0]])
    counts, edges = np.histogram(values, 2048, (-40, 40))

    low, high = least_squares(counts, edges, values.min(), values.max())
    assert low > -5 and 8 <= high < 30
    assert least_squares(np.zeros(4, np.int64), np.linspace(-1, 1, 5), 0.5, 0.5) == Range(0.0, 0.5)


@pytest.mark.parametrize("method", Method)
def test_tensors_that_never_change_are_quantised(method: Method, tmp_path: Path) -> None:
    """All zeros behind a Relu, and one number everywhere behind a product with zeros."""
    constants = {
        "w1": reals(4, 3, 1, 1, scale=0.01),
        "b1": np.full(4, -50, np.float32),
        "w2": reals(4, 4, 1, 1),
        "b2": np.full(4, 2.5, np.float32),
        "w3": reals(3, 4, 1, 1),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["below"]),
        helper.make_node("Relu", ["below"], ["zeros"]),
        helper.make_node("Conv", ["zeros", "w2", "b2"], ["same"]),
        helper.make_node("Conv", ["same", "w3"], ["y"]),
    ]
    onnx.save(model(nodes, constants), tmp_path / "same.onnx")
    np.savez(tmp_path / "x.npz", x=reals(20, *IMAGE[1:]))

    made = quantize_model(tmp_path / "same.onnx", tmp_path / "x.npz", Settings(method))

    graph = import_model(made.model, "made").graph
    quants = [t.type.quant for t in graph.tensors.values() if t.type.quant is not None]
    assert quants
    assert all(np.isfinite(quant.scales).all() and min(quant.scales) > 0 for quant in quants)
    found = Runner(made.model)({"x": np.zeros(IMAGE, np.float32)})["y"]
    wanted = constants["w3"].reshape(3, 4).sum(1) * 2.5
    np.testing.assert_allclose(found[0, :, 0, 0], wanted, rtol=0, atol=0.03 * np.abs(wanted).max())


def test_a_histogram_of_one_value_keeps_its_range() -> None:
    edges = np.linspace(-0.5, 0.5, 4)

    with np.errstate(all="raise"):  # nothing is divided by steps of 0
        assert least_squares(np.array([0, 9, 0]), edges, 0.0, 0.0) == Range(0.0, 0.0)
    low, high = least_squares(np.array([0, 9, 0]), edges + 2.5, 2.5, 2.5)
    assert low == 0
    assert high == pytest.approx(2.5, abs=0.01)
    low, high = least_squares(np.array([0, 9, 0]), edges - 2.5, -2.5, -2.5)
    assert high == 0
    assert low == pytest.approx(-2.5, abs=0.01)


def fire() -> Any:
    """Two convolutions joined, that and the input joined again, and a piece that is read twice."""
    constants = {"w1": reals(4, 3, 1, 1), "w2": reals(5, 3, 3, 3, scale=4.0), "w3": reals(2, 12, 1, 1)}
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], name="one"),
        helper.make_node("Conv", ["x", "w2"], ["b"], pads=[1] * 4, name="three"),
        helper.make_node("Concat", ["a", "b"], ["ab"], axis=1, name="inner"),
        helper.make_node("Concat", ["ab", "x"], ["abx"], axis=1, name="outer"),
        helper.make_node("Conv", ["abx", "w3"], ["y"]),
    ]
    return model(nodes, constants)


def test_pieces_that_are_joined_have_one_range() -> None:
    found = {name: Range(-float(i), i + 1.0) for i, name in enumerate(("a", "b", "ab", "abx", "x", "y"))}
    all_four = Range(-3.0, 4.0)

    assert of_joins(fire(), found, ()) == found | dict.fromkeys(("a", "b", "ab", "abx"), all_four)
    assert of_joins(fire(), found, ("outer",)) == found | dict.fromkeys(("a", "b", "ab"), Range(-2.0, 3.0))
    assert of_joins(fire(), found, ("one",))["a"] == found["a"]
    assert of_joins(fire(), found, ("b",))["b"] == found["b"]
    real = {name: each for name, each in found.items() if name != "a"}  # which stays in float32
    assert of_joins(fire(), real, ()) == real | dict.fromkeys(("b", "ab", "abx"), all_four)
    inner = {name: each for name, each in found.items() if name != "ab"}
    assert of_joins(fire(), inner, ()) == inner


def test_the_input_and_a_constant_that_are_joined_keep_their_ranges() -> None:
    joined = model([helper.make_node("Concat", ["x", "c"], ["y"], axis=1)], {"c": reals(1, 2, 12, 12)})
    found = {"x": Range(-1.0, 1.0), "y": Range(-2.0, 3.0)}

    assert of_joins(joined, found, ()) == found
    assert of_joins(joined, {**found, "c": Range(0.0, 9.0)}, ())["c"] == Range(0.0, 9.0)


def test_a_channel_is_dimension_1_of_a_batch_of_any_size() -> None:
    chain = model([helper.make_node("Relu", ["x"], ["y"])], {}, (3, 4))
    values = reals(5, 3, 4)
    largest, means = steps.by_channel(chain, Samples({"x": values}))

    assert {*largest} == {*means} == {"x", "y"}

    np.testing.assert_array_equal(largest["x"], np.abs(values).max(axis=(0, 1)).astype(np.float64))
    np.testing.assert_allclose(means["x"], values.mean(axis=(0, 1), dtype=np.float64))
    np.testing.assert_array_equal(largest["y"], np.maximum(values, 0).max(axis=(0, 1)).astype(np.float64))


def test_pieces_are_joined_without_rescaling(tmp_path: Path, gen: Gen) -> None:
    (tmp_path / "fire.onnx").write_bytes(fire().SerializeToString())
    np.savez(tmp_path / "x.npz", x=reals(20, *IMAGE[1:]))

    made = gen("quantize", tmp_path / "fire.onnx", "--data", tmp_path / "x.npz", "-o", tmp_path / "int8.onnx")

    assert made.exit_code == 0, made.output
    graph = load(tmp_path / "int8.onnx")
    rescaled = [op.inputs[0] for op in graph.ops if isinstance(op, Requantize)]
    assert not any(name.startswith(("a", "b")) for name in rescaled)


BAD_SAMPLES: dict[str, tuple[Any, str]] = {
    "another shape": ({"x": np.zeros((4, 3, 12, 11), np.float32)}, r"has shape \(4, 3, 12, 11\)"),
    "no first axis": (
        {"x": np.zeros((3, 12, 12), np.float32)},
        r"lacks a first axis that counts the samples; of one sample give \(1, 3, 12, 12\), as array\[None\] makes it",
    ),
    "integers": ({"x": np.zeros((4, 3, 12, 12), np.uint8)}, "is uint8; wanted are float32 values"),
    "NaN": ({"x": np.full((4, 3, 12, 12), np.nan, np.float32)}, "holds NaN or an infinite value, in sample 0"),
    "infinite": ({"x": np.full((4, 3, 12, 12), 1e300)}, "holds NaN or an infinite value, in sample 0"),
    "none": ({"x": np.zeros((0, 3, 12, 12), np.float32)}, "holds no samples"),
    "two arrays": ({"x": np.zeros((4, 3, 12, 12)), "z": np.zeros(3)}, "number of arrays 2, inputs of the model 1: x"),
}


@pytest.mark.parametrize("name", BAD_SAMPLES)
def test_samples_that_do_not_fit_are_refused(name: str, folder: Path, tmp_path: Path, gen: Gen) -> None:
    arrays, said = BAD_SAMPLES[name]
    np.savez(tmp_path / "x.npz", **arrays)

    _refused(gen("quantize", folder / "small.onnx", "--data", tmp_path / "x.npz", "-o", tmp_path / "o.onnx"), said)
    assert not (tmp_path / "o.onnx").exists()


@pytest.mark.parametrize(
    ("samples", "said"),
    [
        (np.zeros((4, *IMAGE[1:]), np.float32), "is 0 in all samples, which tells no scale; give real samples"),
        (np.full((4, *IMAGE[1:]), 2.5, np.float32), "is 2.5 in all samples"),
        (reals(4, *IMAGE[1:], scale=1e20), r"has values from -\S+e\+20 to .*; check that samples are preprocessed"),
        (reals(4, *IMAGE[1:], scale=1e-9), r"has values from -\S+e-09 to"),
    ],
)
def test_odd_samples_are_noted(samples: Array, said: str, folder: Path, tmp_path: Path, gen: Gen) -> None:
    data = tmp_path / "x.npz"
    np.savez(data, x=samples)
    done = gen("quantize", folder / "small.onnx", "--data", data, "-o", tmp_path / "o.onnx")

    assert done.exit_code == 0, done.output
    assert re.fullmatch(f"note: input 'x' {said}.*\n", done.stderr)
    with pytest.warns(UserWarning, match=f"input 'x' {said}"):
        shoehorn_mcu.quantize(folder / "small.onnx", data, tmp_path / "o.onnx")
    options = ("--board", "native", "--quantize", data, "--out", tmp_path / "made")
    assert re.search(f"note: input 'x' {said}", gen("firmware", folder / "small.onnx", *options).stderr)


@pytest.mark.parametrize("method", [method.value for method in Method])
def test_samples_whose_sums_are_infinite_are_refused(method: str, folder: Path, tmp_path: Path, gen: Gen) -> None:
    np.savez(tmp_path / "x.npz", x=reals(4, *IMAGE[1:], scale=5e37))
    options = ["--data", tmp_path / "x.npz", "-o", tmp_path / "o.onnx", "--method", method]

    _refused(gen("quantize", folder / "small.onnx", *options), "infinite or NaN with .*; check the samples")
    assert not (tmp_path / "o.onnx").exists()


def test_folders_and_files_that_are_no_samples_are_refused(folder: Path, tmp_path: Path, gen: Gen) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "mixed").mkdir()
    np.save(tmp_path / "mixed" / "a.npy", np.zeros((3, 12, 12), np.float32))
    np.save(tmp_path / "mixed" / "b.npy", np.zeros((3, 12), np.float32))
    (tmp_path / "text.npz").write_text("no archive")
    for data, said in (
        ("empty", "holds no .npy files"),
        ("mixed", r"b.npy: has shape \(3, 12\)"),
        ("text.npz", "is no .npz file"),
        ("gone.npz", "does not exist"),
    ):
        _refused(gen("quantize", folder / "small.onnx", "--data", tmp_path / data, "-o", tmp_path / "o.onnx"), said)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (np.zeros(19, np.int64), "holds 19 labels for 20 samples"),
        (np.full(20, CLASSES), "holds the label 5; the model's classes are 0 to 4"),
        (np.full(20, -1), "holds the label -1"),
        (np.arange(20) % CLASSES + (np.arange(20) == 7) * 10, "holds the label 1[0-4]"),
        (np.zeros(20), "holds no labels"),
    ],
)
def test_labels_that_do_not_fit_are_refused(labels: Array, said: str, folder: Path, tmp_path: Path, gen: Gen) -> None:
    np.save(tmp_path / "y.npy", labels)
    options = ["--data", folder / "x.npz", "--labels", tmp_path / "y.npy", "-o", tmp_path / "o.onnx"]

    _refused(gen("quantize", folder / "small.onnx", *options), said)


def _refused(done: Any, said: str) -> None:
    """Exit code 1 and one line."""
    assert done.exit_code == 1, done.output
    assert len(done.stderr.splitlines()) == 1 and done.stdout == ""
    assert re.search(said, done.stderr), done.stderr


def test_models_that_cannot_be_quantised_are_refused(folder: Path, int8: Path, tmp_path: Path, gen: Gen) -> None:
    data = ["--data", folder / "x.npz", "-o", tmp_path / "o.onnx"]
    _refused(
        gen("quantize", SHIPPED / "digits.tflite", *data), "digits.tflite: is quantised already; give the float32 model"
    )
    _refused(gen("quantize", int8, *data), "is quantised already; give the float32 model")
    _refused(gen("quantize", folder / "small.onnx", *data, "--keep-float", "lost"), "no op 'lost'; did you mean 'last'")
    same = ["--data", folder / "x.npz", "-o", folder / "small.onnx"]
    _refused(gen("quantize", folder / "small.onnx", *same), "is the model itself; name another file")


@pytest.mark.parametrize("bits", ["8", "16x8", "4w"])
def test_a_model_in_which_nothing_becomes_an_integer_is_refused(bits: str, tmp_path: Path, gen: Gen) -> None:
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 1, 3, 2]),
        helper.make_node("LRN", ["t"], ["l"], size=3),
        helper.make_node("Cos", ["l"], ["y"]),
    ]
    (tmp_path / "real.onnx").write_bytes(model(nodes, {}).SerializeToString())
    np.savez(tmp_path / "x.npz", x=reals(4, *IMAGE[1:]))
    options = ["--data", tmp_path / "x.npz", "-o", tmp_path / "o.onnx", "--bits", bits]

    _refused(
        gen("quantize", tmp_path / "real.onnx", *options),
        "real.onnx: nothing in it can be int.*: no such form of Cos, LRN; run the model in float32 as it is",
    )
    assert not (tmp_path / "o.onnx").exists()


def test_a_model_whose_ops_are_all_kept_is_refused(tmp_path: Path, gen: Gen) -> None:
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], name="only")]
    (tmp_path / "one.onnx").write_bytes(model(nodes, {"w": reals(4, 3, 1, 1)}).SerializeToString())
    np.savez(tmp_path / "x.npz", x=reals(4, *IMAGE[1:]))
    options = ["--data", tmp_path / "x.npz", "-o", tmp_path / "o.onnx", "--keep-float", "only"]

    _refused(gen("quantize", tmp_path / "one.onnx", *options), "--keep-float leaves no op in int8; keep fewer ops")


def test_activations_of_16_bits_follow_the_original_closer_and_stay_integers(folder: Path, gen: Gen) -> None:
    made = folder / "wide.onnx"
    given = ("quantize", folder / "small.onnx", "--data", folder / "x.npz", "--json")
    eight = json.loads(gen(*given, "-o", folder / "eight.onnx").stdout)
    wide = json.loads(gen(*given, "--bits", "16x8", "-o", made).stdout)
    assert wide["sqnr_db"] > eight["sqnr_db"]

    linear = [node for node in load(made).nodes() if isinstance(node.op, LinearOp)]
    assert linear and {node.output.type.dtype for node in linear} == {DType.INT16}
    assert {node.inputs[1].type.dtype for node in linear} == {DType.INT8}
    assert not wide["float_ops"]
    *_, last = (node.output.type for node in load(made).nodes() if node.output.type.dtype is DType.INT16)
    assert (last.quantised.scales, last.quantised.zero_points) == ((2.0**-15,), (0,))  # of a Softmax


def test_a_result_can_have_16_bits_among_those_of_8(folder: Path, gen: Gen) -> None:
    made = folder / "mixed.onnx"
    given = ("quantize", folder / "small.onnx", "--data", folder / "x.npz", "--json", "-o", made)
    said = json.loads(gen(*given, "--keep-int16", "last", "--keep-int16", "x").stdout)
    assert len(said["kept_int16"]) == 2

    types = [node.output.type.dtype for node in load(made).nodes() if isinstance(node.op, LinearOp)]
    assert DType.INT16 in types
    assert not said["float_ops"]


def test_a_board_tells_what_more_bits_cost(folder: Path, gen: Gen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "GOOD_DB", 200.0)
    monkeypatch.setattr(steps, "WORTH_DB", -200.0)  # every op that is tried
    given = ("quantize", folder / "small.onnx", "--data", folder / "x.npz", "--json")
    said = json.loads(gen(*given, "--board", "netduinoplus2", "-o", folder / "e.onnx").stdout)

    assert said["board"]["id"] == "netduinoplus2"
    assert said["board"]["arena_bytes"] > 0 and said["board"]["cycles"] > 0
    for worth in (said["worth_keeping_float"], said["worth_keeping_int16"]):
        assert len(worth) == steps.TRIED
        for each in worth:
            assert each["cost"]["arena_bytes"] > 0 and not each["cost"]["refused"]
    assert any(each["cost"]["cycles"] > said["board"]["cycles"] for each in said["worth_keeping_float"])


def test_weights_of_4_bits_are_within_4_bits_and_half_the_flash(folder: Path, gen: Gen) -> None:
    made = folder / "four.onnx"
    given = ("quantize", folder / "small.onnx", "--data", folder / "x.npz", "--json")
    whole = json.loads(gen(*given, "-o", folder / "eight.onnx").stdout)
    four = json.loads(gen(*given, "--bits", "4w", "-o", made).stdout)
    assert 5 < four["sqnr_db"] <= whole["sqnr_db"]  # of a softmax of 8 bits

    linear = [n for n in load(made).nodes() if isinstance(n.op, LinearOp) and n.output.type.dtype is DType.INT8]
    assert linear
    for node in linear:
        weights = node.inputs[1].data
        assert weights is not None and weights.min() >= -8 and weights.max() <= 7
    least = json.loads(gen("plan", made, "--minimize", "flash", "--json").stdout)
    assert any(op["kernel"].endswith("_nibbles") for op in least["ops"])


@pytest.mark.parametrize("bits", Bits)
def test_a_channel_of_tiny_weights_has_a_scale_that_its_bias_fits(bits: Bits, tmp_path: Path) -> None:
    weights = reals(4, 3, 3, 3)
    weights[1] *= 1e-12
    made = model([helper.make_node("Conv", ["x", "w", "b"], ["y"])], {"w": weights, "b": np.full(4, 30, np.float32)})
    onnx.save(made, tmp_path / "tiny.onnx")
    np.savez(tmp_path / "x.npz", x=reals(20, *IMAGE[1:]))

    found = quantize_model(tmp_path / "tiny.onnx", tmp_path / "x.npz", Settings(Method.MINMAX, bits=bits))

    assert found.float_ops == () and found.sqnr_db > 15
    assert found.equalised == 0


@pytest.mark.parametrize("weight", [0.0, 300.0])
def test_a_channel_that_reads_zeros_alone_leaves_a_layer_to_fast_kernels(weight: float) -> None:
    """One channel whose sums are scaled by a half or more makes fast kernels refuse the whole layer."""
    depthwise = reals(4, 1, 3, 3)
    depthwise[2] = weight
    constants = {
        "w": np.abs(reals(4, 3, 1, 1)),
        "b": np.array([0, 0, -100, 0], np.float32),
        "d": depthwise,
        "o": reals(4),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["a"]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Conv", ["r", "d", "o"], ["y"], group=4, pads=[1] * 4),
    ]
    real, samples = model(nodes, constants), Samples({"x": reals(20, *IMAGE)})
    made = quantized(real, samples)
    (node,) = [n for n in import_model(made, "dead").graph.nodes() if isinstance(n.op, DepthwiseConv2d)]
    assert _steps_of(node) < 0.5
    assert output_sqnr([*Runner(real).over(samples)], made, samples) > 30


def test_a_channel_that_needs_its_wide_steps_keeps_them() -> None:
    weights = reals(4, 3, 1, 1)
    weights[2] *= 100
    ends = {"low": np.float32(-1), "high": np.float32(1)}
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"]), helper.make_node("Clip", ["a", "low", "high"], ["y"])]
    real, samples = model(nodes, {"w": weights, **ends}), Samples({"x": reals(20, *IMAGE, scale=0.3)})
    made = quantized(real, samples)
    assert with_finer_steps(made)[1] == 1
    assert output_sqnr([*Runner(real).over(samples)], made, samples) > 20


def with_a_wide_channel() -> onnx.ModelProto:
    """A quantised convolution, one channel of which needs wide steps."""
    weights = reals(4, 3, 1, 1)
    weights[2] *= 100
    ends = {"low": np.float32(-1), "high": np.float32(1)}
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"]), helper.make_node("Clip", ["a", "low", "high"], ["y"])]
    return quantized(model(nodes, {"w": weights, **ends}), Samples({"x": reals(20, *IMAGE, scale=0.3)}))


def test_a_layer_whose_output_step_is_computed_keeps_its_steps() -> None:
    """Nothing is known of it before the model runs."""
    made = with_a_wide_channel()
    (conv,) = (node for node in made.graph.node if node.op_type == "Conv")
    (last,) = (node for node in made.graph.node if list(conv.output) == [node.input[0]])
    made.graph.node.insert(0, helper.make_node("Identity", [last.input[1]], ["computed"]))
    assert with_finer_steps(made)[1] == 1
    last.input[1] = "computed"
    assert with_finer_steps(made)[1] == 0


def test_an_activation_behind_a_layer_does_not_hide_its_wide_steps() -> None:
    """ONNX Runtime's quantiser leaves them out; another one may have kept them."""
    made = with_a_wide_channel()
    assert with_finer_steps(made)[1] == 1
    (place,) = [i for i, node in enumerate(made.graph.node) if node.op_type == "Conv"]
    conv = made.graph.node[place]
    bound = helper.make_node("Relu", ["unbounded"], [conv.output[0]])
    conv.output[0] = "unbounded"
    made.graph.node.insert(place + 1, bound)

    assert with_finer_steps(made)[1] == 1


def test_a_bias_that_is_no_list_of_the_outputs_is_left_alone() -> None:
    """ONNX lets Gemm spread one number over all of them."""
    nodes = [
        helper.make_node("Gemm", ["x", "v", "b"], ["a"]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Gemm", ["r", "w", "c"], ["y"]),
    ]
    constants = {"v": reals(6, 8), "w": reals(8, 4), "c": reals(4)}
    ranges, means = {"r": np.exp2(np.arange(8) - 4.0)}, {"x": np.ones(6), "r": np.ones(8)}
    one, eight = (model(nodes, {**constants, "b": reals(n)}, (1, 6)) for n in (1, 8))

    assert [equalised(each, ranges)[1] for each in (one, eight)] == [0, 1]
    assert [sorted(bias_corrections(each, means)) for each in (one, eight)] == [["c"], ["b", "c"]]


@pytest.mark.parametrize(("channels", "group", "made_even"), [(4, 1, 1), (4, 2, 0), (4, 4, 1), (2, 2, 1)])
def test_channels_are_made_even_where_all_read_all_or_each_reads_itself(
    channels: int, group: int, made_even: int
) -> None:
    """Not where they are read by groups of two."""
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["a"]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Conv", ["r", "w"], ["y"], group=group),
    ]
    made = model(nodes, {"v": reals(channels, 3, 1, 1), "w": reals(channels, channels // group, 3, 3)})

    assert equalised(made, {"r": np.exp2(2.0 * np.arange(channels))})[1] == made_even


def test_layers_around_a_pool_whose_places_are_read_too_are_not_made_even() -> None:
    def around(outputs: list[str]) -> Any:
        nodes = [
            helper.make_node("Conv", ["x", "v"], ["a"]),
            helper.make_node("MaxPool", ["a"], outputs, kernel_shape=[2, 2]),
            helper.make_node("Conv", ["p", "w"], ["y"]),
        ]
        return model(nodes, {"v": reals(4, 3, 1, 1), "w": reals(5, 4, 1, 1)})

    ranges = {"p": np.exp2(np.arange(4) - 2.0)}
    assert [equalised(around(outputs), ranges)[1] for outputs in (["p"], ["p", "places"])] == [1, 0]


@pytest.mark.parametrize("axis", [None, 1, -1])
def test_weights_in_four_bits_have_scales_along_the_axis_that_is_1_where_none_is_said(axis: int | None) -> None:
    """Those that are tried and nearest to a seventh of the largest weight, or to an eighth of a negative one."""
    weights = np.array([[7, -16, 0.5], [-7, 2, 3.5], [1, 14, -0.5]], np.float32)
    fine = np.full(3, 1e-3, np.float32)
    said = {} if axis is None else {"axis": axis}
    node = helper.make_node("DequantizeLinear", ["w_quantized", "w_scale"], ["w"], **said)
    stored = model([node], {"w_quantized": np.zeros((3, 3), np.int8), "w_scale": fine})
    made = {t.name: numpy_helper.to_array(t) for t in in_four_bits(stored, model([], {"w": weights})).graph.initializer}

    np.testing.assert_allclose(made["w_scale"], [1, 2, 0.5], rtol=0.01)
    assert made["w_quantized"].tolist() == [[7, -8, 1], [-7, 1, 7], [1, 7, -1]]


def test_a_matrix_of_one_scale_has_no_axis_without_the_dimension_of_its_scale() -> None:
    data = np.arange(12, dtype=np.int8)
    for shape, axis, wanted in (((1, 3, 4), 0, None), ((1, 3, 4), 1, 0), ((1, 1, 3, 4), 3, 1), ((1, 3, 4), None, None)):
        count = 1 if axis is None else shape[axis]
        found = Coded(data.reshape(shape), Quant((0.5,) * count, (0,) * count, axis)).matrix
        assert (found.data.shape, found.quant.axis) == ((3, 4), wanted)


def test_an_op_that_stays_in_float32_is_named_whatever_else_it_reads() -> None:
    """Here places, which are whole numbers."""
    picking = model([helper.make_node("Gather", ["x", "i"], ["y"], axis=1)], {"i": np.array([2, 0])})

    assert len(_in_float(import_model(picking, "net").graph)) == 1
    assert _in_float(load(SHIPPED / "digits.tflite")) == ()


def test_weights_that_two_layers_read_keep_their_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Finer steps would be those of one layer alone, and the other's bias has steps of the old ones."""
    depthwise, dead = reals(4, 1, 3, 3), np.array([0, 0, -100, 0], np.float32)
    depthwise[2] = 1000.0
    constants = {"w": np.abs(reals(4, 3, 1, 1)), "b": dead, "d": depthwise, "o": reals(4), "p": 9 * reals(4)}
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["a"]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Conv", ["r", "d", "o"], ["c"], group=4, pads=[1] * 4),
        helper.make_node("Conv", ["c", "d", "p"], ["y"], group=4, pads=[1] * 4),
    ]
    monkeypatch.setattr(steps, "equalised", lambda model, _: (model, 0))
    made = quantized(model(nodes, constants), Samples({"x": reals(20, *IMAGE)}))
    found = [n for n in import_model(made, "shared").graph.nodes() if isinstance(n.op, DepthwiseConv2d)]
    assert len(found) == 2 and with_finer_steps(made)[1] == 0
    assert max(map(_steps_of, found)) >= 0.5


def _steps_of(node: Node) -> float:
    """The most output steps for a step of an input and one of a weight."""
    weights, x, y = (tensor.type.quantised for tensor in (node.inputs[1], node.x, node.output))
    return max(weights.scales) * x.scales[0] / y.scales[0]


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_weights_that_4_bits_can_hold_are_held_exactly(axis: int | None) -> None:
    """By channel along each axis, and with one scale for all of them."""
    codes = np.array([[7, -3, 2, 7], [-7, 5, 0, -7], [1, 7, 7, -4]], np.int8)
    scale = np.float32(0.5) if axis is None else np.exp2(np.arange(codes.shape[axis], dtype=np.float32))
    each = scale if axis is None else np.expand_dims(scale, 1 if axis == 0 else 0)
    fields = {} if axis in (None, 1) else {"axis": axis}  # 1 is ONNX's default
    constants = {"w_quantized": codes * np.int8(9), "w_scale": scale / 16, "w_zero": np.zeros(scale.shape, np.int8)}
    node = helper.make_node("DequantizeLinear", ["w_quantized", "w_scale", "w_zero"], ["y"], **fields)

    made = steps.in_four_bits(model([node], constants), model([], {"w": (codes * each).astype(np.float32)}))

    found = {tensor.name: numpy_helper.to_array(tensor) for tensor in made.graph.initializer}
    np.testing.assert_array_equal(found["w_quantized"], codes)
    np.testing.assert_array_equal(found["w_scale"], scale)


def test_without_onnx_runtime_one_line_says_what_to_install(
    folder: Path, gen: Gen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)

    _refused(
        gen("quantize", folder / "small.onnx", "--data", folder / "x.npz"), r"pip install shoehorn-mcu\[quantize\]"
    )


def test_a_firmware_can_be_made_of_a_float_model_at_once(folder: Path, tmp_path: Path, gen: Gen) -> None:
    target = tmp_path / "made"
    options = ["--board", "native", "--quantize", folder / "x.npz", "--out", target, "--json"]
    done = gen("firmware", folder / "small.onnx", *options)
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)

    assert said["model"]["name"] == "small"
    assert said["quantization"]["sqnr_db"] > 25
    assert (target / "report.json").is_file()
    assert any(op["kernel"].startswith("conv2d_s8") for op in said["ops"])
    assert not any("f32" in op["kernel"] for op in said["ops"] if "quantize" not in op["kernel"])


def test_a_model_with_open_dimensions_is_quantised_with_the_sizes_given(tmp_path: Path, gen: Gen) -> None:
    made, target = classifier(), tmp_path / "made"
    for dimension, name in zip(made.graph.input[0].type.tensor_type.shape.dim[2:], ("H", "W"), strict=True):
        dimension.dim_param = name
    del made.graph.value_info[:]
    path, data = tmp_path / "open.onnx", tmp_path / "x.npz"
    path.write_bytes(made.SerializeToString())
    np.savez(data, x=reals(4, *IMAGE[1:]))
    sizes = ("--shape", "H=12", "--shape", "W=12")

    _refused(gen("quantize", path, "--data", data, "-o", tmp_path / "o.onnx"), "give --shape H=N")
    done = gen("quantize", path, "--data", data, "-o", tmp_path / "o.onnx", *sizes)
    assert done.exit_code == 0, done.output
    shoehorn_mcu.quantize(path, data, tmp_path / "same.onnx", shoehorn_mcu.QuantizeOptions(shapes={"x": IMAGE}))
    assert (tmp_path / "same.onnx").read_bytes() == (tmp_path / "o.onnx").read_bytes()
    firmware = gen("firmware", path, "--quantize", data, *sizes, "--board", "native", "--out", target)
    assert firmware.exit_code == 0, firmware.output
    tflite = gen("quantize", SHIPPED / "digits.tflite", "--data", data, "-o", tmp_path / "t.onnx", *sizes)
    _refused(tflite, "no input is called 'H'; known are 'image'")


@needs_shared
@pytest.mark.long
@pytest.mark.parametrize("method", Method)
def test_an_int8_resnet_is_as_accurate_as_its_original(method: Method, tmp_path: Path) -> None:
    """500 images, the first 100 of which calibrate: at most half a point less."""
    images, labels = ptq.task("resnet20").samples()
    np.savez(tmp_path / "some.npz", input=images[:100])
    made = quantize_model(MODELS / "resnet20-cifar10-f32.onnx", tmp_path / "some.npz", Settings(method))
    assert made.float_ops == ()
    imported = import_model(made.model, "resnet")
    samples = Samples({"input": images[:, None]})

    found = accuracy(onnx.load(MODELS / "resnet20-cifar10-f32.onnx"), imported, samples, labels, lambda _: None)

    assert found.after >= found.before - 2  # of 500


def test_a_folder_of_too_many_bytes_is_refused_before_it_is_read(
    gen: Gen, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quantisation_samples, "LARGEST", 1000)

    found = gen("quantize", folder / "small.onnx", "--data", folder / "samples", "-o", tmp_path / "out.onnx")

    assert found.exit_code == 1
    assert "bytes are too many; at most 1,000 are read" in found.stderr


@pytest.mark.parametrize(
    ("kind", "shape", "attributes", "found"),
    [
        ("Conv", (8, 3, 3, 2), {}, ((8, 3, 6), False, True)),
        ("Conv", (8, 1, 3, 3), {"group": 8}, ((8, 1, 9), True, True)),
        ("Conv", (8, 2, 3, 3), {"group": 2}, None),
        ("Gemm", (5, 7), {"transB": 1}, ((5, 7, 1), False, True)),
        ("Gemm", (7, 5), {}, ((5, 7, 1), False, False)),
        ("Gemm", (7, 5), {"alpha": 1.0, "beta": 1.0}, ((5, 7, 1), False, False)),
        ("Gemm", (7, 5), {"alpha": 2.0}, None),
        ("Gemm", (7, 5), {"transA": 1}, None),
        ("MatMul", (7, 5), {}, ((5, 7, 1), False, False)),
        ("MatMul", (2, 7, 5), {}, None),
        ("Add", (7, 5), {}, None),
    ],
)
def test_weights_are_changed_where_each_output_has_its_own(
    kind: str, shape: tuple[int, ...], attributes: dict[str, Any], found: tuple[tuple[int, ...], bool, bool] | None
):
    edit = Edit(model([helper.make_node(kind, ["x", "w"], ["y"], **attributes)], {"w": reals(*shape)}))
    linear = Linear.of(edit, edit.nodes[0])

    assert (linear and (linear.weights.shape, linear.depthwise, linear.outputs_first)) == found
    if linear:
        before = edit.constants["w"]
        linear.store(edit, linear.weights)
        assert np.array_equal(edit.constants["w"], before)
