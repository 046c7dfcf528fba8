"""What rewrites share: readers, a draft that gets tensors and names, a graph with other ops or with equal ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import ClassVar, TypeVar

import numpy as np

from shoehorn_mcu.ir.graph import Graph, Op, Tensor
from shoehorn_mcu.ir.types import Array, TensorType

T = TypeVar("T")
OpT = TypeVar("OpT", bound=Op)
SameT = TypeVar("SameT", Op, Tensor)


def readers(graph: Graph) -> Mapping[str, tuple[Op, ...]]:
    """The ops that read each tensor, once per place; tensors that nothing reads are absent."""
    found: defaultdict[str, list[Op]] = defaultdict(list)
    for op in graph.ops:
        for name in op.inputs:
            found[name].append(op)
    return {name: tuple(ops) for name, ops in found.items()}


def only_reader(graph: Graph, readers_of: Mapping[str, tuple[Op, ...]], tensor: str) -> Op | None:
    """The single op that reads a tensor which is not one of the graph's results, else None."""
    ops = readers_of.get(tensor, ())
    return ops[0] if len(ops) == 1 and tensor not in graph.results else None


def reading(op: OpT, others: Mapping[str, str]) -> OpT:
    """The op with other operands in place of those that are named; the op itself where it reads none of them."""
    if not any(name in others for name in op.inputs):
        return op
    return replace(op, inputs=tuple(others.get(name, name) for name in op.inputs))


def with_ops(graph: Graph, ops: Iterable[Op]) -> Graph:
    """The graph with these ops, and without the tensors that nothing names any more."""
    kept = tuple(ops)
    initial = (state.initial for state in graph.states)
    used = {*graph.sources, *graph.results, *initial, *(n for op in kept for n in (*op.inputs, op.output))}
    return replace(graph, ops=kept, tensors={n: t for n, t in graph.tensors.items() if n in used})


def sharing(graph: Graph, other: Graph) -> Graph:
    """The graph with the ops and tensors of another one in place of its own that are the same in all but identity: what
    is remembered of an op (kernels/base/known.py) is found again then.
    """
    ops = {op.output: op for op in other.ops}
    tensors = {name: _one_of(tensor, other.tensors.get(name)) for name, tensor in graph.tensors.items()}
    return replace(graph, ops=tuple(_one_of(op, ops.get(op.output)) for op in graph.ops), tensors=tensors)


def _one_of(mine: SameT, other: Op | Tensor | None) -> SameT:
    """The other op or tensor where it is the same as mine."""
    return other if type(other) is type(mine) and _same(mine, other) else mine


def _same(mine: object, other: object) -> bool:
    """Whether two values are equal; arrays are where they are one object, ops and tensors where their fields are."""
    if mine is other:
        return True
    if isinstance(mine, Op | Tensor):
        each = (field.name for field in fields(mine))
        return type(mine) is type(other) and all(_same(getattr(mine, name), getattr(other, name)) for name in each)
    return not isinstance(mine, np.ndarray) and not isinstance(other, np.ndarray) and mine == other


def taken(tensor: Tensor, places: Sequence[int], axis: int) -> Tensor:
    """These places of a tensor along one axis, with their scales; a constant gets a new contiguous array."""
    shape, quant = list(tensor.type.shape), tensor.type.quant
    axis %= len(shape)
    shape[axis] = len(places)
    if quant is not None and quant.axis is not None and quant.axis % len(shape) == axis:
        quant = replace(quant, scales=_of(quant.scales, places), zero_points=_of(quant.zero_points, places))
    data = None if tensor.data is None else np.ascontiguousarray(np.take(tensor.data, places, axis))
    return Tensor(tensor.name, replace(tensor.type, shape=tuple(shape), quant=quant), data)


def _of(values: tuple[T, ...], places: Sequence[int]) -> tuple[T, ...]:
    """The values of these places; a single value holds for all places."""
    return values if len(values) == 1 else tuple(values[place] for place in places)


class Draft:
    """A graph that gets other ops: its tensors, those that are added, and names that nothing has yet."""

    mark: ClassVar[str] = "_"  # behind a name that is taken, as often as needed

    def __init__(self, graph: Graph) -> None:
        self.before, self.tensors = graph, dict(graph.tensors)
        self._names = {op.name for op in graph.ops}

    def tensor(self, name: str, kind: TensorType, data: Array | None = None) -> str:
        """The name of a new tensor: this one where it is free."""
        name = free_name(self.tensors, name, self.mark)
        self.tensors[name] = Tensor(name, kind, data)
        return name

    def op_name(self, name: str) -> str:
        """The name of a new op: this one where it is free."""
        name = free_name(self._names, name, self.mark)
        self._names.add(name)
        return name

    def with_ops(self, ops: Iterable[Op]) -> Graph:
        """The graph with these ops, and without the tensors that nothing names any more."""
        return with_ops(replace(self.before, tensors=self.tensors), ops)


def numbered_name(taken: Container[str], name: str) -> str:
    """The name itself, or with a number behind it where it is taken."""
    number, found = 1, name
    while found in taken:
        number, found = number + 1, f"{name}_{number}"
    return found


def free_name(taken: Container[str], name: str, mark: str = "_") -> str:
    """The name, with underscores or other marks behind it until it is not taken."""
    while name in taken:
        name += mark
    return name
