"""Layers with weights, as moves read and make them: convolutions of one kernel, stride and padding."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeIs

from shoehorn_mcu.ir import DType, Graph, GraphError, Node, Op, Tensor, TensorType, is_a, verify
from shoehorn_mcu.ir.edit import with_ops
from shoehorn_mcu.ops import Conv2d, DepthwiseConv2d, Map, Mean, Padding, RealClamp, Softmax
from shoehorn_mcu.ops.clamp import LARGEST_FLOAT32, Bounds
from shoehorn_mcu.ops.elementwise import Addition
from shoehorn_mcu.ops.layout import Mover
from shoehorn_mcu.ops.pool import Pool2d
from shoehorn_mcu.passes.drop_dead import drop_dead
from shoehorn_mcu.slim.regions import Grid

Reals: TypeAlias = NDArray[np.float32]
Convolution: TypeAlias = Conv2d | DepthwiseConv2d

RECTIFIED = RealClamp(0.0)
_MULTIPLE = 4  # channels that kernels take at once


def is_convolution(node: Node) -> TypeIs[Node[Convolution]]:
    """Whether the node is a convolution with constant weights and bias, without dilation, and more than `is_affine`."""
    plain = isinstance(node.op, Conv2d | DepthwiseConv2d) and node.op.dilation == (1, 1)
    return plain and all(tensor.data is not None for tensor in node.inputs[1:]) and not is_affine(node)


def is_affine(node: Node) -> bool:
    """Whether the op is a factor and an addend per channel, as batch normalisations and activations are imported."""
    op, same = node.op, node.x.type.shape == node.output.type.shape
    return isinstance(op, DepthwiseConv2d) and same and node.inputs[1].type.shape[1:3] == (1, 1)


def is_dense_convolution(node: Node) -> TypeIs[Node[Conv2d]]:
    """Whether the node is a convolution in which every output channel reads every input channel."""
    return is_convolution(node) and is_a(node, Conv2d) and node.weights.type.shape[3] == node.x.type.shape[3]


def is_weightless(node: Node) -> bool:
    """Whether the op is of those that a move may merge: pools, normalisations, functions and moves of elements."""
    if isinstance(node.op, Mean):
        return node.op.axes == (len(node.x.type.shape) - 1,)
    return isinstance(node.op, Pool2d | Map | Mover | Addition | Softmax) or is_affine(node)


def is_rectified(bounds: Bounds) -> bool:
    """Whether bounds cut something off that an activation cuts off."""
    return bounds.low > -LARGEST_FLOAT32 or bounds.high < LARGEST_FLOAT32


def kernel(node: Node[Convolution]) -> tuple[int, int]:
    """Height and width of the window."""
    _, height, width, _ = node.weights.type.shape
    return height, width


def data(tensor: Tensor) -> Reals:
    """The values of a constant."""
    assert tensor.data is not None
    return np.array(tensor.data, np.float32)


class Weights(NamedTuple):
    """Weights [O, height, width, I], or [1, height, width, C] of a depthwise convolution; a bias per output channel."""

    kernel: Reals
    bias: Reals


def seen_through(node: Node[Convolution], over: Grid) -> Grid:
    """The grid on the convolution's operand of what has the grid `over` on its result."""
    return over.behind(Grid.of(kernel(node), node.op.stride, node.op.padding))


def weights_of(node: Node[Convolution]) -> Weights:
    """The constants of a convolution."""
    return Weights(data(node.weights), data(node.bias))


def random(name: str, shape: Sequence[int], fan_in: int) -> Reals:
    """Normally distributed weights with variance 2 / fan_in (He et al. 2015), always the same ones for a name."""
    drawn = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape)
    weights: Reals = (drawn * np.sqrt(2 / fan_in)).astype(np.float32)
    return weights


def fewer(channels: int, factor: float) -> int:
    """So many times the channels, rounded down to a multiple of 4 but not below 4."""
    return max(_MULTIPLE, int(channels * factor) // _MULTIPLE * _MULTIPLE)


def grown(weights: Reals, size: tuple[int, int]) -> Reals:
    """The weights in the middle of a larger window, with zeros around them."""
    over = [(wanted - had) for wanted, had in zip(size, weights.shape[1:3], strict=True)]
    return np.pad(weights, ((0, 0), *((each // 2, each - each // 2) for each in over), (0, 0)))


def placed(
    x: TensorType, output: tuple[int, int], window: tuple[int, int], stride: tuple[int, int], centre: Sequence[float]
) -> Padding | None:
    """The padding with which a window gives so many pixels (down, across); None: no padding does.

    The first pixel's window stands over pixel `centre` of x, or as near to it as padding allows.
    """
    sides = []
    for axis in (0, 1):
        size, k, s = x.nhwc[1 + axis], window[axis], stride[axis]
        before = max(0, int(np.ceil((k - 1) / 2 - centre[axis])))
        behind = max(0, (output[axis] - 1) * s + k - size - before)
        if (size + before + behind - k) // s + 1 != output[axis]:
            return None
        sides.append((before, behind))
    (top, bottom), (left, right) = sides
    return Padding(top, bottom, left, right)


def rewritten(graph: Graph, gone: Iterable[str], added: Iterable[Op], weights: Mapping[str, Weights]) -> Graph | None:
    """The graph without some ops and with others, each where the op was that wrote its output.

    `weights` has the constants of layers by the names of their ops. Shapes follow from the operands, and ops that
    nothing reads any more go, too. None where an op
    behind them, or a result of the graph, cannot take the new shape.
    """
    made, left = {op.output: op for op in added}, {*gone}
    tensors, ops = dict(graph.tensors), list[Op]()
    for old in graph.ops:
        if (op := made.pop(old.output, None)) is not None:
            ops.append(op)
        elif old.name not in left:
            ops.append(old)
    assert not made, f"no op wrote {', '.join(made)}"
    for name, held in weights.items():
        for constant, array in zip(constants(name), held, strict=True):
            kind = TensorType(array.shape, DType.FLOAT32)
            tensors[constant] = Tensor(constant, kind, np.ascontiguousarray(array))
    try:
        for op in ops:
            shape = op.infer(tuple(tensors[name].type for name in op.inputs))
            before = tensors[op.output]
            if shape != before.type.shape:
                tensors[op.output] = replace(before, type=replace(before.type, shape=shape))
        found = drop_dead(verify(with_ops(replace(graph, tensors=tensors), ops)))
    except GraphError:
        return None
    return found if all(tensors[name].type == graph.tensors[name].type for name in graph.results) else None


def constants(name: str) -> tuple[str, str]:
    """The names of a layer's weights and bias."""
    return f"{name}/weights", f"{name}/bias"


def convolution(name: str, x: str, output: str, stride: tuple[int, int], padding: Padding, clamp: Bounds) -> Conv2d:
    """A convolution that reads constants of its own."""
    return Conv2d(name=name, inputs=(x, *constants(name)), output=output, stride=stride, padding=padding, clamp=clamp)
