"""Ops between DequantizeLinear and QuantizeLinear, as ops on int8; those on int16 are in onnx_int16.py.

The arithmetic is TensorFlow Lite's: sums in int32, scaled by a fixed-point multiplier. ONNX Runtime scales in float32,
so single results may differ by one step. uint8 is held as int8: all stored values and zero points are 128 less.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.importers import int16
from shoehorn_mcu.importers import onnx_columns as columns
from shoehorn_mcu.importers import onnx_elements as elements
from shoehorn_mcu.importers import onnx_layout as layout
from shoehorn_mcu.importers import onnx_maps as maps
from shoehorn_mcu.importers import onnx_resize as resize
from shoehorn_mcu.importers.fault import ImportFault, Unsupported
from shoehorn_mcu.importers.geometry import axis_of
from shoehorn_mcu.importers.onnx_linear import geometry, grouping
from shoehorn_mcu.importers.onnx_site import Site, Value, as_plain
from shoehorn_mcu.importers.onnx_windows import pool
from shoehorn_mcu.ir import Array, DType, Quant, Tensor
from shoehorn_mcu.ops import (
    Add,
    AveragePool2d,
    Clamp,
    Conv2d,
    Dense,
    DepthwiseConv2d,
    MaxPool2d,
    Mean,
    Mul,
    Requantize,
    Softmax,
    Sub,
    Table,
)
from shoehorn_mcu.ops.pool import SOFTMAX_QUANT
from shoehorn_mcu.ops.unary import round_away

Reals = NDArray[np.float32]


@dataclass(frozen=True)
class Coded:
    """A quantised constant, in the model's order; `quant.axis` counts there."""

    data: Array  # int8 or int16, or int32 for a bias
    quant: Quant

    @property
    def real(self) -> Array:
        """The numbers that it stands for, in float32."""
        along = [1] * self.data.ndim
        if self.quant.axis is not None:
            along[self.quant.axis] = -1
        scales, zeros = (np.array(v).reshape(along) for v in (self.quant.scales, self.quant.zero_points))
        whole = (self.data.astype(np.int64) - zeros).astype(np.float32)
        real: Array = (whole * scales.astype(np.float32)).reshape(self.data.shape)
        return real


@dataclass(frozen=True)
class Chain:
    """An op whose operands are quantised, and what its result is rounded to: clamped to `low`..`high`, then stored.

    Operands that are computed and the result have the same element type, int8 or int16.
    """

    site: Site  # its values are stored ones
    coded: Mapping[str, Coded]
    target: Quant
    low: float
    high: float
    dtype: DType = DType.INT8

    def constant(self, place: int, role: str) -> Coded:
        """A quantised constant operand."""
        name = self.site.node.inputs[place] if self.site.given(place) else ""
        if name not in self.coded:
            raise Unsupported(f"its {role} are not quantised")
        return self.coded[name]

    def clamp(self) -> Clamp:
        """The bounds as stored values."""
        scale, zero, limits = self.target.scale, self.target.zero_point, self.dtype.limits
        low, high = (np.clip(round_away(np.array(b / scale)) + zero, *limits) for b in (self.low, self.high))
        return Clamp(int(low), int(high))


ONNX_TYPES = {0: "uint8", 2: "uint8", 3: "int8", 5: "int16"}  # TensorProto.DataType; 0 is none: the default, uint8
_SHIFT = {"int8": 0, "uint8": -128, "int16": 0, "int32": 0}  # added to values and zero points of these types


def quant_of(scale: Array, zero: Array | None, dtype: np.dtype[Any], axis: int, rank: int) -> Quant:
    """The quantisation of values of this type, once they are held as `stored` does it; a missing zero point is 0."""
    if dtype.name not in _SHIFT:
        raise Unsupported(f"it quantises to {dtype}, int8, uint8 and int16 are supported")
    scales = np.asarray(scale, np.float32).reshape(-1)
    if not (np.isfinite(scales) & (scales > 0)).all() or (zero is not None and zero.size != scales.size):
        raise ImportFault("its scales are not positive numbers, one for each zero point; export it again")
    zeros = np.zeros(len(scales), np.int64) if zero is None else zero.reshape(-1).astype(np.int64)
    each = tuple(float(s) for s in scales), tuple(int(z) + _SHIFT[dtype.name] for z in zeros)
    return Quant(*each, axis=axis_of(axis, rank) if len(scales) > 1 else None)


def written_dtype(zero: Array | None, asked: int) -> np.dtype[Any]:
    """The type that QuantizeLinear writes: its zero point's, or that of its attribute `output_dtype`, 0 if missing."""
    if zero is None and asked not in ONNX_TYPES:
        raise Unsupported(f"it quantises to ONNX's type {asked}, int8, uint8 and int16 are supported")
    return np.dtype(ONNX_TYPES[asked]) if zero is None else zero.dtype


def stored(data: Array) -> Array:
    """8-bit values as int8, others as they are."""
    return data if data.dtype.itemsize > 1 else (data.astype(np.int16) + _SHIFT[data.dtype.name]).astype(np.int8)


def conv(of: Chain) -> Value:
    """Conv of an image, or of a sequence N, C, W."""
    site, weights = of.site, _symmetric(of.constant(1, "weights"))
    value = site.value(0)
    if weights.data.ndim != value.rank:
        raise ImportFault(f"its weights have shape {weights.data.shape}, its input {value.shape}; export it again")
    x = site.image(value)
    data = weights.data.reshape(*weights.data.shape[:2], -1, weights.data.shape[-1])
    weights = replace(weights, data=data)
    alone = grouping(site, data.shape, x.type.shape[3])
    op = DepthwiseConv2d if alone else Conv2d
    made = site.emit(
        op,
        x,
        _weights(site, weights, (1, 2, 3, 0) if alone else (0, 2, 3, 1), 3 if alone else 0),
        _bias(of, 2, len(data), x, weights),
        quant=of.target,
        **geometry(site, cast(tuple[int, int], x.type.shape[1:3]), cast(tuple[int, int], data.shape[2:])),
        clamp=of.clamp(),
    )
    return site.imaged(made, value.rank)


def gemm(of: Chain) -> Value:
    """Gemm with a constant matrix."""
    site = of.site
    site.known("alpha", "beta", "transA", "transB")
    factor = site.attribute("alpha", 1.0)
    if site.attribute("transA", 0) or factor <= 0 or site.attribute("beta", 1.0) != 1.0:
        raise Unsupported("its first operand is transposed, or it has a factor below 0 or one of its bias")
    return _dense(of, transposed=bool(site.attribute("transB", 0)), bias=2, factor=factor)


def matmul(of: Chain) -> Value:
    """MatMul with a constant matrix, and the bias that is added to it as a third operand."""
    of.site.known()
    return _dense(of, transposed=False, bias=2)


def _dense(of: Chain, transposed: bool, bias: int, factor: float = 1.0) -> Value:
    site, matrix = of.site, _symmetric(of.constant(1, "weights"))
    if factor != 1.0:
        scales = tuple(scale * factor for scale in matrix.quant.scales)
        matrix = replace(matrix, quant=replace(matrix.quant, scales=scales))
    if matrix.data.ndim != 2:
        raise Unsupported(f"its matrix has {matrix.data.ndim} dimensions, 2 are supported")
    outputs = 0 if transposed else 1
    if matrix.quant.axis not in (None, outputs):
        raise Unsupported("its matrix has a scale per input")
    x = site.plain(site.value(0))
    weights = _weights(site, matrix, (0, 1) if transposed else (1, 0), 0)
    made = site.emit(
        Dense,
        x,
        weights,
        _bias(of, bias, matrix.data.shape[outputs], x, matrix),
        quant=of.target,
        clamp=of.clamp(),
    )
    return as_plain(made)


def transposed(site: Site, coded: Coded) -> Coded:
    """Transpose of a quantised constant."""
    perm = layout.permutation(site, coded.data.ndim)
    axis = None if coded.quant.axis is None else perm.index(coded.quant.axis)
    return Coded(coded.data.transpose(perm), replace(coded.quant, axis=axis))


def _symmetric(coded: Coded) -> Coded:
    """Weights with a zero point of 0: any other is subtracted from them, and differences of 9 bits are int16."""
    data, quant = coded.data, coded.quant
    if data.dtype != np.int8:
        raise Unsupported(f"its weights are {data.dtype}, 8 bits are supported")
    if any(quant.zero_points):
        along = [1] * data.ndim
        if quant.axis is not None:
            along[quant.axis] = -1
        wide = data.astype(np.int16) - np.array(quant.zero_points, np.int16).reshape(along)
        data = wide.astype(np.int8) if wide.min() >= -128 and wide.max() <= 127 else wide
    return Coded(data, Quant(quant.scales, (0,) * len(quant.scales), quant.axis))


def _weights(site: Site, coded: Coded, order: tuple[int, ...], axis: int) -> Tensor:
    """The constant in another order of dimensions; a scale per output channel is then along `axis`."""
    own = coded.quant.axis
    if own is not None and order[axis] != own:
        raise Unsupported("its weights have a scale per input channel")
    quant = Quant(coded.quant.scales, coded.quant.zero_points, None if own is None else axis)
    return site.weights(coded.data.transpose(order), quant)


def _bias(of: Chain, place: int, outputs: int, x: Tensor, weights: Coded) -> Tensor:
    """The bias in steps of x scale * weight scale."""
    site = of.site
    if not site.given(place):
        return site.weights(np.zeros(outputs, np.int32))
    name = site.node.inputs[place]
    if name in of.coded and of.coded[name].data.dtype == np.int32:
        found = of.coded[name]
        zeros = np.array(found.quant.zero_points, np.int64)
        real = (found.data.astype(np.int64) - zeros) * np.array(found.quant.scales, np.float64)
    else:
        real = site.real(place, "bias").astype(np.float64)
    if real.shape != (outputs,):
        raise ImportFault(f"its bias has shape {real.shape}, not ({outputs},); export it again")
    steps = real / (x.type.quantised.scale * np.array(weights.quant.scales, np.float64))
    if not (np.abs(steps) < 1 << 31).all():
        raise Unsupported("its bias does not fit into int32 at the scale of its products")
    return site.weights(np.rint(steps).astype(np.int32))


def binary(op: type[Add] | type[Mul] | type[Sub]) -> Callable[[Chain], Value]:
    """Add, Mul or Sub of two values; with a constant number it is a table of 256 results, in float32 as ONNX's."""
    write = {Add: np.add, Mul: np.multiply, Sub: np.subtract}[op]

    def convert(of: Chain) -> Value:
        site = of.site
        site.known()
        ranks = _rank(of, 0), _rank(of, 1)
        a_number, b_number = (_number(of, place) if of.dtype is DType.INT8 else None for place in (0, 1))
        if b_number is not None and ranks[0] >= ranks[1]:
            return _table(of, partial(_with_number, write, b_number, last=True))
        if a_number is not None and ranks[1] >= ranks[0]:
            return _table(of, partial(_with_number, write, a_number, last=False), 1)
        rank = max(ranks)
        a, b, order = site.in_one_order(*(_operand(of, place, rank) for place in (0, 1)))
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


def _operand(of: Chain, place: int, rank: int) -> Value:
    """An operand that is computed, or a quantised constant, with so many dimensions."""
    name = of.site.node.inputs[place] if of.site.given(place) else ""
    if name not in of.coded:
        return of.site.raised(of.site.value(place), rank)
    coded = of.coded[name]
    if coded.quant.axis is not None or coded.data.dtype != np.int8:
        raise Unsupported("it reads a constant with a scale per channel")
    raised = coded.data.reshape((1,) * (rank - coded.data.ndim) + coded.data.shape)
    return as_plain(of.site.weights(raised, coded.quant))


def global_average_pool(of: Chain) -> Value:
    """GlobalAveragePool of images or sequences."""
    of.site.known()
    value = of.site.value(0)
    made = of.site.emit(Mean, of.site.image(value), quant=of.target, axes=(1, 2), keep_dims=True)
    return bounded(of, of.site.imaged(made, value.rank))


def mean(of: Chain) -> Value:
    """ReduceMean; kernels have no bounds for it."""
    site = of.site
    site.known("axes", "keepdims", "noop_with_empty_axes")
    x = site.value(0)
    axes = columns.axes_of(site, x.rank)
    if not axes or not 0 < x.rank <= 4:
        raise Unsupported(f"it is over axes {axes} of {x.rank} dimensions")
    inside = tuple(sorted(x.order.index(axis) for axis in axes))
    y = Value(site.emit(Mean, x.tensor, quant=of.target, axes=inside, keep_dims=True), x.order)
    return bounded(of, y if site.attribute("keepdims", 1) else columns.without(site, y, axes))


def clip(of: Chain) -> Value:
    """Clip of such a value."""
    of.site.known()
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
    return Value(of.site.emit(Table, x.tensor, quant=target, values=values), x.order)


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
    of.site.known()
    return _table(of, lambda x: np.maximum(x, np.float32(0)))


def softmax(of: Chain) -> Value:
    """Softmax with the result's quantisation that the kernels have."""
    if of.target != SOFTMAX_QUANT:
        raise Unsupported("its result has another quantisation than scale 1/256 with the least zero point")
    return bounded(of, elements.softmax(of.site, lambda x: of.site.emit(Softmax, x, quant=of.target, beta=1.0)))


def scaled(site: Site, value: Value, target: Quant, dtype: DType | None = None) -> Value:
    """The value in another scale, as int8 or int16. `dtype`: of the result, by default the value's own."""
    own = value.tensor.type
    dtype = dtype or own.dtype
    if own.quant == target and own.dtype is dtype:
        return value
    if DType.INT16 in (own.dtype, dtype):
        return maps.of_stored(site, int16.requantised(own.quantised, target, own.dtype, dtype), value, quant=target)
    return Value(site.emit(Requantize, value.tensor, quant=target), value.order)


def bounded(of: Chain, value: Value) -> Value:
    """The value itself, if the chain's bounds are those of its type; other ops have no bounds of their own."""
    if of.clamp() != Clamp(*of.dtype.limits):
        raise Unsupported("an activation follows it")
    return value


CONVERTERS: dict[str, Callable[[Chain], Value]] = {
    "Add": binary(Add),
    "AveragePool": keeping(pool(AveragePool2d)),
    "Clip": clip,
    "Concat": concat,
    "Conv": conv,
    "Gemm": gemm,
    "GlobalAveragePool": global_average_pool,
    "MatMul": matmul,
    "Mul": binary(Mul),
    "ReduceMean": mean,
    "Relu": relu,
    "Softmax": softmax,
    "Sub": binary(Sub),
}
"""Ops that compute with int8, by ONNX's name; all others are computed in float32 where they can be."""

MOVERS: dict[str, Callable[[Site], Value | tuple[Value, ...]]] = {
    "DepthToSpace": layout.depth_to_space,
    "Expand": layout.expand,
    "Flatten": layout.flatten,
    "Gather": columns.gather,
    "Identity": elements.same,
    "MaxPool": pool(MaxPool2d),
    "Pad": layout.pad,
    "Reshape": layout.reshape,
    "Resize": resize.resize,
    "Slice": layout.slice_,
    "SpaceToDepth": layout.space_to_depth,
    "Split": layout.split,
    "Squeeze": layout.squeeze,
    "Tile": layout.tile,
    "Transpose": layout.transpose,
    "Unsqueeze": layout.unsqueeze,
}
"""Ops that only move or choose elements of their first operand, which keep their quantisation."""
