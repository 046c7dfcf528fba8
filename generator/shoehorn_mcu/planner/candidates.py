"""The candidate plans of a problem, and the order in which they are made: a generator per goal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from time import perf_counter

from shoehorn_mcu.planner import whole_tensors
from shoehorn_mcu.planner.any_order import AnyOrder, bound_to_groups, forced
from shoehorn_mcu.planner.blocks.cascade import Composite, applied
from shoehorn_mcu.planner.effort import CANDIDATE, DESCENT, RECOMPUTE
from shoehorn_mcu.planner.memory_plan import AGAIN, BOUNDED, BY_ROWS, CHAINED, Cascade, Outcome, Plan, Status
from shoehorn_mcu.planner.order.flow import Event, Flow, single_events
from shoehorn_mcu.planner.order.shorten import shortened
from shoehorn_mcu.planner.partition.search import Partition, PartitionSearch
from shoehorn_mcu.planner.placement.layout import Layout, lay_out
from shoehorn_mcu.planner.placement.place import Effort
from shoehorn_mcu.planner.problem import NEVER, Problem, aligned
from shoehorn_mcu.planner.recompute.budgets import Budgets
from shoehorn_mcu.planner.recompute.search import extra_macs, keeping, least, tightest, work_once
from shoehorn_mcu.planner.reordered import Reordered
from shoehorn_mcu.planner.searches import Searches, for_less


class Candidates:
    """Plans of one problem. `most_macs` limits the recomputed multiply-accumulates; None: no limit.

    With `brief`, the smallest arena with recomputed rows is searched only for problems that read tensors late. The
    smallest arena is searched below so many bytes.
    """

    def __init__(
        self,
        problem: Problem,
        most_macs: int | None,
        say: Callable[[str], None],
        brief: bool = False,
        below: int = NEVER,
    ) -> None:
        self._problem, self._most_macs, self._say = problem, most_macs, say
        self._brief, self._below = brief, below
        self._started = perf_counter()
        self._searches = Searches(problem, most_macs)
        self._composites: dict[Cascade, Composite] = {}  # of the plans made so far

    @cached_property
    def whole(self) -> Plan:
        """Whole tensors, one step per op."""
        return whole_tensors.solve(self._problem)

    @cached_property
    def _bound(self) -> tuple[int, int]:
        """A lower bound on the arena of all plans by groups and banded blocks, in bytes, and the op that sets it."""
        return min(self._searches.blocks.bounds.peak(), self._searches.rows.bounds.peak(), key=lambda bound: bound[0])

    @property
    def bound(self) -> int:
        """The best lower bound known so far, in bytes.

        Scattered rows are padded to whole words and whole tensors are not, so theirs may be lower.
        """
        return min(self._searches.blocks.floor, self._bound_by_rows)

    @property
    def _floor(self) -> int:
        """A lower bound that is at most `bound`, in bytes, and takes little time."""
        return min(self._searches.blocks.space.floor, self._bound_by_rows)

    @property
    def _bound_by_rows(self) -> int:
        """The lower bound on plans without blocks in bands, in bytes."""
        return min(self._searches.rows.minimax().peak, self.whole.outcome.bound_bytes)

    @property
    def peak(self) -> int:
        """The bytes that are alive at once in the best order by groups of rows, or whole tensors if that is less."""
        return min(self._searches.rows.minimax().peak, self.whole.arena_bytes)

    def at_least(self) -> tuple[int, str | None]:
        """A lower bound on every searched plan, in bytes, and the op that sets it; None where no single op does."""
        largest, op = self._tightest
        if self.bound >= largest:
            return largest, op
        return self.bound, self._problem.ops[self._bound[1]].name if self.bound <= self._bound[0] else None

    def all_exceed(self, capacity: int) -> bool:
        """Whether bounds that take no search are above the capacity, so that no plan is within it."""
        return self.whole.arena_bytes > capacity and min(self._tightest[0], self._floor) > capacity

    def unsearched(self) -> Plan:
        """The plan of whole tensors or a plan by rows, whichever is smaller; neither of them is searched for."""
        return min(self.whole, self.low(), key=_arena)

    def within(self, capacity: int) -> Iterator[Plan]:
        """Plans for a capacity, the fastest first: whole tensors, rows, banded blocks. Some may exceed it."""
        by_rows = self._problem.streamed or self._problem.hands_out
        if not by_rows and self.whole.arena_bytes <= capacity:
            yield self.whole
        self._say("rows")
        yield from self._rows(capacity)
        yield from self._reordered.within(capacity)
        self._say("blocks in bands")
        for partition in self._searches.within(capacity, int(RECOMPUTE.LITTLE * work_once(self._flow))):
            yield self._because(self._plan(partition), partition, capacity)

    def recomputing(self, capacity: int) -> Iterator[Plan]:
        """Plans that recompute rows to fit a capacity; each that fits costs less work than the one before."""
        if self._most_macs != 0 and self.at_least()[0] <= capacity:
            yield from self._budgets.for_capacity(capacity)

    def keeping(self, plan: Plan, capacity: int) -> Iterator[Plan]:
        """Plans that fit, each with less work than the one before, that keep rows between the bands of a plan with
        blocks in bands, where bytes are free, and do not compute them again.
        """
        if not plan.cascades:
            return
        self._say("rows kept between bands")
        problem = self.applied(plan)
        events = single_events(problem, plan.steps)
        for flow, order in keeping(problem, events, capacity, self._budgets.effort):
            layout = lay_out(flow, shortened(flow, order.events), enough=capacity, below=capacity + 1)
            if layout.arena_bytes > capacity:
                return
            made = self._laid(layout, least(flow), [self._composites[each] for each in plan.cascades], AGAIN)
            yield made.because(f"{100 * self.extra(made):.2f} % more work, the least found")

    def keeping_as_small(self, plan: Plan) -> Iterator[Plan]:
        """As `keeping` within the arena of a plan that recomputes rows, with its bound unless they are below that."""
        if self._most_macs == 0 or self.extra_macs(plan) <= 0:
            return
        known = plan.outcome
        for kept in self.keeping(plan, plan.arena_bytes):
            above = kept.arena_bytes >= known.bound_bytes
            yield kept.with_bound(known.bound_bytes, known.bound_of) if above else kept

    def spared(self, capacity: int) -> Iterator[Plan]:
        """Plans that fit, of which the blocks in bands recompute more than the allowance until rows are kept."""
        most = self._most_macs
        if not most:
            return
        for plan in self._free.within(capacity):
            if plan.cascades and plan.arena_bytes <= capacity:
                kept = (each for each in self._free.keeping(plan, capacity) if self._free.extra_macs(each) <= most)
                self._composites |= self._free._composites
                yield from kept
                return

    def spared_as_small(self, plan: Plan) -> Iterator[Plan]:
        """As `spared`, each smaller than the one before, the first one than a plan that is known; for few rows, as it
        takes as long as a search without an allowance.
        """
        for _ in range(CANDIDATE.SPARED if len(self._start) < CANDIDATE.SPARED_ROWS else 0):
            found = min(self.spared(plan.arena_bytes - 1), key=_arena, default=None)
            if found is None:
                return
            yield (plan := found)

    @cached_property
    def _free(self) -> Candidates:
        """The candidates without a limit on recomputed multiply-accumulates."""
        return Candidates(self._problem, None, self._say)

    def extra_macs(self, plan: Plan) -> int:
        """The multiply-accumulates of a plan beyond those of computing each row once."""
        problem = self.applied(plan)
        return extra_macs(problem, single_events(problem, plan.steps))

    def extra(self, plan: Plan) -> float:
        """The predicted work of a plan beyond that of computing each row once, as a share of that."""
        costs = {op.name: op.row_cost for op in self.applied(plan).ops}
        work = sum(costs[step.op] * (step.rows[1] - step.rows[0]) for step in plan.steps)
        once = work_once(self._flow)
        return (work - once) / max(1, once)

    def costly(self, plan: Plan, kept: Plan, capacity: int) -> bool:
        """Whether a plan of `within`, `kept` with rows kept between its bands, computes so much again that rows
        recomputed one by one may well cost less.

        One with blocks in bands does not where nothing of its own kind costs much less.
        """
        if not plan.cascades:
            return False
        if self._has_chains(plan):
            return self.extra(kept) > RECOMPUTE.LITTLE
        bound = self._searches.least_cost(capacity) / max(1, work_once(self._flow))
        return self.extra(plan) - bound > RECOMPUTE.LITTLE

    def _has_chains(self, plan: Plan) -> bool:
        blocks = {block.name for block in self._problem.blocks}
        return any(cascade.block not in blocks for cascade in plan.cascades)

    def smallest(self, wanted: int = 0) -> Iterator[Plan]:
        """Plans for the smallest arena. The best one is yielded a second time, with the bound proven by then.

        Orders that recompute rows are searched as long as they may need at most `wanted` bytes (0: the least).
        """
        yield self.whole.with_bound(self._floor)
        most = min(self._below, self.whole.arena_bytes)
        if self._orders_first:
            for plan in self._reordered.within(min(most - 1, self._gained)):
                most = min(most, plan.arena_bytes)
                yield self._bounded_if_above(plan)
        best: Plan | None = None
        for plan in self._in_groups(most):
            yield plan
            best = plan if best is None else min(best, plan, key=_arena)
        if self._floor <= most:
            yield self._bounded(best or self.whole)
        most = most if best is None else min(most, best.arena_bytes)
        if not self._orders_first and least(self._flow) < most:
            for plan in self._reordered.apart(min(most - 1, self._gained)):
                most = min(most, plan.arena_bytes)
                yield self._bounded_if_above(plan)
        if (
            len(self._start) <= CANDIDATE.QUICK_ROWS
            and self._floor < most
            and max(self.bound, least(self._flow)) < most
        ):
            for plan in self.within(most - 1):
                yield self._bounded_if_above(plan)
        if self._may_recompute(best):
            start = self._start if self._bound_to_groups else self._any_order.lowest
            yield from self._budgets.descending(start, self._any_order.peak_of(start), wanted)

    def _may_recompute(self, best: Plan | None) -> bool:
        """Whether single rows are recomputed, where this is the best plan in groups."""
        in_bands = best is not None and best.cascades and not self._has_chains(best)
        worth = not self._brief or _long_skips(self._problem)
        return self._most_macs != 0 and worth and not in_bands

    @cached_property
    def _gained(self) -> int:
        """The highest peak, in bytes, of row orders not bound to groups that are placed for a smaller arena."""
        highest = self._searches.rows.minimax().peak
        gain = CANDIDATE.LEAST_GAIN if self._bound_to_groups else CANDIDATE.GAIN
        return int(highest * (1 - gain)) if forced(self._problem) else highest - 1 + self._padding

    @cached_property
    def _orders_first(self) -> bool:
        """Whether such an order has a lower peak than those by groups, so that these are placed only if it does not
        pack.
        """
        lowest = self._searches.rows.minimax().peak
        return least(self._flow) < lowest and self._any_order.peak < lowest

    def _bounded_if_above(self, plan: Plan) -> Plan:
        """A plan that may be outside the space, with the bound of the space if it is not below that."""
        return plan if plan.arena_bytes < self._floor or plan.arena_bytes < self.bound else self._bounded(plan)

    def _in_groups(self, most_bytes: int) -> Iterator[Plan]:
        """The plans by rows with the lowest peak, with rows apart and not, others if these do not pack to it, and
        those with blocks in bands.

        Plans by rows are skipped if their peak is not below `most_bytes`, the arena of a plan already found, though the
        peak counts rows that are padded to words, and such tensors may be placed whole.
        """
        self._say("rows")
        by_rows = self._searches.rows.minimax()
        if by_rows.peak < most_bytes + self._padding:
            overlapping = self._searches.apart is not self._searches.rows
            found = lay_out(self._flow, self._start, effort=Effort.LEAST if overlapping else None, below=most_bytes)
            yield self._laid(found, self.bound, ())
            most_bytes = min(found.arena_bytes, most_bytes)
            if overlapping and self._searches.apart.minimax().peak < most_bytes:
                plan = self._plan(self._searches.apart.minimax(), most_bytes)
                yield plan
                most_bytes = min(plan.arena_bytes, most_bytes)
            if overlapping and not found.drifts and by_rows.peak < most_bytes * (1 - CANDIDATE.LEAST_GAIN):
                found = lay_out(self._flow, self._start, below=most_bytes)
                yield self._laid(found, self.bound, ())
                most_bytes = min(found.arena_bytes, most_bytes)
            first = self._searches.rows.delivered_first() if self._problem.streamed else None
            worth = int(most_bytes * (1 - CANDIDATE.LEAST_GAIN))
            if found.arena_bytes > self.bound and first is not None and first.peak < worth:
                yield self._bounded(self._by_rows(first, most_bytes))
            if found.arena_bytes > self.bound and not overlapping:
                yield from map(self._bounded, self._rows(most_bytes - 1))
        if searches := self._searches.in_bands(most_bytes):
            self._say("blocks in bands")
            yield from self._lowest(searches, most_bytes)

    def _bounded(self, plan: Plan) -> Plan:
        """A plan of the space, with the best lower bound known so far; one with chains has its own."""
        return plan if plan.outcome.bound_of == CHAINED else plan.with_bound(self.bound)

    def bounded_by_rows(self, plan: Plan) -> Plan:
        """A plan without blocks in bands, with the lower bound on all such plans."""
        return plan.with_bound(min(self._bound_by_rows, plan.outcome.bound_bytes), BY_ROWS)

    def low(self) -> Plan:
        """A plan by rows close to the lowest one, placed quickly: to compare with a faster plan."""
        enough = int(self._searches.rows.minimax().peak * (1 + CANDIDATE.ROOM))
        found = lay_out(self._flow, self._start, enough=enough, effort=Effort.QUICK)
        return self.bounded_by_rows(self._laid(found, self._bound_by_rows, ()))

    def _because(self, plan: Plan, partition: Partition, capacity: int) -> Plan:
        """A plan for a capacity; its reason gives the extra work, and the lower bound on it in its search."""
        work, chained = work_once(self._flow), self._searches.has_chains(partition)
        of = CHAINED if chained else BOUNDED
        bound = min(partition.extra_cost, self._searches.least_cost(capacity, chained))
        reason = f"{_percent(partition.extra_cost, work)} more work, "
        if bound == partition.extra_cost:
            reason += f"proven minimal among {of} that fit"
        else:
            reason += f"lower bound {_percent(bound, work)} for {of} that fit"
        return plan.because(reason)

    def _rows(self, most_bytes: int) -> Iterator[Plan]:
        """Plans by rows with a peak of at most `most_bytes`, without recomputation."""
        for partition in for_less(self._searches.rows.fewest, most_bytes):
            yield self._by_rows(partition, most_bytes + 1)

    def _by_rows(self, partition: Partition, below: int) -> Plan:
        layout = lay_out(self._flow, self._searches.rows.space.events(partition.groups), below=below)
        return self.bounded_by_rows(self._laid(layout, self._bound_by_rows, ()))

    def _lowest(self, searches: Sequence[PartitionSearch], most_bytes: int) -> Iterator[Plan]:
        """Plans with banded blocks and a peak below `most_bytes`, the lowest first; several, because the lowest peak
        may not pack best. Those without are tried before (_in_groups).
        """
        for search in searches:
            partitions, _ = search.lowest()
            banded = (each for each in partitions if any(group.composites for group in each.groups))
            for partition in islice(banded, CANDIDATE.PACKED):
                if partition.peak >= most_bytes:
                    break
                plan = self._plan(partition, most_bytes)
                most_bytes = min(plan.arena_bytes, most_bytes)
                yield plan

    @cached_property
    def _padding(self) -> int:
        """Bytes by which the peak of rows that lie apart may exceed the arena with their tensors whole."""
        return sum(t.rows * (aligned(t.row_bytes) - t.row_bytes) for t in self._problem.tensors)

    @cached_property
    def _flow(self) -> Flow:
        """The problem without blocks."""
        return Flow(replace(self._problem, blocks=()))

    @cached_property
    def _tightest(self) -> tuple[int, str]:
        """The largest working set of one row, in bytes, and its op."""
        return tightest(self._flow)

    @cached_property
    def _start(self) -> list[Event]:
        """The order of rows that the search for others starts from."""
        return self._searches.rows.space.events(self._searches.rows.minimax().groups)

    @property
    def _bound_to_groups(self) -> bool:
        return bound_to_groups(self._problem)

    @cached_property
    def _budgets(self) -> Budgets:
        return Budgets(self._flow, self._start, self._most_macs, self._say, self._reordered.plan)

    @cached_property
    def _any_order(self) -> AnyOrder:
        return AnyOrder(self._flow, self._start, self._budgets.effort, self._say)

    @cached_property
    def _reordered(self) -> Reordered:
        return Reordered(
            self._flow, lambda: self._any_order, lambda layout, of: self._laid(layout, least(self._flow), (), of)
        )

    def in_any_order(self, plan: Plan) -> Plan:
        """A plan that computes each row once, none in bands, with the lower bound of all such plans."""
        return self._reordered.bounded(plan, self.whole.outcome.bound_bytes)

    def bounded_again(self, plan: Plan) -> Plan:
        """The plan, if rows may be computed again or are, with the lower bound of all orders that compute at most as
        much again: the allowance, or without one what this plan does. Chunks of channels are in none of them, nor are
        blocks that leave out rows which nothing reads.
        """
        sparing = {block.name for block in self._searches.blocks.space.sparing}
        other = any(cascade.chunks > 1 or cascade.block in sparing for cascade in plan.cascades)
        if self._brief or plan.outcome.again is not None or other:
            return plan
        extra = self.extra_macs(plan)
        most = extra if self._most_macs is None else max(extra, self._most_macs)
        if not most:
            return plan
        work = int(self._budgets.effort(RECOMPUTE.BOUND_SHARE).seconds * DESCENT.WORK_PER_SECOND)
        return self._reordered.bounded_again(plan, most, self.whole.outcome.bound_bytes, work)

    def _plan(self, partition: Partition, below: int = NEVER) -> Plan:
        """The plan of a partition, with the lower bound on all partitions, of those with chains if it is one."""
        space = partition.space
        layout = lay_out(space.flow, space.events(partition.groups), space.composites, below=below)
        composites = [space.composites[i] for group in partition.groups for i in group.composites]
        if self._searches.has_chains(partition) and self._searches.chains is not None:
            return self._laid(layout, min(self.bound, self._searches.chains.floor), composites, CHAINED)
        return self._laid(layout, self.bound, composites)

    def _laid(self, layout: Layout, bound: int, composites: Sequence[Composite], of: str = BOUNDED) -> Plan:
        cascades = tuple(
            Cascade(c.block.name, c.cut.chunks, c.band, tuple(op.name for op in c.cut.ops)) for c in composites
        )
        self._composites.update(zip(cascades, composites, strict=True))
        return Plan(
            steps=layout.steps,
            placements=layout.placements,
            scratch=layout.scratch,
            arena_bytes=layout.arena_bytes,
            outcome=Outcome(
                status=Status.OPTIMAL if layout.arena_bytes == bound else Status.FEASIBLE,
                bound_bytes=bound,
                whole_tensor_bytes=self.whole.arena_bytes,
                solve_seconds=perf_counter() - self._started,
                bound_of=of,
            ),
            cascades=cascades,
        )

    def applied(self, plan: Plan) -> Problem:
        """The problem that one of these plans solves: the cuts of its cascades replace their blocks."""
        return applied(self._problem, [self._composites[cascade] for cascade in plan.cascades])


def _arena(plan: Plan) -> int:
    return plan.arena_bytes


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / max(1, whole):.2f} %"


def _long_skips(problem: Problem) -> bool:
    """Whether a tensor is read long after it was written, so that recomputing it may pay."""
    written = {problem.root(op.writes): i for i, op in enumerate(problem.ops)}
    return any(
        i - written.get(problem.root(read.tensor), i) > CANDIDATE.LONG
        for i, op in enumerate(problem.ops)
        for read in op.reads
    )
