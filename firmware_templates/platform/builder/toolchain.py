# SPDX-License-Identifier: 0BSD
"""How each core is compiled and linked by ziglang."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import ziglang

ZIG = shutil.which("zig", path=str(Path(ziglang.__file__).parent))  # the program that `python -m ziglang` starts

# -ffp-contract=off: a fused multiply-add rounds once where the reference rounds twice
OPTIMISE = (
    "-O2",
    "-ffp-contract=off",
    "-ffunction-sections",
    "-fdata-sections",
    "-fno-jump-tables",  # so that a jump through a register is a call, which the stack bound can report
    "-fno-unwind-tables",
    "-fno-asynchronous-unwind-tables",
    "-fstack-size-section",
)
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wmissing-prototypes")

# core: Clang's triple and core, zig's target and core (for the linker and its compiler runtime)
CORES = {
    "host": None,
    "cortex-m0": ("thumbv6m-none-eabi", "cortex-m0", "thumb-freestanding-eabi", "cortex_m0"),
    "cortex-m3": ("thumbv7m-none-eabi", "cortex-m3", "thumb-freestanding-eabi", "cortex_m3"),
    "cortex-m4f": ("thumbv7em-none-eabihf", "cortex-m4", "thumb-freestanding-eabihf", "cortex_m4"),
    "cortex-m7": ("thumbv7em-none-eabihf", "cortex-m7", "thumb-freestanding-eabihf", "cortex_m7"),
    "cortex-m33": ("thumbv8m.main-none-eabihf", "cortex-m33", "thumb-freestanding-eabihf", "cortex_m33"),
    "cortex-m55": ("thumbv8.1m.main-none-eabihf", "cortex-m55", "thumb-freestanding-eabihf", "cortex_m55"),
    "arm1176": ("armv6kz-none-eabihf", "arm1176jzf-s", "arm-freestanding-eabihf", "arm1176jzf_s"),
    "cortex-a7": ("armv7a-none-eabihf", "cortex-a7", "arm-freestanding-eabihf", "cortex_a7"),
    "cortex-a53": ("aarch64-none-elf", "cortex-a53", "aarch64-freestanding-none", "cortex_a53"),
    "cortex-a76": ("aarch64-none-elf", "cortex-a76", "aarch64-freestanding-none", "cortex_a76"),
    "cortex-a710": ("aarch64-none-elf", "cortex-a76+i8mm", "aarch64-freestanding-none", "cortex_a76+i8mm"),
    "rv32imc": ("riscv32-none-elf", "rv32imc", "riscv32-freestanding-none", "generic_rv32+m+c"),
    "rv32imac": ("riscv32-none-elf", "rv32imac", "riscv32-freestanding-none", "generic_rv32+m+a+c"),
    "rv32imafc": ("riscv32-none-elf", "rv32imafc", "riscv32-freestanding-none", "generic_rv32+m+a+f+c"),
}

# The core of a Raspberry Pi Zero 2 W may compute a 64-bit multiply-accumulate behind a load wrongly: erratum 835769.
MORE_FLAGS = {"cortex-a53": ("-mfix-cortex-a53-835769",)}


@dataclass(frozen=True)
class Tools:
    """compiler: ziglang's subcommand; flags: for every source, and for the linker."""

    compiler: str
    target_flags: tuple[str, ...]
    link_flags: tuple[str, ...]
    freestanding: bool


def tools(core: str) -> Tools:
    """The tools of a core.

    A bare machine is compiled by Clang itself: `zig cc` refuses <arm_mve.h> and hides -fstack-usage's files.
    The host needs `zig cc`, which brings a libc.
    """
    if CORES[core] is None:
        return Tools("cc", (), (), False)
    triple, cpu, zig_target, zig_cpu = CORES[core]
    headers = Path(ziglang.__file__).parent / "lib" / "include"
    bare = ("-ffreestanding", "-nostdinc", "-isystem", str(headers), "-fstack-usage")
    link = ("-target", zig_target, f"-mcpu={zig_cpu}")
    return Tools("clang", (f"--target={triple}", *_core_flags(cpu), *MORE_FLAGS.get(core, ()), *bare), link, True)


def _core_flags(cpu: str) -> tuple[str, ...]:
    """Clang's flags for a core. Of RISC-V it is given as extensions; their small data needs a register that no
    start-up code sets, and relaxed calls have no target before they are linked, which the stack bound needs.
    """
    if not cpu.startswith("rv32"):
        return (f"-mcpu={cpu}",)
    abi = "ilp32f" if "f" in cpu[4:] else "ilp32"
    return (f"-march={cpu}_zicsr", f"-mabi={abi}", "-msmall-data-limit=0", "-mno-relax")
