"""Ten thousand random graphs: planned by rows, checked, generated, and run beside numpy under sanitizers; and networks
that move rows, as users plan them.

A failure names its seed: `python tests/random_seed.py SEED` builds that graph alone and cuts it down.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from evaluate import evaluate, random_arrays
from growers import GROWERS
from height_nets import height_net
from many_models import ManyModels, compile_kernels
from mutants import mutants
from random_graphs import random_graph, shrunk
from random_plans import few_tries, plans, prepared, units_of
from replay import Rows, replays
from samples import TABLES

from shoehorn_mcu import ops
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.firmware.build import plan_model
from shoehorn_mcu.firmware.settings import Options
from shoehorn_mcu.importers import Imported
from shoehorn_mcu.ir import Graph, dump
from shoehorn_mcu.ops import MODEL_OPS
from shoehorn_mcu.planner import Goal, check, make_plan
from shoehorn_mcu.schedule.lower import lower

CHUNK = 16
CHUNKS = 625
MUTATED = 40  # graphs from the first of a chunk on, of whose plans mutants are checked
DAILY = 1  # chunks in every run of the suite; the others are `long`


@pytest.fixture(scope="module")
def kernels() -> list[Path]:
    return compile_kernels()


@pytest.fixture(autouse=True)
def _few_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    few_tries(monkeypatch)


def _chunks() -> list[object]:
    """Each the first seed of a chunk."""
    marks = [() if chunk < DAILY else (pytest.mark.long,) for chunk in range(CHUNKS)]
    return [pytest.param(i * CHUNK, id=f"{i * CHUNK}..{(i + 1) * CHUNK - 1}", marks=m) for i, m in enumerate(marks)]


@pytest.mark.parametrize("first", _chunks())
def test_the_library_of_a_random_graph_planned_by_rows_computes_what_its_ops_mean(
    first: int, kernels: list[Path], tmp_path: Path
):
    made = []
    for seed in range(first, first + CHUNK):
        graph = random_graph(seed)
        made += [(graph, unit) for unit in units_of(graph, seed)]
    turns = [(i, random_arrays(graph, vector)) for i, (graph, _) in enumerate(made) for vector in (1, 2)]
    found = ManyModels([unit for _, unit in made], kernels, tmp_path).run(turns)
    for (place, inputs), outputs in zip(turns, found, strict=True):
        graph, unit = made[place]
        wanted = evaluate(graph, inputs)
        for name in graph.outputs:
            np.testing.assert_array_equal(outputs[name], wanted[name], err_msg=f"{unit.name} {name}")


def user_units(seed: int) -> list[Unit]:
    """The network that moves rows with that seed, under the options of users."""
    graph = height_net(seed)
    asked = {"fast": Options(), "small": Options(goal=Goal.SRAM), "cores": Options(cores=2)}
    if len(graph.inputs) == 1:
        asked["streamed"] = Options(stream_input=True)
        asked["again"] = Options(goal=Goal.SRAM, stream_input=True, recompute_percent=50.0)
    made = []
    for name, options in asked.items():
        try:
            unit = plan_model(Imported(graph, {}), None, options).unit
        except Exception as error:
            error.add_note(f"height_net({seed}), {name}")
            raise
        made.append(Unit(f"{name}_{seed}", unit.graph, unit.stages, unit.plan))
    return made


@pytest.mark.parametrize("first", _chunks()[:1] + _chunks()[DAILY:50])
def test_a_network_that_moves_rows_is_planned_and_computes_what_its_ops_mean(
    first: int, kernels: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The independent check refuses none of these plans; of many a call takes rows of several tensors as one."""
    monkeypatch.setattr("shoehorn_mcu.planner.cores.LEAST_COST", 1)
    made = [(height_net(seed), unit) for seed in range(first, first + CHUNK, 4) for unit in user_units(seed)]
    if first == 0:
        assert any(stage.shared and stage.rows_per_call > 1 for _, unit in made for stage in unit.stages)
        assert any(unit.cores > 1 for _, unit in made)
    turns = [(i, random_arrays(graph, vector)) for i, (graph, _) in enumerate(made) for vector in (1, 2)]
    found = ManyModels([unit for _, unit in made], kernels, tmp_path).run(turns)
    for (place, inputs), outputs in zip(turns, found, strict=True):
        graph, unit = made[place]
        wanted, (name,), (own,) = evaluate(graph, inputs), graph.outputs, unit.graph.outputs
        np.testing.assert_array_equal(outputs[own], wanted[name], err_msg=unit.name)


def test_an_op_takes_no_ring_of_which_it_reads_only_padding(kernels: list[Path], tmp_path: Path):
    once, again = units_of(random_graph(378), 378)

    assert not any(once.moving.values())
    assert any(again.moving.values())
    assert ManyModels([once, again], kernels, tmp_path).run([]) == []  # compiles without a warning


@pytest.mark.parametrize("first", _chunks()[:1] + _chunks()[DAILY:12])
def test_the_check_refuses_a_plan_that_is_one_off_unless_it_computes_the_same(first: int):
    """`replays` runs a plan on hashes of rows, from the ops alone, and so proves whether a mutant is harmless.

    Beside wrong bytes the check refuses what breaks a law of plans (alignment, rows of the input in order).
    """
    verdicts: Counter[tuple[str, str]] = Counter()
    for seed in range(first, first + MUTATED, 4 if first == 0 else 3):
        graph, chosen = prepared(random_graph(seed), seed)
        rows = Rows(graph)
        for problem, plan in plans(graph, chosen, seed):
            assert replays(rows, plan), f"seed {seed}"
            for kind, mutant in mutants(plan, random.Random(seed)):
                faults, right = check(problem, mutant), replays(rows, mutant)
                bytes_wrong = any(word in fault for fault in faults for word in ("is read, but", "are outside"))
                told = f"seed {seed}, {kind}: harmless is {right}, but the check says {faults}"
                assert not right if bytes_wrong else right or faults, told
                verdicts[kind, "caught" if faults else "harmless"] += 1
    for kind in {kind for kind, _ in verdicts}:
        assert verdicts[kind, "caught"] > 20, (kind, verdicts)


def test_the_random_graphs_hold_every_op_and_all_that_makes_a_plan_hard():
    graphs = [random_graph(seed) for seed in range(150)]

    held = {type(op) for graph in graphs for op in graph.ops}
    assert set(GROWERS) == set(MODEL_OPS)
    assert held >= set(GROWERS) - set(TABLES)  # one grower draws all tables, too many for so few graphs
    assert len(held & set(TABLES)) > len(TABLES) // 2
    assert any(len(graph.inputs) > 1 for graph in graphs)
    assert any(len(graph.outputs) > 2 for graph in graphs)
    assert any(set(graph.inputs) & set(graph.outputs) for graph in graphs)
    assert {"int8", "uint8", "float32"} == {_dtype(g, n) for g in graphs for n in (*g.inputs, *g.outputs)}
    convolutions = [op for graph in graphs for op in graph.ops if isinstance(op, ops.Conv2d)]
    assert {n for op in convolutions for n in (*op.stride, *op.dilation)} == {1, 2, 3}
    assert any(op.padding.top != op.padding.bottom for op in convolutions)
    dead = [g for g in graphs if {o.output for o in g.ops} - {n for o in g.ops for n in o.inputs} - set(g.outputs)]
    assert len(dead) > 20


def _dtype(graph: Graph, name: str) -> str:
    return graph.tensors[name].type.dtype.value


def test_a_seed_gives_the_same_graph_each_time():
    assert [dump(random_graph(seed)) for seed in range(20)] == [dump(random_graph(seed)) for seed in range(20)]


@pytest.mark.long
def test_most_random_graphs_are_planned_by_rows_and_few_outputs_are_all_alike():
    smaller = alike = outputs = 0
    for seed in range(60):
        graph, chosen = prepared(random_graph(seed), seed)
        plan = make_plan(lower(graph, chosen, None), Goal.SRAM)
        smaller += plan.arena_bytes < plan.outcome.whole_tensor_bytes
    for graph in map(random_graph, range(200)):  # so many that chance does not decide
        values = evaluate(graph, random_arrays(graph, 1))
        alike += sum(np.unique(values[n]).size == 1 < values[n].size for n in graph.outputs)
        outputs += len(graph.outputs)

    assert smaller > 40
    assert alike < outputs / 5


def test_a_graph_that_fails_is_cut_down_to_the_ops_that_make_it_fail():
    def fails(graph: Graph) -> bool:
        return any(isinstance(op, ops.Softmax) for op in graph.ops)

    large = next(g for g in map(random_graph, range(99)) if fails(g) and len(g.ops) > 8)
    small = shrunk(large, fails)

    assert [type(op) for op in small.ops] == [ops.Softmax]
    assert len(small.inputs) == len(small.outputs) == 1
