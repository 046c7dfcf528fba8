"""Orders of rows without recomputation that are not bound to groups of ops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

from shoehorn_mcu.planner import whole_tensors
from shoehorn_mcu.planner.effort import DESCENT, ORDER, RECOMPUTE
from shoehorn_mcu.planner.order.again import bound_again
from shoehorn_mcu.planner.order.descent import Descent
from shoehorn_mcu.planner.order.flow import Event, Flow
from shoehorn_mcu.planner.order.replay import replay
from shoehorn_mcu.planner.order.shorten import shortened
from shoehorn_mcu.planner.partition.space import Space
from shoehorn_mcu.planner.problem import Problem
from shoehorn_mcu.planner.recompute.search import least, reordered
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
    def rows(self) -> int:
        """How many rows are computed one by one in the order that the search starts from."""
        return len(self._start)

    @property
    def _rows_apart(self) -> Problem:
        return self._flow.problem.rows_apart

    @cached_property
    def _descent(self) -> Descent:
        """The beams from the given order, with a bound by cuts, and where there is time for them by pairs."""
        found = Descent(self._flow, self._start)
        if not found.is_closed:
            found.descend(self._effort(DESCENT.BEAM_SHARE).seconds)
        if not found.is_closed and not self._bound_to_groups:
            found.begin_proof(self._effort(self._share(DESCENT.FIRST_PROOF_SHARES)).seconds)
        return found

    @cached_property
    def lowest(self) -> list[Event]:
        """The lowest order found."""
        descent, annealed = self._descent, None
        if not descent.is_closed and not self._bound_to_groups:
            annealed = self._annealed
            descent.take(annealed)
        if not descent.is_closed:
            self._say("a lower bound of rows in any order")
            shares = DESCENT.ALONE_PROOF_SHARES if self._bound_to_groups else DESCENT.PROOF_SHARES
            descent.prove(self._effort(self._share(shares)).seconds)
        as_found = self._bound_to_groups or descent.events == annealed
        return descent.events if as_found else shortened(self._flow, descent.events)

    def _share(self, of: tuple[float, float]) -> float:
        """Of the effort for one order: the one for few rows, or for many."""
        return of[len(self._start) > DESCENT.FEW]

    @cached_property
    def _annealed(self) -> list[Event]:
        """The lowest order found by local search, from the lower one of the given one and that of rows apart."""
        return self._from(min((self._start, *([] if self.apart is None else [self.apart[1]])), key=self.peak_of))

    @property
    def _bound_to_groups(self) -> bool:
        """Where beams find no order that is lower than that by groups, longer searches do not either."""
        return bound_to_groups(self._flow.problem)

    @property
    def bound(self) -> int:
        """A lower bound on the peak of every order, in bytes."""
        return self._descent.bound

    @property
    def is_by_beam(self) -> bool:
        """Whether a beam found the lowest order, and not local search."""
        return not self._bound_to_groups and self._descent.events != self._annealed

    @property
    def is_closed(self) -> bool:
        """Whether no order is lower than the lowest one found."""
        return self._descent.is_closed

    @property
    def proof(self) -> str:
        """How the lowest peak is to the bound, in words: what is left, and why."""
        if self._descent.is_closed:
            return f"the order's peak of {self.peak:,} bytes is proven minimal, only packing is left"
        return f"the order's peak is {self.peak:,} bytes; the bound ends where {self._descent.why}"

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

    def others(self) -> Iterator[list[Event]]:
        """Other orders, for rows that may overlap, which may pack better."""
        tried = [self.lowest]
        for other in (self._descent_annealed, self._of_rows_apart, self._with_a_smaller_cut):
            found = other()
            if found is not None and found not in tried:
                tried.append(found)
                yield found

    def _of_rows_apart(self) -> list[Event] | None:
        return None if self.apart is None else self.apart[1]

    def _descent_annealed(self) -> list[Event] | None:
        return None if self._bound_to_groups or self._annealed == self._descent.events else self._annealed

    def _with_a_smaller_cut(self) -> list[Event] | None:
        return self._from(self._start, RECOMPUTE.FIRST_CUT / 2) if self.apart is None else None

    def _from(self, start: Sequence[Event], cut: float = RECOMPUTE.FIRST_CUT) -> list[Event]:
        """The lowest order found from one; `cut` is the first reduction that is tried."""
        share = ORDER.FORCED_SHARE if forced(self._flow.problem) else 1
        return self._searched(self._flow, start, share, cut)

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


def least_in_any_order(problem: Problem, wanted: int) -> int:
    """A lower bound in bytes on all plans of a problem that compute each row once, none in bands, in whatever order.

    Little effort is spent to raise it to `wanted` bytes, and none to raise it further.
    """
    flow = Flow(replace(problem, blocks=()))
    space = Space(flow.problem, 0)
    found = Descent(flow, space.events(space.plain_groups))
    bound = min(found.raise_to(wanted), whole_tensors.solve(problem).outcome.bound_bytes)
    return max(bound, least(flow))


def least_computing_again(problem: Problem, most_macs: int) -> int:
    """A lower bound in bytes on all plans of a problem by rows in any order that compute at most so many
    multiply-accumulates again, without chunks of channels. Little effort is spent on it.
    """
    flow = Flow(replace(problem, blocks=()))
    many = sum(flow.rows.values()) > DESCENT.FEW
    work = int(DESCENT.OTHER_FORM_SECONDS[many] * DESCENT.WORK_PER_SECOND)
    found = min(bound_again(flow, most_macs, (), work), whole_tensors.solve(problem).outcome.bound_bytes)
    return max(found, least(flow))


def bound_to_groups(problem: Problem) -> bool:
    """Whether each op reads the output of the one before, and the input is there: no order is known to be lower than
    that by groups.
    """
    return forced(problem) and not problem.streamed


def forced(problem: Problem) -> bool:
    """Whether the ops have only one order: each reads the output of the one before."""
    return all(
        problem.root(before.writes) in {problem.root(read.tensor) for read in op.reads}
        for before, op in pairwise(problem.ops)
    )
