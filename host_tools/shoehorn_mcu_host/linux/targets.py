"""The cores with Linux: how zig is told of each, and the tags of its wheels."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass

from shoehorn_mcu_host.base.errors import HostError, one_line

_GLIBC = "2.17"  # of manylinux_2_17, the oldest that Python 3.11 runs with


class NoLinux(HostError):
    """A core that runs no Linux, or none that wheels can be made for."""

    kind = "no-linux"


@dataclass(frozen=True)
class Target:
    """A machine with Linux."""

    triple: str  # zig's target
    core: str  # zig's -mcpu
    platforms: tuple[str, ...]  # the platform tags of a wheel


def _arm64(core: str) -> Target:
    """A 64-bit Arm core. No Raspberry Pi before the fifth has the extensions for cryptography.

    Any of the wheels may run on an A53, so all avoid its fault (errata.py).
    """
    return Target(f"aarch64-linux-gnu.{_GLIBC}", f"{core}+fix_cortex_a53_835769", ("manylinux_2_17_aarch64",))


# pip on ARMv7 takes linux_armv7l and not linux_armv6l, whose code its machine runs too. ARMv6 has no manylinux.
_ARMV6 = Target(f"arm-linux-gnueabihf.{_GLIBC}", "arm1176jzf_s", ("linux_armv6l", "linux_armv7l"))
# With NEON and VFPv4, which no tag of a wheel can ask for: the module asks Linux when it is imported.
_ARMV7 = Target(f"arm-linux-gnueabihf.{_GLIBC}", "cortex_a7", ("manylinux_2_17_armv7l",))
# With products of matrices, for which the module asks Linux, too. Some of these cores have SVE, and others lack it.
_MATRICES = _arm64("cortex_a76-aes-sha2+i8mm")
_X86_64 = Target(f"x86_64-linux-gnu.{_GLIBC}", "x86_64", ("manylinux_2_17_x86_64",))

TARGETS: Mapping[str, Target] = {
    "arm1176": _ARMV6,
    "cortex-a7": _ARMV7,
    "cortex-a53-aarch32": _ARMV7,
    "cortex-a72-aarch32": _ARMV7,
    "cortex-a53": _arm64("cortex_a53-aes-sha2"),
    "cortex-a72": _arm64("cortex_a72-aes-sha2"),
    # With the dot product, for which the module asks Linux, too.
    "cortex-a76": _arm64("cortex_a76-aes-sha2"),
    "cortex-a710": _MATRICES,
    "cortex-a720": _MATRICES,
    "neoverse-v1": _MATRICES,
}
_HOSTS: Mapping[str, Target] = {
    "x86_64": _X86_64,
    "amd64": _X86_64,
    "aarch64": _arm64("generic"),
    "arm64": _arm64("generic"),
}


def target(core: str | None) -> Target:
    """The machine of a core by its name, or with `host` that of this processor; NoLinux names the cores there are."""
    known = f"give --cpu {', '.join(TARGETS)} or host"
    if core is None:
        raise NoLinux(f"--os linux needs to know the core: {known}")
    name = core.strip().lower()
    if name == "host":
        found = _HOSTS.get(platform.machine().lower())
        if found is None:
            raise NoLinux(f"--os linux: no wheels are made for {one_line(platform.machine())}, the host; {known}")
        return found
    if name not in TARGETS:
        raise NoLinux(f"--os linux: {one_line(core)} is no core that Linux is made for here; {known}")
    return TARGETS[name]
