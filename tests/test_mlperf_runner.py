"""The runner of MLPerf Tiny against devices made of Python: its modes, its files, and what it says of bad devices."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from shoehorn_mcu_host.base.errors import HostError, InputError, LinkError
from shoehorn_mcu_host.base.tasks import BY_ID, TASKS, Metric
from shoehorn_mcu_host.mlperf import data, modes, score
from shoehorn_mcu_host.mlperf.data import Made
from shoehorn_mcu_host.mlperf.device import Device, Inference
from shoehorn_mcu_host.mlperf.score import Detections, Judged
from shoehorn_mcu_host.mlperf.session import Session
from shoehorn_mcu_host.mlperf.sound import Sound, sounds

KWS, AD, SWW = BY_ID["kws01"], BY_ID["ad01"], BY_ID["sww01"]
Answers = Callable[["Fake", list[str]], str | None]


class Fake:
    """A port with a device of Python behind it. `odd` may answer a command otherwise: text, or None for the usual."""

    name = "/dev/fake"

    def __init__(self, model: str = "kws01", odd: Answers = lambda *_: None, us_each: int = 1_000_000):
        self.model, self.odd, self.us_each = model, odd, us_each
        self.heard: list[str] = []
        self.loaded = b""
        self._waited, self._us, self._said, self._part = 0, 0, b"", ""
        self.closed = False

    def write(self, sent: bytes) -> None:
        self._part += sent.decode()
        while "%" in self._part:
            command, _, self._part = self._part.partition("%")
            self.heard.append(command)
            words = command.split(" ")
            answer = self.odd(self, words)
            said = self.usual(words) if answer is None else answer
            self._said += (said + "m-ready\r\n").encode()

    def read(self) -> bytes:
        said, self._said = self._said[:100], self._said[100:]
        return said

    def close(self) -> None:
        self.closed = True

    def usual(self, words: list[str]) -> str:
        known: dict[str, Callable[..., str]] = {
            "name": lambda: "m-name-dut-[fake]\r\n",
            "profile": lambda: f"m-profile-[of a fake]\r\nm-model-[{self.model}]\r\n",
            "db": self._db,
            "infer": self._infer,
            "start": lambda: "Listening\r\n",
            "stop": lambda: "Streaming stopped.\r\n",
            "extract_uart_stream": self._hear,
        }
        if words[0] not in known:
            return f"e-[Unknown command: {words[0]}]\r\n"
        return known[words[0]](*words[1:])

    def _db(self, *words: str) -> str:
        if words[0] == "load":
            self._waited, self.loaded = int(words[1]), b""
            return f"m-[Expecting {words[1]} bytes]\r\n"
        self.loaded += bytes.fromhex(words[0])
        assert len("db " + words[0]) <= 80
        return "m-load-done\r\n" if len(self.loaded) == self._waited else ""

    def results(self) -> str:
        """One value at the place that the first byte names; of anomalies, the first float."""
        if self.model == "ad01":
            return f"{np.frombuffer(self.loaded, '<f4')[0]:.3f}"
        return ",".join("1.000" if self.loaded[:1] == bytes([i]) else "0.000" for i in range(BY_ID[self.model].values))

    def _infer(self, runs: str, warmups: str) -> str:
        begun, self._us = self._us, self._us + int(runs) * self.us_each
        lines = (f"m-warmup-start-{warmups}", "m-warmup-done", f"m-infer-start-{runs}", f"m-lap-us-{begun}")
        return "\r\n".join((*lines, f"m-lap-us-{self._us}", "m-infer-done", f"m-results-[{self.results()}]", ""))

    def _hear(self) -> str:
        return f"m-features-[1, 2]\r\nm-activations-[{np.int8(self.loaded[0] - 128)}, 0, 0]\r\n"


def told(_: str) -> None:
    pass


def samples(folder: Path, labels: list[int], guesses: list[int]) -> list[data.Sample]:
    """Keywords whose first byte is what the fake guesses."""
    folder.mkdir(exist_ok=True)
    rows = []
    for number, (label, guess) in enumerate(zip(labels, guesses, strict=True)):
        (folder / f"s{number}.bin").write_bytes(bytes([guess]) + bytes(489))
        rows.append(f"s{number}.bin,12,{label}")
    (folder / "y_labels.csv").write_text("\n".join(rows) + "\n")
    return data.samples(folder, KWS)


def device(fake: Fake, session: Session) -> Device:
    return Device(fake, session.say, patience=0.01)  # type: ignore[arg-type]


def test_accuracy_infers_each_sample_once_and_counts_the_right_ones(tmp_path: Path):
    fake = Fake()
    every = samples(tmp_path / "kws01", [0, 1, 2, 3, 11], [0, 1, 2, 4, 11])
    with Session(tmp_path / "out") as session:
        found = modes.accuracy(device(fake, session), KWS, every, session, told)

    assert (found.samples, found.figure, found.meets) == (5, 80.0, False)
    assert [c for c in fake.heard if c.startswith("infer")] == ["infer 1 0"] * 5
    said = (tmp_path / "out" / "results.txt").read_text()
    assert re.match(r"\d{4}\.\d{6} ulp-mlperf: Top 1% = 80\.0\n", said)
    entries = json.loads((tmp_path / "out" / "results.json").read_text())
    assert [entry["file"] for entry in entries] == [f"s{i}.bin" for i in range(5)]
    assert entries[3]["class"] == "3" and entries[3]["infer"]["results"][4] == 1.0


def anomalies(folder: Path, values: list[list[float]], labels: list[int]) -> list[data.Sample]:
    """Sounds of several windows, one float apart, whose first values are these."""
    folder.mkdir()
    rows = []
    for number, (starts, label) in enumerate(zip(values, labels, strict=True)):
        floats = np.zeros(640 + len(starts) - 1, "<f4")
        floats[: len(starts)] = starts
        (folder / f"a{number}.bin").write_bytes(floats.tobytes())
        rows.append(f"a{number}.bin,2,{label},2560,4")
    (folder / "y_labels.csv").write_text("\n".join(rows))
    return data.samples(folder, AD)


def test_an_anomaly_is_the_mean_of_its_windows_and_the_area_is_over_them(tmp_path: Path):
    every = anomalies(tmp_path / "ad01", [[1, 3], [9, 0, 0], [4], [2.5]], [0, 0, 1, 1])
    fake = Fake("ad01")
    with Session(tmp_path / "out") as session:
        found = modes.accuracy(device(fake, session), AD, every, session, told)

    assert found.figure == 0.75  # means 2 and 3 against 4 and 2.5: three of four pairs
    assert fake.heard.count("infer 1 0") == 7
    assert "AUC = 0.750" in (tmp_path / "out" / "results.txt").read_text()


def test_performance_takes_five_windows_of_ten_seconds_and_tells_their_median(tmp_path: Path):
    fake = Fake(us_each=300_000)
    inputs = [Made(f"x{i}", bytes([i]) + bytes(489)) for i in range(5)]
    with Session(tmp_path / "out") as session:
        found = modes.performance(device(fake, session), KWS, inputs, session, modes.Windows(), told)

    assert [c for c in fake.heard if c.startswith("infer")] == ["infer 10 0", *["infer 37 10"] * 5]
    assert found.invalid == () and found.throughput == pytest.approx(1 / 0.3)
    said = (tmp_path / "out" / "results.txt").read_text()
    assert re.search(r"^\d{4}\.\d{6} ulp-mlperf: Median throughput is      3\.333 inf\./sec\.$", said, re.M)
    assert said.count("Runtime requirements have been met.") == 5


def test_a_run_is_invalid_for_the_reasons_of_the_public_runner(tmp_path: Path):
    fake = Fake(us_each=100)
    with Session(tmp_path / "out") as session:
        windows = modes.Windows(loops=4, iterations=9, seconds=0, warmups=0)
        found = modes.performance(device(fake, session), KWS, [data.made_up(KWS)], session, windows, told)

    assert [reason[:7] for reason in found.invalid] == ["ERROR 1", "ERROR 2", "ERROR 3"]
    assert "Median throughput" not in (tmp_path / "out" / "results.txt").read_text()
    right = Inference((1.0,), 10, 0, 10_000_000)
    assert score.invalid([right] * 5) == []
    assert len(score.invalid([right] * 6)) == 1
    assert len(score.invalid([*[right] * 4, Inference((1.0,), 10, 0, 9_999_999)])) == 1
    assert len(score.invalid([*[right] * 4, Inference((1.0,), 9, 0, 10_000_000)])) == 1


def test_the_median_is_of_the_windows():
    windows = [Inference((0.0,), 10, 0, us) for us in (10_000_000, 20_000_000, 40_000_000)]
    assert score.throughput(windows) == 0.5
    assert Inference((0.0,), 10, 0, 0).throughput == 0.0


def heard(steps: list[int], count: int = 200) -> list[int]:
    return [116 if step in steps else 115 for step in range(count)]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([], (0, 1, 0)),
        ([32], (1, 0, 0)),  # 1.024 s, the first step after the begin
        ([31], (0, 1, 1)),  # 0.992 s
        ([62], (1, 0, 0)),  # 1.984 s, within a second of the end
        ([63], (0, 1, 1)),  # 2.016 s
        ([40, 41, 42], (1, 0, 0)),
        ([0, 31, 100, 131, 132], (0, 1, 3)),  # 0 and 0.99 s are one; 3.2, 4.19 s are one, 4.22 s is another
    ],
)
def test_a_word_counts_from_its_begin_until_a_second_after_its_end(steps: list[int], expected: tuple[int, int, int]):
    sound = Sound("x.wav", Path("x.wav"), ((1.0, 1.0),), np.zeros(512 * 200, np.int16))
    assert score.detections(sound, heard(steps)) == Detections(*expected)


def test_eight_faults_of_each_kind_are_allowed():
    assert score.meets(SWW, Detections(42, 8, 8))
    assert not score.meets(SWW, Detections(41, 9, 0))
    assert not score.meets(SWW, Detections(50, 0, 9))
    assert score.meets(KWS, 90.0) and not score.meets(KWS, 89.9)
    assert score.meets(AD, 0.85) and not score.meets(AD, 0.849) and not score.meets(AD, None)


def pairs_won(values: list[float], yes: list[bool]) -> float:
    """The area under the curve by its definition: of all pairs of a positive and a negative."""
    won = [
        (a > b) + 0.5 * (a == b)
        for a, x in zip(values, yes, strict=True)
        if x
        for b, y in zip(values, yes, strict=True)
        if not y
    ]
    return float(np.mean(won))


@pytest.mark.parametrize("width", [1, 2, 5])
def test_the_area_is_the_part_of_pairs_in_the_right_order(width: int):
    rng = np.random.default_rng(3)
    values = np.round(rng.random((60, width)), 1)
    labels = rng.integers(0, max(2, width), 60)
    judged = [Judged("x", int(y), tuple(v)) for y, v in zip(labels, values.tolist(), strict=True)]
    kinds = [(values[:, -1], labels == 1)] if width <= 2 else [(values[:, k], labels == k) for k in range(width)]
    expected = np.mean([pairs_won(v.tolist(), y.tolist()) for v, y in kinds])
    assert score.area(judged) == pytest.approx(expected, abs=1e-12)


def test_an_area_without_both_kinds_is_none():
    assert score.area([Judged("x", 1, (0.5,)), Judged("y", 1, (0.7,))]) is None
    assert score.area([Judged("x", 0, (0.5, 0.2, 0.3)), Judged("y", 1, (0.1, 0.2, 0.7))]) is None


def wav(path: Path, samples: np.ndarray, rate: int = 16000, channels: int = 2) -> None:  # type: ignore[type-arg]
    import wave

    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(np.repeat(samples[:, None], channels, 1).astype("<i2").tobytes())


def words(folder: Path, loud: list[int], windows: list[list[float]], steps: int = 100) -> list[Sound]:
    """A sound whose steps have a first byte of 255 (heard) at `loud`, else 0."""
    folder.mkdir(exist_ok=True)
    x = np.zeros((steps, 512), np.int16)
    x[loud, 0] = 255
    wav(folder / "w.wav", x.reshape(-1))
    truth = [{"wav_file": "w.wav", "detection_windows": windows, "length_sec": 3.2, "sample_rate": 16000}]
    (folder / "sww_short_test.json").write_text(json.dumps(truth))
    return sounds(folder)


def test_the_wake_word_hears_the_first_channel_step_by_step(tmp_path: Path):
    every = words(tmp_path / "sww01", [10, 90], [[0.3, 0.5], [1.5, 1.6]])
    fake = Fake("sww01")
    with Session(tmp_path / "out") as session:
        found = modes.hearing(device(fake, session), SWW, every, session, told)

    assert found.figure == Detections(1, 1, 1) and found.meets
    assert fake.heard.count("extract_uart_stream") == 100
    assert fake.heard.index("start") < fake.heard.index("extract_uart_stream") and fake.heard[-1] == "stop"
    said = (tmp_path / "out" / "results.txt").read_text()
    assert said == "Accuracy: 1 True positives, 1 False negatives, 1 False positives\n"


def test_an_emulator_is_named_in_every_stamped_line(tmp_path: Path):
    fake = Fake()
    every = samples(tmp_path / "kws01", [0, 1], [0, 1])
    with Session(tmp_path / "out", "qemu-system-arm") as session:
        modes.accuracy(device(fake, session), KWS, every, session, told)

    for name in ("log.txt", "results.txt"):
        text = (tmp_path / "out" / name).read_text()
        assert text.startswith("EMULATED by qemu-system-arm: no figure in this file is a result of hardware.\n")
        assert "ulp-mlperf" not in text and "EMULATED-qemu-system-arm: " in text
    assert "emulated" in json.loads((tmp_path / "out" / "results.json").read_text())[0]


def test_a_port_that_vanishes_leaves_what_was_measured(tmp_path: Path):
    def odd(fake: Fake, words: list[str]) -> str | None:
        if words[0] == "infer" and fake.heard.count("infer 1 0") == 3:
            raise HostError("/dev/fake: the port vanished; was the board unplugged?")
        return None

    every = samples(tmp_path / "kws01", [0, 1, 2, 3], [0, 1, 2, 3])
    with pytest.raises(HostError, match="the port vanished"), Session(tmp_path / "out") as session:
        modes.accuracy(device(Fake(odd=odd), session), KWS, every, session, told)

    entries = json.loads((tmp_path / "out" / "results.json").read_text())
    assert [entry["file"] for entry in entries] == ["s0.bin", "s1.bin"]
    log = (tmp_path / "out" / "log.txt").read_text()
    assert log.count("m-results    :") == 2
    assert log.splitlines()[-1] == "ended: /dev/fake: the port vanished; was the board unplugged?"
    assert (tmp_path / "out" / "results.txt").read_text() == ""


def test_a_wake_word_that_vanishes_keeps_its_activations(tmp_path: Path):
    def odd(fake: Fake, words: list[str]) -> str | None:
        if words[0] == "extract_uart_stream" and fake.heard.count(words[0]) == 4:
            raise HostError("/dev/fake: the port vanished")
        return None

    every = words(tmp_path / "sww01", [1], [[0.0, 0.1]])
    with pytest.raises(HostError, match="the port vanished"), Session(tmp_path / "out") as session:
        modes.hearing(device(Fake("sww01", odd=odd), session), SWW, every, session, told)

    (entry,) = json.loads((tmp_path / "out" / "results.json").read_text())
    assert entry["activations"] == [-128, 127, -128]


ODD = {
    "another model": ({"profile": "m-model-[vww01]\r\n"}, "the device runs vww01; flash the firmware of kws01"),
    "no model of ours": ({"profile": "m-model-[x\x1b[31m]\r\n"}, r"the device names the model 'x\?\[31m'; flash"),
    "an unknown model": ({"profile": "m-model-[toy]\r\n"}, "the device names the model 'toy'; flash the firmware of"),
    "results of words": ({"infer": "m-lap-us-1\r\nm-lap-us-2\r\nm-results-[a,b]\r\n"}, r"results are \[a,b\]; kws01"),
    "no numbers": ({"infer": f"m-lap-us-1\r\nm-lap-us-2\r\nm-results-[{'nan,' * 12}]\r\n"}, "has 12 finite numbers"),
    "too few": ({"infer": "m-lap-us-1\r\nm-lap-us-2\r\nm-results-[1.0]\r\n"}, r"results are \[1.0\]; kws01 has 12"),
    "no results": ({"infer": "m-lap-us-1\r\nm-lap-us-2\r\n"}, r"results are \[nothing\]"),
    "laps backwards": ({"infer": "m-lap-us-9\r\nm-lap-us-2\r\n"}, "no two laps that go on in time"),
    "one lap": ({"infer": "m-lap-us-9\r\n"}, "no two laps that go on in time"),
    "a refusal": ({"infer": "e-[Inference stopped]\r\n"}, r"the device refused: e-\[Inference stopped\]"),
    "lost bytes": ({"db": ""}, "490 bytes were sent and no m-load-done came"),
    "too small": ({"db": "Supplied buffer size 490 exceeds maximum of 4\n"}, "the device refused: Supplied buffer"),
}


@pytest.mark.parametrize("case", ODD)
def test_an_odd_device_is_an_error_of_one_line(case: str, tmp_path: Path):
    answers, message = ODD[case]
    every = samples(tmp_path / "kws01", [0], [0])
    fake = Fake(odd=lambda _, words: answers.get(words[0]))
    with pytest.raises(LinkError, match=message) as caught, Session(tmp_path / "out") as session:
        modes.accuracy(device(fake, session), KWS, every, session, told)

    assert str(caught.value).startswith("/dev/fake: ") and "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("said", ["x", "128", "-129", "", "1.5", "9" * 400])
def test_activations_that_are_no_int8_are_an_error(said: str, tmp_path: Path):
    every = words(tmp_path / "sww01", [], [])
    fake = Fake("sww01", odd=lambda _, w: f"m-activations-[{said}]\r\n" if w[0] == "extract_uart_stream" else None)
    with pytest.raises(LinkError, match="wanted are int8 numbers"), Session(tmp_path / "out") as session:
        modes.hearing(device(fake, session), SWW, every, session, told)


def test_a_silent_device_is_given_up(tmp_path: Path):
    class Silent(Fake):
        def write(self, sent: bytes) -> None:
            pass

    with Session(tmp_path / "out") as session, pytest.raises(LinkError, match="no m-ready comes; is it a board with"):
        device(Silent(), session).awake()


def test_what_was_said_before_is_passed_by(tmp_path: Path):
    fake = Fake()
    fake.write(b"name%profile%infer 1 0%nam")
    with Session(tmp_path / "out") as session:
        found = device(fake, session)
        found.awake()
        assert found.name() == "fake"


def change(**files: object) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        for name, content in files.items():
            path = folder / {"truth": "y_labels.csv", "first": "s0.bin"}[name]
            path.unlink()
            if isinstance(content, Path):
                path.symlink_to(content)
            elif content is not None:
                path.write_bytes(content if isinstance(content, bytes) else str(content).encode())

    return apply


BAD = {
    "no labels": (change(truth=None), r"there is no 'y_labels\.csv' in .*; copy it there"),
    "empty labels": (change(truth=""), r"y_labels\.csv: has no rows; take the runner's file"),
    "no text": (change(truth=b"\xff\xfe\x00"), r"y_labels\.csv: cannot be read as text"),
    "no CSV": (change(truth='s0.bin,12,"0\n'), r"y_labels\.csv: is no CSV"),
    "too few fields": (change(truth="s0.bin,12"), "row 1: has 2 of the fields file, classes, label"),
    "a label too high": (change(truth="s1.bin,12,3\ns0.bin,12,12"), "row 2: holds label 12; kws01 tells 12 classes"),
    "a negative label": (change(truth="s0.bin,12,-1"), "row 1: the label is '-1'; wanted is a whole number"),
    "a label of words": (change(truth="s0.bin,12,yes"), "row 1: the label is 'yes'; wanted is a whole number"),
    "a missing file": (change(first=None), r"row 1: there is no 's0\.bin' in .*; copy it there"),
    "a short file": (change(first=bytes(489)), r"row 1: 's0\.bin' has 489 bytes; kws01 wants 490"),
    "a long file": (change(first=bytes(491)), r"row 1: 's0\.bin' has 491 bytes; kws01 wants 490"),
    "a link out": (change(first=Path("/etc/hostname")), r"row 1: 's0\.bin' is a link out of .*; copy the file"),
    "a path": (change(truth="../kws01/s0.bin,12,0"), r"row 1: '\.\./kws01/s0\.bin' is no name of a file in the"),
    "an absolute path": (change(truth="/etc/passwd,12,0"), "row 1: '/etc/passwd' is no name of a file in the folder"),
    "control characters": (change(truth="\x1b[2Js.bin,12,0"), r"row 1: there is no '\\x1b\[2Js\.bin' in"),
    "a name too long": (change(truth=f"{'x' * 5000},12,0"), "is no name of a file in the folder"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_data_is_one_line_that_names_file_and_row(case: str, tmp_path: Path):
    apply, message = BAD[case]
    folder = tmp_path / "kws01"
    samples(folder, [0, 1], [0, 1])
    apply(folder)
    with pytest.raises(InputError, match=message) as caught:
        data.samples(folder, KWS)

    assert str(folder) in str(caught.value) and len(str(caught.value).splitlines()) == 1


def test_an_absent_or_empty_folder_of_data_is_named(tmp_path: Path):
    with pytest.raises(InputError, match=r"no such folder; kws01 needs y_labels\.csv"):
        data.samples(tmp_path / "none", KWS)
    with pytest.raises(InputError, match=r"there is no 'y_labels\.csv'"):
        data.samples(tmp_path, KWS)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("a0.bin,2,1", "names no size and stride"),
        ("a0.bin,2,1,2560,0", "windows of 2560 bytes, 0 apart"),
        ("a0.bin,2,1,100,4", "windows of 100 bytes, 4 apart; ad01 wants 2560"),
        ("a0.bin,2,2,2560,4", "holds label 2; ad01 tells 2 classes apart"),
    ],
)
def test_windows_of_anomalies_are_checked(row: str, message: str, tmp_path: Path):
    folder = tmp_path / "ad01"
    anomalies(folder, [[1.0]], [1])
    (folder / "y_labels.csv").write_text(row)
    with pytest.raises(InputError, match=message):
        data.samples(folder, AD)


@pytest.mark.parametrize(
    ("truth", "message"),
    [
        ("[", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ("{}", "is no list of sounds"),
        ("[]", "is no list of sounds"),
        ("[5]", "sound 1: names no wav_file"),
        ('[{"wav_file": "../w.wav", "detection_windows": []}]', "is no name of a file in the folder"),
        ('[{"wav_file": "v.wav", "detection_windows": []}]', r"there is no 'v\.wav'"),
        ('[{"wav_file": "w.wav"}]', "detection_windows are no list"),
        ('[{"wav_file": "w.wav", "detection_windows": [[2, 1]]}]', "detection_windows are no list"),
        ('[{"wav_file": "w.wav", "detection_windows": [[NaN, 1]]}]', "detection_windows are no list"),
        ('[{"wav_file": "w.wav", "detection_windows": [[0, true]]}]', "detection_windows are no list"),
    ],
)
def test_bad_truth_of_sounds_is_one_line(truth: str, message: str, tmp_path: Path):
    words(tmp_path, [], [])
    (tmp_path / "sww_short_test.json").write_text(truth)
    with pytest.raises(InputError, match=message):
        sounds(tmp_path)


def test_bad_sounds_are_one_line(tmp_path: Path):
    words(tmp_path, [], [])
    (tmp_path / "w.wav").write_bytes(b"RIFF of nothing")
    with pytest.raises(InputError, match=r"w\.wav: is no WAV file"):
        sounds(tmp_path)
    wav(tmp_path / "w.wav", np.zeros(1000), rate=8000)
    with pytest.raises(InputError, match="8000 Hz and 16 bits; sww01 wants 16000 Hz"):
        sounds(tmp_path)
    wav(tmp_path / "w.wav", np.zeros(511))
    with pytest.raises(InputError, match="has 511 samples; a step alone has 512"):
        sounds(tmp_path)


def test_a_task_is_one_consistent_row():
    assert len({task.id for task in TASKS}) == len({task.short for task in TASKS}) == 6
    for task in TASKS:
        assert task.values == (1 if task.metric is Metric.AUC else task.output[-1])
        assert len(data.made_up(task).data) == task.sent_bytes
