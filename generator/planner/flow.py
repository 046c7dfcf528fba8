"""In which order rows are computed: groups of ops that run interleaved, row by row, each row once.

A group is an interval of the given op order. It runs on demand: its last op asks for row after row, and each op
asks its inputs for the rows that it needs (streaming, as in MCUNetV2's patch stage or Vela's cascades, but by rows and
without recomputing any). What a group leaves for later ops is whole; the rest lives for as many rows as are needed.
The best partition into groups is a minimax path over the cut positions, exact for this space.

A streamed input is an op without reads at the front (see Problem): its rows, too, come when somebody asks for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import add

from generator.planner.problem import ALIGNMENT, Problem, Read

_LONGEST = 48  # ops of a group at most; longer ones were never better on any model tried
_NEVER = 1 << 62


@dataclass(frozen=True)
class Event:
    """Row `row` of an op's output is computed; `op` is its place in the problem."""

    op: int
    row: int


@dataclass(frozen=True)
class Tap:
    """What one op reads of one tensor, by output row."""

    tensor: str
    reads: tuple[tuple[int, ...], ...]
    highest: tuple[int, ...]  # the highest row read; -1: none
    releases: tuple[tuple[int, ...], ...]  # rows that no later output row of this op reads
    touched: tuple[bool, ...]  # by row of the tensor: whether the op reads it at all


def rigid(problem: Problem) -> frozenset[str]:
    """Tensors whose rows lie one after the other: inputs, outputs, and those that are seen as another shape."""
    ends = (*problem.inputs, *problem.outputs)
    views = [t for t in problem.tensors if t.view_of is not None]
    return frozenset(map(problem.root, (*ends, *(t.name for t in views))))


def slot_bytes(problem: Problem, tensor: str, stiff: frozenset[str]) -> int:
    """Bytes that one row of a tensor takes: aligned where each row has a place of its own."""
    row_bytes = problem.by_name[tensor].row_bytes
    return row_bytes if tensor in stiff else -(-row_bytes // ALIGNMENT) * ALIGNMENT


def _rows_of_root(problem: Problem, tensor: str, rows: Sequence[int]) -> tuple[int, ...]:
    """The rows of a view's root that hold the bytes of these rows of the view."""
    seen, root = problem.by_name[tensor], problem.by_name[problem.root(tensor)]
    if seen.row_bytes == root.row_bytes:
        return tuple(rows)
    found: dict[int, None] = {}
    for row in rows:
        start, end = row * seen.row_bytes, (row + 1) * seen.row_bytes
        found.update(dict.fromkeys(range(start // root.row_bytes, -(-end // root.row_bytes))))
    return tuple(found)


def _tap(problem: Problem, read: Read) -> Tap:
    root = problem.root(read.tensor)
    reads = tuple(_rows_of_root(problem, read.tensor, rows) for rows in read.rows)
    last_reader = {row: y for y, rows in enumerate(reads) for row in rows}
    releases: list[list[int]] = [[] for _ in reads]
    for row, y in sorted(last_reader.items()):
        releases[y].append(row)
    return Tap(
        root,
        reads,
        tuple(max(rows, default=-1) for rows in reads),
        tuple(map(tuple, releases)),
        tuple(row in last_reader for row in range(problem.by_name[root].rows)),
    )


class _TooHigh(Exception):
    """A run passed its limit."""


class Flow:
    """A problem seen by rows."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        stiff = rigid(problem)
        roots = [t for t in problem.tensors if t.view_of is None]
        self.rows = {t.name: t.rows for t in roots}
        self.slot = {t.name: slot_bytes(problem, t.name, stiff) for t in roots}
        self.writes = tuple(op.writes for op in problem.ops)
        taps = [[_tap(problem, read) for read in op.reads] for op in problem.ops]
        self.taps = tuple(tuple(tap for tap in each if any(tap.touched)) for each in taps)
        self.scratch = tuple(op.scratch_bytes for op in problem.ops)
        self.producer = {name: i for i, name in enumerate(self.writes)}
        self.streamed = bool(problem.streamed)
        inputs = {problem.root(name) for name in problem.inputs}
        self.born = {name: -1 for name in self.rows if name in inputs} | self.producer
        self.last_user = self._last_users({problem.root(name) for name in problem.outputs})

    def _last_users(self, outputs: set[str]) -> dict[str, list[int]]:
        """By row: the last op that reads it, -1 for none, and one beyond all ops for an output."""
        found = {name: [len(self.writes) if name in outputs else -1] * rows for name, rows in self.rows.items()}
        for op, taps in enumerate(self.taps):
            for tap in taps:
                users = found[tap.tensor]
                for row, touched in enumerate(tap.touched):
                    if touched and users[row] < op:
                        users[row] = op
        return found

    def peak(self, start: int, end: int, limit: int = _NEVER) -> int | None:
        """Most bytes alive while ops [start, end) run as one group; None when that is `limit` or more."""
        try:
            return _Run(self, start, end, limit).go()
        except _TooHigh:
            return None

    def events(self, cuts: Sequence[int]) -> list[Event]:
        """The order of rows for groups between neighbouring cuts."""
        events: list[Event] = []
        for start, end in pairwise(cuts):
            run = _Run(self, start, end, _NEVER)
            run.go()
            events += run.events
        return events

    def minimax(self) -> tuple[int, list[int]]:
        """The lowest peak over all partitions into groups, and the cuts that reach it."""
        count = len(self.writes)
        best, before = [0] + [_NEVER] * count, [0] * (count + 1)
        for end in range(1, count + 1):
            for start in range(end - 1, max(-1, end - 1 - _LONGEST), -1):
                if best[start] >= best[end]:
                    continue
                peak = self.peak(start, end, best[end])
                if peak is not None and max(best[start], peak) < best[end]:
                    best[end], before[end] = max(best[start], peak), start
        return best[count], _path(before, count)

    def fewest(self, limit: int) -> list[int] | None:
        """Cuts with no peak above `limit` and as few rows in shared groups as can be; None when there are none."""
        count = len(self.writes)
        cost, before = [0] + [_NEVER] * count, [0] * (count + 1)
        for end in range(1, count + 1):
            for start in range(end - 1, max(-1, end - 1 - _LONGEST), -1):
                shared = self._shared(start, end)
                if cost[start] + shared < cost[end] and self.peak(start, end, limit + 1) is not None:
                    cost[end], before[end] = cost[start] + shared, start
        return _path(before, count) if cost[count] < _NEVER else None

    def _shared(self, start: int, end: int) -> int:
        """Rows computed by turns in a group. A streamed input by itself would be held whole: worse than all else."""
        if end - start == 1:
            return sum(self.rows.values()) if start == 0 and self.streamed else 0
        return sum(self.rows[self.writes[op]] for op in range(start, end))


def _path(before: Sequence[int], end: int) -> list[int]:
    cuts = [end]
    while cuts[-1] > 0:
        cuts.append(before[cuts[-1]])
    return cuts[::-1]


class _Run:
    """One group, run row by row with the bytes alive counted."""

    def __init__(self, flow: Flow, start: int, end: int, limit: int) -> None:
        self._flow, self._start, self._end, self._limit = flow, start, end, limit
        self.events: list[Event] = []
        self._done: dict[str, int] = {}  # rows [0, done) are computed
        self._pending: dict[str, list[int]] = {}  # by row: reads of this group to come, one more if kept for later
        self._bytes = self._peak = 0
        for name, born in flow.born.items():
            if (born < end and max(flow.last_user[name], default=-1) >= start) or start <= born < end:
                self._done[name] = flow.rows[name] if born < start else 0
                self._pending[name] = [int(user >= end) for user in flow.last_user[name]]
        self._pulled: set[str] = set()
        for op in range(start, end):
            for tap in flow.taps[op]:
                self._pulled.add(tap.tensor)
                self._pending[tap.tensor] = list(map(add, self._pending[tap.tensor], tap.touched))
        for name, done in self._done.items():
            self._bytes += flow.slot[name] * sum(map(bool, self._pending[name][:done]))
        self._note(0)

    def go(self) -> int:
        """The peak in bytes; raises _TooHigh at the limit."""
        flow = self._flow
        if flow.streamed and self._start == 0:
            self._emit(0, 0)  # nothing runs before the first row is there
        wanted = [op for op in range(self._end - 1, self._start - 1, -1) if self._asks(flow.writes[op])]
        for op in (*wanted, *range(self._start, self._end)):
            name = flow.writes[op]
            while self._done[name] < flow.rows[name]:
                self._compute(op)
        return self._peak

    def _asks(self, name: str) -> bool:
        """Whether nobody in the group pulls all rows of this output."""
        return name not in self._pulled or max(self._flow.last_user[name]) >= self._end

    def _compute(self, op: int) -> None:
        """The next row of an op, after the rows that it needs (an explicit stack: chains are long)."""
        stack = [op]
        while stack:
            top = stack[-1]
            y = self._done[self._flow.writes[top]]
            missing = next((tap for tap in self._flow.taps[top] if self._done[tap.tensor] <= tap.highest[y]), None)
            if missing is not None:
                stack.append(self._flow.producer[missing.tensor])
                continue
            self._emit(top, y)
            stack.pop()

    def _emit(self, op: int, y: int) -> None:
        flow = self._flow
        name = flow.writes[op]
        self._bytes += flow.slot[name]
        self._note(flow.scratch[op])
        self._done[name] = y + 1
        self.events.append(Event(op, y))
        for tap in flow.taps[op]:
            pending = self._pending[tap.tensor]
            for row in tap.releases[y]:
                pending[row] -= 1
                if not pending[row]:
                    self._bytes -= flow.slot[tap.tensor]
        if not self._pending[name][y]:
            self._bytes -= flow.slot[name]

    def _note(self, extra: int) -> None:
        self._peak = max(self._peak, self._bytes + extra)
        if self._peak >= self._limit:
            raise _TooHigh
