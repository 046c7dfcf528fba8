"""Kernels of the ops on float32.

Each computes the sums of TensorFlow Lite's reference kernels in their order, so all cores write the same bytes.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from shoehorn_mcu.ir import DType, Node
from shoehorn_mcu.kernels.base import Contract, Tile, Value, Variant, portable
from shoehorn_mcu.kernels.conv import (
    channel_groups,
    convolution_work,
    dense_work,
    depthwise_work,
    geometry,
    lines_of,
    multiplied,
)
from shoehorn_mcu.kernels.elementwise import binary, binary_work
from shoehorn_mcu.kernels.operands import are, data, element_by_element
from shoehorn_mcu.kernels.pool import average_pool2d_work, max_pool2d_work, mean_shape, mean_work, pool2d
from shoehorn_mcu.kernels.work import Work
from shoehorn_mcu.ops import (
    Add,
    AveragePool2d,
    Clamped,
    Conv2d,
    Dense,
    DepthwiseConv2d,
    MaxPool2d,
    Mean,
    Softmax,
    Sub,
)


def _all_f32(node: Node) -> bool:
    return are(DType.FLOAT32, *node.inputs, node.output)


def _linear_f32(node: Node) -> bool:
    return _all_f32(node) and all(constant.data is not None for constant in node.inputs[1:])


def _bounds(node: Node) -> dict[str, Value]:
    clamp = cast(Clamped, node.op).clamp
    return {"y_min": clamp.low, "y_max": clamp.high}


def _conv2d(node: Node) -> dict[str, Value]:
    return {**geometry(cast(Conv2d, node.op), node), **channel_groups(node), **_bounds(node)}


def _depthwise_conv2d(node: Node) -> dict[str, Value]:
    return {**geometry(cast(DepthwiseConv2d, node.op), node), **multiplied(node), **_bounds(node)}


def _dense(node: Node) -> dict[str, Value]:
    outputs, inputs = node.inputs[1].type.shape
    return {"positions": node.output.type.nhwc[2], "inputs": inputs, "outputs": outputs, **_bounds(node)}


def _constants(node: Node) -> dict[str, Value]:
    return {"weights": data(node.inputs[1]), "bias": data(node.inputs[2])}


def _interleaved(node: Node, tile: Tile) -> dict[str, Value]:
    """Weights by blocks of outputs of a group, innermost; those of missing outputs are 0."""
    lanes = tile.sizes["outputs"]
    weights, groups = data(node.inputs[1]), cast(int, channel_groups(node)["groups"])
    by_group = weights.reshape(groups, -1, weights[0].size)
    missing = -by_group.shape[1] % lanes
    padded = np.pad(by_group, ((0, 0), (0, missing), (0, 0)))
    blocks = padded.reshape(groups, -1, lanes, weights[0].size).swapaxes(2, 3)
    return {"weights": np.ascontiguousarray(blocks), "bias": data(node.inputs[2])}


def _lanes_work(node: Node, tile: Tile) -> Work:
    """Steps of the inner loop over several pixels (`wide`) and over one, the loops, and their blocks of outputs."""
    op = cast(Conv2d, node.op)
    lanes, together = tile.sizes["outputs"], tile.sizes["pixels"]
    outputs, _, kernel_width, inputs = node.inputs[1].type.shape
    groups = node.inputs[0].type.nhwc[3] // inputs
    blocks = groups * -(-(outputs // groups) // lanes)
    lines = lines_of(op, node)
    whole = sum(taps == kernel_width for taps in lines.taps) // together
    single = len(lines.taps) - whole * together
    met = blocks * lines.inside
    runs = 1 if op.dilation[1] == 1 and groups == 1 else kernel_width
    narrow = sum(lines.taps) - whole * together * kernel_width
    return Work(
        tiles=blocks * whole,
        rests=blocks * single,
        wide=met * whole * kernel_width * inputs,
        narrow=met * narrow * inputs,
        loops=met * (whole + single) * runs,
        outputs=node.output.type.row_elements,
    )


def _add(node: Node) -> dict[str, Value]:
    return {**binary(node), "b_sign": float(cast(Add | Sub, node.op).sign)}


def _mean(node: Node) -> dict[str, Value]:
    return {**mean_shape(node), "count": float(node.inputs[0].type.elements // node.output.type.elements)}


def _softmax(node: Node) -> dict[str, Value]:
    _, _, positions, channels = node.output.type.nhwc
    return {"positions": positions, "channels": channels, "beta": cast(Softmax, node.op).beta}


def _softmax_work(node: Node) -> Work:
    _, _, positions, channels = node.output.type.nhwc
    return Work(pixels=positions, outputs=positions * channels)


CONV2D = Contract("conv2d_f32", (Conv2d,), _conv2d, _constants, _linear_f32)
DEPTHWISE = Contract("depthwise_conv2d_f32", (DepthwiseConv2d,), _depthwise_conv2d, _constants, _linear_f32)
DENSE = Contract("dense_f32", (Dense,), _dense, _constants, _linear_f32)
ADD = Contract("add_f32", (Add, Sub), _add, accepts=_all_f32)
AVERAGE_POOL = Contract("average_pool2d_f32", (AveragePool2d,), pool2d, accepts=_all_f32)
MAX_POOL = Contract("max_pool2d_f32", (MaxPool2d,), pool2d, accepts=_all_f32)
MEAN = Contract("mean_f32", (Mean,), _mean, accepts=_all_f32, takes_row=True)
SOFTMAX = Contract("softmax_f32", (Softmax,), _softmax, accepts=_all_f32)

_TILES = (Tile(outputs=4, pixels=4), Tile(outputs=8, pixels=4))

VARIANTS = (
    portable(CONV2D, convolution_work),
    Variant(CONV2D, _lanes_work, suffix="lanes", pack=_interleaved, tiles=_TILES),
    portable(DEPTHWISE, depthwise_work),
    portable(DENSE, dense_work),
    portable(ADD, binary_work, element_by_element),
    portable(AVERAGE_POOL, average_pool2d_work),
    portable(MAX_POOL, max_pool2d_work),
    portable(MEAN, mean_work),
    portable(SOFTMAX, _softmax_work),
)
