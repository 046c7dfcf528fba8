"""Measures the RAM of real builds: the statics in estimate/ram.json, and the errors of predictions.

    python -m bench.ram [--write] [--boards NAME ...]

Some models are planned and built for each board. What the linker's figure has beside arena, stacks, buffers and a word
per op is a family's; its prediction is the middle of the least and the largest.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.base.paths import MODELS as SHIPPED
from shoehorn_mcu.emit.bundle import write
from shoehorn_mcu.estimate import ram
from shoehorn_mcu.firmware import build
from shoehorn_mcu.firmware.settings import Options
from shoehorn_mcu.machine import targets
from shoehorn_mcu_host.firmware.build import build as build_folder
from shoehorn_mcu_host.folder.project import Project
from tests.shared import MODELS

WAYS = (
    (SHIPPED / "digits.tflite", Options()),
    (SHIPPED / "digits.tflite", Options(stream_input=True)),
    (MODELS / "mlperf-ad-int8.tflite", Options()),
    (MODELS / "mlperf-kws-dscnn-int8.tflite", Options(sram_bytes=4096)),
    (MODELS / "mlperf-ic-resnet8-int8.tflite", Options(stream_input=True)),
    (MODELS / "mww-okay-nabu-v2.tflite", Options()),
    (MODELS / "fmnist-nubificus-f32.tflite", Options()),
)


def measured(board: targets.Board, folder: Path) -> Iterator[tuple[str, ram.Ram, int]]:
    """The model, the predicted parts and the linker's bytes of each way that fits the board."""
    for number, (model, options) in enumerate(WAYS):
        try:
            planned, files = build.firmware(model, board, options)
            place = folder / f"{board.id}_{number}"
            write(files, place)
            found = build_folder(Project.open(place))
        except ShoehornError as refusal:
            print(f"{board.id}, {model.stem}: {str(refusal)[:100]}")
            continue
        parts = planned.report["ram"]
        if parts is not None:
            known = {name: value for name, value in parts.items() if name != "predicted_bytes"}
            yield model.stem, ram.Ram(**known), found.ram_bytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write estimate/ram.json")
    parser.add_argument("--boards", nargs="*", help="default: all")
    arguments = parser.parse_args()
    table: dict[str, int] = json.loads(ram.DATA.read_text())
    for board in targets.boards():
        if board.spec.family == "posix" or (arguments.boards and board.id not in arguments.boards):
            continue
        table.setdefault(board.spec.family, 0)
    if arguments.write:
        ram.DATA.write_text(json.dumps(table, indent=1) + "\n")
        ram._statics.cache_clear()
    rest: dict[str, list[int]] = {}
    with TemporaryDirectory() as folder:
        for board in targets.boards():
            if board.spec.family == "posix" or (arguments.boards and board.id not in arguments.boards):
                continue
            for model, parts, found in measured(board, Path(folder)):
                off = found - parts.bytes
                rest.setdefault(board.spec.family, []).append(table[board.spec.family] + off)
                print(f"{board.id:16} {model:28} {found:9,} bytes, {off:+,} beside the prediction", flush=True)
    for family, seen in rest.items():
        table[family] = (min(seen) + max(seen)) // 2
        print(f"{family}: {min(seen):,} to {max(seen):,} bytes")
    if arguments.write:
        ram.DATA.write_text(json.dumps(dict(sorted(table.items())), indent=1) + "\n")


if __name__ == "__main__":
    main()
