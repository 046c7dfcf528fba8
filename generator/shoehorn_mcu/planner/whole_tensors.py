"""Plans of whole tensors, one step per op in the given order: live ranges, and addresses by best fit in some orders.

Of sums over rows, each written over those of the row before, one row is held.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter

from shoehorn_mcu.planner.effort import WHOLE
from shoehorn_mcu.planner.live_ranges import live_ranges
from shoehorn_mcu.planner.memory_plan import Outcome, Placement, Plan, Scratch, Status, Step
from shoehorn_mcu.planner.problem import Problem, aligned


@dataclass(frozen=True)
class LiveBuffer:
    """Bytes alive from step `first` to step `last`, both inclusive."""

    name: str  # of the tensor, or of the op for scratch
    scratch: bool
    first: int
    last: int
    bytes: int  # rounded up to the alignment


def live_buffers(problem: Problem) -> list[LiveBuffer]:
    """One buffer per tensor that is no view and is not written onto another (reads of such ones extend its live range),
    and one per scratch.
    """
    root = partial(_buffer, problem)
    ranges = live_ranges(
        ((root(read.tensor) for read in op.reads if read.tensor != op.writes) for op in problem.ops),
        (() if op.writes in problem.begun_as else (root(op.writes),) for op in problem.ops),
        dict.fromkeys(map(root, problem.inputs)),
        map(root, problem.kept),
    )
    single = single_rows(problem)
    number = {name: copy for copy, name in enumerate(ranges.values)}
    buffers = [
        LiveBuffer(t.name, False, *ranges.during(number[t.name]), aligned(t.row_bytes if t.name in single else t.bytes))
        for t in problem.tensors
        if t.name in number and t.over is None and t.bytes
    ]
    buffers += [
        LiveBuffer(op.name, True, step, step, aligned(op.scratch_bytes))
        for step, op in enumerate(problem.ops)
        if op.scratch_bytes
    ]
    return buffers


def _buffer(problem: Problem, tensor: str) -> str:
    """The tensor whose bytes these are, where what is written onto another is in its place."""
    tensor = problem.root(tensor)
    while tensor in problem.begun_as:
        tensor = problem.begun_as[tensor]
    return tensor


def single_rows(problem: Problem) -> frozenset[str]:
    """The tensors whose rows are each written over the one before, and of which other ops read the last one only."""
    found = {op.writes for op in problem.ops if op.in_place == op.writes} - {problem.root(n) for n in problem.outputs}
    found -= {t.view_of for t in problem.tensors}
    for op in problem.ops:
        for read in op.reads:
            last = (problem.by_name[read.tensor].rows - 1,)
            own = read.tensor == op.writes
            if any(rows != last and not (own and rows in ((), (y - 1,))) for y, rows in enumerate(read.rows)):
                found.discard(read.tensor)
    return frozenset(found)


def alive(buffers: Sequence[LiveBuffer], step: int) -> list[LiveBuffer]:
    """The buffers alive during `step`, largest first."""
    return sorted((b for b in buffers if b.first <= step <= b.last), key=lambda b: (-b.bytes, b.name))


def _gap(buffer: LiveBuffer, near: list[tuple[int, int]], best: bool) -> int:
    """The address of a gap between sorted ranges `near` (start, end): the tightest gap if `best`, else the lowest."""
    at, waste, cursor = -1, 0, 0
    for start, end in near:
        room = start - cursor
        if room >= buffer.bytes and (at < 0 or (best and room < waste)):
            at, waste = cursor, room
        cursor = max(cursor, end)
    return cursor if at < 0 else at


def _place(order: Sequence[LiveBuffer], best: bool) -> tuple[int, dict[LiveBuffer, int]]:
    """The arena in bytes and the address of each buffer, placed in this order."""
    placed: dict[LiveBuffer, int] = {}
    for buffer in order:
        near = sorted(
            (at, at + other.bytes)
            for other, at in placed.items()
            if other.first <= buffer.last and buffer.first <= other.last
        )
        placed[buffer] = _gap(buffer, near, best)
    return max((at + b.bytes for b, at in placed.items()), default=0), placed


def _orders(buffers: Sequence[LiveBuffer], bound: int) -> Iterator[list[LiveBuffer]]:
    """Placement orders to try: some by rule, then random swaps (fixed seed) in the largest-first order."""
    by_size = sorted(buffers, key=lambda b: (-b.bytes, b.first, b.name))
    yield by_size
    yield sorted(buffers, key=lambda b: (-b.bytes * (b.last - b.first + 1), b.first, b.name))
    yield sorted(buffers, key=lambda b: (b.first - b.last, -b.bytes, b.name))
    yield sorted(buffers, key=lambda b: (b.first, -b.bytes, b.name))
    yield sorted(buffers, key=lambda b: (-b.last, -b.bytes, b.name))
    heavy = [
        s
        for s in range(max((b.last for b in buffers), default=0) + 1)
        if sum(b.bytes for b in alive(buffers, s)) == bound
    ]
    at_peak = {b for s in heavy for b in alive(buffers, s)}
    yield sorted(buffers, key=lambda b: (b not in at_peak, -b.bytes, b.first, b.name))
    chance = random.Random(0)
    for _ in range(min(WHOLE.TRIES, WHOLE.WORK // max(1, len(buffers) ** 2))):
        order = list(by_size)
        for _ in range(1 + len(order) // 8):
            i, j = chance.randrange(len(order)), chance.randrange(len(order))
            order[i], order[j] = order[j], order[i]
        yield order


def _addresses(buffers: Sequence[LiveBuffer], bound: int) -> tuple[int, dict[LiveBuffer, int]]:
    """The smallest arena of the tried orders and its addresses; stops when the lower bound is reached."""
    lowest: tuple[int, dict[LiveBuffer, int]] | None = None
    for order in _orders(buffers, bound):
        for best in (True, False):
            tried = _place(order, best)
            if lowest is None or tried[0] < lowest[0]:
                lowest = tried
            if lowest[0] == bound:
                return lowest
    assert lowest is not None
    return lowest


def solve(problem: Problem) -> Plan:
    """A plan of whole tensors; it may exceed the capacity, which the caller checks."""
    started = perf_counter()
    buffers = live_buffers(problem)
    loads = [sum(b.bytes for b in alive(buffers, s)) for s in range(max(1, len(problem.ops)))]
    bound = max(loads)
    arena_bytes, placed = _addresses(buffers, bound)
    tensors = {b.name: at for b, at in placed.items() if not b.scratch}
    scratch = {b.name: at for b, at in placed.items() if b.scratch}
    specs, single = problem.by_name, single_rows(problem)
    return Plan(
        steps=tuple(Step(op.name, (0, specs[op.writes].rows)) for op in problem.ops),
        placements=tuple(
            Placement(t.name, at, t.rows, t.row_bytes, (at,) * t.rows if t.name in single else ())
            for t, at in ((t, tensors.get(problem.place(_buffer(problem, t.name)))) for t in problem.tensors)
            if at is not None and t.bytes
        ),
        scratch=tuple(Scratch(op.name, scratch[op.name], op.scratch_bytes) for op in problem.ops if op.scratch_bytes),
        arena_bytes=arena_bytes,
        outcome=Outcome(
            status=Status.OPTIMAL if arena_bytes == bound else Status.FEASIBLE,
            bound_bytes=bound,
            whole_tensor_bytes=arena_bytes,
            solve_seconds=perf_counter() - started,
        ),
    )
