"""Kernels of the linear ops for element types that those on int8 do not cover: weights of 16 bits, and int16."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from shoehorn_mcu.ir import Array, DType, Node, OpT, is_a
from shoehorn_mcu.kernels.base.contract import Contract, Value, Variant, portable, y_step
from shoehorn_mcu.kernels.base.operands import all_s8, are, bounded, data
from shoehorn_mcu.kernels.base.work import Work
from shoehorn_mcu.kernels.linear.conv import (
    constants,
    convolution_work,
    dense_work,
    depthwise_work,
    geometry,
    scaled,
    transposed_work,
)
from shoehorn_mcu.ops import Conv2d, Dense, DepthwiseConv2d, TransposeConv2d
from shoehorn_mcu.ops.linear import LinearOp


def _constant(node: Node[LinearOp]) -> bool:
    return all(tensor.data is not None for tensor in node.inputs[1:])


def _has_wide_weights(node: Node[LinearOp]) -> bool:
    _, weights, bias = node.inputs
    return _constant(node) and all_s8(node) and are(DType.INT16, weights) and are(DType.INT32, bias)


def _is_s16(node: Node[LinearOp]) -> bool:
    x, weights, bias = node.inputs
    typed = are(DType.INT16, x, node.output) and are(DType.INT8, weights)
    return _constant(node) and typed and bias.type.dtype in (DType.INT32, DType.INT64)


def _shapes(node: Node[LinearOp]) -> dict[str, Value]:
    """Struct members for the rows, the window and the groups of channels."""
    x, weights, y = node.x.type.nhwc, node.weights.type.shape, node.output.type.nhwc
    group = weights[-1], y[3] * weights[-1] // x[3]
    if is_a(node, Dense):
        window: dict[str, Value] = {
            **{"in_width": x[2], "in_channels": x[3], "out_width": y[2]},
            **{"kernel_height": 1, "kernel_width": 1, "stride": 1, "pad_left": 0, "dilation": 1},
        }
        group = weights[1], weights[0]
    elif is_a(node, TransposeConv2d):
        window = {**geometry(node), "dilation": 1}
    elif is_a(node, DepthwiseConv2d):
        window = {**geometry(node), "dilation": node.op.dilation[1]}
        group = 1, y[3] // x[3]
    else:
        assert is_a(node, Conv2d)
        window = {**geometry(node), "dilation": node.op.dilation[1]}
    return {**window, "out_channels": y[3], "group_inputs": group[0], "group_outputs": group[1], "y_step": y[3]}


def _spaced(node: Node[LinearOp]) -> dict[str, Value]:
    """What differs for a transpose convolution: it is a convolution over columns that lie its stride apart."""
    if not is_a(node, TransposeConv2d):
        return {}
    left = node.weights.type.shape[2] - 1 - node.op.padding.left
    return {"stride": 1, "spacing": node.op.stride[1], "pad_left": left}


def _s8_facts(node: Node[LinearOp]) -> dict[str, Value]:
    x, y = node.x.type.quantised, node.output.type.quantised
    return {**_shapes(node), "x_zero": x.zero_point, "y_zero": y.zero_point, **bounded(node.op.clamp)}


def _s16_facts(node: Node[LinearOp]) -> dict[str, Value]:
    wide = int(node.bias.type.dtype is DType.INT64)
    return {"spacing": 1, **_shapes(node), **_spaced(node), "wide": wide, **bounded(node.op.clamp)}


def _by_tap(node: Node[LinearOp]) -> Array:
    """The weights by tap and input, with those of all outputs side by side."""
    weights = data(node.weights)
    by_tap: Array = weights if isinstance(node.op, DepthwiseConv2d) else np.moveaxis(weights, 0, -1)
    return np.ascontiguousarray(by_tap)


def _by_spacing(node: Node[LinearOp]) -> Array:
    """The weights by tap; of a transpose convolution in parts, each the columns of its kernel for the same pixels."""
    if not isinstance(node.op, TransposeConv2d):
        return _by_tap(node)
    (_, across), reversed_ = node.op.stride, _by_tap(node)[:, ::-1]
    return np.concatenate([reversed_[:, first::across].ravel() for first in range(across)])


def _s8_constants(node: Node[LinearOp]) -> dict[str, Value]:
    return {**constants(node), "weights": _by_tap(node)}


def _s16_constants(node: Node[LinearOp]) -> dict[str, Value]:
    return {**scaled(node, data(node.bias).astype(np.int64)), "weights": _by_spacing(node)}


def _work(node: Node[LinearOp]) -> Work:
    """That of the kernels on int8: the same loops over other elements."""
    if is_a(node, Dense):
        return dense_work(node)
    if is_a(node, TransposeConv2d):
        return transposed_work(node)
    if is_a(node, DepthwiseConv2d):
        return depthwise_work(node)
    assert is_a(node, Conv2d)
    return convolution_work(node)


def short_sums(weights: Array) -> bool:
    """Whether no sum of int16 times a row of these weights can leave int32, in any order."""
    return bool((np.abs(weights.astype(np.int64)).sum(axis=1) << 15 < 1 << 31).all())


def _has_short_sums(node: Node[LinearOp]) -> bool:
    by_channel = np.moveaxis(data(node.weights), node.op.channel_axis, 0)
    return short_sums(by_channel.reshape(node.output.type.nhwc[3], -1))


def on_int16(
    contract: Contract[OpT], work: Callable[[Node[OpT]], Work], has_short_sums: Callable[[Node[OpT]], bool]
) -> tuple[Variant[OpT], Variant[OpT]]:
    """The portable variants on int16: with sums in int64, and in int32 where these are short."""
    whole = Variant(contract, lambda node, _: work(node), defines=("SH_ROWS_16",))
    short = replace(whole, suffix="short", body="c", accepts=has_short_sums, defines=("SH_ROWS_16", "SH_SHORT"))
    return whole, short


LINEAR = (Conv2d, DepthwiseConv2d, Dense)

LINEAR_W16 = Contract("linear_s8_w16", LINEAR, _s8_facts, _s8_constants, _has_wide_weights, spaced=y_step)
LINEAR_S16 = Contract("linear_s16", (*LINEAR, TransposeConv2d), _s16_facts, _s16_constants, _is_s16, spaced=y_step)

VARIANTS = (
    portable(LINEAR_W16, _work),
    *on_int16(LINEAR_S16, _work, _has_short_sums),
)
