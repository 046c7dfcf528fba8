"""Validates every `road` model on every emulated board that it fits, and measures memory and instructions.

    python -m bench.road [--models NAME ...] [--boards ID ...] [--out DIR]

Writes DIR/road.json (one object per pair) and DIR/road.md (the table) after each pair, so an interrupted run loses
nothing. Like a user it calls only the command `gen`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.shared import GEN, MODELS, ROAD

MACS_OF_FEW = 50_000_000  # a model above this gets fewer vectors
COLUMNS = (
    "model",
    "board",
    "vectors",
    "mismatches",
    "arena_bytes",
    "ram_bytes",
    "flash_bytes",
    "stack_bytes",
    "stack_painted_bytes",
    "per_inference",
    "unit",
)


def gen(*words: str) -> tuple[dict[str, Any] | None, str]:
    """The JSON of a `gen` command, or None and the one line it refused with."""
    done = subprocess.run([*GEN, *words, "--json"], capture_output=True, text=True, check=False)
    said = json.loads(done.stdout) if done.stdout.strip() else {"error": {"message": f"exit {done.returncode}"}}
    return (None, said["error"]["message"]) if "error" in said else (said, "")


def measure(model: Path, board: str, folder: Path, vectors: int = 10) -> dict[str, Any]:
    """One pair: generate, build, validate, bench."""
    row: dict[str, Any] = {"model": model.stem, "board": board}
    report, refusal = gen("firmware", str(model), "--board", board, "--out", str(folder))
    if report is None:
        return row | {"refused": refusal}
    row |= {"macs": report["model"]["macs"], "arena_bytes": report["plan"]["arena_bytes"]}
    count = 2 if report["model"]["macs"] > MACS_OF_FEW else vectors
    found, refusal = gen("validate", str(folder), "--emulate", "--count", str(count), "--seed", "1")
    if found is None:
        return row | {"refused": refusal}
    row |= {"vectors": found["vectors"], "mismatches": found["mismatched_vectors"]}
    row |= json.loads((folder / "report.json").read_text())["firmware"]
    bench, refusal = gen("bench", str(folder), "--emulate", "--runs", "1")
    if bench is None:
        return row | {"refused": refusal}
    return row | {
        "per_inference": bench["total"]["median"],
        "unit": bench["unit"],
        "stack_painted_bytes": bench["stack"]["used_bytes"],
    }


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown; refusals below it."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    lines += ["| " + " | ".join(str(row.get(c, "-")) for c in COLUMNS) + " |" for row in rows if "refused" not in row]
    refused = [f"- {row['model']} on {row['board']}: {row['refused']}" for row in rows if "refused" in row]
    return "\n".join([*lines, "", *refused, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", default=list(ROAD))
    parser.add_argument("--boards", nargs="*")
    parser.add_argument("--out", type=Path, default=Path("build/road"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    listed, refusal = gen("boards")
    if listed is None:
        sys.exit(refusal)
    emulated = [b["id"] for b in listed["boards"] if "emulator" in b["verified"]]
    rows = []
    for model in arguments.models:
        for board in arguments.boards or emulated:
            rows.append(measure(MODELS / f"{model}.tflite", board, arguments.out / f"{model}-{board}"))
            print(rows[-1], file=sys.stderr, flush=True)
            (arguments.out / "road.json").write_text(json.dumps(rows, indent=1) + "\n")
            (arguments.out / "road.md").write_text(table(rows))


if __name__ == "__main__":
    main()
