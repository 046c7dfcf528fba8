"""docs/zoo.md: every model of ../shared/models on every board that is proven by more than a build, as a sweep.

    python -m bench.zoo [--until plan|...|bench] [--models NAME ...] [--boards ID ...] [--out DIR]

Computes what DIR (default: build/zoo) lacks and writes the page of all rows that are there. Cells that DIR has no row
for stay as the page has them, of an earlier run perhaps; remove the page to get rid of them. Breaking it off loses
nothing, and writes the page too. `make zoo` runs it.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from shoehorn_mcu.machine import targets
from shoehorn_mcu.sweeps import run
from shoehorn_mcu.sweeps.axes import DONE, FINAL, Status, checked
from shoehorn_mcu.sweeps.rows import Rows
from shoehorn_mcu_host.base.emulators import Level
from tests.shared import MODELS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "zoo.md"
_WORDS = {"does-not-fit": "too large", "unsupported": "op"}
_HEAD = """# The zoo

Public models on every board that is proven by more than a build, written by `make zoo`. No model file is in this
repository; the second table says where each is from. A figure is the smallest arena within 1.5 % of the fastest plan's
time, in KB (1,024 bytes). **Bold**: the firmware was built and its bytes compared with the reference for random inputs.
"too large": the model needs more SRAM or flash than the board has. An empty cell was not computed yet.
"""


def proven() -> list[str]:
    """The boards whose firmware runs somewhere."""
    return [
        board.id for board in targets.boards() if board.spec.level is not None and board.spec.level is not Level.BUILD
    ]


def licences() -> Mapping[str, tuple[str, str]]:
    """Licence and source of each model file, from the manifest beside the models."""
    found = {}
    for line in (MODELS / "MANIFEST.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) >= 6 and re.search(r"\.(tflite|onnx)$", cells[0]):
            found[cells[0]] = (cells[3], cells[2])
    return found


def cell(row: Mapping[str, Any]) -> str:
    if row["status"] not in FINAL:
        return ""
    if row["status"] == Status.REFUSED:
        return _WORDS.get(row["kind"], str(row["kind"]))
    if row["status"] not in DONE:
        return f"**{row['status']}**"
    text = f"{row['arena_bytes'] / 1024:,.1f}"
    return f"**{text}**" if row["vectors"] else text


Cells = Mapping[tuple[str, str], str]
"""By the name of a model's file and the id of a board."""


def written(text: str) -> tuple[Cells, Mapping[str, str]]:
    """The cells of an earlier page that say something, and the MACs of its models."""
    first = text.partition("| model | licence |")[0]  # a page of one board has two tables of three columns
    rows = [[said.strip() for said in line.strip("|").split("|")] for line in first.splitlines() if line[:1] == "|"]
    boards = rows[0][2:] if rows else []
    table = [row for row in rows if len(row) == len(boards) + 2 and row[0].endswith((".tflite", ".onnx"))]
    cells = {(row[0], board): said for row in table for board, said in zip(boards, row[2:], strict=True) if said}
    return cells, {row[0]: row[1] for row in table}


def page(rows: Sequence[Mapping[str, Any]], boards: Sequence[str], before: str = "") -> Iterator[str]:
    earlier, macs = written(before)
    found = {(Path(row["model_path"]).name, row["board"]): row for row in rows}
    cells = {**earlier, **{key: text for key, row in found.items() if (text := cell(row))}}
    macs = {**macs, **{name: f"{row['macs']:,}" for (name, _), row in found.items() if row["macs"]}}
    models = sorted({name for name, _ in cells})
    yield _HEAD
    yield f"| model | MACs | {' | '.join(boards)} |"
    yield "|---|---:|" + "---:|" * len(boards)
    for model in models:
        yield f"| {model} | {macs.get(model, '')} | {' | '.join(cells.get((model, board), '') for board in boards)} |"
    known = licences()
    yield ""
    yield "| model | licence | source |"
    yield "|---|---|---|"
    for model in models:
        licence, source = known.get(model, ("", ""))
        yield f"| {model} | {licence} | {source} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--until", choices=("plan", "firmware", "build", "validate", "bench"), default="plan")
    parser.add_argument("--models", nargs="+")
    parser.add_argument("--boards", nargs="+", default=proven())
    parser.add_argument("--out", type=Path, default=Path("build/zoo"))
    asked = parser.parse_args()
    files = sorted(MODELS.iterdir(), key=lambda path: (path.stat().st_size, path.name))  # what takes long comes last
    files = [path for path in files if path.suffix in (".tflite", ".onnx")]
    models = [str(path) for path in files if not asked.models or path.stem in asked.models]
    folder = asked.out.resolve()
    try:
        for number, row in enumerate(run.sweep(checked(models, asked.boards, {}, asked.until), folder), 1):
            print(number, row["model"], row["board"], row["status"], file=sys.stderr, flush=True)
    finally:
        before = PAGE.read_text() if PAGE.exists() else ""
        PAGE.write_text("\n".join(page(Rows(folder).all()[0], proven(), before)) + "\n")


if __name__ == "__main__":
    main()
