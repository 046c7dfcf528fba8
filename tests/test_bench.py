"""The benches: what they measure can be made; the measurements themselves are `make bench` and its like."""

from __future__ import annotations

from pathlib import Path

from bench import figures
from shoehorn_mcu.firmware import build
from shoehorn_mcu.firmware.settings import Options
from shoehorn_mcu.machine import targets
from tests.shared import MODELS, needs_shared


def test_boards_of_the_tables_are_known_and_large_ones_may_be_emulated(tmp_path: Path) -> None:
    boards = {run.board for run in figures.RUNS}
    large = targets.board(str(figures.large_flash(tmp_path)))

    assert boards - {figures.LARGE_FLASH} <= {board.id for board in targets.boards()}
    assert large.spec.flash_bytes == 1 << 20
    assert large.spec.emulator is not None and "nrf51-soc.flash-size=1048576" in large.spec.emulator.arguments


@needs_shared
def test_models_of_the_tables_are_there_and_one_fits_the_large_board_alone(tmp_path: Path) -> None:
    assert all((MODELS / f"{run.model}.tflite").is_file() for run in figures.RUNS)

    model, large = MODELS / f"{figures.AD}.tflite", targets.board(str(figures.large_flash(tmp_path)))
    assert build.plan_model(model, large, Options()).report["plan"]["arena_bytes"] <= 1024
