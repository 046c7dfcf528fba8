"""Finds offsets: greedy first, then exact searches with restarts, from the load bound upwards."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from time import perf_counter

from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.planner.effort import ALLOCATE
from shoehorn_mcu.planner.placement.allocate.native import Ending, Native, Sections
from shoehorn_mcu.planner.placement.allocate.problem import Buffer, Problem, Result, Status
from shoehorn_mcu.planner.placement.allocate.trials import Trial, orders, trials

_MOST_UNITS = 2**28  # of memory, taken at one time; C adds three of these in 32 bits


def allocate(
    buffers: Iterable[Buffer],
    capacity: int | None = None,
    *,
    alignment: int = 1,
    ceiling: Iterable[Buffer] = (),
    effort: float = 3.0,
    seconds: float = 600.0,
) -> Result:
    """The lowest placement that the effort finds; at most `capacity` bytes high where that is given.

    `ceiling`: see Problem; offsets are given for `buffers` only.
    `effort` is about seconds of searching, counted in work so that equal inputs give equal offsets everywhere;
    `seconds` of wall time are a last stop. Ctrl-C gives the best so far, where there is one.
    ShoehornError: the buffers are not sound, or too much for 32-bit units. HostError: there is no C compiler.
    """
    started = perf_counter()
    problem = Problem(tuple(buffers), capacity, alignment, tuple(ceiling))
    bound = problem.peak.bytes
    if capacity is not None and capacity < bound:
        return Result(Status.INFEASIBLE, {}, None, bound, perf_counter() - started, 0)
    solid = [b for b in problem.buffers if b.size]
    if not solid:
        return Result(Status.OPTIMAL, {b.id: 0 for b in problem.buffers}, bound, bound, perf_counter() - started, 0)
    unit = math.gcd(*(problem.aligned(b.size) for b in (*solid, *problem.ceiling)))
    if bound // unit >= _MOST_UNITS:
        raise ShoehornError(
            f"{bound} bytes are alive at time {problem.peak.lower}, in units of {unit} (what divides all sizes): "
            f"that is beyond {_MOST_UNITS} units; round the sizes up to multiples of {bound // _MOST_UNITS + 1} or more"
        )
    descent = _Descent(problem, solid, unit, int(effort * ALLOCATE.WORK_PER_SECOND), started + seconds)
    try:
        descent.run()
    except KeyboardInterrupt:
        if not descent.fits:
            raise
    return descent.result(started)


def _sections(problem: Problem, solid: Sequence[Buffer], unit: int) -> Sections:
    times = sorted({time for b in (*solid, *problem.ceiling) for time in (b.lower, b.upper)})
    place = {time: i for i, time in enumerate(times)}
    ceiling = [0] * (len(times) - 1)
    for c in problem.ceiling:
        for i in range(place[c.lower], place[c.upper]):
            ceiling[i] = problem.aligned(c.size) // unit
    return Sections(
        [place[b.lower] for b in solid],
        [place[b.upper] for b in solid],
        [problem.aligned(b.size) // unit for b in solid],
        ceiling,
    )


class _Descent:
    """The state of one solution: the lowest placement so far, and the highest height proven impossible."""

    def __init__(self, problem: Problem, solid: list[Buffer], unit: int, work: int, deadline: float) -> None:
        self._problem, self._solid, self._unit = problem, solid, unit
        sections = _sections(problem, solid, unit)
        self._reaches = [
            size + max(sections.ceiling[lower:upper])  # from a buffer's offset to the least height that it needs
            for lower, upper, size in zip(sections.lower, sections.upper, sections.size, strict=True)
        ]
        self._standing = max(sections.ceiling)  # the height is not less
        self._native = Native(sections)
        self._orders = orders(solid, sections)
        self._trials: dict[int, Iterator[Trial]] = {}  # by the height aimed at
        self._effort, self._left, self._deadline = work, work, deadline
        self._capacity = None if problem.capacity is None else problem.capacity // unit
        self._bound = problem.peak.bytes // unit
        self._best: tuple[int, ...] = ()
        self._height = 2**62
        self._nodes = 0

    @property
    def fits(self) -> bool:
        """Whether there is a placement within the capacity."""
        return bool(self._best) and (self._capacity is None or self._height <= self._capacity)

    def run(self) -> None:
        self._greedy()
        if len(self._solid) > ALLOCATE.MOST_SEARCHED:
            return
        if self._height > self._bound:
            undecided = self._aim(self._bound, ALLOCATE.BOUND_SHARE) is Ending.LIMIT
            if not self.fits and self._capacity is not None and self._bound <= self._capacity:
                self._aim(self._capacity, 1.0)
            if self.fits:
                self._lower(self._bound if undecided else self._bound - 1)

    def result(self, started: float) -> Result:
        """What is known now."""
        seconds, bound = perf_counter() - started, self._bound * self._unit
        if not self.fits:
            proven = self._capacity is not None and self._bound > self._capacity
            status = Status.INFEASIBLE if proven else Status.UNKNOWN
            return Result(status, {}, None, bound, seconds, self._nodes)
        offsets = {b.id: 0 for b in self._problem.buffers}
        offsets |= {b.id: at * self._unit for b, at in zip(self._solid, self._best, strict=True)}
        status = Status.OPTIMAL if self._height == self._bound else Status.FEASIBLE
        return Result(status, offsets, self._height * self._unit, bound, seconds, self._nodes)

    def _take(self, offsets: tuple[int, ...]) -> None:
        height = max(self._standing, *map(sum, zip(offsets, self._reaches, strict=True)))
        if height < self._height:
            self._best, self._height = offsets, height

    def _greedy(self) -> None:
        pairs = len(self._solid) ** 2
        tries = [(which, lowest) for lowest in (False, True) for which in range(len(self._orders.keys))]
        for which, lowest in tries[: max(1, ALLOCATE.PLACED // pairs)]:
            self._take(self._native.greedy(self._orders.order(which), lowest))
            if self._height == self._bound:
                return

    def _lower(self, undecided: int) -> None:
        """Bisects between `undecided`, the highest height given up on, and the lowest one found."""
        while self._left > 0 and self._height > self._bound and perf_counter() < self._deadline:
            lowest, highest = max(self._bound, undecided + 1), self._height - 1
            last = lowest > highest  # nothing between: this try gets all of the remaining effort
            target = highest if last else (lowest + highest) // 2
            ending = self._aim(target, 1.0 if last else ALLOCATE.STEP_SHARE)
            if ending is Ending.LIMIT:
                undecided = target
                if last:
                    return

    def _aim(self, capacity: int, share: float) -> Ending:
        """Searches for a placement of at most this height; learns from it, whatever the ending."""
        capacity = min(capacity, _MOST_UNITS - 1)
        allowance = min(self._left, int(share * self._effort))
        for trial in self._trials.setdefault(capacity, trials(self._orders)):
            found = self._native.search(capacity, trial.rank, trial.weights, trial.nodes, allowance, self._deadline)
            self._nodes += found.nodes
            self._left -= found.work
            allowance -= found.work
            if found.ending is Ending.FOUND:
                self._take(found.offsets)
            if found.ending is Ending.NONE:
                self._bound = capacity + 1
            if found.ending is not Ending.LIMIT:
                return found.ending
            if allowance <= 0 or perf_counter() >= self._deadline:
                break
        return Ending.LIMIT
