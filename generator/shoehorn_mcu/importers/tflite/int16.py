"""Converters of TFLite's ops on int16, whose arithmetic is in int16.py.

Convolutions and dense layers, pools and all that only moves elements have the converters of int8.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from shoehorn_mcu.importers.fault import Unsupported
from shoehorn_mcu.importers.lowering import int16, maps
from shoehorn_mcu.importers.lowering import site as onnx
from shoehorn_mcu.importers.lowering.site import Value, as_plain
from shoehorn_mcu.importers.tflite import by_onnx, real
from shoehorn_mcu.importers.tflite.site import Part, Site, clamp, one_scale, quant_of, stored
from shoehorn_mcu.ir import DType, Quant, Tensor
from shoehorn_mcu.ops import Softmax
from shoehorn_mcu.ops.clamp import Bounds
from shoehorn_mcu.ops.formula import Term


def applies(site: Site) -> bool:
    """Whether the op is one of CONVERTERS on int16, or between int16 or int32 and another type."""
    ends = [tensor for tensor in (*site.inputs[:1], *site.outputs) if tensor is not None]
    if site.code in CONVERTERS and any(t.type.dtype is DType.INT16 and t.type.quant is not None for t in ends):
        return True
    return site.code == "QUANTIZE" and any(t.type.dtype is DType.INT32 for t in ends)


def _scale(site: Site, tensor: Tensor) -> Quant:
    """The one scale of a quantised operand or result, of 32 bits, too."""
    return one_scale(tensor, tensor.type.quant or site.wide.get(tensor.name))


def converter(convert: Callable[[Site, onnx.Site], Value], site: Site) -> Part:
    """A converter whose formulas are of stored values."""
    for tensor in (*site.inputs[:2], *site.outputs):
        if tensor is not None and tensor.type.dtype is DType.INT16:
            quant_of(tensor)
    return by_onnx.converter(convert)(site)


Write = Callable[[Site], Callable[..., Term]]
"""What writes the formula of an op's operands by their scales and its options."""


def _formula(write: Write) -> Callable[[Site, onnx.Site], Value]:
    return lambda site, there: maps.of_stored(there, write(site), *by_onnx.values(there))


def _unary(write: Callable[[Quant, Quant], int16.Unary]) -> Write:
    """An op of one operand by the scales of operand and result."""
    return lambda site: write(quant_of(site.input(0, "input")), quant_of(site.output))


def _double(write: Callable[[tuple[Quant, Quant], Quant, Bounds], int16.Binary]) -> Write:
    """An op of two operands with a fused activation, by the scales of operands and result."""

    def made(site: Site) -> int16.Binary:
        bounds = clamp(site.options.activation, site.output)
        operands = quant_of(site.input(0, "operand")), quant_of(site.input(1, "operand"))
        return write(operands, quant_of(site.output), bounds)

    return made


def _relu6(site: Site) -> int16.Unary:
    """Stored values are clamped, and not rescaled."""
    return int16.clipped(0, min(int16.HIGH, stored(6.0, quant_of(site.input(0, "input")))))


def _quantize(site: Site) -> int16.Unary:
    """From float32, or between integers of 8, 16 and 32 bits."""
    x, y = site.input(0, "input"), site.output
    if x.type.dtype is DType.FLOAT32:
        return int16.quantised(_scale(site, y), y.type.dtype)
    if {x.type.dtype, y.type.dtype} - {DType.INT8, DType.INT16, DType.INT32}:
        raise Unsupported(f"it quantises {x.type.dtype.value} to {y.type.dtype.value}")
    return int16.requantised(_scale(site, x), _scale(site, y), x.type.dtype, y.type.dtype)


def _mean(site: Site, there: onnx.Site) -> Value:
    x = site.input(0, "input")
    count = math.prod(x.type.shape[axis] for axis in site.axes())
    ahead, behind = int16.mean(quant_of(x), quant_of(site.output), count)
    wide = maps.of_stored(there, ahead, there.value(0))
    total = real.reduction("ReduceSum", site, replace(there, values={**there.values, there.node.inputs[0]: wide}))
    assert isinstance(total, Value)
    return maps.of_stored(there, behind, total)


def _softmax(site: Site, there: onnx.Site) -> Value:
    x, beta = site.input(0, "input"), site.options.factor
    if x.type.dtype is DType.INT8:
        op = Softmax(name=site.name, inputs=(x.name,), output=site.output.name, beta=beta)
        return as_plain(int16.softmax_of_int8(there, x, _scale(site, site.output), op))
    return as_plain(int16.softmax(there, x, quant_of(site.output), beta))


_FORMULAS: Mapping[str, Write] = {
    "ADD": _double(partial(int16.summed, 1)),
    "SUB": _double(partial(int16.summed, -1)),
    "MUL": _double(int16.multiplied),
    "RELU": _unary(lambda of, to: int16.bounded(of, to, 0)),
    "RELU6": _relu6,
    "LOGISTIC": _unary(int16.logistic),
    "TANH": _unary(int16.tanh),
    "LEAKY_RELU": lambda site: int16.leaky_relu(
        quant_of(site.input(0, "input")), quant_of(site.output), site.options.factor
    ),
}
"""Ops whose operands and results are all int16."""

CONVERTERS: Mapping[str, Callable[[Site], Part]] = {
    **{code: partial(converter, _formula(write)) for code, write in _FORMULAS.items()},
    "QUANTIZE": by_onnx.converter(_formula(_quantize)),
    "DEQUANTIZE": by_onnx.converter(_formula(lambda site: int16.dequantised(_scale(site, site.input(0, "input"))))),
    "MEAN": partial(converter, _mean),
    "SOFTMAX": by_onnx.converter(_softmax),
}
