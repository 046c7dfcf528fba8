"""Measures the code of every kernel instance on every core, with the flags that a firmware is built with.

    python -m bench.code_bytes [WORD ...]

Rewrites `code_bytes` in kernels/costs/, with words only of the kernels whose names contain one. A kernel that
is compiled for a formula has the mean over the formulas of the micro benchmarks, one of integers alone over theirs.
Functions that kernels share are in `shared_bytes`, those of the compiler's library and of memory.c that they call, and
that these call, in `library_bytes`. bench/costs.py also uses it.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, TypeVar

import numpy as np
from elftools.elf.elffile import ELFFile

from bench import costs_files, micro_formulas, micro_recurrent
from shoehorn_mcu.base.paths import FIRMWARE_TEMPLATES, RUNTIME_C
from shoehorn_mcu.kernels import CATALOGUE, Instance
from shoehorn_mcu.machine.targets import Machine
from shoehorn_mcu.schedule.stage import stages

_FLAGS = ("-std=c11", "-c")
_MEMORY = FIRMWARE_TEMPLATES / "families/common/memory.c"

T = TypeVar("T")


def _toolchain() -> ModuleType:
    path = FIRMWARE_TEMPLATES / "platform/builder/toolchain.py"
    spec = importlib.util.spec_from_file_location("toolchain", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["toolchain"] = module
    spec.loader.exec_module(module)
    return module


def of_object(path: Path, parts: str) -> tuple[int, dict[str, int]]:
    """Code and constants of an object file; apart from them by name the functions whose names begin with `parts`."""
    with path.open("rb") as file:
        found = {s.name: int(s["sh_size"]) for s in ELFFile(file).iter_sections()}
    own = {name: size for name, size in found.items() if name.startswith((".text", ".rodata"))}
    section = f".text.{parts}"
    shared = {name.removeprefix(section): own.pop(name) for name in list(own) if name.startswith(section)}
    return sum(own.values()), shared


@dataclass(frozen=True)
class Measured:
    """Bytes of the kernels that a core runs, as costs/ has them."""

    code: dict[str, int]  # by Instance.code_key
    shared: dict[str, dict[str, int]]  # by Instance.key and function
    library: dict[str, dict[str, int]]  # by Instance.key and function

    def only(self, words: Sequence[str]) -> Measured:
        """Those of the kernels whose names contain one of these words."""

        def some(of: dict[str, T]) -> dict[str, T]:
            return {key: each for key, each in of.items() if any(word in key for word in words)}

        return Measured(some(self.code), some(self.shared), some(self.library))

    def into(self, table: Mapping[str, Any]) -> dict[str, Any]:
        """The table of a core with these in place of its own of the same names."""
        parts = {"code_bytes": self.code, "shared_bytes": self.shared, "library_bytes": self.library}
        return {**table, **{name: {**table.get(name, {}), **found} for name, found in parts.items()}}


def measured(cpu: str) -> Measured:
    """The kernels that the core runs."""
    toolchain = _toolchain()
    tools = toolchain.tools(cpu)
    runs = [v for v in CATALOGUE if v.isa in Machine.of(cpu, True).isas and not v.fixes and not v.is_written]
    with TemporaryDirectory() as name:
        folder = Path(name)
        kernels = [Instance(v, tile) for v in runs for tile in v.tiles] + list(_written(cpu))
        for kernel in kernels:
            (folder / f"{kernel.name}.c").write_text(kernel.text("sh", f"{RUNTIME_C}/"))
        compile_ = [toolchain.ZIG, tools.compiler, *tools.target_flags, *toolchain.OPTIMISE, *_FLAGS]
        subprocess.run([*compile_, *(f"{kernel.name}.c" for kernel in kernels)], cwd=folder, check=True)
        found = {kernel: of_object(folder / f"{kernel.name}.o", "sh_part_") for kernel in kernels}
        calls = {kernel: _called(folder / f"{kernel.name}.o") for kernel in kernels}
        subprocess.run([*compile_, "-fno-builtin", str(_MEMORY)], cwd=folder, check=True)
        link = [toolchain.ZIG, "cc", *tools.link_flags, "-nostartfiles", "-Wl,--gc-sections"]
        library = {each: _linked(link, each, folder) for each in sorted({n for names in calls.values() for n in names})}
    sizes: dict[str, list[int]] = {}
    for kernel, (own, _) in found.items():
        sizes.setdefault(kernel.code_key, []).append(own)
    libraries: dict[str, dict[str, int]] = {}
    for kernel, names in calls.items():
        for each in sorted(names):
            libraries.setdefault(kernel.key, {}).update(library[each])
    return Measured(
        {key: round(mean(each)) for key, each in sizes.items()},
        {kernel.key: parts for kernel, (_, parts) in found.items() if parts},
        libraries,
    )


def _called(path: Path) -> set[str]:
    """The functions that an object file calls and has not."""
    with path.open("rb") as file:
        symbols = list(ELFFile(file).get_section_by_name(".symtab").iter_symbols())
    return {s.name for s in symbols if s["st_shndx"] == "SHN_UNDEF" and s.name and not s.name.startswith("sh_part_")}


def _linked(link: Sequence[str], function: str, folder: Path) -> dict[str, int]:
    """The bytes of a library function and of those that it calls, by name."""
    subprocess.run([*link, f"-Wl,-e,{function}", "memory.o", "-o", "linked.elf"], cwd=folder, check=True)
    return functions(folder / "linked.elf")


def functions(path: Path) -> dict[str, int]:
    """The bytes of each function in a linked file; of several names of one the first in the alphabet."""
    found: dict[int, tuple[str, int]] = {}
    with path.open("rb") as file:
        for symbol in ELFFile(file).get_section_by_name(".symtab").iter_symbols():
            if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_size"]:
                each = symbol.name, int(symbol["st_size"])
                found[symbol["st_value"]] = min(each, found.get(symbol["st_value"], each))
    return dict(found.values())


def _written(cpu: str) -> Iterator[Instance]:
    """The kernels of formulas, each once."""
    families = (*micro_formulas.FAMILIES, micro_formulas.integers, *micro_recurrent.FAMILIES)
    graphs = (graph for family in families for graph in family(np.random.default_rng(0)))
    machine = Machine.of(cpu)
    kernels = (stage.kernel for graph in graphs for stage in stages(graph, machine))
    yield from {kernel.name: kernel for kernel in kernels if kernel.variant.is_written}.values()


def main() -> None:
    words = sys.argv[1:]
    for cpu, table in costs_files.read().items():
        found = measured(cpu)
        if words:
            found = found.only(words)
        else:
            table = {name: each for name, each in table.items() if not name.endswith("_bytes")}
        costs_files.write(cpu, found.into(table))


if __name__ == "__main__":
    main()
