"""`gen doctor`: what is here, what it is for, how to get it; offline, without rights and with broken tools."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import pytest
from conftest import Gen

from shoehorn_mcu.machine.targets import boards
from shoehorn_mcu_host import doctor
from shoehorn_mcu_host.base import cbuild, system, walls
from shoehorn_mcu_host.base.emulators import EMULATORS

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FOR_DEVELOPERS = {"test", "train"}
COVERED = {"onnxruntime", "slim"}  # extras that are a part of another one


def found(name: str) -> doctor.Check:
    return next(check for check in doctor.checks() if check.name == name)


def lacks(monkeypatch: pytest.MonkeyPatch, *missing: str) -> None:
    """Makes packages missing, for their metadata."""
    version = metadata.version

    def without(name: str) -> str:
        if name in missing:
            raise metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(metadata, "version", without)


def test_all_that_is_needed_is_here_and_every_check_says_what_for_and_how_to_get_it(gen: Gen):
    result = gen("doctor", "--json")
    checks = json.loads(result.stdout)["checks"]

    assert result.exit_code == 0
    assert all({"name", "ok", "what_for", "cure"} <= check.keys() for check in checks)
    assert all(check["what_for"].endswith(".") and check["cure"] for check in checks)
    assert len({check["name"] for check in checks}) == len(checks)
    assert {"Python", "C compiler", "PlatformIO offline", "seccomp", "cache folder", "serial ports"} <= {
        check["name"] for check in checks if check["found"]
    }


def test_a_missing_optional_package_is_no_failure_and_a_needed_one_is(gen: Gen, monkeypatch: pytest.MonkeyPatch):
    lacks(monkeypatch, "torch")
    without_torch = gen("doctor")
    lacks(monkeypatch, "torch", "ortools")
    without_both = gen("doctor")

    assert without_torch.exit_code == 0
    assert "optional: torch: pip install 'shoehorn-mcu[torch]'" in without_torch.stdout.splitlines()
    assert without_both.exit_code == 1
    assert "needed: ortools: pip install 'ortools>=9.10'" in without_both.stdout.splitlines()


def test_a_version_that_is_too_old_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(metadata, "version", lambda name: "0.9rc1")
    check = found("click")

    assert (check.ok, check.found) == (False, "0.9rc1 is here, >=8.1 is needed")


@pytest.mark.parametrize(
    ("version", "wanted", "fits"),
    [
        ("8.1", ">=8.1", True),
        ("8.1.0", ">=8.1", True),
        ("8.10", ">=8.9", True),
        ("8.0.9", ">=8.1", False),
        ("2.21.3", "<2.22,>=2.21", True),
        ("2.22.0", "<2.22,>=2.21", False),
        ("4.11.1", "==4.11.1", True),
        ("4.11.2", "==4.11.1", False),
        ("0.dev2026", "", True),
    ],
)
def test_versions_are_compared_as_numbers(version: str, wanted: str, fits: bool):
    assert doctor._satisfies(version, wanted) is fits


def test_every_package_and_every_extra_of_the_distribution_says_what_it_is_for():
    needed = {re.match(r"[\w-]+", line)[0] for line in PROJECT["dependencies"]}  # type: ignore[index]

    assert needed == doctor.PACKAGES.keys()
    assert PROJECT["optional-dependencies"].keys() - FOR_DEVELOPERS - COVERED == doctor.EXTRAS.keys()


def test_every_emulator_of_a_board_is_looked_for():
    programs = {board.spec.emulator.program for board in boards() if board.spec.emulator} - {"native"}
    rows = {program: EMULATORS[program] for program in programs}
    packages = {re.match(r"[\w-]+", line)[0] for line in PROJECT["optional-dependencies"]["boards"]}  # type: ignore[index]

    assert {row.needs for row in rows.values() if row.module} <= packages
    assert {name for name, row in rows.items() if not row.module} <= {check.name for check in doctor.checks()}


def test_no_heavy_package_is_imported_and_no_package_is_needed_but_those_that_print():
    code = """
import sys
for name in ("_cffi_backend", "cffi", "numpy", "onnx", "ortools", "pydantic", "serial", "elftools", "torch", "PIL"):
    sys.modules[name] = None  # importing it fails
sys.argv[1:] = ["doctor", "--json"]
from shoehorn_mcu.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")
    assert next(each for each in json.loads(done.stdout)["checks"] if each["name"] == "numpy")["ok"]


def test_without_a_compiler_the_check_fails_and_names_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(cbuild.importlib.util, "find_spec", lambda name: None)
    check = found("C compiler")

    assert (check.ok, check.needed) == (False, True)
    assert "pip install ziglang" in check.cure


def test_a_program_that_is_there_and_does_not_run_is_no_tool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    broken = tmp_path / "qemu-system-arm"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    assert (found("qemu-system-arm").ok, found("qemu-system-arm").found) == (False, "does not run")


def test_without_walls_it_says_what_a_foreign_file_could_do(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(doctor, "_WALLS", "print([])")
    checks = {check.name: check for check in doctor.checks()}

    assert not checks["Landlock"].ok and not checks["Landlock"].needed
    assert checks["seccomp"].found.endswith(walls.lacking(()))


def test_a_cache_folder_of_another_user_is_needed_and_one_that_cannot_be_written_is_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    passing = found("cache folder")
    shared = tmp_path / "shoehorn"
    shared.mkdir()
    shared.chmod(0o777)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    foreign = found("cache folder")

    assert (passing.ok, passing.needed) == (False, False)
    assert (foreign.ok, foreign.needed) == (False, True) and "other users may write there" in foreign.found


def test_a_current_folder_that_was_deleted_is_a_check_that_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    check = found("current folder")

    assert not check.ok and "No such file or directory" in check.found


def test_a_look_that_raises_is_a_check_that_failed(gen: Gen, monkeypatch: pytest.MonkeyPatch):
    def damaged(name: str) -> None:
        raise ValueError("metadata\nis damaged")

    monkeypatch.setattr(metadata, "requires", damaged)
    result = gen("doctor")

    assert result.exit_code == 1
    assert r"ValueError: metadata\nis damaged" in " ".join(result.stdout.split())


def test_ports_are_found_with_those_that_may_not_be_opened_and_the_built_in_ones_last(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    def ports(*names: str) -> tuple[Sequence[str], Sequence[str], str]:
        for name in names:
            (tmp_path / name).touch()
        with monkeypatch.context() as patch:
            patch.setattr(system, "Path", lambda _: tmp_path)
            patch.setattr(system.os, "access", lambda path, _: path.name != "ttyUSB0")
            found, closed, group = system.serial_ports()
        return [Path(name).name for name in found], [Path(name).name for name in closed], group

    group = tmp_path.group()
    assert ports() == ([], [], "")
    assert ports("ttyS0", "ttyS3", "ttyS4") == (["ttyS0", "ttyS3"], [], "")
    assert ports("ttyACM1") == (["ttyACM1"], [], "")
    assert ports("ttyUSB0") == (["ttyACM1", "ttyUSB0"], ["ttyUSB0"], group)


def test_a_port_that_may_not_be_opened_names_the_group(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(system, "serial_ports", lambda: (["/dev/ttyUSB0"], ["/dev/ttyUSB0"], "dialout"))
    check = found("serial ports")

    assert not check.ok
    assert (check.found, check.cure) == (
        "no right to open /dev/ttyUSB0",
        "sudo usermod -aG dialout $USER, then log in again",
    )
