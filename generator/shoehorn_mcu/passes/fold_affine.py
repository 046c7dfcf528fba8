"""The pass `fold-affine`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.ir import Array, DType, Graph, Node, Op, Tensor, is_a
from shoehorn_mcu.ir.edit import Draft, only_reader, readers
from shoehorn_mcu.ops import Clamped, Conv2d, Dense, DepthwiseConv2d, Map, Padding, RealClamp, Reshape
from shoehorn_mcu.ops.clamp import Bounds

Floats = NDArray[np.float64]
Linear = Conv2d | DepthwiseConv2d | Dense


def fold_affine(graph: Graph) -> Graph:
    """Moves a factor and an addend per channel, such as a batch normalisation, into the op whose output it alone reads,
    or else into the one that alone reads it.

    >   a = Conv2d(x, w, b); y = DepthwiseConv2d(a, f, c) 1x1, clamp=0..6      nothing else reads a; float32
    <   y = Conv2d(x, w * f, b * f + c) clamp=0..6
    >   a = DepthwiseConv2d(x, f, c) 1x1; y = Conv2d(a, w, b)      nothing else reads a; no padding, or all of c is 0
    <   y = Conv2d(x, w * f, b + sum(w * c))
    >   a = Map(x: uint8, (x - mean) / deviation); y = Conv2d(a, w, b)      as above
    <   a = Map(x, float32); y = Conv2d(a, w / deviation, b - sum(w * mean / deviation))

    >   a = Dense(x, w, b): 1x64; c = DepthwiseConv2d(Reshape(a): 1x1x1x64, f, g) 1x1; y = Reshape(c): 1x64
    <   y = Dense(x, w * f, b * f + g)

    An activation, whose factor is 1 and whose addend is 0, is moved into every op that clamps its result. That is
    exact; products of constants are rounded to float32 once, so results differ from the unfolded ones as two roundings
    of one sum do. The source is Jacob et al. (2018), Quantization and Training of Neural Networks, section 3.2.
    """
    readers_of, draft = readers(graph), Draft(graph)
    ops: list[Op | None] = list(graph.ops)
    place = {op.output: i for i, op in enumerate(graph.ops)}  # of the op that writes a tensor, folded ones too
    for node in graph.nodes():
        affine = _affine(node)
        if affine is None:
            continue
        inside = _with_views(graph, readers_of, node.op)
        source, output = inside[0].inputs[0], inside[-1].output
        if source not in place or only_reader(graph, readers_of, source) is not inside[0]:
            continue
        before = ops[place[source]]
        assert before is not None  # it writes what these ops read
        read = tuple(draft.tensors[n] for n in before.inputs)
        folded = _folded(Node(before, read, draft.tensors[source]), affine, output, draft)
        if folded is not None:
            for op in inside:
                ops[place[op.output]] = None
            ops[place[source]] = folded
            place[output] = place[source]
    return _folded_ahead(draft.with_ops(op for op in ops if op is not None))


def _folded_ahead(graph: Graph) -> Graph:
    """The graph with factors and addends moved into the linear ops that alone read what they give."""
    readers_of, draft = readers(graph), Draft(graph)
    affine: dict[str, tuple[Node, tuple[Op, ...], _Affine]] = {}  # by what the ops give
    for node in graph.nodes():
        if (found := _ahead(node)) is not None:
            inside = _with_views(graph, readers_of, node.op)
            affine[inside[-1].output] = (node, inside, found)
    ops: dict[str, Op] = {op.output: op for op in graph.ops}
    for node in graph.nodes():
        source = node.op.inputs[0] if node.op.inputs else ""
        if source not in affine or only_reader(graph, readers_of, source) is not node.op:
            continue
        first, inside, found = affine[source]
        after = _folded_behind(Node(ops[node.output.name], node.inputs, node.output), found, draft)
        if after is None:
            continue
        if first.x.type.dtype is DType.FLOAT32:
            for op in inside:
                del ops[op.output]
            after = replace(after, inputs=(inside[0].inputs[0], *after.inputs[1:]))
        else:
            assert isinstance(first.op, Map)
            ops[source] = replace(first.op, inputs=first.op.inputs[:1], formula=_REAL_OF_PIXELS)
        ops[node.output.name] = after
    return draft.with_ops(ops.values())


def _with_views(graph: Graph, readers_of: Mapping[str, tuple[Op, ...]], op: Op) -> tuple[Op, ...]:
    """The op between a reshape that it alone reads and one that undoes it and alone reads it, or else the op alone.

    The channels are the same in both shapes.
    """
    writer = next((each for each in graph.ops if each.output == op.inputs[0]), None)
    reader = only_reader(graph, readers_of, op.output)
    if not isinstance(writer, Reshape) or not isinstance(reader, Reshape):
        return (op,)
    outside = graph.tensors[writer.inputs[0]].type
    kept = outside.nhwc[3] == graph.tensors[op.output].type.nhwc[3]
    same = outside == graph.tensors[reader.output].type and kept
    alone = only_reader(graph, readers_of, op.inputs[0]) is op and graph.tensors[writer.inputs[0]].data is None
    return (writer, op, reader) if same and alone else (op,)


class _Affine(NamedTuple):
    """x * factor + addend, clamped; one factor and one addend, or one per channel."""

    factor: Floats
    addend: Floats
    clamp: Bounds


def _affine(node: Node) -> _Affine | None:
    """What a float32 op computes if that is a product and a sum per channel."""
    op = node.op
    if node.output.type.dtype is not DType.FLOAT32:
        return None
    channels = node.x.type.nhwc[3]
    if is_a(node, DepthwiseConv2d):
        one = node.weights.type.shape == (1, 1, 1, channels)
        if not one or node.op.stride != (1, 1) or node.op.padding != Padding():
            return None
        factor, addend = (_values(tensor).reshape(-1) for tensor in (node.weights, node.bias))
        return _Affine(factor, addend, node.op.clamp)
    if not isinstance(op, Map) or node.output.type != node.x.type or op.formula not in _OF_MAPS:
        return None
    _, constant = node.inputs
    if constant.data is None or constant.type.elements not in (1, constant.type.nhwc[3]):
        return None
    number = np.broadcast_to(_values(constant).reshape(-1), (channels,))
    return _OF_MAPS[op.formula](number)


_OF_MAPS: dict[str, Callable[[Floats], _Affine]] = {
    "float32 float32 : add float32 0 1": lambda c: _Affine(np.ones_like(c), c, RealClamp()),
    "float32 float32 : sub float32 0 1": lambda c: _Affine(np.ones_like(c), -c, RealClamp()),
    "float32 float32 : mul float32 0 1": lambda c: _Affine(c, np.zeros_like(c), RealClamp()),
}
"""Formulas of a tensor and a constant."""


def _folded(before: Node, affine: _Affine, output: str, draft: Draft) -> Op | None:
    """The op that computes both, whose new constants go into the draft; None where the one before cannot take it."""
    producer, (factor, addend, clamp) = before.op, affine
    if not isinstance(producer, Clamped) or before.output.type.dtype is not DType.FLOAT32:
        return None
    if (factor == 1).all() and not addend.any():
        low, high = max(clamp.low, producer.clamp.low), min(clamp.high, producer.clamp.high)
        return replace(producer, output=output, clamp=RealClamp(low, high)) if low <= high else None
    if not isinstance(producer, Linear) or producer.clamp != RealClamp():
        return None
    weights, bias = (_values(tensor) for tensor in before.inputs[1:])
    along = factor if isinstance(producer, DepthwiseConv2d) else factor.reshape(-1, *(1,) * (weights.ndim - 1))
    data = [(weights * along).astype(np.float32), (bias * factor + addend).astype(np.float32)]
    if not all(np.isfinite(array).all() for array in data):
        return None
    return replace(_with_constants(producer, before, data, draft), output=output, clamp=clamp)


_NORMALISED = "uint8 float32 float32 : cast float32 0 ; sub float32 3 1 ; div float32 4 2"
_REAL_OF_PIXELS = "uint8 : cast float32 0"
"""The formulas of pixels that are normalised (user_ends.py), and of the same as they are."""


def _ahead(node: Node) -> _Affine | None:
    """What an op computes if that can be moved into the op behind it: as `_affine`, or of pixels, without bounds."""
    if not isinstance(node.op, Map) or node.op.formula != _NORMALISED:
        found = _affine(node)
        return found if found is not None and found.clamp == RealClamp() else None
    _, mean, deviation = node.inputs
    if mean.data is None or deviation.data is None:
        return None
    channels = node.output.type.nhwc[3]
    both = [np.broadcast_to(_values(tensor).reshape(-1), (channels,)) for tensor in (mean, deviation)]
    return _Affine(1 / both[1], -both[0] / both[1], RealClamp())


def _folded_behind(after: Node, affine: _Affine, draft: Draft) -> Op | None:
    """A linear op that takes its input before the factor and the addend; None where it cannot."""
    op, (factor, addend, _) = after.op, affine
    if not isinstance(op, Linear) or after.x.type.dtype is not DType.FLOAT32:
        return None
    if not isinstance(op, Dense) and op.padding != Padding() and addend.any():
        return None  # the padding is 0 behind them
    weights, bias = (_values(tensor) for tensor in after.inputs[1:])
    if isinstance(op, Dense) and weights.shape[-1] != len(factor):
        return None
    if isinstance(op, DepthwiseConv2d):
        times = weights.shape[3] // len(factor)
        by, plus = (np.repeat(v, times) for v in (factor, addend))
        sums: tuple[int, ...] = (0, 1, 2)
    else:
        size = weights.shape[-1]  # of a group's channels
        outputs = len(weights) // (len(factor) // size)
        lines = (np.repeat(v.reshape(-1, size), outputs, axis=0) for v in (factor, addend))
        by, plus = (v.reshape(len(weights), *(1,) * (weights.ndim - 2), size) for v in lines)
        sums = tuple(range(1, weights.ndim))
    data = [(weights * by).astype(np.float32), (bias + (weights * plus).sum(axis=sums)).astype(np.float32)]
    if not all(np.isfinite(array).all() for array in data):
        return None
    return _with_constants(op, after, data, draft)


def _with_constants(op: Linear, node: Node, data: Sequence[Array], draft: Draft) -> Linear:
    """The linear op with other weights and another bias, which go into the draft."""
    names = [draft.tensor(old.name, old.type, array) for old, array in zip(node.inputs[1:], data, strict=True)]
    return replace(op, inputs=(op.inputs[0], *names))


def _values(tensor: Tensor) -> Floats:
    assert tensor.data is not None  # both ops' laws want constants
    return tensor.data.astype(np.float64)
