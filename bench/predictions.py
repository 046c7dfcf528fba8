"""Compares predicted with measured instructions of random small networks, on a board per core.

    python -m bench.predictions [--count 60] [--seed 1] [--boards ID ...] [--out DIR]

In each network one kind of op dominates: the kinds take turns, so that softmax, tables, divisions and copies weigh as
much as convolutions. Networks share firmwares, as many as a board holds, and are timed in the emulator op by op, on
random inputs. Prints per board the distribution of the errors of whole networks (of LEAST instructions or more),
and the kernels with the largest errors over all their ops. Results in DIR/<board>.json are kept: features are counted
and weighed anew each time, so a change of costs needs no new measurement unless it changes a choice, one of the
kernels' code a new DIR.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from growers import GROWERS
from growth import Growth
from samples import quant

from bench import costs, micro
from shoehorn_mcu import ops, passes
from shoehorn_mcu.ir import DType, Graph, GraphError, TensorType, verify
from shoehorn_mcu.kernels import Instance, choose
from shoehorn_mcu.kernels.cost import Unit, costs_of, kernel_cost, weigh
from shoehorn_mcu.machine import targets
from shoehorn_mcu.machine.targets import Machine
from shoehorn_mcu.planner import DoesNotFit, Goal
from shoehorn_mcu.schedule.stage import Pick, stages
from shoehorn_mcu_host.base.errors import HostError

KINDS = tuple(dict.fromkeys(GROWERS.values()))
LEAST = 5000  # instructions of a network: in shorter ones the ticks of the board's clock are seen
MOST_ELEMENTS = 3000
OPS = (3, 4, 6, 8)
TARGET = 3.0  # percent

Found = dict[str, Any]


def network(seed: int) -> Graph:
    """The network of that seed, after the passes: most of its ops are of one kind."""
    g = Growth(np.random.default_rng(seed))
    kind = KINDS[seed % len(KINDS)]
    height, width, channels = g.pick(1, 4, 7, 12), g.pick(1, 5, 8, 16), g.pick(1, 3, 8, 10, 24, 40)
    dtype = DType.FLOAT32 if g.chance(0.1) else DType.INT8
    scale = None if dtype is DType.FLOAT32 else quant(g.rng, 0.01, 0.3)
    g.input(TensorType((1, height, width, channels), dtype, scale))
    x, most = g.inputs[0], g.pick(*OPS)
    g.most_elements = MOST_ELEMENTS
    for tries in range(40):
        if len(g.ops) >= most:
            break
        grow = kind if tries % 3 != 1 else KINDS[g.pick(*range(len(KINDS)))]
        if grow is GROWERS[ops.Softmax] and g.ops and isinstance(g.ops[-1], ops.Softmax):
            grow = GROWERS[ops.Conv2d]  # no network has one behind the other
        with suppress(GraphError):  # it does not fit onto x
            x = grow(g, x)
    if not g.ops:
        x = GROWERS[next(iter(GROWERS))](g, x)
    graph = verify(Graph(f"net_{seed}", g.tensors, tuple(g.ops), tuple(g.inputs), (g.ops[-1].output,)))
    return passes.run(graph, frozenset(), ())[0]


def batches(seeds: Sequence[int], board: targets.Board) -> Iterator[tuple[list[int], Graph]]:
    """Seeds of networks that share a firmware, and the graph of them all."""
    limit = min(costs.MOST_MICRO, int(board.arena_limit_bytes * costs.MICRO_SHARE))
    made: list[tuple[int, Graph]] = []
    for seed in seeds:
        graph = network(seed)
        if graph.ops and len(list(micro.packed(limit, [graph]))) == 1 and _bytes(graph) <= limit:
            made.append((seed, graph))
    while made:
        held, count = 0, 0
        while count < min(len(made), 24) and held + _bytes(made[count][1]) <= limit:
            held += _bytes(made[count][1])
            count += 1
        yield [seed for seed, _ in made[:count]], micro.merged("nets", [graph for _, graph in made[:count]])
        made = made[count:]


def _bytes(graph: Graph) -> int:
    return sum(-(-t.type.bytes // 4) * 4 for t in graph.tensors.values() if t.data is None)


class Past:
    """What was measured on a board, kept in a file, so that an interrupted run goes on where it stopped.

    A graph is measured again where other kernels are chosen for it now: after a change of costs, say.
    """

    def __init__(self, board: targets.Board, out: Path) -> None:
        self._board, self._out, self._path = board, out, out / f"{board.id}.json"
        self._known: dict[str, Found] = json.loads(self._path.read_text()) if self._path.exists() else {}

    def measured(self, name: str, graph: Graph, pick: Pick) -> Found:
        """The figures of a graph; no ops where it does not fit the board."""
        known = self._known.get(name)
        if known is None or (known["ops"] and not costs.of_kernels(known, graph, self._board, pick)):
            folder = self._out / "folder" / self._board.id
            try:
                self._known[name] = costs.measure(graph, self._board, Goal.TIME, folder, pick, exactly=True)
            except (DoesNotFit, HostError) as refusal:
                print(f"{name} on {self._board.id}: {str(refusal)[:200]}", file=sys.stderr)
                self._known[name] = {"ops": []}
            self._path.write_text(json.dumps(self._known) + "\n")
            print(f"{name} on {self._board.id}", file=sys.stderr, flush=True)
        return self._known[name]


def measured(board: targets.Board, seeds: Sequence[int], out: Path) -> list[Found]:
    """By network the figures of its ops, with their features; those that do not fit the board are left out."""
    past, found = Past(board, out), []
    for own, graph in batches(seeds, board):
        timed = past.measured(",".join(map(str, own)), graph, choose)
        if timed["ops"]:
            found += list(_networks(own, costs.with_work(timed, graph, board), graph, board))
    return found


def _networks(seeds: Sequence[int], result: Found, graph: Graph, board: targets.Board) -> Iterator[Found]:
    """The ops of each network; `merged` numbers them at the end of their names."""
    by_net: dict[int, list[Found]] = defaultdict(list)
    machine = Machine.of(board.spec.cpu)
    for op, stage in zip(result["ops"], stages(graph, machine), strict=True):
        by_net[int(stage.name.rpartition("_")[2])].append({**op, "predicted": predicted(op, stage.kernel, board)})
    for number, timed in by_net.items():
        yield {"seed": seeds[number], "ops": timed}


def predicted(op: Mapping[str, Any], kernel: Instance, board: targets.Board) -> float:
    """Instructions of an op, as predict.py counts them."""
    around = weigh(op["calls"], costs_of(board.spec.cpu).calls)
    return float(op["rows"] * (kernel_cost(kernel, op["work"], board.spec.cpu, Unit.INSTRUCTIONS) + around))


def said(board: targets.Board, nets: Sequence[Found]) -> Iterator[str]:
    """The distribution of errors, and the worst kernels."""
    errors = sorted(abs(_error(net["ops"])) for net in nets if _measured(net["ops"]) >= LEAST)
    if not errors:
        return
    within = sum(error <= TARGET for error in errors)
    tenth, ninety = errors[len(errors) // 10], errors[len(errors) * 9 // 10]
    yield (
        f"{board.id} ({board.spec.cpu}): {len(errors)} networks, "
        f"{100 * within / len(errors):.0f} % within {TARGET:g} %; "
        f"median {statistics.median(errors):.2f} %, 10 % below {tenth:.2f} %, 90 % below {ninety:.2f} %, "
        f"worst {errors[-1]:.2f} %"
    )
    by_kernel: dict[str, list[Found]] = defaultdict(list)
    for op in (op for net in nets for op in net["ops"]):
        by_kernel[op["kernel"]].append(op)
    rows = sorted(by_kernel.items(), key=lambda pair: -sum(abs(o["predicted"] - o["measured"]) for o in pair[1]))
    yield "| kernel | ops | instructions | error | mean of the ops' errors | measured |"
    yield "|---|---:|---:|---:|---:|---|"
    for kernel, own in rows[:25]:
        apart = sum(abs(op["predicted"] - op["measured"]) for op in own)
        known = "yes" if kernel in costs_of(board.spec.cpu).kernels else "no"
        yield (
            f"| {kernel} | {len(own)} | {_measured(own):,.0f} | {_error(own):+.1f} % "
            f"| {100 * apart / max(1, _measured(own)):.1f} % | {known} |"
        )
    yield ""


def _measured(timed: Sequence[Found]) -> float:
    return float(sum(op["measured"] for op in timed))


def _error(timed: Sequence[Found]) -> float:
    """In percent of what was measured."""
    return costs.percent(sum(op["predicted"] for op in timed), _measured(timed))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1, help="of the first network")
    parser.add_argument("--boards", nargs="*", default=costs.BOARDS)
    parser.add_argument("--out", type=Path, default=Path("build/predictions"))
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    seeds = range(asked.seed, asked.seed + asked.count)
    for board in map(targets.board, asked.boards):
        print("\n".join(said(board, measured(board, seeds, asked.out))), flush=True)


if __name__ == "__main__":
    main()
