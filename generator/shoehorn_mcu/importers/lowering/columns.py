"""Converters of ONNX's ops along axes: reductions, running sums, the first elements, products of matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from operator import add
from typing import Any

import numpy as np

from shoehorn_mcu.importers.fault import ImportFault, Unsupported
from shoehorn_mcu.importers.forms import Row
from shoehorn_mcu.importers.lowering import layout
from shoehorn_mcu.importers.lowering.geometry import axis_of
from shoehorn_mcu.importers.lowering.maps import cast, mapped
from shoehorn_mcu.importers.lowering.movers import shaped, sliced
from shoehorn_mcu.importers.lowering.site import Site, Value, as_plain
from shoehorn_mcu.ir import DType, Tensor
from shoehorn_mcu.ops import Concat, Gather, Map, MatMul, Mean, Reduce, Scan, Scatter, Slice, TopIndices
from shoehorn_mcu.ops import functions as f
from shoehorn_mcu.ops.formula import Term, formula

Convert = Callable[[Site], Value | tuple[Value, ...]]
Write = Callable[[Term, Term], Term]

_DET_LIMIT = 4


def along(site: Site, x: Tensor, place: int, count: int = 1) -> Tensor:
    """x as (before, size, after): `count` dimensions from `place` on are one."""
    shape = x.type.shape
    sizes = (math.prod(shape[:place]), math.prod(shape[place : place + count]), math.prod(shape[place + count :]))
    return shaped(site, x, sizes)


def reduced(site: Site, x: Value, axes: Sequence[int], write: Write) -> Value:
    """The elements along these axes of the model combined to one; the axes keep size 1."""
    places = sorted(x.order.index(axis) for axis in axes)
    tensor = x.tensor
    kept: dict[str, Any] = {"quant": tensor.type.quant, "stored": tensor.type.quant is not None}
    while places:  # neighbours at once, the last ones first
        last = places.pop()
        first = last
        while places and places[-1] == first - 1:
            first = places.pop()
        shape = tensor.type.shape
        if math.prod(shape[first : last + 1]) > 1:
            made = formula(write, tensor.type.dtype, tensor.type.dtype)
            if first > 0 and math.prod(shape[last + 1 :]) == 1:  # rows keep the dimension before
                size = math.prod(shape[first : last + 1])
                columns = shaped(site, tensor, (math.prod(shape[: first - 1]), shape[first - 1], size))
                tensor = site.emit(Reduce, columns, formula=made.text, along_channels=True, **kept)
            else:
                columns = along(site, tensor, first, last + 1 - first)
                tensor = site.emit(Reduce, columns, formula=made.text, **kept)
        ones = (1,) * (last + 1 - first)
        tensor = shaped(site, tensor, (*shape[:first], *ones, *shape[last + 1 :]))
    return Value(tensor, x.order)


def mean_of(site: Site, x: Value, axes: Sequence[int]) -> Value:
    """The mean of elements along these axes of the model, which keep size 1."""
    if x.tensor.type.dtype is DType.FLOAT32 and 0 < x.rank <= 4 and axes:
        inside = tuple(sorted(x.order.index(axis) for axis in axes))
        return Value(site.emit(Mean, x.tensor, axes=inside, keep_dims=True), x.order)
    count = math.prod(x.shape[axis] for axis in axes)
    return mapped(site, lambda t: t / t.constant(count), reduced(site, x, axes, add))


def without(site: Site, x: Value, axes: Sequence[int]) -> Value:
    """The value without these dimensions of the model, which have size 1."""
    kept = [axis for axis in x.order if axis not in axes]
    sizes = [size for size, axis in zip(x.tensor.type.shape, x.order, strict=True) if axis not in axes]
    ranked = sorted(kept)
    return Value(shaped(site, x.tensor, sizes), tuple(ranked.index(axis) for axis in kept))


def axes_of(site: Site, rank: int) -> tuple[int, ...] | None:
    """The axes of a reduction, an attribute or the second operand; None: it is none, and the input stays."""
    asked = site.integers(1, "axes") if site.given(1) else site.attribute("axes", ())
    if asked:
        return tuple(sorted({axis_of(axis, rank) for axis in asked}))
    return None if site.attribute("noop_with_empty_axes", 0) else tuple(range(rank))


def reduction(
    write: Write,
    before: Callable[[Term], Term] | None = None,
    after: Callable[[Term], Term] | None = None,
    mean: bool = False,
) -> Callable[[Site], Value]:
    """An op that combines elements along axes; `before` and `after` are formulas of each element and each result."""

    def convert(site: Site) -> Value:
        x = site.value(0)
        axes = axes_of(site, x.rank)
        y = mapped(site, before, x) if before is not None else x
        if axes is not None:
            y = mean_of(site, y, axes) if mean else reduced(site, y, axes, write)
        y = mapped(site, after, y) if after is not None else y
        return y if axes is None or site.attribute("keepdims", 1) else without(site, y, axes)

    return convert


def _log_sum_exp(site: Site) -> Value:
    """With the largest element taken off first, so that no power is infinite."""
    x = site.value(0)
    axes = axes_of(site, x.rank)
    if axes is None:
        return x
    largest = reduced(site, x, axes, f.maximum)
    powers = mapped(site, lambda t, m: f.exp(t - (abs(m) < math.inf).select(m, 0.0)), x, largest)
    total = reduced(site, powers, axes, add)
    y = mapped(site, lambda t, m: f.log(t) + (abs(m) < math.inf).select(m, 0.0), total, largest)
    return y if site.attribute("keepdims", 1) else without(site, y, axes)


def first_places(site: Site, x: Value, axis: int, count: int, largest: bool, last: bool = False) -> Value:
    """int64 places of the largest or smallest elements along an axis, in order."""
    dtype = x.tensor.type.dtype
    made = formula((lambda a, b: a > b) if largest else (lambda a, b: a < b), dtype, dtype)
    place, shape = x.order.index(axis), x.tensor.type.shape
    columns = along(site, x.tensor, place)
    found = site.emit(TopIndices, columns, dtype=DType.INT64, formula=made.text, count=count, last=last)
    return Value(shaped(site, found, (*shape[:place], count, *shape[place + 1 :])), x.order)


def _arg(site: Site, largest: bool) -> Value:
    x = site.value(0)
    axis = axis_of(site.attribute("axis", 0), x.rank)
    found = first_places(site, x, axis, 1, largest, bool(site.attribute("select_last_index", 0)))
    return found if site.attribute("keepdims", 1) else without(site, found, (axis,))


def _hardmax(site: Site) -> Value:
    x = site.value(0)
    axis = axis_of(site.attribute("axis", -1), x.rank)
    first = first_places(site, x, axis, 1, largest=True)
    return mapped(site, lambda i, n: i.equals(n).cast(x.tensor.type.dtype), counted(site, x, axis), first)


def counted(site: Site, x: Value, axis: int, dtype: type[np.generic] = np.int64) -> Value:
    """0, 1, 2 ... along one dimension of the model, 1 in all others."""
    shape = tuple(size if dimension == axis else 1 for dimension, size in enumerate(x.shape))
    return as_plain(site.weights(np.arange(x.shape[axis], dtype=dtype).reshape(shape)))


def _top_k(site: Site) -> tuple[Value, ...]:
    x = site.value(0)
    axis = axis_of(site.attribute("axis", -1), x.rank)
    count = site.integers(1, "k")[0] if site.given(1) else site.attribute("k", 0)
    found = first_places(site, x, axis, count, bool(site.attribute("largest", 1)))
    return gathered(site, x, found, axis), found


def running(write: Write, initial: int, site: Site) -> Value:
    """CumSum and its like."""
    x = site.value(0)
    place = x.order.index(axis_of(site.integers(1, "axis")[0], x.rank))
    dtype, shape = x.tensor.type.dtype, x.tensor.type.shape
    made = formula(write, dtype, dtype)
    flags: dict[str, Any] = {name: bool(site.attribute(name, 0)) for name in ("exclusive", "reverse")}
    columns = along(site, x.tensor, place)
    y = site.emit(Scan, columns, formula=made.text, initial=initial, **flags)
    return Value(shaped(site, y, shape), x.order)


def gathered(site: Site, x: Value, indices: Value, axis: int) -> Value:
    """x's elements at these indices along an axis; the indices have x's other dimensions."""
    place, shape = x.order.index(axis), x.tensor.type.shape
    inside = site.ordered(indices, x.order)
    y = site.emit(Gather, along(site, x.tensor, place), along(site, inside, place))
    return Value(shaped(site, y, (*shape[:place], inside.type.shape[place], *shape[place + 1 :])), x.order)


def matmul(site: Site) -> Value:
    """MatMul of any two operands of one type."""
    return matmul_of(site, site.value(0), site.value(1))


def product(
    site: Site, a: Value, b: Value, write: Callable[..., Term], total: DType | None = None, **fields: Any
) -> Value:
    """numpy.matmul, with the formula of the sum so far and two elements; the sum has type `total`, a's if None.

    `fields`: more of the op's, as `Site.emit` takes them.
    """
    left, right = a.shape, b.shape
    if not left or not right:
        raise ImportFault("a matrix of it is a number; export it again")
    left = (1, *left) if len(left) == 1 else left
    right = (*right, 1) if len(right) == 1 else right
    if left[-1] != right[-2]:
        raise ImportFault(f"its operands have shapes {a.shape} and {b.shape}; export it again")
    x = shaped(site, site.plain(a), (*left[:-1], 1, left[-1]))
    y = shaped(site, site.plain(b), (*right[:-2], 1, *right[-2:]) if len(right) > 2 else right)
    dtype = total or a.tensor.type.dtype
    made = formula(write, dtype, x.type.dtype, y.type.dtype)
    found = site.emit(MatMul, x, y, dtype=dtype, formula=made.text, **fields)
    *ahead, rows, _, columns = found.type.shape
    shape = (*ahead, *([rows] if a.rank > 1 else []), *([columns] if b.rank > 1 else []))
    return as_plain(shaped(site, found, shape))


def _det(site: Site) -> Value:
    """Det of matrices of few rows: by their first rows, times the determinants of what is left without one column."""
    x = site.value(0)
    size = x.shape[-1] if x.rank > 1 else 0
    if not 0 < size <= _DET_LIMIT or x.shape[-2] != size or x.tensor.type.dtype is not DType.FLOAT32:
        raise Unsupported(f"its input has shape {x.shape}; square matrices of float32 up to {_DET_LIMIT} are supported")
    count = math.prod(x.shape[:-2])
    cells = shaped(site, site.plain(x), (count, size * size))

    def cell(row: int, column: int) -> Value:
        place = row * size + column
        return as_plain(sliced(site, cells, [range(count), range(place, place + 1)]))

    @cache
    def minor(columns: tuple[int, ...]) -> Value:
        """The determinant of these columns of as many last rows."""
        row = size - len(columns)
        if len(columns) == 1:
            return cell(row, columns[0])
        parts = [(cell(row, c), minor(tuple(other for other in columns if other != c))) for c in columns]
        total = mapped(site, lambda a, b: a * b, *parts[0])
        for number, part in enumerate(parts[1:]):
            sign = 1.0 if number % 2 else -1.0
            total = mapped(site, lambda t, a, b, s=sign: t + s * (a * b), total, *part)
        return total

    return as_plain(shaped(site, minor(tuple(range(size))).tensor, x.shape[:-2]))


def gemm(site: Site) -> Value:
    """Gemm of any operands: alpha * a * b + beta * c."""
    a, b = (site.value(place) for place in (0, 1))
    a = Value(a.tensor, tuple(1 - d for d in a.order)) if site.attribute("transA", 0) else a
    b = Value(b.tensor, tuple(1 - d for d in b.order)) if site.attribute("transB", 0) else b
    alpha, beta = site.attribute("alpha", 1.0), site.attribute("beta", 1.0)
    y = matmul_of(site, a, b)
    if not site.given(2):
        return y if alpha == 1.0 else mapped(site, lambda t: t * _number(t, alpha), y)

    def write(t: Term, c: Term) -> Term:
        scaled = t if alpha == 1.0 else t * _number(t, alpha)
        return scaled + (c if beta == 1.0 else c * _number(c, beta))

    return mapped(site, write, y, site.value(2))


def matmul_of(site: Site, a: Value, b: Value) -> Value:
    """The product of two values."""
    return product(site, a, b, lambda t, x, y: t + x * y)


def _number(of: Term, number: float) -> Term:
    if of.dtype is not DType.FLOAT32 and number != int(number):
        raise Unsupported(f"it multiplies integers by {number}")
    return of.constant(number)


def _matmul_integer(site: Site) -> Value:
    """int32 sums of products of 8-bit integers less their zero points: a's per row, b's per column."""
    wide = [cast(site, site.value(place), DType.INT32) for place in (0, 1)]
    for place in (2, 3):
        if site.given(place):
            zero = cast(site, site.value(place), DType.INT32)
            if place == 2 and zero.rank == 1 and zero.shape != (1,):
                zero = Value(shaped(site, zero.tensor, (*zero.shape, 1)), (0, 1))
            wide[place - 2] = mapped(site, lambda x, z: x - z, wide[place - 2], zero)
    return matmul_of(site, *wide)


_UPDATES: dict[str, Write] = {
    "none": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "max": f.maximum,
    "min": f.minimum,
}


def gather(site: Site) -> Value:
    """Gather: of few runs of constant places as slices."""
    if site.is_constant(1) and layout.runs_of(site.constant(1, "indices")) <= layout.FEW_RUNS:
        return layout.gather(site)
    return _at_indices(site)


def _at_indices(site: Site) -> Value:
    """Gather: rank(x) - 1 + rank(indices) dimensions."""
    x, indices = site.value(0), site.value(1)
    axis = axis_of(site.attribute("axis", 0), x.rank)
    plain = site.plain(x)
    shape = x.shape
    places = shaped(site, site.plain(indices), (1, math.prod(indices.shape), 1))
    y = site.emit(Gather, along(site, plain, axis), places)
    return as_plain(shaped(site, y, (*shape[:axis], *indices.shape, *shape[axis + 1 :])))


def _part(site: Site, x: Value, like: Sequence[int], axis: int) -> Value:
    """x without what is beyond another shape in the dimensions other than `axis`."""
    sizes = tuple(n if d == axis else like[d] for d, n in enumerate(x.shape))
    return Value(sliced(site, x.tensor, [range(sizes[dimension]) for dimension in x.order]), x.order)


def _gather_elements(site: Site) -> Value:
    x, indices = site.value(0), site.value(1)
    axis = axis_of(site.attribute("axis", 0), x.rank)
    if x.rank != indices.rank:
        raise ImportFault(f"its indices {indices.shape} do not fit its input {x.shape}; export it again")
    return gathered(site, _part(site, x, indices.shape, axis), indices, axis)


def _linear_indices(site: Site, indices: Value, sizes: Sequence[int]) -> Value:
    """Indices of the flattened first dimensions, from vectors of indices along the last one."""
    plain = site.plain(indices)
    dtype = plain.type.dtype
    strides = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
    held = [as_plain(site.weights(np.array(numbers, dtype.numpy))) for numbers in (sizes, strides)]
    terms = mapped(site, lambda i, n, s: (i < i.constant(0)).select(i + n, i) * s, as_plain(plain), *held)
    count = math.prod(indices.shape[:-1])
    columns = shaped(site, site.plain(terms), (count, len(sizes), 1))
    total = columns
    if len(sizes) > 1:
        total = site.emit(Reduce, columns, formula=formula(lambda a, b: a + b, dtype, dtype).text)
    return as_plain(shaped(site, total, (count,)))


def _gather_nd(site: Site) -> Value:
    x, indices, batch = site.value(0), site.value(1), site.attribute("batch_dims", 0)
    shape, depth = x.shape, indices.shape[-1]
    ahead, rest = math.prod(shape[:batch]), shape[batch + depth :]
    linear = _linear_indices(site, indices, shape[batch : batch + depth])
    each = linear.tensor.type.elements // ahead
    data = shaped(site, site.plain(x), (ahead, math.prod(shape[batch : batch + depth]), math.prod(rest)))
    y = site.emit(Gather, data, shaped(site, linear.tensor, (ahead, each, 1)))
    return as_plain(shaped(site, y, (*indices.shape[:-1], *rest)))


def _scatter_formula(site: Site, dtype: DType) -> str:
    kind = site.attribute("reduction", "none")
    if kind not in _UPDATES:
        raise Unsupported(f"its reduction '{kind}' is not known")
    return formula(_UPDATES[kind], dtype, dtype).text


def _scatter_elements(site: Site) -> Value:
    """Where the indices are smaller than x in other dimensions, that part of x is changed alone."""
    x, indices, updates = (site.value(place) for place in (0, 1, 2))
    axis = axis_of(site.attribute("axis", 0), x.rank)
    if any(n != m for d, (n, m) in enumerate(zip(x.shape, indices.shape, strict=True)) if d != axis):
        raise Unsupported("its indices are smaller than its input in a dimension other than the axis")
    place, shape = x.order.index(axis), x.tensor.type.shape
    given = [along(site, site.ordered(value, x.order), place) for value in (indices, updates)]
    text = _scatter_formula(site, x.tensor.type.dtype)
    y = site.emit(Scatter, along(site, x.tensor, place), *given, formula=text)
    return Value(shaped(site, y, shape), x.order)


def _scatter_nd(site: Site) -> Value:
    x, indices, updates = (site.value(place) for place in (0, 1, 2))
    depth, shape = indices.shape[-1], x.shape
    rest = math.prod(shape[depth:])
    linear = _linear_indices(site, indices, shape[:depth])
    count = linear.tensor.type.elements
    data = shaped(site, site.plain(x), (1, math.prod(shape[:depth]), rest))
    change = shaped(site, site.plain(updates), (1, count, rest))
    text = _scatter_formula(site, x.tensor.type.dtype)
    y = site.emit(Scatter, data, shaped(site, linear.tensor, (1, count, 1)), change, formula=text)
    return as_plain(shaped(site, y, shape))


def _one_hot(site: Site) -> Value:
    """The values (off, on) where an index is the place along a new axis."""
    indices, depth = site.value(0), int(site.constant(1, "depth").reshape(-1)[0])
    values = site.constant(2, "values").reshape(-1)
    axis = axis_of(site.attribute("axis", -1), indices.rank + 1)
    shape = (*indices.shape[:axis], 1, *indices.shape[axis:])
    x = cast(site, as_plain(shaped(site, site.plain(indices), shape)), DType.INT64)
    places = as_plain(site.weights(np.arange(depth).reshape([depth if d == axis else 1 for d in range(len(shape))])))
    off, on = (as_plain(site.weights(values[i].reshape(()))) for i in (0, 1))

    def write(i: Term, n: Term, below: Term, above: Term) -> Term:
        return (i < i.constant(0)).select(i + depth, i).equals(n).select(above, below)

    return mapped(site, write, x, places, off, on)


def _trilu(site: Site) -> Value:
    """Elements on one side of a diagonal; the others are 0."""
    x, k = site.value(0), site.integers(1, "k")[0] if site.given(1) else 0
    rows, columns = x.shape[-2:]
    kept = np.tri(rows, columns, k if not site.attribute("upper", 1) else k - 1, dtype=np.bool_)
    mask = as_plain(site.weights(~kept if site.attribute("upper", 1) else kept))
    return mapped(site, lambda t, m: m.select(t, t.constant(0)), x, mask)


def _largest(a: Term, b: Term) -> Term:
    return a | b if a.dtype is DType.BOOL else f.maximum(a, b)


def _smallest(a: Term, b: Term) -> Term:
    return a & b if a.dtype is DType.BOOL else f.minimum(a, b)


ROWS: Mapping[str, Row[Convert]] = {
    "ArgMax": Row(partial(_arg, largest=True), (TopIndices,)),
    "ArgMin": Row(partial(_arg, largest=False), (TopIndices,)),
    "Det": Row(_det, real=(Map, Slice)),
    "CumProd": Row(partial(running, lambda a, b: a * b, 1), (Scan,)),
    "CumSum": Row(partial(running, add, 0), (Scan,)),
    "Gather": Row(gather, (Gather, Slice, Concat)),
    "GatherElements": Row(_gather_elements, (Gather,)),
    "GatherND": Row(_gather_nd, (Gather, Map, Reduce)),
    "Hardmax": Row(_hardmax, (TopIndices, Map)),
    "MatMulInteger": Row(_matmul_integer, (MatMul, Map)),
    "OneHot": Row(_one_hot),
    "ReduceL1": Row(reduction(add, before=abs), (Reduce, Map)),
    "ReduceL2": Row(
        reduction(add, before=lambda x: x * x, after=lambda x: x.cast(DType.FLOAT32).sqrt().cast(x.dtype)),
        (Reduce, Map),
    ),
    "ReduceLogSum": Row(reduction(add, after=f.log), (Reduce, Map)),
    "ReduceLogSumExp": Row(_log_sum_exp, (Reduce, Map)),
    "ReduceMax": Row(reduction(_largest), (Reduce,)),
    "ReduceMean": Row(reduction(add, mean=True), (Reduce, Map), real=(Mean,)),
    "ReduceMin": Row(reduction(_smallest), (Reduce,)),
    "ReduceProd": Row(reduction(lambda a, b: a * b), (Reduce,)),
    "ReduceSum": Row(reduction(add), (Reduce,)),
    "ReduceSumSquare": Row(reduction(add, before=lambda x: x * x), (Reduce, Map)),
    "Scatter": Row(_scatter_elements, (Scatter,)),
    "ScatterElements": Row(_scatter_elements, (Scatter,)),
    "ScatterND": Row(_scatter_nd, (Scatter, Map, Reduce)),
    "TopK": Row(_top_k, (TopIndices, Gather)),
    "Trilu": Row(_trilu),
}
