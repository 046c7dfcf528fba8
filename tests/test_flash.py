"""Flash before and after the build: the estimate, who is refused by it, and the linker's word in ours."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import Gen
from samples import sample
from shared import MODELS, needs_shared

from shoehorn_mcu import ops
from shoehorn_mcu.base.paths import MODELS as SHIPPED
from shoehorn_mcu.estimate import flash
from shoehorn_mcu.estimate.flash import ERROR_BYTES, Features, Flash
from shoehorn_mcu.firmware import build
from shoehorn_mcu.firmware.settings import Options
from shoehorn_mcu.machine import targets
from shoehorn_mcu.machine.targets import Machine
from shoehorn_mcu.planner import DoesNotFit
from shoehorn_mcu.schedule.stage import stages
from shoehorn_mcu_host.firmware.build import TooLarge
from shoehorn_mcu_host.firmware.build import build as build_folder
from shoehorn_mcu_host.folder.project import Project

DIGITS = SHIPPED / "digits.tflite"


def test_the_estimate_is_what_the_linker_says_within_its_error(gen: Gen, tmp_path: Path):
    folder = tmp_path / "d"
    report = json.loads(gen("firmware", "--board", "microbit", "--minimize", "sram", "--out", folder, "--json").stdout)
    estimated = report["flash"]["constant_bytes"] + report["flash"]["code_bytes"]
    linked = build_folder(Project.open(folder)).flash_bytes

    assert abs(estimated - linked) <= ERROR_BYTES, (estimated, linked)


def test_steps_tables_ops_and_kernels_all_count():
    every = flash.features(build.plan_model(DIGITS, None, Options()).unit).kernels
    least = Features(every[:1], 10, 10, 0)
    size = flash.code_bytes(least, "cortex-m0")

    assert flash.code_bytes(replace(least, steps=5000), "cortex-m0") > size + 2000
    assert flash.code_bytes(replace(least, table_bytes=700), "cortex-m0") == size + 700
    assert flash.code_bytes(replace(least, ops=20), "cortex-m0") > size + 800
    assert flash.code_bytes(replace(least, kernels=every), "cortex-m0") > size + 4000
    alone = flash.code_bytes(least, "cortex-m0", application=False)
    assert abs(alone + flash.application_bytes("cortex-m0", streamed=False) - size) <= 1  # each is rounded


def test_a_plan_in_bands_has_more_steps_and_tables():
    tight = Options(sram_bytes=1000, recompute_percent=100)
    wide, narrow = (flash.features(build.plan_model(DIGITS, None, o).unit) for o in (Options(), tight))

    assert wide.steps < narrow.steps
    assert wide.table_bytes < narrow.table_bytes


def test_only_what_is_surely_too_large_is_refused():
    needed = Flash(1000, 20_000)

    assert needed.surely_exceeds(21_000 - ERROR_BYTES - 1) and not needed.surely_exceeds(21_000 - ERROR_BYTES)
    assert needed.may_exceed(21_000 + ERROR_BYTES - 1) and not needed.may_exceed(21_000 + ERROR_BYTES)


def small(board: targets.Board, flash_bytes: int) -> targets.Board:
    """The board with less flash."""
    spec = board.spec.model_copy(update={"flash_bytes": flash_bytes})
    return targets.Board(board.id, board.path, board.name, spec)


def test_a_board_with_too_little_flash_is_refused_with_both_figures_and_the_boards_that_do():
    with pytest.raises(DoesNotFit) as caught:
        build.plan_model(DIGITS, small(targets.board("microbit"), 24_000), Options())

    found = re.search(
        r"about ([\d,]+) bytes of flash \(7,578 for constants, about ([\d,]+) for code\)", str(caught.value)
    )
    assert found and caught.value.needed_bytes == int(found[1].replace(",", "")) > 24_000
    assert "the board has 24,000; boards with flash for it: " in str(caught.value)
    assert "stm32vldiscovery" in str(caught.value)


@needs_shared
def test_boards_with_room_have_it_in_flash_as_well():
    """mlperf-ad's arena fits every board, and its 270 KB of weights only some."""
    with pytest.raises(DoesNotFit) as caught:
        build.plan_model(MODELS / "mlperf-ad-int8.tflite", None, Options(sram_bytes=200))
    enough = str(caught.value).split("boards with room for it: ")[1].split(";")[0].split(", ")

    assert "nucleo-f401re" in enough
    assert not {"microbit", "stm32vldiscovery"} & set(enough)


@pytest.mark.parametrize(
    ("board", "sram", "allowed", "others"),
    [("microbit", 600, True, False), (None, 600, True, True), ("tiny", None, False, True)],
)
def test_other_boards_are_named_where_this_one_has_too_little(
    board: str | None, sram: int | None, allowed: bool, others: bool
):
    """Where --sram alone is too small, its board has the room itself."""
    target = targets.board("microbit") if board else None
    if target is not None and board == "tiny":
        spec = target.spec.model_copy(update={"sram_bytes": target.spec.sram_bytes - target.arena_limit_bytes + 600})
        target = targets.Board("tiny", target.path, target.name, spec)
    with pytest.raises(DoesNotFit) as caught:
        build.plan_model(DIGITS, target, Options(sram_bytes=sram))

    assert (f"--sram {caught.value.needed_bytes} is enough" in caught.value.cures) == allowed
    assert any(cure.startswith("boards with room for it: ") for cure in caught.value.cures) == others


def test_what_the_linker_finds_too_large_is_said_in_our_words(gen: Gen, tmp_path: Path):
    folder = tmp_path / "d"
    gen("firmware", "--board", "microbit", "--out", folder)
    script = folder / "lib" / "board" / "link.ld"
    script.write_text(script.read_text().replace("LENGTH = 262144", "LENGTH = 30000"))

    with pytest.raises(TooLarge, match=r"bytes too large for the flash of microbit") as caught:
        build_folder(Project.open(folder))
    over = int(re.search(r"is ([\d,]+) bytes too", str(caught.value))[1].replace(",", ""))
    assert caught.value.kind == "does-not-fit"
    assert caught.value.needed_bytes - caught.value.available_bytes == over > 1000
    assert "`gen boards`" in str(caught.value) and "lld" not in str(caught.value)


@pytest.mark.parametrize("limit", [38_500, 40_000, 42_000])
def test_kernels_leave_flash_for_the_steps(limit: int):
    whole = build.plan_model(DIGITS, small(targets.board("microbit"), limit), Options())
    flash = whole.report["flash"]

    assert flash["constant_bytes"] + flash["code_bytes"] <= limit


def test_a_model_of_one_op_takes_flash_too() -> None:
    graph = sample(ops.MaxPool2d, np.random.default_rng(1))
    chosen = stages(graph, Machine.of("cortex-m4f"))
    alone, whole = (build.least_flash(chosen, application) for application in (False, True))

    assert len(chosen) == 1
    assert alone.constant_bytes == whole.constant_bytes == sum(stage.weight_bytes for stage in chosen)
    assert whole.code_bytes - alone.code_bytes == flash.application_bytes("cortex-m4f", False)
