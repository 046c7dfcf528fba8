"""A stage: an op with the kernel that runs it, the parameters it gets and the rows it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from generator.ir import Graph, Node, Tensor
from generator.kernels import choose
from generator.kernels.base import Kernel, Value
from generator.ops import Reshape
from generator.targets import Isa

Rows = tuple[tuple[int | None, ...], ...]
"""What Op.rows gives for one output row: a tuple per row input."""


@dataclass(frozen=True, eq=False)
class Stage:
    """One op that has steps; `index` is its number in plan.json and in the trace."""

    index: int
    node: Node
    kernel: Kernel
    params: Mapping[str, Value]
    scratch_bytes: int
    rows: tuple[Rows, ...]  # by output row

    @property
    def name(self) -> str:
        return self.node.op.name

    @property
    def row_inputs(self) -> tuple[Tensor, ...]:
        return self.node.row_inputs

    @property
    def macs(self) -> int:
        return self.node.op.macs(self.node.sig)

    @property
    def weight_bytes(self) -> int:
        """Constants that the kernel reads: those it got packed, and operands that it reads by rows."""
        packed = sum(v.nbytes for v in self.params.values() if isinstance(v, np.ndarray))
        return packed + sum(t.data.nbytes for t in self.row_inputs if t.data is not None)


def _stage(index: int, node: Node, isas: Sequence[Isa]) -> Stage:
    kernel = choose(node, isas)
    scratch_bytes = kernel.scratch_bytes(node) if kernel.scratch_bytes else 0
    rows = tuple(node.op.rows(y, node.sig) for y in range(node.output.type.rows))
    return Stage(index, node, kernel, kernel.params(node), scratch_bytes, rows)


def stages(graph: Graph, isas: Sequence[Isa]) -> tuple[Stage, ...]:
    """The ops that compute or move something, in order, with the best kernel for `isas` (best first).

    A Reshape is none: its output is a view of its input.
    """
    nodes = [node for node in graph.nodes() if not isinstance(node.op, Reshape)]
    return tuple(_stage(i, node, isas) for i, node in enumerate(nodes))
