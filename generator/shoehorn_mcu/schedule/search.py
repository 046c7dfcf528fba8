"""From ops with kernels to a plan: the problem lowered, planned, and the graph cut where the plan says so."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.ir import Graph
from shoehorn_mcu.planner import (
    DoesNotFit,
    Goal,
    Problem,
    Weighing,
    checked,
    divided,
    lowest_peak,
    make_plan,
    rigid,
    spread,
)
from shoehorn_mcu.planner.memory_plan import SRAM, Memory, Plan, Status
from shoehorn_mcu.schedule.cuts import Cuts
from shoehorn_mcu.schedule.lower import lower
from shoehorn_mcu.schedule.predict import recomputes, time, waits
from shoehorn_mcu.schedule.runs import joined
from shoehorn_mcu.schedule.stage import Stage
from shoehorn_mcu.schedule.upgrade import Limits, missing_scratch, upgraded, without_needless

_SHARES = (1.0, 0.97, 0.9, 0.8, 0.65, 0.5)  # of several memories: what is left is for losses where they are divided
_WORTH_BYTES = 0.002  # of an arena: what the lowest peak with other kernels must save
_WORTH_PERCENT = 1.0  # of the predicted time: what a plan must save that uses one memory more, or divides a tensor


@dataclass(frozen=True)
class PlanRequest:
    """Goal and limits of a plan."""

    goal: Goal = Goal.TIME
    capacity_bytes: int | None = None  # of the arena; None: as much as it takes
    stream_input: bool = False  # the input arrives row by row
    most_macs: int | None = 0  # that may be recomputed; None: as many as the capacity needs
    weigh_smaller: bool = False  # a plan for time reports the cost of the next smaller one
    prefer_smaller: bool = False  # and is replaced by it if that costs almost nothing
    cores: int = 1  # that may share the rows of a step; for several no smaller plan is weighed: its steps have few rows
    memories: tuple[Memory, ...] = ()  # several, in place of the one of `capacity_bytes`
    stream_output: bool = False  # the output is handed out row by row
    brief: bool = False  # a quicker search, as make_plan says


@dataclass(frozen=True, eq=False)
class Scheduled:
    """A plan, and the graph and the stages that it is for."""

    graph: Graph
    stages: tuple[Stage, ...]
    plan: Plan


def schedule(cuts: Cuts, request: PlanRequest, say: Callable[[str], None] = lambda _: None) -> Scheduled:
    """The plan of a graph with the kernels of `cuts`; its blocks are cut into chunks of channels as the plan says.

    With several cores the rows of its steps are divided among them. Kernels that need scratch replace slower ones where
    the plan has room for it (upgrade.py), and rows that lie side by side become one (runs.py). The plan is checked
    against the graph as it is emitted. Of several memories as many are used as make the plan faster or possible at all.
    Raises DoesNotFit where no plan is within the capacity, PlanFault where the check rejects the plan.
    """
    if not request.memories:
        return _scheduled(cuts, request, (), say)
    best: Scheduled | None = None
    refusal: DoesNotFit | None = None
    memories = sorted(request.memories, key=lambda memory: memory.cycles)  # the first named of equal ones first
    for count in range(1, len(memories) + 1):
        try:
            made = _within(cuts, request, memories[:count], say)
        except DoesNotFit as error:
            refusal = error
            continue
        best = _faster(best, made) if best else made
        whole = best.plan.outcome.whole_tensor_bytes <= sum(memory.bytes for memory in memories[:count])
        least = sum(stage.row_cost * stage.node.output.type.rows for stage in cuts.stages)  # each row once, no steps
        close = time(best.plan, best.stages) * (1 - _WORTH_PERCENT / 100) <= least
        if whole or close or request.goal is Goal.SRAM:
            break
    if best is None:
        assert refusal is not None
        raise refusal
    return best


def _within(
    cuts: Cuts,
    request: PlanRequest,
    memories: Sequence[Memory],
    say: Callable[[str], None],
) -> Scheduled:
    """The plan in these memories: one for an arena as large as all of them, or less where it cannot be divided.

    One with rows of a tensor in several memories is taken where it is faster, or the only one.
    """
    total = sum(memory.bytes for memory in memories)
    if [memory.name for memory in memories] == [SRAM] and not memories[0].cycles:
        return _scheduled(cuts, replace(request, capacity_bytes=total), (), say)
    refused: _Undivided | None = None  # the last one
    by_rows: Scheduled | None = None  # the fastest one
    for share in _SHARES if len(memories) > 1 else _SHARES[:1]:
        try:
            made = _scheduled(cuts, replace(request, capacity_bytes=int(total * share)), memories, say)
        except _Undivided as error:
            refused, by_rows = error, _faster(by_rows, error.by_rows) if by_rows else error.by_rows
        except DoesNotFit:
            if refused is None:
                raise
            break
        else:
            made = _less_waiting(cuts, request, memories, say, made)
            return made if request.goal is Goal.SRAM else _faster(made, by_rows)
    assert refused is not None
    if by_rows is not None:
        return _less_waiting(cuts, request, memories, say, by_rows)
    raise DoesNotFit(_undivided(refused, memories), refused.plan.arena_bytes, total)


def _faster(known: Scheduled, other: Scheduled | None) -> Scheduled:
    """The plan that is known, or another one that saves enough time."""
    return other if other and _time(other) < _time(known) * (1 - _WORTH_PERCENT / 100) else known


def _less_waiting(
    cuts: Cuts,
    request: PlanRequest,
    memories: Sequence[Memory],
    say: Callable[[str], None],
    made: Scheduled,
) -> Scheduled:
    """The plan, or if it waits long for slow memories a smaller one, more of it in fast ones, where that is faster."""
    if request.goal is Goal.SRAM or not _waits_long(made):
        return made
    total = sum(memory.bytes for memory in memories)
    try:
        low = _scheduled(cuts, replace(request, goal=Goal.SRAM, capacity_bytes=total), memories, say)
    except _Undivided as error:
        return _faster(made, error.by_rows)
    except DoesNotFit:
        return made
    return min(made, low, key=_time)


class _Undivided(ShoehornError):
    """No way was found to divide the arena of a plan among the memories, each tensor in one of them.

    `by_rows` is the plan with rows of a tensor in several, if one was found; the tensors of `whole` cannot be divided.
    """

    def __init__(self, plan: Plan, whole: Collection[str], by_rows: Scheduled | None) -> None:
        super().__init__(f"an arena of {plan.arena_bytes:,} bytes cannot be divided")
        self.plan, self.whole, self.by_rows = plan, whole, by_rows


def _undivided(refused: _Undivided, memories: Sequence[Memory]) -> str:
    """Why a plan has no place: the largest tensor that is in one piece, if no memory holds it."""
    listed = ", ".join(f"{memory.name} {memory.bytes:,}" for memory in memories)
    pieces = (p for p in refused.plan.placements if p.tensor in refused.whole)
    whole = max(pieces, key=lambda p: p.bytes, default=None)
    if whole is not None and whole.bytes > max(memory.bytes for memory in memories):
        return f"'{whole.tensor}' has {whole.bytes:,} bytes in one piece, the memories are {listed}"
    return f"an arena of {refused.plan.arena_bytes:,} bytes was divided in no way among the memories {listed}"


def _scheduled(
    cuts: Cuts,
    request: PlanRequest,
    memories: Sequence[Memory],
    say: Callable[[str], None],
) -> Scheduled:
    """A plan for one arena of the request's capacity, divided among `memories` if there are any; else _Undivided.

    Where that is smaller, or faster because fewer rows are recomputed, it is of another form of the graph: rows lie
    nearer to those that they are computed from than the fastest kernels can write them, or pieces are copied.
    """
    if request.goal is Goal.SRAM:
        return _smallest(cuts, request, memories, say)
    try:
        made = _with_kernels(cuts, request, memories, say)
    except DoesNotFit as error:
        least = error
        for smaller in _smaller_within(cuts, request, error.needed_bytes - 1):
            try:
                return _with_kernels(smaller, request, memories, say)
            except DoesNotFit as other:
                least = min(least, other, key=lambda each: each.needed_bytes)
        raise least from None
    made = _with_scratch(cuts, request, memories, say, made)
    if made.plan.outcome.interrupted or not (made.plan.cascades or recomputes(made.plan, made.stages)):
        return made
    for smaller in _smaller_within(cuts, request, request.capacity_bytes)[:1]:
        with suppress(DoesNotFit, _Undivided):
            return min(made, _with_kernels(smaller, request, memories, say), key=_time)
    return made


def _smallest(
    cuts: Cuts,
    request: PlanRequest,
    memories: Sequence[Memory],
    say: Callable[[str], None],
) -> Scheduled:
    """The smallest of the plans of the graph and of its other forms.

    Those whose plans by rows have the lower peak are searched first, of equal ones the graph itself; the others only
    where their peak is by 0.2 % below the arena found. The peak is that of groups of rows; other orders need less for
    some forms and not for others. So pieces are copied, too, unless the arena found is proven minimal, and with
    streamed rows unless it is below the peak. Samples of pixels save bytes only in such orders: they are tried first,
    and the graph itself is chosen where they save nothing.
    """
    tried = [(lowest_peak(_uncut(each, request)), each) for each in (cuts, *cuts.smaller)]
    lowest = min(peak for peak, _ in tried)
    best: Scheduled | None = None
    refusal: DoesNotFit | _Undivided | None = None
    bound: int | None = None
    for peak, each in sorted(tried, key=lambda pair: (pair[1] is not cuts.sampling, pair[0])):
        if best is not None:
            found = best.plan.total_bytes
            least = best.plan.outcome.status is Status.OPTIMAL and (found < lowest or not request.stream_input)
            lower, copied = peak < found * (1 - _WORTH_BYTES), each is cuts.copying and not least
            equal = each is cuts and cuts.sampling is not None and peak <= found
            if best.plan.outcome.interrupted or not (lower or copied or equal):
                continue
        try:
            made = _with_kernels(each, request, memories, say, known=best)
        except (DoesNotFit, _Undivided) as error:
            refusal = refusal or error
            continue
        bound = min(made.plan.outcome.bound_bytes, bound or made.plan.outcome.bound_bytes)
        best = made if best is None else min(best, made, key=lambda each: (each.plan.total_bytes, _time(each)))
    if best is None or bound is None:
        assert refusal is not None
        raise refusal
    return _bounded(best, bound)


def _with_scratch(
    cuts: Cuts,
    request: PlanRequest,
    memories: Sequence[Memory],
    say: Callable[[str], None],
    made: Scheduled,
) -> Scheduled:
    """The plan, or one in which more ops have faster kernels that need scratch, where that is faster.

    Its rows do not overlap those of their windows, which few such kernels can write, or it leaves bytes for scratch.
    """
    capacity, best, left = request.capacity_bytes, made, 0
    if capacity is None or made.plan.outcome.interrupted or not missing_scratch(made.stages, made.plan):
        return made
    peak = lowest_peak(_uncut(cuts, request).rows_apart)
    while peak <= capacity - left:
        try:
            other = _with_kernels(cuts, request, memories, say, left)
        except (DoesNotFit, _Undivided):
            break
        best = min(best, other, key=_time)
        before, left = left, missing_scratch(other.stages, other.plan)
        if left <= before:
            break
    bound = min(best.plan.outcome.bound_bytes, made.plan.outcome.bound_bytes)
    status = best.plan.outcome.status if best.plan.arena_bytes == bound else Status.FEASIBLE
    outcome = replace(best.plan.outcome, bound_bytes=bound, status=status)
    return best if best is made else replace(best, plan=replace(best.plan, outcome=outcome))


def _time(made: Scheduled) -> float:
    return time(made.plan, made.stages)


def _waits_long(made: Scheduled) -> bool:
    """Whether less waiting for the memories may save enough time."""
    return waits(made.plan, made.stages) * 100 >= _WORTH_PERCENT * _time(made)


def _smaller_within(cuts: Cuts, request: PlanRequest, most_bytes: int | None) -> list[Cuts]:
    """The other forms of the graph that may have a plan of so many bytes, those with the lowest peak by rows first."""
    if most_bytes is None:
        return []
    peaks = [(lowest_peak(_uncut(each, request)), each) for each in cuts.smaller]
    ordered = sorted(peaks, key=lambda pair: pair[0])
    return [each for peak, each in ordered if peak <= most_bytes or each in (cuts.copying, cuts.sampling)]


def _uncut(cuts: Cuts, request: PlanRequest) -> Problem:
    """The problem of these kernels without blocks and without a capacity."""
    return lower(cuts.graph, cuts.stages, None, request.stream_input, None, request.stream_output)


def _bounded(made: Scheduled, bound: int) -> Scheduled:
    """The plan; no longer proven minimal if other kernels have a lower bound."""
    outcome = made.plan.outcome
    if bound >= outcome.bound_bytes:
        return made
    changed = replace(outcome, bound_bytes=bound, status=Status.FEASIBLE, reason="search finished")
    return replace(made, plan=replace(made.plan, outcome=changed))


def _with_kernels(
    cuts: Cuts,
    request: PlanRequest,
    memories: Sequence[Memory],
    say: Callable[[str], None],
    left: int | None = None,
    known: Scheduled | None = None,
) -> Scheduled:
    """The plan of the rows that the kernels of the uncut stages compute.

    With `left` no row overlaps those of its window, and so many bytes of the capacity are for scratch alone. The
    smallest plan is searched as far as it may be as small as the known one.
    """

    def price(plan: Plan) -> float:
        """The predicted time of a plan without cuts."""
        long, run = joined(replace(problem, blocks=()), stages, plan)
        return time(run, long)

    graph, stages = cuts.graph, cuts.stages

    def lowered(graph: Graph, stages: Sequence[Stage], cuts: Cuts | None = None) -> Problem:
        found = lower(graph, stages, request.capacity_bytes, request.stream_input, cuts, request.stream_output)
        return found if left is None else found.rows_apart

    problem = lowered(graph, stages, cuts)
    weighing = None
    if request.weigh_smaller and request.cores == 1:
        weighing = Weighing(price, request.prefer_smaller)

    limited = problem
    if left and request.capacity_bytes is not None:
        limited = replace(problem, capacity_bytes=request.capacity_bytes - left)
    alone = len(memories) < 2
    plan = make_plan(
        limited,
        request.goal,
        request.most_macs,
        say,
        weighing,
        request.brief,
        unchecked=True,
        keep_rows=alone,
        below=known.plan.total_bytes + 1 if known else None,
    )
    cut, parts = cuts.chosen(plan.cascades)
    made = replace(problem, blocks=()) if cut is graph else lowered(cut, parts)
    flash_left = stages[0].machine.flash_left if stages else None

    def finished(made: Problem, plan: Plan, arenas: Mapping[str, int | None]) -> Scheduled:
        """The plan with cores, faster kernels and runs of rows, checked."""
        shared = divided(made, plan, request.cores) if request.cores > 1 else plan
        needed = without_needless(made, parts, shared)
        faster, larger = upgraded(made, needed, shared, Limits(arenas, flash_left))
        final = lowered(cut, faster) if (*faster,) != (*parts,) or larger is not plan else made
        final = _in_memories(final, memories) if memories else final
        long, run = joined(final, faster, larger)
        return Scheduled(cut, long, checked(final, run))

    if not memories:
        most = plan.arena_bytes if request.goal is Goal.SRAM else request.capacity_bytes
        return finished(made, plan, {SRAM: most})
    say("memories")

    def in_memories(by_rows: bool) -> Scheduled | None:
        """The plan in the memories, with each tensor in one, or each row."""
        found = spread(made, plan, memories, by_rows)
        if found is None:
            return None
        return finished(_in_memories(made, memories), found, {each.name: each.bytes for each in memories})

    by_tensors = in_memories(by_rows=False)
    if by_tensors is None:
        raise _Undivided(plan, rigid(made), in_memories(by_rows=True))
    if not _waits_long(by_tensors):
        return by_tensors
    by_rows = in_memories(by_rows=True)
    if by_rows and request.goal is Goal.SRAM and by_rows.plan.total_bytes > by_tensors.plan.total_bytes:
        return by_tensors
    return _faster(by_tensors, by_rows)


def _in_memories(problem: Problem, memories: Sequence[Memory]) -> Problem:
    """The problem with these memories in place of its one."""
    room = {memory.name: memory.bytes for memory in memories}
    return replace(problem, capacity_bytes=room.pop(SRAM, 0), others=tuple(room.items()))
