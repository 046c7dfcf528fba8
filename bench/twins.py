"""Float32 twins of int8 models whose float32 originals are not published: the same weights, activations in float32."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx

from shoehorn_mcu.importers import load
from shoehorn_mcu.ir import Array, DType, Graph, Node, Op, Tensor
from shoehorn_mcu.ops import Clamped, LinearOp, RealClamp
from shoehorn_mcu.ops.clamp import LARGEST_FLOAT32
from shoehorn_mcu.quantisation.exported import as_onnx


def float_twin(path: Path, place: Path) -> Path:
    """Writes the twin of an int8 .tflite of convolutions, pools and dense layers, as an .onnx file in a folder."""
    graph = load(path)
    constants = {name: _real(tensor) for name, tensor in graph.tensors.items() if tensor.data is not None}
    for node in graph.nodes():
        if isinstance(node.op, LinearOp):
            x, weights, bias = node.inputs
            assert x.type.quant is not None and weights.type.quant is not None and bias.data is not None
            scale = x.type.quant.scale * np.array(weights.type.quant.scales)
            constants[bias.name] = (bias.data * scale).astype(np.float32)
    tensors = {
        name: Tensor(name, replace(t.type, dtype=DType.FLOAT32, quant=None), constants.get(name))
        for name, t in graph.tensors.items()
    }
    twin = Graph(graph.name, tensors, tuple(map(_op, graph.nodes())), graph.inputs, graph.outputs)
    made = place / f"{path.stem}-f32.onnx"
    onnx.save(as_onnx(twin), made)
    return made


def _real(tensor: Tensor) -> Array:
    """A constant's numbers, with a scale per channel along its axis."""
    data, quant = tensor.data, tensor.type.quant
    assert data is not None
    if quant is None:
        return data.astype(np.float32)
    shape = [1] * data.ndim
    shape[quant.axis or 0] = len(quant.scales)
    scales, zero_points = (np.array(each).reshape(shape) for each in (quant.scales, quant.zero_points))
    return ((data - zero_points.astype(np.int32)) * scales).astype(np.float32)


def _op(node: Node) -> Op:
    """The op in float32: a ReLU where its least stored value is 0."""
    op, quant = node.op, node.output.type.quant
    if not isinstance(op, Clamped) or quant is None:
        return op
    return replace(op, clamp=RealClamp(0 if op.clamp.low == quant.zero_point else -LARGEST_FLOAT32))
