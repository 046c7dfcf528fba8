"""Ops without trained constants in PyTorch, on values with a dimension of samples in front of the graph's own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from shoehorn_mcu.ir import Array, DType, Node, Op
from shoehorn_mcu.learn.formulas import NoGradientError, compiled
from shoehorn_mcu.ops import (
    Add,
    AveragePool2d,
    Concat,
    Gather,
    Map,
    MatMul,
    MaxPool2d,
    Mean,
    Pad,
    PickChannels,
    Reduce,
    Reshape,
    ResizeNearest,
    Slice,
    Softmax,
    Sub,
    Transpose,
)
from shoehorn_mcu.ops.clamp import LARGEST_FLOAT32
from shoehorn_mcu.ops.conv import Padding
from shoehorn_mcu.ops.formula import formula
from shoehorn_mcu.ops.functions import maximum, minimum
from shoehorn_mcu.ops.pool import Pool2d
from shoehorn_mcu.ops.resize import nearest_taps

Compute = Callable[..., torch.Tensor]


class Function(torch.nn.Module):  # type: ignore[misc]
    """A function of values, and constants that move with the module to its device and are no part of its state."""

    def __init__(self, compute: Compute, *constants: Array) -> None:
        super().__init__()
        self.compute = compute
        for place, each in enumerate(constants):
            self.register_buffer(f"constant_{place}", torch.from_numpy(np.array(each)), persistent=False)

    def forward(self, *values: torch.Tensor) -> torch.Tensor:
        return self.compute(*values, *self.buffers())


def function(node: Node) -> Function:
    """The op of a node. Raises NoGradientError where no gradient passes it."""
    make = _FUNCTIONS.get(type(node.op))
    if make is None or node.output.type.dtype is not DType.FLOAT32:
        raise NoGradientError("has no gradient")
    made = make(node)
    return made if isinstance(made, Function) else Function(made)


def as_image(x: torch.Tensor) -> torch.Tensor:
    """[samples, N, H, W, C] as [samples * N, C, H, W]: the same memory, which PyTorch calls channels_last.

    One channel is not called so: oneDNN 3.12 then gives other sums where an output has one column, the stride is 1 down
    and more across.
    """
    images = x.flatten(0, 1)
    return images.permute(0, 3, 1, 2) if images.shape[3] > 1 else images.squeeze(3).unsqueeze(1)


def from_image(x: torch.Tensor, images: int) -> torch.Tensor:
    """The inverse of `as_image` for `images` images a sample."""
    return x.permute(0, 2, 3, 1).unflatten(0, (-1, images))


def framed(x: torch.Tensor, pad: Padding, value: float = 0.0) -> torch.Tensor:
    """Images with `value` around them."""
    return functional.pad(x, (pad.left, pad.right, pad.top, pad.bottom), value=value)


def _max_pool(node: Node[MaxPool2d]) -> Compute:
    op, images, side = node.op, node.x.type.shape[0], _side(node.op)

    def compute(x: torch.Tensor) -> torch.Tensor:
        image = as_image(x) if side else framed(as_image(x), op.padding, -LARGEST_FLOAT32)
        return from_image(functional.max_pool2d(image, op.kernel, op.stride, side or 0), images)

    return compute


def _average_pool(node: Node[AveragePool2d]) -> Function:
    """The sums of the windows, with zeros in the padding, divided by the pixels that are inside."""
    op, images, side = node.op, node.x.type.shape[0], _side(node.op)

    def sums(x: torch.Tensor) -> torch.Tensor:
        image = as_image(x) if side else framed(as_image(x), op.padding)
        return functional.avg_pool2d(image, op.kernel, op.stride, side or 0, divisor_override=1)

    inside = sums(torch.ones((1, 1, *node.x.type.shape[1:3], 1)))
    return Function(lambda x, count: from_image(sums(x) / count, images), inside.numpy())


def _side(op: Pool2d) -> tuple[int, int] | None:
    """The padding down and across where PyTorch's pools take it: equal on both sides, half the window at most."""
    pad, (high, wide) = op.padding, op.kernel
    fits = pad.top == pad.bottom <= high // 2 and pad.left == pad.right <= wide // 2
    return (pad.top, pad.left) if fits else None


def _mean(node: Node[Mean]) -> Compute:
    op, axes = node.op, [axis + 1 for axis in node.op.axes]
    return lambda x: x.mean(axes, keepdim=op.keep_dims)


def _softmax(node: Node[Softmax]) -> Compute:
    beta = node.op.beta
    return lambda x: functional.softmax(x * beta if beta != 1 else x, -1)


def _reshape(node: Node[Reshape]) -> Compute:
    shape = node.output.type.shape
    return lambda x: x.reshape(x.shape[0], *shape)


def _pad(node: Node[Pad]) -> Compute:
    op = node.op
    sides = [side for pair in zip(reversed(op.before), reversed(op.after), strict=True) for side in pair]
    return lambda x: functional.pad(x, sides, value=op.value)


def _concat(node: Node[Concat]) -> Compute:
    axis = node.op.axis + 1
    return lambda *parts: torch.cat(parts, axis)


def _slice(node: Node[Slice]) -> Compute:
    """Negative steps, which PyTorch does not slice by, are turned around behind it."""
    op, places, turned = node.op, [slice(None)], []
    for axis, (begin, size, step) in enumerate(zip(op.begin, op.size, op.step, strict=True)):
        last = begin + (size - 1) * step
        places.append(slice(min(begin, last), max(begin, last) + 1, abs(step) or 1))
        turned += [axis + 1] if step < 0 else []
    return lambda x: x[tuple(places)].flip(turned) if turned else x[tuple(places)]


def _transpose(node: Node[Transpose]) -> Compute:
    perm = (0, *(axis + 1 for axis in node.op.perm))
    return lambda x: x.permute(perm)


def _add(node: Node[Add | Sub]) -> Compute:
    ranks, sign = _ranks(node), node.op.sign
    return lambda a, b: torch.add(*aligned((a, b), ranks), alpha=sign)


def _map(node: Node[Map]) -> Compute:
    ranks, run, shape = _ranks(node), compiled(node.op.formula), node.output.type.shape
    return lambda *values: run(*aligned(values, ranks)).expand(values[0].shape[0], *shape)


def _ranks(node: Node) -> int:
    return max(len(tensor.type.shape) for tensor in node.inputs)


def aligned(values: tuple[torch.Tensor, ...], rank: int) -> list[torch.Tensor]:
    """The values with so many dimensions behind that of the samples, as NumPy broadcasts."""
    return [
        x if x.ndim == rank + 1 else x.reshape(x.shape[0], *[1] * (rank + 1 - x.ndim), *x.shape[1:]) for x in values
    ]


def _reduce(node: Node[Reduce]) -> Compute:
    op = node.op
    if op.initial is not None:
        raise NoGradientError("has no gradient")
    axis = -1 if op.along_channels else -2
    known = next((whole for text, whole in _wholes() if text == op.formula), None)
    if known is not None:
        return lambda x: known(x, axis)
    run = compiled(op.formula)
    return lambda x: reduce(run, x.split(1, axis))


def _wholes() -> list[tuple[str, Callable[[torch.Tensor, int], torch.Tensor]]]:
    """Formulas of two elements, and what PyTorch has to combine all of a dimension by them."""
    kinds = (DType.FLOAT32, DType.FLOAT32)
    return [
        (formula(lambda a, b: a + b, *kinds).text, lambda x, axis: x.sum(axis, keepdim=True)),
        (formula(maximum, *kinds).text, lambda x, axis: x.amax(axis, keepdim=True)),
        (formula(minimum, *kinds).text, lambda x, axis: x.amin(axis, keepdim=True)),
    ]


def _matmul(node: Node[MatMul]) -> Compute:
    kinds = (DType.FLOAT32,) * 3
    if node.op.formula != formula(lambda t, a, b: t + a * b, *kinds).text:
        raise NoGradientError("has no gradient")
    rank = _ranks(node)

    def compute(*values: torch.Tensor) -> torch.Tensor:
        a, b = aligned(values, rank)
        if rank > 2 and b.shape[-3] == 1:  # one matrix for all rows
            return torch.matmul(a.squeeze(-2), b.squeeze(-3)).unsqueeze(-2)
        return torch.matmul(a, b)

    return compute


def _gather(node: Node[Gather]) -> Function:
    x, indices = node.inputs
    if indices.data is None:
        raise NoGradientError("has no gradient for indices that are computed")
    size = x.type.shape[-2]
    found = indices.data.astype(np.int64)
    places = np.clip(np.where(found < 0, found + size, found), 0, size - 1)
    if math.prod(places.shape) == places.shape[-2]:
        return Function(lambda x, _, at: x.index_select(-2, at), places.reshape(-1))
    whole = np.ascontiguousarray(np.broadcast_to(places, node.output.type.shape))
    return Function(lambda x, _, at: torch.gather(x, -2, at.expand(x.shape[0], *at.shape)), whole)


def _pick(node: Node[PickChannels]) -> Function:
    return Function(lambda x, at: x.index_select(-1, at), np.array(node.op.picked))


def _nearest(node: Node[ResizeNearest]) -> Function:
    op, shape = node.op, node.x.type.shape
    taps = (nearest_taps(op, shape[1 + axis], op.size[axis]) for axis in (0, 1))
    return Function(lambda x, down, across: x.index_select(2, down).index_select(3, across), *taps)


_FUNCTIONS: Mapping[type[Op], Callable[[Any], Compute | Function]] = {
    Add: _add,
    AveragePool2d: _average_pool,
    Concat: _concat,
    Gather: _gather,
    Map: _map,
    MatMul: _matmul,
    MaxPool2d: _max_pool,
    Mean: _mean,
    Pad: _pad,
    PickChannels: _pick,
    Reduce: _reduce,
    Reshape: _reshape,
    ResizeNearest: _nearest,
    Slice: _slice,
    Softmax: _softmax,
    Sub: _add,
    Transpose: _transpose,
}
