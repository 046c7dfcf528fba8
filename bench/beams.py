"""Random networks of many rows: the peak that beams find beside that of local search, each from the order by groups.

    python -m bench.beams [--count N] [--seed N] [--least ROWS] [--most ROWS]

Each network has as many rows as asked; both searches get the effort that the planner gives them, the beams a tenth of
that of local search. Prints a line per network, then how often each found the lower peak and by how much.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from random import Random
from time import process_time

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))  # as pytest has it
from shoehorn_mcu.planner.effort import DESCENT
from shoehorn_mcu.planner.order.descent import Descent
from shoehorn_mcu.planner.order.flow import Flow
from shoehorn_mcu.planner.order.replay import replay
from shoehorn_mcu.planner.partition.space import Space
from shoehorn_mcu.planner.recompute.budgets import Budgets
from shoehorn_mcu.planner.recompute.search import reordered
from tests.row_problems import random_problem


def network(seed: int, least: int, most: int) -> Flow:
    """A random network of so many rows at least and at most."""
    chance = Random(seed)
    while True:
        problem = random_problem(chance, chance.randint(20, 70), most_rows=chance.randint(60, 200))
        flow = Flow(replace(problem, blocks=()))
        if least <= sum(flow.rows.values()) <= most:
            return flow


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("--count", 200), ("--seed", 1), ("--least", 1000), ("--most", 5000)):
        parser.add_argument(name, type=int, default=default)
    given = parser.parse_args()
    gains, closed = [], 0
    for seed in range(given.seed, given.seed + given.count):
        flow = network(seed, given.least, given.most)
        space = Space(flow.problem, 0)
        start = space.events(space.plain_groups)
        budgets = Budgets(flow, start, 0, lambda _: None, lambda *_: None)  # type: ignore[arg-type, return-value]
        began = process_time()
        beam = Descent(flow, start)
        beam.descend(budgets.effort(DESCENT.BEAM_SHARE).seconds)
        middle = process_time()
        local = replay(flow, reordered(flow.problem, start, budgets.effort())).peak
        end = process_time()
        closed += beam.is_closed
        gains.append(100 * (local - beam.peak) / local)
        seconds = f"{middle - began:.1f} s, {end - middle:.1f} s"
        rows = sum(flow.rows.values())
        print(
            f"{seed}: {rows:,} rows, groups {replay(flow, start).peak:,}, beam {beam.peak:,}, local search {local:,},"
            f" bound {beam.bound:,}; {seconds}",
            flush=True,
        )
    for who, found in (("beam", [gain for gain in gains if gain > 0]), ("local search", [-g for g in gains if g < 0])):
        mean, most = sum(found) / max(1, len(found)), max(found, default=0)
        print(f"{who} is lower in {len(found)} of {len(gains)}, by {mean:.1f} % on average and {most:.1f} % at most")
    print(f"the beam meets the bound in {closed}")


if __name__ == "__main__":
    main()
