"""The planner's problem in pairs of rows, for kernels that compute two rows at once, and its plans in single rows.

A pair is planned as one row that is twice as long: it is computed, kept and released as a whole. So a plan row by row
can use such kernels, for at most twice the bytes of the tensors that they write.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from shoehorn_mcu.kernels.choice import with_scratch
from shoehorn_mcu.planner import OpSpec, Problem, Read, TensorSpec
from shoehorn_mcu.planner.memory_plan import Placement, Plan, Step
from shoehorn_mcu.planner.problem import ALIGNMENT
from shoehorn_mcu.schedule.stage import Stage


@dataclass(frozen=True, eq=False)
class Pairs:
    """A problem in which the rows of some tensors, and of the ops that write them, are pairs."""

    problem: Problem
    ops: frozenset[str]
    tensors: frozenset[str]

    def single(self, plan: Plan) -> Plan:
        """A plan of the problem, in one memory, as one of the single rows."""
        return replace(
            plan,
            steps=tuple(map(self._step, plan.steps)),
            placements=tuple(map(self._placement, plan.placements)),
        )

    def _step(self, step: Step) -> Step:
        first, end = step.rows
        return replace(step, rows=(2 * first, 2 * end)) if step.op in self.ops else step

    def _placement(self, place: Placement) -> Placement:
        if place.tensor not in self.tensors:
            return place
        size = place.row_bytes // 2
        slots = tuple(at + more for at in place.slots for more in (0, size))
        return replace(place, rows=2 * place.rows, row_bytes=size, slots=slots)


def by_two(stages: Sequence[Stage]) -> frozenset[str]:
    """The ops whose fastest kernel computes two rows at once."""
    fastest = ((stage.name, with_scratch(stage.node, stage.machine)[:1]) for stage in stages)
    return frozenset(name for name, kernels in fastest for kernel in kernels if kernel.rows_at_once == 2)


def in_pairs(problem: Problem, wanted: Collection[str]) -> Pairs | None:
    """The problem in which the `wanted` ops write pairs of rows, where their rows can be pairs.

    Ops that write over these pairs, row by row, do so as well, where their rows are as long. None where there are no
    such ops.
    """
    size = {spec.name: spec.row_bytes for spec in problem.tensors}
    free = {spec.name for spec in problem.tensors} - {*_bound(problem)}
    ops, tensors = set[str](), set[str]()
    for op in problem.ops:
        over = op.in_place in tensors and _lies_on_pairs(op, size) and not op.operands
        if op.writes in free and (op.name in wanted or (over and _by_row(op))):
            ops.add(op.name)
            tensors.add(op.writes)
    if not ops:
        return None
    made = replace(
        problem,
        tensors=tuple(_pair(spec) if spec.name in tensors else spec for spec in problem.tensors),
        ops=tuple(_op(op, tensors, size) for op in problem.ops),
        blocks=(),
    )
    return Pairs(made, frozenset(ops), frozenset(tensors))


def _bound(problem: Problem) -> Iterator[str]:
    """The tensors whose rows stay single: those that have other rows as well, that arrive, or that have no pairs."""
    yield from (*problem.inputs, *problem.streamed)
    for spec in problem.tensors:
        if spec.rows % 2 or spec.row_bytes % ALIGNMENT or spec.over is not None or spec.turns:
            yield spec.name
        if spec.view_of is not None:
            yield from (spec.name, spec.view_of)
    for op in problem.ops:
        yield from (part[0] for operand in op.operands for parts in operand.parts for part in parts)
        read = {read.tensor for read in op.reads}
        if op.onto or op.writes in read:  # rows that are computed from earlier ones of the same tensor
            yield from (op.writes, *read)


def _by_row(op: OpSpec) -> bool:
    """Whether each row is computed from the same row of what it may overwrite."""
    rows = [read.rows for read in op.reads if read.tensor == op.in_place]
    return rows == [tuple((y,) for y in range(len(rows[0])))]


def _lies_on_pairs(op: OpSpec, size: Mapping[str, int]) -> bool:
    """Whether both rows of a pair lie on those that they may overwrite, where the first one does."""
    return op.in_place is not None and op.behind is None and size[op.writes] == size[op.in_place]


def _pair(spec: TensorSpec) -> TensorSpec:
    return replace(spec, rows=spec.rows // 2, row_bytes=2 * spec.row_bytes)


def _op(op: OpSpec, tensors: set[str], size: Mapping[str, int]) -> OpSpec:
    """The op with pairs where it writes, and where it reads."""
    count = 2 if op.writes in tensors else 1
    reads = tuple(_read(read, count, 2 if read.tensor in tensors else 1) for read in op.reads)
    over = op.in_place is not None and (op.in_place in tensors) == (count == 2)
    kept = over and (count == 1 or _lies_on_pairs(op, size))
    return replace(
        op,
        reads=reads,
        row_cost=count * op.row_cost,
        row_macs=count * op.row_macs,
        in_place=op.in_place if kept else None,
        behind=op.behind if kept else None,
        rows_at_once=1,
    )


def _read(read: Read, count: int, parts: int) -> Read:
    """What `count` rows of an op read of a tensor of which `parts` rows are one."""
    together = (read.rows[y : y + count] for y in range(0, len(read.rows), count))
    return Read(read.tensor, tuple(tuple(dict.fromkeys(r // parts for row in rows for r in row)) for rows in together))
