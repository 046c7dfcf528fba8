"""Every variant of the catalogue as a C file of its own, as a library has it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from shoehorn_mcu.kernels import CATALOGUE, Instance
from shoehorn_mcu.paths import RUNTIME_C
from shoehorn_mcu.targets import Isa

PREFIX = "sh"


def instances(isa: Isa = Isa.C) -> Iterator[Instance]:
    """Every variant of an instruction set with each of its tiles; none that is compiled for the values of an op."""
    for variant in CATALOGUE:
        if variant.isa is isa and not variant.fixes:
            yield from (Instance(variant, tile) for tile in variant.tiles)


def write_instances(folder: Path, isa: Isa = Isa.C) -> list[Path]:
    """`sh_<instance>.c` of each of them in `folder`."""
    made = {kernel.symbol(PREFIX): kernel.text(PREFIX, f"{RUNTIME_C}/") for kernel in instances(isa)}
    for name, text in made.items():
        (folder / f"{name}.c").write_text(text)
    return [folder / f"{name}.c" for name in sorted(made)]


def write_variants(folder: Path) -> None:
    """`folder` laid out as runtime_c, with `sh_<variant>` in place of the oracles."""
    shutil.copytree(RUNTIME_C, folder, ignore=shutil.ignore_patterns("*_ref.c"))
    for kernel in instances():
        source = folder / f"kernels/{kernel.contract.name}/{kernel.name}.c"
        source.write_text(kernel.text(PREFIX, "../../"))
