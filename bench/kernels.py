"""Measures kernels of linear ops in the emulator: instructions per multiply-accumulate, by shape and core.

    python -m bench.kernels [--boards ID ...] [--shapes WORD] [--before FILE] [--out FILE]

It runs small graphs (those whose names begin with WORD) on each board, one per core where none is named, and prints a
table of shapes by cores. --out saves the measurements. With --before, such a file from an earlier version of the
kernels, the table also has the change in percent, and the last lines list the shapes that became slower by more than
SLOWER.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import micro
from bench.costs import BOARDS, COARSE_HZ, MICRO_SHARE, Found, measure
from bench.shapes import shapes
from shoehorn_mcu.ir import Graph
from shoehorn_mcu.kernels import choose
from shoehorn_mcu.machine import targets
from shoehorn_mcu.planner import Goal
from shoehorn_mcu.schedule.stage import Pick

SLOWER = 0.5  # per cent
COPIES = 40  # of a shape on a board whose clock ticks slower than COARSE_HZ, unless fewer
ENOUGH = 400_000  # multiply-accumulates are so many


@dataclass(frozen=True)
class Shape:
    """What the ops of one graph took on a board."""

    macs: float
    instructions: float
    cycles: float | None  # None where the board's timing is not modelled
    kernels: tuple[str, ...]


def _copies(graph: Graph) -> int:
    """On a board with a slow clock."""
    macs = sum(node.op.macs(node.sig) for node in graph.nodes())
    return min(COPIES, -(-ENOUGH // max(1, macs)))


def measured(
    board: targets.Board,
    named: Sequence[tuple[str, Graph]],
    folder: Path,
    pick: Pick = choose,
    zeros: bool = False,
    share: float = MICRO_SHARE,
) -> dict[str, Shape]:
    """Each graph on one board, by name; `zeros` as in `measure`. `share`: of the arena, for inputs and outputs."""
    copies = [_copies(graph) if board.spec.tick_hz < COARSE_HZ else 1 for _, graph in named]
    work: list[int] = []
    taken: list[Found] = []
    limit = int(board.arena_limit_bytes * share)
    for batch in micro.packed(limit, (g for (_, g), many in zip(named, copies, strict=True) for _ in range(many))):
        taken += measure(batch, board, Goal.TIME, folder, pick, zeros)["ops"]
        work += [node.op.macs(node.sig) for node in batch.nodes()]
    found, at = {}, 0
    for (name, graph), many in zip(named, copies, strict=True):
        ops = taken[at : at + many * len(graph.ops)]
        found[name] = Shape(
            sum(work[at : at + len(ops)]) / many,
            sum(op["measured"] for op in ops) / many,
            sum(op["cycles"] for op in ops) / many if all(op["cycles"] is not None for op in ops) else None,
            tuple(op["kernel"] for op in ops[: len(graph.ops)]),
        )
        at += len(ops)
    if at != len(taken):
        raise ValueError(f"{board.id} has no place for some shape; make it smaller")
    return found


def change(now: float, before: float) -> float:
    """Per cent."""
    return 100 * (now / before - 1)


def say(found: dict[str, dict[str, list[float]]], before: dict[str, dict[str, list[float]]]) -> Iterator[str]:
    """The table of shapes by boards, and the shapes that became slower."""
    cores = [targets.board(name).spec.cpu for name in found]
    yield f"| instructions per multiply-accumulate | {' | '.join(cores)} |"
    yield "|---|" + "---:|" * len(found)
    slower = []
    for shape in next(iter(found.values())):
        cells = []
        for core, (name, on_board) in zip(cores, found.items(), strict=True):
            macs, taken = on_board[shape]
            cells.append(f"{taken / macs:.2f}")
            if shape in before.get(name, {}):
                by = change(taken, before[name][shape][1])
                cells[-1] += f" ({by:+.1f} %)"
                if by > SLOWER:
                    slower.append(
                        f"slower on {core}: {shape}, {before[name][shape][1]:,.0f} to {taken:,.0f} ({by:+.1f} %)"
                    )
        yield f"| {shape} | {' | '.join(cells)} |"
    yield ""
    yield from slower


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boards", nargs="*", default=BOARDS)
    parser.add_argument("--shapes", default="")
    parser.add_argument("--before", type=Path)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    before = json.loads(arguments.before.read_text()) if arguments.before else {}
    with TemporaryDirectory() as folder:
        named = [(name, graph) for name, graph in shapes() if name.startswith(arguments.shapes)]
        taken = {name: measured(targets.board(name), named, Path(folder) / name) for name in arguments.boards}
    found = {name: {shape: [each.macs, each.instructions] for shape, each in of.items()} for name, of in taken.items()}
    if arguments.out:
        arguments.out.write_text(json.dumps(found) + "\n")
    print("\n".join(say(found, before)))


if __name__ == "__main__":
    main()
