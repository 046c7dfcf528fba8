"""What a planner decides, as plain data: which rows of which op when, and where every byte lies."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True)
class Ring:
    """A tensor's place in the arena: `rows` slots of `row_bytes`; row y lies in slot y % rows, or at `slots[y]`.

    rows == height is the ordinary whole tensor. `slots` gives each row an address of its own, so that it may go
    wherever bytes have just come free. A row that is computed again may lie elsewhere then: the tensor has rings of
    several editions, numbered from 0, and a step says which of them it means.
    """

    tensor: str
    address: int  # bytes from the arena's start
    rows: int
    height: int  # rows of the whole tensor
    row_bytes: int
    slots: tuple[int, ...] = ()  # empty: one slot after the other
    edition: int = 0

    @property
    def bytes(self) -> int:
        return self.rows * self.row_bytes

    def at(self, y: int) -> int:
        """The address of row y."""
        return self.slots[y] if self.slots else self.address + y % self.rows * self.row_bytes


@dataclass(frozen=True)
class Scratch:
    """Working memory of one op's kernel, alive during each of its steps only."""

    op: str
    address: int
    bytes: int


Editions = tuple[tuple[str, int], ...]
"""Tensors, and which edition of each is meant; for those that are not named, 0."""

DELIVERY = ""
"""The op of a step in which rows of the streamed input arrive; no op has this name."""


@dataclass(frozen=True)
class Step:
    """Computes rows [rows[0], rows[1]) and channels [channels[0], channels[1]) of one op's output.

    With op DELIVERY nothing is computed: these rows of the streamed input arrive, in order and each once. The first
    step of a plan with streamed input is one, so that the row about to arrive always has its place to itself.
    """

    op: str
    rows: tuple[int, int]
    channels: tuple[int, int]
    editions: Editions = ()  # of the tensors that it reads and writes

    def edition(self, tensor: str) -> int:
        """Which ring of a tensor this step means."""
        return dict(self.editions).get(tensor, 0)

    @property
    def delivers(self) -> bool:
        return self.op == DELIVERY


class Status(Enum):
    """How far a plan is proven."""

    OPTIMAL = "optimal"  # arena_bytes equals the bound
    FEASIBLE = "feasible"


@dataclass(frozen=True)
class Outcome:
    """How good a plan is: `bound_bytes` is a lower bound on the arena for the plan space searched."""

    status: Status
    bound_bytes: int
    whole_tensor_bytes: int  # the arena with every tensor whole, one step per op
    peak_step: int  # index of the step with most bytes alive
    solve_seconds: float
    reason: str = ""  # why the search ended

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the search."""
        return self.reason.startswith("interrupted")


@dataclass(frozen=True)
class Cascade:
    """A block of ops that runs in bands of `band` output rows, its inner channels cut into `chunks`."""

    block: str
    chunks: int
    band: int
    ops: tuple[str, ...]  # that have its steps, the one that ends a band last


@dataclass(frozen=True)
class Plan:
    """The whole decision; `arena_bytes` is everything an inference needs beside constants and stack."""

    steps: tuple[Step, ...]
    rings: tuple[Ring, ...]
    scratch: tuple[Scratch, ...]
    arena_bytes: int
    outcome: Outcome
    cascades: tuple[Cascade, ...] = ()

    @property
    def streamed(self) -> bool:
        """Whether the input arrives row by row."""
        return any(step.delivers for step in self.steps)

    def ring(self, tensor: str, edition: int = 0) -> Ring:
        return next(r for r in self.rings if (r.tensor, r.edition) == (tensor, edition))
