"""A block run band by band: what it needs inside, what it computes again, and the steps that it stands for.

A block expands, maps per channel and projects: F(x) = B(N(A(x))), and where its inner channels are cut into t chunks
F(x) = sum_i (B_i o N_i o A_i)(x) (MobileNetV2, Sandler et al. 2018, section 5.1). Within a band of output rows the
chunks come one after the other; each lives for as many inner rows as the next op needs, and the band's partial sums
stay until the last chunk has added to them. Between two bands nothing is kept: inner rows that both need are computed
again, as the patches of MCUNetV2 (Lin et al. 2021) compute their halo again, but of one block only.
To the rest of the plan a band is one event of one op, the composite, and the memory inside is its scratch: the frame.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from generator.plan import Ring, Scratch, Step
from generator.planner.problem import ALIGNMENT, Block, OpSpec, Problem, Read, TensorSpec, Way


@dataclass(frozen=True)
class InnerRow:
    """A row computed in a band: `op` is its place among the way's ops, `phase` the anchor that it is computed for."""

    op: int
    row: int
    phase: int


@dataclass(frozen=True)
class _Window:
    """The ring of an inner tensor: rows needed at one time at most, and the phases in which any of them is alive."""

    rows: int
    first: int
    last: int

    def joined(self, other: _Window) -> _Window:
        return _Window(max(self.rows, other.rows), min(self.first, other.first), max(self.last, other.last))


class Composite:
    """A block, run one way in bands of `band` rows of its output."""

    def __init__(self, problem: Problem, block: Block, way: Way, band: int) -> None:
        self.block, self.way, self.band = block, way, band
        self._inner = {t.name: t for t in way.tensors}
        self._makers = {op.writes: i for i, op in enumerate(way.ops)}
        self._rows = {op.writes: len(op.reads[0].rows) for op in way.ops}
        self.height = problem.by_name[way.ops[-1].writes].rows

    @cached_property
    def bands(self) -> tuple[tuple[InnerRow, ...], ...]:
        """The inner rows of each band, in order."""
        return tuple(self._band(y, min(y + self.band, self.height)) for y in range(0, self.height, self.band))

    def _band(self, y0: int, y1: int) -> tuple[InnerRow, ...]:
        done: dict[tuple[int, int], None] = {}
        found: list[InnerRow] = []

        def compute(op: int, row: int, phase: int) -> None:
            if (op, row) in done:
                return
            done[op, row] = None
            for read in self.way.ops[op].reads:
                if read.tensor in self._inner:
                    for needed in read.rows[row]:
                        compute(self._makers[read.tensor], needed, phase)
            found.append(InnerRow(op, row, phase))

        for phase, anchor in enumerate(self.way.anchors):
            for y in range(y0, y1):
                compute(anchor, y, phase)
        return tuple(found)

    @cached_property
    def _windows(self) -> dict[str, _Window]:
        """The ring of each inner tensor, over all bands."""
        found: dict[str, _Window] = {}
        for band in self.bands:
            for name, window in self._windows_of(band).items():
                found[name] = window.joined(found[name]) if name in found else window
        return found

    def _windows_of(self, band: Sequence[InnerRow]) -> dict[str, _Window]:
        made: dict[tuple[str, int], int] = {}
        used: dict[tuple[str, int], int] = {}
        for time, each in enumerate(band):
            op = self.way.ops[each.op]
            made[op.writes, each.row] = used[op.writes, each.row] = time
            for read in op.reads:
                if read.tensor in self._inner:
                    used.update(dict.fromkeys(((read.tensor, row) for row in read.rows[each.row]), time))
        lives: dict[str, list[tuple[int, int, int]]] = {}
        for (name, row), time in made.items():
            if name in self._inner:
                lives.setdefault(name, []).append((time, used[name, row], row))
        return {
            name: _Window(_most_apart(rows), band[min(r[0] for r in rows)].phase, band[max(r[1] for r in rows)].phase)
            for name, rows in lives.items()
        }

    @cached_property
    def _frame(self) -> tuple[int, dict[str, int]]:
        """Bytes of the frame, and where each inner tensor's ring lies in it; rows overwritten in place share theirs."""
        owner = {name: self._overwritten(name) for name in self._windows}
        parts: dict[str, tuple[_Window, int]] = {}
        for name, window in self._windows.items():
            size = _aligned(window.rows * self._inner[name].row_bytes)
            known = parts.get(owner[name])
            both = (window.joined(known[0]), max(size, known[1])) if known else (window, size)
            parts[owner[name]] = both
        bases = _first_fit(parts)
        height = max((bases[name] + size for name, (_, size) in parts.items()), default=0)
        return height, {name: bases[owner[name]] for name in self._windows}

    def _overwritten(self, name: str) -> str:
        """The first of the tensors that are overwritten one by the next and at last by this one."""
        while (base := self.way.ops[self._makers[name]].in_place) in self._inner:
            assert base is not None
            if self._windows[base].rows != self._windows[name].rows:
                break
            name = base
        return name

    @property
    def frame_bytes(self) -> int:
        return self._frame[0] + max((op.scratch_bytes for op in self.way.ops), default=0)

    @cached_property
    def cost(self) -> int:
        """Predicted instructions of all bands."""
        return sum(self.way.ops[each.op].row_cost for band in self.bands for each in band)

    @cached_property
    def macs(self) -> int:
        """Multiply-accumulates of all bands."""
        return sum(self.way.ops[each.op].row_macs for band in self.bands for each in band)

    @cached_property
    def spec(self) -> OpSpec:
        """The composite as one op; each band reads all that it needs with its first row."""
        last = self.way.ops[-1]
        outside = dict.fromkeys(r.tensor for op in self.way.ops for r in op.reads if r.tensor not in self._inner)
        reads: dict[str, list[tuple[int, ...]]] = {name: [()] * self.height for name in outside}
        for i, band in enumerate(self.bands):
            for name in outside:
                rows = {
                    row: None
                    for each in band
                    for read in self.way.ops[each.op].reads
                    if read.tensor == name
                    for row in read.rows[each.row]
                }
                reads[name][i * self.band] = tuple(rows)
        return OpSpec(
            name=f"{self.block.name}/{self.way.chunks}x{self.band}",
            reads=tuple(Read(name, tuple(rows)) for name, rows in reads.items()),
            writes=last.writes,
            channels=last.channels,
            scratch_bytes=self.frame_bytes,
            row_cost=self.cost // max(1, self.height),
            row_macs=self.macs // max(1, self.height),
        )

    def steps(self, row: int) -> Iterator[Step]:
        """What the band that begins with `row` stands for; neighbouring rows of one op are one step."""
        band = self.bands[row // self.band]
        start = 0
        for i in range(1, len(band) + 1):
            if i < len(band) and (band[i].op, band[i].row) == (band[i - 1].op, band[i - 1].row + 1):
                continue
            op = self.way.ops[band[start].op]
            yield Step(op.name, (band[start].row, band[i - 1].row + 1), (0, op.channels))
            start = i

    def rings(self, base: int) -> Iterator[Ring]:
        """The rings of the inner tensors in a frame at `base`."""
        for name, window in self._windows.items():
            spec = self._inner[name]
            yield Ring(name, base + self._frame[1][name], window.rows, spec.rows, spec.row_bytes)

    def scratch(self, base: int) -> Iterator[Scratch]:
        """The scratch of the inner ops, behind the rings."""
        for op in self.way.ops:
            if op.scratch_bytes:
                yield Scratch(op.name, base + self._frame[0], op.scratch_bytes)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _most_apart(rows: Sequence[tuple[int, int, int]]) -> int:
    """Slots of a ring (row y in slot y modulo their number) in which no two rows alive together (first, last) meet."""
    most = 1
    for first, _, row in rows:
        together = [other for begun, ended, other in rows if begun <= first <= ended]
        most = max(most, row - min(together) + 1, max(together) - row + 1)
    return most


def _first_fit(parts: dict[str, tuple[_Window, int]]) -> dict[str, int]:
    """Lowest addresses that are free, the longest-lived parts first."""
    order = sorted(parts, key=lambda n: (parts[n][0].first - parts[n][0].last, -parts[n][1], n))
    placed: dict[str, int] = {}
    for name in order:
        window, size = parts[name]
        near = sorted(
            (at, at + parts[other][1])
            for other, at in placed.items()
            if parts[other][0].first <= window.last and window.first <= parts[other][0].last
        )
        base = 0
        for low, high in near:
            if low - base >= size:
                break
            base = max(base, high)
        placed[name] = base
    return placed


def applied(problem: Problem, composites: Sequence[Composite]) -> Problem:
    """The problem with the chosen ways in place of their blocks, and no block left."""
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
        ops += composite.way.ops
        added += composite.way.tensors
        at = block.last + 1
    tensors = (*(t for t in problem.tensors if t.name not in gone), *added)
    return Problem(tensors, tuple(ops), problem.inputs, problem.outputs, problem.capacity_bytes)
