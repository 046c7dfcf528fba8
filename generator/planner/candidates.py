"""The plans worth having for a problem, one after the other: what is tried, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from time import perf_counter

from shoehorn_mcu.memory_plan import Cascade, Outcome, Plan, Status
from shoehorn_mcu.planner import whole_tensors
from shoehorn_mcu.planner.blocks.cascade import Composite, applied
from shoehorn_mcu.planner.order.flow import Event, Flow
from shoehorn_mcu.planner.order.replay import replay
from shoehorn_mcu.planner.order.shorten import shortened
from shoehorn_mcu.planner.partition.search import Partition, PartitionSearch
from shoehorn_mcu.planner.partition.space import Space
from shoehorn_mcu.planner.placement.layout import Layout, fullest_step, lay_out
from shoehorn_mcu.planner.placement.place import Effort
from shoehorn_mcu.planner.problem import Problem
from shoehorn_mcu.planner.recompute.budgets import Budgets
from shoehorn_mcu.planner.recompute.search import least, reordered, tightest, work_once

_SPARE = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2)  # of the capacity: rows may not pack to the last byte
_LONG = 4  # ops between a tensor's writer and its last reader: more than a residual block has
_FREED_SHARE = 1.2  # of the effort for one order: for one in which nothing is computed again
_ROOM = 0.02  # of the peak: what a plan that is placed quickly may leave free
_PACKED = 8  # orders of rows placed in the search for the smallest arena


class Candidates:
    """Plans of one problem. `most_macs` is what may be computed again; None: as much as it takes."""

    def __init__(self, problem: Problem, most_macs: int | None, say: Callable[[str], None]) -> None:
        self._problem, self._most_macs, self._say = problem, most_macs, say
        self._started = perf_counter()
        self._came_near = False  # rows were computed again, for a budget given
        self._raised = 0  # the bound, where blocks in bands were asked for the lowest peak

    @cached_property
    def whole(self) -> Plan:
        """Whole tensors, one step per op."""
        return whole_tensors.solve(self._problem)

    @cached_property
    def _partitions(self) -> PartitionSearch:
        return PartitionSearch(self._problem, self._most_macs)

    @cached_property
    def _once(self) -> PartitionSearch:
        """The search in which nothing is recomputed."""
        return self._partitions if self._most_macs == 0 else PartitionSearch(self._problem, 0)

    @property
    def _space(self) -> Space:
        return self._partitions.space

    @cached_property
    def _bound(self) -> tuple[int, int]:
        """The lowest arena of the whole space, and the op that sets it."""
        return self._partitions.bounds.peak()

    @property
    def bound(self) -> int:
        """What is known by now. Scattered rows are padded to whole words, whole tensors are not."""
        return min(max(self._bound[0], self._raised), self.whole.outcome.bound_bytes)

    @cached_property
    def bound_once(self) -> int:
        """The same where nothing is recomputed."""
        return min(self._once.bounds.peak()[0], self.whole.outcome.bound_bytes)

    def at_least(self) -> tuple[int, str | None]:
        """A lower bound on every plan that was tried, and the op at whose row it is reached; None: not one op alone."""
        takes, op = tightest(self._flow)
        if self.bound >= takes:
            return takes, op
        return self.bound, self._problem.ops[self._bound[1]].name if self.bound <= self._bound[0] else None

    def within(self, capacity: int) -> Iterator[Plan]:
        """Plans for a capacity, the fastest first: whole tensors, rows, blocks in bands. Some may exceed it."""
        if not self._problem.streamed and self.whole.arena_bytes <= capacity:
            yield self.whole
        self._say("rows")
        yield from self._rows(capacity)
        yield from self._reordered(capacity)
        self._say("blocks in bands")
        for found in _for_less(self._partitions.cheapest, capacity):
            yield self._because(self._plan(found), found, capacity)

    def recomputing(self, capacity: int) -> Iterator[Plan]:
        """Plans for a capacity that compute rows again; of those that fit each takes less work than the one before."""
        if self._most_macs != 0 and self.at_least()[0] <= capacity:
            self._came_near = True
            yield from self._budgets.for_capacity(capacity)

    def smallest(self) -> Iterator[Plan]:
        """Plans for the smallest arena. The best of the space comes once more, with what is proven by then."""
        yield self._bounded(self.whole)
        highest = self._once.minimax().peak
        most = self.whole.arena_bytes
        for plan in self._reordered(highest - 1):
            most = min(most, plan.arena_bytes)
            yield plan
        best: Plan | None = None
        for plan in self._of_space(most):
            yield plan
            best = plan if best is None else min(best, plan, key=_arena)
        if best is not None:
            yield self._bounded(best)
        in_bands = best is not None and best.cascades
        if self._most_macs != 0 and not self._came_near and not in_bands and _long_skips(self._problem):
            if _forced(self._problem):
                yield from self._budgets.descending(self._start, highest)
            else:
                yield from self._budgets.descending(self._freed, replay(self._flow, self._freed).peak)

    def _of_space(self, most_bytes: int) -> Iterator[Plan]:
        """The lowest by rows, others by rows where it does not pack, the lowest with blocks in bands.

        By rows only where the peak is below `most_bytes`, which another plan has.
        """
        self._say("rows")
        if self._once.minimax().peak < most_bytes:
            lowest = self._plan(self._partitions.minimax())
            yield lowest
            if lowest.arena_bytes > self.bound:
                yield from self._rows(min(lowest.arena_bytes, most_bytes) - 1)
        if self._space.composites:
            self._say("blocks in bands")
            yield from self._lowest()

    def _bounded(self, plan: Plan) -> Plan:
        """A plan of the space, with what is known of the bound by now."""
        return _with_bound(plan, self.bound)

    def bounded_once(self, plan: Plan) -> Plan:
        """A plan that recomputes nothing, with the bound of all such plans in the space."""
        return _with_bound(plan, min(self.bound_once, plan.outcome.bound_bytes))

    def low(self) -> Plan:
        """About the lowest plan by rows, placed quickly: to weigh against a faster one."""
        enough = int(self._once.minimax().peak * (1 + _ROOM))
        return self._laid(lay_out(self._flow, self._start, enough=enough, effort=Effort.QUICK), self.bound_once, ())

    def _because(self, plan: Plan, found: Partition, capacity: int) -> Plan:
        """A plan of a capacity, with what is known of how little work there must be again."""
        work = work_once(self._flow)
        least = min(found.extra_cost, self._partitions.least_cost(capacity))
        reason = f"{_percent(found.extra_cost, work)} more work; no plan of blocks in bands that fits takes less"
        reason += "" if least == found.extra_cost else f" than {_percent(least, work)}"
        return replace(plan, outcome=replace(plan.outcome, reason=reason))

    def _rows(self, most_bytes: int) -> Iterator[Plan]:
        """Plans by rows with no peak above this."""
        for partition in _for_less(self._once.fewest, most_bytes):
            layout = lay_out(self._flow, self._once.space.events(partition.groups))
            yield self._laid(layout, self.bound_once, ())

    def _lowest(self) -> Iterator[Plan]:
        """Plans with blocks in bands, the lowest peak first. Rows may not pack to the last byte: others are tried."""
        least_arena: int | None = None
        each, self._raised = self._partitions.lowest()
        for found in each[:_PACKED]:
            if least_arena is not None and found.peak >= least_arena:
                break
            plan = self._plan(found)
            least_arena = min(plan.arena_bytes, least_arena or plan.arena_bytes)
            yield plan

    @cached_property
    def _flow(self) -> Flow:
        """The problem without blocks."""
        return Flow(replace(self._problem, blocks=()))

    @cached_property
    def _start(self) -> list[Event]:
        """The order of rows that the search for others starts from."""
        return self._once.space.events(self._once.minimax().groups)

    @cached_property
    def _budgets(self) -> Budgets:
        return Budgets(self._flow, self._start, self._most_macs, self._say, self._ordered)

    @cached_property
    def _freed(self) -> list[Event]:
        """Rows in an order of their own, each once."""
        self._say("rows in any order")
        return reordered(self._flow.problem, self._start, self._budgets.effort(_FREED_SHARE))

    def _reordered(self, most_bytes: int) -> Iterator[Plan]:
        """A plan with each row once in an order of its own, if that needs no more than this.

        Where each op reads what the one before it writes, the groups come within a few rows of any order.
        """
        if _forced(self._problem) or least(self._flow) > most_bytes:
            return
        if replay(self._flow, self._freed).peak <= most_bytes:
            yield self._ordered(self._freed)

    def _ordered(self, events: Sequence[Event], enough: int | None = None, reason: str = "") -> Plan:
        """The plan of an order outside of the space of groups: what some row takes is the only bound."""
        plan = self._laid(lay_out(self._flow, shortened(self._flow, events), enough=enough), least(self._flow), ())
        return replace(plan, outcome=replace(plan.outcome, reason=reason))

    def _plan(self, partition: Partition) -> Plan:
        """The plan of a partition, with the bound of all partitions and blocks."""
        space = self._space
        layout = lay_out(space.flow, space.events(partition.groups), space.composites)
        composites = [space.composites[i] for group in partition.groups for i in group.composites]
        return self._laid(layout, self.bound, composites)

    def _laid(self, layout: Layout, bound: int, composites: Sequence[Composite]) -> Plan:
        return Plan(
            steps=layout.steps,
            placements=layout.placements,
            scratch=layout.scratch,
            arena_bytes=layout.arena_bytes,
            outcome=Outcome(
                status=Status.OPTIMAL if layout.arena_bytes == bound else Status.FEASIBLE,
                bound_bytes=bound,
                whole_tensor_bytes=self.whole.arena_bytes,
                peak_step=fullest_step(applied(self._problem, composites), layout.steps),
                solve_seconds=perf_counter() - self._started,
            ),
            cascades=tuple(
                Cascade(c.block.name, c.cut.chunks, c.band, tuple(op.name for op in c.cut.ops)) for c in composites
            ),
        )

    def applied(self, plan: Plan) -> Problem:
        """The problem that a plan of these solves: with the cuts of its cascades in place of their blocks."""
        return applied(self._problem, [self._composite(c) for c in plan.cascades])

    def _composite(self, cascade: Cascade) -> Composite:
        wanted = (cascade.block, cascade.chunks, cascade.band)
        return next(c for c in self._space.composites if (c.block.name, c.cut.chunks, c.band) == wanted)


def _arena(plan: Plan) -> int:
    return plan.arena_bytes


def _with_bound(plan: Plan, bound: int) -> Plan:
    status = Status.OPTIMAL if plan.arena_bytes == bound else Status.FEASIBLE
    return replace(plan, outcome=replace(plan.outcome, status=status, bound_bytes=bound))


def _for_less(search: Callable[[int], Partition | None], most_bytes: int) -> Iterator[Partition]:
    """What a search finds for less and less, as rows may not pack to the last byte; each partition once."""
    seen: set[Partition] = set()
    for part in _SPARE:
        found = search(int(most_bytes * (1 - part)))
        if found is None:
            break
        if found not in seen:
            seen.add(found)
            yield found


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / max(1, whole):.2f} %"


def _forced(problem: Problem) -> bool:
    """Whether the ops have but one order: each reads what the one before it writes."""
    return all(
        problem.root(before.writes) in {problem.root(read.tensor) for read in op.reads}
        for before, op in pairwise(problem.ops)
    )


def _long_skips(problem: Problem) -> bool:
    """Whether a tensor is read long after it was written: there computing it again may pay."""
    written = {problem.root(op.writes): i for i, op in enumerate(problem.ops)}
    return any(
        i - written.get(problem.root(read.tensor), i) > _LONG for i, op in enumerate(problem.ops) for read in op.reads
    )
