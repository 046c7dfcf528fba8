"""The result of planning as plain data: the order in which rows of ops are computed, and every address."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from itertools import accumulate, pairwise

from shoehorn_mcu.base.grouped import most_by_key

SRAM = "sram"
"""The memory that is used where a plan names no other one: the board's main SRAM."""


@dataclass(frozen=True)
class Memory:
    """A memory for tensors: the bytes of it that an arena may take, and how long a core waits for a byte of a row."""

    name: str
    bytes: int
    read_cycles: float = 0.0  # beyond those of a memory without waits
    write_cycles: float = 0.0

    @property
    def cycles(self) -> float:
        """Of a byte that is written and read once."""
        return self.read_cycles + self.write_cycles


@dataclass(frozen=True)
class Placement:
    """An address for each row of a tensor: row y is at `slots[y]`, or without `slots` at address + y * row_bytes.

    With `slots`, rows whose live ranges do not overlap may share bytes. A recomputed row may have another address than
    before: the tensor then has several editions of its placement, numbered from 0, and a step names the one it uses.
    All editions have a row in the same memory.
    """

    tensor: str
    address: int  # of row 0, in bytes from the start of the arena
    rows: int  # of the tensor
    row_bytes: int
    slots: tuple[int, ...] = ()  # empty: the tensor is whole, one row after the other
    edition: int = 0
    memory: str = SRAM  # whose arena; that of row 0
    memories: tuple[str, ...] = ()  # of each row, where they are in several; such a tensor has slots

    @property
    def bytes(self) -> int:
        """Of the whole tensor."""
        return self.rows * self.row_bytes

    @property
    def all_memories(self) -> tuple[str, ...]:
        """The memories that rows are in, each once."""
        return tuple(dict.fromkeys(self.memories)) or (self.memory,)

    def memory_of(self, y: int) -> str:
        """The memory of row y."""
        return self.memories[y] if self.memories else self.memory

    def at(self, y: int) -> int:
        """The address of row y."""
        return self.slots[y] if self.slots else self.address + y * self.row_bytes


@dataclass(frozen=True)
class Scratch:
    """Working memory of one op's kernel, live during its own steps only; each core of a step has its own part."""

    op: str
    address: int
    bytes: int  # for all cores of a step together
    memory: str = SRAM


INTERRUPTED = "interrupted: the best plan so far"
"""The reason of a plan whose search Ctrl-C ended."""

BOUNDED = "plans by groups of rows and by blocks in bands"
"""The plans that `Outcome.bound_bytes` is a bound of; other orders of single rows may need less."""

CHAINED = "plans by groups of rows and by blocks or chains of ops in bands"
"""The same where chains were searched, too."""

ANY_ORDER = "plans by rows in any order"
"""The same where each row is computed once, none in bands; the order is not bound to groups."""

AGAIN = "plans by rows in any order, some computed again"
"""The same for a plan with chunks of channels whose rows are recomputed one by one."""

BY_ROWS = "plans by groups of rows"
"""The same for a plan that was chosen for its time: blocks in bands are not searched for it."""


def bound_in_words(proven: bool, bound_bytes: int, bound_of: str) -> str:
    """What is known of the smallest arena: a bound of one kind of plans says nothing of the others."""
    known = f"proven minimal among {bound_of}" if proven else f"lower bound {bound_bytes:,} of {bound_of}"
    return f"{known}; --minimize sram tries other kinds, too" if bound_of == BY_ROWS else known


@dataclass(frozen=True)
class Again:
    """A lower bound on the arena of all plans by rows, in any order, that compute so much again at most."""

    bound_bytes: int
    most_macs: int  # multiply-accumulates
    percent: float  # `most_macs` as a share of the MACs that the model takes once

    @property
    def of(self) -> str:
        """The plans that it is a bound of."""
        return f"plans by rows in any order, at most {self.percent:.3g} % of the MACs computed again"


Editions = tuple[tuple[str, int], ...]
"""(tensor, edition) pairs; tensors that are not named use edition 0."""

DELIVERY = ""
"""The op name of steps in which rows of the streamed input arrive; no real op has it."""

HANDOUT = "\n"
"""The op name of steps in which finished rows of the streamed output are handed out; no real op has it."""


@dataclass(frozen=True)
class Step:
    """Computes rows [rows[0], rows[1]) of one op's output.

    Several `cores` compute parts of these rows at the same time, each at least one, and the next step waits for all.
    So all rows of the step are written before any row that it reads is released, and no row may overwrite one of its
    inputs in place.

    One kernel call computes `rows_per_call` rows: more than one where those rows lie side by side in all that the op
    reads by rows and in what it writes, or in what it writes alone where the kernel computes so many at once
    (`OpSpec.rows_at_once`). All of them are then written before any row that they read is released.

    With op DELIVERY nothing is computed: these rows of the streamed input arrive, in order and each once. The first
    step of a plan with streamed input is one, so that no live row ever shares the address of the row about to arrive.

    With op HANDOUT nothing is computed either: these rows of the streamed output are handed out, in order and each
    once. From then on their bytes are free.
    """

    op: str
    rows: tuple[int, int]
    editions: Editions = ()  # of the tensors that it reads and writes
    cores: int = 1
    rows_per_call: int = 1  # divides the rows of each core

    @property
    def parts(self) -> tuple[tuple[int, int], ...]:
        """The rows of each core: contiguous ones, as many as other cores have or one less."""
        first, rows = self.rows[0], self.rows[1] - self.rows[0]
        ends = [first + rows * core // self.cores for core in range(self.cores + 1)]
        return tuple(pairwise(ends))

    @property
    def calls(self) -> tuple[range, ...]:
        """The rows of each kernel call."""
        count = self.rows_per_call
        return tuple(range(y, y + count) for first, end in self.parts for y in range(first, end, count))

    def edition(self, tensor: str) -> int:
        """Which placement of a tensor this step uses."""
        return dict(self.editions).get(tensor, 0)

    @property
    def delivers(self) -> bool:
        return self.op == DELIVERY

    @property
    def hands_out(self) -> bool:
        return self.op == HANDOUT

    @property
    def computes(self) -> bool:
        """Whether an op computes rows: they neither arrive nor are handed out."""
        return not self.delivers and not self.hands_out


class Status(Enum):
    """What is proven about a plan."""

    OPTIMAL = "optimal"  # arena_bytes equals the bound
    FEASIBLE = "feasible"


@dataclass(frozen=True)
class Smaller:
    """The next smaller plan: its arena, and how many percent more predicted time it needs."""

    arena_bytes: int
    extra_percent: float


@dataclass(frozen=True)
class Outcome:
    """How good a plan is. `bound_bytes` is a lower bound on the arena of every plan in the searched space, in several
    memories on the sum of its arenas.

    The space, `bound_of`, is the op order cut into groups, with blocks in bands within the allowance of recomputed
    multiply-accumulates, and without these where a plan that recomputes nothing was chosen for its time. Of a plan
    whose rows are in another order it is every order of rows.
    """

    status: Status
    bound_bytes: int
    whole_tensor_bytes: int  # the arena with every tensor whole, one step per op
    solve_seconds: float
    reason: str = ""  # why the search ended
    smaller: Smaller | None = None  # where the plan is the fastest one and a smaller one is known
    bound_of: str = BOUNDED
    again: Again | None = None  # where rows may be computed again, or are
    least_waits: int = 0  # lower bound on the cycles of waiting for memories, however this plan's rows are in them

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the search."""
        return self.reason.startswith(INTERRUPTED)


@dataclass(frozen=True)
class Cascade:
    """A block of ops that runs in bands of `band` output rows, its inner channels cut into `chunks`."""

    block: str
    chunks: int
    band: int
    ops: tuple[str, ...]  # the ops of its steps; the last one ends a band


@dataclass(frozen=True)
class Plan:
    """The whole decision; `arena_bytes` is all SRAM of an inference except the stack."""

    steps: tuple[Step, ...]
    placements: tuple[Placement, ...]
    scratch: tuple[Scratch, ...]
    arena_bytes: int  # of the memory SRAM
    outcome: Outcome
    cascades: tuple[Cascade, ...] = ()
    other_arenas: tuple[tuple[str, int], ...] = ()  # (memory, bytes)
    memories: tuple[Memory, ...] = ()  # of the arenas; a memory that is not named has no waits

    def with_bound(self, bound_bytes: int, of: str = BOUNDED) -> Plan:
        """The plan with another lower bound on the arena, of plans of the named kind."""
        status = Status.OPTIMAL if self.arena_bytes == bound_bytes else Status.FEASIBLE
        return replace(self, outcome=replace(self.outcome, status=status, bound_bytes=bound_bytes, bound_of=of))

    def because(self, reason: str) -> Plan:
        """The plan with another reason."""
        return replace(self, outcome=replace(self.outcome, reason=reason))

    @property
    def arenas(self) -> dict[str, int]:
        """Bytes of the arena in each memory."""
        return {SRAM: self.arena_bytes, **dict(self.other_arenas)}

    @property
    def total_bytes(self) -> int:
        """Of all arenas."""
        return sum(self.arenas.values())

    @property
    def starts(self) -> dict[str, int]:
        """Where the arena of each memory begins if they are one behind the other, each from a whole word on."""
        sizes = (-(-size // 4) * 4 for size in self.arenas.values())
        return dict(zip(self.arenas, accumulate(sizes, initial=0), strict=False))

    def table(self, placement: Placement) -> tuple[int, ...]:
        """The address of each row of a tensor with slots; of one in several memories from the first one's start on."""
        if not placement.memories:
            return placement.slots
        starts = self.starts
        return tuple(starts[name] + at for name, at in zip(placement.memories, placement.slots, strict=True))

    @property
    def cores(self) -> int:
        """The most cores that compute a step."""
        return max((step.cores for step in self.steps), default=1)

    @cached_property
    def cores_by_op(self) -> Mapping[str, int]:
        """By op that has steps: the most cores that compute one of them."""
        return most_by_key((step.op, step.cores) for step in self.steps)

    @property
    def streamed(self) -> bool:
        """Whether the input arrives row by row."""
        return any(step.delivers for step in self.steps)

    @property
    def handed_out(self) -> bool:
        """Whether the output is handed out row by row."""
        return any(step.hands_out for step in self.steps)

    def memory(self, name: str) -> Memory:
        """A memory of the plan by its name."""
        return next((m for m in self.memories if m.name == name), Memory(name, 0))

    def placement(self, tensor: str, edition: int = 0) -> Placement:
        return next(p for p in self.placements if (p.tensor, p.edition) == (tensor, edition))
