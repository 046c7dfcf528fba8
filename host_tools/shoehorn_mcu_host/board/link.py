"""The framed link to one board: sends requests, repeats lost ones, and accepts only results with a correct CRC.

Every request and every inference has a deadline, whatever the board answers.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import IntEnum
from time import monotonic
from typing import TypeVar

from shoehorn_mcu_host.base.errors import HostError, LinkError
from shoehorn_mcu_host.board.frames import ANSWER, ERROR_TYPE, Frame, Kind, Refusal, pack, unpack
from shoehorn_mcu_host.board.ports import Port, text_of
from shoehorn_mcu_host.folder.plan import Plan

VERSION = 1
Progress = Callable[[int], None]  # bytes moved since the last call
_Found = TypeVar("_Found")

_HELLO = struct.Struct("<BH8sBBHI")
_PAYLOADS = range(32, 1025)  # SH_APP_FRAME_BYTES
_NAME_LENGTH = 80  # characters of the model's name in messages
_WAKE = b"\0shoehorn%\0"
_AWAKE = b"m-shoehorn-[%d]\r\nm-ready\r\n" % VERSION
_HEARD_BYTES = 4096  # most bytes kept of an incomplete frame
_QUESTION = "is it the right port, powered and flashed?"
_RESTART_WORDS = (b"m-timestamp-mode", b"m-init-done", b"m-ready")  # only text mode says these
_ROWS = 0x80  # added to the mode: the board sends rows of a streamed output as it hands them out
_WHOLE = 0xFFFF  # in place of an op: the whole inference
_OFFSET_BYTES = 4  # in front of rows: where in the output they begin
_COMPUTING = {Kind.RUN, Kind.PUSH}  # the board may need long to answer


class OutOfStep(Exception):
    """Board and host disagree about the last request; the inference in progress must be restarted."""


class Mode(IntEnum):
    """The value that an inference collects per op."""

    PLAIN = 0
    TIME = 1  # board ticks
    CRC = 2  # CRC-32 of the op's rows, chained in plan order
    MARK = 3  # how often steps of the marked op have run, in firmware with marks


@dataclass(frozen=True)
class Timing:
    """Time limits in seconds, and numbers of attempts."""

    answer: float = 1.0  # for the answer to a request that needs no computing
    inference: float = 1800.0  # for the answer to RUN or PUSH, over all repetitions
    tries: int = 12
    wake: int = 10  # how often the word that opens frame mode is sent

    @classmethod
    def for_work(cls, instructions: int, traced_bytes: int) -> Timing:
        """Enough for a core with 500,000 instructions per second and 100 instructions per byte of CRC."""
        return cls(inference=30.0 + (instructions + 100 * traced_bytes) / 500_000)

    def whole(self, requests: int) -> float:
        """The limit for one inference with this many requests, each of which may be lost once on average."""
        return self.inference + self.answer * (requests + self.tries)


@dataclass(frozen=True)
class Hello:
    """The firmware's answer to the greeting, or to the choice of a model."""

    max_payload: int
    identity: str  # 16 hexadecimal digits, as in plan.json
    inputs: int
    outputs: int
    ops: int
    tick_hz: int
    name: str
    models: int = 1  # in the firmware


@dataclass(frozen=True)
class Inference:
    """The result of one inference: ticks of the whole, the outputs' bytes, and per op the figure of the mode."""

    ticks: int
    outputs: tuple[bytes, ...]
    trace: tuple[int, ...]


@dataclass
class _Rows:
    """The parts of a streamed output that have arrived, by offset. All attempts at one inference fill the same gaps."""

    size: int  # of the whole, in bytes
    progress: Progress
    parts: dict[int, bytes] = field(default_factory=dict)

    def take(self, payload: bytes) -> None:
        """Takes the offset and the bytes of a frame, in which a CRC was right."""
        offset, part = int.from_bytes(payload[:_OFFSET_BYTES], "little"), payload[_OFFSET_BYTES:]
        if offset not in self.parts:
            self.progress(len(part))
        self.parts[offset] = part

    @property
    def whole(self) -> bytes | None:
        """The output, where no part is missing."""
        data = b"".join(part for _, part in sorted(self.parts.items()))
        return data if len(data) == self.size else None


class Link(AbstractContextManager["Link"]):
    """An open link in frame mode; close it, or use it as a context, to give the board back to text mode.

    `retries` counts requests that were repeated because an answer was lost, `reminders` those repeated while the board
    may still have been computing. `clock` gives the seconds that the time limits count.
    """

    def __init__(self, port: Port, timing: Timing | None = None, clock: Callable[[], float] = monotonic):
        self.retries = 0
        self.reminders = 0
        self._port = port
        self._clock = clock
        self._timing = timing or Timing()
        self._seq = 0
        self._model = 0  # the number of the one that requests are about
        self._keeps = False  # whether the model keeps states, which an inference that is repeated would change twice
        self._pending = b""
        self._rows: _Rows | None = None  # of the inference under way, where its output is streamed
        self._deadline = float("inf")  # of the inference under way
        self._wake()
        self.hello = self._greet()

    def __exit__(self, *_: object) -> None:
        self.close()

    def reset(self) -> None:
        """Greets the board anew, at which the states of the selected model take their first values."""
        self.hello = self._greet()

    def select(self, number: int, timing: Timing | None = None) -> None:
        """Requests are about this model of the firmware from now on; its states take their first values.

        Does nothing where the firmware has no such model: `expect` then refuses the one that is there. `timing` are the
        limits for it.
        """
        self._timing = timing or self._timing
        if number != self._model:
            self._model = number
            self.hello = self._greet()

    def expect(self, plan: Plan) -> None:
        """HostError unless the selected model of the firmware was built from this plan."""
        hello, name = self.hello, self._port.name
        self._keeps = bool(plan.states)
        if hello.identity != plan.identity:
            raise HostError(
                f"{name}: the board runs another firmware ('{hello.name}', {hello.identity}); "
                f"this folder is '{plan.model}', {plan.identity}: build and flash it first (gen flash)"
            )
        counts = (len(plan.inputs), len(plan.outputs), len(plan.ops))
        if (hello.inputs, hello.outputs, hello.ops) != counts:
            told = f"{hello.inputs} inputs, {hello.outputs} outputs and {hello.ops} ops"
            raise LinkError(f"{name}: the board has this plan's identity, but reports {told}: flash it again")

    def infer(
        self,
        inputs: Sequence[bytes],
        output_bytes: Sequence[int],
        mode: Mode = Mode.PLAIN,
        progress: Progress = lambda _: None,
        row_bytes: int = 0,
        handed_out: bool = False,
    ) -> Inference:
        """One inference on `inputs`, the bytes of each input; `output_bytes` are the sizes of the outputs.

        `row_bytes`: where the one input is streamed, the size of its rows. `handed_out`: the one output is streamed. It
        is sent while the board computes, and the ticks count that; without `output_bytes` nothing is sent. LinkError
        after `Timing.whole` seconds.
        """
        asked = mode | _ROWS if handed_out and output_bytes else mode

        def whole() -> Inference:
            if row_bytes:
                self._stream(inputs[0], row_bytes, asked, progress)
            else:
                for index, data in enumerate(inputs):
                    self._write(index, 0, data, progress)
            ticks = self._request_run(inputs, asked)
            if handed_out:
                outputs = tuple(self._handed_out() for _ in output_bytes)
            else:
                outputs = tuple(self._read(i, size, progress) for i, size in enumerate(output_bytes))
            return Inference(ticks, outputs, () if mode is Mode.PLAIN else self._trace())

        self._rows = _Rows(sum(output_bytes), progress) if handed_out else None
        moved = sum(map(len, inputs)) + sum(output_bytes) + 4 * self.hello.ops
        requests = moved // (self.hello.max_payload - 5) + len(inputs) + 2 * len(output_bytes) + 2
        requests += 2 * (len(inputs[0]) // row_bytes) if row_bytes else 0
        self._deadline = self._clock() + self._timing.whole(requests)
        try:
            return self._in_step(whole)
        finally:
            self._deadline = float("inf")

    def run(self, inputs: Sequence[bytes], mode: Mode) -> Inference:
        """An inference on what the inputs hold already, which must be these bytes; outputs stay on the board.

        `bench.costs` times kernels so on the zeros of a start.
        """
        ticks = self._request_run(inputs, mode)
        return Inference(ticks, (), () if mode is Mode.PLAIN else self._trace())

    def mark(self, op: int | None, repeats: int) -> None:
        """Inferences with Mode.MARK run each step of this op (None: the whole inference) so often, with the mark on."""
        payload = struct.pack("<HI", _WHOLE if op is None else op, repeats)
        self._in_step(lambda: self._request(Kind.MARK, payload, 0))

    def stack(self) -> tuple[int, int]:
        """Bytes of stack used since boot, and size of the stack."""
        used, size = struct.unpack("<II", self._in_step(lambda: self._request(Kind.STACK, b"", 8)))
        return int(used), int(size)

    def _in_step(self, action: Callable[[], _Found]) -> _Found:
        """The result of `action`; after OutOfStep the board is greeted anew and `action` restarted."""
        for _ in range(self._timing.tries):
            try:
                return action()
            except OutOfStep:
                if self._keeps:
                    raise LinkError(
                        f"{self._port.name}: an answer was lost, and with it the states that the model keeps between "
                        "inferences; run the command again"
                    ) from None
                self.retries += 1
                self.hello = self._greet()
        raise LinkError(f"{self._port.name}: board and host cannot synchronise; reset the board and try again")

    def close(self) -> None:
        """Switches back to text mode, if the board still answers."""
        try:
            self._send(Kind.BYE, b"")
            self._receive(Kind.BYE, 0.2)
        except (HostError, OutOfStep):
            pass
        self._port.close()

    def _stream(self, data: bytes, row_bytes: int, mode: int, progress: Progress) -> None:
        """Writes and pushes each row of a streamed input."""
        for row, start in enumerate(range(0, len(data), row_bytes)):
            part = data[start : start + row_bytes]
            self._write(0, start, part, progress)
            self._request(Kind.PUSH, struct.pack("<BII", mode, row, zlib.crc32(part)), 0)

    def _write(self, index: int, start: int, data: bytes, progress: Progress) -> None:
        """Writes `data` to an input from byte `start` on, in as many frames as needed."""
        step = self.hello.max_payload - 5
        for offset in range(0, len(data), step):
            part = data[offset : offset + step]
            self._request(Kind.WRITE, struct.pack("<BI", index, start + offset) + part, 0)
            progress(len(part))

    def _request_run(self, inputs: Sequence[bytes], mode: int) -> int:
        """Runs an inference and returns its ticks. The CRC makes the board refuse if its inputs are other bytes."""
        crc = zlib.crc32(b"".join(inputs))
        (ticks,) = struct.unpack("<Q", self._request(Kind.RUN, struct.pack("<BI", mode, crc), 8))
        return int(ticks)

    def _read(self, index: int, size: int, progress: Progress) -> bytes:
        data = b""
        while len(data) < size:
            count = min(self.hello.max_payload, size - len(data))
            data += self._request(Kind.READ, struct.pack("<BIH", index, len(data), count), count)
            progress(count)
        return self._confirmed(index, data)

    def _handed_out(self) -> bytes:
        """The one output, from the frames that came while the board computed. OutOfStep where one was lost."""
        assert self._rows is not None
        if (data := self._rows.whole) is None:
            raise OutOfStep
        self._rows.parts.clear()  # where they are not the board's, none of them is kept
        return self._confirmed(0, data)

    def _confirmed(self, index: int, data: bytes) -> bytes:
        """The bytes of an output, if the board says the same CRC; else OutOfStep."""
        (crc,) = struct.unpack("<I", self._request(Kind.CRC, bytes([1, index]), 4))
        if crc != zlib.crc32(data):
            raise OutOfStep
        return data

    def _trace(self) -> tuple[int, ...]:
        values: list[int] = []
        while len(values) < self.hello.ops:
            count = min(self.hello.max_payload // 4, self.hello.ops - len(values))
            answer = self._request(Kind.TRACE, struct.pack("<HH", len(values), count), 4 * count)
            values += struct.unpack(f"<{count}I", answer)
        return tuple(values)

    def _wake(self) -> None:
        """Switches the board to frame mode, whatever its mode and whatever it was sent before."""
        heard = b""
        for _ in range(self._timing.wake):
            self._port.write(_WAKE)
            deadline = self._clock() + self._timing.answer
            while self._clock() < deadline:
                heard = heard[-_HEARD_BYTES:] + self._port.read()
                if b"e-[Unknown command: shoehorn]" in heard:
                    raise LinkError(f"{self._port.name}: the board answers, but its firmware is not Shoehorn's")
                _, found, rest = heard.partition(_AWAKE)
                if found:
                    self._pending = rest
                    return
        state = "answers, but never as Shoehorn's firmware does" if heard else "does not answer"
        emulated = str(self._port.name).startswith("socket://")
        question = "is its UART the emulator's, or its family's stub?" if emulated else _QUESTION
        raise LinkError(f"{self._port.name}: the board {state}; {question}")

    def _greet(self) -> Hello:
        """Greets the board, which selects its first model, and then selects the one that requests are about."""
        hello = self._hello(Kind.HELLO)
        return self._hello(Kind.MODEL, bytes([self._model])) if 0 < self._model < hello.models else hello

    def _hello(self, kind: Kind, payload: bytes = b"") -> Hello:
        try:
            answer = self._request(kind, payload)
        except OutOfStep:
            raise LinkError(f"{self._port.name}: the board refuses {kind.doing} (error 4)") from None
        if len(answer) < _HELLO.size:
            raise LinkError(
                f"{self._port.name}: the board's greeting has {len(answer)} bytes, not {_HELLO.size} or more"
            )
        version, largest, identity, inputs, outputs, ops, tick_hz = _HELLO.unpack_from(answer)
        if version != VERSION:
            raise LinkError(f"{self._port.name}: the firmware speaks link version {version}, this tool {VERSION}")
        if largest not in _PAYLOADS or tick_hz == 0:
            said = f"frames of {largest} bytes and a clock of {tick_hz} Hz"
            raise LinkError(f"{self._port.name}: the board's greeting has impossible values ({said}); flash it again")
        name, _, count = answer[_HELLO.size :].partition(b"\0")
        models = count[0] if len(count) == 1 else 1
        return Hello(largest, identity.hex(), inputs, outputs, ops, tick_hz, _in_one_line(name), models)

    def _request(self, kind: Kind, payload: bytes = b"", size: int | None = None) -> bytes:
        """Sends a request and returns the answer's payload, of `size` bytes where that is known.

        Repeats it, with the same sequence number, until an answer arrives or the time limit is reached.
        """
        self._seq = self._seq % 255 + 1
        computing = kind in _COMPUTING
        wait = self._timing.answer
        limit = self._timing.inference if computing else wait * self._timing.tries
        begun = self._clock()
        deadline = min(begun + limit, self._deadline)
        hopeless = begun + self._timing.answer * self._timing.tries  # for a board that can decode no frame
        asked = unread = 0
        while (now := self._clock()) < deadline and (unread < self._timing.tries or now < hopeless):
            if asked > 0 and computing:
                self.reminders += 1
            elif asked > 0:
                self.retries += 1
            asked += 1
            self._send(kind, payload)
            frame = self._receive(kind, min(wait, deadline - self._clock()))
            if frame is None:
                wait = min(2 * wait, 60.0) if computing else wait  # a long inference, more likely than a lost frame
            elif frame.type == ERROR_TYPE:
                unread += 1
            elif size not in (None, len(frame.payload)):
                told = f"{len(frame.payload)} bytes, not {size}"
                raise LinkError(f"{self._port.name}: the board answers {told}, during {kind.doing}")
            else:
                return frame.payload
        if self._clock() >= self._deadline:
            sent = f"{self.retries + self.reminders} frames were sent again"
            raise LinkError(f"{self._port.name}: no complete inference within the time limit; {sent}")
        if unread:
            raise LinkError(f"{self._port.name}: the board cannot read {unread} of {asked} frames of {kind.doing}")
        raise LinkError(f"{self._port.name}: the board does not answer during {kind.doing} ({asked} tries)")

    def _send(self, kind: Kind, payload: bytes) -> None:
        self._port.write(pack(self._seq, kind, payload))

    def _receive(self, kind: Kind, seconds: float) -> Frame | None:
        """The answer to the current request, or the error frame for a damaged one; None where neither arrives.

        In the last two cases the request must be repeated.
        """
        for frame in self._frames(kind, seconds):
            refusal = frame.payload[0] if frame.type == ERROR_TYPE and len(frame.payload) == 1 else 0
            if refusal == Refusal.BAD_FRAME and frame.seq == 0:
                return frame
            if frame.seq != self._seq:
                continue  # a late or repeated answer
            if refusal == Refusal.NOT_NOW:
                raise OutOfStep
            if refusal:
                raise LinkError(f"{self._port.name}: the board refuses {kind.doing} (error {refusal})")
            if frame.type == Kind.ROWS | ANSWER and kind in _COMPUTING and self._rows is not None:
                self._rows.take(frame.payload)
            if frame.type == kind | ANSWER:
                return frame
        return None

    def _frames(self, kind: Kind, seconds: float) -> Iterator[Frame]:
        """Yields frames as they arrive, until the time limit."""
        deadline = self._clock() + seconds
        while self._clock() < deadline:
            data = self._port.read()
            if not data:
                self._listen_for_restart(self._pending, kind)
            *chunks, rest = (self._pending + data).split(b"\0")
            self._pending = rest[-_HEARD_BYTES:]
            for chunk in filter(None, chunks):
                if frame := unpack(chunk):
                    yield frame
                else:
                    self._listen_for_restart(chunk, kind)

    def _listen_for_restart(self, text: bytes, kind: Kind) -> None:
        """LinkError where the board sends text without having been told to leave frame mode."""
        text = text.replace(_AWAKE, b"")  # it received the wake-up word twice, because it was slow
        if b"e-[fault" in text:
            words = _in_one_line(text[text.index(b"e-[fault") :].split(b"\r\n")[0])
            raise LinkError(f"{self._port.name}: the board crashed during {kind.doing}: {words}")
        if any(word in text for word in _RESTART_WORDS):
            raise LinkError(f"{self._port.name}: the board restarted during {kind.doing}; check its power supply")


def _in_one_line(text: bytes) -> str:
    """Text from the board, for a message of one line."""
    return text_of(text[:_NAME_LENGTH]).replace("\n", "?") + ("..." if len(text) > _NAME_LENGTH else "")
