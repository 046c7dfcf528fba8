"""Compares a single-file library with the same one as a folder: `python -m bench.single_file [MODEL ...] [--board ID]`.

Both are linked to the same application and run on the emulated board with the same inputs. A line for each model says
the instructions of one inference with either, their difference, the bytes of code, and whether all outputs are equal.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

from shoehorn_mcu.base.paths import MODELS
from shoehorn_mcu.emit.bundle import Bundle, write
from shoehorn_mcu.emit.folder.single_file import single_file
from shoehorn_mcu.firmware.build import Options, Planned, firmware
from shoehorn_mcu.machine import targets
from shoehorn_mcu_host.board.bench import INSTRUCTIONS
from shoehorn_mcu_host.board.session import connected
from shoehorn_mcu_host.firmware.build import build
from shoehorn_mcu_host.folder import vectors
from shoehorn_mcu_host.folder.plan import Plan
from shoehorn_mcu_host.folder.project import Project

INFERENCES = 3


def in_one_file(planned: Planned, files: Bundle) -> Bundle:
    """The project with the library's sources in one file."""
    source = f"lib/{planned.unit.name}/src/"
    kept = {path: text for path, text in files.items() if not path.startswith(source) or "/sh/" in path}
    return kept | {f"{source}{path}": text for path, text in single_file(planned.unit, planned.constants).items()}


def run(files: Bundle, folder: Path) -> tuple[list[int], list[tuple[bytes, ...]], int]:
    """Instructions and outputs of each inference, and the firmware's bytes of flash."""
    write(files, folder)
    project = Project.open(folder)
    flash = build(project).flash_bytes
    plan = Plan.of(project)
    ticks, outputs = [], []
    with connected(project, plan, None, emulated=True, counted=project.spec["family"] != "posix") as link:
        link.expect(plan)
        for vector in vectors.random(project.described, plan.inputs, INFERENCES, 7):
            found = link.infer(
                [array.tobytes() for array in vector],
                [end.bytes for end in plan.outputs],
                row_bytes=plan.streamed_row_bytes,
                handed_out=plan.handed_out,
            )
            ticks.append(INSTRUCTIONS.convert(found.ticks, link.hello.tick_hz))
            outputs.append(found.outputs)
    return ticks, outputs, flash


def compared(model: Path, board: targets.Board, options: Options, folder: Path) -> Iterator[str]:
    """The cells of a model's line."""
    planned, files = firmware(model, board, options)
    ticks, outputs, flash = run(files, folder / "many")
    alone, same, alone_flash = run(in_one_file(planned, files), folder / "one")
    yield from (planned.unit.name, f"{max(ticks):,}", f"{max(alone):,}")
    yield f"{100 * (max(alone) / max(ticks) - 1):+.2f} %"
    yield from (f"{flash:,}", f"{alone_flash:,}", "equal" if outputs == same else "DIFFERENT")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", type=Path, nargs="*", default=[MODELS / "digits.tflite"])
    parser.add_argument("--board", default="mps2-an386")
    given = parser.parse_args()
    board = targets.board(given.board)
    print(" | ".join(("model", "instructions", "in one file", "difference", "flash", "in one file", "outputs")))
    for model in given.models:
        with tempfile.TemporaryDirectory() as folder:
            print(" | ".join(compared(model, board, Options(), Path(folder))), flush=True)


if __name__ == "__main__":
    main()
