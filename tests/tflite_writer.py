"""Writes small .tflite files for the importer's tests, sound ones and ones with a planted fault."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import tflite
from flatbuffers import flexbuffers


@dataclass
class TensorSpec:
    name: str
    shape: tuple[int, ...]
    dtype: str = "INT8"
    scales: tuple[float, ...] = ()
    zero_points: tuple[int, ...] | None = None  # None: as many zeros as there are scales
    data: bytes | None = None
    axis: int = 0
    variable: bool = False
    buffer: int | None = None  # a buffer's number in place of the tensor's own
    signature: tuple[int, ...] = ()  # the shape with -1 where a dimension is open


@dataclass
class OpSpec:
    code: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: dict[str, Any] = field(default_factory=dict)  # by the schema's field names; of a custom op, by its own
    custom: str = ""
    table: str = ""  # an options table in place of the op's own


@dataclass
class ModelSpec:
    tensors: list[TensorSpec]
    ops: list[OpSpec]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    subgraphs: int = 1
    others: list[ModelSpec] = field(default_factory=list)  # further subgraphs

    def bytes(self) -> bytes:
        return write(self)


TABLES = {
    "CONV_2D": "Conv2DOptions",
    "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions",
    "TRANSPOSE_CONV": "TransposeConvOptions",
    "FULLY_CONNECTED": "FullyConnectedOptions",
    "AVERAGE_POOL_2D": "Pool2DOptions",
    "MAX_POOL_2D": "Pool2DOptions",
    "ADD": "AddOptions",
    "SUB": "SubOptions",
    "MUL": "MulOptions",
    "DIV": "DivOptions",
    "CONCATENATION": "ConcatenationOptions",
    "SOFTMAX": "SoftmaxOptions",
    "LEAKY_RELU": "LeakyReluOptions",
    "MEAN": "ReducerOptions",
    "RESIZE_NEAREST_NEIGHBOR": "ResizeNearestNeighborOptions",
    "RESIZE_BILINEAR": "ResizeBilinearOptions",
    "STRIDED_SLICE": "StridedSliceOptions",
    "SPLIT": "SplitOptions",
    "PACK": "PackOptions",
    "IF": "IfOptions",
    "WHILE": "WhileOptions",
    "GATHER": "GatherOptions",
    "SVDF": "SVDFOptions",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "UnidirectionalSequenceLSTMOptions",
}


def write(model: ModelSpec) -> bytes:
    """The file's bytes."""
    b = flatbuffers.Builder(1024)
    buffers = [_table(b, "Buffer", {})]
    parts = [model, *model.others]
    codes = list(dict.fromkeys((o.code, o.custom) for part in parts for o in part.ops))
    graphs = [_graph(b, part, buffers, codes) for part in parts]
    subgraphs = [*graphs[:1] * model.subgraphs, *graphs[1:]]
    root = {
        "Version": 3,
        "OperatorCodes": _offsets(b, [_code(b, *c) for c in codes]),
        "Subgraphs": _offsets(b, subgraphs),
        "Buffers": _offsets(b, buffers),
    }
    b.Finish(_table(b, "Model", root), b"TFL3")
    return bytes(b.Output())


def _graph(b: flatbuffers.Builder, model: ModelSpec, buffers: list[int], codes: list[tuple[str, str]]) -> int:
    """A subgraph; its constants are added to the buffers."""
    tensors = []
    for t in model.tensors:
        number = 0
        if t.data is not None:
            number = len(buffers)
            buffers.append(_table(b, "Buffer", {"Data": b.CreateByteVector(t.data)}))
        tensors.append(_tensor(b, t, number if t.buffer is None else t.buffer))
    ops = [_op(b, o, codes.index((o.code, o.custom))) for o in model.ops]
    graph = {
        "Tensors": _offsets(b, tensors),
        "Operators": _offsets(b, ops),
        "Inputs": b.CreateNumpyVector(np.array(model.inputs, np.int32)),
        "Outputs": b.CreateNumpyVector(np.array(model.outputs, np.int32)),
    }
    return _table(b, "SubGraph", graph)


def _table(b: flatbuffers.Builder, name: str, fields: dict[str, Any]) -> int:
    getattr(tflite, f"{name}Start")(b)
    for key, value in fields.items():
        getattr(tflite, f"{name}Add{key}")(b, value)
    end: int = getattr(tflite, f"{name}End")(b)
    return end


def _offsets(b: flatbuffers.Builder, items: Sequence[int]) -> int:
    b.StartVector(4, len(items), 4)
    for item in reversed(items):
        b.PrependUOffsetTRelative(item)
    end: int = b.EndVector()
    return end


def _tensor(b: flatbuffers.Builder, t: TensorSpec, buffer: int) -> int:
    fields: dict[str, Any] = {
        "Shape": b.CreateNumpyVector(np.array(t.shape, np.int32)),
        "Name": b.CreateSharedString(t.name),
    }
    if t.signature:
        fields["ShapeSignature"] = b.CreateNumpyVector(np.array(t.signature, np.int32))
    if t.scales:
        zeros = t.zero_points if t.zero_points is not None else (0,) * len(t.scales)
        quant = {
            "Scale": b.CreateNumpyVector(np.array(t.scales, np.float32)),
            "ZeroPoint": b.CreateNumpyVector(np.array(zeros, np.int64)),
        }
        fields["Quantization"] = _table(b, "QuantizationParameters", {**quant, "QuantizedDimension": t.axis})
    fields |= {"Type": getattr(tflite.TensorType, t.dtype), "Buffer": buffer, "IsVariable": t.variable}
    return _table(b, "Tensor", fields)


def _code(b: flatbuffers.Builder, code: str, custom: str) -> int:
    number = getattr(tflite.BuiltinOperator, code)
    fields: dict[str, Any] = {"BuiltinCode": number, "DeprecatedBuiltinCode": min(number, 127)}
    return _table(b, "OperatorCode", fields | ({"CustomCode": b.CreateString(custom)} if custom else {}))


def _op(b: flatbuffers.Builder, o: OpSpec, code: int) -> int:
    fields: dict[str, Any] = {
        "OpcodeIndex": code,
        "Inputs": b.CreateNumpyVector(np.array(o.inputs, np.int32)),
        "Outputs": b.CreateNumpyVector(np.array(o.outputs, np.int32)),
    }
    if name := o.table or TABLES.get(o.code, ""):
        fields["BuiltinOptions"] = _table(b, name, o.options)
        fields["BuiltinOptionsType"] = getattr(tflite.BuiltinOptions, name)
    elif o.custom:
        fields["CustomOptions"] = b.CreateByteVector(bytes(flexbuffers.Dumps(o.options)))
    return _table(b, "Operator", fields)


SCALE = (0.05,)


def ints(name: str, values: Sequence[int], dtype: str = "INT32") -> TensorSpec:
    """A constant list of integers."""
    array = np.array(values, np.int32 if dtype == "INT32" else np.int64)
    return TensorSpec(name, array.shape, dtype, data=array.tobytes())


def int8(name: str, shape: tuple[int, ...], seed: int | None = None, zero: int = 0) -> TensorSpec:
    """An int8 tensor with one scale, and random constant data where there is a seed."""
    if seed is None:
        return TensorSpec(name, shape, scales=SCALE, zero_points=(zero,))
    data = np.random.default_rng(seed).integers(-127, 128, shape, np.int8).tobytes()
    return TensorSpec(name, shape, scales=SCALE, zero_points=(zero,), data=data)


def bias(name: str, count: int, value: int = 7) -> TensorSpec:
    scale = (SCALE[0] * SCALE[0],)  # tflite_micro insists
    return TensorSpec(name, (count,), "INT32", scale, data=np.full(count, value, np.int32).tobytes())


def single(code: str, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], **options: Any) -> ModelSpec:
    """A model of one op: inputs without data are the model's inputs."""
    tensors = [*inputs, *outputs]
    given = tuple(i for i, t in enumerate(inputs) if t.data is None)
    first = len(inputs)
    written = tuple(range(first, first + len(outputs)))
    return ModelSpec(tensors, [OpSpec(code, tuple(range(first)), written, options)], given, written)


def small_model() -> ModelSpec:
    """Pad, convolution, relu, pool, reshape, dense and softmax: a sound model of about 3 kB."""
    tensors = [
        int8("image", (1, 6, 6, 2), zero=-3),
        ints("paddings", [[0, 0], [1, 1], [1, 1], [0, 0]]),
        int8("padded", (1, 8, 8, 2), zero=-3),
        int8("kernel", (4, 3, 3, 2), seed=1),
        bias("kernel_bias", 4),
        int8("maps", (1, 6, 6, 4)),
        int8("bounded", (1, 6, 6, 4)),
        int8("pooled", (1, 3, 3, 4)),
        int8("matrix", (3, 36), seed=2),
        bias("matrix_bias", 3),
        int8("logits", (1, 3)),
        TensorSpec("probabilities", (1, 3), scales=(1 / 256,), zero_points=(-128,)),
    ]
    window = {"StrideH": 1, "StrideW": 1, "Padding": tflite.Padding.VALID}
    ops = [
        OpSpec("PAD", (0, 1), (2,)),
        OpSpec("CONV_2D", (2, 3, 4), (5,), window),
        OpSpec("RELU", (5,), (6,)),
        OpSpec("MAX_POOL_2D", (6,), (7,), {"StrideH": 2, "StrideW": 2, "FilterHeight": 2, "FilterWidth": 2}),
        OpSpec("FULLY_CONNECTED", (7, 8, 9), (10,)),
        OpSpec("SOFTMAX", (10,), (11,), {"Beta": 1.0}),
    ]
    return ModelSpec(tensors, ops, (0,), (11,))


def changed(change: Callable[[ModelSpec], object]) -> bytes:
    """The small model with something changed."""
    model = small_model()
    change(model)
    return model.bytes()


def stacked_model() -> ModelSpec:
    """Three convolutions and a dense layer: a model of 2 kB with plans of four sizes, in half a second."""
    tensors, ops = [int8("image", (1, 12, 6, 1), zero=-3)], []
    channels = 1
    for number, (outputs, width, height, stride) in enumerate(((4, 6, 12, 1), (8, 6, 12, 1), (2, 3, 6, 2))):
        x, maps = len(tensors) - 1, int8(f"maps{number}", (1, height, width, outputs))
        tensors += [
            int8(f"kernel{number}", (outputs, 3, 3, channels), seed=number),
            bias(f"bias{number}", outputs),
            maps,
        ]
        window = {"StrideH": stride, "StrideW": stride, "Padding": tflite.Padding.SAME}
        ops.append(OpSpec("CONV_2D", (x, x + 1, x + 2), (x + 3,), window))
        channels = outputs
    x = len(tensors) - 1
    tensors += [int8("matrix", (2, 36), seed=3), bias("matrix_bias", 2), int8("logits", (1, 2))]
    ops.append(OpSpec("FULLY_CONNECTED", (x, x + 1, x + 2), (x + 3,)))
    return ModelSpec(tensors, ops, (0,), (x + 3,))
