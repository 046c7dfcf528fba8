"""A PlatformIO project of a vendor's framework: the library, a program that calls it, the vendor's board."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import get_args

from shoehorn_mcu.emit.bundle import Bundle
from shoehorn_mcu.emit.folder.library import library
from shoehorn_mcu.emit.folder.readme import example
from shoehorn_mcu.emit.model.weights import Constants
from shoehorn_mcu.emit.templates import TemplateError, filled
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.machine.targets import Board
from shoehorn_mcu_host.base.manifest import Framework, PlatformIO

NONE = "none"
CHOICES = (NONE, *get_args(Framework))

# The FPU, for a framework that leaves it off; the calls stay those of code without one.
_FPU = {"cortex-m4f": "fpv4-sp-d16", "cortex-m7": "fpv5-d16"}


def _faults(unit: Unit, board: Board, framework: str) -> Iterator[str]:
    """Why the framework cannot run the model, each with the cure."""
    vendor = board.spec.platformio
    if vendor is None:
        yield f"{board.id} has no platform of its own in PlatformIO (shoehorn.platformio); leave --framework out"
    elif framework not in vendor.frameworks:
        known = " or ".join(vendor.frameworks)
        yield f"PlatformIO's platform {vendor.platform} has no {framework} for {board.id}; give --framework {known}"
    if unit.cores > 1:
        yield "the program of a framework runs on one core; leave --cores out"
    if unit.other_arenas:
        names = ", ".join(arena.memory for arena in unit.other_arenas)
        yield f"the linker script of a framework has no place for {names}; give one memory with --sram"


def framework_project(unit: Unit, found: Constants, board: Board, framework: str) -> Bundle:
    """Every file of the folder, by path; TemplateError says why there is none. `framework` is one of CHOICES."""
    for fault in _faults(unit, board, framework):
        raise TemplateError(f"--framework {framework}: {fault}")
    vendor = board.spec.platformio
    assert vendor is not None
    values = _values(unit, board, vendor, framework)
    files = {**filled("frameworks/common", values), **filled(f"frameworks/{framework}", values)}
    files |= {f"lib/{unit.name}/{path}": data for path, data in library(unit, found).items()}
    return dict(sorted(files.items()))


def _values(unit: Unit, board: Board, vendor: PlatformIO, framework: str) -> Mapping[str, object]:
    """The places of the templates."""
    more = ""
    if framework == "stm32cube" and board.spec.cpu in _FPU:
        more = f" -mfpu={_FPU[board.spec.cpu]} -mfloat-abi=softfp"
    if framework in ("espidf", "zephyr"):
        more = "\n; the framework's own build compiles the library\nlib_ldf_mode = off"
    return {
        "MODEL": unit.name,
        "UPPER": unit.upper,
        "EXAMPLE": "\n".join(example(unit)),
        "BOARD": board.id,
        "NAME": board.name,
        "PLATFORM": vendor.platform,
        "ID": vendor.board,
        "FRAMEWORK": framework,
        "MORE": more,
        "ARENA": f"{unit.plan.total_bytes:,}",
        "HAL": f"{board.mcu[:7]}xx_hal.h",
        "FPU": "y" if board.spec.defines.get("SH_BOARD_FPU") else "n",
        "STACK_BYTES": board.spec.stack_bytes,
    }
