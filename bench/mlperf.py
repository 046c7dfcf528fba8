"""MLPerf Tiny's six benchmarks on several boards: builds, emulates, and prints the tables of docs/mlperf.md.

The data beside the checkout are put into the layout of the public runner first. Sounds of the wake word are not there:
give the runner's own `sww_data_dir` with --sounds.

    python -m bench.mlperf --sounds tiny/benchmark/runner/sww_data_dir
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

SHARED = Path(__file__).resolve().parents[2] / "shared"
BOARDS = ("nucleo-l4r5zi", "rpi-zero", "mps3-an547", "virt-rv32")
SAMPLES = 10


def _rows(benchmark: str) -> list[str]:
    text = (SHARED / "data" / benchmark / "y_labels.csv").read_text()
    return [line for line in text.splitlines() if line]


def _files(folder: Path, rows: Sequence[str], contents: Sequence[bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "y_labels.csv").write_text("\n".join(rows) + "\n")
    for row, content in zip(rows, contents, strict=True):
        (folder / row.split(",")[0].strip()).write_bytes(content)


def _photos(rows: Sequence[str]) -> list[bytes]:
    """The photos as RGB; red and blue are swapped in the archive."""
    with tarfile.open(SHARED / "data" / "vww01" / "vww01_jpg96.tar.gz") as archive:
        found = {Path(m.name).stem: archive.extractfile(m) for m in archive.getmembers() if m.isfile()}
        files = [found[Path(row.split(",")[0].strip()).stem] for row in rows]
        assert all(files)
        return [np.asarray(Image.open(io.BytesIO(f.read())).convert("RGB"))[..., ::-1].tobytes() for f in files if f]


def prepare(folder: Path, sounds: Path | None) -> None:
    """Writes kws01, vww01, ic01 and, of `sounds`, sww01 as the public runner wants them."""
    data = SHARED / "data"
    keywords = (data / "kws01" / "x_int8_1000x490.bin").read_bytes()
    pictures = (data / "ic01" / "x_u8_200x32x32x3.bin").read_bytes()
    for name, content, size in (("kws01", keywords, 490), ("ic01", pictures, 3072)):
        _files(folder / name, _rows(name), [content[i : i + size] for i in range(0, len(content), size)])
    _files(folder / "vww01", _rows("vww01"), _photos(_rows("vww01")))
    if sounds is not None:
        shutil.copytree(sounds, folder / "sww01", dirs_exist_ok=True)


def _ran(board: str, models: Path, data: Path, out: Path, samples: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "shoehorn_mcu", "mlperf", "--board", board, "--models", str(models)]
    command += ["--data", str(data), "--out", str(out / board), "--samples", str(samples), "--emulate", "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _accuracy(row: dict[str, Any]) -> str:
    figure = row["accuracy"]
    if isinstance(figure, dict):
        return f"{figure['heard']} heard, {figure['missed']} missed, {figure['false']} false"
    return "-" if figure is None else f"{figure:.1f} % of {row['samples']}"


def table(found: Sequence[dict[str, Any]]) -> str:
    """Markdown: a row for each benchmark and board."""
    lines = ["| board | benchmark | flash | RAM | accuracy | per inference |", "|---|---|---:|---:|---|---:|"]
    for each in found:
        for row in each["benchmarks"]:
            if row["flash_bytes"] is None:
                lines.append(f"| {each['board']} | {row['task']} | - | - | {'; '.join(row['faults'])} | - |")
                continue
            speed = f"{row['per_inference']:,.0f} {row['unit']}" if row["per_inference"] else "-"
            speed += "".join(f" ({fault})" for fault in row["faults"])
            cells = (f"{row['flash_bytes']:,}", f"{row['ram_bytes']:,}", _accuracy(row), speed)
            lines.append(f"| {each['board']} | {row['task']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Runs the boards in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sounds", type=Path, help="sww_data_dir of the public runner")
    parser.add_argument("--models", type=Path, default=SHARED / "models")
    parser.add_argument("--out", type=Path, default=Path("build/mlperf"))
    parser.add_argument("--samples", type=int, default=SAMPLES)
    parser.add_argument("boards", nargs="*", default=BOARDS)
    asked = parser.parse_args()
    prepare(asked.out / "data", asked.sounds)
    print(table([_ran(b, asked.models, asked.out / "data", asked.out, asked.samples) for b in asked.boards]))


if __name__ == "__main__":
    main()
