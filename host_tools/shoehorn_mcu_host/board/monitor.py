"""A line terminal for the text protocol of MLPerf Tiny: one command, then its answer up to `m-ready`."""

from __future__ import annotations

import time
from collections.abc import Iterator

from shoehorn_mcu_host.base.errors import LinkError
from shoehorn_mcu_host.board.ports import Port, text_of

_READY = "m-ready"
_QUIET_SECONDS = 0.2
_LINE = 4096  # characters of a line; a longer one is split
_LATE = 1 << 16  # characters of late answers; who sends more does not stop


class Terminal:
    """Switches a board to text mode from either mode. LinkError where it never answers."""

    def __init__(self, port: Port, seconds: float = 1.0, tries: int = 6):
        self._port = port
        self._pending = ""
        heard = ""
        for _ in range(tries):
            port.write(b"\0name%")  # the word after a 0x00 leaves frame mode
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                heard = (heard + self._text())[-_LINE:]
                if _READY in heard.partition("m-name-dut-[")[2]:
                    self._drain()
                    return
        state = "does not speak the text protocol of MLPerf Tiny" if heard else "does not answer"
        raise LinkError(f"{port.name}: the board {state}; is it the right port, powered and flashed?")

    def ask(self, command: str) -> Iterator[str]:
        """Sends a command (its `%` is added where it is missing) and yields the lines of the answer as they come.

        Waits for `m-ready` without a limit, because an inference may be long. The line itself is not yielded.
        """
        self._port.write(command.rstrip("%").encode("ascii", "replace") + b"%")
        while True:
            self._pending += self._text()
            *lines, self._pending = self._pending.split("\n")
            if len(self._pending) > _LINE:
                lines, self._pending = [*lines, self._pending], ""
            for line in lines:
                if line == _READY:
                    return
                yield line

    def stop(self) -> None:
        """Ends the inferences that a command may have begun: the board looks for a byte between two of them.

        An empty frame is no command, in neither mode.
        """
        self._port.write(b"\0\0")

    def _text(self) -> str:
        """The text that has arrived."""
        return text_of(self._port.read())

    def _drain(self) -> None:
        """Drops late answers to words that were sent more than once. LinkError where they do not end."""
        end, dropped = time.monotonic() + _QUIET_SECONDS, 0
        while time.monotonic() < end:
            if late := self._text():
                end, dropped = time.monotonic() + _QUIET_SECONDS, dropped + len(late)
            if dropped > _LATE:
                raise LinkError(f"{self._port.name}: the board does not stop sending; is it the right port?")
