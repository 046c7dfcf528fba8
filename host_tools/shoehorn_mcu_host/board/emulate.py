"""Boots the built image in QEMU, or as a process, with a serial port that pyserial opens."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shoehorn_mcu_host.base import system
from shoehorn_mcu_host.base.errors import HostError
from shoehorn_mcu_host.board.ports import text_of
from shoehorn_mcu_host.folder.project import Project

_START_SECONDS = 20.0


@dataclass(frozen=True)
class Machine:
    """A running board; `url` is for serial.serial_for_url(). QEMU boots when the first client connects."""

    url: str
    process: subprocess.Popen[bytes]

    def fault(self) -> str | None:
        """Why it ended, or None while it runs."""
        code = self.process.poll()
        return None if code is None else f"the emulator ended with exit code {code}"


def _start(command: list[str], handed_over: tuple[int, ...] = ()) -> subprocess.Popen[bytes]:
    if shutil.which(command[0]) is None:
        package = system.EMULATORS.get(command[0], command[0])
        raise HostError(f"{command[0]} is not installed; on Debian `apt-get install {package}` brings it")
    return system.start(command, handed_over)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


@contextlib.contextmanager
def _qemu(project: Project, counted: bool, arguments: Sequence[str]) -> Iterator[Machine]:
    """The listening socket is opened here and passed to QEMU, so its port is known without a race.

    wait=on delays the boot until the first connection, so that the banner is not lost. The board sends byte by byte;
    without nodelay=on each answer would wait 40 ms for the host to acknowledge its first byte.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        fd, port = listener.fileno(), listener.getsockname()[1]
        chardev = f"socket,id=console,fd={fd},server=on,wait=on,nodelay=on"
        serial = ["-chardev", chardev, "-serial", "chardev:console", *arguments]
        command = project.upload.emulator_command(project.spec["emulator"], project.elf, serial, counted)
        process = _start(command, (fd,))
    try:
        yield Machine(f"socket://127.0.0.1:{port}", process)
    finally:
        _stop(process)


@contextlib.contextmanager
def _native(project: Project) -> Iterator[Machine]:
    """The process prints the path of its serial port on the first line."""
    process = _start(project.upload.emulator_command(project.spec["emulator"], project.elf, []))
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

    With `counted` its clock counts instructions; without, it runs several times faster and its clock is not usable.
    `arguments` are further ones for QEMU.
    """
    emulator = project.spec.get("emulator")
    if emulator is None:
        raise HostError(f"{project.board_id}: has no emulator; give --port with the board's serial port")
    if not project.elf.is_file():
        raise HostError(f"{project.folder}: not built yet; gen emulate builds it")
    if emulator["program"] == "native":
        system.require_native()
        return _native(project)
    system.require_emulation()
    return _qemu(project, counted, arguments)
