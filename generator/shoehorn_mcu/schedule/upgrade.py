"""Faster kernels that need scratch, for the ops of a finished plan: where the plan leaves enough bytes free.

Plans are made with kernels that need no scratch, so that a faster kernel never costs a byte of the smallest arena.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from shoehorn_mcu.kernels import choose
from shoehorn_mcu.kernels.choice import with_scratch
from shoehorn_mcu.planner import Problem
from shoehorn_mcu.planner.cores import conflicts
from shoehorn_mcu.planner.memory_plan import SRAM, Plan, Scratch, Status
from shoehorn_mcu.planner.problem import aligned
from shoehorn_mcu.planner.spare import Spare
from shoehorn_mcu.schedule.predict import longest_rows, time, unit_of
from shoehorn_mcu.schedule.runs import at_once
from shoehorn_mcu.schedule.stage import Flash, Stage

WORTH_PERCENT = 0.5  # of the predicted time: what one kernel must save before the arena grows for its scratch


@dataclass(frozen=True)
class Limits:
    """What upgrades may use, in bytes; None: as much as they need."""

    arenas: Mapping[str, int | None]  # by memory, the one to try first in front
    flash_bytes: int | None  # of all kernels and the constants that they read


@dataclass(frozen=True, eq=False)
class _Faster:
    stage: Stage
    saved: float  # predicted time of one inference


def upgraded(problem: Problem, stages: Sequence[Stage], plan: Plan, limits: Limits) -> tuple[tuple[Stage, ...], Plan]:
    """The stages with faster kernels, largest gain first, and the plan with their scratch.

    `problem` and `stages` are those of the plan. An arena grows, within its limit, only for a kernel that saves
    WORTH_PERCENT.
    """
    found = sorted(_faster(problem, stages, plan, _overwriting(problem, plan)), key=lambda each: -each.saved)
    if not found:
        return tuple(stages), plan
    spare, total = Spare(problem, plan), time(plan, stages)
    now, scratch, arenas = {stage.name: stage for stage in stages}, list(plan.scratch), plan.arenas
    cores, rows = plan.cores_by_op, longest_rows(plan)
    flash = None if limits.flash_bytes is None else Flash(stages, limits.flash_bytes)
    for each in found:
        stage = each.stage
        if now[stage.name].scratch_bytes:
            continue  # a faster one has room
        size = scratch_bytes(stage, cores.get(stage.name, 1))
        for memory, limit in limits.arenas.items():
            arena = arenas.get(memory, 0)
            address = spare.address(stage.name, size, memory)
            end = max(arena, address + size)
            saved = each.saved - rows[stage.name] * size * plan.memory(memory).cycles
            if saved <= 0 < each.saved or (end > arena and saved < total * WORTH_PERCENT / 100):
                continue
            if limit is not None and end > max(arena, limit):
                continue
            if flash is not None and not flash.takes(stage, now[stage.name]):
                break
            now[stage.name], arenas[memory] = stage, end
            scratch.append(Scratch(stage.name, address, size, memory))
            break
    if len(scratch) == len(plan.scratch):
        return tuple(stages), plan
    outcome, more = plan.outcome, sum(arenas.values()) - plan.total_bytes
    if more > 0:
        reason = f"{outcome.reason}; {more:,} bytes more for faster kernels"
        outcome = replace(outcome, status=Status.FEASIBLE, reason=reason.removeprefix("; "))
    others = tuple((memory, arenas[memory]) for memory in arenas if memory != SRAM and arenas[memory])
    larger = replace(plan, scratch=tuple(scratch), arena_bytes=arenas[SRAM], other_arenas=others, outcome=outcome)
    return tuple(now.values()), larger


def missing_scratch(problem: Problem, stages: Sequence[Stage], plan: Plan) -> set[int]:
    """The bytes of scratch of each kernel that would save WORTH_PERCENT, and which the plan has no place for."""
    least, cores = time(plan, stages) * WORTH_PERCENT / 100, plan.cores_by_op
    wanted = (each.stage for each in _faster(problem, stages, plan, ()) if each.saved >= least)
    return {scratch_bytes(stage, cores.get(stage.name, 1)) for stage in wanted}


def without_needless(problem: Problem, stages: Sequence[Stage], plan: Plan) -> tuple[Stage, ...]:
    """The stages, with the fastest kernels in place of those that write nearer to the rows that they read where they
    write over none in this plan."""
    fixed = _overwriting(problem, plan)
    return tuple(stage if stage.name in fixed else _fastest(stage) for stage in stages)


def _fastest(stage: Stage) -> Stage:
    if not stage.machine.near:
        return stage
    machine = replace(stage.machine, near=False)
    return replace(stage, machine=machine, kernel=choose(stage.node, machine))


def scratch_bytes(stage: Stage, cores: int) -> int:
    """The scratch of an op that runs on so many cores: on several, each part is rounded up to ALIGNMENT."""
    size = stage.scratch_bytes
    return size if cores == 1 else aligned(size) * cores


def _faster(problem: Problem, stages: Sequence[Stage], plan: Plan, fixed: Collection[str]) -> Iterator[_Faster]:
    """The ops with each faster kernel that needs scratch. A kernel that has scratch already was asked for by name.

    That of a `fixed` op must overwrite rows as the one before, and one of several rows needs steps of such rows.
    """
    rows, unit = longest_rows(plan), unit_of(stages)
    of_several = cache(lambda count: at_once(problem, plan, count))
    for stage in stages:
        for kernel in () if stage.scratch_bytes else with_scratch(stage.node, stage.machine):
            if stage.name in fixed and kernel.behind(stage.node) != stage.kernel.behind(stage.node):
                continue
            if kernel.rows_at_once > 1 and stage.name not in of_several(kernel.rows_at_once):
                continue
            made = replace(stage, kernel=kernel, rows_per_call=kernel.rows_at_once)
            saved = stage.row_cost_in(unit) - made.row_cost_in(unit)
            yield _Faster(made, rows[stage.name] * saved)


def _overwriting(problem: Problem, plan: Plan) -> frozenset[str]:
    """The ops of which a step writes over rows that it reads, as their present kernels may."""
    ops = {op.name: op for op in problem.ops}
    placements = {(p.tensor, p.edition): p for p in plan.placements}
    steps = (step for step in plan.steps if step.computes and ops[step.op].behind is not None)
    return frozenset(step.op for step in steps if conflicts(ops[step.op], step, placements))
