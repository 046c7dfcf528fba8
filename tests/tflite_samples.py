"""Models of one TensorFlow Lite op each, in all element types: those of the importer's tests, and with other types.

An importer refuses many of these; `gen ops` must then not say that it knows the op in that type.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from shoehorn_mcu import ops
from shoehorn_mcu.importers import ImportFault, Kind
from shoehorn_mcu.importers.tflite.importer import import_tflite
from tests import (
    oracle,
    samples,
    test_detection,
    test_int16,
    test_recurrent,
    test_signal,
    test_tflite_complex,
    test_tflite_real,
)
from tests.onnx_samples import Sample
from tests.tflite_writer import ModelSpec, TensorSpec, bias, int8, ints, single

X = (1, 4, 6, 2)
PER_OP = 6
"""Random graphs of each op."""

MOVED = [
    single("RESHAPE", [int8("x", X), ints("s", (4, 12))], [int8("y", (4, 12))]),
    single("SQUEEZE", [int8("x", X)], [int8("y", X[1:])]),
    single("EXPAND_DIMS", [int8("x", X), ints("a", [0])], [int8("y", (1, *X))]),
    single("PAD", [int8("x", X), ints("p", [[0, 0], [1, 1], [2, 0], [0, 0]])], [int8("y", (1, 6, 8, 2))]),
    single(
        "PADV2",
        [int8("x", X), ints("p", [[0, 0], [1, 1], [2, 0], [0, 0]]), int8("v", (1,), seed=1)],
        [int8("y", (1, 6, 8, 2))],
    ),
    single("CONCATENATION", [int8("x", X), int8("z", X)], [int8("y", (1, 4, 6, 4))], Axis=3),
    single("SPLIT", [ints("a", [-1]), int8("x", X)], [int8(f"y{i}", (1, 4, 6, 1)) for i in (0, 1)], NumSplits=2),
    single(
        "SPLIT_V",
        [int8("x", X), ints("n", [2, 4]), ints("a", [2])],
        [int8(f"y{i}", (1, 4, i, 2)) for i in (2, 4)],
    ),
    single("TILE", [int8("x", X), ints("n", (1, 2, 1, 2))], [int8("y", (1, 8, 6, 4))]),
    single(
        "STRIDED_SLICE",
        [int8("x", X), ints("b", (0, 1, 0, 0)), ints("e", (1, 4, 6, 2)), ints("s", (1, 2, 1, 1))],
        [int8("y", (1, 2, 6, 2))],
    ),
    single("SLICE", [int8("x", X), ints("b", (0, 1, 2, 0)), ints("s", (1, 2, 3, 2))], [int8("y", (1, 2, 3, 2))]),
    single("TRANSPOSE", [int8("x", X), ints("p", (0, 2, 1, 3))], [int8("y", (1, 6, 4, 2))]),
    single("REDUCE_MAX", [int8("x", X), ints("a", (1, 2))], [int8("y", (1, 2))]),
    single("AVERAGE_POOL_2D", [int8("x", X)], [int8("y", X)], FilterHeight=1, FilterWidth=1, StrideH=1, StrideW=1),
    single("MAX_POOL_2D", [int8("x", X)], [int8("y", X)], FilterHeight=1, FilterWidth=1, StrideH=1, StrideW=1),
    single("SOFTMAX", [int8("x", X)], [int8("y", X)], Beta=1.0),
    single("RESIZE_BILINEAR", [int8("x", X), ints("s", (8, 6))], [int8("y", (1, 8, 6, 2))]),
    single("RESIZE_NEAREST_NEIGHBOR", [int8("x", X), ints("s", (8, 6))], [int8("y", (1, 8, 6, 2))]),
    single(
        "CONV_2D",
        [int8("x", X), int8("w", (3, 1, 1, 2), seed=1), bias("b", 3)],
        [int8("y", (1, 4, 6, 3))],
        StrideH=1,
        StrideW=1,
    ),
    single(
        "DEPTHWISE_CONV_2D",
        [int8("x", X), int8("w", (1, 1, 1, 2), seed=1), bias("b", 2)],
        [int8("y", X)],
        StrideH=1,
        StrideW=1,
        DepthMultiplier=1,
    ),
    single("FULLY_CONNECTED", [int8("x", (3, 8)), int8("w", (5, 8), seed=1), bias("b", 5)], [int8("y", (3, 5))]),
    single(
        "TRANSPOSE_CONV",
        [ints("s", (1, 8, 12, 3)), int8("w", (3, 2, 2, 2), seed=1), int8("x", X), bias("b", 3)],
        [int8("y", (1, 8, 12, 3))],
        StrideH=2,
        StrideW=2,
    ),
    *(
        single(code, [TensorSpec("x", X, "FLOAT32")] * 2, [TensorSpec("y", X, "BOOL")])
        for code in ("EQUAL", "NOT_EQUAL")
    ),
    single("GATHER_ND", [int8("x", (3, 4)), TensorSpec("i", (2, 2), "INT32")], [int8("y", (2,))]),
    single("SCATTER_ND", [TensorSpec("i", (2, 2), "INT32"), int8("u", (2,)), ints("s", (3, 4))], [int8("y", (3, 4))]),
    single("RELU", [int8("x", (3, 8))], [int8("y", (3, 8))]),
    single("MEAN", [int8("x", X), ints("a", (1, 2))], [int8("y", (1, 2))]),
]
"""Ops that take any type, and those that take float32, and others to see that they do not."""

CONVERSIONS = [
    (Kind.INT8, single("QUANTIZE", [TensorSpec("x", X, "FLOAT32")], [int8("y", X)])),
    (Kind.INT8, single("QUANTIZE", [int8("x", X)], [int8("y", X, zero=4)])),
    (Kind.INT8, single("DEQUANTIZE", [int8("x", X)], [TensorSpec("y", X, "FLOAT32")])),
    (Kind.INT16, single("QUANTIZE", [TensorSpec("x", X, "FLOAT32")], [TensorSpec("y", X, "INT16", (0.003,))])),
    (Kind.INT16, single("QUANTIZE", [int8("x", X)], [TensorSpec("y", X, "INT16", (0.003,))])),
    (Kind.INT16, single("DEQUANTIZE", [TensorSpec("x", X, "INT16", (0.003,))], [TensorSpec("y", X, "FLOAT32")])),
    *(
        (kind, single(code, [replace(int8(name, X), dtype=dtype, zero_points=(0,)) for name in "xz"], [y]))
        for code in ("BITWISE_XOR", "RIGHT_SHIFT")
        for kind, dtype in ((Kind.INT8, "INT8"), (Kind.INT16, "INT16"))
        for y in [replace(int8("y", X), dtype=dtype, zero_points=(0,))]
    ),
    (Kind.OTHER, single("CAST", [TensorSpec("x", X, "INT32")], [TensorSpec("y", X, "INT16")])),
]


def tflite_samples() -> Iterator[Sample]:
    """Of TensorFlow Lite."""
    for case in test_tflite_real.CASES:
        spec = test_tflite_real.spec(case)[0]
        yield from _typed(spec)
    for spec in MOVED:
        yield from _typed(spec)
    for kind, spec in CONVERSIONS:
        yield _sample(kind, spec)
    for each in test_signal.CASES.values():
        yield Sample(each.code, Kind.OTHER, import_tflite(each.bytes(), "m"))
    for code in ("RFFT2D", "COMPLEX_ABS"):
        model = test_tflite_complex.spectrum((2, 1, 64), (1, 64), "COMPLEX_ABS")
        yield replace(_read(code, Kind.FLOAT32, model), part=code.lower())
    yield _read("TFLite_Detection_PostProcess", Kind.FLOAT32, test_detection.detector(9, 4))
    yield from _random()
    yield from _recurrent()


def _sample(kind: Kind, spec: ModelSpec) -> Sample:
    return _read(spec.ops[0].code, kind, spec.bytes())


def _read(code: str, kind: Kind, model: bytes) -> Sample:
    try:
        return Sample(code, kind, import_tflite(model, "m"))
    except ImportFault as fault:
        return Sample(code, kind, None, why=str(fault))


def _typed(spec: ModelSpec) -> Iterator[Sample]:
    """The model in each element type."""
    real = [t for t in spec.tensors if t.dtype == "FLOAT32" or t.scales]
    if not real:
        yield _sample(Kind.OTHER, spec)
        return
    for kind in Kind:
        made = replace(spec, tensors=[_as(t, kind, spec) if t in real else t for t in spec.tensors])
        yield replace(_sample(kind, made), legal=kind is not Kind.OTHER)


def _as(tensor: TensorSpec, kind: Kind, spec: ModelSpec) -> TensorSpec:
    """The tensor in another element type; constants of a linear op have those that suit it."""
    bias = tensor.dtype == "INT32"
    dtype = {Kind.INT8: "INT8", Kind.INT16: "INT16", Kind.FLOAT32: "FLOAT32", Kind.OTHER: "INT32"}[kind]
    if kind is Kind.INT8 and bias:
        return tensor
    if kind is Kind.INT16 and tensor.data is not None:
        dtype = "INT64" if bias else "INT8" if tensor.scales and tensor.name == "w" else dtype
    scales, zeros = {Kind.INT8: ((0.05,), (3,)), Kind.INT16: ((0.0003,), (0,))}.get(kind, ((), None))
    code = spec.ops[0].code
    if tensor.data is not None:
        zeros = ((3,) if tensor.name == "v" and kind is Kind.INT8 else (0,)) if scales else None
    if tensor.name.startswith("y") and scales:
        if code in ("SOFTMAX", "LOGISTIC"):
            scales, zeros = ((1 / 256,), (-128,)) if kind is Kind.INT8 else ((2.0**-15,), (0,))
        if code == "LOG_SOFTMAX" and kind is Kind.INT8:
            scales, zeros = (1 / 16,), (127,)
        if code == "TANH":
            scales, zeros = ((1 / 128,), (0,)) if kind is Kind.INT8 else ((2.0**-15,), (0,))
    data = tensor.data
    if data is not None:
        count = int(np.prod(tensor.shape))
        data = np.arange(1, count + 1).astype(np.float32 if dtype == "FLOAT32" else dtype.lower()).tobytes()
    return replace(tensor, dtype=dtype, scales=() if dtype == "INT64" else scales, zero_points=zeros, data=data)


def _random() -> Iterator[Sample]:
    """Random graphs of each op, as they are, in int16 and in float32."""
    for op in ops.MODEL_OPS:
        for number in range(PER_OP):
            rng = np.random.default_rng(number)
            graph = samples.sample(op, rng)
            try:
                model = oracle.to_tflite(graph)
            except ValueError:
                continue
            code = _code(model)
            yield _read(code, Kind.INT8, model)
            if op in test_int16.INT16_OPS and op is not ops.Pad:
                fixed = {ops.Softmax: test_int16.STEP, ops.Logistic: test_int16.STEP, ops.Tanh: test_int16.STEP}.get(op)
                linear = op in samples.INT16_OPS
                yield _read(code, Kind.INT16, test_int16.as_int16(model, rng, linear, "INT64", fixed))
            if op in samples.REAL_OPS:
                yield _read(code, Kind.FLOAT32, oracle.to_tflite(samples.as_float32(graph, rng)))


def _code(model: bytes) -> str:
    from tests.oracle import schema_fb

    parsed = test_int16.read(model)
    number = parsed.operatorCodes[0].builtinCode
    return next(n for n, v in vars(schema_fb.BuiltinOperator).items() if v == number)


def _recurrent() -> Iterator[Sample]:
    rng = np.random.default_rng(0)
    for wide, kind in ((False, Kind.INT8), (True, Kind.INT16)):
        yield _sample(kind, test_recurrent.lstm(rng, 1, 3, 4, 2, wide=wide))
    for dtype, kind in (("INT8", Kind.INT8), ("INT16", Kind.INT8), ("FLOAT32", Kind.FLOAT32)):
        yield _sample(kind, test_recurrent.svdf(rng, 1, 4, 3, 2, 5, dtype))
    spec = test_recurrent.lstm(rng, 1, 3, 4, 2)
    for number, tensor in enumerate(spec.tensors):
        data = None if tensor.data is None else rng.normal(0, 0.5, tensor.shape).astype(np.float32).tobytes()
        spec.tensors[number] = TensorSpec(tensor.name, tensor.shape, "FLOAT32", data=data, variable=tensor.variable)
    yield _sample(Kind.FLOAT32, spec)
