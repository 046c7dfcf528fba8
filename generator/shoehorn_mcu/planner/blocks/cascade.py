"""A block run band by band: its working memory, the rows that it recomputes, and the steps that it expands to.

A block expands, maps per channel and projects: F(x) = B(N(A(x))), and where its inner channels are cut into t chunks
F(x) = sum_i (B_i o N_i o A_i)(x) (MobileNetV2, Sandler et al. 2018, section 5.1). Within a band of output rows the
chunks run one after the other; each holds only the inner rows that the next op needs, and the band's partial sums are
kept until the last chunk has added to them. Between two bands nothing is kept: inner rows that both need are
recomputed, as the patches of MCUNetV2 (Lin et al. 2021) recompute their halo, but within one block only.
To the rest of the planner a band is one event of one op, the composite, whose scratch is the memory inside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from shoehorn_mcu.base.grouped import by_key, most_by_key
from shoehorn_mcu.planner.live_ranges import live_ranges
from shoehorn_mcu.planner.memory_plan import Placement, Scratch, Step
from shoehorn_mcu.planner.problem import Block, Cut, OpSpec, Problem, Read, TensorSpec, aligned


@dataclass(frozen=True, order=True)
class Part:
    """Memory of a band at one address: rows of an inner tensor, named by the first of them, or its ops' scratch."""

    tensor: str  # empty: the scratch
    row: int = 0


_SCRATCH = Part("")


class Pattern:
    """The rows that each band of a block computes: the same for the uncut block and for each of its chunks."""

    def __init__(self, problem: Problem, block: Block, band: int) -> None:
        own = problem.ops[block.first : block.last + 1]
        self.block, self.band = block, band
        self._heights = tuple(problem.by_name[op.writes].rows for op in own)
        self.height = self._heights[-1]
        self._makers = {op.writes: i for i, op in enumerate(own[:-1])}
        self.ops = tuple(replace(op, reads=tuple(self._of_root(problem, read) for read in op.reads)) for op in own)

    def _of_root(self, problem: Problem, read: Read) -> Read:
        """A read of a view of an inner tensor, which has one row as the view has, as a read of that."""
        root = problem.root(read.tensor)
        return replace(read, tensor=root) if root in self._makers else read

    @cached_property
    def bands(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """By band: (index of an op in the block, row), in order."""
        return tuple(self._band(y, min(y + self.band, self.height)) for y in range(0, self.height, self.band))

    def _band(self, y0: int, y1: int) -> tuple[tuple[int, int], ...]:
        """The rows of output rows y0..y1 in depth-first order: each row right before its first reader."""
        done: dict[tuple[int, int], None] = {}

        def compute(op: int, row: int) -> None:
            for inner in self._inner_reads(op, row):
                if inner not in done:
                    compute(*inner)
            done[op, row] = None

        for y in range(y0, y1):
            compute(len(self.ops) - 1, y)
        return tuple(done)

    def _inner_reads(self, op: int, row: int) -> Iterator[tuple[int, int]]:
        """The rows of this block that a row of it reads."""
        for read in self.ops[op].reads:
            if read.tensor in self._makers:
                yield from ((self._makers[read.tensor], needed) for needed in read.rows[row])

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """By op: rows computed in all bands."""
        counted = Counter(op for band in self.bands for op, _ in band)
        return tuple(counted[op] for op in range(len(self.ops)))

    @cached_property
    def windows(self) -> tuple[int, ...]:
        """By op except the last: slots of the row buffer that holds its rows."""
        found = [1] * (len(self.ops) - 1)
        for band in self.bands:
            for op, rows in self._lives(band).items():
                found[op] = max(found[op], _most_apart(rows))
        return tuple(found)

    @cached_property
    def cells(self) -> tuple[tuple[int, ...], ...]:
        """By op, the sums of chunks in place of the last one's rows, and by row: the first of the rows that share its
        address.

        A row has the same address in all bands, and rows in one slot of a band share an address.
        """
        computed: list[list[list[int]]] = [[[] for _ in self.bands] for _ in self.ops]
        for at, band in enumerate(self.bands):
            for op, row in band:
                computed[op][at].append(row)
        slots = (*self.windows, min(self.band, self.height))
        return tuple(_joined(*each) for each in zip(self._heights, slots, computed, strict=True))

    @cached_property
    def needed(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """By band and op: the cells of the rows that are computed, ascending."""
        found = []
        for band in self.bands:
            cells: list[set[int]] = [set() for _ in self.ops]
            for op, row in band:
                cells[op].add(self.cells[op][row])
            found.append(tuple(tuple(sorted(each)) for each in cells))
        return tuple(found)

    def least_bytes(self, row_bytes: Sequence[int]) -> int:
        """The bytes that a band of a cut needs at least, from what Block.row_bytes says of it.

        Inner rows may be written over those that they are computed from, sums over no other rows.
        """
        sizes = tuple(map(aligned, row_bytes))
        inner = len(self.ops) - 1
        return max(
            max((len(cells) * size for cells, size in zip(band[:inner], sizes[:inner], strict=True)), default=0)
            + sum(len(cells) * size for cells, size in zip(band[inner:], sizes[inner:], strict=False))
            for band in self.needed
        )

    def _lives(self, band: Sequence[tuple[int, int]]) -> dict[int, list[tuple[int, int, int]]]:
        """By op: when each of its rows is computed and last read."""
        ranges = live_ranges((self._inner_reads(*each) for each in band), zip(band, strict=True))
        lives = zip(ranges.values, ranges.first, ranges.last, strict=True)
        return by_key((op, (first, last, row)) for (op, row), first, last in lives if op < len(self.ops) - 1)

    @cached_property
    def reads(self) -> tuple[Read, ...]:
        """Reads from outside the block, by output row; all reads of a band are listed at its first row."""
        outside = dict.fromkeys(r.tensor for op in self.ops for r in op.reads if r.tensor not in self._makers)
        found: dict[str, list[tuple[int, ...]]] = {name: [()] * self.height for name in outside}
        for i, band in enumerate(self.bands):
            for name in outside:
                rows = (
                    needed
                    for op, row in band
                    for read in self.ops[op].reads
                    if read.tensor == name
                    for needed in read.rows[row]
                )
                found[name][i * self.band] = tuple(dict.fromkeys(rows))
        return tuple(Read(name, tuple(rows)) for name, rows in found.items())


class Composite:
    """A block, run with one cut in the bands of a pattern."""

    def __init__(self, pattern: Pattern, cut: Cut) -> None:
        self.pattern, self.cut = pattern, cut
        self.block, self.band = pattern.block, pattern.band
        self._inner = {t.name: t for t in cut.tensors if t.view_of is None}
        self._views = [t for t in cut.tensors if t.view_of is not None]
        self._makers = {op.writes: op for op in cut.ops}

    def rows(self, band: int) -> Iterator[tuple[int, int]]:
        """(Index of an op, row) of a band, in order: chunk after chunk, then the op that finishes the sums."""
        one = len(self.pattern.ops)
        for chunk in range(self.cut.chunks):
            yield from ((chunk * one + op, row) for op, row in self.pattern.bands[band])
        if self.cut.chunks > 1:
            yield from ((len(self.cut.ops) - 1, row) for op, row in self.pattern.bands[band] if op == one - 1)

    def _total(self, by_op: Sequence[int]) -> int:
        """The sum over ops of a figure per row, times the rows that the op computes."""
        counts = self.pattern.counts * self.cut.chunks
        return sum(figure * n for figure, n in zip(by_op, (*counts, self.pattern.height), strict=False))

    @cached_property
    def cost(self) -> int:
        """Predicted instructions of all bands."""
        return self._total([op.row_cost for op in self.cut.ops])

    @cached_property
    def macs(self) -> int:
        """Multiply-accumulates of all bands."""
        return self._total([op.row_macs for op in self.cut.ops])

    @cached_property
    def _slots(self) -> dict[str, int]:
        """By inner tensor: slots of its row buffer."""
        one = len(self.pattern.ops)
        windows = (*self.pattern.windows, min(self.band, self.pattern.height))
        return {op.writes: windows[i % one] for i, op in enumerate(self.cut.ops) if op.writes in self._inner}

    @cached_property
    def _part_of(self) -> dict[str, str]:
        """By inner tensor: the first chunk's tensor whose bytes it shares.

        Chunks run one after the other, so each reuses the memory of the one before; sums, and rows that are overwritten
        in place, keep their address.
        """
        one = len(self.pattern.ops)
        return {
            op.writes: self._overwritten(self.cut.ops[i % one].writes)
            for i, op in enumerate(self.cut.ops)
            if op.writes in self._inner
        }

    def _overwritten(self, name: str) -> str:
        """The first tensor of the chain of in-place ops that ends with this tensor."""
        while (base := self._makers[name].in_place) is not None and base in self._inner:
            if self._slots[base] != self._slots[name] or self._makers[name].behind is not None:
                break
            name = base
        return name

    @cached_property
    def _slot_bytes(self) -> dict[str, int]:
        """By part: bytes of a slot."""
        return most_by_key((part, aligned(self._inner[name].row_bytes)) for name, part in self._part_of.items())

    @cached_property
    def _scratch_bytes(self) -> int:
        return aligned(max((op.scratch_bytes for op in self.cut.ops), default=0))

    @cached_property
    def frames(self) -> tuple[int, ...]:
        """By band: its working memory in bytes."""
        parts = [(i, self._slot_bytes[op.writes]) for i, op in self._parts]
        scratch = self._scratch_bytes
        return tuple(scratch + sum(len(band[i]) * size for i, size in parts) for band in self.pattern.needed)

    @property
    def frame_bytes(self) -> int:
        """The largest working memory of a band, in bytes."""
        return max(self.frames)

    @property
    def _parts(self) -> Iterator[tuple[int, OpSpec]]:
        """The ops that write parts, each with its place in the first chunk."""
        first = enumerate(self.cut.ops[: len(self.pattern.ops)])
        return ((i, op) for i, op in first if op.writes in self._slot_bytes)

    def needs(self, row: int) -> Iterator[tuple[Part, int]]:
        """The parts that the band starting at output row `row` needs, and their bytes; equal parts share an address."""
        cells = self.pattern.needed[row // self.band]
        for i, op in self._parts:
            yield from ((Part(op.writes, cell), self._slot_bytes[op.writes]) for cell in cells[i])
        if self._scratch_bytes:
            yield _SCRATCH, self._scratch_bytes

    @cached_property
    def spec(self) -> OpSpec:
        """The composite as one op."""
        last = self.cut.ops[-1]
        return OpSpec(
            name=f"{self.block.name}/{self.cut.chunks}x{self.band}",
            reads=self.pattern.reads,
            writes=last.writes,
            scratch_bytes=self.frame_bytes,
        )

    def steps(self, row: int) -> Iterator[Step]:
        """The steps of the band starting at output row `row`; consecutive rows of one op are one step."""
        inner = list(self.rows(row // self.band))
        start = 0
        for i in range(1, len(inner) + 1):
            if i < len(inner) and inner[i] == (inner[i - 1][0], inner[i - 1][1] + 1):
                continue
            op = self.cut.ops[inner[start][0]]
            yield Step(op.name, (inner[start][1], inner[i - 1][1] + 1))
            start = i

    def placements(self, bases: Mapping[Part, int]) -> Iterator[Placement]:
        """The placements of the inner tensors; `bases` gives the address of each part."""
        cells = {op.writes: self.pattern.cells[i] for i, op in self._parts}
        for name in self._slots:
            spec, part = self._inner[name], self._part_of[name]
            slots = [bases.get(Part(part, cell), -1) for cell in cells[part]]
            used = [at for at in slots if at >= 0] or [0]
            slots = [at if at >= 0 else used[0] for at in slots]  # rows that are never computed
            scattered = tuple(slots) if spec.rows > 1 else ()
            yield Placement(name, slots[0], spec.rows, spec.row_bytes, scattered)
        for view in self._views:
            assert view.view_of is not None
            part = self._part_of[view.view_of]
            yield Placement(view.name, bases[Part(part)], view.rows, view.row_bytes)

    def scratch(self, bases: Mapping[Part, int]) -> Iterator[Scratch]:
        """The scratch of the inner ops, which all share one address."""
        for op in self.cut.ops:
            if op.scratch_bytes:
                yield Scratch(op.name, bases[_SCRATCH], op.scratch_bytes)


def _most_apart(rows: Sequence[tuple[int, int, int]]) -> int:
    """Slots of a ring (row y in slot y modulo slots) that suffice so that no two live rows share one.

    `rows` holds (time computed, time of the last read, row).
    """
    most = 1
    for first, _, row in rows:
        together = [other for begun, ended, other in rows if begun <= first <= ended]
        most = max(most, row - min(together) + 1, max(together) - row + 1)
    return most


def _joined(rows: int, slots: int, bands: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """By row: the first of the rows that share its address, because they share a slot in some band."""
    first = list(range(rows))

    def root(row: int) -> int:
        while first[row] != row:
            row = first[row]
        return row

    for band in bands:
        by_slot: dict[int, int] = {}
        for row in sorted(band):
            low, high = sorted((root(by_slot.setdefault(row % slots, row)), root(row)))
            first[high] = low
    return tuple(map(root, range(rows)))


def applied(problem: Problem, composites: Sequence[Composite]) -> Problem:
    """The problem with the ops of the chosen blocks replaced by those of their cuts; it has no blocks."""
    by_first = {c.block.first: c for c in composites}
    ops: list[OpSpec] = []
    at = 0
    gone: set[str] = set()
    added: list[TensorSpec] = []
    while at < len(problem.ops):
        composite = by_first.get(at)
        if composite is None:
            ops.append(problem.ops[at])
            at += 1
            continue
        block = composite.block
        gone |= {op.writes for op in problem.ops[block.first : block.last]}
        ops += composite.cut.ops
        added += composite.cut.tensors
        at = block.last + 1
    tensors = (*(t for t in problem.tensors if problem.root(t.name) not in gone), *added)
    return Problem(tensors, tuple(ops), problem.inputs, problem.outputs, problem.capacity_bytes)
