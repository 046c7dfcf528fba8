"""Measures and fits the costs of the kernels that no emulated board can run, in QEMU's user mode.

    python -m bench.user_costs [--write]

That is the kernels with the dot product, of the core cortex-a76. They run the small graphs of bench/micro.py; whole
costs of the core are those of cortex-a53, whose instructions its compiled C has, with these beside them. Prints each
kernel's errors on the graphs that it was fitted to. --write writes kernels/costs/cortex-a76.json.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from statistics import median

from bench import code_bytes, costs_files, micro, user_mode
from bench.costs import ROWS
from bench.fit import Row, fitted
from shoehorn_mcu.ir import Graph, Node
from shoehorn_mcu.kernels import Instance, candidates, cost
from shoehorn_mcu.machine.targets import CPUS, Isa, Machine
from shoehorn_mcu.schedule.predict import calls_of, rows_and_steps

LIKE = "cortex-a53"
MOST = 150  # ops of a program


def by_kernel() -> dict[str, list[Graph]]:
    """The small graphs that each of the kernels computes."""
    found: dict[str, list[Graph]] = {}
    for graph in micro.graphs(ROWS):
        if len(graph.ops) == 1:
            for kernel in candidates(next(graph.nodes()), (Isa.DOT,)):
                found.setdefault(kernel.key, []).append(graph)
    return found


def rows_of(key: str, graphs: list[Graph]) -> Iterator[Row]:
    """The measured ops of these graphs, with the kernel of this key."""

    def pick(node: Node, machine: Machine) -> Instance:
        return next(kernel for kernel in candidates(node, machine.isas) if kernel.key == key)

    for first in range(0, len(graphs), MOST):
        unit = user_mode.unit_of(micro.merged("micro", graphs[first : first + MOST]), pick)
        with tempfile.TemporaryDirectory() as folder:
            counted = user_mode.run(unit, Path(folder), count=True).instructions
        rings = {ring.tensor: ring for ring in unit.plan.placements}
        rows, steps = rows_and_steps(unit.plan)
        for stage in unit.stages:
            times = rows[stage.name]
            calls = {**asdict(calls_of(stage, rings)), "steps": steps[stage.name] / times}
            work = {name: count * times for name, count in stage.kernel.work(stage.call).items()}
            around = {name: count * times for name, count in calls.items()}
            yield Row(stage.kernel.cost_key, work, around, counted[stage.index])


def main() -> None:
    table = costs_files.read()[LIKE]
    known = {**asdict(cost.Calls()), **table["calls"], "steps": table["traced_step"]}
    rows = [row for key, graphs in by_kernel().items() for row in rows_of(key, graphs)]
    kernels = fitted(rows, known)[0]
    for name, costs in kernels.items():
        mine = [row for row in rows if row.kernel == name]
        errors = [abs(100 * ((cost.weigh(r.work, costs) + cost.weigh(r.calls, known)) / r.measured - 1)) for r in mine]
        print(f"{name}: {len(mine)} ops, worst error {max(errors):.1f} %, median {median(errors):.1f} %, {costs}")
    if "--write" in sys.argv[1:]:
        of_core = {key: each for key, each in table.items() if key != "kernels"}
        assert Isa.DOT in CPUS[user_mode.CORE].isas
        made = {**of_core, "kernels": {**table["kernels"], **kernels}}
        costs_files.write(user_mode.CORE, code_bytes.measured(user_mode.CORE).into(made))


if __name__ == "__main__":
    main()
