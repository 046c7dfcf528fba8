"""Converters of TFLite's recurrent layers, whose variable tensors become states of the model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from shoehorn_mcu import ops
from shoehorn_mcu.importers.fault import ImportFault, Unsupported
from shoehorn_mcu.importers.lowering.recurrent import cell_formula, lstm
from shoehorn_mcu.importers.tflite.options import Activation, Options
from shoehorn_mcu.importers.tflite.site import Part, Site, clamp, quantised
from shoehorn_mcu.ir import Array, DType, Op, Quant, State, Tensor, TensorType
from shoehorn_mcu.ops import functions as f
from shoehorn_mcu.ops.formula import formula
from shoehorn_mcu.ops.laws import quoted

STATES: Mapping[str, tuple[int, ...]] = {"SVDF": (4,), "UNIDIRECTIONAL_SEQUENCE_LSTM": (18, 19)}
"""By op: its operands that are variable tensors, which keep their values between inferences."""

# Operands of UNIDIRECTIONAL_SEQUENCE_LSTM (lstm_shared.h); gates in the order input, forget, cell, output.
_WEIGHTS, _RECURRENT, _BIAS = (1, 2, 3, 4), (5, 6, 7, 8), (12, 13, 14, 15)
_VARIANTS = {"peephole weights": (9, 10, 11), "a projection": (16, 17), "layer normalisation": (20, 21, 22, 23)}


def sequence_lstm(site: Site) -> Part:
    """UNIDIRECTIONAL_SEQUENCE_LSTM: all states, and parts of them; int8 or int16 with int16 cell states, or float32."""
    options = _standard(site)
    if site.input(0, "input").type.dtype is DType.FLOAT32:
        return _real_lstm(site, options)
    x, hidden, cell = site.input(0, "input"), site.input(18, "hidden state"), site.input(19, "cell state")
    dtype, power = DType.INT16 if x.type.dtype is DType.INT16 else DType.INT8, _power(cell)
    quantised(x, "input", dtype)
    hidden_quant = quantised(hidden, "hidden state", dtype).quantised
    if quantised(site.output, "output", dtype).quantised != hidden_quant:
        raise Unsupported("its output and its hidden state have different scales")
    batch, steps, inputs, units = _sizes(site, hidden.type, cell.type)
    made = _Maker(site)
    constants = (
        made.constant(*_stacked(site, _WEIGHTS, (units, inputs))),
        made.constant(*_stacked(site, _RECURRENT, (units, units))),
        made.constant(_biases(site, units, DType.INT64 if dtype is DType.INT16 else DType.INT32), None),
    )
    state = TensorType((1, batch, ops.Lstm.state_size(units, dtype)), dtype, hidden_quant)
    at = ops.Lstm.hidden_at(units, dtype)
    first = np.zeros(state.shape, dtype.numpy)
    first[:, :, at : at + units] = hidden_quant.zero_point
    before = made.tensor(hidden.name, state)
    clip = 0 if options.cell_clip <= 0 else int(min(options.cell_clip / 2.0**power, 32767.0))
    after, over_x = replace(state, shape=(steps, *state.shape[1:])), made.by_steps(x, options.time_major)
    states = made.op(ops.Lstm, (over_x, before, *constants), after, cell_power=power, cell_clip=clip)
    last = made.part(states, (steps - 1, 0, 0), state.shape) if steps > 1 else states
    shown = made.part(states, (0, 0, at), (steps, batch, units))
    made.as_output(shown, options.time_major)
    initial = made.constant(first, hidden_quant, f"{hidden.name}_initial")
    return Part(tuple(made.ops), tuple(made.tensors), (State(before.name, last.name, initial.name),))


def _real_lstm(site: Site, options: Options) -> Part:
    """In float32: a dense layer, and the cell of ONNX's LSTM, with gates input, output, forget, cell."""
    x, hidden, cell = site.input(0, "input"), site.input(18, "hidden state"), site.input(19, "cell state")
    batch, steps, inputs, units = _sizes(site, hidden.type, cell.type)
    made, order = _Maker(site), (0, 3, 1, 2)
    kind = lstm(cell_clip=max(0.0, options.cell_clip))
    weights, recurrent, bias = (
        np.stack([_real(site, places[gate], shape) for gate in order])
        for places, shape in ((_WEIGHTS, (units, inputs)), (_RECURRENT, (units, units)), (_BIAS, (units,)))
    )
    dense = (made.constant(weights.reshape(-1, inputs), None), made.constant(bias.reshape(-1), None))
    width = TensorType((steps, batch, kind.gates * units), DType.FLOAT32)
    over_x = made.op(ops.Dense, (made.by_steps(x, options.time_major), *dense), width, clamp=ops.RealClamp())
    zeros = np.zeros((1, batch, kind.parts * units), np.float32)
    before = made.tensor(hidden.name, TensorType(zeros.shape, DType.FLOAT32))
    others = (recurrent, np.zeros((kind.gates, units), np.float32), np.zeros((0, units), np.float32))
    constants = [made.constant(array, None) for array in others]
    after = TensorType((steps, *zeros.shape[1:]), DType.FLOAT32)
    text = cell_formula(kind, 0, (f.sigmoid, f.tanh, f.tanh))
    states = made.op(ops.Recurrence, (over_x, before, *constants), after, formula=text, parts=kind.parts)
    last = made.part(states, (steps - 1, 0, 0), zeros.shape) if steps > 1 else states
    made.as_output(made.part(states, (0, 0, 0), (steps, batch, units)), options.time_major)
    initial = made.constant(zeros, None, f"{hidden.name}_initial")
    return Part(tuple(made.ops), tuple(made.tensors), (State(before.name, last.name, initial.name),))


def _real(site: Site, place: int, shape: tuple[int, ...]) -> Array:
    """A constant of this shape in float32."""
    tensor = site.input(place, "weights")
    if tensor.data is None or tensor.type != TensorType(shape, DType.FLOAT32):
        raise Unsupported(f"its weights {quoted(tensor.name)} are {tensor.type}, constant float32 {shape} are needed")
    return tensor.data


def _standard(site: Site) -> Options:
    """The options; raises Unsupported for the variants of the layer that TFLite Micro does not compute either."""
    options = site.options
    for what, places in _VARIANTS.items():
        if any(site.optional(place) is not None for place in places):
            raise Unsupported(f"it has {what}, only the standard LSTM is supported")
    if site.optional(_WEIGHTS[0]) is None or site.optional(_RECURRENT[0]) is None:
        raise Unsupported("its input and forget gates are coupled, only the standard LSTM is supported")
    if options.activation is not Activation.TANH:
        raise Unsupported(f"its activation is {options.activation.name}, TANH is supported")
    return options


def _sizes(site: Site, hidden: TensorType, cell: TensorType) -> tuple[int, int, int, int]:
    """Batch, steps, inputs and units."""
    x = site.input(0, "input").type
    if len(x.shape) != 3:
        raise Unsupported(f"its input is {x}, three dimensions are needed")
    batch, steps = x.shape[1::-1] if site.options.time_major else x.shape[:2]
    units = hidden.elements // batch
    if (hidden.elements, cell.elements) != (batch * units, batch * units):
        raise ImportFault(f"its states {hidden} and {cell} do not fit a batch of {batch}; convert it again")
    return batch, steps, x.shape[2], units


def _power(cell: Tensor) -> int:
    """log2 of the cell state's scale."""
    if cell.type.dtype is not DType.INT16 or cell.type.quant is None:
        raise Unsupported(f"its cell state {quoted(cell.name)} is {cell.type}, a quantised int16 is needed")
    power = round(math.log2(cell.type.quantised.scale))
    if cell.type.quantised != Quant((2.0**power,), (0,)):
        raise Unsupported(f"the scale of its cell state {quoted(cell.name)} is no power of two")
    return power


def _stacked(site: Site, places: tuple[int, ...], shape: tuple[int, int]) -> tuple[Array, Quant]:
    """The matrices of the four gates as one array, with a scale for each."""
    arrays, scales = [], []
    for place in places:
        tensor = site.input(place, "weights")
        kind = quantised(tensor, "weights")
        if tensor.data is None:
            raise Unsupported(f"its weights {quoted(tensor.name)} are computed, they must be constant")
        if kind.shape != shape or kind.quantised.zero_point:
            raise ImportFault(f"its weights {quoted(tensor.name)} are {kind}, not {shape}; convert it again")
        arrays.append(tensor.data)
        scales.append(kind.quantised.scale)
    return np.stack(arrays), Quant(tuple(scales), (0,) * len(scales), 0)


def _biases(site: Site, units: int, dtype: DType) -> Array:
    """The biases of the four gates as one array."""
    arrays = []
    for place in _BIAS:
        tensor = site.input(place, "bias")
        if tensor.data is None or (tensor.type.shape, tensor.type.dtype) != ((units,), dtype):
            raise Unsupported(
                f"its bias {quoted(tensor.name)} is {tensor.type}, a constant {dtype.value}[{units}] is needed"
            )
        arrays.append(tensor.data)
    return np.stack(arrays)


def svdf(site: Site) -> Part:
    """SVDF in int8 or float32: operands x, weights of features (F, I), of time (F, M), bias (U), memory (B, F * M)."""
    options, memory = site.options, site.input(4, "memory")
    x, features, time = site.input(0, "input"), site.input(1, "weights"), site.input(2, "weights of time")
    shapes = [t.type.shape for t in (x, features, time, memory)]
    if any(len(shape) != 2 for shape in shapes) or options.rank < 1 or features.type.shape[0] % options.rank:
        raise ImportFault(f"its operands have shapes {shapes} and rank {options.rank}; convert it again")
    (batch, inputs), (filters, _), (_, places), *_ = shapes
    units = filters // options.rank
    wanted = [(batch, inputs), (filters, inputs), (filters, places), (batch, filters * places)]
    if shapes != wanted:
        raise ImportFault(f"its operands have shapes {shapes}, not {wanted}; convert it again")
    made = _Maker(site)
    before = made.tensor(memory.name, memory.type)
    real = x.type.dtype is DType.FLOAT32
    bias = site.optional(3) or made.constant(np.zeros(units, np.float32 if real else np.int32), None)
    if real:
        after = _real_svdf(made, before, bias, options)
    elif options.activation not in (Activation.NONE, Activation.RELU):
        raise Unsupported(f"fused activation {options.activation.name}")
    else:
        after = made.op(ops.SvdfState, (x, before, features), memory.type)
        made.op(ops.SvdfSum, (after, time, bias), site.output)
    initial = made.constant(memory.type.zeros(), memory.type.quant, f"{memory.name}_initial")
    return Part(tuple(made.ops), tuple(made.tensors), (State(before.name, after.name, initial.name),))


def _real_svdf(made: _Maker, before: Tensor, bias: Tensor, options: Options) -> Tensor:
    """The memory after x, from a dense layer and moves; the output from products, sums along memory and filters."""
    site = made.site
    x, time, batch = site.input(0, "input"), site.input(2, "weights of time"), before.type.shape[0]
    filters, places = time.type.shape
    weights = made.constant(_real(site, 1, (filters, x.type.shape[1])), None)
    zeros = made.constant(np.zeros(filters, np.float32), None)

    def real(*shape: int) -> TensorType:
        return TensorType(shape, DType.FLOAT32)

    def shaped(of: Tensor, *shape: int) -> Tensor:
        return made.op(ops.Reshape, (of,), real(*shape), shape=shape)

    new = made.op(ops.Dense, (x, weights, zeros), real(batch, filters), clamp=ops.RealClamp())
    joined = shaped(new, batch, filters, 1)
    if places > 1:
        old = made.part(shaped(before, batch, filters, places), (0, 0, 1), (batch, filters, places - 1))
        joined = made.op(ops.Concat, (old, joined), real(batch, filters, places), axis=2)
    after = shaped(joined, *before.type.shape)
    product, plus = (formula(w, DType.FLOAT32, DType.FLOAT32).text for w in (lambda a, b: a * b, lambda a, b: a + b))
    kept = made.constant(_real(site, 2, (filters, places)).reshape(1, filters, places), None)
    products = made.op(ops.Map, (joined, kept), joined.type, formula=product)
    total = made.op(ops.Reduce, (products,), real(batch, filters, 1), formula=plus, along_channels=True)
    by_unit = shaped(total, batch, filters // options.rank, options.rank)
    sums = made.op(ops.Reduce, (by_unit,), real(batch, filters // options.rank, 1), formula=plus, along_channels=True)
    bounds = clamp(options.activation, site.output)
    last = formula(lambda a, b: f.clip(a + b, bounds.low, bounds.high), DType.FLOAT32, DType.FLOAT32)
    made.op(ops.Map, (shaped(sums, batch, filters // options.rank), bias), site.output, formula=last.text)
    return after


class _Maker:
    """The ops and tensors made in place of one op of the file."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.ops: list[Op] = []
        self.tensors: list[Tensor] = []

    def tensor(self, name: str, kind: TensorType, data: Array | None = None) -> Tensor:
        self.tensors.append(Tensor(name, kind, data))
        return self.tensors[-1]

    def constant(self, data: Array, quant: Quant | None, name: str | None = None) -> Tensor:
        kind = TensorType(data.shape, DType(data.dtype.name), quant)
        return self.tensor(name or next(self.site.fresh), kind, data)

    def op(self, make: type[Op], inputs: tuple[Tensor, ...], output: TensorType | Tensor, **fields: object) -> Tensor:
        """An op of this class; its output is a new tensor of this type, or this one."""
        made = self.tensor(next(self.site.fresh), output) if isinstance(output, TensorType) else output
        name = self.site.name + (f"_{len(self.ops)}" if self.ops else "")
        self.ops.append(make(name=name, inputs=tuple(t.name for t in inputs), output=made.name, **fields))
        return made

    def part(self, x: Tensor, begin: tuple[int, ...], size: tuple[int, ...]) -> Tensor:
        """A part of a tensor."""
        return self.op(ops.Slice, (x,), replace(x.type, shape=size), begin=begin, size=size, step=(1,) * len(size))

    def by_steps(self, x: Tensor, time_major: bool) -> Tensor:
        """x as (steps, batch, inputs)."""
        if time_major:
            return x
        batch, steps, inputs = x.type.shape
        kind = replace(x.type, shape=(steps, batch, inputs))
        if batch == 1 or steps == 1:
            return self.op(ops.Reshape, (x,), kind, shape=kind.shape)
        return self.op(ops.Transpose, (x,), kind, perm=(1, 0, 2))

    def as_output(self, y: Tensor, time_major: bool) -> None:
        """The output of the file's op from (steps, batch, units)."""
        output, (steps, batch, units) = self.site.output, y.type.shape
        if time_major or 1 in (steps, batch):
            self.op(ops.Reshape, (y,), output, shape=(steps, batch, units) if time_major else (batch, steps, units))
        else:
            self.op(ops.Transpose, (y,), output, perm=(1, 0, 2))
