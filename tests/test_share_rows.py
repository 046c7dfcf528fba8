"""The pass `share-rows`: concatenations and slices of whole rows that have no bytes and no kernel."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import emitted
import numpy as np
import pytest
from runtime import load_reference

import shoehorn_mcu
from shoehorn_mcu import PlanOptions, importers, passes
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.ir import DType, Graph, Op, Part, Quant, Tensor, TensorType, shared_rows, verify
from shoehorn_mcu.ops import Concat, MaxPool2d, Reshape, Slice
from shoehorn_mcu.passes.share_rows import share_rows
from shoehorn_mcu.planner import Goal, check, make_plan
from shoehorn_mcu.schedule.lower import lower
from shoehorn_mcu.schedule.stage import stages
from tests.shared import MODELS, needs_shared

QUANT = Quant((0.5,), (3,))


def graph_of(shapes: dict[str, Sequence[int]], *ops: Op, inputs: Sequence[str] = ("x",), output: str = "y") -> Graph:
    tensors = {name: Tensor(name, TensorType(tuple(shape), DType.INT8, QUANT)) for name, shape in shapes.items()}
    return verify(Graph("small", tensors, ops, tuple(inputs), (output,)))


def pool(name: str, x: str, y: str, rows: int = 2) -> MaxPool2d:
    return MaxPool2d(name=name, inputs=(x,), output=y, kernel=(rows, 1), stride=(1, 1))


def cut(name: str, x: str, y: str, begin: Sequence[int], size: Sequence[int]) -> Slice:
    return Slice(name=name, inputs=(x,), output=y, begin=tuple(begin), size=tuple(size), step=(1,) * len(size))


def joined() -> Graph:
    """A window over the rows of two inputs, one after the other."""
    return graph_of(
        {"x": (1, 3, 2, 4), "z": (1, 2, 2, 4), "all": (1, 5, 2, 4), "y": (1, 4, 2, 4)},
        Concat(name="join", inputs=("x", "z"), output="all", axis=1),
        pool("pool", "all", "y"),
        inputs=("x", "z"),
    )


def halves() -> Graph:
    """The two halves of the channels of single pixels, pooled, and joined row after row."""
    return graph_of(
        {
            "x": (1, 4, 1, 6),
            **dict.fromkeys("ab", (1, 4, 1, 3)),
            **dict.fromkeys("cd", (1, 3, 1, 3)),
            "y": (1, 6, 1, 3),
        },
        cut("left", "x", "a", (0, 0, 0, 0), (1, 4, 1, 3)),
        cut("right", "x", "b", (0, 0, 0, 3), (1, 4, 1, 3)),
        pool("one", "a", "c"),
        pool("two", "b", "d"),
        Concat(name="join", inputs=("c", "d"), output="y", axis=1),
    )


def chain() -> Graph:
    """A part of the rows, without the first pixel, of two joined inputs."""
    return graph_of(
        {"x": (1, 3, 4, 2), "z": (1, 3, 4, 2), "all": (1, 6, 4, 2), "part": (1, 4, 3, 2), "y": (1, 2, 3, 2)},
        Concat(name="join", inputs=("x", "z"), output="all", axis=1),
        cut("cut", "all", "part", (0, 1, 1, 0), (1, 4, 3, 2)),
        pool("pool", "part", "y", 3),
        inputs=("x", "z"),
    )


def test_rows_of_a_concatenation_are_those_of_its_inputs() -> None:
    graph = share_rows(joined())

    assert shared_rows(graph) == {"all": (*(Part("x", y, 0) for y in range(3)), *(Part("z", y, 0) for y in range(2)))}
    (stage,) = stages(graph)
    assert stage.reads == (("x", ((0, 1), (1, 2), (2,), ())), ("z", ((), (), (0,), (0, 1))))
    problem = lower(graph, stages(graph), None)
    assert {spec.name for spec in problem.tensors} == {"x", "z", "y"}


def test_a_slice_of_a_concatenation_is_a_part_of_the_inputs_rows() -> None:
    graph = share_rows(chain())

    assert shared_rows(graph)["part"] == (Part("x", 1, 2), Part("x", 2, 2), Part("z", 0, 2), Part("z", 1, 2))


@pytest.mark.parametrize("make", [joined, halves, chain])
def test_a_library_computes_what_the_ops_mean(make, tmp_path: Path) -> None:
    plain, graph = make(), share_rows(make())
    chosen, reference = stages(graph), load_reference(plain)
    assert len(chosen) < len(plain.ops)
    assert load_reference(graph).run(list(some(plain, 1).values()))  # the op itself stays in the reference
    problem = lower(graph, chosen, None)
    for goal in Goal:
        plan = make_plan(problem, goal)
        unit = Unit("small", graph, chosen, plan)
        vectors = [some(plain, seed) for seed in range(5)]
        program = emitted.compile_library(unit, tmp_path / goal.value)

        found = emitted.run(unit, program, vectors)

        assert not check(problem, plan)
        assert plan.arena_bytes <= make_plan(lower(plain, stages(plain), None), goal).arena_bytes
        for vector, outputs in zip(vectors, found, strict=True):
            assert np.array_equal(outputs["y"], reference.run(list(vector.values()))["y"])


def some(graph: Graph, seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {name: random.integers(-128, 128, graph.tensors[name].type.shape, np.int8) for name in graph.inputs}


def test_what_needs_bytes_of_its_own_keeps_them() -> None:
    result = graph_of({"x": (1, 3, 2, 4), "y": (1, 2, 2, 4)}, cut("cut", "x", "y", (0, 1, 0, 0), (1, 2, 2, 4)))
    viewed = graph_of(
        {"x": (1, 3, 2, 4), "c": (1, 2, 2, 4), "v": (1, 4, 1, 4), "y": (1, 3, 1, 4)},
        cut("cut", "x", "c", (0, 1, 0, 0), (1, 2, 2, 4)),
        Reshape(name="view", inputs=("c",), output="v", shape=(1, 4, 1, 4)),
        pool("pool", "v", "y"),
    )
    channels = graph_of(
        {"x": (1, 3, 2, 4), "c": (1, 3, 2, 3), "y": (1, 2, 2, 3)},
        cut("cut", "x", "c", (0, 0, 0, 1), (1, 3, 2, 3)),
        pool("pool", "c", "y"),
    )
    little = graph_of(
        {"x": (1, 9, 2, 4), "c": (1, 2, 2, 4), "y": (1, 1, 2, 4)},
        cut("cut", "x", "c", (0, 1, 0, 0), (1, 2, 2, 4)),
        pool("pool", "c", "y"),
    )
    for graph in (result, viewed, channels, little):
        assert not any(op.shares_rows for op in share_rows(graph).ops)


@needs_shared
def test_a_streaming_model_reads_its_states_in_place() -> None:
    """micro-wake-word's okay_nabu: 5,008 bytes and 140,768 instructions where each state is joined with new rows."""
    path = MODELS / "mww-okay-nabu-v2.tflite"

    with_pass = shoehorn_mcu.plan(path, PlanOptions(minimize="sram", cpu="cortex-m4f"))
    without = shoehorn_mcu.plan(path, PlanOptions(minimize="sram", cpu="cortex-m4f", disable=("share-rows",)))

    assert with_pass.arena_bytes <= 3860 < without.arena_bytes
    assert with_pass.predicted_instructions < without.predicted_instructions
    graph = passes.run(importers.load(path))[0]
    problem = lower(graph, stages(graph), None)
    assert all(any(spec.over == state.read for spec in problem.tensors) for state in graph.states)
