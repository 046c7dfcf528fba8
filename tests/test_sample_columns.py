"""Copies of the pixels that 1x1 convolutions with a stride read: values, and what they save."""

from __future__ import annotations

from pathlib import Path

import emitted
import numpy as np
import pytest
from evaluate import evaluate, random_arrays
from nets import Net
from shared import MODELS, needs_shared

from shoehorn_mcu import PlanOptions, plan
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.ir import Graph, verify
from shoehorn_mcu.ops import Add, Padding, Slice
from shoehorn_mcu.passes.sample_columns import with_samples
from shoehorn_mcu.planner import Goal, check, make_plan
from shoehorn_mcu.schedule.cuts import Cuts
from shoehorn_mcu.schedule.lower import lower
from shoehorn_mcu.schedule.request import PlanRequest, Scheduled
from shoehorn_mcu.schedule.search import schedule
from shoehorn_mcu.schedule.stage import stages

SAME = Padding(1, 1, 1, 1)


def block(size: int = 12, channels: int = 4, outputs: int = 8, shortcut: int = 1, **attributes: object) -> Graph:
    """A residual block with a stride: two convolutions beside a shortcut, a convolution before and one behind."""
    net, stride = Net(1, size, size, channels), attributes.get("stride", (2, 2))
    x = net.conv("x", channels, 3, padding=SAME)
    deep = net.conv(net.conv(x, outputs, 3, stride=stride, padding=SAME), outputs, 3, padding=SAME)
    short = net.conv(x, outputs, shortcut, **{"stride": stride, **attributes})
    return net.graph(net.conv(net.add(Add, deep, short), outputs, 3, padding=SAME))


def samples(graph: Graph) -> list[Slice]:
    return [op for op in graph.ops if isinstance(op, Slice)]


def smallest(graph: Graph, streamed: bool, sampling: bool = True) -> Scheduled:
    cuts = Cuts(graph, stages(graph))
    if not sampling:
        cuts.__dict__["sampling"] = None
    return schedule(cuts, PlanRequest(Goal.SRAM, stream_input=streamed))


@pytest.mark.parametrize("stride", [(2, 2), (1, 2), (3, 5)])
def test_values_are_those_of_the_convolution(stride: tuple[int, int], tmp_path: Path) -> None:
    graph = block(stride=stride)
    made = with_samples(graph)
    assert made is not None and [copy.step for copy in samples(verify(made))] == [(1, *stride, 1)]
    vectors, (output,) = [random_arrays(graph, seed) for seed in range(3)], graph.outputs
    for vector in vectors:
        assert np.array_equal(evaluate(made, vector)[output], evaluate(graph, vector)[output])
    chosen = stages(made)
    problem = lower(made, chosen, None)
    found = make_plan(problem, Goal.SRAM)
    assert not check(problem, found)
    unit = Unit("net", made, chosen, found)
    program = emitted.compile_library(unit, tmp_path)
    for vector, outputs in zip(vectors, emitted.run(unit, program, vectors), strict=True):
        assert np.array_equal(outputs[output], evaluate(graph, vector)[output])


def test_what_saves_nothing_is_not_copied() -> None:
    assert with_samples(block(stride=(2, 1))) is None  # every column is read
    assert with_samples(block(channels=8)) is None  # a row of the output is no longer than one of the copy
    assert with_samples(block(shortcut=3, padding=SAME)) is None  # a window of three columns
    net = Net(1, 8, 8, 4)
    assert with_samples(net.graph(net.conv("x", 8, stride=(2, 2)))) is None  # nothing else reads x


def blocks(count: int) -> Graph:
    """Such blocks in a row, each with twice the channels of the one before."""
    net = Net(1, 32, 32, 8)
    x = net.conv("x", 8, 3, padding=SAME)
    for channels in (8 << i for i in range(1, count + 1)):
        deep = net.conv(net.conv(x, channels, 3, stride=(2, 2), padding=SAME), channels, 3, padding=SAME)
        x = net.add(Add, deep, net.conv(x, channels, stride=(2, 2)))
    return net.graph(net.conv(x, 4, 3, padding=SAME))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_shortcut_keeps_only_the_pixels_that_it_reads(count: int) -> None:
    graph = blocks(count)
    made, without = smallest(graph, streamed=True), smallest(graph, streamed=True, sampling=False)

    assert made.plan.arena_bytes < without.plan.arena_bytes * 0.98
    assert len(samples(made.graph)) == count


def test_nothing_is_copied_where_the_arena_stays_the_same() -> None:
    graph = blocks(2)
    made, without = smallest(graph, streamed=False), smallest(graph, streamed=False, sampling=False)

    assert (made.plan.arena_bytes, made.graph) == (without.plan.arena_bytes, graph)


@pytest.mark.usefixtures("full_effort", "quick_placement")
@needs_shared
def test_figures_of_mlperf_ic() -> None:
    model = MODELS / "mlperf-ic-resnet8-int8.tflite"
    ways = (PlanOptions(board="mps2-an386", minimize="sram", stream_input=streamed) for streamed in (False, True))

    for way, most in zip(ways, (9_344, 8_196), strict=True):
        assert plan(model, way).arena_bytes <= most
