"""Kernels that compute two rows at once: which plans let them, where the rows are, and how they reach a plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from row_problems import problems, same, window
from samples import graph_of, int8
from test_check import change, plan_of

from shoehorn_mcu import ops
from shoehorn_mcu.ir import DType, Graph, Op, Quant, Tensor, TensorType, verify
from shoehorn_mcu.kernels import choose
from shoehorn_mcu.kernels.base.contract import Instance
from shoehorn_mcu.kernels.catalogue import contract_of
from shoehorn_mcu.kernels.choice import choices_on, with_scratch
from shoehorn_mcu.machine.targets import Machine
from shoehorn_mcu.planner import Goal, OpSpec, Problem, TensorSpec, check, make_plan
from shoehorn_mcu.planner.memory_plan import INTERRUPTED, Plan
from shoehorn_mcu.planner.whole_tensors import solve
from shoehorn_mcu.schedule.cuts import Cuts
from shoehorn_mcu.schedule.form import Form
from shoehorn_mcu.schedule.lower import lower
from shoehorn_mcu.schedule.pairs import in_pairs
from shoehorn_mcu.schedule.predict import time
from shoehorn_mcu.schedule.request import PlanRequest, Scheduled
from shoehorn_mcu.schedule.runs import at_once
from shoehorn_mcu.schedule.search import schedule
from shoehorn_mcu.schedule.stage import Stage, stages

M4 = Machine.of("cortex-m4f")
CHANNELS = 32


def conv(
    height: int = 8,
    width: int = 16,
    stride: int = 1,
    inputs: int = CHANNELS,
    outputs: int = CHANNELS,
    across: int = 1,
    images: int = 1,
) -> Graph:
    """A convolution with windows of 3 x 3 that gives so many rows of each image; `stride`: down."""
    rng = np.random.default_rng(height)
    weights = TensorType((outputs, 3, 3, inputs), DType.INT8, Quant((0.01,), (0,)))
    bias = TensorType((outputs,), DType.INT32, Quant((0.01,), (0,)))
    rows = (height - 1) * stride + 1
    return graph_of(
        ops.Conv2d,
        [
            int8((images, rows, width, inputs), Quant((1.0,), (-3,))),
            (weights, rng.integers(-127, 127, weights.shape, np.int8)),
            (bias, rng.integers(-900, 900, outputs, np.int32)),
        ],
        int8((), Quant((40.0,), (5,))),
        stride=(stride, across),
        dilation=(1, 1),
        padding=ops.Padding(1, 1, 1, 1),
    )


def of_two_rows(graph: Graph, machine: Machine = M4) -> list[Instance]:
    (node,) = graph.nodes()
    return [kernel for kernel in choices_on(node, machine) if kernel.rows_at_once == 2]


def made(graph: Graph, request: PlanRequest) -> Scheduled:
    return schedule(Cuts(graph, stages(graph, M4)), request)


@pytest.mark.parametrize(
    ("height", "stride", "found"),
    [
        *((8, (1, 1), True), (7, (1, 1), False), (2, (1, 1), True)),
        *((8, (2, 2), True), (7, (2, 2), False), (2, (2, 2), True)),
        *((8, (2, 1), False), (8, (1, 2), False), (8, (3, 3), False)),
    ],
)
def test_two_rows_at_once_take_an_even_number_of_rows_and_a_stride_of_one_or_two_both_ways(
    height: int, stride: tuple[int, int], found: bool
) -> None:
    assert bool(of_two_rows(conv(height, stride=stride[0], across=stride[1]))) == found


def test_two_rows_at_once_are_of_one_image() -> None:
    assert not of_two_rows(conv(3, images=2))
    assert of_two_rows(conv(4, images=2))


def test_two_rows_with_a_stride_of_two_read_five_lines() -> None:
    graph = conv(4, stride=2, across=2)
    (stage,) = stages(graph, M4, lambda *_: of_two_rows(graph)[0])

    lines = [line for (line, *_) in stage.call_rows]
    assert lines == [(None, 0, 1, 2, 3), (1, 2, 3, 4, 5), (3, 4, 5, 6, None)]


def test_a_plan_of_whole_tensors_computes_two_rows_in_a_call() -> None:
    fast = made(conv(), PlanRequest(Goal.TIME))
    (stage,), (step,) = fast.stages, fast.plan.steps

    assert (stage.kernel.rows_at_once, stage.rows_per_call, step.rows_per_call) == (2, 2, 2)
    assert [call.start for call in step.calls] == [0, 2, 4, 6]
    assert check(fast.problem, fast.plan) == []
    alone = replace(M4, disabled=frozenset({"toom-cook"}))
    assert fast.time < schedule(Cuts(conv(), stages(conv(), alone)), PlanRequest(Goal.TIME)).time


@pytest.mark.parametrize("cpu", ["cortex-m0", "cortex-m7", "cortex-m33", "arm1176"])
def test_two_rows_are_faster_on_each_core_that_has_such_kernels(cpu: str) -> None:
    machine, graph = Machine.of(cpu), conv()
    assert of_two_rows(graph, machine)
    (stage,) = schedule(Cuts(graph, stages(graph, machine)), PlanRequest(Goal.TIME)).stages
    assert (stage.kernel.rows_at_once, stage.rows_per_call) == (2, 2)


def test_what_two_rows_save_is_in_the_predicted_time() -> None:
    """A call of two rows costs less than two calls, and the plan counts half as many of them."""
    graph = conv()
    (node,) = graph.nodes()
    fast = made(graph, PlanRequest(Goal.TIME))
    one = next(kernel for kernel in with_scratch(node, M4) if kernel.rows_at_once == 1)
    stage = replace(fast.stages[0], kernel=one, rows_per_call=1)
    plan = replace(fast.plan, steps=tuple(replace(step, rows_per_call=1) for step in fast.plan.steps))

    assert time(fast.plan, fast.stages) < time(plan, [stage])


def test_a_call_has_the_lines_that_either_of_its_rows_reads() -> None:
    (stage,) = stages(conv(4), M4, lambda *_: of_two_rows(conv(4))[0])

    lines = [line for (line, *_) in stage.call_rows]
    assert lines == [(None, 0, 1, 2), (0, 1, 2, 3), (1, 2, 3, None)]
    assert [line for (line, *_) in stage.rows] == [(None, 0, 1), (0, 1, 2), (1, 2, 3), (2, 3, None)]
    ((lines_of_both, guarded), *_) = stage.pointers
    assert (lines_of_both, guarded) == pytest.approx((10 / 3, 2))


def stage_and_plan() -> tuple[Stage, Plan]:
    (stage,) = stages(conv(), M4)
    return stage, solve(lower(conv(), [stage], None))


def apart(plan: Plan, tensor: str, more: int) -> Plan:
    """The plan with the rows of a tensor so many bytes further apart."""
    (place,) = (p for p in plan.placements if p.tensor == tensor)
    slots = tuple(place.at(y) + y * more for y in range(place.rows))
    placements = tuple(replace(p, slots=slots) if p is place else p for p in plan.placements)
    return replace(plan, placements=placements, arena_bytes=plan.arena_bytes + more * place.rows)


def test_rows_of_a_call_are_side_by_side_where_they_are_written_and_anywhere_where_they_are_read() -> None:
    stage, plan = stage_and_plan()
    problem = lower(conv(), [stage], None)
    x, y = stage.node.inputs[0].name, stage.node.output.name

    assert at_once(problem, plan, 2) == {stage.name}
    assert at_once(problem, apart(plan, x, 8), 2) == {stage.name}
    assert at_once(problem, apart(plan, y, 8), 2) == set()


def test_a_step_of_an_odd_number_of_rows_computes_them_one_by_one() -> None:
    stage, plan = stage_and_plan()
    problem = lower(conv(), [stage], None)
    (step,) = plan.steps
    for ends, found in (((2, 8), True), ((3, 8), False), ((4, 7, 8), False)):
        cut = [replace(step, rows=rows) for rows in zip((0, *ends), ends, strict=False)]
        assert bool(at_once(problem, replace(plan, steps=tuple(cut)), 2)) == found
    for cores, found in ((2, True), (4, True), (3, False), (8, False)):
        assert bool(at_once(problem, replace(plan, steps=(replace(step, cores=cores),)), 2)) == found


def test_two_rows_are_not_written_over_a_row_that_either_reads() -> None:
    stage, plan = stage_and_plan()
    problem = lower(conv(), [stage], None)
    places = {place.tensor: place for place in plan.placements}
    read, written = places[stage.node.inputs[0].name], places[stage.node.output.name]
    size = written.row_bytes
    for above, found in ((10, True), (3, True), (2, False), (1, False), (0, False)):
        moved = (replace(read, address=above * size), replace(written, address=0))
        assert bool(at_once(problem, replace(plan, placements=moved), 2)) == found, above


def test_the_check_wants_rows_side_by_side_only_where_a_kernel_of_several_rows_writes_them() -> None:
    apart_read = replace(change(), ops=tuple(replace(op, rows_at_once=2) for op in change().ops))
    plan = plan_of(b=64)
    make, changed, copied = plan.steps
    called = replace(plan, steps=(make, replace(changed, rows_per_call=2), copied))
    spread = tuple(
        replace(p, slots=tuple(p.at(y) + 16 * y for y in range(p.rows))) if p.tensor == "b" else p
        for p in called.placements
    )
    wider = replace(called, placements=spread, arena_bytes=called.arena_bytes + 64)

    assert check(apart_read, called) == []
    assert any("do not lie side by side" in fault for fault in check(apart_read, wider))


def test_the_smallest_plan_by_rows_keeps_single_rows() -> None:
    x = conv(8)
    small = made(x, PlanRequest(Goal.SRAM, stream_input=True))

    assert {stage.kernel.rows_at_once for stage in small.stages} == {1}
    assert {step.rows_per_call for step in small.plan.steps} == {1}


def test_a_kernel_of_two_rows_that_the_tuning_names_waits_for_a_plan_that_has_room_for_it() -> None:
    graph = conv()
    (node,) = graph.nodes()
    two = of_two_rows(graph)[-1]
    tuned = replace(M4, tuning={contract_of(node).key(node): two.name})

    assert choose(node, tuned).rows_at_once == 1
    assert [kernel.name for kernel in with_scratch(node, tuned)] == [two.name]
    fast = schedule(Cuts(graph, stages(graph, tuned)), PlanRequest(Goal.TIME))
    assert [stage.kernel.name for stage in fast.stages] == [two.name]


@settings(max_examples=60, deadline=None)
@given(problem=problems(most_ops=7, most_rows=12), seed=st.integers(0, 2**31), goal=st.sampled_from(Goal))
def test_a_plan_in_pairs_of_rows_is_one_of_single_rows(problem: Problem, seed: int, goal: Goal) -> None:
    """Whatever ops write pairs: the check of the problem with single rows accepts the plan, and bytes are the same."""
    rng = np.random.default_rng(seed)
    wide = tuple(replace(tensor, row_bytes=tensor.row_bytes * 4) for tensor in problem.tensors)
    problem = replace(problem, tensors=wide, blocks=())
    pairs = in_pairs(problem, {op.name for op in problem.ops if rng.integers(4)})
    if pairs is None:
        return
    plan = make_plan(pairs.problem, goal)
    single = pairs.single(plan)

    assert check(problem, single) == []
    assert single.arena_bytes == plan.arena_bytes
    written = {op.name: op.writes for op in problem.ops}
    for step in single.steps:
        if step.op in pairs.ops:
            assert step.rows[0] % 2 == step.rows[1] % 2 == 0
            place = single.placement(written[step.op], step.edition(written[step.op]))
            assert all(place.at(y + 1) == place.at(y) + place.row_bytes for y in range(*step.rows, 2))


def in_a_row(height: int = 16) -> Problem:
    """Two convolutions, the sum of what they read and write, over the second one, and a pool of two rows."""
    three = (window(f"t{i}", height, 3, before=1) for i in range(2))
    first, second = (OpSpec(f"conv{i}", (read,), f"t{i + 1}") for i, read in enumerate(three))
    add = OpSpec("add", (same("t2", height), same("t0", height)), "t3", in_place="t2")
    pool = OpSpec("pool", (window("t3", height, 2, 2),), "t4")
    sizes = (height,) * 4 + (height // 2,)
    tensors = tuple(TensorSpec(f"t{i}", rows, 64) for i, rows in enumerate(sizes))
    return Problem(tensors, (first, second, add, pool), ("t0",), ("t4",))


def test_pairs_are_computed_where_they_are_wanted_and_where_they_are_written_over() -> None:
    pairs = in_pairs(in_a_row(), {"conv0", "conv1"})
    assert pairs is not None
    first, second, add, pool = pairs.problem.ops

    assert (pairs.ops, pairs.tensors) == ({"conv0", "conv1", "add"}, {"t1", "t2", "t3"})
    assert [(t.rows, t.row_bytes) for t in pairs.problem.tensors] == [(16, 64), *[(8, 128)] * 3, (8, 64)]
    assert first.reads[0].rows[:2] == ((0, 1, 2), (1, 2, 3, 4))  # single rows of the input
    assert second.reads[0].rows[:2] == ((0, 1), (0, 1, 2))  # pairs
    assert (add.in_place, add.reads[0].rows[3], add.reads[1].rows[3]) == ("t2", (3,), (6, 7))
    assert pool.reads[0].rows[5] == (5,)
    assert (first.row_cost, pool.row_cost) == (2 * in_a_row().ops[0].row_cost, in_a_row().ops[3].row_cost)


def test_a_row_that_may_not_lie_right_over_the_one_it_replaces_stays_single() -> None:
    problem = in_a_row()
    *convolutions, add, pool = problem.ops
    pairs = in_pairs(replace(problem, ops=(*convolutions, replace(add, behind=4), pool)), {"conv0", "conv1"})

    assert pairs is not None and pairs.ops == {"conv0", "conv1"}
    assert pairs.problem.ops[2].in_place is None  # half of a pair is no row


def test_a_pair_is_not_written_over_single_rows() -> None:
    pairs = in_pairs(in_a_row(), {"add"})

    assert pairs is not None and (pairs.ops, pairs.tensors) == ({"add"}, {"t3"})
    assert pairs.problem.ops[2].in_place is None


def test_a_row_that_is_shorter_than_the_one_it_replaces_stays_single() -> None:
    """The second row of a pair would begin before the row that it replaces."""
    problem = in_a_row()
    shorter = tuple(replace(spec, row_bytes=48) if spec.name == "t3" else spec for spec in problem.tensors)
    pairs = in_pairs(replace(problem, tensors=shorter), {"conv0", "conv1"})
    wanted = in_pairs(replace(problem, tensors=shorter), {"conv0", "conv1", "add"})

    assert pairs is not None and pairs.ops == {"conv0", "conv1"}
    assert wanted is not None and wanted.ops == {"conv0", "conv1", "add"}
    assert wanted.problem.ops[2].in_place is None


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"outputs": ("t4", "t1")}, {"conv0", "conv1", "add"}),
        ({"inputs": ("t0", "t1")}, {"conv1", "add"}),
        ({"inputs": ("t0", "t1", "t2")}, None),
    ],
)
def test_rows_of_inputs_stay_single_and_those_of_outputs_need_not(
    changed: dict[str, tuple[str, ...]], found: set[str] | None
) -> None:
    pairs = in_pairs(replace(in_a_row(), **changed), {"conv0", "conv1"})
    assert (pairs and pairs.ops) == found


@pytest.mark.parametrize(("rows", "row_bytes"), [(15, 64), (16, 62)])
def test_tensors_of_odd_rows_or_of_rows_that_are_not_whole_words_have_no_pairs(rows: int, row_bytes: int) -> None:
    problem = in_a_row(rows)
    tensors = tuple(replace(tensor, row_bytes=row_bytes) for tensor in problem.tensors)
    assert in_pairs(replace(problem, tensors=tensors), {"conv0", "conv1"}) is None


def test_a_plan_row_by_row_uses_pairs_where_that_is_faster_and_takes_fewer_bytes_than_whole_tensors() -> None:
    """Four convolutions; the three tensors between them are 32 KB each."""
    graph = stack(32)
    whole = made(graph, PlanRequest(Goal.TIME))
    small = made(graph, PlanRequest(Goal.TIME, weigh_smaller=True, prefer_smaller=True))
    tight = made(graph, PlanRequest(Goal.TIME, capacity_bytes=whole.plan.arena_bytes // 2))

    assert small.plan.arena_bytes < 0.7 * whole.plan.arena_bytes
    assert small.time < 1.015 * whole.time
    assert "rows in pairs" in small.plan.outcome.reason
    assert any(step.rows_per_call == 2 for step in tight.plan.steps)
    assert len(tight.plan.steps) > len(whole.plan.steps)


def interrupting(form: Form) -> Scheduled:
    """Ctrl-C in the search of a plan in pairs, before it has found one."""
    if form.pairs is not None:
        raise KeyboardInterrupt
    return _SCHEDULED(form)


def interrupted(form: Form) -> Scheduled:
    """The same behind the first plan."""
    found = _SCHEDULED(form)
    return found if form.pairs is None else found.with_outcome(reason=INTERRUPTED)


_SCHEDULED = Form.scheduled


@pytest.mark.parametrize("ctrl_c", [interrupting, interrupted])
def test_a_search_in_pairs_that_is_interrupted_leaves_the_best_plan_so_far(
    ctrl_c: Callable[[Form], Scheduled], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, request = stack(16), PlanRequest(Goal.TIME)
    known = made(graph, request)
    monkeypatch.setattr(Form, "scheduled", ctrl_c)
    found = made(graph, request)

    assert found.plan.outcome.interrupted
    assert found.plan.steps and known.time <= found.time


def stack(side: int, convolutions: int = 4) -> Graph:
    """Convolutions one behind the other, of so many rows; of CHANNELS channels but at the ends, which have four."""
    tensors, found = dict[str, Tensor](), list[Op]()
    for i in range(convolutions):
        channels = [4 if each in (0, convolutions) else CHANNELS for each in (i, i + 1)]
        one = conv(side, side, 1, *channels)
        names = {name: f"{name}_{i}" for name in one.tensors} | {one.inputs[0]: f"t{i}", one.outputs[0]: f"t{i + 1}"}
        shape = one.tensors[one.outputs[0]].type.shape
        kind = replace(one.tensors[one.inputs[0]].type, shape=shape)  # quantised as the inputs are
        (op,) = one.ops
        tensors |= {names[t.name]: replace(t, name=names[t.name]) for t in one.tensors.values()}
        tensors[f"t{i + 1}"] = Tensor(f"t{i + 1}", kind)
        inputs = tuple(names[name] for name in op.inputs)
        found.append(replace(op, name=f"conv_{i}", inputs=inputs, output=f"t{i + 1}"))
    return verify(Graph("stack", tensors, tuple(found), ("t0",), (f"t{convolutions}",)))
