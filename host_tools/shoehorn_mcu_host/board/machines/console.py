"""The console of an emulated chip: bytes of a UART over a TCP connection, as QEMU's chardev has them."""

from __future__ import annotations

import contextlib
import select
import socket


class Closed(Exception):
    """The host has closed the connection."""


class Console:
    """Waits for the first connection, so that the boot banner is not lost. `received` are bytes not yet read."""

    def __init__(self, descriptor: int) -> None:
        with socket.socket(fileno=descriptor) as listener:
            self._peer, _ = listener.accept()
        self._peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = bytearray()
        self._sent = bytearray()

    def wait(self, other: socket.socket) -> bool:
        """Waits until the host or the other end has sent something, or has closed; whether the other end has."""
        return other in select.select([self._peer, other], [], [])[0]

    def put(self, byte: int) -> None:
        """The firmware sends a byte, which leaves at the next `exchange`."""
        self._sent.append(byte & 0xFF)

    def exchange(self, seconds: float = 0.0) -> None:
        """Sends what was put, and takes what has arrived; where that is nothing, waits so long for more."""
        with contextlib.suppress(BlockingIOError, InterruptedError):
            try:
                if self._sent:
                    self._peer.sendall(self._sent)
                    self._sent.clear()
                if select.select([self._peer], [], [], 0.0 if self.received else seconds)[0]:
                    data = self._peer.recv(1 << 16)
                    if not data:
                        raise Closed
                    self.received += data
            except ConnectionError as error:
                raise Closed from error
