"""The converter of each TFLite op, by what its tensors are, and the ops that are known before the model runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from shoehorn_mcu import ops
from shoehorn_mcu.importers.fault import Unsupported
from shoehorn_mcu.importers.tflite import detection, elements, int16, layout, linear, quantised, real, recurrent, signal
from shoehorn_mcu.importers.tflite.complex import PARTS
from shoehorn_mcu.importers.tflite.resize import bilinear
from shoehorn_mcu.importers.tflite.site import Part, Site
from shoehorn_mcu.importers.tflite.variables import CODES as VARIABLES
from shoehorn_mcu.ir import Array, DType, Tensor

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
        """The ops that compute it. Raises ImportFault where the operands do not fit the op."""
        if self.real is not None and (self.own is None or self._is_real(site) or quantised.applies(site)):
            if any(t.type.quant for t in (*site.inputs, *site.outputs) if t is not None):
                return quantised.convert(site)
            return self.real(site)
        assert self.own is not None
        return self.words(site) if self.words is not None and int16.applies(site) else self.own(site)

    @staticmethod
    def _is_real(site: Site) -> bool:
        """Whether an op with kernels of its own is computed by those for tensors that are not quantised."""
        tensors = [t for t in (*site.inputs[:1], *site.outputs) if t is not None]
        if any(t.type.quant is not None for t in tensors):
            return False
        return site.code not in real.ALSO_QUANTISED or any(t.type.dtype is not DType.FLOAT32 for t in tensors)


_OWN: Mapping[str, Converter] = {
    "CONV_2D": Converter((2, 3), linear.conv_2d),
    "DEPTHWISE_CONV_2D": Converter((2, 3), linear.depthwise_conv_2d),
    "TRANSPOSE_CONV": Converter((3, 4), linear.transpose_conv),
    "FULLY_CONNECTED": Converter((2, 3), linear.fully_connected),
    "ADD": Converter((2, 2), elements.binary(ops.Add)),
    "SUB": Converter((2, 2), elements.binary(ops.Sub)),
    "MUL": Converter((2, 2), elements.binary(ops.Mul)),
    "MAXIMUM": Converter((2, 2), elements.of(ops.Maximum, "first input", "second input")),
    "MINIMUM": Converter((2, 2), elements.of(ops.Minimum, "first input", "second input")),
    "AVERAGE_POOL_2D": Converter((1, 1), elements.pool(ops.AveragePool2d)),
    "MAX_POOL_2D": Converter((1, 1), elements.pool(ops.MaxPool2d)),
    "REDUCE_MAX": Converter((2, 2), layout.reduce_max),
    "MEAN": Converter((2, 2), elements.mean),
    "SOFTMAX": Converter((1, 1), elements.of(ops.Softmax, "input", beta="factor")),
    "LOGISTIC": Converter((1, 1), elements.of(ops.Logistic, "input")),
    "TANH": Converter((1, 1), elements.of(ops.Tanh, "input")),
    "HARD_SWISH": Converter((1, 1), elements.of(ops.HardSwish, "input")),
    "RELU": Converter((1, 1), elements.of(ops.Relu, "input")),
    "RELU6": Converter((1, 1), elements.of(ops.Relu6, "input")),
    "ABS": Converter((1, 1), elements.of(ops.Abs, "input")),
    "NEG": Converter((1, 1), elements.of(ops.Neg, "input")),
    "SQUARE": Converter((1, 1), elements.of(ops.Square, "input")),
    "SQRT": Converter((1, 1), elements.of(ops.Sqrt, "input")),
    "RSQRT": Converter((1, 1), elements.of(ops.Rsqrt, "input")),
    "LOG": Converter((1, 1), elements.of(ops.Log, "input")),
    "SIN": Converter((1, 1), elements.of(ops.Sin, "input")),
    "COS": Converter((1, 1), elements.of(ops.Cos, "input")),
    "EXP": Converter((1, 1), elements.of(ops.Exp, "input")),
    "ELU": Converter((1, 1), elements.of(ops.Elu, "input")),
    "GELU": Converter((1, 1), elements.of(ops.Gelu, "input", approximate="approximate")),
    "LEAKY_RELU": Converter((1, 1), elements.of(ops.LeakyRelu, "input", alpha="factor")),
    "PRELU": Converter((2, 2), elements.of(ops.Prelu, "input", "alpha")),
    "QUANTIZE": Converter((1, 1), elements.quantize),
    "DEQUANTIZE": Converter((1, 1), elements.of(ops.Dequantize, "input")),
    "RESIZE_NEAREST_NEIGHBOR": Converter((2, 2), elements.resize(ops.ResizeNearest)),
    "RESIZE_BILINEAR": Converter((2, 2), bilinear),
    "PAD": Converter((2, 2), layout.pad),
    "PADV2": Converter((3, 3), layout.pad),
    "RESHAPE": Converter((1, 2), layout.reshape),
    "SQUEEZE": Converter((1, 1), layout.squeeze),
    "EXPAND_DIMS": Converter((2, 2), layout.expand_dims),
    "CONCATENATION": Converter((1, real.MANY), layout.concatenation),
    "SPLIT": Converter((2, 2), layout.split, outputs=None),
    "SPLIT_V": Converter((3, 3), layout.split_v, outputs=None),
    "TILE": Converter((2, 2), layout.tile),
    "STRIDED_SLICE": Converter((4, 4), layout.strided_slice),
    "SLICE": Converter((3, 3), layout.slice_),
    "TRANSPOSE": Converter((2, 2), layout.transpose),
    "SVDF": Converter((5, 5), recurrent.svdf),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": Converter((20, 24), recurrent.sequence_lstm),
}
"""The ops with kernels of their own."""

OWN = tuple(_OWN)

_OTHERS = {code: Converter(real.OPERANDS[code], outputs=None) for code in real.CONVERTERS if code not in _OWN}

CONVERTERS: Mapping[str, Converter] = {
    code: replace(row, words=int16.CONVERTERS.get(code), real=real.CONVERTERS.get(code))
    for code, row in {**_OWN, **_OTHERS}.items()
}
"""By the schema's name of the op: each op once, whatever its tensors are."""


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
