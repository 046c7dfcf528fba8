"""Measures the code of every kernel instance on every core, with the flags that a firmware is built with.

    python -m tests.bench.code_bytes [WORD ...]

Rewrites `code_bytes` in generator/kernels/costs/, with words only of the kernels whose names contain one. A kernel that
is compiled for a formula has the mean over the formulas of the micro benchmarks, one of integers alone over theirs.
tests/bench/costs.py also uses it.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from types import ModuleType

import numpy as np
from elftools.elf.elffile import ELFFile

from shoehorn_mcu.kernels import CATALOGUE, Instance
from shoehorn_mcu.paths import FIRMWARE_TEMPLATES, RUNTIME_C
from shoehorn_mcu.stage import stages
from shoehorn_mcu.targets import CPUS, Machine
from tests.bench import costs_files, micro_formulas, micro_recurrent

_FLAGS = ("-std=c11", "-c")


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


def measured(cpu: str) -> tuple[dict[str, int], dict[str, dict[str, int]]]:
    """Bytes by Instance.code_key, of the kernels that the core runs; and of the functions that such a kernel shares."""
    toolchain = _toolchain()
    tools = toolchain.tools(cpu)
    runs = [v for v in CATALOGUE if v.isa in CPUS[cpu].isas and not v.fixes and not v.is_written]
    with TemporaryDirectory() as name:
        folder = Path(name)
        kernels = [Instance(v, tile) for v in runs for tile in v.tiles] + list(_written(cpu))
        for kernel in kernels:
            (folder / f"{kernel.name}.c").write_text(kernel.text("sh", f"{RUNTIME_C}/"))
        sources = sorted(map(str, folder.glob("*.c")))
        command = [
            sys.executable,
            "-m",
            "ziglang",
            tools.compiler,
            *tools.target_flags,
            *toolchain.OPTIMISE,
            *_FLAGS,
            *sources,
        ]
        subprocess.run(command, cwd=folder, check=True)
        found = {kernel: of_object(folder / f"{kernel.name}.o", "sh_part_") for kernel in kernels}
    sizes: dict[str, list[int]] = {}
    for kernel, (own, _) in found.items():
        sizes.setdefault(kernel.code_key, []).append(own)
    return (
        {key: round(mean(each)) for key, each in sizes.items()},
        {kernel.key: parts for kernel, (_, parts) in found.items() if parts},
    )


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
        code, shared = measured(cpu)
        kept = {key: size for key, size in table["code_bytes"].items() if words and not _named(key, words)}
        added = {key: size for key, size in code.items() if not words or _named(key, words)}
        costs_files.write(cpu, {**table, "code_bytes": kept | added, "shared_bytes": shared})


def _named(key: str, words: Sequence[str]) -> bool:
    return any(word in key for word in words)


if __name__ == "__main__":
    main()
