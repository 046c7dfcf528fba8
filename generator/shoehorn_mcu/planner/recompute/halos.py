"""Bands over any chain of ops: groups that recompute rows at the edge of a window in place of keeping them.

A group run on demand keeps of every tensor in it the rows that the next window reads once more, its halo. Here the
reader may leave fewer of them, or none: the others are computed once more from the rows that their op reads, which are
shorter where the op expands. So the patches of MCUNetV2 (Lin et al., NeurIPS 2021, section 3.1) recompute their halo,
and so msf-CNN (Huang and Baccelli, 2025) chooses which fused layers keep theirs; here a band is one row of the reader,
and bands are nested wherever the recomputed op reads rows that are recomputed, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from shoehorn_mcu.planner.effort import HALO
from shoehorn_mcu.planner.order.flow import Event, Flow
from shoehorn_mcu.planner.order.replay import RowOrder, needed, recomputing, work
from shoehorn_mcu.planner.partition.space import Choice, Group, least_path

Halos = Mapping[int, int]  # by op: the rows of its output that its reader leaves


class _Cost(NamedTuple):
    over: int  # bytes above the budget, summed over rows
    peak: int
    work: int


class _Groups:
    """The groups of ops of a flow, each with the halos found for a budget."""

    def __init__(self, flow: Flow, budget: int, rows: int) -> None:
        self._flow, self._budget = flow, budget
        self._rows = rows  # that may still be replayed
        self._once = sum(op.row_cost * flow.rows[op.writes] for op in flow.problem.ops)
        self._found: dict[tuple[int, int], tuple[Choice | None, Halos]] = {}

    def choose(self, start: int, end: int) -> Choice | None:
        """The cost of a group: bytes above the budget, summed over rows, then the extra work; None if far above it."""
        if (start, end) not in self._found:
            self._found[start, end] = self._least(start, end)
        return self._found[start, end][0]

    def events(self, group: Group) -> list[Event]:
        """The rows of a group that was chosen."""
        _, halos = self._found[group.start, group.end]
        return recomputing(self._flow, self._plain(group.start, group.end), halos).events()

    def _plain(self, start: int, end: int) -> RowOrder:
        events = self._flow.events(range(start, end), start, end)
        return RowOrder.of([Event(e.op, row) for e in events for row in range(e.row, e.end)])

    def _least(self, start: int, end: int) -> tuple[Choice | None, Halos]:
        peak = self._flow.peak(range(start, end), start, end) or 0
        if peak <= self._budget:
            return Choice(0), {}
        offers = list(self._offers(start, end))
        if not offers or end - start > HALO.LONGEST or peak > self._budget * HALO.HIGHEST:
            return None, {}
        plain = self._plain(start, end)
        halos, cost = self._greedy(Group(start, end), plain, offers)
        if cost.peak > self._budget * (1 + HALO.NEAR):
            return None, {}
        return Choice(cost.over * self._once + cost.work - work(self._flow, plain)), halos

    def _offers(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """(Op, rows that its reader leaves) for every op of the group whose rows one op in it reads repeatedly."""
        flow = self._flow
        for op in range(start, end):
            tensor = flow.writes[op]
            taps = [(reader, tap) for reader in range(flow.count) for tap in flow.taps[reader] if tap.tensor == tensor]
            inside = len(taps) == 1 and start <= taps[0][0] < end and max(flow.last_user[tensor]) < end
            if inside and op not in flow.once:
                yield from ((op, left) for left in range(max(map(len, taps[0][1].reads)) - 1))

    def _greedy(self, group: Group, plain: RowOrder, offers: Sequence[tuple[int, int]]) -> tuple[Halos, _Cost]:
        """The halos of a group, each time the one with the least bytes above the budget per extra work."""
        halos: dict[int, int] = {}
        cost = self._cost(group, plain, halos)
        while cost.over:
            best: tuple[float, int, int] | None = None
            for op, left in offers:
                if self._rows <= 0 or halos.get(op) == left:
                    continue
                other = self._cost(group, plain, {**halos, op: left})
                gain = (cost.over - other.over) / max(1, other.work - cost.work)
                if other.over < cost.over and (best is None or gain > best[0]):
                    best = gain, op, left
            if best is None:
                break
            halos[best[1]] = best[2]
            cost = self._cost(group, plain, halos)
        return halos, cost

    def _cost(self, group: Group, plain: RowOrder, halos: Halos) -> _Cost:
        """What a group costs with these halos."""
        order = recomputing(self._flow, plain, halos)
        self._rows -= len(order)
        held = needed(self._flow, order, group.start, group.end) + self._flow.passing(group.start, group.end)
        over = int(np.maximum(held - self._budget, 0).sum())
        return _Cost(over, int(held.max()), work(self._flow, order))


def banded(flow: Flow, budget: int, rows: int) -> list[Event] | None:
    """An order by groups with recomputed halos, at most a little above the budget; None if none was found.

    At most `rows` rows are replayed to find it.
    """
    groups = _Groups(flow, budget, rows)
    tail = 2 if flow.problem.hands_out and flow.count > 1 else 1
    path = least_path(flow.count, groups.choose, tail)
    return None if path is None else [event for group in path[1] for event in groups.events(group)]
