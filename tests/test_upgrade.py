"""Kernels that need scratch, and the bytes that a plan leaves free for it."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import slim_nets
from conftest import Gen
from hypothesis import given, settings
from hypothesis import strategies as st
from random_plans import with_rows_again
from row_problems import problems
from samples import graph_of, int8
from shared import MODELS, needs_shared

from shoehorn_mcu import ops, passes
from shoehorn_mcu.importers.onnx.importer import import_model
from shoehorn_mcu.ir import DType, Graph, Quant, TensorType
from shoehorn_mcu.machine.targets import Machine
from shoehorn_mcu.planner import DELIVERY, Goal, Problem, check, lowest_peak, make_plan
from shoehorn_mcu.planner.memory_plan import Scratch, Status
from shoehorn_mcu.planner.spare import Spare
from shoehorn_mcu.schedule import upgrade
from shoehorn_mcu.schedule.cuts import Cuts
from shoehorn_mcu.schedule.form import uncut
from shoehorn_mcu.schedule.request import PlanRequest, Scheduled
from shoehorn_mcu.schedule.search import schedule
from shoehorn_mcu.schedule.stage import stages
from shoehorn_mcu.schedule.upgrade import missing_scratch
from shoehorn_mcu.slim.made_up import as_int8
from shoehorn_mcu.slim.reading import exact

CHANNELS, SIDE = 108, 6  # a line of two windows does not fit on the stack
SCRATCH = (4 * 9 + 3 * 4) * CHANNELS  # a word per element of a window, and a frame of three lines
M4 = replace(Machine.of("cortex-m4f"), disabled=frozenset({"toom-cook"}))  # its scratch is another


@settings(max_examples=8, deadline=None)
@given(problem=problems(most_ops=5), seed=st.integers(0, 2**31), size=st.sampled_from((4, 12, 40)))
def test_spare_bytes_are_the_lowest_that_no_live_row_uses(problem: Problem, seed: int, size: int) -> None:
    views = not all(problem.has_rows_of_root(tensor.name) for tensor in problem.tensors)
    problem = replace(problem, ops=tuple(replace(op, scratch_bytes=0) for op in problem.ops))
    made = [make_plan(problem, goal) for goal in Goal] + [with_rows_again(problem, np.random.default_rng(seed))]
    for plan in made:
        spare = Spare(problem, plan)
        for op in (op for op in problem.ops if op.name != DELIVERY):
            needy = replace(
                problem, ops=tuple(replace(o, scratch_bytes=size) if o.name == op.name else o for o in problem.ops)
            )

            def faults(address: int) -> list[str]:
                arena = max(plan.arena_bytes, address + size)  # noqa: B023
                scratch = (Scratch(op.name, address, size),)  # noqa: B023
                return check(needy, replace(plan, scratch=scratch, arena_bytes=arena))  # noqa: B023

            lowest = spare.address(op.name, size)
            assert faults(lowest) == []
            assert lowest == 0 or views or faults(lowest - 4) != []  # a row of a view may be part of a longer one


def conv() -> Graph:
    rng = np.random.default_rng(0)
    weights = TensorType((8, 3, 3, CHANNELS), DType.INT8, Quant((0.01,), (0,)))
    bias = TensorType((8,), DType.INT32, Quant((0.01,), (0,)))
    return graph_of(
        ops.Conv2d,
        [
            int8((1, SIDE, SIDE, CHANNELS), Quant((1.0,), (-3,))),
            (weights, rng.integers(-127, 127, weights.shape, np.int8)),
            (bias, rng.integers(-900, 900, 8, np.int32)),
        ],
        int8((), Quant((40.0,), (5,))),
        stride=(1, 1),
        dilation=(1, 1),
        padding=ops.Padding(),
    )


def made(request: PlanRequest, machine: Machine = M4) -> Scheduled:
    graph = conv()
    return schedule(Cuts(graph, stages(graph, machine)), request)


def kernel(of: Scheduled) -> str:
    return of.stages[0].kernel.key


SLOWER, FASTER = "conv2d_s8_simd32_o4_p2_t25", "conv2d_s8_simd32_row_o4_p2_t16"
LESS, LESS_SCRATCH = "conv2d_s8_simd32_wide_up_o4_p2_t25_u10", 4 * 9 * CHANNELS  # a word per element of a window


def test_the_smallest_arena_does_not_grow_for_scratch() -> None:
    smallest = made(PlanRequest(Goal.SRAM))

    assert kernel(smallest) == SLOWER
    assert not smallest.plan.scratch
    assert smallest.plan.outcome.status is Status.OPTIMAL


def test_the_fastest_plan_grows_for_scratch_as_far_as_its_capacity_allows() -> None:
    fastest = made(PlanRequest(Goal.TIME))
    arena = fastest.plan.arena_bytes
    bare = arena - SCRATCH

    assert kernel(fastest) == FASTER
    assert [(s.op, s.bytes) for s in fastest.plan.scratch] == [("op", SCRATCH)]
    assert "bytes more for faster kernels" in fastest.plan.outcome.reason
    assert fastest.plan.outcome.status is Status.FEASIBLE
    assert kernel(made(PlanRequest(Goal.TIME, arena))) == FASTER
    limited = made(PlanRequest(Goal.TIME, arena - 1))
    assert (kernel(limited), limited.plan.arena_bytes) == (LESS, bare + LESS_SCRATCH)
    more_limited = made(
        PlanRequest(Goal.TIME, bare + LESS_SCRATCH - 97)
    )  # a byte less than a row over its inputs needs
    assert (kernel(more_limited), more_limited.plan.arena_bytes) == (SLOWER, bare)


def test_an_arena_grows_only_for_a_kernel_that_is_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    fastest = made(PlanRequest(Goal.TIME))
    monkeypatch.setattr(upgrade, "WORTH_PERCENT", 100)
    as_large = made(PlanRequest(Goal.TIME))
    monkeypatch.setattr(upgrade, "WORTH_PERCENT", 0)

    assert (kernel(as_large), as_large.plan.arena_bytes) == (SLOWER, fastest.plan.arena_bytes - SCRATCH)
    assert made(PlanRequest(Goal.TIME)).plan.arena_bytes == fastest.plan.arena_bytes


def test_a_kernel_that_does_not_fit_into_the_flash_is_not_taken() -> None:
    graph = conv()
    (slow,), (fast,) = stages(graph, M4), made(PlanRequest(Goal.TIME)).stages
    roomy = replace(M4, flash_left=1 << 20)

    assert kernel(made(PlanRequest(Goal.TIME), roomy)) == FASTER
    assert fast.packed_bytes == slow.packed_bytes - CHANNELS  # without a tap of padding
    tight = replace(M4, flash_left=fast.packed_bytes)
    assert kernel(made(PlanRequest(Goal.TIME), tight)) != FASTER


def test_a_kernel_that_the_tuning_names_gets_its_scratch_in_any_plan() -> None:
    key = stages(conv(), M4)[0].kernel.contract.key(next(conv().nodes()))
    tuned = made(PlanRequest(Goal.SRAM), replace(M4, tuning={key: FASTER}))

    assert kernel(tuned) == FASTER
    assert sum(s.bytes for s in tuned.plan.scratch) == SCRATCH


@needs_shared
@pytest.mark.usefixtures("quick_placement")
def test_more_bytes_never_cost_time(gen: Gen) -> None:
    """Where fast kernels need scratch, and the rows that fill an arena or overlap others leave no place for it."""
    model, before = MODELS / "mlperf-ic-resnet8-int8.tflite", float("inf")
    for size in (10912, 11200, 11600, 12300):
        said = gen("plan", model, "--board", "microbit", "--sram", str(size), "--json").stdout
        plan = json.loads(said)["plan"]

        assert plan["arena_bytes"] <= size
        assert plan["predicted_cycles"] <= before * 1.0001
        before = plan["predicted_cycles"]

    assert before < 65e6  # 129 million where the fastest plan has no place for scratch


def test_the_last_byte_of_the_limit_may_be_scratch_of_a_faster_kernel() -> None:
    """What the lowest peak leaves is just as much as the kernel needs, or one byte less."""
    graph, _ = passes.run(as_int8(exact(import_model(slim_nets.tiny(), "tiny").graph)))
    cuts = Cuts(graph, stages(graph, Machine.of("cortex-m0")))
    lowest = lowest_peak(uncut(cuts, PlanRequest(Goal.TIME)).rows_apart)
    least = schedule(cuts, PlanRequest(Goal.TIME, lowest))
    sizes = missing_scratch(least.problem, least.stages, least.plan)
    made = {n: schedule(cuts, PlanRequest(Goal.TIME, lowest + n)) for size in sizes for n in (size, size - 1)}

    assert len(sizes) == 2
    for size in sizes:
        assert made[size].time < made[size - 1].time <= least.time
        assert max(each.bytes for each in made[size].plan.scratch) == size
        assert made[size].plan.arena_bytes <= lowest + size
