"""Builds a folder with PlatformIO and writes the firmware's bytes of RAM, flash and stack into report.json."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from shoehorn_mcu_host.base import system
from shoehorn_mcu_host.base.children import environment
from shoehorn_mcu_host.base.errata import may_fail
from shoehorn_mcu_host.base.errors import BuildError, MemoryTooSmall
from shoehorn_mcu_host.firmware.elf import sizes
from shoehorn_mcu_host.firmware.stack import bound
from shoehorn_mcu_host.folder.project import Project

_LIMIT_SECONDS = 1800
_SOURCES = ("src", "lib", "platform", "boards")


@dataclass(frozen=True)
class BuildResult:
    """Bytes of the firmware; `notes` explain how the stack bound was computed, `warnings` exceeded limits."""

    ram_bytes: int
    flash_bytes: int
    stack_bytes: int
    notes: tuple[str, ...]
    warnings: tuple[str, ...]


def pio_command(project: Project, *arguments: str) -> list[str]:
    """PlatformIO on this folder, from the Python that we run in."""
    return [sys.executable, "-m", "platformio", "run", "-d", str(project.folder), *arguments]


def pio_environment(project: Project) -> dict[str, str]:
    """Each folder has its own PlatformIO core directory, so no two share a platform; telemetry is off."""
    quiet = {"PLATFORMIO_SETTING_ENABLE_TELEMETRY": "no", "PLATFORMIO_SETTING_CHECK_PLATFORMIO_INTERVAL": "9999"}
    core = {"PLATFORMIO_CORE_DIR": str(project.folder / ".pio" / "core"), "PLATFORMIO_NO_ANSI": "true"}
    return environment(**quiet, **core)


@contextmanager
def _alone(project: Project) -> Iterator[None]:
    """Waits until no other process builds in this folder; BuildError where nothing can be written there."""
    if project.spec["family"] == "posix":
        system.require_native()
    made = project.folder / ".pio"
    with ExitStack() as stack:
        try:
            made.mkdir(exist_ok=True)
            stack.enter_context(system.locked(made / "lock"))
            _forget_original(project)
        except OSError as error:
            reason = error.strerror or str(error)
            cure = "make the folder writable, or build a copy of it"
            raise BuildError(f"{error.filename or made}: cannot be written ({reason}); {cure}") from error
        yield


def _forget_original(project: Project) -> None:
    """In a copied or moved folder: removes the build directory, which refers to the original folder."""
    core = project.folder / ".pio" / "core"
    for link in (core / "platforms").glob("*.pio-link"):
        if json.loads(link.read_text()).get("cwd") != str(project.folder):
            shutil.rmtree(core)
            shutil.rmtree(project.folder / ".pio" / "build", ignore_errors=True)
            return


def run_pio(project: Project, *arguments: str) -> None:
    """Runs PlatformIO quietly; BuildError carries the first error of its log, which stays in .pio/build.log."""
    with _alone(project):
        _run_pio(project, *arguments)


def _ended(command: Sequence[str], environment: Mapping[str, str], log: IO[bytes]) -> int:
    """The exit code of a process that writes to the log."""
    done = subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        timeout=_LIMIT_SECONDS,
        check=False,
    )
    return done.returncode


def _run_pio(project: Project, *arguments: str) -> None:
    log = project.folder / ".pio" / "build.log"
    with log.open("wb") as stream:
        try:
            code = _ended(pio_command(project, *arguments), pio_environment(project), stream)
        except subprocess.TimeoutExpired as error:
            raise BuildError(
                f"{project.folder}: pio did not end within {_LIMIT_SECONDS} s; its log is {log}"
            ) from error
    if code != 0:
        text = log.read_text(errors="replace")
        _refuse_overflow(project, text)
        lines = [line for line in text.splitlines() if line.strip()]
        errors = [line.strip() for line in lines if "error:" in line.lower()]
        what = (errors or lines or ["no output"])[0]
        raise BuildError(
            f"{project.folder}: pio {' '.join(['run', *arguments])} failed: {what}; the whole log is {log}"
        )


# The linker's message for each section that does not fit; the last figure includes all sections before.
_OVERFLOW = re.compile(
    r"will not fit in region '(\w+)': overflowed by (\d+) bytes|region `(\w+)' overflowed by (\d+) bytes"
)
_CURES = {
    "flash": "use a model with fewer weights, or a board with more flash (`gen boards`)",
    "ram": "write the folder again with a smaller --sram, or choose a board with more SRAM (`gen boards`)",
}


class TooLarge(MemoryTooSmall, BuildError):
    """The linker found that the firmware exceeds a memory of the board."""


def _refuse_overflow(project: Project, log: str) -> None:
    """TooLarge where the linker found that a memory is too small."""
    over: dict[str, int] = {}
    for one, count, other, number in _OVERFLOW.findall(log):
        name = (one or other).lower()
        over[name] = max(over.get(name, 0), int(count or number))
    for memory in project.spec["memory"]:
        name = memory["name"].lower()
        if name in over:
            words = {"flash": "flash", "ram": "SRAM"}.get(memory["kind"], name)
            raise TooLarge(
                f"{project.folder}: the firmware is {over[name]:,} bytes too large for the {words} of "
                f"{project.board_id} ({memory['bytes']:,} bytes)",
                memory["bytes"] + over[name],
                memory["bytes"],
                cures=(_CURES[memory["kind"]],),
            )


def is_built(project: Project) -> bool:
    """Whether the image is there and newer than every source."""
    if not project.image.is_file():
        return False
    files = [
        path for name in _SOURCES for path in (project.folder / name).rglob("*") if "__pycache__" not in path.parts
    ]
    newest = max((path.stat().st_mtime for path in files if path.is_file()), default=0.0)
    return project.image.stat().st_mtime >= newest


def measure(project: Project) -> BuildResult:
    """RAM, flash and stack bound of the built image."""
    spec = project.spec
    found = sizes(project.elf, spec["stack_bytes"])
    objects = [p for p in project.build_folder.rglob("*.o") if not p.name.startswith(".")]
    native = spec["family"] == "posix"  # the system provides its stack; only one painted frame is measured
    stack = bound(objects, "sh_start", native, bool(spec["defines"].get("SH_BOARD_FPU")))
    warnings = []
    if stack.bytes > spec["stack_bytes"] and not native:
        warnings.append(f"the stack bound of {stack.bytes:,} bytes is over the {spec['stack_bytes']:,} bytes reserved")
    report = project.report
    arena_bytes = report.together.arena_bytes if report.together else report.plan.arena_bytes
    config, board = project.folder / "src" / "app_config.h", project.folder / "lib" / "board" / "board_config.h"
    # The buffer of `db load` is there where the board has room for it, and in our application only.
    buffer = _defined(config, "SH_APP_DB_BUFFER", 0) * _defined(config, "SH_APP_DB_BYTES", 0)
    planned = arena_bytes + buffer + report.weights_in_ram.bytes
    stacks = spec["stack_bytes"] * _defined(board, "SH_BOARD_CORES", 1)  # one for each core
    statics, allowed = found.ram_bytes - stacks - planned, spec["firmware_ram_bytes"]
    if statics > allowed:
        warnings.append(
            f"statics beside the arena need {statics:,} bytes, over the {allowed:,} that the manifest allows"
        )
    if spec["cpu"] == "cortex-a53" and may_fail(project.elf.read_bytes()):
        warnings.append(
            "code at the end of a page may meet erratum 843419 of Cortex-A53, a wrong address; "
            "another plan or kernel, such as by --disable, moves it"
        )
    return BuildResult(found.ram_bytes, found.flash_bytes, stack.bytes, tuple(stack.notes), tuple(warnings))


def _defined(header: Path, name: str, otherwise: int) -> int:
    """The number that a header defines; `otherwise` where it does not, or is not there."""
    found = re.search(rf"^#define {name} (\d+)u?$", header.read_text() if header.is_file() else "", re.M)
    return int(found[1]) if found else otherwise


def build(project: Project) -> BuildResult:
    """Builds and writes report.json's `firmware`; BuildError when the build fails."""
    with _alone(project):
        return _build(project)


def ensure_built(project: Project) -> BuildResult | None:
    """Builds where the image is not there or is older than a source; None where nothing had to be built.

    When several processes call this at once, one builds and the others wait for it.
    """
    if is_built(project):
        return None
    with _alone(project):
        return None if is_built(project) else _build(project)


def _build(project: Project) -> BuildResult:
    _run_pio(project, "-s")
    result = measure(project)
    figures = {name: getattr(result, name) for name in ("ram_bytes", "flash_bytes", "stack_bytes")}
    project.report_as("firmware", figures)
    return result
