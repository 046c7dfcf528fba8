"""Inputs and outputs as the model's file has them (`--io native`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from shoehorn_mcu.ir import FileTensor, Graph, Op, Tensor, TensorType, verify
from shoehorn_mcu.ir.edit import free_name
from shoehorn_mcu.ops import Requantize, Reshape, Transpose


def native_io(graph: Graph, ends: Mapping[str, FileTensor]) -> Graph:
    """The graph with inputs and outputs of the file's shapes, orders and types, and ops that convert them.

    >   y = Conv2d(x: 1x32x32x3)                                                    x is 1x3x32x32 in the file
    <   x_inside = Transpose(x: 1x3x32x32) perm=(0, 2, 3, 1); y_inside = Conv2d(x_inside);
        y = Transpose(y_inside) perm=(0, 3, 1, 2)

    `ends`: by name in the graph, those that differ in the file. Names stay; real values are equal.
    """
    work = _Work(dict(graph.tensors), {op.name for op in graph.ops})
    inside: dict[str, str] = {}
    first: list[Op] = []
    last: list[Op] = []
    for number, name in enumerate((*graph.inputs, *graph.outputs)):
        end = ends.get(name)
        kind = graph.tensors[name].type
        if end is None or (end.type == kind and end.order == tuple(range(len(kind.shape)))):
            continue
        inside[name] = work.tensor(f"{name}_inside", kind)
        work.tensors[name] = Tensor(name, end.type)
        if number < len(graph.inputs):
            stored = work.converted(first, name, replace(end.type, dtype=kind.dtype, quant=kind.quant), "")
            work.moved(first, stored, end.order, kind, inside[name])
        else:
            back = tuple(end.order.index(dimension) for dimension in range(len(end.order)))
            same = replace(end.type, dtype=kind.dtype, quant=kind.quant)
            stored = work.moved(last, inside[name], back, same, name if same == end.type else "")
            work.converted(last, stored, end.type, name)
    kept = (
        replace(op, inputs=tuple(inside.get(n, n) for n in op.inputs), output=inside.get(op.output, op.output))
        for op in graph.ops
    )
    return verify(replace(graph, tensors=work.tensors, ops=(*first, *kept, *last)))


@dataclass
class _Work:
    """The tensors made so far, and the names of the ops."""

    tensors: dict[str, Tensor]
    names: set[str] = field(default_factory=set)

    def tensor(self, name: str, kind: TensorType) -> str:
        """The name of a new tensor, like `name`."""
        found = free_name(self.tensors, name)
        self.tensors[found] = Tensor(found, kind)
        return found

    def op(self, name: str) -> str:
        found = free_name(self.names, name)
        self.names.add(found)
        return found

    def converted(self, ops: list[Op], source: str, kind: TensorType, output: str) -> str:
        """Another 8-bit type of the same shape, where it is another; the name of the result, `output` if given."""
        if source == output or self.tensors[source].type == kind:
            return source
        made = output or self.tensor(f"{source}_stored", kind)
        ops.append(Requantize(name=self.op(f"requantize_{len(self.names)}"), inputs=(source,), output=made))
        return made

    def moved(self, ops: list[Op], source: str, perm: Sequence[int], kind: TensorType, output: str) -> str:
        """Another order of dimensions: a view where no elements move."""
        made = output or self.tensor(f"{source}_moved", kind)
        shape = self.tensors[source].type.shape
        long = [place for place in perm if shape[place] > 1]
        name, inputs = self.op(f"transpose_{len(self.names)}"), (source,)
        if long == sorted(long):
            ops.append(Reshape(name=name, inputs=inputs, output=made, shape=kind.shape))
        else:
            ops.append(Transpose(name=name, inputs=inputs, output=made, perm=tuple(perm)))
        return made
