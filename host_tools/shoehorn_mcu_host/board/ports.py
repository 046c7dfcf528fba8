"""Serial ports: finds the board's port and reports faults in one line. The only module that uses pyserial."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from socket import SHUT_RDWR
from typing import Any

import serial
from serial.tools import list_ports
from serial.urlhandler import protocol_socket

from shoehorn_mcu_host.base.errors import HostError, printable

BAUD = 115200
POLL_SECONDS = 0.02  # how long `Port.read` waits for a first byte
_WRITE_SECONDS = 10.0
_REASONS = {
    errno.ENOENT: "no such port; plugged in and powered?",
    errno.EACCES: "no permission to open it; on Linux add yourself to the group dialout",
    errno.EBUSY: "busy; another program has it open",
    errno.EAGAIN: "busy; another program has it open",
}


def text_of(data: bytes) -> str:
    """What came over a wire, as text that controls no terminal: all that a board sends is shown through this.

    Printable ASCII and newlines stay, carriage returns go, and every other byte is a question mark.
    """
    return "".join(chr(b) if 0x20 <= b < 0x7F or b == 0x0A else "?" for b in data if b != 0x0D)


def candidates() -> list[tuple[str, str]]:
    """Ports that may lead to a board, with a description: USB ports, or built-in ones where there is no USB port."""
    found = sorted(list_ports.comports(), key=lambda port: str(port.device))
    usb = [port for port in found if port.vid is not None]
    built_in = [port for port in found if port.hwid != "n/a"]
    return [(port.device, printable(str(port.description))) for port in usb or built_in]


def find(port: str | None) -> str:
    """`port` itself, or the only one there is; HostError lists them where there are several."""
    if port:
        return port
    found = candidates()
    if not found:
        raise HostError("no serial port found; plug the board in, or name one with --port, or use --emulate")
    if len(found) > 1:
        listed = ", ".join(f"{device} ({what})" for device, what in found)
        raise HostError(f"several serial ports, choose one with --port: {listed}")
    return found[0][0]


class _Socket(protocol_socket.Serial):  # type: ignore[misc]
    """pyserial's `socket://` port without its sleep of 0.3 s after closing, during which an emulator computes on."""

    is_open: bool
    _socket: Any

    def close(self) -> None:
        if self.is_open:
            with suppress(OSError):
                self._socket.shutdown(SHUT_RDWR)
            self._socket.close()
            self._socket, self.is_open = None, False


class Port(AbstractContextManager["Port"]):
    """An open port: a device, a pty's path, or any URL of pyserial such as socket://localhost:3333.

    Opening, reading and writing raise HostError, one line that names the port.
    """

    def __init__(self, name: str, baud: int = BAUD):
        self.name = name
        try:
            opened: Any = _Socket if name.lower().startswith("socket://") else serial.serial_for_url
            self._serial = opened(
                name, baudrate=baud, timeout=POLL_SECONDS, write_timeout=_WRITE_SECONDS, exclusive=True
            )
        except (OSError, ValueError) as error:  # SerialException is an OSError
            raise HostError(f"{name}: {_reason(error)}") from error

    def write(self, data: bytes) -> None:
        with self._faults():
            self._serial.write(data)

    def read(self) -> bytes:
        """The bytes that have arrived; none where nothing comes within POLL_SECONDS."""
        with self._faults():
            first: bytes = self._serial.read(1)
            waiting = self._serial.in_waiting if first else 0
            return first + (self._serial.read(waiting) if waiting else b"")

    def close(self) -> None:
        self._serial.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except serial.SerialTimeoutException as error:
            raise HostError(f"{self.name}: the port accepts no more bytes; is it the board's port?") from error
        except (OSError, TypeError, ValueError) as error:
            # pyserial raises TypeError where a port disappears during a read.
            raise HostError(f"{self.name}: the port vanished; was the board unplugged?") from error


def _reason(error: Exception) -> str:
    if reason := _REASONS.get(getattr(error, "errno", None) or 0):
        return reason
    refused = "refused" in str(error)
    return "nothing answers there; is the emulator running?" if refused else f"cannot be opened: {error}"
