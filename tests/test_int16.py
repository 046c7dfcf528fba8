"""TFLite's int16 activations with int8 weights: the bytes of tflite_micro."""

from __future__ import annotations

import zlib
from dataclasses import replace

import flatbuffers
import litert
import numpy as np
import oracle
import pytest
import samples
from runtime import run_portable, run_reference
from test_uint8 import values_of
from tflite_micro.python.tflite_micro.runtime import schema_fb
from tflite_writer import TensorSpec, single, small_model

from shoehorn_mcu import ops
from shoehorn_mcu.importers import UnsupportedModel
from shoehorn_mcu.importers.tflite.importer import import_tflite
from shoehorn_mcu.ir import Array, DType, Graph, Op
from shoehorn_mcu.ops.sigmoid16 import sigmoid16
from shoehorn_mcu.passes import prove_int32, run

CASES = 25
INT16_OPS: tuple[type[Op], ...] = (
    *samples.INT16_OPS,
    ops.Add,
    ops.Sub,
    ops.Mul,
    ops.AveragePool2d,
    ops.MaxPool2d,
    ops.Mean,
    ops.Softmax,
    ops.Logistic,
    ops.Tanh,
    ops.Relu,
    ops.Relu6,
    ops.LeakyRelu,
    ops.Reshape,
    ops.Pad,
    ops.Concat,
    ops.Slice,
    ops.Transpose,
)
STEP = 2.0**-15


def read(model: bytes) -> schema_fb.ModelT:
    return schema_fb.ModelT.InitFromObj(schema_fb.Model.GetRootAsModel(model, 0))


def written(parsed: schema_fb.ModelT) -> bytes:
    builder = flatbuffers.Builder(1024)
    builder.Finish(parsed.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def as_int16(model: bytes, rng: samples.Rng, linear: bool, bias: str, y: float | None) -> bytes:
    """A .tflite of int8 as one of int16: scales are 256 times finer, zero points 0.

    Weights of a linear op stay int8, and its bias gets another type. `y`: the output's scale.
    """
    parsed = read(model)
    graph = parsed.subgraphs[0]
    for number, tensor in enumerate(graph.tensors):
        buffer = parsed.buffers[tensor.buffer]
        if linear and number == 2:
            tensor.type = getattr(schema_fb.TensorType, bias)
            tensor.quantization.scale = [scale / 256 for scale in tensor.quantization.scale]
            wide = np.frombuffer(np.asarray(buffer.data, np.uint8).tobytes(), np.int32).astype(np.int64) * 200
            buffer.data = np.frombuffer(wide.astype(bias.lower()).tobytes(), np.uint8)
        elif tensor.type == schema_fb.TensorType.INT8 and not (linear and number == 1):
            tensor.type = schema_fb.TensorType.INT16
            quant = tensor.quantization
            quant.scale = [scale / 256 for scale in quant.scale]
            quant.zeroPoint = [0] * len(quant.scale)
            if buffer.data is not None:
                count = len(buffer.data)
                buffer.data = np.frombuffer(rng.integers(-30000, 30000, count, np.int16).tobytes(), np.uint8)
            if y is not None and number in graph.outputs:
                quant.scale = [y]
    return written(parsed)


def both(op_class: type[Op], case: int, bias: str = "INT64") -> tuple[Graph, Array, Array]:
    """A random graph of the op as it is imported, its output, and tflite_micro's."""
    rng = np.random.default_rng([zlib.crc32(op_class.__name__.encode()), case])
    graph = samples.sample(op_class, rng)
    if op_class is ops.Pad:
        (pad,) = graph.ops
        graph = replace(graph, ops=(replace(pad, value=graph.tensors["x0"].type.quantised.zero_point),))
    fixed = {ops.Softmax: STEP, ops.Logistic: STEP, ops.Tanh: STEP}.get(op_class)
    model = as_int16(oracle.to_tflite(graph), rng, op_class in samples.INT16_OPS, bias, fixed)
    imported = import_tflite(model, "int16")
    inputs = {n: rng.integers(-(1 << 15), 1 << 15, imported.tensors[n].type.shape, np.int16) for n in imported.inputs}
    theirs = oracle.run(model, list(inputs.values()))[list(graph.tensors).index("y")]
    ours = values_of(imported, inputs)["y"]
    return imported, ours, theirs.reshape(ours.shape)


@pytest.mark.parametrize("op_class", INT16_OPS, ids=lambda c: c.__name__)
def test_a_random_graph_gives_the_bytes_of_tflite_micro(op_class: type[Op]) -> None:
    compared = 0
    for case in range(CASES):
        try:
            imported, ours, theirs = both(op_class, case)
        except UnsupportedModel as refused:
            assert "overflow" in str(refused)
            continue
        assert imported.tensors["y"].type.dtype is DType.INT16
        np.testing.assert_array_equal(ours, theirs, err_msg=f"case {case}", strict=True)
        compared += 1
    assert compared > CASES // 2


def test_a_transpose_convolution_with_an_int16_bias_gives_the_bytes_of_tflite_micro() -> None:
    for case in range(CASES):
        _, ours, theirs = both(ops.TransposeConv2d, case, "INT16")
        np.testing.assert_array_equal(ours, theirs, err_msg=f"case {case}", strict=True)


def test_a_transpose_convolution_with_an_int32_bias_gives_the_bytes_of_litert() -> None:
    """tflite_micro has no such kernel; LiteRT has, for files whose options name the bias's type."""
    for case in range(CASES):
        rng = np.random.default_rng(case)
        graph = samples.sample(ops.TransposeConv2d, rng)
        parsed = read(as_int16(oracle.to_tflite(graph), rng, True, "INT32", None))
        parsed.subgraphs[0].operators[0].builtinOptions.quantizedBiasType = schema_fb.TensorType.INT32
        model = written(parsed)
        imported = import_tflite(model, "int16")
        x = rng.integers(-(1 << 15), 1 << 15, imported.tensors["x0"].type.shape, np.int16)
        theirs = litert.run(model, [x])[list(graph.tensors).index("y")]
        np.testing.assert_array_equal(values_of(imported, {"x0": x})["y"], theirs, err_msg=f"case {case}", strict=True)


@pytest.mark.parametrize("op_class", [ops.Conv2d, ops.Dense], ids=lambda c: c.__name__)
def test_sums_with_an_int32_bias_are_rounded_as_those_of_int8(op_class: type[Op]) -> None:
    for case in range(CASES):
        _, ours, theirs = both(op_class, case, "INT32")
        np.testing.assert_array_equal(ours, theirs, err_msg=f"case {case}", strict=True)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (TensorSpec("x", (1, 500), "FLOAT32"), TensorSpec("y", (1, 500), "INT16", (0.003,))),
        (TensorSpec("x", (1, 500), "INT16", (0.003,)), TensorSpec("y", (1, 500), "INT8", (0.7,), (-9,))),
        (TensorSpec("x", (1, 500), "INT8", (0.7,), (-9,)), TensorSpec("y", (1, 500), "INT16", (0.003,))),
        (TensorSpec("x", (1, 500), "INT16", (0.003,)), TensorSpec("y", (1, 500), "INT16", (0.0041,))),
        (TensorSpec("x", (1, 500), "INT16", (0.003,)), TensorSpec("y", (1, 500), "FLOAT32")),
        (TensorSpec("x", (1, 500), "INT32", (1.5e-7,)), TensorSpec("y", (1, 500), "INT16", (0.0009,))),
        (TensorSpec("x", (1, 500), "INT32", (1.5e-8,)), TensorSpec("y", (1, 500), "INT8", (0.7,), (-9,))),
        (TensorSpec("x", (1, 500), "INT16", (0.0009,)), TensorSpec("y", (1, 500), "INT32", (1.5e-7,))),
        (TensorSpec("x", (1, 500), "INT16", (2.0**-16,), (-32768,)), TensorSpec("y", (1, 500), "INT32", (3e-5,))),
        (TensorSpec("x", (1, 500), "INT8", (0.7,), (-9,)), TensorSpec("y", (1, 500), "INT32", (0.003,))),
    ],
    ids=lambda t: t.dtype,
)
def test_conversions_give_the_bytes_of_tflite_micro(x: TensorSpec, y: TensorSpec) -> None:
    model = single("DEQUANTIZE" if y.dtype == "FLOAT32" else "QUANTIZE", [x], [y]).bytes()
    graph, rng = import_tflite(model, "conversion"), np.random.default_rng(3)
    kind = graph.tensors["x"].type.dtype.numpy
    halves = (rng.integers(-70000, 70000, (1, 500)) * np.float32(0.0015)).astype(np.float32)
    data = halves if kind == np.float32 else rng.integers(*DType(kind.name).limits, (1, 500), kind, endpoint=True)
    np.testing.assert_array_equal(values_of(graph, {"x": data})["y"], oracle.run(model, [data])[1], strict=True)


@pytest.mark.parametrize("channels", [2, 40, 4000])
def test_a_softmax_of_int8_as_int16_gives_the_bytes_of_tflite_micro(channels: int) -> None:
    rng = np.random.default_rng(channels)
    for scale in (0.07, 0.004, 1.5):
        x = TensorSpec("x", (2, channels), "INT8", (scale,), (2,))
        y = TensorSpec("y", (2, channels), "INT16", (2.0**-16,), (-32768,))
        model = single("SOFTMAX", [x], [y], Beta=1.0).bytes()
        graph = import_tflite(model, "softmax")
        data = rng.integers(-128, 128, x.shape, np.int8)
        theirs = oracle.run(model, [data])[1]
        np.testing.assert_array_equal(values_of(graph, {"x": data})["y"], theirs, strict=True)
        for runtime in (run_reference, run_portable):
            np.testing.assert_array_equal(runtime(graph, [data])["y"], theirs, strict=True)


def test_a_computed_shape_of_a_transpose_convolution_is_that_of_its_output() -> None:
    """tflite-micro reads the output's shape; in its own tests the other one is an input of the model."""
    graph = samples.sample(ops.TransposeConv2d, np.random.default_rng(0))
    parsed = read(as_int16(oracle.to_tflite(graph), np.random.default_rng(0), True, "INT64", None))
    subgraph = parsed.subgraphs[0]
    place = subgraph.operators[0].inputs[0]
    shape = np.frombuffer(bytes(bytearray(parsed.buffers[subgraph.tensors[place].buffer].data)), np.int32)
    subgraph.tensors[place].buffer = 0
    subgraph.inputs = [place, *subgraph.inputs]
    model = written(parsed)
    imported = import_tflite(model, "shape")
    name, x = imported.inputs
    data = np.random.default_rng(1).integers(-(1 << 15), 1 << 15, imported.tensors[x].type.shape, np.int16)
    theirs = oracle.run(model, [shape, data])[list(graph.tensors).index("y")]
    ours = values_of(imported, {name: shape, x: data})["y"]
    np.testing.assert_array_equal(ours, theirs.reshape(ours.shape), strict=True)


def small() -> bytes:
    """Padding, a convolution, an activation, a pool, a dense layer and softmax."""
    model = small_model()
    for number, tensor in enumerate(model.tensors):
        if tensor.dtype == "INT8" and number not in (3, 8):
            tensor.dtype, tensor.zero_points = "INT16", (0,)
            tensor.scales = (STEP,) if tensor.name == "probabilities" else (0.05 / 256,)
        elif number in (4, 9):
            data = np.frombuffer(tensor.data or b"", np.int32).astype(np.int64) * 200
            tensor.dtype, tensor.data, tensor.scales = "INT64", data.tobytes(), (0.05 * 0.05 / 256,)
    return model.bytes()


def test_all_tensors_of_a_model_and_its_optimised_graph_have_the_bytes_of_tflite_micro() -> None:
    graph, rng = import_tflite(small(), "small"), np.random.default_rng(5)
    optimised = prove_int32(run(graph)[0])
    (name,), (result,) = graph.inputs, graph.outputs
    for _ in range(5):
        x = rng.integers(-9000, 9000, graph.tensors[name].type.shape, np.int16)
        theirs, ours = oracle.run(small(), [x]), values_of(graph, {name: x})
        for number, tensor in enumerate(small_model().tensors):
            if number in theirs and tensor.name in ours:
                np.testing.assert_array_equal(ours[tensor.name], theirs[number].reshape(ours[tensor.name].shape))
        for runtime in (run_reference, run_portable):
            np.testing.assert_array_equal(runtime(optimised, [x])[result], ours[result], strict=True)


def test_the_sigmoid_of_lstms_gives_the_bytes_of_tflite_micro_for_every_value() -> None:
    """Its LOGISTIC computes the same where a step is 2^-12."""
    every = np.arange(-(1 << 15), 1 << 15, dtype=np.int16)
    x, y = (TensorSpec(name, (1, every.size), "INT16", (scale,)) for name, scale in (("x", 2.0**-12), ("y", STEP)))
    theirs = oracle.run(single("LOGISTIC", [x], [y]).bytes(), [every.reshape(1, -1)])[1]

    np.testing.assert_array_equal(sigmoid16(every.astype(np.int64)), theirs.reshape(-1))


@pytest.mark.parametrize(
    ("code", "tensors", "reason"),
    [
        ("LOGISTIC", [("x", 0.01, 0), ("y", 0.01, 0)], "2^-15 is needed"),
        ("SOFTMAX", [("x", 0.01, 0), ("y", 0.01, 0)], "2^-15 is needed"),
        ("RELU", [("x", 0.01, 3), ("y", 0.01, 0)], "with zero point 3"),
        ("LEAKY_RELU", [("x", 0.01, 0), ("y", 1e-8, 0)], "overflow int32"),
        ("ADD", [("x", 0.01, 0), ("z", 0.01, 0), ("y", 1e-7, 0)], "below 1 is needed"),
    ],
)
def test_what_int16_cannot_say_is_refused(code: str, tensors: list[tuple[str, float, int]], reason: str) -> None:
    *inputs, y = (TensorSpec(name, (1, 8), "INT16", (scale,), (zero,)) for name, scale, zero in tensors)
    with pytest.raises(UnsupportedModel) as refused:
        import_tflite(single(code, inputs, [y]).bytes(), "model")
    assert reason in str(refused.value)
