"""Chains: which runs of ops may run in bands, and plans with them from the graph to bytes."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from bottlenecks import Bottlenecks
from evaluate import evaluate, random_arrays
from hypothesis import given, settings
from many_models import ManyModels, compile_kernels
from nets import Net
from row_problems import problems
from test_place import few_tries

from shoehorn_mcu import ops
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.ir import Graph
from shoehorn_mcu.planner import DoesNotFit, Goal, Problem, check
from shoehorn_mcu.planner.blocks import chains as chains_module
from shoehorn_mcu.planner.blocks.cascade import Composite, Pattern
from shoehorn_mcu.planner.blocks.chains import chains
from shoehorn_mcu.planner.blocks.composites import extra, left_out
from shoehorn_mcu.planner.candidates import Candidates
from shoehorn_mcu.planner.memory_plan import CHAINED
from shoehorn_mcu.schedule.cuts import Cuts
from shoehorn_mcu.schedule.lower import lower
from shoehorn_mcu.schedule.request import PlanRequest, Scheduled
from shoehorn_mcu.schedule.search import schedule
from shoehorn_mcu.schedule.stage import stages


@pytest.fixture(autouse=True)
def _few_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    few_tries(monkeypatch)
    monkeypatch.setattr("shoehorn_mcu.planner.effort.BUDGET.LEAST_SECONDS", 0.01)


@settings(max_examples=200, deadline=None)
@given(problems(most_ops=12, most_blocks=1))
def test_what_a_chain_hides_is_read_inside_only_and_computed_in_some_band(problem: Problem):
    views = {problem.root(tensor.name) for tensor in problem.tensors if tensor.view_of is not None}
    for chain in chains(problem):
        inside = problem.ops[chain.first : chain.last + 1]
        inner = {op.writes for op in inside[:-1]}
        others = [op for op in problem.ops if op not in inside]

        assert chain.last > chain.first
        assert not inner & ({*problem.kept, *problem.inputs} | views)
        assert not inner & {read.tensor for op in others for read in op.reads}
        assert not any(op.writes in {read.tensor for read in op.reads} for op in inside)
        assert left_out(problem, chain) == set()
        assert (chain.first, chain.last) not in {(block.first, block.last) for block in problem.blocks}


@settings(max_examples=200, deadline=None)
@given(problems(most_ops=12))
def test_the_extra_work_by_which_chains_are_ranked_is_that_of_bands_of_one_row(problem: Problem):
    """Windows with dilation leave rows between those that they read, which the rank counts as computed."""
    ranked = {(chain.first, chain.last): chain for chain in chains_module._all(problem)}
    for block in chains(problem):
        bands = Composite(Pattern(problem, block, 1), block.cuts[0])
        reads = [read.rows for op in bands.cut.ops[1:] for read in op.reads]
        gapless = all(max(rows) - min(rows) + 1 == len(rows) for read in reads for rows in read if rows)
        worth = ranked[block.first, block.last].extra

        assert worth >= extra(problem, bands)[0]
        if gapless and len(bands.cut.ops) == 2:
            assert worth == extra(problem, bands)[0]


# --- Plans


class Fires(Bottlenecks):
    """Squeezed maps that two convolutions widen side by side, as in SqueezeNet, and pools of overlapping windows."""

    def __init__(self, rng: np.random.Generator) -> None:
        Net.__init__(self, 1, int(rng.integers(20, 34)), int(rng.integers(5, 12)), 3)
        self.rng = rng

    def fire(self, x: str) -> str:
        x = self.narrow(x, self.pick(2, 4))
        one = self.narrow(x, self.pick(6, 12))
        wide = (self.pick(6, 12), 3, 3, self.channels(x))
        three = self.linear(ops.Conv2d, x, wide, 0, padding=ops.Padding(1, 1, 1, 1))
        self.tensors[three] = replace(self.tensors[three], type=replace(self.type(three), quant=self.type(one).quant))
        joined = self.add(ops.Concat, one, three, axis=3)
        return self.add(ops.MaxPool2d, joined, kernel=(3, 3), stride=(2, 1), padding=ops.Padding(0, 0, 1, 1))


@cache
def fires() -> Graph:
    net = Fires(np.random.default_rng(0))
    x = "x"
    for _ in range(net.pick(2, 3)):
        x = net.fire(x)
    return net.graph(net.narrow(x, 4))


def within(part: float) -> Scheduled:
    """The fastest plan within a part of the smallest arena of the fires without recomputation, the input streamed."""
    cuts = Cuts(fires(), stages(fires()))
    smallest = schedule(cuts, PlanRequest(Goal.SRAM, None, True, 0)).plan.arena_bytes
    return schedule(cuts, PlanRequest(Goal.TIME, int(part * smallest), True, None))


@pytest.mark.long
def test_a_chain_in_bands_makes_a_plan_that_groups_alone_do_not_reach(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("shoehorn_mcu.planner.effort.BUDGET.MOST_SECONDS", 20.0)
    with monkeypatch.context() as only_bands:
        only_bands.setattr(Candidates, "recomputing", lambda self, capacity: iter(()))
        plan = within(0.93).plan
        only_bands.setattr("shoehorn_mcu.planner.searches.chains", lambda problem: [])
        with pytest.raises(DoesNotFit):
            within(0.93)

    assert [(cascade.chunks, cascade.block) for cascade in plan.cascades] == [(1, "op6..op10")]
    assert plan.outcome.reason.endswith(f"more work, proven minimal among {CHAINED} that fit")


@pytest.mark.usefixtures("full_placement")
def test_the_library_of_chains_in_bands_computes_what_the_graph_means(tmp_path: Path):
    made = [within(part) for part in (0.98, 0.93)]
    assert len({cascade.band for each in made for cascade in each.plan.cascades}) == 2
    for each in made:
        assert check(lower(each.graph, each.stages, None, True), each.plan) == []

    units = [Unit(f"fires_{i}", each.graph, each.stages, each.plan) for i, each in enumerate(made)]
    turns = [(i, random_arrays(fires(), vector)) for i in range(len(units)) for vector in (1, 2)]
    found = ManyModels(units, compile_kernels(), tmp_path).run(turns)
    for (_, inputs), outputs in zip(turns, found, strict=True):
        wanted = evaluate(fires(), inputs)
        for name in fires().outputs:
            np.testing.assert_array_equal(outputs[name], wanted[name])
