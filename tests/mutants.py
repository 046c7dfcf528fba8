"""Plans with one fault planted: an address, a slot, an edition, or the order of the steps one off."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from shoehorn_mcu.planner.memory_plan import Placement, Plan

_T = TypeVar("_T")

Mutants = Iterator[tuple[str, Plan]]

_EACH = 4  # faults of one kind per plan


def mutants(plan: Plan, chance: random.Random) -> Mutants:
    """Some mutants of each kind, with the kind's name."""
    for kind in (_addresses, _slots, _orders, _ranges, _editions):
        yield from kind(plan, chance)


def _some(items: Sequence[_T], chance: random.Random) -> list[_T]:
    return chance.sample(items, min(_EACH, len(items)))


def _with(plan: Plan, old: Placement, **changes: object) -> Plan:
    changed = replace(old, **changes)  # type: ignore[arg-type]
    return replace(plan, placements=tuple(changed if r is old else r for r in plan.placements))


def _addresses(plan: Plan, chance: random.Random) -> Mutants:
    """A whole tensor one byte or one word too low or too high."""
    for placement in _some([r for r in plan.placements if not r.slots], chance):
        for by in (-4, -1, 1, 4):
            yield f"address {by:+}", _with(plan, placement, address=placement.address + by)


def _slots(plan: Plan, chance: random.Random) -> Mutants:
    """One row of a scattered tensor a word off, or at the address of its neighbour."""
    for placement in _some([r for r in plan.placements if r.slots], chance):
        slots = placement.slots
        y = chance.randrange(len(slots))
        for by in (-4, 4):
            yield f"slot {by:+}", _with(plan, placement, slots=(*slots[:y], slots[y] + by, *slots[y + 1 :]))
        near = slots[(y + 1) % len(slots)]
        yield "slot of a neighbour", _with(plan, placement, slots=(*slots[:y], near, *slots[y + 1 :]))


def _orders(plan: Plan, chance: random.Random) -> Mutants:
    """Two neighbouring steps exchanged, one left out, one done twice."""
    steps = plan.steps
    for i in _some(range(len(steps)), chance):
        yield "step left out", replace(plan, steps=steps[:i] + steps[i + 1 :])
        yield "step again", replace(plan, steps=(*steps[: i + 2], steps[i], *steps[i + 2 :]))
        if i + 1 < len(steps):
            yield "steps exchanged", replace(plan, steps=(*steps[:i], steps[i + 1], steps[i], *steps[i + 2 :]))


def _ranges(plan: Plan, chance: random.Random) -> Mutants:
    """A step that begins or ends a row early or late."""
    for i in _some(range(len(plan.steps)), chance):
        step = plan.steps[i]
        y0, y1 = step.rows
        for rows in ((y0 - 1, y1), (y0 + 1, y1), (y0, y1 - 1), (y0, y1 + 1)):
            if rows[0] < rows[1]:
                mutant = replace(step, rows=rows)
                yield "step's rows", replace(plan, steps=(*plan.steps[:i], mutant, *plan.steps[i + 1 :]))


def _editions(plan: Plan, chance: random.Random) -> Mutants:
    """A step that uses another edition of a tensor whose recomputed rows have other addresses."""
    count = Counter(placement.tensor for placement in plan.placements)
    named = [(i, step) for i, step in enumerate(plan.steps) if step.editions]
    for i, step in _some(named, chance):
        tensor, edition = chance.choice(step.editions)
        other = (edition + chance.choice((-1, 1))) % (count[tensor] + 1)  # one of them is not there
        mutant = replace(step, editions=tuple((t, other if t == tensor else e) for t, e in step.editions))
        yield "edition", replace(plan, steps=(*plan.steps[:i], mutant, *plan.steps[i + 1 :]))
