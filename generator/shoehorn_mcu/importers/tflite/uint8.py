"""TFLite's older quantisation in uint8, as int8: all stored values and zero points are 128 less.

Its weights have a zero point, too. They are held less that zero point: as int8 where they fit, else as int16.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from shoehorn_mcu.importers.fault import Unsupported
from shoehorn_mcu.importers.tflite.file import RawModel, RawOp, RawTensor
from shoehorn_mcu.importers.tflite.options import Options

_INTEGERS = frozenset(
    ("BITWISE_XOR", "CAST", "FLOOR_DIV", "FLOOR_MOD", "ONE_HOT", "RIGHT_SHIFT", "SCATTER_ND", "ZEROS_LIKE")
)
"""Ops that take stored values for what they are, whatever their scale and zero point."""

MOVING = frozenset(
    (
        *("QUANTIZE", "DEQUANTIZE", "RESHAPE", "SQUEEZE", "EXPAND_DIMS", "CONCATENATION", "SPLIT", "SPLIT_V", "TILE"),
        *("STRIDED_SLICE", "SLICE", "TRANSPOSE", "PAD", "PADV2", "RESIZE_NEAREST_NEIGHBOR", *_INTEGERS),
        *("BATCH_TO_SPACE_ND", "BROADCAST_TO", "DEPTH_TO_SPACE", "EMBEDDING_LOOKUP", "GATHER", "GATHER_ND"),
        *("MIRROR_PAD", "PACK", "REVERSE_V2", "SELECT", "SELECT_V2", "SPACE_TO_BATCH_ND", "SPACE_TO_DEPTH"),
        *("TOPK_V2", "UNPACK", "ARG_MAX", "ARG_MIN"),
    )
)
"""Ops that are as they are on uint8: a model in which no other op has any is left alone."""

WITH_WEIGHTS: Mapping[str, tuple[int, int]] = {
    **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"), (0, 1)),
    "TRANSPOSE_CONV": (2, 1),
}
"""Ops with weights: the places of their input and of their weights."""


def with_int8(raw: RawModel) -> tuple[RawModel, Mapping[int, RawTensor]]:
    """The model with int8 in place of uint8, and those of its inputs and outputs that are uint8, by number.

    Their names are kept for these: the int8 tensors have `_int8` behind them. Raises Unsupported for ops that compute
    otherwise on uint8.
    """
    held = {i for i, tensor in enumerate(raw.tensors) if tensor.dtype == "UINT8" and tensor.scales}
    computing = (op for op in raw.ops if op.code not in MOVING or _rescales(op, raw))
    if not any(held & {*op.inputs, *op.outputs} for op in computing):
        return raw, {}
    ends = {i: raw.tensors[i] for i in (*raw.inputs, *raw.outputs) if i in held}
    for index, op in enumerate(raw.ops):
        if held & {*op.inputs, *op.outputs}:
            _known(index, op, raw)
    tensors = [_held(tensor, i in ends) if i in held else tensor for i, tensor in enumerate(raw.tensors)]
    ops = tuple(made for op in raw.ops for made in _converted(op, raw, held, tensors))
    return replace(raw, tensors=tuple(tensors), ops=ops), ends


def _known(index: int, op: RawOp, raw: RawModel) -> None:
    """Raises Unsupported for an op that computes otherwise on uint8 than on int8."""
    ends = [raw.tensors[i] for i in (*op.inputs[:1], *op.outputs[:1])]
    if op.code == "RELU6" and len({(*t.scales, *t.zero_points) for t in ends}) > 1:
        raise Unsupported(f"op {index} {op.code} changes the scale of uint8; quantise the model to int8")


def _rescales(op: RawOp, raw: RawModel) -> bool:
    """Whether it joins tensors that have not all the result's scale, which TFLite does on uint8 alone."""
    if op.code != "CONCATENATION" or not op.outputs:
        return False
    ends = [raw.tensors[i] for i in (*op.inputs, op.outputs[0]) if 0 <= i < len(raw.tensors)]
    return len({(t.scales, t.zero_points) for t in ends}) > 1


def _held(tensor: RawTensor, renamed: bool) -> RawTensor:
    """The tensor as int8."""
    data = None if tensor.data is None else np.frombuffer(tensor.data, np.uint8) ^ np.uint8(0x80)
    return replace(
        tensor,
        name=f"{tensor.name}_int8" if renamed and tensor.name else tensor.name,
        dtype="INT8",
        data=None if data is None else memoryview(data.tobytes()),
        zero_points=tuple(zero - 128 for zero in tensor.zero_points or (0,) * len(tensor.scales)),
    )


def _converted(op: RawOp, raw: RawModel, held: set[int], tensors: list[RawTensor]) -> Iterator[RawOp]:
    """The op with weights of its own, which are added to the tensors; or with the rounding of uint8; or on uint8."""
    if op.code in _INTEGERS and held & {*op.inputs, *op.outputs}:
        yield from _as_uint8(op, raw, held, tensors)
    else:
        yield _with_weights(op, raw, held, tensors)


def _as_uint8(op: RawOp, raw: RawModel, held: set[int], tensors: list[RawTensor]) -> Iterator[RawOp]:
    """The op on tensors of uint8, which are added, between conversions."""
    place: dict[int, int] = {}
    for each in (*op.inputs, *op.outputs):
        if each in held and each not in place:
            place[each] = len(tensors)
            tensors.append(replace(raw.tensors[each], name=f"{raw.tensors[each].name}_uint8"))
    for each in dict.fromkeys(op.inputs):
        if each in place and raw.tensors[each].data is None:
            yield RawOp("QUANTIZE", "", (each,), (place[each],), Options())
    inputs, outputs = (tuple(place.get(each, each) for each in places) for places in (op.inputs, op.outputs))
    yield replace(op, inputs=inputs, outputs=outputs)
    for each in op.outputs:
        if each in place:
            yield RawOp("QUANTIZE", "", (place[each],), (each,), Options())


def _with_weights(op: RawOp, raw: RawModel, held: set[int], tensors: list[RawTensor]) -> RawOp:
    """The op with weights less their zero point, or with the arithmetic of uint8."""
    if op.code == "AVERAGE_POOL_2D" and {*op.inputs} & held:
        return replace(op, options=replace(op.options, halves_up=True))
    if op.code == "L2_NORMALIZATION" and {*op.inputs} & held:
        return replace(op, options=Options(shifted=True))
    if op.code == "CONCATENATION" and {*op.outputs} & held and _rescales(op, raw):
        return replace(op, options=replace(op.options, rescales=True))
    if op.code == "RESIZE_BILINEAR" and {*op.outputs} & held:
        return replace(op, options=replace(op.options, in_float=True))
    if op.code not in WITH_WEIGHTS or len(op.inputs) <= max(WITH_WEIGHTS[op.code]):
        return op
    x, weights = (op.inputs[place] for place in WITH_WEIGHTS[op.code])
    if x not in held or weights not in held or raw.tensors[weights].data is None:
        return op
    tensors.append(_weights(raw.tensors[weights], raw.tensors[x]))
    places = list(op.inputs)
    places[WITH_WEIGHTS[op.code][1]] = len(tensors) - 1
    return replace(op, inputs=tuple(places))


def _weights(tensor: RawTensor, x: RawTensor) -> RawTensor:
    """The weights less their zero point, in the narrowest type."""
    assert tensor.data is not None
    zero = (*tensor.zero_points, 0)[0]
    wide = np.frombuffer(tensor.data, np.uint8).astype("<i2") - zero
    fits = wide.size == 0 or (wide.min() >= -128 and wide.max() <= 127)
    data = wide.astype(np.int8 if fits else "<i2")
    one = len(tensor.scales) == len(x.scales) == 1
    return replace(
        tensor,
        dtype="INT8" if fits else "INT16",
        data=memoryview(data.tobytes()),
        scales=(_scale(x.scales[0], tensor.scales[0]),) if one else tensor.scales,
        zero_points=(),
    )


def _scale(x: float, weights: float) -> float:
    """The scale of the weights, so that its product with x's is the one rounded to float32.

    TFLite multiplies the scales of uint8 in float32 (GetQuantizedConvolutionMultipler in kernels/kernel_util.cc), those
    of int8 in float64.
    """
    product = float(np.float32(x) * np.float32(weights))
    if not product > 0 or not math.isfinite(product / x):
        return weights
    near = product / x
    found = (s for s in (near, math.nextafter(near, 0), math.nextafter(near, math.inf)) if x * s == product)
    return next(found, near)
