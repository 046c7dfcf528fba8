"""What `gen doctor` looks at: whether what Shoehorn uses is here, what it is for, and how to get it.

Nothing here needs a network, rights or a package beyond Python's own: packages are looked up by their metadata and
never imported, and programs that must run are asked in child processes. A look that fails is a check that failed.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from shoehorn_mcu_host.base import cbuild, system, walls
from shoehorn_mcu_host.base.children import heard
from shoehorn_mcu_host.base.emulators import EMULATORS
from shoehorn_mcu_host.base.errors import ShoehornError, printable

DISTRIBUTION = "shoehorn-mcu"
_SECONDS = 30  # that a program may take to say its version
_LONGEST = 100  # characters of a program's words

PACKAGES = {
    "cffi": "Calls the compiled kernels and the compiled part of the planner.",
    "click": "Reads the command line.",
    "numpy": "Computes with weights and samples.",
    "onnx": "Reads .onnx models.",
    "ortools": "Plans memory with --recompute, `gen remat` and `gen pack`.",
    "platformio": "Builds and flashes firmware.",
    "pydantic": "Checks the manifests of boards and the reports of folders.",
    "pyelftools": "Measures built firmware.",
    "pyserial": "Talks to boards.",
    "rich": "Prints tables.",
    "scons": "Builds firmware within PlatformIO, which downloads no copy of its own.",
    "tflite": "Reads .tflite models.",
    "typing_extensions": "Gives types their defaults.",
    "ziglang": "Compiles firmware for every board, and the planner where there is no other C compiler.",
}
"""What each package is for that Shoehorn cannot do without."""

EXTRAS = {
    "quantize": "Quantises float models (`gen quantize`) and runs .onnx models (`gen validate --against onnxruntime`).",
    "tflite": "Runs .tflite models as a phone does (`gen validate --against tflite`).",
    "tflite-micro": "Runs .tflite models as TensorFlow Lite Micro does (`gen validate --against tflite-micro`).",
    "torch": "Reads PyTorch's models: .pt2, .pt, .pth and .ts; retrains networks (`gen slim`).",
    "images": "Reads images as samples (`gen validate`, `gen quantize`).",
    "boards": "Emulates the Raspberry Pi Pico, and the bare core of other boards (`gen validate --emulate`).",
    "energy": "Measures the energy of inferences with a Power Profiler Kit II (`gen bench --energy`).",
    "sweep": "Runs many models, boards and budgets, on this machine or a cluster (`gen sweep`).",
    "flash": "Flashes boards that have a debug probe (`gen flash`).",
}
"""What each extra of the distribution is for, but for those for development and those within another one."""


@dataclass(frozen=True)
class Check:
    """One look at this machine. `found` is a version or a place, or what is wrong."""

    name: str
    ok: bool
    found: str
    what_for: str
    cure: str
    needed: bool = False


def checks() -> Iterator[Check]:
    """All checks, in the order in which they are shown; none of them raises."""
    for look in _LOOKS:
        try:
            yield from look()
        except Exception as error:  # of metadata that is damaged, of a system that forbids to look
            said = f"cannot be looked at ({type(error).__name__}: {printable(str(error))[:_LONGEST]})"
            name = look.__name__.strip("_").replace("_", " ")
            yield Check(name, False, said, "See the next line.", "mend what the line says", needed=True)


# Python and its packages


def _python() -> Iterator[Check]:
    here = ".".join(map(str, sys.version_info[:3]))
    wanted = metadata.metadata(DISTRIBUTION)["Requires-Python"] or ""
    cure = f"install Python {wanted} and Shoehorn within it"
    yield Check("Python", _satisfies(here, wanted), here, "Runs Shoehorn.", cure, needed=True)


def _packages() -> Iterator[Check]:
    for name, wanted, extra in _requirements():
        if not extra:
            purpose, cure = PACKAGES.get(name, "Shoehorn uses it."), f"pip install '{name}{wanted}'"
        elif extra in EXTRAS:
            purpose, cure = EXTRAS[extra], f"pip install '{DISTRIBUTION}[{extra}]'"
        else:
            continue
        yield _package(name, wanted, purpose, cure, needed=not extra)


def _package(name: str, wanted: str, purpose: str, cure: str, needed: bool) -> Check:
    try:
        here = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Check(name, False, "not installed", purpose, cure, needed)
    ok = _satisfies(here, wanted)
    return Check(name, ok, here if ok else f"{here} is here, {wanted} is needed", purpose, cure, needed)


def _requirements() -> Iterator[tuple[str, str, str]]:
    """Each package that the distribution names: its name, its versions, and the extra that it is for or ""."""
    for line in metadata.requires(DISTRIBUTION) or ():
        requirement, _, marker = line.partition(";")
        found = re.match(r"([\w.-]+)\s*(.*)", requirement.strip())
        extra = re.search(r"""extra == ["']([\w-]+)["']""", marker)
        if found:
            yield found[1], found[2].strip(), extra[1] if extra else ""


def _satisfies(version: str, wanted: str) -> bool:
    """Whether a version is one of those wanted, such as `>=2.21,<2.22`; only its leading numbers count."""
    here = _numbers(version)
    for each in filter(None, (part.strip() for part in wanted.split(","))):
        sign, bound = re.fullmatch(r"([<>=!~]+)\s*(.*)", each, re.S).groups()  # type: ignore[union-attr]
        least = _numbers(bound)
        holds = {">=": here >= least, "==": here == least, "<": here < least, ">": here > least, "<=": here <= least}
        if not holds.get(sign, True):
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers that a version begins with, without zeros at the end: 2.0.1rc1 is 2, 0, 1."""
    found = re.match(r"\d+(\.\d+)*", version)
    numbers = [int(each) for each in found[0].split(".")] if found else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


# Programs


def _asked(command: Sequence[str]) -> str | None:
    """The first line that a program prints; None where it cannot be run, or fails."""
    try:
        done = heard(command, _SECONDS, check=True)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    return printable(lines[0])[:_LONGEST] if lines else ""


_PIO = """
from platformio.dependencies import get_core_dependencies
import SCons
print(get_core_dependencies()["tool-scons"].lstrip("~^>= "), SCons.__version__)
"""


def _platformio() -> Iterator[Check]:
    """PlatformIO takes 4.41101.0 for SCons 4.11.1: so its own copy is named, which it downloads where there is none."""
    said = _asked([sys.executable, "-c", _PIO])
    wanted, _, here = (said or "").partition(" ")
    digits = wanted.split(".")
    copy = ""
    if len(digits) == 3 and len(digits[1]) >= 5:
        copy = f"{digits[0]}.{int(digits[1][-4:-2])}.{int(digits[1][-2:])}"
    name, purpose = "PlatformIO offline", "Builds firmware without a network, with the SCons of PyPI."
    if said is None:
        yield Check(name, False, "PlatformIO or SCons does not run", purpose, "pip install platformio scons", True)
        return
    ok = not copy or _numbers(copy) == _numbers(here)
    found = f"SCons {here}" if ok else f"SCons {here} is here, this PlatformIO wants {copy}"
    yield Check(name, ok, found, purpose, f"pip install 'scons=={copy}'", needed=True)


def _compilers() -> Iterator[Check]:
    found = [said for each in cbuild.compilers() if (said := _asked([*each, "--version"])) is not None]
    purpose = "Compiles the planner and the reference kernels for this machine."
    cure = "pip install ziglang, or set CC to a compiler"
    yield Check("C compiler", bool(found), found[0] if found else "none runs", purpose, cure, needed=True)
    yield _program(
        "arm-none-eabi-gcc",
        "Compiles a written library with GCC; Shoehorn's own builds use ziglang.",
        "on Debian `apt-get install gcc-arm-none-eabi`",
    )
    yield _program("cargo", "Builds a crate (`gen library --framework rust`).", "https://rustup.rs")


def _emulators() -> Iterator[Check]:
    for program, row in EMULATORS.items():
        if row.what_for:
            purpose = f"Emulates {row.what_for} (`gen emulate`; `gen validate` and `gen bench` with --emulate)."
            yield _program(program, purpose, row.install)


def _program(name: str, purpose: str, cure: str) -> Check:
    if shutil.which(name) is None:
        return Check(name, False, "not installed", purpose, cure)
    said = _asked([name, "--version"])
    version = re.search(r"\d+(\.\d+)+", said or "")
    return Check(
        name, said is not None, "does not run" if said is None else version[0] if version else said, purpose, cure
    )


# What the system offers

_WALLS = (
    "import json; from {0} import confine, landlock_rules; print(json.dumps(confine(None, None, landlock_rules())))"
)


def _sandbox() -> Iterator[Check]:
    """A child process locks itself in, as one does that reads a foreign file."""
    said = _asked([sys.executable, "-c", _WALLS.format(walls.__name__)])
    stand = json.loads(said) if said else []
    purpose = "Locks in the process that reads a model, image or sound"
    lacking = walls.lacking(stand)
    rest = f"; such a process {lacking}" if lacking else "; the other walls hold alone"
    yield Check(
        "Landlock",
        "landlock" in stand,
        "stands" if "landlock" in stand else f"not offered{rest}",
        f"{purpose}: it reads no file of yours.",
        "use Linux 5.13 or later, with landlock in its list of security modules",
    )
    calls = [each for each in ("seccomp", "namespace") if each in stand]
    yield Check(
        "seccomp",
        bool(calls),
        f"{calls[0]} stands" if calls else f"not offered{rest}",
        f"{purpose}: it reaches no network and starts no process.",
        "use Linux on x86-64, AArch64 or RISC-V; in a container, a profile that permits seccomp filters",
    )


def _cache_folder() -> Iterator[Check]:
    purpose = "Keeps compiled code, so that the next command need not compile it again."
    cure = "make the folder writable, or let XDG_CACHE_HOME name another one"
    try:
        folder = cbuild.cache_folder()
    except ShoehornError as error:
        yield Check("cache folder", False, printable(str(error)), purpose, cure, needed=True)
        return
    kept = folder.name == cbuild.KEPT
    found = str(folder) if kept else f"not writable; each command compiles again, in {folder.parent}"
    yield Check("cache folder", kept, found, purpose, cure)


def _current_folder() -> Iterator[Check]:
    try:
        with tempfile.TemporaryFile(dir="."):
            fault = ""
    except OSError as error:
        fault = f"not writable ({error.strerror or error})"
    purpose = "Takes the folders that `gen firmware` and `gen library` write by default."
    cure = "change to a folder of your own, or give --out"
    yield Check("current folder", not fault, fault or str(Path.cwd()), purpose, cure)


def _serial_ports() -> Iterator[Check]:
    ports, closed, group = system.serial_ports()
    found = f"no right to open {', '.join(closed)}" if closed else ", ".join(ports) or "no port is plugged in"
    cure = (
        f"sudo usermod -aG {group} $USER, then log in again"
        if group not in ("", "root")
        else "give yourself the right to open the port"
    )
    yield Check("serial ports", not closed, found, "Lead to boards (`gen validate`, `gen bench`, `gen monitor`).", cure)


_LOOKS: tuple[Callable[[], Iterator[Check]], ...] = (
    _python,
    _packages,
    _platformio,
    _compilers,
    _emulators,
    _sandbox,
    _cache_folder,
    _current_folder,
    _serial_ports,
)
