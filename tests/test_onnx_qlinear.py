"""Ops with their quantisation as operands, ONNX's and those of ONNX Runtime's quantiser, beside ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from shoehorn_mcu import passes
from shoehorn_mcu.importers import ImportFault
from shoehorn_mcu.importers.onnx.importer import import_model, load_onnx
from shoehorn_mcu.importers.onnx.ops import OPS
from shoehorn_mcu.importers.onnx.qlinear import FORMS
from shoehorn_mcu.ir import Array, DType, Graph
from shoehorn_mcu.ops import Dequantize, Softmax
from tests.random_nets import onnx_runtime
from tests.runtime import run_reference
from tests.test_onnx import IMAGE, OUT, SCALE, reals, saved

pytestmark = pytest.mark.usefixtures("module_in_one_process")

RNG = np.random.default_rng(0)
MICROSOFT = "com.microsoft"
X, Y, Z = ("x", "s", "z"), ("t", "u"), ("k", "ks", "z")
"""The operands: values, scale and zero point; the result's scale and zero point."""


@dataclass(frozen=True)
class Case:
    """An op from the quantised `x` to the quantised `y`, the constants that it reads, and the shape of `x`."""

    code: str
    inputs: Sequence[str]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    constants: Mapping[str, Array] = field(default_factory=dict)
    shape: Sequence[int] = IMAGE
    step: np.float32 = OUT
    steps: int = 1

    def model(self, dtype: type[np.generic], zero: int) -> onnx.ModelProto:
        """`dtype`: of the operands that are computed and of the result, whose zero points are `zero`."""
        low = int(np.iinfo(np.dtype(dtype).name).min)
        held = {
            "s": SCALE,
            "z": np.array(zero, dtype),
            "t": self.step,
            "u": np.array(low if self.code == "QLinearSoftmax" else zero, dtype),
            "ks": np.float32(0.03),
            "k": np.zeros(0),
            **self.constants,
        }
        held["k"] = (held["k"].astype(np.int16) - low - 128).astype(dtype)
        used = {name: data for name, data in held.items() if name in self.inputs}
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        result = kind if "t" in self.inputs else TensorProto.FLOAT
        ends = [helper.make_tensor_value_info("x", kind, self.shape), helper.make_tensor_value_info("y", result, None)]
        domain = "" if onnx.defs.has(self.code) and "channels_last" not in self.attributes else MICROSOFT
        node = helper.make_node(self.code, list(self.inputs), ["y"], domain=domain, **self.attributes)
        tensors = [numpy_helper.from_array(np.asarray(data), name) for name, data in used.items()]
        graph = helper.make_graph([node], "small", ends[:1], ends[1:], tensors)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def some(*shape: int) -> Array:
    return RNG.integers(-127, 128, shape, np.int8)


def weights(*shape: int, axis: int = 0, dtype: type[np.generic] = np.int8) -> dict[str, Array]:
    """Weights with a scale per output along an axis, and a bias in steps of the products."""
    outputs = shape[axis]
    return {
        "w": some(*shape),
        "ws": np.abs(reals(outputs)) / 100 + np.float32(0.001),
        "wz": np.zeros(outputs, np.int8),
        "b": RNG.integers(-2000, 2000, outputs, np.int32),
    }


def flat(*shape: int, axis: int) -> dict[str, Array]:
    """As `weights`, with small sums."""
    made = weights(*shape, axis=axis)
    return {**made, "ws": made["ws"] / 10}


W = ("w", "ws", "wz")
SOFT = np.float32(1 / 256)
NO_ORACLE = {"QLinearReduceMean"}
"""ONNX Runtime has no kernel of these."""
CASES = {
    "conv": Case("QLinearConv", (*X, *W, *Y, "b"), {"pads": [1] * 4}, weights(5, 6, 3, 3)),
    "conv, channels last": Case(
        "QLinearConv", (*X, *W, *Y, "b"), {"pads": [1] * 4, "channels_last": 1}, weights(5, 6, 3, 3), (1, 9, 8, 6)
    ),
    "depthwise conv, channels last": Case(
        "QLinearConv", (*X, *W, *Y), {"group": 6, "channels_last": 1}, weights(6, 1, 3, 3), (1, 9, 8, 6)
    ),
    "conv of a sequence": Case(
        "QLinearConv", (*X, *W, *Y, "b"), {"pads": [2, 0], "dilations": [2]}, weights(5, 6, 3), (1, 6, 12)
    ),
    "depthwise conv of a sequence": Case(
        "QLinearConv", (*X, *W, *Y, "b"), {"group": 6, "strides": [2]}, weights(6, 1, 3), (1, 6, 12)
    ),
    "global average of a sequence": Case("QLinearGlobalAveragePool", (*X, *Y), {"channels_last": 0}, {}, (1, 6, 12)),
    "matmul": Case("QLinearMatMul", (*X, *W, *Y), {}, flat(12, 5, axis=1), (3, 12)),
    "gemm": Case("QGemm", (*X, *W, "b", *Y), {}, flat(12, 5, axis=1), (3, 12)),
    "gemm of a transposed matrix": Case("QGemm", (*X, *W, "b", *Y), {"transB": 1}, flat(5, 12, axis=0), (3, 12)),
    "gemm with a factor": Case("QGemm", (*X, *W, "b", *Y), {"alpha": 0.5}, flat(12, 5, axis=1), (3, 12)),
    "gemm without bias": Case("QGemm", (*X, *W, "", *Y), {}, flat(12, 5, axis=1), (3, 12)),
    "gemm with a real result": Case("QGemm", (*X, *W, "b"), {}, flat(12, 5, axis=1), (3, 12), np.float32(1e-4)),
    "add": Case("QLinearAdd", (*X, *X, *Y)),
    "add a constant per channel": Case("QLinearAdd", (*X, *Z, *Y), {}, {"k": some(6, 1, 1)}),
    "multiply": Case("QLinearMul", (*X, *X, *Y), step=np.float32(0.2)),
    "multiply by a constant per channel": Case("QLinearMul", (*Z, *X, *Y), {}, {"k": some(1, 6, 1, 1)}),
    "multiply by a number": Case("QLinearMul", (*X, *Z, *Y), {}, {"k": some()}),
    "sigmoid": Case("QLinearSigmoid", (*X, *Y), step=SOFT),
    "leaky relu": Case("QLinearLeakyRelu", (*X, *Y), {"alpha": 0.1}),
    "leaky relu as it is": Case("QLinearLeakyRelu", (*X, *Y)),
    "softmax": Case("QLinearSoftmax", (*X, *Y), {"opset": 17}, step=SOFT),
    "softmax of channels": Case("QLinearSoftmax", (*X, *Y), {"opset": 13, "axis": 1}, step=SOFT),
    "softmax of opset 11": Case("QLinearSoftmax", (*X, *Y), {"opset": 11, "axis": 3}, step=SOFT),
    "softmax of all from an axis on": Case("QLinearSoftmax", (*X, *Y), {"opset": 11, "axis": 2}, step=SOFT),
    "softmax of opset 11 as it is": Case("QLinearSoftmax", (*X, *Y), {"opset": 11}, {}, (3, 12), step=SOFT),
    "concat": Case("QLinearConcat", (*Y, *X, *X, *X), {"axis": 1}),
    "concat with constants": Case("QLinearConcat", (*Y, *Z, *X), {"axis": 1}, {"k": some(1, 2, 9, 8)}),
    "average pool": Case("QLinearAveragePool", (*X, *Y), {"kernel_shape": [2, 3], "strides": [2, 2]}),
    "average pool of the padding": Case(
        "QLinearAveragePool", (*X, *Y), {"kernel_shape": [3, 3], "pads": [1] * 4, "count_include_pad": 1}
    ),
    "average pool, channels last": Case(
        "QLinearAveragePool", (*X, *Y), {"kernel_shape": [2, 2], "channels_last": 1}, {}, (1, 9, 8, 6)
    ),
    "global average pool": Case("QLinearGlobalAveragePool", (*X, *Y), step=np.float32(0.01)),
    "global average pool, channels last": Case(
        "QLinearGlobalAveragePool", (*X, *Y), {"channels_last": 1}, {}, (1, 9, 8, 6), np.float32(0.01)
    ),
    "where": Case("QLinearWhere", ("c", *X, *Z, *Y), {}, {"c": RNG.integers(0, 2, (9, 8)) > 0, "k": some(6, 1, 1)}),
}


def outputs(case: Case, made: onnx.ModelProto, dtype: type[np.generic], folder: Path) -> tuple[Array, Array, Graph]:
    """ONNX Runtime's and ours, and our graph."""
    path = saved(made, folder)
    x = RNG.integers(*np.iinfo(np.dtype(dtype).name).min + np.array([0, 256]), case.shape).astype(dtype)
    (wanted,) = onnx_runtime(made, {"x": x})
    imported = load_onnx(path, {})
    graph, _ = passes.run(imported.graph)
    found = run_reference(graph, [np.ascontiguousarray(x.transpose(imported.ends["x"].order))])["y"]
    order = imported.ends["y"].order
    return wanted, found.transpose([order.index(dimension) for dimension in range(found.ndim)]), graph


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("name", CASES)
def test_an_op_is_within_a_step_of_onnx_runtime(name: str, dtype: type[np.generic], tmp_path: Path) -> None:
    case = CASES[name]
    made = case.model(dtype, 3 if dtype is np.int8 else 130)

    wanted, found, _ = outputs(case, made, dtype, tmp_path)

    assert found.dtype == wanted.dtype
    step = case.step if wanted.dtype == np.float32 else 1
    assert np.abs(found.astype(np.float64) - wanted).max() <= step * case.steps
    assert len(np.unique(wanted)) > 3, "the case says something"


def test_the_ops_are_listed() -> None:
    assert set(FORMS) <= set(OPS)


def test_each_form_has_a_case() -> None:
    assert {case.code for case in CASES.values()} >= {code.removeprefix(f"{MICROSOFT}.") for code in FORMS} - NO_ORACLE


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_a_missing_zero_point_is_0(dtype: type[np.generic]) -> None:
    """ONNX Runtime has no kernel for that; its definition has the zero points as optional."""
    given = Case("QLinearMul", ("x", "s", "z", "x", "s", "z", "t", "u"))
    missing = Case("QLinearMul", ("x", "s", "", "x", "s", "", "t"))
    x = np.arange(6 * 9 * 8).reshape(1, 9, 8, 6).astype(dtype)

    found, wanted = (run_reference(import_model(c.model(dtype, 0), "m").graph, [x])["y"] for c in (missing, given))

    np.testing.assert_array_equal(found, wanted, strict=True)


def test_the_mean_along_axes_is_that_between_conversions() -> None:
    """ONNX Runtime has no kernel of QLinearReduceMean for most machines."""
    made = Case("QLinearReduceMean", (*X, *Y), {"axes": [2, 3], "keepdims": 0}, step=np.float32(0.01))
    pool = Case("QLinearGlobalAveragePool", (*X, *Y), step=np.float32(0.01))
    x = some(1, 9, 8, 6)

    found, wanted = (run_reference(import_model(c.model(np.int8, 3), "m").graph, [x])["y"] for c in (made, pool))

    np.testing.assert_array_equal(found.reshape(-1), wanted.reshape(-1))


def test_too_few_operands_are_refused_in_one_line() -> None:
    made = Case("QLinearConcat", (*Y, "x", "s", "z", "x"), {"axis": 1}).model(np.int8, 3)

    with pytest.raises(ImportFault, match=r"op 0 com.microsoft.QLinearConcat writing 'y': it has 6 inputs"):
        import_model(made, "m")


class Samples(CalibrationDataReader):
    """Random images."""

    def __init__(self) -> None:
        self._left = iter([{"x": reals(1, 3, 8, 8)} for _ in range(8)])

    def get_next(self) -> dict[str, Array] | None:
        return next(self._left, None)


def network() -> onnx.ModelProto:
    """Most ops that ONNX Runtime's quantiser writes on integers, behind one another."""
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["conv"], pads=[1] * 4),
        helper.make_node("Mul", ["conv", "k"], ["scaled"]),
        helper.make_node("Add", ["scaled", "o"], ["moved"]),
        helper.make_node("Sigmoid", ["moved"], ["gate"]),
        helper.make_node("Mul", ["moved", "gate"], ["silu"]),
        helper.make_node("Split", ["silu"], ["left", "right"], axis=1),
        helper.make_node("LeakyRelu", ["left"], ["leaky"], alpha=0.1),
        helper.make_node("Concat", ["leaky", "right", "o"], ["joined"], axis=1),
        helper.make_node("Pad", ["joined", "pads"], ["padded"]),
        helper.make_node("MaxPool", ["padded"], ["pooled"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Resize", ["pooled", "", "twice"], ["larger"], mode="nearest"),
        helper.make_node("AveragePool", ["larger"], ["small"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Transpose", ["small"], ["turned"], perm=[0, 2, 3, 1]),
        helper.make_node("Reshape", ["turned", "row"], ["flat"]),
        helper.make_node("Gemm", ["flat", "v", "c"], ["sums"]),
        helper.make_node("Softmax", ["sums"], ["y"]),
    ]
    constants = {
        "w": 0.3 * reals(4, 3, 3, 3),
        "b": reals(4),
        "k": np.abs(reals(4, 1, 1)) + 1,
        "o": reals(1, 4, 8, 8),
        "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
        "twice": np.array([1, 1, 2, 2], np.float32),
        "row": np.array([1, -1]),
        "v": 0.05 * reals(200, 6),
        "c": reals(6),
    }
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", (1, 3, 8, 8)), ("y", (1, 6)))]
    held = [numpy_helper.from_array(np.asarray(data), name) for name, data in constants.items()]
    graph = helper.make_graph(nodes, "small", ends[:1], ends[1:], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("dtype", [QuantType.QInt8, QuantType.QUInt8], ids=["int8", "uint8"])
@pytest.mark.parametrize(
    "form",
    [
        {"quant_format": QuantFormat.QOperator},
        {"quant_format": QuantFormat.QOperator, "per_channel": True},
        {"quant_format": QuantFormat.QDQ},
        {"quant_format": QuantFormat.QDQ, "extra_options": {"AddQDQPairToWeight": True}},
    ],
    ids=["operators", "operators, per channel", "conversions", "conversions of weights"],
)
def test_a_quantised_network_computes_what_onnx_runtime_does(
    form: Mapping[str, Any], dtype: QuantType, tmp_path: Path
) -> None:
    path = tmp_path / "quantised.onnx"
    quantize_static(
        saved(network(), tmp_path), path, Samples(), activation_type=dtype, weight_type=QuantType.QInt8, **form
    )
    x = reals(1, 3, 8, 8)
    (wanted,) = onnx_runtime(onnx.load(path), {"x": x})

    graph, _ = passes.run(load_onnx(path, {}).graph)
    found = run_reference(graph, [np.ascontiguousarray(x.transpose(0, 2, 3, 1))])["y"]

    np.testing.assert_allclose(found, wanted, rtol=0, atol=4 / 256)
    real = {type(node.op) for node in graph.nodes() if node.output.type.dtype is DType.FLOAT32}
    assert real <= {Dequantize, Softmax}
