"""Sequences as rows of time, for `--slide`, which changes the shape of the model's input."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from shoehorn_mcu.ir import Graph, Node, Op, Tensor, TensorType
from shoehorn_mcu.ir.edit import Draft, with_ops
from shoehorn_mcu.ops import Concat, Conv2d, DepthwiseConv2d, Mean, Padding, Pool2d, Reshape, Slice
from shoehorn_mcu.ops import Pad as PadOp
from shoehorn_mcu.ops.rules import as_4d


def upright(graph: Graph) -> Graph:
    """Gives each place of a sequence a row, from the inputs on, as far as ops compute along the sequence.

    >   input x: 1x1x128x9; y = Conv2d(x, w) kernel 1x5; z = Dense(Reshape(y)) shape=(1, 3968)
    <   input x: 1x128x1x9; y = Conv2d(x, w) kernel 5x1; z = Dense(Reshape(y)) shape=(1, 3968)

    A tensor of 1xTxC or 1x1xTxC is a row of T pixels; as Tx1xC it has the same bytes. Other ops read it as it was.
    """
    rewrite = _Upright(graph)
    for node in graph.nodes():
        rewrite.add(node)
    return with_ops(replace(graph, tensors=rewrite.tensors), rewrite.ops)


class _Upright(Draft):
    """The graph so far, and by name the tensors that stand upright."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.ops: list[Op] = []
        self._standing: dict[str, str] = {}
        for name in graph.inputs:
            kind = graph.tensors[name].type
            if _lies(kind) and name not in graph.outputs:
                self.tensors[name] = Tensor(name, _stood(kind))
                self._standing[name] = name
        self._lying = dict[str, str]()

    def add(self, node: Node) -> None:
        """The op, upright where its operands are and it can be."""
        op, output = node.op, node.output
        stands = any(tensor.name in self._standing for tensor in node.row_inputs)
        turned = self._turned(node) if stands else None
        if turned is None:
            self.ops.append(replace(op, inputs=tuple(map(self._as_before, op.inputs))))
            return
        shape = turned.infer(tuple(self.tensors[name].type for name in turned.inputs))
        if shape == output.type.shape:
            self.ops.append(turned)
        elif output.name in self.before.results:
            made = self.tensor(f"{output.name}_upright", replace(output.type, shape=shape))
            view = Reshape(name=self.op_name(made), inputs=(made,), output=output.name, shape=output.type.shape)
            self.ops += [replace(turned, output=made), view]
        else:
            self.tensors[output.name] = Tensor(output.name, replace(output.type, shape=shape))
            self._standing[output.name] = output.name
            self.ops.append(turned)

    def _turned(self, node: Node) -> Op | None:
        """The op with upright operands, where its output stands upright then, or is as it was."""
        turned, kind = _turned(node), node.output.type
        if turned is None:
            return None
        rows = len(node.row_inputs)
        inputs = [*map(self._upright, node.row_inputs), *turned.inputs[rows:]]
        if isinstance(turned, Conv2d | DepthwiseConv2d):
            inputs[1] = self._weights(node.inputs[1])
        turned = replace(turned, inputs=tuple(inputs))
        shape = turned.infer(tuple(self.tensors[name].type for name in inputs))
        return turned if shape == kind.shape or (_lies(kind) and shape == _stood(kind).shape) else None

    def _upright(self, tensor: Tensor) -> str:
        """The operand with a row per place; one pixel for all of them fits as it is."""
        if tensor.name in self._standing:
            return self._standing[tensor.name]
        if not _lies(tensor.type):
            return tensor.name
        kind = _stood(tensor.type)
        data = None if tensor.data is None else tensor.data.reshape(kind.shape)
        name = self._standing[tensor.name] = self.tensor(f"{tensor.name}_upright", kind, data)
        if data is None:
            self.ops.append(Reshape(name=self.op_name(name), inputs=(tensor.name,), output=name, shape=kind.shape))
        return name

    def _weights(self, tensor: Tensor) -> str:
        assert tensor.data is not None
        data = np.ascontiguousarray(tensor.data.swapaxes(1, 2))
        return self.tensor(f"{tensor.name}_upright", replace(tensor.type, shape=data.shape), data)

    def _as_before(self, name: str) -> str:
        """The tensor in its own shape."""
        if name not in self._standing or self.before.tensors[name].data is not None:
            return name
        if name not in self._lying:
            kind = self.before.tensors[name].type
            lying = self._lying[name] = self.tensor(f"{name}_lying", kind)
            view = Reshape(name=self.op_name(lying), inputs=(self._standing[name],), output=lying, shape=kind.shape)
            self.ops.append(view)
        return self._lying[name]


def _lies(kind: TensorType) -> bool:
    """Whether it is one row of pixels."""
    return len(kind.shape) in (3, 4) and kind.rows == 1


def _stood(kind: TensorType) -> TensorType:
    return replace(kind, shape=(1, kind.nhwc[2], 1, kind.nhwc[3]))


def _turned(node: Node) -> Op | None:
    """The op for upright operands; None where it does more than compute along the sequence."""
    op, outside = node.op, [tensor.type for tensor in node.row_inputs if not _lies(tensor.type)]
    if any(kind.elements != kind.nhwc[3] for kind in outside):
        return None
    for kind, turn in _TURNS.items():
        if isinstance(op, kind):
            return turn(node)
    return op if op.pixelwise(node.sig) else None


def _window(node: Node[Conv2d | DepthwiseConv2d]) -> Op | None:
    op = node.op
    if node.inputs[1].type.shape[1] != 1 or op.padding.top or op.padding.bottom:
        return None
    return replace(op, stride=op.stride[::-1], dilation=op.dilation[::-1], padding=_padding(op.padding))


def _pool(node: Node[Pool2d]) -> Op | None:
    op = node.op
    if op.kernel[0] != 1 or op.padding.top or op.padding.bottom:
        return None
    return replace(op, kernel=op.kernel[::-1], stride=op.stride[::-1], padding=_padding(op.padding))


def _padding(padding: Padding) -> Padding:
    return Padding(padding.left, padding.right, padding.top, padding.bottom)


def _reshape(node: Node[Reshape]) -> Op | None:
    """A view of the same pixels, which is one of the same rows then."""
    kind = node.output.type
    return replace(node.op, shape=_stood(kind).shape) if node.x.type.nhwc == kind.nhwc and _lies(kind) else None


def _concat(node: Node[Concat]) -> Op | None:
    axis = node.op.axis + 4 - len(node.output.type.shape)
    if any(not _lies(tensor.type) for tensor in node.row_inputs) or axis < 2:
        return None
    return replace(node.op, axis={2: 1, 3: 3}[axis])


def _slice(node: Node[Slice]) -> Op | None:
    op = node.op
    return replace(op, begin=_swapped(op.begin, 0), size=_swapped(op.size, 1), step=_swapped(op.step, 1))


def _pad(node: Node[PadOp]) -> Op | None:
    return replace(node.op, before=_swapped(node.op.before, 0), after=_swapped(node.op.after, 0))


def _swapped(values: tuple[int, ...], fill: int) -> tuple[int, ...]:
    n, h, w, c = as_4d(values, fill)
    return n, w, h, c


def _mean(node: Node[Mean]) -> Op | None:
    """Rows are what columns were; a dimension of 1 may be dropped, or not, as the op says."""
    op, ahead = node.op, 4 - len(node.x.type.shape)
    axes = {{1: 2, 2: 1, 3: 3}.get(axis + ahead, 0) for axis in op.axes}
    dropped = {2} if ahead and not op.keep_dims else set()  # a rank of three has one dimension of 1 less
    return replace(op, axes=tuple(sorted(axes | dropped))) if 0 not in axes else None


_TURNS: Mapping[type[Op], Callable[[Node[Any]], Op | None]] = {
    Conv2d: _window,
    DepthwiseConv2d: _window,
    Pool2d: _pool,
    Reshape: _reshape,
    Concat: _concat,
    Slice: _slice,
    PadOp: _pad,
    Mean: _mean,
}
