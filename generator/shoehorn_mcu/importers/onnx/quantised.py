"""Ops between DequantizeLinear and QuantizeLinear, as ops on int8; those on int16 are in onnx/int16.py."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu import ops
from shoehorn_mcu.importers.fault import ImportFault, Unsupported
from shoehorn_mcu.importers.forms import FOLDED, Row, converters
from shoehorn_mcu.importers.lowering import columns, elements, layout
from shoehorn_mcu.importers.lowering.geometry import WINDOW_LIMIT
from shoehorn_mcu.importers.lowering.linear import as_image, geometry, grouping, normalisation, pair
from shoehorn_mcu.importers.lowering.ops import CONVERTERS as PLAIN
from shoehorn_mcu.importers.lowering.site import Site, Value, as_plain
from shoehorn_mcu.importers.lowering.transposed import transposed_pads
from shoehorn_mcu.importers.lowering.windows import pool
from shoehorn_mcu.importers.onnx import products
from shoehorn_mcu.importers.onnx.chain import Chain, Coded, bias, bounded, ordered_weights, scaled, symmetric
from shoehorn_mcu.ir import Array, DType, Quant, Tensor
from shoehorn_mcu.ops.pool import SOFTMAX_QUANT

Reals = NDArray[np.float32]


def _windows(of: Chain) -> tuple[Value, Coded]:
    """An image, or a sequence N, C, W, and weights of as many dimensions, which are given back with two sizes."""
    value, weights = of.site.value(0), symmetric(of.constant(1, "weights"))
    if weights.data.ndim != value.rank:
        raise ImportFault(f"its weights have shape {weights.data.shape}, its input {value.shape}; export it again")
    return value, replace(weights, data=weights.data.reshape(*weights.data.shape[:2], -1, weights.data.shape[-1]))


def conv(of: Chain) -> Value:
    """Conv of an image, or of a sequence N, C, W."""
    site, (value, weights) = of.site, _windows(of)
    x, data = site.image(value), weights.data
    alone = grouping(site, data.shape, x.type.shape[3])
    op = ops.DepthwiseConv2d if alone else ops.Conv2d
    made = site.emit(
        op,
        x,
        ordered_weights(site, weights, (1, 2, 3, 0) if alone else (0, 2, 3, 1), 3 if alone else 0),
        bias(of, 2, len(data), x, weights),
        quant=of.target,
        **geometry(site, cast(tuple[int, int], x.type.shape[1:3]), cast(tuple[int, int], data.shape[2:])),
        clamp=of.clamp(),
    )
    return site.imaged(made, value.rank)


def conv_transpose(of: Chain) -> Value:
    """ConvTranspose of an image or a sequence, of all channels with all, without dilation."""
    site, (value, weights) = of.site, _windows(of)
    if site.attribute("group", 1) != 1 or pair(site, "dilations") != (1, 1):
        raise Unsupported("it has groups or dilations")
    x = site.image(value)
    size, kernel, strides = x.type.shape[1:3], weights.data.shape[2:], pair(site, "strides")
    before, after = transposed_pads(site, size, kernel)
    if min(before) < 0:
        raise Unsupported("it adds rows or columns before its first")
    cut = zip(size, kernel, strides, before, after, strict=True)
    height, width = (s * (n - 1) + k - first - last for n, k, s, first, last in cut)
    outputs = weights.data.shape[1]
    made = site.emit(
        ops.TransposeConv2d,
        x,
        ordered_weights(site, weights, (1, 2, 3, 0), 0),
        bias(of, 2, outputs, x, weights),
        quant=of.target,
        output_shape=(x.type.shape[0], height, width, outputs),
        stride=strides,
        padding=ops.Padding(before[0], 0, before[1], 0),
        clamp=of.clamp(),
    )
    return site.imaged(made, value.rank)


def batch_normalization(of: Chain) -> Value:
    """BatchNormalization in inference: a depthwise convolution of one tap, with as fine a weight as int8 allows.

    A channel whose addend is much larger than its products has a smaller weight, so that its bias fits into int32.
    """
    site, value = of.site, of.site.value(0)

    def constant(place: int, role: str) -> Array:
        name = site.node.inputs[place] if site.given(place) else ""
        return of.coded[name].exact if name in of.coded else site.real(place, role)

    factor, addend = normalisation(site, value, constant)
    if not (np.isfinite(factor).all() and np.isfinite(addend).all()):
        raise Unsupported("its factors and addends are not all finite")

    def write(x: Tensor) -> Tensor:
        finest = np.maximum(np.abs(factor) / 127, np.abs(addend) / (x.type.quantised.scale * _LARGEST_BIAS))
        scales = np.where(finest > 0, finest, 1.0)
        codes = np.rint(factor / scales).astype(np.int8).reshape(1, 1, 1, -1)
        weights = Coded(codes, Quant(tuple(scales.tolist()), (0,) * len(scales), 3))
        bias = np.rint(addend / (x.type.quantised.scale * scales)).astype(np.int32)
        constants = ordered_weights(site, weights, (0, 1, 2, 3), 3), site.weights(bias)
        return site.emit(ops.DepthwiseConv2d, x, *constants, quant=of.target, clamp=of.clamp())

    return as_image(site, value, write)


_LARGEST_BIAS = 1 << 30


def binary(op: type[ops.Add] | type[ops.Mul] | type[ops.Sub]) -> Callable[[Chain], Value]:
    """Add, Mul or Sub of two values; with a constant number it is a table of 256 results, in float32 as ONNX's."""
    write = {ops.Add: np.add, ops.Mul: np.multiply, ops.Sub: np.subtract}[op]

    def convert(of: Chain) -> Value:
        site = of.site
        ranks = _rank(of, 0), _rank(of, 1)
        a_number, b_number = (_number(of, place) if of.dtype is DType.INT8 else None for place in (0, 1))
        if b_number is not None and ranks[0] >= ranks[1]:
            return _table(of, partial(_with_number, write, b_number, last=True))
        if a_number is not None and ranks[1] >= ranks[0]:
            return _table(of, partial(_with_number, write, a_number, last=False), 1)
        rank = max(ranks)
        a, b, order = site.in_one_order(*(of.operand(place, rank) for place in (0, 1)))
        return Value(site.emit(op, a, b, quant=of.target, clamp=of.clamp()), order)

    return convert


def _with_number(write: np.ufunc, number: np.float32, x: Reals, *, last: bool) -> Reals:
    """An op of numbers and one more, as its last operand or its first."""
    found: Reals = write(x, number) if last else write(number, x)
    return found


def _number(of: Chain, place: int) -> np.float32 | None:
    """The number that an operand is, where it is a constant of one element."""
    coded = of.coded.get(of.site.node.inputs[place]) if of.site.given(place) else None
    return coded.real.reshape(-1)[0] if coded is not None and coded.data.size == 1 else None


def _rank(of: Chain, place: int) -> int:
    """The number of an operand's dimensions."""
    name = of.site.node.inputs[place] if of.site.given(place) else ""
    return of.coded[name].data.ndim if name in of.coded else of.site.value(place).rank


def global_average_pool(of: Chain) -> Value:
    """GlobalAveragePool of images or sequences."""
    value = of.site.value(0)
    made = of.site.emit(ops.Mean, of.site.image(value), quant=of.target, axes=(1, 2), keep_dims=True)
    return bounded(of, of.site.imaged(made, value.rank))


def mean(of: Chain) -> Value:
    """ReduceMean; kernels have no bounds for it."""
    site = of.site
    x = site.value(0)
    axes = columns.axes_of(site, x.rank)
    if not axes or not 0 < x.rank <= 4:
        raise Unsupported(f"it is over axes {axes} of {x.rank} dimensions")
    inside = tuple(sorted(x.order.index(axis) for axis in axes))
    y = Value(site.emit(ops.Mean, x.tensor, quant=of.target, axes=inside, keep_dims=True), x.order)
    return bounded(of, y if site.attribute("keepdims", 1) else columns.without(site, y, axes))


def clip(of: Chain) -> Value:
    """Clip of such a value."""
    low, high = map(np.float32, elements.bounds(of.site))
    return _table(of, lambda x: np.clip(x, low, high))


def _table(of: Chain, compute: Callable[[Reals], Reals], place: int = 0) -> Value:
    """What is computed of the numbers of an operand, by the 256 results of ONNX's own formulas."""
    x, target = of.site.value(place), of.target
    own = x.tensor.type.quantised
    real = compute((np.arange(-128, 128) - own.zero_point).astype(np.float32) * np.float32(own.scale))
    inside = np.clip(real, np.float32(of.low), np.float32(of.high))
    codes = np.rint(inside / np.float32(target.scale)).astype(np.int64) + target.zero_point
    values = tuple(int(code) for code in np.clip(codes, -128, 127))
    return Value(of.site.emit(ops.Table, x.tensor, quant=target, values=values), x.order)


def keeping(convert: Callable[[Site], Value]) -> Callable[[Chain], Value]:
    """An op whose result has its first operand's scale: scaled to the target afterwards."""
    return lambda of: bounded(of, scaled(of.site, convert(of.site), of.target))


def concat(of: Chain) -> Value:
    """Concat of values that are scaled to the target before, and of quantised constants."""
    site = of.site
    own = {
        name: _constant_in(of, of.coded[name]) if name in of.coded else scaled(site, site.values[name], of.target)
        for name in dict.fromkeys(site.node.inputs)
        if name in of.coded or name in site.values
    }
    if set(site.node.inputs) - set(own):
        raise Unsupported("it reads a constant of real numbers")
    return bounded(of, layout.concat(Site(site.node, own, site.constants, site.builder)))


def _constant_in(of: Chain, coded: Coded) -> Value:
    """A quantised constant in the result's own quantisation."""
    steps = np.rint(coded.real.astype(np.float32) / np.float32(of.target.scale)).astype(np.int64)
    codes = np.clip(steps + of.target.zero_point, *of.dtype.limits)
    return as_plain(of.site.weights(codes.astype(of.dtype.numpy), of.target))


def relu(of: Chain) -> Value:
    """Relu of a value that other ops read too or that was rounded before."""
    return _table(of, lambda x: np.maximum(x, np.float32(0)))


def softmax(of: Chain) -> Value:
    """Softmax with the result's quantisation that the kernels have."""
    if of.target != SOFTMAX_QUANT:
        raise Unsupported("its result has another quantisation than scale 1/256 with the least zero point")
    return bounded(of, elements.softmax(of.site, lambda x: of.site.emit(ops.Softmax, x, quant=of.target, beta=1.0)))


def average_pool(of: Chain) -> Value:
    """AveragePool: its kernel rounds to its operand's scale, which must not be much coarser than the target's."""
    ratio = of.site.value(0).tensor.type.quantised.scale / of.target.scale
    if ratio > _COARSER:
        raise Unsupported(f"its operand's scale is {ratio:.3g} times its result's, up to {_COARSER} is supported")
    return keeping(partial(pool, ops.AveragePool2d))(of)


_COARSER = 2

ROWS: Mapping[str, Row[Callable[[Chain], Value]]] = {
    "Add": Row(binary(ops.Add), (ops.Add, ops.Table)),
    "AveragePool": Row(average_pool, (ops.AveragePool2d,)),
    "BatchNormalization": Row(batch_normalization, FOLDED),
    "Clip": Row(clip, (ops.Table,)),
    "Concat": Row(concat, (ops.Concat,)),
    "Conv": Row(conv, (ops.Conv2d, ops.DepthwiseConv2d)),
    "ConvTranspose": Row(conv_transpose, (ops.TransposeConv2d,)),
    "Gemm": Row(products.gemm, (ops.Dense,)),
    "GlobalAveragePool": Row(global_average_pool, (ops.Mean,)),
    "MatMul": Row(products.matmul, (ops.Dense, ops.MatMul, ops.Map)),
    "Mul": Row(binary(ops.Mul), (ops.Mul, ops.Table)),
    "ReduceMean": Row(mean, (ops.Mean,)),
    "Relu": Row(relu, (ops.Table,)),
    "Softmax": Row(softmax, (ops.Softmax,)),
    "Sub": Row(binary(ops.Sub), (ops.Sub, ops.Table)),
}
"""Ops that compute with int8, by ONNX's name; all others are computed in float32 where they can be."""

CONVERTERS = converters(ROWS)


def largest(site: Site) -> Value | tuple[Value, ...]:
    """ReduceMax, over all rows and columns of an image or all steps of a sequence by one pool."""
    value = site.value(0)
    axes = columns.axes_of(site, value.rank)
    behind = tuple(range(2, value.rank))
    if value.rank not in (3, 4) or axes != behind or math.prod(value.shape[2:]) > WINDOW_LIMIT:
        return PLAIN["ReduceMax"](site)
    x = site.image(value)
    kernel, bounds = x.type.shape[1:3], ops.Clamp(*x.type.dtype.limits)
    y = site.imaged(site.emit(ops.MaxPool2d, x, kernel=kernel, stride=kernel, clamp=bounds), value.rank)
    return y if site.attribute("keepdims", 1) else columns.without(site, y, axes)


_MOVES = (
    *("DepthToSpace", "Expand", "Flatten", "Gather", "Identity", "Pad", "ReduceMin", "Reshape", "Resize", "Slice"),
    *("SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"),
)

MOVERS: Mapping[str, columns.Convert] = {
    **{code: PLAIN[code] for code in _MOVES},
    "MaxPool": partial(pool, ops.MaxPool2d),
    "ReduceMax": largest,
}
"""Ops that only move or choose elements of their first operand, which keep their quantisation."""
