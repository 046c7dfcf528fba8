"""The data of the page's script, as JSON; long lists are flat, to keep the file small."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from shoehorn_mcu.emit.page.picture import Picture, Rectangle
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.planner.memory_plan import DELIVERY, HANDOUT, Cascade
from shoehorn_mcu.schedule.predict import of_rows, unit_of


def as_data(unit: Unit, seen: Picture) -> Mapping[str, object]:
    """Flat lists: three numbers per step, five per rectangle, two (rectangles) per row that overwrites another."""
    costs = of_rows(unit.plan, unit.stages, unit_of(unit.stages))
    ops: list[list[object]] = [
        [s.name, s.kernel.name, s.node.output.name, round(row), round(step)]
        for s, (row, step) in zip(unit.stages, costs, strict=True)
    ]
    ops += [["input", "push_row", unit.streamed, 0, 0]] if unit.streamed else []
    index = {stage.name: stage.index for stage in unit.stages} | {DELIVERY: len(unit.stages), HANDOUT: len(ops)}
    ops += [["output", "on_row", unit.handed_out, 0, 0]] if unit.handed_out else []
    return {
        "arena": seen.arena_bytes,
        "events": seen.events,
        "peak": [seen.peak_event, seen.peak_bytes],
        "ops": ops,
        "blocks": [_block(unit, cascade, index) for cascade in unit.plan.cascades],
        "owners": [[o.name, o.kind, o.type, o.rows, o.row_bytes, o.op] for o in seen.owners],
        "steps": [n for s in unit.plan.steps for n in (index[s.op], *s.rows)],
        "rectangles": [n for r in seen.rectangles for n in (r.owner, r.row, r.address, r.first, r.last)],
        "over": _over(seen.rectangles),
    }


def _block(unit: Unit, cascade: Cascade, index: Mapping[str, int]) -> Sequence[object]:
    """[name, chunks, rows of a band, bands, ops]: the last of the ops ends a band."""
    height = unit.placements[unit.stages[index[cascade.ops[-1]]].node.output.name].rows
    ops = [index[name] for name in cascade.ops]
    return [cascade.block, cascade.chunks, min(cascade.band, height), -(-height // cascade.band), ops]


def _over(rectangles: Sequence[Rectangle]) -> list[int]:
    """Pairs of rectangles: the one that overwrites, and the one that is overwritten."""
    place = {id(r): i for i, r in enumerate(rectangles)}
    return list(chain.from_iterable((i, place[id(r.over)]) for i, r in enumerate(rectangles) if r.over))
