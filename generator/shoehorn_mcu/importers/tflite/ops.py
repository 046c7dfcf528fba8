"""The converter of each TFLite op, by what its tensors are, and the ops that are known before the model runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from shoehorn_mcu import ops
from shoehorn_mcu.importers.fault import Unsupported
from shoehorn_mcu.importers.forms import NOTHING, Form, Kind
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
    makes: Form = (ops.Unary,)  # by these on int8: a table of 256 results, if it is nothing else
    also: tuple[Kind, ...] = ()  # other element types in which it becomes the same
    real_makes: Form | None = None  # of float32, where a converter of its own makes it
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


_BOTH = (Kind.INT16, Kind.FLOAT32)
_ALL = tuple(Kind)

_UNARY = {
    **{"ABS": ops.Abs, "COS": ops.Cos, "ELU": ops.Elu, "EXP": ops.Exp, "HARD_SWISH": ops.HardSwish, "LOG": ops.Log},
    **{"LOGISTIC": ops.Logistic, "NEG": ops.Neg, "RELU": ops.Relu, "RELU6": ops.Relu6, "RSQRT": ops.Rsqrt},
    **{"SIN": ops.Sin, "SQRT": ops.Sqrt, "SQUARE": ops.Square, "TANH": ops.Tanh},
}
"""Ops of one operand without options."""

_OWN: Mapping[str, Converter] = {
    **{code: Converter((1, 1), elements.of(kind, "input")) for code, kind in _UNARY.items()},
    "CONV_2D": Converter((2, 3), partial(linear.convolution, ops.Conv2d), (ops.Conv2d,), also=_BOTH),
    "DEPTHWISE_CONV_2D": Converter(
        (2, 3), partial(linear.convolution, ops.DepthwiseConv2d), (ops.DepthwiseConv2d,), also=_BOTH
    ),
    "TRANSPOSE_CONV": Converter((3, 4), linear.transpose_conv, (ops.TransposeConv2d,), also=(Kind.INT16,)),
    "FULLY_CONNECTED": Converter((2, 3), linear.fully_connected, (ops.Dense,), also=_BOTH),
    "ADD": Converter((2, 2), partial(elements.binary, ops.Add), (ops.Add,), also=(Kind.FLOAT32,)),
    "SUB": Converter((2, 2), partial(elements.binary, ops.Sub), (ops.Sub,), also=(Kind.FLOAT32,)),
    "MUL": Converter((2, 2), partial(elements.binary, ops.Mul), (ops.Mul,)),
    "MAXIMUM": Converter((2, 2), elements.of(ops.Maximum, "first input", "second input"), (ops.Maximum,)),
    "MINIMUM": Converter((2, 2), elements.of(ops.Minimum, "first input", "second input"), (ops.Minimum,)),
    "AVERAGE_POOL_2D": Converter((1, 1), partial(elements.pool, ops.AveragePool2d), (ops.AveragePool2d,), also=_BOTH),
    "MAX_POOL_2D": Converter((1, 1), partial(elements.pool, ops.MaxPool2d), (ops.MaxPool2d,), also=_BOTH),
    "REDUCE_MAX": Converter((2, 2), layout.reduce_max, (ops.MaxPool2d,), also=(Kind.INT16,)),
    "MEAN": Converter((2, 2), elements.mean, (ops.Mean,), also=(Kind.FLOAT32,)),
    "SOFTMAX": Converter(
        (1, 1), elements.of(ops.Softmax, "input", beta="factor"), (ops.Softmax,), also=(Kind.FLOAT32,)
    ),
    "GELU": Converter((1, 1), elements.of(ops.Gelu, "input", approximate="approximate")),
    "LEAKY_RELU": Converter((1, 1), elements.of(ops.LeakyRelu, "input", alpha="factor")),
    "PRELU": Converter((2, 2), elements.of(ops.Prelu, "input", "alpha"), (ops.Prelu,)),
    "QUANTIZE": Converter((1, 1), elements.quantize, (ops.Quantize, ops.Requantize)),
    "DEQUANTIZE": Converter((1, 1), elements.of(ops.Dequantize, "input"), (ops.Dequantize,)),
    "RESIZE_NEAREST_NEIGHBOR": Converter(
        (2, 2), partial(elements.resize, ops.ResizeNearest), (ops.ResizeNearest,), also=_ALL
    ),
    "RESIZE_BILINEAR": Converter(
        (2, 2), bilinear, (ops.ResizeBilinear,), real_makes=(ops.Map, ops.Gather, ops.Slice, ops.Concat)
    ),
    "PAD": Converter((2, 2), layout.pad, (ops.Pad,), also=_ALL),
    "PADV2": Converter((3, 3), layout.pad, (ops.Pad,), also=(Kind.INT16, Kind.OTHER)),
    "RESHAPE": Converter((1, 2), layout.reshape, makes=NOTHING, also=_ALL),
    "SQUEEZE": Converter((1, 1), layout.squeeze, makes=NOTHING, also=_ALL),
    "EXPAND_DIMS": Converter((2, 2), layout.expand_dims, makes=NOTHING, also=_ALL),
    "CONCATENATION": Converter((1, real.MANY), layout.concatenation, (ops.Concat,), also=_ALL),
    "SPLIT": Converter((2, 2), layout.split, (ops.Slice,), also=_ALL, outputs=None),
    "SPLIT_V": Converter((3, 3), layout.split_v, (ops.Slice,), also=_ALL, outputs=None),
    "TILE": Converter((2, 2), layout.tile, (ops.Concat,), also=_ALL),
    "STRIDED_SLICE": Converter((4, 4), layout.strided_slice, (ops.Slice,), also=_ALL),
    "SLICE": Converter((3, 3), layout.slice_, (ops.Slice,), also=_ALL),
    "TRANSPOSE": Converter((2, 2), layout.transpose, (ops.Transpose,), also=_ALL),
    "SVDF": Converter(
        (5, 5), recurrent.svdf, (ops.SvdfState, ops.SvdfSum), real_makes=(ops.Dense, ops.Map, ops.Reduce)
    ),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": Converter(
        (20, 24), recurrent.sequence_lstm, (ops.Lstm,), also=(Kind.INT16,), real_makes=(ops.Recurrence, ops.Dense)
    ),
}
"""The ops with kernels of their own."""

OWN = tuple(_OWN)

_OTHERS = {code: Converter(row.inputs, outputs=None) for code, row in real.ROWS.items() if code not in _OWN}

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
