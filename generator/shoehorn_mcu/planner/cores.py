"""Divides the rows of a finished plan's steps among several cores, where the parts do not conflict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain

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
    first, end = step.rows
    to = placements[op.writes, step.edition(op.writes)]
    read = [(placements[each.tensor, step.edition(each.tensor)], each.rows[first:end]) for each in op.reads]
    if not to.slots and all(_are_apart(to, step.rows, placed) for placed, _ in read):
        return False
    spans = {(*_span(placed, y), False) for placed, rows in read for y in {*chain.from_iterable(rows)}}
    ends: dict[tuple[str, bool], int] = {}  # of the spans so far, by memory and whether they are written
    for memory, start, stop, writes in sorted([*((*_span(to, y), True) for y in range(first, end)), *spans]):
        others = (ends.get((memory, other), start) for other in ((True, False) if writes else (True,)))
        if any(start < other for other in others):
            return True
        ends[memory, writes] = max(stop, ends.get((memory, writes), stop))
    return False


def _span(placed: Placement, y: int) -> tuple[str, int, int]:
    """The memory of a row, its address and its end, exclusive."""
    address = placed.at(y)
    return placed.memory_of(y), address, address + placed.row_bytes


def _are_apart(to: Placement, rows: tuple[int, int], other: Placement) -> bool:
    """Whether rows of a tensor without slots are surely apart from all bytes of another: quick, and mostly enough."""
    if other.slots:
        return False
    first, end = (to.address + y * to.row_bytes for y in rows)
    return to.memory != other.memory or other.address + other.bytes <= first or end <= other.address
