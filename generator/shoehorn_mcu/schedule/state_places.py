"""Which next values of states may be written over the states themselves, so that they take no bytes and no copy.

The bytes of a state are its own in the whole inference. Its next value may be written there where each row of the state
has been read for the last time before the same row of the next value is computed. That holds if all readers come
before the op that computes the next value and that op also waits for the rows computed from the row that it overwrites.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from shoehorn_mcu.ir import Graph, State
from shoehorn_mcu.schedule.stage import Stage

Row = tuple[str, int]
"""A tensor and the number of one of its rows."""


@dataclass(frozen=True)
class Waits:
    """A next value that takes the place of its state, and by its row what must have been computed before it."""

    state: State
    rows: tuple[tuple[Row, ...], ...]  # by row of the next value


def over_states(graph: Graph, stages: Sequence[Stage], inside: Collection[str] = ()) -> Mapping[str, Waits]:
    """By tensor: the next values that may take their states' places. `inside`: ops that blocks may compute in bands."""
    order = {stage.name: i for i, stage in enumerate(stages)}
    views = graph.views
    writers = {stage.node.output.name: stage for stage in stages}
    found = {}
    for state in graph.states:
        shared = sum(state.write == other.write for other in graph.states) > 1
        if shared or state.write in views or state.read in views.values() or state.read in graph.outputs:
            continue
        writer = writers[state.write]
        readers = [stage for stage in stages if any(name == state.read for name, _ in stage.reads)]
        names = {stage.name for stage in (*readers, writer)}
        if names & set(inside) or any(order[r.name] > order[writer.name] for r in readers):
            continue
        waits = _waits(state, writer, readers, writers)
        if waits is not None:
            found[state.write] = waits
    return found


def _waits(state: State, writer: Stage, readers: Sequence[Stage], writers: Mapping[str, Stage]) -> Waits | None:
    """What each row of the next value waits for; None where the writer itself reads a row that it overwrote.

    A state may be moved up row by row: the writer reads later rows of it than it writes, and waits for its own earlier
    rows.
    """
    rows: list[dict[tuple[str, int], None]] = [{} for _ in range(writer.node.output.type.rows)]
    for stage in readers:
        for name, by_row in stage.reads:
            if name != state.read or (stage is writer and _in_place(writer, name, by_row)):
                continue
            if stage is writer and any(row <= y for y, read in enumerate(by_row) for row in read):
                return None
            for y, read in enumerate(by_row):
                for row in read:
                    if row < len(rows):  # a ring keeps the others
                        rows[row][stage.node.output.name, y] = None
    if any(rows) and writer.node.op.pixelwise(writer.node.sig):
        return None  # its rows may be one call
    return Waits(state, tuple(_unknown(writer, y, waited, writers) for y, waited in enumerate(rows)))


def _in_place(writer: Stage, name: str, by_row: Sequence[Sequence[int]]) -> bool:
    """Whether each row of the next value is computed from that row of the state, over which the kernel may write."""
    place = writer.in_place
    own = place is not None and writer.row_inputs[place].name == name
    return own and all(tuple(read) == (y,) for y, read in enumerate(by_row))


def _unknown(writer: Stage, y: int, waited: Collection[Row], writers: Mapping[str, Stage]) -> tuple[Row, ...]:
    """The rows that are waited for without those that row y of the next value is computed from anyway.

    Where it reads a view, the rows behind that are not looked for.
    """
    if not waited:
        return ()
    known: set[Row] = set()
    todo = [(writer, y)]
    while todo:
        stage, row = todo.pop()
        for name, by_row in stage.reads:
            for each in ((name, below) for below in by_row[row]):
                if each not in known:
                    known.add(each)
                    todo += [(writers[name], each[1])] if name in writers else []
    return tuple(each for each in waited if each not in known)
