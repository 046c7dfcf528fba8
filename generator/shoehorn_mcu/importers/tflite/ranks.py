"""Ops of more than four dimensions, as ops of four at most: dimensions that lie side by side become one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from shoehorn_mcu.importers.lowering.movers import MOST, joined, padded, shaped, sliced
from shoehorn_mcu.importers.lowering.node import RawNode
from shoehorn_mcu.importers.lowering.site import Builder, Site, renamed
from shoehorn_mcu.importers.tflite.site import Part
from shoehorn_mcu.ir import GraphError, Node, Op, Tensor
from shoehorn_mcu.ops import Add, Concat, Maximum, Mean, Minimum, Mul, Pad, Prelu, Slice, Sub, Transpose
from shoehorn_mcu.ops.clamp import Clamped


def narrowed(part: Part, known: Mapping[str, Tensor], fresh: Iterator[str]) -> Part:
    """The part with ops of four dimensions in place of those with more that can be had so.

    `known`: the tensors that its ops read and that it does not make; `fresh` gives names for those between.
    """
    tensors, ops, made = {**known, **{t.name: t for t in part.tensors}}, list[Op](), list[Tensor]()
    for op in part.ops:
        inputs = [tensors[name] for name in op.inputs]
        narrow = next((write for kind, write in _NARROW.items() if isinstance(op, kind)), None)
        if narrow is None or all(len(t.type.shape) <= MOST for t in inputs) or _fits(op, inputs, tensors[op.output]):
            ops.append(op)
            continue
        builder = Builder({t.name: t for t in inputs})
        there = Site(RawNode(0, op.name, op.inputs, (op.output,), {}), {}, {}, builder)
        result = narrow(there, op, inputs, tensors[op.output])
        if not builder.ops or builder.ops[-1].output != result.name:
            result = there.copied(result)
        names = {result.name: op.output}
        for name, tensor in builder.tensors.items():
            if name not in names and tensor not in inputs:
                names[name] = next(each for each in fresh if each not in tensors)
                made.append(replace(tensor, name=names[name]))
        for number, each in enumerate(builder.ops):
            ops.append(replace(renamed(each, names), name=f"{op.name}_{number}" if number else op.name))
    return replace(part, ops=tuple(ops), tensors=(*part.tensors, *made))


def _fits(op: Op, inputs: Sequence[Tensor], output: Tensor) -> bool:
    """Whether the op may have so many dimensions."""
    try:
        kind = replace(output.type, shape=op.infer(tuple(t.type for t in inputs)))
        op.check(Node(op, tuple(inputs), replace(output, type=kind)))
    except GraphError:
        return False
    return True


def _transposed(there: Site, op: Op, inputs: Sequence[Tensor], output: Tensor) -> Tensor:
    assert isinstance(op, Transpose)
    return there.transposed(inputs[0], op.perm)


def _sliced(there: Site, op: Op, inputs: Sequence[Tensor], output: Tensor) -> Tensor:
    assert isinstance(op, Slice)
    places = zip(op.begin, op.size, op.step, strict=True)
    return sliced(there, inputs[0], [range(begin, begin + size * step, step) for begin, size, step in places])


def _padded(there: Site, op: Op, inputs: Sequence[Tensor], output: Tensor) -> Tensor:
    assert isinstance(op, Pad)
    return padded(there, inputs[0], op.before, op.after, op.value)


def _joined(there: Site, op: Op, inputs: Sequence[Tensor], output: Tensor) -> Tensor:
    assert isinstance(op, Concat)
    return joined(there, inputs, op.axis)


def _mean(there: Site, op: Op, inputs: Sequence[Tensor], output: Tensor) -> Tensor:
    """Over the last of two dimensions, so in the order of the elements."""
    assert isinstance(op, Mean)
    shape = inputs[0].type.shape
    kept = tuple(axis for axis in range(len(shape)) if axis not in op.axes)
    count = math.prod(shape[axis] for axis in op.axes)
    moved = there.transposed(inputs[0], (*kept, *op.axes))
    rows = shaped(there, moved, (moved.type.elements // count, count))
    found = there.emit(Mean, rows, axes=(1,), keep_dims=False, quant=output.type.quant, dtype=output.type.dtype)
    ones = [1 if axis in op.axes else size for axis, size in enumerate(shape)]
    return shaped(there, found, ones if op.keep_dims else [shape[axis] for axis in kept])


def _by_elements(there: Site, op: Op, inputs: Sequence[Tensor], output: Tensor) -> Tensor:
    """Dimensions along which the same operands are broadcast are one; where more than four are left, the last ones of
    an operand are repeated.
    """
    rank = max(len(t.type.shape) for t in inputs)
    operands = [shaped(there, t, (1,) * (rank - len(t.type.shape)) + t.type.shape) for t in inputs]
    whole = tuple(map(max, zip(*(t.type.shape for t in operands), strict=True)))
    for axis in reversed(range(rank)):
        if len(groups := _groups(operands)) <= MOST:
            break
        size = whole[axis]
        operands = [t if t.type.shape[axis] == size else joined(there, [t] * size, axis) for t in operands]
    flat = [shaped(there, t, [math.prod(t.type.shape[axis] for axis in axes) for axes in groups]) for t in operands]
    fields = {"clamp": op.clamp} if isinstance(op, Clamped) else {}
    found = there.emit(type(op), *flat, quant=output.type.quant, dtype=output.type.dtype, **fields)
    return shaped(there, found, whole)


def _groups(operands: Sequence[Tensor]) -> list[list[int]]:
    """Neighbouring dimensions along which the same operands are broadcast; one that is 1 in all of them goes along."""
    groups: list[list[int]] = []
    last: tuple[bool, ...] | None = None
    for axis, sizes in enumerate(zip(*(t.type.shape for t in operands), strict=True)):
        spread = tuple(size == 1 for size in sizes)
        if groups and (all(spread) or spread == last):
            groups[-1].append(axis)
        else:
            groups.append([axis])
            last = None if all(spread) else spread
    return groups


_NARROW: Mapping[type[Op], Callable[[Site, Op, Sequence[Tensor], Tensor], Tensor]] = {
    Transpose: _transposed,
    Slice: _sliced,
    Pad: _padded,
    Concat: _joined,
    Mean: _mean,
    **dict.fromkeys((Add, Sub, Mul, Maximum, Minimum, Prelu), _by_elements),
}
