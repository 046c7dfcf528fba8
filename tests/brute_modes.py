"""Every partition of a small problem into groups, with every composite: the reference for partition/search.py."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product

from shoehorn_mcu.planner.partition.search import PartitionSearch
from shoehorn_mcu.planner.partition.space import Group
from shoehorn_mcu.planner.problem import Block


@dataclass(frozen=True)
class Partition:
    """Groups with their composites, and what they come to."""

    peak: int
    cost: int  # beyond each op once
    macs: int
    groups: tuple[Group, ...]


class Brute:
    """All partitions over the composites that a search has."""

    def __init__(self, modes: PartitionSearch) -> None:
        self.modes, self.count = modes, len(modes.space.problem.ops)
        once = {b.name: self._once(b) for b in modes.space.problem.blocks}
        self.extra = [(c.cost - once[c.block.name][0], c.macs - once[c.block.name][1]) for c in modes.space.composites]
        spans = [(start, end) for end in range(1, self.count + 1) for start in range(end)]
        self.options = {span: [self._option(group) for group in self._groups(*span)] for span in spans}

    def _once(self, block: Block) -> tuple[int, int]:
        """Cost and multiplications of a block's ops, each row once."""
        problem = self.modes.space.problem
        ops = [(op, problem.by_name[op.writes].rows) for op in problem.ops[block.first : block.last + 1]]
        return sum(op.row_cost * rows for op, rows in ops), sum(op.row_macs * rows for op, rows in ops)

    def _groups(self, start: int, end: int) -> Iterator[Group]:
        """A span with every choice of composites inside it that do not overlap."""
        made = self.modes.space.composites
        names = dict.fromkeys(c.block.name for c in made if start <= c.block.first and c.block.last < end)
        of = [[None, *(i for i, c in enumerate(made) if c.block.name == name)] for name in names]
        for choice in product(*of):
            chosen = [i for i in choice if i is not None]
            blocks = sorted((made[i].block.first, made[i].block.last) for i in chosen)
            if all(left[1] < right[0] for left, right in pairwise(blocks)):
                yield Group(start, end, tuple(chosen))

    def _option(self, group: Group) -> Partition:
        peak = self.modes.space.flow.peak(self.modes.space.ops(group), group.start, group.end)
        assert peak is not None
        cost, macs = (sum(self.extra[i][k] for i in group.composites) for k in (0, 1))
        return Partition(peak, cost, macs, (group,))

    @cached_property
    def cuts(self) -> list[Sequence[tuple[int, int]]]:
        """Every way to cut the order into spans."""
        found = []
        for bits in product((False, True), repeat=self.count - 1):
            at = [0, *(i + 1 for i, cut in enumerate(bits) if cut), self.count]
            found.append(list(pairwise(at)))
        return found

    def least_peak(self, plain: bool = False) -> int:
        """The lowest peak of all partitions; `plain`: of those without composites."""
        best = {
            span: min(o.peak for o in options if not (plain and o.groups[0].composites))
            for span, options in self.options.items()
        }
        return min(max(best[span] for span in cut) for cut in self.cuts)

    def least_cost(self, limit: int) -> int | None:
        """The least cost beyond each op once with no peak above `limit`; None: there is no such partition."""
        best = {
            span: min((o.cost for o in options if o.peak <= limit), default=None)
            for span, options in self.options.items()
        }
        sums = [[best[span] for span in cut] for cut in self.cuts]
        return min((sum(c for c in each if c is not None) for each in sums if None not in each), default=None)

    def least_shared(self, limit: int) -> int | None:
        """The fewest rows computed by turns without composites and with no peak above `limit`."""
        flow = self.modes.space.flow

        def shared(span: tuple[int, int]) -> int | None:
            (plain,) = (o for o in self.options[span] if not o.groups[0].composites)
            if plain.peak > limit:
                return None
            rows = [flow.rows[flow.writes[op]] for op in range(*span)]
            if len(rows) == 1:  # a streamed input by itself would be held whole
                return sum(flow.rows.values()) if span[0] == 0 and flow.streamed else 0
            return sum(rows)

        best = {span: shared(span) for span in self.options}
        sums = [[best[span] for span in cut] for cut in self.cuts]
        return min((sum(c for c in each if c is not None) for each in sums if None not in each), default=None)

    def lowest(self, most_macs: int | None) -> int:
        """The lowest peak with at most so many multiplications again: every partition with every choice."""
        if most_macs is None:
            return self.least_peak()
        best = self.least_peak(plain=True)
        for cut in self.cuts:
            front = [(0, 0)]  # (macs, peak) of the spans so far, without those that are beaten
            for span in cut:
                joined = {(m + o.macs, max(p, o.peak)) for m, p in front for o in self.options[span] if o.peak < best}
                front = [a for a in joined if not any(b != a and b[0] <= a[0] and b[1] <= a[1] for b in joined)]
            best = min([best, *(p for m, p in front if m <= most_macs)])
        return best
