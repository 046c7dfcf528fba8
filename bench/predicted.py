"""Compares the predicted time of the kernels of all models of ../shared/models, on five cores, with an earlier version.

    python -m bench.predicted [--models NAME ...] [--cores CPU ...] [--before FILE] [--out FILE]

The time of an op is that of its fastest kernel for all of its rows, with the scratch that it wants; what a plan adds
around the calls is left out. --out saves the figures. With --before, such a file from an earlier version, the table has
both and their quotient, and the last lines name what became slower by more than SLOWER.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from shoehorn_mcu import importers, passes
from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.ir import Graph
from shoehorn_mcu.kernels import choose, cost, row_cost
from shoehorn_mcu.machine.targets import CPUS, Machine
from shoehorn_mcu.passes.float_mode import FloatMode, with_float_mode
from shoehorn_mcu.schedule.stage import computes
from tests.shared import MODELS

CORES = ("cortex-m0", "cortex-m4f", "cortex-m55", "cortex-a53", "arm1176")
SLOWER = 0.1  # per cent

Times = dict[str, dict[str, float]]
"""By model and core: cycles where they can be predicted, else instructions."""


def predicted(graph: Graph, cpu: str) -> float:
    """Of one inference."""
    machine, unit = replace(Machine.of(cpu), scratch=True), cost.choice_unit(cpu)
    graph = with_float_mode(graph, FloatMode.PRECISE, CPUS[cpu].fusing)
    total = 0.0
    for node in graph.nodes():
        if computes(node):
            total += node.output.type.rows * row_cost(choose(node, machine), node, cpu, unit)
    return total


def times_of(path: Path, cores: tuple[str, ...]) -> dict[str, float]:
    """By core; empty for a file that cannot run."""
    try:
        graph = passes.run(importers.load(path), frozenset(), ())[0]
        return {cpu: predicted(graph, cpu) for cpu in cores}
    except ShoehornError as refusal:
        print(f"{path.name}: {refusal}"[:160])
        return {}


def table(now: Times, before: Mapping[str, Mapping[str, float]], cores: tuple[str, ...]) -> list[str]:
    """Markdown: millions, before and after, and the quotient."""
    units = (f"{cpu}, {cost.choice_unit(cpu).value}" for cpu in cores)
    lines = [f"| model (millions) | {' | '.join(units)} |", f"|---|{'---:|' * len(cores)}"]
    slower = []
    for model, times in now.items():
        cells = []
        for cpu, time in times.items():
            old = before.get(model, {}).get(cpu)
            cells.append(
                f"{time / 1e6:.2f}" if old is None else f"{old / 1e6:.2f} > {time / 1e6:.2f} ({time / old:.2f})"
            )
            if old is not None and time > old * (1 + SLOWER / 100):
                slower.append(f"slower: {model} on {cpu}, by {100 * (time / old - 1):.2f} %")
        lines.append(f"| {model} | {' | '.join(cells)} |")
    return [*lines, "", *(slower or ["nothing is slower"])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*")
    parser.add_argument("--cores", nargs="*", default=CORES)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    paths = sorted(path for path in MODELS.iterdir() if path.suffix in (".tflite", ".onnx"))
    wanted = [path for path in paths if not arguments.models or path.stem in arguments.models]
    before = json.loads(arguments.before.read_text()) if arguments.before else {}
    now: Times = {}
    for path in wanted:
        if times := times_of(path, tuple(arguments.cores)):
            now[path.stem] = times
        if arguments.out:
            arguments.out.write_text(json.dumps(now, indent=1) + "\n")
    print("\n".join(table(now, before, tuple(arguments.cores))))


if __name__ == "__main__":
    main()
