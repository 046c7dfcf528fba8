"""The RAM that a plan predicts for a firmware, beside what the linker places."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shoehorn_mcu.base.paths import MODELS as SHIPPED
from shoehorn_mcu.emit.bundle import write
from shoehorn_mcu.estimate.ram import ram
from shoehorn_mcu.firmware import build
from shoehorn_mcu.firmware.settings import Options
from shoehorn_mcu.machine import targets
from shoehorn_mcu_host.firmware.build import build as build_folder
from shoehorn_mcu_host.folder.project import Project
from tests.shared import MODELS, needs_shared

DIGITS = SHIPPED / "digits.tflite"
PARTS = ("arena_bytes", "stack_bytes", "load_bytes", "link_bytes", "application_bytes", "weights_bytes")


def off(model: Path, board: targets.Board, options: Options, folder: Path) -> int:
    """The linker's bytes less the predicted ones."""
    planned, files = build.firmware(model, board, options)
    write(files, folder)
    predicted = planned.report["ram"]
    assert isinstance(predicted, dict)
    assert sum(predicted[part] for part in PARTS) == predicted["predicted_bytes"]
    return build_folder(Project.open(folder)).ram_bytes - predicted["predicted_bytes"]


def _boards() -> Iterator[object]:
    """The first board of each chip family; others of the family are `long`."""
    families = set[str]()
    for board in targets.boards():
        if board.id != "native":
            marks = [pytest.mark.long] if board.spec.family in families else []
            families.add(board.spec.family)
            yield pytest.param(board, id=board.id, marks=marks)


@pytest.mark.parametrize("board", list(_boards()))
def test_the_ram_of_a_board_is_predicted_within_64_bytes(board: targets.Board, tmp_path: Path) -> None:
    assert abs(off(DIGITS, board, Options(), tmp_path / "made")) <= 64


@needs_shared
@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("mlperf-ad-int8", Options()),  # inputs in float32 have a buffer
        ("mlperf-ic-resnet8-int8", Options(stream_input=True)),  # nothing holds the input
        ("mww-okay-nabu-v2", Options(cores=1)),
    ],
    ids=["ad", "ic", "mww"],
)
def test_buffers_of_inputs_are_predicted(model: str, options: Options, tmp_path: Path) -> None:
    board = targets.board("netduinoplus2")

    assert abs(off(MODELS / f"{model}.tflite", board, options, tmp_path / "made")) <= 64


def test_a_program_of_this_machine_has_no_ram_of_a_board() -> None:
    assert ram(1000, 10, 0, 1, targets.board("native")) is None
    assert build.plan_model(DIGITS, None, Options()).report["ram"] is None


def test_several_cores_have_a_stack_each(tmp_path: Path) -> None:
    board = targets.board("rpi-zero-2w")

    assert abs(off(DIGITS, board, Options(cores=4), tmp_path / "made")) <= 64
