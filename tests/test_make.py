"""The Makefile's promises about machines that lack something; the tools it calls are stand-ins."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
COREUTILS = ("sh", "env", "rm", "touch", "mkdir", "find", "sort", "echo", "cat", "uname", "sed", "sleep")


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A folder with the Makefile and a `bin` that is the whole PATH: no QEMU, no Python, and not root."""
    for name in ("Makefile", "requirements.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "bin").mkdir()
    for name in COREUTILS:
        if found := shutil.which(name):
            (tmp_path / "bin" / name).symlink_to(found)
    stand_in(tmp_path, "id", "echo 1000")
    return tmp_path


def stand_in(desk: Path, name: str, script: str) -> None:
    path = desk / "bin" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def make(desk: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("make")
    assert program, "make is not installed: apt-get install make"
    environment = {"PATH": str(desk / "bin")}
    command = [program, *arguments]
    return subprocess.run(command, cwd=desk, env=environment, capture_output=True, text=True, timeout=60)


def set_up(desk: Path) -> None:
    """A set-up that is done: a .venv and its stamp, newer than what it stands for."""
    (desk / ".venv" / "bin").mkdir(parents=True)
    (desk / ".venv" / "bin" / "python").touch()
    (desk / ".venv" / "run.stamp").touch()


def demo(desk: Path, fails: str = "none") -> subprocess.CompletedProcess[str]:
    """`make demo` with a `gen` that notes what it is asked, and whose command `fails` fails."""
    set_up(desk)
    stand_in(desk, "gen", f'echo "$*" >> {desk}/asked; test "$1" != {fails}')
    return make(desk, "demo", "BIN=bin")


def test_without_qemu_the_demo_says_what_to_install_and_runs_on_the_native_board(desk: Path):
    result = demo(desk)

    assert result.returncode == 0, result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert "apt-get install qemu-system-arm" in result.stderr
    asked = (desk / "asked").read_text().splitlines()
    assert asked[0].split()[:3] == ["firmware", "--board", "native"]


def test_with_qemu_the_demo_goes_from_firmware_over_validation_to_the_bench(desk: Path):
    for name in ("qemu-system-arm", "qemu-system-aarch64"):
        stand_in(desk, name, "exit 0")
    result = demo(desk)

    assert (result.returncode, result.stderr) == (0, "")
    asked = (desk / "asked").read_text().splitlines()
    assert asked[0] == "firmware --board rpi-zero --out build/demo"
    assert [line.split()[0] for line in asked] == ["firmware", "validate", "bench"]


def test_a_failing_step_fails_the_demo(desk: Path):
    for name in ("qemu-system-arm", "qemu-system-aarch64"):
        stand_in(desk, name, "exit 0")
    result = demo(desk, fails="validate")

    assert result.returncode != 0
    assert [line.split()[0] for line in (desk / "asked").read_text().splitlines()] == ["firmware", "validate"]


def test_root_installs_qemu_by_itself(desk: Path):
    stand_in(desk, "id", "echo 0")
    stand_in(desk, "apt-get", f'echo "$*" >> {desk}/apt')
    demo(desk)

    asked = (desk / "apt").read_text().splitlines()
    assert "update" in asked[0]
    assert asked[1].endswith("qemu-system-arm")


def test_without_a_new_python_one_line_says_so(desk: Path):
    stand_in(desk, "python3", "exit 1")  # 3.10 answers the version question like this
    result = make(desk, "setup-run")

    assert result.returncode != 0
    assert len(result.stderr.splitlines()) == 1
    assert "no Python >= 3.11 found" in result.stderr


def test_without_python3_venv_it_says_what_to_install(desk: Path):
    stand_in(desk, "python3", 'case "$2" in *ensurepip*) exit 1;; esac')  # Debian's python3 without python3-venv
    result = make(desk, "setup-run")

    assert result.returncode != 0
    assert "sudo apt-get install python3-venv" in result.stderr
    assert not (desk / ".venv").exists()


def test_a_second_setup_does_nothing(desk: Path):
    set_up(desk)

    assert "Nothing to be done" in make(desk, "setup-run").stdout
