"""The text protocol of MLPerf Tiny, word by word, spoken with the real application in C and a toy model."""

from __future__ import annotations

import re
import subprocess
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from compilers import HOST, SANITIZERS
from conftest import Gen
from shared import DATA, MODELS, needs_shared
from toy import APP, SCALE, ZERO, Bench, C, Int8, Toy, compile_c

from shoehorn_mcu_host.board.emulate import emulate
from shoehorn_mcu_host.board.frames import Kind, pack, unpack
from shoehorn_mcu_host.board.ports import Port
from shoehorn_mcu_host.firmware.build import build
from shoehorn_mcu_host.folder.project import Project
from shoehorn_mcu_host.validate.reference import Reference

READY = "m-ready\r\n"


class Runner:
    """Sends commands and reads answers as the public runner does: text, ended by m-ready."""

    banner: str

    def __init__(self, port: Port):
        self.port = port

    @classmethod
    def awake(cls, bench: Bench) -> Runner:
        """On a board that wakes up when the port is open, so that its banner is not lost."""
        runner = cls(Port(bench.path))
        bench.power_on()
        runner.banner = runner._until_ready()
        return runner

    @classmethod
    def running(cls, url: str) -> Runner:
        """On a board that woke up before, and may have been heard or not."""
        runner = cls(Port(url))
        answer = runner.raw("are-you-there%")
        if "are-you-there" not in answer:
            runner._until_ready()
        return runner

    def _until_ready(self) -> str:
        heard, deadline = "", time.monotonic() + 10
        while not heard.endswith(READY):
            assert time.monotonic() < deadline, f"no m-ready after {heard!r}"
            heard += self.port.read().decode()
        return heard

    def raw(self, command: str | bytes) -> str:
        """The whole answer, to the byte."""
        self.port.write(command if isinstance(command, bytes) else command.encode())
        return self._until_ready()

    def ask(self, command: str) -> list[str]:
        """The lines before m-ready; each of them ends in CR LF."""
        answer = self.raw(command + "%")
        assert answer.count("\n") == answer.count("\r\n")
        return answer.split("\r\n")[:-2]

    def load(self, data: bytes) -> list[str]:
        """In pieces of 31 bytes; the last answer."""
        assert self.ask(f"db load {len(data)}") == [f"m-[Expecting {len(data)} bytes]"]
        answers = [self.ask(f"db {data[at : at + 31].hex()}") for at in range(0, len(data), 31)]
        assert not any(answers[:-1])
        return answers[-1]


def start(toy: Toy, folder: Path, **environment: str) -> Bench:
    return Bench(toy.build(folder / "build", HOST, *SANITIZERS), powered=False, **environment)


@pytest.fixture(scope="module")
def toy() -> Toy:
    return Toy(rows=49, row_bytes=10, outputs=12, mlperf="kws01")


@pytest.fixture(scope="module")
def runner(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    with start(toy, tmp_path_factory.mktemp("kws")) as bench:
        yield Runner.awake(bench)


def vector(toy: Toy, seed: int) -> Int8:
    return np.random.default_rng(seed).integers(-128, 128, toy.inputs, np.int8)


TOO_MANY = (1_000_001, 2**31 - 1, 2**31, 2**32 + 1, 2**64 + 1, 10**70)  # runs


def results(values: Int8) -> str:
    reals = np.float32(SCALE) * (values.astype(np.float32) - ZERO)
    return f"m-results-[{','.join(f'{v:.3f}' for v in reals)}]"


def test_the_banner_comes_in_order(runner: Runner):
    assert re.fullmatch(
        r"m-timestamp-mode-performance\r\nm-lap-us-\d+\r\nm-init-done\r\nm-ready\r\n",
        runner.banner,
    )


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("name", ["m-name-dut-[shoehorn]"]),
        ("profile", ["m-profile-[ULPMark for tinyML Firmware V0.0.1]", "m-model-[kws01]"]),
        ("nonsense", ["e-[Unknown command: nonsense]"]),
        *((word, [f"e-[Unknown command: {word}]"]) for word in ("start", "stop", "extract_uart_stream")),
        ("Name", ["e-[Unknown command: Name]"]),
        ("names of all", ["e-[Unknown command: names]"]),
        *((f"name {' '.join('abcdefg'[:more])}", ["m-name-dut-[shoehorn]"]) for more in range(1, 8)),
        ("", ["e-[Unknown command: ]"]),
        ("   ", ["e-[Unknown command: ]"]),
        ("infer 0", ["e-[Inference iterations must be >0]"]),
        ("infer -1", ["e-[Inference iterations must be >0]"]),
        ("infer many", ["e-[Inference iterations must be >0]"]),
        ("infer 1 -1", ["e-[Inference warmup must be >=0]"]),
        *((f"infer {n}", ["e-[Inference iterations and warmup must be <=1000000]"]) for n in TOO_MANY),
        *((f"infer 1 {n}", ["e-[Inference iterations and warmup must be <=1000000]"]) for n in TOO_MANY),
        ("db", ["e-[Command 'db' requires a subcommand]"]),
        ("db load", ["e-[Command 'db load' requires the # of bytes]"]),
        ("db load 0", ["e-[Command 'db load' must be >0 bytes]"]),
        ("db load -3", ["e-[Command 'db load' must be >0 bytes]"]),
        ("db load x", ["e-[Command 'db load' must be >0 bytes]"]),
        ("db abc", ["e-[Insufficent number of hex digits]"]),
        ("db 0g", ["e-[Invalid hex digit '0g']"]),
        ("db 00 11", []),
        ("x" * 80, [f"e-[Unknown command: {'x' * 80}]"]),
        ("x" * 81, ["e-[Command longer than 80 characters]"]),
        ("x" * 5000, ["e-[Command longer than 80 characters]"]),
        ("na\r\nme", ["m-name-dut-[shoehorn]"]),
        ("a\x01\x7f", ["e-[Unknown command: a??]"]),
    ],
)
def test_each_command_has_its_answer(runner: Runner, command: str, answer: list[str]):
    assert runner.ask(command) == answer


def test_the_oversize_answer_has_no_prefix_and_a_bare_newline(runner: Runner):
    assert runner.raw("db load 491%") == f"Supplied buffer size 491 exceeds maximum of 490\n{READY}"
    assert runner.raw("db load 99999999999%") == f"Supplied buffer size 2147483647 exceeds maximum of 490\n{READY}"
    assert runner.ask("db " + "ff" * 31) == []  # bytes that nothing waits for go nowhere
    assert runner.ask("db print") == []


TICKS = 1_234_567_891  # nanoseconds between two looks at the clock


def test_timestamps_count_microseconds(toy: Toy, tmp_path: Path):
    """On a board whose clock goes on by TICKS at each look; one nanosecond less than a microsecond does not count."""
    with start(toy, tmp_path, TOY_TICKS=str(TICKS)) as bench:
        runner = Runner.awake(bench)
        laps = [int(re.findall(r"^m-lap-us-(\d+)\r$", runner.banner, re.M)[0])]
        laps += [int(re.fullmatch(r"m-lap-us-(\d+)\r\n" + READY, runner.raw("timestamp%"))[1]) for _ in range(5)]

    assert laps == [look * TICKS // 1000 for look in range(1, 7)]


def test_help_names_every_command(runner: Runner):
    lines = runner.ask("help")

    assert lines[0] == "ULPMark for tinyML Firmware V0.0.1"
    for word in ("name", "profile", "timestamp", "db load", "db print", "infer", "results"):
        assert any(word in line for line in lines)


def test_the_buffer_prints_eight_bytes_a_line(runner: Runner):
    assert runner.load(bytes(range(10, 21))) == ["m-load-done"]

    assert runner.ask("db print") == ["m-buffer-0a-0b-0c-0d-0e-0f-10-11", "m-buffer-12-13-14"]


def test_hex_digits_may_be_of_either_case_and_surplus_ones_are_ignored(runner: Runner):
    runner.ask("db load 3")

    assert runner.ask("db aB") == []
    assert runner.ask("db CDef0011zz") == ["m-load-done"]
    assert runner.ask("db 77") == []
    assert runner.ask("db print") == ["m-buffer-ab-cd-ef"]


def test_a_bad_digit_leaves_the_bytes_before_it(runner: Runner):
    runner.ask("db load 2")

    assert runner.ask("db 01q2") == ["e-[Invalid hex digit 'q2']"]
    assert runner.ask("db 02") == ["m-load-done"]
    assert runner.ask("db print") == ["m-buffer-01-02"]


def test_an_inference_says_its_lines_in_order(toy: Toy, runner: Runner):
    x = vector(toy, 1)
    assert runner.load(x.tobytes()) == ["m-load-done"]
    lines = runner.ask("infer 3 2")
    laps = [int(line.removeprefix("m-lap-us-")) for line in lines if line.startswith("m-lap-us-")]

    assert len(laps) == 2 and laps[0] <= laps[1]
    assert lines == [
        "m-warmup-start-2",
        "m-warmup-done",
        "m-infer-start-3",
        f"m-lap-us-{laps[0]}",
        f"m-lap-us-{laps[1]}",
        "m-infer-done",
        results(toy.reference(x)),
    ]
    assert runner.ask("results") == [results(toy.reference(x))]


def test_the_defaults_are_one_run_after_ten(toy: Toy, runner: Runner):
    lines = runner.ask("infer")

    assert lines[0] == "m-warmup-start-10"
    assert lines[2] == "m-infer-start-1"
    assert runner.ask("infer 2")[:3] == ["m-warmup-start-10", "m-warmup-done", "m-infer-start-2"]


@pytest.mark.parametrize("command", ["infer 1 1000000", "infer 1000000 0"])
@pytest.mark.parametrize("byte", [b"\0\0", b"x", b"%"])
def test_a_byte_stops_inferences_that_would_take_for_ever(runner: Runner, command: str, byte: bytes):
    runner.port.write(f"{command}%".encode() + byte)

    assert runner._until_ready().endswith("e-[Inference stopped]\r\n" + READY)
    assert runner.ask("name") == ["m-name-dut-[shoehorn]"]


def test_bytes_that_come_during_few_inferences_are_the_next_command(toy: Toy, runner: Runner):
    """As they are for a runner that does not wait for m-ready."""
    runner.load(vector(toy, 3).tobytes())

    heard = runner.raw(b"infer 2 1%name%")
    heard += "" if heard.count(READY) == 2 else runner._until_ready()

    assert "Inference stopped" not in heard
    assert heard.endswith(READY + "m-name-dut-[shoehorn]\r\n" + READY)


def test_a_runner_in_the_public_ones_manner_gets_every_result_right(toy: Toy, runner: Runner):
    profile = [re.match(r"^m-(model|profile)-\[([^]]+)]$", line) for line in runner.ask("profile")]
    assert [m and m[2] for m in profile] == ["ULPMark for tinyML Firmware V0.0.1", "kws01"]
    for seed in range(5):
        x = vector(toy, 100 + seed)
        runner.load(x.tobytes())
        for command in ("infer 1 0", "infer 4 3", "infer 1 0"):
            found = [m for m in (re.match(r"^m-results-\[([^]]+)\]$", s) for s in runner.ask(command)) if m]

            assert [f"m-results-[{m[1]}]" for m in found] == [results(toy.reference(x))]


@pytest.mark.parametrize("transform", [0, 1])
@pytest.mark.parametrize("outputs", [12, 700])
def test_results_are_right_without_a_buffer_or_are_refused(transform: int, outputs: int, tmp_path: Path):
    toy = Toy(buffer=0, transform=transform, outputs=outputs)
    x = vector(toy, 2)
    sent = x.tobytes() if transform == 0 else (x.astype(np.int16) + 128).astype(np.uint8).tobytes()
    with start(toy, tmp_path) as bench:
        runner = Runner.awake(bench)
        assert runner.ask("results") == ["e-[No results: use infer first]"]
        runner.load(sent)
        assert runner.ask("db print")[0] == "m-buffer-" + sent[:8].hex("-")
        assert runner.ask("infer 1 0")[-1] == results(toy.reference(x))
        assert runner.ask("db 00") == runner.ask("db print") == []  # the inference took the bytes away
        lost = "e-[Results are overwritten: load again and use 'infer 1 0']"
        kept = results(toy.reference(x)) if outputs == 12 else lost
        assert runner.ask("infer 2 1")[-1] == kept
        runner.load(sent)
        assert runner.ask("infer 2 1")[-1] == kept
        assert runner.ask("results") == [kept]


def test_a_streamed_input_without_memory_to_hold_it_is_refused(tmp_path: Path):
    toy = Toy(streamed=True, buffer=0)
    with start(toy, tmp_path) as bench:
        runner = Runner.awake(bench)
        assert runner.raw("db load 305%") == f"Supplied buffer size 305 exceeds maximum of 0\n{READY}"
        assert runner.ask("db 00") == runner.ask("db print") == []
        assert runner.ask("infer 1 0") == ["e-[Input is streamed and too large to load: use frames]"]
        assert runner.ask("results") == ["e-[No results: use infer first]"]


def test_rows_left_over_from_frames_do_not_reach_an_inference_in_text(tmp_path: Path):
    toy = Toy(streamed=True)
    x = vector(toy, 11)
    with start(toy, tmp_path) as bench:
        runner = Runner.awake(bench)
        runner.load(x.tobytes())
        assert runner.ask("shoehorn") == ["m-shoehorn-[1]"]
        row = bytes(toy.row_bytes)
        frames = (
            (Kind.HELLO, b""),
            (Kind.WRITE, bytes(5) + row[:59]),
            (Kind.WRITE, b"\0" + (59).to_bytes(4, "little") + row[59:]),
            (Kind.PUSH, bytes(5) + zlib.crc32(row).to_bytes(4, "little")),
            (Kind.BYE, b""),
        )
        for seq, (kind, payload) in enumerate(frames, 1):
            runner.port.write(pack(seq, kind, payload))
            heard = b""
            while not any(f and f.seq == seq and f.type == kind | 0x80 for f in map(unpack, heard.split(b"\0"))):
                heard += runner.port.read()
        assert runner.ask("infer 1 0")[-1] == results(toy.reference(x))


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_results_too_large_to_keep_are_right_with_a_buffer(streamed: bool, tmp_path: Path):
    toy = Toy(outputs=700, streamed=streamed)
    x = vector(toy, 3)
    with start(toy, tmp_path) as bench:
        runner = Runner.awake(bench)
        runner.load(x.tobytes())
        for command in ("infer 3 2", "results", "infer 1 0", "results"):
            assert runner.ask(command)[-1] == results(toy.reference(x))


@needs_shared
def test_the_keyword_benchmark_gets_its_labels_over_the_text_protocol(gen: Gen, tmp_path: Path):
    folder = tmp_path / "kws"
    written = gen("firmware", MODELS / "mlperf-kws-dscnn-int8.tflite", "--board", "native", "--out", folder)
    assert written.exit_code == 0, written.output
    project = Project.open(folder)
    build(project)
    samples = np.fromfile(DATA / "kws01" / "x_int8_1000x490.bin", np.int8).reshape(-1, 49, 10, 1)
    rows = [line.split(",") for line in (DATA / "kws01" / "y_labels.csv").read_text().splitlines()]
    reference = Reference.load(folder)
    right = 0
    with emulate(project) as machine:
        runner = Runner.running(machine.url)
        assert runner.ask("profile")[1] == "m-model-[kws01]"
        for sample, row in zip(samples[:20], rows, strict=False):
            assert runner.load(sample.tobytes()) == ["m-load-done"]
            wanted = reference.run([sample[None]])[reference.outputs[0]].reshape(-1)
            reals = np.float32(1 / 256) * (wanted.astype(np.float32) + 128)
            for command in ("infer 1 0", "infer 3 2"):
                assert runner.ask(command)[-1] == f"m-results-[{','.join(f'{v:.3f}' for v in reals)}]"
            right += int(reals.argmax()) == int(row[2])

    assert right >= 17


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_pixels_lose_128(streamed: bool, tmp_path: Path):
    toy = Toy(transform=1, mlperf="vww01", streamed=streamed)
    x = vector(toy, 4)
    sent = (x.astype(np.int16) + 128).astype(np.uint8).tobytes()
    with start(toy, tmp_path) as bench:
        runner = Runner.awake(bench)
        runner.load(sent)
        assert runner.ask("db print")[1] == "m-buffer-" + sent[8:16].hex("-")
        assert runner.ask("infer 2 2")[-1] == results(toy.reference(x))


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_floats_are_quantised_and_compared_with_the_output(streamed: bool, tmp_path: Path):
    toy = Toy(rows=8, row_bytes=80, outputs=640, transform=2, results=1, mlperf="ad01", streamed=streamed)
    rng = np.random.default_rng(5)
    sent = rng.normal(0, 6, toy.inputs).astype(np.float32)
    sent[:8] = [0.03125, -0.03125, 0.09375, 1e9, -1e30, np.inf, -np.inf, 0.0]  # ties, and what saturates
    scaled = sent / np.float32(0.0625)
    away = np.where(scaled < 0, np.ceil(scaled - 0.5), np.floor(scaled + 0.5))
    x = np.clip(away - 5, -128, 127).astype(np.int8)
    sent[3:7] = [1e4, -1e4, 1e4, -1e4]  # the same once saturated, and a sum that can be printed
    finite = sent.copy()
    reals = np.float32(SCALE) * (toy.reference(x).astype(np.float32) - ZERO)
    total = np.float32(0)
    for difference in reals - finite:
        total += difference * difference
    with start(toy, tmp_path) as bench:
        runner = Runner.awake(bench)
        runner.load(sent.tobytes())
        for command in ("infer 1 0", "infer 2 1", "results"):
            assert runner.ask(command)[-1] == f"m-results-[{total / np.float32(640):.3f}]"


def test_frames_and_back_forget_the_results(toy: Toy, runner: Runner):
    runner.load(vector(toy, 6).tobytes())
    runner.ask("infer 1 0")

    assert runner.ask("shoehorn") == ["m-shoehorn-[1]"]
    assert runner.ask("results") == ["e-[No results: use infer first]"]
    assert runner.ask("name") == ["m-name-dut-[shoehorn]"]


def test_floats_print_as_printf_does(tmp_path: Path):
    rng = np.random.default_rng(7)
    special = [
        "00000000",
        "80000000",
        "7f800000",
        "ff800000",
        "7f7fffff",
        "ff7fffff",
        "00000001",
        "007fffff",
        "00800000",
    ]
    ties = np.array([0.0005, 0.0625, 0.1875, 0.3125, 2.5, 1234.5625, -0.0004, 9.9996, 16777216, 2**53], np.float32)
    bits = [
        *special,
        *(f"{b:08x}" for b in ties.view(np.uint32)),
        *(f"{b:08x}" for b in (np.arange(4096) / 4096).astype(np.float32).view(np.uint32)),
        *(f"{b:08x}" for b in rng.integers(0, 2**32, 5000, np.uint32) if (b >> 23) & 0xFF != 0xFF),
    ]
    program = tmp_path / "fmt"
    compile_c([APP / "fmt.c", C / "fmt_test.c"], program, HOST, *SANITIZERS, f"-I{APP}")
    found = subprocess.run([program], input="\n".join(bits), capture_output=True, text=True, check=True).stdout.split()
    values = np.array([int(b, 16) for b in bits], np.uint32).view(np.float32)

    assert found == [f"{float(value):.3f}" for value in values]
