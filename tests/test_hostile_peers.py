"""A peer whose frames are whole and whose content is not: one clear line each, within bounded time."""

from __future__ import annotations

import importlib.util
import shlex
import struct
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from toy import Bench, ClockedPort, Toy

from shoehorn_mcu.base.paths import FIRMWARE_TEMPLATES
from shoehorn_mcu_host.base.errors import HostError, LinkError
from shoehorn_mcu_host.board import ports
from shoehorn_mcu_host.board.frames import ANSWER, ERROR_TYPE, Frame, Kind, pack, unpack
from shoehorn_mcu_host.board.link import Link, Mode, Timing

TOY = Toy()
BRISK = Timing(answer=0.1, inference=1.0, tries=5)
Reply = Callable[[Frame], bytes | None]
"""From the board's true answer, the frame that the host gets; None: none."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return TOY.build(tmp_path_factory.mktemp("toy") / "build")


def linked(bench: Bench, timing: Timing = BRISK) -> Link:
    port = ClockedPort(bench.path)
    return Link(port, timing, port.clock)


class Peer:
    """A board whose answers to one kind of request are replaced."""

    def __init__(self, kind: Kind, reply: Reply):
        self._kind, self._reply = kind, reply

    def __call__(self, chunk: bytes) -> list[bytes]:
        frame = unpack(chunk.strip(b"\0")) if chunk.startswith(b"\0") else None
        if frame is None or frame.type != self._kind | ANSWER:
            return [chunk]
        made = self._reply(frame)
        return [] if made is None else [made]


def answering(change: Callable[[bytes], bytes]) -> Reply:
    return lambda frame: pack(frame.seq, frame.type, change(frame.payload))


def refusing(error: int, seq: int | None = None) -> Reply:
    return lambda frame: pack(frame.seq if seq is None else seq, ERROR_TYPE, bytes([error]))


def silent(_: Frame) -> None:
    return None


def hello(**fields: int) -> Reply:
    """The true greeting with other numbers in it."""
    form = struct.Struct("<BH8sBBHI")
    names = ("version", "payload", "identity", "inputs", "outputs", "ops", "tick_hz")

    def change(payload: bytes) -> bytes:
        values = dict(zip(names, form.unpack_from(payload), strict=True)) | fields
        return form.pack(*values.values()) + payload[form.size :]

    return answering(change)


def cut(size: int) -> Reply:
    return answering(lambda payload: payload[:size])


def longer(payload: bytes) -> bytes:
    return payload + b"\0"


def everything(link: Link) -> None:
    """What gen validate and gen bench ask for."""
    link.expect(TOY.plan())
    for mode in (Mode.CRC, Mode.TIME):
        link.infer([bytes(TOY.inputs)], [TOY.outputs], mode)
    link.stack()


CASES: dict[str, tuple[Kind, Reply, str]] = {
    **{
        f"frames of {n} bytes": (Kind.HELLO, hello(payload=n), f"impossible values .frames of {n} bytes")
        for n in (0, 1, 3, 5, 31, 1025, 65535)
    },
    "a clock that stands": (Kind.HELLO, hello(tick_hz=0), "impossible values .*a clock of 0 Hz"),
    "another version": (Kind.HELLO, hello(version=2), "link version 2"),
    "another number of ops": (Kind.HELLO, hello(ops=7), "reports 1 inputs, 1 outputs and 7 ops"),
    "no op": (Kind.HELLO, hello(ops=0), "1 outputs and 0 ops"),
    "more inputs": (Kind.HELLO, hello(inputs=9), "9 inputs"),
    "a short greeting": (Kind.HELLO, cut(18), "greeting has 18 bytes"),
    "an empty greeting": (Kind.HELLO, cut(0), "greeting has 0 bytes"),
    "no greeting": (Kind.HELLO, silent, "does not answer during the greeting"),
    "error 4 to HELLO": (Kind.HELLO, refusing(4), "refuses the greeting"),
    "error 4 to STACK": (Kind.STACK, refusing(4), "cannot synchronise"),
    "error 3 to STACK": (Kind.STACK, refusing(3), r"refuses reading the stack's depth \(error 3\)"),
    "error 200 to READ": (Kind.READ, refusing(200), r"refuses reading the output \(error 200\)"),
    "a RUN of one byte": (Kind.RUN, answering(lambda _: b"\3"), "answers 1 bytes, not 8, during an inference"),
    "a short RUN": (Kind.RUN, cut(7), "answers 7 bytes, not 8, during an inference"),
    "a long RUN": (Kind.RUN, answering(longer), "answers 9 bytes, not 8, during an inference"),
    "RUN never answered": (Kind.RUN, silent, "does not answer during an inference"),
    "RUN unread for ever": (Kind.RUN, refusing(1, seq=0), "cannot read \\d+ of \\d+ frames of an inference"),
    "error 1 to RUN": (Kind.RUN, refusing(1), r"refuses an inference \(error 1\)"),
    "error 4 to RUN": (Kind.RUN, refusing(4), "cannot synchronise"),
    "a long WRITE": (Kind.WRITE, answering(longer), "answers 1 bytes, not 0, during sending the input"),
    "a short READ": (Kind.READ, cut(3), "answers 3 bytes, not 12, during reading the output"),
    "a short CRC": (Kind.CRC, cut(3), "answers 3 bytes, not 4, during checking a tensor"),
    "an empty TRACE": (Kind.TRACE, cut(0), "answers 0 bytes, not 8, during reading the trace"),
    "a short STACK": (Kind.STACK, cut(4), "answers 4 bytes, not 8"),
    "another type": (Kind.CRC, lambda f: pack(f.seq, 0x99, f.payload), "does not answer during checking a tensor"),
    "an error of two bytes": (Kind.CRC, lambda f: pack(f.seq, ERROR_TYPE, b"\1\1"), "does not answer during checking"),
}


@pytest.mark.parametrize("case", CASES)
def test_content_that_breaks_the_protocol_is_one_line_in_bounded_time(case: str, program: Path):
    kind, reply, message = CASES[case]
    with (
        Bench(program, to_host=Peer(kind, reply)) as bench,
        pytest.raises(LinkError, match=message) as caught,
        linked(bench) as link,
    ):
        everything(link)

    assert str(caught.value).startswith(f"{bench.path}: ")
    assert "\n" not in str(caught.value)


def test_a_board_that_can_read_no_frame_is_given_up_long_before_an_inference_would_end(program: Path):
    timing = Timing(answer=0.1, inference=60.0, tries=5)
    with Bench(program, to_host=Peer(Kind.RUN, refusing(1, seq=0))) as bench:
        port = ClockedPort(bench.path)
        with (
            Link(port, timing, port.clock) as link,
            pytest.raises(LinkError, match=r"cannot read \d+ of \d+ frames of an inference"),
        ):
            everything(link)

    assert port.seconds < 3.0


def test_a_name_with_line_ends_stays_on_one_line(program: Path):
    def name(payload: bytes) -> bytes:
        return payload[:3] + bytes(8) + payload[11:19] + b"a\nb\r\x1b[2J\xff" + b"x" * 40

    with (
        Bench(program, to_host=Peer(Kind.HELLO, answering(name))) as bench,
        linked(bench) as link,
        pytest.raises(HostError, match=r"another firmware \('a\?b\?\[2J\?x{31,40}") as caught,
    ):
        link.expect(TOY.plan())

    assert str(caught.value).isprintable()


@pytest.mark.parametrize(("behind", "models"), [(b"", 1), (b"\0", 1), (b"\0\3", 3), (b"\0\3\3", 1)])
def test_a_greeting_may_end_with_the_number_of_models(program: Path, behind: bytes, models: int):
    greeting = answering(lambda payload: payload[:19] + b"toy" + behind)
    with Bench(program, to_host=Peer(Kind.HELLO, greeting)) as bench, linked(bench) as link:
        assert (link.hello.name, link.hello.models) == ("toy", models)


def test_rows_of_an_output_that_nobody_asked_for_are_left_aside(program: Path):
    def rows_first(frame: Frame) -> bytes:
        return pack(frame.seq, Kind.ROWS | ANSWER, bytes(9)) + pack(frame.seq, frame.type, frame.payload)

    with Bench(program, to_host=Peer(Kind.RUN, rows_first)) as bench, linked(bench) as link:
        everything(link)


ALL_BYTES = bytes(range(1, 256)).replace(b"\n", b"").replace(b"\r", b"")


@pytest.mark.parametrize("place", [0, 40])
@pytest.mark.parametrize("kind", [Kind.HELLO, Kind.WRITE, Kind.RUN, Kind.READ, Kind.TRACE, Kind.CRC, Kind.STACK])
def test_a_fault_that_the_board_reports_is_never_shown_raw(program: Path, kind: Kind, place: int):
    """Whatever is asked for, the answer is a crash whose words control a terminal."""
    words = b"e-[fault \x1b[2J\x07\x9b31m" + ALL_BYTES[place:] + b"]"

    with (
        Bench(program, to_host=Peer(kind, lambda _: b"\r\n" + words + b"\r\n")) as bench,
        pytest.raises(LinkError, match=r"the board crashed during .*: e-\[fault \?\[2J\?\?31m") as caught,
        linked(bench) as link,
    ):
        everything(link)

    assert str(caught.value).isascii()
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "says", ["e-[Unknown command: shoehorn]\x1b[2J\r\n", "\x1b]0;title\x07\x1b[2J", "e-[fault \x1b[2J]\r\nm-ready\r\n"]
)
def test_a_board_that_says_anything_instead_of_waking_up_is_one_line(tmp_path: Path, says: str):
    script = tmp_path / "board"
    script.write_text(f"#!/bin/sh\ncat > /dev/null &\nwhile printf '%s' {shlex.quote(says)}; do sleep 0.05; done\n")
    script.chmod(0o755)
    with Bench(script) as bench, pytest.raises(LinkError) as caught:
        linked(bench, Timing(answer=0.1, wake=2))

    assert str(caught.value).isprintable()


def test_the_description_of_a_usb_device_is_shown_without_control_characters(monkeypatch: pytest.MonkeyPatch):
    devices = [SimpleNamespace(device=f"/dev/tty{i}", description="\x1b[2Jboard", vid=1, hwid="usb") for i in "AB"]
    monkeypatch.setattr(ports.list_ports, "comports", lambda: devices)

    with pytest.raises(HostError, match=r"choose one with --port: /dev/ttyA \(") as caught:
        ports.find(None)

    assert str(caught.value).isprintable()


def test_an_emulated_console_is_shown_without_control_characters(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """By the folder's own builder/upload.py, which `gen flash` and `pio run -t upload` have in common."""
    emulator = tmp_path / "qemu"
    emulator.write_text("#!/bin/sh\nprintf '\\033[2Jm-model-[\\207\\033]0;a\\007]\\r\\nm-ready\\r\\n'\nsleep 60\n")
    emulator.chmod(0o755)
    spec = importlib.util.spec_from_file_location("upload", FIRMWARE_TEMPLATES / "platform" / "builder" / "upload.py")
    assert spec and spec.loader
    upload = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(upload)

    upload._boot([str(emulator), "-machine", "virt"])

    shown = capsys.readouterr().out
    assert "?[2Jm-model-[??]0;a?]\nm-ready\n" in shown
    assert all(line.isprintable() for line in shown.splitlines())


def test_an_output_whose_bytes_are_not_those_of_its_crc_is_never_taken(program: Path):
    """Each READ frame is whole by its own CRC; only the CRC of the whole output tells that a byte is wrong."""
    x = np.arange(TOY.inputs, dtype=np.uint8).view(np.int8)
    spoiled = 3

    def spoil(payload: bytes) -> bytes:
        nonlocal spoiled
        spoiled -= 1
        return bytes([payload[0] ^ 1]) + payload[1:] if spoiled >= 0 else payload

    with Bench(program, to_host=Peer(Kind.READ, answering(spoil))) as bench, linked(bench) as link:
        found = link.infer([x.tobytes()], [TOY.outputs])

        assert found.outputs == (TOY.reference(x).tobytes(),)
        assert link.retries >= 3
        spoiled = 10**9
        with pytest.raises(LinkError, match="cannot synchronise"):
            link.infer([x.tobytes()], [TOY.outputs])


def test_a_peer_that_loses_most_answers_meets_the_deadline_of_the_inference(tmp_path: Path):
    """Each request is answered within its own deadline; all of them together take too long."""
    heard: dict[int, int] = {}

    def seldom(frame: Frame) -> bytes | None:
        heard[frame.seq] = heard.get(frame.seq, 0) + 1
        return pack(frame.seq, frame.type, frame.payload) if heard[frame.seq] % 4 == 0 else None

    toy = Toy(rows=9, row_bytes=240)
    timing = Timing(answer=0.05, inference=0.1, tries=10)
    peer = Peer(Kind.WRITE, seldom)
    with (
        Bench(toy.build(tmp_path / "build"), to_host=peer) as bench,
        linked(bench, timing) as link,
        pytest.raises(LinkError, match=r"no complete inference within the time limit; \d+ frames were sent"),
    ):
        link.infer([bytes(toy.inputs)], [toy.outputs])


def test_patience_grows_with_the_work_and_the_bytes():
    small, large = Timing.for_work(10_000, 1_000), Timing.for_work(50_000_000, 5_000_000)

    assert small.inference < 40
    assert 300 < large.inference < 2_000
    assert small.whole(10) < small.whole(1_000) < small.whole(10) + 1_000


@pytest.mark.parametrize(("length", "end"), [(80, "xx"), (81, "xx...")])
def test_words_of_a_fault_are_cut_behind_eighty_characters(program: Path, length: int, end: str):
    words = b"e-[fault " + b"x" * (length - 9)

    with (
        Bench(program, to_host=Peer(Kind.RUN, lambda _: b"\r\n" + words + b"\r\n")) as bench,
        pytest.raises(LinkError) as caught,
        linked(bench) as link,
    ):
        everything(link)

    assert str(caught.value).endswith(f"e-[fault {'x' * 69}{end}")
