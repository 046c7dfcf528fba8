"""Ops over named tensors, in an order that runs: the value that importers make and passes rewrite."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from shoehorn_mcu.errors import ShoehornError
from shoehorn_mcu.ir.types import Array, TensorType


class GraphError(ShoehornError):
    """The graph breaks a law of the IR; the message names the op or tensor."""


@dataclass(frozen=True, eq=False)
class Tensor:
    """A named value; `data` is there when it is a constant."""

    name: str
    type: TensorType
    data: Array | None = None


@dataclass(frozen=True)
class Signature:
    """The types that one op reads and writes."""

    inputs: tuple[TensorType, ...]
    output: TensorType


@dataclass(frozen=True, kw_only=True, eq=False)
class Op:
    """One operation: attributes are the subclass's fields, operands are tensor names.

    Every op writes exactly one tensor (an importer splits what its format writes as several).
    The first `row_inputs` inputs are read by rows; the others (weights, bias) are constants that a
    kernel packs. None: all inputs are read by rows.
    """

    name: str
    inputs: tuple[str, ...]
    output: str

    row_inputs: ClassVar[int | None] = None

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        """The output's shape; raises GraphError where the inputs do not fit the attributes."""
        raise NotImplementedError

    def rows(self, y: int, sig: Signature) -> tuple[tuple[int | None, ...], ...]:
        """For output row y (of N*H), the rows that are read, one tuple per row input.

        The length of each tuple does not depend on y; None stands for a row of padding (or for a place
        that this y does not use) and reaches the kernel as a null pointer.
        """
        raise NotImplementedError

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        """The output for whole inputs (constants included), computed in numpy, exactly."""
        raise NotImplementedError

    def macs(self, sig: Signature) -> int:
        """Multiply-accumulates of one inference; 0 for ops that have none."""
        return 0


@dataclass(frozen=True)
class Node:
    """An op with its operands looked up."""

    op: Op
    inputs: tuple[Tensor, ...]
    output: Tensor

    @property
    def sig(self) -> Signature:
        return Signature(tuple(t.type for t in self.inputs), self.output.type)

    @property
    def row_inputs(self) -> tuple[Tensor, ...]:
        """The operands that are read by rows (see Op.row_inputs)."""
        return self.inputs[: self.op.row_inputs]


@dataclass(frozen=True, eq=False)
class Graph:
    """A model: `tensors` by name, `ops` in a runnable order, names of inputs and outputs."""

    name: str
    tensors: Mapping[str, Tensor]
    ops: tuple[Op, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def node(self, op: Op) -> Node:
        return Node(op, tuple(self.tensors[n] for n in op.inputs), self.tensors[op.output])

    def nodes(self) -> Iterator[Node]:
        """Every op with its operands, in order."""
        return map(self.node, self.ops)

    @property
    def macs(self) -> int:
        return sum(n.op.macs(n.sig) for n in self.nodes())


def verify(graph: Graph) -> Graph:
    """The graph itself, or GraphError: unique names, operands written before they are read, shapes as inferred."""
    written = set(graph.inputs) | {n for n, t in graph.tensors.items() if t.data is not None}
    names: set[str] = set()
    for tensor in graph.tensors.values():
        if tensor.data is not None and tensor.data.shape != tensor.type.shape:
            raise GraphError(
                f"{graph.name}: constant '{tensor.name}' holds {tensor.data.shape}, its type says {tensor.type}"
            )
    for op in graph.ops:
        where = f"{graph.name}: op '{op.name}' ({type(op).__name__})"
        if op.name in names:
            raise GraphError(f"{where}: another op has this name")
        names.add(op.name)
        if unknown := [n for n in (*op.inputs, op.output) if n not in graph.tensors]:
            raise GraphError(f"{where}: names tensors that do not exist: {', '.join(unknown)}")
        if missing := [n for n in op.inputs if n not in written]:
            raise GraphError(f"{where}: reads {', '.join(missing)} before anything writes it")
        if op.output in written:
            raise GraphError(f"{where}: writes '{op.output}', which is written already")
        written.add(op.output)
        sig = graph.node(op).sig
        if (shape := op.infer(sig.inputs)) != sig.output.shape:
            raise GraphError(f"{where}: gives shape {shape}, but '{op.output}' has {sig.output.shape}")
    if missing := [n for n in graph.outputs if n not in written]:
        raise GraphError(f"{graph.name}: outputs that nothing writes: {', '.join(missing)}")
    return graph
