"""Which groups of ops run interleaved, and which blocks in bands: the least peak, or the least work below a peak.

A partition of the op order into groups (flow.py) with a composite (cascade.py) for some blocks of each group. Groups
do not depend on each other, so that partitions are paths over the cut positions. Without composites the lowest peak is
exact (a minimax path). With them, each group starts from its smallest composites and gives up, dearest first, those
that it can do without: a local optimum in each group, the best path over them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from generator.planner import ways
from generator.planner.flow import Event, Flow, Runner
from generator.planner.problem import Block, Problem

LONGEST = 48  # ops of a group at most; longer ones were never better on any model tried
_NEVER = 1 << 62
_FEW = 3000  # choices of composites in a group, to try them all
_TRIES = 16
_TRY = 0.01  # of the peak
_STEP = 0.001  # of the peak: how finely the lowest peak within an allowance of work is looked for


@dataclass(frozen=True)
class Group:
    """Ops [start, end) run as one; `composites` are the numbers of those that stand for blocks."""

    start: int
    end: int
    composites: tuple[int, ...] = ()


@dataclass(frozen=True)
class Found:
    """A partition, and what it costs over running each op once."""

    groups: tuple[Group, ...]
    peak: int
    extra_cost: int
    extra_macs: int


@dataclass(frozen=True)
class _Choice:
    """What was found for one group at one limit."""

    cost: int
    composites: tuple[int, ...]


class Modes:
    """The search space of one problem. `most_macs` is what may be computed again; None: any number."""

    def __init__(self, problem: Problem, most_macs: int | None) -> None:
        self.problem = problem
        self._plain, self._plain_groups = _minimax_of(Flow(problem))
        # What takes as much by itself as the best plan without composites helps no plan.
        self.composites = tuple(c for c in ways.composites(problem, most_macs) if ways.size(problem, c) < self._plain)
        self.flow = Flow(problem, [Runner(c.spec, c.band, c.frames) for c in self.composites])
        self._extra = [ways.extra(problem, c) for c in self.composites]
        self._options: dict[str, list[int]] = {}  # by name of the block: numbers of its composites
        for i, composite in enumerate(self.composites):
            self._options.setdefault(composite.block.name, []).append(i)
        self._blocks = [b for b in problem.blocks if b.name in self._options]
        self._relaxed, self._lower = Flow(ways.without_inner(problem, self._blocks)), self.flow
        self._sparing = [b for b in self._blocks if ways.left_out(problem, b)]
        if self._sparing:  # for bounds, a group keeps no rows for a later block that may do without them
            self._lower = Flow(problem, self.flow.runners[self.flow.count :])
            spared = Flow(ways.without_left_out(problem, self._sparing)).last_user
            self._lower.last_user = self._relaxed.last_user = spared
        self._peaks: dict[Group, int] = {}
        self._floors: dict[tuple[int, int], int] = {}

    def ops(self, group: Group) -> list[int]:
        """What runs in a group, in order: numbers of the flow."""
        by_first = {self.composites[i].block.first: i for i in group.composites}
        found: list[int] = []
        at = group.start
        while at < group.end:
            i = by_first.get(at)
            found.append(at if i is None else self.flow.count + i)
            at = at + 1 if i is None else self.composites[i].block.last + 1
        return found

    def events(self, groups: Sequence[Group]) -> list[Event]:
        """The order of rows of a partition."""
        return [event for g in groups for event in self.flow.events(self.ops(g), g.start, g.end)]

    def minimax(self) -> Found:
        """The lowest peak without composites."""

        return Found(tuple(self._plain_groups), self._plain, 0, 0)

    def bound(self) -> tuple[int, int]:
        """A lower bound on the peak of every partition, with composites or without, and the op that sets it."""
        flow = self._relaxed
        peak, groups = _minimax(flow.count, self._at_least)
        highest = max(groups, key=lambda g: self._at_least(g.start, g.end, _NEVER) or 0, default=None)
        return peak, flow.peak_op(range(highest.start, highest.end), highest.start, highest.end) if highest else 0

    def _at_least(self, start: int, end: int, limit: int) -> int | None:
        """A lower bound on the peak of one group, whatever its composites; None: `limit` or more.

        All composites are tried where they are few. Else inner tensors of blocks take no bytes, and the rows that
        blocks read are kept for as short as they can be.
        """
        if (start, end) not in self._floors:
            inside = [b for b in self._blocks if start <= b.first and b.last < end]
            # A block that spares rows runs what is before it in another order, for which the relaxation is no bound.
            spares = any(b in self._sparing for b in inside)
            floor = 0 if spares else self._relaxed.peak(range(start, end), start, end) or 0
            if floor < self._plain:
                choices = list(islice(self._all(inside), _FEW + 1))
                if len(choices) <= _FEW:
                    floor = self._least(Group(start, end), choices)
            self._floors[start, end] = floor
        floor = self._floors[start, end]
        return floor if floor < limit else None

    def _least(self, plain: Group, choices: Sequence[tuple[int, ...]]) -> int:
        """The lowest peak of one group with any of these choices, as far as it is below the best without composites."""
        least = self._plain
        for chosen in choices:
            group = replace(plain, composites=chosen)
            least = self._lower.peak(self.ops(group), group.start, group.end, least) or least
        return least

    def _all(self, blocks: Sequence[Block]) -> Iterator[tuple[int, ...]]:
        """Every choice of composites of these blocks that do not overlap."""
        if not blocks:
            yield ()
            return
        first, *others = blocks
        yield from self._all(others)
        apart = [b for b in others if b.first > first.last]
        for i in self._options[first.name]:
            yield from ((i, *more) for more in self._all(apart))

    def fewest(self, limit: int) -> Found | None:
        """No peak above `limit`, no composite, and as few rows in shared groups as can be; None: there is none."""

        def shared(start: int, end: int) -> _Choice | None:
            group = Group(start, end)
            return _Choice(self._shared(start, end), ()) if self._fits(group, limit) else None

        return self._path(shared)

    def cheapest(self, limit: int) -> Found | None:
        """No peak above `limit`, and as little work as was found; None: no such partition was found."""
        return self._path(lambda start, end: self._choose(start, end, limit))

    def lowest(self, most_macs: int | None) -> list[Found]:
        """What was found with at most so many multiply-accumulates computed again, the lowest peak first."""
        found = {self.minimax()}

        def within(limit: int) -> Found | None:
            each = self.cheapest(limit)
            if each is None or (most_macs is not None and each.extra_macs > most_macs):
                return None
            found.add(each)
            return each

        low, high = self.bound()[0], self._plain
        while low < high:
            middle = (low + high) // 2
            each = within(middle)
            if each is None:
                low = middle + max(1, int(middle * _STEP))
            else:
                high = min(middle, each.peak)
        # What is found is no monotone function of the limit, so the limits just below are tried one by one.
        limit, floor = high, self.bound()[0]
        for _ in range(_TRIES):
            limit -= max(1, int(limit * _TRY))
            each = within(limit) if limit >= floor else None
            limit = each.peak if each is not None else limit
        return sorted(found, key=lambda each: (each.peak, each.extra_cost))

    def _path(self, choose: Callable[[int, int], _Choice | None]) -> Found | None:
        """The partition whose groups cost least together."""
        count = self.flow.count
        cost = [0] + [_NEVER] * count
        before: list[Group | None] = [None] * (count + 1)
        for end in range(1, count + 1):
            for start in range(end - 1, max(-1, end - 1 - LONGEST), -1):
                if cost[start] >= cost[end]:
                    continue
                choice = choose(start, end)
                if choice is not None and cost[start] + choice.cost < cost[end]:
                    cost[end], before[end] = cost[start] + choice.cost, Group(start, end, choice.composites)
        if cost[count] >= _NEVER:
            return None
        groups: list[Group] = []
        while count > 0:
            group = before[count]
            assert group is not None
            groups.append(group)
            count = group.start
        return self._found(tuple(reversed(groups)))

    def _found(self, groups: tuple[Group, ...]) -> Found:
        extra = [self._extra[i] for g in groups for i in g.composites]
        peak = max((self._peak(g) for g in groups), default=0)
        return Found(groups, peak, sum(cost for cost, _ in extra), sum(macs for _, macs in extra))

    def _peak(self, group: Group) -> int:
        """The peak of one group, remembered."""
        if group not in self._peaks:
            self._peaks[group] = self.flow.peak(self.ops(group), group.start, group.end) or 0
        return self._peaks[group]

    def _fits(self, group: Group, limit: int) -> bool:
        if group in self._peaks:
            return self._peaks[group] <= limit
        return self.flow.peak(self.ops(group), group.start, group.end, limit + 1) is not None

    def _shared(self, start: int, end: int) -> int:
        """Rows computed by turns in a group. A streamed input by itself would be held whole: worse than all else."""
        if end - start == 1:
            return sum(self.flow.rows.values()) if start == 0 and self.flow.streamed else 0
        return sum(self.flow.rows[self.flow.writes[op]] for op in range(start, end))

    def _choose(self, start: int, end: int, limit: int) -> _Choice | None:
        """The least work found for one group."""
        plain = Group(start, end)
        if self._peak(plain) <= limit:
            return _Choice(0, ())
        inside = [b for b in self._blocks if start <= b.first and b.last < end]
        if not inside or self._at_least(start, end, limit + 1) is None:
            return None
        tried = [self._thinned(plain, blocks, limit) for blocks in _disjoint(inside)]
        return min((c for c in tried if c is not None), key=lambda c: c.cost, default=None)

    def _thinned(self, plain: Group, blocks: Sequence[Block], limit: int) -> _Choice | None:
        """From the smallest composite of each block: those that are not needed are given up, in the best of orders."""
        chosen: dict[str, int | None] = {b.name: min(self._options[b.name], key=self._size) for b in blocks}
        if not self._fits(_group(plain, chosen), limit):
            return None
        orders = [list(chosen), list(chosen)[::-1], sorted(chosen, key=lambda name: -self._cost(chosen[name]))]
        return min((self._given_up(plain, chosen, order, limit) for order in orders), key=lambda c: c.cost)

    def _given_up(
        self, plain: Group, composites: Mapping[str, int | None], order: Sequence[str], limit: int
    ) -> _Choice:
        """What is left of these composites, asked in this order, where each gives way to the cheapest that will do."""
        chosen = dict(composites)
        for block in order:
            options: list[int | None] = [None, *sorted(self._options[block], key=self._cost)]
            for option in options:
                if option is not None and self._cost(option) >= self._cost(chosen[block]):
                    break
                if self._fits(_group(plain, {**chosen, block: option}), limit):
                    chosen[block] = option
                    break
        final = _group(plain, chosen)
        return _Choice(sum(map(self._cost, final.composites)), final.composites)

    def _cost(self, composite: int | None) -> int:
        return 0 if composite is None else max(1, self._extra[composite][0])

    def _size(self, composite: int) -> tuple[int, int]:
        return ways.size(self.problem, self.composites[composite]), self._cost(composite)


def _group(plain: Group, choice: Mapping[str, int | None]) -> Group:
    """The group with these composites."""
    return replace(plain, composites=tuple(i for i in choice.values() if i is not None))


def _minimax(count: int, peak_of: Callable[[int, int, int], int | None]) -> tuple[int, list[Group]]:
    """The lowest peak over all partitions into groups, and the groups that reach it.

    `peak_of(start, end, limit)` is the peak of a group, None where that is `limit` or more.
    """
    best, before = [0] + [_NEVER] * count, [0] * (count + 1)
    for end in range(1, count + 1):
        for start in range(end - 1, max(-1, end - 1 - LONGEST), -1):
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


def _minimax_of(flow: Flow) -> tuple[int, list[Group]]:
    """The same without composites."""
    return _minimax(flow.count, lambda start, end, limit: flow.peak(range(start, end), start, end, limit))


def _disjoint(blocks: Sequence[Block]) -> Iterator[list[Block]]:
    """Blocks that do not overlap, as many as fit: from the first one on, and from the second one on."""
    for first in range(min(2, len(blocks))):
        found: list[Block] = []
        for block in blocks[first:]:
            if not found or block.first > found[-1].last:
                found.append(block)
        yield found
