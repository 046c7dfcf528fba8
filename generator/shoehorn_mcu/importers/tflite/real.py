"""Converters of TFLite's ops on tensors that are not quantised, made by those of ONNX's ops of like meaning."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from shoehorn_mcu import ops
from shoehorn_mcu.importers import forms
from shoehorn_mcu.importers.fault import ImportFault, Unsupported
from shoehorn_mcu.importers.forms import Kind
from shoehorn_mcu.importers.lowering import columns, layout, maps
from shoehorn_mcu.importers.lowering import site as onnx
from shoehorn_mcu.importers.lowering.geometry import axis_of
from shoehorn_mcu.importers.lowering.movers import joined, shaped, sliced
from shoehorn_mcu.importers.lowering.site import Value, as_image, as_plain
from shoehorn_mcu.importers.tflite.blocks import batch_to_space, blocks, pairs, space_to_batch
from shoehorn_mcu.importers.tflite.by_onnx import Convert, Made, as_onnx, converter, formula, of_image, through, values
from shoehorn_mcu.importers.tflite.complex import magnitude, rfft_2d
from shoehorn_mcu.importers.tflite.options import Activation
from shoehorn_mcu.importers.tflite.site import BOUNDS, Part, Site
from shoehorn_mcu.ir import Array, DType
from shoehorn_mcu.ops import functions as f
from shoehorn_mcu.ops.formula import Term


def activated(write: Callable[[Term, Term], Term], site: Site, there: onnx.Site) -> Value:
    """A formula of two operands with a fused activation."""
    bounds = BOUNDS.get(site.options.activation)
    if bounds is None:
        raise Unsupported(f"fused activation {site.options.activation.name}")
    low, high = bounds

    def whole(a: Term, b: Term) -> Term:
        y = write(a, b)
        y = y if low is None else f.maximum(y, y.constant(low))
        return y if high is None else f.minimum(y, y.constant(high))

    return maps.mapped(there, whole, there.value(0), there.value(1))


def reduction(code: str, site: Site, there: onnx.Site) -> Made:
    """A reduction over constant axes."""
    keep, axes = int(site.options.keep_dims), np.array(site.axes(), np.int64)
    return through(there, code, (there.node.inputs[0], "axes"), {"keepdims": keep}, axes=axes)


def _arg(code: str, site: Site, there: onnx.Site) -> Value:
    attributes = {"axis": site.integers(1, "axis")[0], "keepdims": 0}
    found = through(there, code, there.node.inputs[:1], attributes)
    assert isinstance(found, Value)
    return maps.cast(there, found, site.output.type.dtype)


def _top_k(site: Site, there: onnx.Site) -> Made:
    attributes = {"axis": -1, "largest": 1, "sorted": 1}
    values, places = through(there, "TopK", there.node.inputs, attributes)  # type: ignore[misc]
    return values, maps.cast(there, places, site.outputs[1].type.dtype) if len(site.outputs) > 1 else places


def _cum_sum(site: Site, there: onnx.Site) -> Made:
    attributes = {"exclusive": int(site.options.exclusive), "reverse": int(site.options.reverse)}
    return through(there, "CumSum", there.node.inputs, attributes)


def _gather(site: Site, there: onnx.Site) -> Made:
    options = site.options
    x = there.value(0)
    axis = axis_of(options.axis, x.rank)
    if batch := options.batch_dims:
        return _gather_by_batch(there, axis, batch if batch > 0 else batch + there.value(1).rank)
    group = _shuffle(there.constant(1, "indices"), x.shape[axis]) if there.is_constant(1) else 0
    if group:
        ahead, behind = x.shape[:axis], x.shape[axis + 1 :]
        wide = shaped(there, there.plain(x), (*ahead, x.shape[axis] // group, group, *behind))
        perm = [*range(axis), axis + 1, axis, *range(axis + 2, x.rank + 1)]
        return as_plain(shaped(there, there.transposed(wide, tuple(perm)), x.shape))
    return through(there, "Gather", there.node.inputs, {"axis": options.axis})


def _gather_by_batch(there: onnx.Site, axis: int, batch: int) -> Value:
    """GATHER with indices of their own for each of the first dimensions."""
    x, indices = there.value(0), there.value(1)
    if not 0 < batch <= axis or x.shape[:batch] != indices.shape[:batch]:
        raise ImportFault(f"its {batch} batch dimensions do not fit axis {axis}; convert it again")
    ahead, between = math.prod(x.shape[:batch]), math.prod(x.shape[batch:axis])
    wide = shaped(there, there.plain(x), (ahead, between, x.shape[axis], math.prod(x.shape[axis + 1 :])))
    places = shaped(there, there.plain(indices), (ahead, 1, math.prod(indices.shape[batch:]), 1))
    shape = (*x.shape[:axis], *indices.shape[batch:], *x.shape[axis + 1 :])
    return as_plain(shaped(there, there.emit(ops.Gather, wide, places), shape))


def _shuffle(indices: Array, size: int) -> int:
    """The size of a group where the indices shuffle channels: 0, group, 2 * group, ..., 1, group + 1, ..."""
    if indices.shape != (size,) or size < 4 or not 1 < (group := int(indices[1])) < size or size % group:
        return 0
    return group if np.array_equal(indices, np.arange(size).reshape(-1, group).T.ravel()) else 0


def matrices(site: Site, there: onnx.Site) -> tuple[Value, Value]:
    """The operands of BATCH_MATMUL as the matrices that are multiplied."""
    options, a, b = site.options, there.value(0), there.value(1)
    if min(a.rank, b.rank) < 2:
        raise ImportFault(
            f"its operands have {a.rank} and {b.rank} dimensions, 2 at least are needed: convert it again"
        )
    return _swapped(a) if options.adj_x else a, _swapped(b) if options.adj_y else b


def _swapped(value: Value) -> Value:
    """The value with its last two dimensions exchanged."""
    last = value.rank - 1
    numbers = {last: last - 1, last - 1: last}
    return Value(value.tensor, tuple(numbers.get(d, d) for d in value.order))


def _pack(site: Site, there: onnx.Site) -> Value:
    axis = axis_of(site.options.axis, there.value(0).rank + 1)
    parts = []
    for value in values(there):
        shape = (*value.shape[:axis], 1, *value.shape[axis:])
        parts.append(shaped(there, there.plain(value), shape))
    return as_plain(joined(there, parts, axis))


def _unpack(site: Site, there: onnx.Site) -> tuple[Value, ...]:
    x = there.value(0)
    axis = axis_of(site.options.axis, x.rank)
    plain, whole = there.plain(x), [range(n) for n in x.shape]
    found = []
    for number in range(x.shape[axis]):
        part = sliced(there, plain, [*whole[:axis], range(number, number + 1), *whole[axis + 1 :]])
        found.append(as_plain(shaped(there, part, (*x.shape[:axis], *x.shape[axis + 1 :]))))
    return tuple(found)


def _reverse(site: Site, there: onnx.Site) -> Value:
    x, axes = there.value(0), site.axes()
    taken = [range(n - 1, -1, -1) if d in axes else range(n) for d, n in enumerate(x.shape)]
    return as_plain(sliced(there, there.plain(x), taken))


def _mirror_pad(site: Site, there: onnx.Site) -> Made:
    """REFLECT is ONNX's reflect; SYMMETRIC repeats the border too."""
    amounts = pairs(site, 1, "padding", there.value(0).rank)
    if not site.options.symmetric:
        return through(there, "Pad", (there.node.inputs[0], "pads"), {"mode": "reflect"}, pads=amounts.T.ravel())
    tensor = there.plain(there.value(0))
    for axis, (first, last) in enumerate(amounts.tolist()):
        if first or last:
            places = np.pad(np.arange(tensor.type.shape[axis]), (first, last), mode="symmetric")
            tensor = layout.picked(there, tensor, axis, places.tolist())
    return as_plain(tensor)


def last_axis(there: onnx.Site) -> tuple[Value, tuple[int]]:
    """The first operand and its last axis."""
    x = there.value(0)
    if not x.rank:
        raise Unsupported("its input is a number, one dimension at least is needed")
    return x, (x.rank - 1,)


def _l2_normalization(site: Site, there: onnx.Site) -> Value:
    """Along the last axis; a norm below 1e-6 counts as that."""
    x, axes = last_axis(there)
    squares = maps.mapped(there, lambda t: t * t, x)
    total = columns.reduced(there, squares, axes, lambda a, b: a + b)
    return maps.mapped(there, lambda t, s: t / f.maximum(s, 1e-12).sqrt(), x, total)


def _log_softmax(site: Site, there: onnx.Site) -> Value:
    """Along the last axis."""
    x, axes = last_axis(there)
    largest = columns.reduced(there, x, axes, f.maximum)
    powers = maps.mapped(there, lambda t, m: f.exp(t - m), x, largest)
    total = columns.reduced(there, powers, axes, lambda a, b: a + b)
    return maps.mapped(there, lambda t, m, s: (t - m) - f.log(s), x, largest, total)


def _lrn(site: Site, there: onnx.Site) -> Value:
    """ONNX divides alpha by the window's size, TFLite does not."""
    options = site.options
    size = 2 * options.radius + 1
    attributes = {"size": size, "alpha": options.alpha * size, "beta": options.beta, "bias": options.bias}
    return as_plain(of_image(there, "LRN", 0, (), attributes))


def _one_hot(site: Site, there: onnx.Site) -> Made:
    """Operands: indices, depth, on, off."""
    pair = np.stack([there.constant(3, "off value").reshape(()), there.constant(2, "on value").reshape(())])
    return through(there, "OneHot", (*there.node.inputs[:2], "values"), {"axis": site.options.axis}, values=pair)


def _scatter_nd(site: Site, there: onnx.Site) -> Made:
    """Operands: indices, updates, shape. Updates of one index are added."""
    dtype = site.input(1, "updates").type.dtype
    zeros = np.zeros(site.integers(2, "shape"), dtype.numpy)
    return through(there, "ScatterND", ("zeros", *there.node.inputs[:2]), {"reduction": "add"}, zeros=zeros)


def _leaky(site: Site, there: onnx.Site) -> Value:
    alpha = site.options.factor
    return maps.mapped(there, lambda x: (x < 0.0).select(x * alpha, x), there.value(0))


def _gelu(site: Site, there: onnx.Site) -> Made:
    tanh = site.options.approximate
    return through(there, "Gelu", there.node.inputs, {"approximate": "tanh"} if tanh else {})


def _transpose_conv(site: Site, there: onnx.Site) -> Value:
    """Operands: the output's shape, weights O, H, W, I, images, and maybe a bias."""
    options, weights = site.options, there.constant(1, "weights")
    x = there.value(2)
    if weights.ndim != 4 or x.rank != 4:
        raise Unsupported(f"its weights have {weights.ndim} dimensions, its input {x.rank}; 4 are supported")
    first, last, more = [], [], []
    asked = site.integers(0, "output shape")
    if len(asked) != 4:
        raise ImportFault(f"its output shape is {asked}, four sizes are needed; convert it again")
    for place in (0, 1):
        full = (x.shape[1 + place] - 1) * options.stride[place] + weights.shape[1 + place]
        over = max(0, full - asked[1 + place])
        first.append(over // 2)
        last.append(over - over // 2)
        more.append(max(0, asked[1 + place] - full))
    attributes = {"strides": options.stride, "pads": (*first, *last), "output_padding": tuple(more)}
    inputs, held = ("weights", *there.node.inputs[3:]), weights.transpose(3, 0, 1, 2)
    y = as_image(of_image(there, "ConvTranspose", 2, inputs, attributes, weights=held))
    low, high = BOUNDS.get(options.activation, (None, None))
    if options.activation is not Activation.NONE:
        y = maps.mapped(there, lambda t: f.clip(t, t.constant(low or 0), math.inf if high is None else high), y)
    return as_plain(y.tensor)


def _floor_div(a: Term, b: Term) -> Term:
    if a.dtype is DType.FLOAT32:
        return f.floor(a / b)
    quotient = a / b
    left = a - quotient * b
    zero = a.constant(0)
    below = ~left.equals(zero) & ((left < zero) ^ (b < zero))
    return below.select(quotient - 1, quotient)


SAME = {
    **{"ABS": "Abs", "CEIL": "Ceil", "COS": "Cos", "EXP": "Exp", "FLOOR": "Floor", "HARD_SWISH": "HardSwish"},
    **{"LOG": "Log", "LOGICAL_AND": "And", "LOGICAL_NOT": "Not", "LOGICAL_OR": "Or", "LOGISTIC": "Sigmoid"},
    **{"MAXIMUM": "Max", "MINIMUM": "Min", "NEG": "Neg", "POW": "Pow", "PRELU": "PRelu", "RELU": "Relu"},
    **{"ROUND": "Round", "SELECT": "Where", "SELECT_V2": "Where", "SIGN": "Sign", "SIN": "Sin", "SQRT": "Sqrt"},
    **{"TANH": "Tanh", "ADD_N": "Sum", "EQUAL": "Equal", "GREATER": "Greater", "LESS": "Less", "TILE": "Tile"},
    **{"GREATER_EQUAL": "GreaterOrEqual", "LESS_EQUAL": "LessOrEqual", "BITWISE_XOR": "BitwiseXor"},
    **{"GATHER_ND": "GatherND", "BROADCAST_TO": "Expand"},
}

_ONE, _THREE, MANY = (1, 1), (3, 3), 1 << 16
_REAL, _WHOLE = (Kind.FLOAT32,), (Kind.OTHER,)

_OPERANDS: Mapping[str, tuple[int, int]] = {
    **dict.fromkeys(
        (
            *("ABS", "CEIL", "COS", "EXP", "FLOOR", "HARD_SWISH", "LOG", "LOGICAL_NOT", "LOGISTIC", "NEG"),
            *("RELU", "ROUND", "SIGN", "SIN", "SQRT", "TANH"),
        ),
        _ONE,
    ),
    **dict.fromkeys(("SELECT", "SELECT_V2"), _THREE),
    "ADD_N": (1, MANY),
}
"""The least and the greatest number of operands of the ops in SAME that do not have two operands."""


@dataclass(frozen=True)
class Row(forms.Row[Convert]):
    """An op with the number of its operands, at least and at most."""

    inputs: tuple[int, int] = (2, 2)


ROWS: Mapping[str, Row] = {
    **{code: Row(as_onnx(same), inputs=_OPERANDS.get(code, (2, 2))) for code, same in SAME.items()},
    "ADD": Row(partial(activated, lambda a, b: a + b)),
    "ARG_MAX": Row(partial(_arg, "ArgMax"), (ops.TopIndices, ops.Map)),
    "ARG_MIN": Row(partial(_arg, "ArgMin"), (ops.TopIndices, ops.Map)),
    "BATCH_MATMUL": Row(lambda site, there: columns.matmul_of(there, *matrices(site, there)), (ops.MatMul,)),
    "BATCH_TO_SPACE_ND": Row(batch_to_space, (ops.Transpose,), inputs=_THREE),
    "CAST": Row(lambda site, there: maps.cast(there, there.value(0), site.output.type.dtype), inputs=_ONE),
    "COMPLEX_ABS": Row(magnitude, kinds=_REAL),
    "CUMSUM": Row(_cum_sum, (ops.Scan,)),
    "DEPTH_TO_SPACE": Row(partial(blocks, "DepthToSpace"), (ops.Transpose,), inputs=_ONE),
    "DIV": Row(partial(activated, lambda a, b: a / b)),
    "ELU": Row(as_onnx("Elu"), kinds=_REAL, inputs=_ONE),
    "EMBEDDING_LOOKUP": Row(as_onnx("Gather", 1, 0, axis=0), (ops.Gather,)),
    "FLOOR_DIV": Row(formula(_floor_div)),
    "FLOOR_MOD": Row(formula(f.remainder_to_floor)),
    "GATHER": Row(_gather, (ops.Gather, ops.Slice, ops.Concat)),
    "GELU": Row(_gelu, kinds=_REAL, inputs=_ONE),
    "L2_NORMALIZATION": Row(_l2_normalization, (ops.Reduce, ops.Map), kinds=_REAL, inputs=_ONE),
    "LEAKY_RELU": Row(_leaky, kinds=_REAL, inputs=_ONE),
    "LOCAL_RESPONSE_NORMALIZATION": Row(_lrn, real=(ops.AveragePool2d, ops.Map), kinds=_REAL, inputs=_ONE),
    "LOG_SOFTMAX": Row(_log_softmax, (ops.Reduce, ops.Map), kinds=_REAL, inputs=_ONE),
    "MEAN": Row(partial(reduction, "ReduceMean"), (ops.Reduce, ops.Map)),
    "MIRROR_PAD": Row(_mirror_pad, (ops.Slice, ops.Concat)),
    "MUL": Row(partial(activated, lambda a, b: a * b)),
    "NOT_EQUAL": Row(formula(lambda a, b: a ^ b if a.dtype is DType.BOOL else ~a.equals(b))),
    "ONE_HOT": Row(_one_hot, inputs=(4, 4)),
    "PACK": Row(_pack, (ops.Concat,), inputs=(1, MANY)),
    "REDUCE_ALL": Row(partial(reduction, "ReduceMin"), (ops.Reduce,), kinds=_WHOLE),
    "REDUCE_ANY": Row(partial(reduction, "ReduceMax"), (ops.Reduce,), kinds=_WHOLE),
    "REDUCE_MAX": Row(partial(reduction, "ReduceMax"), (ops.Reduce,)),
    "REDUCE_MIN": Row(partial(reduction, "ReduceMin"), (ops.Reduce,)),
    "REDUCE_PROD": Row(partial(reduction, "ReduceProd"), (ops.Reduce,)),
    "RELU6": Row(formula(lambda x: f.clip(x, 0.0, 6.0)), kinds=_REAL, inputs=_ONE),
    "RELU_0_TO_1": Row(formula(lambda x: f.clip(x, 0.0, 1.0)), kinds=_REAL, inputs=_ONE),
    "RELU_N1_TO_1": Row(formula(lambda x: f.clip(x, -1.0, 1.0)), kinds=_REAL, inputs=_ONE),
    "REVERSE_V2": Row(_reverse, (ops.Slice,)),
    "RFFT2D": Row(rfft_2d, real=(ops.Dense, ops.Map), kinds=_REAL),
    "RIGHT_SHIFT": Row(formula(lambda a, b: a >> b), kinds=_WHOLE),
    "RSQRT": Row(formula(lambda x: 1.0 / x.sqrt()), kinds=_REAL, inputs=_ONE),
    "SCATTER_ND": Row(_scatter_nd, (ops.Scatter, ops.Map, ops.Reduce), inputs=_THREE),
    "SPACE_TO_BATCH_ND": Row(space_to_batch, (ops.Transpose,), inputs=_THREE),
    "SPACE_TO_DEPTH": Row(partial(blocks, "SpaceToDepth"), (ops.Transpose,), inputs=_ONE),
    "SQUARE": Row(formula(lambda x: x * x), inputs=_ONE),
    "SQUARED_DIFFERENCE": Row(formula(lambda a, b: (a - b) * (a - b))),
    "SUB": Row(partial(activated, lambda a, b: a - b)),
    "SUM": Row(partial(reduction, "ReduceSum"), (ops.Reduce,)),
    "TOPK_V2": Row(_top_k, (ops.TopIndices, ops.Gather, ops.Map)),
    "TRANSPOSE_CONV": Row(_transpose_conv, real=(ops.Conv2d,), kinds=_REAL, inputs=(3, 4)),
    "UNPACK": Row(_unpack, (ops.Slice,), inputs=_ONE),
    "ZEROS_LIKE": Row(formula(lambda x: x.constant(0)), inputs=_ONE),
}
"""By the schema's name of the op."""

CONVERTS = forms.converters(ROWS)

CONVERTERS: Mapping[str, Callable[[Site], Part]] = {code: converter(convert) for code, convert in CONVERTS.items()}

ALSO_QUANTISED = ("ADD", "SUB", "MEAN")
"""Ops whose kernels for quantised tensors compute in float32 too."""
