"""Validates the keyword spotter on every board that has an emulator, and measures its memory and its time.

    python -m bench.boards [--boards ID ...] [--out DIR] [--again] [--write]

Each board runs MLPerf Tiny's keyword spotter, or the shipped digits where the board is too small for it. Writes
DIR/boards.json after each board, and leaves out those that it has unless --again is given, so that an interrupted run
loses nothing; `--write` makes docs/boards-measured.md of it. Like a user it calls only the command `gen`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.road import gen, measure
from shoehorn_mcu.base import paths
from tests.shared import MODELS

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "boards-measured.md"
CANDIDATES = (MODELS / "mlperf-kws-dscnn-int8.tflite", paths.MODELS / "digits.tflite")  # the first that fits is taken
VECTORS = 5
COLUMNS = (
    ("board", "board"),
    ("level", "level"),
    ("emulator", "emulator"),
    ("model", "model"),
    ("vectors", "vectors"),
    ("mismatches", "mismatches"),
    ("RAM, bytes", "ram_bytes"),
    ("flash, bytes", "flash_bytes"),
    ("stack used, bytes", "stack_painted_bytes"),
    ("per inference", "per_inference"),
    ("per MAC", "per_mac"),
    ("unit", "unit"),
)

Row = dict[str, Any]


def tree() -> str:
    """The commit that is measured; a + behind it stands for changes that are in no commit."""
    said = subprocess.run(["git", "describe", "--always", "--dirty=+"], cwd=ROOT, capture_output=True, text=True)
    return said.stdout.strip()


def row_of(board: Row, folder: Path) -> Row:
    """The row of one board: of the first candidate that fits, or of the last one's refusal."""
    emulator = board["emulator"]
    known = {
        "level": board["level"],
        "emulator": " ".join((emulator["program"], emulator["machine"])).strip(),
        "date": time.strftime("%Y-%m-%d"),
        "tree": tree(),
    }
    row: Row = {}
    for model in CANDIDATES:
        shutil.rmtree(folder, ignore_errors=True)
        row = measure(model, board["id"], folder, VECTORS)
        if "arena_bytes" in row:  # it fits; whatever is refused after that is a finding
            break
    if row.get("unit") in ("instructions", "cycles"):
        row["per_mac"] = round(row["per_inference"] / row["macs"], 2)
    return row | known


def page(rows: list[Row]) -> str:
    """docs/boards-measured.md."""
    dates = sorted({row["date"] for row in rows})
    trees = sorted({row["tree"] for row in rows})
    lines = [
        "# Boards, measured",
        "",
        f"Written by `python -m bench.boards --write` on {' to '.join(sorted({dates[0], dates[-1]}))}, of the"
        f" {'commits' if trees[1:] else 'commit'} {', '.join(trees)}. Each board runs MLPerf",
        "Tiny's keyword spotter, or the shipped digits where the board is too small for it. `gen validate --emulate`",
        "compares every byte of every op for random vectors; *mismatches* are vectors with a byte that differs. Memory",
        "is of the built firmware, *stack used* of a painted stack, *per inference* what `gen bench --emulate` counts,",
        "in the emulator's unit; wait states of flash are not in it. What a level proves: [boards.md](boards.md).",
        "",
        "| " + " | ".join(title for title, _ in COLUMNS) + " |",
        "|---" * 4 + "|---:" * 7 + "|---|",
    ]
    measured = [row for row in rows if "refused" not in row]
    lines += ["| " + " | ".join(_cell(row.get(key, "-")) for _, key in COLUMNS) + " |" for row in measured]
    refused = [f"- `{row['board']}`, {row['model']}: {row['refused']}" for row in rows if "refused" in row]
    return "\n".join([*lines, *(["", "Not measured:", "", *refused] if refused else []), ""])


def _cell(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boards", nargs="*", help="default: all that have an emulator")
    parser.add_argument("--out", type=Path, default=Path("build/boards"))
    parser.add_argument("--again", action="store_true", help="also measure boards that boards.json has")
    parser.add_argument("--write", action="store_true", help="write docs/boards-measured.md")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    kept = arguments.out / "boards.json"
    rows: dict[str, Row] = {r["board"]: r for r in json.loads(kept.read_text())} if kept.exists() else {}
    listed, refusal = gen("boards")
    if listed is None:
        sys.exit(refusal)
    boards = [board for board in listed["boards"] if board["emulator"]]
    for board in boards:
        name = board["id"]
        if name in (arguments.boards or [name]) and (arguments.again or name not in rows):
            rows[name] = row_of(board, arguments.out / name)
            print(rows[name], file=sys.stderr, flush=True)
            kept.write_text(json.dumps(list(rows.values()), indent=1) + "\n")
    if arguments.write:
        PAGE.write_text(page([rows[b["id"]] for b in boards if b["id"] in rows]))


if __name__ == "__main__":
    main()
