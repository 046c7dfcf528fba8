"""Orders of rows without recomputation that are not bound to groups of ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise

from shoehorn_mcu.planner.effort import ORDER, RECOMPUTE
from shoehorn_mcu.planner.order.flow import Event, Flow
from shoehorn_mcu.planner.order.replay import replay
from shoehorn_mcu.planner.order.shorten import shortened
from shoehorn_mcu.planner.partition.space import Space
from shoehorn_mcu.planner.problem import Problem
from shoehorn_mcu.planner.recompute.search import reordered
from shoehorn_mcu.planner.remat.outcome import Effort


class AnyOrder:
    """The orders of one problem, each searched on first use.

    `start` is the order that the search starts from; `effort` gives a share of the effort for one order, and `say` is
    told of each search.
    """

    def __init__(
        self, flow: Flow, start: Sequence[Event], effort: Callable[[float], Effort], say: Callable[[str], None]
    ) -> None:
        self._flow, self._start, self._effort, self._say = flow, start, effort, say

    @property
    def _rows_apart(self) -> Problem:
        return self._flow.problem.rows_apart

    @cached_property
    def lowest(self) -> list[Event]:
        """The lowest order found."""
        if self.apart is None:
            return self._from_start()
        start = min(self._start, self.apart[1], key=self.peak_of)
        return self._searched(self._flow, start)

    @cached_property
    def peak(self) -> int:
        """Of the lowest order, in bytes."""
        return self.peak_of(self.lowest)

    def peak_of(self, events: Sequence[Event]) -> int:
        """Of an order of rows that may overlap, in bytes."""
        return replay(self._flow, events).peak

    @cached_property
    def apart(self) -> tuple[Flow, list[Event]] | None:
        """The lowest such order of rows apart: a start for the search with rows that overlap, which is harder, and it
        may pack to its peak where these do not. None where no row overlaps one of its window.
        """
        if self._rows_apart is self._flow.problem or forced(self._flow.problem):
            return None
        flow = Flow(self._rows_apart)
        return flow, self._from_groups(flow)

    def another(self) -> list[Event] | None:
        """Another order, for rows that may overlap, which may pack better; None where none was found."""
        if self.apart is not None:
            return self._from_groups(self.apart[0])
        other = self._from_start(RECOMPUTE.FIRST_CUT / 2)
        return None if other == self.lowest else other

    def _from_start(self, cut: float = RECOMPUTE.FIRST_CUT) -> list[Event]:
        """The lowest order found from the given one; `cut` is the first reduction that is tried."""
        share = ORDER.FORCED_SHARE if forced(self._flow.problem) else 1
        return self._searched(self._flow, self._start, share, cut)

    def _from_groups(self, flow: Flow) -> list[Event]:
        """The lowest order found from the one by groups."""
        space = Space(flow.problem, 0)
        return self._searched(flow, space.events(space.plain_groups))

    def _searched(
        self, flow: Flow, start: Sequence[Event], share: float = 1, cut: float = RECOMPUTE.FIRST_CUT
    ) -> list[Event]:
        """The lowest order found from this one with so much of the effort for one order."""
        self._say("rows in any order")
        return shortened(flow, reordered(flow.problem, start, self._effort(share), cut))


def forced(problem: Problem) -> bool:
    """Whether the ops have only one order: each reads the output of the one before."""
    return all(
        problem.root(before.writes) in {problem.root(read.tensor) for read in op.reads}
        for before, op in pairwise(problem.ops)
    )
