# SPDX-License-Identifier: 0BSD
"""How each core is compiled and linked by ziglang."""

from dataclasses import dataclass
from pathlib import Path

import ziglang

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
    "cortex-a53": ("aarch64-none-elf", "cortex-a53", "aarch64-freestanding-none", "cortex_a53"),
}


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
    return Tools("clang", (f"--target={triple}", f"-mcpu={cpu}", *bare), link, True)
