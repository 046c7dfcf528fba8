"""The converter of each TFLite op, by what its tensors are, and the ops that are known before the model runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from shoehorn_mcu.importers.fault import Unsupported
from shoehorn_mcu.importers.tflite import detection, elements, int16, layout, linear, quantised, real, recurrent, signal
from shoehorn_mcu.importers.tflite.complex import PARTS
from shoehorn_mcu.importers.tflite.resize import bilinear
from shoehorn_mcu.importers.tflite.site import Part, Site
from shoehorn_mcu.importers.tflite.variables import CODES as VARIABLES
from shoehorn_mcu.ir import Array, DType, Tensor
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

Convert = Callable[[Site], Part]


@dataclass(frozen=True)
class Converter:
    """One TFLite op: the number of operands that it may have, and the ways to convert it, by what its tensors are."""

    inputs: tuple[int, int]  # least and most
    own: Convert | None = None  # by the op's own kernels, on int8 and mostly on float32
    words: Convert | None = None  # on int16, as formulas of stored values
    real: Convert | None = None  # of tensors that are not quantised, by the converter of an ONNX op
    outputs: int | None = 1  # None: any number

    def convert(self, site: Site) -> Part:
        """The ops that compute it. Raises Unsupported for operands that none of the ways takes."""
        if self.real is not None and (self.own is None or self._is_real(site) or quantised.applies(site)):
            if any(t.type.quant for t in (*site.inputs, *site.outputs) if t is not None):
                return quantised.convert(site)
            return self.real(site)
        if self.words is not None and int16.applies(site):
            return self.words(site)
        if self.own is None:
            raise Unsupported
        return self.own(site)

    @staticmethod
    def _is_real(site: Site) -> bool:
        """Whether an op with kernels of its own is computed by those for tensors that are not quantised."""
        tensors = [t for t in (*site.inputs[:1], *site.outputs) if t is not None]
        if any(t.type.quant is not None for t in tensors):
            return False
        return site.code not in real.ALSO_QUANTISED or any(t.type.dtype is not DType.FLOAT32 for t in tensors)


_OWN: Mapping[str, tuple[Convert, tuple[int, int]]] = {
    "CONV_2D": (linear.conv_2d, (2, 3)),
    "DEPTHWISE_CONV_2D": (linear.depthwise_conv_2d, (2, 3)),
    "TRANSPOSE_CONV": (linear.transpose_conv, (3, 4)),
    "FULLY_CONNECTED": (linear.fully_connected, (2, 3)),
    "ADD": (elements.binary(Add), (2, 2)),
    "SUB": (elements.binary(Sub), (2, 2)),
    "MUL": (elements.binary(Mul), (2, 2)),
    "MAXIMUM": (elements.extremum(Maximum), (2, 2)),
    "MINIMUM": (elements.extremum(Minimum), (2, 2)),
    "AVERAGE_POOL_2D": (elements.pool(AveragePool2d), (1, 1)),
    "MAX_POOL_2D": (elements.pool(MaxPool2d), (1, 1)),
    "REDUCE_MAX": (layout.reduce_max, (2, 2)),
    "MEAN": (elements.mean, (2, 2)),
    "SOFTMAX": (elements.softmax, (1, 1)),
    "LOGISTIC": (elements.unary(Logistic), (1, 1)),
    "TANH": (elements.unary(Tanh), (1, 1)),
    "HARD_SWISH": (elements.unary(HardSwish), (1, 1)),
    "RELU": (elements.unary(Relu), (1, 1)),
    "RELU6": (elements.unary(Relu6), (1, 1)),
    "ABS": (elements.unary(Abs), (1, 1)),
    "NEG": (elements.unary(Neg), (1, 1)),
    "SQUARE": (elements.unary(Square), (1, 1)),
    "SQRT": (elements.unary(Sqrt), (1, 1)),
    "RSQRT": (elements.unary(Rsqrt), (1, 1)),
    "LOG": (elements.unary(Log), (1, 1)),
    "SIN": (elements.unary(Sin), (1, 1)),
    "COS": (elements.unary(Cos), (1, 1)),
    "EXP": (elements.unary(Exp), (1, 1)),
    "ELU": (elements.unary(Elu), (1, 1)),
    "GELU": (elements.gelu, (1, 1)),
    "LEAKY_RELU": (elements.leaky_relu, (1, 1)),
    "PRELU": (elements.prelu, (2, 2)),
    "QUANTIZE": (elements.quantize, (1, 1)),
    "DEQUANTIZE": (elements.dequantize, (1, 1)),
    "RESIZE_NEAREST_NEIGHBOR": (elements.resize(ResizeNearest), (2, 2)),
    "RESIZE_BILINEAR": (bilinear, (2, 2)),
    "PAD": (layout.pad, (2, 2)),
    "PADV2": (layout.pad, (3, 3)),
    "RESHAPE": (layout.reshape, (1, 2)),
    "SQUEEZE": (layout.squeeze, (1, 1)),
    "EXPAND_DIMS": (layout.expand_dims, (2, 2)),
    "CONCATENATION": (layout.concatenation, (1, real.MANY)),
    "SPLIT": (layout.split, (2, 2)),
    "SPLIT_V": (layout.split_v, (3, 3)),
    "TILE": (layout.tile, (2, 2)),
    "STRIDED_SLICE": (layout.strided_slice, (4, 4)),
    "SLICE": (layout.slice_, (3, 3)),
    "TRANSPOSE": (layout.transpose, (2, 2)),
    "SVDF": (recurrent.svdf, (5, 5)),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (recurrent.sequence_lstm, (20, 24)),
}
"""The ops with kernels of their own, and how many operands they have."""

_SPLITS = ("SPLIT", "SPLIT_V")
"""The ops of several results. Those of `real.py` may have them too."""


def _row(code: str) -> Converter:
    own, inputs = _OWN.get(code, (None, (0, 0)))
    real_way = real.CONVERTERS.get(code)
    return Converter(
        inputs if own else real.OPERANDS[code],
        own,
        int16.CONVERTERS.get(code),
        real_way,
        1 if own and code not in _SPLITS else None,
    )


CONVERTERS: Mapping[str, Converter] = {code: _row(code) for code in dict.fromkeys((*_OWN, *real.CONVERTERS))}
"""By the schema's name of the op: each op once, whatever its tensors are."""

OWN = tuple(_OWN)
"""The ops with kernels of their own."""


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

OPS = (*dict.fromkeys((*CONVERTERS, *CUSTOM, *VARIABLES, *KNOWN, *PARTS)),)
