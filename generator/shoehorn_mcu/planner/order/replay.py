"""Peak and work of an order of rows in which rows may be recomputed, counted row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, chain
from typing import Any

import numpy as np

from shoehorn_mcu.planner.live_ranges import OrderFault, Row
from shoehorn_mcu.planner.order.flow import Event, Flow
from shoehorn_mcu_host.base import cbuild

_library = cbuild.library(__file__, "shoehorn_replay", "replay.h", "replay.c")
_REMEMBERED = 8  # orders, and flows as C sees them


@dataclass(frozen=True)
class Replay:
    """Most bytes alive at one event (-1: before the first), the predicted work of all, and the unnecessary events."""

    peak: int
    work: int
    needless: frozenset[int]  # computations that no event reads, of rows that are computed elsewhere too


def replay(flow: Flow, events: Sequence[Event]) -> Replay:
    """Counts one row an event. Raises OrderFault."""
    return _replayed(flow, tuple(events))


@lru_cache(_REMEMBERED)
def _replayed(flow: Flow, events: tuple[Event, ...]) -> Replay:
    """As `replay`, cached: who finds an order and who uses it both ask for its peak."""
    order = RowOrder.of(events)
    if flow.streamed:
        _arrive(order)
    bytes_, needless = _replays(flow).bytes(order)
    return Replay(int(bytes_.max()), work(flow, order), frozenset(np.flatnonzero(needless).tolist()))


def pruned(flow: Flow, events: Sequence[Event]) -> list[Event]:
    """The order without unnecessary events; its peak is no higher."""
    while needless := replay(flow, events).needless:
        events = [event for time, event in enumerate(events) if time not in needless]
    return list(events)


@dataclass(frozen=True, eq=False)
class RowOrder:
    """Events of one row each, as C sees them: by event its op and the row of that, int32."""

    ops: np.ndarray
    rows: np.ndarray

    @classmethod
    def of(cls, events: Sequence[Event]) -> RowOrder:
        columns = np.fromiter(chain.from_iterable(events), np.int32).reshape(-1, len(Event._fields))
        return cls(np.ascontiguousarray(columns[:, 0]), np.ascontiguousarray(columns[:, 1]))

    def events(self) -> list[Event]:
        return list(map(Event, self.ops.tolist(), self.rows.tolist()))

    def __len__(self) -> int:
        return len(self.ops)


def needed(flow: Flow, order: RowOrder, start: int = 0, end: int | None = None) -> np.ndarray:
    """The bytes alive before the first event, and during each: int64. Raises OrderFault.

    Of a group of ops [start, end) as in `Flow.live_ranges`.
    """
    return _replays(flow).bytes(order, start, end)[0]


def work(flow: Flow, order: RowOrder) -> int:
    """The predicted work of an order; rows that are delivered are none."""
    return int(_replays(flow).costs[order.ops].sum())


def recomputing(flow: Flow, order: RowOrder, halos: Mapping[int, int]) -> RowOrder:
    """The order of single rows in which each reader leaves only the newest `halos[op]` rows of these ops."""
    return _replays(flow).recomputing(order, halos)


def _arrive(order: RowOrder) -> None:
    """The rows of a streamed input come in order, the first one before all else."""
    if len(order) and order.ops[0] != 0:
        raise OrderFault("event 0 comes before the first row of the input")
    arrived = order.rows[order.ops == 0]
    early = np.flatnonzero(arrived != np.arange(len(arrived)))
    if len(early):
        raise OrderFault(f"row {arrived[early[0]]} of the input arrives where row {early[0]} is next")


@lru_cache(_REMEMBERED)
def _replays(flow: Flow) -> _Replays:
    return _Replays(flow)


class _Replays:
    """A flow as C sees it (replay.h)."""

    def __init__(self, flow: Flow) -> None:
        self._flow, self._library = flow, _library()
        self._rows = sum(flow.rows.values())
        self.costs = np.array([op.row_cost for op in flow.problem.ops], np.int64)  # by op: of a row
        self.costs[:1] *= not flow.streamed
        columns = {name: self._array(column) for name, column in _columns(flow).items()}
        self._keep = [*columns.values()]
        sizes = {"tensors": len(flow.rows), "ops": flow.count}
        self._c = self._library.ffi.new("sh_replay_flow *", sizes | columns)

    def bytes(self, order: RowOrder, start: int = 0, end: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The bytes needed before the first event and during each, and by event whether it is needless."""
        flow, count = self._flow, len(order)
        bytes_, needless = np.empty(count + 2, np.int64), np.empty(count, np.uint8)
        sizes = (self._rows, self._rows, len(flow.rows), count + self._rows, count)
        memory = [self._array(np.empty(size, np.int32)) for size in sizes]
        ends = (start, flow.count if end is None else end, end is None)
        outputs = (self._array(bytes_, "int64_t[]"), self._array(needless, "uint8_t[]"))
        given, held = self._order(order), self._library.ffi.new("sh_replay_memory *", memory)
        if self._library.lib.sh_replay_bytes(self._c, given, *ends, held, *outputs) != 0:
            flow.live_ranges(order.events(), start, end)  # which names the row
            raise AssertionError("an order was refused that can be executed")
        return bytes_[:-1], needless

    def recomputing(self, order: RowOrder, halos: Mapping[int, int]) -> RowOrder:
        left = np.full(self._flow.count, -1, np.int32)
        left[list(halos)] = list(halos.values())
        held, counts = np.empty(self._rows, np.int32), np.empty(len(self._flow.rows), np.int32)
        columns = [self._array(each) for each in (left, held, counts)]
        c_halos, given, room = self._library.ffi.new("sh_replay_halos *", columns), self._order(order), 2 * len(order)
        while True:
            found = RowOrder(np.empty(room, np.int32), np.empty(room, np.int32))
            places = (self._array(found.ops), self._array(found.rows))
            count = int(self._library.lib.sh_replay_recomputing(self._c, given, c_halos, *places, room))
            if count <= room:
                return RowOrder(found.ops[:count], found.rows[:count])
            room = count

    def _order(self, order: RowOrder) -> Any:
        return self._library.ffi.new("sh_replay_order *", [len(order), self._array(order.ops), self._array(order.rows)])

    def _array(self, numbers: Sequence[int] | np.ndarray, kind: str = "int32_t[]") -> Any:
        array = numbers if isinstance(numbers, np.ndarray) else np.array(numbers, np.int32)
        return self._library.ffi.from_buffer(kind, array)


def _columns(flow: Flow) -> Mapping[str, Sequence[int]]:
    """The columns of sh_replay_flow, by name."""
    names = list(flow.rows)
    number = {name: i for i, name in enumerate(names)}
    row_start = [*accumulate(flow.rows.values(), initial=0)]
    lines = [flow.rows[name] for name in flow.writes]
    taps = [tap for each in flow.taps for tap in each]
    below = [_row_below(flow, op, y) for op, rows in enumerate(lines) for y in range(rows)]
    return {
        "row_start": row_start,
        "slot": [*flow.slot.values()],
        "born": [flow.born.get(name, flow.count) for name in names],
        "last_user": [user for name in names for user in flow.last_user[name]],
        "writes": [number[name] for name in flow.writes],
        "scratch": flow.scratch,
        "saved": [flow.saved(op) for op in range(len(flow.writes))],
        "line": [*accumulate(lines, initial=0)],
        "below": [-1 if row is None else row_start[number[row.tensor]] + row.y for row in below],
        "tap_start": [*accumulate(map(len, flow.taps), initial=0)],
        "tap_tensor": [number[tap.tensor] for tap in taps],
        "tap_line": [*accumulate((len(tap.reads) for tap in taps), initial=0)],
        "read_start": [*accumulate((len(rows) for tap in taps for rows in tap.reads), initial=0)],
        "reads": [row for tap in taps for rows in tap.reads for row in rows],
    }


def _row_below(flow: Flow, op: int, y: int) -> Row | None:
    """The row that a row of an op may overwrite if no later event reads it."""
    place, row = flow.in_place[op], flow.row_below(op, y)
    return None if place is None or row is None else Row(flow.taps[op][place].tensor, row)
