"""Compares predicted with measured time of whole firmwares, for models that costs were not fitted to.

    python -m bench.held_out [--boards ID ...] [--models NAME ...] [--out DIR]

Each model is generated for its fastest plan and for its smallest arena, and timed, by the command `gen`. Results in
DIR/held_out.json are reused: delete it after a change of kernels or costs. Prints the table of
generator/shoehorn_mcu/kernels/README.md, "Predicted time", and each plan's errors to stderr.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.costs import BOARDS, HELD_OUT, HELD_OUT_SMALL, LARGE, SMALL_BOARDS
from bench.road import gen
from shoehorn_mcu.machine import targets
from tests.shared import MODELS

WAYS: tuple[tuple[str, ...], ...] = ((), ("--minimize", "sram"))
UNITS = ("instructions", "cycles")


def models_of(board: str) -> tuple[str, ...]:
    """The models that were not fitted on the core of a board, and are small enough to emulate there."""
    if board in SMALL_BOARDS:
        return HELD_OUT_SMALL
    return HELD_OUT if board == BOARDS[0] else tuple(m for m in HELD_OUT if m not in LARGE)


def measure(model: str, board: str, way: Sequence[str], folder: Path) -> dict[str, Any]:
    """Predicted and measured instructions and cycles of one plan; or why there are none."""
    path = str(MODELS / f"{model}.tflite")
    report, refusal = gen("firmware", path, "--board", board, "--out", str(folder), "--force", *way)
    if report is None:
        return {"refused": refusal}
    timed, refusal = gen("bench", str(folder), "--emulate", "--runs", "1")
    if timed is None:
        return {"refused": refusal}
    plan, cycles = report["plan"], timed["cycles"]
    return {
        "instructions": [plan["predicted_instructions"], timed["total"]["median"]],
        "cycles": [plan["predicted_cycles"], cycles["median"]] if cycles and plan["predicted_cycles"] else None,
    }


def error(pair: Sequence[float]) -> float:
    """Of a prediction, in percent of what was measured."""
    predicted, measured = pair
    return 100 * (predicted / max(1, measured) - 1)


def table(rows: Mapping[str, Sequence[Mapping[str, Any]]], unit: str) -> Iterator[str]:
    """The errors in one unit by core; `rows` by board. Empty where no core has that unit."""
    errors = {board: [abs(error(row[unit])) for row in of if row.get(unit)] for board, of in rows.items()}
    errors = {board: of for board, of in errors.items() if of}
    if errors:
        yield f"| core | plans, {unit} | worst error | median |"
        yield "|---|---:|---:|---:|"
    for board, of in errors.items():
        cpu = targets.board(board).spec.cpu
        yield f"| {cpu} | {len(of)} | {max(of):.2f} % | {statistics.median(of):.2f} % |"
    yield ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boards", nargs="*", default=BOARDS)
    parser.add_argument("--models", nargs="*")
    parser.add_argument("--out", type=Path, default=Path("build/held_out"))
    arguments = parser.parse_args()
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    path = out / "held_out.json"
    known: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}
    rows: dict[str, list[dict[str, Any]]] = {}
    for board in arguments.boards:
        for model in arguments.models or models_of(board):
            for way in WAYS:
                key = " ".join((board, model, *way))
                if key not in known:
                    known[key] = measure(model, board, way, out / board)
                    path.write_text(json.dumps(known, indent=1) + "\n")
                found = known[key]
                said = [f"{unit} {error(found[unit]):+.2f} %" for unit in UNITS if found.get(unit)]
                print(f"{key}: {', '.join(said) or found.get('refused')}", file=sys.stderr, flush=True)
                rows.setdefault(board, []).append(found)
    for unit in UNITS:
        print("\n".join(table(rows, unit)))


if __name__ == "__main__":
    main()
