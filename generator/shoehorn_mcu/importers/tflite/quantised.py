"""Converters of TFLite's ops on quantised tensors that have no kernel of their own: one rule for all of them.

An op that moves, chooses or compares elements works on the stored values, and its result is read in the scale that the
file gives it. An op that tflite-micro, or else LiteRT's reference kernels, compute in integers is that arithmetic
(`stored.py`). Any other is computed in float32 between a conversion from integers and one to them, row by row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from typing import Any

from shoehorn_mcu.importers.fault import Unsupported
from shoehorn_mcu.importers.lowering import columns, int16, maps, stored
from shoehorn_mcu.importers.lowering import site as onnx
from shoehorn_mcu.importers.lowering.geometry import axis_of
from shoehorn_mcu.importers.lowering.movers import shaped
from shoehorn_mcu.importers.lowering.site import Value, as_plain
from shoehorn_mcu.importers.tflite import by_onnx, layout, real
from shoehorn_mcu.importers.tflite.site import Part, Site, clamp, quant_of, real_numbers
from shoehorn_mcu.importers.tflite.site import stored as steps
from shoehorn_mcu.ir import Array, DType, Quant, Tensor, TensorType
from shoehorn_mcu.ops import Dequantize, Gelu, Quantize, Reduce, Relabel, Scan
from shoehorn_mcu.ops import functions as f
from shoehorn_mcu.ops.formula import Term, formula

Single = Callable[[Site, onnx.Site], Value]

MOVED = frozenset(
    (
        *("BATCH_TO_SPACE_ND", "BROADCAST_TO", "DEPTH_TO_SPACE", "EMBEDDING_LOOKUP", "GATHER", "GATHER_ND"),
        *("MIRROR_PAD", "PACK", "REVERSE_V2", "SPACE_TO_BATCH_ND", "SPACE_TO_DEPTH", "TILE", "TOPK_V2", "UNPACK"),
    )
)
"""Ops that move stored values, whatever their scales."""

STORED = frozenset(
    (
        *("ARG_MAX", "ARG_MIN", "CAST", "FLOOR_DIV", "FLOOR_MOD", "MAXIMUM", "MINIMUM", "ONE_HOT", "SCATTER_ND"),
        *("BITWISE_XOR", "RIGHT_SHIFT", "SELECT", "SELECT_V2", "ZEROS_LIKE"),
    )
)
"""Ops that compute with stored values as with any integers: the reference kernels know no scales there either."""

ALIKE = frozenset(("REDUCE_MAX", "REDUCE_MIN"))
"""Ops that choose among stored values where the result has the operands' scale, which the reference kernels demand."""


FLOATS_16 = frozenset(("COS", "ELU", "HARD_SWISH", "SIN", "SQUARE"))
"""Ops with kernels for int8 that no reference kernel computes in int16."""

ORDERS = frozenset(("GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"))
"""Comparisons that are of stored values in int16: LiteRT's kernels know no scales there, tflite-micro has none."""


def convert(site: Site) -> Part:
    """The ops in place of one on quantised tensors."""
    code, arithmetic = site.code, INTEGERS.get(site.code)
    there = by_onnx.place(site, stored=True)
    if code in MOVED or (code in ALIKE and _alike(site)):
        return by_onnx.part(site, there, real.CONVERTS[code](site, _labelled(site, there)))
    if arithmetic is not None and arithmetic.fits(site):
        return by_onnx.part(site, there, arithmetic.convert(site, there))
    if code in STORED or (code in ORDERS and _types(site) == {DType.INT16}):
        return by_onnx.part(site, there, real.CONVERTS[code](site, there))
    return _through_floats(site, there)


def in_integers(code: str, dtype: DType) -> bool:
    """Whether an op of the rule is computed in integers where its tensors are of this type and fit each other."""
    arithmetic = INTEGERS.get(code)
    exact = arithmetic is not None and dtype in arithmetic.types
    return exact or code in MOVED | STORED | ALIKE or (code in ORDERS and dtype is DType.INT16)


def applies(site: Site) -> bool:
    """Whether an op that has a kernel for int8 is beyond that: its tensors have several scales, or another type."""
    if site.code == "REDUCE_MAX":
        return not _alike(site) or not layout.is_pool(site)
    if site.code in FLOATS_16 or INTEGERS.get(site.code, _NONE).types == _WORDS:
        return DType.INT16 in _types(site)
    return site.code in STORED and (not _alike(site) or _types(site) != {DType.INT8})


def _types(site: Site) -> set[DType]:
    """The element types of all operands and results that are quantised."""
    return {t.type.dtype for t in (*site.inputs, *site.outputs) if t is not None and t.type.quant is not None}


def _alike(site: Site) -> bool:
    """Whether all operands that are quantised, and the results, have one type and scale."""
    return len({(t.type.dtype, t.type.quant) for t in (*site.inputs, *site.outputs) if t and t.type.quant}) == 1


def _labelled(site: Site, there: onnx.Site) -> onnx.Site:
    """The site with the result's scale for all operands of its element type, constants among them."""
    to = site.output.type
    if to.quant is None:
        return there
    values, constants = dict(there.values), dict(there.constants)
    for tensor in site.inputs:
        if tensor is None or tensor.type.quant is None or tensor.type.dtype is not to.dtype:
            continue
        if tensor.data is not None:
            values[tensor.name] = as_plain(there.weights(tensor.data, to.quant))
            constants.pop(tensor.name, None)
        elif tensor.type.quant != to.quant:
            relabelled = there.emit(Relabel, tensor, quant=to.quant, dtype=to.dtype)
            values[tensor.name] = as_plain(relabelled)
    return replace(there, values=values, constants=constants)


def _through_floats(site: Site, there: onnx.Site) -> Part:
    """The op in float32, between conversions of its operands and of its results."""
    operands, outputs = [t for t in site.inputs if t is not None], site.outputs
    values, constants = dict(there.values), dict(there.constants)
    for tensor in operands:
        if tensor.type.quant is None:
            continue
        if tensor.data is not None:
            constants[tensor.name] = real_numbers(tensor)
        elif tensor.type.dtype is DType.INT16:
            values[tensor.name] = maps.mapped(there, int16.dequantised(quant_of(tensor)), as_plain(tensor))
        else:
            values[tensor.name] = as_plain(there.emit(Dequantize, tensor, dtype=DType.FLOAT32))
    there = replace(there, values=values, constants=constants)
    inside = replace(
        site,
        inputs=tuple(None if t is None else _real(t, constants.get(t.name)) for t in site.inputs),
        outputs=tuple(_real(t, None) for t in outputs),
    )
    results = real.CONVERTS[site.code](inside, there)
    found = results if isinstance(results, tuple) else (results,)
    made = tuple(_quantised(there, v, t) for v, t in zip(found, outputs, strict=False))
    return replace(by_onnx.part(site, there, made), in_float="no integer arithmetic is known for it")


def _real(tensor: Tensor, data: Array | None) -> Tensor:
    """The tensor in float32, if it is quantised."""
    if tensor.type.quant is None:
        return tensor
    return Tensor(tensor.name, TensorType(tensor.type.shape, DType.FLOAT32), data)


def _quantised(there: onnx.Site, value: Value, output: Tensor) -> Value:
    """A result in the type of the file's output."""
    if output.type.quant is None:
        return value
    if output.type.dtype is DType.INT16:
        return maps.mapped(there, int16.quantised(quant_of(output)), value)
    made = there.emit(Quantize, value.tensor, dtype=output.type.dtype, quant=output.type.quant)
    return Value(made, value.order)


def _operands(site: Site) -> tuple[Quant, Quant]:
    return quant_of(site.input(0, "first input")), quant_of(site.input(1, "second input"))


def _dtype(site: Site) -> DType:
    return site.output.type.dtype


def _formula(write: Callable[[Site], Callable[..., Term]]) -> Single:
    """The formula of all operands that is written by their scales and the op's options."""
    return lambda site, there: maps.mapped(there, write(site), *by_onnx.values(there))


def _compared(write: Callable[[Term, Term], Term]) -> Single:
    return _formula(lambda site: stored.compared(write, _operands(site)))


def _double(write: Callable[[tuple[Quant, Quant], Quant, DType], int16.Binary]) -> Single:
    """An op of two operands, by the scales of these and of the result."""
    return _formula(lambda site: write(_operands(site), quant_of(site.output), _dtype(site)))


def _divided(site: Site) -> int16.Binary:
    bounds = clamp(site.options.activation, site.output)
    return stored.divided(_operands(site), quant_of(site.output), _dtype(site), bounds)


_MOST = 7  # addends of one formula, beside the sum so far


def _added(site: Site, there: onnx.Site) -> Value:
    values = [there.value(place) for place in range(len(site.inputs))]
    ahead, behind = stored.added(quant_of(site.input(0, "input")), quant_of(site.output), _dtype(site))

    def total(*terms: Term) -> Term:
        return reduce(add, [term if term.dtype is DType.INT32 else ahead(term) for term in terms])

    while len(values) > _MOST:
        first = maps.mapped(there, total, *values[:_MOST])
        values = [first, *values[_MOST:]]
    return maps.mapped(there, lambda *terms: behind(total(*terms)), *values)


def _summed(site: Site, there: onnx.Site) -> Value:
    x, axes, dtype = there.value(0), site.axes(), _dtype(site)
    count = math.prod(x.shape[axis] for axis in axes)
    behind = stored.summed(quant_of(site.input(0, "input")), quant_of(site.output), count, dtype)
    total = _reduced(site, there, axes, lambda t: t.cast(DType.INT32), lambda a, b: a + b)
    return maps.mapped(there, behind, total)


def _multiplied(site: Site, there: onnx.Site) -> Value:
    """Element by element in the order of the operand, which the roundings on the way depend on."""
    x, axes = there.value(0), site.axes()
    count = math.prod(x.shape[axis] for axis in axes)
    of, to = quant_of(site.input(0, "input")), quant_of(site.output)
    ahead, write, behind = stored.product(of, to, count, _dtype(site))
    return maps.mapped(there, behind, _reduced(site, there, axes, ahead, write))


def _reduced(
    site: Site,
    there: onnx.Site,
    axes: tuple[int, ...],
    ahead: Callable[[Term], Term],
    write: Callable[[Term, Term], Term],
) -> Value:
    """The elements along the axes combined in their order, with the dimensions that the options ask for."""
    x = there.value(0)
    kept = tuple(axis for axis in range(x.rank) if axis not in axes)
    rows = there.transposed(there.plain(x), (*kept, *axes))
    count = math.prod(x.shape[axis] for axis in axes)
    shape = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
    if not site.options.keep_dims:
        shape = [x.shape[axis] for axis in kept]
    flat = as_plain(shaped(there, rows, (rows.type.elements // count, count)))
    whole = maps.mapped(there, ahead, flat)
    made = formula(write, DType.INT32, DType.INT32)
    found = there.emit(Reduce, whole.tensor, formula=made.text, along_channels=True)
    return as_plain(shaped(there, found, shape))


def _cumulated(site: Site, there: onnx.Site) -> Value:
    """Sums of all elements before, and mostly of this one."""
    options, x = site.options, there.value(0)
    of = quant_of(site.input(0, "input"))
    ahead, behind = stored.added(of, quant_of(site.output), _dtype(site))
    place = axis_of(site.integers(1, "axis")[0], x.rank)
    whole = maps.mapped(there, ahead, x)
    made = formula(lambda a, b: a + b, DType.INT32, DType.INT32)
    flags: dict[str, Any] = {"exclusive": options.exclusive, "reverse": options.reverse}
    y = there.emit(Scan, columns.along(there, there.plain(whole), place), formula=made.text, initial=0, **flags)
    return maps.mapped(there, behind, as_plain(shaped(there, y, x.shape)))


def _matrix_product(site: Site, there: onnx.Site) -> Value:
    total, write, behind = stored.matrix_product(_operands(site), quant_of(site.output), _dtype(site))
    return maps.mapped(there, behind, columns.product(there, *real.matrices(site, there), write, total))


def _normalised(site: Site, there: onnx.Site) -> Value:
    """Along the last axis."""
    (x, axes), of = real.last_axis(there), quant_of(site.input(0, "input"))
    squares = maps.mapped(there, stored.squares(of), x)
    total = columns.reduced(there, squares, axes, lambda a, b: a + b)
    shifted = site.options.shifted
    return maps.mapped(there, partial(stored.normalised, of, _dtype(site), shifted), x, total)


def _log_softmax(site: Site, there: onnx.Site) -> Value:
    """Along the last axis."""
    (x, axes), to = real.last_axis(there), quant_of(site.output)
    if (to.scale, to.zero_point) != (1 / 16, 127):
        raise Unsupported(f"its output has scale {to.scale} and zero point {to.zero_point}, 1/16 and 127 are needed")
    power, log, result = stored.log_softmax(quant_of(site.input(0, "input")), _dtype(site))
    most = columns.reduced(there, x, axes, f.maximum)
    powers = maps.mapped(there, power, x, most)
    total = columns.reduced(there, powers, axes, lambda a, b: a + b)
    return maps.mapped(there, result, x, most, maps.mapped(there, log, total))


def _bounded(low: float, high: float) -> Single:
    def write(of: Quant, to: Quant, dtype: DType) -> int16.Unary:
        least, most = max(dtype.limits[0], steps(low, to)), min(dtype.limits[1], steps(high, to))
        return stored.bounded(of, to, least, most, dtype)

    return _single(write)


def _single(write: Callable[[Quant, Quant, DType], int16.Unary]) -> Single:
    """An op of one operand, by the scales of operand and result."""
    return _formula(lambda site: write(quant_of(site.input(0, "input")), quant_of(site.output), _dtype(site)))


def _gelu(site: Site) -> int16.Unary:
    """By LiteRT's table, for tflite-micro has no kernel."""
    x, approximate = site.input(0, "input"), site.options.approximate
    op = Gelu(name=site.name, inputs=(x.name,), output=site.output.name, approximate=approximate)
    return stored.of_table(op.real, quant_of(x), quant_of(site.output))


@dataclass(frozen=True)
class Arithmetic:
    """A converter to the arithmetic of a reference kernel, and the element types that the kernel has."""

    convert: Single
    types: tuple[DType, ...] = (DType.INT8, DType.INT16)
    alike: bool = False  # the kernel demands one scale of all operands

    def fits(self, site: Site) -> bool:
        """Whether the kernel computes the op."""
        operands = [t for t in site.inputs if t is not None and t.type.quant is not None]
        scales = {(t.type.dtype, t.type.quant) for t in operands}
        own = {dtype for dtype, _ in scales} - ({DType.INT8} if DType.INT16 in self.types else set())
        return own <= {*self.types} and not (self.alike and len(scales) > 1)


_BYTES, _WORDS = (DType.INT8,), (DType.INT16,)

INTEGERS: Mapping[str, Arithmetic] = {
    "ABS": Arithmetic(_single(stored.magnitude), _WORDS),
    "ADD_N": Arithmetic(_added, _BYTES, alike=True),
    "BATCH_MATMUL": Arithmetic(_matrix_product),
    "CUMSUM": Arithmetic(_cumulated, _BYTES),
    "DIV": Arithmetic(_formula(_divided)),
    "GELU": Arithmetic(_formula(_gelu), _WORDS),
    "EXP": Arithmetic(_single(lambda of, to, dtype: stored.of_table(int16.power_of_e, of, to)), _WORDS),
    "EQUAL": Arithmetic(_compared(lambda a, b: a.equals(b))),
    "GREATER": Arithmetic(_compared(lambda a, b: a > b), _BYTES),
    "GREATER_EQUAL": Arithmetic(_compared(lambda a, b: a >= b), _BYTES),
    "L2_NORMALIZATION": Arithmetic(_normalised, _BYTES),
    "LESS": Arithmetic(_compared(lambda a, b: a < b), _BYTES),
    "LESS_EQUAL": Arithmetic(_compared(lambda a, b: a <= b), _BYTES),
    "LOG": Arithmetic(_single(lambda of, to, dtype: stored.of_table(stored.logarithm(to), of, to)), _WORDS),
    "LOG_SOFTMAX": Arithmetic(_log_softmax, _BYTES),
    "NEG": Arithmetic(_single(lambda of, to, dtype: lambda x: -x), _WORDS),  # neg.cc of LiteRT knows no scales
    "NOT_EQUAL": Arithmetic(_compared(lambda a, b: ~a.equals(b))),
    "PRELU": Arithmetic(_double(stored.prelu), _WORDS),
    "REDUCE_PROD": Arithmetic(_multiplied),
    "RELU_0_TO_1": Arithmetic(_bounded(0.0, 1.0), _BYTES),
    "RELU_N1_TO_1": Arithmetic(_bounded(-1.0, 1.0), _BYTES),
    "RSQRT": Arithmetic(_single(stored.inverse_root), _WORDS),
    "SQRT": Arithmetic(_single(stored.root), _WORDS),
    "SQUARED_DIFFERENCE": Arithmetic(_double(stored.squared_difference)),
    "SUM": Arithmetic(_summed),
}
"""By the schema's name of the op."""

_NONE = Arithmetic(_added, ())
