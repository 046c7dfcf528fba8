"""The least that computing again must cost below a peak, exactly: a shortest path whose groups are solved on demand.

A group first counts what each of its blocks must cost alone, while the other blocks need nothing inside. The groups of
the shortest path are then solved by A*, which fixes one block after the other, takes nothing inside of those to come,
and estimates the rest by what they must cost alone. Where a shortest path is made of solved groups, it is the answer.
Where the effort ends first, the path so far is a bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import accumulate

from shoehorn_mcu.planner.blocks import composites as banded
from shoehorn_mcu.planner.order.flow import Flow
from shoehorn_mcu.planner.partition.bounds import Bounds
from shoehorn_mcu.planner.partition.space import NEVER, Choice, Group, Space, least_path
from shoehorn_mcu.planner.problem import Block

_RUNS = 150_000  # of a group in one search
_ALL_RUNS = 1_500_000  # of groups in searches, for all questions together


@dataclass(frozen=True)
class Least:
    """`groups` cost `bound` together; None: all that is known is that less is impossible."""

    bound: int
    groups: tuple[Group, ...] | None = None


class Exact:
    """Questions about one space, and the effort that they share."""

    def __init__(self, space: Space, bounds: Bounds) -> None:
        self.space, self.bounds = space, bounds
        self._place = {b.name: i for i, b in enumerate(space.blocks)}
        self._flows: dict[tuple[int, ...], Flow] = {}
        self.effort = _ALL_RUNS

    def least(self, measure: int | None, limit: int, most: int = NEVER, narrow: bool = False) -> Least:
        """The least instructions (measure 0) or multiply-accumulates (1) again, or any number (None), with no peak
        above `limit`. Groups are given only where they take less than `most`.

        `narrow`: only Pareto-optimal composites, of which no smaller one costs as little. That is quicker and mostly
        enough, but the bound holds for them alone: within a group a smaller composite may still need more bytes.
        """
        extra = [0 if measure is None else each[measure] for each in self.space.extra]
        # A composite may take less than the ops that it stands for: it counts as nothing.
        spared = sum(max(0, -min(extra[i] for i in options)) for options in self.space.options.values())
        weights = [max(0, each) for each in extra]
        options = self._lighter(weights) if narrow else self.space.options
        found = _Question(self, weights, options, limit).answer(most + spared)
        fits = found.groups is not None and all(self.space.fits(group, limit) for group in found.groups)
        # Else it fits only if rows are forgotten that a later block may do without.
        return Least(found.bound - spared, found.groups if fits else None)

    def _lighter(self, weights: Sequence[int]) -> dict[str, list[int]]:
        """By block its composites that are lighter than all that are no larger; the space has them by size."""
        found: dict[str, list[int]] = {}
        for name, options in self.space.options.items():
            lightest = accumulate((weights[i] for i in options), min, initial=NEVER)
            found[name] = [i for i, least in zip(options, lightest, strict=False) if weights[i] < least]
        return found

    def without(self, loose: Sequence[Block]) -> Flow:
        """The flow where nothing inside of the loose blocks takes bytes."""
        if not loose:
            return self.bounds.flow
        key = tuple(sorted(self._place[b.name] for b in loose))
        if key not in self._flows:
            self._flows[key] = banded.emptied(self.bounds.flow, loose)
        return self._flows[key]


class _Ask:
    """One group: what it weighs at least, `choice`, and whether that is exact or known to be too much: `solved`."""

    def __init__(self, question: _Question, group: Group) -> None:
        exact = question.exact
        self._exact, self._weights, self._limit = exact, question.weights, question.limit
        self._choices, self._group = question.options, group
        self._inside: list[Block] = []
        self._alone: list[int] = []  # what each of them must weigh while the others take nothing
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
        """The least weight of one block, as it is or by one of its composites; None: none of them fits."""
        loose = [b for b in self._inside if b is not block]
        fitting = (option for option in self._options(block) if self._fits(option, loose))
        return next((self._weight(option) for option in fitting), None)

    def _options(self, block: Block) -> list[tuple[int, ...]]:
        """No composite, then those of the block, the lightest first."""
        options = sorted(self._choices[block.name], key=lambda i: self._weights[i])
        return [(), *((i,) for i in options)]

    def _weight(self, composites: Sequence[int]) -> int:
        return sum(self._weights[i] for i in composites)

    def _fits(self, composites: tuple[int, ...], loose: Sequence[Block]) -> bool:
        group = replace(self._group, composites=composites)
        ops = self._exact.space.ops(group)
        return self._exact.without(loose).peak(ops, group.start, group.end, self._limit + 1) is not None

    def solve(self, most: int) -> None:
        """The least weight, as far as it is below `most`: from the first block on, or else from the last one back."""
        for back in (False, True):
            if not self.solved:
                self._search(most, list(range(len(self._inside)))[:: -1 if back else 1])

    def _search(self, most: int, order: Sequence[int]) -> None:
        """A* over composites for one block after the other, within the effort for one search."""
        heap: list[tuple[int, int, tuple[int, ...]]] = [(sum(self._alone), len(order), ())]
        dearer, enough = False, max(0, self._exact.effort - _RUNS)
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
                dearer = dearer or heavier >= most
                if heavier < most and self._may_fit(chosen + option, [self._inside[i] for i in loose]):
                    heappush(heap, (heavier, to_come - 1, chosen + option))
        self.choice, self.solved = Choice(most) if dearer else None, True

    def _may_fit(self, composites: tuple[int, ...], loose: Sequence[Block]) -> bool:
        """With these composites for all blocks but the loose ones."""
        if loose and self._spares:
            return True  # nothing is known before all are fixed
        self._exact.effort -= 1
        return self._fits(composites, loose)

    def _apart(self, block: Block, chosen: Sequence[int]) -> list[tuple[int, ...]]:
        """The options of a block beside those chosen: composites do not overlap."""
        taken = [self._exact.space.composites[i].block for i in chosen]
        overlaps = any(block.first <= other.last and other.first <= block.last for other in taken)
        return [()] if overlaps else self._options(block)


class _Question:
    """The groups of one question."""

    def __init__(self, exact: Exact, weights: Sequence[int], options: Mapping[str, Sequence[int]], limit: int) -> None:
        self.exact, self.weights, self.options, self.limit = exact, weights, options, limit
        self._asks: dict[tuple[int, int], _Ask] = {}

    def answer(self, most: int) -> Least:
        """The shortest path, until it is exact, or not below `most`, or the effort ends."""
        while True:
            found = least_path(self.exact.space.flow.count, self._choice)
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
