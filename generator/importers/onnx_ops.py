"""The converter of each ONNX op."""

from __future__ import annotations

from collections.abc import Callable

from shoehorn_mcu.importers import onnx_elements as elements
from shoehorn_mcu.importers import onnx_linear as linear
from shoehorn_mcu.importers.onnx_qlinear import FORMS
from shoehorn_mcu.importers.onnx_site import Site, Value
from shoehorn_mcu.ops import Add, AveragePool2d, MaxPool2d, Sub

CONVERTERS: dict[str, Callable[[Site], Value | tuple[Value, ...]]] = {
    "Add": elements.binary(Add),
    "AveragePool": elements.pool(AveragePool2d),
    "BatchNormalization": linear.batch_normalization,
    "Clip": elements.clip,
    "Concat": elements.concat,
    "Conv": linear.conv,
    "Dropout": elements.same,
    "Flatten": elements.flatten,
    "Gemm": linear.gemm,
    "GlobalAveragePool": elements.global_average_pool,
    "Identity": elements.same,
    "MatMul": linear.matmul,
    "MaxPool": elements.pool(MaxPool2d),
    "Mul": elements.mul,
    "Pad": elements.pad,
    "Relu": elements.relu,
    "Reshape": elements.reshape,
    "Slice": elements.slice_,
    "Softmax": elements.softmax,
    "Squeeze": elements.squeeze,
    "Sub": elements.binary(Sub),
    "Transpose": elements.transpose,
    "Unsqueeze": elements.unsqueeze,
}
"""By ONNX's name of the op."""

OPS = (*CONVERTERS, "QuantizeLinear", "DequantizeLinear", *FORMS)
