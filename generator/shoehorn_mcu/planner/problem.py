"""The planner's input as plain data: tensors as rows of bytes, ops by the rows that they read; no kernels and no C."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import overload

from shoehorn_mcu.planner.memory_plan import DELIVERY, HANDOUT

NEVER = 1 << 62  # more bytes, or more work, than any plan needs
ALIGNMENT = 4  # bytes; every tensor, every separately placed row and every scratch starts at a multiple


def aligned(size: int) -> int:
    """The size in bytes, rounded up to a multiple of ALIGNMENT."""
    return -(-size // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True)
class TensorSpec:
    """A tensor as rows of equal size. `view_of` names the tensor whose bytes it shares, in the same order.

    `over` names a tensor of rows as long, and of as many or more, an input of the problem, at whose address it is: its
    rows are written over those, each after all reads of the row below, which the reads of its op ensure.

    The rows of a tensor that `turns` are those of a ring buffer: where its first row is differs from one inference to
    the next, so its rows are not side by side in order.
    """

    name: str
    rows: int
    row_bytes: int
    view_of: str | None = None
    over: str | None = None
    turns: bool = False

    @property
    def bytes(self) -> int:
        return self.rows * self.row_bytes


@dataclass(frozen=True)
class Read:
    """The rows of `tensor` that each output row needs: `rows[y]` for output row y, without repeats."""

    tensor: str
    rows: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Operand:
    """What an op reads as one tensor of `rows` rows, each a part, `row_bytes` long, of a row of some tensor.

    `parts[y]` are those that output row y needs: the tensor, its row, and the byte of that row where the part begins.
    """

    rows: int
    row_bytes: int
    parts: tuple[tuple[tuple[str, int, int], ...], ...]


@dataclass(frozen=True)
class OpSpec:
    """One op: the rows that it reads and writes, its kernel's scratch bytes and the cost of one output row.

    An op may read earlier rows of what it writes. `in_place` names a tensor of which each output row needs one row at
    most, of what the op writes itself an earlier one. The kernel may write the output row to exactly the address of
    that row while it reads it; an output row is never longer than the row that it overwrites.

    With `behind`, each output row may need several rows of that tensor. The kernel may overwrite one of them with an
    output row that begins so many bytes, a multiple of ALIGNMENT, before it: what it writes stays behind what it still
    has to read (by rows, the overlap of vMCU: Zheng et al., MLSys 2024).

    With `onto`, each output row is the row of `in_place` but for a part, and the kernel's caller copies that row where
    it is elsewhere. So the output is put over it wherever it can be, in whole tensors too.

    Where one call may compute several rows, and reads rows of several tensors as those of one, `operands` says which:
    of each operand of a call the rows must lie side by side. Elsewhere it is empty, and each read is an operand. Where
    the kernel computes `rows_at_once`, more than one, it has a pointer to each row that it reads, wherever that is.
    """

    name: str
    reads: tuple[Read, ...]
    writes: str
    scratch_bytes: int = 0
    row_cost: int = 1  # predicted time of one row
    row_macs: int = 0  # multiply-accumulates of one row
    in_place: str | None = None
    behind: int | None = None
    onto: bool = False
    operands: tuple[Operand, ...] = ()
    rows_at_once: int = 1


@dataclass(frozen=True)
class Cut:
    """One way to run a block: its ops unchanged (chunks == 1), or cut into chunks of its inner channels.

    `ops` lists the ops chunk after chunk: each chunk has the same number of ops, in the same order, that read the same
    rows. With several chunks, one more op at the end computes the block's output from their sum. `tensors` are the
    tensors between these ops, and views of them; such a view must have one row, and no op names it.
    """

    chunks: int
    tensors: tuple[TensorSpec, ...]
    ops: tuple[OpSpec, ...]


class LaterCuts(Sequence[Cut]):
    """Cuts, at least one, each made on first use: that takes long, and few plans have blocks in bands."""

    def __init__(self, makers: Sequence[Callable[[], Cut]]) -> None:
        self._makers = tuple(makers)
        self._made: dict[int, Cut] = {}

    def __len__(self) -> int:
        return len(self._makers)

    @overload
    def __getitem__(self, place: int) -> Cut: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Cut]: ...

    def __getitem__(self, place: int | slice) -> Cut | Sequence[Cut]:
        if isinstance(place, slice):
            return [self[each] for each in range(len(self))[place]]
        if place not in self._made:
            self._made[place] = self._makers[place]()
        return self._made[place]


@dataclass(frozen=True)
class Block:
    """Ops [first, last] of a problem; no other op reads the tensors between them.

    `row_bytes` is known before the cuts are made, or empty. By cut it holds the bytes of a row of what each op of the
    first chunk writes, the largest one; of the last op those of the sums, nothing where there is one chunk.
    """

    name: str
    first: int
    last: int  # inclusive
    cuts: Sequence[Cut]
    row_bytes: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Problem:
    """Ops in an executable order. Inputs are complete before the first step, outputs after the last one.

    A streamed input arrives row by row while the plan runs. It is not in `inputs`: it is the output of the first op,
    which has no reads and is called DELIVERY. All rules for ops hold for it, and its rows come in order, each once.

    A streamed output is handed out row by row. It is not in `outputs`: the last op, which is called HANDOUT, reads it.
    What that op writes has rows of no bytes and is the output of the problem. Each of its rows reads the one before, so
    rows are handed out in order, each once.
    """

    tensors: tuple[TensorSpec, ...]
    ops: tuple[OpSpec, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    capacity_bytes: int | None = None  # None: no limit
    blocks: tuple[Block, ...] = ()  # may overlap; of overlapping blocks at most one runs as a block
    others: tuple[tuple[str, int], ...] = ()  # further memories, and the bytes of each that an arena may take

    @cached_property
    def by_name(self) -> dict[str, TensorSpec]:
        return {t.name: t for t in self.tensors}

    @cached_property
    def kept(self) -> tuple[str, ...]:
        """The tensors that have bytes of their own to the end: outputs, and tensors that others are written over."""
        return tuple(dict.fromkeys((*self.outputs, *(t.over for t in self.tensors if t.over is not None))))

    def place(self, tensor: str) -> str:
        """The tensor at whose address the bytes of `tensor` are: its root, or what that is written over."""
        root = self.root(tensor)
        return self.by_name[root].over or root

    @cached_property
    def begun_as(self) -> Mapping[str, str]:
        """By tensor that is written onto another: the root of that one, where no later op reads that."""
        last = {self.root(read.tensor): op.name for op in self.ops for read in op.reads}
        kept = {*map(self.root, self.outputs), *self.inputs}
        pairs = ((op, self.root(op.in_place)) for op in self.ops if op.onto and op.in_place is not None)
        return {op.writes: base for op, base in pairs if base not in kept and last[base] == op.name}

    @cached_property
    def rows_apart(self) -> Problem:
        """The problem in which no row overlaps a row of its window."""
        ops = tuple(op if op.behind is None else replace(op, in_place=None, behind=None) for op in self.ops)
        return self if ops == self.ops else replace(self, ops=ops)

    @property
    def streamed(self) -> tuple[str, ...]:
        """The inputs that arrive row by row."""
        return tuple(op.writes for op in self.ops if op.name == DELIVERY)

    @property
    def hands_out(self) -> bool:
        """Whether rows of the output are handed out."""
        return any(op.name == HANDOUT for op in self.ops)

    def root(self, tensor: str) -> str:
        """The tensor whose bytes `tensor` shares: itself unless it is a view."""
        while (base := self.by_name[tensor].view_of) is not None:
            tensor = base
        return tensor

    def has_rows_of_root(self, tensor: str) -> bool:
        """Whether the rows of a tensor are those of its root, so that a view needs no contiguous rows."""
        own, root = self.by_name[tensor], self.by_name[self.root(tensor)]
        return (own.rows, own.row_bytes) == (root.rows, root.row_bytes)
