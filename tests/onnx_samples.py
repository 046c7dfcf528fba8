"""Models of one op each, in all element types, for the comparison of `gen ops` with what the importers make.

They are those of ONNX's own tests and of the tests of the importers, also with other element types in place of their
own: quantised to int8 or int16, and as integers. An importer refuses many of these; the table must then not claim them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pkgutil import iter_modules
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.backend.test.case import node

from shoehorn_mcu.importers import ImportFault, Kind
from shoehorn_mcu.importers.lowering.node import code_of
from shoehorn_mcu.importers.onnx.importer import import_model
from shoehorn_mcu.importers.onnx.ops import OPS
from shoehorn_mcu.ir import Array, Graph
from tests import onnx_cases, test_onnx, test_onnx_fused, test_onnx_int16, test_onnx_qdq, test_onnx_qlinear
from tests.onnx_backend import Prepared
from tests.test_onnx import IMAGE, one, reals
from tests.test_onnx_qlinear import Case as QLinear

OWN_CONVERSIONS = ("QuantizeLinear", "DequantizeLinear")
WITH_FIXED_SCALE = ("Sigmoid", "Softmax", "Tanh")
SLOW = ("averagepool", "lppool", "maxpool")
"""Modules of ONNX whose tests take long to make."""
MOST, CHANGED = 8, 1
"""How many models of an op there are at most of its own types, and how many of them are changed to others."""

_NUMBER = {"c": np.array([[[[2.5]]]], np.float32)}
MORE: list[tuple[list[onnx.NodeProto], dict[str, Array]]] = [
    *((one(code, inputs=("x", "c")), _NUMBER) for code in ("Add", "Div", "Max", "Min", "Mul", "PRelu", "Pow", "Sub")),
    *((one(code, inputs=("x", "c")), _NUMBER) for code in ("Mean", "Sum")),
    (one("Mod", inputs=("x", "c"), fmod=1), _NUMBER),
    (one("AveragePool", kernel_shape=[2, 2], strides=[2, 2], pads=[1] * 4, count_include_pad=1, ceil_mode=1), {}),
    (one("ConvTranspose", inputs=("x", "w"), group=6), {"w": reals(6, 1, 2, 2)}),
    (one("MeanVarianceNormalization"), {}),
    (one("Trilu"), {}),
    (one("GlobalLpPool"), {}),
    (one("GlobalLpPool", p=1), {}),
    (
        one("Resize", inputs=("x", "", "", "sizes"), mode="linear", antialias=1),
        {"sizes": np.array([1, 6, 2, 2])},
    ),
]
"""Ops on the image `x`."""
COMPUTED: list[tuple[Any, ...]] = [
    ("Cast", reals(3, 4)),
    ("Cast", np.arange(9)),
    ("CastLike", reals(3, 4), np.arange(2, dtype=np.int32)),
    ("CastLike", np.arange(9), np.arange(2, dtype=np.int32)),
    ("Einsum", np.arange(6).reshape(2, 3), np.arange(6).reshape(2, 3)),
    ("Equal", reals(3, 4), reals(3, 4)),
    ("Gemm", *(np.arange(9, dtype=np.int32).reshape(3, 3) for _ in "abc")),
    ("MaxPool", np.arange(60, dtype=np.uint8).reshape(1, 3, 4, 5)),
    ("ScatterND", np.arange(12).reshape(3, 4), np.array([[1, 2], [0, 0]]), np.array([7, 8])),
]
"""Ops on arrays that are all inputs."""
ATTRIBUTES: Mapping[str, Mapping[str, Any]] = {
    "Cast": {"to": TensorProto.INT32},
    "Einsum": {"equation": "ij,ik->ik"},
    "MaxPool": {"kernel_shape": [2, 2]},
}
"""Of these ops."""
CONSTANT: list[tuple[Any, ...]] = [
    ("Conv", reals(1, 2, 3, 4, 4), reals(3, 2, 2, 2, 2)),
    ("CumProd", reals(3, 4), np.array(1)),
    ("Gemm", reals(3, 4), reals(4, 5)),
    ("MatMul", reals(3, 4), reals(4, 5)),
    ("Resize", reals(2, 3), None, None, np.array([4, 3])),
    ("Resize", np.arange(6).reshape(2, 3), None, None, np.array([4, 3])),
]
"""Ops on an array and constants."""
_X, _Y = test_onnx_qlinear.X, test_onnx_qlinear.Y
QLINEAR = [
    QLinear("QLinearAdd", (*_X, "k", "ks", "z", *_Y), constants={"k": np.array(3, np.int8)}),
    QLinear("QLinearConv", (*_X, "w", "ws", "wz", *_Y), {"group": 6}, test_onnx_qlinear.weights(6, 1, 3, 3)),
    QLinear("QLinearConv", (*_X, "w", "ws", "wz", *_Y), {"channels_last": 0}, test_onnx_qlinear.weights(5, 6, 3, 3)),
    QLinear(
        "QLinearConv",
        (*_X, "w", "ws", "wz", *_Y),
        {"channels_last": 0, "group": 6},
        test_onnx_qlinear.weights(6, 1, 3, 3),
    ),
    QLinear("QLinearMatMul", (*_X, *_X, *_Y), {}, {}, (2, 3, 3)),
    QLinear("QLinearReduceMean", (*_X, *_Y), {"axes": [2, 3]}),
]


@dataclass(frozen=True)
class Sample:
    """A graph that an op of a model became, and the element type that the op computes with there."""

    code: str
    kind: Kind
    graph: Graph | None  # None: the import refuses the model
    part: str = ""  # what the names of the op's own nodes begin with
    legal: bool = True  # whether the format has the op in this type
    why: str = ""  # what a refusal says


def onnx_samples() -> Iterator[Sample]:
    """Of ONNX."""
    seen: Counter[tuple[str, Kind]] = Counter()
    for code, made, given in (*_more_models(), *_node_models()):
        kind = _kind(made, given)
        seen[code, kind] += 1
        if seen[code, kind] <= MOST:
            yield _sampled(code, kind, made, given)
            if seen[code, kind] <= CHANGED and code not in OWN_CONVERSIONS and "QLinear" not in code:
                yield from _variants(code, made, given)
    yield from _quantised_models()


def _node_models() -> Iterator[tuple[str, ModelProto, dict[str, Array]]]:
    """ONNX's own tests of ops."""
    names = {code.lower() for code in OPS} - {*SLOW}
    modules = [m.name for m in iter_modules(node.__path__) if m.name.replace("_", "") in names]
    for case in onnx_cases.node_cases(*modules):
        nodes = [each for each in case.model.graph.node if each.op_type != "Constant"]
        if len(nodes) == 1 and not onnx_cases.cause(case) and nodes[0].op_type in OPS:
            ends = [value.name for value in case.model.graph.input]
            yield nodes[0].op_type, case.model, dict(zip(ends, map(np.asarray, case.data[0][0]), strict=True))


def _more_models() -> Iterator[tuple[str, ModelProto, dict[str, Array]]]:
    """Those of one op in the importer's tests, and more."""
    for code, *arrays in COMPUTED:
        yield code, *_of_arrays(code, arrays, [])
    for code, x, *constants in CONSTANT:
        yield code, *_of_arrays(code, [x], constants)
    for nodes, constants in (*MORE, *test_onnx.CASES.values()):
        if len(nodes) == 1 and nodes[0].op_type in OPS:
            yield nodes[0].op_type, test_onnx.model(nodes, constants=constants), {"x": reals(*IMAGE)}


def _of_arrays(code: str, xs: Sequence[Array], held: Sequence[Array | None]) -> tuple[ModelProto, dict[str, Array]]:
    """A model of the op, with an input for each of `xs`, and the constants behind them."""
    given = {f"x{i}": x for i, x in enumerate(xs)}
    ends = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in given.items()
    ]
    constants = {f"c{i}": array for i, array in enumerate(held) if array is not None}
    names = [f"c{i}" if array is not None else "" for i, array in enumerate(held)]
    opset = max(18, onnx.defs.get_schema(code).since_version)
    attributes = ATTRIBUTES.get(code, {})
    made = helper.make_node(code, [*given, *names], ["y"], **attributes)
    results = {"Equal": TensorProto.BOOL, "Cast": TensorProto.INT32, "CastLike": TensorProto.INT32}
    result = results.get(code, ends[0].type.tensor_type.elem_type)
    graph = helper.make_graph(
        [made],
        "m",
        ends,
        [helper.make_tensor_value_info("y", result, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), given


def _kind(made: ModelProto, given: Mapping[str, Array]) -> Kind:
    ends = [*made.graph.input, *made.graph.output]
    types = {TensorProto.DataType.Name(end.type.tensor_type.elem_type) for end in ends}
    if made.graph.node[-1].op_type in OWN_CONVERSIONS or "QLinear" in made.graph.node[-1].op_type:
        return Kind.INT16 if "INT16" in types else Kind.INT8 if types & {"INT8", "UINT8"} else Kind.OTHER
    return Kind.FLOAT32 if types & {"FLOAT", "FLOAT16"} else Kind.OTHER


def _sampled(code: str, kind: Kind, made: ModelProto, given: dict[str, Array]) -> Sample:
    try:
        return Sample(code, kind, Prepared(made)._imported(given).graph)
    except ImportFault:
        return Sample(code, kind, None)


def _variants(code: str, made: ModelProto, given: dict[str, Array]) -> Iterator[Sample]:
    """The same op on other element types."""
    ends = {end.name: end for end in (*made.graph.input, *made.graph.output)}
    real = [name for name, array in given.items() if array.dtype == np.float32 and array.size]
    if not real:
        return
    changed = ModelProto()
    changed.CopyFrom(made)
    for end in (*changed.graph.input, *changed.graph.output):
        if end.type.tensor_type.elem_type == TensorProto.FLOAT:
            end.type.tensor_type.elem_type = TensorProto.INT32
    for held in changed.graph.initializer:
        if held.data_type == TensorProto.FLOAT:
            held.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(held).astype(np.int32), held.name))
    wide = {
        name: np.clip(np.nan_to_num(array), -99, 99).astype(np.int32) if name in real else array
        for name, array in given.items()
    }
    if "tensor(int32)" in onnx.defs.get_schema(code).inputs[0].types or code == "Where":
        yield _sampled(code, Kind.OTHER, changed, wide)
    if ends[made.graph.output[0].name].type.tensor_type.elem_type != TensorProto.FLOAT:
        return
    for dtype, kind in ((np.int8, Kind.INT8), (np.int16, Kind.INT16)):
        for computed in {1, len(real)}:
            for softmax in (False, True) if code in WITH_FIXED_SCALE else (False,):
                model, fed = quantised(made, given, real, computed, dtype, softmax)
                yield _sampled(code, kind, model, fed)


def quantised(
    made: ModelProto, given: dict[str, Array], real: Sequence[str], computed: int, dtype: Any, softmax: bool
) -> tuple[ModelProto, dict[str, Array]]:
    """The model between conversions: the first of its real inputs are computed, the others quantised constants."""
    model = ModelProto()
    model.CopyFrom(made)
    graph, fed = model.graph, dict(given)
    held = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    reals = {name: array for name, array in held.items() if array.dtype == np.float32}
    step, zero = np.float32(0.05 if dtype == np.int8 else 0.0003), np.array(3 if dtype == np.int8 else 0, dtype)
    ends = {
        (np.int8, False): (np.float32(0.04), np.int8(3)),
        (np.int16, False): (np.float32(0.0006), np.int16(0)),
        (np.int8, True): (np.float32(1 / 256), np.int8(-128)),
        (np.int16, True): (np.float32(2.0**-15), np.int16(0)),
    }[dtype, softmax]
    ahead, names = [], {}
    for name in (*real, *reals):
        constant = name in reals or real.index(name) >= computed
        array = reals.get(name, given.get(name))
        if constant and (array is None or array.ndim < 2):
            if name in given:
                graph.initializer.append(numpy_helper.from_array(array, name))
                fed.pop(name)
                _without(graph, name)
            continue
        names[name] = f"{name}_real"
        pair = ["kernel_step", "kernel_zero"] if constant else ["step", "zero"]
        ahead.append(helper.make_node("DequantizeLinear", [name, *pair], [names[name]]))
        if constant:
            codes = np.clip(np.rint(array / np.float32(0.02)), -100, 100).astype(np.int8)
            for each in [each for each in graph.initializer if each.name == name]:
                graph.initializer.remove(each)
            graph.initializer.append(numpy_helper.from_array(codes, name))
            fed.pop(name, None)
            _without(graph, name)
        else:
            fed[name] = np.clip(np.rint(array / step), -100, 100).astype(dtype)
            for end in graph.input:
                if end.name == name:
                    end.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    constants = {
        "step": step,
        "zero": zero,
        "kernel_step": np.float32(0.02),
        "kernel_zero": np.int8(0),
        "end_step": ends[0],
        "end_zero": ends[1],
    }
    graph.initializer.extend(numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items())
    core = list(graph.node)
    for each in core:
        each.input[:] = [names.get(name, name) for name in each.input]
    behind = []
    for end in graph.output:
        if end.type.tensor_type.elem_type == TensorProto.FLOAT:
            for each in core:
                each.output[:] = [f"{name}_real" if name == end.name else name for name in each.output]
            behind.append(helper.make_node("QuantizeLinear", [f"{end.name}_real", "end_step", "end_zero"], [end.name]))
            inside, end.name = end.name, f"{end.name}_end"
            behind.append(helper.make_node("DequantizeLinear", [inside, "end_step", "end_zero"], [end.name]))
    del graph.node[:]
    graph.node.extend([*ahead, *core, *behind])
    if model.opset_import[0].version < 21:
        model.opset_import[0].version, model.ir_version = 21, 10
    return model, fed


def _without(graph: onnx.GraphProto, name: str) -> None:
    for end in [each for each in graph.input if each.name == name]:
        graph.input.remove(end)


def _quantised_models() -> Iterator[Sample]:
    """Those of the importer's tests."""
    for core, constants in test_onnx.INT8_CASES.values():
        yield from _of_core(core, Kind.INT8, test_onnx.quantised(core, np.int8(3), constants))
    for made in (*test_onnx_qdq.CASES.values(), *test_onnx_qdq.NORMS.values()):
        if not made.in_float:
            yield from _of_core(made.nodes, Kind.INT8, made.model(np.int8(3)))
    for wide in test_onnx_int16.CASES.values():
        yield from _of_core(wide.nodes, Kind.INT16, test_onnx_int16.built(wide))
    weights = test_onnx_int16.weights(6, 1, 3, 3)
    apart = [*test_onnx.REAL_WEIGHTS, helper.make_node("Conv", ["a", "wr", "br"], ["r"], group=6)]
    yield from _of_core(apart, Kind.INT8, test_onnx.quantised(apart, np.int8(3), weights))
    yield from _of_core(apart, Kind.INT16, test_onnx_int16.built(test_onnx_int16.Case(apart, weights)))
    largest = [helper.make_node("ReduceMax", ["a"], ["r"], axes=[2, 3])]
    yield from _of_core(largest, Kind.INT8, test_onnx.quantised(largest, np.int8(3)))
    yield from _of_core(largest, Kind.INT16, test_onnx_int16.built(test_onnx_int16.Case(largest)))
    ends = import_model(test_onnx.quantised([helper.make_node("Identity", ["a"], ["r"])], np.int8(3)), "m").graph
    yield Sample("QuantizeLinear", Kind.INT8, ends, "QuantizeLinear")
    yield Sample("DequantizeLinear", Kind.INT8, ends, "Dequantize")
    for each in (*test_onnx_qlinear.CASES.values(), *QLINEAR):
        model = each.model(np.int8, 3)
        code = code_of(model.graph.node[0])
        model.opset_import[0].version = test_onnx.model([]).opset_import[0].version  # as it is; conversions take long
        yield _sampled(code, Kind.INT8 if "t" in each.inputs else Kind.FLOAT32, model, {})
    for case in test_onnx_fused.CASES.values():
        code = f"com.microsoft.{case.code}"
        if code in OPS:
            yield _sampled(code, Kind.OTHER if case.code == "NhwcMaxPool" else Kind.FLOAT32, case.model(), {})


def _of_core(nodes: Sequence[onnx.NodeProto], kind: Kind, made: ModelProto) -> Iterator[Sample]:
    codes = [node.op_type for node in nodes if node.op_type not in OWN_CONVERSIONS]
    if len(codes) == 1:
        yield Sample(codes[0], kind, import_model(made, "m").graph)
