"""The plans worth having for a problem, one after the other: what is tried, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from time import perf_counter

from generator.plan import Cascade, Outcome, Plan, Status
from generator.planner import greedy
from generator.planner.cascade import Composite, applied
from generator.planner.modes import Found, Modes
from generator.planner.problem import Problem
from generator.planner.rows import fullest_step, lay_out

_SPARE = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2)  # of the capacity: rows may not pack to the last byte


class Candidates:
    """Plans of one problem. `most_macs` is what may be computed again; None: as much as it takes."""

    def __init__(self, problem: Problem, most_macs: int | None, say: Callable[[str], None]) -> None:
        self._problem, self._most_macs, self._say = problem, most_macs, say
        self._started = perf_counter()

    @cached_property
    def whole(self) -> Plan:
        """Whole tensors, one step per op."""
        return greedy.solve(self._problem)

    @cached_property
    def _modes(self) -> Modes:
        return Modes(self._problem, self._most_macs)

    @cached_property
    def _bound(self) -> tuple[int, int]:
        """The lowest arena of the whole space, and the op that sets it."""
        return self._modes.bound()

    @cached_property
    def bound(self) -> int:
        """Scattered rows are padded to whole words, whole tensors are not."""
        return min(self._bound[0], self.whole.outcome.bound_bytes)

    @property
    def bound_op(self) -> str:
        """The op at whose row the bound is reached."""
        return self._problem.ops[self._bound[1]].name

    def within(self, capacity: int) -> Iterator[Plan]:
        """Plans for a capacity, the fastest first: whole tensors, rows, blocks in bands. Some may exceed it."""
        if not self._problem.streamed:
            yield self.whole
        self._say("rows")
        for part in _SPARE:
            found = self._modes.fewest(int(capacity * (1 - part)))
            if found is None:
                break
            yield self._plan(found)
        self._say("blocks in bands")
        for part in _SPARE:
            found = self._modes.cheapest(int(capacity * (1 - part)))
            if found is None:
                break
            if self._most_macs is None or found.extra_macs <= self._most_macs:
                yield self._plan(found)

    def smallest(self) -> Iterator[Plan]:
        """Plans for the smallest arena."""
        outcome = replace(self.whole.outcome, status=self._status(self.whole.arena_bytes), bound_bytes=self.bound)
        yield replace(self.whole, outcome=outcome)
        self._say("rows")
        plain = self._modes.minimax()
        yield self._plan(plain)
        if self._modes.composites:
            self._say("blocks in bands")
            found = self._modes.lowest(self._most_macs)
            if found.groups != plain.groups:
                yield self._plan(found)

    def _plan(self, found: Found) -> Plan:
        modes = self._modes
        layout = lay_out(modes.flow, modes.events(found.groups), modes.composites)
        composites = [modes.composites[i] for group in found.groups for i in group.composites]
        return Plan(
            steps=layout.steps,
            rings=layout.rings,
            scratch=layout.scratch,
            arena_bytes=layout.arena_bytes,
            outcome=Outcome(
                status=self._status(layout.arena_bytes),
                bound_bytes=self.bound,
                whole_tensor_bytes=self.whole.arena_bytes,
                peak_step=fullest_step(applied(self._problem, composites), layout.steps),
                solve_seconds=perf_counter() - self._started,
            ),
            cascades=tuple(Cascade(c.block.name, c.way.chunks, c.band) for c in composites),
        )

    def _status(self, arena_bytes: int) -> Status:
        return Status.OPTIMAL if arena_bytes == self.bound else Status.FEASIBLE

    def applied(self, plan: Plan) -> Problem:
        """The problem that a plan of these solves: with the ways of its cascades in place of their blocks."""
        return applied(self._problem, [self._composite(c) for c in plan.cascades])

    def _composite(self, cascade: Cascade) -> Composite:
        wanted = (cascade.block, cascade.chunks, cascade.band)
        return next(c for c in self._modes.composites if (c.block.name, c.way.chunks, c.band) == wanted)
