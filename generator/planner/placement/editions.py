"""The table of addresses that each step uses, where recomputed rows have another address than before.

An edition of a tensor has an address for each of its rows. A step uses one edition of each tensor that it touches: one
with the current addresses of the rows that it touches; those of the other rows do not matter to it. In the order of the
plan each step uses the first edition that agrees with it, and a new one is made only where none does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shoehorn_mcu.memory_plan import Editions
from shoehorn_mcu.planner.order.flow import Event, Flow

Addresses = Mapping[str, Sequence[Sequence[int]]]
"""By tensor, by row: the address of each of its copies, in the order in which they are computed."""


def editions(
    flow: Flow, events: Sequence[Event], steps: Sequence[range], addresses: Addresses
) -> tuple[dict[str, list[tuple[int, ...]]], list[Editions]]:
    """The editions of each tensor of `addresses`, each an address by row, and those that each step names.

    `steps` are ranges of the places of events, each of one op. A row that no step of an edition touches has its
    first address there.
    """
    moving = {name for name, rows in addresses.items() if any(len(set(row)) > 1 for row in rows)}
    known: dict[str, list[dict[int, int]]] = {name: [] for name in moving}
    count = {name: [0] * len(addresses[name]) for name in moving}
    named: list[Editions] = []
    for step in steps:
        places = _touched(flow, events, step, moving, count, addresses) if moving else {}
        chosen = {name: _edition(known[name], places[name]) for name in sorted(places)}
        named.append(tuple((name, edition) for name, edition in chosen.items() if edition))
    tables = {name: known.get(name) or [{}] for name in addresses}
    return {
        name: [tuple(edition.get(y, row[0]) for y, row in enumerate(addresses[name])) for edition in found]
        for name, found in tables.items()
    }, named


def _touched(
    flow: Flow,
    events: Sequence[Event],
    step: range,
    moving: set[str],
    count: Mapping[str, list[int]],
    addresses: Addresses,
) -> dict[str, dict[int, int]]:
    """By tensor: the rows that a step touches, and where. `count` says how often each has been computed."""
    places: dict[str, dict[int, int]] = {}
    for event in (events[i] for i in step):
        rows = range(event.row, event.row + event.rows)
        for tap in (tap for tap in flow.taps[event.op] if tap.tensor in moving):
            for y in (y for row in rows for y in tap.reads[row]):
                at = addresses[tap.tensor][y][count[tap.tensor][y] - 1]
                places.setdefault(tap.tensor, {})[y] = at
        written = flow.writes[event.op]
        for y in rows if written in moving else ():
            places.setdefault(written, {})[y] = addresses[written][y][count[written][y]]
            count[written][y] += 1
    return places


def _edition(known: list[dict[int, int]], places: Mapping[int, int]) -> int:
    """The first edition that agrees with these places, which it has from then on."""
    for i, edition in enumerate(known):
        if all(edition.get(y, at) == at for y, at in places.items()):
            edition.update(places)
            return i
    known.append(dict(places))
    return len(known) - 1
