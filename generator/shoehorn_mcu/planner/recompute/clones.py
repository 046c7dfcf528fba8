"""Duplicates recomputed ops in the problem, so that the partition search schedules them like any other op.

Late readers of a tensor read the output of a clone, which is placed right before the first of them. The partition
search interleaves originals and clones with the readers of their rows. Clones are added one retrace at a time, each
time the one that lowers the peak most per extra instruction, until the peak is within the budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from shoehorn_mcu.planner.effort import CLONE
from shoehorn_mcu.planner.order.flow import Event, Flow
from shoehorn_mcu.planner.order.replay import pruned, replay
from shoehorn_mcu.planner.partition.search import PartitionSearch
from shoehorn_mcu.planner.problem import OpSpec, Problem, Read
from shoehorn_mcu.planner.recompute.retrace import Retrace, retraces


@dataclass(frozen=True)
class Cloned:
    """A problem with clones; `origin` gives for each op the op of the first problem that it is or duplicates."""

    problem: Problem
    origin: tuple[int, ...]

    def order(self) -> list[Event]:
        """The row order with the lowest peak by groups, in terms of the first problem's ops."""
        modes = PartitionSearch(self.problem, None)
        events = modes.space.events(modes.minimax().groups)
        return [Event(self.origin[e.op], row) for e in events for row in range(e.row, e.row + e.rows)]


def cloned(before: Cloned, retrace: Retrace, mark: str) -> Cloned:
    """The problem with the ops of the cone duplicated for the late readers; new names end in `mark`."""
    problem = before.problem
    cone = sorted(retrace.cone)
    written = {problem.ops[op].writes for op in cone}
    renamed = {t.name: t.name + mark for t in problem.tensors if problem.root(t.name) in written}
    originals = [problem.by_name[name] for name in renamed]
    specs = [replace(t, name=renamed[t.name], view_of=t.view_of and renamed[t.view_of]) for t in originals]
    clones = [replace(_reading(problem.ops[op], renamed), name=problem.ops[op].name + mark) for op in cone]
    clones = [replace(op, writes=renamed[op.writes]) for op in clones]
    ops = list(problem.ops)
    for reader, read in retrace.late:
        tensor = problem.ops[read].writes
        renamed_reads = {name: new for name, new in renamed.items() if problem.root(name) == tensor}
        ops[reader] = _reading(ops[reader], renamed_reads)
    at = min(reader for reader, _ in retrace.late)
    origin = before.origin
    return Cloned(
        replace(problem, tensors=(*problem.tensors, *specs), ops=(*ops[:at], *clones, *ops[at:]), blocks=()),
        (*origin[:at], *(origin[op] for op in cone), *origin[at:]),
    )


def _reading(op: OpSpec, renamed: dict[str, str]) -> OpSpec:
    """The op with the tensors that it reads renamed."""
    reads = tuple(Read(renamed.get(read.tensor, read.tensor), read.rows) for read in op.reads)
    return replace(op, reads=reads, in_place=op.in_place and renamed.get(op.in_place, op.in_place))


def lowest(problem: Problem, start: Sequence[Event], budget: int, tries: int) -> list[Event]:
    """The order with clones that has the lowest peak, or the first one that fits; `start` if none is lower.

    At most `tries` orders are tried.
    """
    flow = Flow(problem)
    now = Cloned(problem, tuple(range(len(problem.ops))))
    best = list(start)
    replayed = replay(flow, best)
    most_work = replayed.work * (1 + CLONE.MOST_EXTRA_WORK)
    for count in range(1, CLONE.MOST + 1):
        best_offer: tuple[float, list[Event], Cloned] | None = None
        offers = list(retraces(Flow(now.problem)))[: max(0, tries)] if replayed.peak > budget else []
        tries -= len(offers)
        for retrace in offers:
            tried = cloned(now, retrace, "\n" * count)
            order = pruned(flow, tried.order())
            cost = replay(flow, order)
            gain = (replayed.peak - max(budget, cost.peak)) / max(1, cost.work - replayed.work)
            if cost.peak < replayed.peak and cost.work <= most_work and (best_offer is None or gain > best_offer[0]):
                best_offer = gain, order, tried
        if best_offer is None:
            break
        _, best, now = best_offer
        replayed = replay(flow, best)
    return best
