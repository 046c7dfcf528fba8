"""What kernels are counted to do and predicted to take; predictions of plans against an emulated board."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from compilers import HOST
from conftest import Gen
from samples import graph_of, sample

from bench import costs
from bench.fit import Row, fitted, fitted_calls, not_negative
from shoehorn_mcu import ops
from shoehorn_mcu.base.paths import MODELS, RUNTIME_C
from shoehorn_mcu.firmware import build
from shoehorn_mcu.firmware.settings import Options
from shoehorn_mcu.ir import DType, Graph, Node, Op, TensorType
from shoehorn_mcu.kernels import ANY, CATALOGUE, PORTABLE, Instance, Tile, candidates, choose, cost, row_cost
from shoehorn_mcu.kernels.base.work import BLOCK, LANES, Work, by_blocks, dots, elements, inside, rests
from shoehorn_mcu.kernels.cost import (
    DEFAULT_CPU,
    Calls,
    CpuCosts,
    Unit,
    basis,
    call_cost,
    choice_unit,
    costs_of,
    kernel_cost,
    measured,
)
from shoehorn_mcu.machine import targets
from shoehorn_mcu.machine.targets import CPUS, Isa
from shoehorn_mcu.planner import Goal
from shoehorn_mcu.planner.memory_plan import Placement, Plan, Step
from shoehorn_mcu.schedule import predict
from shoehorn_mcu.schedule.stage import Stage, _pointers, stages

COMPUTING = [op for op in ops.OPS if not op.view]


def cost_of(kernel: Instance, work: Mapping[str, float], cpu: str) -> float:
    return kernel_cost(kernel, work, cpu, Unit.INSTRUCTIONS)


def node_of(graph: Graph) -> Node:
    return next(graph.nodes())


def samples(op_class: type[Op], count: int = 15) -> list[Node]:
    return [node_of(sample(op_class, np.random.default_rng(seed))) for seed in range(count)]


@pytest.mark.parametrize("op_class", COMPUTING, ids=lambda c: c.__name__)
def test_a_row_of_the_catalogue_says_what_its_kernel_does(op_class: type[Op]) -> None:
    for node in samples(op_class):
        for kernel in candidates(node, list(Isa)):
            counts = dict(kernel.work(node))

            assert counts.pop("calls") == 1
            assert counts and min(counts.values()) > 0, f"{kernel.name}: {counts}"


@pytest.mark.parametrize("cpu", measured())
@pytest.mark.parametrize("op_class", COMPUTING, ids=lambda c: c.__name__)
def test_a_row_is_predicted_to_take_instructions_on_every_core(op_class: type[Op], cpu: str) -> None:
    for node in samples(op_class, 5):
        kernel = choose(node, ANY)

        assert row_cost(kernel, node, cpu, Unit.INSTRUCTIONS) >= 1


def test_a_product_of_matrices_counts_four_outputs_at_once_and_the_rest_alone() -> None:
    for node in samples(ops.MatMul, 40):
        work, (inputs, outputs) = (
            choose(node, ANY).work(node),
            (node.inputs[0].type.shape[-1], node.output.type.shape[-1]),
        )
        counts = dict(work)

        assert 4 * counts.get("tiles", 0) + counts.get("rests", 0) == counts["outputs"] == outputs
        assert counts.get("rests", 0) < 4 and counts.get("loops", 0) == inputs * counts.get("tiles", 0)


@pytest.mark.parametrize("op_class", [ops.Conv2d, ops.DepthwiseConv2d, ops.Dense, ops.FirstPartial, ops.NextPartial])
def test_the_elements_of_inner_loops_are_the_multiply_accumulates(op_class: type[Op]) -> None:
    for node in samples(op_class):
        work = choose(node, ANY).work(node)
        together = 1 if op_class is ops.DepthwiseConv2d else LANES  # products of an element
        done = together * sum(work.get(name, 0) for name in ("by16", "by4", "by1", "padded_elements"))
        alone = sum(work.get(name, 0) for name in ("by8", "by32", "padded_rests", "padded_fours", "padded_ones"))

        assert (done + alone) * node.output.type.rows == pytest.approx(node.op.macs(node.sig))


@pytest.mark.parametrize("cpu", measured())
def test_no_cost_is_negative_and_every_kernel_of_the_catalogue_has_some(cpu: str) -> None:
    costs = costs_of(cpu)
    for name, of_kernel in costs.kernels.items():
        assert of_kernel and min(of_kernel.values()) > 0, name
    assert set(costs.calls) <= {f.name for f in fields(Calls)} and min(costs.calls.values()) >= 0
    assert costs.calls["steps"] > 0


def test_the_table_has_the_portable_kernels_on_the_default_core_and_no_kernel_that_is_not_in_the_catalogue() -> None:
    known = {Instance(v, tile).key for v in CATALOGUE for tile in v.tiles}
    sized = known | {f"{Instance(v, tile).key}_integers" for v in CATALOGUE if v.is_written for tile in v.tiles}

    assert {Instance(v, Tile()).key for v in PORTABLE.values()} <= set(costs_of(DEFAULT_CPU).kernels)
    for cpu in measured():
        assert set(costs_of(cpu).kernels) <= known and set(costs_of(cpu).code_bytes) <= sized


def test_every_variant_is_measured_on_a_core() -> None:
    """One without costs is never chosen."""
    known = {key for cpu in measured() for key in costs_of(cpu).kernels}

    assert [v.source for v in CATALOGUE if not {Instance(v, tile).cost_key for tile in v.tiles} <= known] == []


def test_more_work_never_takes_less() -> None:
    rng = np.random.default_rng(3)
    for kernel in (Instance(v, tile) for v in CATALOGUE for tile in v.tiles):
        for cpu in measured():
            features = costs_of(cpu).kernels.get(kernel.cost_key, {})
            some = {name: float(rng.integers(0, 99)) for name in features}
            for name in features:
                more = {**some, name: some[name] + 1}

                assert cost_of(kernel, more, cpu) >= cost_of(kernel, some, cpu)


def test_a_portable_kernel_that_was_not_measured_takes_as_long_as_others() -> None:
    unknown = Instance(replace(CATALOGUE[0], suffix="of_tomorrow"), Tile())
    work = Work(outputs=10)
    of_others = [cost_of(Instance(v, Tile()), work, DEFAULT_CPU) for v in PORTABLE.values()]

    assert min(of_others) < cost_of(unknown, work, DEFAULT_CPU) < max(of_others)


def test_a_variant_that_was_not_measured_takes_as_long_as_the_portable_one() -> None:
    (node,) = samples(ops.Conv2d, 1)
    portable = PORTABLE["conv2d_s8"]
    unknown = replace(portable, suffix="of_tomorrow", work=lambda node, tile: {"tricks": 1.0})
    (one,), (other,) = portable.instances(node), unknown.instances(node)

    first, second = (row_cost(kernel, node, DEFAULT_CPU, Unit.INSTRUCTIONS) for kernel in (one, other))
    assert first == second


@pytest.mark.parametrize("more", [0, 1])
def test_work_counts_what_the_sources_compute_together(more: int, tmp_path: Path) -> None:
    """By a compiler, which reads other numbers as an error."""
    (node,) = samples(ops.AveragePool2d, 1)
    (kernel,) = PORTABLE["average_pool2d_s8"].instances(node)
    asserted = f'_Static_assert(BLOCK == {BLOCK + more} && SH_LANES == {LANES + more}, "other numbers");\n'
    dot = f'#include "{RUNTIME_C}/include/sh_dot.h"\n'
    (tmp_path / "numbers.c").write_text(kernel.text("sh", f"{RUNTIME_C}/") + dot + asserted)
    done = subprocess.run([*HOST, "-fsyntax-only", "numbers.c"], cwd=tmp_path, capture_output=True, text=True)

    assert (done.returncode != 0, "other numbers" in done.stderr) == (more != 0, more != 0), done.stderr


@pytest.mark.parametrize(("op_class", "told"), [(ops.Quantize, False), (ops.Dequantize, False), (ops.Mean, True)])
def test_only_ops_that_compute_on_float32_have_cycles_that_may_be_far_off(op_class: type[Op], told: bool) -> None:
    """Those at the ends of a quantised model do not."""
    graph = sample(op_class, np.random.default_rng(0))
    if told:
        read = TensorType((1, 4, 4, 2), DType.FLOAT32)
        graph = graph_of(op_class, [read], DType.FLOAT32, axes=(1, 2), keep_dims=True)
    found = stages(graph, targets.Machine.of("cortex-a53"))

    assert ("of float32 layers" in predict.ruler(found)) == told


def test_every_core_has_a_measured_one_that_stands_for_it() -> None:
    assert {basis(cpu) for cpu in CPUS} <= set(measured())
    assert basis("cortex-m4f") == "cortex-m4f"


def test_loops_are_counted_by_how_they_unroll() -> None:
    assert elements(2, 47) == Work(
        loops=2, loops32=2, loops8=2, loops4=2, ragged=2, by32=64, by8=16, by4=8, by1=6
    )  # 47 = 32 + 8 + 4 + 3
    assert elements(5, 3) == Work(loops=5, ragged=5, by1=15)
    assert dots(2, 47) == Work(loops=2, loops16=2, loops4=2, ragged=2, by16=64, by4=24, by1=6)  # 47 = 32 + 12 + 3
    assert rests(2, 9, 1) == Work(loops8=2, by32=18) and rests(2, 9, 3) == Work(loops8=2, by8=54, rest_inputs=18)
    assert rests(0, 9, 0) == Work()
    assert by_blocks(3, 2 * BLOCK + 1) == elements(6, BLOCK) + elements(3, 1)


def test_padding_is_what_a_window_sees_outside() -> None:
    assert inside(outputs=3, taps=3, size=3, stride=1, before=1) == 2 + 3 + 2
    assert inside(outputs=2, taps=3, size=4, stride=2, before=0) == 3 + 2
    assert inside(outputs=1, taps=3, size=9, stride=1, before=2, dilation=2) == 2


def _digits() -> tuple[Plan, tuple[Stage, ...]]:
    """The fastest plan, of whole tensors: without `sram_bytes` a plan by rows that costs little more is preferred."""
    options = Options(sram_bytes=64 * 1024)
    unit = build.plan_model(MODELS / "digits.tflite", targets.board("mps2-an386"), options).unit
    return unit.plan, unit.stages


def test_rows_and_steps_cost_as_often_as_they_run() -> None:
    plan, chosen = _digits()
    op = chosen[3]
    once = predict.time(plan, chosen)
    again = predict.time(replace(plan, steps=(*plan.steps, Step(op.name, (0, 2)))), chosen)
    step = costs_of("cortex-m4f", choice_unit("cortex-m4f")).calls["steps"]

    assert again - once == pytest.approx(2 * op.row_cost + step, abs=4)


def test_a_row_that_is_looked_up_is_no_faster_than_one_of_a_whole_tensor() -> None:
    plan, chosen = _digits()

    def scattered(ring: Placement) -> Placement:
        return replace(ring, slots=tuple(range(0, 4 * ring.rows, 4)))

    looked_up = replace(plan, placements=tuple(map(scattered, plan.placements)))
    assert predict.instructions(looked_up, chosen) > predict.instructions(plan, chosen)
    for cpu in measured():
        slotted, whole = Calls(pointers=1, slotted=1), Calls(pointers=1)
        assert call_cost(slotted, cpu, Unit.INSTRUCTIONS) >= call_cost(whole, cpu, Unit.INSTRUCTIONS)


def test_the_report_predicts_for_the_board_s_core(gen: Gen) -> None:
    found = {
        board: json.loads(gen("plan", MODELS / "digits.tflite", "--board", board, "--json").stdout)["plan"]
        for board in ("mps2-an386", "microbit")
    }
    table = gen("plan", MODELS / "digits.tflite", "--board", "mps2-an386").stdout

    assert f"{found['mps2-an386']['predicted_instructions']:,} instructions" in table
    assert "emulated cortex-m4f" in table
    assert found["microbit"]["predicted_instructions"] > 1.2 * found["mps2-an386"]["predicted_instructions"]


def in_cycles(costs: CpuCosts, factor: float) -> CpuCosts:
    """Costs of which each cycle is `factor` instructions."""
    kernels = {key: {name: factor * n for name, n in of.items()} for key, of in costs.kernels.items()}
    return replace(costs, kernels=kernels, calls={name: factor * n for name, n in costs.calls.items()})


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that has cycles for the default core, 1.5 for each instruction."""
    table = cost._table()
    known = table[DEFAULT_CPU][Unit.INSTRUCTIONS]
    changed = {**table, DEFAULT_CPU: {Unit.INSTRUCTIONS: known, Unit.CYCLES: in_cycles(known, 1.5)}}
    monkeypatch.setattr(cost, "_table", lambda: changed)


def test_cycles_are_predicted_and_compared_where_they_are_known(
    counted: None, gen: Gen, stacked: Path, tmp_path: Path
) -> None:
    arguments = ("plan", stacked, "--board", "mps2-an386")
    found = json.loads(gen(*arguments, "--pareto", "--html", tmp_path / "p.html", "--json").stdout)
    plan, shown, page = found["plan"], gen(*arguments).stdout, (tmp_path / "p.html").read_text()
    fewest = min(point["predicted_cycles"] for point in found["pareto"])
    instructions, cycles = f"{plan['predicted_instructions']:,}", f"{plan['predicted_cycles']:,}"

    assert plan["predicted_cycles"] == pytest.approx(1.5 * plan["predicted_instructions"], abs=2)
    assert f"predicted: {instructions} instructions and {cycles} cycles per inference" in shown
    assert "weighed by cycles measured on an emulated cortex-m4f" in shown
    assert f"{plan['predicted_cycles']:,}</dd><dd class=note>predicted cycles per inference" in page
    assert "Predicted cycles" in page and "Cycles</th>" in page and f"{fewest:,}" in page
    assert (choice_unit("arm1176"), choice_unit(DEFAULT_CPU)) == (Unit.INSTRUCTIONS, Unit.CYCLES)


def test_a_core_of_which_some_kernels_have_no_cycles_is_predicted_in_instructions(
    counted: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = cost._table()
    known = table[DEFAULT_CPU]
    some = replace(known[Unit.CYCLES], kernels=dict(list(known[Unit.CYCLES].kernels.items())[1:]))
    monkeypatch.setattr(cost, "_table", lambda: {**table, DEFAULT_CPU: {**known, Unit.CYCLES: some}})

    assert choice_unit(DEFAULT_CPU) is Unit.INSTRUCTIONS
    assert predict.cycles(*_digits()) is None


def test_measured_cycles_become_a_table_of_their_own() -> None:
    op = {"kernel": "lut_8_c", "rows": 2.0, "work": {"outputs": 10.0}, "calls": {"steps": 1.0, "pointers": 1.0}}
    found = [{"model": "micro", "total": 100, "cycles": 170, "ops": [{**op, "measured": 90, "cycles": 150}]}]

    (counted,) = costs.in_cycles(found)
    assert (counted["total"], counted["ops"][0]["measured"]) == (170, 150)
    assert costs.in_cycles([{**found[0], "cycles": None}]) == []
    fitted_costs = costs.costs_of_kernels(
        [{**counted, "fitted": True}], 0, {"calls": {"pointers": 5.0}, "traced_step": 0.0}, "lut"
    )
    assert fitted_costs == {"lut_8_c": {"outputs": pytest.approx((150 - 2 * 5) / 20)}}


def test_costs_that_made_the_figures_are_found_again() -> None:
    rng = np.random.default_rng(5)
    kernels = {"a": {"outputs": 7.0, "by1": 0.5}, "b": {"outputs": 3.0, "loops": 11.0}}
    calls = {"steps": 20.0, "slotted": 2.0, "pointers": 4.0}
    rows, pairs = [], []
    for i in range(40):
        name = "ab"[i % 2]
        work = {feature: float(rng.integers(1, 100)) for feature in kernels[name]}
        plans = []
        for steps, slotted in ((1, 0), (float(rng.integers(2, 9)), float(rng.integers(1, 9)))):
            around = {"pointers": float(10 + i), "steps": float(steps), "slotted": float(slotted)}
            took = sum(kernels[name][f] * n for f, n in work.items()) + sum(calls[f] * n for f, n in around.items())
            plans.append(Row(name, work, around, took))
        rows += plans
        pairs.append((plans[0], plans[1]))

    known = fitted_calls(pairs)
    found, found_calls = fitted(rows, known)

    assert known == pytest.approx({"steps": 20, "slotted": 2}, abs=1e-6)
    assert found_calls["pointers"] == pytest.approx(4) and found["a"] == pytest.approx(kernels["a"])
    assert found["b"] == pytest.approx(kernels["b"])


def test_least_squares_stay_above_zero() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        a, b = rng.normal(size=(12, 5)), rng.normal(size=12)
        x = not_negative(a, b)
        slope = a.T @ (b - a @ x)

        # The conditions of an optimum: nothing can be gained by moving up, nor down where that is allowed.
        assert x.min() >= 0 and slope.max() < 1e-8 and np.abs(slope[x > 0]).max(initial=0) < 1e-8


@pytest.mark.skipif(not shutil.which("qemu-system-arm"), reason="qemu-system-arm is not installed")
@pytest.mark.parametrize("goal", list(Goal))
def test_an_emulated_board_takes_the_instructions_that_were_predicted(gen: Gen, goal: Goal, tmp_path: Path) -> None:
    folder = tmp_path / "digits"
    made = gen("firmware", "--board", "mps2-an386", "--minimize", goal.value, "--out", folder, "--json")
    predicted = json.loads(made.stdout)["plan"]["predicted_instructions"]

    timed = json.loads(gen("bench", folder, "--emulate", "--runs", "1", "--json").stdout)

    assert predicted == pytest.approx(timed["total"]["median"], rel=0.03)


def test_pointers_that_are_padding_for_some_rows_are_counted_apart() -> None:
    """Three places of two rows: always a row, a row once, always padding."""
    assert _pointers([(0, 1), (None, 2), (None, None)]) == (1.5, 1)
    assert _pointers([(0, 1), (1, 2)]) == (2.0, 0)
