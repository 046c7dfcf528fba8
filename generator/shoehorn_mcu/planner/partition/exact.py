"""The least recompute cost within a peak, exactly: a shortest path whose groups are solved on demand.

A group's first estimate is the sum of its blocks' least costs, each computed as if the other blocks needed no memory
inside. The groups of the shortest path are then solved by A*: it fixes one block after the other, counts no memory
inside the blocks to come, and estimates their cost by the least cost of each alone. A shortest path of solved groups is
the exact answer. If the effort ends before, the cost of the path so far is a lower bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from itertools import accumulate

from shoehorn_mcu.planner.blocks import composites as banded
from shoehorn_mcu.planner.effort import EXACT
from shoehorn_mcu.planner.order.flow import Flow
from shoehorn_mcu.planner.partition.bounds import Bounds
from shoehorn_mcu.planner.partition.space import Choice, Group, Space, least_path
from shoehorn_mcu.planner.problem import NEVER, Block


@dataclass(frozen=True)
class Least:
    """`groups` cost `bound` together; with None for the groups, `bound` is only a lower bound."""

    bound: int
    groups: tuple[Group, ...] | None = None


class Exact:
    """Exact searches in one space, and the effort that they share: so many peaks of groups are computed."""

    def __init__(self, space: Space, bounds: Bounds, effort: int = EXACT.ALL_RUNS) -> None:
        self.space, self.bounds = space, bounds
        self._flows: dict[tuple[int, ...], Flow] = {}
        self.effort = effort

    @cached_property
    def _place(self) -> dict[str, int]:
        return {b.name: i for i, b in enumerate(self.space.blocks)}

    def least(self, measure: int | None, limit: int, most: int = NEVER, narrow: bool = False) -> Least:
        """The least recomputed instructions (measure 0) or MACs (1) with no peak above `limit` bytes.

        With measure None recomputation costs nothing: only whether a partition fits is asked. Groups are returned only
        if they cost less than `most`. `narrow` restricts the search to Pareto-optimal composites (no smaller one costs
        as little). That is quicker and mostly enough, but the bound then holds for these only: within a group a smaller
        composite may still need more bytes.
        """
        extra = [0 if measure is None else each[measure] for each in self.space.extra]
        # A composite may cost less than the ops that it replaces: then its extra cost counts as 0.
        spared = sum(max(0, -min(extra[i] for i in options)) for options in self.space.options.values())
        weights = [max(0, each) for each in extra]
        options = self._lighter(weights) if narrow else self.space.options
        found = _Question(self, weights, options, limit).answer(most + spared)
        fits = found.groups is not None and all(self.space.fits(group, limit) for group in found.groups)
        # Otherwise it fits only in the relaxed flow, which drops rows that a later block may leave out.
        return Least(found.bound - spared, found.groups if fits else None)

    def _lighter(self, weights: Sequence[int]) -> dict[str, list[int]]:
        """By block: its composites that cost less than all that are no larger; the space lists them by size."""
        found: dict[str, list[int]] = {}
        for name, options in self.space.options.items():
            lightest = accumulate((weights[i] for i in options), min, initial=NEVER)
            found[name] = [i for i, least in zip(options, lightest, strict=False) if weights[i] < least]
        return found

    def without(self, loose: Sequence[Block]) -> Flow:
        """The flow in which memory inside the loose blocks counts as nothing."""
        if not loose:
            return self.bounds.flow
        key = tuple(sorted(self._place[b.name] for b in loose))
        if key not in self._flows:
            self._flows[key] = banded.emptied(self.bounds.flow, loose)
        return self._flows[key]


class _Ask:
    """One group: `choice`, a lower bound on its cost, and `solved`: that is exact, or proven to be too much."""

    def __init__(self, question: _Question, group: Group) -> None:
        exact = question.exact
        self._exact, self._weights, self._limit = exact, question.weights, question.limit
        self._choices, self._group = question.options, group
        self._inside: list[Block] = []
        self._alone: list[int] = []  # the least cost of each while the others need no memory
        self._spares = False
        self.solved = exact.space.fits(group, self._limit)
        self.choice = Choice(0) if self.solved else self._roughly()

    def _roughly(self) -> Choice | None:
        inside = self._exact.space.inside(self._group.start, self._group.end)
        if not inside or self._exact.bounds.group(self._group.start, self._group.end, self._limit + 1) is None:
            return None
        self._spares = self._exact.bounds.spares(inside)
        self._inside = inside
        for block in self._inside:
            weight = 0 if self._spares else self._least(block)
            if weight is None:
                return None
            self._alone.append(weight)
        return Choice(sum(self._alone))

    def _least(self, block: Block) -> int | None:
        """The least cost of one block, unchanged or as one of its composites; None if none of them fits."""
        loose = [b for b in self._inside if b is not block]
        fitting = (option for option in self._options(block) if self._fits(option, loose))
        return next((self._weight(option) for option in fitting), None)

    def _options(self, block: Block) -> list[tuple[int, ...]]:
        """No composite, then those of the block, the cheapest first."""
        options = sorted(self._choices[block.name], key=lambda i: self._weights[i])
        return [(), *((i,) for i in options)]

    def _weight(self, composites: Sequence[int]) -> int:
        return sum(self._weights[i] for i in composites)

    def _fits(self, composites: tuple[int, ...], loose: Sequence[Block]) -> bool:
        group = Group(self._group.start, self._group.end, composites)
        ops = self._exact.space.ops(group)
        return self._exact.without(loose).peak(ops, group.start, group.end, self._limit + 1) is not None

    def solve(self, most: int) -> None:
        """Finds the least cost if it is below `most`: from the first block on, and if that fails from the last one."""
        for back in (False, True):
            if not self.solved:
                self._search(most, list(range(len(self._inside)))[:: -1 if back else 1])

    def _search(self, most: int, order: Sequence[int]) -> None:
        """A* over composites for one block after the other, within the effort for one search."""
        heap: list[tuple[int, int, tuple[int, ...]]] = [(sum(self._alone), len(order), ())]
        too_costly, enough = False, max(0, self._exact.effort - EXACT.RUNS)
        known = 0 if self.choice is None else self.choice.cost
        while heap:
            weight, to_come, chosen = heappop(heap)
            if to_come == 0 or weight >= most:
                self.choice, self.solved = Choice(weight, tuple(sorted(chosen))), True
                return
            if self._exact.effort <= enough:
                self.choice = Choice(max(weight, known))
                return
            at, *loose = order[len(order) - to_come :]
            for option in self._apart(self._inside[at], chosen):
                heavier = weight - self._alone[at] + self._weight(option)
                too_costly = too_costly or heavier >= most
                if heavier < most and self._may_fit(chosen + option, [self._inside[i] for i in loose]):
                    heappush(heap, (heavier, to_come - 1, chosen + option))
        self.choice, self.solved = Choice(most) if too_costly else None, True

    def _may_fit(self, composites: tuple[int, ...], loose: Sequence[Block]) -> bool:
        """Whether the group may fit with these composites, whatever is chosen for the loose blocks."""
        if loose and self._spares:
            return True  # relaxations are no bounds here: only a complete choice can be judged
        self._exact.effort -= 1
        return self._fits(composites, loose)

    def _apart(self, block: Block, chosen: Sequence[int]) -> list[tuple[int, ...]]:
        """The options of a block that do not overlap the composites already chosen."""
        taken = [self._exact.space.composites[i].block for i in chosen]
        overlaps = any(block.first <= other.last and other.first <= block.last for other in taken)
        return [()] if overlaps else self._options(block)


class _Question:
    """One search: its weights, options and limit, and the groups estimated so far."""

    def __init__(self, exact: Exact, weights: Sequence[int], options: Mapping[str, Sequence[int]], limit: int) -> None:
        self.exact, self.weights, self.options, self.limit = exact, weights, options, limit
        self._asks: dict[tuple[int, int], _Ask] = {}

    def answer(self, most: int) -> Least:
        """Solves groups of the shortest path until it is exact, or not below `most`, or the effort ends."""
        while True:
            found = least_path(self.exact.space.flow.count, self._choice, self.exact.space.tail)
            if found is None or found[0] >= most:
                return Least(most if found is None else found[0])
            bound, groups = found
            rough = [ask for g in groups if not (ask := self._asks[g.start, g.end]).solved]
            if not rough:
                return Least(bound, tuple(groups))
            for ask in rough:
                assert ask.choice is not None
                ask.solve(most - bound + ask.choice.cost)
                if not ask.solved:
                    return Least(bound)

    def _choice(self, start: int, end: int) -> Choice | None:
        if (start, end) not in self._asks:
            self._asks[start, end] = _Ask(self, Group(start, end))
        return self._asks[start, end].choice
