"""The converter of each ONNX op, and what the op becomes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from shoehorn_mcu import ops
from shoehorn_mcu.importers.forms import FOLDED, NOTHING, Forms, In, Kind, Row, converters
from shoehorn_mcu.importers.lowering import (
    columns,
    elements,
    grid,
    layout,
    linear,
    maps,
    norms,
    recurrent,
    resize,
    transposed,
    windows,
)
from shoehorn_mcu.importers.lowering.einsum import einsum
from shoehorn_mcu.importers.lowering.site import Site, Value
from shoehorn_mcu.ir import DType


def _matmul(site: Site) -> Value:
    """MatMul: with a constant matrix as a dense layer."""
    return linear.matmul(site) if _is_dense(site) else columns.matmul(site)


def _gemm(site: Site) -> Value:
    """Gemm: with a constant matrix as a dense layer, where it is nothing else."""
    plain = not site.attribute("transA", 0) and (not site.given(2) or site.is_constant(2))
    return linear.gemm(site) if plain and _is_dense(site) and _is_bias(site) else columns.gemm(site)


def _is_bias(site: Site) -> bool:
    """Whether the third operand of a Gemm is missing, or a number per output."""
    if not site.given(2):
        return True
    bias = site.constant(2, "bias")
    return bias.size == 1 or bias.shape[-1:] == (bias.size,)


def _is_dense(site: Site) -> bool:
    """Whether the second operand is a constant matrix of real numbers, and the first one computed."""
    if not site.is_constant(1) or site.is_constant(0):
        return False
    matrix = site.constant(1, "matrix")
    real = site.value(0).tensor.type.dtype is DType.FLOAT32
    return matrix.ndim == 2 and matrix.dtype.kind == "f" and real and site.value(0).rank > 1


_PICKS = (ops.Gather, ops.Slice, ops.Concat)
_SUMS = (ops.MatMul, ops.Reduce, ops.Map, ops.Slice)

ROWS: Mapping[str, Row[columns.Convert]] = {
    **{code: Row(convert) for code, convert in maps.CONVERTERS.items()},
    **columns.ROWS,
    **{code: Row(recurrent.recurrent, (ops.Recurrence, ops.Dense)) for code in ("GRU", "LSTM", "RNN")},
    "Add": Row(partial(elements.binary, ops.Add), real=(ops.Add, *FOLDED, ops.Map)),
    "AveragePool": Row(partial(windows.pool, ops.AveragePool2d), real=(ops.AveragePool2d, ops.Map)),
    "BatchNormalization": Row(linear.batch_normalization, real=FOLDED),
    "Clip": Row(elements.clip, real=(*FOLDED, ops.Map)),
    "Col2Im": Row(transposed.col2im, real=(ops.Conv2d,), kinds=(Kind.FLOAT32,)),
    "Concat": Row(layout.concat, (ops.Concat,)),
    "Conv": Row(linear.conv, real=(ops.Conv2d, ops.DepthwiseConv2d, ops.Add)),
    "ConvInteger": Row(transposed.conv_integer, (In(Kind.FLOAT32, ops.Conv2d), ops.Map)),
    "ConvTranspose": Row(transposed.conv_transpose, real=(ops.Conv2d, ops.DepthwiseConv2d)),
    "DepthToSpace": Row(layout.depth_to_space, (ops.Transpose,)),
    "DFT": Row(resize.dft, (ops.MatMul,)),
    "Dropout": Row(elements.dropout, NOTHING),
    "Einsum": Row(einsum, _SUMS, real=(ops.Dense, *_SUMS)),
    "Expand": Row(layout.expand, (ops.Concat,)),
    "Flatten": Row(layout.flatten, (ops.Transpose,)),
    "Gather": Row(columns.gather, _PICKS),
    "Gemm": Row(_gemm, (ops.MatMul, ops.Map), real=(ops.Dense, ops.MatMul, ops.Map)),
    "GlobalAveragePool": Row(windows.global_average_pool, real=(ops.Mean,)),
    "GlobalLpPool": Row(windows.global_lp_pool, (ops.Reduce, ops.Map)),
    "GlobalMaxPool": Row(windows.global_max_pool, (ops.Reduce,)),
    "GroupNormalization": Row(norms.group_normalization, real=(ops.Mean, ops.Map)),
    "GridSample": Row(grid.grid_sample, (ops.Gather, ops.Map), kinds=(Kind.FLOAT32,)),
    "Identity": Row(elements.same, NOTHING),
    "InstanceNormalization": Row(norms.instance_normalization, real=(ops.Mean, ops.Map)),
    "LRN": Row(norms.lrn, real=(ops.AveragePool2d, ops.Map)),
    "LayerNormalization": Row(norms.layer_normalization, real=(ops.Mean, ops.Map)),
    "LpNormalization": Row(norms.lp_normalization, (ops.Reduce, ops.Map)),
    "LpPool": Row(windows.lp_pool),
    "MatMul": Row(_matmul, (ops.MatMul,), real=(ops.Dense, ops.MatMul)),
    "MaxPool": Row(partial(windows.pool, ops.MaxPool2d), real=(ops.MaxPool2d, ops.Map)),
    "MeanVarianceNormalization": Row(norms.mean_variance_normalization, real=(ops.Mean, ops.Map)),
    "Mul": Row(elements.mul, real=(*FOLDED, ops.Map)),
    "Pad": Row(layout.pad, (ops.Pad, ops.Slice, ops.Concat)),
    "RMSNormalization": Row(norms.rms_normalization, real=(ops.Mean, ops.Map)),
    "Relu": Row(elements.relu, real=(*FOLDED, ops.Map)),
    "Resize": Row(resize.resize, _PICKS, real=(*_PICKS, ops.Map, ops.MatMul)),
    "ReverseSequence": Row(layout.reverse_sequence, (ops.Slice, ops.Concat)),
    "Reshape": Row(layout.reshape, (ops.Transpose,)),
    "Slice": Row(layout.slice_, (ops.Slice,)),
    "Softmax": Row(elements.softmax, real=(ops.Softmax,)),
    "SpaceToDepth": Row(layout.space_to_depth, (ops.Transpose,)),
    "Split": Row(layout.split, (ops.Slice,)),
    "Squeeze": Row(layout.squeeze, NOTHING),
    "Sub": Row(partial(elements.binary, ops.Sub), real=(ops.Sub, *FOLDED, ops.Map)),
    "Tile": Row(layout.tile, (ops.Concat,)),
    "Transpose": Row(layout.transpose, (ops.Transpose,)),
    "Unsqueeze": Row(layout.unsqueeze, NOTHING),
    "Cast": Row(maps.CONVERTERS["Cast"], real=(ops.Map, ops.Quantize, ops.Dequantize)),
    "CastLike": Row(maps.CONVERTERS["CastLike"], real=(ops.Map, ops.Quantize, ops.Dequantize)),
    "Where": Row(maps.CONVERTERS["Where"], kinds=(Kind.FLOAT32, Kind.OTHER)),
}
"""By ONNX's name of the op."""

CONVERTERS = converters(ROWS)


def forms() -> Forms:
    """What the ops become, of float32 and of numbers that are not quantised."""
    return {code: {kind: row.of(kind) for kind in kinds(code)} for code, row in ROWS.items()}


def kinds(code: str) -> tuple[Kind, ...]:
    """The element types that an op takes, as ONNX says of its first operand."""
    if ROWS[code].kinds:
        return ROWS[code].kinds
    from onnx.defs import get_schema  # only here: it takes time

    types = {each.removeprefix("tensor(").removesuffix(")") for each in get_schema(code).inputs[0].types}
    real, whole = "float" in types, any(each.strip("u").startswith(("bool", "int")) for each in types)
    return (*((Kind.FLOAT32,) if real else ()), *((Kind.OTHER,) if whole else ()))
