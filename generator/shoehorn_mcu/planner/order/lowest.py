"""Lower bounds on the peak of every order of rows in which each row is computed once.

Let row v be computed. The rows computed before it, with those given, are a set I that holds all that its rows read, v
and the rows that need it not among them. The bytes alive at that moment, as replay.py counts them, are

    cost(I, v) = bytes of the rows in I with a reader outside I, or kept to the end
               + bytes(v) + scratch(v) - saved(v), the last only if all other readers of below(v) are in I.

1. Cut. Every order has the moment of every v with some I, so its peak is at least the least cost(I, v) over all I, for
   each v. That is a minimum cut: x in I pays bytes(x) unless all its readers are in I; whoever is in I has what it
   reads in I; a gate pays `saved` back unless the other readers of below(v) are in I.
2. Pairs, for a number of bytes B. Let the least cost of v's moment with row u in I be above B. Then every order with a
   peak of at most B computes v before u; likewise with u outside. This is added to the partial order of rows, which
   every I must keep, and all is done again until nothing is added. A cycle, or a moment above B, refutes B: every order
   needs B + 1 bytes. What was deduced for B holds for fewer bytes as well.
3. Ends. Of the rows of a tensor one is computed first, with the others outside its I, and one last, with the others
   inside. If none can be, B is refuted; if one can, it comes before (behind) the others.

An order that is known spares flows: where it computes v with few bytes alive, the least cost is no more. Effort is
counted in arcs that the flows look at, never in time, so equal problems have equal bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import gcd

from shoehorn_mcu.planner.interruptible import stoppable
from shoehorn_mcu.planner.live_ranges import Row
from shoehorn_mcu.planner.order.flow import Event, Flow
from shoehorn_mcu_host.base import cbuild

_SOURCES = ("lowest.c", "deduce.c", "precede.c", "cuts.c", "beam.c", "again.c")
_library = cbuild.library(__file__, "shoehorn_lowest", "lowest.h", *_SOURCES)
_MOST_BYTES = 1 << 29
_BRIEF_WORK = 60_000_000  # a quarter of a second at most


@dataclass(frozen=True)
class RowGraph:
    """Rows as numbers: those of inputs first, then op by op; what a row needs has a lower number. Sizes in bytes."""

    rows: tuple[Row, ...]
    tensor: tuple[int, ...]  # by row: equal for rows of one tensor
    bytes: tuple[int, ...]
    scratch: tuple[int, ...]  # while the row is computed
    saved: tuple[int, ...]  # shared with the row below, if no other row reads that one any more
    below: tuple[int, ...]  # the row that it may overwrite, or -1
    is_kept: tuple[bool, ...]
    is_given: tuple[bool, ...]
    reads: tuple[tuple[int, ...], ...]
    before: tuple[tuple[int, ...], ...]  # rows that must be computed before it and are not read
    events: tuple[Event | None, ...]  # that compute the row; None: it is given

    @property
    def is_small(self) -> bool:
        """Whether sums of all bytes stay below the infinite capacity of the networks."""
        return sum(self.bytes) + sum(self.scratch) < _MOST_BYTES

    @cached_property
    def unit(self) -> int:
        """Every peak is a multiple of so many bytes."""
        return gcd(*self.bytes, *self.scratch, *self.saved) or 1

    @cached_property
    def number(self) -> dict[tuple[int, int], int]:
        """By op and row."""
        return {(event.op, event.row): v for v, event in enumerate(self.events) if event is not None}

    def order(self, events: Sequence[Event]) -> list[int]:
        """The rows of an order in which each is computed once."""
        return [self.number[event.op, y] for event in events for y in range(event.row, event.end)]

    def run(self, order: Sequence[int]) -> list[Event]:
        """The events of an order of rows."""
        return [event for v in order if (event := self.events[v]) is not None]


def row_graph(flow: Flow) -> RowGraph:
    """The rows of a problem without blocks."""
    writers = dict(enumerate(flow.writes[: flow.count]))
    names = [name for name, born in flow.born.items() if born < 0] + list(writers.values())
    starts = dict(zip(names, accumulate((flow.rows[name] for name in names), initial=0), strict=False))
    rows = tuple(Row(name, y) for name in names for y in range(flow.rows[name]))
    kept = {flow.problem.root(name) for name in flow.problem.kept}
    given = [flow.born[name] < 0 for name in names for _ in range(flow.rows[name])]
    events: list[Event | None] = [None] * sum(given)
    reads: list[tuple[int, ...]] = [()] * len(events)
    saved, below, scratch = [0] * len(events), [-1] * len(events), [0] * len(events)
    for op, name in writers.items():
        for y in range(flow.rows[name]):
            read = dict.fromkeys(starts[t.tensor] + row for t in flow.taps[op] for row in t.reads[y])
            low, place = flow.row_below(op, y), flow.in_place[op]
            events.append(Event(op, y))
            reads.append(tuple(read))
            scratch.append(flow.scratch[op])
            saved.append(flow.saved(op) if low is not None else 0)
            below.append(-1 if low is None or place is None else starts[flow.taps[op][place].tensor] + low)
    before: list[tuple[int, ...]] = [()] * len(events)
    if flow.streamed:  # rows arrive in order, the first one before all else
        first = starts[flow.writes[0]]
        before = [() if given[v] or v == first or reads[v] else (first,) for v in range(len(events))]
        for v in range(first + 1, first + flow.rows[flow.writes[0]]):
            before[v] = (v - 1,)
    return RowGraph(
        rows,
        tuple(number for number, name in enumerate(names) for _ in range(flow.rows[name])),
        tuple(flow.slot[row.tensor] for row in rows),
        tuple(scratch),
        tuple(saved),
        tuple(below),
        tuple(row.tensor in kept for row in rows),
        tuple(given),
        tuple(reads),
        tuple(before),
        tuple(events),
    )


@dataclass(frozen=True)
class Again:
    """By row: the multiply-accumulates of computing it again, whether it never is, and the bytes that are alive in a
    known order when it is computed for the first time. `most_macs`: of all rows that are computed again.
    """

    macs: Sequence[int]
    is_fixed: Sequence[bool]
    known: Sequence[int]
    most_macs: int


class Lowest:
    """What is known of the lowest peak of a graph of rows, in C. MemoryError: there is not enough for it."""

    def __init__(self, graph: RowGraph) -> None:
        self.graph = graph
        library = _library()
        self._lib, ffi = library.lib, library.ffi
        self._ffi = ffi
        reads, before = cbuild.parts(graph.reads), cbuild.parts(graph.before)
        columns = {
            **{name: getattr(graph, name) for name in ("tensor", "bytes", "scratch", "saved", "below")},
            "is_kept": graph.is_kept,
            "is_given": graph.is_given,
            **dict(zip(("read_start", "reads"), reads, strict=True)),
            **dict(zip(("before_start", "before"), before, strict=True)),
        }
        self._keep = {name: ffi.new("int32_t[]", [*map(int, each), 0]) for name, each in columns.items()}
        self._stop = ffi.new("int32_t *", 0)
        self._rows = ffi.new("sh_lowest_rows *", {"count": len(graph.rows), **self._keep, "stop": self._stop})
        made = self._lib.sh_lowest_new(self._rows)
        if made == ffi.NULL:
            raise MemoryError
        self._state = ffi.gc(made, self._lib.sh_lowest_free)

    def peak(self, order: Sequence[int]) -> int:
        """The peak of an order of all rows that are not given, in bytes. It makes bounds quicker."""
        return int(self._lib.sh_lowest_peak(self._state, self._ffi.new("int32_t[]", [*order, 0])))

    def cut(self, work: int) -> tuple[int, int, int]:
        """The lower bound by cuts in bytes, the row that sets it (-1: inputs or outputs), and the work left."""
        left, found = self._ffi.new("int64_t *", work), self._ffi.new("int32_t *")
        bound = self._beside(lambda: self._lib.sh_lowest_cut(self._state, left, found), work)
        return bound, int(found[0]), int(left[0])

    def refute(self, bytes_: int, each: int, work: int) -> tuple[bool | None, int]:
        """Whether every order needs more bytes, and the work left; None: there is not enough memory to tell.

        So many rows of each tensor are compared, or all (0).
        """
        left = self._ffi.new("int64_t *", work)
        said = self._beside(lambda: self._lib.sh_lowest_refute(self._state, bytes_, each, left), work)
        return None if said < 0 else bool(said), int(left[0])

    def beam(self, limit: int, width: int, work: int, guided: bool = False) -> tuple[list[int] | None, int]:
        """An order with a peak of at most `limit` bytes, None where none is found, and the work left.

        The search computes next what leaves the fewest bytes alive, and follows so many orders at one time; `guided`
        only those with the pairs that were deduced, for `limit` bytes or more.
        """
        ffi, count = self._ffi, self.deduced if guided else 0
        pairs, order = ffi.new("int32_t[]", 2 * count + 1), ffi.new("int32_t[]", len(self.graph.rows) + 1)
        self._lib.sh_lowest_deduced(self._state, pairs, count)
        left, run = ffi.new("int64_t *", work), ffi.new("sh_beam_run *", [limit, width, count, pairs])
        peak = self._beside(lambda: self._lib.sh_beam(self._rows, run, left, order), work)
        steps = sum(event is not None for event in self.graph.events)
        return (None if peak < 0 else ffi.unpack(order, steps)), int(left[0])

    def again(self, more: Again, work: int) -> int:
        """The lower bound in bytes where rows may be computed again, as far as the work goes; see again.py."""
        ffi = self._ffi
        columns = {
            "macs": ffi.new("int64_t[]", [*more.macs, 0]),
            "is_fixed": ffi.new("int32_t[]", [*map(int, more.is_fixed), 0]),
            "known": ffi.new("int64_t[]", [*more.known, 0]),
        }
        rows = ffi.new("sh_again_rows *", {"rows": self._rows, "most_macs": more.most_macs, **columns})
        left, found = ffi.new("int64_t *", work), ffi.new("int32_t *")
        bound = self._beside(lambda: self._lib.sh_again_bound(rows, left, found), work)
        if bound < 0:
            raise MemoryError
        return bound

    def _beside(self, call: Callable[[], int], work: int) -> int:
        """What C gives; of much work beside the main thread, which hears Ctrl-C."""
        return int(call() if work <= _BRIEF_WORK else stoppable(call, self._stop))

    @property
    def deduced(self) -> int:
        """The number of pairs that were deduced for the fewest bytes that were not refuted."""
        return int(self._lib.sh_lowest_deduced(self._state, self._ffi.NULL, 0))

    @property
    def flows(self) -> int:
        """So far."""
        return int(self._lib.sh_lowest_flows(self._state))
