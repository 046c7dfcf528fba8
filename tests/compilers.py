"""The compilers that the C must please, and for which machines; those that are not installed are left out."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import ziglang
from objects import KEPT, compiled_all

from shoehorn_mcu_host.base import cbuild

WARNINGS = ("-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wmissing-prototypes", "-Werror")

# For this machine.
GCC = ("gcc",)
_PROGRAM = cbuild.zig() or "zig"
ZIG = (_PROGRAM, "cc")
HOST = GCC if shutil.which("gcc") else ZIG
# ziglang comes without AddressSanitizer
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all") if HOST == GCC else ("-fsanitize=undefined",)

# The clang inside of Zig starts sooner than `zig cc`, but has to be told where its headers are.
_ZIG_HEADERS = Path(ziglang.__file__).parent / "lib" / "include"
_CLANG = (_PROGRAM, "clang")
# It says that `-c` means nothing beside `-fsyntax-only`, unless it is told not to speak of its arguments.
ZIG_CLANG = (*_CLANG, "-Qunused-arguments", "-ffreestanding", "-nostdinc", "-isystem", str(_ZIG_HEADERS))

_INTRINSICS = ("arm_mve.h", "arm_neon.h")


def _modules() -> tuple[str, ...]:
    """Options of Clang by which it reads the long headers of vectors once for all sources, as modules.

    A module does not see the macros of the source that includes it; no kernel defines one that these headers read, and
    objects are the same with and without modules.
    """
    rows = [
        f'module {Path(name).stem} [system] {{ header "{_ZIG_HEADERS / name}" export * }}\n' for name in _INTRINSICS
    ]
    folder, text = KEPT / "modules", "".join(rows)
    kept = folder / "vectors.map"
    if not kept.is_file() or kept.read_text() != text:  # a module that is older than its map is made again
        folder.mkdir(parents=True, exist_ok=True)
        written = folder / f"vectors.{os.getpid()}"
        written.write_text(text)
        written.replace(kept)
    words = ("-fmodules", "-fno-implicit-module-maps", f"-fmodule-map-file={kept}")
    return (*words, f"-fmodules-cache-path={folder}")


VECTORS = (*ZIG_CLANG, *_modules())


@dataclass(frozen=True)
class Compiler:
    """A C compiler for one machine."""

    name: str
    command: tuple[str, ...]

    @property
    def installed(self) -> bool:
        return shutil.which(self.command[0]) is not None

    def run(self, *options: str, sources: Sequence[Path], folder: Path) -> None:
        """Compiles each source into `folder`; AssertionError with what the compiler said, unless that is nothing."""
        compiled_all([*self.command, *options], sources, folder)


COMPILERS = (
    Compiler("zig-host", (*ZIG_CLANG, "--target=x86_64-linux-gnu")),
    Compiler("zig-cortex-m0", (*ZIG_CLANG, "--target=thumbv6m-none-eabi", "-mcpu=cortex-m0")),
    Compiler("zig-arm1176", (*ZIG_CLANG, "--target=arm-none-eabihf", "-mcpu=arm1176jzf-s")),
    Compiler("zig-cortex-m55", (*VECTORS, "--target=thumbv8.1m.main-none-eabihf", "-mcpu=cortex-m55")),
    Compiler("zig-cortex-a53", (*VECTORS, "--target=aarch64-none-elf", "-mcpu=cortex-a53")),
    Compiler("zig-cortex-a76", (*VECTORS, "--target=aarch64-none-elf", "-mcpu=cortex-a76")),
    Compiler("zig-cortex-a710", (*VECTORS, "--target=aarch64-none-elf", "-mcpu=cortex-a76+i8mm")),
    Compiler("zig-cortex-a7", (*VECTORS, "--target=arm-none-eabihf", "-mcpu=cortex-a7", "-mfpu=neon-vfpv4")),
    Compiler("zig-riscv32", (*ZIG_CLANG, "--target=riscv32-none-elf", "-march=rv32imc")),
    Compiler("gcc-host", ("gcc",)),
    Compiler("gcc-cortex-m0", ("arm-none-eabi-gcc", "-mthumb", "-mcpu=cortex-m0")),
    Compiler(
        "gcc-cortex-m4", ("arm-none-eabi-gcc", "-mthumb", "-mcpu=cortex-m4", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16")
    ),
    Compiler("gcc-cortex-m55", ("arm-none-eabi-gcc", "-mthumb", "-mcpu=cortex-m55", "-mfloat-abi=hard")),
    Compiler("gcc-riscv64", ("riscv64-unknown-elf-gcc", "-ffreestanding")),
    Compiler("gcc-riscv32", ("riscv64-unknown-elf-gcc", "-ffreestanding", "-march=rv32imc", "-mabi=ilp32")),
    Compiler("gcc-avr", ("avr-gcc", "-mmcu=atmega2560", "-D__AVR_RODATA_IN_RAM__=0")),  # its RAM is no limit here
    Compiler("gcc-xtensa", ("xtensa-lx106-elf-gcc", "-ffreestanding")),
    Compiler("gcc-cortex-a7", ("arm-none-eabi-gcc", "-mcpu=cortex-a7", "-mfpu=neon-vfpv4", "-mfloat-abi=hard")),
)


def each_compiler(*names: str, long: Collection[str] = ()) -> pytest.MarkDecorator:
    """Parametrises `compiler`, over all or the named ones; one that is not installed skips, in words.

    Those that are named in `long` run among the long tests.
    """
    cases = []
    for compiler in COMPILERS:
        if names and compiler.name not in names:
            continue
        missing = pytest.mark.skipif(not compiler.installed, reason=f"{compiler.command[0]} is not installed")
        cases.append(
            pytest.param(
                compiler, id=compiler.name, marks=(missing, pytest.mark.long) if compiler.name in long else missing
            )
        )
    return pytest.mark.parametrize("compiler", cases)
