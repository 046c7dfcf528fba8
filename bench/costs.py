"""Measures instructions and cycles per op in the emulator, fits the cost model to them, and prints its errors.

    python -m bench.costs [--boards ID ...] [--models NAME ...] [--write] [--out DIR]
    python -m bench.costs --kernels WORD [--boards ID ...] [--write] [--out DIR]

On each board, one per core where none is named, it runs the graphs of bench/micro.py with every kernel of the
core, and the models below (the large ones on the first board alone), each planned with whole tensors and for the
smallest arena. Costs are fitted to the graphs and the models of FITTED; the others are held out. --write puts them
into generator/shoehorn_mcu/kernels/costs/.
Cycles (docs/cycles.md) are fitted like instructions, on boards whose timing is modelled. Kernels and plans are compared
in cycles as soon as these files have them for every kernel of the core.
--kernels measures and fits only the kernels whose names contain WORD, on the graphs that they compute: enough for a new
variant. The costs of calls are then those in the file, and so are those of the other kernels; cycles are fitted where
the file has those of calls.
Kernels other than the portable ones take as many instructions for all data: the small graphs with them are timed on the
zeros that the arena holds after a start, as the serial line would take most of the time.
Results in DIR/<board>.json of the same kernels are reused (delete the file after a change of their code or of the
planner). Features are counted
anew each time, so they may change without a new measurement.
DIR/costs.md compares predicted with measured instructions, per model and per kernel, and lists
instructions per multiply-accumulate by variant and tile.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

from bench import code_bytes, costs_files, exact, micro
from bench.fit import Row, fitted, fitted_calls
from bench.shapes import shapes
from shoehorn_mcu import importers, passes
from shoehorn_mcu.emit.bundle import write
from shoehorn_mcu.emit.folder.project import project
from shoehorn_mcu.emit.model.weights import constants
from shoehorn_mcu.emit.names import library_name
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.firmware.report import report, timeless
from shoehorn_mcu.ir import Graph, Node
from shoehorn_mcu.kernels import CATALOGUE, PORTABLE, Instance, Tile, candidates, choose, cost
from shoehorn_mcu.machine import targets
from shoehorn_mcu.machine.targets import Machine
from shoehorn_mcu.planner import DoesNotFit, Goal, make_plan
from shoehorn_mcu.schedule.lower import lower
from shoehorn_mcu.schedule.predict import calls_of, rows_and_steps
from shoehorn_mcu.schedule.stage import Pick, stages
from shoehorn_mcu_host.base.errors import HostError
from shoehorn_mcu_host.board.bench import INSTRUCTIONS, bench
from shoehorn_mcu_host.board.cycles import Meter, NoMeter, by_op, metered
from shoehorn_mcu_host.board.emulate import emulate
from shoehorn_mcu_host.board.link import Link, Mode
from shoehorn_mcu_host.board.ports import Port
from shoehorn_mcu_host.firmware.build import build
from shoehorn_mcu_host.folder import vectors
from shoehorn_mcu_host.folder.plan import Plan
from shoehorn_mcu_host.folder.project import Project
from shoehorn_mcu_host.folder.vectors import Vector
from tests.shared import MODELS

BOARDS = (  # one per core; the first is that of DEFAULT_CPU
    "mps2-an386",
    "rpi-zero-2w",
    "mps2-an505",
    "mps3-an547",
    "mps2-an500",
    "microbit",
    "rpi-zero",
    "stm32vldiscovery",
    "virt-rv32",
)
FITTED = (
    "digits",  # shipped; the only model with two plans that fits the smallest boards
    "mlperf-ic-resnet8-int8",
    "mlperf-vww96-int8",
    "mltk-kws-pacman-v3",
    "mltk-rock-paper-scissors",
    "tinymaix-mnist-valid-q",
    "tflm-hello-world-int8",
    "blazeface-front-128-fullint",
)
HELD_OUT = (
    "mlperf-kws-dscnn-int8",
    "mlperf-ad-int8",
    "mltk-fingerprint",
    "tinymaix-cifar10-q",
    "tflm-micro-speech",
    "st-yamnet256-int8",
    "nano-u-botanic-int8",
    "resnet20-cifar10-int8",
    "tinyengine-vww",
    "synth-densenet-bc-40-12-int8",
)
SMALL_BOARDS = ("stm32vldiscovery",)
HELD_OUT_SMALL = ("tinymaix-mnist-valid-q", "tflm-hello-world-int8")
"""On boards that hold none of HELD_OUT these are held out, and so are the shapes of bench/shapes.py."""

SMALL = ("micro", "shapes")
"""How the names of graphs of many small ops begin."""

LARGE = (  # to emulate, or to plan; measured on the first board
    "mltk-rock-paper-scissors",
    "blazeface-front-128-fullint",
    "mltk-fingerprint",
    "st-yamnet256-int8",
    "resnet20-cifar10-int8",
    "tinyengine-vww",
    "synth-densenet-bc-40-12-int8",
)
MICRO_SHARE = 0.9  # of the arena that a board can give, for the inputs and outputs of the small graphs
MOST_MICRO = 500_000  # bytes
COARSE_HZ = 2_000_000  # of a board's clock, below which the graphs for packed kernels have so many rows more
ROWS, COARSE_ROWS = 8, 128
TICKS_UNSURE = 10  # an op of so many ticks of the board's clock counts half as much as a long one

Found = dict[str, Any]


def _sources(board: targets.Board, models: Sequence[str]) -> Iterator[tuple[str, Graph]]:
    limit = min(MOST_MICRO, int(board.arena_limit_bytes * MICRO_SHARE))
    graphs = micro.graphs(COARSE_ROWS if board.spec.tick_hz < COARSE_HZ else ROWS)
    # Half precision is refused on cores that cannot convert it.
    computed = (g for g in graphs if all(candidates(node, board.cpu.isas) for node in g.nodes()))
    for graph in micro.packed(limit, computed):
        yield graph.name, graph
    if board.id in SMALL_BOARDS:
        for graph in micro.packed(limit, (graph for _, graph in shapes())):
            name = graph.name.replace("micro", "shapes")
            yield name, replace(graph, name=name)
    digits = ("digits", importers.load(Path(importers.__file__).parents[1] / "models" / "digits.tflite"))
    for name, graph in (digits, *((m, importers.load(MODELS / f"{m}.tflite")) for m in models)):
        yield name, passes.run(graph, frozenset(), ())[0]


def picks(board: targets.Board) -> dict[str, Pick]:
    """The choices of kernels for the small graphs: one per variant of the board's core."""
    variants = (v for v in CATALOGUE if v.isa in board.cpu.isas)
    keys = [Instance(variant, tile).key for variant in variants for tile in variant.tiles]
    bodies = {variant.source for variant in PORTABLE.values()}
    portable = {Instance(variant, Tile()).key for variant in CATALOGUE if variant.source in bodies}
    return {"": _picked(portable), **{key: _picked(portable | {key}) for key in keys if key not in portable}}


def _picked(keys: Collection[str]) -> Pick:
    """The last candidate with one of these keys: the portable kernels are the first ones."""

    def pick(node: Node, machine: Machine) -> Instance:
        return [kernel for kernel in candidates(node, machine.isas) if kernel.key in keys][-1]

    return pick


def measure(
    graph: Graph,
    board: targets.Board,
    goal: Goal,
    folder: Path,
    pick: Pick = choose,
    zeros: bool = False,
    exactly: bool = False,
) -> Found:
    """Plans, builds and times a model; returns figures and features of each op and of the whole inference.

    `zeros`: its ops are timed alone, in one inference on the zeros of a start; the whole inference is their sum.
    `exactly`: so they are, on random inputs, to the instruction.
    """
    chosen = stages(graph, Machine.of(board.spec.cpu), pick)
    plan = make_plan(lower(graph, chosen, board.arena_limit_bytes), goal)
    unit = Unit(library_name(graph.name), graph, chosen, plan)
    found = constants(unit)
    said = timeless(report(graph, board, (), plan, chosen, (found.bytes, 0, None)))
    write(project(unit, found, board, "auto", said), folder)
    opened = Project.open(folder)
    build(opened)
    host_plan = Plan.of(opened)
    timed = _exactly(opened, board) if exactly else _by_clock(opened, host_plan, zeros)
    rings = {ring.tensor: ring for ring in plan.placements}
    rows, steps = rows_and_steps(plan)
    calls = {stage.name: rows[stage.name] // stage.rows_per_call for stage in chosen}
    ops = [
        {
            "kernel": stage.kernel.cost_key,
            "rows": calls[stage.name],
            "calls": {**asdict(calls_of(stage, rings)), "steps": steps[stage.name] / max(1, calls[stage.name])},
            "measured": timed.ops[stage.index],
            "cycles": timed.cycles[stage.index] if timed.cycles else None,
        }
        for stage in chosen
    ]
    return {
        "arena_bytes": plan.arena_bytes,
        "steps": len(plan.steps),
        "total": timed.total,
        "cycles": timed.total_cycles,
        "ops": ops,
        **({"zeros": True} if zeros else {}),
    }


def _by_clock(opened: Project, plan: Plan, zeros: bool) -> _Timed:
    (vector,) = vectors.random(opened.folder, plan.inputs, 1, 0)
    with (
        metered(opened, True) as meter,
        emulate(opened, arguments=meter.arguments) as machine,
        Link(Port(machine.url)) as link,
    ):
        return _on_zeros(link, plan, meter) if zeros else _on(vector, link, plan, meter)


def _exactly(opened: Project, board: targets.Board) -> _Timed:
    found = exact.counts(opened)
    ops, cycles = [count.instructions for count in found], [count.cycles for count in found]
    return _Timed(ops, sum(ops), *((cycles, sum(cycles)) if board.spec.cycles else (None, None)))


class _Timed(NamedTuple):
    """Instructions of ops and of the whole inference; cycles where the core's timing is modelled."""

    ops: Sequence[float]
    total: float
    cycles: Sequence[float] | None
    total_cycles: float | None


def _on(vector: Vector, link: Link, plan: Plan, meter: Meter | NoMeter) -> _Timed:
    """Of inferences on these inputs: one for the total, one for the ops."""
    timing = bench(link, plan, vector, INSTRUCTIONS, 1, lambda _: None, meter)
    ops, cycles = [median for _, _, median in timing.ops], timing.cycles
    whole = (cycles.ops, cycles.totals[0].cycles) if cycles else (None, None)
    return _Timed(ops, timing.totals[0], *whole)


def _on_zeros(link: Link, plan: Plan, meter: Meter | NoMeter) -> _Timed:
    """Of one inference without loading its inputs; the totals are sums of the ops."""
    link.expect(plan)
    meter.take()
    found = link.run([bytes(end.bytes) for end in plan.inputs], Mode.TIME)
    ops = [INSTRUCTIONS.convert(ticks, link.hello.tick_hz) for ticks in found.trace]
    if not isinstance(meter, Meter):
        return _Timed(ops, sum(ops), None, None)
    cycles = [count.cycles for count in by_op(meter.take(), [op for op, *_ in plan.steps], len(plan.ops))]
    return _Timed(ops, sum(ops), cycles, sum(cycles))


def measured(board: targets.Board, models: Sequence[str], word: str, out: Path) -> list[Found]:
    """Measures all runs (see `_runs`); those that do not fit the board are skipped with a message."""
    path = out / f"{board.id}.json"
    past = {(r["model"], r["goal"]): r for r in (json.loads(path.read_text()) if path.exists() else [])}
    results = []
    for name, graph, goal, pick in _runs(board, models, word):
        try:
            folder, zeros = out / "folder" / board.id, name.startswith(SMALL) and " " in name
            kept = past.get((name, goal.value), {})
            current = _is_whole(kept, zeros) and of_kernels(kept, graph, board, pick)
            found = kept if current else measure(graph, board, goal, folder, pick, zeros)
        except (DoesNotFit, HostError) as refusal:
            print(f"{name} on {board.id}: {str(refusal)[:160]}", file=sys.stderr)
            continue
        past[name, goal.value] = {"model": name, "goal": goal.value, **found}
        path.write_text(json.dumps(list(past.values())) + "\n")
        print(f"{name} {goal.value} on {board.id}: {found['total']:,}", file=sys.stderr, flush=True)
        results.append({**with_work(past[name, goal.value], graph, board, pick), "fitted": is_fitted(name, board)})
    return results


def _is_whole(found: Found, zeros: bool) -> bool:
    """Whether an earlier result has cycles, and more than single ops where all is wanted."""
    return "cycles" in found and (zeros or "zeros" not in found)


def of_kernels(found: Found, graph: Graph, board: targets.Board, pick: Pick) -> bool:
    """Whether a result is of the kernels that are chosen for the graph now."""
    chosen = stages(graph, Machine.of(board.spec.cpu), pick)
    return [op["kernel"] for op in found["ops"]] == [stage.kernel.cost_key for stage in chosen]


def _runs(board: targets.Board, models: Sequence[str], word: str) -> Iterator[tuple[str, Graph, Goal, Pick]]:
    """The runs: the small graphs with each kernel, the models with the kernels predicted to be fastest.

    The ops of a small graph do not read each other, so they are planned one way only. With a word: the small graphs
    that kernels with it in their names compute, with these and the portable ones.
    """
    for name, graph in _sources(board, models):
        if name.startswith(SMALL):
            found = picks(board)
            used = [key for key in found if word in key and key in ("", *_keys(graph, board, found[key]))]
            portable = word and any(word in key for key in _keys(graph, board, found[""]))
            for key in ["", *used] if word and (used or portable) else used:
                yield f"{name} {key}".strip(), graph, Goal.TIME, found[key]
        elif not word:
            yield name, graph, Goal.TIME, choose
            yield name, graph, Goal.SRAM, choose


def _keys(graph: Graph, board: targets.Board, pick: Pick) -> set[str]:
    """The kernels of a graph."""
    return {stage.kernel.key for stage in stages(graph, Machine.of(board.spec.cpu), pick)}


def with_work(result: Found, graph: Graph, board: targets.Board, pick: Pick = choose) -> Found:
    """The result with the features of each op, and what it computes."""
    chosen = stages(graph, Machine.of(board.spec.cpu), pick)
    ops = [
        {**op, "work": dict(stage.kernel.work(stage.call)), "macs": stage.macs, "shape": _shape(stage.node)}
        for op, stage in zip(result["ops"], chosen, strict=True)
    ]
    return {**result, "ops": ops}


def _shape(node: Node) -> str:
    """Kind of op, and height, width and channels in and out."""
    x, y = ("x".join(map(str, t.type.nhwc[1:])) for t in (node.inputs[0], node.output))
    return f"{type(node.op).__name__} {x} to {y}"


def row_of(op: Found, tick: float = 0) -> Row:
    """A measured op as a row of the fit; `tick` is the number of instructions per tick of the board's clock."""
    kernel, calls = ({name: count * op["rows"] for name, count in op[part].items()} for part in ("work", "calls"))
    return Row(op["kernel"], kernel, calls, op["measured"], TICKS_UNSURE * tick)


def pairs_of(results: Sequence[Found]) -> Iterator[tuple[Row, Row]]:
    """The ops of each model with whole tensors and for the smallest arena, where both compute as many rows."""
    by_plan = {(r["model"], r["goal"]): r["ops"] for r in results}
    for (model, goal), ops in by_plan.items():
        if goal == Goal.TIME.value:
            both = zip(ops, by_plan.get((model, Goal.SRAM.value), ()), strict=False)
            yield from ((row_of(whole), row_of(least)) for whole, least in both if whole["rows"] == least["rows"])


def is_fitted(model: str, board: targets.Board) -> bool:
    """Whether this result is used to fit the costs of the board's core."""
    held = HELD_OUT_SMALL if board.id in SMALL_BOARDS else ()
    return model.startswith("micro") or (model in FITTED and model not in held)


def in_cycles(results: Sequence[Found]) -> list[Found]:
    """The results with cycles in the place of instructions; none where the board has no model of its timing."""
    return [
        {**r, "total": r["cycles"], "ops": [{**op, "measured": op["cycles"]} for op in r["ops"]]}
        for r in results
        if r["cycles"] is not None
    ]


def table_of(results: Sequence[Found], tick: float) -> Found:
    """One core's costs of one unit; `tick` as in `row_of`, 0 where the measurements are exact."""
    learnt = [r for r in results if r["fitted"]]
    rows = [row_of(op, tick) for r in learnt for op in r["ops"] if op["rows"] and op["measured"]]
    kernels, calls = fitted(rows, fitted_calls(list(pairs_of(learnt))))
    traced = calls["steps"]
    # Whole inferences are not traced: their difference from the sum of their traced ops.
    whole = [r for r in learnt if "zeros" not in r]
    apart = [(r["steps"], r["total"] - sum(op["measured"] for op in r["ops"])) for r in whole]
    by_step = sum(rest for _, rest in apart) / sum(steps for steps, _ in apart)
    return {"calls": {**calls, "steps": max(0.0, traced + by_step)}, "traced_step": traced, "kernels": kernels}


def costs_of_kernels(results: Sequence[Found], tick: float, known: Found, word: str) -> dict[str, dict[str, float]]:
    """Costs by key of the kernels with the word in their names; the costs of calls are as `known`."""
    around = {**asdict(cost.Calls()), **known["calls"], "steps": known["traced_step"]}
    ops = [op for r in results if r["fitted"] for op in r["ops"]]
    return fitted([row_of(op, tick) for op in ops if word in op["kernel"] and op["rows"] and op["measured"]], around)[0]


def predictions(results: Sequence[Found], table: Found) -> Iterator[Found]:
    """Each model: predicted and measured, whole and per op."""
    for result in results:
        ops, total = [], 0.0
        for op in result["ops"]:
            row = cost.weigh(op["work"], table["kernels"].get(op["kernel"], {}))
            around = cost.weigh({**op["calls"], "steps": 0}, table["calls"])
            steps = op["calls"]["steps"]
            ops.append((op["kernel"], op["rows"] * (row + around + steps * table["traced_step"]), op["measured"]))
            total += op["rows"] * (row + around + steps * table["calls"]["steps"])
        yield {**result, "predicted": round(total), "ops": ops}


def percent(predicted: float, measured: float) -> float:
    return 100 * (predicted / max(1, measured) - 1)


def errors_of(found: Sequence[Found], fitted: bool) -> tuple[list[float], list[float]]:
    """Absolute errors in percent, of whole plans and of their ops. Of fitted results, only models count."""
    plans = [r for r in found if r["fitted"] is fitted and not r["model"].startswith("micro")]
    ops = [abs(percent(p, m)) for r in plans for _, p, m in r["ops"] if m]
    return [abs(percent(r["predicted"], r["total"])) for r in plans], ops


def summary(boards: Mapping[str, tuple[Sequence[Found], Found]]) -> Iterator[str]:
    """The prediction errors for held-out results, per core; `boards`: results and costs by board."""
    errors = {name: errors_of(list(predictions(*of)), False) for name, of in boards.items()}
    if any(of_plans for of_plans, _ in errors.values()):
        yield "| core | held-out plans | worst error | median | ops of these, median |"
        yield "|---|---:|---:|---:|---:|"
        for name, (of_plans, of_ops) in errors.items():
            if of_plans:
                yield (
                    f"| {targets.board(name).spec.cpu} | {len(of_plans)} | {max(of_plans):.2f} % "
                    f"| {statistics.median(of_plans):.2f} % | {statistics.median(of_ops):.1f} % |"
                )
        yield ""


def say(board: str, results: Sequence[Found], table: Found) -> Iterator[str]:
    """The Markdown of one board."""
    yield f"## {board}\n"
    yield "| model | plan | steps | measured | predicted | error | median error per op | fitted |"
    yield "|---|---|---:|---:|---:|---:|---:|---|"
    kernels: dict[str, list[float]] = defaultdict(list)
    found = list(predictions(results, table))
    for r in found:
        errors = [abs(percent(p, m)) for _, p, m in r["ops"] if m]
        if not r["model"].startswith("micro"):
            for kernel, p, m in r["ops"]:
                kernels[kernel].append(abs(percent(p, m)))
        yield (
            f"| {r['model']} | {r['goal']} | {r['steps']:,} | {r['total']:,} | {r['predicted']:,} "
            f"| {percent(r['predicted'], r['total']):+.2f} % | {statistics.median(errors):.1f} % "
            f"| {'yes' if r['fitted'] else 'no'} |"
        )
    if kernels:
        yield "\n| kernel | ops of models | median error | worst |\n|---|---:|---:|---:|"
    for kernel, errors in sorted(kernels.items()):
        yield f"| {kernel} | {len(errors)} | {statistics.median(errors):.1f} % | {max(errors):.1f} % |"
    for what, wanted in (("fitted", True), ("held out", False)):
        errors, of_ops = errors_of(found, wanted)
        if not errors:
            continue
        yield (
            f"\n{what}: {len(errors)} plans, worst {max(errors):.2f} %, median {statistics.median(errors):.2f} %; "
            f"{len(of_ops)} ops, median {statistics.median(of_ops):.1f} %"
        )
    yield ""


def per_mac(board: str, results: Sequence[Found]) -> Iterator[str]:
    """Instructions per multiply-accumulate of the small graphs' ops that several kernels compute, in Markdown."""
    by_op: dict[tuple[str, int], dict[str, float]] = defaultdict(dict)
    shape = {}
    for result in results:
        graph = result["model"].split()[0]
        if graph.startswith(SMALL):
            for number, op in enumerate(result["ops"]):
                if op["macs"]:
                    by_op[graph, number][op["kernel"]] = op["measured"] / op["macs"]
                    shape[graph, number] = op["shape"]
    several = {at: kernels for at, kernels in by_op.items() if len(kernels) > 1}
    names = sorted({name for kernels in several.values() for name in kernels})
    if names:
        yield f"| instructions per multiply-accumulate on {board} | {' | '.join(names)} |"
        yield "|---|" + "---:|" * len(names)
        for at, kernels in several.items():
            cells = " | ".join(f"{kernels[name]:.2f}" if name in kernels else "" for name in names)
            yield f"| {shape[at]} | {cells} |"
        yield ""


def models_for(board: str) -> tuple[str, ...]:
    """The models to measure on a board where none are named; digits is always included."""
    models = (*FITTED[1:], *HELD_OUT)
    return models if board == BOARDS[0] else tuple(m for m in models if m not in LARGE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boards", nargs="*", default=BOARDS)
    parser.add_argument("--models", nargs="*")
    parser.add_argument("--kernels", default="", metavar="WORD")
    parser.add_argument("--out", type=Path, default=Path("build/costs"))
    parser.add_argument(
        "--write", action="store_true", help="rewrite the boards' files in generator/shoehorn_mcu/kernels/costs/"
    )
    arguments = parser.parse_args()
    out, word = arguments.out, arguments.kernels
    out.mkdir(parents=True, exist_ok=True)
    models = {name: () if word else arguments.models or models_for(name) for name in arguments.boards}
    measurements = {name: measured(targets.board(name), models[name], word, out) for name in arguments.boards}
    tables = costs_files.read()
    found: dict[str, tuple[Sequence[Found], Found]] = {}
    for name, results in measurements.items():
        board = targets.board(name)
        cpu, tick = board.spec.cpu, 1e9 / board.spec.tick_hz
        code = code_bytes.measured(cpu)
        if word:
            table = tables[cpu]
            table["kernels"] |= costs_of_kernels(results, tick, table, word)
            if "cycles" in table:
                table["cycles"]["kernels"] |= costs_of_kernels(in_cycles(results), 0, table["cycles"], word)
            table = code.only([word]).into(table)
        else:
            off = tables.get(cpu, {}).get("cycles", {}).get("float32_off")
            table = code.into(table_of(results, tick))
            if counted := in_cycles(results):
                table["cycles"] = table_of(counted, 0) | ({} if off is None else {"float32_off": off})
        found[name] = results, table
        (out / f"{cpu}.costs.json").write_text(costs_files.text(table))
        if arguments.write:
            costs_files.write(cpu, table)
    counted_in_cycles = {
        name: (in_cycles(results), table["cycles"]) for name, (results, table) in found.items() if "cycles" in table
    }
    lines = [*summary(found), *(["In cycles:", "", *summary(counted_in_cycles)] if counted_in_cycles else [])]
    for name, (results, table) in found.items():
        lines += [*say(name, results, table), *per_mac(name, results)]
        if name in counted_in_cycles:
            lines += ["In cycles:", "", *say(name, *counted_in_cycles[name])]
    (out / "costs.md").write_text("\n".join(lines))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
