"""Damaged and dishonest .tflite files: one clear line each, no traceback, no hang, little memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tflite_writer import (
    ModelSpec,
    OpSpec,
    TensorSpec,
    bias,
    changed,
    int8,
    ints,
    single,
    small_model,
)

from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.importers import ImportFault, load
from shoehorn_mcu.importers.tflite.importer import import_tflite
from shoehorn_mcu.ir import Graph, dump
from shoehorn_mcu.passes import OverflowFault, prove_int32, run

REPORT = "if the model runs elsewhere, please report it with the file"

SMALL = small_model().bytes()


def same(a: Graph, b: Graph) -> bool:
    """Whether two graphs have the same text and the same constants."""
    if dump(a) != dump(b):
        return False
    pairs = [(t.data, b.tensors[n].data) for n, t in a.tensors.items()]
    return all(x is y is None or np.array_equal(x, y) for x, y in pairs)  # type: ignore[arg-type]


def prepared(data: bytes) -> Graph:
    """The model as the road prepares it: imported, rewritten, its arithmetic proven."""
    return prove_int32(run(import_tflite(data, "model"))[0])


def refusal(data: bytes) -> str:
    with pytest.raises((ImportFault, OverflowFault)) as fault:
        prepared(data)
    assert "\n" not in str(fault.value)
    return str(fault.value)


@pytest.mark.parametrize("data", [b"", b"TFL3", b"\x00" * 64, b"\x7fELF" + b"\x01" * 200, b"{}", SMALL[1:]])
def test_what_is_no_tflite_file_is_refused(data: bytes) -> None:
    assert "not a TFLite model" in refusal(data)


def test_a_file_of_the_mark_alone_is_damaged() -> None:
    assert "damaged" in refusal(b"\x08\x00\x00\x00TFL3")
    assert "damaged" in refusal(b"\xff\xff\xff\xffTFL3" + b"\xff" * 100)


def test_the_error_of_a_file_begins_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "vww.tflite"
    path.write_bytes(SMALL[: len(SMALL) // 2])
    with pytest.raises(ImportFault, match=r"^vww\.tflite: damaged: "):
        load(path)


def test_a_model_cut_at_any_length_is_refused_or_whole() -> None:
    whole = import_tflite(SMALL, "model")
    refused = 0
    for length in range(len(SMALL)):
        try:
            graph = import_tflite(SMALL[:length], "model")
        except ImportFault:
            refused += 1
        else:
            assert same(graph, whole), f"cut at {length} of {len(SMALL)}"

    assert refused > len(SMALL) - 16  # only padding and the end of a name may go unnoticed


def mutant(rng: np.random.Generator) -> bytes:
    """The small model with one to eight bytes changed: bits flipped, or a 32-bit word made extreme."""
    data = bytearray(SMALL)
    for _ in range(rng.integers(1, 9)):
        place = int(rng.integers(8, len(data)))
        if rng.random() < 0.7:
            data[place] ^= 1 << int(rng.integers(8))
        else:
            word = [0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32 - 4, len(data)][int(rng.integers(7))]
            data[place & ~3 : (place & ~3) + 4] = word.to_bytes(4, "little")
    return bytes(data[: len(SMALL)])


def fuzz(seed: int, count: int) -> None:
    """Every mutant is imported or refused; the import of none holds more than a few megabytes."""
    prepared(SMALL)  # what is imported lazily, such as numpy.ma, is not counted below
    rng = np.random.default_rng(seed)
    refused = 0
    for case in range(count):
        data = mutant(rng)
        tracemalloc.start()
        try:
            prepared(data)
        except ShoehornError as fault:
            refused += 1
            assert "\n" not in str(fault), f"seed {seed}, case {case}"
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()

        assert peak_bytes < 4 << 20, f"seed {seed}, case {case}"
    assert count // 4 < refused < count


def test_500_mutants_are_imported_or_refused() -> None:
    fuzz(1, 500)


@pytest.mark.long
def test_10000_mutants_are_imported_or_refused() -> None:
    fuzz(2, 10_000)


Change = Callable[[ModelSpec], object]


def tensor(number: int, **values: object) -> Change:
    return lambda model: [setattr(model.tensors[number], k, v) for k, v in values.items()]


def op(number: int, **values: object) -> Change:
    return lambda model: [setattr(model.ops[number], k, v) for k, v in values.items()]


def model(**values: object) -> Change:
    return lambda model: [setattr(model, k, v) for k, v in values.items()]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (tensor(5, shape=(1, 6, 0, 4)), "'maps' has shape (1, 6, 0, 4) and no elements; leave empty tensors out"),
        (tensor(5, shape=(1, 6, -6, 4)), "every dimension must be positive"),
        (tensor(0, shape=(-2, 6, 6, 2)), "every dimension must be positive"),
        (
            tensor(0, shape=(1, -1, 6, 2)),
            "input 'image' has an open dimension, number 1; give it as --shape image=1xNx6x2",
        ),
        (tensor(5, shape=(1, 2**31 - 1, 2**31 - 1, 4)), "needs 18446744056529682436 bytes"),
        (tensor(5, shape=(1, 6, 6, 5)), "'maps' is computed as int8 1x6x6x4, but the file declares int8 1x6x6x5"),
        (tensor(3, scales=(0.0,)), "'kernel' has a scale of 0.0; a scale must be positive and finite"),
        (tensor(5, scales=(float("nan"),)), "scale of nan"),
        (tensor(5, scales=(float("inf"),)), "scale of inf"),
        (tensor(5, scales=(-0.05,)), "a scale must be positive"),
        (tensor(5, zero_points=(128,)), "zero point of 128, outside -128..127"),
        (tensor(5, zero_points=(0, 1)), "1 scales but 2 zero points"),
        (tensor(3, scales=(0.1,) * 3, zero_points=None), "3 scales along axis 0"),
        (tensor(3, scales=(0.1,) * 4, zero_points=None, axis=7), "4 scales along axis 7"),
        (tensor(3, data=b"\1" * 71), "72 bytes, but its buffer holds 71"),
        (tensor(3, data=b"\1" * 73), "72 bytes, but its buffer holds 73"),
        (tensor(3, data=None), "reads 'kernel', which nothing writes and which has no data"),
        (tensor(3, buffer=99), "is in buffer 99 of"),
        (tensor(5, data=b"\1" * 144), "'maps' has constant data but is computed"),
        (tensor(0, data=b"\1" * 72), "'image' has constant data but is computed or given"),
        (op(1, inputs=(2, 3, 99)), "op 1 CONV_2D reads tensor 99 of 12"),
        (op(1, inputs=(2, -2, 4)), "op 1 CONV_2D reads tensor -2 of 12"),
        (op(1, outputs=(-1,)), "op 1 CONV_2D writes tensor -1 of 12"),
        (op(1, inputs=(2, -1, 4)), "it lacks its weights"),
        (op(1, inputs=(2,)), "it has 1 inputs and 1 outputs"),
        (op(1, inputs=()), "it has 0 inputs and 1 outputs"),
        (op(1, outputs=()), "op 1 CONV_2D has no outputs"),
        (op(1, outputs=(5, 6)), "writes tensor 6, which is written already"),
        (op(2, outputs=(5,)), "writes tensor 5, which is written already"),
        (op(2, outputs=(0,)), "writes tensor 0, which is written already"),
        (op(1, inputs=(6, 3, 4)), "reads 'bounded', which op 2 writes only later (a cycle?)"),
        (op(2, inputs=(6,)), "reads 'bounded', which op 2 writes only later"),
        (op(1, table="Pool2DOptions"), "CONV_2D with Pool2DOptions"),
        (op(1, options={"StrideH": 0, "StrideW": 1}), "stride of (0, 1)"),
        (op(1, options={"StrideH": 1, "StrideW": -1}), "stride of (1, -1)"),
        (op(1, options={"StrideH": 1, "StrideW": 1, "DilationHFactor": 2**30}), "dilation of"),
        (op(1, options={"StrideH": 1, "StrideW": 1, "Padding": 9}), "op 1 cannot be read"),
        (op(1, options={"StrideH": 1, "StrideW": 1, "FusedActivationFunction": 77}), "op 1 cannot be read"),
        (op(3, options={"StrideH": 2, "StrideW": 2, "FilterHeight": 2**31 - 1, "FilterWidth": 2}), "kernel of"),
        (op(5, options={"Beta": float("nan")}), "op 5 cannot be read"),
        (op(5, options={"Beta": -1.0}), "beta is -1.0"),
        (op(5, options={"Beta": 1e-8}), "too small"),
        (model(subgraphs=2), "2 subgraphs, one is supported"),
        (model(subgraphs=0), "no subgraph"),
        (model(inputs=(99,)), "the inputs name tensor 99 of 12"),
        (model(outputs=(-1,)), "the outputs name tensor -1 of 12"),
        (model(outputs=()), "no outputs"),
        (model(inputs=()), "no inputs"),
        (model(outputs=(11, 11)), "one of them twice"),
        (model(outputs=(11, 3)), "output 'kernel' is not computed by any op"),
        (model(outputs=(0,)), "output 'image' is not computed by any op"),
        (model(ops=[]), "is not computed by any op"),
    ],
)
def test_a_planted_fault_is_named(change: Change, words: str) -> None:
    assert words in refusal(changed(change))


_UNARY = "ABS COS DEQUANTIZE ELU EXP GELU HARD_SWISH LEAKY_RELU LOG LOGISTIC NEG QUANTIZE RELU RELU6 RSQRT SIN SOFTMAX"


@pytest.mark.parametrize("code", [*_UNARY.split(), "SQRT", "SQUARE", "TANH", "AVERAGE_POOL_2D", "MAX_POOL_2D"])
def test_an_operand_too_many_is_refused(code: str) -> None:
    model = single(code, [int8("x", (1, 4)), int8("z", (1, 4))], [int8("y", (1, 4))])
    assert refusal(model.bytes()) == f"op 0 {code} writing 'y': it has 2 inputs and 1 outputs; {REPORT}"


def test_a_dense_layer_over_parts_of_rows_is_refused() -> None:
    model = single("FULLY_CONNECTED", [int8("x", (3, 4)), int8("w", (2, 8), seed=1)], [int8("y", (1, 2))])
    assert f"'y': its input int8[3x4] does not divide into rows of 8; {REPORT}" in refusal(model.bytes())


def test_the_op_of_a_fault_is_named() -> None:
    assert refusal(changed(tensor(3, scales=(0.0,)))).startswith("op 1 CONV_2D writing 'maps': tensor 'kernel' has")


IMAGE, EMPTY = int8("x", (1, 4, 4, 2)), int8("y", (1, 0, 4, 2))
ONE_ROW = int8("y", (1, 1, 4, 2))
NO_ROWS = [IMAGE, ints("begin", (0, 2, 0, 0)), ints("end", (1, 2, 4, 2)), ints("strides", (1,) * 4)]


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (single("STRIDED_SLICE", NO_ROWS, [EMPTY]), "tensor 'y' has shape (1, 0, 4, 2) and no elements"),
        (single("STRIDED_SLICE", NO_ROWS, [ONE_ROW]), "writing 'y': it selects nothing of a dimension of 4"),
        (
            single("SLICE", [IMAGE, ints("begin", (0,) * 4), ints("size", (1, 0, 4, 2))], [EMPTY]),
            "SLICE writing 'y': tensor 'y' has shape (1, 0, 4, 2) and no elements",
        ),
        (
            single("SLICE", [IMAGE, ints("begin", (0,) * 4), ints("size", (1, 0, 4, 2))], [ONE_ROW]),
            "begin (0, 0, 0, 0) and size (1, 0, 4, 2) select nothing of",
        ),
        (
            single("SLICE", [IMAGE, ints("begin", (0, 4, 0, 0)), ints("size", (1, -1, 4, 2))], [ONE_ROW]),
            "begin (0, 4, 0, 0) and size (1, -1, 4, 2) select nothing of",
        ),
        (
            single("SPLIT_V", [IMAGE, ints("sizes", (0, 4)), ints("axis", (1,))], [EMPTY, int8("z", (1, 4, 4, 2))]),
            "SPLIT_V writing 'y', 'z': tensor 'y' has shape (1, 0, 4, 2) and no elements",
        ),
        (
            single("RELU", [EMPTY], [int8("z", (1, 0, 4, 2))]),
            "RELU writing 'z': tensor 'y' has shape (1, 0, 4, 2) and no elements",
        ),
        (
            single("FULLY_CONNECTED", [int8("x", (1, 4)), int8("w", (0, 4), seed=1)], [int8("y", (1, 0))]),
            "FULLY_CONNECTED writing 'y': tensor 'w' has shape (0, 4) and no elements",
        ),
        (
            single("MEAN", [IMAGE, ints("axes", ())], [int8("y", (1, 4, 4, 2))]),
            "MEAN writing 'y': tensor 'axes' has shape (0,) and no elements",
        ),
    ],
)
def test_a_tensor_without_elements_is_named(model: ModelSpec, words: str) -> None:
    assert words in refusal(model.bytes())


def wide(code: str, weights: TensorSpec, bias_value: int, zero: int = -128, **options: int) -> ModelSpec:
    """A layer of one output whose weights are all 127."""
    weights.data = b"\x7f" * int(np.prod(weights.shape))
    x = int8("x", (1, *weights.shape[1:]) if len(weights.shape) > 2 else (1, weights.shape[1]), zero=zero)
    y = int8("y", (1, 1, 1, 1) if len(weights.shape) > 2 else (1, 1))
    y.scales = (100.0,)
    return single(code, [x, weights, bias("b", 1, bias_value)], [y], **options)


@pytest.mark.parametrize(
    ("model", "fits"),
    [
        (wide("FULLY_CONNECTED", int8("w", (1, 66_000)), 0), True),  # 66,000 * 127 * 255 = 2,137,410,000
        (wide("FULLY_CONNECTED", int8("w", (1, 66_400)), 0), False),  # 2,150,364,000
        (wide("FULLY_CONNECTED", int8("w", (1, 1000)), 2_000_000_000), True),
        (wide("FULLY_CONNECTED", int8("w", (1, 1000)), 2_147_000_000), False),
        (wide("FULLY_CONNECTED", int8("w", (1, 1000)), -(2**31)), True),  # always saturated: a constant
        (wide("FULLY_CONNECTED", int8("w", (1, 1000)), -(2**31), zero=127), False),  # less than -2^31 is possible
        (wide("CONV_2D", int8("w", (1, 83, 80, 10)), 0, StrideH=1, StrideW=1, Padding=1), False),
        (wide("CONV_2D", int8("w", (1, 83, 79, 10)), 0, StrideH=1, StrideW=1, Padding=1), True),
    ],
)
def test_an_accumulator_that_can_leave_int32_is_refused_by_op(model: ModelSpec, fits: bool) -> None:
    if fits:
        assert prepared(model.bytes()).ops
    else:
        words = refusal(model.bytes())
        assert "writing 'y': the accumulator of channel 0 can reach" in words
        assert words.startswith("model: op '")


def scaled(code: str, inputs: int, scale_in: float, scale_out: float, **options: object) -> ModelSpec:
    tensors = [TensorSpec(f"x{i}", (1, 4, 4, 2), scales=(scale_in,)) for i in range(inputs)]
    return single(code, tensors, [TensorSpec("y", (1, 4, 4, 2), scales=(scale_out,))], **options)


@pytest.mark.parametrize(
    ("model", "fits"),
    [
        (scaled("ADD", 2, 1.0, 1.0), True),
        (scaled("ADD", 2, 1.0, 2.0**-18), True),
        (scaled("ADD", 2, 1.0, 2.0**-20), False),
        (scaled("SUB", 2, 1.0, 2.0**-20), False),
        (scaled("MUL", 2, 1.0, 2.0**-12), True),
        (scaled("MUL", 2, 1.0, 2.0**-20), False),
        (scaled("RELU", 1, 1.0, 2.0**-20), True),
        (scaled("RELU", 1, 1.0, 2.0**-25), False),
        (scaled("QUANTIZE", 1, 1.0, 2.0**-25), False),
        (scaled("LEAKY_RELU", 1, 1.0, 1.0, Alpha=0.1), True),
        (scaled("LEAKY_RELU", 1, 1.0, 1.0, Alpha=1e9), False),
        (scaled("PRELU", 2, 1.0, 2.0**-20), False),
    ],
)
def test_a_rescaling_that_can_leave_int32_is_refused_by_op(model: ModelSpec, fits: bool) -> None:
    if fits:
        assert prepared(model.bytes()).ops
    else:
        assert "writing 'y': " in refusal(model.bytes())


def test_a_mean_or_pool_or_softmax_of_too_many_elements_is_refused_by_op() -> None:
    mean = single("MEAN", [int8("x", (1, 4096, 4096, 1)), ints("axes", [1, 2])], [int8("y", (1, 1))])
    probabilities = TensorSpec("y", (1, 4096), scales=(1 / 256,), zero_points=(-128,))
    softmax = single("SOFTMAX", [int8("x", (1, 4096))], [probabilities], Beta=1.0)
    window = {"StrideH": 1, "StrideW": 1, "FilterHeight": 3000, "FilterWidth": 3000, "Padding": 1}
    pool = single("AVERAGE_POOL_2D", [int8("x", (1, 3000, 3000, 1))], [int8("y", (1, 1, 1, 1))], **window)

    fewer = single("MEAN", [int8("x", (1, 3000, 3000, 1)), ints("axes", [1, 2])], [int8("y", (1, 1))])

    assert "a sum of 16777216 elements can leave int32" in refusal(mean.bytes())
    assert "a sum of 9000000 elements can leave int32" in refusal(fewer.bytes())  # at 128 each they would fit
    assert "a sum of 9000000 elements can leave int32" in refusal(pool.bytes())
    assert "a sum of 4096 exponentials can leave int32" in refusal(softmax.bytes())


def test_an_activation_whose_bound_leaves_int32_is_refused() -> None:
    def tiny(model: ModelSpec) -> None:
        model.tensors[5].scales = (1e-10,)
        model.ops[1].options["FusedActivationFunction"] = 3  # RELU6

    assert "op 1 CONV_2D writing 'maps': an activation's bound of 6 does not fit into int32" in refusal(changed(tiny))


def test_weights_with_scales_along_an_axis_that_is_no_output_channel_are_refused() -> None:
    scales = tensor(3, scales=(0.1, 0.2), zero_points=None, axis=3)

    assert "'kernel' have a scale per index of axis 3, not 0" in refusal(changed(scales))


def test_a_file_that_points_to_the_same_bytes_over_and_over_is_refused() -> None:
    name = "x" * 20_000  # once in the file, 400 times in its tensors
    tensors = [TensorSpec(name, (1,), scales=(1.0,)) for _ in range(401)]
    opcodes = [OpSpec("RELU", (i,), (i + 1,)) for i in range(400)]
    data = ModelSpec(tensors, opcodes, (0,), (400,)).bytes()

    assert len(data) < 120_000
    assert "lists longer than the file" in refusal(data)


I8 = int8("x", (1, 4, 4, 2))
NONE = ints("p", [[0, 0]] * 2)


def beside(model: ModelSpec) -> ModelSpec:
    """The model with an input that no op reads."""
    return replace(model, tensors=[*model.tensors, I8], inputs=(len(model.tensors),))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (beside(single("SQRT", [], [int8("y", (1,))])), "it has 0 inputs and 1 outputs"),
        (single("FLOOR_DIV", [I8], [int8("y", (1, 4, 4, 2))]), "it has 1 inputs"),
        (single("LOG_SOFTMAX", [int8("x", ())], [int8("y", ())]), "one dimension at least"),
        (single("DEPTH_TO_SPACE", [int8("x", (4,))], [int8("y", (4,))]), "4 are needed"),
        (single("MIRROR_PAD", [I8, ints("p", [-1] * 8)], [I8]), "numbers from 0 on"),
        (
            single("SPACE_TO_BATCH_ND", [I8, ints("b", [0, 2]), NONE], [I8]),
            "its block shape is (0, 2)",
        ),
        (single("SPACE_TO_BATCH_ND", [I8, ints("b", [2]), NONE], [I8]), "1 pairs of numbers"),
        (single("BATCH_TO_SPACE_ND", [I8, ints("b", [2, 2]), NONE], [I8]), "do not fit"),
        (single("BATCH_MATMUL", [int8("a", (4,)), int8("b", (4,))], [int8("y", ())]), "2 at least are needed"),
        (beside(single("FILL", [ints("s", [1 << 30, 4]), ints("v", [1])], [int8("y", (1,))])), "it fills a shape of"),
        (
            beside(single("RANGE", [ints("a", [0]), ints("b", [9]), ints("c", [0])], [int8("y", (1,))])),
            "has no elements",
        ),
        (single("SHAPE", [I8, I8], [int8("y", (4,))]), "1 are needed"),
    ],
)
def test_operands_that_no_exporter_writes_are_named(model: ModelSpec, words: str) -> None:
    assert words in refusal(model.bytes())


def test_an_operand_that_is_no_tensor_is_named() -> None:
    """uint8 is held as int8 before the ops are looked at."""
    x = TensorSpec("x", (4,), "UINT8", (0.5,), (3,))
    model = ModelSpec([x, TensorSpec("y", (4,), "UINT8", (0.5,), (3,))], [OpSpec("RELU6", (7,), (1,))], (0,), (1,))

    assert "reads tensor 7 of 2" in refusal(model.bytes())
