"""Runs a firmware in Espressif's esp-emu, a program on PATH: the chip with its boot ROM, flash, timers and UARTs.

esp-emu boots the image as it would be flashed, and serves UART0 over a TCP port of its own. Its bytes are passed on
here, so that the chip boots when the host connects, as in every other emulator.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time

from shoehorn_mcu_host.base import system
from shoehorn_mcu_host.base.errors import HostError
from shoehorn_mcu_host.board.machines.console import Console
from shoehorn_mcu_host.board.machines.job import Job, process
from shoehorn_mcu_host.board.ports import text_of

_START_SECONDS = 20.0
_RETRY_SECONDS = 0.05


def _command(job: Job, port: int) -> list[str]:
    return ["esp-emu", "--chip", job.family, "--firmware", job.image, "--uart-tcp", f"127.0.0.1:{port}"]


def _fault(process: subprocess.Popen[bytes]) -> HostError:
    """Why the program ended."""
    said = text_of(process.communicate()[1]).strip().splitlines()
    return HostError(said[-1] if said else f"it ended with exit code {process.returncode}")


def _connected(process: subprocess.Popen[bytes], port: int) -> socket.socket:
    """Its UART0. HostError: it ended, or opened no port."""
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise _fault(process)
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            time.sleep(_RETRY_SECONDS)
    raise HostError(f"it opened no port in {_START_SECONDS:g} s")


def run(job: Job) -> None:
    """Runs until the host closes the connection. HostError: the program ended before."""
    console = Console(job.socket)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    os.environ.setdefault("RUST_LOG", "error")  # nobody reads its log before it ends
    process = system.start(_command(job, port))
    try:
        with _connected(process, port) as uart:
            uart.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while True:
                said = uart.recv(1 << 16) if console.wait(uart) else None
                if said == b"":
                    process.wait(_START_SECONDS)
                    raise _fault(process)
                for byte in said or b"":
                    console.put(byte)
                console.exchange()
                uart.sendall(console.received)
                console.received.clear()
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    process("esp-emu", run)
