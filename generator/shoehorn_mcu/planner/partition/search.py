"""Which groups of ops run interleaved and which blocks in bands: the lowest peak, or the least work within a peak.

Searches the partitions of a space (space.py). Without composites the lowest peak is exact (a minimax path). With
them, each group starts with its smallest composites and drops the unnecessary ones, most expensive first: a local
optimum in each group, and the best path over the groups. bounds.py computes a lower bound on the peak.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from shoehorn_mcu.planner.blocks import composites as banded
from shoehorn_mcu.planner.effort import EXACT, PARTITION
from shoehorn_mcu.planner.partition.bounds import Bounds
from shoehorn_mcu.planner.partition.exact import Exact
from shoehorn_mcu.planner.partition.space import Choice, Group, Space, least_path, minimax
from shoehorn_mcu.planner.problem import NEVER, Block, Problem


@dataclass(frozen=True)
class Partition:
    """A partition, its peak in bytes, and its extra instructions and MACs over running each op once."""

    groups: tuple[Group, ...]
    peak: int
    extra_cost: int
    extra_macs: int
    space: Space = field(compare=False, repr=False)


def lowest_peak(problem: Problem) -> int:
    """The lowest peak of plans by rows alone, in bytes."""
    return PartitionSearch(replace(problem, blocks=()), 0).minimax().peak


class PartitionSearch:
    """The search of one space. `most_macs` limits the recomputed multiply-accumulates; None: no limit. `runs` limits
    the effort of all exact searches.
    """

    def __init__(self, problem: Problem, most_macs: int | None, runs: int = EXACT.ALL_RUNS) -> None:
        self.space, self._most_macs = Space(problem, most_macs), most_macs
        self.bounds = Bounds(self.space)
        self._exact = Exact(self.space, self.bounds, runs)
        self._cheapest: dict[int, tuple[Partition | None, int]] = {}
        self._raised = 0  # the lower bound that the search for the lowest peak has proven

    def minimax(self) -> Partition:
        """The lowest peak without composites."""
        return Partition(tuple(self.space.plain_groups), self.space.plain, 0, 0, self.space)

    def delivered_first(self) -> Partition:
        """The lowest peak without composites where all rows of the streamed input arrive before the first op."""
        flow = self.space.ops_alone
        tail = min(self.space.tail, flow.count - 1)
        peak, groups = minimax(
            flow.count - 1, lambda a, b, limit: flow.peak(range(a + 1, b + 1), a + 1, b + 1, limit), tail
        )
        delivery = Group(0, 1)
        shifted = (Group(group.start + 1, group.end + 1) for group in groups)
        return Partition((delivery, *shifted), max(self.space.peak(delivery), peak), 0, 0, self.space)

    def fewest(self, limit: int) -> Partition | None:
        """The partition without composites, with no peak above `limit` the fewest interleaved rows; None if none."""

        def shared(start: int, end: int) -> Choice | None:
            group = Group(start, end)
            return Choice(self._shared(start, end), ()) if self.space.fits(group, limit) else None

        return self._path(shared)

    def cheapest(self, limit: int) -> Partition | None:
        """The least work found with no peak above `limit` and within the allowance; None if no partition was found."""
        if limit not in self._cheapest:
            best, bound = self._roughly(limit), 0
            for narrow in (True, False):
                least = self._exact.least(0, limit, NEVER if best is None else best.extra_cost, narrow)
                best = best if least.groups is None else self._partition(least.groups)
                bound = least.bound
            if best is not None and not self._allowed(best):
                fewest = self._within(limit)
                best = fewest if isinstance(fewest, Partition) else None
            self._cheapest[limit] = best, bound
        return self._cheapest[limit][0]

    def least_cost(self, limit: int) -> int:
        """A lower bound on the extra instructions of every partition with no peak above `limit`."""
        self.cheapest(limit)
        return self._cheapest[limit][1]

    @property
    def floor(self) -> int:
        """The best lower bound on the peak of all partitions known so far, in bytes."""
        return max(self.bounds.peak()[0], self._raised)

    def lowest(self) -> tuple[list[Partition], int]:
        """Partitions within the allowance, the lowest peak first, and a lower bound on the peak of all partitions."""
        partitions = {self.minimax()}
        low = floor = self.bounds.peak()[0]
        high = self.space.plain
        while low < high:
            middle = (low + high) // 2
            partition = self._within(middle)
            if isinstance(partition, Partition):
                partitions.add(partition)
                high = min(middle, partition.peak)
            elif partition:
                low = floor = middle + 1
            else:
                low = middle + max(1, int(middle * PARTITION.STEP))
        self._raised = floor
        partitions |= {p for p in (*self._just_below(high, floor), self.cheapest(high)) if p is not None}
        return sorted(partitions, key=lambda p: (p.peak, p.extra_cost)), floor

    def _just_below(self, limit: int, floor: int) -> Iterator[Partition]:
        """Partitions for limits just below; several are tried, since the quick search is not monotone in the limit."""
        for _ in range(PARTITION.TRIES):
            limit -= max(1, int(limit * PARTITION.TRY))
            if limit >= floor and (partition := self._roughly(limit)) is not None and self._allowed(partition):
                limit = partition.peak
                yield partition

    def _within(self, limit: int) -> Partition | bool:
        """A partition with no peak above `limit` within the allowance; else whether it is proven that none exists."""
        for counted in (0, 1) if self._most_macs else (0,):
            rough = self._roughly(limit, counted)
            if rough is not None and self._allowed(rough):
                return rough
        measure, most = (None, 1) if self._most_macs is None else (1, self._most_macs + 1)
        least = self._exact.least(measure, limit, most)
        if least.groups is not None and self._allowed(partition := self._partition(least.groups)):
            return partition
        return least.bound >= most

    def _allowed(self, partition: Partition) -> bool:
        return self._most_macs is None or partition.extra_macs <= self._most_macs

    def _roughly(self, limit: int, measure: int = 0) -> Partition | None:
        """The fewest recomputed instructions (measure 0) or MACs (1) that the quick search finds with no peak above
        `limit`.
        """
        return self._path(lambda start, end: self._choose(start, end, limit, measure))

    def _path(self, choose: Callable[[int, int], Choice | None]) -> Partition | None:
        """The partition whose groups have the least total cost."""
        path = least_path(self.space.ops_alone.count, choose, self.space.tail)
        return None if path is None else self._partition(tuple(path[1]))

    def _partition(self, groups: tuple[Group, ...]) -> Partition:
        extra = [self.space.extra[i] for g in groups for i in g.composites]
        peak = max((self.space.peak(g) for g in groups), default=0)
        return Partition(groups, peak, sum(cost for cost, _ in extra), sum(macs for _, macs in extra), self.space)

    def _shared(self, start: int, end: int) -> int:
        """Interleaved rows of a group. A streamed input in a group of its own would be held whole: the highest cost."""
        flow = self.space.ops_alone
        if end - start == 1:
            return sum(flow.rows.values()) if start == 0 and flow.streamed else 0
        return sum(flow.rows[flow.writes[op]] for op in range(start, end))

    def _choose(self, start: int, end: int, limit: int, measure: int) -> Choice | None:
        """The least work found for one group."""
        plain = Group(start, end)
        if self.space.peak(plain) <= limit:
            return Choice(0, ())
        inside = self.space.inside(start, end)
        if not inside or self.bounds.group(start, end, limit + 1) is None:
            return None
        tried = [self._thinned(plain, blocks, limit, measure) for blocks in _disjoint(inside)]
        return min((c for c in tried if c is not None), key=lambda c: c.cost, default=None)

    def _thinned(self, plain: Group, blocks: Sequence[Block], limit: int, measure: int) -> Choice | None:
        """Starts with the smallest composite of each block and drops unnecessary ones, in the best of some orders."""
        chosen: dict[str, int | None] = {b.name: min(self.space.options[b.name], key=self._size) for b in blocks}
        if not self.space.fits(_group(plain, chosen), limit):
            return None
        orders = [list(chosen), list(chosen)[::-1], sorted(chosen, key=lambda name: -self._cost(chosen[name], measure))]
        return min((self._given_up(plain, chosen, order, limit, measure) for order in orders), key=lambda c: c.cost)

    def _given_up(
        self, plain: Group, composites: Mapping[str, int | None], order: Sequence[str], limit: int, measure: int
    ) -> Choice:
        """The composites after replacing each, in this order, by its cheapest option with which the group fits."""
        chosen = dict(composites)
        for block in order:
            known = sorted(self.space.options[block], key=lambda option: self._cost(option, measure))
            options: list[int | None] = [None, *known]
            for option in options:
                if option is not None and self._cost(option, measure) >= self._cost(chosen[block], measure):
                    break
                if self.space.fits(_group(plain, {**chosen, block: option}), limit):
                    chosen[block] = option
                    break
        final = _group(plain, chosen)
        return Choice(sum(self._cost(each, measure) for each in final.composites), final.composites)

    def _cost(self, composite: int | None, measure: int = 0) -> int:
        return 0 if composite is None else max(1, self.space.extra[composite][measure])

    def _size(self, composite: int) -> tuple[int, int]:
        return banded.size(self.space.problem, self.space.composites[composite]), self._cost(composite)


def _group(plain: Group, choice: Mapping[str, int | None]) -> Group:
    """The group with these composites."""
    return Group(plain.start, plain.end, tuple(i for i in choice.values() if i is not None))


def _disjoint(blocks: Sequence[Block]) -> Iterator[list[Block]]:
    """Two greedy choices of blocks that do not overlap: from the first block on, and from the second one on."""
    for first in range(min(2, len(blocks))):
        chosen: list[Block] = []
        for block in blocks[first:]:
            if not chosen or block.first > chosen[-1].last:
                chosen.append(block)
        yield chosen
