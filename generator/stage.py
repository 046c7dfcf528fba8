"""A stage: an op with the kernel that runs it, the parameters it gets and the rows it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shoehorn_mcu.ir import Graph, Node, Tensor
from shoehorn_mcu.kernels import choose
from shoehorn_mcu.kernels.base import Kernel, Value
from shoehorn_mcu.kernels.cost import DEFAULT_CPU, Calls, call_instructions, kernel_instructions
from shoehorn_mcu.kernels.work import Work
from shoehorn_mcu.targets import Isa

Rows = tuple[tuple[int | None, ...], ...]
"""What Op.rows gives for one output row: a tuple per row input."""


@dataclass(frozen=True, eq=False)
class Stage:
    """One op that has steps; `index` is its number in plan.json and in the trace."""

    index: int
    node: Node
    kernel: Kernel
    isas: tuple[Isa, ...]  # that it was chosen for
    scratch_bytes: int
    rows: tuple[Rows, ...]  # by output row
    work: Work  # of one row
    cpu: str  # key of targets.CPUS: which core's costs are predicted

    @property
    def name(self) -> str:
        return self.node.op.name

    @property
    def row_inputs(self) -> tuple[Tensor, ...]:
        return self.node.row_inputs

    @cached_property
    def params(self) -> Mapping[str, Value]:
        """Members of the kernel's struct."""
        return self.kernel.params(self.node)

    @property
    def macs(self) -> int:
        return self.node.op.macs(self.node.sig)

    @cached_property
    def kernel_instructions(self) -> float:
        """Predicted instructions of the kernel for one row."""
        return kernel_instructions(self.kernel, self.work, self.cpu)

    @property
    def row_cost(self) -> int:
        """Predicted instructions of one row where all tensors lie whole, the pointers that it is handed included."""
        places = sum(pointers for pointers, _ in self.pointers)
        guarded = sum(some for _, some in self.pointers)
        around = call_instructions(Calls(pointers=places + 1, guarded=guarded), self.cpu)
        return max(1, round(self.kernel_instructions + around))

    @cached_property
    def pointers(self) -> tuple[tuple[float, float], ...]:
        """Per row input: how many rows one output row is handed (on average), and how many of those are guarded."""
        by_input = zip(*self.rows, strict=True)
        return tuple(_pointers(tuple(zip(*places, strict=True))) for places in by_input)

    @property
    def weight_bytes(self) -> int:
        """Constants that the kernel reads: those it got packed, and operands that it reads by rows."""
        packed = sum(v.nbytes for v in self.params.values() if isinstance(v, np.ndarray))
        return packed + sum(t.data.nbytes for t in self.row_inputs if t.data is not None)


def _pointers(columns: Sequence[Sequence[int | None]]) -> tuple[float, float]:
    """`columns[place][output row]` -> pointers per row, and those at places that are padding for some rows."""
    known = [sum(row is not None for row in column) / len(column) for column in columns]
    return sum(known), sum(0 < share < 1 for share in known)


def _stage(index: int, node: Node, isas: Sequence[Isa], cpu: str) -> Stage:
    kernel = choose(node, isas)
    scratch_bytes = kernel.scratch_bytes(node) if kernel.scratch_bytes else 0
    rows = tuple(node.op.rows(y, node.sig) for y in range(node.output.type.rows))
    return Stage(index, node, kernel, tuple(isas), scratch_bytes, rows, kernel.work(node), cpu)


def stages(graph: Graph, isas: Sequence[Isa], cpu: str = DEFAULT_CPU) -> tuple[Stage, ...]:
    """The ops that compute or move something, in order, with the best kernel for `isas` (best first).

    A view has none: its output is its input. Costs are those of `cpu`, a key of targets.CPUS.
    """
    nodes = [node for node in graph.nodes() if not node.op.view]
    return tuple(_stage(i, node, isas, cpu) for i, node in enumerate(nodes))


def stages_like(other: Stage, graph: Graph) -> tuple[Stage, ...]:
    """The stages of a graph for the machine of another stage."""
    return stages(graph, other.isas, other.cpu)
