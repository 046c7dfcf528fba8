"""Boots the built image in an emulator, or as a process, with a serial port that pyserial opens."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shoehorn_mcu_host.base import emulators, system
from shoehorn_mcu_host.base.emulators import EMULATORS, Level
from shoehorn_mcu_host.base.errors import HostError
from shoehorn_mcu_host.board.machines.job import Job
from shoehorn_mcu_host.board.ports import text_of
from shoehorn_mcu_host.folder import documents
from shoehorn_mcu_host.folder.project import Project

_START_SECONDS = 20.0
_END_SECONDS = 0.5  # that an emulator may take to end after its console was closed
_LONGEST = 300  # characters of its last words


@dataclass(frozen=True)
class Machine:
    """A running board; `url` is for serial.serial_for_url(). QEMU boots when the first client connects."""

    url: str
    process: subprocess.Popen[bytes]
    machine: str = ""  # of QEMU

    def fault(self) -> str | None:
        """Why it ended, or None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_END_SECONDS)
        code = self.process.poll()
        if code is None:
            return None
        said = text_of(self.process.stderr.read() if self.process.stderr else b"").strip().splitlines()
        if any("unsupported machine type" in line for line in said):
            return f"this QEMU has no machine {self.machine}; a later one may have it"
        return f"the emulator ended with exit code {code}" + (f": {said[-1][:_LONGEST]}" if said else "")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


def _command(project: Project, counted: bool, arguments: Sequence[str], fd: int) -> list[str]:
    """What starts the emulator of a chip, whose console is the listening socket `fd`."""
    emulator = project.spec["emulator"]
    row = EMULATORS[emulator["program"]]
    if not row.module:
        chardev = f"socket,id=console,fd={fd},server=on,wait=on,nodelay=on"
        serial = ["-chardev", chardev, "-serial", "chardev:console", *arguments]
        command: list[str] = project.upload.emulator_command(emulator, project.elf, serial, counted)
        return command
    regions = [(m["origin"], m["bytes"], int(m["kind"] != "flash")) for m in project.spec["memory"]]
    stub = None
    if row.proves is Level.CORE:
        stub = documents.read(project.folder / "stub.json", project.folder, documents.StubDocument).model_dump()
    spec = project.spec
    job = Job(str(project.elf), str(project.image), spec["family"], fd, spec["cpu"], regions, stub, counted)
    return [sys.executable, "-m", row.module, job.text()]


@contextlib.contextmanager
def _emulator(project: Project, counted: bool, arguments: Sequence[str]) -> Iterator[Machine]:
    """The listening socket is opened here and passed to the emulator, so its port is known without a race.

    wait=on delays the boot until the first connection, so that the banner is not lost. The board sends byte by byte;
    without nodelay=on each answer would wait 40 ms for the host to acknowledge its first byte.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        fd, port = listener.fileno(), listener.getsockname()[1]
        process = system.start(_command(project, counted, arguments, fd), (fd,))
    try:
        yield Machine(f"socket://127.0.0.1:{port}", process, project.spec["emulator"]["machine"])
    finally:
        _stop(process)


@contextlib.contextmanager
def _native(project: Project) -> Iterator[Machine]:
    """The process prints the path of its serial port on the first line."""
    process = system.start(project.upload.emulator_command(project.spec["emulator"], project.elf, []))
    timer = threading.Timer(_START_SECONDS, process.kill)
    timer.start()
    try:
        assert process.stdout is not None
        path = text_of(process.stdout.readline()).strip()
        timer.cancel()
        if not path:
            raise HostError(f"{project.elf}: started no serial port: {text_of(process.communicate()[1]).strip()}")
        yield Machine(path, process)
    finally:
        timer.cancel()
        _stop(process)


def emulate(
    project: Project, counted: bool = True, arguments: Sequence[str] = ()
) -> contextlib.AbstractContextManager[Machine]:
    """The built image, running until the context ends; HostError when the board has no emulator or is not built.

    With `counted` its clock counts; without, it may run several times faster, and its clock is not usable.
    `arguments` are further ones for QEMU.
    """
    emulator = project.spec.get("emulator")
    if emulator is None:
        raise HostError(f"{project.board_id}: has no emulator; give --port with the board's serial port")
    if not project.elf.is_file():
        raise HostError(f"{project.folder}: not built yet; gen emulate builds it")
    emulators.require(emulator["program"])
    if emulator["program"] == "native":
        system.require_native()
        return _native(project)
    system.require_emulation()
    return _emulator(project, counted, arguments)
