"""Which next values of states may be written over the states themselves, so that they take no bytes and no copy.

The bytes of a state are its own in the whole inference. Its next value may be written there where each row of the state
has been read for the last time before the same row of the next value is computed. That holds if all readers come
before the op that computes the next value and that op also waits for the rows computed from the row that it overwrites.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from shoehorn_mcu.ir import Graph, State
from shoehorn_mcu.stage import Stage

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
        readers = [stage for stage in stages if any(t.name == state.read for t in stage.row_inputs)]
        names = {stage.name for stage in (*readers, writer)}
        if names & set(inside) or any(order[r.name] > order[writer.name] for r in readers):
            continue
        waits = _waits(state, writer, readers, writers)
        if waits is not None:
            found[state.write] = waits
    return found


def _waits(state: State, writer: Stage, readers: Sequence[Stage], writers: Mapping[str, Stage]) -> Waits | None:
    """What each row of the next value waits for; None where the writer itself reads a row that it overwrites."""
    rows: list[dict[tuple[str, int], None]] = [{} for _ in range(writer.node.output.type.rows)]
    for stage in readers:
        for place, tensor in enumerate(stage.row_inputs):
            if tensor.name != state.read:
                continue
            if stage is writer:
                alone = all(by_input[place] == (y,) for y, by_input in enumerate(stage.rows))
                if not alone or stage.kernel.in_place(stage.node) != place:
                    return None
                continue
            for y, by_input in enumerate(stage.rows):
                for row in by_input[place]:
                    if row is not None:
                        rows[row][stage.node.output.name, y] = None
    if any(rows) and writer.node.op.pixelwise(writer.node.sig):
        return None  # its rows may be one call
    return Waits(state, tuple(_unknown(writer, y, waited, writers) for y, waited in enumerate(rows)))


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
        for tensor, read in zip(stage.row_inputs, stage.rows[row], strict=True):
            for each in ((tensor.name, below) for below in read if below is not None):
                if each not in known:
                    known.add(each)
                    todo += [(writers[tensor.name], each[1])] if tensor.name in writers else []
    return tuple(each for each in waited if each not in known)
