"""ONNX models of one op with an operand or an attribute that does not fit: each is refused in one line."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from shoehorn_mcu import passes
from shoehorn_mcu.importers import ImportFault
from shoehorn_mcu.importers.onnx.importer import import_model
from shoehorn_mcu.ir import Array

IMAGE, VOLUME, SEQUENCE, MATRIX = (1, 6, 9, 8), (1, 6, 5, 5, 5), (2, 1, 3), (4, 4)
RNG = np.random.default_rng(0)


def reals(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def whole(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


def refusal(made: onnx.ModelProto) -> str:
    with pytest.raises(ImportFault) as fault:
        import_model(made, "m")
    assert "\n" not in str(fault.value)
    return str(fault.value)


def one(
    code: str,
    *operands: Array | str | None,
    x: Sequence[int] = IMAGE,
    dtype: int = TensorProto.FLOAT,
    results: int = 1,
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one op behind its input `x`. `operands`: of the op behind x, names or constants, None: left out."""
    names, held = ["x"], []
    for place, operand in enumerate(operands, start=1):
        names.append(operand if isinstance(operand, str) else "" if operand is None else f"c{place}")
        if operand is not None and not isinstance(operand, str):
            held.append(numpy_helper.from_array(np.asarray(operand), names[-1]))
    node = helper.make_node(code, names, [f"y{place}" for place in range(results)], **attributes)
    ends = [helper.make_tensor_value_info(name, dtype, None) for name in node.output]
    graph = helper.make_graph([node], "small", [helper.make_tensor_value_info("x", dtype, x)], ends, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


KERNEL = reals(4, 6, 3, 3)
LSTM = {"x": SEQUENCE, "hidden_size": 4}
W, R = reals(1, 16, 3), reals(1, 16, 4)
TWICE = np.array([1, 1, 2, 2], np.float32)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        # operands and attributes of any op
        (one("Add"), "it lacks its input"),
        (one("Conv"), "it lacks its weights"),
        (one("Softmax", axis=1.5), "its attribute 'axis' is 1.5"),
        (one("Softmax", axis=7), "axis 7 of a tensor with 4 dimensions"),
        (one("Pad", np.zeros((2, 4), np.int64)), "its pads 'c1' is no list of integers"),
        (one("Gather", reals(2), axis=1), "its operand 'indices' 'c1' is float32, integers are needed"),
        (one("Cast", to=TensorProto.COMPLEX64), "no kernel computes with complex64"),
        (one("Cast", to=99), "no kernel computes with type 99 of ONNX"),
        (one("BitCast", to=TensorProto.INT8), "it takes bits of float32 for int8"),
        (one("Dropout", np.float32(0.5), np.array(True)), "it is in training mode"),
        # matrices
        (one("MatMul", "x", x=()), "a matrix of it is a number"),
        (one("MatMul", "x", x=(4, 5)), "its operands have shapes (4, 5) and (4, 5)"),
        (one("Det", x=(1, 9, 9)), "its input has shape (1, 9, 9); square matrices of float32 up to 4"),
        (one("Det", x=(1, 3, 4)), "its input has shape (1, 3, 4)"),
        (one("Gemm", reals(9, 3), reals(2), x=(2, 9)), "its bias has shape (2,), (3,) is supported"),
        (one("Einsum", equation="ij,jk->ik", x=MATRIX), "its equation 'ij,jk->ik' is of 2 operands, it has 1"),
        (one("Einsum", "x", equation="ij,jk->iz", x=MATRIX), "the result of its equation 'ij,jk->iz' is not of its op"),
        (one("Einsum", reals(3, 4), equation="ij,jk->ik", x=MATRIX), "its dimension 'j' has 4 and 3 elements"),
        (one("Einsum", "x", equation="ijk,jk->ik", x=MATRIX), "'ijk' of its equation 'ijk,jk->ik' is not of 2 dim"),
        (one("Einsum", equation="i->i", x=MATRIX), "'i' of its equation 'i->i' is not of 2 dimensions"),
        (one("Einsum", "x", equation="i1,jk->ik", x=MATRIX), "'i1' of its equation 'i1,jk->ik' is not of 2 dimensions"),
        # elements that are moved
        (one("Transpose", perm=[0, 1, 1, 2]), "its perm (0, 1, 1, 2) is no order of 4 dimensions"),
        (one("Squeeze", whole(1)), "it squeezes axes [1] of (1, 6, 9, 8)"),
        (one("Slice", whole(0, 1), whole(3)), "its starts, ends, axes and steps do not fit each other"),
        (one("Slice", whole(0), whole(3), whole(1), whole(0)), "its starts, ends, axes and steps do not fit"),
        (one("Pad", whole(0, 1, 2)), "its 3 pads do not fit 4 axes"),
        (one("Pad", whole(0, 0, 0, 0, 0, 0, 0, 1 << 20)), "its pads are (0, 0, 0, 0, 0, 0, 0, 1048576), up to 32768"),
        (one("Pad", whole(0, -6, 0, 0, 0, 0, 0, 0)), "its result is empty"),
        (one("Pad", whole(0, 0, 0, 0, 0, 0, 0, 1), mode="foo"), "it pads in mode foo"),
        (one("Split", whole(2, 2), axis=1, results=2), "it splits 6 elements into (2, 2)"),
        (one("Split", whole(2, 4), axis=1, results=3), "it splits 6 elements into (2, 4)"),
        (one("Tile", whole(1, 2)), "it repeats 4 dimensions (1, 2) times"),
        (one("Tile", whole(1, 1, 1, 0)), "it repeats 4 dimensions (1, 1, 1, 0) times"),
        (one("Expand", whole(1, 5, 9, 8)), "it expands (1, 6, 9, 8) to (1, 5, 9, 8)"),
        (one("Gather", whole(), axis=1), "its indices are empty"),
        (one("Gather", whole(9), axis=1), "it takes places 9..9 of 6"),
        (one("GatherElements", np.zeros((1, 1, 1), np.int64), x=MATRIX), "its indices (1, 1, 1) do not fit its input"),
        (one("Concat", np.ones((1, 6, 9, 8), np.complex64), axis=0), "it reads constants of type complex64"),
        (one("Pad", whole(0, 0, 0, 0, 0, 0, 0, 300), mode="edge"), "it takes 301 separate parts of a dimension"),
        (one("DepthToSpace", blocksize=4), "6 channels in blocks of 4 x 4"),
        (one("SpaceToDepth", blocksize=4), "9 x 8 pixels in blocks of 4 x 4"),
        (one("SpaceToDepth", blocksize=-1), "9 x 8 pixels in blocks of -1 x -1"),
        (one("ReverseSequence", whole(1, 2), x=(4, 3)), "2 lengths of 3 sequences"),
        (one("ScatterElements", whole(0)[None], reals(1, 1), x=MATRIX), "its indices are smaller than its input in a"),
        (
            one("ScatterElements", np.zeros((1, 4), np.int64), reals(1, 4), x=MATRIX, reduction="foo"),
            "its reduction 'foo' is not known",
        ),
        # windows
        (
            one("Conv", KERNEL, strides=[1, 1, 1]),
            "its attribute 'strides' is (1, 1, 1), one or two numbers in",
        ),
        (one("Conv", KERNEL, strides=[0, 1]), "its attribute 'strides' is (0, 1)"),
        (one("Conv", KERNEL, auto_pad="FOO"), "its auto_pad is 'FOO'"),
        (one("Conv", KERNEL, pads=[-1, 1, 0, 0]), "its pads are (-1, 1, 0, 0), 4 numbers in 0..32768 are needed"),
        (one("Conv", reals(4, 6, 3)), "its weights have shape (4, 6, 3), its input (1, 6, 9, 8)"),
        (one("Conv", KERNEL, reals(5)), "its bias has shape (5,), not (4,)"),
        (one("Conv", reals(4, 6, 3, 3, 3), x=VOLUME, auto_pad="SAME_UPPER"), "its windows in three dimensions need"),
        (one("Conv", np.zeros((4, 6, 0, 3, 3), np.float32), x=VOLUME), "its weights have no planes"),
        (
            one("ConvInteger", np.ones((2, 300, 3, 3), np.uint8), x=(1, 300, 4, 4), dtype=TensorProto.UINT8),
            "sums do not",
        ),
        (one("ConvTranspose", reals(6, 4, 3, 3, 3), x=VOLUME), "its weights have 5 dimensions, its input 5; 3 or 4"),
        (one("ConvTranspose", reals(5, 4, 3, 3)), "its weights (5, 4, 3, 3) do not fit 6 channels"),
        (one("ConvTranspose", reals(6, 4, 3, 3), pads=[20] * 4), "its result is empty"),
        (
            one("Col2Im", whole(5, 5, 5), whole(1, 1, 1), x=(1, 4, 125)),
            "its blocks have shape (1, 1, 1)",
        ),
        (one("Col2Im", whole(5, 5), whole(2, 2), x=(1, 4, 9)), "its blocks (1, 4, 9) do not fit an image (5, 5)"),
        (one("MaxPool", results=2, kernel_shape=[2, 2]), "its indices are used"),
        (one("MaxPool", kernel_shape=[2], x=(1, 4)), "its input has 2 dimensions, 3 at least are needed"),
        (one("MaxPool", kernel_shape=[2, 0]), "its attribute 'kernel_shape' is (2, 0), 2 numbers in 1..32768"),
        (one("LpPool", kernel_shape=[20, 2]), "its window is larger than its input"),
        (
            one("LpPool", kernel_shape=[200, 200], x=(1, 1, 200, 200)),
            "its window is (200, 200), 256 elements",
        ),
        # images of another size
        (one("GridSample", reals(2, 3, 3, 2)), "its grid (2, 3, 3, 2) does not fit its input (1, 6, 9, 8)"),
        (one("GridSample", reals(1, 0), x=(1, 3)), "its grid (1, 0) does not fit its input (1, 3)"),
        (
            one("Resize", None, TWICE, coordinate_transformation_mode="foo"),
            "coordinate_transformation_mode is 'foo'",
        ),
        (one("Resize", None, TWICE, mode="foo"), "its mode is 'foo'"),
        (one("Resize", None, TWICE, nearest_mode="foo"), "its nearest_mode is 'foo'"),
        (one("Resize", None, 1e6 * TWICE), "it changes the sizes [1, 6, 9, 8] to [1000000, 6000000, "),
        (one("Resize", None, TWICE[:3]), "it changes the sizes [1, 6, 9, 8] to [1, 6, 18], 1 to 8192 are supported"),
        (one("DFT", x=(1, 8, 3)), "it transforms 8 elements of (1, 8, 3) to 8"),
        # norms
        (one("BatchNormalization", *[reals(6)] * 4, training_mode=1), "it is in training mode"),
        (one("BatchNormalization", *[np.ones(6, np.float32)] * 4, x=(6,)), "its input has 1 dimensions, at least 2"),
        (one("LpNormalization", p=3), "its norm is 3, 1 and 2 are supported"),
        (one("LayerNormalization", np.ones(8, np.int32), dtype=TensorProto.INT32), "its input is int32, float32 is"),
        (one("GroupNormalization", reals(4), reals(4), num_groups=4), "it has 4 groups for an input of shape (1, 6, 9"),
        (
            one("GroupNormalization", reals(4), reals(4), num_groups=3),
            "its scale or bias has shape (4,) for 6",
        ),
        # recurrent layers
        (one("LSTM", W, R, **LSTM, direction="foo"), "its direction is 'foo'"),
        (one("LSTM", W, R, hidden_size=4, x=(2, 3)), "its input has 2 dimensions, 3 are needed"),
        (
            one("LSTM", reals(1, 16, 5), R, **LSTM),
            "its weights have shape (1, 16, 5), (16, 3) per direction",
        ),
        (
            one("LSTM", W, R, None, np.array([5], np.int32), **LSTM),
            "its lengths (5,) do not fit 1 sequences of 2",
        ),
        (
            one("RNN", reals(1, 4, 3), reals(1, 4, 4), **LSTM, activations=["ScaledTanh"]),
            "its activation 'ScaledTanh' lacks its alpha or beta",
        ),
    ],
)
def test_an_operand_or_attribute_that_does_not_fit_is_named(made: onnx.ModelProto, said: str) -> None:
    words = refusal(made)

    assert f"op 0 {made.graph.node[0].op_type} writing 'y0'" in words
    assert said in words


@pytest.mark.parametrize(
    "made",
    [
        one("DequantizeLinear", dtype=TensorProto.UINT8),
        one("QuantizeLinear"),
        one("ScatterElements", np.zeros((4, 4, 2), np.int64), reals(4, 4, 2), x=MATRIX),
        one("Gemm", "x", x=VOLUME, transA=1),
        one("Concat", np.zeros((2, 2), np.float32), axis=1),
        one("Resize", None, np.float32(2)),
        one("Col2Im", whole(5, 5), whole(2, 2), x=(1, 4, 16), pads=[0, 0, 0, 0, 0]),
    ],
    ids=lambda made: made.graph.node[0].op_type,
)
def test_operands_of_a_rank_or_number_that_no_exporter_writes_are_refused_by_op(made: onnx.ModelProto) -> None:
    words = refusal(made)

    assert words.startswith(f"op 0 {made.graph.node[0].op_type} writing 'y0': its operands or attributes do not fit it")
    assert words.endswith("; if the model runs elsewhere, please report it with the file")


def test_a_branch_without_a_condition_is_refused() -> None:
    made = one("If")
    del made.graph.node[0].input[:]

    assert "an op of it has operands or attributes that do not fit (IndexError" in refusal(made)


def _empty(made: onnx.ModelProto) -> None:
    del made.graph.node[:]


def _no_tensor(made: onnx.ModelProto) -> None:
    made.graph.input[0].type.CopyFrom(helper.make_sequence_type_proto(made.graph.input[0].type))


def _no_type(made: onnx.ModelProto) -> None:
    made.graph.input[0].type.tensor_type.elem_type = 99


def _no_results(made: onnx.ModelProto) -> None:
    made.graph.node.append(helper.make_node("Relu", ["x"], [""]))


def _no_inputs(made: onnx.ModelProto) -> None:
    made.graph.initializer.append(numpy_helper.from_array(reals(*IMAGE), "x"))


def _no_branch(made: onnx.ModelProto) -> None:
    made.graph.initializer.append(numpy_helper.from_array(np.array(True), "c"))
    made.graph.node.append(helper.make_node("If", ["c"], ["z"]))


def _calls(made: onnx.ModelProto) -> None:
    """A function of another domain that calls an op with two names for one result."""
    body = [helper.make_node("Relu", ["a"], ["b"]), helper.make_node("Relu", ["a"], ["b"])]
    opsets = [helper.make_opsetid("", 18)]
    made.functions.append(helper.make_function("own", "F", ["a"], ["b"], body, opsets))
    made.opset_import.append(helper.make_opsetid("own", 1))
    made.graph.node.append(helper.make_node("F", ["x"], ["z"], domain="own"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_empty, "no ONNX model, or one without ops; export it again"),
        (_no_tensor, "input 'x' is no tensor"),
        (_no_type, "input 'x' has no element type that is known; export it again"),
        (_no_results, "op 1 Relu has no output; export it again"),
        (_no_inputs, "the model has no inputs or no outputs, or one of them twice; export it again"),
        (_no_branch, "an If writing 'z' lacks its then_branch; export it again"),
        (_calls, "which is written already"),
    ],
)
def test_a_model_that_is_none_is_refused(change: Callable[[onnx.ModelProto], None], said: str) -> None:
    made = one("Relu")
    change(made)

    assert said in refusal(made)


LARGE = np.full(6, 3e38, np.float32)


@pytest.mark.parametrize(
    "made",
    [
        one("BatchNormalization", LARGE, LARGE, LARGE, np.full(6, -1, np.float32)),
        one("BatchNormalization", LARGE, LARGE, LARGE, np.full(6, 1e-30, np.float32), epsilon=0.0),
        one("Gemm", np.full((4, 3), 3e38, np.float32), x=(2, 4), alpha=1e30),
        one("Mul", np.array([np.nan], np.float32)),
    ],
    ids=lambda made: made.graph.node[0].op_type,
)
def test_constants_that_are_not_finite_are_refused_without_a_warning(made: onnx.ModelProto) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")

        assert "hold values that are not finite" in refusal(made)


def test_a_factor_that_is_too_large_to_be_folded_stays() -> None:
    made = one("Conv", reals(2, 6, 1, 1))
    made.graph.node[0].output[0] = "c"
    for name, value in (("s", 1e30), ("o", 0), ("m", 0), ("v", 1)):
        made.graph.initializer.append(numpy_helper.from_array(np.full(2, value, np.float32), name))
    made.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.full((2, 6, 1, 1), 1e10, np.float32), "c1"))
    made.graph.node.append(helper.make_node("BatchNormalization", ["c", "s", "o", "m", "v"], ["y0"], epsilon=0.0))
    graph = import_model(made, "m").graph

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        after, _ = passes.run(graph)

    assert len(after.ops) == len(graph.ops) == 2
