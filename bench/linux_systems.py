"""CPython with NumPy for other machines, run by QEMU in user mode.

A system is a folder below build/linux: packages of Debian, resolved and fetched by apt with a configuration and a state
of its own (nothing is installed on this machine), and beside them the wheels of PyPI that a program there imports.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACE = ROOT / "build" / "linux"


class NoSystem(Exception):
    """Why a system cannot be had here."""


@dataclass(frozen=True)
class System:
    """A machine with Linux and Python 3.11."""

    arch: str  # Debian's name
    qemu: str
    core: str  # QEMU's -cpu
    debian: tuple[str, ...]
    wheels: tuple[str, ...]  # of PyPI
    platforms: tuple[str, ...]  # tags of those
    getppid: int  # the number of the system call
    wheel_core: str  # --cpu of our wheels for it
    runtime: str  # the module with LiteRT's Interpreter
    yields: bool  # its threads say that they wait
    part: int  # Arm's number of the core
    name: str  # among SYSTEMS

    @property
    def folder(self) -> Path:
        return PLACE / self.arch

    @property
    def root(self) -> Path:
        return self.folder / "root"

    def command(self, script: Path, site: Path, plugin: Sequence[str] = ()) -> list[str]:
        """QEMU's command that runs a script, which imports also what is in the folder `site`."""
        places = [site, self.folder / "site", self.root / "usr/lib/python3/dist-packages"]
        environment = [f"PYTHONHOME={self.root / 'usr'}", f"PYTHONPATH={':'.join(map(str, places))}"]
        environment.append("PYTHONDONTWRITEBYTECODE=")  # installers compile Python, so the figures are without that
        words = [self.qemu, "-cpu", self.core, "-L", str(self.root), *plugin]
        words += [word for value in environment for word in ("-E", value)]
        return [*words, str(self.root / "usr/bin/python3.11"), "-S", str(script)]


# LiteRT 2.2.0 and 2.3.0 end with a segmentation fault in QEMU 7.2.
ARM64 = System(
    "arm64",
    "qemu-aarch64",
    "cortex-a53",
    ("python3.11-minimal", "libpython3.11-stdlib", "libstdc++6"),
    ("numpy==2.2.6", "ai-edge-litert==2.1.6"),
    ("manylinux2014_aarch64", "manylinux_2_17_aarch64", "manylinux_2_27_aarch64", "manylinux_2_28_aarch64"),
    173,
    "cortex-a53",
    "ai_edge_litert.interpreter",
    True,
    0xD03,
    "arm64",
)
# PyPI has no NumPy for 32-bit Arm, and no newer LiteRT. Debian's armhf is ARMv7, which runs the code for ARMv6, too.
ARMHF = System(
    "armhf",
    "qemu-arm",
    "cortex-a7",
    ("python3.11-minimal", "libpython3.11-stdlib", "libstdc++6", "python3-numpy"),
    ("tflite-runtime==2.14.0",),
    ("linux_armv7l", "manylinux_2_34_armv7l"),
    64,
    "arm1176",
    "tflite_runtime.interpreter",
    False,
    0xC07,
    "armhf",
)
SYSTEMS = (ARM64, ARMHF)
# The machine of ARMHF, with wheels for its vectors: tests run them there.
ARMV7 = replace(ARMHF, wheel_core="cortex-a7", name="armv7")


def missing(system: System) -> str:
    """What keeps this machine from making the system, or from running it; empty where nothing does."""
    if (system.root / "done").exists():
        return "" if shutil.which(system.qemu) else f"{system.qemu} is not installed"
    for program in (system.qemu, "apt-get", "dpkg-deb"):
        if not shutil.which(program):
            return f"{program} is not installed"
    return ""


def made(system: System, with_runtime: bool = True) -> System:
    """The system, made where it is not there yet; NoSystem says why it cannot be.

    Without `with_runtime` only NumPy's wheel is fetched, if there is one.
    """
    if fault := missing(system):
        raise NoSystem(fault)
    if not (system.root / "done").exists():
        _unpack(system)
        (system.root / "done").touch()
    _tell_processors(system)
    wheels = [each for each in system.wheels if with_runtime or each.startswith("numpy")]
    for wheel in wheels:
        told = system.folder / f"{wheel}.done"
        if not told.exists():
            _install(system, wheel, with_needs=system is ARM64)
            told.touch()
    return system


def _unpack(system: System) -> None:
    """Debian's packages of the system, and all that they need, below its root."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name in ("state/lists/partial", "cache/archives/partial"):
            (folder / name).mkdir(parents=True)
        (folder / "status").touch()
        options = {
            "APT::Architecture": system.arch,
            "APT::Architectures": system.arch,
            "APT::Install-Recommends": "false",
            "APT::Sandbox::User": "root",
            "Dir::State": str(folder / "state"),
            "Dir::State::status": str(folder / "status"),
            "Dir::Cache": str(folder / "cache"),
        }
        apt = ["apt-get", "-qq", *(word for item in options.items() for word in ("-o", "=".join(item)))]
        subprocess.run([*apt, "update"], check=False, capture_output=True)  # a list that fails may not be needed
        _run([*apt, "-y", "--download-only", "install", *system.debian])
        system.root.mkdir(parents=True, exist_ok=True)
        for package in sorted((folder / "cache" / "archives").glob("*.deb")):
            _run(["dpkg-deb", "-x", str(package), str(system.root)])
    for library in [*system.root.glob("usr/lib/*/blas/lib*.so.3"), *system.root.glob("usr/lib/*/lapack/lib*.so.3")]:
        shutil.copyfile(library, library.parents[1] / library.name)  # as update-alternatives would


def _tell_processors(system: System) -> None:
    """Files of Linux about four processors of the system's core, by which XNNPACK chooses its kernels.

    QEMU would show it those of this machine.
    """
    fields = {"CPU implementer": "0x41", "CPU architecture": 8, "CPU variant": "0x0", "CPU part": f"{system.part:#x}"}
    numbers = ({"processor": i, "BogoMIPS": "38.40", **fields, "CPU revision": 4} for i in range(4))
    texts = ("".join(f"{name}\t: {value}\n" for name, value in each.items()) for each in numbers)
    files = {"proc/cpuinfo": "\n".join((*texts, ""))}
    files |= {f"sys/devices/system/cpu/{name}": "0-3\n" for name in ("possible", "present", "online")}
    for name, text in files.items():
        path = system.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _install(system: System, wheel: str, with_needs: bool) -> None:
    """A wheel of PyPI, and those that it needs."""
    platforms = [word for each in system.platforms for word in ("--platform", each)]
    needs = () if with_needs else ("--no-deps",)
    with tempfile.TemporaryDirectory() as place:
        pip = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", *needs, *platforms]
        _run([*pip, "--only-binary", ":all:", "--python-version", "3.11", "--implementation", "cp", "-d", place, wheel])
        for path in sorted(Path(place).glob("*.whl")):
            zipfile.ZipFile(path).extractall(system.folder / "site")


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise NoSystem(f"{command[0]}: {(done.stderr.strip() or done.stdout.strip()).splitlines()[-1]}")


def run(system: System, script: str, site: Path, plugin: Sequence[str] = ()) -> str:
    """What a Python script prints on the system."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "script.py"
        path.write_text(script)
        done = subprocess.run(
            system.command(path, site, plugin), check=False, capture_output=True, text=True, cwd=place
        )
    if done.returncode != 0:
        raise RuntimeError(f"{system.arch}: {done.stderr[-2000:]}")
    return done.stdout


def installed(wheel: Path, site: Path) -> Path:
    """Unpacks a wheel as an installer would, into a folder."""
    zipfile.ZipFile(wheel).extractall(site)
    return site


def lines_of(path: Path) -> Iterator[list[int]]:
    """The lines of numbers in a file."""
    for line in path.read_text().splitlines():
        yield [int(word) for word in line.split()]
