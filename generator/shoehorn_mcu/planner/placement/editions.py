"""The table of addresses that each step uses, where recomputed rows have another address than before.

An edition of a tensor has an address for each of its rows. A step uses one edition of each tensor that it touches: one
with the current addresses of the rows that it touches; those of the other rows do not matter to it. In the order of the
plan each step uses the first edition that agrees with it, and a new one is made only where none does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shoehorn_mcu.planner.live_ranges import LiveRanges, Row
from shoehorn_mcu.planner.memory_plan import Editions


def editions(
    ranges: LiveRanges[Row], steps: Sequence[range], addresses: Mapping[int, int]
) -> tuple[dict[str, list[tuple[int, ...]]], list[Editions]]:
    """By tensor: its editions, each an address by row. And by step: the editions that it names.

    `steps` are ranges of events, each of one op; `addresses` are those of the copies of some tensors. A row that no
    step of an edition touches has its first address there.
    """
    first: dict[str, dict[int, int]] = {}  # by tensor and row
    moving = set()
    for copy, at in addresses.items():
        tensor, y = ranges.values[copy]
        if first.setdefault(tensor, {}).setdefault(y, at) != at:
            moving.add(tensor)
    known: dict[str, list[dict[int, int]]] = {name: [] for name in moving}
    named: list[Editions] = []
    for step in steps:
        places: dict[str, dict[int, int]] = {}  # by tensor: the rows that the step touches, and where
        for copy in (copy for i in step if moving for copy in (*ranges.reads[i], *ranges.writes[i])):
            tensor, y = ranges.values[copy]
            if tensor in moving:
                places.setdefault(tensor, {})[y] = addresses[copy]
        chosen = {name: _edition(known[name], places[name]) for name in sorted(places)}
        named.append(tuple((name, edition) for name, edition in chosen.items() if edition))
    return {
        name: [tuple(edition.get(y, at) for y, at in sorted(rows.items())) for edition in known.get(name) or [{}]]
        for name, rows in first.items()
    }, named


def _edition(known: list[dict[int, int]], places: Mapping[int, int]) -> int:
    """The first edition that agrees with these places, which it has from then on."""
    for i, edition in enumerate(known):
        if all(edition.get(y, at) == at for y, at in places.items()):
            edition.update(places)
            return i
    known.append(dict(places))
    return len(known) - 1
