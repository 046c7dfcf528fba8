"""What of a quantised model is slower or larger than it looks is said by each command, the report and the page."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from conftest import Gen
from onnx import ModelProto, TensorProto, helper, numpy_helper
from tflite_writer import ModelSpec, OpSpec, TensorSpec, bias, int8

from shoehorn_mcu.base.paths import MODELS
from shoehorn_mcu.firmware.build import plan_model
from shoehorn_mcu.firmware.settings import Options
from shoehorn_mcu.firmware.slow import slow_parts
from shoehorn_mcu.importers import Imported, InFloat
from shoehorn_mcu.importers.onnx.importer import load_onnx
from shoehorn_mcu.ir import Graph
from shoehorn_mcu.ops import Map
from tests import litert, shared

_CONV = {"StrideH": 1, "StrideW": 1}
_EMPTY = Graph("empty", {}, (), (), ())


def hybrid() -> bytes:
    """Two convolutions of int8 weights between real numbers, as without representative samples, and one of floats."""
    weights = [int8(name, (2, 1, 1, 2), seed=seed) for seed, name in enumerate(("w1", "w2"))]
    real = np.ones((2, 1, 1, 2), np.float32).tobytes()
    maps = [TensorSpec(name, (1, 4, 4, 2), "FLOAT32") for name in ("x", "a", "b", "c")]
    tensors = [*maps, *weights, TensorSpec("w3", (2, 1, 1, 2), "FLOAT32", data=real)]
    ops = [OpSpec("CONV_2D", (i, 4 + i), (i + 1,), dict(_CONV)) for i in range(3)]
    return ModelSpec(tensors, ops, (0,), (3,)).bytes()


def nine_bits(folder: Path) -> Path:
    """A convolution of uint8 whose weights have a zero point of 255, and one whose weights have none."""
    kernels = [int8(name, (2, 1, 1, 2), seed=seed) for seed, name in enumerate(("w1", "w2"))]
    maps = [int8(name, (1, 4, 4, 2)) for name in ("x", "a", "b")]
    tensors = [*maps, *kernels, bias("b1", 2), bias("b2", 2)]
    ops = [OpSpec("CONV_2D", (i, 3 + i, 5 + i), (i + 1,), dict(_CONV)) for i in range(2)]
    path = folder / "u8.tflite"
    path.write_bytes(litert.as_uint8(ModelSpec(tensors, ops, (0,), (2,)).bytes(), 3, 255))
    return path


def test_reasons_are_grouped_without_their_names_and_the_most_frequent_comes_first():
    found = [InFloat(f"t{i}", "Conv", f"its input 'x{i}' is not quantised") for i in range(3)]
    found.insert(0, InFloat("g", "Gemm", "its result is not quantised"))
    (said,) = slow_parts(Imported(_EMPTY, {}, 0, tuple(found), 9), _EMPTY, (), ())

    assert said["sentence"] == (
        "4 of 9 convolutions, dense layers and products of matrices of this quantised model compute in float32: "
        "its input is not quantised (3: Conv 't0', Conv 't1', ...); its result is not quantised (Gemm 'g')"
    )
    assert said["reasons"] == [
        {"reason": "its input is not quantised", "ops": ["t0", "t1", "t2"]},
        {"reason": "its result is not quantised", "ops": ["g"]},
    ]
    assert slow_parts(Imported(_EMPTY, {}, 0, (), 9), _EMPTY, (), ()) == []
    more = [InFloat(f"t{i}", "Conv", f"reason {i}") for i in range(9)]
    (said,) = slow_parts(Imported(_EMPTY, {}, 0, tuple(more), 9), _EMPTY, (), ())
    assert re.search(r"; \d for other reasons, which report.json has", str(said["sentence"]))


_ZERO = np.int8(3)


def of_one(code: str, dtype: str, table: str = "", **options: float) -> bytes:
    """An op of one operand between two tensors of this type."""
    zero = 0 if dtype == "INT16" else 3
    tensors = [TensorSpec(name, (1, 2, 2, 8), dtype, (scale,), (zero,)) for name, scale in (("x", 0.05), ("y", 0.06))]
    return ModelSpec(tensors, [OpSpec(code, (0,), (1,), options, table)], (0,), (1,)).bytes()


def in_frame(core: onnx.NodeProto, zero: np.generic = _ZERO, **constants: np.ndarray) -> ModelProto:
    """A node from `a` to `r` between conversions; they have this zero point."""
    made = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["a"]),
        core,
        helper.make_node("QuantizeLinear", ["r", "s", "z"], ["p"]),
        helper.make_node("DequantizeLinear", ["p", "s", "z"], ["y"]),
    ]
    held = {"s": np.float32(0.05), "z": zero, **constants}
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (2, 8)) for name in ("x", "y")]
    values = [numpy_helper.from_array(np.asarray(value), name) for name, value in held.items()]
    graph = helper.make_graph(made, "frame", ends[:1], ends[1:], values)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)


def saved(model: bytes | ModelProto, folder: Path) -> Path:
    data, suffix = (model, "tflite") if isinstance(model, bytes) else (model.SerializeToString(), "onnx")
    path = folder / f"model.{suffix}"
    path.write_bytes(data)
    return path


_NORM = helper.make_node("LayerNormalization", ["a", "one"], ["r"])
_ONES = np.ones(8, np.float32)
SAID: Mapping[str, tuple[bytes | ModelProto, str]] = {
    "tflite": (
        of_one("LOCAL_RESPONSE_NORMALIZATION", "INT8", Radius=2, Bias=1.0, Alpha=0.5, Beta=0.5),
        "no integer arithmetic is known for it (LOCAL_RESPONSE_NORMALIZATION 'y')",
    ),
    "int16": (of_one("FLOOR", "INT16"), "no integer arithmetic is known for it (FLOOR 'y')"),
    "onnx": (in_frame(_NORM, one=_ONES), "no kernel computes it with int8 (LayerNormalization 'r')"),
    "16 bits with a zero point": (
        in_frame(_NORM, np.int16(3), one=_ONES),
        "its input is quantised as int16 with a zero point (LayerNormalization 'r')",
    ),
    "several nodes": (
        in_frame(helper.make_node("Celu", ["a"], ["r"], alpha=0.5)),
        "no kernel computes it with integers (Celu 'r')",
    ),
}


_SAID = "1 quantised op of this model computes in float32 between conversions"


@pytest.mark.parametrize("name", SAID)
def test_an_op_between_conversions_is_said(name: str, tmp_path: Path):
    made, why = SAID[name]

    (said,) = plan_model(saved(made, tmp_path), None, Options()).report["slow"]

    assert (said["kind"], said["sentence"], said["count"]) == ("float32-others", f"{_SAID}: {why}", 1)


@pytest.mark.parametrize("name", ["tflite", "onnx"])
def test_an_op_between_conversions_is_said_by_all(gen: Gen, name: str, tmp_path: Path):
    made, why = SAID[name]
    model, out = saved(made, tmp_path), tmp_path / "out"

    assert f"note: {_SAID}: {why}" in gen("plan", model).stdout
    written = gen("firmware", model, "--board", "rpi-zero", "--out", out)
    assert f"{_SAID}: {why}" in written.stdout, written.output
    said, *_ = json.loads((out / "report.json").read_text())["slow"]
    assert said["sentence"] == f"{_SAID}: {why}"
    assert f"<dt>Other ops in float32</dt><dd>{html.escape(said['sentence'])}" in (out / "plan.html").read_text()


QUIET: Mapping[str, bytes | ModelProto] = {
    "a table": of_one("FLOOR", "INT8"),
    "integers": of_one("L2_NORMALIZATION", "INT8"),
    "a table of a node": in_frame(helper.make_node("Sigmoid", ["a"], ["r"])),
    "integers of a node": in_frame(helper.make_node("Add", ["a", "a"], ["r"])),
    "bytes moved": in_frame(helper.make_node("Transpose", ["t"], ["r"], perm=[1, 0])),
    "a result that is read as a real number, too": in_frame(_NORM, one=_ONES),
    "real numbers": in_frame(helper.make_node("LayerNormalization", ["x", "one"], ["r"]), one=_ONES),
}


@pytest.mark.parametrize("name", QUIET)
def test_an_op_on_integers_or_on_none_is_not_said(name: str, tmp_path: Path):
    made = QUIET[name]
    if name == "bytes moved":
        first = helper.make_node("Reshape", ["a", "shape"], ["t"])
        made.graph.node.insert(2, first)
        made.graph.initializer.append(numpy_helper.from_array(np.array([8, 2]), "shape"))
    if name.startswith("a result"):
        made.graph.output.append(helper.make_tensor_value_info("r", TensorProto.FLOAT, (2, 8)))

    assert "slow" not in plan_model(saved(made, tmp_path), None, Options()).report


def test_many_moves_ahead_of_a_quantisation_are_followed(tmp_path: Path):
    """Without a call within a call for each."""
    made = in_frame(helper.make_node("LayerNormalization", ["a", "one"], ["n0"]), one=_ONES)
    moves = [helper.make_node("Transpose", [f"n{i}"], [f"n{i + 1}"], perm=[1, 0]) for i in range(1200)]
    moves[-1].output[0] = "r"
    for place, node in enumerate(moves):
        made.graph.node.insert(3 + place, node)

    (found,) = load_onnx(saved(made, tmp_path), {}).others_in_float

    assert found.kind == "LayerNormalization"


def test_a_table_that_is_not_made_is_said(tmp_path: Path):
    made = plan_model(saved(QUIET["a table"], tmp_path), None, Options(disabled=frozenset({"fuse-tables"})))

    (said,) = made.report["slow"]
    assert said["sentence"].endswith("(FLOOR 'y')")


def test_others_are_beside_the_convolutions():
    linear, others = (InFloat(n, "Conv", "its result is not quantised") for n in "ab"), InFloat("c", "Mish", "why")
    op = Map(name="mish", inputs=("x",), output="c", formula="x")
    graph = Graph("g", {}, (op,), ("x",), ("c",))
    model = Imported(graph, {}, 0, tuple(linear), 2, (replace(others, made=("mish",)),) * 2)

    first, second = (each["sentence"] for each in slow_parts(model, graph, (), ()))

    assert first.startswith("2 of 2 convolutions")
    assert second == (
        "2 other quantised ops of this model compute in float32 between conversions: why (Mish 'c', Mish 'c')"
    )


def test_an_op_of_a_pipeline_s_copy_is_said(tmp_path: Path):
    """The copies of a front end have numbers behind their ops' names."""
    op = Map(name="mish_1", inputs=("x",), output="c", formula="x")
    graph = Graph("g", {}, (op,), ("x",), ("c",))

    assert slow_parts(Imported(graph, {}, others_in_float=(InFloat("c", "Mish", "why", ("mish",)),)), graph, (), ())


def test_uint8_that_is_interpolated_in_float32_is_said(tmp_path: Path):
    maps = [TensorSpec(name, (1, size, size, 2), "UINT8", (0.05,), (7,)) for name, size in (("x", 3), ("y", 6))]
    size = TensorSpec("size", (2,), "INT32", data=np.array([6, 6], np.int32).tobytes())
    model = ModelSpec([*maps, size], [OpSpec("RESIZE_BILINEAR", (0, 2), (1,))], (0,), (1,)).bytes()

    (said,) = plan_model(saved(model, tmp_path), None, Options()).report["slow"]

    assert "TensorFlow Lite interpolates uint8 in float32 (RESIZE_BILINEAR 'y" in said["sentence"]


def test_weights_without_activations_that_are_quantised_compute_in_float(gen: Gen, tmp_path: Path):
    model, page = tmp_path / "hybrid.tflite", tmp_path / "page.html"
    model.write_bytes(hybrid())
    sentence = "2 of 2 convolutions, dense layers and products of matrices of this quantised model compute in float32"

    printed = gen("plan", model, "--html", page)
    assert printed.exit_code == 0, printed.output
    assert f"note: {sentence}: only its weights are quantised, its input is float32" in printed.stdout
    assert f"<dt>In float32</dt><dd>{sentence}" in page.read_text()
    (said,) = json.loads(gen("plan", model, "--json").stdout)["slow"]
    assert (said["count"], said["of"], said["reasons"][0]["ops"]) == (2, 2, ["a", "b"])


def test_weights_of_two_bytes_are_counted_by_all_that_say_a_plan(gen: Gen, tmp_path: Path):
    model, folder = nine_bits(tmp_path), tmp_path / "u8"
    sentence = "1 of 2 convolutions and dense layers takes two bytes for each weight, 4 bytes more, and portable C"

    written = gen("firmware", model, "--board", "rpi-zero", "--out", folder)
    assert written.exit_code == 0, written.output
    said, portable = json.loads((folder / "report.json").read_text())["slow"]
    assert (said["kind"], said["count"], said["bytes"]) == ("wide-weights", 1, 4)
    assert [op["kernel"] for op in portable["ops"]] == ["linear_s8_w16_c", "conv2d_s8_c"]
    assert (portable["kind"], portable["count"]) == ("portable-c", 2)
    assert portable["sentence"].startswith("2 ops compute in portable C, though the core has instructions that other ")
    assert portable["sentence"] in html.unescape((folder / "plan.html").read_text())
    assert sentence in written.stdout and sentence in said["sentence"]
    assert sentence in (folder / "plan.html").read_text()
    other = tmp_path / "v8.tflite"
    other.write_bytes(model.read_bytes())
    together = gen("firmware", model, other, "--board", "rpi-zero", "--out", tmp_path / "both")
    assert f"v8: note: {sentence}" in together.stdout, together.output


def test_a_model_without_them_says_nothing(gen: Gen):
    assert "slow" not in json.loads(gen("plan", MODELS / "digits.tflite", "--json").stdout)


@shared.needs_shared
def test_an_op_that_gets_a_faster_kernel_in_the_plan_is_not_said_to_be_slow(gen: Gen) -> None:
    """Its kernel needs scratch, which is given to ops of finished plans; in the smallest plan there is none for it."""
    model = shared.MODELS / "tflm-micro-speech.tflite"
    fast, small = (gen("plan", model, "--board", "microbit", *more).output for more in ((), ("--minimize", "sram")))

    assert "conv2d_s8_thumb_wide" in fast and "in portable C, though" not in fast
    assert "'depthwise_conv_2d_1' by conv2d_s8_c" in small
