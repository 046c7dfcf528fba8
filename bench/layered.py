"""`gen remat` on random layered graphs, of MOCCASIN's kind: gap to the lower bound and CPU time by number of nodes.

    python -m bench.layered [--nodes N ...] [--seeds N ...] [--percent N] [--seconds N] [--out DIR]
    python -m bench.layered --plot DIR    redraws DIR/layered.svg from DIR/layered.json

Writes DIR/layered.json, layered.md and layered.svg (CPU seconds and gap over nodes) after each graph. The graphs:
layers of 5 to 35 nodes, an edge between nodes of neighbouring layers with probability 0.2, and about an edge over any
number of layers for each seventh node; sizes and durations as in the published graphs. Answers are replayed by the
planner's independent check.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
from itertools import pairwise, product
from pathlib import Path
from time import monotonic, process_time
from typing import Any

from shoehorn_mcu.planner.remat import memory
from shoehorn_mcu.planner.remat.graph import Graph
from shoehorn_mcu.planner.remat.outcome import Effort
from shoehorn_mcu.planner.remat.rematerialise import rematerialise

WIDTH, VARIES, DENSE, SKIPS = 20, 0.75, 0.2, 0.14  # nodes of a layer and by how much; edges; skips of a node
NODES = (500, 1000, 2500, 5000, 20000)


def layered(n: int, seed: int = 1) -> Graph:
    """A graph of n nodes, at least 3, with one source, one sink and an order of layers that overlap."""
    rng = random.Random(seed)
    layers = [[0]]
    while layers[-1][-1] < n - 2:
        first = layers[-1][-1] + 1
        width = max(1, round(WIDTH * (1 + VARIES * (2 * rng.random() - 1))))
        layers.append(list(range(first, min(first + width, n - 1))))
    layers.append([n - 1])
    inputs: list[set[int]] = [set() for _ in range(n)]
    for before, after in pairwise(layers):
        for v in after:
            inputs[v] = {u for u in before if rng.random() < DENSE} or {rng.choice(before)}
        for u in set(before).difference(*(inputs[v] for v in after)):
            inputs[rng.choice(after)].add(u)
    for _ in range(int(SKIPS * n) if len(layers) > 2 else 0):
        at = rng.randrange(len(layers) - 2)
        inputs[rng.choice(layers[rng.randrange(at + 2, len(layers))])].add(rng.choice(layers[at]))
    sizes = tuple(10 * (1 + min(818, int(rng.expovariate(1 / 200)))) for _ in range(n))
    durations = tuple(rng.randrange(1000) if 0 < v < n - 1 else 0 for v in range(n))
    return Graph(
        tuple(range(n)), sizes, durations, tuple(tuple(sorted(each)) for each in inputs), _order(layers, inputs, rng)
    )


def _order(layers: list[list[int]], inputs: list[set[int]], rng: random.Random) -> tuple[int, ...]:
    layer = {v: number for number, each in enumerate(layers) for v in each}
    readers: list[list[int]] = [[] for _ in inputs]
    for v, each in enumerate(inputs):
        for u in each:
            readers[u].append(v)
    left, queue, order = [len(each) for each in inputs], [(0.0, 0)], list[int]()
    while queue:
        v = heapq.heappop(queue)[1]
        order.append(v)
        for reader in sorted(readers[v]):
            left[reader] -= 1
            if left[reader] == 0:
                heapq.heappush(queue, (layer[reader] + 4 * rng.random(), reader))
    return tuple(order)


def measure(n: int, seed: int, percent: int, seconds: float) -> dict[str, Any]:
    """One graph; the limit in wall time is long, so that counted work decides."""
    graph = layered(n, seed)
    budget = -(-memory.peak(graph, graph.order) * percent // 100)
    started, worked = monotonic(), process_time()
    found = rematerialise(graph, budget, Effort(seconds, stop=20 * seconds))
    times = {"seconds": round(monotonic() - started, 1), "cpu_seconds": round(process_time() - worked, 1)}
    increase = found.increase_percent if found.sequence else None
    row = {"nodes": n, "seed": seed, "edges": len(graph.edges), "found": increase, "bound": found.bound_percent}
    return {**row, "status": found.status.value, **times}


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown; increases and bounds in percent of running each node once."""
    lines = [
        "| nodes | seed | edges | found | bound | status | s | CPU s |",
        "|---:|---:|---:|---:|---:|---|---:|---:|",
    ]
    for row in rows:
        found = "-" if row["found"] is None else f"{row['found']:.3f}"
        cells = (
            row["nodes"],
            row["seed"],
            row["edges"],
            found,
            f"{row['bound']:.3f}",
            row["status"],
            row["seconds"],
            row["cpu_seconds"],
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """CPU seconds, and the gap from the bound to what was found in percent of the graph's duration, over nodes."""
    import matplotlib  # a process starts with the peak memory of the one that started it

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "layered", "svg.fonttype": "none", "font.size": 10})
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.8))
    left.scatter([r["nodes"] for r in rows], [r["cpu_seconds"] for r in rows], s=28, alpha=0.75)
    found = [r for r in rows if r["found"] is not None]
    right.scatter([r["nodes"] for r in found], [r["found"] - r["bound"] for r in found], s=28, alpha=0.75)
    for n in sorted({r["nodes"] for r in rows if r["found"] is None}):
        right.axvline(n, linestyle=":", color="grey", linewidth=1)
        right.annotate("none found", (n, 0.97), xycoords=("data", "axes fraction"), rotation=90, ha="right", va="top")
    left.set(xscale="log", yscale="log", xlabel="nodes", ylabel="CPU seconds of gen remat")
    right.set(xscale="log", xlabel="nodes", ylabel="found above the lower bound, points of %")
    for axes in (left, right):
        axes.grid(which="major", alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", nargs="+", type=int, default=list(NODES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--percent", type=int, default=80)
    parser.add_argument("--seconds", type=float, default=150.0)
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    parser.add_argument("--plot", type=Path, metavar="DIR", help="measure nothing")
    options = parser.parse_args()
    if options.plot:
        plot(json.loads((options.plot / "layered.json").read_text()), options.plot / "layered.svg")
        return
    options.out.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    for n, seed in product(options.nodes, options.seeds):
        rows.append(measure(n, seed, options.percent, options.seconds))
        (options.out / "layered.json").write_text(json.dumps(rows, indent=1) + "\n")
        (options.out / "layered.md").write_text(table(rows))
        plot(rows, options.out / "layered.svg")
        print(table(rows[-1:]).splitlines()[-1], flush=True)


if __name__ == "__main__":
    main()
