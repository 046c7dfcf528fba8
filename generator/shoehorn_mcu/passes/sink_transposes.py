"""The pass `sink-transposes`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from shoehorn_mcu.ir import Graph, Node, Op, OpFault, Tensor
from shoehorn_mcu.ir.edit import Draft, free_name, reading
from shoehorn_mcu.ir.orders import Order, reshaped
from shoehorn_mcu.ops import (
    Concat,
    Dense,
    Mean,
    Pad,
    PickChannels,
    Reduce,
    Reshape,
    Slice,
    Softmax,
    Transpose,
)
from shoehorn_mcu.ops.elementwise import Binary
from shoehorn_mcu.ops.layout import in_order
from shoehorn_mcu.passes.drop_dead import drop_dead

MOST_DIMENSIONS = 4  # of a Transpose


def sink_transposes(graph: Graph) -> Graph:
    """Lets ops behind a transpose compute in the order that its input has in memory, up to where that matters.

    >   a = Transpose(x: 1x8x6) perm=(0, 2, 1); b = Concat(a, a) axis=1; y = Transpose(b) perm=(0, 2, 1)
    <   y = Concat(x, x) axis=2

    Ops element by element, movers and reductions take any order. An op that does not reads what a transpose makes of
    the result before it. All of it is done where that transposes fewer elements in all, apart for transposes that have
    nothing to do with each other: channels-first parts of TFLite models are computed channels last so.
    """
    found = {op.output for op in graph.ops if isinstance(op, Transpose)}
    if not found:
        return graph
    tried = _Sinking(graph, found)
    gaining = {name for name in found if tried.gain(name) > 0}
    return drop_dead((sunk := _Sinking(graph, gaining)).with_ops(sunk.ops)) if gaining else graph


@dataclass(frozen=True)
class _Held:
    """Where the elements of a tensor are: dimension i of `name` is its dimension order[i]."""

    name: str
    order: Order
    root: str  # the output of a transpose that led to it

    @property
    def perm(self) -> Order:
        """That of the transpose that gives the tensor itself."""
        return tuple(self.order.index(dimension) for dimension in range(len(self.order)))


class _Sinking(Draft):
    """The graph without these transposes, and the ones that are needed in their place."""

    def __init__(self, graph: Graph, dropped: Collection[str]) -> None:
        super().__init__(graph)
        self.ops = list[Op]()
        self._held: dict[str, _Held] = {}
        self._same: dict[str, str] = {}  # by tensor that is not made: one that equals it
        self._made: set[str] = set()  # tensors that are elsewhere, but in their own order too
        self._with: dict[str, str] = {}  # by root: another one that it meets
        self._gain: dict[str, int] = {}  # elements, by root
        for old in graph.ops:
            op = reading(old, self._same)
            if isinstance(op, Transpose) and op.output in dropped:
                self._drop(op)
            elif not any(name in self._held for name in op.inputs) or not self._moved(op):
                for name in op.inputs:
                    self._make(name)
                self.ops.append(op)

    def gain(self, root: str) -> int:
        """The elements that are transposed less in all, of the transposes that meet this one."""
        return sum(gain for each, gain in self._gain.items() if self._met(each) == self._met(root))

    def _met(self, root: str) -> str:
        while root in self._with:
            root = self._with[root]
        return root

    def _count(self, root: str, elements: int) -> None:
        self._gain[root] = self._gain.get(root, 0) + elements

    def _drop(self, op: Transpose) -> None:
        source = op.inputs[0]
        known = self._held.get(source) or _Held(source, tuple(range(len(op.perm))), op.output)
        if (root := self._met(known.root)) != op.output:
            self._with[op.output] = root
        self._count(op.output, self._elements(op.output))
        self._hold(op.output, replace(known, order=tuple(op.perm.index(dimension) for dimension in known.order)))

    def _hold(self, name: str, held: _Held) -> None:
        """Takes note where a tensor is; it is made at once if it is a result of the graph."""
        if held.order == tuple(range(len(held.order))) and name not in self.before.results:
            self._same[name] = held.name
            return
        self._held[name] = held
        if name in self.before.results:
            self._make(name)

    def _make(self, name: str) -> None:
        """Makes a tensor in its own order, if it is not."""
        held = self._held.get(name)
        if held is None or name in self._made:
            return
        self._made.add(name)
        op = in_order(self.op_name(f"{name}_transposed"), self.tensors[held.name], name, held.perm)
        self.ops.append(op)
        if isinstance(op, Transpose):
            self._count(held.root, -self._elements(name))

    def _elements(self, name: str) -> int:
        return self.tensors[name].type.elements

    def _moved(self, op: Op) -> bool:
        """Lets an op compute in the order in which its operands are held; false where it cannot."""
        held = [self._held[name] for name in dict.fromkeys(op.inputs) if name in self._held]
        order = held[0].order
        made = self._in_order(op, order) if all(each.order == order for each in held) else None
        if made is None:
            return False
        moved, after = made
        if len(after) > MOST_DIMENSIONS and after != tuple(range(len(after))):
            return False
        name = free_name(self.tensors, f"{op.output}_in_order")
        moved = replace(moved, output=name)
        kind = self.tensors[op.output].type
        output = Tensor(name, replace(kind, shape=tuple(kind.shape[dimension] for dimension in after)))
        if not self._lawful(moved, output):
            return False
        for other in held[1:]:
            if (root := self._met(other.root)) != (first := self._met(held[0].root)):
                self._with[root] = first
        self.tensors[name] = output
        self.ops.append(moved)
        self._hold(op.output, _Held(name, after, held[0].root))
        return True

    def _lawful(self, op: Op, output: Tensor) -> bool:
        """Whether an op has the shape that is expected, and kernels can compute it."""
        inputs = tuple(self.tensors[name] for name in op.inputs)
        try:
            fits = op.infer(tuple(tensor.type for tensor in inputs)) == output.type.shape
            op.check(Node(op, inputs, output))
        except OpFault:
            return False
        return fits

    def _in_order(self, op: Op, order: Order) -> tuple[Op, Order] | None:
        """The op in this order of its operands, and the order of its result; None where it needs its own."""
        if op.any_shape or isinstance(op, Binary):
            return self._by_element(op, order)
        if not all(name in self._held for name in op.inputs[: op.by_rows]):
            return None
        shape = self.tensors[op.inputs[0]].type.shape
        found = _moved_mover(op, order) or _moved_along(op, order, len(shape) - 1) or _moved_view(op, order, shape)
        if found is None:
            return None
        rows = tuple(self._held[name].name for name in op.inputs[: op.by_rows])
        return replace(found[0], inputs=(*rows, *op.inputs[len(rows) :])), found[1]

    def _by_element(self, op: Op, order: Order) -> tuple[Op, Order] | None:
        """An op element by element: constants are put in the order too."""
        if len(self.tensors[op.output].type.shape) != len(order):
            return None
        names = []
        for name in op.inputs:
            tensor = self.tensors[name]
            if name in self._held:
                names.append(self._held[name].name)
            elif tensor.type.elements == 1:
                names.append(name)
            elif tensor.data is None or (tensor.type.quant is not None and tensor.type.quant.axis is not None):
                return None
            else:
                wide = tensor.data.reshape((1,) * (len(order) - tensor.data.ndim) + tensor.data.shape)
                data = np.ascontiguousarray(wide.transpose(order))
                names.append(self.tensor(f"{name}_in_order", replace(tensor.type, shape=data.shape), data))
        return replace(op, inputs=tuple(names)), order


def _moved_mover(op: Op, order: Order) -> tuple[Op, Order] | None:
    """A concatenation, slice or pad along dimensions in this order."""
    if isinstance(op, Concat) and not op.shared:
        return replace(op, axis=order.index(op.axis)), order
    if isinstance(op, Slice) and not op.shared:
        begin, size, step = (tuple(along[d] for d in order) for along in (op.begin, op.size, op.step))
        return replace(op, begin=begin, size=size, step=step), order
    if isinstance(op, Pad):
        before, after = (tuple(along[d] for d in order) for along in (op.before, op.after))
        return replace(op, before=before, after=after), order
    return None


def _moved_along(op: Op, order: Order, last: int) -> tuple[Op, Order] | None:
    """An op along some dimensions, whose kernel finds them where they are; `last`: the last dimension."""
    if isinstance(op, Softmax | Dense | PickChannels) and order[-1] == last:
        return op, order
    if isinstance(op, Reduce):
        place = order.index(last if op.along_channels else last - 1)
        return (replace(op, along_channels=place == last), order) if place >= last - 1 else None
    if not isinstance(op, Mean):
        return None
    axes = tuple(order.index(axis) for axis in op.axes)
    if axes != tuple(sorted(axes)):  # float32 is summed in their order
        return None
    kept = [dimension for dimension in range(last + 1) if dimension not in op.axes or op.keep_dims]
    return replace(op, axes=axes), tuple(kept.index(dimension) for dimension in order if dimension in kept)


def _moved_view(op: Op, order: Order, shape: Sequence[int]) -> tuple[Op, Order] | None:
    """A reshape, if it is a view in this order."""
    if not isinstance(op, Reshape) or not all(shape):
        return None
    before, after, _ = reshaped(shape, order, op.shape)
    return (replace(op, shape=tuple(op.shape[d] for d in after)), after) if before == order else None
