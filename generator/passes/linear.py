"""Linear ops seen alike, for the passes that reason about single channels: groups of kernels over taps.

A *tap* is a place of the kernel. At the borders some taps lie in the padding, where they add nothing to the sum over
x - x_zero. Which ones lie inside differs between few output rows and columns; each distinct *case* stands here once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.ir import Node, Op
from shoehorn_mcu.ops import Conv2d, Dense, DepthwiseConv2d, TransposeConv2d
from shoehorn_mcu.ops.conv import conv_scales
from shoehorn_mcu.ops.fixed_point import Floats, Ints, rescale

Bools = NDArray[np.bool_]

LINEAR = (Conv2d, DepthwiseConv2d, TransposeConv2d, Dense)


@dataclass(frozen=True, eq=False)
class Linear:
    """The sums of one linear op; group g's outputs read group g's inputs, both in order of the tensor's channels.

    `weights` is [groups, outputs of a group, kernel height, kernel width, inputs of a group] as float64, in which
    sums of int8 products are exact. `down` is [cases, kernel height] and `across` [cases, kernel width]: the taps that
    lie inside the image; every pair of a row case and a column case occurs.
    """

    weights: Floats
    down: Bools
    across: Bools

    @property
    def groups(self) -> int:
        return len(self.weights)

    @property
    def used(self) -> Bools:
        """[kernel height, kernel width]: the taps that lie inside the image somewhere."""
        return np.outer(self.down.any(axis=0), self.across.any(axis=0))

    def by_case(self, taps: Floats) -> Floats:
        """[..., row cases, column cases]: the sums over the taps inside, of values [..., kernel height, width]."""
        rows = np.einsum("...kl,rk->...rl", taps, self.down.astype(np.float64))
        sums: Floats = np.einsum("...rl,cl->...rc", rows, self.across.astype(np.float64))
        return sums


def linear(node: Node) -> Linear | None:
    """The view of a linear op with constant weights, or None for any other op."""
    if not isinstance(node.op, LINEAR) or any(t.data is None for t in node.inputs[1:]):
        return None
    return _VIEWS[type(node.op)](node)


def requantise(sums: Ints, node: Node) -> Ints:
    """The stored outputs of a linear op for whole sums, bias included, with the channel in the last axis."""
    op = cast(Conv2d | DepthwiseConv2d | TransposeConv2d | Dense, node.op)
    moved = rescale(sums, *conv_scales(node.sig)) + node.output.type.quantised.zero_point
    return np.clip(moved, op.clamp.low, op.clamp.high)


def _weights(node: Node) -> Floats:
    assert node.inputs[1].data is not None
    return node.inputs[1].data.astype(np.float64)


def _conv(node: Node) -> Linear:
    weights, op = _weights(node), cast(Conv2d, node.op)
    groups = node.inputs[0].type.shape[3] // weights.shape[3]
    return Linear(weights.reshape(groups, -1, *weights.shape[1:]), *_window_taps(op, node))


def _depthwise(node: Node) -> Linear:
    weights, op = _weights(node), cast(DepthwiseConv2d, node.op)
    channels = node.inputs[0].type.shape[3]
    by_output = np.moveaxis(weights[0], 2, 0)
    return Linear(by_output.reshape(channels, -1, *weights.shape[1:3], 1), *_window_taps(op, node))


def _transposed(node: Node) -> Linear:
    op, weights, x, y = cast(TransposeConv2d, node.op), _weights(node), node.inputs[0].type, node.output.type
    inside = []
    for axis, before in enumerate((op.padding.top, op.padding.left)):
        size, out, kernel, stride = x.nhwc[1 + axis], y.nhwc[1 + axis], weights.shape[1 + axis], op.stride[axis]
        place, rest = np.divmod(np.arange(out)[:, None] + before - np.arange(kernel), stride)
        inside.append(np.unique((rest == 0) & (place >= 0) & (place < size), axis=0))
    return Linear(weights[None], *inside)


def _dense(node: Node) -> Linear:
    always = np.ones((1, 1), np.bool_)
    return Linear(_weights(node)[None, :, None, None, :], always, always)


def _window_taps(op: Conv2d | DepthwiseConv2d, node: Node) -> tuple[Bools, Bools]:
    x, weights, y = node.inputs[0].type, node.inputs[1].type, node.output.type
    inside = []
    for axis, before in enumerate((op.padding.top, op.padding.left)):
        first = np.arange(y.nhwc[1 + axis])[:, None] * op.stride[axis] - before
        place = first + np.arange(weights.shape[1 + axis]) * op.dilation[axis]
        inside.append(np.unique((place >= 0) & (place < x.nhwc[1 + axis]), axis=0))
    down, across = inside
    return down, across


_VIEWS: dict[type[Op], Callable[[Node], Linear]] = {
    Conv2d: _conv,
    DepthwiseConv2d: _depthwise,
    TransposeConv2d: _transposed,
    Dense: _dense,
}
