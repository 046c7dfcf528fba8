"""Divides the rows of a finished plan's steps among several cores, where the parts do not conflict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from shoehorn_mcu.planner.memory_plan import Placement, Plan, Step
from shoehorn_mcu.planner.problem import OpSpec, Problem

LEAST_COST = 1000  # predicted time of a step below which waiting for other cores takes longer than they save


def divided(problem: Problem, plan: Plan, most: int) -> Plan:
    """The plan whose steps run on up to `most` cores each; `problem` has the ops of its steps.

    A step stays on one core where a row of it overwrites a row that the step reads or another one that it writes, where
    its op has planned scratch, and where it has one row or little work.
    """
    ops = {op.name: op for op in problem.ops}
    placements = {(p.tensor, p.edition): p for p in plan.placements}
    alone = {scratch.op for scratch in plan.scratch}

    def shared(step: Step) -> Step:
        count = min(most, step.rows[1] - step.rows[0])
        if count < 2 or not step.computes or step.op in alone:
            return step
        op = ops[step.op]
        if op.row_cost * (step.rows[1] - step.rows[0]) < LEAST_COST or conflicts(op, step, placements):
            return step
        return replace(step, cores=count)

    return replace(plan, steps=tuple(map(shared, plan.steps)))


def conflicts(op: OpSpec, step: Step, placements: Mapping[tuple[str, int], Placement]) -> bool:
    """Whether a byte that a row of the step writes is read by the step, or written by another row."""

    def spans(tensor: str, rows: Iterator[int]) -> Iterator[tuple[str, int, int]]:
        placed = placements[tensor, step.edition(tensor)]
        yield from ((placed.memory_of(y), placed.at(y), placed.at(y) + placed.row_bytes) for y in rows)

    rows = range(*step.rows)
    written = [(*span, True) for span in spans(op.writes, iter(rows))]
    read = {
        (*span, False) for read in op.reads for span in spans(read.tensor, (row for y in rows for row in read.rows[y]))
    }
    ends: dict[tuple[str, bool], int] = {}  # of the spans so far, by memory and whether they are written
    for memory, first, end, writes in sorted([*written, *read]):
        others = (ends.get((memory, other), first) for other in ((True, False) if writes else (True,)))
        if any(first < other for other in others):
            return True
        ends[memory, writes] = max(end, ends.get((memory, writes), end))
    return False
