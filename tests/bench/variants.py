"""Measures every instance of some contracts in the emulator, shape by shape: instructions per multiply-accumulate.

    python -m tests.bench.variants [--boards ID ...] [--write]

Each shape of SHAPES runs with every instance that computes it, on each board. --write fits the costs and the code size
of the instances that are not portable and puts them into generator/kernels/costs.json, where kernels are chosen by
them; tests/bench/costs.py measures the portable ones, in whole models.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from elftools.elf.elffile import ELFFile

from shoehorn_mcu import ops, targets
from shoehorn_mcu.emit.bundle import write
from shoehorn_mcu.host_tools.bench import INSTRUCTIONS, bench
from shoehorn_mcu.host_tools.build import build
from shoehorn_mcu.host_tools.emulate import emulate
from shoehorn_mcu.host_tools.link import Link
from shoehorn_mcu.host_tools.plan import Plan
from shoehorn_mcu.host_tools.ports import Port
from shoehorn_mcu.host_tools.project import Project
from shoehorn_mcu.ir import Graph
from shoehorn_mcu.kernels import cost
from shoehorn_mcu.kernels.choice import candidates
from shoehorn_mcu.stage import Stage, stages
from tests.bench.fit import Row, fitted

sys.path.insert(0, str(Path(__file__).parents[1]))  # the tests import each other by bare names

from tests import matrix

BOARDS = ("mps2-an386", "rpi-zero", "mps2-an500", "mps2-an505", "mps3-an547")
COARSE_HZ = 2_000_000  # of a clock below which ops run so many rows more
ROWS, COARSE_ROWS = 8, 128

# Channels in and out, and width, of 1x1 convolutions: those of models, then what sets the features apart.
POINTWISE = (
    *((8, 16, 24), (16, 32, 24), (32, 32, 12), (64, 64, 5), (64, 64, 12), (60, 64, 12), (128, 128, 3), (96, 24, 14)),
    *(
        (8, 16, 23),
        (4, 4, 1),
        (4, 4, 9),
        (5, 4, 8),
        (6, 5, 7),
        (7, 3, 6),
        (9, 1, 5),
        (12, 2, 4),
        (13, 8, 3),
        (16, 8, 1),
    ),
    *((17, 9, 2), (33, 12, 9), (20, 20, 10), (24, 7, 2), (40, 4, 15), (10, 6, 1), (256, 8, 2), (255, 8, 3), (4, 64, 1)),
)


@dataclass(frozen=True)
class Measured:
    """One op on one board."""

    stage: Stage
    instructions: float


def graphs(rows: int) -> Iterator[Graph]:
    """The shapes as graphs of one op; every fourth has a clamp of its own."""
    rng = np.random.default_rng(3)
    for number, (inputs, outputs, width) in enumerate(POINTWISE):
        data = matrix.DATA[1 if number % 4 == 3 else 0]
        yield matrix.linear(ops.Conv2d, rng, data, (1, rows, width, inputs), (outputs, 1, 1, inputs))


def measured(board: targets.Board, folder: Path) -> tuple[list[Measured], dict[str, int]]:
    """Every op, and the bytes of code of every instance by key."""
    rows = COARSE_ROWS if board.spec.tick_hz < COARSE_HZ else ROWS
    pairs = [(g, k) for g in graphs(rows) for k in candidates(next(g.nodes()), board.cpu.isas)]
    of = matrix.Matrix(matrix.merged([g for g, _ in pairs]), tuple(k for _, k in pairs))
    write(matrix.firmware(of, board), folder)
    opened = Project.open(folder)
    build(opened)
    with emulate(opened) as machine, Link(Port(machine.url)) as link:
        timing = bench(link, Plan.of(opened), (), INSTRUCTIONS, 1, lambda _: None)
    chosen = stages(of.graph, targets.Machine.of(board.spec.cpu), of.kernel)
    found = [Measured(stage, median) for stage, (_, _, median) in zip(chosen, timing.ops, strict=True)]
    return found, {k.key: code_bytes(folder, k.symbol("matrix")) for k in of.kernels}


def code_bytes(folder: Path, symbol: str) -> int:
    """Bytes of code in the object file of an instance."""
    (path,) = folder.glob(f".pio/build/**/{symbol}.o")
    with path.open("rb") as file:
        return sum(s["sh_size"] for s in ELFFile(file).iter_sections() if s.name.startswith(".text"))


def costs(found: list[Measured], cpu: str) -> dict[str, dict[str, float]]:
    """Costs by key of the non-portable instances; the costs of calls are known."""
    known = cost.costs_of(cpu)
    around = {**asdict(cost.Calls()), **known.calls, "steps": known.traced_step}
    rows = []
    for one in found:
        height = one.stage.node.output.type.rows
        if one.stage.kernel.variant.isa is not targets.Isa.C:
            work = {name: count * height for name, count in one.stage.kernel.work(one.stage.node).items()}
            calls = {**asdict(cost.Calls(pointers=2 * height)), "steps": 1}
            rows.append(Row(one.stage.kernel.key, work, calls, one.instructions, 0))
    return fitted(rows, around)[0]


def lines(found: dict[str, list[Measured]]) -> Iterator[str]:
    """The table: shapes and instances by boards."""
    yield f"| shape (width x in > out) | kernel | {' | '.join(targets.board(n).spec.cpu for n in found)} |"
    yield "|---|---|" + "---:|" * len(found)
    for at in zip(*found.values(), strict=True):
        node = at[0].stage.node
        width, outputs = node.output.type.nhwc[2:]
        cells = " | ".join(f"{one.instructions / one.stage.macs:.2f}" for one in at)
        yield f"| {width} x {node.inputs[0].type.nhwc[3]} > {outputs} | {at[0].stage.kernel.key} | {cells} |"


def put(table: dict, cpu: str, found: list[Measured], code: dict[str, int]) -> None:
    """Replaces one core's costs of these instances."""
    for key, features in costs(found, cpu).items():
        table[cpu]["kernels"][key] = {name: round(value, 3) for name, value in sorted(features.items())}
        table[cpu]["code_bytes"][key] = code[key]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boards", nargs="*", default=BOARDS)
    parser.add_argument("--write", action="store_true", help="put the costs into generator/kernels/costs.json")
    arguments = parser.parse_args()
    table, found = json.loads(cost.TABLE.read_text()), {}
    for name in arguments.boards:
        with TemporaryDirectory() as folder:
            board = targets.board(name)
            found[name], code = measured(board, Path(folder))
            put(table, board.spec.cpu, found[name], code)
    print("\n".join(lines(found)))
    if arguments.write:
        cost.TABLE.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
