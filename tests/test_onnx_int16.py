"""Quantised ONNX with int16 activations and int8 weights (16x8), beside ONNX Runtime, and mixed with int8."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from shoehorn_mcu import PlanOptions, generate_together, passes, validate
from shoehorn_mcu.importers import load
from shoehorn_mcu.ir import Array, DType, Graph
from shoehorn_mcu.ops import Clamped, Map, Transpose
from tests.board_project import needs_emulator
from tests.test_build import BOARDS
from tests.test_onnx import IMAGE, MIRRORED, computed, model, quantised, reals, saved

pytestmark = pytest.mark.usefixtures("module_in_one_process")

X_STEP, UNIT = np.float32(0.0003), np.float32(2.0**-15)
ZERO = np.int16(0)


@dataclass(frozen=True)
class Case:
    """Nodes from `a` to `r`, the constants that they read, the scale of `r`, and how many steps it may be off."""

    nodes: Sequence[onnx.NodeProto]
    constants: Mapping[str, Array] = field(default_factory=dict)
    step: np.float32 = np.float32(0.0006)
    steps: float = 1.01
    in_float: bool = False


def node(code: str, *inputs: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(code, list(inputs), ["r"], **attributes)


def weights(*shape: int) -> dict[str, Array]:
    """int8 weights with a scale per output, and a bias in steps of the products."""
    random = np.random.default_rng(sum(shape))
    scales = (np.abs(random.normal(size=shape[0])) / 100 + 0.001).astype(np.float32)
    return {
        "w": random.integers(-127, 128, shape, np.int8),
        "ws": scales,
        "wz": np.zeros(shape[0], np.int8),
        "b": random.integers(-200000, 200000, shape[0], np.int32),
        "bs": (scales * X_STEP).astype(np.float32),
        "bz": np.zeros(shape[0], np.int32),
    }


REAL = [
    helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wr"], axis=0),
    helper.make_node("DequantizeLinear", ["b", "bs", "bz"], ["br"], axis=0),
]
_CONSTANT = helper.make_node("DequantizeLinear", ["k", "s", "z"], ["kr"])
_LINEAR = np.float32(0.005)
CASES = {
    "conv": Case([*REAL, node("Conv", "a", "wr", "br", pads=[1] * 4)], weights(5, 6, 3, 3), _LINEAR),
    "conv and relu": Case(
        [*REAL, helper.make_node("Conv", ["a", "wr", "br"], ["c"], strides=[2, 1]), node("Relu", "c")],
        weights(4, 6, 1, 1),
        _LINEAR,
    ),
    "depthwise conv and clip": Case(
        [
            *REAL,
            helper.make_node("Conv", ["a", "wr", "br"], ["c"], group=6, pads=[1] * 4),
            node("Clip", "c", "low", "high"),
        ],
        {**weights(6, 1, 3, 3), "low": np.float32(-1), "high": np.float32(2)},
        _LINEAR,
    ),
    "transposed conv": Case(
        [
            helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wr"], axis=1),
            helper.make_node("DequantizeLinear", ["b", "bs", "bz"], ["br"], axis=0),
            node("ConvTranspose", "a", "wr", "br", **MIRRORED),
        ],
        {**weights(5, 6, 3, 2), "w": weights(6, 5, 3, 2)["w"]},
        _LINEAR,
    ),
    "gemm": Case(
        [
            *REAL,
            helper.make_node("Flatten", ["a"], ["f"]),
            helper.make_node("QuantizeLinear", ["f", "s", "z"], ["fq"]),
            helper.make_node("DequantizeLinear", ["fq", "s", "z"], ["fr"]),
            node("Gemm", "fr", "wr", "br", transB=1),
        ],
        weights(7, 6 * 9 * 8),
        np.float32(0.05),
    ),
    "batch normalization": Case(
        [node("BatchNormalization", "a", "f", "o", "m", "v")],
        {name: np.float32(np.linspace(low, 2, 6)) for name, low in (("f", -2), ("o", -1), ("m", 0), ("v", 0.5))},
        _LINEAR,
    ),
    "add": Case([node("Add", "a", "a")]),
    "add of a constant": Case(
        [_CONSTANT, node("Add", "a", "kr")],
        {"k": np.array([-30000, 5, 700, 0, 9000, 32767], np.int16).reshape(6, 1, 1)},
    ),
    "subtract and relu": Case(
        [_CONSTANT, helper.make_node("Sub", ["a", "kr"], ["c"]), node("Relu", "c")],
        {"k": np.array([3000], np.int16)},
    ),
    "multiply": Case([node("Mul", "a", "a")], step=np.float32(0.003)),
    "global average pool": Case([node("GlobalAveragePool", "a")]),
    "mean over rows": Case([node("ReduceMean", "a", "n", keepdims=0)], {"n": np.array([2])}),
    "average pool": Case([node("AveragePool", "a", kernel_shape=[2, 2], strides=[2, 2])]),
    "max pool": Case([node("MaxPool", "a", kernel_shape=[3, 3], pads=[1] * 4)]),
    "concat": Case([node("Concat", "a", "a", axis=1)]),
    "relu": Case([node("Relu", "a")]),
    "clip": Case([node("Clip", "a", "low", "high")], {"low": np.float32(-1), "high": np.float32(2)}),
    "pad": Case([node("Pad", "a", "n")], {"n": np.array([0, 1, 2, 0, 0, 0, 1, 3])}),
    "sigmoid": Case([node("Sigmoid", "a")], step=UNIT, steps=3),
    "tanh": Case([node("Tanh", "a")], step=UNIT, steps=3),
    "softmax": Case([node("Softmax", "a", axis=1)], step=UNIT, steps=8),
    "add of a constant of real numbers": Case(
        [node("Add", "a", "k")], {"k": np.array([-0.3, 0.2, 0.1, 0, 1, 2], np.float32).reshape(6, 1, 1)}, in_float=True
    ),
    "softmax with another scale": Case([node("Softmax", "a", axis=1)], step=np.float32(0.0001), in_float=True),
}


def built(case: Case, microsoft: bool = False) -> onnx.ModelProto:
    """The model of the case; with conversions of ONNX Runtime's domain where ONNX's own have no int16."""
    made = quantised(case.nodes, ZERO, case.constants)
    for tensor in made.graph.initializer:
        if tensor.name in "st":
            step = X_STEP if tensor.name == "s" else case.step
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.asarray(step, np.float32), tensor.name))
    if microsoft:
        made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
        for each in made.graph.node:
            each.domain = "com.microsoft" if each.op_type in ("QuantizeLinear", "DequantizeLinear") else ""
    else:
        made.opset_import[0].version, made.ir_version = 21, 10
    return made


def beside_onnx_runtime(path: Path, step: float, steps: float) -> Graph:
    """The graph after the passes, whose result is within so many steps of ONNX Runtime's."""
    x = 2 * reals(*IMAGE)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    (wanted,) = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, {"x": x})

    graph, _ = passes.run(load(path))
    (found,) = computed(graph, [x])

    found = found.transpose(0, 3, 1, 2) if found.ndim == 4 else found
    assert np.abs(found - wanted).max() <= steps * step
    assert np.unique(wanted).size > 5, "results differ"
    return graph


@pytest.mark.parametrize("name", CASES)
def test_an_op_is_within_a_step_of_onnx_runtime(name: str, tmp_path: Path) -> None:
    case = CASES[name]

    path = saved(built(case), tmp_path)
    beside_onnx_runtime(path, case.step, case.steps)

    computing = [each for each in load(path).nodes() if not isinstance(each.op, Transpose)]
    real = [each for each in computing if each.inputs[0].type.dtype is each.output.type.dtype is DType.FLOAT32]
    assert bool(real) is case.in_float


@pytest.mark.parametrize("name", ["conv and relu", "add"])
def test_conversions_of_microsofts_domain_are_those_of_onnx(name: str, tmp_path: Path) -> None:
    ours, theirs = (passes.run(load(saved(built(CASES[name], own), tmp_path)))[0] for own in (False, True))

    assert [(each.op, each.output.type) for each in ours.nodes()] != []
    assert [(type(a.op), a.output.type) for a in ours.nodes()] == [(type(b.op), b.output.type) for b in theirs.nodes()]


@pytest.mark.parametrize("wide_end", [False, True], ids=["int16 to int8", "int8 to int16"])
def test_ops_between_int8_and_int16_compute_with_int16(wide_end: bool, tmp_path: Path) -> None:
    ends = [(np.float32(0.05), np.int8(3)), (np.float32(0.0004), ZERO)]
    (s, z), (t, o) = ends if wide_end else ends[::-1]
    constants = {**weights(5, 6, 3, 3), "s": s, "z": z, "t": t, "o": o}
    constants["bs"] = (constants["ws"] * s).astype(np.float32)
    constants["b"] = (constants["b"] * float(X_STEP) / s).astype(np.int32)
    made = model(
        [
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["a"]),
            *REAL,
            helper.make_node("Conv", ["a", "wr", "br"], ["r"], pads=[1] * 4),
            helper.make_node("QuantizeLinear", ["r", "t", "o"], ["p"]),
            helper.make_node("DequantizeLinear", ["p", "t", "o"], ["y"]),
        ],
        constants=constants,
    )
    made.opset_import[0].version, made.ir_version = 21, 10

    graph = beside_onnx_runtime(saved(made, tmp_path), t, 1.01)

    (conv,) = [each for each in graph.nodes() if isinstance(each.op, Clamped) and not isinstance(each.op, Map)]
    assert {conv.inputs[0].type.dtype, conv.output.type.dtype} == {DType.INT16}


def test_a_board_computes_what_the_reference_does(tmp_path: Path) -> None:
    needs_emulator(BOARDS["mps2-an386"])
    paths = []
    for name in ("conv and relu", "depthwise conv and clip", "gemm", "softmax", "mean over rows"):
        paths.append(saved(built(CASES[name]), tmp_path).rename(tmp_path / f"{name.replace(' ', '_')}.onnx"))
    generate_together(paths, tmp_path / "firmware", PlanOptions(board="mps2-an386"))

    for path in paths:
        assert validate(tmp_path / "firmware", emulate=True, count=3, model=path.stem).mismatched_vectors == 0
