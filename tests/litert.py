"""The oracle of TFLite's older uint8 models, which tflite_micro does not run: LiteRT with its reference kernels."""

from __future__ import annotations

from collections.abc import Sequence

import flatbuffers
import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from tflite_micro.python.tflite_micro.runtime import schema_fb

from shoehorn_mcu.ir import Array


def run(model: bytes, inputs: Sequence[Array]) -> list[Array]:
    """Every tensor of subgraph 0, by number, after one inference; empty for those that are not used."""
    interpreter = Interpreter(
        model_content=model,
        experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
        experimental_preserve_all_tensors=True,
    )
    interpreter.allocate_tensors()
    for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    parsed = schema_fb.ModelT.InitFromObj(schema_fb.Model.GetRootAsModel(model, 0))
    used = {i for op in parsed.subgraphs[0].operators for i in (*op.inputs, *op.outputs)}
    count = len(parsed.subgraphs[0].tensors)
    return [np.array(interpreter.get_tensor(i)) if i in used else np.empty(0) for i in range(count)]


def as_uint8(model: bytes, weights: int | None, zero: int) -> bytes:
    """A .tflite of int8 as one of uint8: all values and zero points are 128 more.

    The tensor `weights` gets this zero point instead, so that its values less that have up to nine bits.
    """
    parsed = schema_fb.ModelT.InitFromObj(schema_fb.Model.GetRootAsModel(model, 0))
    for number, tensor in enumerate(parsed.subgraphs[0].tensors):
        if tensor.type != schema_fb.TensorType.INT8:
            continue
        tensor.type = schema_fb.TensorType.UINT8
        quant = tensor.quantization
        quant.zeroPoint = [zero if number == weights else z + 128 for z in quant.zeroPoint]
        buffer = parsed.buffers[tensor.buffer]
        if buffer.data is not None:
            buffer.data = np.asarray(buffer.data, np.uint8) ^ 0x80
    builder = flatbuffers.Builder(1024)
    builder.Finish(parsed.Pack(builder), b"TFL3")
    return bytes(builder.Output())
