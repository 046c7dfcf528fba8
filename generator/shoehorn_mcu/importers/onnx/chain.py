"""What lies between DequantizeLinear and QuantizeLinear: quantised constants, the op's operands, and its target.

The arithmetic of ops on int8 is TensorFlow Lite's: sums in int32, scaled by a fixed-point multiplier. ONNX Runtime
scales in float32, so single results may differ by one step. uint8 is held as int8: all stored values and zero points
are 128 less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shoehorn_mcu.importers.fault import ImportFault, Unsupported
from shoehorn_mcu.importers.lowering import int16, layout, maps
from shoehorn_mcu.importers.lowering.geometry import axis_of
from shoehorn_mcu.importers.lowering.site import Site, Value, as_plain
from shoehorn_mcu.ir import Array, DType, Floats, Ints, Quant, Tensor
from shoehorn_mcu.ops import Clamp, Requantize, Table
from shoehorn_mcu.ops.unary import round_away


@dataclass(frozen=True)
class Coded:
    """A quantised constant, in the model's order; `quant.axis` counts there."""

    data: Array  # int8 or int16, or int32 for a bias
    quant: Quant

    @property
    def real(self) -> Array:
        """The numbers that it stands for, in float32."""
        real: Array = self.whole.astype(np.float32) * self._along(self.quant.scales).astype(np.float32)
        return real

    @property
    def exact(self) -> Floats:
        """The same without rounding."""
        real: Floats = self.whole * self._along(self.quant.scales)
        return real

    @property
    def whole(self) -> Ints:
        """The integers less their zero points."""
        whole: Ints = self.data.astype(np.int64) - self._along(self.quant.zero_points)
        return whole

    def _along(self, numbers: Sequence[float]) -> np.ndarray[Any, Any]:
        """One number, or one for each place of the quantisation's axis, as an array that broadcasts with the data."""
        axis = self.quant.axis
        return np.array(numbers).reshape([-1 if place == axis else 1 for place in range(self.data.ndim)])

    def along_its_axis(self) -> Coded:
        """The same with an element for each scale where there is one for all, such as the bias of a QGemm."""
        axis, count = self.quant.axis, len(self.quant.scales)
        if axis is None or self.data.shape[axis] == count:
            return self
        shape = (*self.data.shape[:axis], count, *self.data.shape[axis + 1 :])
        if self.data.shape[axis] != 1:
            raise ImportFault(f"it has {count} scales for {self.data.shape[axis]} elements; export it again")
        return Coded(np.broadcast_to(self.data, shape), self.quant)

    @property
    def matrix(self) -> Coded:
        """The constant without leading dimensions of size 1 beyond two."""
        more = max(0, self.data.ndim - 2)
        if any(size != 1 for size in self.data.shape[:more]):
            return self
        own = self.quant.axis
        axis = None if own is None or own < more else own - more
        quant = Quant(self.quant.scales, self.quant.zero_points, axis)
        return Coded(self.data.reshape(self.data.shape[more:]), quant)


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

    def operand(self, place: int, rank: int = 0) -> Value:
        """An operand that is computed, or a quantised constant with one scale; with so many dimensions at least."""
        name = self.site.node.inputs[place] if self.site.given(place) else ""
        if name not in self.coded:
            return self.site.raised(self.site.value(place), rank)
        coded = self.coded[name]
        if coded.quant.axis is not None or coded.data.dtype != np.int8:
            raise Unsupported("it reads a constant with a scale per channel, or of more than 8 bits")
        raised = coded.data.reshape((1,) * (rank - coded.data.ndim) + coded.data.shape)
        return as_plain(self.site.weights(raised, coded.quant))

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


def symmetric(coded: Coded) -> Coded:
    """Weights with a zero point of 0: any other is subtracted from them, and differences of 9 bits are int16."""
    data, quant = coded.data, coded.quant
    if data.dtype != np.int8:
        raise Unsupported(f"its weights are {data.dtype}, 8 bits are supported")
    if any(quant.zero_points):
        wide = coded.whole.astype(np.int16)
        data = wide.astype(np.int8) if wide.min() >= -128 and wide.max() <= 127 else wide
    return Coded(data, Quant(quant.scales, (0,) * len(quant.scales), quant.axis))


def ordered_weights(site: Site, coded: Coded, order: tuple[int, ...], axis: int) -> Tensor:
    """The constant in another order of dimensions; a scale per output channel is then along `axis`."""
    own = coded.quant.axis
    if own is not None and order[axis] != own:
        raise Unsupported("its weights have a scale per input channel")
    quant = Quant(coded.quant.scales, coded.quant.zero_points, None if own is None else axis)
    return site.weights(coded.data.transpose(order), quant)


def bias(of: Chain, place: int, outputs: int, x: Tensor, weights: Coded, factor: float = 1.0) -> Tensor:
    """The bias, times a factor, in steps of x scale * weight scale; one number, or one for each output."""
    site = of.site
    if not site.given(place):
        return site.weights(np.zeros(outputs, np.int32))
    name = site.node.inputs[place]
    real = of.coded[name].exact if name in of.coded else site.real(place, "bias").astype(np.float64)
    if real.size not in (1, outputs) or real.shape[-1:] not in ((), (1,), (outputs,)):
        raise Unsupported(f"its bias has shape {real.shape}, ({outputs},) is supported")
    real = np.broadcast_to(real.reshape(-1), (outputs,)) * factor
    steps = real / (x.type.quantised.scale * np.array(weights.quant.scales, np.float64))
    if not (np.abs(steps) < 1 << 31).all():
        raise Unsupported("its bias does not fit into int32 at the scale of its products")
    return site.weights(np.rint(steps).astype(np.int32))


def transposed(site: Site, coded: Coded) -> Coded:
    """Transpose of a quantised constant."""
    perm = layout.permutation(site, coded.data.ndim)
    axis = None if coded.quant.axis is None else perm.index(coded.quant.axis)
    return Coded(coded.data.transpose(perm), replace(coded.quant, axis=axis))


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
    """The value between the chain's bounds, for ops that have none of their own."""
    return within(of.site, value, of.clamp())


def within(site: Site, value: Value, bounds: Clamp) -> Value:
    """The value between bounds, which are stored values; itself where they are those of its type."""
    kind = value.tensor.type
    if (bounds.low, bounds.high) == kind.dtype.limits:
        return value
    if kind.dtype is DType.INT16:
        return maps.of_stored(site, int16.clipped(bounds.low, bounds.high), value, quant=kind.quant)
    values = tuple(min(max(code, bounds.low), bounds.high) for code in range(-128, 128))
    return Value(site.emit(Table, value.tensor, values=values), value.order)
