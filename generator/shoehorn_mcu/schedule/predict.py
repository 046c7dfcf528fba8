"""Predicted time of one inference: the steps of a plan, weighed by the costs of kernels and of calling them.

It is predicted in instructions, on some cores in cycles too; `unit_of` is the one in which plans are compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from shoehorn_mcu.ir import DType, Node
from shoehorn_mcu.kernels import ANY
from shoehorn_mcu.kernels.cost import DEFAULT_CPU, Calls, Unit, basis, call_cost, choice_unit, costs_of, units
from shoehorn_mcu.planner.memory_plan import Placement, Plan
from shoehorn_mcu.schedule.stage import Stage


def _pointers(placement: Placement | None, count: float) -> Calls:
    """`count` pointers to rows of this tensor; a constant has no placement and is whole.

    Where rows are in several memories, the arena is chosen by a comparison like that of a guarded row.
    """
    if placement is None or not placement.slots:
        return Calls(pointers=count)
    return Calls(pointers=count, slotted=count, guarded=count if placement.memories else 0)


def calls_of(stage: Stage, placements: Mapping[str, Placement]) -> Calls:
    """The work around one call of the kernel: the call and its row pointers."""
    total = _pointers(placements[stage.node.output.name], 1)
    for tensor, (places, guarded) in zip(stage.row_inputs, stage.pointers, strict=True):
        total += _pointers(placements.get(tensor.name), places) + Calls(guarded=guarded)
    return total


def rows_and_steps(plan: Plan) -> tuple[Counter[str], Counter[str]]:
    """By op: the rows computed, including recomputed ones, and the steps that they are in."""
    rows, steps = Counter[str](), Counter[str]()
    for step in (s for s in plan.steps if s.computes):
        rows[step.op] += step.rows[1] - step.rows[0]
        steps[step.op] += 1
    return rows, steps


def recomputes(plan: Plan, stages: Sequence[Stage]) -> bool:
    """Whether the plan computes a row more than once."""
    rows, _ = rows_and_steps(plan)
    return any(rows[stage.name] > stage.node.output.type.rows for stage in stages)


def longest_rows(plan: Plan) -> Counter[str]:
    """By op: the rows computed by the core of each step that computes most of them, summed over the steps."""
    rows = Counter[str]()
    for step in (s for s in plan.steps if s.computes):
        rows[step.op] += -(-(step.rows[1] - step.rows[0]) // step.cores)
    return rows


def _cpu(stages: Sequence[Stage]) -> str:
    """The core of the stages; a model without ops needs no core."""
    return stages[0].cpu if stages else DEFAULT_CPU


def unit_of(stages: Sequence[Stage]) -> Unit:
    """The unit in which plans of these stages are compared."""
    return choice_unit(_cpu(stages))


def of_rows(plan: Plan, stages: Sequence[Stage], unit: Unit) -> Iterator[tuple[float, float]]:
    """The predicted cost of each stage in their order: of one row, and of one step around its calls.

    Cycles count the waits for the memories of the plan.
    """
    placements = {placement.tensor: placement for placement in plan.placements}
    waits = row_waits(plan, stages) if unit is Unit.CYCLES else {}
    for stage in stages:
        row = stage.kernel_cost(unit) + call_cost(calls_of(stage, placements), stage.cpu, unit)
        yield row / stage.rows_per_call + waits.get(stage.name, 0.0), call_cost(Calls(steps=1), stage.cpu, unit)


def row_waits(plan: Plan, stages: Sequence[Stage]) -> Mapping[str, float]:
    """By op the cycles that the core waits for the memories in one row; the mean of the rows that the plan computes.

    Each byte of a row that the op reads or writes is counted once in each row of the output, as the manifest's cycles
    per byte are meant: a kernel may load a byte several times, a cache may hold it. Scratch is written and read once.
    """
    if not any(memory.cycles for memory in plan.memories):
        return {}
    placements = {placement.tensor: placement for placement in plan.placements}  # of a row all are in one memory
    computed: dict[str, Counter[int]] = {stage.name: Counter() for stage in stages}
    for step in (s for s in plan.steps if s.computes):
        computed[step.op].update(range(*step.rows))
    scratch = {s.op: s.bytes * plan.memory(s.memory).cycles for s in plan.scratch}
    found = {}
    for stage in stages:
        times = computed[stage.name]
        waits = _moved(placements[stage.node.output.name], times, {m.name: m.write_cycles for m in plan.memories})
        for name, rows in stage.reads:
            read = Counter[int]()
            for y, count in times.items():
                for row in rows[y]:
                    read[row] += count
            waits += _moved(placements[name], read, {m.name: m.read_cycles for m in plan.memories})
        found[stage.name] = waits / max(1, times.total()) + scratch.get(stage.name, 0.0)
    return found


def _moved(placed: Placement, times: Counter[int], cycles: Mapping[str, float]) -> float:
    """Cycles of moving rows of a tensor so many times, each by the cycles per byte of its memory."""
    if not placed.memories:
        return times.total() * placed.row_bytes * cycles.get(placed.memory, 0.0)
    return sum(count * placed.row_bytes * cycles.get(placed.memory_of(y), 0.0) for y, count in times.items())


def waits(plan: Plan, stages: Sequence[Stage]) -> int:
    """Cycles of one inference that the core waits for the memories of the plan."""
    rows, waits = longest_rows(plan), row_waits(plan, stages)
    return round(sum(rows[name] * cycles for name, cycles in waits.items()))


def by_op(plan: Plan, stages: Sequence[Stage], unit: Unit) -> Iterator[float]:
    """The predicted cost of each stage in one inference, in their order; on several cores that of the slowest one."""
    rows, (_, steps) = longest_rows(plan), rows_and_steps(plan)
    for stage, (row, step) in zip(stages, of_rows(plan, stages, unit), strict=True):
        yield rows[stage.name] * row + steps[stage.name] * step


def cost_of(plan: Plan, stages: Sequence[Stage], unit: Unit) -> int:
    """The predicted cost of one inference. Streamed input rows cost nothing: they are written in place."""
    return round(sum(by_op(plan, stages, unit)))


def instructions(plan: Plan, stages: Sequence[Stage]) -> int:
    """Predicted instructions of one inference."""
    return cost_of(plan, stages, Unit.INSTRUCTIONS)


def cycles(plan: Plan, stages: Sequence[Stage]) -> int | None:
    """Predicted cycles of one inference; None where the core has none."""
    return cost_of(plan, stages, Unit.CYCLES) if Unit.CYCLES in units(_cpu(stages)) else None


def time(plan: Plan, stages: Sequence[Stage]) -> int:
    """Predicted time of one inference, in `unit_of` the stages; a cycle of waiting takes as long as an instruction."""
    unit = unit_of(stages)
    return cost_of(plan, stages, unit) + (0 if unit is Unit.CYCLES else waits(plan, stages))


def speedup(plan: Plan, stages: Sequence[Stage]) -> float:
    """The predicted time of the plan on one core, divided by that on its cores."""
    alone = replace(plan, steps=tuple(replace(step, cores=1) for step in plan.steps))
    return time(alone, stages) / max(1, time(plan, stages))


def ruler(stages: Sequence[Stage]) -> str:
    """A sentence on the measurements behind a prediction for these stages."""
    if not stages:
        return "absence of ops: every output is an input"
    machine, unit = stages[0].machine, unit_of(stages)
    core = basis(machine.cpu)
    other = "" if core == machine.cpu else f", the nearest to {machine.cpu}"
    if (machine.cpu, machine.isas) == (ANY.cpu, ANY.isas):
        other = ", as an example: the library is portable, and other cores take another time"
    told = f"work of each kernel, weighed by {unit.value} measured on an emulated {core}{other}"
    off = costs_of(core, unit).float32_off
    if off and any(_is_of_reals(stage.node) for stage in stages):
        told += f"; of float32 layers they were up to {off:g} % off"
    return told


def _is_of_reals(node: Node) -> bool:
    """Whether an op computes float32 from float32: one between stored and real values does not."""
    return all(tensor.type.dtype is DType.FLOAT32 for tensor in (*node.row_inputs, node.output))
