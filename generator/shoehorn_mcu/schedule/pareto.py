"""Arena against predicted time: plans for budgets from whole tensors down to arenas that recompute rows.

How time is predicted: predict.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from shoehorn_mcu.planner import DoesNotFit, Goal
from shoehorn_mcu.schedule import predict
from shoehorn_mcu.schedule.cuts import Cuts
from shoehorn_mcu.schedule.request import PlanRequest, Scheduled
from shoehorn_mcu.schedule.search import schedule

ABOVE = 5  # budgets from the smallest arena without recomputation up to whole tensors
BELOW = 4  # budgets from there down to the smallest arena with recomputation
BUDGETS = ABOVE + BELOW
CLOSE = 1.01  # the ratio of two arenas, or of two times, that are as good as equal
MOST_RECOMPUTED = 0.25  # of the MACs


@dataclass(frozen=True)
class Ends:
    """Which ends of a model are streamed: the input arrives by rows, the output is handed out by rows."""

    input: bool
    output: bool


@dataclass(frozen=True)
class Point:
    """One plan of the curve."""

    arena_bytes: int
    steps: int
    macs: int  # recomputed ones included
    recomputed_macs: int
    predicted_instructions: int
    predicted_cycles: int | None = None  # None: they are not predicted on this core

    @property
    def time(self) -> int:
        """What plans are compared by: cycles where they are predicted."""
        return self.predicted_cycles or self.predicted_instructions


def predicted(made: Scheduled) -> Point:
    """Predicted instructions and cycles of one inference; a row counts each time that it is computed."""
    plan, stages = made.plan, made.stages
    rows, _ = predict.rows_and_steps(plan)
    macs = sum(s.macs * rows[s.name] // s.node.output.type.rows for s in stages)
    recomputed = macs - sum(s.macs for s in stages)
    counted = predict.instructions(plan, stages), predict.cycles(plan, stages)
    return Point(plan.total_bytes, len(plan.steps), macs, recomputed, *counted)


def curve(cuts: Cuts, ends: Ends, say: Callable[[str], None], cores: int = 1) -> tuple[tuple[Point, ...], bool]:
    """The Pareto-optimal plans of those tried, smallest arena first.

    Their steps are shared by up to `cores` cores.

    Also whether the curve is complete: after Ctrl-C it has the plans made until then. `say` gets a line
    before each plan is made.
    """
    found: set[Point] = set()
    try:
        for made in _plans(cuts, ends, say, cores):
            found.add(predicted(made))
            if made.plan.outcome.interrupted:
                return _undominated(found), False
    except KeyboardInterrupt:
        return _undominated(found), False
    return _undominated(found), True


def offers_choice(points: Sequence[Point]) -> bool:
    """Whether the slowest of these plans takes noticeably longer than the fastest."""
    times = [point.time for point in points]
    return max(times, default=0) > CLOSE * min(times, default=0)


def smallest_within(cuts: Cuts, request: PlanRequest, percent: float, say: Callable[[str], None]) -> Scheduled:
    """The plan with the smallest arena whose predicted time is at most so much above that of the fastest plan.

    `request` is one for time; its limits hold. Budgets between the smallest arena and that of the best plan so far are
    tried, each the geometric mean of both, until no arena that is CLOSE times smaller can be left, as far as a larger
    budget gives no slower plan. Raises DoesNotFit as `schedule`.
    """
    request = replace(request, prefer_smaller=False)
    best = schedule(cuts, request, say)
    limit = predicted(best).time * (1 + percent / 100)
    least = schedule(cuts, replace(request, goal=Goal.SRAM), say)
    low = least.plan.arena_bytes - 1  # below which no plan is fast enough
    if predicted(least).time <= limit:
        best = least
    while best.plan.arena_bytes > CLOSE * (low + 1):
        budget = min(max(low + 1, round((low * best.plan.arena_bytes) ** 0.5)), best.plan.arena_bytes - 1)
        say(f"a plan within {budget:,} bytes")
        within = replace(request, capacity_bytes=budget, weigh_smaller=False)
        with suppress(DoesNotFit):
            if predicted(tried := schedule(cuts, within, say)).time <= limit:
                best = tried
                continue
        low = budget
    return best


def _plans(cuts: Cuts, ends: Ends, say: Callable[[str], None], cores: int) -> Iterator[Scheduled]:
    """The smallest arenas, then the fastest plan within each budget."""

    def made(goal: Goal, capacity_bytes: int | None, most_macs: int = 0) -> Scheduled:
        request = PlanRequest(goal, capacity_bytes, ends.input, most_macs, cores=cores, stream_output=ends.output)
        return schedule(cuts, replace(request, brief=True))

    say("the smallest arena")
    once = made(Goal.SRAM, None)
    yield once
    say("the smallest arena with recomputed MACs")
    most_macs = int(cuts.graph.macs * MOST_RECOMPUTED)
    recomputing = made(Goal.SRAM, None, most_macs)
    yield recomputing
    least, low, high = recomputing.plan.arena_bytes, once.plan.arena_bytes, once.plan.outcome.whole_tensor_bytes
    budgets = [*_between(least, low, BELOW), low, *_between(low, high, ABOVE - 2), high]
    for i, budget in enumerate(dict.fromkeys(budgets)):
        say(f"plan {i + 1} of {len(budgets)}, within {budget:,} bytes")
        with suppress(DoesNotFit):  # no plan fits this budget, and a smaller plan is on the curve already
            yield made(Goal.TIME, budget, most_macs)


def _between(low: int, high: int, count: int) -> list[int]:
    """`count` budgets between these, in geometric progression."""
    return [round(low * (high / low) ** (i / (count + 1))) for i in range(1, count + 1)] if low < high else []


def _undominated(found: set[Point]) -> tuple[Point, ...]:
    kept: list[Point] = []
    for p in sorted(found, key=lambda p: (p.arena_bytes, p.time, p.steps)):
        if not kept or p.time < kept[-1].time:
            kept.append(p)
    return tuple(kept)
