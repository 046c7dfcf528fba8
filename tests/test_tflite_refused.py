"""TensorFlow Lite models of one op with an operand or an option that does not fit: each is refused in one line."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from test_uint8 import values_of
from tflite_writer import ModelSpec, OpSpec, TensorSpec, bias, int8, ints, single

from shoehorn_mcu.importers import ImportFault
from shoehorn_mcu.importers.tflite.importer import import_tflite

X = (1, 4, 6, 2)
IMAGE, Y, ROW, ROW_OUT = int8("x", X), int8("y", X), int8("x", (1, 4)), int8("y", (1, 2))
PAIR = {"StrideH": 1, "StrideW": 1}
KERNEL = int8("w", (4, 1, 1, 2), seed=1)
MAPS = int8("y", (1, 4, 6, 4))


def refusal(model: ModelSpec) -> str:
    with pytest.raises(ImportFault) as fault:
        import_tflite(model.bytes(), "m")
    assert "\n" not in str(fault.value)
    return str(fault.value)


def real(name: str, shape: tuple[int, ...], held: bool = False) -> TensorSpec:
    data = np.ones(shape, np.float32).tobytes() if held else None
    return TensorSpec(name, shape, "FLOAT32", data=data)


def whole(name: str, scale: float, zero: int = 0, dtype: str = "INT16", shape: tuple[int, ...] = (1, 2)) -> TensorSpec:
    return TensorSpec(name, shape, dtype, (scale,), (zero,))


def svdf(time: Sequence[int] = (2, 3), memory: Sequence[int] = (1, 6), activation: int = 0) -> ModelSpec:
    weights = TensorSpec("t", tuple(time), "INT16", (0.1,), data=b"\1" * (2 * int(np.prod(time))))
    state = TensorSpec("m", tuple(memory), "INT16", (0.1,), variable=True)
    operands = [ROW, int8("w", (2, 4), seed=1), weights, bias("b", 2), state]
    return single("SVDF", operands, [ROW_OUT], Rank=1, FusedActivationFunction=activation)


UNIT, FINE = 2.0**-15, 1e-6
CHANNELS = TensorSpec("x", X, scales=(0.1, 0.2), axis=3)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        # elements that are moved
        (single("RESHAPE", [IMAGE, ints("s", [-1, -1, 4])], [Y]), "its shape is (-1, -1, 4)"),
        (single("EXPAND_DIMS", [IMAGE, ints("a", [0, 1])], [int8("y", (1, *X))]), "its axis is (0, 1), not one number"),
        (single("TRANSPOSE", [IMAGE, ints("p", [0, 0, 1, 2])], [Y]), "(0, 0, 1, 2) is no permutation of 4 dimensions"),
        (
            single("PAD", [IMAGE, ints("p", [0, 0, 1])], [Y]),
            "a padding of (0, 0, 1) for 4 dimensions; two per",
        ),
        (single("PAD", [IMAGE, ints("p", [0, 0, -1, 0, 0, 0, 0, 0])], [Y]), "needed, none below 0"),
        (
            single("PADV2", [IMAGE, ints("p", [0] * 8), TensorSpec("v", (1,), scales=(1.0,), data=b"\1")], [Y]),
            "its value 'v' does not have the type and scale of 'x'",
        ),
        (single("PADV2", [IMAGE, ints("p", [0] * 8), int8("v", (1,))], [Y]), "its value 'v' is not one constant"),
        (single("SPLIT", [ints("a", [0, 1]), IMAGE], [Y], NumSplits=1), "its axis is (0, 1), not one number"),
        (
            single("SPLIT", [ints("a", [1]), IMAGE], [Y, int8("z", X), int8("w", X)], NumSplits=3),
            "3 outputs do not divide axis 1 of int8[1x4x6x2]",
        ),
        (
            single("SPLIT_V", [IMAGE, ints("n", [2]), ints("a", [1])], [Y, int8("z", X)]),
            "sizes (2,) along axis (1,) for 2 outputs",
        ),
        (single("TILE", [IMAGE, ints("m", [1, 2, 0, 1])], [Y]), "multiples (1, 2, 0, 1) of int8[1x4x6x2]; one per"),
        (single("SLICE", [IMAGE, ints("b", [0]), ints("s", [1])], [Y]), "begin (0,) and size (1,) for 4 dimensions"),
        (
            single("SLICE", [IMAGE, ints("b", [0, 0, 5, 0]), ints("s", [1, 1, 3, 1])], [Y]),
            "begin (0, 0, 5, 0) and size (1, 1, 3, 1) leave int8[1x4x6x2]",
        ),
        *(
            (single("STRIDED_SLICE", [IMAGE, ints("b", b), ints("e", e), ints("s", s)], [Y], Offset=offset), said)
            for b, e, s, offset, said in [
                ([0], [1, 1], [1], False, "its begin, end and strides differ in length"),
                ([0] * 5, [1] * 5, [1] * 5, False, "5 places for 4 dimensions"),
                ([0], [1], [0], False, "a stride of 0"),
                ([0], [1], [1], True, "its end counts from its begin"),
            ]
        ),
        (
            single("SPACE_TO_BATCH_ND", [IMAGE, ints("b", [3, 2]), ints("p", [[0, 0], [0, 0]])], [Y]),
            "its sizes [4, 6, 2] are no multiples of its blocks (3, 2)",
        ),
        (single("RESIZE_BILINEAR", [IMAGE, ints("s", [3, 0])], [Y]), "its size is (3, 0); a height and a width are"),
        (single("TILE", [IMAGE, int8("m", (4,), seed=2)], [Y]), "its multiples 'm' is int8[4], not a list of integers"),
        (
            single("GATHER", [real("x", X), ints("i", [[0, 1]])], [real("y", (1, 2))], Axis=0, BatchDims=1),
            "its 1 batch dimensions do not fit axis 0",
        ),
        # linear ops
        (
            single("CONV_2D", [int8("x", (4, 6, 2)), KERNEL, bias("b", 4)], [Y], **PAIR),
            "its input has 3 dimensions, 4 are needed",
        ),
        (
            single("CONV_2D", [IMAGE, int8("w", (4, 3, 2), seed=1), bias("b", 4)], [Y], **PAIR),
            "its weights 'w' are int8[4x3x2], 4 dimensions are needed",
        ),
        (single("CONV_2D", [IMAGE, KERNEL, bias("b", 3)], [MAPS], **PAIR), "its bias 'b' has shape (3,), not (4,)"),
        (
            single(
                "DEPTHWISE_CONV_2D",
                [IMAGE, int8("w", (1, 1, 1, 4), seed=1), bias("b", 4)],
                [MAPS],
                **PAIR,
                DepthMultiplier=3,
            ),
            "a multiplier of 3 for 2 to 4 channels",
        ),
        (single("TRANSPOSE_CONV", [ints("s", [1, 4]), KERNEL, IMAGE], [MAPS], **PAIR), "its output shape is (1, 4)"),
        *(
            (
                single(
                    "TRANSPOSE_CONV",
                    [ints("s", s), real("w", w, held=True), real("x", X)],
                    [real("y", (1, 4, 6, 4))],
                    **PAIR,
                ),
                said,
            )
            for s, w, said in [
                ([1, 4], (4, 1, 1, 2), "its output shape is (1, 4), four sizes are needed"),
                ([1, 4, 6, 4], (4, 1, 2), "its weights have 3 dimensions, its input 4; 4 are supported"),
            ]
        ),
        (
            single("FULLY_CONNECTED", [ROW, int8("w", (2, 4), seed=1)], [ROW_OUT], WeightsFormat=1),
            "its weights are shuffled",
        ),
        (svdf(time=(2, 3, 1)), "its operands have shapes [(1, 4), (2, 4), (2, 3, 1), (1, 6)] and rank 1"),
        (
            svdf(memory=(1, 7)),
            "its operands have shapes [(1, 4), (2, 4), (2, 3), (1, 7)], not [(1, 4),",
        ),
        (svdf(activation=3), "fused activation RELU6"),
        # activations, scales and types
        (single("ADD", [IMAGE, int8("z", X)], [Y], FusedActivationFunction=5), "fused activation SIGN_BIT"),
        (
            single("DIV", [real("x", X), real("z", X)], [real("y", X)], FusedActivationFunction=5),
            "fused activation SIGN_BIT",
        ),
        (
            single(
                "CONCATENATION", [IMAGE, int8("z", X)], [int8("y", (1, 8, 6, 2))], Axis=1, FusedActivationFunction=1
            ),
            "fused activation RELU",
        ),
        (single("RELU", [CHANNELS], [Y]), "its input 'x' has a scale per channel, one scale is needed"),
        (
            single(
                "TANH",
                [TensorSpec("x", (1, 2), "INT16", scales=(0.1, 0.2), axis=1)],
                [whole("y", UNIT)],
            ),
            "'x' is int16[1x2] without the one scale that is needed",
        ),
        (single("LOG_SOFTMAX", [ROW], [int8("y", (1, 4))]), "and zero point 0, 1/16 and 127 are needed"),
        (single("QUANTIZE", [whole("x", 0.1, dtype="INT64")], [whole("y", UNIT)]), "it quantises int64 to int16"),
        (single("QUANTIZE", [real("x", (1, 2))], [whole("y", UNIT, 3)]), "another type than int16 with zero point 0"),
        (
            single("QUANTIZE", [whole("x", 1.0)], [whole("y", 1e-9, dtype="INT32")]),
            "it quantises to int32 by 1e+09, which overflows int32",
        ),
        (
            single("QUANTIZE", [whole("x", 1.0)], [whole("y", 1.0, 5, "INT32")]),
            "to int32 with zero point 5, 0 is needed",
        ),
        (
            single("MUL", [whole("x", 1.0), whole("z", 1.0)], [whole("y", 1e-3)]),
            "its products are scaled by 1000, which overflows int32",
        ),
        (single("RELU", [whole("x", 1.0)], [whole("y", FINE)]), "its scales differ too much: sums overflow int32"),
        (single("LEAKY_RELU", [whole("x", 1.0)], [whole("y", 1.0)], Alpha=-0.5), "its alpha is -0.5, below 0"),
        (single("TANH", [whole("x", 5.0)], [whole("y", UNIT)]), "scale 5.0, at most 2.66659 is possible"),
        (
            single("SOFTMAX", [whole("x", 5.0)], [whole("y", UNIT)], Beta=1e3),
            "its input has scale 5.0, which overflows",
        ),
        (
            single("SOFTMAX", [int8("x", (1, 2))], [whole("y", UNIT)], Beta=1.0),
            "and zero point 0, 2^-16 and -32768 are needed",
        ),
        (
            single("SOFTMAX", [int8("x", (1, 9000))], [whole("y", UNIT / 2, -32768, shape=(1, 9000))], Beta=1.0),
            "its rows have 9000 elements, 4095 at most are supported",
        ),
        (
            single(
                "GREATER",
                [whole("x", 1e6, dtype="INT8"), whole("z", 1e6, dtype="INT8")],
                [TensorSpec("y", (1, 2), "BOOL")],
            ),
            "its scales overflow int32",
        ),
        (
            single("REDUCE_PROD", [whole("x", 1e6, dtype="INT8"), ints("a", [1])], [whole("y", FINE, 0, "INT8", (1,))]),
            "its scales differ too much: products overflow int32",
        ),
        (
            single(
                "BATCH_MATMUL",
                [whole("x", 1.0, shape=(2, 2)), whole("z", 1.0, shape=(2, 2))],
                [whole("y", FINE, shape=(2, 2))],
            ),
            "its scales differ too much: sums overflow int32",
        ),
        (
            single(
                "DIV", [whole("x", 1e30, dtype="INT8"), whole("z", 1e-30, dtype="INT8")], [whole("y", FINE, 0, "INT8")]
            ),
            "its scales differ too much",
        ),
        (
            single("RELU_0_TO_1", [whole("x", 1.0, dtype="INT8")], [whole("y", 1e-9, dtype="INT8")]),
            "its scales differ too much: sums overflow int32",
        ),
    ],
    ids=lambda value: value.ops[0].code if isinstance(value, ModelSpec) else "",
)
def test_an_operand_or_option_that_does_not_fit_is_named(model: ModelSpec, said: str) -> None:
    words = refusal(model)

    assert f"op 0 {model.ops[0].code} writing 'y'" in words
    assert said in words


@pytest.mark.parametrize(
    "model",
    [
        single(
            "LOCAL_RESPONSE_NORMALIZATION", [real("x", (1, *X))], [real("y", (1, *X))], Radius=2, Alpha=0.5, Beta=0.5
        ),
        single("L2_NORMALIZATION", [ROW], [whole("y", 0.05, dtype="FLOAT32", shape=(1, 4))]),
        single("GATHER_ND", [real("x", (2, 3, 4)), ints("i", [[0, 0, 0, 0, 0]] * 2)], [real("y", (2, 4))]),
    ],
    ids=lambda model: model.ops[0].code,
)
def test_operands_that_no_converter_expects_are_refused_by_op(model: ModelSpec) -> None:
    words = refusal(model)

    assert words.startswith(f"op 0 {model.ops[0].code} writing 'y': its operands or attributes do not fit it (")
    assert words.endswith("; if the model runs elsewhere, please report it with the file")


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (
            single(
                "MUL",
                [whole("x", 1.0, dtype="INT32", shape=(3, 4)), whole("z", 1.0, dtype="INT32", shape=(3, 1, 3))],
                [whole("y", 1.0, dtype="INT32", shape=(3, 4))],
            ),
            "shapes (1, 3, 4), (3, 1, 3) do not broadcast",
        ),
        (
            single(
                "TOPK_V2", [real("x", (1, 3)), ints("k", [7])], [real("y", (1, 3)), TensorSpec("z", (1, 3), "INT32")]
            ),
            "takes 7 of 3 elements",
        ),
        (
            single("RESIZE_NEAREST_NEIGHBOR", [int8("x", (1, 4, 6)), ints("s", [2, 2])], [Y]),
            "x has shape (1, 4, 6), 4 dimensions are needed",
        ),
        (
            single("BROADCAST_TO", [real("x", (3, 1)), TensorSpec("s", (2,), "INT32")], [real("y", (3, 4))]),
            "its shape 's' is computed, it must be",
        ),
    ],
    ids=lambda value: value.ops[0].code if isinstance(value, ModelSpec) else "",
)
def test_shapes_that_an_op_does_not_take_are_named(model: ModelSpec, said: str) -> None:
    assert said in refusal(model)


def test_a_branch_without_a_condition_is_refused() -> None:
    model = ModelSpec([IMAGE, Y], [OpSpec("IF", (), (1,))], (0,), (1,))

    assert refusal(model) == "op 0 IF has no condition; convert it again"


def test_what_a_custom_op_lacks_and_a_state_that_is_none_are_named() -> None:
    custom = ModelSpec([IMAGE, Y], [OpSpec("CUSTOM", (), (1,), {"shift": 1}, custom="SignalWindow")], (0,), (1,))
    assert "it reads tensors (); if the model runs elsewhere" in refusal(custom)

    given = svdf()
    given.tensors[4].variable = False
    given.inputs = (0, 4)
    assert "its state 'm' is no variable tensor" in refusal(given)


def test_an_input_that_no_op_reads_and_whose_scales_do_not_fit_is_named() -> None:
    model = single("RELU", [IMAGE], [Y])
    model.tensors.append(TensorSpec("z", X, scales=(0.1, 0.2), axis=1))
    model.inputs = (0, 2)

    assert refusal(model) == "input tensor 'z' has 2 scales along axis 1 of (1, 4, 6, 2); quantise it again"


def test_a_transform_of_a_length_that_its_row_does_not_have_is_refused() -> None:
    parts = [TensorSpec("z", (4,), "COMPLEX64"), real("y", (4,))]
    model = ModelSpec(
        [real("x", (4,)), ints("n", [4, 4]), *parts],
        [OpSpec("RFFT2D", (0, 1), (2,)), OpSpec("REAL", (2,), (3,))],
        (0,),
        (3,),
    )

    assert "it transforms float32[4] to (4, 4)" in refusal(model)


def test_numbers_that_are_known_are_constants() -> None:
    """0, 3, 6 by RANGE, and twos by FILL."""
    whole_numbers = [TensorSpec(name, (3,), "INT32") for name in ("x", "r", "s", "f", "y")]
    tensors = [
        *whole_numbers,
        *(ints(n, [v]) for n, v in (("from", 0), ("to", 9), ("by", 3), ("count", 3), ("two", 2))),
    ]
    for tensor in tensors[5:8] + tensors[9:]:
        tensor.shape = ()
    ops = [
        OpSpec("RANGE", (5, 6, 7), (1,)),
        OpSpec("FILL", (8, 9), (3,)),
        OpSpec("ADD", (0, 1), (2,)),
        OpSpec("MUL", (2, 3), (4,)),
    ]
    graph = import_tflite(ModelSpec(tensors, ops, (0,), (4,)).bytes(), "m")
    x = np.array([5, -1, 7], np.int32)

    np.testing.assert_array_equal(values_of(graph, {"x": x})["y"], 2 * (x + np.array([0, 3, 6])))


@pytest.mark.parametrize("code", ["FILL", "RANGE"])
def test_numbers_that_are_computed_make_no_constant(code: str) -> None:
    last = TensorSpec("c", (), "INT32")
    operands = [ints("s", [2]), last] if code == "FILL" else [ints("a", [0]), ints("b", [5]), last]

    assert f"op 0 {code} writing 'y'" in refusal(single(code, operands, [TensorSpec("y", (2,), "INT32")]))


@pytest.mark.parametrize(("activation", "low", "high"), [(1, 0, np.inf), (3, 0, 6), (2, -1, 1)])
def test_a_transposed_convolution_of_floats_has_an_activation(activation: int, low: float, high: float) -> None:
    x = 9 * np.random.default_rng(2).standard_normal(X).astype(np.float32)

    def computed(number: int) -> np.ndarray:
        weights, y = real("w", (4, 1, 1, 2), held=True), real("y", (1, 4, 6, 4))
        operands = [ints("s", [1, 4, 6, 4]), weights, real("x", X)]
        model = single("TRANSPOSE_CONV", operands, [y], **PAIR, FusedActivationFunction=number)
        return values_of(import_tflite(model.bytes(), "m"), {"x": x})["y"]

    np.testing.assert_array_equal(computed(activation), np.clip(computed(0), low, high))
