"""Lower bounds on the peak of every order of rows of which some are computed more than once.

Let row v be computed for the first time. The rows computed before form a set I that holds all that its members need. A
row of I that is needed later on, by a row outside I or by one that is computed again, is held, or it is computed again
itself. So the rows of I have three kinds: held (their bytes are alive now), again (their multiply-accumulates are paid
later), and over. With at most R multiply-accumulates computed again, the bytes alive at v's moment are at least

    least over I and kinds: bytes(held) + bytes(v) + scratch(v) - saved(v),   where macs(again) <= R;

the rows that v reads are held. What v saves by overwriting a row is paid back where others still read that row, or that
row is paid as computed again. Every order has the first moment of every v, so its peak is at least the greatest of
these numbers. Each is bounded from below by paying p bytes for a multiply-accumulate instead of the limit:

    least: bytes(held) + p macs(again) + own bytes of v, less p R      for any p >= 0 (Lagrange)

That is a minimum cut with two nodes for a row, "computed before" and "never computed again". The best p of a row is
found by secants, from p = 0 (anything is computed again) and p without bound (nothing is). Rows that cannot be
computed again, such as those of a stream and those of more than R multiply-accumulates, have one node.

With R = 0 it is the cut of lowest.py, but for rows without multiply-accumulates, which may be computed again.
"""

from __future__ import annotations

from collections.abc import Sequence

from shoehorn_mcu.planner.order.flow import Event, Flow
from shoehorn_mcu.planner.order.lowest import Again, Lowest, RowGraph, row_graph
from shoehorn_mcu.planner.order.replay import RowOrder, needed

_UNKNOWN = 1 << 60


def bound_again(flow: Flow, most_macs: int, known: Sequence[Event], work: int) -> int:
    """A lower bound in bytes on the peak of all orders that compute at most so many multiply-accumulates again.

    `known`: any such order of single rows, which spares work, or none. Where `work`, counted in arcs that are looked
    at, ends before all rows were tried, the bound so far is given; 0 where the problem is too large for this machine.
    Problems without blocks.
    """
    graph, ops = row_graph(flow), flow.problem.ops
    if not graph.is_small:
        return 0
    macs = [0 if event is None else ops[event.op].row_macs for event in graph.events]
    fixed = [event is None or event.op in flow.once or ops[event.op].row_macs > most_macs for event in graph.events]
    more = Again(macs, fixed, _first_moments(flow, graph, known), most_macs)
    try:
        bound = Lowest(graph).again(more, work)
    except MemoryError:
        return 0
    return -(-bound // graph.unit) * graph.unit


def _first_moments(flow: Flow, graph: RowGraph, known: Sequence[Event]) -> list[int]:
    """By row: bytes alive when an order computes it for the first time; more than any where it does not."""
    first = [_UNKNOWN] * len(graph.rows)
    if known:
        alive = needed(flow, RowOrder.of(known))[1:].tolist()
        for event, bytes_ in zip(reversed(known), reversed(alive), strict=True):
            first[graph.number[event.op, event.row]] = bytes_
    return first
