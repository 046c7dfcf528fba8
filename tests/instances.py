"""Every variant of the catalogue as a C file of its own, as a library has it."""

from __future__ import annotations

import shutil
from pathlib import Path

from shoehorn_mcu.kernels import CATALOGUE
from shoehorn_mcu.paths import RUNTIME_C

PREFIX = "sh"


def write_instances(folder: Path) -> list[Path]:
    """`sh_<variant>.c` of each variant in `folder`."""
    texts = {kernel.symbol(PREFIX): kernel.instance(PREFIX, f"{RUNTIME_C}/") for kernel in CATALOGUE}
    for name, text in texts.items():
        (folder / f"{name}.c").write_text(text)
    return [folder / f"{name}.c" for name in sorted(texts)]


def write_variants(folder: Path) -> None:
    """`folder` laid out as runtime_c, with `sh_<variant>` in place of the oracles."""
    shutil.copytree(RUNTIME_C, folder, ignore=shutil.ignore_patterns("*_ref.c"))
    for kernel in CATALOGUE:
        source = (folder / kernel.source).with_suffix(".c")
        source.write_text(kernel.instance(PREFIX, "../../"))
