"""The ONNX importer against ONNX Runtime: small graphs of each op, whole models, and files that are refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from evaluate import evaluate
from onnx import TensorProto, helper, numpy_helper

from shoehorn_mcu import passes
from shoehorn_mcu.firmware import build
from shoehorn_mcu.firmware.settings import Options
from shoehorn_mcu.importers import ImportFault, InFloat, UnsupportedModel, load
from shoehorn_mcu.importers.onnx.importer import load_onnx
from shoehorn_mcu.ir import Array, DType, Graph
from shoehorn_mcu.ops import Conv2d, Dense, DepthwiseConv2d, Dequantize, PickChannels, Quantize, Softmax, Transpose
from shoehorn_mcu.planner import Goal
from tests.runtime import run_reference
from tests.shared import MODELS, needs_shared

RNG = np.random.default_rng(0)
CLOSE = 1e-5  # of the largest output: sums of another order

IMAGE = (1, 6, 9, 8)


def reals(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def model(
    nodes: Sequence[onnx.NodeProto],
    x: Sequence[int | str] = IMAGE,
    constants: Mapping[str, Array] | None = None,
    opset: int = 18,
) -> onnx.ModelProto:
    """A model of these nodes from `x` to `y`, whose shape ONNX infers."""
    held = [numpy_helper.from_array(data, name) for name, data in (constants or {}).items()]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", x), ("y", None))]
    graph = helper.make_graph(list(nodes), "small", ends[:1], ends[1:], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def one(code: str, *, inputs: Sequence[str] = ("x",), **attributes: Any) -> list[onnx.NodeProto]:
    return [helper.make_node(code, inputs, ["y"], **attributes)]


def saved(made: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "small.onnx"
    path.write_bytes(made.SerializeToString())
    return path


def computed(graph: Graph, inputs: Sequence[Array]) -> list[Array]:
    """The graph's outputs by the ops' reference, in the model's order of dimensions."""
    values = {name: tensor.data for name, tensor in graph.tensors.items() if tensor.data is not None}
    for name, x in zip(graph.inputs, inputs, strict=True):
        values[name] = x.transpose(0, 2, 3, 1) if x.ndim == 4 else x
    for node in graph.nodes():
        values[node.op.output] = node.op.reference([values[n] for n in node.op.inputs], node.sig)
    return [values[name] for name in graph.outputs]


def check(path: Path, close: float = CLOSE) -> Graph:
    """Compares the imported graph, before and after the passes, with ONNX Runtime on one input; returns the latter."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    inputs = [reals(*(n if isinstance(n, int) and n > 0 else 1 for n in i.shape)) for i in session.get_inputs()]
    wanted = session.run(None, {i.name: x for i, x in zip(session.get_inputs(), inputs, strict=True)})
    imported = load(path)
    after, _ = passes.run(imported)
    for graph in (imported, after):
        assert graph.outputs == tuple(o.name for o in session.get_outputs())
        for want, got in zip(wanted, computed(graph, inputs), strict=True):
            assert got.size == want.size
            if got.shape != want.shape:
                got = got.transpose(0, 3, 1, 2)
            np.testing.assert_allclose(got, want, rtol=0, atol=close * max(1.0, float(np.abs(want).max())))
    return after


def branch(code: str) -> onnx.GraphProto:
    """The subgraph `r = code(x)` of an If."""
    end = helper.make_tensor_value_info("r", TensorProto.FLOAT, None)
    return helper.make_graph([helper.make_node(code, ["x"], ["r"])], code, [], [end])


def sums() -> onnx.GraphProto:
    """The body of a Scan: (s, t) to (s + t, 2 (s + t))."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (6, 8)) for name in ("s", "t", "sum", "twice")]
    nodes = [helper.make_node("Add", ["s", "t"], ["sum"]), helper.make_node("Add", ["sum", "sum"], ["twice"])]
    return helper.make_graph(nodes, "sums", ends[:2], ends[2:])


def of_equals(code: str, *, place: int = 0, inputs: Sequence[str] = (), **attributes: Any) -> list[onnx.NodeProto]:
    """The op on numbers that are often equal; `y` is its result number `place`, as float32."""
    results = [f"r{i}" for i in range(place + 1)]
    return [
        helper.make_node("Round", ["x"], ["rounded"]),
        helper.make_node(code, ["rounded", *inputs], results, **attributes),
        helper.make_node("Cast", results[-1:], ["y"], to=TensorProto.FLOAT),
    ]


CONV = {"w": reals(4, 6, 3, 3), "b": reals(4)}
NORM = {"s": reals(6), "o": reals(6), "m": reals(6), "v": np.abs(reals(6)) + 1}
CASES: dict[str, tuple[list[onnx.NodeProto], dict[str, Array]]] = {
    "conv": (one("Conv", inputs=("x", "w", "b"), pads=[1, 1, 1, 1]), CONV),
    "conv without bias, uneven": (
        one("Conv", inputs=("x", "w"), pads=[0, 1, 2, 0], strides=[2, 1], dilations=[1, 2]),
        {"w": reals(5, 6, 3, 2)},
    ),
    "conv same upper": (
        one("Conv", inputs=("x", "w"), auto_pad="SAME_UPPER", strides=[2, 2]),
        {"w": reals(4, 6, 2, 2)},
    ),
    "conv same lower": (
        one("Conv", inputs=("x", "w"), auto_pad="SAME_LOWER", strides=[2, 2]),
        {"w": reals(4, 6, 2, 4)},
    ),
    "grouped conv": (one("Conv", inputs=("x", "w", "b"), group=2), {"w": reals(4, 3, 1, 1), "b": reals(4)}),
    "depthwise conv": (one("Conv", inputs=("x", "w"), group=6, pads=[1, 1, 1, 1]), {"w": reals(12, 1, 3, 3)}),
    "batch normalization": (one("BatchNormalization", inputs=("x", "s", "o", "m", "v"), epsilon=1e-3), NORM),
    "relu": (one("Relu"), {}),
    "clip": (one("Clip", inputs=("x", "low", "high")), {"low": np.float32(-0.5), "high": np.float32(1)}),
    "clip above": (one("Clip", inputs=("x", "", "high")), {"high": np.float32(0.25)}),
    "add a constant": (one("Add", inputs=("x", "c")), {"c": reals(1, 6, 1, 1)}),
    "subtract from a constant": (one("Sub", inputs=("c", "x")), {"c": reals(6, 1, 1)}),
    "multiply by a number": (one("Mul", inputs=("c", "x")), {"c": np.float32(3)}),
    "max pool": (one("MaxPool", kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1]), {}),
    "max pool, rounded up": (one("MaxPool", kernel_shape=[2, 3], strides=[2, 2], ceil_mode=1), {}),
    "average pool": (one("AveragePool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]), {}),
    "average pool of the padding": (
        one("AveragePool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], count_include_pad=1),
        {},
    ),
    "global average pool": (one("GlobalAveragePool"), {}),
    "softmax of channels": (one("Softmax", axis=1), {}),
    **{
        f"{code} of equal numbers, {'last' if last else 'first'}": (
            of_equals(code, axis=axis, keepdims=1, select_last_index=last),
            {},
        )
        for code in ("ArgMin", "ArgMax")
        for last, axis in ((0, 1), (1, 3))
    },
    **{
        f"{'largest' if largest else 'smallest'} of equal numbers": (
            of_equals("TopK", place=1, inputs=("k",), axis=axis, largest=largest),
            {"k": np.array([3])},
        )
        for largest, axis in ((0, 3), (1, 1))
    },
    "hardmax of equal numbers": (of_equals("Hardmax", axis=1), {}),
    "softmax of columns": (one("Softmax", axis=-1), {}),
    "concat of channels": (one("Concat", inputs=("x", "x", "c"), axis=1), {"c": reals(1, 2, 9, 8)}),
    "concat of rows": (one("Concat", inputs=("x", "x"), axis=-2), {}),
    "flatten": (one("Flatten"), {}),
    "reshape": (one("Reshape", inputs=("x", "s")), {"s": np.array([0, -1, 4])}),
    "squeeze": (one("Squeeze", inputs=("x", "a")), {"a": np.array([0])}),
    "unsqueeze": (one("Unsqueeze", inputs=("x", "a")), {"a": np.array([0])}),
    "slice": (
        one("Slice", inputs=("x", "b", "e", "a", "s")),
        {"b": np.array([-1, 1]), "e": np.array([-100, 7]), "a": np.array([1, 3]), "s": np.array([-2, 3])},
    ),
    "pad": (one("Pad", inputs=("x", "p")), {"p": np.array([0, 2, 1, 0, 0, 1, 0, 3])}),
    "transposed and flat": (
        [helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 3, 1]), helper.make_node("Flatten", ["t"], ["y"])],
        {},
    ),
    "dropout": ([helper.make_node("Dropout", ["x"], ["d", "mask"]), helper.make_node("Relu", ["d"], ["y"])], {}),
    "a function of slices and pads": (one("CenterCropPad", inputs=("x", "s")), {"s": np.array([1, 4, 12, 5])}),
    "a branch that is known": (
        [
            helper.make_node("Size", ["x"], ["n"]),
            helper.make_node("Greater", ["n", "few"], ["many"]),
            helper.make_node("If", ["many"], ["y"], then_branch=branch("Relu"), else_branch=branch("Erf")),
        ],
        {"few": np.array(100)},
    ),
    "hard swish": (one("HardSwish"), {}),
    "mish": (one("Mish"), {}),
    "prelu": (one("PRelu", inputs=("x", "c")), {"c": reals(6, 1, 1)}),
    "power": (one("Pow", inputs=("x", "c")), {"c": np.float32(3)}),
    "a constant over rows": (one("Mul", inputs=("x", "c")), {"c": reals(9, 1)}),
    "larger of three": (one("Max", inputs=("x", "c", "d")), {"c": reals(8), "d": np.float32(0.5)}),
    "where": (
        [helper.make_node("Less", ["x", "c"], ["l"]), helper.make_node("Where", ["l", "x", "c"], ["y"])],
        {"c": reals(6, 9, 1)},
    ),
    "sum of rows and channels": (one("ReduceSum", inputs=("x", "a"), keepdims=0), {"a": np.array([1, -2])}),
    "mean of columns": (one("ReduceMean", inputs=("x", "a")), {"a": np.array([3])}),
    "logarithm of a sum": (one("ReduceLogSumExp", inputs=("x", "a")), {"a": np.array([1])}),
    "running sum": (one("CumSum", inputs=("x", "a"), reverse=1), {"a": np.array(2)}),
    "norm of layers": (one("LayerNormalization", inputs=("x", "s", "o")), {"s": reals(8), "o": reals(8)}),
    "norm of instances": (one("InstanceNormalization", inputs=("x", "s", "o")), {"s": reals(6), "o": reals(6)}),
    "product of two that are computed": (
        [helper.make_node("Transpose", ["x"], ["t"], perm=[0, 1, 3, 2]), helper.make_node("MatMul", ["x", "t"], ["y"])],
        {},
    ),
    "split": (
        [
            helper.make_node("Split", ["x", "n"], ["a", "b"], axis=1),
            helper.make_node("Mul", ["b", "a"], ["y"]),
        ],
        {"n": np.array([3, 3])},
    ),
    "mirrored": (one("Pad", inputs=("x", "p"), mode="reflect"), {"p": np.array([0, 0, 2, 1, 0, 0, 1, 3])}),
    "tile": (one("Tile", inputs=("x", "n")), {"n": np.array([1, 1, 3, 2])}),
    "some channels": (one("Gather", inputs=("x", "n"), axis=1), {"n": np.array([[0, 3], [5, -2]])}),
    "depth to space and back": (
        [
            helper.make_node("Slice", ["x", "b", "e", "a"], ["p"]),
            helper.make_node("SpaceToDepth", ["p"], ["s"], blocksize=2),
            helper.make_node("DepthToSpace", ["s"], ["y"], blocksize=2, mode="CRD"),
        ],
        {"b": np.array([0]), "e": np.array([8]), "a": np.array([2])},
    ),
    "convolution of sequences": (
        [
            helper.make_node("Squeeze", ["x", "a"], ["t"]),
            helper.make_node("Conv", ["t", "w", "b"], ["c"], pads=[1, 1], strides=[2]),
            helper.make_node("MaxPool", ["c"], ["y"], kernel_shape=[2]),
        ],
        {"a": np.array([0]), "w": reals(4, 9, 3), "b": reals(4)},
    ),
    "transposed convolution": (
        one("ConvTranspose", inputs=("x", "w", "b"), strides=[2, 3], pads=[1, 0, 2, 1], output_padding=[1, 0]),
        {"w": reals(6, 4, 3, 3), "b": reals(4)},
    ),
    "sums of products": (one("Einsum", inputs=("x", "w"), equation="nchw,wk->nkch"), {"w": reals(8, 5)}),
    "sums of products by a constant ahead": (one("Einsum", inputs=("w", "x"), equation="kc,nc..."), {"w": reals(5, 6)}),
    "products of a value by itself": (one("Einsum", inputs=("x", "x"), equation="nchw,ncvw->nvhc"), {}),
    "products per head": (one("Einsum", inputs=("x", "k"), equation="bqhd,bkhd->bhqk"), {"k": reals(1, 5, 9, 8)}),
    "products without a sum": (one("Einsum", inputs=("x", "w"), equation="nchw, h -> hwnc"), {"w": reals(9)}),
    "three operands": (
        one("Einsum", inputs=("x", "v", "w"), equation="bchw,hi,cj->bijw"),
        {"v": reals(9, 3), "w": reals(6, 4)},
    ),
    "a diagonal": (
        one("Einsum", inputs=("x", "m"), equation="nchw,hhh->nhc"),
        {"m": reals(9, 9, 9)},
    ),
    "the sum of a diagonal": (
        [
            helper.make_node("Slice", ["x", "begin", "end", "axis"], ["s"]),
            *one("Einsum", inputs=("s",), equation="ncii->nc"),
        ],
        {"begin": np.array([0]), "end": np.array([8]), "axis": np.array([2])},
    ),
    "sums along named dimensions": (one("Einsum", equation="nchw->wc"), {}),
    "local response": (one("LRN", size=3, alpha=0.2, beta=0.75, bias=1.5), {}),
    "local response, any power": (one("LRN", size=5, alpha=0.2, beta=0.6), {}),
    "pool with gaps": (one("MaxPool", kernel_shape=[3, 2], dilations=[2, 3], pads=[1, 1, 1, 1]), {}),
    "root of a sum of squares": (one("LpPool", kernel_shape=[2, 2], strides=[2, 1]), {}),
    "root of a sum of squares, padded": (one("LpPool", kernel_shape=[2, 2], pads=[1, 1, 1, 1]), {}),
    "determinants": (
        [
            helper.make_node("Reshape", ["x", "s"], ["m"]),
            helper.make_node("Det", ["m"], ["y"]),
        ],
        {"s": np.array([3, 9, 4, 4])},
    ),
    "samples of a grid": (
        one("GridSample", inputs=("x", "g"), padding_mode="border"),
        {"g": RNG.uniform(-1.2, 1.2, (1, 3, 5, 2)).astype(np.float32)},
    ),
    "blocks to an image": (
        [
            helper.make_node("Reshape", ["x", "s"], ["t"]),
            helper.make_node("Col2Im", ["t", "size", "block"], ["y"], pads=[0, 1, 0, 1], strides=[1, 2]),
        ],
        {"s": np.array([1, 12, 36]), "size": np.array([10, 7]), "block": np.array([2, 2])},
    ),
    "enlarged": (
        one("Resize", inputs=("x", "", "scales"), mode="linear"),
        {"scales": np.array([1, 1, 2, 1.5], np.float32)},
    ),
    "enlarged by neighbours": (
        one("Resize", inputs=("x", "", "", "sizes"), coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
        {"sizes": np.array([1, 6, 18, 13])},
    ),
    "rounds of a scan": (
        [
            helper.make_node("Squeeze", ["x", "a"], ["t"]),
            helper.make_node(
                "Scan",
                ["zero", "t"],
                ["last", "y"],
                num_scan_inputs=1,
                body=sums(),
                scan_input_axes=[1],
                scan_output_axes=[1],
                scan_input_directions=[1],
            ),
        ],
        {"a": np.array([0]), "zero": np.zeros((6, 8), np.float32)},
    ),
    "computed shape": (
        [
            helper.make_node("Shape", ["x"], ["all"]),
            helper.make_node("Gather", ["all", "first"], ["n"]),
            helper.make_node("Concat", ["n", "rest"], ["s"], axis=0),
            helper.make_node("Reshape", ["x", "s"], ["y"]),
        ],
        {"first": np.array([0]), "rest": np.array([-1])},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_op_computes_what_onnx_runtime_does(name: str, tmp_path: Path) -> None:
    nodes, constants = CASES[name]

    check(saved(model(nodes, constants=constants), tmp_path))


@pytest.mark.parametrize(
    ("node", "constants"),
    [
        (one("Gemm", inputs=("x", "w", "b"), transB=1, alpha=0.5, beta=2.0), {"w": reals(5, 12), "b": reals(5)}),
        (one("Gemm", inputs=("x", "w")), {"w": reals(12, 5)}),
        (one("MatMul", inputs=("x", "w")), {"w": reals(12, 3)}),
        (one("BatchNormalization", inputs=("x", "s", "s", "s", "v")), {"s": reals(12), "v": np.abs(reals(12)) + 1}),
    ],
    ids=["gemm", "gemm of the matrix as it is", "matmul", "batch normalization"],
)
def test_an_op_on_vectors_computes_what_onnx_runtime_does(
    node: list[onnx.NodeProto], constants: dict[str, Array], tmp_path: Path
) -> None:
    check(saved(model(node, x=(3, 12), constants=constants), tmp_path))


def through(dtype: int, *nodes: onnx.NodeProto) -> list[onnx.NodeProto]:
    """Nodes from `q`, x in whole numbers of this type, to `r`, which is given out in float32."""
    rounded = [helper.make_node("Abs", ["x"], ["a"]), helper.make_node("Cast", ["a"], ["q"], to=dtype)]
    return [*rounded, *nodes, helper.make_node("Cast", ["r"], ["y"], to=TensorProto.FLOAT)]


_GRID = {"g": RNG.uniform(-1.2, 1.2, (1, 3, 5, 2)).astype(np.float32)}
_FAR = {"g": 3 * _GRID["g"]}  # reflected more than once
_INFINITE = np.array([-np.inf, 0.5, 0.5, -np.inf], np.float32)
_UINT8, _ONES = TensorProto.UINT8, np.ones((2, 3, 2, 2), np.uint8)


@pytest.mark.parametrize(
    ("x", "nodes", "constants"),
    [
        ((1, 3, 4, 5, 6), one("GlobalAveragePool"), {}),
        ((1, 3, 5), one("GlobalAveragePool"), {}),
        ((1, 2, 5, 4), one("GridSample", inputs=("x", "g"), mode="bicubic"), _GRID),
        ((1, 2, 1, 4), one("GridSample", inputs=("x", "g"), padding_mode="reflection", align_corners=1), _GRID),
        ((1, 2, 5, 4), one("GridSample", inputs=("x", "g"), padding_mode="reflection"), _FAR),
        ((2, 4), one("Max", inputs=("x", "c")), {"c": _INFINITE}),
        ((2, 4), one("ReduceLogSumExp", inputs=("x", "a"), noop_with_empty_axes=1), {"a": np.zeros(0, np.int64)}),
        ((1, 6, 2, 2), one("Mul", inputs=("x", "c")), {"c": reals(1, 1, 6, 1, 1)}),
        ((3, 4), [helper.make_node("EyeLike", ["x"], ["e"], k=1), *one("Add", inputs=("x", "e"))], {}),
        ((1, 3, 4, 4), through(_UINT8, helper.make_node("ConvInteger", ["q", "w"], ["r"])), {"w": _ONES}),
        (
            (1, 3, 4, 4),
            through(_UINT8, helper.make_node("ConvInteger", ["q", "w", "", "z"], ["r"])),
            {"w": _ONES, "z": np.array(3, np.uint8)},
        ),
        (
            (1, 6, 5, 4),
            one("ConvTranspose", inputs=("x", "w"), auto_pad="VALID", strides=[2, 2], output_padding=[1, 1]),
            {"w": reals(6, 4, 3, 3)},
        ),
    ],
    ids=lambda value: value[-1].op_type if isinstance(value, list) else "",
)
def test_an_op_of_another_shape_computes_what_onnx_runtime_does(
    x: Sequence[int], nodes: list[onnx.NodeProto], constants: dict[str, Array], tmp_path: Path
) -> None:
    check(saved(model(nodes, x, constants), tmp_path))


def test_a_permutation_of_many_axes_is_as_few_transpositions_as_needed(tmp_path: Path) -> None:
    """Of five that move, two are brought to their places one by one, and then the others at once."""
    node = helper.make_node("Transpose", ["x"], ["y"], perm=[4, 3, 2, 1, 0])
    graph = load(saved(model([node], (2, 3, 4, 5, 6)), tmp_path))

    assert sum(isinstance(op, Transpose) for op in graph.ops) == 3


def test_zero_points_of_the_rows_of_a_matrix_are_taken_off(tmp_path: Path) -> None:
    """By the definition: ONNX Runtime has one zero point for all rows alone."""
    w, zeros = np.array([[1, 2, 3], [4, 5, 6]], np.uint8), np.array([1, 2, 3], np.uint8)
    product = helper.make_node("MatMulInteger", ["q", "w", "z"], ["r"])
    graph = load(saved(model(through(_UINT8, product), (3, 2), {"w": w, "z": zeros}), tmp_path))
    x = 5 * reals(3, 2)

    wanted = (np.abs(x).astype(np.uint8).astype(np.int32) - zeros.astype(np.int32)[:, None]) @ w.astype(np.int32)

    np.testing.assert_array_equal(computed(graph, [x])[0], wanted)


def test_normalisation_and_activation_are_folded_into_the_convolution(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], group=3),
        helper.make_node("BatchNormalization", ["c", "s", "o", "m", "v"], ["n"]),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("Clip", ["r", "", "six"], ["y"]),
    ]
    constants = {"w": reals(6, 2, 3, 3), "b": reals(6), "six": np.float32(6), **NORM}

    (op,) = check(saved(model(nodes, constants=constants), tmp_path)).ops

    assert isinstance(op, Conv2d)
    assert (op.clamp.low, op.clamp.high) == (0.0, 6.0)


def test_views_that_keep_rows_are_planned_by_rows(tmp_path: Path) -> None:
    """Local response normalisation is a pool over a row seen as one channel; few of the 32 rows are kept at a time."""
    constants = {"w": reals(8, 3, 3, 3), "b": reals(8)}
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["a"], pads=[1] * 4)]
    nodes += [helper.make_node("LRN", ["a"], ["n"], size=5)]
    nodes += [helper.make_node("GlobalAveragePool", ["n"], ["y"])]
    path = saved(model(nodes, (1, 3, 32, 32), constants), tmp_path)
    made = build.plan_model(path, None, Options(goal=Goal.SRAM, stream_input=True)).unit.plan

    row = 32 * 3 * 4, 32 * 8 * 4
    assert made.arena_bytes <= 3 * row[0] + 4 * row[1] + 8 * 4
    assert made.outcome.whole_tensor_bytes > 32 * row[1]


def test_values_keep_the_names_of_the_file(tmp_path: Path) -> None:
    """Also where an op of the file becomes several, of which the last one computes the value."""
    nodes = [
        helper.make_node("LayerNormalization", ["x", "s"], ["n"]),
        helper.make_node("Split", ["n"], ["a", "b"], axis=1, num_outputs=2),
        helper.make_node("GlobalAveragePool", ["b"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Softmax", ["f"], ["y"]),
    ]
    made = model(nodes, constants={"s": reals(8)})
    path = saved(made, tmp_path)
    inner = [name for node in nodes[:-1] for name in node.output]
    made.graph.output.extend(onnx.ValueInfoProto(name=name) for name in inner)
    x = reals(*IMAGE)
    wanted = onnxruntime.InferenceSession(made.SerializeToString()).run(inner, {"x": x})
    graph, _ = passes.run(load(path), preserve=tuple(inner))

    for want, got in zip(wanted, computed(graph, [x])[1:], strict=True):
        if got.shape != want.shape:
            got = got.transpose(0, 3, 1, 2)
        np.testing.assert_allclose(got, want, rtol=0, atol=CLOSE)


def test_rows_of_one_tensor_are_added_in_one_call(tmp_path: Path) -> None:
    """A dilated average adds rows 0 to 5 of its input to rows 3 to 8 of it; both lie side by side."""
    nodes = one("AveragePool", kernel_shape=[2, 2], dilations=[3, 1])
    path = saved(model(nodes, (1, 2, 9, 7), opset=19), tmp_path)

    added = build.plan_model(path, None, Options()).unit.stepped[0]

    assert added.rows_per_call == 6
    assert [tensor for tensor, _ in added.reads] == ["x", "x"]


def test_an_old_opset_and_a_batch_of_any_size_are_imported(tmp_path: Path) -> None:
    """Softmax of opset 9 flattens its input, and Clip has its bounds as attributes."""
    nodes = [
        helper.make_node("Clip", ["x"], ["c"], min=0.0, max=2.0),
        helper.make_node("GlobalAveragePool", ["c"], ["g"]),
        helper.make_node("Softmax", ["g"], ["y"], axis=1),
    ]

    check(saved(model(nodes, x=("N", 6, 9, 8), opset=9), tmp_path))


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", [(1, 1, 1.6, 2.5), (1, 1, 2, 3), (1, 1, 0.6, 1.7)], ids=str)
@pytest.mark.parametrize("opset", [7, 9, 10])
def test_a_size_is_changed_as_old_opsets_do(opset: int, scales: Sequence[float], mode: str, tmp_path: Path) -> None:
    """They place elements otherwise than the default of later ones, and the size that shrinks is rounded up."""
    held = {"scales": np.array(scales, np.float32)}
    if opset < 10 and min(scales) < 1:
        pytest.skip("Upsample does not shrink")
    if opset == 7:
        nodes, held = one("Upsample", mode=mode, scales=[float(scale) for scale in scales]), {}
    else:
        nodes = one("Upsample" if opset == 9 else "Resize", inputs=("x", "scales"), mode=mode)

    check(saved(model(nodes, constants=held, opset=opset), tmp_path))


@pytest.mark.parametrize("rounding", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
@pytest.mark.parametrize("places", ["asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners"])
def test_the_nearest_element_is_that_of_onnx_runtime(places: str, rounding: str, tmp_path: Path) -> None:
    """Its float32 says so where a place is an integer but for rounding, as (4 + 0.5) / 0.6 - 0.5."""
    options = {"coordinate_transformation_mode": places, "nearest_mode": rounding}
    constants = {"scales": np.array([1, 1, 0.6, 1.6], np.float32)}

    check(saved(model(one("Resize", inputs=("x", "", "scales"), **options), (1, 2, 14, 9), constants), tmp_path))


@pytest.mark.parametrize("dtype", [np.float16, np.int64, np.uint16, np.uint8, np.bool_])
def test_elements_of_any_type_are_moved(dtype: type[np.generic], tmp_path: Path) -> None:
    """By the kernels; float16 is float32 inside."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    ends = [helper.make_tensor_value_info(name, kind, shape) for name, shape in (("x", (3, 4)), ("y", None))]
    nodes = [helper.make_node("Concat", ["x", "x"], ["d"], axis=1), helper.make_node("Transpose", ["d"], ["y"])]
    graph = helper.make_graph(nodes, "small", ends[:1], ends[1:])
    x = RNG.integers(0, 2 if dtype is np.bool_ else 200, (3, 4)).astype(dtype)

    imported = load(saved(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), tmp_path))
    found = run_reference(imported, [x])["y"]

    np.testing.assert_array_equal(found, np.concatenate([x, x], 1).T, strict=True)


def test_double_is_refused(tmp_path: Path) -> None:
    made = model(one("Relu"))
    made.graph.input[0].type.tensor_type.elem_type = TensorProto.DOUBLE

    with pytest.raises(UnsupportedModel, match="input: tensor 'x' is float64, no kernel computes with that"):
        load(saved(made, tmp_path))


def test_an_attribute_that_onnx_does_not_know_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match="op 0 Relu writing 'y': its attribute 'slope' is not known"):
        load(saved(model(one("Relu", slope=0.5)), tmp_path))


def test_an_output_that_is_an_input_or_a_constant_is_a_copy(tmp_path: Path) -> None:
    made = model([helper.make_node("Identity", ["x"], ["y"]), helper.make_node("Relu", ["x"], ["z"])])
    made.graph.output.append(helper.make_tensor_value_info("c", TensorProto.FLOAT, None))
    made.graph.output.append(helper.make_tensor_value_info("y2", TensorProto.FLOAT, None))
    made.graph.node.append(helper.make_node("Identity", ["y"], ["y2"]))
    made.graph.initializer.append(numpy_helper.from_array(reals(2, 3), "c"))
    x = reals(*IMAGE)

    found = run_reference(load(saved(made, tmp_path)), [np.ascontiguousarray(x.transpose(0, 2, 3, 1))])

    for name in ("y", "y2"):
        np.testing.assert_array_equal(found[name].transpose(0, 3, 1, 2), x)
    np.testing.assert_array_equal(found["c"], numpy_helper.to_array(made.graph.initializer[0]))


SHUFFLE = [
    helper.make_node("Reshape", ["c", "parted"], ["p"]),
    helper.make_node("Transpose", ["p"], ["t"], perm=[0, 2, 1, 3, 4]),
    helper.make_node("Reshape", ["t", "joined"], ["s"]),
]


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize(
    ("behind", "shuffles", "left"),
    [
        (
            [
                helper.make_node("Relu", ["s"], ["r"]),
                helper.make_node("Conv", ["r", "w2"], ["y"], group=6, pads=[1, 1, 1, 1]),
            ],
            1,
            0,
        ),
        (
            [helper.make_node("Add", ["s", "c"], ["a"]), helper.make_node("GlobalAveragePool", ["a"], ["y"])],
            1,
            1,
        ),
        (
            [
                helper.make_node("MaxPool", ["c"], ["m"], kernel_shape=[2, 2], strides=[2, 2]),
                helper.make_node("Flatten", ["m"], ["f"]),
                helper.make_node("Gemm", ["f", "wf"], ["y"], transB=1),
            ],
            0,
            0,
        ),
        (
            [
                helper.make_node("Split", ["s"], ["s1", "s2"], axis=1, num_outputs=2),
                helper.make_node("Conv", ["s2", "w3"], ["d"]),
                helper.make_node("Concat", ["s1", "d"], ["y"], axis=1),
            ],
            2,
            2,
        ),
        (
            [
                helper.make_node("Conv", ["s", "w2"], ["d"], group=6, pads=[1, 1, 1, 1]),
                helper.make_node("Add", ["d", "s"], ["y"]),
            ],
            1,
            0,
        ),
        (
            [
                helper.make_node("Pad", ["s", "around"], ["padded"]),
                helper.make_node("Conv", ["padded", "w2"], ["y"], group=6),
            ],
            1,
            0,
        ),
        ([helper.make_node("Identity", ["s"], ["y"])], 1, 0),
    ],
    ids=[
        "shuffle, activation",
        "shuffle, residual",
        "flatten, dense",
        "shuffle, split",
        "shuffle, two readers",
        "shuffle, pad",
        "shuffle, output",
    ],
)
def test_no_transpose_is_executed_in_a_cnn(
    tmp_path: Path, behind: list[onnx.NodeProto], shuffles: int, left: int, groups: int
) -> None:
    """Without groups a convolution writes its channels shuffled, if all read them so; `left`: shuffles that stay."""
    constants = {
        "w": reals(6, 6 // groups, 3, 3),
        "w2": reals(6, 1, 3, 3),
        "w3": reals(3, 3, 1, 1),
        "around": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
        "wf": reals(5, 6 * 4 * 4),
        "parted": np.array([1, 2, 3, 9, 8]),
        "joined": np.array([1, 6, 9, 8]),
    }
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], group=groups), *SHUFFLE, *behind]
    read = {name for node in behind for name in node.input}
    used = nodes if "s" in read else [nodes[0], *behind]
    held = {n: data for n, data in constants.items() if any(n in node.input for node in used)}
    graph = check(saved(model(used, constants=held), tmp_path))

    assert not any(isinstance(op, Transpose) for op in graph.ops)
    assert sum(isinstance(op, PickChannels) for op in graph.ops) == (left if groups == 1 else shuffles)


@needs_shared
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("light-densenet121", marks=pytest.mark.long),
        "onnx2c-mnist-pytorch",
        "resnet20-cifar10-f32",
        "squeezenet11-imagenet-f32",
        "ultraface-slim-320-onnx",
    ],
)
def test_a_model_computes_what_onnx_runtime_does_and_no_layer_is_transposed(name: str) -> None:
    graph = check(MODELS / f"{name}.onnx")

    assert not any(isinstance(op, Transpose) for op in graph.ops)
    assert any(isinstance(op, Conv2d | DepthwiseConv2d | Dense) for op in graph.ops)


SCALE, OUT = np.float32(0.05), np.float32(0.04)


def quantised(core: Sequence[onnx.NodeProto], zero: Array, more: Mapping[str, Array] | None = None) -> onnx.ModelProto:
    """A model that quantises `x`, runs nodes from `a` to `r` on real numbers, and quantises their result."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["a"]),
        *core,
        helper.make_node("QuantizeLinear", ["r", "t", "z"], ["p"]),
        helper.make_node("DequantizeLinear", ["p", "t", "z"], ["y"]),
    ]
    return model(nodes, constants={"s": SCALE, "t": OUT, "z": zero, **(more or {})})


def _weights(*shape: int) -> dict[str, Array]:
    """Weights with a scale per output, and a bias in steps of the products."""
    scales = np.abs(reals(shape[0])) / 100 + np.float32(0.001)
    return {
        "w": RNG.integers(-127, 128, shape, np.int8),
        "ws": scales,
        "wz": np.zeros(shape[0], np.int8),
        "b": RNG.integers(-2000, 2000, shape[0], np.int32),
        "bs": (scales * SCALE).astype(np.float32),
        "bz": np.zeros(shape[0], np.int32),
    }


REAL_WEIGHTS = [
    helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wr"], axis=0),
    helper.make_node("DequantizeLinear", ["b", "bs", "bz"], ["br"], axis=0),
]
CONSTANT = [helper.make_node("DequantizeLinear", ["k", "s", "kz"], ["kr"])]


def constant(*shape: int) -> dict[str, Array]:
    """A quantised constant that CONSTANT dequantises."""
    return {"k": RNG.integers(-60, 60, shape, np.int8), "kz": np.int8(-5)}


MIRRORED: dict[str, Any] = {"strides": [2, 3], "pads": [1, 0, 2, 1], "output_padding": [1, 0]}
INT8_CASES: dict[str, tuple[list[onnx.NodeProto], dict[str, Array]]] = {
    "conv": ([*REAL_WEIGHTS, helper.make_node("Conv", ["a", "wr", "br"], ["r"], pads=[1] * 4)], _weights(5, 6, 3, 3)),
    "conv and relu": (
        [
            *REAL_WEIGHTS,
            helper.make_node("Conv", ["a", "wr", "br"], ["c"], strides=[2, 1]),
            helper.make_node("Relu", ["c"], ["r"]),
        ],
        _weights(4, 6, 1, 1),
    ),
    "depthwise conv and clip": (
        [
            *REAL_WEIGHTS,
            helper.make_node("Conv", ["a", "wr", "br"], ["c"], group=6, pads=[1] * 4),
            helper.make_node("Clip", ["c", "low", "high"], ["r"]),
        ],
        {**_weights(6, 1, 3, 3), "low": np.float32(-1), "high": np.float32(2)},
    ),
    "gemm": (
        [
            *REAL_WEIGHTS,
            helper.make_node("Flatten", ["a"], ["f"]),
            helper.make_node("QuantizeLinear", ["f", "s", "z"], ["fq"]),
            helper.make_node("DequantizeLinear", ["fq", "s", "z"], ["fr"]),
            helper.make_node("Gemm", ["fr", "wr", "br"], ["r"], transB=1),
        ],
        _weights(7, 6 * 9 * 8),
    ),
    "transposed conv": (
        [
            helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wr"], axis=1),
            helper.make_node("DequantizeLinear", ["b", "bs", "bz"], ["br"], axis=0),
            helper.make_node("ConvTranspose", ["a", "wr", "br"], ["r"], **MIRRORED),
        ],
        {**_weights(5, 6, 3, 2), "w": RNG.integers(-127, 128, (6, 5, 3, 2), np.int8)},
    ),
    "add": ([helper.make_node("Add", ["a", "a"], ["r"])], {}),
    "add a constant per channel": ([*CONSTANT, helper.make_node("Add", ["a", "kr"], ["r"])], constant(1, 6, 1, 1)),
    "add to a constant per channel": ([*CONSTANT, helper.make_node("Add", ["kr", "a"], ["r"])], constant(6, 1, 1)),
    "add an image": ([*CONSTANT, helper.make_node("Add", ["kr", "a"], ["r"])], constant(1, 6, 9, 8)),
    "add a number": ([*CONSTANT, helper.make_node("Add", ["a", "kr"], ["r"])], constant()),
    "multiply by a constant per channel": (
        [*CONSTANT, helper.make_node("Mul", ["a", "kr"], ["r"])],
        constant(1, 6, 1, 1),
    ),
    "multiply by a constant per column": ([*CONSTANT, helper.make_node("Mul", ["kr", "a"], ["r"])], constant(8)),
    "subtract from a constant per row": ([*CONSTANT, helper.make_node("Sub", ["kr", "a"], ["r"])], constant(1, 9, 1)),
    "subtract": ([helper.make_node("Sub", ["a", "a"], ["r"])], {}),
    "global average pool": ([helper.make_node("GlobalAveragePool", ["a"], ["r"])], {}),
    "average pool": ([helper.make_node("AveragePool", ["a"], ["r"], kernel_shape=[2, 2], strides=[2, 2])], {}),
    "max pool": ([helper.make_node("MaxPool", ["a"], ["r"], kernel_shape=[3, 3], pads=[1] * 4)], {}),
    "concat": ([helper.make_node("Concat", ["a", "a"], ["r"], axis=1)], {}),
    "relu": ([helper.make_node("Relu", ["a"], ["r"])], {}),
    "pad": ([helper.make_node("Pad", ["a", "n"], ["r"])], {"n": np.array([0, 1, 2, 0, 0, 0, 1, 3])}),
    "in float32": ([helper.make_node("Softmax", ["a"], ["r"], axis=1)], {}),
}


def _within_a_step(path: Path, steps: float = 1.01) -> Graph:
    """Compares the imported model of `quantised` with ONNX Runtime, whose operands are rounded alike."""
    x = 2 * reals(*IMAGE)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    (wanted,) = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, {"x": x})

    graph, _ = passes.run(load(path))
    (found,) = computed(graph, [x])

    found = found.transpose(0, 3, 1, 2) if found.ndim == 4 else found
    assert np.abs(found - wanted).max() <= steps * OUT
    return graph


@pytest.mark.parametrize("zero", [np.int8(3), np.uint8(130)], ids=["int8", "uint8"])
@pytest.mark.parametrize("name", INT8_CASES)
def test_a_quantised_op_is_within_a_step_of_onnx_runtime(name: str, zero: Array, tmp_path: Path) -> None:
    core, constants = INT8_CASES[name]

    # A step more for an op whose operands are scaled to the output's scale first.
    graph = _within_a_step(saved(quantised(core, zero, constants), tmp_path), 2.01 if name == "concat" else 1.01)

    inside = [node for node in graph.nodes() if not isinstance(node.op, Quantize | Dequantize)]
    assert inside, "there is an op"
    if name != "in float32":
        assert {node.output.type.dtype for node in inside} <= {DType.INT8, DType.INT16, DType.INT32}  # and sums of int8


def test_a_softmax_with_the_quantisation_of_the_kernels_is_in_int8(tmp_path: Path) -> None:
    made = quantised([helper.make_node("Softmax", ["a"], ["r"], axis=1)], np.int8(3))
    for name, value in (("least", np.int8(-128)), ("step", np.float32(1 / 256))):
        made.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    for node in list(made.graph.node)[-2:]:
        node.input[1:] = ["step", "least"]

    graph = _within_a_step(saved(made, tmp_path), 1.01 / 256 / OUT)

    assert any(isinstance(node.op, Softmax) and node.output.type.dtype is DType.INT8 for node in graph.nodes())


@needs_shared
def test_a_quantised_resnet_runs_in_int8_and_decides_as_in_onnx_runtime() -> None:
    path = MODELS / "resnet20-cifar10-qdq-int8.onnx"
    graph, _ = passes.run(load(path))
    kinds = [node.output.type.dtype for node in graph.nodes()]
    assert kinds.count(DType.FLOAT32) == 1, "only the output is dequantised"
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    images = np.random.default_rng(1).standard_normal((12, 1, 3, 32, 32)).astype(np.float32)
    same = [computed(graph, [x])[0].argmax() == session.run(None, {"input": x})[0].argmax() for x in images]

    assert sum(same) >= 11


def _ones(count: int) -> Array:
    return np.ones(count, np.int8)


def _without_zero_points(made: onnx.ModelProto, codes: Sequence[str]) -> None:
    for node in made.graph.node:
        if node.op_type in codes:
            del node.input[2:]


def _output_int8(made: onnx.ModelProto) -> None:
    _without_zero_points(made, ["QuantizeLinear", "DequantizeLinear"])
    made.opset_import[0].version = 21
    made.ir_version = 10
    for node in made.graph.node:
        if node.op_type == "QuantizeLinear":
            node.attribute.append(helper.make_attribute("output_dtype", TensorProto.INT8))


@pytest.mark.parametrize(
    ("change", "weights"),
    [
        (lambda made: _without_zero_points(made, ["DequantizeLinear"]), {}),
        (lambda made: _without_zero_points(made, ["QuantizeLinear", "DequantizeLinear"]), {}),
        (_output_int8, {}),
        (lambda made: None, {"w": RNG.integers(3, 128, (5, 6, 3, 3), np.int8), "wz": 3 * _ones(5)}),
        (lambda made: None, {"w": np.full((5, 6, 3, 3), -128, np.int8), "wz": _ones(5)}),  # -129: no int8
        (
            lambda made: None,
            {"w": RNG.integers(0, 200, (5, 6, 3, 3), np.uint8), "wz": np.arange(90, 95).astype(np.uint8)},
        ),
    ],
    ids=[
        "dequantised without",
        "all without: uint8",
        "all without: output_dtype",
        "int8 weights",
        "wide",
        "uint8 weights",
    ],
)
def test_zero_points_are_those_of_onnx_runtime(
    change: Callable[[onnx.ModelProto], None], weights: dict[str, Array], tmp_path: Path
) -> None:
    """A missing zero point is 0 of the type of the values; one of weights is subtracted from them."""
    core, constants = INT8_CASES["conv"]
    made = quantised(core, np.int8(0), {**constants, **weights})
    change(made)

    _within_a_step(saved(made, tmp_path))


def _scaled_per_channel(core: list[onnx.NodeProto], channels: int, constants: Mapping[str, Array]) -> onnx.ModelProto:
    """A model whose result has a scale per channel."""
    made = quantised(core, np.int8(0), constants)
    made.graph.initializer.append(numpy_helper.from_array(np.linspace(0.02, 0.05, channels, dtype=np.float32), "each"))
    made.graph.initializer.append(numpy_helper.from_array(np.zeros(channels, np.int8), "zeros"))
    for node in list(made.graph.node)[-2:]:
        node.input[1:] = ["each", "zeros"]
    return made


def test_a_convolution_whose_result_has_a_scale_per_channel_computes_in_float32_and_says_so(tmp_path: Path) -> None:
    core, constants = INT8_CASES["conv"]
    path = saved(_scaled_per_channel(core, 5, constants), tmp_path)

    check(path, close=OUT)

    imported = load_onnx(path, {})
    why = "values that are computed have a scale per channel, one scale is supported"
    assert imported.in_float == (InFloat("r", "Conv", why),)
    assert imported.quantised_linear == 1


_AFTER_CONV: dict[str, tuple[list[onnx.NodeProto], str | None]] = {
    "nothing": ([helper.make_node("Identity", ["r"], ["y"])], "Identity follows it before its result is quantised"),
    "an activation": ([helper.make_node("Sigmoid", ["r"], ["y"])], "Sigmoid follows it before its result is quantised"),
    "two readers": (
        [helper.make_node("QuantizeLinear", ["r", "t", "z"], ["p"]), helper.make_node("Relu", ["r"], ["y"])],
        "2 ops read its result 'r' as real numbers",
    ),
    "a conversion": ([helper.make_node("QuantizeLinear", ["r", "t", "z"], ["y"])], None),
}


@pytest.mark.parametrize("name", _AFTER_CONV)
def test_what_computes_in_float32_though_it_is_quantised_is_told(name: str, tmp_path: Path) -> None:
    after, why = _AFTER_CONV[name]
    core, constants = INT8_CASES["conv"]
    made = quantised(core, np.int8(3), constants)
    del made.graph.node[-2:]
    made.graph.node.extend(after)
    if after[-1].op_type == "QuantizeLinear":
        made.graph.output[0].type.tensor_type.elem_type = TensorProto.INT8

    imported = load_onnx(saved(made, tmp_path), {})

    assert imported.in_float == (() if why is None else (InFloat("r", "Conv", why),))
    assert imported.quantised_linear == 1


def test_what_computes_in_float32_has_the_names_of_the_file(tmp_path: Path) -> None:
    """Also where the file has one op for what is imported as several."""
    constants = INT8_CASES["conv"][1]
    wide = {**constants, "z": np.int8(3), "t": np.linspace(0.02, 0.05, 5, dtype=np.float32), "tz": np.zeros(5, np.int8)}
    node = helper.make_node("QLinearConv", ["x", "s", "z", "w", "ws", "wz", "t", "tz", "b"], ["y"], pads=[1] * 4)
    made = model([node], constants={**wide, "s": SCALE})
    for end in (made.graph.input[0], made.graph.output[0]):
        end.type.tensor_type.elem_type = TensorProto.INT8

    (found,) = load_onnx(saved(made, tmp_path), {}).in_float

    assert (found.name, found.kind) == ("y", "QLinearConv")


def test_a_scale_that_is_dequantised_is_computed(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("ReduceMax", ["x"], ["largest"], keepdims=0),
        helper.make_node("QuantizeLinear", ["largest", "s", "z"], ["step"]),
        helper.make_node("DequantizeLinear", ["step", "s", "z"], ["t"]),
        helper.make_node("DequantizeLinear", ["q", "t"], ["y"]),
    ]

    check(saved(model(nodes, constants={"s": SCALE, "z": np.int8(0)}), tmp_path))


def test_a_scale_per_channel_of_computed_values_is_a_formula(tmp_path: Path) -> None:
    check(saved(_scaled_per_channel([helper.make_node("Relu", ["a"], ["r"])], 6, {}), tmp_path), close=OUT)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_integers_at_the_ends_are_those_of_onnx_runtime(dtype: type[np.generic], tmp_path: Path) -> None:
    """A model that takes and gives integers, between which it computes in int8."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    ends = [helper.make_tensor_value_info(name, kind, shape) for name, shape in (("x", (1, 3, 4, 4)), ("y", None))]
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["a"]),
        helper.make_node("MaxPool", ["a"], ["m"], kernel_shape=[2, 2]),
        helper.make_node("QuantizeLinear", ["m", "s", "z"], ["y"]),
    ]
    held = [numpy_helper.from_array(SCALE, "s"), numpy_helper.from_array(np.array(7, dtype), "z")]
    graph = helper.make_graph(nodes, "small", ends[:1], ends[1:], held)
    path = saved(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), tmp_path)
    low, high = np.iinfo(np.dtype(dtype).name).min, np.iinfo(np.dtype(dtype).name).max
    x = RNG.integers(low, high, (1, 3, 4, 4), dtype, endpoint=True)  # type: ignore[arg-type]
    (wanted,) = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})

    imported, _ = passes.run(load(path))
    found = run_reference(imported, [np.ascontiguousarray(x.transpose(0, 2, 3, 1))])["y"]

    np.testing.assert_array_equal(found.transpose(0, 3, 1, 2), wanted, strict=True)
    assert {node.output.type.dtype for node in imported.nodes()} <= {DType.INT8, DType(np.dtype(dtype).name)}


def test_an_op_with_its_quantisation_as_operands_is_the_op_between_quantised_values(tmp_path: Path) -> None:
    """QLinearConv, against the same convolution between DequantizeLinear and QuantizeLinear."""
    core, constants = INT8_CASES["conv"]
    constants = {**constants, "s": SCALE, "t": OUT, "z": np.int8(3)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("QLinearConv", ["q", "s", "z", "w", "ws", "wz", "t", "z", "b"], ["p"], pads=[1] * 4),
        helper.make_node("DequantizeLinear", ["p", "t", "z"], ["y"]),
    ]
    x = 2 * reals(*IMAGE)
    found = computed(load(saved(model(nodes, constants=constants), tmp_path)), [x])
    wanted = computed(load(saved(quantised(core, np.int8(3), constants), tmp_path)), [x])

    np.testing.assert_array_equal(found[0], wanted[0])


def test_constants_may_be_in_a_file_beside_the_model_and_nowhere_else(tmp_path: Path) -> None:
    inside = tmp_path / "model"
    inside.mkdir()
    path = inside / "small.onnx"
    nodes, constants = CASES["conv"]
    onnx.save_model(
        model(nodes, constants=constants), path, save_as_external_data=True, location="w.bin", size_threshold=0
    )
    check(path)
    made = onnx.load_model(path, load_external_data=False)
    (tmp_path / "secret.bin").write_bytes((inside / "w.bin").read_bytes())
    for place, said in (("../secret.bin", "outside the model's folder"), ("gone.bin", "is not beside the model")):
        for tensor in made.graph.initializer:
            for entry in tensor.external_data:
                if entry.key == "location":
                    entry.value = place
        path.write_bytes(made.SerializeToString())

        with pytest.raises(ImportFault, match=said):
            load(path)


def _without_input(made: onnx.ModelProto) -> None:
    made.graph.node[0].input[0] = "nothing"


def _twice(made: onnx.ModelProto) -> None:
    made.graph.node.append(made.graph.node[0])


def _dynamic(made: onnx.ModelProto) -> None:
    made.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "height"


def _unknown_op_of_an_old_opset(made: onnx.ModelProto) -> None:
    made.opset_import[0].version = 17
    made.graph.node[0].op_type = "Foo"


def _old_without_operands(made: onnx.ModelProto) -> None:
    """The version converter infers types first."""
    made.opset_import[0].version = 13
    del made.graph.node[0].input[:]


def _new(made: onnx.ModelProto) -> None:
    made.opset_import[0].version = 99


def _vast(made: onnx.ModelProto) -> None:
    made.graph.initializer[0].dims[0] = 1 << 40


def _later(made: onnx.ModelProto) -> None:
    made.graph.node.insert(0, helper.make_node("Relu", ["y"], ["r"]))


def _old(made: onnx.ModelProto) -> None:
    """ONNX's converter wants a shape of the input of a Reshape."""
    made.opset_import[0].version = 1
    made.graph.node.append(helper.make_node("Reshape", ["y"], ["z"]))


def _other_groups(made: onnx.ModelProto) -> None:
    made.graph.node[0].attribute.append(helper.make_attribute("group", 5))


def _no_type(made: onnx.ModelProto) -> None:
    made.graph.initializer[0].data_type = 121


def _without_data(made: onnx.ModelProto) -> None:
    made.graph.initializer[0].ClearField("raw_data")


def _cut_data(made: onnx.ModelProto) -> None:
    made.graph.initializer[0].raw_data = made.graph.initializer[0].raw_data[:8]


def _few_numbers(made: onnx.ModelProto) -> None:
    _without_data(made)
    made.graph.initializer[0].float_data.extend([1.0, 2.0, 3.0])


def _few_numbers_of_a_node(made: onnx.ModelProto) -> None:
    _few_numbers(made)
    made.graph.node.insert(0, helper.make_node("Constant", [], ["w"], value=made.graph.initializer.pop(0)))


def _outside(**said: str) -> Callable[[onnx.ModelProto], None]:
    """External data with this in its description."""

    def change(made: onnx.ModelProto) -> None:
        tensor = made.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in {"location": "small.onnx", **said}.items():
            tensor.external_data.add(key=key, value=value)

    return change


def _two_lines(made: onnx.ModelProto) -> None:
    made.graph.node[0].name = made.graph.node[0].output[0] = "a\nb"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_no_type, "constant 'w': '?121"),
        (
            _without_data,
            r"constant 'w': float32\[[0-9x]+\] has .* bytes, and none of them are in the file",
        ),
        (
            _cut_data,
            r"constant 'w': float32\[[0-9x]+\] has .* bytes, and the file has 8 bytes; export it",
        ),
        (_few_numbers, r"constant 'w': float32\[[0-9x]+\] has .* bytes, and the file has 3 elements; export it again"),
        (_few_numbers_of_a_node, r"constant 'w' of Constant: float32\[[0-9x]+\] has .*, and the file has 3 elements"),
        (
            _outside(offset="abc"),
            "constant 'w': the offset of its external data is 'abc', no number of bytes; export",
        ),
        (_outside(length="-8"), "constant 'w': the length of its external data is '-8', no number of bytes; export it"),
        (
            _outside(offset="9" * 12),
            "constant 'w' is said to be in 'small.onnx', behind byte 999,999,999,999, and that file has .* bytes",
        ),
        (_two_lines, "names in it are no text"),
        (_without_input, "op 0 Conv reads 'nothing', which is no input, no constant and no op's result"),
        (_twice, "op 1 Conv writes 'y', which is written already"),
        (_unknown_op_of_an_old_opset, "op 0 'Foo': ONNX has no op of this name; export the model with ops of ONNX"),
        (_dynamic, r"dimension 2 \('height'\) of input 'x' is not fixed; give --shape height=N"),
        (_later, r"op 0 Relu reads 'y' before anything writes it \(a cycle\?\); export it again"),
        (_old, r"opset 1 cannot be converted to 18 by the package onnx \([\w' ]+\); export it with opset 18 or newer"),
        (
            _old_without_operands,
            "opset 13 cannot be converted to 18 by the package onnx .*; export it with opset 18 or newer",
        ),
        (_new, "it has opset 99"),
        (_vast, "constant 'w' is said to have shape"),
        (_other_groups, "small.onnx"),
    ],
)
def test_a_damaged_model_is_refused_in_one_line(
    change: Callable[[onnx.ModelProto], None], said: str, tmp_path: Path
) -> None:
    nodes, constants = CASES["conv"]
    made = model(nodes, constants=constants)
    change(made)

    with pytest.raises(ImportFault, match=said) as fault:
        load(saved(made, tmp_path))
    assert "\n" not in str(fault.value)


def test_a_model_that_ends_onnx_s_converter_is_refused(tmp_path: Path) -> None:
    made = model(one("Pad", mode="reflect", pads=[0, 0, 3, 1, 0, 0, 4, 2]), (2, 3, 8, 8))
    made.opset_import[0].version = 6
    made.graph.node[0].attribute[1].type = onnx.AttributeProto.FLOAT

    with pytest.raises(
        ImportFault, match=r"the package onnx ended with SIG\w+; export it again, with opset 18 or newer"
    ):
        load(saved(made, tmp_path))


def test_a_convolution_of_volumes_has_strides_of_at_least_one(tmp_path: Path) -> None:
    nodes = one("Conv", inputs=("x", "w"), strides=[1, 0, 1])
    made = model(nodes, (1, 2, 4, 5, 6), {"w": reals(3, 2, 1, 2, 2)})
    made.graph.output[0].type.CopyFrom(helper.make_tensor_type_proto(TensorProto.FLOAT, None))

    with pytest.raises(UnsupportedModel, match=r"its strides are \(1, 0, 1\)"):
        load(saved(made, tmp_path))


def test_all_ops_that_cannot_run_are_named_at_once(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Unique", ["x"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("NonZero", ["b"], ["y"]),
    ]

    with pytest.raises(UnsupportedModel, match="op 0 Unique writing 'a'; op 2 NonZero writing 'y'"):
        load(saved(model(nodes), tmp_path))


def test_a_tensor_that_kernels_cannot_count_is_refused_before_it_is_made(tmp_path: Path) -> None:
    made = model([helper.make_node("Relu", ["x"], ["y"])])
    for size, dimension in zip((1, 1 << 12, 1 << 12, 64), made.graph.input[0].type.tensor_type.shape.dim, strict=True):
        dimension.dim_value = size
    made.graph.output[0].type.tensor_type.ClearField("shape")

    with pytest.raises(ImportFault, match="at most 2\\^31 - 1 are possible; export the model with smaller"):
        load(saved(made, tmp_path))


def _body(rounds: bool) -> onnx.GraphProto:
    """Of a Loop, or of an If."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, IMAGE) for name in ("v", "r")]
    kinds = ((TensorProto.INT64, "i"), (TensorProto.BOOL, "c"), (TensorProto.BOOL, "d"))
    number, before, after = (helper.make_tensor_value_info(name, kind, ()) for kind, name in kinds)
    nodes = [helper.make_node("Relu", ["v" if rounds else "x"], ["r"])]
    if not rounds:
        return helper.make_graph(nodes, "branch", [], ends[1:])
    nodes.append(helper.make_node("Identity", ["c"], ["d"]))
    return helper.make_graph(nodes, "body", [number, before, ends[0]], [after, ends[1]])


REFUSED: dict[str, tuple[list[onnx.NodeProto], dict[str, Array], str]] = {
    "If": (
        [
            helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0),
            helper.make_node("Cast", ["m"], ["c"], to=TensorProto.BOOL),
            *one("If", inputs=("c",), then_branch=_body(rounds=False), else_branch=_body(rounds=False)),
        ],
        {},
        "op 2 If writing 'y': its condition 'c' is computed, it must be constant",
    ),
    "Loop": (
        one("Loop", inputs=("n", "true", "x"), body=_body(rounds=True)),
        {"n": np.array(3, np.int64), "true": np.array(True)},
        "Loop writing 'y': how often it runs is decided while it runs; export the model with its rounds one after",
    ),
    "Range": (
        [helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0), *one("Range", inputs=("zero", "m", "step"))],
        {"zero": np.array(0, np.float32), "step": np.array(1, np.float32)},
        "op 1 Range writing 'y': its limit 'm' is computed, it must be constant",
    ),
    "a vast Range": (
        [
            helper.make_node("Range", ["zero", "end", "step"], ["r"]),
            helper.make_node("Cast", ["r"], ["f"], to=TensorProto.FLOAT),
            *one("Add", inputs=("x", "f")),
        ],
        {"zero": np.array(0), "end": np.array(1 << 40), "step": np.array(1)},
        "constant 'r' of Range takes 4,398,046,511,128 bytes or more, at most 536,870,912 are computed",
    ),
    "a vast constant": (
        [helper.make_node("ConstantOfShape", ["s"], ["c"]), *one("Add", inputs=("x", "c"))],
        {"s": np.array([1 << 30])},
        "constant 'c' of ConstantOfShape takes .* bytes or more, at most 536,870,912 are computed; export a smaller",
    ),
    "constants of another number of channels": (
        one("BatchNormalization", inputs=("x", "s", "o", "m", "v")),
        {**NORM, "s": reals(5)},
        "op 0 BatchNormalization writing 'y': its input has 6 channels, its constants other numbers; if the model runs",
    ),
    "a pool of bool": (
        [
            helper.make_node("Cast", ["x"], ["b"], to=TensorProto.BOOL),
            helper.make_node("MaxPool", ["b"], ["m"], kernel_shape=[2, 2]),
            helper.make_node("Cast", ["m"], ["y"], to=TensorProto.FLOAT),
        ],
        {},
        "MaxPool writing 'm': its input is bool, numbers are supported",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_op_that_cannot_be_computed_is_named_with_the_cause(name: str, tmp_path: Path) -> None:
    nodes, constants, said = REFUSED[name]

    with pytest.raises(ImportFault, match=said) as fault:
        load(saved(model(nodes, constants=constants), tmp_path))
    assert "\n" not in str(fault.value)


def test_strings_are_refused(tmp_path: Path) -> None:
    made = model(one("Identity"))
    for end in (made.graph.input[0], made.graph.output[0]):
        end.type.CopyFrom(helper.make_tensor_type_proto(TensorProto.STRING, (1, 4)))

    with pytest.raises(UnsupportedModel, match="input: tensor 'x' holds strings, which are not supported"):
        load(saved(made, tmp_path))


def test_a_real_function_of_integers_is_refused(tmp_path: Path) -> None:
    nodes = [helper.make_node("Cast", ["x"], ["a"], to=TensorProto.INT16), helper.make_node("Softplus", ["a"], ["y"])]

    with pytest.raises(ImportFault, match=r"[Ss]oftplus|real numbers"):
        load(saved(model(nodes), tmp_path))


@pytest.mark.parametrize("seed", range(60))
def test_a_mutant_is_imported_or_refused(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    names = sorted(CASES)
    nodes, constants = CASES[names[seed % len(names)]]
    data = bytearray(model(nodes, constants=constants).SerializeToString())
    for _ in range(int(rng.integers(1, 6))):
        data[int(rng.integers(len(data)))] = int(rng.integers(256))
    path = tmp_path / "small.onnx"
    path.write_bytes(data[: int(rng.integers(len(data) // 2, len(data) + 1))])

    try:
        load(path)
    except ImportFault as fault:
        assert "\n" not in str(fault)


@pytest.mark.parametrize("quantised_first", [False, True])
def test_an_image_with_its_channels_last_in_the_file_needs_no_op_that_moves_it(
    quantised_first: bool, tmp_path: Path
) -> None:
    """As exporters of TensorFlow write it: the first op on the input is a Transpose."""
    weights = numpy_helper.from_array(reals(5, 3, 3, 3), "w")
    held = [weights, numpy_helper.from_array(np.float32(0.05), "s"), numpy_helper.from_array(np.int8(3), "z")]
    first = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
    ]
    nodes = [
        *(first if quantised_first else []),
        helper.make_node("Transpose", ["d" if quantised_first else "x"], ["t"], perm=(0, 3, 1, 2)),
        helper.make_node("Conv", ["t", "w"], ["c"]),
        helper.make_node("Transpose", ["c"], ["y"], perm=(0, 2, 3, 1)),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", (1, 6, 7, 3)), ("y", None))]
    graph = helper.make_graph(nodes, "last", ends[:1], ends[1:], held)
    path = saved(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), tmp_path)

    made = load(path)

    assert made.tensors["x"].type.shape == (1, 6, 7, 3)
    assert not any(isinstance(op, Transpose) for op in made.ops)
    x = reals(1, 6, 7, 3)
    (wanted,) = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    np.testing.assert_allclose(evaluate(made, {"x": x})["y"], wanted, rtol=0, atol=CLOSE * 10)


def test_what_prelu_leaves_alone_begins_with_0(tmp_path: Path) -> None:
    """Neither the sign nor an infinite slope reaches it."""
    slopes = np.array([-1, np.inf, -np.inf, 2], np.float32)
    graph = load(saved(model(one("PRelu", inputs=("x", "s")), (1, 4), {"s": slopes}), tmp_path))
    found = evaluate(graph, {"x": np.zeros((1, 4), np.float32)})["y"]

    assert found.tolist() == [[0, 0, 0, 0]] and not np.signbit(found).any()


def test_shrink_leaves_nothing_of_what_is_just_at_its_bounds(tmp_path: Path) -> None:
    graph = load(saved(model(one("Shrink", lambd=0.5, bias=0.25), (1, 5)), tmp_path))
    x = np.array([[-0.75, -0.5, 0, 0.5, 0.75]], np.float32)

    assert evaluate(graph, {"x": x})["y"].tolist() == [[-0.5, 0, 0, 0, 0.5]]
