"""Replays a plan on an arena whose bytes remember what wrote them; shares nothing with what made the plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.memory_plan import Plan, Ring, Scratch, Step
from shoehorn_mcu.planner.problem import OpSpec, Problem, TensorSpec

_NOTHING = -1
_SCRATCH = -2
_SHIFT = 40  # a tag is (number of the tensor << _SHIFT) + byte within that tensor
_MOST_FAULTS = 20


def check(problem: Problem, plan: Plan) -> list[str]:
    """Sentences, one per fault; empty when every byte that is read is the one that is meant."""
    faults = [*_places(problem, plan)]
    return faults or _Replay(problem, plan).run()


def _places(problem: Problem, plan: Plan) -> Iterator[str]:
    """Faults that need no replay: sizes, alignment, range, and places that are missing."""
    rings: dict[str, list[Ring]] = {}
    for ring in plan.rings:
        rings.setdefault(ring.tensor, []).append(ring)
    scratch = {s.op: s for s in plan.scratch}
    ops = {op.name: op for op in problem.ops}
    if problem.capacity_bytes is not None and plan.arena_bytes > problem.capacity_bytes:
        yield f"the arena takes {plan.arena_bytes} bytes of {problem.capacity_bytes}"
    if len(scratch) != len(plan.scratch):
        yield "a scratch has two places"
    yield from (f"step {i}: no op is called '{s.op}'" for i, s in enumerate(plan.steps) if s.op not in ops)
    places: tuple[Ring | Scratch, ...] = (*plan.rings, *plan.scratch)
    for place in places:
        name = f"ring '{place.tensor}'" if isinstance(place, Ring) else f"scratch of '{place.op}'"
        if place.address % 4:
            yield f"{name}: address {place.address} is not a multiple of 4"
        if isinstance(place, Ring) and place.slots:
            continue
        if place.address < 0 or place.address + place.bytes > plan.arena_bytes:
            yield f"{name}: bytes {place.address}..{place.address + place.bytes} leave the arena of {plan.arena_bytes}"
    for spec in problem.tensors:
        if spec.name not in rings:
            yield f"tensor '{spec.name}' has no ring"
        if [ring.edition for ring in rings.get(spec.name, ())] != list(range(len(rings.get(spec.name, ())))):
            yield f"tensor '{spec.name}' has rings of other editions than 0, 1, 2 and so on, in this order"
        for ring in rings.get(spec.name, ()):
            yield from _ring(spec, ring, rings, plan.arena_bytes)
    for i, step in enumerate(plan.steps):
        missing = [name for name, edition in step.editions if not 0 <= edition < len(rings.get(name, ()))]
        yield from (f"step {i} ({step.op}): '{name}' has no ring of the edition it means" for name in missing)
    for name in dict.fromkeys((*problem.inputs, *problem.outputs)):
        if any(ring.slots or ring.rows != ring.height or ring.edition for ring in rings.get(name, ())):
            yield f"ring '{name}': an input or an output must be whole, row after row in one place"
    for name in problem.streamed:
        yield from _deliveries(name, rings[name][0].height if name in rings else 0, plan.steps)
    for op in problem.ops:
        if op.scratch_bytes and (op.name not in scratch or scratch[op.name].bytes < op.scratch_bytes):
            yield f"op '{op.name}' lacks its {op.scratch_bytes} bytes of scratch"


def _ring(spec: TensorSpec, ring: Ring, rings: Mapping[str, Sequence[Ring]], arena_bytes: int) -> Iterator[str]:
    """What is wrong with one ring of a tensor. A view has no slots and no editions, and neither has its root."""
    if ring.slots and (len(ring.slots) != spec.rows or spec.view_of is not None):
        yield f"ring '{spec.name}': {len(ring.slots)} places for {spec.rows} rows, and none for a view"
    elif any(at % 4 or at < 0 or at + ring.row_bytes > arena_bytes for at in ring.slots):
        yield f"ring '{spec.name}': a row lies at no multiple of 4, or leaves the arena of {arena_bytes}"
    elif (ring.height, ring.row_bytes) != (spec.rows, spec.row_bytes) or not 1 <= ring.rows <= ring.height:
        yield f"ring '{spec.name}': {ring.rows} of {ring.height} rows of {ring.row_bytes} bytes do not suit it"
    elif spec.view_of is not None:
        base = rings.get(spec.view_of, ())
        whole = len(base) == 1 and base[0].rows == base[0].height and not base[0].slots
        if not whole or ring.edition or (base[0].address, base[0].bytes) != (ring.address, ring.bytes):
            yield f"ring '{spec.name}' does not lie where '{spec.view_of}' lies, whose bytes it shares"


def _deliveries(name: str, height: int, steps: Sequence[Step]) -> Iterator[str]:
    """What comes from outside comes in order and once, and nothing runs before it has begun."""
    arrived = [y for step in steps if step.delivers for y in range(*step.rows)]
    if arrived != list(range(height)):
        yield f"the rows of the streamed input '{name}' arrive in another order than 0..{height - 1}"
    if steps and not steps[0].delivers:
        yield f"step 0 ({steps[0].op}) comes before the first row of the streamed input '{name}'"


class _Replay:
    """The arena as tags. A row is written and then read back at each use, where the step at hand says that it lies.

    A tag says which byte of which row it is, not which time the row was computed: each time it is the same bytes.
    """

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self._problem = problem
        self._plan = plan
        self._rings = {(ring.tensor, ring.edition): ring for ring in plan.rings}
        self._editions: dict[str, int] = {}  # of the step at hand
        self._scratch = {s.op: s for s in plan.scratch}
        self._ops = {op.name: op for op in problem.ops}
        self._arena: NDArray[np.int64] = np.full(plan.arena_bytes, _NOTHING, np.int64)
        self._count = np.arange(max((r.row_bytes for r in plan.rings), default=0), dtype=np.int64)
        owners = {t.name: t.view_of for t in problem.tensors}
        numbers = {t.name: i for i, t in enumerate(problem.tensors)}
        self._number: dict[str, int] = {}
        for name in owners:
            owner = name
            while (base := owners[owner]) is not None:
                owner = base
            self._number[name] = numbers[owner]
        self._faults: list[str] = []

    def run(self) -> list[str]:
        for name in self._problem.inputs:
            for y in range(self._ring(name).height):
                self._write(name, y)
        for name in self._problem.inputs:
            self._read_all("before the first step", name)
        for i, step in enumerate(self._plan.steps):
            op = self._ops[step.op]
            self._editions = dict(step.editions)
            if step.channels != (0, op.channels):
                self._faults.append(f"step {i} ({op.name}): channels {step.channels} are not the whole row")
            y0, y1 = step.rows
            if not 0 <= y0 < y1 <= self._ring(op.writes).height:
                self._faults.append(f"step {i} ({op.name}): rows {y0}..{y1} are outside '{op.writes}'")
                continue
            for y in range(y0, y1):
                self._row(f"step {i} ({op.name}, row {y})", op, y)
            if len(self._faults) >= _MOST_FAULTS:
                return self._faults
        self._editions = {}
        for name in self._problem.outputs:
            self._read_all("after the last step", name)
        return self._faults

    def _ring(self, name: str) -> Ring:
        return self._rings[name, self._editions.get(name, 0)]

    def _row(self, where: str, op: OpSpec, y: int) -> None:
        """One kernel call: everything that it writes is written before its reads are looked at."""
        scratch = self._scratch.get(op.name)
        if scratch is not None:
            self._bytes(scratch)[:] = _SCRATCH
        over = self._overwritten(op, y)
        if over is not None:
            self._read(where, over, y)
        self._write(op.writes, y)
        for read in op.reads:
            for row in read.rows[y]:
                if (read.tensor, row) != (over, y):
                    self._read(where, read.tensor, row)
        if scratch is not None and (self._bytes(scratch) != _SCRATCH).any():
            self._faults.append(f"{where}: writes '{op.writes}' over its own scratch")

    def _overwritten(self, op: OpSpec, y: int) -> str | None:
        """The tensor whose row y begins exactly where output row y does, if the kernel may overwrite that one.

        It reads each byte of that row before it writes there, but not if it reads the row twice.
        """
        name = op.in_place
        reads = [row for read in op.reads if read.tensor == name for row in read.rows[y]]
        if name is None or reads != [y] or self._at(name, y) != self._at(op.writes, y):
            return None
        return name

    def _at(self, name: str, y: int) -> int:
        ring = self._ring(name)
        return ring.slots[y] if ring.slots else ring.address + (y % ring.rows) * ring.row_bytes

    def _bytes(self, scratch: Scratch) -> NDArray[np.int64]:
        return self._arena[scratch.address : scratch.address + scratch.bytes]

    def _slot(self, name: str, y: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The tags at row y's place, and what they have to be."""
        ring = self._ring(name)
        at = self._at(name, y)
        tag = (self._number[name] << _SHIFT) + y * ring.row_bytes
        return self._arena[at : at + ring.row_bytes], self._count[: ring.row_bytes] + tag

    def _write(self, name: str, y: int) -> None:
        place, tags = self._slot(name, y)
        place[:] = tags

    def _read_all(self, where: str, name: str) -> None:
        for y in range(self._ring(name).height):
            self._read(where, name, y)

    def _read(self, where: str, name: str, y: int) -> None:
        place, tags = self._slot(name, y)
        wrong = place != tags
        if wrong.any() and len(self._faults) < _MOST_FAULTS:
            found = self._say(int(place[int(wrong.argmax())]))
            self._faults.append(f"{where}: row {y} of '{name}' is read, but {found} lies there")

    def _say(self, tag: int) -> str:
        if tag < 0:
            return {_NOTHING: "nothing", _SCRATCH: "scratch"}[tag]
        owner = self._problem.tensors[tag >> _SHIFT]
        return f"row {(tag & ((1 << _SHIFT) - 1)) // owner.row_bytes} of '{owner.name}'"
