"""Plans by rows: the order of flow.py, lifetimes of single rows, and addresses of place.py."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from time import perf_counter

from generator.plan import Outcome, Plan, Ring, Scratch, Status, Step
from generator.planner.flow import Event, Flow, rigid
from generator.planner.place import Bundle, Piece, load, place
from generator.planner.problem import Problem


@dataclass
class _Life:
    """First and last event that touches a row, both inclusive; inputs are there from -1 on."""

    first: int
    last: int


def _lives(flow: Flow, events: Sequence[Event]) -> dict[str, list[_Life]]:
    """When each row of each tensor that is no view is alive."""
    end = len(events) - 1
    lives = {name: [_Life(-1, -1) for _ in range(rows)] for name, rows in flow.rows.items() if name in flow.born}
    for time, event in enumerate(events):
        lives[flow.writes[event.op]][event.row] = _Life(time, time)
        for tap in flow.taps[event.op]:
            for row in tap.reads[event.row]:
                lives[tap.tensor][row].last = time
    for name in flow.problem.outputs:
        for life in lives[flow.problem.root(name)]:
            life.last = max(end, 0)
    return lives


def _bundles(flow: Flow, events: Sequence[Event]) -> list[Bundle]:
    """A bundle per rigid tensor, one per row of the others, one per scratch."""
    stiff = rigid(flow.problem)
    inputs = {flow.problem.root(name) for name in flow.problem.inputs}
    found: list[Bundle] = []
    for name, rows in _lives(flow, events).items():
        size = flow.slot[name]
        if name in stiff:
            pieces = tuple(Piece(y * size, size, life.first, life.last) for y, life in enumerate(rows))
            found.append(Bundle(name, pieces, sinks=name in inputs))
        else:
            found += [Bundle(f"{name}\n{y}", (Piece(0, size, r.first, r.last),)) for y, r in enumerate(rows)]
    times: dict[int, list[int]] = {}
    for time, event in enumerate(events):
        times.setdefault(event.op, []).append(time)
    for op, used in times.items():
        if size := flow.scratch[op]:
            found.append(Bundle(f"\n{op}", tuple(Piece(0, size, t, t) for t in used)))
    return found


def _steps(flow: Flow, events: Sequence[Event]) -> Iterator[Step]:
    """Neighbouring rows of one op become one step."""
    ops = flow.problem.ops
    start = 0
    for i in range(1, len(events) + 1):
        if i < len(events) and (events[i].op, events[i].row) == (events[i - 1].op, events[i - 1].row + 1):
            continue
        op = ops[events[start].op]
        yield Step(op.name, (events[start].row, events[i - 1].row + 1), (0, op.channels))
        start = i


def _rings(flow: Flow, bases: dict[str, int]) -> Iterator[Ring]:
    """Where each tensor lies; a view lies where its root does."""
    problem = flow.problem
    for spec in problem.tensors:
        root = problem.root(spec.name)
        if root not in flow.born:
            continue
        if root in bases:
            yield Ring(spec.name, bases[root], spec.rows, spec.rows, spec.row_bytes)
            continue
        slots = tuple(bases[f"{root}\n{y}"] for y in range(spec.rows))
        yield Ring(spec.name, slots[0], len(set(slots)), spec.rows, spec.row_bytes, slots)


def plan_rows(flow: Flow, cuts: Sequence[int], bound: int, whole_tensor_bytes: int, started: float) -> Plan:
    """The plan of one partition into groups. `bound` is the lowest of the whole space (Flow.minimax, whole tensors)."""
    events = flow.events(cuts)
    bundles = _bundles(flow, events)
    arena_bytes, bases = place(bundles, load(bundles))
    ops = flow.problem.ops
    steps = tuple(_steps(flow, events))
    return Plan(
        steps=steps,
        rings=tuple(_rings(flow, bases)),
        scratch=tuple(
            Scratch(op.name, bases[f"\n{i}"], op.scratch_bytes) for i, op in enumerate(ops) if op.scratch_bytes
        ),
        arena_bytes=arena_bytes,
        outcome=Outcome(
            status=Status.OPTIMAL if arena_bytes == bound else Status.FEASIBLE,
            bound_bytes=bound,
            whole_tensor_bytes=whole_tensor_bytes,
            peak_step=_step_of(_peak_event(bundles, len(events)), steps),
            solve_seconds=perf_counter() - started,
        ),
    )


def _peak_event(bundles: Sequence[Bundle], events: int) -> int:
    """The event at which most bytes are alive."""
    change = [0] * (max(events, 1) + 1)  # without any event an input that is an output is alive at time 0
    for piece in (p for b in bundles for p in b.pieces):
        change[max(piece.first, 0)] += piece.bytes
        change[piece.last + 1] -= piece.bytes
    loads = list(accumulate(change[:events]))
    return loads.index(max(loads)) if loads else 0


def _step_of(event: int, steps: Sequence[Step]) -> int:
    """The step that an event is part of."""
    ends = list(accumulate(step.rows[1] - step.rows[0] for step in steps))
    return bisect_right(ends, event)


def alive_at(problem: Problem, plan: Plan, step: int) -> list[tuple[str, int]]:
    """Tensors (and scratch) that hold bytes at the fullest moment of a step of `plan`, largest first."""
    flow = Flow(problem)
    index = {op.name: i for i, op in enumerate(problem.ops)}
    events = [Event(index[s.op], y) for s in plan.steps for y in range(*s.rows)]
    if not events:
        return [(t.name, t.bytes) for t in problem.tensors]
    ends = list(accumulate(s.rows[1] - s.rows[0] for s in plan.steps))
    during = range(ends[step - 1] if step else 0, ends[step])
    pieces = [(b.name.partition("\n")[0] or "scratch", p) for b in _bundles(flow, events) for p in b.pieces]

    def held(time: int) -> dict[str, int]:
        found: dict[str, int] = {}
        for name, piece in pieces:
            if piece.first <= time <= piece.last:
                found[name] = found.get(name, 0) + piece.bytes
        return found

    fullest = max((held(time) for time in during), key=lambda found: sum(found.values()))
    return sorted(fullest.items(), key=lambda item: (-item[1], item[0]))


def by_rows(problem: Problem, whole: Plan, capacity: int | None) -> Plan:
    """The smallest plan by rows, or with a capacity the one that shares fewest rows among those found that fit.

    `whole` is the plan of whole tensors: it is the answer where nothing lower is found.
    """
    started = perf_counter()
    flow = Flow(problem)
    lowest, cuts = flow.minimax()
    bound = min(lowest, whole.outcome.bound_bytes)  # scattered rows are padded to whole words, whole tensors are not
    spare = (0.0, 0.02, 0.05, 0.1, 0.2) if capacity is not None and lowest <= capacity else ()
    for part in spare:  # rows may not pack to the last byte, so ask for less and less
        limit = max(lowest, int((capacity or 0) * (1 - part)))
        plan = plan_rows(flow, flow.fewest(limit) or cuts, bound, whole.arena_bytes, started)
        if plan.arena_bytes <= (capacity or 0):
            return plan
    plan = plan_rows(flow, cuts, bound, whole.arena_bytes, started)
    if plan.arena_bytes <= whole.arena_bytes:
        return plan
    return replace(whole, outcome=replace(whole.outcome, status=Status.FEASIBLE, bound_bytes=bound))
