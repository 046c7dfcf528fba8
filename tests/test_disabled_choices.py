"""`--disable` also takes choices that are made behind the passes; what is always done is counted or refused by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from emitted import compile_library, expected, run
from matrix import DATA, linear
from onnx import helper, numpy_helper
from samples import random_inputs
from test_cli_device import needs_qemu

import shoehorn_mcu
from shoehorn_mcu import PlanOptions, ops, passes
from shoehorn_mcu.base.paths import MODELS as SHIPPED
from shoehorn_mcu.firmware import build
from shoehorn_mcu.firmware.settings import Options
from shoehorn_mcu.kernels import choices, choose
from shoehorn_mcu.kernels.base.contract import array_bytes
from shoehorn_mcu.kernels.choice import with_scratch
from shoehorn_mcu.kernels.linear.toom_cook import CHOICE as TOOM_COOK
from shoehorn_mcu.machine import targets
from shoehorn_mcu.planner import Goal, make_plan
from shoehorn_mcu.planner.memory_plan import SRAM
from shoehorn_mcu.schedule.lower import lower
from shoehorn_mcu.schedule.stage import kernel_bytes
from shoehorn_mcu.schedule.stage import stages as computed
from shoehorn_mcu.schedule.upgrade import Limits, upgraded

DIGITS = SHIPPED / "digits.tflite"
M4 = targets.board("mps2-an386")


def planned(*disabled: str, board: targets.Board | None = M4) -> build.Planned:
    return build.plan_model(DIGITS, board, Options(goal=Goal.SRAM, disabled=frozenset(disabled)))


def choice(made: build.Planned, name: str) -> dict[str, Any]:
    listed: Any = made.report["choices"]
    return next(each for each in listed if each["name"] == name)


def test_without_packing_kernels_read_constants_as_the_oracle_does() -> None:
    usual, plain = planned(), planned("pre-pack-weights")

    assert choice(usual, "pre-pack-weights")["ops"] > 0
    for stage in plain.unit.stages:
        others = choices(stage.node, M4.cpu.isas)
        assert not stage.kernel.packs(stage.node) or all(kernel.packs(stage.node) for kernel in others)
    assert choice(plain, "pre-pack-weights")["ops"] < choice(usual, "pre-pack-weights")["ops"]


def test_the_bytes_of_packed_constants_are_those_of_the_kernels() -> None:
    made = planned()
    packed = [stage for stage in made.unit.stages if stage.kernel.packs(stage.node)]

    sizes = choice(made, "pre-pack-weights")
    assert sizes["ops"] == len(packed)
    assert sizes["bytes_after"] == sum(stage.packed_bytes for stage in packed)
    assert sizes["bytes_before"] == planned("pre-pack-weights").constants.bytes - sum(
        stage.packed_bytes for stage in made.unit.stages if stage not in packed
    )


def test_without_overwriting_the_arena_is_larger_and_the_library_computes_the_same(tmp_path: Path) -> None:
    usual, apart = planned(board=None), planned("overwrite-inputs", board=None)

    assert choice(usual, "overwrite-inputs")["ops"] > 0
    assert choice(apart, "overwrite-inputs")["ops"] == 0
    assert usual.unit.plan.arena_bytes < apart.unit.plan.arena_bytes
    vectors = [random_inputs(apart.unit.graph, np.random.default_rng(seed)) for seed in range(3)]
    for got, inputs in zip(run(apart.unit, compile_library(apart.unit, tmp_path), vectors), vectors, strict=True):
        assert all((got[name] == values).all() for name, values in expected(apart.unit.graph, inputs).items())


@needs_qemu
def test_the_board_computes_the_same_without_either(tmp_path: Path) -> None:
    options = PlanOptions(board=M4.id, minimize="sram", disable=["pre-pack-weights", "overwrite-inputs"])
    shoehorn_mcu.generate(DIGITS, tmp_path / "made", options)

    found = shoehorn_mcu.validate(tmp_path / "made", emulate=True, count=2)
    assert (found.vectors, found.mismatched_vectors) == (2, 0)


def test_ops_that_do_not_depend_on_the_inputs_are_counted(tmp_path: Path) -> None:
    """Shape > Gather > Concat, by which exporters write the sizes of a Reshape."""
    nodes = [
        helper.make_node("Shape", ["x"], ["sizes"]),
        helper.make_node("Gather", ["sizes", "first"], ["batch"], axis=0),
        helper.make_node("Concat", ["batch", "rest"], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["flat"]),
        helper.make_node("Relu", ["flat"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s) for n, s in (("x", (1, 2, 3)), ("y", (1, 6)))]
    held = [numpy_helper.from_array(np.array([v]), n) for n, v in (("first", 0), ("rest", -1))]
    path = tmp_path / "shapes.onnx"
    onnx.save(helper.make_model(helper.make_graph(nodes, "shapes", ends[:1], ends[1:], held)), path)

    records: Any = build.plan_model(path, None, Options()).report["passes"]
    first = records[0]
    assert (first["name"], first["ops_before"] - first["ops_after"]) == ("fold-constants", 3)


@pytest.mark.parametrize("name", ["fold-constants", "hoist-parameters"])
def test_what_is_always_done_cannot_be_disabled(name: str) -> None:
    with pytest.raises(passes.PassError, match=f"{name} cannot be disabled: .*; leave it out"):
        planned(name)


def test_without_toom_cook_weights_are_multiplied_as_they_are() -> None:
    """A convolution of three columns has transformed weights only where that is allowed and has room in the flash."""
    rng = np.random.default_rng(0)
    graph = linear(
        ops.Conv2d,
        rng,
        DATA[0],
        (1, 16, 16, 32),
        (32, 3, 3, 32),
        stride=(1, 1),
        dilation=(1, 1),
        padding=ops.Padding(1, 1, 1, 1),
    )
    (node,) = graph.nodes()
    free = replace(targets.Machine.of("cortex-m4f"), scratch=True)

    assert choose(node, free).variant.choice == TOOM_COOK
    assert choose(node, replace(free, disabled=frozenset({TOOM_COOK}))).variant.choice == ""
    assert choose(node, replace(free, scratch=False)).variant.choice == ""
    fastest, *others = with_scratch(node, free)
    assert (fastest.tile.sizes["reach"], fastest.rows_at_once, others[-1].variant.choice) == (4, 2, TOOM_COOK)
    weights = [array_bytes(kernel.params(node)) for kernel in (fastest, others[-1])]
    assert weights == [16 * 9 * 32 * 32 // 3 + 32 * 16, 8 * 9 * 32 * 32 // 3 + 32 * 16]
    stages = computed(graph, replace(free, scratch=False))
    plan = make_plan(lower(graph, stages, 100_000))
    for flash, reach in ((None, 4), (kernel_bytes(stages) + 20_000, 2), (kernel_bytes(stages), None)):
        ((stage,), _) = upgraded(lower(graph, stages, 100_000), stages, plan, Limits({SRAM: 100_000}, flash))
        assert stage.kernel.tile.sizes.get("reach") == reach
