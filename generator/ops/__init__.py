"""What every op means, without any target: attributes, shapes, rows, and a numpy reference."""

from shoehorn_mcu.ir import Op
from shoehorn_mcu.ops.conv import Clamp, Conv2d, Dense, DepthwiseConv2d, Padding, TransposeConv2d
from shoehorn_mcu.ops.elementwise import Add, Binary, Maximum, Minimum, Mul, Prelu, Sub
from shoehorn_mcu.ops.layout import Concat, Pad, Reshape, Slice, Transpose
from shoehorn_mcu.ops.partial import FirstPartial, NextPartial, Rescale
from shoehorn_mcu.ops.pool import AveragePool2d, MaxPool2d, Mean, Pool2d, Softmax
from shoehorn_mcu.ops.resize import Resize, ResizeBilinear, ResizeNearest
from shoehorn_mcu.ops.unary import (
    Dequantize,
    HardSwish,
    LeakyRelu,
    Logistic,
    Quantize,
    Relu,
    Relu6,
    Requantize,
    Tanh,
    Unary,
)

# What model files say.
MODEL_OPS: tuple[type[Op], ...] = (
    Conv2d,
    DepthwiseConv2d,
    TransposeConv2d,
    Dense,
    Add,
    Sub,
    Mul,
    Maximum,
    Minimum,
    Prelu,
    Logistic,
    Tanh,
    HardSwish,
    Relu,
    Relu6,
    LeakyRelu,
    Requantize,
    Quantize,
    Dequantize,
    AveragePool2d,
    MaxPool2d,
    Mean,
    Softmax,
    ResizeNearest,
    ResizeBilinear,
    Reshape,
    Pad,
    Concat,
    Slice,
    Transpose,
)

# What our own rewrites of graphs add (generator/split.py).
MADE_OPS: tuple[type[Op], ...] = (FirstPartial, NextPartial, Rescale)

OPS: tuple[type[Op], ...] = (*MODEL_OPS, *MADE_OPS)

__all__ = [
    "MADE_OPS",
    "MODEL_OPS",
    "OPS",
    "Add",
    "AveragePool2d",
    "Binary",
    "Clamp",
    "Concat",
    "Conv2d",
    "Dense",
    "DepthwiseConv2d",
    "Dequantize",
    "FirstPartial",
    "HardSwish",
    "LeakyRelu",
    "Logistic",
    "MaxPool2d",
    "Maximum",
    "Mean",
    "Minimum",
    "Mul",
    "NextPartial",
    "Pad",
    "Padding",
    "Pool2d",
    "Prelu",
    "Quantize",
    "Relu",
    "Relu6",
    "Requantize",
    "Rescale",
    "Reshape",
    "Resize",
    "ResizeBilinear",
    "ResizeNearest",
    "Slice",
    "Softmax",
    "Sub",
    "Tanh",
    "Transpose",
    "TransposeConv2d",
    "Unary",
]
