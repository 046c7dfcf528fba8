"""Static allocation on minimalloc's instances: seconds of `gen pack`, beside MiniMalloc's own.

    python -m bench.buffers [--names NAME ...] [--repeat N] [--out DIR]

Each instance is solved in its own process, including the start of Python, and checked here; the table has the median.
The first line is the time of compiling the C code, which happens once per machine. Writes DIR/buffers.json and .md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any

from shoehorn_mcu.planner.placement.allocate import Problem, check, csv_file
from tests.shared import DATA, GEN

# Seconds of MiniMalloc, from its slides (ASPLOS 2023), on a machine of its authors; None: not published.
MINIMALLOC = {
    "input.12": None,
    "A.1048576": 4.910,
    "B.1048576": 3.661,
    "C.1048576": 0.637,
    "E.1048576": 3.717,
    "F.1048576": 5.358,
    "G.1048576": 1.181,
    "I.1048576": 3.908,
    "K.1048576": 0.628,
}


def run(path: Path, capacity: int, environment: dict[str, str] | None = None) -> tuple[dict[str, Any], float]:
    """The answer of the command, and its wall time in seconds."""
    words = [*GEN, "pack", str(path), "--capacity", str(capacity), "--json"]
    started = monotonic()
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    wall = monotonic() - started
    return json.loads(done.stdout) if done.stdout else {"status": done.stderr.strip(), "offsets": {}}, wall


def compiling(path: Path, capacity: int) -> float:
    """Seconds that the first run needs for compiling."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "XDG_CACHE_HOME": folder}
        first, second = (run(path, capacity, environment)[1] for _ in range(2))
    return first - second


def measure(name: str, repeat: int) -> dict[str, Any]:
    """One instance, solved `repeat` times."""
    path, capacity = DATA / "planning" / "minimalloc" / f"{name}.csv", int(name.split(".")[1])
    problem = Problem(csv_file.read(path), capacity)
    said, walls = {}, []
    for _ in range(repeat):
        said, wall = run(path, capacity)
        walls.append(wall)
    return {
        "instance": name,
        "buffers": len(problem.buffers),
        "load": problem.peak.bytes,
        "height": said.get("height"),
        "status": "; ".join(check(problem, said["offsets"])[:1]) or said["status"],
        "search_seconds": said.get("seconds"),
        "seconds": round(median(walls), 2),
        "minimalloc_seconds": MINIMALLOC[name],
    }


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    titles = ("instance", "buffers", "load", "height", "status", "search s", "all s", "MiniMalloc s")
    lines = [f"| {' | '.join(titles)} |", "|---|---:|---:|---:|---|---:|---:|---:|"]
    lines += [f"| {' | '.join('-' if cell is None else str(cell) for cell in row.values())} |" for row in rows]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", nargs="+", choices=MINIMALLOC, default=list(MINIMALLOC))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    first = options.names[0]
    took = compiling(DATA / "planning" / "minimalloc" / f"{first}.csv", int(first.split(".")[1]))
    print(f"compiling needs {took:.1f} s, once")
    rows = [measure(name, options.repeat) for name in options.names]
    (options.out / "buffers.json").write_text(json.dumps(rows, indent=2) + "\n")
    (options.out / "buffers.md").write_text(table(rows))
    print(table(rows), end="")


if __name__ == "__main__":
    main()
