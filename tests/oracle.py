"""The outside oracle: PyPI's tflite_micro, and the .tflite file that says a one-op graph.

`to_tflite` shares nothing with the importer: both fields and flatbuffer come from the graph's own description.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping
from typing import Any
from unittest.mock import patch

import flatbuffers
import numpy as np
from samples import same_padding
from tflite_micro.python.tflite_micro import runtime
from tflite_micro.python.tflite_micro.runtime import schema_fb

from shoehorn_mcu import ops
from shoehorn_mcu.ir import Array, DType, Graph, Node, Op, Quant, TensorType

ARENA_BYTES = 8 << 20

Inputs = list[int]
Options = tuple[str, dict[str, Any]] | None

_TYPES = {
    DType.INT8: "INT8",
    DType.UINT8: "UINT8",
    DType.INT16: "INT16",
    DType.INT32: "INT32",
    DType.INT64: "INT64",
    DType.FLOAT32: "FLOAT32",
    DType.BOOL: "BOOL",
}


def run(model: bytes, inputs: Mapping[int, Array] | list[Array], arena_bytes: int = ARENA_BYTES) -> dict[int, Array]:
    """Every tensor of subgraph 0 that is no constant, after one inference of `inputs` (in the model's order)."""
    parsed = schema_fb.ModelT.InitFromObj(schema_fb.Model.GetRootAsModel(model, 0))
    variables = [i for i, t in enumerate(parsed.subgraphs[0].tensors) if parsed.buffers[t.buffer].data is None]
    arrays = list(inputs.values()) if isinstance(inputs, Mapping) else inputs
    return _run(model, arrays, variables, arena_bytes, runtime.count_resource_variables(parsed))


def _run(model: bytes, inputs: list[Array], read: list[int], arena_bytes: int, states: int) -> dict[int, Array]:
    """The tensors `read`; `states`: the number of the model's variables, for which the package would parse it again."""
    with patch.object(runtime, "count_resource_variables", lambda _: states):
        interpreter = runtime.Interpreter.from_bytes(
            model, arena_size=arena_bytes, intrepreter_config=runtime.InterpreterConfig.kPreserveAllTensors
        )
    for index, array in enumerate(inputs):
        interpreter.set_input(array, index)
    interpreter.invoke()
    return {i: np.array(interpreter.GetTensor(i, 0)["tensor_data"]) for i in read}


def run_graph(graph: Graph, inputs: Mapping[str, Array]) -> Array:
    """The output of a one-op graph as tflite_micro computes it."""
    output = list(graph.tensors).index(graph.outputs[0])
    tensors = _run(to_tflite(graph), [inputs[n] for n in graph.inputs], [output], ARENA_BYTES, 0)
    return tensors[output].reshape(graph.tensors[graph.outputs[0]].type.shape)


def to_tflite(graph: Graph) -> bytes:
    """A .tflite of the graph's ops; its tensors come first, in their order, then what options become tensors.

    Raises ValueError for attributes that no TFLite op has (an explicit padding that is neither SAME nor VALID).
    """
    return _Writer(graph).bytes()


class _Writer:
    """A model under construction."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._model = schema_fb.ModelT()
        self._model.version = 3
        self._model.buffers = [schema_fb.BufferT()]
        self._model.operatorCodes = []
        self._subgraph = schema_fb.SubGraphT()
        self._subgraph.tensors = []
        self._subgraph.operators = []
        for tensor in graph.tensors.values():
            self.tensor(tensor.name, tensor.type, tensor.data)

    def bytes(self) -> bytes:
        names = list(self._graph.tensors)
        for node in self._graph.nodes():
            indices = [names.index(t.name) for t in node.inputs]
            code, inputs, options = _SAYINGS.get(type(node.op), _by_name)(self, node, indices)
            self._operator(code, inputs, names.index(node.output.name), options)
        self._subgraph.inputs = [names.index(n) for n in self._graph.inputs]
        self._subgraph.outputs = [names.index(n) for n in self._graph.outputs]
        self._model.subgraphs = [self._subgraph]
        builder = flatbuffers.Builder(1024)
        builder.Finish(self._model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def tensor(self, name: str, kind: TensorType, data: Array | None) -> int:
        """Adds a tensor; returns its index."""
        tensor = schema_fb.TensorT()
        tensor.name, tensor.shape = name, list(kind.shape)
        tensor.type = getattr(schema_fb.TensorType, _TYPES[kind.dtype])
        tensor.quantization = _quantization(kind.quant)
        if data is not None:
            buffer = schema_fb.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
            tensor.buffer = len(self._model.buffers)
            self._model.buffers.append(buffer)
        self._subgraph.tensors.append(tensor)
        return len(self._subgraph.tensors) - 1

    def numbers(self, *values: int) -> int:
        """Adds an int32 constant vector; returns its index."""
        return self.tensor(
            f"const{len(self._subgraph.tensors)}",
            TensorType((len(values),), DType.INT32),
            np.array(values, np.int32),
        )

    def _operator(self, code: str, inputs: Inputs, output: int, options: Options) -> None:
        operator_code = schema_fb.OperatorCodeT()
        operator_code.builtinCode = getattr(schema_fb.BuiltinOperator, code)
        operator_code.deprecatedBuiltinCode = min(operator_code.builtinCode, 127)
        operator_code.version = 1
        operator = schema_fb.OperatorT()
        operator.opcodeIndex = len(self._model.operatorCodes)
        operator.inputs, operator.outputs = inputs, [output]
        if options:
            name, fields = options
            operator.builtinOptionsType = getattr(schema_fb.BuiltinOptions, name)
            operator.builtinOptions = getattr(schema_fb, name + "T")()
            for field, value in fields.items():
                assert hasattr(operator.builtinOptions, field), field
                setattr(operator.builtinOptions, field, value)
        self._model.operatorCodes.append(operator_code)
        self._subgraph.operators.append(operator)


def _quantization(quant: Quant | None) -> Any:
    if quant is None:
        return None
    result = schema_fb.QuantizationParametersT()
    result.scale, result.zeroPoint = list(quant.scales), list(quant.zero_points)
    result.quantizedDimension = quant.axis or 0
    return result


def _activation(op: ops.Clamped, output: TensorType) -> int:
    """The fused activation whose bounds, stored or real, are the op's."""
    clamp = op.clamp
    if isinstance(clamp, ops.RealClamp):
        real = {ops.RealClamp(): "NONE", ops.RealClamp(0.0): "RELU", ops.RealClamp(0.0, 6.0): "RELU6"}
        return int(getattr(schema_fb.ActivationFunctionType, real[clamp]))
    quant = output.quantised
    zero, six = quant.zero_point, math.floor(np.float32(6) / np.float32(quant.scale) + 0.5)
    bounds = {
        ops.Clamp(max(-128, zero), min(127, zero + six)): "RELU6",
        ops.Clamp(max(-128, zero), 127): "RELU",
        ops.Clamp(): "NONE",
    }
    return int(getattr(schema_fb.ActivationFunctionType, bounds[clamp]))


def _padding(padding: ops.Padding, *sides: tuple[int, int, int, int]) -> int:
    """SAME or VALID; `sides` are (size, kernel, stride, dilation) down and across."""
    if padding == ops.Padding():
        return int(schema_fb.Padding.VALID)
    (top, bottom), (left, right) = (same_padding(*side) for side in sides)
    if padding != ops.Padding(top, bottom, left, right):
        raise ValueError(f"{padding} is neither SAME nor VALID")
    return int(schema_fb.Padding.SAME)


def _window(
    op: Any, size: tuple[int, ...], kernel: tuple[int, ...], dilation: tuple[int, int] = (1, 1)
) -> dict[str, Any]:
    sides = tuple((size[i], kernel[i], op.stride[i], dilation[i]) for i in (0, 1))
    return {"padding": _padding(op.padding, *sides), "strideH": op.stride[0], "strideW": op.stride[1]}


def _conv(w: _Writer, node: Node, inputs: Inputs) -> tuple[str, Inputs, Options]:
    op, x, weights = node.op, node.inputs[0].type, node.inputs[1].type
    assert isinstance(op, ops.Conv2d | ops.DepthwiseConv2d)
    fields = _window(op, x.shape[1:3], weights.shape[1:3], op.dilation)
    fields |= {"dilationHFactor": op.dilation[0], "dilationWFactor": op.dilation[1]}
    fields["fusedActivationFunction"] = _activation(op, node.output.type)
    if isinstance(op, ops.Conv2d):
        return "CONV_2D", inputs, ("Conv2DOptions", fields)
    fields["depthMultiplier"] = weights.shape[3] // x.shape[3]
    return "DEPTHWISE_CONV_2D", inputs, ("DepthwiseConv2DOptions", fields)


def _transpose_conv(w: _Writer, node: Node, inputs: Inputs) -> tuple[str, Inputs, Options]:
    op, weights = node.op, node.inputs[1].type
    assert isinstance(op, ops.TransposeConv2d)
    fields = _window(op, op.output_shape[1:3], weights.shape[1:3])
    fields["fusedActivationFunction"] = _activation(op, node.output.type)
    x, weight, bias = inputs
    return "TRANSPOSE_CONV", [w.numbers(*op.output_shape), weight, x, bias], ("TransposeConvOptions", fields)


def _dense(w: _Writer, node: Node, inputs: Inputs) -> tuple[str, Inputs, Options]:
    assert isinstance(node.op, ops.Dense)
    fields = {
        "fusedActivationFunction": _activation(node.op, node.output.type),
        "keepNumDims": len(node.output.type.shape) != 2,
    }
    return "FULLY_CONNECTED", inputs, ("FullyConnectedOptions", fields)


def _pool(code: str) -> Callable[[_Writer, Node, Inputs], tuple[str, Inputs, Options]]:
    def say(w: _Writer, node: Node, inputs: Inputs) -> tuple[str, Inputs, Options]:
        op = node.op
        assert isinstance(op, ops.Pool2d)
        fields = _window(op, node.inputs[0].type.shape[1:3], op.kernel)
        fields |= {"filterHeight": op.kernel[0], "filterWidth": op.kernel[1]}
        fields["fusedActivationFunction"] = _activation(op, node.output.type)
        return code, inputs, ("Pool2DOptions", fields)

    return say


def _fused(code: str, options: str) -> Callable[[_Writer, Node, Inputs], tuple[str, Inputs, Options]]:
    def say(w: _Writer, node: Node, inputs: Inputs) -> tuple[str, Inputs, Options]:
        assert isinstance(node.op, ops.Binary)
        activation = _activation(node.op, node.output.type)
        return code, inputs, (options, {"fusedActivationFunction": activation})

    return say


def _plain(
    code: str, options: str | None = None, **fields: Callable[[Any], Any]
) -> Callable[[_Writer, Node, Inputs], tuple[str, Inputs, Options]]:
    """An op whose option fields are functions of our op."""

    def say(w: _Writer, node: Node, inputs: Inputs) -> tuple[str, Inputs, Options]:
        return code, inputs, (options, {k: f(node.op) for k, f in fields.items()}) if options else None

    return say


def _vector(
    code: str, values: Callable[[Any], tuple[int, ...]], options: str | None = None, **fields: Callable[[Any], Any]
) -> Callable[[_Writer, Node, Inputs], tuple[str, Inputs, Options]]:
    """As `_plain`, with one more input: an int32 vector that is a function of our op."""

    def say(w: _Writer, node: Node, inputs: Inputs) -> tuple[str, Inputs, Options]:
        _, _, said = _plain(code, options, **fields)(w, node, inputs)
        return code, [*inputs, w.numbers(*values(node.op))], said

    return say


def _pad(w: _Writer, node: Node, inputs: Inputs) -> tuple[str, Inputs, Options]:
    op, x = node.op, node.inputs[0].type
    assert isinstance(op, ops.Pad)
    pairs = np.array(list(zip(op.before, op.after, strict=True)), np.int32)
    paddings = w.tensor("paddings", TensorType(pairs.shape, DType.INT32), pairs)
    if op.value == x.quantised.zero_point:
        return "PAD", [*inputs, paddings], ("PadOptions", {})
    value = w.tensor("value", TensorType((1,), x.dtype, x.quant), np.array([op.value], x.dtype.numpy))
    return "PADV2", [*inputs, paddings, value], ("PadV2Options", {})


def _slice(w: _Writer, node: Node, inputs: Inputs) -> tuple[str, Inputs, Options]:
    op = node.op
    assert isinstance(op, ops.Slice)
    ends = [b + size * step for b, size, step in zip(op.begin, op.size, op.step, strict=True)]
    # An end before the first element cannot be said as a number, which would count from the back.
    mask = sum(1 << d for d, end in enumerate(ends) if end < 0)
    vectors = [w.numbers(*op.begin), w.numbers(*ends), w.numbers(*op.step)]
    return "STRIDED_SLICE", [*inputs, *vectors], ("StridedSliceOptions", {"endMask": mask})


def _by_name(w: _Writer, node: Node, inputs: Inputs) -> tuple[str, Inputs, Options]:
    """An op whose TFLite name, options table and fields are its own name and attributes (`Gelu.approximate`)."""
    name, common = type(node.op).__name__, {field.name for field in dataclasses.fields(Op)}
    code = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper()
    values = {f.name: getattr(node.op, f.name) for f in dataclasses.fields(node.op) if f.name not in common}
    return code, inputs, (f"{name}Options", values) if values else None


_RESIZE: dict[str, Callable[[Any], Any]] = {
    "alignCorners": lambda op: op.align_corners,
    "halfPixelCenters": lambda op: op.half_pixel_centers,
}

_SAYINGS: dict[type[Op], Callable[[_Writer, Node, Inputs], tuple[str, Inputs, Options]]] = {
    ops.Conv2d: _conv,
    ops.DepthwiseConv2d: _conv,
    ops.TransposeConv2d: _transpose_conv,
    ops.Dense: _dense,
    ops.Add: _fused("ADD", "AddOptions"),
    ops.Sub: _fused("SUB", "SubOptions"),
    ops.Mul: _fused("MUL", "MulOptions"),
    ops.Maximum: _plain("MAXIMUM", "MaximumMinimumOptions"),
    ops.Minimum: _plain("MINIMUM", "MaximumMinimumOptions"),
    ops.Prelu: _plain("PRELU"),
    ops.Logistic: _plain("LOGISTIC"),
    ops.Tanh: _plain("TANH"),
    ops.HardSwish: _plain("HARD_SWISH", "HardSwishOptions"),
    ops.Relu: _plain("RELU"),
    ops.Relu6: _plain("RELU6"),
    ops.LeakyRelu: _plain("LEAKY_RELU", "LeakyReluOptions", alpha=lambda op: op.alpha),
    ops.Requantize: _plain("QUANTIZE", "QuantizeOptions"),
    ops.Quantize: _plain("QUANTIZE", "QuantizeOptions"),
    ops.Dequantize: _plain("DEQUANTIZE", "DequantizeOptions"),
    ops.AveragePool2d: _pool("AVERAGE_POOL_2D"),
    ops.MaxPool2d: _pool("MAX_POOL_2D"),
    ops.Mean: _vector("MEAN", lambda op: op.axes, "ReducerOptions", keepDims=lambda op: op.keep_dims),
    ops.Softmax: _plain("SOFTMAX", "SoftmaxOptions", beta=lambda op: op.beta),
    ops.ResizeNearest: _vector(
        "RESIZE_NEAREST_NEIGHBOR", lambda op: op.size, "ResizeNearestNeighborOptions", **_RESIZE
    ),
    ops.ResizeBilinear: _vector("RESIZE_BILINEAR", lambda op: op.size, "ResizeBilinearOptions", **_RESIZE),
    ops.Reshape: _vector("RESHAPE", lambda op: op.shape, "ReshapeOptions", newShape=lambda op: list(op.shape)),
    ops.Pad: _pad,
    ops.Concat: _plain("CONCATENATION", "ConcatenationOptions", axis=lambda op: op.axis),
    ops.Slice: _slice,
    ops.Transpose: _vector("TRANSPOSE", lambda op: op.perm, "TransposeOptions"),
}
