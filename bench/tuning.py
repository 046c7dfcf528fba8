"""The table of docs/tuning.md: the portable kernel, worst and best for the core's instruction set, by board and layer.

    python -m bench.tuning MODEL BOARD ... [--write]

Runs `gen firmware` and `gen tune --emulate` for each board. --write puts the table into the page.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[1] / "docs" / "tuning.md"
_HEAD = "| board | layer | portable | worst | best | gain | gain of chosen |"


def _gen(*arguments: str | Path) -> str:
    command = [sys.executable, "-m", "shoehorn_mcu", *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def measured(model: Path, board: str) -> dict[str, Any]:
    """What `gen tune --json` prints."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "project"
        _gen("firmware", model, "--board", board, "--out", folder)
        said: dict[str, Any] = json.loads(_gen("tune", folder, "--emulate", "--out", Path(name) / "t.json", "--json"))
        return said


def lines(said: dict[str, Any]) -> Iterator[str]:
    """The rows of one board."""
    for layer in said["layers"]:
        contract = layer["key"].partition(" ")[0]
        plain = {each["kernel"]: each["time"] for each in layer["candidates"]}.get(f"{contract}_c")
        best, worst = layer["best"], layer["worst_same_isa"]
        more = len(layer["ops"]) - 1
        cells = (
            said["board"],
            f"{layer['ops'][0]}{f' and {more} more' if more else ''}",
            f"{plain:,}" if plain is not None else "",
            _cell(worst, contract) if worst else "",
            _cell(best, contract),
            f"{100 * (1 - best['time'] / worst['time']):.1f} %" if worst else "",
            f"{layer['gain_percent']} %",
        )
        yield f"| {' | '.join(cells)} |"


def _cell(each: dict[str, Any], contract: str) -> str:
    return f"{each['kernel'].removeprefix(contract + '_')}: {each['time']:,}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("boards", nargs="+")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    rows = [row for board in arguments.boards for row in lines(measured(arguments.model, board))]
    table = "\n".join((_HEAD, "|---|---|---:|---:|---:|---:|---:|", *rows))
    print(table)
    if arguments.write:
        marked = re.compile(r"(?<=<!-- table -->\n).*?(?=\n<!-- end -->)", re.S)
        PAGE.write_text(marked.sub(lambda _: table, PAGE.read_text()))


if __name__ == "__main__":
    main()
