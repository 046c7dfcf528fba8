"""Ops that ONNX Runtime's optimiser writes, against ONNX Runtime: one by one, and in files that it has written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from shoehorn_mcu import passes
from shoehorn_mcu.importers import ImportFault
from shoehorn_mcu.importers.onnx.fused import FUSED
from shoehorn_mcu.importers.onnx.importer import import_model
from shoehorn_mcu.importers.onnx.ops import OPS
from shoehorn_mcu.ir import Array
from tests.runtime import run_reference

pytestmark = pytest.mark.usefixtures("module_in_one_process")

RNG = np.random.default_rng(0)
MICROSOFT = "com.microsoft"
CLOSE = 1e-5
"""Of the largest value."""


def reals(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def whole(*shape: int, most: int = 256, dtype: type[np.generic] = np.uint8) -> Array:
    return RNG.integers(0, most, shape).astype(dtype)


@dataclass(frozen=True)
class Case:
    """An op with its operands, "" for one that is left out: those called x... are inputs, the others constants."""

    code: str
    operands: Sequence[tuple[str, Array | None]]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: Sequence[str] = ("y",)
    domain: str = MICROSOFT
    opset: int = 17

    def model(self) -> onnx.ModelProto:
        given = {name: array for name, array in self.operands if array is not None}
        node = helper.make_node(
            self.code, [name for name, _ in self.operands], self.outputs, domain=self.domain, **self.attributes
        )
        kinds = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in given.items()}
        ends = [helper.make_tensor_value_info(n, kinds[n], a.shape) for n, a in given.items() if n[0] == "x"]
        of_result = kinds[ends[0].name] if self.code == "NhwcMaxPool" else TensorProto.FLOAT
        results = [
            helper.make_tensor_value_info(name, TensorProto.INT32 if name == "count" else of_result, None)
            for name in self.outputs
            if name
        ]
        held = [numpy_helper.from_array(array, name) for name, array in given.items() if name[0] != "x"]
        graph = helper.make_graph([node], "g", ends, results, held)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)

    @property
    def given(self) -> dict[str, Array]:
        return {name: array for name, array in self.operands if array is not None and name[0] == "x"}


X = ("x", reals(1, 4, 6, 5))
ROWS = ("x", reals(2, 3, 8))
NONE = ("", None)
G, B, S = ("g", reals(8)), ("b", reals(8)), ("s", reals(8))
CONV = (X, ("w", reals(4, 4, 3, 3)), ("c", reals(4)))
OTHER = ("x2", reals(1, 4, 6, 5))
GEMM = (("x", reals(3, 8)), ("w", reals(8, 5)), ("c", reals(5)))
IDS, KINDS = ("x", whole(2, 5, most=9, dtype=np.int32)), ("x2", whole(2, 5, most=2, dtype=np.int32))
MASK = ("x3", whole(2, 5, most=2, dtype=np.int32))
TABLES = (("words", reals(9, 8)), ("places", reals(7, 8)), ("kinds", reals(2, 8)))
CODES = (("x", whole(3, 8)), ("w", whole(8, 5)), ("s", np.float32(0.02)))
PADDED = {"pads": [1, 1, 1, 1]}
CASES = {
    "gelu": Case("Gelu", (X,)),
    "gelu of a sum": Case("BiasGelu", (ROWS, B)),
    "fast gelu": Case("FastGelu", (ROWS,)),
    "fast gelu of a sum": Case("FastGelu", (ROWS, B)),
    "quick gelu": Case("QuickGelu", (X,), {"alpha": 1.5}),
    "conv and relu": Case("FusedConv", CONV, {**PADDED, "activation": "Relu"}),
    "conv and clip": Case("FusedConv", CONV, {**PADDED, "activation": "Clip", "activation_params": [-0.5, 2.0]}),
    "conv and leaky relu": Case("FusedConv", CONV, {**PADDED, "activation": "LeakyRelu", "activation_params": [0.2]}),
    "conv and hard sigmoid": Case(
        "FusedConv", CONV[:2], {**PADDED, "activation": "HardSigmoid", "activation_params": [0.1, 0.4]}
    ),
    "conv, sum and tanh": Case("FusedConv", (*CONV, OTHER), {**PADDED, "activation": "Tanh"}),
    "conv without bias, sum and relu": Case("FusedConv", (*CONV[:2], NONE, OTHER), {**PADDED, "activation": "Relu"}),
    "gemm and relu": Case("FusedGemm", GEMM, {"activation": "Relu", "alpha": 0.5}),
    "gemm and leaky relu": Case("FusedGemm", GEMM, {"activation": "LeakyRelu", "activation_alpha": 0.2}),
    "scaled product": Case("FusedMatMul", (ROWS, ("w", reals(8, 4))), {"alpha": 0.125}),
    "product of transposed": Case(
        "FusedMatMul", (("x", reals(2, 8, 3)), ("x2", reals(2, 4, 8))), {"transA": 1, "transB": 1}
    ),
    "product by batches": Case(
        "FusedMatMul",
        (("x", reals(3, 2, 8)), ("x2", reals(8, 2, 4))),
        {"transBatchA": 1, "transBatchB": 1, "alpha": 2.0},
    ),
    "product by batches, transposed": Case(
        "FusedMatMul", (("x", reals(8, 2, 3)), ("x2", reals(2, 8, 4))), {"transBatchA": 1, "transA": 1}
    ),
    "layer norm of a sum": Case("SkipLayerNormalization", (ROWS, ("x2", reals(2, 3, 8)), G, B), {"epsilon": 1e-5}),
    "layer norm of a sum and a bias": Case(
        "SkipLayerNormalization",
        (ROWS, ("x2", reals(2, 3, 8)), G, B, S),
        {"epsilon": 1e-5},
        ("y", "", "", "sum"),
    ),
    "layer norm of a sum without offset": Case("SkipLayerNormalization", (ROWS, ("x2", reals(2, 3, 8)), G)),
    "root mean square": Case("SimplifiedLayerNormalization", (ROWS, G), {"epsilon": 1e-3, "axis": -1}, domain=""),
    "root mean square of a sum": Case("SkipSimplifiedLayerNormalization", (ROWS, ("x2", reals(2, 3, 8)), G)),
    "root mean square of a sum and a bias": Case(
        "SkipSimplifiedLayerNormalization", (ROWS, ("x2", reals(2, 3, 8)), G, S), {}, ("y", "", "", "sum")
    ),
    "embedding": Case("EmbedLayerNormalization", (IDS, KINDS, *TABLES, G, B), {"epsilon": 1e-5}, ("y", "count")),
    "embedding without segments": Case(
        "EmbedLayerNormalization", (IDS, NONE, *TABLES[:2], NONE, G, B), {}, ("y", "count")
    ),
    "embedding, its sum": Case("EmbedLayerNormalization", (IDS, KINDS, *TABLES, G, B, MASK), {}, ("y", "count", "sum")),
    "layer norm of opset 13": Case("LayerNormalization", (ROWS, G, B), {"axis": -1}, domain="", opset=13),
    "dynamic product": Case("DynamicQuantizeMatMul", (("x", reals(3, 8)), *CODES[1:])),
    "dynamic product with a bias": Case(
        "DynamicQuantizeMatMul",
        (("x", reals(3, 8)), CODES[1], ("s", np.abs(reals(5))), ("z", whole(5)), ("c", reals(5))),
    ),
    "integer product": Case("MatMulIntegerToFloat", (*CODES, ("t", np.float32(0.03)))),
    "integer product with all": Case(
        "MatMulIntegerToFloat",
        (
            *CODES[:2],
            ("s", np.float32(0.03)),
            ("t", np.abs(reals(5))),
            ("z", np.uint8(7)),
            ("u", whole(5)),
            ("c", reals(5)),
        ),
    ),
    "largest of int8, channels last": Case(
        "NhwcMaxPool", (("x", whole(1, 6, 5, 4, dtype=np.int8)),), {"kernel_shape": [2, 3], "pads": [0, 1, 0, 1]}
    ),
}


def computed(made: onnx.ModelProto, given: Mapping[str, Array]) -> dict[str, Array]:
    """Our results, in the model's order of dimensions."""
    imported = import_model(made, "m")
    graph, _ = passes.run(imported.graph)
    inputs = [np.ascontiguousarray(given[name].transpose(imported.ends[name].order)) for name in graph.inputs]
    found = run_reference(graph, inputs)
    return {name: found[name].transpose(np.argsort(imported.ends[name].order)) for name in graph.outputs}


def check(made: onnx.ModelProto, given: Mapping[str, Array], wanted: Mapping[str, Array], close: float = CLOSE) -> None:
    found = computed(made, given)
    assert found.keys() == wanted.keys()
    for name, values in wanted.items():
        assert found[name].dtype == values.dtype
        np.testing.assert_allclose(found[name], values, rtol=0, atol=close * max(1, np.abs(values).max()))


def run(path: str | bytes, given: Mapping[str, Array]) -> dict[str, Array]:
    """ONNX Runtime's results, of the model as it is."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [end.name for end in session.get_outputs()]
    return dict(zip(names, session.run(None, dict(given)), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_an_op_computes_what_onnx_runtime_does(name: str) -> None:
    case = CASES[name]

    check(case.model(), case.given, run(case.model().SerializeToString(), case.given))


def test_each_op_has_a_case() -> None:
    assert {code.removeprefix(f"{MICROSOFT}.") for code in FUSED} <= {case.code for case in CASES.values()}
    assert set(FUSED) <= set(OPS)


def chain(
    *nodes: Sequence[Any], constants: Mapping[str, Array], shape: Sequence[int], opset: int = 17
) -> onnx.ModelProto:
    """A model from `x` to `y` of nodes (code, inputs, output, attributes)."""
    made = [helper.make_node(code, inputs, [output], **more) for code, inputs, output, more in nodes]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", shape), ("y", None))]
    held = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(made, "g", ends[:1], ends[1:], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def network() -> onnx.ModelProto:
    """Convolutions with activations, as of a classifier."""
    nodes = [
        ("Conv", ["x", "w", "c"], "a", {"pads": [1] * 4}),
        ("Relu", ["a"], "b", {}),
        ("Conv", ["b", "v", "d"], "e", {"pads": [1] * 4}),
        ("Add", ["e", "b"], "f", {}),
        ("Relu", ["f"], "h", {}),
        ("Conv", ["h", "v"], "i", {"pads": [1] * 4}),
        ("LeakyRelu", ["i"], "j", {"alpha": 0.2}),
        ("Conv", ["j", "v"], "k", {}),
        ("Clip", ["k", "low", "high"], "l", {}),
        ("Conv", ["l", "v"], "m", {}),
        ("Sigmoid", ["m"], "n", {}),
        ("Flatten", ["n"], "o", {}),
        ("Gemm", ["o", "p", "q"], "r", {"transB": 1}),
        ("Relu", ["r"], "y", {}),
    ]
    constants = {
        **{"w": reals(4, 3, 3, 3), "c": reals(4), "v": 0.3 * reals(4, 4, 3, 3), "d": reals(4)},
        **{"low": np.float32(0), "high": np.float32(2), "p": reals(5, 64), "q": reals(5)},
    }
    return chain(*nodes, constants=constants, shape=(1, 3, 8, 8))


def transformer() -> onnx.ModelProto:
    """A block of a transformer, with its normalisations and activations in single ops, as older exporters write it."""
    half, two = np.float32(0.5), np.float32(2)
    nodes: list[tuple[str, list[str], str, dict[str, Any]]] = []

    def norm(x: str, y: str) -> None:
        nodes.extend(
            [
                ("ReduceMean", [x], f"{y}_mean", {"axes": [-1]}),
                ("Sub", [x, f"{y}_mean"], f"{y}_apart", {}),
                ("Pow", [f"{y}_apart", "two"], f"{y}_squares", {}),
                ("ReduceMean", [f"{y}_squares"], f"{y}_variance", {"axes": [-1]}),
                ("Add", [f"{y}_variance", "epsilon"], f"{y}_moved", {}),
                ("Sqrt", [f"{y}_moved"], f"{y}_deviation", {}),
                ("Div", [f"{y}_apart", f"{y}_deviation"], f"{y}_even", {}),
                ("Mul", [f"{y}_even", "g"], f"{y}_scaled", {}),
                ("Add", [f"{y}_scaled", "b"], y, {}),
            ]
        )

    norm("x", "n")
    nodes += [
        ("Transpose", ["n"], "t", {"perm": [0, 2, 1]}),
        ("MatMul", ["n", "t"], "scores", {}),
        ("Div", ["scores", "root"], "scaled", {}),
        ("Softmax", ["scaled"], "shares", {"axis": -1}),
        ("MatMul", ["shares", "n"], "mixed", {}),
        ("Add", ["mixed", "x"], "sum", {}),
    ]
    norm("sum", "m")
    nodes += [
        ("MatMul", ["m", "w"], "wide", {}),
        ("Add", ["wide", "c"], "biased", {}),
        ("Div", ["biased", "root_two"], "h1", {}),
        ("Erf", ["h1"], "h2", {}),
        ("Add", ["h2", "one"], "h3", {}),
        ("Mul", ["biased", "h3"], "h4", {}),
        ("Mul", ["h4", "half"], "active", {}),
        ("MatMul", ["active", "v"], "narrow", {}),
        ("Add", ["narrow", "b"], "last", {}),
        ("Add", ["last", "m"], "total", {}),
    ]
    norm("total", "y")
    constants = {
        **{"g": 1 + 0.1 * reals(16), "b": 0.1 * reals(16), "epsilon": np.float32(1e-5), "two": two, "half": half},
        **{"one": np.float32(1), "root": np.float32(4), "root_two": np.sqrt(two)},
        **{"w": 0.3 * reals(16, 32), "v": 0.3 * reals(32, 16), "c": reals(32)},
    }
    return chain(*nodes, constants=constants, shape=(1, 6, 16), opset=13)


OPTIMISED = {
    "network": (network, {"FusedConv", "FusedGemm"}),
    "transformer": (transformer, {"FusedMatMul", "Gelu", "LayerNormalization", "SkipLayerNormalization"}),
}


@pytest.mark.parametrize("name", OPTIMISED)
def test_a_file_of_the_optimiser_computes_what_the_model_does(name: str, tmp_path: Path) -> None:
    build, fused = OPTIMISED[name]
    model, path = build(), tmp_path / "optimised.onnx"
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(path)
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    written = onnx.load(path)
    assert {node.op_type for node in written.graph.node} >= fused
    x = reals(*(dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim))

    check(written, {"x": x}, run(model.SerializeToString(), {"x": x}))


def test_a_file_of_an_old_ir_needs_no_constants_as_inputs() -> None:
    """The optimiser keeps the file's IR, and writes new constants that are no inputs."""
    made = chain(("Conv", ["x", "w"], "y", {}), constants={"w": reals(2, 3, 1, 1)}, shape=(1, 3, 4, 4), opset=9)
    made.ir_version = 3
    x = reals(1, 3, 4, 4)

    check(made, {"x": x}, run(made.SerializeToString(), {"x": x}))


@pytest.mark.parametrize(
    ("case", "said"),
    [
        (Case("FusedConv", CONV, {"activation": "Gelu"}), "its activation 'Gelu' is not known"),
        (Case("SkipLayerNormalization", (ROWS,)), "it lacks its operand 1"),
    ],
    ids=["activation", "operand"],
)
def test_what_a_fused_op_lacks_is_said(case: Case, said: str) -> None:
    with pytest.raises(ImportFault, match=f"op 0 com.microsoft.{case.code} writing 'y': {said}"):
        import_model(case.model(), "m")
