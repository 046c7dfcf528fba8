"""The framed link: board/link.py against the real application in C, with a toy model, over a faulty wire."""

from __future__ import annotations

import random
import socket
import struct
import subprocess
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from compilers import GCC, HOST, SANITIZERS, ZIG
from toy import Bench, ClockedPort, Int8, Toy

from shoehorn_mcu_host.base.errors import HostError
from shoehorn_mcu_host.board.frames import Frame, Kind, pack, stuff, unpack, unstuff
from shoehorn_mcu_host.board.link import Link, Mode, Timing
from shoehorn_mcu_host.board.ports import Port

FAST = Timing(answer=0.2, inference=10.0)
PATIENT = Timing(answer=60.0, inference=60.0)  # nothing is sent again because the machine is busy


@pytest.fixture(scope="module")
def toy() -> Toy:
    return Toy()


@pytest.fixture(scope="module")
def program(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy.build(tmp_path_factory.mktemp("toy") / "build", HOST, *SANITIZERS)


@pytest.fixture
def bench(program: Path) -> Iterator[Bench]:
    with Bench(program) as bench:
        yield bench


def vector(toy: Toy, seed: int) -> Int8:
    return np.random.default_rng(seed).integers(-128, 128, toy.inputs, np.int8)


def connect(path: str, timing: Timing = FAST) -> Link:
    return Link(Port(path), timing)


def test_stuffing_is_undone_and_holds_no_zeros():
    rng = random.Random(1)
    for length in (0, 1, 2, 253, 254, 255, 256, 507, 508, 509, 510, 700):
        for zeros in (0.0, 0.01, 0.5, 1.0):
            data = bytes(0 if rng.random() < zeros else rng.randrange(1, 256) for _ in range(length))

            assert unstuff(stuff(data)) == data
            assert 0 not in stuff(data)


@pytest.mark.parametrize("data", [b"\x05ab", b"\x02", b"\x01\x00\x01", b"\x02a\xff" + bytes(range(1, 200))])
def test_bytes_that_nobody_stuffed_are_not_undone(data: bytes):
    assert unstuff(data) is None


def test_a_damaged_frame_is_no_frame():
    frame = pack(7, Kind.WRITE, bytes(range(50)))[1:-1]
    assert unpack(frame) is not None
    for at in range(len(frame)):
        for flip in (1, 0x80):
            broken = frame[:at] + bytes([frame[at] ^ flip]) + frame[at + 1 :]
            for chunk in filter(None, broken.split(b"\0")):
                assert unpack(chunk) is None
        assert unpack(frame[:at]) is None


def test_a_frame_whose_header_has_another_length_is_no_frame_even_with_the_right_crc():
    for length in (4, 6):
        raw = struct.pack("<BBH", 7, Kind.WRITE, length) + bytes(5)
        assert unpack(stuff(raw + struct.pack("<I", zlib.crc32(raw)))) is None


TOYS = {
    "plain": Toy(),
    "unbuffered": Toy(buffer=0, transform=1),
    "ad01-like": Toy(transform=2, results=1, outputs=305, frame_bytes=1024),
    "streamed": Toy(streamed=True, transform=1),
    "streamed floats": Toy(streamed=True, transform=2, results=1, outputs=305),
    "streamed, unbuffered": Toy(streamed=True, buffer=0),
}


@pytest.mark.parametrize("toy", TOYS)
@pytest.mark.skipif(HOST != GCC, reason="gcc is not installed")
def test_gcc_compiles_the_application_without_a_warning(toy: str, tmp_path: Path):
    TOYS[toy].build(tmp_path / "build", GCC)


@pytest.mark.parametrize(
    "toy", [pytest.param(name, marks=[pytest.mark.long] * (name not in ("plain", "streamed floats"))) for name in TOYS]
)
def test_zig_compiles_the_application_without_a_warning(toy: str, tmp_path: Path):
    TOYS[toy].build(tmp_path / "build", ZIG)


def test_the_application_takes_little_memory(tmp_path: Path):
    toy = Toy(frame_bytes=240, buffer=0)
    toy.build(tmp_path / "build", HOST, "-fno-pie", "-no-pie")  # else constants with pointers count as data
    symbols = subprocess.run(["nm", "-S", tmp_path / "build" / "board"], capture_output=True, text=True, check=True)
    rows = (line.split() for line in symbols.stdout.splitlines())
    others = {
        "rows",
        "ring",
        "arrived",
        "output",
        "stack",
        "sent",
        "waiting",
        "looks",
        "ticks_per_look",
        "marks",
    }  # the toy's and the fake board's
    sizes = {row[3]: int(row[1], 16) for row in rows if len(row) == 4 and row[2] in "bdBD" and row[3] not in others}

    assert 240 < sum(sizes.values()) < 240 + 4 * 2 + 400, sizes


@pytest.mark.parametrize("frame_bytes", [32, 240, 246, 247, 600])
def test_every_frame_size_carries_an_inference(frame_bytes: int, tmp_path: Path):
    toy = Toy(rows=9, row_bytes=77, outputs=700, frame_bytes=frame_bytes)
    with Bench(toy.build(tmp_path / "build")) as bench, connect(bench.path, PATIENT) as link:
        for x in (vector(toy, 2), np.zeros(toy.inputs, np.int8), np.full(toy.inputs, 37, np.int8)):
            found = link.infer([x.tobytes()], [toy.outputs])

            assert found.outputs == (toy.reference(x).tobytes(),)
        assert link.retries == 0


def test_the_board_says_what_it_is(toy: Toy, bench: Bench):
    with connect(bench.path) as link:
        hello = link.hello

    assert (hello.name, hello.identity) == ("toy", toy.identity.hex())
    assert (hello.inputs, hello.outputs, hello.ops) == (1, 1, 2)
    assert (hello.max_payload, hello.tick_hz) == (toy.frame_bytes, 1_000_000_000)


def test_crc_per_op_chains_over_steps(toy: Toy, bench: Bench):
    x = vector(toy, 3)
    with connect(bench.path) as link:
        found = link.infer([x.tobytes()], [toy.outputs], Mode.CRC)

    assert found.trace == (zlib.crc32(toy.hidden(x)), zlib.crc32(toy.reference(x)))


def test_time_per_op_is_within_the_time_of_the_whole(toy: Toy, bench: Bench):
    with connect(bench.path) as link:
        found = link.infer([vector(toy, 4).tobytes()], [toy.outputs], Mode.TIME)

    assert len(found.trace) == 2
    assert all(found.trace)
    assert sum(found.trace) <= found.ticks


def test_the_painted_stack_is_measured(bench: Bench):
    with connect(bench.path) as link:
        assert link.stack() == (300, 1000)


def test_a_firmware_of_another_model_is_refused(toy: Toy, bench: Bench):
    with connect(bench.path) as link:
        link.expect(toy.plan())
        with pytest.raises(HostError, match=r"another firmware \('toy', 746f796d6f64656c\); this folder is 'digits'"):
            link.expect(replace(toy.plan(), identity="00" * 8, model="digits"))


def test_a_busy_port_is_refused_in_a_line(bench: Bench):
    with connect(bench.path), pytest.raises(HostError, match=rf"^{bench.path}: busy; another program has it open$"):
        connect(bench.path)


def test_a_port_that_is_not_there_is_refused_in_a_line():
    with pytest.raises(HostError, match=r"^/dev/ttyNONE7: no such port; plugged in and powered\?$"):
        connect("/dev/ttyNONE7")
    with pytest.raises(HostError, match=r"^socket://127.0.0.1:1: nothing answers there; is the emulator running\?$"):
        connect("socket://127.0.0.1:1")
    with pytest.raises(HostError, match=r"^nonsense://x: cannot be opened"):
        connect("nonsense://x")


def test_a_silent_port_is_given_up(tmp_path: Path):
    script = tmp_path / "silent"
    script.write_text("#!/bin/sh\nexec sleep 60\n")
    script.chmod(0o755)
    with Bench(script) as bench, pytest.raises(HostError, match="does not answer; is it the right port"):
        connect(bench.path, Timing(answer=0.05, wake=3))


def test_a_silent_emulator_is_not_asked_for_its_power():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"socket://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(HostError, match="does not answer; is its UART the emulator's, or its family's stub"):
            connect(place, Timing(answer=0.05, wake=1))


def test_a_board_without_our_firmware_is_told_apart(tmp_path: Path):
    script = tmp_path / "other"
    script.write_text(
        "#!/bin/sh\nhead -c 11 >/dev/null; printf 'e-[Unknown command: shoehorn]\\r\\nm-ready\\r\\n'; sleep 9\n"
    )
    script.chmod(0o755)
    with Bench(script) as bench, pytest.raises(HostError, match="its firmware is not Shoehorn's"):
        connect(bench.path)


class WhenRunning:
    """Passes all requests to the board, and does something soon after the first RUN."""

    def __init__(self) -> None:
        self.do: Callable[[], None] | None = None

    def __call__(self, chunk: bytes) -> list[bytes]:
        frame = unpack(chunk.strip(b"\0"))
        if frame is not None and frame.type == Kind.RUN and self.do is not None:
            threading.Timer(0.1, self.do).start()
            self.do = None
        return [chunk]


def test_a_port_that_vanishes_in_mid_run_is_one_line(toy: Toy, program: Path):
    running = WhenRunning()
    with Bench(program, running, TOY_UNTIL="/never") as bench:
        link = connect(bench.path, Timing(answer=0.5, inference=20.0))
        running.do = bench.unplug
        with pytest.raises(HostError, match=rf"^{bench.path}: the port vanished; was the board unplugged\?$"):
            link.infer([vector(toy, 5).tobytes()], [toy.outputs])
        link.close()


def test_a_board_that_resets_in_mid_run_is_one_line(toy: Toy, program: Path):
    running = WhenRunning()
    with (
        Bench(program, running, TOY_UNTIL="/never") as bench,
        connect(bench.path, Timing(answer=0.5, inference=20.0)) as link,
    ):
        running.do = bench.reset
        with pytest.raises(HostError, match=rf"^{bench.path}: the board restarted during an inference; check"):
            link.infer([vector(toy, 6).tobytes()], [toy.outputs])


def test_a_crash_is_told_in_the_boards_words(toy: Toy, program: Path):
    def crash(chunk: bytes) -> list[bytes]:
        frame = unpack(chunk.strip(b"\0"))
        run = frame is not None and frame.type == Kind.RUN | 0x80
        return [b"e-[fault 3 at 0x08001234]\r\n"] if run else [chunk]

    with (
        Bench(program, to_host=crash) as bench,
        connect(bench.path) as link,
        pytest.raises(HostError, match=r"crashed during an inference: e-\[fault 3 at 0x08001234\]"),
    ):
        link.infer([vector(toy, 7).tobytes()], [toy.outputs])


def test_the_time_limit_of_an_inference_counts_every_request(toy: Toy, program: Path, monkeypatch: pytest.MonkeyPatch):
    counted: list[int] = []
    sent: list[int] = []

    def whole(timing: Timing, requests: int) -> float:
        counted.append(requests)
        return timing.inference

    def hear(chunk: bytes) -> list[bytes]:
        frame = unpack(chunk.strip(b"\0"))
        sent.extend([] if frame is None else [frame.type])
        return [chunk]

    monkeypatch.setattr(Timing, "whole", whole)
    with Bench(program, to_board=hear) as bench, connect(bench.path, PATIENT) as link:
        greeting = len(sent)
        link.infer([vector(toy, 9).tobytes()], [toy.outputs], Mode.CRC)
        assert link.retries == 0
        assert counted == [len(sent) - greeting] == [10]


def test_the_limit_of_an_inference_grows_with_its_work_and_with_its_requests() -> None:
    timing = Timing.for_work(2_000_000, 5_000)

    assert (Timing.for_work(0, 0).inference, timing.inference) == (30.0, 35.0)
    assert (timing.whole(0), timing.whole(100)) == (47.0, 147.0)
    assert Timing(answer=0.5, inference=10.0, tries=4).whole(6) == 15.0


class ComputingPort(ClockedPort):
    """A port whose clock goes on only while the board computes, which takes 1.2 seconds by it."""

    def __init__(self, name: str, begins: Callable[[Frame], bool], done: Path):
        super().__init__(name)
        self._begins, self._done, self._computing = begins, done, False

    def _pass(self, seconds: float) -> None:
        if self._computing:
            super()._pass(seconds)
            if self.seconds >= 1.2:
                self._done.touch()
                self._computing = False

    def write(self, data: bytes) -> None:
        super().write(data)
        frame = unpack(data.strip(b"\0"))
        self._computing |= frame is not None and not self._done.exists() and self._begins(frame)


def test_a_long_inference_is_waited_for_and_run_once(toy: Toy, program: Path, tmp_path: Path):
    x, done = vector(toy, 8), tmp_path / "done"
    with Bench(program, TOY_UNTIL=str(done)) as bench:
        port = ComputingPort(bench.path, lambda frame: frame.type == Kind.RUN, done)
        with Link(port, Timing(answer=0.1, inference=20.0), port.clock) as link:
            found = link.infer([x.tobytes()], [toy.outputs])

    # Asked again and again meanwhile; a second run would have computed on an overwritten input.
    # The waits double (0.1, 0.2, 0.4, ... s), so that a board without a receive buffer is not flooded.
    assert (link.retries, link.reminders) == (0, 3)
    assert found.outputs == (toy.reference(x).tobytes(),)


def test_a_host_that_died_leaves_a_board_that_listens(toy: Toy, bench: Bench):
    x = vector(toy, 9)
    leftovers = (b"\0\x05\x01half a fra", b"db 0123456", b"shoehorn%\0\x40\x02\x02", b"\0" + b"x" * 500, b"infer 1 0")
    for junk in leftovers:
        bench.to_board(junk)
        with connect(bench.path) as link:
            assert link.infer([x.tobytes()], [toy.outputs]).outputs == (toy.reference(x).tobytes(),)


def test_text_words_end_frame_mode(bench: Bench):
    link = connect(bench.path)
    link._port.write(b"name%")
    heard = b""
    while b"m-ready\r\n" not in heard:
        heard += link._port.read()
    link._port.write(b"infer 0%")
    while b"iterations" not in heard:
        heard += link._port.read()

    assert heard.startswith(b"m-name-dut-[shoehorn]\r\nm-ready\r\n")
    link.close()


class Exchange:
    """Raw frames against a woken board."""

    def __init__(self, path: str):
        self.link = connect(path)

    END = ((0, 0xFF, b"\4"), (0, 0xFF, b"\1"))
    """The answers to a request without a number and to what is no frame, neither of which changes the board."""

    def ask(self, frame: bytes) -> list[tuple[int, int, bytes]]:
        """What the board says to these bytes, before it answers what is sent behind them."""
        self.link._port.write(frame + pack(0, Kind.STACK, b"") + b"\0no frame\0")
        deadline, heard = time.monotonic() + 60, b""
        said: list[tuple[int, int, bytes]] = []
        while tuple(said[-len(self.END) :]) != self.END:
            assert time.monotonic() < deadline, said
            heard += self.link._port.read()
            frames = [unpack(chunk) for chunk in heard[: heard.rfind(b"\0") + 1].split(b"\0") if chunk]
            assert None not in frames
            said = [(f.seq, f.type, f.payload) for f in frames if f]
        return said[: -len(self.END)]


def test_the_board_answers_every_bad_request(toy: Toy, bench: Bench):
    e = Exchange(bench.path)
    seq = e.link._seq
    bad_frame, unknown, out_of_range, not_now = (bytes([n]) for n in (1, 2, 3, 4))
    requests = (
        (0x77, b"", unknown),
        (0x00, b"", unknown),
        (Kind.MODEL, b"\0", unknown),  # there is one
        (0xFF, b"", unknown),
        (Kind.HELLO, b"x", bad_frame),
        (Kind.WRITE, b"\0\0\0\0", bad_frame),
        (Kind.WRITE, b"\1" + bytes(4) + b"x", out_of_range),
        (Kind.WRITE, b"\0" + (toy.inputs).to_bytes(4, "little") + b"x", out_of_range),
        (Kind.WRITE, b"\0\xff\xff\xff\xffxx", out_of_range),
        (Kind.RUN, b"", bad_frame),
        (Kind.RUN, b"\3", out_of_range),
        (Kind.RUN, b"\0" + bytes(4), not_now),
        (Kind.READ, b"\0\0\0\0\0\0", bad_frame),
        (Kind.READ, b"\0\x0c\0\0\0\1\0", out_of_range),
        (Kind.READ, b"\1\0\0\0\0\1\0", out_of_range),
        (Kind.READ, b"\0\xff\xff\xff\xff\2\0", out_of_range),
        (Kind.TRACE, b"\0\0\3\0", out_of_range),
        (Kind.TRACE, b"\xff\xff\xff\xff", out_of_range),
        (Kind.CRC, b"\2\0", out_of_range),
        (Kind.CRC, b"\0\1", out_of_range),
    )
    for kind, payload, error in requests:
        seq = seq % 255 + 1

        assert e.ask(pack(seq, kind, payload)) == [(seq, 0xFF, error)]
    assert e.ask(b"\0garbage\0") == [(0, 0xFF, bad_frame)]
    assert e.ask(pack(0, Kind.STACK, b"")) == [(0, 0xFF, not_now)]
    assert e.ask(pack(seq, Kind.STACK, b"")) == [(seq, 0xFF, not_now)]  # another request with the last seq
    assert e.ask(pack((seq + 1) % 255 + 1, Kind.STACK, b"")) == [((seq + 1) % 255 + 1, 0xFF, not_now)]
    e.link.close()


def test_the_longest_payload_fits_and_one_byte_more_does_not(toy: Toy, bench: Bench):
    e = Exchange(bench.path)
    write = b"\0" + bytes(4) + b"\0" * (toy.frame_bytes - 5)

    assert e.ask(pack(e.link._seq + 1, Kind.WRITE, write)) == [(e.link._seq + 1, 0x82, b"")]
    for extra in (1, 2, 50, 1000):
        assert set(e.ask(pack(e.link._seq + 2, Kind.WRITE, write + b"\1" * extra))) == {(0, 0xFF, b"\1")}
    e.link.close()


class Faults:
    """Harm to frames: each kind to one frame in a hundred, whichever way it goes."""

    KINDS = ("flip", "drop", "twice", "cut", "late", "noise")

    def __init__(self, seed: int):
        self._rng = random.Random(seed)
        self._held: bytes | None = None
        self.frames = 0
        self.done = dict.fromkeys(self.KINDS, 0)

    def __call__(self, chunk: bytes) -> list[bytes]:
        if not chunk.startswith(b"\0"):
            return [chunk]
        self.frames += 1
        held, self._held = self._held, None
        place = self._rng.randrange(100)
        if place >= len(self.KINDS):
            return [chunk, held] if held else [chunk]
        kind = self.KINDS[place]
        self.done[kind] += 1
        return [*self._harm(kind, chunk), *([held] if held else [])]

    def _harm(self, kind: str, chunk: bytes) -> list[bytes]:
        at = self._rng.randrange(len(chunk))
        if kind == "flip":
            return [chunk[:at] + bytes([chunk[at] ^ 1 << self._rng.randrange(8)]) + chunk[at + 1 :]]
        if kind == "twice":
            return [chunk, chunk]
        if kind == "cut":
            return [chunk[:at]]
        if kind == "late":  # behind the next one
            self._held = chunk
        if kind == "noise":
            return [self._rng.randbytes(9), chunk]
        return []


def _survive(frames: int, toy: Toy, program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row_bytes = toy.row_bytes if toy.streamed else 0
    to_board, to_host = Faults(10), Faults(11)
    wrong = vectors = 0
    with (
        Bench(program, to_board, to_host) as bench,
        connect(bench.path, Timing(answer=0.05, inference=60.0, tries=40)) as link,
    ):
        while to_board.frames + to_host.frames < frames:
            x = vector(toy, vectors)
            mode = Mode(vectors % 3)
            found = link.infer([x.tobytes()], [toy.outputs], mode, row_bytes=row_bytes, handed_out=toy.output_rows > 0)
            wrong += found.outputs != (toy.reference(x).tobytes(),)
            wrong += mode is Mode.CRC and found.trace != (zlib.crc32(toy.hidden(x)), zlib.crc32(toy.reference(x)))
            vectors += 1
        total = to_board.frames + to_host.frames
        harmed = {kind: to_board.done[kind] + to_host.done[kind] for kind in Faults.KINDS}
        retries = link.retries + link.reminders
        with capsys.disabled():
            print(f"\n{total} frames, {vectors} inferences, harmed {harmed}: {retries} retries, {wrong} wrong")

        assert wrong == 0
        assert retries > 0
        assert all(harmed.values())


def test_a_faulty_wire_never_changes_a_result(toy: Toy, program: Path, capsys: pytest.CaptureFixture[str]):
    _survive(1_000, toy, program, capsys)


@pytest.mark.long
def test_a_faulty_wire_never_changes_a_result_in_10000_frames(
    toy: Toy, program: Path, capsys: pytest.CaptureFixture[str]
):
    _survive(10_000, toy, program, capsys)


STREAMED = Toy(streamed=True)


@pytest.fixture(scope="module")
def streaming(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return STREAMED.build(tmp_path_factory.mktemp("streamed") / "build", HOST, *SANITIZERS)


@pytest.mark.parametrize("mode", [Mode.PLAIN, Mode.TIME, Mode.CRC])
def test_a_streamed_input_goes_row_by_row(streaming: Path, mode: Mode):
    with Bench(streaming) as bench, connect(bench.path, PATIENT) as link:
        for seed in (2, 3):
            x = vector(STREAMED, seed)
            moved: list[int] = []
            found = link.infer([x.tobytes()], [STREAMED.outputs], mode, moved.append, STREAMED.row_bytes)

            assert found.outputs == (STREAMED.reference(x).tobytes(),)
            assert sum(moved) == STREAMED.inputs + STREAMED.outputs
            if mode is Mode.CRC:
                assert found.trace == (zlib.crc32(STREAMED.hidden(x)), zlib.crc32(STREAMED.reference(x)))
            if mode is Mode.TIME:
                assert 0 < sum(found.trace) <= found.ticks
        assert link.retries == 0


def test_the_time_limit_of_a_streamed_inference_counts_two_requests_for_a_row(
    streaming: Path, monkeypatch: pytest.MonkeyPatch
):
    """A write and a push; what else is moved is less than a frame."""
    counted: list[int] = []
    monkeypatch.setattr(Timing, "whole", lambda timing, requests: counted.append(requests) or timing.inference)
    with Bench(streaming) as bench, connect(bench.path, PATIENT) as link:
        link.infer([vector(STREAMED, 2).tobytes()], [STREAMED.outputs], row_bytes=STREAMED.row_bytes)
        moved = STREAMED.inputs + STREAMED.outputs + 4 * link.hello.ops
        frames = moved // (link.hello.max_payload - 5)

    assert counted == [2 * STREAMED.rows + frames + 5]


def test_a_faulty_wire_never_changes_a_streamed_result(streaming: Path, capsys: pytest.CaptureFixture[str]):
    _survive(1_000, STREAMED, streaming, capsys)


@pytest.mark.long
def test_a_faulty_wire_never_changes_a_streamed_result_in_10000_frames(
    streaming: Path, capsys: pytest.CaptureFixture[str]
):
    _survive(10_000, STREAMED, streaming, capsys)


def test_a_long_row_is_waited_for_and_pushed_once(streaming: Path, tmp_path: Path):
    x, done = vector(STREAMED, 8), tmp_path / "done"

    def last(frame: Frame) -> bool:
        return frame.type == Kind.PUSH and int.from_bytes(frame.payload[1:5], "little") == STREAMED.rows - 1

    with Bench(streaming, TOY_UNTIL=str(done)) as bench:
        port = ComputingPort(bench.path, last, done)
        with Link(port, Timing(answer=0.1, inference=20.0), port.clock) as link:
            found = link.infer([x.tobytes()], [STREAMED.outputs], row_bytes=STREAMED.row_bytes)

    # The waits double (0.1, 0.2, 0.4, ... s), so that a board without a receive buffer is not flooded.
    assert (link.retries, link.reminders) == (0, 3)
    assert found.outputs == (STREAMED.reference(x).tobytes(),)


def test_a_host_that_died_between_rows_leaves_a_board_that_begins_again(streaming: Path):
    x = vector(STREAMED, 9)
    with Bench(streaming) as bench:
        for rows in (1, 2, 4):
            with connect(bench.path) as link:
                link._stream(x.tobytes()[: rows * STREAMED.row_bytes], STREAMED.row_bytes, Mode.CRC, lambda _: None)
        with connect(bench.path) as link:
            found = link.infer([x.tobytes()], [STREAMED.outputs], Mode.CRC, row_bytes=STREAMED.row_bytes)

    assert found.outputs == (STREAMED.reference(x).tobytes(),)
    assert found.trace[0] == zlib.crc32(STREAMED.hidden(x))


def test_a_board_takes_no_row_but_the_next_and_none_that_is_not_the_hosts(streaming: Path):
    """Refusals leave the inference as it was, so it ends with the right result."""
    x = vector(STREAMED, 10).tobytes()
    size = STREAMED.row_bytes
    parts = [x[at : at + size] for at in range(0, len(x), size)]
    out_of_range, not_now = b"\3", b"\4"

    def write(offset: int, data: bytes) -> tuple[Kind, bytes]:
        return Kind.WRITE, b"\0" + offset.to_bytes(4, "little") + data

    def push(row: int, crc: int | None = None, mode: int = 2) -> tuple[Kind, bytes]:
        crc = zlib.crc32(parts[row]) if crc is None else crc
        return Kind.PUSH, bytes([mode]) + row.to_bytes(4, "little") + crc.to_bytes(4, "little")

    def run(mode: int) -> tuple[Kind, bytes]:
        return Kind.RUN, bytes([mode]) + zlib.crc32(x).to_bytes(4, "little")

    steps: list[tuple[tuple[Kind, bytes], bytes | None]] = [
        (run(2), not_now),
        ((Kind.WRITE, b"\1" + bytes(4)), out_of_range),
        (write(len(x), b"x"), out_of_range),
        (write(2**32 - 1, b"xx"), out_of_range),
        (write(size, b"x"), not_now),  # row 1 before row 0
        (write(size - 1, b"xx"), not_now),  # across the end of the row
        (write(0, parts[0][:50]), None),
        (write(50, parts[0][50:]), None),
        (push(0, crc=1), not_now),
        (push(0, mode=3), out_of_range),
        (push(1), not_now),
        ((Kind.PUSH, bytes(8)), b"\1"),
        (push(0), None),
        (push(0), not_now),
        (run(2), not_now),
        (write(0, b"x"), not_now),
    ]
    for row in range(1, STREAMED.rows):
        start = row * size
        steps += [(write(start, parts[row][:40]), None), (write(start + 40, parts[row][40:]), None)]
        steps += [(push(row, mode=1), not_now), (push(row), None)]
    steps += [(run(0), not_now), ((Kind.RUN, b"\2" + bytes(4)), not_now), (run(2), None)]
    with Bench(streaming) as bench:
        e = Exchange(bench.path)
        seq = e.link._seq
        for (kind, payload), error in steps:
            seq = seq % 255 + 1
            frame = pack(seq, kind, payload)
            for _ in range(2):  # a repeated request does nothing twice
                ((number, type_, answer),) = e.ask(frame)
                assert (number, type_) == (seq, 0xFF if error else kind | 0x80), (kind, payload)
                assert error is None or answer == error
        e.link._seq = seq
        assert e.link._read(0, STREAMED.outputs, lambda _: None) == STREAMED.reference(vector(STREAMED, 10)).tobytes()
        assert e.link._trace()[0] == zlib.crc32(STREAMED.hidden(vector(STREAMED, 10)))
        e.link._request(*write(0, b"x"))  # the place of row 0 may be that of the outputs
        ((_, type_, answer),) = e.ask(pack(e.link._seq % 255 + 1, *run(2)))
        assert (type_, answer) == (0xFF, not_now)
        e.link.close()


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "by rows"])
@pytest.mark.parametrize("rows, frame_bytes", [(3, 64), (2, 32), (12, 1024)])
def test_rows_of_the_output_come_while_the_board_computes(streamed: bool, rows: int, frame_bytes: int, tmp_path: Path):
    toy = Toy(streamed=streamed, outputs=120, output_rows=rows, frame_bytes=frame_bytes)
    with Bench(toy.build(tmp_path / "toy")) as bench, connect(bench.path) as link:
        link.expect(toy.plan())
        for seed, mode in enumerate((Mode.PLAIN, Mode.TIME, Mode.CRC)):
            x = vector(toy, seed)
            sent = {"row_bytes": toy.row_bytes if streamed else 0, "handed_out": True}
            moved: list[int] = []
            found = link.infer([x.tobytes()], [toy.outputs], mode, moved.append, **sent)
            kept = link.infer([x.tobytes()], [], mode, **sent)

            assert found.outputs == (toy.reference(x).tobytes(),)
            assert sum(moved) == toy.inputs + toy.outputs
            assert kept.outputs == ()
            assert mode is not Mode.CRC or found.trace == kept.trace == tuple(toy.plan().op_crcs(_tensors(toy, x)))


def test_rows_of_the_output_are_sent_only_where_it_is_asked_for(tmp_path: Path) -> None:
    toy, kinds = Toy(outputs=120, output_rows=12), list[int]()

    def heard(chunk: bytes) -> list[bytes]:
        frame = unpack(chunk.strip(b"\0"))
        kinds.extend([frame.type] if frame else [])
        return [chunk]

    with Bench(toy.build(tmp_path / "toy"), to_host=heard) as bench, connect(bench.path) as link:
        for asked, sent in (([], False), ([toy.outputs], True), ([], False)):
            kinds.clear()
            link.infer([vector(toy, 1).tobytes()], asked, handed_out=True)
            assert (Kind.ROWS | 0x80 in kinds) == sent
            assert Kind.RUN | 0x80 in kinds


def _tensors(toy: Toy, x: Int8) -> dict[str, Int8]:
    return {"hidden": toy.hidden(x), "scores/0": toy.reference(x)}


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "by rows"])
def test_a_faulty_wire_never_changes_rows_of_the_output(
    streamed: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    toy = Toy(streamed=streamed, outputs=120, output_rows=12)
    _survive(1_000, toy, toy.build(tmp_path / "toy"), capsys)


def test_an_output_that_is_handed_out_cannot_be_read_and_a_whole_one_has_no_rows(
    toy: Toy, bench: Bench, tmp_path: Path
):
    rows = Toy(outputs=120, output_rows=12)
    x = vector(toy, 1).tobytes()
    with (
        Bench(rows.build(tmp_path / "toy")) as other,
        connect(other.path) as link,
        pytest.raises(HostError, match="refuses reading the output"),
    ):
        link.infer([x], [rows.outputs])
    with connect(bench.path) as link, pytest.raises(HostError, match="refuses an inference"):
        link.infer([x], [toy.outputs], handed_out=True)


def test_text_has_no_results_of_an_output_that_is_handed_out(tmp_path: Path):
    toy = Toy(outputs=120, output_rows=12)
    with Bench(toy.build(tmp_path / "toy")) as bench:
        port, said = Port(bench.path), b""
        port.write(b"infer 1 0%")
        end = time.monotonic() + 10
        while b"m-ready" not in said.partition(b"m-infer-done")[2] and time.monotonic() < end:
            said += port.read()
        port.close()

    assert b"e-[Output is streamed: use frames]" in said
    assert b"m-results" not in said


def test_a_row_is_pushed_only_where_the_input_is_streamed(bench: Bench):
    e = Exchange(bench.path)

    assert e.ask(pack(e.link._seq + 1, Kind.PUSH, bytes(9))) == [(e.link._seq + 1, 0xFF, b"\2")]
    e.link.close()


def test_random_bytes_never_crash_the_board(toy: Toy, bench: Bench):
    rng = random.Random(12)
    for _ in range(200):
        noise = rng.randbytes(rng.randrange(1, 200))
        for word in (b"infer", b"%"):
            noise = noise.replace(word, b"")  # no endless inference by chance
        bench.to_board(noise)
        if rng.random() < 0.2:
            bench.to_board(b"\0shoehorn%\0")
    x = vector(toy, 13)
    with connect(bench.path) as link:
        assert link.infer([x.tobytes()], [toy.outputs]).outputs == (toy.reference(x).tobytes(),)


@pytest.mark.parametrize(
    ("ops", "asked"), [(3, [(0, 3)]), (4, [(0, 4)]), (5, [(0, 4), (4, 1)]), (9, [(0, 4), (4, 4), (8, 1)])]
)
def test_a_trace_comes_in_as_many_parts_as_it_takes(ops: int, asked: list[tuple[int, int]]) -> None:
    heard = []

    def request(kind: Kind, payload: bytes, size: int) -> bytes:
        first, count = struct.unpack("<HH", payload)
        heard.append((first, count))
        assert (kind, size) == (Kind.TRACE, 4 * count)
        return struct.pack(f"<{count}I", *range(first, first + count))

    link: Any = Link.__new__(Link)
    link._request, link.hello = request, SimpleNamespace(ops=ops, max_payload=19)

    assert link._trace() == tuple(range(ops))
    assert heard == asked
