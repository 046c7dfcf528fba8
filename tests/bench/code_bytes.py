"""Measures the code of every kernel instance on every core, with the flags that a firmware is built with.

    python -m tests.bench.code_bytes

Rewrites `code_bytes` in generator/kernels/costs/. tests/bench/costs.py also uses it.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

from elftools.elf.elffile import ELFFile

from shoehorn_mcu.kernels import CATALOGUE, Instance
from shoehorn_mcu.paths import FIRMWARE_TEMPLATES, RUNTIME_C
from shoehorn_mcu.targets import CPUS
from tests.bench import costs_files

_FLAGS = ("-std=c11", "-c")


def _toolchain() -> ModuleType:
    path = FIRMWARE_TEMPLATES / "platform/builder/toolchain.py"
    spec = importlib.util.spec_from_file_location("toolchain", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["toolchain"] = module
    spec.loader.exec_module(module)
    return module


def _bytes(path: Path, parts: str) -> tuple[int, dict[str, int]]:
    """Code and constants of an object file; apart from them by name the functions whose names begin with `parts`."""
    with path.open("rb") as file:
        found = {s.name: int(s["sh_size"]) for s in ELFFile(file).iter_sections()}
    own = {name: size for name, size in found.items() if name.startswith((".text", ".rodata"))}
    section = f".text.{parts}"
    shared = {name.removeprefix(section): own.pop(name) for name in list(own) if name.startswith(section)}
    return sum(own.values()), shared


def measured(cpu: str) -> tuple[dict[str, int], dict[str, dict[str, int]]]:
    """Bytes by Instance.key, of the kernels that the core runs; and of the functions that such a kernel shares."""
    toolchain = _toolchain()
    tools = toolchain.tools(cpu)
    runs = [v for v in CATALOGUE if v.isa in CPUS[cpu].isas and not v.fixes and not v.is_written]
    with TemporaryDirectory() as name:
        folder = Path(name)
        kernels = [Instance(v, tile) for v in runs for tile in v.tiles]
        for kernel in kernels:
            (folder / f"{kernel.key}.c").write_text(kernel.text("sh", f"{RUNTIME_C}/"))
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
        found = {kernel.key: _bytes(folder / f"{kernel.key}.o", "sh_part_") for kernel in kernels}
    return (
        {key: own for key, (own, _) in found.items()},
        {key: parts for key, (_, parts) in found.items() if parts},
    )


def main() -> None:
    for cpu, table in costs_files.read().items():
        code, shared = measured(cpu)
        costs_files.write(cpu, {**table, "code_bytes": code, "shared_bytes": shared})


if __name__ == "__main__":
    main()
