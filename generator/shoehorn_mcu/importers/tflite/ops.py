"""The converter of each TFLite op, by what its tensors are, and the ops that are known before the model runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from shoehorn_mcu.importers.fault import Unsupported
from shoehorn_mcu.importers.tflite import detection, elements, layout, linear, real, recurrent, signal
from shoehorn_mcu.importers.tflite.complex import PARTS
from shoehorn_mcu.importers.tflite.resize import bilinear
from shoehorn_mcu.importers.tflite.site import Part, Site
from shoehorn_mcu.importers.tflite.variables import CODES as VARIABLES
from shoehorn_mcu.ir import Array, Tensor
from shoehorn_mcu.ops import (
    Abs,
    Add,
    AveragePool2d,
    Cos,
    Elu,
    Exp,
    HardSwish,
    Log,
    Logistic,
    Maximum,
    MaxPool2d,
    Minimum,
    Mul,
    Neg,
    Relu,
    Relu6,
    ResizeNearest,
    Rsqrt,
    Sin,
    Sqrt,
    Square,
    Sub,
    Tanh,
)


@dataclass(frozen=True)
class Converter:
    """The converter of one TFLite op, and the number of operands that it may have."""

    convert: Callable[[Site], Part]
    inputs: tuple[int, int]  # least and most
    outputs: int | None = 1  # None: any number


CONVERTERS: dict[str, Converter] = {
    "CONV_2D": Converter(linear.conv_2d, (2, 3)),
    "DEPTHWISE_CONV_2D": Converter(linear.depthwise_conv_2d, (2, 3)),
    "TRANSPOSE_CONV": Converter(linear.transpose_conv, (3, 4)),
    "FULLY_CONNECTED": Converter(linear.fully_connected, (2, 3)),
    "ADD": Converter(elements.binary(Add), (2, 2)),
    "SUB": Converter(elements.binary(Sub), (2, 2)),
    "MUL": Converter(elements.binary(Mul), (2, 2)),
    "MAXIMUM": Converter(elements.extremum(Maximum), (2, 2)),
    "MINIMUM": Converter(elements.extremum(Minimum), (2, 2)),
    "AVERAGE_POOL_2D": Converter(elements.pool(AveragePool2d), (1, 1)),
    "MAX_POOL_2D": Converter(elements.pool(MaxPool2d), (1, 1)),
    "REDUCE_MAX": Converter(layout.reduce_max, (2, 2)),
    "MEAN": Converter(elements.mean, (2, 2)),
    "SOFTMAX": Converter(elements.softmax, (1, 1)),
    "LOGISTIC": Converter(elements.unary(Logistic), (1, 1)),
    "TANH": Converter(elements.unary(Tanh), (1, 1)),
    "HARD_SWISH": Converter(elements.unary(HardSwish), (1, 1)),
    "RELU": Converter(elements.unary(Relu), (1, 1)),
    "RELU6": Converter(elements.unary(Relu6), (1, 1)),
    "ABS": Converter(elements.unary(Abs), (1, 1)),
    "NEG": Converter(elements.unary(Neg), (1, 1)),
    "SQUARE": Converter(elements.unary(Square), (1, 1)),
    "SQRT": Converter(elements.unary(Sqrt), (1, 1)),
    "RSQRT": Converter(elements.unary(Rsqrt), (1, 1)),
    "LOG": Converter(elements.unary(Log), (1, 1)),
    "SIN": Converter(elements.unary(Sin), (1, 1)),
    "COS": Converter(elements.unary(Cos), (1, 1)),
    "EXP": Converter(elements.unary(Exp), (1, 1)),
    "ELU": Converter(elements.unary(Elu), (1, 1)),
    "GELU": Converter(elements.gelu, (1, 1)),
    "LEAKY_RELU": Converter(elements.leaky_relu, (1, 1)),
    "PRELU": Converter(elements.prelu, (2, 2)),
    "QUANTIZE": Converter(elements.quantize, (1, 1)),
    "DEQUANTIZE": Converter(elements.dequantize, (1, 1)),
    "RESIZE_NEAREST_NEIGHBOR": Converter(elements.resize(ResizeNearest), (2, 2)),
    "RESIZE_BILINEAR": Converter(bilinear, (2, 2)),
    "PAD": Converter(layout.pad, (2, 2)),
    "PADV2": Converter(layout.pad, (3, 3)),
    "RESHAPE": Converter(layout.reshape, (1, 2)),
    "SQUEEZE": Converter(layout.squeeze, (1, 1)),
    "EXPAND_DIMS": Converter(layout.expand_dims, (2, 2)),
    "CONCATENATION": Converter(layout.concatenation, (1, real.MANY)),
    "SPLIT": Converter(layout.split, (2, 2), None),
    "SPLIT_V": Converter(layout.split_v, (3, 3), None),
    "TILE": Converter(layout.tile, (2, 2)),
    "STRIDED_SLICE": Converter(layout.strided_slice, (4, 4)),
    "SLICE": Converter(layout.slice_, (3, 3)),
    "TRANSPOSE": Converter(layout.transpose, (2, 2)),
    "SVDF": Converter(recurrent.svdf, (5, 5)),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": Converter(recurrent.sequence_lstm, (20, 24)),
}
"""By the schema's name of the op."""


def _filled(inputs: Sequence[Tensor]) -> Array | None:
    shape, value = (tensor.data for tensor in inputs)
    if shape is None or value is None:
        return None
    sizes = tuple(shape.ravel().tolist())
    if value.size != 1 or min(sizes, default=1) < 1 or math.prod(sizes) > MOST_KNOWN:
        raise Unsupported(f"it fills a shape of {sizes} with {value.size} numbers")
    return np.full(sizes, value.ravel()[0])


def _ranged(inputs: Sequence[Tensor]) -> Array | None:
    numbers = [tensor.data.ravel()[0].item() for tensor in inputs if tensor.data is not None and tensor.data.size == 1]
    if len(numbers) < len(inputs):
        return None
    first, last, step = numbers
    if step == 0 or not 0 < (last - first) / step <= MOST_KNOWN:
        raise Unsupported(f"its range from {first} to {last} by {step} has no elements, or too many")
    return np.arange(first, last, step)


MOST_KNOWN = 1 << 24
"""Elements of such a result."""

KNOWN: dict[str, tuple[int, Callable[[Sequence[Tensor]], Array | None]]] = {
    "FILL": (2, _filled),
    "RANGE": (3, _ranged),
    "RANK": (1, lambda inputs: np.array(len(inputs[0].type.shape))),
    "SHAPE": (1, lambda inputs: np.array(inputs[0].type.shape)),
}
"""Ops whose results are known before the model runs, and how many operands they have."""

CUSTOM = {**signal.CONVERTERS, **detection.CONVERTERS}
"""By the name of a custom op."""

OPS = (*dict.fromkeys((*CONVERTERS, *real.CONVERTERS, *CUSTOM, *VARIABLES, *KNOWN, *PARTS)),)
