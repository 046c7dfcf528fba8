"""Rematerialisation on published graphs: results of `gen remat` beside MOCCASIN, FastSA and the target figures.

    python -m bench.graphs [--graphs NAME ...] [--percents N ...] [--seconds N] [--fixed-order [alone]]
                                  [--out DIR]

Writes DIR/graphs.json and DIR/graphs.md after each graph. Figures are the increase of the total duration in percent, at
budgets of --percents of the given order's peak. `--fixed-order` also runs MOCCASIN's own model (the given order, each
node at most twice, in CP-SAT with one worker) and prints its wall time and CPU time. A star marks a result that is
proven optimal in its plan space; the proof then needs most of the time. The published figures used 16 workers.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, process_time
from typing import Any

from shoehorn_mcu.planner.remat import memory
from shoehorn_mcu.planner.remat.check import check
from shoehorn_mcu.planner.remat.graph import Graph, read
from shoehorn_mcu.planner.remat.outcome import Effort, Status
from shoehorn_mcu.planner.remat.rematerialise import in_fixed_order
from tests.shared import DATA, GEN


@dataclass(frozen=True)
class Published:
    """Increases in percent at 90, 80 and 70 % of the peak; None: not published."""

    moccasin: tuple[float | None, float | None]  # Bartan et al. 2023; 90 and 80 only
    moccasin_seconds: tuple[float, float]
    fastsa: tuple[float, float, float]  # Imanishi et al.
    aim: tuple[float, float, float]


GRAPHS = {
    "RLG1": Published((0.8, 2.3), (9.3, 9.5), (0.0, 0.3, 2.2), (0.0, 0.0, 2.14)),
    "RLG2": Published((0.9, 4.9), (55.0, 639.5), (0.0, 0.0, 2.6), (0.0, 0.0, 0.57)),
    "RLG4": Published((0.7, 3.4), (3612.9, 3611.8), (0.4, 2.5, 7.4), (0.19, 2.53, 6.72)),
    "CM1_fcn8_train": Published((0.0, 0.1), (3.1, 3.1), (0.1, 0.1, 3.0), (0.03, 0.14, 1.31)),
    "CM2_resnet50_train": Published((0.2, 0.3), (65.2, 69.3), (0.2, 0.4, 0.8), (0.11, 0.30, 0.58)),
}
PERCENTS = (90, 80, 70)


def found_by_gen(path: Path, graph: Graph, budget: int, seconds: float) -> dict[str, Any]:
    """The answer of the command, replayed by the independent check."""
    words = [*GEN, "remat", str(path), "--budget", str(budget), "--seconds", str(seconds), "--json"]
    started = monotonic()
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    wall = monotonic() - started
    said = json.loads(done.stdout)
    number = {name: v for v, name in enumerate(graph.names)}
    sequence = [number[name] for name in said.pop("sequence")]
    faults = check(graph, sequence, budget, said["peak"], said["duration"]) if sequence else [done.stderr.strip()]
    return {**said, "steps": len(sequence), "wall_seconds": round(wall, 1), "faults": faults}


def found_in_fixed_order(graph: Graph, budget: int, seconds: float) -> dict[str, Any]:
    """MOCCASIN's model: retention intervals in the given order, two copies of each node, no hint from elsewhere."""
    started, worked = monotonic(), process_time()
    found = in_fixed_order(graph, budget, Effort(seconds))
    times = {"seconds": round(monotonic() - started, 1), "cpu_seconds": round(process_time() - worked, 1)}
    bound = None if found.status is Status.INFEASIBLE else found.bound_percent
    increase = found.increase_percent if found.sequence else None
    proven = found.status in (Status.OPTIMAL, Status.INFEASIBLE)
    return {"increase_percent": increase, "bound_percent": bound, "proven": proven, **times}


def measure(name: str, percent: int, seconds: float, fixed_order: str | None) -> dict[str, Any]:
    """One graph at one budget; MOCCASIN's model "too" or "alone"."""
    path = DATA / "planning" / "moccasin" / f"{name}.json"
    graph = read(path)
    budget = -(-memory.peak(graph, graph.order) * percent // 100)
    row: dict[str, Any] = {"graph": name, "percent": percent}
    if fixed_order != "alone":
        row |= found_by_gen(path, graph, budget, seconds)
    if fixed_order:
        row["fixed_order"] = found_in_fixed_order(graph, budget, seconds)
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    lines = [
        "| graph | budget % | found | bound | status | s | aim | FastSA | MOCCASIN (s) | its model here (s, CPU s) |",
        "|---|---:|---:|---:|---|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        published, place = GRAPHS[row["graph"]], PERCENTS.index(row["percent"])
        moccasin = f"{published.moccasin[place]} ({published.moccasin_seconds[place]})" if place < 2 else ""
        fixed = row.get("fixed_order")
        ours = fixed_order_cell(fixed) if fixed else ""
        cells = (
            row["graph"],
            row["percent"],
            percent(row.get("increase_percent")),
            percent(row.get("bound_percent")),
            "; ".join(row.get("faults", ())) or row.get("status", "-"),
            row.get("wall_seconds", "-"),
            published.aim[place],
            published.fastsa[place],
            moccasin,
            ours,
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def fixed_order_cell(fixed: dict[str, Any]) -> str:
    """A table cell for the result of MOCCASIN's model."""
    mark = "*" if fixed["proven"] else ""
    found = percent(fixed["increase_percent"])
    return f"{found}{mark} ({fixed['seconds']}, {fixed['cpu_seconds']})"


def percent(value: float | None) -> str:
    """Four digits, or a dash where nothing was found."""
    return "-" if value is None else f"{value:.4f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", choices=GRAPHS, default=list(GRAPHS))
    parser.add_argument("--percents", nargs="+", type=int, choices=PERCENTS, default=list(PERCENTS))
    parser.add_argument("--seconds", type=float, default=145.0)
    parser.add_argument("--fixed-order", nargs="?", choices=("too", "alone"), const="too")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    for name in options.graphs:
        for part in options.percents:
            rows.append(measure(name, part, options.seconds, options.fixed_order))
            (options.out / "graphs.json").write_text(json.dumps(rows, indent=2) + "\n")
            (options.out / "graphs.md").write_text(table(rows))
            print(table(rows[-1:]).splitlines()[-1], flush=True)


if __name__ == "__main__":
    main()
