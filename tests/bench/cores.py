"""Instructions of one inference on one core and on four of the Raspberry Pi Zero 2 W, in QEMU.

    python -m tests.bench.cores [MODEL...] [--write]

MODEL is a .tflite file. Without any, the models of the table in docs/cores.md, which --write replaces.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import shoehorn_mcu
from shoehorn_mcu import PlanOptions
from tests.shared import MODELS

BOARD, CORES = "rpi-zero-2w", 4
PAGE = Path(__file__).resolve().parents[2] / "docs" / "cores.md"
SHOWN = {
    "MobileNetV2 1.0 224": "coral-mnv2-tf2-ptq",
    "MLPerf VWW": "mlperf-vww96-int8",
    "MLPerf KWS": "mlperf-kws-dscnn-int8",
    "MLPerf IC": "mlperf-ic-resnet8-int8",
}
HEAD = (
    f"| on `{BOARD}` in QEMU, instructions | one core | four cores | times as fast |",
    "|---|---:|---:|---:|",
)


def instructions(model: Path, cores: int) -> int:
    """One inference of the fastest plan, by the slowest of so many cores."""
    with tempfile.TemporaryDirectory() as folder:
        made = shoehorn_mcu.generate(model, Path(folder) / "m", PlanOptions(board=BOARD, cores=cores))
        return int(shoehorn_mcu.bench(made.folder, emulate=True, runs=1).totals[0])


def lines(models: Mapping[str, Path]) -> Iterator[str]:
    """The table."""
    yield from HEAD
    for name, model in models.items():
        one, several = instructions(model, 1), instructions(model, CORES)
        yield f"| {name} | {one:,} | {several:,} | {one / several:.2f} |"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    named = {path.stem: path for path in given.models}
    table = []
    for line in lines(named or {name: MODELS / f"{stem}.tflite" for name, stem in SHOWN.items()}):
        print(line, flush=True)
        table.append(line)
    if given.write and not named:
        old = re.escape(HEAD[0]) + r"\n(?:\|.*\n)+"
        PAGE.write_text(re.sub(old, "\n".join(table) + "\n", PAGE.read_text()))


if __name__ == "__main__":
    main()
