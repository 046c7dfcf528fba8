"""Quantised ONNX as onnxruntime.quantization and Brevitas write it, beside ONNX Runtime.

Products of matrices and Clips of integers; what is not computed with integers says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from shoehorn_mcu import passes
from shoehorn_mcu.importers import Imported, ImportFault
from shoehorn_mcu.importers.onnx.importer import import_model
from shoehorn_mcu.ir import Array, DType, Graph, Op
from shoehorn_mcu.ops import (
    Conv2d,
    Dense,
    DepthwiseConv2d,
    Dequantize,
    MatMul,
    MaxPool2d,
    Quantize,
    Reduce,
    Requantize,
    Reshape,
    Table,
    Transpose,
)
from tests.random_nets import computed, onnx_runtime

pytestmark = pytest.mark.usefixtures("module_in_one_process")

RNG = np.random.default_rng(0)
SCALE, STEP = np.float32(0.04), np.float32(0.05)


@dataclass(frozen=True)
class Case:
    """Nodes from the dequantised `a` to the real `r`, the constants that they read, and the shape of `a`."""

    nodes: Sequence[onnx.NodeProto]
    constants: Mapping[str, Array] = field(default_factory=dict)
    shape: Sequence[int] = (3, 12)
    in_float: str = ""  # the reason why it computes in float32
    opset: int = 17

    def model(self, zero: Array) -> onnx.ModelProto:
        """`x` is quantised with this zero point, and the result with the same."""
        nodes = [
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["a"]),
            *self.nodes,
            helper.make_node("QuantizeLinear", ["r", "t", "z"], ["p"]),
            helper.make_node("DequantizeLinear", ["p", "t", "z"], ["y"]),
        ]
        return built(nodes, {"s": SCALE, "t": STEP, "z": zero, **self.constants}, self.shape, self.opset)


def built(
    nodes: Sequence[onnx.NodeProto], constants: Mapping[str, Array], shape: Sequence[int], opset: int = 17
) -> onnx.ModelProto:
    """A model from `x` of real numbers to `y`."""
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", shape), ("y", None))]
    held = [numpy_helper.from_array(np.asarray(data), name) for name, data in constants.items()]
    graph = helper.make_graph(list(nodes), "small", ends[:1], ends[1:], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def node(code: str, *inputs: str, to: str = "r", **attributes: object) -> onnx.NodeProto:
    return helper.make_node(code, list(inputs), [to], **attributes)


def real(name: str, axis: int | None = None) -> onnx.NodeProto:
    """The constant `<name>q`, dequantised."""
    along = {} if axis is None else {"axis": axis}
    return node("DequantizeLinear", f"{name}q", f"{name}s", f"{name}z", to=name, **along)


def weights(*shape: int, axis: int | None = None, dtype: type[np.generic] = np.int8, zero: int = 0) -> dict[str, Array]:
    """A constant `w`, perhaps with a scale for each place along an axis."""
    count = () if axis is None else (shape[axis],)
    info = np.iinfo(np.dtype(dtype).name)
    return {
        "wq": RNG.integers(max(-127, info.min), min(127, info.max), shape, dtype),
        "ws": np.asarray(RNG.uniform(0.002, 0.01, count) * (0.01 if info.bits > 8 else 1), np.float32),
        "wz": np.full(count, zero, dtype),
    }


def bias(*shape: int) -> dict[str, Array]:
    """A bias `b` in steps of 1/1000."""
    return {"bq": RNG.integers(-900, 900, shape, np.int32), "bs": np.float32(1e-3), "bz": np.int32(0)}


def _gemm(*shape: int, **attributes: object) -> tuple[list[onnx.NodeProto], dict[str, Array]]:
    """A Gemm of 12 to 5 outputs with a bias of this shape."""
    return [real("w"), real("b"), node("Gemm", "a", "w", "b", **attributes)], {**weights(12, 5), **bias(*shape)}


_TURNED = node("Transpose", "a", to="turned", perm=[0, 2, 1])
CASES = {
    "gemm, bias of a row": Case(*_gemm(1, 5)),
    "gemm, bias of one number": Case(*_gemm(1)),
    "gemm, bias that is a number": Case(*_gemm()),
    "gemm, bias with a factor": Case(*_gemm(5, beta=0.5, alpha=2.0)),
    "gemm, bias of real numbers": Case(
        [real("w"), node("Gemm", "a", "w", "b")], {**weights(12, 5), "b": np.float32(RNG.uniform(-1, 1, (1, 5)))}
    ),
    "gemm, first operand transposed": Case(*_gemm(1, 5, transA=1), shape=(12, 3)),
    "gemm, bias for each row": Case(*_gemm(3, 1), in_float="its bias has shape (3, 1), (5,) is supported"),
    "gemm, factor below 0": Case(*_gemm(5, alpha=-1.0), in_float="its factor is -1, above 0 is supported"),
    "constant on the left": Case([real("w"), node("MatMul", "w", "a")], weights(5, 3)),
    "constant on the left, a scale for each row": Case([real("w", 0), node("MatMul", "w", "a")], weights(5, 3, axis=0)),
    "constant on the left, several products": Case([real("w"), node("MatMul", "w", "a")], weights(5, 3), (2, 2, 3, 4)),
    "constant on the left, a batch of one": Case([real("w"), node("MatMul", "w", "a")], weights(1, 5, 3)),
    "constant on the left, and a bias": Case(
        [real("w"), node("MatMul", "w", "a", to="c"), node("Add", "c", "b")],
        {**weights(5, 3), "b": np.float32(RNG.uniform(-1, 1, 12))},
    ),
    "a batch of one constant": Case([real("w"), node("MatMul", "a", "w")], weights(1, 12, 5)),
    "a batch of one constant, a scale for each column": Case(
        [real("w", 2), node("MatMul", "a", "w")], weights(1, 12, 5, axis=2)
    ),
    "a batch of constants": Case([real("w"), node("MatMul", "a", "w")], weights(2, 4, 5), (2, 3, 4)),
    "a batch of constants on the left": Case([real("w"), node("MatMul", "w", "a")], weights(2, 5, 3), (2, 3, 4)),
    "a batch of constants, a bias, and relu": Case(
        [
            real("w"),
            node("MatMul", "a", "w", to="c"),
            node("Add", "b", "c", to="d"),
            node("Relu", "d"),
        ],
        {**weights(2, 4, 5, zero=7), "b": np.float32(RNG.uniform(-1, 1, 5))},
        (2, 3, 4),
    ),
    "a batch of constants with scales": Case(
        [real("w", 1), node("MatMul", "a", "w")],
        weights(2, 4, 5, axis=1),
        (2, 3, 4),
        "it reads a constant with a scale per channel, or of more than 8 bits",
    ),
    "a vector": Case([real("w"), node("MatMul", "a", "w")], weights(12)),
    "a value and itself": Case([_TURNED, node("MatMul", "a", "turned")], {}, (2, 3, 4)),
    "weights of uint8": Case([real("w"), node("MatMul", "a", "w")], weights(12, 5, dtype=np.uint8, zero=60)),
    "weights of int16 with a zero point": Case(
        [real("w"), node("Conv", "a", "w")],
        weights(5, 3, 2, dtype=np.int16, zero=300),
        (1, 3, 9),
        "its input 'w' is quantised as int16 with a zero point",
        21,
    ),
    "weights with a scale per block": Case(
        [node("DequantizeLinear", "wq", "ws", to="w", axis=0, block_size=4), node("Gemm", "a", "w")],
        {"wq": weights(12, 5)["wq"], "ws": np.float32(RNG.uniform(0.002, 0.01, (3, 5)))},
        in_float="its input 'w' is quantised with a scale per block",
        opset=21,
    ),
}


def imported(made: onnx.ModelProto) -> tuple[Imported, Graph]:
    """The import, and the graph after the passes; its result is within a step of ONNX Runtime's."""
    shape = [each.dim_value for each in made.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(1).uniform(-3, 3, shape).astype(np.float32)
    (wanted,) = onnx_runtime(made, {"x": x})
    found = import_model(made, "small")
    (got,) = computed(found, {"x": x}, ["y"])
    assert got.shape == wanted.shape
    assert np.abs(got - wanted).max() <= 1.01 * STEP
    assert len(np.unique(wanted)) > 2, "the case says something"
    return found, passes.run(found.graph)[0]


@pytest.mark.parametrize("zero", [np.int8(3), np.uint8(130)], ids=["int8", "uint8"])
@pytest.mark.parametrize("name", CASES)
def test_a_quantised_product_is_within_a_step_of_onnx_runtime(name: str, zero: Array) -> None:
    case = CASES[name]

    found, graph = imported(case.model(zero))

    assert [each.reason for each in found.in_float] == ([case.in_float] if case.in_float else [])
    assert found.quantised_linear == 1
    computing = {type(n.op) for n in graph.nodes() if n.output.type.dtype is DType.FLOAT32}
    assert (computing <= {Dequantize, Reshape, Transpose}) is not bool(case.in_float)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("constant on the left", Dense),
        ("constant on the left, several products", Dense),
        ("constant on the left, a batch of one", Dense),
        ("a batch of one constant, a scale for each column", Dense),
        ("a value and itself", MatMul),
    ],
)
def test_a_constant_matrix_on_either_side_is_a_dense_layer(name: str, kind: type[Op]) -> None:
    assert kind in {type(op) for op in import_model(CASES[name].model(np.int8(3)), "small").graph.ops}


def test_products_that_overflow_int32_are_computed_in_float32() -> None:
    case = Case([_TURNED, node("MatMul", "a", "turned")], {}, (1, 1, 40000))

    found = import_model(case.model(np.int8(3)), "small")

    assert [each.reason for each in found.in_float] == ["its sums of 40000 products overflow int32"]


def _pair(source: str, to: str, step: str, clips: bool) -> list[onnx.NodeProto]:
    """QuantizeLinear and DequantizeLinear, perhaps with a Clip of the integers between them."""
    between = [node("Clip", f"{to}_codes", "low", "high", to=f"{to}_kept")] if clips else []
    kept = f"{to}_kept" if clips else f"{to}_codes"
    return [
        node("QuantizeLinear", source, step, "z", to=f"{to}_codes"),
        *between,
        node("DequantizeLinear", kept, step, "z", to=to),
    ]


def clipped(core: onnx.NodeProto, zero: Array, bounds: tuple[int, int], input_clips: bool = False) -> onnx.ModelProto:
    """What Brevitas writes of an op: its result, its weights and perhaps its input are clipped to few integers."""
    constants = {
        **{"s": SCALE, "t": STEP, "z": zero, "v": np.float32(np.random.default_rng(2).uniform(-2, 2, (4, 6, 3, 3)))},
        **{"vs": np.float32(0.01), "vz": np.int8(0), "vlow": np.int8(-127), "vhigh": np.int8(127)},
        **{name: np.array(bound, zero.dtype) for name, bound in zip(("low", "high"), bounds, strict=True)},
    }
    ahead = [
        node("QuantizeLinear", "v", "vs", "vz", to="v_codes"),
        node("Clip", "v_codes", "vlow", "vhigh", to="v_kept"),
        node("DequantizeLinear", "v_kept", "vs", "vz", to="w"),
    ]
    pairs = _pair("x", "a", "s", input_clips), _pair("r", "y", "t", True)
    return built([*ahead, *pairs[0], core, *pairs[1]], constants, (1, 6, 9, 8))


_CONV = node("Conv", "a", "w", pads=[1] * 4)


@pytest.mark.parametrize(
    ("zero", "bounds", "stored"),
    [
        (np.int8(0), (-127, 127), (-127, 127)),
        (np.int8(-3), (-20, 31), (-20, 31)),
        (np.uint8(128), (0, 255), (-128, 127)),
        (np.uint8(100), (0, 200), (-128, 72)),
        (np.uint8(100), (90, 110), (-38, -18)),
    ],
)
def test_a_clip_of_integers_is_the_clamp_of_the_op_before(
    zero: Array, bounds: tuple[int, int], stored: tuple[int, int]
) -> None:
    found, graph = imported(clipped(_CONV, zero, bounds))

    assert not found.in_float
    assert [type(op) for op in graph.ops] == [Quantize, Conv2d, Dequantize]
    assert [(op.clamp.low, op.clamp.high) for op in graph.ops if isinstance(op, Conv2d)] == [stored]


@pytest.mark.parametrize(
    ("core", "bounds", "wanted"),
    [
        (node("Relu", "a"), (-127, 127), [Quantize, Table, Dequantize]),
        (node("GlobalAveragePool", "a"), (-100, 20), None),
        (node("MaxPool", "a", kernel_shape=[2, 2]), (-30, 20), None),
        (node("Transpose", "a", perm=[0, 2, 3, 1]), (-128, 127), [Quantize, Requantize, Dequantize]),
    ],
)
def test_a_clip_of_integers_behind_any_op_is_computed(
    core: onnx.NodeProto, bounds: tuple[int, int], wanted: list[type] | None
) -> None:
    """As a table where the op has no bounds of its own; it vanishes where it does nothing."""
    _, graph = imported(clipped(core, np.int8(0), bounds))

    assert all(DType.FLOAT32 not in {n.inputs[0].type.dtype, n.output.type.dtype} for n in list(graph.nodes())[1:-1])
    assert wanted is None or [type(op) for op in graph.ops] == wanted


@pytest.mark.parametrize(
    ("shape", "core", "kinds"),
    [
        ((1, 6, 9, 8), node("ReduceMax", "a", axes=[2, 3], keepdims=0), {MaxPool2d, Reshape}),
        ((1, 6, 9, 8), node("ReduceMax", "a", axes=[-1, 2]), {MaxPool2d, Reshape}),
        ((2, 6, 9), node("ReduceMax", "a", axes=[2], keepdims=0), {MaxPool2d, Reshape}),
        ((2, 6, 9), node("ReduceMax", "a", axes=[1]), {Reduce}),
        ((1, 6, 9, 8), node("ReduceMax", "a", axes=[2], keepdims=0), {Reduce}),
        ((3, 12), node("ReduceMax", "a", axes=[1]), {Reduce}),
        ((1, 6, 9, 8), node("ReduceMin", "a", axes=[2, 3], keepdims=0), {Reduce}),
    ],
)
def test_the_largest_of_quantised_values_is_one_of_them(
    shape: Sequence[int], core: onnx.NodeProto, kinds: set[type[Op]]
) -> None:
    """All rows and columns by a pool, which has fast kernels; nothing is computed with real numbers."""
    made = Case([core], shape=shape).model(np.int8(3))
    found, graph = imported(made)

    assert not found.in_float
    others = {Quantize, Requantize, Dequantize, Transpose, Reshape}
    assert {type(op) for op in found.graph.ops} - others == kinds - others
    assert all(DType.FLOAT32 not in {n.inputs[0].type.dtype, n.output.type.dtype} for n in list(graph.nodes())[1:-1])


def test_of_more_elements_than_a_pool_has_the_largest_is_found_by_a_reduction() -> None:
    made = Case([node("ReduceMax", "a", axes=[2])], shape=(1, 2, 1 << 15)).model(np.int8(3))
    larger = Case([node("ReduceMax", "a", axes=[2])], shape=(1, 2, (1 << 15) + 1)).model(np.int8(3))

    found = [
        {type(op) for op in import_model(each, "small").graph.ops} & {MaxPool2d, Reduce} for each in (made, larger)
    ]

    assert found == [{MaxPool2d}, {Reduce}]


@pytest.mark.parametrize(
    "move", [node("Unsqueeze", "b", "axes"), node("Transpose", "b", perm=[1, 0]), node("Reshape", "b", "shape")]
)
def test_what_is_moved_before_it_is_quantised_is_a_table(move: onnx.NodeProto) -> None:
    """As in squeeze-and-excite of PyTorch: HardSigmoid, then views, then the scale."""
    held = {"axes": np.array([2, 3]), "shape": np.array([1, 4, 9])}
    found, graph = imported(
        built(
            Case([node("HardSigmoid", "a", to="b"), move], shape=(3, 12)).model(np.int8(3)).graph.node,
            {"s": SCALE, "t": STEP, "z": np.int8(3), **held},
            (3, 12),
        )
    )

    assert not found.in_float
    assert [type(op) for op in graph.ops if not isinstance(op, Reshape | Transpose)] == [Quantize, Table, Dequantize]


def test_a_clip_of_the_quantised_input_is_a_table() -> None:
    made = clipped(_CONV, np.int8(0), (-60, 50), input_clips=True)

    _, graph = imported(made)

    assert [type(op) for op in graph.ops] == [Quantize, Table, Conv2d, Dequantize]


def test_integers_that_others_read_too_are_clipped_apart() -> None:
    """The result before the Clip is an output of the model."""
    made = clipped(_CONV, np.int8(0), (-20, 31))
    made.graph.output.append(helper.make_tensor_value_info("y_codes", TensorProto.INT8, None))
    x = np.random.default_rng(1).uniform(-4, 4, (1, 6, 9, 8)).astype(np.float32)

    wanted = onnx_runtime(made, {"x": x})
    found = computed(import_model(made, "small"), {"x": x}, ["y", "y_codes"])

    assert np.abs(found[0] - wanted[0]).max() <= 1.01 * STEP
    assert np.abs(found[1].astype(np.int16) - wanted[1]).max() <= 1
    assert wanted[1].min() < -20


def test_bias_that_is_quantised_by_a_node_is_a_constant() -> None:
    """Brevitas writes QuantizeLinear of real numbers to int32, which no version of ONNX has."""
    held, product = weights(12, 5), [real("w"), node("Gemm", "a", "w", "b")]
    exact = RNG.integers(-900, 900, 5, np.int32)
    quantised = [node("QuantizeLinear", "br", "bs", "bz", to="bq"), real("b")]
    added = {"br": np.float32((exact + 0.3) / 1000), "bs": np.float32(1e-3), "bz": np.int32(0)}
    made = Case([*quantised, *product], {**held, **added}).model(np.int8(3))
    plain = Case(product, {**held, "b": np.float32(exact / 1000)}).model(np.int8(3))
    x = np.random.default_rng(1).uniform(-4, 4, (3, 12)).astype(np.float32)

    found, wanted = (computed(import_model(each, "small"), {"x": x}, ["y"])[0] for each in (made, plain))

    np.testing.assert_array_equal(found, wanted)


def test_a_value_keeps_its_order_where_a_transpose_of_it_is_the_same_tensor() -> None:
    nodes = [
        node("Relu", "x", to="a"),
        node("Transpose", "a", to="t", perm=[0, 2, 3, 1]),
        node("Sigmoid", "t", to="y"),
    ]
    ends = import_model(built(nodes, {}, (1, 2, 3, 4)), "small").ends

    assert ends["a"].type.shape == (1, 2, 3, 4)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_integers_are_resized_as_onnx_runtime_does(dtype: type[np.generic]) -> None:
    """It cuts off what lies between two integers; its own sums are of another precision."""
    nodes = [
        node("QuantizeLinear", "x", "s", "z", to="q"),
        node("Resize", "q", "", "scales", to="larger", mode="linear"),
        node("DequantizeLinear", "larger", "s", "z", to="y"),
    ]
    held = {"s": SCALE, "z": np.array(5, dtype), "scales": np.array([1, 1, 2, 2], np.float32)}

    _, graph = imported(built(nodes, held, (1, 2, 5, 4)))

    assert [n.output.type.dtype for n in graph.nodes()][-2:] == [DType.INT8, DType.FLOAT32]


def test_an_average_of_much_finer_steps_is_rounded_once() -> None:
    made = Case([node("AveragePool", "a", kernel_shape=[2, 2])], {}, (1, 2, 6, 6)).model(np.int8(3))
    for tensor in made.graph.initializer:
        if tensor.name == "t":
            tensor.CopyFrom(numpy_helper.from_array(np.float32(SCALE / 8), "t"))
    x = np.random.default_rng(1).uniform(-0.5, 0.5, (1, 2, 6, 6)).astype(np.float32)

    (wanted,) = onnx_runtime(made, {"x": x})
    (found,) = computed(import_model(made, "small"), {"x": x}, ["y"])

    assert np.abs(found - wanted).max() <= 1.01 * SCALE / 8


def test_an_int16_convolution_whose_sums_overflow_computes_in_float32() -> None:
    """As one of a result that is almost constant, whose scale is tiny."""
    case = Case([real("w"), node("Conv", "a", "w")], weights(5, 3, 2), (1, 3, 9), opset=21)
    made = case.model(np.int16(0))
    for tensor in made.graph.initializer:
        if tensor.name == "t":
            tensor.CopyFrom(numpy_helper.from_array(np.float32(1e-8), "t"))

    (found,) = import_model(made, "small").in_float

    assert "overflow int32" in found.reason


def test_a_dequantised_constant_may_be_an_output() -> None:
    made = built([real("w", 0), node("Relu", "x", to="y")], weights(3, 4, axis=0), (1, 4))
    made.graph.output.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, None))
    x = np.ones((1, 4), np.float32)

    found, wanted = computed(import_model(made, "small"), {"x": x}, ["y", "w"]), onnx_runtime(made, {"x": x})

    np.testing.assert_array_equal(found[1], wanted[1])


def _weighted(core: onnx.NodeProto, axis: int | None = None) -> list[onnx.NodeProto]:
    return [
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wr"], **({} if axis is None else {"axis": axis})),
        core,
    ]


def _held(*shape: int, scales: int = 0, step: float = 0.1) -> dict[str, Array]:
    """Weights of ones, with one scale, or with so many."""
    return {
        "w": np.ones(shape, np.int8),
        "ws": np.full(scales, step, np.float32) if scales else np.float32(step),
        "wz": np.zeros(scales, np.int8) if scales else np.int8(0),
    }


_FAR = {"b": np.full(3, 1e9, np.float32)}


@pytest.mark.parametrize(
    ("case", "linear"),
    [
        (
            Case(
                _weighted(node("MatMul", "a", "wr"), 0),
                _held(4, 3, scales=4),
                (2, 4),
                "its matrix has a scale per input",
            ),
            True,
        ),
        (
            Case(
                _weighted(node("Conv", "a", "wr"), 1),
                _held(3, 2, 1, 1, scales=2),
                (1, 2, 4, 4),
                "its weights have a scale per input channel",
            ),
            True,
        ),
        *(
            (
                Case(
                    _weighted(node(code, "a", "wr", "b")),
                    {**_held(*shape, step=1e-7), **_FAR},
                    x,
                    "its bias does not fit into int32 at the scale of its products",
                ),
                True,
            )
            for code, shape, x in (("Conv", (3, 2, 1, 1), (1, 2, 4, 4)), ("Gemm", (4, 3), (2, 4)))
        ),
        (
            Case(
                _weighted(node("ConvTranspose", "a", "wr", output_shape=[9, 9])),
                _held(2, 3, 2, 2),
                (1, 2, 4, 4),
                "it adds rows or columns before its first",
            ),
            True,
        ),
        (
            Case(
                [node("ReduceMean", "a", "ax", keepdims=1)],
                {"ax": np.array([1])},
                (1, 2, 3, 4, 5),
                "it is over axes (1,) of 5 dimensions",
                18,
            ),
            False,
        ),
        (
            Case(
                [node("Concat", "a", "c", axis=0)],
                {"c": np.ones((1, 4), np.float32)},
                (2, 4),
                "it reads a constant of real numbers",
            ),
            False,
        ),
        (
            Case(
                [node("Pad", "a", "pads", "value")],
                {"pads": np.array([0, 1, 0, 1]), "value": np.float32(1)},
                (2, 4),
                "no kernel computes it with int8",
            ),
            False,
        ),
    ],
    ids=lambda value: value.nodes[-1].op_type if isinstance(value, Case) else "",
)
def test_what_no_kernel_computes_with_integers_says_why(case: Case, linear: bool) -> None:
    found = import_model(case.model(np.int8(3)), "small")

    reasons = found.in_float if linear else found.others_in_float
    assert [each.reason for each in reasons] == [case.in_float]


def norm(shape: Sequence[int] = (1, 6, 4, 5), factor: Sequence[float] | None = None) -> Case:
    """BatchNormalization of six channels."""
    factors = RNG.uniform(-1.5, 1.5, 6) if factor is None else np.array(factor)
    others = {"o": RNG.uniform(-1, 1, 6), "m": RNG.uniform(-1, 1, 6), "v": RNG.uniform(0.5, 2, 6)}
    constants = {name: np.float32(values) for name, values in {"f": factors, **others}.items()}
    return Case([node("BatchNormalization", "a", "f", "o", "m", "v")], constants, shape)


_IMAGE = norm()
NORMS = {
    "an image": _IMAGE,
    "a sequence": norm((1, 6, 9)),
    "a row": norm((2, 6)),
    "five dimensions": norm((1, 6, 2, 3, 2)),
    "relu behind": replace(
        _IMAGE, nodes=[node("BatchNormalization", "a", "f", "o", "m", "v", to="n"), node("Relu", "n")]
    ),
    "quantised factors": replace(
        _IMAGE,
        nodes=[real("w"), node("BatchNormalization", "a", "w", "o", "m", "v")],
        constants={**_IMAGE.constants, **weights(6)},
    ),
    "channels that are constant": norm(factor=[0, 1, 0, 1e-9, 1, -1]),
    "addends far above the products": norm(factor=[1e-8, 1, 1e-6, -1, 0.1, 2]),
}


@pytest.mark.parametrize("zero", [np.int8(3), np.uint8(130)], ids=["int8", "uint8"])
@pytest.mark.parametrize("name", NORMS)
def test_a_quantised_batch_normalization_is_within_a_step_of_onnx_runtime(name: str, zero: Array) -> None:
    found, graph = imported(NORMS[name].model(zero))

    assert not found.others_in_float
    assert [type(n.op) for n in graph.nodes() if n.output.type.dtype is DType.INT8].count(DepthwiseConv2d) == 1
    assert {type(n.op) for n in graph.nodes() if n.output.type.dtype is DType.FLOAT32} <= {
        *(Dequantize, Reshape, Transpose)
    }


@pytest.mark.parametrize(("name", "value"), [("v", -1.0), ("f", np.inf), ("o", np.nan)])
def test_a_batch_normalization_that_is_not_finite_is_refused(name: str, value: float) -> None:
    constants = {key: data.copy() for key, data in _IMAGE.constants.items()}
    constants[name][2] = value

    with pytest.raises(ImportFault, match="finite") as fault:
        import_model(replace(_IMAGE, constants=constants).model(np.int8(3)), "m")
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize(
    "case",
    [
        Case(
            [helper.make_node("DequantizeLinear", ["k", "s", "z"], ["kr"]), node("Sub", "kr", "a")],
            {"k": np.int8(5)},
            (2, 4),
        ),
        Case(
            [
                helper.make_node("Pad", ["q", "pads", "k"], ["wide"]),
                node("DequantizeLinear", "wide", "s", "z"),
            ],
            {"pads": np.array([0, 1, 0, 1]), "k": np.int8(7)},
            (2, 4),
        ),
        Case([node("DequantizeLinear", "q", "half", "z")], {"half": np.float32(0.02)}, (2, 4)),
    ],
    ids=lambda case: case.nodes[-1].op_type,
)
@pytest.mark.parametrize("zero", [np.int8(3), np.int8(-7)])
def test_constants_and_conversions_of_other_forms_are_within_a_step_of_onnx_runtime(case: Case, zero: Array) -> None:
    imported(case.model(zero))


def test_a_scale_per_block_of_computed_values_is_a_formula() -> None:
    sizes = {"block_size": 2, "axis": 1}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], **sizes),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], **sizes),
    ]
    scales = np.array([[0.03, 0.05], [0.02, 0.04]], np.float32)

    imported(built(nodes, {"s": scales, "z": np.zeros((2, 2), np.int8)}, (2, 4), 21))


def _alone(*nodes: onnx.NodeProto, **constants: Array) -> onnx.ModelProto:
    return built(nodes, {"s": SCALE, "z": np.int8(3), **constants}, (2, 4), 21)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (_alone(node("DequantizeLinear", "x", "s", to="y")), "its input is float32, an integer type is needed"),
        (
            _alone(
                node("QuantizeLinear", "x", "s", to="q", output_dtype=17), node("DequantizeLinear", "q", "s", to="y")
            ),
            "no kernel computes with float8e4m3fn",
        ),
        (
            _alone(node("QuantizeLinear", "x", "t", "z", to="y"), t=np.float32(-1)),
            "its scales are not positive numbers, one for each zero point",
        ),
        (
            _alone(
                node("QuantizeLinear", "x", "s", "z", to="q"),
                node("DequantizeLinear", "q", "s", "u", to="y"),
                u=np.uint8(3),
            ),
            "its zero point is uint8, its values are int8",
        ),
        (
            _alone(*_weighted(node("Conv", "x", "wr", to="y")), **_held(3, 2, 1)),
            "its weights have shape (3, 2, 1), its input (2, 4)",
        ),
        (
            _alone(
                node("DequantizeLinear", "c", "t", "u", to="d", axis=0),
                node("Add", "x", "d", to="y"),
                c=np.ones(2, np.int8),
                t=np.ones(3, np.float32),
                u=np.zeros(3, np.int8),
            ),
            "it has 3 scales for 2 elements",
        ),
    ],
)
def test_conversions_that_contradict_themselves_are_refused(made: onnx.ModelProto, said: str) -> None:
    with pytest.raises(ImportFault) as fault:
        import_model(made, "m")
    assert said in str(fault.value) and "\n" not in str(fault.value)
