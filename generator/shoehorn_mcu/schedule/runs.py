"""Runs of rows: rows that lie side by side in memory are one long row for an op that computes pixel by pixel.

A long row is one kernel call instead of many, and fills the kernel's tiles where maps are narrow. A finished plan says
which rows lie side by side; tensors placed row by row keep a call per row.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import gcd

from shoehorn_mcu.ir import Part
from shoehorn_mcu.planner import OpSpec, Problem
from shoehorn_mcu.planner.cores import conflicts
from shoehorn_mcu.planner.memory_plan import Placement, Plan, Step
from shoehorn_mcu.schedule.stage import Stage

Placements = Mapping[tuple[str, int], Placement]
"""By tensor and edition."""


def joined(problem: Problem, stages: Sequence[Stage], plan: Plan) -> tuple[tuple[Stage, ...], Plan]:
    """The stages with as many rows per call as all their steps allow, and the plan that says so.

    `problem` and `stages` are those of the plan.
    """
    ops = {op.name: op for op in problem.ops}
    placements = {(p.tensor, p.edition): p for p in plan.placements}
    steps_of: Mapping[str, list[Step]] = {stage.name: [] for stage in stages}
    for step in plan.steps:
        if step.computes:
            steps_of[step.op].append(step)
    rings = {tensor.name for tensor in problem.tensors if tensor.turns}
    found = tuple(
        stage if _touches(ops[stage.name], rings) else _joined(stage, ops[stage.name], steps_of[stage.name], placements)
        for stage in stages
    )
    counts = {stage.name: stage.rows_per_call for stage in found}
    steps = tuple(replace(step, rows_per_call=counts.get(step.op, 1)) for step in plan.steps)
    return found, replace(plan, steps=steps)


def longest(stage: Stage) -> Stage:
    """The stage with all rows in one call, if its op and its kernel allow that; they must lie side by side."""
    return _with_calls(stage, stage.node.output.type.rows)


def _with_calls(stage: Stage, count: int) -> Stage:
    """The stage with so many rows per call, if its op and its kernel allow that, else as it is."""
    if count not in stage.longer:
        stage.longer[count] = _made_longer(stage, count)
    return stage.longer[count]


def _made_longer(stage: Stage, count: int) -> Stage:
    long = stage.kernel.for_long_rows(stage.node, count)
    return stage if long is None else replace(stage, kernel=long[0], rows_per_call=count)


def at_once(problem: Problem, plan: Plan, rows: int) -> frozenset[str]:
    """The ops of a plan that a kernel may compute of which each call writes so many rows.

    In all steps of such an op the rows of a call lie side by side in what it writes, where no row lies that it reads.
    """
    placements = {(p.tensor, p.edition): p for p in plan.placements}
    rings = {tensor.name for tensor in problem.tensors if tensor.turns}
    ops = {op.name: op for op in problem.ops if not op.onto and not _touches(op, rings)}
    refused = {step.op for step in plan.steps if step.op in ops and not _divides(step, rows, ops[step.op], placements)}
    return frozenset({step.op for step in plan.steps} & ops.keys() - refused)


def _divides(step: Step, rows: int, op: OpSpec, placements: Placements) -> bool:
    """Whether calls of so many rows may compute a step."""
    if any((end - first) % rows for first, end in step.parts):
        return False
    placed = placements[op.writes, step.edition(op.writes)]
    apart = not conflicts(op, step, placements)  # then no call of it writes what another row has
    for call in replace(step, rows_per_call=rows).calls:
        spots = [(placed.memory_of(y), placed.at(y)) for y in call]
        memory, first = spots[0]
        if spots != [(memory, first + i * placed.row_bytes) for i in range(rows)]:
            return False
        if not apart and conflicts(op, replace(step, rows=(call.start, call.stop), cores=1), placements):
            return False
    return True


def _touches(op: OpSpec, tensors: Collection[str]) -> bool:
    """Whether an op reads or writes one of these tensors."""
    return op.writes in tensors or any(read.tensor in tensors for read in op.reads)


def _joined(stage: Stage, op: OpSpec, own: Sequence[Step], placements: Placements) -> Stage:
    """The stage with as many rows per call as all of its `own` steps allow."""
    if not stage.node.op.pixelwise(stage.node.sig):
        return stage
    most = gcd(*(end - first for step in own for first, end in step.parts))
    touched = [op.writes, *(read.tensor for read in op.reads)]
    cut = any(placements[name, 0].memories for name in touched)  # else all rows are side by side, or no two of them
    for count in range(most, 1 if cut else most - 1, -1):
        if count < 2 or most % count:
            continue
        calls = [(step, rows) for step in own for rows in replace(step, rows_per_call=count).calls]
        if all(_is_one_row(stage, op, step, rows, placements) for step, rows in calls):
            return _with_calls(stage, count)
    return stage


def _is_one_row(stage: Stage, op: OpSpec, step: Step, rows: range, placements: Placements) -> bool:
    """Whether one call may compute these rows of a step.

    They lie side by side in all operands, and are written where no row is read, or exactly over the rows of the operand
    that the kernel may overwrite.
    """
    height = stage.node.output.type.rows
    operands = [t for t in stage.row_inputs if t.data is None and t.type.rows == height]
    for tensor in (*operands, stage.node.output):
        found = [_place(stage, tensor.name, y, step, placements) for y in rows]
        memory, first = found[0]
        if found != [(memory, first + i * tensor.type.row_bytes) for i in range(len(found))]:
            return False
    names = [tensor.name for tensor in operands if tensor.name not in stage.shared]
    places = {name: placements[name, step.edition(name)] for name in (*names, op.writes)}
    over = places.get(op.in_place or "")
    if over is not None and step.cores == 1:
        read_once = sum(read.tensor == op.in_place for read in op.reads) == 1
        if read_once and _start(over, rows) == _start(places[op.writes], rows):
            op = replace(op, reads=tuple(read for read in op.reads if read.tensor != op.in_place))
    return not conflicts(op, replace(step, rows=(rows[0], rows[-1] + 1)), placements)


def _place(stage: Stage, tensor: str, y: int, step: Step, placements: Placements) -> tuple[str, int]:
    """In which memory and where row y of an operand or of the output is."""
    part = stage.shared[tensor][y] if tensor in stage.shared else Part(tensor, y, 0)
    placed = placements[part.tensor, step.edition(part.tensor)]
    return placed.memory_of(part.row), placed.at(part.row) + part.start


def _start(place: Placement, rows: range) -> tuple[str, int, int]:
    return place.memory_of(rows[0]), place.at(rows[0]), place.row_bytes
