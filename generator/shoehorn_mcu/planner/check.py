"""Replays a plan on an arena of tags that say which byte of which row is stored; shares no code with the planner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.base.grouped import by_key
from shoehorn_mcu.planner.memory_plan import HANDOUT, Placement, Plan, Scratch, Step
from shoehorn_mcu.planner.problem import Operand, OpSpec, Problem, Read, TensorSpec

_NOTHING = -1
_SCRATCH = -2
_SHIFT = 40  # a tag is (number of the tensor << _SHIFT) + byte within that tensor
_MOST_FAULTS = 20


def check(problem: Problem, plan: Plan) -> list[str]:
    """One sentence per fault; empty if every step reads exactly the bytes that it should."""
    faults = [*_places(problem, plan)]
    return faults or _Replay(problem, plan).run()


_Placements = Mapping[str, Sequence[Placement]]
"""By tensor, in their order."""


def _places(problem: Problem, plan: Plan) -> Iterator[str]:
    """Faults found without a replay: sizes, alignment, range, and missing placements."""
    placements = by_key((placement.tensor, placement) for placement in plan.placements)
    if problem.capacity_bytes is not None and plan.arena_bytes > problem.capacity_bytes:
        yield f"the arena needs {plan.arena_bytes} bytes, {problem.capacity_bytes} are available"
    yield from _memories(problem, plan)
    yield from _steps(problem, plan, placements)
    places: tuple[Placement | Scratch, ...] = (*plan.placements, *plan.scratch)
    for place in places:
        yield from _range(place, plan.arenas)
    yield from _tensors(problem, placements)
    for name in problem.streamed:
        yield from _deliveries(name, problem.by_name[name].rows, plan.steps)
    for op in (op for op in problem.ops if op.name == HANDOUT):
        yield from _handouts(problem.by_name[op.writes].rows, plan.steps)
    yield from _scratch(problem, plan)


def _steps(problem: Problem, plan: Plan, placements: _Placements) -> Iterator[str]:
    """Of each step: its op, its cores, its calls and the placements that it names.

    Cores have equally many rows, or some one more; so calls of several rows divide those of each core only where all
    calls together divide the step.
    """
    ops = {op.name for op in problem.ops}
    for i, step in enumerate(plan.steps):
        rows = step.rows[1] - step.rows[0]
        if step.op not in ops:
            yield f"step {i}: no op is called '{step.op}'"
        if step.cores < 1:
            yield f"step {i} ({step.op}): runs on {step.cores} cores"
        if step.cores > max(1, rows):
            yield f"step {i} ({step.op}): {step.cores} cores for {rows} rows"
        if step.cores > 1 and not step.computes:
            yield f"step {i}: rows arrive, and are handed out, on one core"
        if step.rows_per_call < 1 or (step.rows_per_call > 1 and rows % (step.rows_per_call * max(1, step.cores))):
            yield f"step {i} ({step.op}): {step.rows_per_call} rows per call do not divide its rows"
        missing = [name for name, edition in step.editions if not 0 <= edition < len(placements.get(name, ()))]
        yield from (f"step {i} ({step.op}): '{name}' has no placement of this edition" for name in missing)


def _tensors(problem: Problem, placements: _Placements) -> Iterator[str]:
    """Of each tensor: whether it has placements, numbered and as large as it is; those of the ends are whole."""
    for spec in (spec for spec in problem.tensors if spec.bytes):
        own = placements.get(spec.name, [])
        if not own:
            yield f"tensor '{spec.name}' has no placement"
        if [placement.edition for placement in own] != list(range(len(own))):
            yield f"tensor '{spec.name}' has other editions than 0, 1, 2 and so on, in this order"
        for placement in own:
            yield from _placement(spec, placement, placements)
    for name in dict.fromkeys((*problem.inputs, *problem.outputs)):
        if any(placement.slots or placement.edition for placement in placements.get(name, ())):
            yield f"'{name}': an input or an output must be whole, row after row in one place"


def _memories(problem: Problem, plan: Plan) -> Iterator[str]:
    """Faults of the arenas beside the first: in no memory of the problem, or too large; and rows in several of them."""
    room = dict(problem.others)
    for memory, size in plan.other_arenas:
        if memory not in room:
            yield f"there is an arena of {size} bytes in '{memory}', which is no memory of the problem"
        elif size > room[memory]:
            yield f"the arena in memory '{memory}' needs {size} bytes, {room[memory]} are available"
    where: dict[str, tuple[str, ...]] = {}
    for placement in plan.placements:
        name, own = placement.tensor, placement.memories or (placement.memory,) * placement.rows
        if placement.memories and (len(own) != placement.rows or not placement.slots or own[0] != placement.memory):
            yield f"'{name}': memories of its rows are named, but not for each row with its address, the first in front"
        else:
            both = zip(where.setdefault(name, own), own, strict=False)
            for y, (one, other) in [(y, pair) for y, pair in enumerate(both) if pair[0] != pair[1]][:1]:
                yield f"'{name}': row {y} is in memory '{one}' and, in another edition, in '{other}'"


def _range(place: Placement | Scratch, arenas: Mapping[str, int]) -> Iterator[str]:
    """Faults of one placement or scratch: an address not aligned, or outside the arena of its memory."""
    name = f"'{place.tensor}'" if isinstance(place, Placement) else f"scratch of '{place.op}'"
    each, size = [(place.memory, place.address)], place.bytes
    if isinstance(place, Placement) and place.slots:
        memories = place.memories or (place.memory,) * len(place.slots)
        each, size = [*zip(memories, place.slots, strict=False)], place.row_bytes
    for memory, at in dict.fromkeys(each):
        if memory not in arenas:
            yield f"{name}: there is no arena in memory '{memory}'"
            continue
        if at % 4:
            yield f"{name}: address {at} is not a multiple of 4"
        if at < 0 or at + size > arenas[memory]:
            yield f"{name}: bytes {at}..{at + size} leave the arena of {arenas[memory]}"


def _placement(spec: TensorSpec, placement: Placement, placements: Mapping[str, Sequence[Placement]]) -> Iterator[str]:
    """Faults of one placement of a tensor. A view is where its root is; both are whole and have one edition, unless
    their rows are the same ones.
    """
    if (placement.rows, placement.row_bytes) != (spec.rows, spec.row_bytes):
        yield f"'{spec.name}': placed as {placement.rows} rows of {placement.row_bytes} bytes, which is not its shape"
    if placement.slots and len(placement.slots) != spec.rows:
        yield f"'{spec.name}': {len(placement.slots)} row addresses for {spec.rows} rows"
    if spec.over is not None:
        below = placements.get(spec.over, ())
        if [(p.memory, p.address) for p in below] != [(placement.memory, placement.address)]:
            yield f"'{spec.name}' is not placed where '{spec.over}' is, over which it is written"
    if spec.view_of is not None:
        root = placements.get(spec.view_of, ())
        if placement not in [replace(p, tensor=spec.name) for p in root] and not _is_whole_view(placement, root):
            yield f"'{spec.name}' is not placed where '{spec.view_of}' is, whose bytes it shares"


def _is_whole_view(placement: Placement, root: Sequence[Placement]) -> bool:
    """Whether a view with other rows than its root is at the root's address, both in one piece."""
    if len(root) != 1 or root[0].slots or placement.slots or placement.edition:
        return False
    return _span(root[0]) == _span(placement)


def _span(placement: Placement) -> tuple[str, int, int]:
    """The bytes of a whole tensor."""
    return placement.memory, placement.address, placement.bytes


def _scratch(problem: Problem, plan: Plan) -> Iterator[str]:
    """Faults of scratch: each op that runs needs exactly one, large enough for all cores of any of its steps."""
    scratch = {s.op: s for s in plan.scratch}
    if len(scratch) != len(plan.scratch):
        yield "an op has two scratch addresses"
    cores = Counter[str]()
    for step in plan.steps:
        cores[step.op] = max(step.cores, cores[step.op])
    for op in problem.ops:
        several = cores[op.name] > 1
        needed = (-(-op.scratch_bytes // 4) * 4 if several else op.scratch_bytes) * cores[op.name]
        if needed and (op.name not in scratch or scratch[op.name].bytes < needed):
            yield f"op '{op.name}' lacks its {needed} bytes of scratch"


def _deliveries(name: str, height: int, steps: Sequence[Step]) -> Iterator[str]:
    """Faults of a streamed input: its rows arrive in order, each once, and no step runs before the first."""
    arrived = [y for step in steps if step.delivers for y in range(*step.rows)]
    if arrived != list(range(height)):
        yield f"the rows of the streamed input '{name}' arrive in another order than 0..{height - 1}"
    if steps and not steps[0].delivers:
        yield f"step 0 ({steps[0].op}) comes before the first row of the streamed input '{name}'"


def _handouts(height: int, steps: Sequence[Step]) -> Iterator[str]:
    """Faults of a streamed output: its rows are handed out in order, each once."""
    if [y for step in steps if step.hands_out for y in range(*step.rows)] != list(range(height)):
        yield f"the rows of the streamed output are handed out in another order than 0..{height - 1}"


class _Replay:
    """The arenas as tags. A row is written, and compared at each read, at the address that the current step gives.

    A tag identifies a byte of a row. A recomputed row gets the same tags, because it has the same bytes.
    """

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self._problem, self._plan = problem, plan
        self._placements = {(p.tensor, p.edition): p for p in plan.placements}
        self._editions: dict[str, int] = {}  # of the current step
        self._scratch = {s.op: s for s in plan.scratch}
        self._ops = {op.name: op for op in problem.ops}
        self._arenas: dict[str, NDArray[np.int64]] = {
            memory: np.full(size, _NOTHING, np.int64) for memory, size in plan.arenas.items()
        }
        self._count = np.arange(max(spec.row_bytes for spec in problem.tensors), dtype=np.int64)
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
            for y in range(self._problem.by_name[name].rows):
                self._write(name, y)
        for name in self._problem.inputs:
            self._read_all("before the first step", name)
        for i, step in enumerate(self._plan.steps):
            self._editions = dict(step.editions)
            self._step(i, step)
            if len(self._faults) >= _MOST_FAULTS:
                return self._faults
        self._editions = {}
        for name in self._problem.outputs:
            self._read_all("after the last step", name)
        for spec in self._problem.tensors:
            if spec.over is not None:  # what is not written over stays for the next inference
                for y in range(spec.rows, self._problem.by_name[spec.over].rows):
                    self._read("after the last step", spec.over, y)
        return self._faults

    def _step(self, number: int, step: Step) -> None:
        """One core makes call after call; several may compute all rows of the step at one time."""
        op = self._ops[step.op]
        y0, y1 = step.rows
        if not 0 <= y0 < y1 <= self._problem.by_name[op.writes].rows:
            self._faults.append(f"step {number} ({op.name}): rows {y0}..{y1} are outside '{op.writes}'")
            return
        count = step.rows_per_call
        for y in range(y0, y1, count) if count > 1 else ():
            self._one_row(f"step {number} ({op.name}, rows {y}..{y + count})", op, range(y, y + count))
        if step.cores > 1:
            self._rows(f"step {number} ({op.name}, rows {y0}..{y1})", op, range(y0, y1), alone=False)
        else:
            for y in range(y0, y1, count):
                self._rows(f"step {number} ({op.name}, row {y})", op, range(y, y + count), alone=True)

    def _one_row(self, where: str, op: OpSpec, rows: range) -> None:
        """The rows that one call writes must lie side by side, and so must those that it reads of each operand, unless
        the kernel has a pointer to each of them.
        """
        written = self._whole(Read(op.writes, tuple((y,) for y in range(self._problem.by_name[op.writes].rows))))
        read = {(each.tensor, row) for each in op.reads for y in rows for row in each.rows[y]}
        reads = () if len(rows) == op.rows_at_once else op.operands or map(self._whole, op.reads)
        for operand in (written, *reads):
            self._one_operand(where, operand, rows, None if operand is written else read)

    def _one_operand(self, where: str, operand: Operand, rows: range, read: Collection[tuple[str, int]] | None) -> None:
        """What one call takes of an operand; `read`: the rows that the op reads, None where the operand is written."""
        parts = [part for y in rows for part in operand.parts[y]]
        names = "', '".join(dict.fromkeys(name for name, _, _ in parts))
        for name, row, start in parts:
            if read is not None and (name, row) not in read:
                self._faults.append(f"{where}: one call takes row {row} of '{name}', which the op does not read")
            if start < 0 or start + operand.row_bytes > self._problem.by_name[name].row_bytes:
                self._faults.append(f"{where}: one call takes bytes that are not in row {row} of '{name}'")
        if operand.rows == 1 and parts and parts == parts[:1] * len(rows):
            return  # all of them read it
        if any(self._problem.by_name[name].turns for name, _, _ in parts):
            self._faults.append(f"{where}: one call, but '{names}' is a ring, whose rows are not in order")
        places = [(memory, at + start) for (memory, at), start in ((self._place(n, y), s) for n, y, s in parts)]
        in_order = [(memory, at + i * operand.row_bytes) for memory, at in places[:1] for i in range(len(rows))]
        if not places or places != in_order:
            self._faults.append(f"{where}: one call, but these rows of '{names}' do not lie side by side")

    def _whole(self, read: Read) -> Operand:
        """A read as an operand: whole rows of one tensor."""
        spec = self._problem.by_name[read.tensor]
        return Operand(spec.rows, spec.row_bytes, tuple(tuple((read.tensor, y, 0) for y in rows) for rows in read.rows))

    def _rows(self, where: str, op: OpSpec, rows: range, alone: bool) -> None:
        """One kernel call, or simultaneous ones: all writes are made before reads are compared, the worst case.

        Only a call made `alone` may overwrite the rows that it reads, with rows that are at the same addresses.
        """
        scratch = self._scratch.get(op.name)
        if scratch is not None:
            self._bytes(scratch)[:] = _SCRATCH
        over = self._all_overwritten(op, rows) if alone else []
        for name, row in over:
            self._read(where, name, row)
        for y in rows:
            self._write(op.writes, y)
        for y in () if alone else rows:
            self._read(where, op.writes, y)  # a row that another row of the call overwrote is noticed
        carried = {row for read in op.reads if read.tensor == op.writes for y in rows for row in read.rows[y]}
        if carried & set(rows):
            self._faults.append(f"{where}: computed at one time, but a row of '{op.writes}' needs another of them")
        for read in op.reads:
            for row in dict.fromkeys(row for y in rows for row in read.rows[y]):
                if (read.tensor, row) not in over:
                    self._read(where, read.tensor, row)
        if scratch is not None and (self._bytes(scratch) != _SCRATCH).any():
            self._faults.append(f"{where}: writes '{op.writes}' over its own scratch")

    def _all_overwritten(self, op: OpSpec, rows: range) -> list[tuple[str, int]]:
        """The rows of one tensor that a call may overwrite with all of its rows; none where it may not."""
        found = [self._overwritten(op, y) for y in rows]
        over = [each for each in found if each is not None]
        return over if len(over) == len(rows) else []

    def _overwritten(self, op: OpSpec, y: int) -> tuple[str, int] | None:
        """The tensor and its row at the address of output row y, if the kernel may overwrite that row.

        It may if it reads each byte of the row before it writes there; not if it reads the row twice. Where the output
        stays `behind`, the row lies exactly so many bytes higher, and is one of those that are read.
        """
        reads = [(read.tensor, row) for read in op.reads if read.tensor == op.in_place for row in read.rows[y]]
        if not reads:
            return None
        (memory, start), places = self._place(op.writes, y), [self._place(*each) for each in reads]
        if op.behind is None:
            return reads[0] if places == [(memory, start)] else None
        over = [each for each, place in zip(reads, places, strict=True) if place == (memory, start + op.behind)]
        return over[0] if len(over) == 1 else None

    def _place(self, name: str, y: int) -> tuple[str, int]:
        """The memory and the address of row y in the current step."""
        placement = self._placements[name, self._editions.get(name, 0)]
        at = placement.slots[y] if placement.slots else placement.address + y * placement.row_bytes
        return placement.memories[y] if placement.memories else placement.memory, at

    def _bytes(self, scratch: Scratch) -> NDArray[np.int64]:
        return self._arenas[scratch.memory][scratch.address : scratch.address + scratch.bytes]

    def _slot(self, name: str, y: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The tags at row y's address, and the tags expected there."""
        memory, at = self._place(name, y)
        size = self._problem.by_name[name].row_bytes
        tag = (self._number[name] << _SHIFT) + y * size
        return self._arenas[memory][at : at + size], self._count[:size] + tag

    def _write(self, name: str, y: int) -> None:
        if self._problem.by_name[name].bytes:
            place, tags = self._slot(name, y)
            place[:] = tags

    def _read_all(self, where: str, name: str) -> None:
        for y in range(self._problem.by_name[name].rows):
            self._read(where, name, y)

    def _read(self, where: str, name: str, y: int) -> None:
        if not self._problem.by_name[name].bytes:
            return
        place, tags = self._slot(name, y)
        wrong = place != tags
        if wrong.any() and len(self._faults) < _MOST_FAULTS:
            held = self._say(int(place[int(wrong.argmax())]))
            self._faults.append(f"{where}: row {y} of '{name}' is read, but its bytes hold {held}")

    def _say(self, tag: int) -> str:
        if tag < 0:
            return {_NOTHING: "nothing", _SCRATCH: "scratch"}[tag]
        number, byte = divmod(tag, 1 << _SHIFT)
        owner = self._problem.tensors[number]
        return f"row {byte // owner.row_bytes} of '{owner.name}'"
