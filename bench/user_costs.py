"""Measures and fits the costs of the cores that no emulated board has, in QEMU's user mode.

    python -m bench.user_costs [--cpus CORE ...] [--kernels WORD] [--models NAME ...] [--write] [--sizes] [--out DIR]

Of cortex-a76 these are the kernels with the dot product: whole costs of the core are those of cortex-a53, whose
instructions its compiled C has, with these beside them. Of cortex-a710 these are the kernels with products of
matrices, beside all costs of cortex-a76. Of cortex-a7 it is all that `bench.costs` measures on a board:
the graphs of bench/micro.py with every kernel of the core, and models. Those of FITTED are fitted, with whole tensors
and for the smallest arena, the others held out. Models need costs of the core to choose kernels by; without a file of
costs only the small graphs are measured, so the first time is to be run twice.

--kernels measures and fits only the kernels whose names contain WORD; --models names the models to measure, none where
nothing follows. Results in DIR/<core>.json are reused while the kernels are the same (delete the file after a change of
their code). Prints the errors of predictions. --write writes kernels/costs/<core>.json, with --sizes
the bytes of the kernels' code, too.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from bench import code_bytes, costs_files, micro, user_mode
from bench.costs import FITTED, HELD_OUT, ROWS, Found, pairs_of, percent, predictions, row_of
from bench.fit import CLAMPED, Row, fitted, fitted_calls
from shoehorn_mcu import importers, passes
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.ir import DType, Graph, Node
from shoehorn_mcu.kernels import CATALOGUE, PORTABLE, Instance, candidates, choose, cost
from shoehorn_mcu.machine.targets import CPUS, Isa, Machine
from shoehorn_mcu.ops.linear import LinearOp
from shoehorn_mcu.passes.float_mode import FloatMode, with_float_mode
from shoehorn_mcu.planner import Goal
from shoehorn_mcu.schedule.predict import calls_of, rows_and_steps
from shoehorn_mcu.schedule.stage import computes
from tests.samples import random_inputs
from tests.shared import MODELS

MOST_OF_KERNEL = 48  # graphs
MOST = 250  # ops of a program
SIMPLE = ("lut_8", "pad", "slice", "concat", "max_pool2d_s8", "add_s8", "pool2d_s16")  # kernels, by their names
MOST_BYTES = 8_000_000  # of its inputs and outputs


@dataclass(frozen=True)
class Part:
    """The kernels of a core whose costs are measured."""

    isas: tuple[Isa, ...]  # of its kernels
    like: str = ""  # the core that has all other costs; without one they are measured, too


PARTS: Mapping[str, Part] = {
    "cortex-a7": Part(Machine.of("cortex-a7", flushes=True).isas),
    "cortex-a76": Part((Isa.DOT,), "cortex-a53"),
    "cortex-a710": Part((Isa.MATRIX,), "cortex-a76"),
}


class Tried(NamedTuple):
    """A small graph, and the kernel of the core that it is measured with; the portable ones are ''."""

    number: int
    graph: Graph
    key: str

    @property
    def name(self) -> str:
        return f"micro {self.number} {self.key}".strip()


def graphs() -> Iterator[Graph]:
    """The small graphs of micro.py; graphs of float32 come a second time, with sums that are fused."""
    every = list(micro.graphs(ROWS))
    yield from every
    for graph in every:
        node = next(graph.nodes())
        if isinstance(node.op, LinearOp) and node.output.type.dtype is DType.FLOAT32 and len(graph.ops) == 1:
            fused = with_float_mode(graph, FloatMode.RELAXED)
            if fused != graph:
                yield fused


def tried(core: str, word: str) -> list[Tried]:
    """The small graphs with each kernel of a core, by kernel."""
    found: dict[str, list[Tried]] = {}
    bodies = {variant.source for variant in PORTABLE.values()}
    for number, graph in enumerate(graphs()):
        own = [k for node in graph.nodes() for k in candidates(node, Machine.of(core, flushes=True).isas)]
        keys = {k.key for k in own if k.variant.isa in PARTS[core].isas and k.variant.source not in bodies}
        wanted = {*keys, ""} if Isa.C in PARTS[core].isas else keys
        for key in wanted:
            if word in key:
                found.setdefault(key, []).append(Tried(number, graph, key))
    return [each for key in sorted(found) for each in _some(found[key], Machine.of(core))]


def _some(of: Sequence[Tried], machine: Machine) -> list[Tried]:
    """At most MOST_OF_KERNEL graphs for each kernel, portable or not, spread evenly over the list of graphs."""
    alike: dict[tuple[str, ...], list[Tried]] = {}
    for each in of:
        own = tuple(picked(n, machine, "").key for n in each.graph.nodes() if computes(n))
        alike.setdefault(() if each.key else own, []).append(each)
    kept: list[Tried] = []
    for group in alike.values():
        count = min(MOST_OF_KERNEL, len(group))
        kept += (group[i * len(group) // count] for i in range(count))
    return kept


def programs(pairs: Sequence[Tried]) -> Iterator[list[Tried]]:
    """The pairs by programs that are not too large."""
    held: list[Tried] = []
    size = 0
    for each in pairs:
        more = sum(t.type.bytes for t in each.graph.tensors.values())
        if held and (len(held) >= MOST or size + more > MOST_BYTES):
            yield held
            held, size = [], 0
        held.append(each)
        size += more
    if held:
        yield held


def picked(node: Node, machine: Machine, key: str) -> Instance:
    """The kernel of this key, if it computes the node, else the portable one in the node's arithmetic."""
    own = candidates(node, machine.isas)
    bodies = {variant.source for variant in PORTABLE.values()}
    return next((k for k in own if k.key == key), None) or [k for k in own if k.variant.source in bodies][-1]


def ops_of(unit: Unit, counted: Mapping[int, int]) -> list[Found]:
    """The measured ops, as bench.costs has them."""
    rings = {ring.tensor: ring for ring in unit.plan.placements}
    rows, steps = rows_and_steps(unit.plan)
    calls = {stage.name: rows[stage.name] // stage.rows_per_call for stage in unit.stages}
    return [
        {
            "kernel": stage.kernel.cost_key,
            "rows": calls[stage.name],
            "calls": {**asdict(calls_of(stage, rings)), "steps": steps[stage.name] / max(1, calls[stage.name])},
            "measured": counted[stage.index],
            "work": dict(stage.kernel.work(stage.call)),
        }
        for stage in unit.stages
    ]


def unit_of(core: str, pairs: Sequence[Tried]) -> Unit:
    """The small graphs side by side, each with its kernel."""
    graph = micro.merged("micro", [each.graph for each in pairs])
    keys = {f"{op.name}_{i}": each.key for i, each in enumerate(pairs) for op in each.graph.ops}

    def pick(node: Node, machine: Machine) -> Instance:
        return picked(node, machine, keys[node.op.name])

    return user_mode.unit_of(graph, core, pick, flushes=True)


def small(core: str, pairs: Sequence[Tried], known: dict[str, Any]) -> Found:
    """The ops of some pairs; those that are not known with the same kernels are measured in one program."""
    whole = unit_of(core, pairs)
    kernels: dict[int, list[str]] = {}
    for stage in whole.stages:
        kernels.setdefault(int(stage.name.rpartition("_")[2]), []).append(stage.kernel.name)
    names = [each.name for each in pairs]
    missing = [i for i, name in enumerate(names) if [k for k, _ in known.get(name, ())] != kernels.get(i, [])]
    if missing:
        unit = unit_of(core, [pairs[i] for i in missing])
        given = random_inputs(unit.graph, np.random.default_rng(0))
        with tempfile.TemporaryDirectory() as folder:
            found = user_mode.run(unit, core, Path(folder), count=True, given=given).instructions
        known |= {names[i]: [] for i in missing}
        for stage in unit.stages:
            number = missing[int(stage.name.rpartition("_")[2])]
            known[names[number]].append([stage.kernel.name, found[stage.index]])
    counts = {i: iter([count for _, count in known[name]]) for i, name in enumerate(names)}
    counted = {stage.index: next(counts[int(stage.name.rpartition("_")[2])]) for stage in whole.stages}
    return {"model": "micro", "goal": "", "ops": ops_of(whole, counted)}


def whole(core: str, name: str, goal: Goal, known: dict[str, Any]) -> Found:
    """A model's ops, and its whole inference without a trace."""
    path = (
        MODELS / f"{name}.tflite" if name != "digits" else Path(importers.__file__).parents[1] / "models/digits.tflite"
    )
    graph = passes.run(importers.load(path), frozenset(), ())[0]
    graph = with_float_mode(graph, FloatMode.PRECISE, CPUS[core].fusing)
    unit = user_mode.unit_of(graph, core, choose, goal)
    key = f"{name} {goal.value}"
    kernels = [stage.kernel.name for stage in unit.stages]
    if known.get(key, {}).get("kernels") != kernels:
        given = random_inputs(graph, np.random.default_rng(0))
        with tempfile.TemporaryDirectory() as folder:
            found = user_mode.run(unit, core, Path(folder), count=True, given=given).instructions
            total = user_mode.whole(unit, core, Path(folder), given)
        known[key] = {"kernels": kernels, "counted": [found[s.index] for s in unit.stages], "total": total}
    had = known[key]
    ops = ops_of(unit, dict(enumerate(had["counted"])))
    return {"model": name, "goal": goal.value, "ops": ops, "total": had["total"], "steps": len(unit.plan.steps)}


def measured(core: str, word: str, models: Sequence[str], out: Path) -> list[Found]:
    """All results of a core."""
    path = out / f"{core}.json"
    known: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    found = []

    def keep(result: Found, fitted: bool) -> None:
        path.write_text(json.dumps(known) + "\n")
        said = f"{result['model']} {result['goal']}: {sum(op['measured'] for op in result['ops']):,}"
        print(f"{core} {said}, {len(result['ops'])} ops", file=sys.stderr, flush=True)
        found.append({**result, "fitted": fitted})

    for pairs in programs(tried(core, word)):
        keep(small(core, pairs, known), True)
    for name in models:
        for goal in (Goal.TIME, Goal.SRAM) if name in FITTED else (Goal.TIME,):
            keep(whole(core, name, goal, known), name in FITTED)
    return found


def fitted_rows(results: Sequence[Found]) -> list[Row]:
    """The measured ops that costs are fitted to."""
    return [row_of(op) for r in results if r["fitted"] for op in r["ops"] if op["rows"] and op["measured"]]


def fitted_apart(rows: Sequence[Row], known: Mapping[str, float]) -> tuple[dict[str, Any], dict[str, float]]:
    """Costs of kernels and of calls as `fit.fitted` gives them, in seconds instead of minutes.

    The costs of calls are fitted to simple kernels first, then each group of similar kernels by itself.
    """
    calls = fitted([row for row in rows if row.kernel.startswith(SIMPLE)], known)[1]
    groups: dict[str, list[Row]] = {}
    for row in rows:
        name = "clamped" if row.kernel in CLAMPED else "_".join(row.kernel.split("_")[:3])
        groups.setdefault(name, []).append(row)
    kernels: dict[str, Any] = {}
    for group in groups.values():
        kernels |= fitted(group, calls)[0]
    return kernels, {name: calls.get(name, 0.0) for name in asdict(cost.Calls())}


def whole_table(results: Sequence[Found]) -> Found:
    """All costs of a core. Without models a step costs what a traced one does."""
    learnt = [r for r in results if r["fitted"]]
    whole = [r for r in learnt if "total" in r]
    known = fitted_calls(list(pairs_of(whole))) if whole else {"slotted": 0.0}
    kernels, calls = fitted_apart(fitted_rows(results), known)
    traced, untraced = calls["steps"], 0.0
    if whole:  # whole inferences are not traced
        apart = sum(r["total"] - sum(op["measured"] for op in r["ops"]) for r in whole)
        untraced = apart / sum(r["steps"] for r in whole)
    return {"calls": {**calls, "steps": max(0.0, traced + untraced)}, "traced_step": traced, "kernels": kernels}


def table(core: str, results: Sequence[Found], word: str) -> Found:
    """The file of costs of a core: all costs anew, or the known ones with those of some kernels replaced."""
    tables, part, rows = costs_files.read(), PARTS[core], fitted_rows(results)
    if not part.like and not word:
        return whole_table(results)
    base = tables[core if word and core in tables else part.like or core]
    known = {**asdict(cost.Calls()), **base["calls"], "steps": base["traced_step"]}
    of_part = {Instance(v, t).cost_key for v in CATALOGUE if v.isa in part.isas for t in v.tiles}
    kernels = fitted([row for row in rows if word in row.kernel and row.kernel in of_part], known)[0]
    others = {name: each for name, each in base.items() if name != "cycles"}
    return {**others, "kernels": {**base["kernels"], **kernels}}


def errors(results: Sequence[Found], costs: Found) -> Iterator[str]:
    """The errors of predictions: of each model, and of the kernels on small graphs."""
    yield "| model | plan | measured | predicted | error | fitted |"
    yield "|---|---|---:|---:|---:|---|"
    for r in predictions([r for r in results if "total" in r], costs):
        apart = percent(r["predicted"], r["total"])
        cells = (r["model"], r["goal"], f"{r['total']:,}", f"{r['predicted']:,}", f"{apart:+.2f} %")
        yield f"| {' | '.join(cells)} | {'yes' if r['fitted'] else 'no'} |"
    yield ""
    around = {**asdict(cost.Calls()), **costs["calls"], "steps": costs["traced_step"]}
    by_kernel: dict[str, list[float]] = {}
    for row in fitted_rows([r for r in results if "total" not in r]):
        if row.kernel in costs["kernels"]:
            predicted = cost.weigh(row.work, costs["kernels"][row.kernel]) + cost.weigh(row.calls, around)
            by_kernel.setdefault(row.kernel, []).append(abs(percent(predicted, row.measured)))
    for name, found in sorted(by_kernel.items()):
        yield f"{name}: {len(found)} ops, worst error {max(found):.1f} %, median {median(found):.1f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpus", nargs="*", default=[*PARTS])
    parser.add_argument("--kernels", default="", metavar="WORD")
    parser.add_argument("--models", nargs="*", default=(*FITTED, *HELD_OUT))
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--sizes", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("build/user_costs"))
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    for core in asked.cpus:
        whole_models = () if PARTS[core].like or asked.kernels or core not in cost.measured() else asked.models
        results = measured(core, asked.kernels, whole_models, asked.out)
        made = table(core, results, asked.kernels)
        print(core, "", *errors(results, made), sep="\n", flush=True)
        if asked.write:
            bytes_of = {name: {} for name in ("code_bytes", "shared_bytes", "library_bytes")}
            made = {**bytes_of, **costs_files.read().get(core, {}), **made}
            if asked.sizes:
                code = code_bytes.measured(core)
                made = (code.only([asked.kernels]) if asked.kernels else code).into(made)
            costs_files.write(core, made)


if __name__ == "__main__":
    main()
