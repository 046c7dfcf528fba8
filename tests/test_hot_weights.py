"""Constants in RAM: those that the flash makes the core wait for most, in the room that is left, the same bytes."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emitted import compile_library, expected, run
from samples import random_inputs
from test_cli_device import needs_qemu

import shoehorn_mcu
from shoehorn_mcu import PlanOptions
from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.base.paths import MODELS as SHIPPED
from shoehorn_mcu.emit.bundle import write
from shoehorn_mcu.emit.model.weights import constants, weights_c, weights_h
from shoehorn_mcu.emit.unit import InRam
from shoehorn_mcu.estimate import hot_weights
from shoehorn_mcu.firmware import build
from shoehorn_mcu.firmware.limits import NoBoard
from shoehorn_mcu.firmware.settings import Fit, Options
from shoehorn_mcu.machine import targets
from shoehorn_mcu_host.firmware.build import build as build_folder
from shoehorn_mcu_host.folder.project import Project

DIGITS = SHIPPED / "digits.tflite"
F405 = targets.board("netduinoplus2")


def planned(weights: int | Fit | None, board: targets.Board = F405, **more: Any) -> build.Planned:
    return build.plan_model(DIGITS, board, Options(weights_in_ram=weights, **more))


def test_by_default_every_constant_is_in_flash():
    made = planned(None)

    assert made.unit.in_ram == InRam()
    assert "weights_in_ram" not in made.report
    declared = [line for line in weights_h(made.unit, made.constants).split("\n") if line.startswith("extern ")]
    assert declared and all(line.startswith("extern const ") for line in declared)


def test_the_arrays_that_are_read_most_often_per_byte_come_first():
    """Of every array that is copied and every one that is not but has room, the copied one saves more per byte."""
    all_, half = planned(Fit.FIT), planned(2000)
    left_out = all_.unit.in_ram.names - half.unit.in_ram.names
    passes: dict[str, int] = {}
    rows = {s.name: s.node.output.type.rows for s in all_.unit.stages}
    for (index, _), name in all_.constants.names.items():
        stage = all_.unit.stages[index]
        passes[name] = passes.get(name, 0) + hot_weights.passes(stage, rows[stage.name])

    assert 0 < half.unit.in_ram.bytes <= 2000 < all_.unit.in_ram.bytes
    room = 2000 - half.unit.in_ram.bytes
    would_fit = [name for name in left_out if all_.constants.arrays[name].nbytes <= room]
    assert not would_fit
    assert max(passes[n] for n in half.unit.in_ram.names) >= max(passes[n] for n in left_out)
    assert 0 < half.unit.in_ram.saved_cycles < all_.unit.in_ram.saved_cycles


def test_what_the_arena_and_the_stack_need_is_never_taken():
    made = planned(Fit.FIT)
    limit = F405.arena_limit(1) - made.unit.plan.arena_bytes
    tight = targets.Board("tight", F405.path, "tight", F405.spec.model_copy(update={"sram_bytes": 18_000}))
    less = planned(Fit.FIT, tight)

    assert made.unit.in_ram.bytes <= limit
    assert 0 < less.unit.in_ram.bytes < made.unit.in_ram.bytes
    assert less.unit.in_ram.bytes <= tight.arena_limit(1) - less.unit.plan.arena_bytes


def test_a_flash_without_waits_has_nothing_copied():
    made = planned(Fit.FIT, targets.board("mps2-an386"))

    assert made.unit.in_ram == InRam()
    assert made.report["weights_in_ram"] == {"bytes": 0, "arrays": 0, "saved_cycles": 0}


def test_without_a_board_and_with_several_models_the_option_is_refused():
    with pytest.raises(NoBoard, match=r"--weights-in-ram is worth .*: give one by --board"):
        build.plan_model(DIGITS, None, Options(weights_in_ram=4096))
    with pytest.raises(ShoehornError, match="several models keep their weights in flash; leave the option out"):
        planned(4096, one_memory=True)


def test_the_arrays_are_variables_and_the_library_computes_the_same(tmp_path: Path):
    made = build.plan_model(DIGITS, None, Options())
    names = frozenset(list(made.constants.arrays)[::2])
    unit = replace(made.unit, in_ram=InRam(names, 1))
    found = constants(unit)
    vectors = [random_inputs(unit.graph, np.random.default_rng(seed)) for seed in range(3)]

    for name in found.arrays:
        const = "" if name in names else "const "
        assert re.search(rf"^extern (_Alignas\(\d+\) )?{const}u?int\d+_t {name}\[", weights_h(unit, found), re.M)
        assert re.search(rf"^(_Alignas\(\d+\) )?{const}u?int\d+_t {name}\[", weights_c(unit, found), re.M)
    for got, inputs in zip(run(unit, compile_library(unit, tmp_path), vectors), vectors, strict=True):
        assert all((got[name] == values).all() for name, values in expected(unit.graph, inputs).items())


def test_the_ram_of_the_firmware_is_predicted_with_its_weights(tmp_path: Path):
    made, files = build.firmware(DIGITS, F405, Options(weights_in_ram=Fit.FIT))
    write(files, tmp_path / "made")
    result = build_folder(Project.open(tmp_path / "made"))
    parts: Any = made.report["ram"]

    assert parts["weights_bytes"] == made.unit.in_ram.bytes > 2000
    assert abs(result.ram_bytes - parts["predicted_bytes"]) <= 64
    assert result.warnings == ()


@pytest.mark.long
@needs_qemu
def test_the_cycles_that_are_saved_are_those_that_are_measured(tmp_path: Path):
    """The estimated cycles of the firmware in the emulator, whose flash has five wait states, with and without."""
    cycles = []
    for weights in (None, "fit"):
        options = PlanOptions(board="netduinoplus2", weights_in_ram=weights)
        made = shoehorn_mcu.generate(DIGITS, tmp_path / str(weights), options)
        assert shoehorn_mcu.validate(made.folder, emulate=True, count=2).mismatched_vectors == 0
        timing = shoehorn_mcu.bench(made.folder, emulate=True, runs=1)
        assert timing.cycles is not None
        cycles.append(timing.cycles.totals[0].cycles)
    saved = planned(Fit.FIT).unit.in_ram.saved_cycles

    assert cycles[0] - cycles[1] == pytest.approx(saved, rel=0.1)
    assert saved > 0.05 * cycles[0]
