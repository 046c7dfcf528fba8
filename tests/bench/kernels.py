"""Measures kernels of linear ops in the emulator: instructions per multiply-accumulate, by shape and core.

    python -m tests.bench.kernels [--boards ID ...] [--shapes WORD] [--before FILE] [--out FILE]

It runs small graphs (those whose names begin with WORD) on each board, one per core where none is named, and prints a
table of shapes by cores. --out saves the measurements. With --before, such a file from an earlier version of the
kernels, the table also has the change in percent, and the last lines list the shapes that became slower by more than
SLOWER.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from shoehorn_mcu import targets
from shoehorn_mcu.planner import Goal
from tests.bench import micro
from tests.bench.costs import BOARDS, COARSE_HZ, MICRO_SHARE, measure
from tests.bench.shapes import shapes

SLOWER = 0.5  # per cent
COPIES = 40  # of a shape on a board whose clock ticks slower than COARSE_HZ


def measured(board: targets.Board, prefix: str, folder: Path) -> dict[str, list[float]]:
    """Each shape's multiply-accumulates and instructions on one board."""
    copies = COPIES if board.spec.tick_hz < COARSE_HZ else 1
    names, graphs = zip(*((n, g) for n, g in shapes() if n.startswith(prefix)), strict=True)
    work: list[int] = []
    taken: list[int] = []
    limit = int(board.arena_limit_bytes * MICRO_SHARE)
    for batch in micro.packed(limit, (graph for graph in graphs for _ in range(copies))):
        taken += [op["measured"] for op in measure(batch, board, Goal.TIME, folder)["ops"]]
        work += [node.op.macs(node.sig) for node in batch.nodes()]
    found, at = {}, 0
    for name, graph in zip(names, graphs, strict=True):
        end = at + copies * len(graph.ops)
        found[name] = [sum(work[at:end]) / copies, sum(taken[at:end]) / copies]
        at = end
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
        found = {
            name: measured(targets.board(name), arguments.shapes, Path(folder) / name) for name in arguments.boards
        }
    if arguments.out:
        arguments.out.write_text(json.dumps(found) + "\n")
    print("\n".join(say(found, before)))


if __name__ == "__main__":
    main()
