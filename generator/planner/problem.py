"""What a planner is given, as plain data: bytes, rows and steps; nothing about ops or C."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from shoehorn_mcu.memory_plan import DELIVERY

ALIGNMENT = 4  # bytes; every tensor, row with an address of its own and scratch starts at a multiple


def aligned(size: int) -> int:
    """The size rounded up to whole alignment units."""
    return -(-size // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True)
class TensorSpec:
    """A tensor as a stack of rows. `view_of` names a tensor whose bytes it shares, in the same order."""

    name: str
    rows: int
    row_bytes: int
    view_of: str | None = None

    @property
    def bytes(self) -> int:
        return self.rows * self.row_bytes


@dataclass(frozen=True)
class Read:
    """Which rows of `tensor` each output row needs: `rows[y]` for output row y, without repeats."""

    tensor: str
    rows: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class OpSpec:
    """One op: what it reads and writes by rows, the working memory that its kernel wants, and what a row costs.

    `in_place`: a tensor that the op reads, row y of which for output row y, and which that row may overwrite as it is
    computed (the same address, to the byte); row y of the output is no longer.
    """

    name: str
    reads: tuple[Read, ...]
    writes: str
    scratch_bytes: int = 0
    row_cost: int = 1  # predicted instructions of one row
    row_macs: int = 0  # multiply-accumulates of one row
    in_place: str | None = None


@dataclass(frozen=True)
class Cut:
    """How a block may be run: its ops as they are (chunks == 1), or cut into chunks of its inner channels.

    `ops` are as many for each chunk, in the same order and with reads of the same rows, and where there are several
    chunks a last op that makes the block's output from their sum; `tensors` are those that they hand on to each other,
    and views of them, which must be of one row each and which no op names.
    """

    chunks: int
    tensors: tuple[TensorSpec, ...]
    ops: tuple[OpSpec, ...]


@dataclass(frozen=True)
class Block:
    """Ops [first, last] of a problem; nobody but themselves reads what they hand on to each other."""

    name: str
    first: int
    last: int  # inclusive
    cuts: tuple[Cut, ...]


@dataclass(frozen=True)
class Problem:
    """Ops in an order that runs. Inputs are there before the first step, outputs after the last one.

    A streamed input arrives row by row while the plan runs. It stands in `ops` as an op without reads, the first one,
    called DELIVERY, and not in `inputs`. All laws of ops hold for it, and one more: its rows come in order, each once.
    """

    tensors: tuple[TensorSpec, ...]
    ops: tuple[OpSpec, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    capacity_bytes: int | None = None  # None: as much as it takes
    blocks: tuple[Block, ...] = ()  # they may overlap; of those that do, one runs as a block

    @cached_property
    def by_name(self) -> dict[str, TensorSpec]:
        return {t.name: t for t in self.tensors}

    @property
    def streamed(self) -> tuple[str, ...]:
        """The inputs that arrive by rows."""
        return tuple(op.writes for op in self.ops if op.name == DELIVERY)

    def root(self, tensor: str) -> str:
        """The tensor whose bytes `tensor` shares: itself unless it is a view."""
        while (base := self.by_name[tensor].view_of) is not None:
            tensor = base
        return tensor
