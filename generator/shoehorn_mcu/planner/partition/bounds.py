"""Lower bounds on the peak of every partition of a space, with any choice of composites."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice

from shoehorn_mcu.planner.blocks import composites as banded
from shoehorn_mcu.planner.effort import GROUP
from shoehorn_mcu.planner.order.flow import Flow
from shoehorn_mcu.planner.partition.space import Group, Space, minimax
from shoehorn_mcu.planner.problem import NEVER, Block


class Bounds:
    """Lower bounds on peaks, in bytes."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._floors: dict[tuple[int, int], int] = {}

    @cached_property
    def sparing(self) -> list[Block]:
        """The blocks with composites that leave out rows."""
        return [b for b in self._space.sparing if b.name in self._space.options]

    @cached_property
    def unread(self) -> bool:
        """Whether some tensor has a row that no op reads: a partition may need less than the relaxed flow then."""
        problem = self._space.problem
        read = {(of.tensor, y) for op in problem.ops for of in op.reads for rows in of.rows for y in rows}
        views = {t.view_of for t in problem.tensors}
        inner = (t for t in problem.tensors if t.name not in (*problem.outputs, *views))
        return any((t.name, y) not in read for t in inner for y in range(t.rows))

    @cached_property
    def _relaxed(self) -> Flow:
        return banded.emptied(self.flow, self._space.blocks)

    @cached_property
    def flow(self) -> Flow:
        """The flow in which a group keeps no rows for a later block that may do without them."""
        problem, flow = self._space.problem, self._space.flow
        if not self.sparing:
            return flow
        spared = Flow(problem, flow.runners[flow.count :])
        spared.last_user = Flow(banded.without_left_out(problem, self.sparing)).last_user
        return spared

    def peak(self) -> tuple[int, int]:
        """A lower bound on the peak of every partition, and the op that sets it."""
        flow = self._relaxed
        peak, groups = minimax(flow.count, self.group, self._space.tail)
        highest = max(groups, key=lambda g: self.group(g.start, g.end, NEVER) or 0, default=None)
        return peak, flow.peak_op(range(highest.start, highest.end), highest.start, highest.end) if highest else 0

    def group(self, start: int, end: int, limit: int) -> int | None:
        """A lower bound on the peak of one group with any composites; None if it is `limit` or more.

        All choices of composites are tried if they are few. Otherwise the group is relaxed: inner tensors of blocks
        need no bytes, and the rows that blocks read have the shortest possible live ranges.
        """
        if (start, end) not in self._floors:
            inside = self._space.inside(start, end)
            bounded = not self.spares(inside) and not self.unread
            floor = self._relaxed.peak(range(start, end), start, end) or 0 if bounded else 0
            if floor < self._space.plain:
                choices = list(islice(self._choices(inside), GROUP.FEW + 1))
                if len(choices) <= GROUP.FEW:
                    floor = self._least(Group(start, end), choices)
            self._floors[start, end] = floor
        floor = self._floors[start, end]
        return floor if floor < limit else None

    def spares(self, blocks: Sequence[Block]) -> bool:
        """Whether a block leaves out rows: ops before it then run in another order, where relaxations are no bounds."""
        return any(b in self.sparing for b in blocks)

    def _least(self, plain: Group, choices: Sequence[tuple[int, ...]]) -> int:
        """The lowest peak of one group with any of these choices, at most the best peak without composites."""
        least = self._space.plain
        for chosen in choices:
            group = Group(plain.start, plain.end, chosen)
            least = self.flow.peak(self._space.ops(group), group.start, group.end, least) or least
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
