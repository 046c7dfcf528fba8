"""Measures the flash of real builds by parts: the figures of estimate/flash.json, and the errors of its estimates.

    python -m bench.flash [--boards ID ...] [--write] [--folder DIR]

Every model is planned and built for each board. An object file's bytes are those of its sections that go into flash.
The model's own object is fitted over ops and steps; an image without it, its constants and its kernels is the
application. Sizes of kernels, and of functions of the compiler's library and of memory.c that they call, are
bench/code_bytes.py's; what of these functions every image has is part of the application (`own`).
Each estimate is made without the model's own builds (leave one out) and compared with the
linker's figure.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from elftools.elf.elffile import ELFFile

from bench import code_bytes, fit
from shoehorn_mcu.emit.bundle import write
from shoehorn_mcu.emit.folder.project import project
from shoehorn_mcu.estimate import flash
from shoehorn_mcu.firmware import build
from shoehorn_mcu.firmware.report import timeless
from shoehorn_mcu.firmware.settings import Options
from shoehorn_mcu.kernels import cost
from shoehorn_mcu.machine import targets
from shoehorn_mcu.planner import Goal
from shoehorn_mcu_host.base.errors import HostError
from shoehorn_mcu_host.firmware.build import run_pio
from shoehorn_mcu_host.folder.project import Project
from tests.shared import MODELS

BOARDS = ("microbit", "netduinoplus2", "virt-rv32")  # a core each: without and with Thumb-2, RISC-V
NAMES = (
    "mlperf-kws-dscnn-int8",
    "mlperf-vww96-int8",
    "mlperf-ic-resnet8-int8",
    "micronet-vww-2",
    "st-yamnet256-int8",
    "nano-u-botanic-int8",
    "tinymaix-cifar10-q",
    "synth-densenet-bc-40-12-int8",
    "tflm-micro-speech",
    "mww-okay-nabu-v2",
    "tflm-mnist-lstm-int8",
    "mlperf-ad-int8",
    "mlperf-ic-resnet8-f32",
)
WAYS = (Options(), Options(goal=Goal.SRAM, stream_input=True))
ENDLESS = 1 << 30
_ALLOCATED = 2  # a flag of a section


@dataclass(frozen=True)
class Build:
    """The parts of one build; bytes of flash."""

    model: str
    features: flash.Features
    constants: int
    kernels: int
    library: dict[str, int]  # of functions that the kernels call, by name
    plan: int  # the model's own object
    image: int | None  # None where the image does not fit
    functions: frozenset[str] = frozenset()  # in the image


def object_bytes(path: Path) -> int:
    """Bytes of an object file's sections that go into flash."""
    with path.open("rb") as stream:
        sections = list(ELFFile(stream).iter_sections())
    return sum(s["sh_size"] for s in sections if s["sh_flags"] & _ALLOCATED and s["sh_type"] != "SHT_NOBITS")


def built(model: Path, board: targets.Board, options: Options, folder: Path) -> Build:
    """Plans without a memory limit, builds for the real board, and measures the object files."""
    endless = board.spec.model_copy(update={"sram_bytes": ENDLESS, "flash_bytes": ENDLESS})
    planned = build.plan_model(model, replace(board, spec=endless), options)
    unit = planned.unit
    write(project(unit, planned.constants, board, "auto", timeless(planned.report)), folder)
    opened = Project.open(folder)
    image, functions = None, frozenset[str]()
    try:
        run_pio(opened, "-s")
        image, functions = json_flash(opened), frozenset(code_bytes.functions(opened.elf))
    except HostError:
        pass  # too large; its objects are there all the same
    objects = {path.stem: object_bytes(path) for path in (folder / ".pio" / "build").rglob("*.o")}
    known = flash.features(unit)
    kernels = _kernels(list((folder / ".pio" / "build").rglob(f"{unit.name}_*.o")), known, unit.name)
    library: dict[str, int] = {}
    for kernel in known.kernels:
        library |= cost.library_parts(kernel, board.spec.cpu)
    return Build(model.stem, known, planned.constants.bytes, kernels, library, objects[unit.name], image, functions)


def _kernels(paths: Sequence[Path], known: flash.Features, model: str) -> int:
    """Bytes of the kernels; of the functions that they share, one each."""
    names = {f"{model}_{kernel.name}" for kernel in known.kernels}
    found = [code_bytes.of_object(path, f"{model}_part_") for path in paths if path.stem in names]
    shared = {name: size for _, parts in found for name, size in parts.items()}
    return sum(own for own, _ in found) + sum(shared.values())


def json_flash(opened: Project) -> int:
    """The image's bytes of flash."""
    from shoehorn_mcu_host.firmware.elf import sizes

    return sizes(opened.elf, opened.spec["stack_bytes"]).flash_bytes


def figures(builds: Sequence[Build]) -> dict[str, Any]:
    """The figures of one core."""
    whole = np.array([each.plan for each in builds], float)
    rows = np.array([(1, each.features.ops, each.features.steps) for each in builds], float)
    fixed, op, step = np.linalg.lstsq(rows, whole, rcond=None)[0]
    rest = whole - [each.features.table_bytes for each in builds]
    rows = np.array([(1, *(getattr(each.features, name) for name in flash.COUNTED)) for each in builds], float)
    planned = fit.not_negative(rows, rest)
    linked = [each for each in builds if each.image is not None]
    own = sorted(
        {name for each in builds for name in each.library} & frozenset.intersection(*(e.functions for e in linked))
    )
    images = {
        streamed: mean(
            e.image - e.constants - e.kernels - _library(e, own) - e.plan
            for e in builds
            if e.image is not None and e.features.streamed is streamed
        )
        for streamed in (False, True)
    }
    return {
        "own": own,
        "application": round(images[True]),
        "streaming": round(images[True] - images[False]),
        "plan": round(float(fixed)),
        "op": round(float(op), 1),
        "step": round(float(step), 2),
        "planned": {name: round(float(each), 2) for name, each in zip(("plan", *flash.COUNTED), planned, strict=True)},
    }


def estimate(table: dict[str, Any], each: Build) -> float:
    """The image's bytes by these figures."""
    planned = table["planned"]
    plan = planned["plan"] + sum(planned[name] * getattr(each.features, name) for name in flash.COUNTED)
    application = table["application"] - (0 if each.features.streamed else table["streaming"])
    code = each.kernels + _library(each, table["own"])
    return float(each.constants + application + code + plan + each.features.table_bytes)


def _library(each: Build, own: Sequence[str]) -> int:
    """Bytes of the functions that only its kernels call."""
    return sum(size for name, size in each.library.items() if name not in own)


def errors(builds: Sequence[Build]) -> Iterator[tuple[Build, float]]:
    """(Build, per cent by which its estimate exceeds the image), without the builds of the same model."""
    for each in builds:
        others = [other for other in builds if other.model != each.model]
        if each.image is not None:
            yield each, 100 * (estimate(figures(others), each) / each.image - 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boards", nargs="*", default=BOARDS, help="the cores of others keep their figures")
    parser.add_argument("--write", action="store_true", help="write generator/shoehorn_mcu/estimate/flash.json")
    parser.add_argument("--folder", type=Path, help="where to build; default: a folder that is deleted afterwards")
    arguments = parser.parse_args()
    os.environ["SCONSFLAGS"] = "-k"  # an arena beyond the SRAM fails to compile in one object; the others are wanted
    tables = json.loads(flash.DATA.read_text())
    with TemporaryDirectory() as temporary:
        root = arguments.folder or Path(temporary)
        for board in map(targets.board, arguments.boards):
            builds = []
            for name in NAMES:
                for number, options in enumerate(WAYS):
                    folder = root / board.id / f"{name}-{number}"
                    builds.append(built(MODELS / f"{name}.tflite", board, options, folder))
                    print(board.id, name, number, builds[-1].image, flush=True)
            tables[board.spec.cpu] = figures(builds)
            print(json.dumps(tables[board.spec.cpu], indent=1))
            for each, percent in errors(builds):
                print(f"{board.spec.cpu} {each.model}: {each.image:,} bytes, estimated {percent:+.2f} %", flush=True)
    if arguments.write:
        flash.DATA.write_text(json.dumps(tables, indent=1) + "\n")


if __name__ == "__main__":
    main()
