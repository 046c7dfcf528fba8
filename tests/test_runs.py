"""Rows that lie side by side as one long row: which ops allow it, which plans, and what the check refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from samples import graph_of, int8, random_inputs, real_sample, sample
from test_check import ROWS, change, plan_of

from shoehorn_mcu import ops
from shoehorn_mcu.ir import DType, Graph, Op, Quant, TensorType
from shoehorn_mcu.kernels.base.contract import with_long_rows
from shoehorn_mcu.machine.targets import Machine
from shoehorn_mcu.ops import MADE_OPS, MODEL_OPS
from shoehorn_mcu.planner import Goal, Operand, Problem, Read, check
from shoehorn_mcu.planner.memory_plan import Placement, Plan, Step
from shoehorn_mcu.planner.whole_tensors import solve
from shoehorn_mcu.schedule.cuts import Cuts
from shoehorn_mcu.schedule.lower import lower
from shoehorn_mcu.schedule.predict import time
from shoehorn_mcu.schedule.request import PlanRequest
from shoehorn_mcu.schedule.runs import joined
from shoehorn_mcu.schedule.search import schedule
from shoehorn_mcu.schedule.stage import stages

SEEDS, ENOUGH = 400, 5
NEVER = {ops.AveragePool2d, ops.MaxPool2d, ops.Mean, ops.TransposeConv2d, ops.ResizeNearest, ops.ResizeBilinear} | {
    *(
        ops.Reshape,
        ops.Pad,
        ops.Concat,
        ops.Slice,
        ops.Transpose,
        ops.SumPool,
        ops.RunningMax,
        ops.SumDense,
        ops.Average,
    )
}
"""Ops whose output pixel may depend on other pixels, or that only move rows."""

ONE = Quant((1.0,), (0,))
HEIGHT, WIDTH, CHANNELS = 6, 5, 8
M4 = Machine.of("cortex-m4f")


@pytest.mark.parametrize("op_class", [*MODEL_OPS, *MADE_OPS], ids=lambda c: c.__name__)
def test_an_op_that_computes_pixel_by_pixel_gives_the_same_bytes_for_long_rows(op_class: type[Op]) -> None:
    tried = 0
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        graph = sample(op_class, rng)
        (node,) = graph.nodes()
        rows = node.output.type.rows
        if tried >= ENOUGH or (op_class in NEVER and seed == SEEDS // 10):
            break
        if not node.op.pixelwise(node.sig) or rows == 1:
            continue
        inputs = random_inputs(graph, rng)
        arrays = [inputs.get(t.name, t.data) for t in node.inputs]
        wanted = node.op.reference(arrays, node.sig)
        for count in (n for n in range(2, rows + 1) if rows % n == 0):
            long = with_long_rows(node, count)
            given = [a.reshape(t.type.shape) for a, t in zip(arrays, long.inputs, strict=True)]
            assert long.op.reference(given, long.sig).tobytes() == wanted.tobytes(), f"seed {seed}, {count} rows"
            tried += 1
    assert (tried == 0) == (op_class in NEVER)


def pointwise(side: int = 1) -> Graph:
    """A convolution with a square window over HEIGHT rows, and an op on each element of its output."""
    rng = np.random.default_rng(0)
    weights = TensorType((CHANNELS, side, side, CHANNELS), DType.INT8, Quant((0.01,), (0,)))
    bias = TensorType((CHANNELS,), DType.INT32, Quant((0.01,), (0,)))
    return graph_of(
        ops.Conv2d,
        [
            int8((1, HEIGHT, WIDTH, CHANNELS), ONE),
            (weights, rng.integers(-127, 127, weights.shape, np.int8)),
            (bias, rng.integers(-900, 900, CHANNELS, np.int32)),
        ],
        int8((), Quant((4.0,), (5,))),
        stride=(1, 1),
        dilation=(1, 1),
        padding=ops.Padding(side // 2, side // 2, side // 2, side // 2),
    )


def calls(graph: Graph, change_plan=lambda plan: plan) -> tuple[int, list[str], bool]:
    """Rows per call of the one op, what the check says of the plan, and whether calls of several rows are predicted to
    take less time.
    """
    parts = stages(graph, M4)
    problem = lower(graph, parts, None)
    plan = change_plan(solve(problem))
    long, run = joined(problem, parts, plan)
    assert {step.rows_per_call for step in run.steps} == {long[0].rows_per_call}
    return long[0].rows_per_call, check(replace(problem, outputs=()), run), time(run, long) < time(plan, parts)


def in_steps(*ends: int):
    def changed(plan: Plan) -> Plan:
        (step,) = plan.steps
        return replace(plan, steps=tuple(replace(step, rows=rows) for rows in zip((0, *ends), ends, strict=False)))

    return changed


def placed(at: int, slots: tuple[int, ...] = ()):
    """The output at this address, or its rows in slots, behind the input at 0."""

    def changed(plan: Plan) -> Plan:
        x, y = plan.placements
        places = replace(x, address=0), replace(y, address=at, slots=slots)
        return replace(plan, placements=places, arena_bytes=max(at, *slots, at) + HEIGHT * ROW)

    return changed


ROW = WIDTH * CHANNELS
BEHIND = HEIGHT * ROW


def test_all_rows_of_a_step_are_one_call_where_they_lie_side_by_side() -> None:
    assert calls(pointwise()) == (HEIGHT, [], True)
    assert calls(pointwise(3)) == (1, [], False)


def test_a_call_has_as_many_rows_as_all_steps_allow() -> None:
    assert calls(pointwise(), in_steps(4, 6)) == (2, [], True)
    assert calls(pointwise(), in_steps(3, 6)) == (3, [], True)
    assert calls(pointwise(), in_steps(3, 4, 6)) == (1, [], False)


def test_rows_that_lie_apart_are_calls_of_their_own() -> None:
    together = tuple(BEHIND + y * ROW for y in range(HEIGHT))
    apart = (*together[:-1], together[-1] + 4)
    assert calls(pointwise(), placed(BEHIND, together))[:2] == (HEIGHT, [])
    assert calls(pointwise(), placed(BEHIND, apart))[:2] == (1, [])


def test_rows_over_those_that_earlier_rows_read_are_calls_of_their_own() -> None:
    """Row y of the output over row y - 1 of the input: one after the other each row is free when it is overwritten."""

    def above(plan: Plan) -> Plan:
        x, y = plan.placements
        return replace(plan, placements=(replace(x, address=ROW), replace(y, address=0)))

    assert calls(pointwise(), above)[:2] == (1, [])


def test_an_op_that_overwrites_its_operand_row_by_row_does_so_in_one_call() -> None:
    x = int8((1, HEIGHT, WIDTH, CHANNELS), ONE)
    graph = graph_of(ops.Add, [x, x], int8((), Quant((2.0,), (0,))))

    def over(plan: Plan) -> Plan:
        first, second, y = plan.placements
        return replace(plan, placements=(first, second, replace(y, address=first.address)))

    assert calls(graph, over)[:2] == (HEIGHT, [])


def test_each_core_makes_a_call_where_its_rows_are_as_many_as_those_of_others() -> None:
    graph = pointwise()
    parts = stages(graph, M4)
    problem = lower(graph, parts, None)
    for cores, count in ((2, 3), (3, 2), (4, 1)):
        plan = placed(BEHIND)(solve(problem))
        plan = replace(plan, steps=tuple(replace(step, cores=cores) for step in plan.steps))
        (stage,), run = joined(problem, parts, plan)
        assert (stage.rows_per_call, check(problem, run)) == (count, [])


def test_the_fastest_plan_is_one_whose_rows_are_together() -> None:
    graph = pointwise()
    made = schedule(Cuts(graph, stages(graph, M4)), PlanRequest(Goal.TIME, None))

    assert [step.rows_per_call for step in made.plan.steps] == [HEIGHT]
    assert made.stages[0].params["in_width" if "in_width" in made.stages[0].params else "width"] == HEIGHT * WIDTH


def with_calls(plan: Plan, count: int) -> Plan:
    make, changed, copied = plan.steps
    return replace(plan, steps=(make, replace(changed, rows_per_call=count), copied))


@pytest.mark.parametrize("count", [0, 3, 8])
def test_the_check_refuses_calls_that_do_not_divide_a_step(count: int) -> None:
    said = check(change(), with_calls(plan_of(b=64), count))
    assert [f"step 1 (change): {count} rows per call do not divide its rows"] == said


def test_the_check_refuses_a_call_over_rows_that_it_reads() -> None:
    assert check(change(), plan_of(b=24)) == []
    assert any("is read" in fault for fault in check(change(), with_calls(plan_of(b=24), 2)))
    assert check(change(in_place="a"), with_calls(plan_of(b=32), ROWS)) == []
    assert any("is read" in fault for fault in check(change(), with_calls(plan_of(b=32), ROWS)))


@pytest.mark.parametrize("tensor", ["a", "b"])
def test_the_check_refuses_a_call_for_rows_that_lie_apart(tensor: str) -> None:
    plan = plan_of(b=64)

    def slotted(p: Placement, slots: tuple[int, ...]) -> Placement:
        return replace(p, slots=slots) if p.tensor == tensor else p

    start = {"a": 32, "b": 64}[tensor]
    for slots, wrong in (((0, 8, 16, 24), False), ((0, 8, 24, 16), True)):
        places = tuple(slotted(p, tuple(start + s for s in slots)) for p in plan.placements)
        said = check(change(), with_calls(replace(plan, placements=places), 2))
        where = "step 1 (change, rows 2..4)"
        assert said == [f"{where}: one call, but these rows of '{tensor}' do not lie side by side"] * wrong


def apart(rows: str, *tensors: str) -> str:
    """What the check says of rows of one operand that are in these tensors."""
    names = "', '".join(tensors)
    return f"rows {rows}): one call, but these rows of '{names}' do not lie side by side"


def joined_rows(*parts: tuple[str, int, int], rows: int = ROWS, row_bytes: int = 8) -> Problem:
    """`change` reads these parts of rows of `a` and of `x` as the rows of one operand; of one row each time."""
    (make, changed, copied), width = change().ops, 1 if rows > 1 else ROWS
    by_row = [(part,) for part in parts * width]
    reads = tuple(Read(n, tuple((row,) if n == name else () for ((name, row, _),) in by_row)) for n in ("a", "x"))
    operand = Operand(rows, row_bytes, tuple(by_row))
    return replace(change(), ops=(make, replace(changed, reads=reads, operands=(operand,)), copied))


TWO_AND_TWO = (("a", 0, 0), ("a", 1, 0), ("x", 2, 0), ("x", 3, 0))


@pytest.mark.parametrize(
    ("problem", "count", "faults"),
    [
        (joined_rows(*TWO_AND_TWO), 1, []),
        (joined_rows(*TWO_AND_TWO), 2, []),
        (joined_rows(*TWO_AND_TWO), 4, [apart("0..4", "a", "x")]),
        (joined_rows(("x", 2, 0), ("x", 3, 0), ("a", 0, 0), ("a", 1, 0)), 4, []),  # `a` is behind `x`
        (joined_rows(("a", 0, 0), ("a", 1, 0), ("x", 3, 0), ("x", 2, 0)), 2, [apart("2..4", "x")]),
        (joined_rows(("a", 1, 0), ("a", 1, 4), ("x", 1, 0), ("x", 1, 4), row_bytes=4), 2, []),
        (
            joined_rows(("a", 1, 4), ("a", 2, 4), ("x", 1, 0), ("x", 1, 4), row_bytes=4),
            2,
            [apart("0..2", "a")],
        ),
        (joined_rows(("a", 3, 0), rows=1), 4, []),  # all rows need it
        (joined_rows(*(("a", 3, 0),) * 4), 2, [apart("0..2", "a"), apart("2..4", "a")]),
        (
            joined_rows(("a", 0, 0), ("a", 0, 5), ("a", 2, 0), ("a", 2, 5), row_bytes=5),
            2,
            [f"rows {y}..{y + 2}): one call takes bytes that are not in row {y} of 'a'" for y in (0, 2)],
        ),
    ],
)
def test_of_an_operand_of_several_tensors_the_rows_of_a_call_lie_side_by_side(
    problem: Problem, count: int, faults: list[str]
) -> None:
    plan = with_calls(plan_of(b=64), count)
    plan = replace(plan, placements=tuple(replace(p, address=96) if p.tensor == "y" else p for p in plan.placements))

    found = check(problem, plan)

    assert [fault.removeprefix("step 1 (change, ") for fault in found] == faults


def test_the_check_refuses_a_call_that_takes_a_row_which_is_not_named_as_read() -> None:
    problem = joined_rows(*TWO_AND_TWO)
    make, changed, copied = problem.ops
    reads = (replace(changed.reads[0], rows=((0,), (), (), ())), changed.reads[1])
    forgetful = replace(problem, ops=(make, replace(changed, reads=reads), copied))
    plan = with_calls(plan_of(b=64), 2)

    assert "step 1 (change, rows 0..2): one call takes row 1 of 'a', which the op does not read" in check(
        forgetful, plan
    )


def test_the_rows_of_cores_are_those_that_the_firmware_computes() -> None:
    assert Step("a", (2, 9), cores=3).parts == ((2, 4), (4, 6), (6, 9))
    assert Step("a", (2, 8), cores=2, rows_per_call=3).calls == (range(2, 5), range(5, 8))


def test_a_float32_op_gives_the_same_bytes_for_long_rows() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        graph = real_sample(ops.Dense, rng)
        (node,) = graph.nodes()
        rows = node.output.type.rows
        if rows == 1:
            continue
        inputs = random_inputs(graph, rng)
        arrays = [inputs.get(t.name, t.data) for t in node.inputs]
        long = with_long_rows(node, rows)
        given = [a.reshape(t.type.shape) for a, t in zip(arrays, long.inputs, strict=True)]
        assert long.op.reference(given, long.sig).tobytes() == node.op.reference(arrays, node.sig).tobytes()
