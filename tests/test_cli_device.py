"""`gen flash`, `emulate`, `bench` and `validate` on the shipped model: the board `native`, and one in QEMU."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from conftest import Gen

from shoehorn_mcu.base.paths import MODELS
from shoehorn_mcu_host.board.link import Link
from shoehorn_mcu_host.board.ports import Port
from shoehorn_mcu_host.validate.reference import Reference

needs_qemu = pytest.mark.skipif(shutil.which("qemu-system-arm") is None, reason="qemu-system-arm is not installed")


@pytest.fixture(scope="module")
def project(digits_project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy that these tests build; none of them changes a source in it."""
    folder = tmp_path_factory.mktemp("device") / "digits"
    shutil.copytree(digits_project, folder)
    return folder


@contextmanager
def emulated(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """`gen emulate` as a process of its own."""
    code = "from shoehorn_mcu.__main__ import main; main()"
    command = [sys.executable, "-c", code, "emulate", str(folder), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def vectors(path: Path, count: int) -> Path:
    rng = np.random.default_rng(3)
    np.savez(path, image=rng.integers(-128, 128, (count, 8, 8, 1), np.int8))
    return path


def test_validate_says_the_contracts_object_and_builds_first(gen: Gen, project: Path):
    result = gen("validate", project, "--emulate", "--count", 20, "--seed", 4, "--json")
    found = json.loads(result.stdout)

    assert result.exit_code == 0
    assert found.pop("seconds") > 0
    assert found == {
        "vectors": 20,
        "mismatched_vectors": 0,
        "max_abs_diff": 0,
        "first_bad_op": None,
        "transport": "emulator",
    }
    assert json.loads((project / "report.json").read_text())["firmware"]["ram_bytes"] > 0


def test_validate_takes_vectors_and_gives_outputs(gen: Gen, project: Path, tmp_path: Path):
    x, y = vectors(tmp_path / "x.npz", 7), tmp_path / "y.npz"
    result = gen("validate", project, "--emulate", "--inputs", x, "--outputs", y)
    assert result.exit_code == 0, result.output
    reference = Reference.load(project)
    images, scores = np.load(x)["image"], np.load(y)["digit"]

    assert "7 vectors" in result.stdout
    assert scores.shape == (7, 10) and scores.dtype == np.int8
    for image, score in zip(images, scores, strict=True):
        assert np.array_equal(reference.run([image[None]])["digit"][0], score)


def test_validate_shows_and_reports_what_others_compute(gen: Gen, project: Path, tmp_path: Path):
    arguments = ["validate", project, "--inputs", vectors(tmp_path / "x.npz", 4)]
    against = ["--against", "tflite", "--source", MODELS / "digits.tflite"]

    done = gen(*arguments, *against, "--outputs", tmp_path / "z.npz")
    assert done.exit_code == 0, done.output
    assert "LiteRT" in done.stdout and "same top-1" in done.stdout

    with np.load(tmp_path / "z.npz") as outputs:
        wrong = {name: outputs[name] ^ np.int8(1) for name in outputs.files}
    np.savez(tmp_path / "wrong.npz", **wrong)
    failed = gen(*arguments, *against, "--expect", tmp_path / "wrong.npz", "--json")
    said = json.loads(failed.stdout)
    assert (failed.exit_code, said["mismatched_vectors"]) == (1, 0)
    assert (said["against"]["within"], said["expected"]["within"]) == (True, False)
    (expected,) = said["expected"]["outputs"]
    assert (expected["max_steps"], expected["steps"][1]) == (1, expected["values"])
    report = json.loads((project / "report.json").read_text())
    assert (report["against"], report["expected"]) == (said["against"], said["expected"])
    allowed = gen(*arguments, "--expect", tmp_path / "wrong.npz", "--tolerance", "1")
    assert allowed.exit_code == 0, allowed.output


def test_bench_says_the_contracts_object(gen: Gen, project: Path):
    result = gen("bench", project, "--emulate", "--runs", 2, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    report = json.loads((project / "report.json").read_text())

    assert (found["board"], found["transport"], found["unit"], found["runs"]) == ("native", "emulator", "us", 2)
    assert found["clock"]["hz"] == 1_000_000_000
    assert [(op["name"], op["kernel"]) for op in found["ops"]] == [(o["name"], o["kernel"]) for o in report["ops"]]
    assert sum(op["median"] for op in found["ops"]) > 0
    assert found["cycles"] is None and all(op["cycles"] is None for op in found["ops"])


def test_bench_prints_a_row_per_op(gen: Gen, project: Path):
    result = gen("bench", project, "--runs", 1)  # native is nothing but an emulator: no --emulate needed

    assert result.exit_code == 0
    assert len(re.findall(r"^conv_2d_\d+ ", result.stdout, re.MULTILINE)) > 5
    assert "whole inference: " in result.stdout and "stack: " in result.stdout


@needs_qemu
def test_a_board_in_qemu_counts_instructions_and_is_exact(gen: Gen, tmp_path: Path):
    folder = tmp_path / "digits"
    assert gen("firmware", "--board", "rpi-zero", "--out", folder).exit_code == 0
    validated = json.loads(gen("validate", folder, "--emulate", "--count", 5, "--json").stdout)
    timed = [json.loads(gen("bench", folder, "--emulate", "--runs", 3, "--json").stdout) for _ in range(2)]

    assert (validated["vectors"], validated["mismatched_vectors"]) == (5, 0)
    assert timed[0]["unit"] == "instructions"
    assert timed[0]["cycles"] is None
    # The timer ticks once per thousand instructions, so two counts of one program may differ by a tick.
    assert abs(timed[0]["total"]["median"] - timed[1]["total"]["median"]) <= 2_000
    # The digits model has 99,552 multiply-accumulates; no core does ten of them in one instruction.
    assert 10_000 < timed[0]["total"]["min"] < 100_000_000


def test_a_planted_fault_is_found_and_named(gen: Gen, project: Path, tmp_path: Path):
    folder = tmp_path / "faulty"
    shutil.copytree(project, folder, ignore=shutil.ignore_patterns(".pio"))
    for weights in folder.glob("lib/digits/src/*weights*.c"):
        text = weights.read_text()
        start = text.index("{", text.index("[", text.index("op3"))) if "op3" in text else -1
        assert start > 0
        number = re.compile(r"-?\d+").search(text, start)
        assert number
        weights.write_text(f"{text[: number.start()]}{(int(number[0]) + 90) % 127}{text[number.end() :]}")
    result = gen("validate", folder, "--emulate", "--count", 3, "--json")
    found = json.loads(result.stdout)

    assert result.exit_code == 1
    assert found["mismatched_vectors"] == 3
    assert found["first_bad_op"] == json.loads((folder / "plan.json").read_text())["ops"][3]["name"]


def test_a_firmware_of_another_model_is_refused(gen: Gen, project: Path, tmp_path: Path):
    folder = tmp_path / "other"
    shutil.copytree(project, folder)
    plan = json.loads((folder / "plan.json").read_text())
    (folder / "plan.json").write_text(json.dumps({**plan, "identity": "0123456789abcdef", "model": "other"}))
    for command in ("validate", "bench"):
        result = gen(command, folder, "--emulate", "--json")

        assert result.exit_code == 1
        assert "the board runs another firmware" in json.loads(result.stdout)["error"]["message"]
        assert re.fullmatch(r"gen: .*the board runs another firmware \('digits'.*gen flash\)\n", result.stderr)


def test_emulate_prints_a_port_and_stays_until_interrupted(gen: Gen, project: Path):
    gen("validate", project, "--count", 1)  # so that it is built
    with emulated(project) as process:
        assert process.stdout and process.stderr
        url = process.stdout.readline().strip()
        result = gen("validate", project, "--port", url, "--count", 2, "--json")
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["transport"] == "serial"
        with Link(Port(url)) as link:  # a port serves one after another, and is busy meanwhile
            assert link.hello.name == "digits"
            busy = gen("validate", project, "--port", url)
            assert (busy.exit_code, busy.stderr) == (1, f"gen: {url}: busy; another program has it open\n")
        assert process.poll() is None
        made = Path(url).stat().st_ctime_ns
        process.send_signal(signal.SIGINT)

        assert process.wait(10) == 130
        assert process.stderr.read().splitlines()[-1] == "gen: interrupted"
    with contextlib.suppress(FileNotFoundError):  # its number may be another program's by now
        assert Path(url).stat().st_ctime_ns > made


def test_emulate_says_its_url_as_json(project: Path):
    with emulated(project, "--json") as process:
        assert process.stdout
        text = ""
        while not text.rstrip().endswith("}"):
            text += process.stdout.readline()
        found = json.loads(text)

    assert found["board"] == "native"
    assert found["url"].startswith("/dev/")


def test_a_board_that_dies_in_mid_run_is_one_line(gen: Gen, project: Path):
    with emulated(project) as process:
        assert process.stdout
        url = process.stdout.readline().strip()
        link = Link(Port(url))
        process.kill()
        process.wait()
        with pytest.raises(Exception, match="the port vanished") as caught:
            link.infer([bytes(64)], [10])

        assert "\n" not in str(caught.value)
        link.close()


def test_flash_says_its_commands_before_it_runs_them(gen: Gen, project: Path):
    shown = gen("flash", project, "--dry-run")
    said = json.loads(gen("flash", project, "--dry-run", "--json").stdout)

    assert shown.exit_code == 0
    assert "-t upload" in shown.stdout
    assert said == {"board": "native", "flashed": False, "commands": shown.stdout.splitlines()}


def test_flash_builds_and_uploads(gen: Gen, project: Path):
    result = gen("flash", project, "--json")

    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["flashed"] is True


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("validate", "--inputs", "x.npz", "--count", "3"), "--inputs excludes --count and --seed"),
        (("validate", "--inputs", "x.npz", "--seed", "3"), "--inputs excludes --count and --seed"),
        (("validate", "--count", "0"), "0 is not in the range"),
        (("validate", "--port", "x", "--emulate"), "--port and --emulate exclude each other"),
        (("bench", "--port", "x", "--emulate"), "--port and --emulate exclude each other"),
        (("bench", "--runs", "0"), "0 is not in the range"),
        (("emulate", "--port", "x"), "No such option"),
    ],
)
def test_wrong_usage_exits_with_2(gen: Gen, project: Path, arguments: tuple[str, ...], message: str):
    result = gen(arguments[0], project, *arguments[1:])

    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("command", ["flash", "emulate", "bench", "validate"])
def test_what_is_no_project_is_refused_in_a_line(gen: Gen, command: str, tmp_path: Path):
    result = gen(command, tmp_path, "--json")

    assert (result.exit_code, json.loads(result.stdout)["error"]["kind"]) == (1, "host")
    assert re.fullmatch(r"gen: .*not a Shoehorn folder.*\n", result.stderr)


def test_several_ports_are_listed_and_none_is_said(gen: Gen, project: Path, monkeypatch: pytest.MonkeyPatch):
    class Found:
        def __init__(self, device: str, vid: int | None, hwid: str):
            self.device, self.vid, self.hwid, self.description = device, vid, hwid, f"thing at {device}"

    from shoehorn_mcu_host.board import ports

    def offer(*found: Found) -> None:
        monkeypatch.setattr(ports.list_ports, "comports", lambda: list(found))

    old, one, two = Found("/dev/ttyS0", None, "n/a"), Found("/dev/ttyA", 1, "USB"), Found("/dev/ttyB", 2, "USB")
    offer(old, two, one)
    with pytest.raises(Exception, match=r"choose one with --port: /dev/ttyA \(thing at /dev/ttyA\), /dev/ttyB \(thing"):
        ports.find(None)
    offer(old)
    with pytest.raises(Exception, match="no serial port found; plug the board in"):
        ports.find(None)
    offer(old, two)

    assert ports.find(None) == "/dev/ttyB"
    assert ports.find("socket://x:1") == "socket://x:1"
