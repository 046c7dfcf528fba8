"""Products of matrices between DequantizeLinear and QuantizeLinear, as dense layers and products of int8 and int16.

A constant matrix on either side is a dense layer: on the left, of the dimension before the last, which the order of
dimensions in memory brings to the end. Products of values that are computed, and of a constant with a matrix per
batch, add products of stored int8 values in int32.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from shoehorn_mcu.importers.fault import Unsupported
from shoehorn_mcu.importers.lowering import columns, int16, maps
from shoehorn_mcu.importers.lowering.movers import shaped
from shoehorn_mcu.importers.lowering.site import Value, as_plain
from shoehorn_mcu.importers.onnx.chain import Chain, Coded, bias, ordered_weights, symmetric
from shoehorn_mcu.ir import Array, DType, Tensor
from shoehorn_mcu.ops import Dense
from shoehorn_mcu.ops import functions as f
from shoehorn_mcu.ops.arithmetic import LIMIT as MOST
from shoehorn_mcu.ops.fixed_point import quantize_multiplier
from shoehorn_mcu.ops.formula import Term

_LARGEST_PRODUCT = 255 * 255  # of int8 values less their zero points


def gemm(of: Chain) -> Value:
    """Gemm with a constant matrix."""
    site = of.site
    factor = site.attribute("alpha", 1.0)
    if factor <= 0:
        raise Unsupported(f"its factor is {factor:g}, above 0 is supported")
    matrix = of.constant(1, "weights")
    scales = tuple(scale * factor for scale in matrix.quant.scales)
    matrix = Coded(matrix.data, replace(matrix.quant, scales=scales))
    value = site.value(0)
    if site.attribute("transA", 0):
        value = Value(value.tensor, tuple(1 - dimension for dimension in value.order))
    x = site.plain(value)
    return as_plain(_dense(of, x, matrix, bool(site.attribute("transB", 0)), site.attribute("beta", 1.0)))


def matmul(of: Chain) -> Value:
    """MatMul, and the bias that is added to it as a third operand."""
    site = of.site
    left, right = (_matrix(of, place) for place in (0, 1))
    if right is not None and right.data.ndim == 2:
        value = site.value(0)
        rank = max(value.rank, of.coded[site.node.inputs[1]].data.ndim)
        made = _dense(of, site.plain(site.raised(value, rank)), right, False)
        shape = made.type.shape
        return as_plain(made if value.rank > 1 else shaped(site, made, (*shape[:-2], shape[-1])))
    if left is not None and left.data.ndim == 2 and not site.given(2) and site.value(1).rank > 1:
        value = site.raised(site.value(1), of.coded[site.node.inputs[0]].data.ndim)
        order = (*range(value.rank - 2), value.rank - 1, value.rank - 2)
        return Value(_dense(of, site.ordered(value, order), left, True), order)
    return _product(of)


def _matrix(of: Chain, place: int) -> Coded | None:
    """A constant operand, without dimensions of size 1 ahead of a matrix; None for one that is computed."""
    found = of.coded.get(of.site.node.inputs[place])
    return found and found.matrix


def _dense(of: Chain, x: Tensor, matrix: Coded, transposed: bool, factor: float = 1.0) -> Tensor:
    """Rows of x times a constant matrix, plus the op's third operand times a factor."""
    site, matrix = of.site, symmetric(matrix)
    if matrix.data.ndim != 2:
        raise Unsupported(f"its matrix has {matrix.data.ndim} dimensions, 2 are supported")
    outputs = 0 if transposed else 1
    if matrix.quant.axis not in (None, outputs):
        raise Unsupported("its matrix has a scale per input")
    held = ordered_weights(site, matrix, (0, 1) if transposed else (1, 0), 0)
    added = bias(of, 2, matrix.data.shape[outputs], x, matrix, factor)
    return site.emit(Dense, x, held, added, quant=of.target, clamp=of.clamp())


def _product(of: Chain) -> Value:
    """The product of two operands with a scale each: sums in int32, scaled to the target."""
    site = of.site
    if of.dtype is not DType.INT8:
        raise Unsupported("of int16 only the product with a constant matrix of int8 has a kernel")
    a, b = (of.operand(place) for place in (0, 1))
    quants = a.tensor.type.quantised, b.tensor.type.quantised
    zeros = [quant.zero_point for quant in quants]
    step = quants[0].scale * quants[1].scale

    def write(total: Term, x: Term, y: Term) -> Term:
        return total + (x.cast(DType.INT32) - zeros[0]) * (y.cast(DType.INT32) - zeros[1])

    scale, added = quantize_multiplier(step / of.target.scale), _added(of, step)
    most = a.shape[-1] * _LARGEST_PRODUCT + (0 if added is None else int(np.abs(added.astype(np.int64)).max()))
    if most << max(0, scale.shift) > MOST:
        raise Unsupported(f"its sums of {a.shape[-1]} products overflow int32")
    sums = columns.product(site, a, b, write, DType.INT32, stored=True)
    bounds, zero = of.clamp(), of.target.zero_point

    def finish(total: Term, *more: Term) -> Term:
        whole = total + more[0] if more else total
        return f.clip(int16.rescaled(whole, scale) + zero, bounds.low, bounds.high).cast(of.dtype)

    operands = (sums,) if added is None else (sums, as_plain(site.weights(added)))
    return maps.of_stored(site, finish, *operands, quant=of.target)


def _added(of: Chain, step: float) -> Array | None:
    """The op's third operand in such steps; None where there is none."""
    if not of.site.given(2):
        return None
    name = of.site.node.inputs[2]
    steps = (of.coded[name].exact if name in of.coded else of.site.real(2, "bias").astype(np.float64)) / step
    if not (np.abs(steps) < MOST).all():
        raise Unsupported("its bias does not fit into int32 at the scale of its products")
    return np.rint(steps).astype(np.int32)
