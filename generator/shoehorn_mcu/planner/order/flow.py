"""In which order rows are computed: groups of ops that run interleaved, row by row, each row once.

A group is an interval of the given op order. It runs on demand: its last op requests row after row, and each op
requests from its inputs the rows that it needs (streaming, as in MCUNetV2's patch stage or Vela's cascades, but by rows
and without recomputing any). Tensors that later groups read are whole; of others only the rows still needed are kept.
The best partition into groups is a minimax path over the cut positions (partition/search.py), exact for this space.

A streamed input is an op without reads at the front (see Problem): its rows, too, arrive on demand.
A composite (blocks/cascade.py) computes a whole block of ops; a group may contain it instead of these ops.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, chain
from typing import Any, NamedTuple

from shoehorn_mcu.planner.live_ranges import LiveRanges, Row, live_ranges, rows_of_root
from shoehorn_mcu.planner.memory_plan import Step
from shoehorn_mcu.planner.problem import ALIGNMENT, OpSpec, Problem, Read, aligned
from shoehorn_mcu_host.base import cbuild

_library = cbuild.library(__file__, "shoehorn_flow", "flow.h", "flow.c")
_NO_LIMIT = 1 << 62
_Rows = tuple[tuple[int, ...], ...]  # by output row
_REMEMBERED = 8  # orders of all ops with their live ranges, and groups of ops with the rows around them


class Event(NamedTuple):
    """Rows [row, row + rows) of an op's output are computed; `op` is its index among the flow's ops."""

    op: int
    row: int
    rows: int = 1

    @property
    def end(self) -> int:
        return self.row + self.rows


@dataclass(frozen=True)
class Runner:
    """What runs in a group: an op of the problem, or a composite of several."""

    spec: OpSpec
    band: int = 1  # rows computed at a time
    frames: tuple[int, ...] = ()  # by band: its scratch in bytes; empty: the op's


@dataclass(frozen=True)
class Tap:
    """What one op reads of one tensor, by output row."""

    tensor: str
    reads: tuple[tuple[int, ...], ...]
    highest: tuple[int, ...]  # the highest row read; -1: none
    releases: tuple[tuple[int, ...], ...]  # rows that no later output row of this op reads
    touched: tuple[int, ...]  # rows that the op reads at all


def rigid(problem: Problem) -> frozenset[str]:
    """Tensors with contiguous rows: inputs, outputs, and those that views show with other rows."""
    ends = (*problem.inputs, *problem.kept)
    views = [t.name for t in problem.tensors if not problem.has_rows_of_root(t.name)]
    return frozenset(map(problem.root, (*ends, *views)))


def slot_bytes(problem: Problem, tensor: str, stiff: frozenset[str]) -> int:
    """Bytes that one row of a tensor takes: aligned where each row has an address of its own, none over another."""
    if problem.by_name[tensor].over is not None:
        return 0
    row_bytes = problem.by_name[tensor].row_bytes
    return row_bytes if tensor in stiff else aligned(row_bytes)


def tap(problem: Problem, read: Read) -> Tap:
    """A read, seen from the tensor whose bytes are read."""
    seen, root = problem.by_name[read.tensor], problem.by_name[problem.root(read.tensor)]
    return Tap(root.name, *_seen(read.rows, seen.row_bytes, root.row_bytes))


@lru_cache(maxsize=4096)  # a model is planned many times, and other models have layers of the same shape
def _seen(rows: _Rows, row_bytes: int, root_row_bytes: int) -> tuple[_Rows, tuple[int, ...], _Rows, tuple[int, ...]]:
    """What a Tap has besides its tensor, for reads of rows of so many bytes."""
    reads = tuple(rows_of_root(each, row_bytes, root_row_bytes) for each in rows)
    last_reader = {row: y for y, each in enumerate(reads) for row in each}
    releases: list[list[int]] = [[] for _ in reads]
    for row, y in sorted(last_reader.items()):
        releases[y].append(row)
    latest = tuple(max(each, default=-1) for each in reads)
    return reads, latest, tuple(map(tuple, releases)), tuple(sorted(last_reader))


def once(problem: Problem) -> Iterator[int]:
    """The ops that carry on from their own rows, that write over other tensors or read those, and the delivery."""
    over = {t.name: t.over for t in problem.tensors if t.over is not None}
    for number, op in enumerate(problem.ops):
        read = {problem.root(each.tensor) for each in op.reads}
        if op.writes in read or op.writes in over or read & {*over.values()} or (number == 0 and problem.streamed):
            yield number


def single_events(problem: Problem, steps: Iterable[Step]) -> list[Event]:
    """The steps of a plan as events of one row each; the ops are those of the problem."""
    index = {op.name: i for i, op in enumerate(problem.ops)}
    return [Event(index[step.op], y) for step in steps for y in range(*step.rows)]


class Flow:
    """A problem seen by rows. Ops are numbered as in the problem, the composites behind them."""

    def __init__(self, problem: Problem, composites: Sequence[Runner] = ()) -> None:
        self.problem = problem
        self._stiff = rigid(problem)
        roots = [t for t in problem.tensors if t.view_of is None]
        self.rows = {t.name: t.rows for t in roots}
        self.slot = {t.name: slot_bytes(problem, t.name, self._stiff) for t in roots}
        self.runners = (*map(Runner, problem.ops), *composites)
        taps = [[tap(problem, read) for read in runner.spec.reads] for runner in self.runners]
        self.taps = tuple(tuple(t for t in each if t.touched) for each in taps)
        self.writes = tuple(runner.spec.writes for runner in self.runners)
        self.scratch = tuple(runner.spec.scratch_bytes for runner in self.runners)
        self.in_place = tuple(self._overwritten(op) for op in range(len(self.runners)))
        self.count = len(problem.ops)
        self.streamed = bool(problem.streamed)
        self.once = frozenset(once(problem))  # ops whose rows are never recomputed
        inputs = {problem.root(name) for name in problem.inputs}
        written = {op.writes: i for i, op in enumerate(problem.ops)}
        self.born = {name: -1 for name in self.rows if name in inputs} | written
        self.last_user = self._last_users({problem.root(name) for name in problem.kept})

    def emptied(self, tensors: Collection[str], ops: Collection[int]) -> Flow:
        """The same where these tensors, no views, take no bytes, and these ops no scratch: for bounds."""
        _ = self._fixed  # made once for both
        other = copy(self)
        other.__dict__.pop("_native", None)
        other.slot = {name: 0 if name in tensors else size for name, size in self.slot.items()}
        other.scratch = tuple(0 if op in ops else size for op, size in enumerate(self.scratch))
        return other

    def _overwritten(self, op: int) -> int | None:
        """The tap of the tensor that an op's output may overwrite row by row."""
        spec = self.runners[op].spec
        if spec.in_place is None or spec.writes in self._stiff:
            return None
        tensor = self.problem.root(spec.in_place)
        found = [i for i, t in enumerate(self.taps[op]) if t.tensor == tensor]
        if len(found) != 1:
            return None
        if spec.behind is None and any(len(rows) > 1 for rows in self.taps[op][found[0]].reads):
            return None
        if spec.behind is not None and (tensor in self._stiff or spec.behind >= self.slot[spec.writes]):
            return None
        fits = self.slot[spec.writes] <= self.slot[tensor] and self.slot[tensor] % ALIGNMENT == 0
        return found[0] if fits else None

    def behind(self, op: int) -> int:
        """The bytes by which a row of the op begins before the row that it overwrites."""
        return self.runners[op].spec.behind or 0

    def row_below(self, op: int, y: int) -> int | None:
        """The row that row y may overwrite if no later event reads it: the lowest it reads, if for the last time."""
        place = self.in_place[op]
        if place is None or not self.taps[op][place].reads[y]:
            return None
        tap = self.taps[op][place]
        low = min(tap.reads[y])
        return low if low in tap.releases[y] else None

    def _last_users(self, outputs: set[str]) -> dict[str, list[int]]:
        """By row: the last op that reads it, -1 for none, and one beyond all ops for an output."""
        found = {name: [self.count if name in outputs else -1] * rows for name, rows in self.rows.items()}
        for op in range(self.count):
            for each in self.taps[op]:
                users = found[each.tensor]
                for row in each.touched:
                    users[row] = max(users[row], op)
        return found

    @cached_property
    def _row(self) -> dict[str, list[Row]]:
        """By tensor and number."""
        return {name: [Row(name, y) for y in range(rows)] for name, rows in self.rows.items()}

    @cached_property
    def _reads(self) -> list[list[list[Row]]]:
        """By op and output row: the rows read."""
        row = self._row
        return [
            [[row[t.tensor][read] for t in taps for read in t.reads[y]] for y in range(self.rows[written])]
            for taps, written in zip(self.taps, self.writes, strict=True)
        ]

    def live_ranges(self, events: Sequence[Event], start: int = 0, end: int | None = None) -> LiveRanges[Row]:
        """The live ranges of rows in this order; inputs are given, outputs kept. Raises OrderFault.

        Of a group of ops [start, end), rows of ops before it are given, those that ops behind it read kept. Tensors
        that no op of the group reads or writes are left out: they take `passing(start, end)` bytes all the time. The
        live ranges of the last orders of all ops are remembered; who gets them does not change them.
        """
        if end is None:
            return _whole(self, tuple(events))
        around = _around(self, start, end)
        return self._live_ranges(events, around.given, around.kept)

    def passing(self, start: int, end: int) -> int:
        """The bytes of tensors that are in memory while the ops [start, end) run, and that none of these touches."""
        return sum(rows * self.slot[name] for name, rows in _around(self, start, end).passing.items())

    def _live_ranges(self, events: Sequence[Event], given: Sequence[Row], kept: Sequence[Row]) -> LiveRanges[Row]:
        """The live ranges of rows in an order: before it the rows `given` are in memory, behind it those `kept`."""
        row = self._row
        reads = (chain.from_iterable(self._reads[e.op][e.row : e.end]) for e in events)
        writes = (row[self.writes[e.op]][e.row : e.end] for e in events)
        return live_ranges(reads, writes, given, kept)

    @cached_property
    def _ends(self) -> tuple[list[Row], list[Row]]:
        """The rows that are given before all ops, and those that are kept behind them."""
        given = [each for name, born in self.born.items() if born < 0 for each in self._row[name]]
        return given, [each for rows in self._row.values() for each in rows if self._last(each) >= self.count]

    def _last(self, row: Row) -> int:
        """The last op that reads a row."""
        return self.last_user[row.tensor][row.y]

    def overwritten(self, ranges: LiveRanges[Row], time: int, event: Event) -> int | None:
        """The copy that event `time`, of one row, may overwrite in place: no later event reads that."""
        place, number = self.in_place[event.op], self.row_below(event.op, event.row)
        if place is None or number is None:
            return None
        below = self._row[self.taps[event.op][place].tensor][number]
        copy = next(copy for copy in ranges.reads[time] if ranges.values[copy] == below)
        return copy if ranges.last[copy] == time else None

    def saved(self, op: int) -> int:
        """Bytes that a row of the op does not add to those alive while it overwrites another row."""
        return max(0, self.slot[self.writes[op]] - self.behind(op))

    def scratch_by_row(self, op: int) -> list[int]:
        """Bytes of scratch, by the first of the rows that are computed at one time."""
        runner, rows = self.runners[op], range(self.rows[self.writes[op]])
        return [runner.frames[y // runner.band] if runner.frames else self.scratch[op] for y in rows]

    def peak(self, ops: Sequence[int], start: int, end: int, limit: int = _NO_LIMIT) -> int | None:
        """Most bytes alive while `ops` run as one group in place of ops [start, end); None: `limit` or more."""
        peak, _ = self._native.run(ops, start, end, limit, None)
        return None if peak < 0 else peak

    def peak_op(self, ops: Sequence[int], start: int, end: int) -> int:
        """The op at whose row most bytes are alive."""
        return self._native.run(ops, start, end, _NO_LIMIT, None)[1]

    def events(self, ops: Sequence[int], start: int, end: int) -> list[Event]:
        """The order of rows of one group."""
        found: list[Event] = []
        self._native.run(ops, start, end, _NO_LIMIT, found)
        return found

    @cached_property
    def _fixed(self) -> dict[str, Any]:
        """The columns of flow.h that `emptied` does not change, as arrays of C."""
        return _arrays(**self._of_tensors(), **self._of_ops(), **self._of_taps())

    def _of_tensors(self) -> dict[str, Sequence[int]]:
        names, never = list(self.rows), self.count + 1
        return {
            "row_start": _starts(self.rows.values()),
            "born": [self.born.get(name, never) for name in names],
            "last": [max(self.last_user[name], default=-1) for name in names],
            "last_user": [user for name in names for user in self.last_user[name]],
        }

    def _of_ops(self) -> dict[str, Sequence[int]]:
        number = {name: i for i, name in enumerate(self.rows)}
        tap_start = _starts(len(each) for each in self.taps)
        below = [self.row_below(op, y) for op, name in enumerate(self.writes) for y in range(self.rows[name])]
        return {
            "writes": [number[name] for name in self.writes],
            "scratch_start": _starts(self.rows[name] for name in self.writes),
            "band": [runner.band for runner in self.runners],
            "in_place": [-1 if i is None else tap_start[op] + i for op, i in enumerate(self.in_place)],
            "below": [-1 if row is None else row for row in below],
            "tap_start": tap_start,
        }

    def _of_taps(self) -> dict[str, Sequence[int]]:
        number = {name: i for i, name in enumerate(self.rows)}
        taps = [t for each in self.taps for t in each]
        return {
            "tap_tensor": [number[t.tensor] for t in taps],
            "tap_row": _starts(len(t.highest) for t in taps),
            "highest": [row for t in taps for row in t.highest],
            "release_start": _starts(len(rows) for t in taps for rows in t.releases),
            "releases": [row for t in taps for rows in t.releases for row in rows],
            "touched_start": _starts(len(t.touched) for t in taps),
            "touched": [row for t in taps for row in t.touched],
        }

    @cached_property
    def _native(self) -> _Native:
        return _Native(self, self._fixed)


@lru_cache(_REMEMBERED)
def _whole(flow: Flow, events: tuple[Event, ...]) -> LiveRanges[Row]:
    """The live ranges of an order of all ops."""
    return flow._live_ranges(events, *flow._ends)


class _Around(NamedTuple):
    """The rows that are in memory before and behind a group of ops."""

    given: list[Row]  # before the group, of tensors that it touches
    kept: list[Row]  # behind it, of the same tensors and of those that it writes
    passing: dict[str, int]  # rows of each other tensor, all the time


@lru_cache(_REMEMBERED)
def _around(flow: Flow, start: int, end: int) -> _Around:
    """The rows that are in memory around the ops [start, end). What was found for the last groups is remembered."""
    touched = {each.tensor for op in range(start, end) for each in flow.taps[op]}
    found = _Around([], [], {})
    for name in (name for name, born in flow.born.items() if born < end):
        there = flow.born[name] < start
        later = [each for each in flow._row[name] if flow._last(each) >= end]
        if there and name not in touched:
            found.passing[name] = len(later)
        else:
            found.kept.extend(later)
            found.given.extend(each for each in flow._row[name] if there and flow._last(each) >= start)
    return found


class _Native:
    """A flow as C sees it (flow.h), and the memory that runs share."""

    def __init__(self, flow: Flow, fixed: dict[str, Any]) -> None:
        self._flow = flow
        self._library = _library()
        ffi = self._library.ffi
        names, ops = list(flow.rows), range(len(flow.runners))
        own = _arrays(
            slot=list(flow.slot.values()),
            scratch=[size for op in ops for size in flow.scratch_by_row(op)],
            saved=[flow.saved(op) for op in ops],
        )
        self._keep = fixed | own
        self._problem = ffi.new("sh_flow *", {"tensors": len(names), "ops": len(ops), **self._keep})
        sizes = (len(names), len(names), len(names), sum(flow.rows.values()), len(flow.runners))
        self._memory_keep = [ffi.new("int32_t[]", max(1, size)) for size in sizes]
        self._memory = ffi.new("sh_flow_memory *", self._memory_keep)
        self._sequence, self._answer = ffi.new("int32_t[]", max(1, len(flow.runners))), ffi.new("int32_t[2]")
        self._group = ffi.new("sh_flow_group *", {"ops": self._sequence})

    def run(self, ops: Sequence[int], start: int, end: int, limit: int, found: list[Event] | None) -> tuple[int, int]:
        """The peak (-1 at the limit) and its op; `found` gets the events."""
        ffi, flow, group, answer = self._library.ffi, self._flow, self._group, self._answer
        self._sequence[0 : len(ops)] = ops
        group.count, group.start, group.end, group.limit = len(ops), start, end, limit
        group.first_arrives = flow.streamed and start == 0
        most = 0 if found is None else sum(flow.rows[flow.writes[op]] for op in ops)
        events = ffi.NULL if found is None else ffi.new("int32_t[]", max(1, 3 * most))
        peak = int(self._library.lib.sh_flow_run(self._problem, group, self._memory, events, answer))
        if found is not None:
            flat = ffi.unpack(events, 3 * answer[0])
            found += [Event(op, y0, y1 - y0) for op, y0, y1 in zip(flat[::3], flat[1::3], flat[2::3], strict=True)]
        return peak, int(answer[1])


def _arrays(**columns: Sequence[int]) -> dict[str, Any]:
    """Columns as arrays of C."""
    return {name: _library().ffi.new("int32_t[]", list(column)) for name, column in columns.items()}


def _starts(sizes: Iterable[int]) -> list[int]:
    """Where each of these parts begins, one after the other, and where the last one ends."""
    return list(accumulate(sizes, initial=0))
