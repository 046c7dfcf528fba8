"""The .tflite importer: what it makes of sound models, against tflite_micro tensor by tensor, and what it refuses."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pytest
import samples
import tflite
from evaluate import evaluate, random_arrays
from shared import MODELS, ROAD, needs_shared
from tflite_writer import ModelSpec, OpSpec, TensorSpec, bias, changed, int8, ints, single, small_model

from shoehorn_mcu import ops
from shoehorn_mcu.importers import ImportFault, load
from shoehorn_mcu.importers.lowering.geometry import same_padding
from shoehorn_mcu.importers.tflite.file import read
from shoehorn_mcu.importers.tflite.importer import CONVERTERS, import_tflite
from shoehorn_mcu.importers.tflite.options import Activation
from shoehorn_mcu.importers.tflite.site import clamp
from shoehorn_mcu.importers.tflite.tensors import unique_names
from shoehorn_mcu.ir import DType, Graph, Op, Quant, Tensor, TensorType
from shoehorn_mcu.passes import run

QUICK = ["mlperf-ad-int8", "mltk-fingerprint", "tflm-micro-speech", "tinymaix-mnist-valid-q", "nano-u-botanic-int8"]


def attributes(op: Op) -> dict[str, object]:
    return {f.name: getattr(op, f.name) for f in fields(op) if f.name not in ("name", "inputs", "output")}


def file_names(data: bytes) -> tuple[str, ...]:
    """The graph's name of each tensor of the file, by TFLite's number."""
    return unique_names(t.name for t in read(data).tensors)


def assert_like_tflite_micro(data: bytes, seed: int = 0, arena_bytes: int = 8 << 20) -> Graph:
    """Every tensor that both know has the same bytes."""
    graph = import_tflite(data, "model")
    inputs = random_arrays(graph, seed)
    ours = evaluate(graph, inputs)
    theirs = oracle.run(data, [inputs[n] for n in graph.inputs], arena_bytes)
    names = file_names(data)
    shared_tensors = [(n, theirs[i]) for i, n in enumerate(names) if i in theirs and n in ours]

    assert {op.output for op in graph.ops} <= {n for n, _ in shared_tensors} | (ours.keys() - set(names))
    for name, array in shared_tensors:
        assert array.tobytes() == ours[name].tobytes(), name
    return graph


@needs_shared
@pytest.mark.parametrize("model", ROAD)
def test_every_road_model_is_imported(model: str) -> None:
    graph = load(MODELS / f"{model}.tflite")

    assert graph.ops
    assert graph.name == model


@needs_shared
@pytest.mark.parametrize("model", QUICK)
def test_a_small_road_model_gives_the_bytes_of_tflite_micro_in_every_tensor(model: str) -> None:
    assert_like_tflite_micro((MODELS / f"{model}.tflite").read_bytes())


@needs_shared
@pytest.mark.long
@pytest.mark.parametrize("model", ROAD)
def test_every_road_model_gives_the_bytes_of_tflite_micro_in_every_tensor(model: str) -> None:
    assert_like_tflite_micro((MODELS / f"{model}.tflite").read_bytes(), arena_bytes=256 << 20)


def test_the_small_model_gives_the_bytes_of_tflite_micro_in_every_tensor() -> None:
    for seed in range(5):
        assert_like_tflite_micro(small_model().bytes(), seed)


@pytest.mark.parametrize("op_class", ops.MODEL_OPS, ids=lambda c: c.__name__)
def test_an_op_written_as_tflite_comes_back_as_it_was(op_class: type[Op]) -> None:
    for case in range(15):
        graph = samples.sample(op_class, np.random.default_rng(case))
        again = import_tflite(oracle.to_tflite(graph), "sample")

        assert [type(op) for op in again.ops] == [op_class]
        assert attributes(again.ops[0]) == attributes(graph.ops[0])
        for ours, theirs in zip(again.node(again.ops[0]).inputs, graph.node(graph.ops[0]).inputs, strict=True):
            assert np.array_equal(ours.data, theirs.data) if theirs.data is not None else ours.data is None
            if theirs.type.dtype is not DType.INT32:  # a bias has the scale of x times weights, whatever it says
                assert ours.type == theirs.type
        assert again.tensors["y"].type == graph.tensors["y"].type


SAME, VALID = tflite.Padding.SAME, tflite.Padding.VALID


@pytest.mark.parametrize("scheme", [SAME, VALID])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("size", [7, 8])
def test_padding_is_that_of_tflite_micro(scheme: int, stride: int, dilation: int, size: int) -> None:
    reach = [(k - 1) * dilation + 1 for k in (3, 2)]
    out = [-(-(size if scheme == SAME else size - r + 1) // stride) for r in reach]
    tensors = [
        int8("x", (1, size, size, 3), zero=9),
        int8("w", (1, 3, 2, 6), seed=1),
        bias("b", 6),
        int8("y", (1, *out, 6)),
    ]
    options = {"StrideH": stride, "StrideW": stride, "Padding": scheme, "DepthMultiplier": 2}
    dilations = {"DilationHFactor": dilation, "DilationWFactor": dilation}
    assert_like_tflite_micro(single("DEPTHWISE_CONV_2D", tensors[:3], tensors[3:], **options, **dilations).bytes())


def test_the_odd_element_of_same_padding_lies_after() -> None:
    assert same_padding(8, 3, 2) == (0, 1)
    assert same_padding(7, 3, 2) == (1, 1)
    assert same_padding(7, 1, 2) == (0, 0)
    assert same_padding(5, 3, 1, dilation=2) == (2, 2)
    assert same_padding(5, 2, 5) == (0, 0)


def test_a_fused_activation_is_rounded_half_away_from_zero() -> None:
    output = Tensor("y", TensorType((1,), DType.INT8, Quant((4.0,), (-100,))))  # 6 / 4 = 1.5

    assert clamp(Activation.RELU6, output) == ops.Clamp(-100, -98)
    assert clamp(Activation.RELU, output) == ops.Clamp(-100, 127)
    assert clamp(Activation.NONE, output) == ops.Clamp(-128, 127)
    assert clamp(
        Activation.RELU_N1_TO_1,
        Tensor("y", TensorType((1,), DType.INT8, Quant((2.0,), (0,)))),  # 1 / 2 = 0.5
    ) == ops.Clamp(-1, 1)


@pytest.mark.parametrize(
    ("x", "y", "begin", "end", "step", "masks"),
    [
        ((4, 5, 6), "x[1:3, ::2, -2:]", (1, 0, -2), (3, 5, 6), (1, 2, 1), {}),
        ((4, 5, 6), "x[::-1, 3:0:-2, :]", (0, 3, 0), (0, 0, 0), (-1, -2, 1), {"BeginMask": 5, "EndMask": 5}),
        ((4, 5, 6), "x[2, :, -1]", (2, 0, -1), (0, 9, 0), (1, 1, 1), {"ShrinkAxisMask": 5}),
        ((4, 5, 6), "x[-100:100, 1:2]", (-100, 1), (100, 2), (1, 1), {}),
        ((4, 5, 6), "x[1:2, ..., 3]", (1, 0, 3), (2, 0, 4), (1, 1, 1), {"EllipsisMask": 2, "ShrinkAxisMask": 4}),
        ((5, 6), "x[None, 1:, None]", (0, 1, 0), (0, 5, 0), (1, 1, 1), {"NewAxisMask": 5}),
        ((2, 3, 4), "x[..., None]", (0, 0), (0, 0), (1, 1), {"EllipsisMask": 1, "NewAxisMask": 3}),
    ],
)
def test_a_strided_slice_is_numpys(
    x: tuple[int, ...], y: str, begin: Any, end: Any, step: Any, masks: dict[str, int]
) -> None:
    array = np.arange(np.prod(x), dtype=np.int8).reshape(x)
    expected = eval(y, {"x": array})
    inputs = [int8("x", x), ints("begin", begin), ints("end", end), ints("step", step)]
    graph = import_tflite(single("STRIDED_SLICE", inputs, [int8("y", expected.shape)], **masks).bytes(), "model")

    assert np.array_equal(evaluate(graph, {"x": array})["y"], expected)


def test_a_split_becomes_one_slice_per_output_in_the_models_order() -> None:
    outputs = [int8(f"y{i}", (2, 3, 2)) for i in range(3)]
    model = single("SPLIT", [ints("axis", [-1]), int8("x", (2, 3, 6))], outputs, NumSplits=3)
    graph = assert_like_tflite_micro(model.bytes())

    assert [type(op) for op in graph.ops] == [ops.Slice] * 3
    assert graph.outputs == ("y0", "y1", "y2")


def test_a_split_v_becomes_slices_of_its_own_sizes() -> None:
    outputs = [int8(f"y{i}", (2, size, 2)) for i, size in enumerate((3, 1, 2))]
    graph = assert_like_tflite_micro(
        single("SPLIT_V", [int8("x", (2, 6, 2)), ints("sizes", [3, -1, 2]), ints("axis", [1])], outputs).bytes()
    )

    assert [type(op) for op in graph.ops] == [ops.Slice] * 3


def test_sizes_that_do_not_divide_an_axis_are_refused() -> None:
    outputs = [int8(f"y{i}", (2, 3, 2)) for i in range(2)]
    model = single("SPLIT_V", [int8("x", (2, 6, 2)), ints("sizes", [3, 4]), ints("axis", [1])], outputs)
    with pytest.raises(ImportFault, match=r"sizes \(3, 4\) do not divide axis 1"):
        import_tflite(model.bytes(), "model")


@pytest.mark.parametrize(
    ("shape", "multiples"),
    [
        ((3,), (2,)),
        ((2, 3), (1, 1)),
        ((1, 2, 3, 2), (1, 2, 3, 1)),
        ((1, 2, 1, 3, 2), (1, 1, 4, 1, 1)),
        ((2, 3), (3, 2)),
    ],
)
def test_a_tile_repeats_as_numpy_does(shape: tuple[int, ...], multiples: tuple[int, ...]) -> None:
    tiled = tuple(s * m for s, m in zip(shape, multiples, strict=True))
    model = single("TILE", [int8("x", shape), ints("multiples", multiples)], [int8("y", tiled)])
    graph = import_tflite(model.bytes(), "model")
    x = random_arrays(graph, 1)["x"]

    assert np.array_equal(evaluate(graph, {"x": x})["y"], np.tile(x, multiples))


def test_a_tile_of_five_dimensions_is_one_concat_between_reshapes() -> None:
    shape, multiples = (1, 2, 1, 3, 2), (1, 1, 4, 1, 1)
    model = single("TILE", [int8("x", shape), ints("multiples", multiples)], [int8("y", (1, 2, 4, 3, 2))])
    graph = import_tflite(model.bytes(), "model")
    x = random_arrays(graph, 1)["x"]

    assert [type(op) for op in graph.ops] == [ops.Reshape, ops.Concat, ops.Reshape]
    assert np.array_equal(evaluate(graph, {"x": x})["y"], np.tile(x, multiples))


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [((2, 3, 4, 5), (1, 2)), ((2, 3, 4, 5), (1,)), ((2, 3, 4, 5), (2, 3)), ((6,), (0,))],
)
def test_a_maximum_over_axes_is_that_of_numpy(shape: tuple[int, ...], axes: tuple[int, ...], keep: bool) -> None:
    reduced = np.zeros(shape).max(axis=axes, keepdims=keep).shape
    model = single("REDUCE_MAX", [int8("x", shape), ints("axes", axes)], [int8("y", reduced)], KeepDims=keep)
    model.ops[0].table = "ReducerOptions"
    graph = import_tflite(model.bytes(), "model")
    x = random_arrays(graph, 1)["x"]

    assert np.array_equal(evaluate(graph, {"x": x})["y"], x.max(axis=axes, keepdims=keep))


def test_five_dimensions_run_where_an_op_treats_them_alike() -> None:
    shape = (2, 3, 2, 3, 4)
    graph = assert_like_tflite_micro(single("RELU", [int8("x", shape)], [int8("y", shape)]).bytes())

    assert graph.tensors["y"].type.nhwc == (6, 2, 3, 4)


def test_a_subnormal_scale_of_weights_makes_an_output_constant_as_in_tflite_micro() -> None:
    graph = assert_like_tflite_micro(changed(lambda m: setattr(m.tensors[3], "scales", (1e-40,))))

    zeroed, _ = run(graph)
    weights = next(node for node in zeroed.nodes() if isinstance(node.op, ops.Conv2d)).inputs[1].data
    assert weights is not None and not weights.any()


def test_a_relu6_between_two_quantisations_keeps_stored_values_as_tflite_micro_does() -> None:
    x, y = TensorSpec("x", (1, 256), scales=(0.05,), zero_points=(3,)), TensorSpec("y", (1, 256), scales=(0.02,))
    assert_like_tflite_micro(single("RELU6", [x], [y]).bytes())


def test_a_dense_layer_flattens_only_what_is_not_flat() -> None:
    def kinds(x: tuple[int, ...], y: tuple[int, ...], keep: bool = False) -> list[str]:
        inputs = [int8("x", x), int8("w", (3, 8), seed=1), bias("b", 3)]
        model = single("FULLY_CONNECTED", inputs, [int8("y", y)], KeepNumDims=keep)
        return [type(op).__name__ for op in import_tflite(model.bytes(), "model").ops]

    assert kinds((5, 8), (5, 3)) == ["Dense"]
    assert kinds((1, 2, 2, 4), (2, 3)) == ["Reshape", "Dense"]
    assert kinds((1, 5, 8), (1, 5, 3), keep=True) == ["Dense"]
    assert kinds((1, 2, 2, 4), (1, 1, 2, 3)) == ["Reshape", "Dense", "Reshape"]


def test_a_missing_bias_is_zeros() -> None:
    model = single("FULLY_CONNECTED", [int8("x", (1, 8)), int8("w", (3, 8), seed=1)], [int8("y", (1, 3))])
    model.ops[0].inputs = (0, 1, -1)
    graph = assert_like_tflite_micro(model.bytes())
    made = graph.tensors[graph.ops[0].inputs[2]]

    assert made.name == "y_shoehorn_1"
    assert made.data is not None
    assert made.data.dtype == np.int32 and not made.data.any()


def test_a_made_tensor_gets_a_name_that_the_file_does_not_use() -> None:
    model = single("FULLY_CONNECTED", [int8("y_shoehorn_1", (1, 8)), int8("w", (3, 8), seed=1)], [int8("y", (1, 3))])
    model.ops[0].inputs = (0, 1, -1)
    graph = assert_like_tflite_micro(model.bytes())

    assert graph.ops[0].inputs == ("y_shoehorn_1", "w", "y_shoehorn_2")


def test_names_are_unique_and_never_empty() -> None:
    assert unique_names(["a", "", "a", "a_2", ""]) == ("a", "tensor_1", "a_2_2", "a_2", "tensor_4")
    assert unique_names(["tensor_1", ""]) == ("tensor_1", "tensor_1_1")


def test_tensors_that_share_a_name_in_the_file_stay_apart() -> None:
    def rename(model: ModelSpec) -> None:
        for tensor in model.tensors:
            tensor.name = "same"

    graph = assert_like_tflite_micro(changed(rename))

    assert graph.inputs == ("same",)
    assert graph.outputs == ("same_11",)


def test_a_name_that_would_break_a_line_is_cleaned() -> None:
    data = changed(lambda m: setattr(m.tensors[0], "name", "in\nput\x1b"))

    assert import_tflite(data, "model").inputs == ("in?put?",)


def test_every_unsupported_op_is_listed_in_one_line() -> None:
    tensors = [TensorSpec("x", (1, 4, 4, 1), scales=(1.0,)), *(int8(f"y{i}", (1, 4, 4, 1)) for i in range(4))]
    opcodes = [OpSpec("CUSTOM", (0,), (1,), custom="FlexErf"), OpSpec("WHERE", (1,), (2,)), OpSpec("RELU", (2,), (3,))]
    model = ModelSpec(tensors, [*opcodes, OpSpec("HASHTABLE", (3,), (4,))], (0,), (4,))
    with pytest.raises(ImportFault) as fault:
        import_tflite(model.bytes(), "model")

    assert str(fault.value) == (
        "not supported (`gen ops` lists what is): op 0 CUSTOM 'FlexErf' writing 'y0'; "
        "op 1 WHERE writing 'y1'; op 3 HASHTABLE writing 'y3'"
    )


X = (1, 4, 4, 2)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (single("RELU", [TensorSpec("x", X, "INT16", (1.0,))], [int8("y", X)]), "'y' is int8, int16 is needed"),
        (single("RELU", [TensorSpec("x", X)], [int8("y", X)]), "'x' has no scale"),
        (single("RELU", [int8("x", (1,) * 9)], [int8("y", (1,) * 9)]), "9 dimensions, at most 8"),
        (single("RELU", [TensorSpec("x", X, scales=(1.0, 2.0), axis=3)], [int8("y", X)]), "scale per channel"),
        (single("RELU", [TensorSpec("x", X, "STRING")], [int8("y", X)]), "'x' is STRING"),
        (single("RELU", [TensorSpec("x", X, scales=(1.0,), variable=True)], [int8("y", X)]), "is a variable"),
        (
            single(
                "CONV_2D",
                [TensorSpec("x", X, "UINT8"), int8("w", (2, 1, 1, 2), seed=1)],
                [int8("y", X)],
                StrideH=1,
                StrideW=1,
            ),
            "'x' is uint8, int8",
        ),
        (
            single(
                "CONV_2D",
                [int8("x", X), TensorSpec("w", (1, 1, 1, 2), "FLOAT32")],
                [int8("y", X)],
                StrideH=1,
                StrideW=1,
            ),
            "weights 'w' are computed",
        ),
        (single("CONCATENATION", [int8("x", X), int8("z", X, zero=1)], [int8("y", X)]), "have different scales"),
        (single("ADD", [int8("x", X), int8("z", X)], [int8("y", X)], FusedActivationFunction=4), "activation TANH"),
        (
            single("SOFTMAX", [int8("x", X)], [int8("y", X)], Beta=1.0),
            "it must have scale 0.00390625",
        ),
        (single("MEAN", [int8("x", X), int8("axes", (1,))], [int8("y", X)]), "'axes' is computed"),
    ],
)
def test_what_no_kernel_runs_is_refused_with_its_reason(model: ModelSpec, words: str) -> None:
    with pytest.raises(ImportFault) as fault:
        import_tflite(model.bytes(), "model")

    assert words in str(fault.value)
    assert "op 0 " in str(fault.value)


def test_other_models_are_refused_with_a_diagnosis_and_all_their_ops(tmp_path: Path) -> None:
    tensors = [TensorSpec(f"t{i}", X, "FLOAT16") for i in range(4)]
    ops = [OpSpec("RELU", (i,), (i + 1,)) for i in range(3)]
    (tmp_path / "half.tflite").write_bytes(ModelSpec(tensors, ops, (0,), (3,)).bytes())
    with pytest.raises(ImportFault) as fault:
        load(tmp_path / "half.tflite")

    assert str(fault.value).startswith("half.tflite: a float16 model; convert it to int8")
    assert "\n" not in str(fault.value)
    places = [place for cause in fault.value.facts["causes"] for place in cause["places"]]
    assert len([place for place in places if re.match(r"op \d+ [A-Z]", place)]) == 3


def test_an_unknown_suffix_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ImportFault, match=r"model.keras: a Keras model; convert it to an int8 .tflite, or export it as .onnx, first"
    ):
        load(tmp_path / "model.keras")
    with pytest.raises(ImportFault, match="cannot be read: No such file"):
        load(tmp_path / "model.tflite")


def test_every_converter_is_an_op_of_the_schema() -> None:
    assert set(CONVERTERS) <= set(vars(tflite.BuiltinOperator))
