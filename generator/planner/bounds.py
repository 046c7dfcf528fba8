"""Lower bounds on every partition of a space, with any choice of composites: on its peak, on its work below a peak."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from generator.planner import ways
from generator.planner.flow import Flow
from generator.planner.problem import Block, Problem
from generator.planner.space import NEVER, Choice, Group, Space, least_path, minimax

_FEW = 3000  # choices of composites in a group, to try them all


class Bounds:
    """What no partition of a space goes below."""

    def __init__(self, space: Space) -> None:
        self._space, problem = space, space.problem
        self.sparing = [b for b in space.blocks if ways.left_out(problem, b)]
        self._relaxed = self._spared(ways.without_inner(problem, space.blocks), ())
        self._lower = self._spared(problem, range(len(space.composites))) if self.sparing else space.flow
        self._floors: dict[tuple[int, int], int] = {}
        self._alone: dict[str, Flow] = {}

    def _spared(self, problem: Problem, composites: Sequence[int]) -> Flow:
        """A flow in which a group keeps no rows for a later block that may do without them."""
        runners = self._space.flow.runners[self._space.flow.count :]
        flow = Flow(problem, [runners[i] for i in composites])
        if self.sparing:
            flow.last_user = Flow(ways.without_left_out(self._space.problem, self.sparing)).last_user
        return flow

    def peak(self) -> tuple[int, int]:
        """On the peak of every partition, and the op that sets it."""
        flow = self._relaxed
        peak, groups = minimax(flow.count, self.group)
        highest = max(groups, key=lambda g: self.group(g.start, g.end, NEVER) or 0, default=None)
        return peak, flow.peak_op(range(highest.start, highest.end), highest.start, highest.end) if highest else 0

    def group(self, start: int, end: int, limit: int) -> int | None:
        """On the peak of one group, whatever its composites; None: `limit` or more.

        All composites are tried where they are few. Else inner tensors of blocks take no bytes, and the rows that
        blocks read are kept for as short as they can be.
        """
        if (start, end) not in self._floors:
            inside = self._space.inside(start, end)
            floor = 0 if self._spares(inside) else self._relaxed.peak(range(start, end), start, end) or 0
            if floor < self._space.plain:
                choices = list(islice(self._choices(inside), _FEW + 1))
                if len(choices) <= _FEW:
                    floor = self._least(Group(start, end), choices)
            self._floors[start, end] = floor
        floor = self._floors[start, end]
        return floor if floor < limit else None

    def _spares(self, blocks: Sequence[Block]) -> bool:
        """A block that spares rows runs what is before it in another order, for which relaxations are no bounds."""
        return any(b in self.sparing for b in blocks)

    def _least(self, plain: Group, choices: Sequence[tuple[int, ...]]) -> int:
        """The lowest peak of one group with any of these choices, as far as it is below the best without composites."""
        least = self._space.plain
        for chosen in choices:
            group = replace(plain, composites=chosen)
            least = self._lower.peak(self._space.ops(group), group.start, group.end, least) or least
        return least

    def _choices(self, blocks: Sequence[Block]) -> Iterator[tuple[int, ...]]:
        """Every choice of composites of these blocks that do not overlap."""
        if not blocks:
            yield ()
            return
        first, *others = blocks
        yield from self._choices(others)
        apart = [b for b in others if b.first > first.last]
        for i in self._space.options[first.name]:
            yield from ((i, *more) for more in self._choices(apart))

    def extra_cost(self, limit: int) -> int | None:
        """On the instructions beyond each op once of every partition with no peak above `limit`; None: there is none.

        Each block is asked alone what it must cost, while the others take nothing inside.
        """
        found = least_path(self._space.flow.count, lambda start, end: self._costs(start, end, limit))
        saved = sum(max(0, -min(self._extra(i) for i in self._space.options[b.name])) for b in self.sparing)
        return None if found is None else found[0] - saved

    def _costs(self, start: int, end: int, limit: int) -> Choice | None:
        """The same of one group; what blocks save is left out."""
        inside = self._space.inside(start, end)
        if self._space.peak(Group(start, end)) <= limit:
            return Choice(0)
        if self.group(start, end, limit + 1) is None:
            return None
        if self._spares(inside):
            return Choice(0)
        costs = [self._alone_costs(block, start, end, limit) for block in inside]
        return None if None in costs else Choice(sum(cost for cost in costs if cost is not None))

    def _alone_costs(self, block: Block, start: int, end: int, limit: int) -> int | None:
        """The least that one block of a group costs, as it is or by one of its composites; None: it does not fit."""
        options = sorted(self._space.options[block.name], key=self._extra)
        if block.name not in self._alone:
            others = [b for b in self._space.blocks if b is not block]
            self._alone[block.name] = self._spared(ways.without_inner(self._space.problem, others), options)
        flow = self._alone[block.name]
        if flow.peak(range(start, end), start, end, limit + 1) is not None:
            return 0
        for i, composite in enumerate(options):
            ops = (*range(start, block.first), flow.count + i, *range(block.last + 1, end))
            if flow.peak(ops, start, end, limit + 1) is not None:
                return max(0, self._extra(composite))
        return None

    def _extra(self, composite: int) -> int:
        return self._space.extra[composite][0]
