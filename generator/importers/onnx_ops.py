"""The converter of each ONNX op."""

from __future__ import annotations

from collections.abc import Callable

from shoehorn_mcu.importers import onnx_elements as elements
from shoehorn_mcu.importers import onnx_layout as layout
from shoehorn_mcu.importers import onnx_linear as linear
from shoehorn_mcu.importers import onnx_windows as windows
from shoehorn_mcu.importers.onnx_qlinear import FORMS
from shoehorn_mcu.importers.onnx_site import Site, Value
from shoehorn_mcu.ops import Add, AveragePool2d, MaxPool2d, Sub

CONVERTERS: dict[str, Callable[[Site], Value | tuple[Value, ...]]] = {
    "Add": elements.binary(Add),
    "AveragePool": windows.pool(AveragePool2d),
    "BatchNormalization": linear.batch_normalization,
    "Clip": elements.clip,
    "Concat": layout.concat,
    "Conv": linear.conv,
    "ConvTranspose": linear.conv_transpose,
    "DepthToSpace": layout.depth_to_space,
    "Dropout": elements.same,
    "Expand": layout.expand,
    "Flatten": layout.flatten,
    "Gather": layout.gather,
    "Gemm": linear.gemm,
    "GlobalAveragePool": windows.global_average_pool,
    "Identity": elements.same,
    "MatMul": linear.matmul,
    "MaxPool": windows.pool(MaxPool2d),
    "Mul": elements.mul,
    "Pad": layout.pad,
    "Relu": elements.relu,
    "ReverseSequence": layout.reverse_sequence,
    "Reshape": layout.reshape,
    "Slice": layout.slice_,
    "Softmax": elements.softmax,
    "SpaceToDepth": layout.space_to_depth,
    "Split": layout.split,
    "Squeeze": layout.squeeze,
    "Sub": elements.binary(Sub),
    "Tile": layout.tile,
    "Transpose": layout.transpose,
    "Unsqueeze": layout.unsqueeze,
}
"""By ONNX's name of the op."""

OPS = (*CONVERTERS, "QuantizeLinear", "DequantizeLinear", *FORMS)
