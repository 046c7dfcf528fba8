"""One board behind one port, in frames: asks, waits, asks again, and never takes a result that is not whole."""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from types import TracebackType

from shoehorn_mcu.host_tools.errors import HostError
from shoehorn_mcu.host_tools.frames import ANSWER, ERROR_TYPE, Frame, Kind, Refusal, pack, unpack
from shoehorn_mcu.host_tools.ports import Port

VERSION = 1
Progress = Callable[[int], None]  # bytes moved since the last call

_HELLO = struct.Struct("<BH8sBBHI")
_WAKE = b"\0shoehorn%\0"
_AWAKE = b"m-shoehorn-[%d]\r\nm-ready\r\n" % VERSION
_RESTART_WORDS = (b"m-timestamp-mode", b"m-init-done", b"m-ready")  # only text mode says these
_DOING = {
    Kind.HELLO: "the greeting",
    Kind.WRITE: "sending the input",
    Kind.RUN: "an inference",
    Kind.READ: "reading the output",
    Kind.TRACE: "reading the trace",
    Kind.STACK: "reading the stack's depth",
    Kind.CRC: "checking a tensor",
    Kind.BYE: "taking leave",
    Kind.PUSH: "a row of the input",
}
_COMPUTING = {Kind.RUN, Kind.PUSH}  # the board may take long to answer


class OutOfStep(Exception):
    """Board and host disagree about what was asked last; what was under way must start again."""


class Mode(IntEnum):
    """What an inference collects per op."""

    PLAIN = 0
    TIME = 1  # board ticks
    CRC = 2  # CRC-32 of the op's rows, chained in plan order


@dataclass(frozen=True)
class Timing:
    """How long to wait, in seconds, and how often to ask."""

    answer: float = 1.0
    inference: float = 1800.0  # without an answer to RUN, however often it is asked
    tries: int = 12
    wake: int = 10  # times the word that opens frame mode is sent


@dataclass(frozen=True)
class Hello:
    """What the firmware says about itself."""

    max_payload: int
    identity: str  # 16 hexadecimal digits, as in plan.json
    inputs: int
    outputs: int
    ops: int
    tick_hz: int
    name: str


@dataclass(frozen=True)
class Inference:
    """What one inference gave: ticks of the whole, the outputs' bytes, and per op what the mode asks for."""

    ticks: int
    outputs: tuple[bytes, ...]
    trace: tuple[int, ...]


def _no_progress(_: int) -> None:
    return


class Link:
    """An open link in frame mode; close it, or use it as a context, to give the board back to text mode.

    `retries` counts requests that had to be sent again, `reminders` how often a board that may still be computing was
    asked for the end of an inference again.
    """

    def __init__(self, port: Port, timing: Timing | None = None):
        self.retries = 0
        self.reminders = 0
        self._port = port
        self._timing = timing or Timing()
        self._seq = 0
        self._pending = b""
        self._run_seconds = 0.0
        self._wake()
        self.hello = self._greet()

    def __enter__(self) -> Link:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def expect(self, identity: str, model: str) -> None:
        """HostError unless the firmware was built from this plan (see plan.json)."""
        if self.hello.identity != identity:
            raise HostError(
                f"{self._port.name}: the board runs another firmware ('{self.hello.name}', {self.hello.identity}); "
                f"this folder is '{model}', {identity}: build and flash it first (gen flash)"
            )

    def infer(
        self,
        inputs: Sequence[bytes],
        output_bytes: Sequence[int],
        mode: Mode = Mode.PLAIN,
        progress: Progress = _no_progress,
        row_bytes: int = 0,
    ) -> Inference:
        """One inference on `inputs`, the bytes of each input; `output_bytes` are the sizes of the outputs.

        `row_bytes`: where the one input is streamed, the size of its rows.
        """
        for _ in range(self._timing.tries):
            try:
                if row_bytes:
                    self._stream(inputs[0], row_bytes, mode, progress)
                else:
                    self._load(inputs, progress)
                ticks = self._run(inputs, mode)
                outputs = tuple(self._read(i, size, progress) for i, size in enumerate(output_bytes))
                return Inference(ticks, outputs, () if mode is Mode.PLAIN else self._trace())
            except OutOfStep:
                self.retries += 1
                self.hello = self._greet()
        raise HostError(f"{self._port.name}: board and host do not come into step; reset the board and try again")

    def stack(self) -> tuple[int, int]:
        """Bytes of stack that were ever used, and bytes of stack there are."""
        used, size = struct.unpack("<II", self._request(Kind.STACK))
        return int(used), int(size)

    def close(self) -> None:
        """Back to text mode, as far as the board still listens."""
        try:
            self._send(Kind.BYE, b"")
            self._receive(Kind.BYE, 0.2)
        except (HostError, OutOfStep):
            pass
        self._port.close()

    def _load(self, inputs: Sequence[bytes], progress: Progress) -> None:
        for index, data in enumerate(inputs):
            self._write(index, 0, data, progress)

    def _stream(self, data: bytes, row_bytes: int, mode: Mode, progress: Progress) -> None:
        """Each row to its place, and then through the model."""
        for row, start in enumerate(range(0, len(data), row_bytes)):
            part = data[start : start + row_bytes]
            self._write(0, start, part, progress)
            self._request(Kind.PUSH, struct.pack("<BII", mode, row, zlib.crc32(part)))

    def _write(self, index: int, start: int, data: bytes, progress: Progress) -> None:
        """`data` to byte `start` of an input, in as many frames as it takes."""
        step = self.hello.max_payload - 5
        for offset in range(0, len(data), step):
            part = data[offset : offset + step]
            self._request(Kind.WRITE, struct.pack("<BI", index, start + offset) + part)
            progress(len(part))

    def _run(self, inputs: Sequence[bytes], mode: Mode) -> int:
        """Ticks. The board refuses to run (streamed: to have run) on other bytes than these."""
        begun = time.monotonic()
        crc = zlib.crc32(b"".join(inputs))
        (ticks,) = struct.unpack("<Q", self._request(Kind.RUN, struct.pack("<BI", mode, crc)))
        self._run_seconds = time.monotonic() - begun
        return int(ticks)

    def _read(self, index: int, size: int, progress: Progress) -> bytes:
        data = b""
        while len(data) < size:
            count = min(self.hello.max_payload, size - len(data))
            part = self._request(Kind.READ, struct.pack("<BIH", index, len(data), count))
            if len(part) != count:
                raise OutOfStep
            data += part
            progress(count)
        (crc,) = struct.unpack("<I", self._request(Kind.CRC, bytes([1, index])))
        if crc != zlib.crc32(data):
            raise OutOfStep
        return data

    def _trace(self) -> tuple[int, ...]:
        values: list[int] = []
        while len(values) < self.hello.ops:
            count = min(self.hello.max_payload // 4, self.hello.ops - len(values))
            values += struct.unpack(f"<{count}I", self._request(Kind.TRACE, struct.pack("<HH", len(values), count)))
        return tuple(values)

    def _wake(self) -> None:
        """Brings the board into frame mode, whichever mode it is in and whatever it was sent before."""
        heard = b""
        for _ in range(self._timing.wake):
            self._port.write(_WAKE)
            deadline = time.monotonic() + self._timing.answer
            while time.monotonic() < deadline:
                heard += self._port.read()
                if b"e-[Unknown command: shoehorn]" in heard:
                    raise HostError(f"{self._port.name}: the board answers, but its firmware is not Shoehorn's")
                _, found, rest = heard.partition(_AWAKE)
                if found:
                    self._pending = rest
                    return
        state = "answers, but never as Shoehorn's firmware does" if heard else "does not answer"
        raise HostError(f"{self._port.name}: the board {state}; is it the right port, powered and flashed?")

    def _greet(self) -> Hello:
        answer = self._request(Kind.HELLO)
        version, payload, identity, inputs, outputs, ops, tick_hz = _HELLO.unpack_from(answer)
        if version != VERSION:
            raise HostError(f"{self._port.name}: the firmware speaks link version {version}, this tool {VERSION}")
        name = answer[_HELLO.size :].decode("ascii", "replace")
        return Hello(payload, identity.hex(), inputs, outputs, ops, tick_hz, name)

    def _request(self, kind: Kind, payload: bytes = b"") -> bytes:
        """The answer's payload; asks again, with the same sequence number, until it comes."""
        self._seq = self._seq % 255 + 1
        computing = kind in _COMPUTING
        wait = self._timing.answer
        if kind is Kind.RUN:
            wait = max(wait, 2 * self._run_seconds)
        deadline = time.monotonic() + (self._timing.inference if computing else wait * self._timing.tries)
        tries = 0
        while tries < self._timing.tries or time.monotonic() < deadline:
            if tries > 0 and computing:
                self.reminders += 1
            elif tries > 0:
                self.retries += 1
            tries += 1
            self._send(kind, payload)
            answer = self._receive(kind, wait)
            if answer is not None:
                return answer
            if computing:
                wait = min(2 * wait, 60.0)  # a long inference, more likely than a lost frame
        raise HostError(f"{self._port.name}: the board does not answer during {_DOING[kind]} ({tries} tries)")

    def _send(self, kind: Kind, payload: bytes) -> None:
        self._port.write(pack(self._seq, kind, payload))

    def _receive(self, kind: Kind, seconds: float) -> bytes | None:
        """The answer to the request under way, or None where it must be sent again."""
        for frame in self._frames(kind, seconds):
            refusal = frame.payload[0] if frame.type == ERROR_TYPE and len(frame.payload) == 1 else 0
            if refusal == Refusal.BAD_FRAME and frame.seq in (0, self._seq):
                return None
            if frame.seq != self._seq:
                continue  # an answer that comes late or twice
            if refusal == Refusal.NOT_NOW:
                raise OutOfStep
            if refusal:
                raise HostError(f"{self._port.name}: the board refuses {_DOING[kind]} (error {refusal})")
            if frame.type == kind | ANSWER:
                return frame.payload
        return None

    def _frames(self, kind: Kind, seconds: float) -> Iterator[Frame]:
        """Whole frames as they arrive, for so long."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            data = self._port.read()
            if not data:
                self._listen_for_restart(self._pending, kind)
            *chunks, self._pending = (self._pending + data).split(b"\0")
            for chunk in filter(None, chunks):
                if frame := unpack(chunk):
                    yield frame
                else:
                    self._listen_for_restart(chunk, kind)

    def _listen_for_restart(self, text: bytes, kind: Kind) -> None:
        """HostError where the board speaks text, although nobody sent it back there."""
        text = text.replace(_AWAKE, b"")  # it was woken twice, because it was slow
        if b"e-[fault" in text:
            words = text[text.index(b"e-[fault") :].split(b"\r\n")[0].decode("ascii", "replace")
            raise HostError(f"{self._port.name}: the board crashed during {_DOING[kind]}: {words}")
        if any(word in text for word in _RESTART_WORDS):
            raise HostError(f"{self._port.name}: the board restarted during {_DOING[kind]}; check its power supply")
