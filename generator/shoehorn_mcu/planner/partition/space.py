"""The search space: partitions of the op order into groups, with a composite for some blocks of each group.

Groups (flow.py) are independent of each other, so a partition is a path over the cut positions. A composite
(blocks/cascade.py) replaces a block that runs in bands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from shoehorn_mcu.base.grouped import by_key
from shoehorn_mcu.planner.blocks import composites as banded
from shoehorn_mcu.planner.blocks.cascade import Composite
from shoehorn_mcu.planner.effort import GROUP
from shoehorn_mcu.planner.order.flow import Event, Flow, Runner
from shoehorn_mcu.planner.problem import NEVER, Block, Problem


@dataclass(frozen=True)
class Group:
    """Ops [start, end) run interleaved; `composites` are the numbers of the composites that replace blocks."""

    start: int
    end: int
    composites: tuple[int, ...] = ()


class Space:
    """The search space of one problem. `most_macs` limits the recomputed multiply-accumulates; None: no limit."""

    def __init__(self, problem: Problem, most_macs: int | None) -> None:
        self.problem = problem
        # Rows are handed out in the group that computes them, as soon as they are finished: no peak is higher for it.
        self.tail = 2 if problem.hands_out and len(problem.ops) > 1 else 1
        self.ops_alone = Flow(problem)
        self.plain, self.plain_groups = self._lowest(self.ops_alone)
        self._most_macs = most_macs
        self._peaks: dict[Group, int] = {}

    @cached_property
    def composites(self) -> tuple[Composite, ...]:
        """The composites that may lower a peak: one that needs as many bytes as the best plan without any cannot."""
        if self.floor == self.plain:
            return ()
        return tuple(banded.composites(self.problem, self._possible, self.plain))

    @cached_property
    def _possible(self) -> list[banded.Possible]:
        """Of each block that may lower a peak, the bands and cuts that may."""
        found = (banded.possible(self.problem, b, self._most_macs, self.plain) for b in self.problem.blocks)
        return [bands for bands in found if bands]

    @cached_property
    def floor(self) -> int:
        """A lower bound on the peak of every partition, in bytes, for which no block is cut, which takes long: that of
        blocks whose rows and scratch inside need no bytes; 0 where they may leave out rows.
        """
        blocks = [bands[0][0].block for bands in self._possible]
        if any(b in self.sparing for b in blocks):
            return 0
        return min(self.plain, self._lowest(banded.emptied(self.ops_alone, blocks))[0]) if blocks else self.plain

    @cached_property
    def sparing(self) -> list[Block]:
        """The blocks that leave out rows."""
        return [b for b in self.problem.blocks if banded.left_out(self.problem, b)]

    def _lowest(self, flow: Flow) -> tuple[int, list[Group]]:
        """The lowest peak of a flow's ops, in bytes, and its groups."""
        return minimax(flow.count, lambda a, b, limit: flow.peak(range(a, b), a, b, limit), self.tail)

    @cached_property
    def flow(self) -> Flow:
        """Of the ops and the composites."""
        return Flow(self.problem, [Runner(c.spec, c.band, c.frames) for c in self.composites])

    @cached_property
    def extra(self) -> list[tuple[int, int]]:
        """By composite: the instructions and the multiply-accumulates beyond those of its ops."""
        return [banded.extra(self.problem, c) for c in self.composites]

    @cached_property
    def options(self) -> dict[str, list[int]]:
        """By name of a block: the numbers of its composites."""
        return by_key((composite.block.name, i) for i, composite in enumerate(self.composites))

    @cached_property
    def blocks(self) -> list[Block]:
        """The blocks that have composites."""
        return [b for b in self.problem.blocks if b.name in self.options]

    def _flow_of(self, group: Group) -> Flow:
        return self.flow if group.composites else self.ops_alone

    def inside(self, start: int, end: int) -> list[Block]:
        """The blocks within ops [start, end)."""
        return [b for b in self.blocks if start <= b.first and b.last < end]

    def ops(self, group: Group) -> Sequence[int]:
        """The ops and composites that run in a group, in order, by their numbers in the flow."""
        if not group.composites:
            return range(group.start, group.end)
        found: list[int] = []
        at = group.start
        for first, last, i in sorted([self._spans[i] for i in group.composites]):
            found += range(at, first)
            found.append(self.flow.count + i)
            at = last + 1
        found += range(at, group.end)
        return found

    @cached_property
    def _spans(self) -> list[tuple[int, int, int]]:
        """By composite: the first and the last op of its block, and its number."""
        return [(each.block.first, each.block.last, i) for i, each in enumerate(self.composites)]

    def events(self, groups: Sequence[Group]) -> list[Event]:
        """The row order of a partition."""
        return [event for g in groups for event in self._flow_of(g).events(self.ops(g), g.start, g.end)]

    def peak(self, group: Group) -> int:
        """The peak of one group in bytes, cached."""
        if group not in self._peaks:
            self._peaks[group] = self._flow_of(group).peak(self.ops(group), group.start, group.end) or 0
        return self._peaks[group]

    def fits(self, group: Group, limit: int) -> bool:
        """Whether the group's peak is at most `limit`."""
        if group in self._peaks:
            return self._peaks[group] <= limit
        return self._flow_of(group).peak(self.ops(group), group.start, group.end, limit + 1) is not None


def minimax(count: int, peak_of: Callable[[int, int, int], int | None], tail: int = 1) -> tuple[int, list[Group]]:
    """The lowest peak over all partitions into groups, and the groups that reach it.

    `peak_of(start, end, limit)` is the peak of a group, None where that is `limit` or more. The last group has `tail`
    ops or more.
    """
    best, before = [0] + [NEVER] * count, [0] * (count + 1)
    for end in range(1, count + 1):
        for start in range(end - (tail if end == count else 1), max(-1, end - 1 - GROUP.LONGEST), -1):
            if best[start] >= best[end]:
                continue
            peak = peak_of(start, end, best[end])
            if peak is not None and max(best[start], peak) < best[end]:
                best[end], before[end] = max(best[start], peak), start
    groups: list[Group] = []
    end = count
    while end > 0:
        groups.append(Group(before[end], end))
        end = before[end]
    return best[count], groups[::-1]


@dataclass(frozen=True)
class Choice:
    """One group at one limit: its extra cost over running each op once, and the composites chosen."""

    cost: int
    composites: tuple[int, ...] = ()


def least_path(
    count: int, choose: Callable[[int, int], Choice | None], tail: int = 1
) -> tuple[int, list[Group]] | None:
    """The least total cost of a partition whose last group has `tail` ops or more, and its groups; None if none is."""
    cost = [0] + [NEVER] * count
    before: list[Group | None] = [None] * (count + 1)
    for end in range(1, count + 1):
        for start in range(end - (tail if end == count else 1), max(-1, end - 1 - GROUP.LONGEST), -1):
            if cost[start] >= cost[end]:
                continue
            choice = choose(start, end)
            if choice is not None and cost[start] + choice.cost < cost[end]:
                cost[end], before[end] = cost[start] + choice.cost, Group(start, end, choice.composites)
    if cost[count] >= NEVER:
        return None
    groups: list[Group] = []
    end = count
    while end > 0:
        group = before[end]
        assert group is not None
        groups.append(group)
        end = group.start
    return cost[count], groups[::-1]
