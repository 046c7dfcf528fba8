"""Fits the costs of kernels to random small graphs and networks, beside what costs.py measured.

    python -m bench.costs_random [--boards ID ...] [--networks 96] [--write] [--out DIR]

On each board it runs the graphs of bench/micro_random.py, with the portable kernels and then with each further
one, of sums of products with the chosen one; the small graphs of costs.py with the portable kernels, so that what was
known is not forgotten; and networks of bench/predictions.py with seeds from FIRST on, which that bench does not
draw. Kernels that pack their weights are left to costs.py, which measures them in many more shapes.
Ops are timed to the instruction (bench/exact.py). The costs in the file count as one more measurement of WEIGHT:
what these graphs do not tell apart stays as it is, and so do kernels that are not in them. Results in
DIR/<board>.json are reused (delete the file after a change of the kernels' code). Run it after costs.py.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from evaluate import evaluate

from bench import costs, costs_files, exact, micro, predictions
from bench.fit import Row, refined
from bench.micro_random import singles
from shoehorn_mcu.ir import Array, Graph, Node
from shoehorn_mcu.kernels import Instance, candidates, choose, cost
from shoehorn_mcu.kernels.window.pool import softmax_work
from shoehorn_mcu.machine import targets
from shoehorn_mcu.machine.targets import Machine
from shoehorn_mcu.ops.linear import LinearOp
from shoehorn_mcu.schedule.stage import Pick, stages

FIRST = 100_000
NETWORKS = 96
RANKS = 4  # kernels of an op that are tried
SMALL_BOARDS = {"microbit": 2, "stm32vldiscovery": 4}  # of whose graphs one in so many is taken: few share a firmware

Found = dict[str, Any]


def ranked(rank: int) -> Pick:
    """The kernel of that rank, the portable one first; of sums of products the chosen one at rank 1 and above."""

    def pick(node: Node, machine: Machine) -> Instance:
        found = list(candidates(node, machine.isas))
        if isinstance(node.op, LinearOp):
            return choose(node, machine) if rank else found[0]
        return found[min(rank, len(found) - 1)]

    return pick


def runs(board: targets.Board, networks: int) -> Iterator[tuple[str, Graph, Pick]]:
    """What is measured, by a name that tells it."""
    limit = min(costs.MOST_MICRO, int(board.arena_limit_bytes * costs.MICRO_SHARE))
    share = SMALL_BOARDS.get(board.id, 1)
    graphs, small = (
        [graph for graph in made if all(candidates(node, board.cpu.isas) for node in graph.nodes())]
        for made in (singles(), micro.graphs(costs.ROWS))
    )
    for rank in range(RANKS):
        own = [g for g in graphs if rank == 0 or any(_has(rank, node, board) for node in g.nodes())]
        for number, graph in enumerate(micro.packed(limit, own[::share], most_inputs=40) if own else ()):
            yield f"singles {rank} {number}", graph, ranked(rank)
    for number, graph in enumerate(micro.packed(limit, small[::share])):
        yield f"small {number}", graph, ranked(0)
    for seeds, graph in predictions.batches(range(FIRST, FIRST + networks // share), board):
        yield f"networks {seeds[0]}", graph, choose


def _has(rank: int, node: Node, board: targets.Board) -> bool:
    count = len(list(candidates(node, board.cpu.isas)))
    return count > 1 and rank == 1 if isinstance(node.op, LinearOp) else count > rank


def measured(board: targets.Board, networks: int, out: Path) -> list[Found]:
    """The ops of all runs, with their features."""
    past, found = predictions.Past(board, out), []
    for name, graph, pick in runs(board, networks):
        timed = past.measured(name, graph, pick)
        if timed["ops"]:
            found += _as_seen(costs.with_work(timed, graph, board, pick)["ops"], graph, board, pick)
    return found


def _as_seen(ops: Sequence[Found], graph: Graph, board: targets.Board, pick: Pick) -> Iterator[Found]:
    """The ops, with the features of a softmax counted on the data that it saw: not expected ones."""
    values: dict[str, Array] | None = None
    for op, stage in zip(ops, stages(graph, Machine.of(board.spec.cpu), pick), strict=True):
        x = stage.node.inputs[0]
        if isinstance(stage.computed.op, LinearOp) and stage.kernel.packs(stage.node):
            continue  # costs.py measures them in many more shapes, of which these graphs know few
        if stage.kernel.key != "softmax_s8_c":
            yield op
            continue
        values = values or evaluate(graph, exact.inputs(graph))
        data = values[x.name].astype(np.int64)
        below = np.bincount((data.max(axis=-1, keepdims=True) - data).ravel(), minlength=256)
        work = softmax_work(stage.node, below / stage.node.output.type.rows)
        yield {**op, "work": {"calls": 1.0, **work}}


def _rows(ops: Sequence[Found], unit: str) -> list[Row]:
    return [costs.row_of({**op, "measured": op[unit]}) for op in ops if op["rows"] and op[unit]]


def fitted(ops: Sequence[Found], known: Mapping[str, Any], unit: str) -> Found:
    """The costs of kernels in one unit; those of calls around them are as known."""
    around = {**asdict(cost.Calls()), **known["calls"]}
    return {"kernels": refined(_rows(ops, unit), known["kernels"], around)}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boards", nargs="*", default=costs.BOARDS)
    parser.add_argument("--networks", type=int, default=NETWORKS)
    parser.add_argument("--out", type=Path, default=Path("build/costs_random"))
    parser.add_argument(
        "--write", action="store_true", help="rewrite the boards' files in generator/shoehorn_mcu/kernels/costs/"
    )
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    tables = costs_files.read()
    for board in map(targets.board, asked.boards):
        ops, table = measured(board, asked.networks, asked.out), tables[board.spec.cpu]
        table |= fitted(ops, table, "measured")
        if "cycles" in table:
            table["cycles"] |= fitted(ops, table["cycles"], "cycles")
        (asked.out / f"{board.spec.cpu}.costs.json").write_text(costs_files.text(table))
        if asked.write:
            costs_files.write(board.spec.cpu, table)


if __name__ == "__main__":
    main()
